/* SPDX-License-Identifier: BSD-3-Clause */
/* What connections cost in virtual time (cost.h, struct loci_sim_setup): alone as much as was
 * published, and where several want one device, one after the other. TAP. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"
#include "memory/memory.h"
#include "move/rma.h"
#include "service.h"
#include "wait.h"

#define PROCESSES 9
#define MESSAGES 50
#define MANY ((PROCESSES - 1) * MESSAGES)
#define SLACK 1000              /* ns: the runtime's own steps */
#define OWN 100                 /* the same, of a message */

static int tests, failures;

static void near(int64_t got, int64_t wanted, int64_t slack, const char *what)
{
    int64_t off = got > wanted ? got - wanted : wanted - got;

    printf("%sok %d - %s\n# %lld ns, wanted %lld\n", off <= slack ? "" : "not ", ++tests, what,
           (long long)got, (long long)wanted);
    failures += off > slack;
}

struct run {
    const struct loci_sim_setup *setup;
    int apart;                  /* processes of a machine; 0: each has one of its own */
    int64_t begin;
    struct loci_memkey key[PROCESSES];
    int64_t connected[PROCESSES];   /* to process 0: the time from `begin` */
    int64_t again;              /* and then to process 1, by the last: how long */
    int64_t memory;             /* to register 2 MiB, by the last: how long */
    int64_t told, handled;      /* when the last message was sent, and handled */
};

/* ---- connections ---- */

static int read_a_word(loco_runtime_t *rt, const struct run *r, int rank)
{
    int peer = rt->everyone->peer[rank], status;
    struct loci_mem mem;
    uint64_t word;

    status = loci_mem_import(rt, peer, &r->key[rank], &mem);
    if (status == LOCO_OK)
        status = loci_read64(rt, &mem, 0, &word, NULL);
    return status == LOCO_OK ? 0 : loci_sim_fail("read: %s", loco_strerror(status));
}

static void wait_until(int64_t time)
{
    loci_sim_sleep(time - loci_sim_time());
}

static int connect_body(loco_runtime_t *rt, int rank, void *arg)
{
    static _Alignas(4096) unsigned char user[PROCESSES][2 << 20];
    struct run *r = arg;
    struct loci_mem mine, added;

    /* A device's context is opened with its first memory: of the first two by then. */
    if (rank < 2 && loci_alloc(rt, 64, 0, &mine) != LOCO_OK)
        return 1;
    if (rank < 2)
        r->key[rank] = mine.key;
    wait_until(r->begin);
    if (rank > 1) {
        if (read_a_word(rt, r, 0) != 0)
            return 1;
        r->connected[rank] = loci_sim_time() - r->begin;
    }
    wait_until(2 * r->begin);
    if (rank == PROCESSES - 1) {
        if (read_a_word(rt, r, 1) != 0)
            return 1;
        r->again = loci_sim_time() - 2 * r->begin;
        r->memory = loci_sim_time();
        if (loci_user_add(rt, user[rank], sizeof user[rank], &added) != LOCO_OK)
            return 1;
        r->memory = loci_sim_time() - r->memory;
        loci_user_remove(rt, &added);
    }
    wait_until(4 * r->begin);
    return 0;
}

/* ---- messages ---- */

/* All but one send what is dropped as nonsense when it is handled. */
static int message_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct run *r = arg;
    struct loci_peer *to = loci_peer(rt, rt->everyone->peer[0]);

    wait_until(r->begin);
    for (int i = 0; i < MESSAGES && rank > 0; i++)
        if (rt->ops->control_send(rt->fabric, to, "?", 1) != LOCO_OK)
            return 1;
    if (rank > 0)
        r->told = loci_sim_time() - r->begin;
    wait_until(2 * r->begin);
    return 0;
}

static void note(void *ctx, const struct loci_sim_event *event)
{
    struct run *r = ctx;

    if (strcmp(event->what, "message handled") == 0 && event->process == 0
        && event->time > r->begin)
        r->handled = event->time - r->begin;
}

/* ---- runs ---- */

static _Thread_local int together;

static int node_of(int rank, int processes)
{
    (void)processes;
    return rank < 2 || together == 0 ? 1 + rank : 100 + rank / together;
}

static bool run(struct run *r, loci_sim_body *body)
{
    const struct loci_sim_config config = {
        .processes = PROCESSES, .seed = 1, .strategy = LOCI_SIM_TIMED,
        .faults = LOCI_SIM_NO_FAULTS, .step_limit = UINT64_MAX, .owner_atomics = true,
        .node_of = node_of, .machines = true, .cost = loci_sim_cost_named("ib100"),
        .setup = r->setup, .event = note, .event_ctx = r,
    };
    struct loci_sim_result result;

    together = r->apart;
    r->begin = INT64_C(1000000000);
    loci_sim_run(&config, body, r, &result);
    free(result.decisions);
    if (result.verdict != LOCI_SIM_PASSED)
        printf("not ok %d - a run\n# %s\n", ++tests, result.text);
    failures += result.verdict != LOCI_SIM_PASSED;
    return result.verdict == LOCI_SIM_PASSED;
}

static int64_t last(const struct run *r)
{
    int64_t most = 0;

    for (int i = 0; i < PROCESSES; i++)
        most = r->connected[i] > most ? r->connected[i] : most;
    return most;
}

static int64_t first(const struct run *r)
{
    int64_t least = INT64_MAX;

    for (int i = 2; i < PROCESSES; i++)
        least = r->connected[i] < least ? r->connected[i] : least;
    return least;
}

int main(void)
{
    const struct loci_sim_setup *s = loci_sim_setup_named("krcore");
    const struct loci_sim_cost *c = loci_sim_cost_named("ib100");
    int64_t read = loci_sim_cost_read(c, 8), n = PROCESSES - 2;
    struct run apart = { .setup = s }, near_by = { .setup = s, .apart = PROCESSES },
               free_of = { .setup = NULL }, told = { .setup = s }, untold = { .setup = NULL };

    if (run(&apart, connect_body)) {
        near(first(&apart), 15700000 + read, SLACK,
             "a connection from nothing takes 15.7 ms (KRCore, figure 8a)");
        near(last(&apart), s->context + s->pair + (n - 1) * s->pair_device + read, SLACK,
             "a device makes its ends of connections one after the other");
        near(1000000000 / s->pair_device, 712, 1, "712 of them in a second (KRCore)");
        near(apart.again, s->pair + read, SLACK, "the next connection of a process takes 2 ms");
        near(apart.memory, s->memory + (2 << 20) * s->memory_ps / 1000, SLACK,
             "memory is registered, by its length");
    }
    if (run(&near_by, connect_body))
        near(last(&near_by), s->context + (n - 1) * s->context_device + s->pair + read, SLACK,
             "processes of one machine open their device one after the other");
    if (run(&free_of, connect_body)) {
        near(last(&free_of), read, SLACK, "without a setup connections cost nothing");
        near(free_of.memory, 0, SLACK, "nor does memory");
    }
    if (run(&told, message_body))
        near(told.handled, s->call + c->message + MANY * s->handle, MANY * OWN,
             "messages to one process are handled one after the other");
    if (run(&untold, message_body))
        near(untold.handled - untold.told, c->message, 2 * SLACK,
             "without a setup they are handled as they come");
    printf("1..%d\n", tests);
    return failures != 0;
}
