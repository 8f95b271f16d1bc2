/* SPDX-License-Identifier: BSD-3-Clause */

/* Ring buffers: their life here, the writer in ringbuffer_write.c, readers in ringbuffer_read.c.
 *
 * Memory. Each member has a ring of `len` bytes. A position counts the bytes sent since the
 * beginning; its place is the position modulo len. A message is a header word and its bytes, and
 * does not wrap: where it would, padding (a header alone) goes to the end of the ring. len is twice
 * the largest message and more, so that padding and message fit whenever all was released: a send
 * never waits for a reader to step over padding.
 *
 * Who writes which word. The writer: its own ring, which is also the source of what it posts; the
 * rings of readers that cannot map it; WANTED of each reader. A reader: PROGRESS and ASLEEP, and
 * its row of the SST: RELEASED (PROGRESS, but late) and IN_PLACE (it has mapped the writer's ring
 * and reads there; set once, before its first look). So on one node a message is written once,
 * whatever the number of readers. A writer that does not know of IN_PLACE yet writes to a ring that
 * nobody reads.
 *
 * How messages become visible. A reader looks at one place only: that of its next header. Messages
 * that are sent together begin at position `first` and end at `end`; they are written in this
 * order:
 *
 *   1. a header of 0 at `end`           by value
 *   2. all bytes but the first header   from the writer's ring, in one or two pieces
 *   3. the header at `first`            by value
 *
 * Invariant: the word where a reader looks next is 0, or the header of a whole message whose
 * successor's word satisfies the same. It holds at first (memory is zero), and each batch keeps
 * it: writes of one lane are placed in order, and a word is not torn (or as below), so who sees 3
 * sees 1 and 2; the word at `end` is not the reader's next before it sees 3, and that at `first`
 * became 0 by the batch before (or is in memory that never was written). Old bytes are never taken
 * for a header, for none are looked at. No checksum is needed then, which would make each reader
 * read each message twice. What RDMA does not promise is not used: 2 may be placed in any order,
 * torn anywhere. The words of 1 and 3 are by value since what they hold in the writer's own ring
 * changes with the next batch, while 2 may not have been read. Threads that take turns to send
 * have different lanes: who takes over has what the other has posted placed first (take_posting).
 *
 * Reuse. A batch that ends at `end` is written when every living reader has released all before
 * end + 8 - len: then nothing that it writes, the 0 included, is anything that a reader may still
 * look at. The writer's own ring is also the source of posts, whose completion acknowledgements do
 * not say: a dead reader gives none, and who reads in place has not waited for what was posted to
 * it before it said so. So at the beginning of each lap the posts of the one before have to be
 * complete.
 *
 * Acknowledgements are late (release() in ringbuffer_read.c), but for a writer that waits: it
 * writes WANTED, then reads PROGRESS on the same lane; the reader stores PROGRESS, then loads
 * WANTED. Both have a full fence between (a read places the writes before it), so one sees the
 * other: either the writer has learned that it need not wait, or that release and all after it tell
 * it, until it has what it wanted. WANTED only grows.
 *
 * Torn words. Software that stands for a device may copy a word byte by byte, the lower addresses
 * first. A header is there when its last byte is, which is never 0. Of ASLEEP only its lowest byte
 * changes once there are sleepers, less than 256. The other words grow, and may not seem to be more
 * than they are. One that the network writes and a CPU reads (WANTED, RELEASED) is seen with new
 * lower bytes below old higher ones, which is never more than the new value, where the lowest byte
 * comes first in memory. One that a CPU writes and the network reads (PROGRESS) would be seen there
 * with old lower bytes below new higher ones: 0x1f8 where 0x0f8 becomes 0x100. So its highest byte
 * is at the lowest address: of two bytes the lower one is read later, and the whole is never more
 * than the value at the end.
 *
 * Sleep is the same game: the writer writes 3, then reads ASLEEP on the same lane; the reader
 * changes ASLEEP, then looks again. Who sees the other asleep rings (wait.h).
 * An ASLEEP with a number is of the process's poller, which is then rung for the channel of that
 * number (poller.h). It is there before anything is announced, and is not changed any more.
 *
 * If the writer stops between its writes, 3 has not been placed or all has: a reader sees whole
 * batches, then the death. If a reader stops, the writer, who asks in each look who lives, does
 * without it. */

#include "config.h"

#include <stdlib.h>

#include "observe/mistake.h"
#include "ringbuffer.h"

#define CAPACITY_MAX ((size_t)1 << 30)

