/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a blocked call of the native library costs: how long after its cause a wait of 0.1 to 100 ms
 * ends, and the CPU time of one that lasts. Two processes, of which one waits.
 *
 *   blocked [--kind NAME] [--rounds N] [--seconds S]
 */
#include "blocked.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <loco/loco.h>

struct bench {
    struct blocked_options options;
    struct blocked_shared *shared;
    loco_runtime_t *rt;
    loco_barrier_t *barrier;
    loco_queue_t *pops, *pushes;
    loco_ticket_lock_t *ticket;
    loco_rw_lock_t *rw;
    loco_rw_group_t *group;
    loco_ringbuffer_t *ring;
    int made;                           /* channels that were waited for */
};

static void need(int status, const char *what)
{
    if (status == LOCO_OK)
        return;
    fprintf(stderr, "blocked: %s: %s\n", what, loco_strerror(status));
    _Exit(1);
}

/* ---- the kinds ---- */

static void meet(void *arg)
{
    need(loco_barrier_wait(((struct bench *)arg)->barrier), "barrier");
}

static void pop(void *arg)
{
    uint64_t entry;

    need(loco_queue_pop(((struct bench *)arg)->pops, &entry), "pop");
}

static void push(void *arg)
{
    need(loco_queue_push(((struct bench *)arg)->pops, &(uint64_t){ 1 }), "push");
}

/* Of a queue with room for one. */
static void fill(void *arg)
{
    need(loco_queue_push(((struct bench *)arg)->pushes, &(uint64_t){ 1 }), "push");
}

static void drain(void *arg)
{
    uint64_t entry;

    need(loco_queue_pop(((struct bench *)arg)->pushes, &entry), "pop");
}

static void take_ticket(void *arg)
{
    need(loco_ticket_lock_acquire(((struct bench *)arg)->ticket), "ticket lock");
}

static void give_ticket(void *arg)
{
    need(loco_ticket_lock_release(((struct bench *)arg)->ticket, LOCO_FENCE_NONE, -1), "release");
}

static void take_exclusive(void *arg)
{
    need(loco_rw_lock_acquire_exclusive(((struct bench *)arg)->rw), "rw_lock");
}

static void give_exclusive(void *arg)
{
    need(loco_rw_lock_release_exclusive(((struct bench *)arg)->rw, LOCO_FENCE_NONE, -1),
         "release");
}

static void take_shared(void *arg)
{
    need(loco_rw_lock_acquire_shared(((struct bench *)arg)->rw), "rw_lock");
}

static void give_shared(void *arg)
{
    need(loco_rw_lock_release_shared(((struct bench *)arg)->rw, LOCO_FENCE_NONE, -1), "release");
}

static void take_all(void *arg)
{
    need(loco_rw_group_acquire_all(((struct bench *)arg)->group, false), "rw_group");
}

static void give_all(void *arg)
{
    need(loco_rw_group_release_all(((struct bench *)arg)->group, LOCO_FENCE_NONE, -1), "release");
}

static void take_member(void *arg)
{
    need(loco_rw_group_acquire_exclusive(((struct bench *)arg)->group, 0, false), "rw_group");
}

static void give_member(void *arg)
{
    need(loco_rw_group_release_exclusive(((struct bench *)arg)->group, 0, LOCO_FENCE_NONE, -1),
         "release");
}

static void send(void *arg)
{
    need(loco_ringbuffer_send(((struct bench *)arg)->ring, &(uint64_t){ 1 }, 8, NULL), "send");
}

static void receive(void *arg)
{
    loco_ringbuffer_t *ring = ((struct bench *)arg)->ring;
    const void *message;
    size_t bytes;

    need(loco_ringbuffer_next(ring, LOCO_FOREVER, &message, &bytes), "next");
    need(loco_ringbuffer_release(ring, 1), "release");
}

/* A channel that the other process makes later. */
static void make_channel(void *arg)
{
    struct bench *b = arg;
    loco_atomic_var_t *var;
    char name[32];

    snprintf(name, sizeof name, "made%d", b->made++);
    need(loco_atomic_var_create(b->rt, NULL, name, loco_everyone(b->rt), 0, &var), "create");
    need(loco_runtime_wait_ready(b->rt, LOCO_FOREVER), "ready");
}

static const struct blocked_kind kinds[] = {
    { "barrier", NULL, meet, meet, NULL, NULL },
    { "queue pop", NULL, pop, push, NULL, NULL },
    { "queue push", fill, fill, drain, NULL, drain },
    { "ticket_lock", take_ticket, take_ticket, give_ticket, give_ticket, NULL },
    { "rw exclusive", take_shared, take_exclusive, give_shared, give_exclusive, NULL },
    { "rw shared", take_exclusive, take_shared, give_exclusive, give_shared, NULL },
    { "rw_group all", take_member, take_all, give_member, give_all, NULL },
    { "rw_group member", take_all, take_member, give_all, give_member, NULL },
    { "ringbuffer", NULL, receive, send, NULL, NULL },
    { "wait_ready", NULL, make_channel, make_channel, NULL, NULL },
};

/* ---- two processes ---- */

static void make_channels(struct bench *b)
{
    loco_runtime_t *rt = b->rt;
    const loco_group_t *all = loco_everyone(rt);

    need(loco_barrier_create(rt, NULL, "barrier", all, &b->barrier), "create");
    need(loco_queue_create(rt, NULL, "pops", all, 8, 16, 0, &b->pops), "create");
    need(loco_queue_create(rt, NULL, "pushes", all, 8, 1, 0, &b->pushes), "create");
    need(loco_ticket_lock_create(rt, NULL, "ticket", all, 0, &b->ticket), "create");
    need(loco_rw_lock_create(rt, NULL, "rw", all, 0, &b->rw), "create");
    need(loco_rw_group_create(rt, NULL, "group", all, 1, &b->group), "create");
    need(loco_ringbuffer_create(rt, NULL, "ring", all, 0, 4096, LOCO_RINGBUFFER_SLEEP,
                                &b->ring), "create");
    need(loco_runtime_wait_ready(rt, LOCO_FOREVER), "ready");
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    struct bench b = *(struct bench *)arg;

    need(loco_runtime_open(boot, &b.rt), "runtime");
    make_channels(&b);
    blocked_run(b.shared, boot->exchange.rank == 1, &b.options, kinds,
                sizeof kinds / sizeof kinds[0], &b);
    meet(&b);
    loco_runtime_close(b.rt);
    return 0;
}

int main(int argc, char **argv)
{
    struct bench b = { .made = 0 };

    if (!blocked_parse(argc, argv, &b.options)) {
        fprintf(stderr, "usage: blocked [--kind NAME] [--rounds N] [--seconds S]\n");
        return 2;
    }
    b.shared = mmap(NULL, blocked_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                    0);
    if (b.shared == MAP_FAILED) {
        perror("blocked: mmap");
        return 1;
    }
    return loco_fork_run(2, member, &b, NULL) == LOCO_OK ? 0 : 1;
}
