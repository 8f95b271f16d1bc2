/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * With MPI alone. Through a sequencer: rank 0 sends to all, in the order in which messages come to
 * it. By rounds: each sender's MPI_Bcast in turn.
 */
#include "multicast_rivals.h"

#include <mpi.h>
#include <string.h>

enum { TO_SEQUENCER = 1, TO_ALL };

static struct {
    unsigned char *buffers;         /* of messages that are under way, one each */
    MPI_Request *requests;          /* to the sequencer; of the sequencer: `each` for a buffer */
    unsigned char *in;
    MPI_Request coming;
    uint64_t next, count, each;
} mpi;

static void expect(struct job *j)
{
    MPI_Irecv(mpi.in, (int)j->bytes, MPI_BYTE, MPI_ANY_SOURCE, j->rank == 0 ? TO_SEQUENCER : TO_ALL,
              MPI_COMM_WORLD, &mpi.coming);
}

static void open_sequencer(struct job *j)
{
    mpi.each = j->rank == 0 && j->size > 1 ? (uint64_t)j->size - 1 : 1;
    mpi.count = j->slots;
    mpi.next = 0;
    mpi.buffers = rivals_memory(mpi.count, j->bytes);
    mpi.requests = rivals_memory(mpi.count * mpi.each, sizeof(MPI_Request));
    for (uint64_t i = 0; i < mpi.count * mpi.each; i++)
        mpi.requests[i] = MPI_REQUEST_NULL;
    mpi.in = rivals_memory(1, j->bytes);
    expect(j);
    rivals_meet();
}

/* A buffer that nothing is sent from any more. */
static unsigned char *take_buffer(const struct job *j, MPI_Request **requests)
{
    uint64_t at = mpi.next++ % mpi.count;

    *requests = mpi.requests + at * mpi.each;
    MPI_Waitall((int)mpi.each, *requests, MPI_STATUSES_IGNORE);
    return mpi.buffers + at * j->bytes;
}

static void sequence(struct job *j, const unsigned char *message)
{
    MPI_Request *requests;
    unsigned char *buffer = take_buffer(j, &requests);

    memcpy(buffer, message, j->bytes);
    for (int rank = 1; rank < j->size; rank++)
        MPI_Isend(buffer, (int)j->bytes, MPI_BYTE, rank, TO_ALL, MPI_COMM_WORLD,
                  &requests[rank - 1]);
    job_got(j, message);
}

static bool send_sequencer(struct job *j)
{
    MPI_Request *requests;
    unsigned char *buffer;

    if (j->rank == 0) {
        sequence(j, j->message);
        return true;
    }
    if (j->sent - j->got_own >= j->slots)
        return false;
    buffer = take_buffer(j, &requests);
    memcpy(buffer, j->message, j->bytes);
    MPI_Isend(buffer, (int)j->bytes, MPI_BYTE, 0, TO_SEQUENCER, MPI_COMM_WORLD, requests);
    return true;
}

static bool receive_sequencer(struct job *j)
{
    int has_come;

    MPI_Test(&mpi.coming, &has_come, MPI_STATUS_IGNORE);
    if (!has_come)
        return false;
    if (j->rank == 0)
        sequence(j, mpi.in);
    else
        job_got(j, mpi.in);
    expect(j);
    return true;
}

static void close_sequencer(struct job *j)
{
    (void)j;
    MPI_Cancel(&mpi.coming);
    MPI_Wait(&mpi.coming, MPI_STATUS_IGNORE);
    MPI_Waitall((int)(mpi.count * mpi.each), mpi.requests, MPI_STATUSES_IGNORE);
}

const struct way way_mpi = {
    .name = "mpi", .text = "MPI_Isend to rank 0, which sends to all",
    .ordered = true, .one_thread = true,
    .open = open_sequencer, .send = send_sequencer, .receive = receive_sequencer,
    .close = close_sequencer,
};

static void run_bcast(struct job *j, uint64_t count)
{
    unsigned char *buffer = rivals_memory(1, j->bytes);

    for (uint64_t k = 0; k < count; k++)
        for (int sender = 0; sender < j->senders; sender++) {
            unsigned char *at = sender == j->rank ? j->message : buffer;

            MPI_Bcast(at, (int)j->bytes, MPI_BYTE, sender, MPI_COMM_WORLD);
            job_got(j, at);
        }
}

const struct way way_bcast = {
    .name = "bcast", .text = "MPI_Bcast of each sender in turn",
    .ordered = true, .one_thread = true,
    .run = run_bcast,
};
