/* SPDX-License-Identifier: BSD-3-Clause */

/* See hosted_ports.h. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "fabric/port/port.h"
#include "hosted_ports.h"
#include "names/endpoint.h"
#include "runtime.h"
#include "store/store.h"

#define ALL (LOCI_PORT_MAY_READ | LOCI_PORT_MAY_WRITE | LOCI_PORT_MAY_ATOMIC)

_Static_assert(sizeof(struct loci_port_welcome) <= sizeof(((struct sim_goer *)0)->welcome),
               "there is room for a welcome");
_Static_assert(LOCI_REGIONS_MAX <= 8, "there is room for all grants");

struct sim_agent {
    loco_runtime_t *rt;
    struct loci_ports *ports;
};

static int host_of(loco_runtime_t *rt)
{
    return rt->everyone->peer[0];
}

int sim_agent_open(loco_runtime_t *rt, int goers, int threads, struct sim_agent **out)
{
    const struct loci_port_options options = {
        .clients = goers, .ports = (uint32_t)threads + 1, .depth = 8, .arena = 4096,
        .room = LOCI_PORT_ROOM_MOST,
    };
    struct sim_agent *agent = calloc(1, sizeof *agent);
    int status = agent == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK;

    if (status == LOCO_OK) {
        agent->rt = rt;
        loci_peers_use(rt, rt->everyone->peer, rt->everyone->size);
        status = loci_ports_open(rt, &options, &agent->ports);
    }
    if (status != LOCO_OK) {
        free(agent);
        return status;
    }
    *out = agent;
    return LOCO_OK;
}

void sim_agent_close(struct sim_agent *agent)
{
    if (agent == NULL)
        return;
    loci_ports_close(agent->ports);
    loci_peers_end_use(agent->rt, agent->rt->everyone->peer, agent->rt->everyone->size);
    free(agent);
}

int sim_agent_let_in(struct sim_agent *agent, int process, const struct sim_hosted_keys *keys,
                     struct sim_goer *goer)
{
    struct loci_memkey key[LOCI_REGIONS_MAX];
    struct loci_port_welcome welcome;
    int status = loci_ports_enter(agent->ports, agent->rt->everyone->peer[process], &goer->number,
                                  &welcome);

    if (status == LOCO_OK)
        memcpy(goer->welcome, &welcome, sizeof welcome);
    memcpy(key, keys, sizeof key);
    for (int i = 0; i < LOCI_STORE_REGIONS && status == LOCO_OK; i++)
        if (key[i].kind != LOCI_MEM_NONE)
            status = loci_ports_grant(agent->ports, goer->number, host_of(agent->rt), &key[i], 0,
                                      key[i].len, ALL, &goer->grant[i]);
    return status;
}

void sim_agent_leave(struct sim_agent *agent, struct sim_goer *goer)
{
    loci_ports_leave(agent->ports, goer->number);
}

bool sim_agent_is_free(const struct sim_agent *agent, const struct sim_goer *goer)
{
    return loci_ports_is_free(agent->ports, goer->number);
}

int sim_goer_attach(loco_runtime_t *rt, const struct sim_hosted_keys *keys,
                    const struct sim_goer *goer)
{
    struct loci_memkey key[LOCI_REGIONS_MAX];
    struct loci_port_welcome welcome;
    int status;

    loci_peers_use(rt, rt->everyone->peer, 1 + SIM_HOSTED_AGENT);
    memcpy(&welcome, goer->welcome, sizeof welcome);
    memcpy(key, keys, sizeof key);
    status = loci_port_attach(rt, rt->everyone->peer[SIM_HOSTED_AGENT], &welcome);
    for (int i = 0; i < LOCI_STORE_REGIONS && status == LOCO_OK; i++)
        if (key[i].kind != LOCI_MEM_NONE)
            status = loci_port_granted(rt, host_of(rt), &key[i], 0, key[i].len, goer->grant[i]);
    return status;
}

int sim_goer_move(loco_runtime_t *rt)
{
    return loci_port_leave_peer(rt, host_of(rt));
}

void sim_goer_detach(loco_runtime_t *rt)
{
    loci_port_detach(rt);
}
