/* SPDX-License-Identifier: BSD-3-Clause */

/* Hand-overs between processes and threads that sleep at once when they wait: by a barrier, a queue
 * and two locks in turn. No sleeper is forgotten: who waits for 20 seconds ends the program.
 *
 *   sleepers [ROUNDS]    of each kind and thread; LOCO_NAP_AFTER=0 is set here */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <loco/loco.h>

enum { PROCESSES = 3, THREADS = 2, LIMIT = 20 };

struct member {
    loco_runtime_t *rt;
    loco_barrier_t *barrier;
    loco_queue_t *queue;
    loco_ticket_lock_t *ticket;
    loco_rw_lock_t *rw;
    long rounds;
};

static void need(int status, const char *what)
{
    if (status == LOCO_OK)
        return;
    fprintf(stderr, "sleepers: %s: %s\n", what, loco_strerror(status));
    _Exit(1);
}

/* All push as much as they pop, through one place, and hold a lock meanwhile now and then. */
static void *use(void *arg)
{
    struct member *m = arg;
    uint64_t entry = 1;

    for (long i = 0; i < m->rounds; i++) {
        if (i % 1024 == 0)
            alarm(LIMIT);
        need(loco_queue_push(m->queue, &entry), "push");
        need(loco_ticket_lock_acquire(m->ticket), "ticket lock");
        need(loco_ticket_lock_release(m->ticket, LOCO_FENCE_NONE, -1), "release");
        need(loco_queue_pop(m->queue, &entry), "pop");
        need(loco_rw_lock_acquire_exclusive(m->rw), "rw_lock");
        need(loco_rw_lock_release_exclusive(m->rw, LOCO_FENCE_NONE, -1), "release");
    }
    return NULL;
}

static void meet(struct member *m)
{
    for (long i = 0; i < m->rounds; i++) {
        if (i % 1024 == 0)
            alarm(LIMIT);
        need(loco_barrier_wait(m->barrier), "barrier");
    }
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    struct member m = { .rounds = *(long *)arg };
    pthread_t thread[THREADS];
    const loco_group_t *all;

    need(loco_runtime_open(boot, &m.rt), "runtime");
    all = loco_everyone(m.rt);
    need(loco_barrier_create(m.rt, NULL, "barrier", all, &m.barrier), "create");
    need(loco_queue_create(m.rt, NULL, "queue", all, 8, 2, 0, &m.queue), "create");
    need(loco_ticket_lock_create(m.rt, NULL, "ticket", all, 0, &m.ticket), "create");
    need(loco_rw_lock_create(m.rt, NULL, "rw", all, 0, &m.rw), "create");
    need(loco_runtime_wait_ready(m.rt, LOCO_FOREVER), "ready");
    meet(&m);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, use, &m) != 0)
            _Exit(1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    alarm(LIMIT);
    need(loco_barrier_wait(m.barrier), "barrier");
    loco_barrier_destroy(m.barrier);
    loco_queue_destroy(m.queue);
    loco_ticket_lock_destroy(m.ticket);
    loco_rw_lock_destroy(m.rw);
    loco_runtime_close(m.rt);
    return 0;
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 2000;
    struct rusage usage;
    int status;

    setenv("LOCO_NAP_AFTER", "0", 1);
    setenv("LOCO_SPIN", "0", 1);
    status = loco_fork_run(PROCESSES, member, &rounds, NULL);
    getrusage(RUSAGE_CHILDREN, &usage);
    printf("1..1\n%sok 1 - %d processes of %d threads, %ld rounds: %ld times somebody slept\n",
           status == LOCO_OK ? "" : "not ", PROCESSES, THREADS, rounds, usage.ru_nvcsw);
    return status != LOCO_OK;
}
