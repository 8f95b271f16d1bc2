/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_HOSTED_PORTS_H
#define SIM_HOSTED_PORTS_H

/* Members of a hosted store that reach its host by the ports of an agent (fabric/port/port.h):
 * process 0 is the host, on a node of its own, process 1 the agent, and the others go by it. */

#include "hosted_store.h"

#define SIM_HOSTED_AGENT 1
#define SIM_GOERS_MOST 16

/* What the agent and those who go by it tell each other, outside the network. */
struct sim_goer {
    enum { SIM_GOER_NONE, SIM_GOER_ASKS, SIM_GOER_GIVEN, SIM_GOER_LEFT } state;
    bool seen_off;                      /* nothing that it has posted is under way any more */
    int number;
    uint32_t grant[8];
    _Alignas(8) unsigned char welcome[128];
};

struct sim_agent;

/* The agent's. LOCO_ERR_NO_MEMORY. */
int sim_agent_open(loco_runtime_t *rt, int goers, int threads, struct sim_agent **agent);
void sim_agent_close(struct sim_agent *agent);
int sim_agent_let_in(struct sim_agent *agent, int process, const struct sim_hosted_keys *keys,
                     struct sim_goer *goer);
/* It has left, or died; and whether all is over that it had posted. */
void sim_agent_leave(struct sim_agent *agent, struct sim_goer *goer);
bool sim_agent_is_free(const struct sim_agent *agent, const struct sim_goer *goer);

/* A member's, once it is let in. Its first lane to the host goes by the agent. */
int sim_goer_attach(loco_runtime_t *rt, const struct sim_hosted_keys *keys,
                    const struct sim_goer *goer);
/* Lanes move over to connections of its own, and no more by ports. */
int sim_goer_move(loco_runtime_t *rt);
void sim_goer_detach(loco_runtime_t *rt);

#endif
