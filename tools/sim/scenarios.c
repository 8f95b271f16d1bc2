/* SPDX-License-Identifier: BSD-3-Clause */

/* The table of scenarios. A new one is two lines here. */

#include "config.h"

#include <string.h>

#include "scenario.h"

extern const struct sim_scenario sim_scenario_atomic_var, sim_scenario_bank,
    sim_scenario_bank_single, sim_scenario_barrier, sim_scenario_barrier_many,
    sim_scenario_collective, sim_scenario_comers, sim_scenario_credits,
    sim_scenario_deaths_atomic_var, sim_scenario_deaths_barrier,
    sim_scenario_deaths_collective, sim_scenario_directory,
    sim_scenario_deaths_kvstore, sim_scenario_deaths_owned_var, sim_scenario_deaths_queue,
    sim_scenario_deaths_region, sim_scenario_deaths_ringbuffer, sim_scenario_deaths_rw_group,
    sim_scenario_deaths_rw_lock, sim_scenario_deaths_sst, sim_scenario_deaths_ticket_lock,
    sim_scenario_deaths_window, sim_scenario_deaths_window_fence, sim_scenario_endpoint,
    sim_scenario_fence, sim_scenario_hash, sim_scenario_hosted, sim_scenario_indexes,
    sim_scenario_hosted_mailbox, sim_scenario_hosted_ports, sim_scenario_kvstore,
    sim_scenario_leases, sim_scenario_mailbox,
    sim_scenario_multicast,
    sim_scenario_multicast_relay,
    sim_scenario_multicast_single, sim_scenario_owned_var, sim_scenario_ports,
    sim_scenario_ports_move,
    sim_scenario_queue, sim_scenario_region, sim_scenario_removed,
    sim_scenario_ringbuffer, sim_scenario_rw_group,
    sim_scenario_rw_lock, sim_scenario_rw_lock_hasty, sim_scenario_rw_meet, sim_scenario_sst,
    sim_scenario_store, sim_scenario_store_hasty, sim_scenario_stores,
    sim_scenario_ticket_lock, sim_scenario_topic, sim_scenario_tree, sim_scenario_view,
    sim_scenario_view_guess, sim_scenario_view_join, sim_scenario_view_late,
    sim_scenario_view_split, sim_scenario_view_steps,
    sim_scenario_window_acc,
    sim_scenario_window_active, sim_scenario_window_data, sim_scenario_window_dynamic,
    sim_scenario_window_gather, sim_scenario_window_lock, sim_scenario_window_lock_single,
    sim_scenario_window_ways;

const struct sim_scenario *const sim_scenarios[] = {
    &sim_scenario_region,
    &sim_scenario_fence,
    &sim_scenario_credits,
    &sim_scenario_owned_var,
    &sim_scenario_atomic_var,
    &sim_scenario_sst,
    &sim_scenario_ringbuffer,
    &sim_scenario_mailbox,
    &sim_scenario_hosted_mailbox,
    &sim_scenario_multicast,
    &sim_scenario_multicast_single,
    &sim_scenario_multicast_relay,
    &sim_scenario_topic,
    &sim_scenario_view,
    &sim_scenario_view_guess,
    &sim_scenario_view_join,
    &sim_scenario_view_late,
    &sim_scenario_view_split,
    &sim_scenario_view_steps,
    &sim_scenario_barrier,
    &sim_scenario_barrier_many,
    &sim_scenario_collective,
    &sim_scenario_ticket_lock,
    &sim_scenario_rw_lock,
    &sim_scenario_rw_lock_hasty,
    &sim_scenario_rw_group,
    &sim_scenario_rw_meet,
    &sim_scenario_kvstore,
    &sim_scenario_stores,
    &sim_scenario_store,
    &sim_scenario_store_hasty,
    &sim_scenario_hosted,
    &sim_scenario_hosted_ports,
    &sim_scenario_directory,
    &sim_scenario_leases,
    &sim_scenario_removed,
    &sim_scenario_ports,
    &sim_scenario_ports_move,
    &sim_scenario_tree,
    &sim_scenario_hash,
    &sim_scenario_indexes,
    &sim_scenario_queue,
    &sim_scenario_window_lock,
    &sim_scenario_window_lock_single,
    &sim_scenario_window_data,
    &sim_scenario_window_acc,
    &sim_scenario_window_ways,
    &sim_scenario_window_active,
    &sim_scenario_window_dynamic,
    &sim_scenario_window_gather,
    &sim_scenario_endpoint,
    &sim_scenario_comers,
    &sim_scenario_bank,
    &sim_scenario_deaths_region,
    &sim_scenario_deaths_owned_var,
    &sim_scenario_deaths_atomic_var,
    &sim_scenario_deaths_sst,
    &sim_scenario_deaths_barrier,
    &sim_scenario_deaths_collective,
    &sim_scenario_deaths_ticket_lock,
    &sim_scenario_deaths_rw_lock,
    &sim_scenario_deaths_rw_group,
    &sim_scenario_deaths_ringbuffer,
    &sim_scenario_deaths_queue,
    &sim_scenario_deaths_kvstore,
    &sim_scenario_deaths_window,
    &sim_scenario_deaths_window_fence,
    &sim_scenario_bank_single,
    NULL
};

const struct sim_scenario *sim_scenario_named(const char *name)
{
    for (int i = 0; sim_scenarios[i] != NULL; i++)
        if (strcmp(sim_scenarios[i]->name, name) == 0)
            return sim_scenarios[i];
    return NULL;
}
