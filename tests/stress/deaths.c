/* SPDX-License-Identifier: BSD-3-Clause */
/* One of the processes is killed at a random moment while all use locks and a barrier: the others
 * end soon, each call with LOCO_OK or LOCO_ERR_PEER_DEAD. */

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "stress.h"

#define SECOND INT64_C(1000000000)
#define CALL_LIMIT (SECOND + SECOND / 2)    /* a second, and something for a busy machine */

/* The victim's end, from a second thread: anywhere in the first one's work. */
static int killer(void *arg, int thread)
{
    int (*work)(void *) = *(int (**)(void *))arg;
    unsigned seed = (unsigned)run_now();

    if (thread == 0)
        return work(arg);
    usleep((useconds_t)(rand_r(&seed) % 20000));
    kill(getpid(), SIGKILL);
    return 1;
}

struct member {
    int (*work)(void *);        /* first: see killer() */
    loco_runtime_t *rt;
    loco_ticket_lock_t *ticket;
    loco_rw_lock_t *rw;
    loco_barrier_t *barrier;
    loco_queue_t *queue;
    int64_t until;
};

/* 0 to go on, 1 when the dead is in the way, -1: wrong. */
static int judge(int status, int64_t start)
{
    if (run_too_long(start, CALL_LIMIT)) {
        fprintf(stderr, "a call took %lld ms\n", (long long)((run_now() - start) / 1000000));
        return -1;
    }
    if (status != LOCO_OK && status != LOCO_ERR_PEER_DEAD) {
        fprintf(stderr, "a call returned %s\n", loco_strerror(status));
        return -1;
    }
    return status != LOCO_OK;
}

static int ticket_work(void *arg)
{
    struct member *m = arg;
    int verdict = 0;

    while (verdict == 0 && run_now() < m->until) {
        int64_t start = run_now();

        verdict = judge(loco_ticket_lock_acquire(m->ticket), start);
        if (verdict == 0)
            verdict = judge(loco_ticket_lock_release(m->ticket, LOCO_FENCE_PROCESS,
                                                     LOCO_ALL_PEERS), run_now());
    }
    return verdict < 0;
}

static int rw_work(void *arg)
{
    struct member *m = arg;
    unsigned seed = (unsigned)getpid();
    int verdict = 0;

    while (verdict == 0 && run_now() < m->until) {
        bool exclusive = rand_r(&seed) % 2 == 0;
        int64_t start = run_now();

        verdict = judge(exclusive ? loco_rw_lock_acquire_exclusive(m->rw)
                                  : loco_rw_lock_acquire_shared(m->rw), start);
        if (verdict == 0)
            verdict = judge(exclusive
                            ? loco_rw_lock_release_exclusive(m->rw, LOCO_FENCE_NONE, 0)
                            : loco_rw_lock_release_shared(m->rw, LOCO_FENCE_NONE, 0), run_now());
    }
    return verdict < 0;
}

/* Always ends by the death: a barrier needs all. */
static int barrier_work(void *arg)
{
    struct member *m = arg;
    int verdict = 0;

    while (verdict == 0)
        verdict = judge(loco_barrier_wait(m->barrier), run_now());
    return verdict < 0;
}

/* Goes on without the dead, but for rank 0's. */
static int queue_work(void *arg)
{
    struct member *m = arg;
    uint64_t entry = 0;
    int verdict = 0;

    while (verdict == 0 && run_now() < m->until) {
        int64_t start = run_now();
        int status;

        verdict = judge(loco_queue_push(m->queue, &entry), start);
        start = run_now();
        status = loco_queue_try_pop(m->queue, &entry);
        if (verdict == 0)
            verdict = judge(status == LOCO_ERR_AGAIN ? LOCO_OK : status, start);
        if (verdict == 1 && loco_group_alive(loco_everyone(m->rt), 0) == LOCO_OK) {
            fprintf(stderr, "a queue was given up, though rank 0 is alive\n");
            return 1;
        }
    }
    return verdict < 0;
}

#define WORKS 4
static int (*const works[WORKS])(void *) = { ticket_work, rw_work, barrier_work, queue_work };

enum { CASES = 12 };
static _Atomic int *met[CASES];     /* the members of each case that are past their meeting */

static int death_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct member m = { .work = works[*(int *)arg % WORKS], .rt = rt };
    int victim = *(int *)arg % loco_group_size(loco_everyone(rt)), result;

    CHECK_OK(loco_ticket_lock_create(rt, NULL, "ticket", loco_everyone(rt), 0, &m.ticket));
    CHECK_OK(loco_rw_lock_create(rt, NULL, "rw", loco_everyone(rt), 0, &m.rw));
    CHECK_OK(loco_barrier_create(rt, NULL, "barrier", loco_everyone(rt), &m.barrier));
    CHECK_OK(loco_queue_create(rt, NULL, "queue", loco_everyone(rt), 8, 64, 0, &m.queue));
    CHECK(run_meet_alive(rt, met[*(int *)arg]) == 0);
    m.until = run_now() + SECOND / 10;
    result = rank == victim ? run_threads(2, killer, &m) : m.work(&m);
    while (run_now() < m.until + SECOND)
        usleep(1000);   /* nobody takes its memory away while others work on it */
    loco_ticket_lock_destroy(m.ticket);
    loco_rw_lock_destroy(m.rw);
    loco_barrier_destroy(m.barrier);
    loco_queue_destroy(m.queue);
    return result;
}

int main(void)
{
    static const char *const names[WORKS] = { "ticket lock", "rw lock", "barrier", "queue" };
    struct stress_case cases[CASES];

    for (int i = 0; i < CASES; i++) {
        cases[i] = (struct stress_case){ names[i % WORKS], i / WORKS % 2 == 0 ? 4 : 3, death_body,
                                         i };
        met[i] = run_counter();
    }
    return stress_run(cases, CASES);
}
