/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_POOL_H
#define LOCI_POOL_H

/* Pools: what their parts share.
 *
 *   published.c      records that are read while their writer stops
 *   catalog.c        the tables in an agent's memory, as all read them
 *   pool_directory.c and as agents keep them
 *   messages.c       the local socket, and what is said over it
 *   net.c            connections between machines     secrets.c      who may make one
 *   pool.c           a client              identity.c   identities that nobody gives out
 *   agent.c          the agent: who comes and goes
 *   agent_net.c      who calls from other machines
 *   agent_links.c    and the agents there
 *   agent_directory.c   its part of the directory
 *   agent_stores.c   and what it keeps
 *
 * A place is a rank of every store's group: the agent is rank 0, place i is rank i + 1. The agent
 * gives a vacant place to a process that comes, and takes it back when that has closed its
 * connection, or has died; it is vacant again once the agent has looked at it in every store
 * (store/store_hosted.c). */

#include <loco/pool.h>

#include "names/hosted.h"

/* The group of all stores, as the process in that place sees it; -1: the agent, `agent` being
 * LOCI_SELF then. Its array is the caller's to free. */
int loci_pool_group(loco_runtime_t *rt, int agent, int places, int place,
                    struct loco_group *group);

/* A random identity, for a process that no job has given one. */
uint64_t loci_pool_identity(void);

#endif