/* A message, the padding that it may need, and the word after it. */
static uint64_t len_for(size_t capacity)
{
    uint64_t needed = 2 * loci_ring_space(capacity) + LOCI_RING_HEADER, len = LOCI_CACHE_LINE;

    while (len < needed)
        len *= 2;
    return len;
}

static int open_acks(struct loco_ringbuffer *rb, const loco_group_t *group)
{
    return loco_sst_create(rb->rt, rb->ep->name, "acks", group, LOCI_RING_COLUMNS,
                           LOCO_SST_COLUMNS, &rb->acks);
}

static void destroy_forgotten(void *rb)
{
    loco_ringbuffer_destroy(rb);
}

static int open_ring(struct loco_ringbuffer *rb, const loco_group_t *group)
{
    loci_endpoint_is_of(rb->ep, destroy_forgotten, rb);
    rb->rank = rb->ep->group.rank;
    rb->size = rb->ep->group.size;
    rb->own = loci_mem_ptr(loci_ring_bytes(rb, rb->rank));
    rb->posts = (loco_ack_t)LOCO_ACK_INIT;
    pthread_mutex_init(&rb->lock, NULL);
    pthread_mutex_init(&rb->reading, NULL);
    rb->limit = rb->len;
    rb->reader = calloc((size_t)rb->size, sizeof rb->reader[0]);
    return rb->reader == NULL ? LOCO_ERR_NO_MEMORY : open_acks(rb, group);
}

static void close_ring(struct loco_ringbuffer *rb)
{
    loco_sst_destroy(rb->acks);
    free(rb->reader);
    pthread_mutex_destroy(&rb->reading);
    pthread_mutex_destroy(&rb->lock);
    loci_endpoint_destroy(rb->ep);
    free(rb);
}

static int check_arguments(loco_runtime_t *rt, const char *name, const loco_group_t *group,
                           int writer, size_t capacity, int flags)
{
    const char *call = "loco_ringbuffer_create";
    int status = loci_check_group(rt, call, name, group);

    if (status == LOCO_OK)
        status = loci_check_rank(rt, call, name, "writer", writer, group->size);
    if (status == LOCO_OK && (capacity < 1 || capacity > CAPACITY_MAX))
        status = loci_bad_arg(rt, call, name, "capacity", (long long)capacity, "1 to %zu",
                              (size_t)CAPACITY_MAX);
    if (status == LOCO_OK && (flags & ~LOCO_RINGBUFFER_AWAKE) != 0)
        status = loci_bad_arg(rt, call, name, "flags", flags,
                              "LOCO_RINGBUFFER_SLEEP or LOCO_RINGBUFFER_AWAKE");
    return status;
}

int loco_ringbuffer_create(loco_runtime_t *rt, const char *parent, const char *name,
                           const loco_group_t *group, int writer, size_t capacity, int flags,
                           loco_ringbuffer_t **out)
{
    struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group,
        .type = "ringbuffer", .nregions = 2,
        .property = { { "writer", (uint64_t)writer }, { "capacity", capacity },
                      { "flags", (uint64_t)flags } },
    };
    struct loco_ringbuffer *rb;
    int status;

    status = check_arguments(rt, name, group, writer, capacity, flags);
    if (status != LOCO_OK)
        return status;
    rb = calloc(1, sizeof *rb);
    if (rb == NULL)
        return LOCO_ERR_NO_MEMORY;
    rb->rt = rt;
    rb->writer = writer;
    rb->capacity = capacity;
    rb->awake = (flags & LOCO_RINGBUFFER_AWAKE) != 0;
    rb->len = len_for(capacity);
    spec.region[LOCI_RING_BYTES] = (struct loci_region_spec){ "ring", rb->len, 0, LOCI_FROM_ALL };
    spec.region[LOCI_RING_STATE] =
        (struct loci_region_spec){ "state", LOCI_RING_WORDS, 128, LOCI_FROM_ALL };
    status = loci_endpoint_create(rt, &spec, &rb->ep);
    if (status != LOCO_OK) {
        free(rb);
        return status;
    }
    status = open_ring(rb, group);
    if (status != LOCO_OK) {
        close_ring(rb);
        return status;
    }
    *out = rb;
    return LOCO_OK;
}

void loco_ringbuffer_destroy(loco_ringbuffer_t *rb)
{
    if (rb == NULL)
        return;
    loco_ack_wait(rb->rt, &rb->posts);      /* what still reads the ring */
    close_ring(rb);
}

size_t loco_ringbuffer_capacity(const loco_ringbuffer_t *rb)
{
    return rb->capacity;
}

int loco_ringbuffer_writer(const loco_ringbuffer_t *rb)
{
    return rb->writer;
}
