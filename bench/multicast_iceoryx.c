/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iceoryx: chunks of shared memory that are handed from a publisher to its subscribers, in no order
 * among publishers. Nothing is lost: a publisher waits for a slow subscriber. Needs iox-roudi.
 */
#include "multicast_rivals.h"

#ifdef LOCO_HAVE_ICEORYX
#include <mpi.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <iceoryx_binding_c/log.h>
#include <iceoryx_binding_c/publisher.h>
#include <iceoryx_binding_c/runtime.h>
#include <iceoryx_binding_c/subscriber.h>

#define RANKS 8

static iox_pub_t out;
static iox_sub_t in[RANKS];
static iox_pub_storage_t out_storage;
static iox_sub_storage_t in_storage[RANKS];
static int ins;

/* A publisher blocks where a subscriber's queue is full, and two that do so at each other do for
 * ever. So each rank says how many it has got of each, in memory that all share, and no more are
 * sent than there is room for. */
#define LINE 8
static _Atomic uint64_t *got;           /* [rank * RANKS + sender], a line of each rank */
static MPI_Win win;
static int from[RANKS];
static uint64_t limit;

static void open_iceoryx(struct job *j)
{
    iox_pub_options_t pub;
    iox_sub_options_t sub;
    char name[64];

    MPI_Aint bytes = (MPI_Aint)(RANKS * RANKS * LINE * sizeof *got);
    int unit;

    if (j->size > RANKS)
        rivals_die("iceoryx: %d ranks at most", RANKS);
    MPI_Win_allocate_shared(j->rank == 0 ? bytes : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &got, &win);
    MPI_Win_shared_query(win, 0, &bytes, &unit, &got);
    if (j->rank == 0)
        memset((void *)got, 0, (size_t)bytes);
    limit = 0;
    snprintf(name, sizeof name, "loco-rivals-%d", j->rank);
    iox_set_loglevel(Iceoryx_LogLevel_Error);
    iox_runtime_init(name);
    iox_pub_options_init(&pub);
    pub.subscriberTooSlowPolicy = ConsumerTooSlowPolicy_WAIT_FOR_CONSUMER;
    iox_sub_options_init(&sub);
    sub.queueCapacity = j->slots < 256 ? j->slots : 256;
    sub.queueFullPolicy = QueueFullPolicy_BLOCK_PRODUCER;
    snprintf(name, sizeof name, "%d", j->rank);
    if (j->rank < j->senders)
        out = iox_pub_init(&out_storage, "loco", name, "all", &pub);
    rivals_meet();
    ins = 0;
    for (int rank = 0; rank < j->senders; rank++) {
        snprintf(name, sizeof name, "%d", rank);
        if (rank == j->rank)
            continue;
        from[ins] = rank;
        in[ins++] = iox_sub_init(&in_storage[rank], "loco", name, "all", &sub);
    }
    for (int i = 0; i < ins; i++)
        while (iox_sub_get_subscription_state(in[i]) != SubscribeState_SUBSCRIBED)
            usleep(1000);
    rivals_meet();
    usleep(200000);         /* publishers are told by the daemon */
    rivals_meet();
}

static _Atomic uint64_t *count_of(int rank, int sender)
{
    return &got[(rank * RANKS + sender) * LINE];
}

static bool has_room(const struct job *j)
{
    uint64_t least = UINT64_MAX;

    for (int rank = 0; rank < j->size; rank++) {
        uint64_t n = rank == j->rank ? UINT64_MAX : atomic_load(count_of(rank, j->rank));

        least = n < least ? n : least;
    }
    limit = j->size == 1 ? UINT64_MAX : least + (j->slots < 256 ? j->slots : 256);
    return j->sent < limit;
}

static bool send_iceoryx(struct job *j)
{
    void *chunk;

    if (j->sent >= limit && !has_room(j))
        return false;
    if (iox_pub_loan_chunk(out, &chunk, (uint32_t)j->bytes) != AllocationResult_SUCCESS)
        return false;
    memcpy(chunk, j->message, j->bytes);
    iox_pub_publish_chunk(out, chunk);
    job_got(j, j->message);
    return true;
}

static bool receive_iceoryx(struct job *j)
{
    const void *chunk;
    bool some = false;

    for (int i = 0; i < ins; i++) {
        if (iox_sub_take_chunk(in[i], &chunk) != ChunkReceiveResult_SUCCESS)
            continue;
        job_got(j, chunk);
        iox_sub_release_chunk(in[i], chunk);
        atomic_store_explicit(count_of(j->rank, from[i]),
                              atomic_load(count_of(j->rank, from[i])) + 1, memory_order_release);
        some = true;
    }
    return some;
}

static void close_iceoryx(struct job *j)
{
    (void)j;
    for (int i = 0; i < ins; i++)
        iox_sub_deinit(in[i]);
    if (out != NULL)
        iox_pub_deinit(out);
    MPI_Win_free(&win);
}

const struct way way_iceoryx = {
    .name = "iceoryx", .text = "iceoryx, from each sender to all; no order among senders",
    .open = open_iceoryx, .send = send_iceoryx, .receive = receive_iceoryx,
    .close = close_iceoryx,
};
#endif
