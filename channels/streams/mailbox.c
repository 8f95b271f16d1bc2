/* SPDX-License-Identifier: BSD-3-Clause */

/* Mailboxes: their life. Senders are in mailbox_send.c, the receiver in mailbox_receive.c.
 *
 * Memory. All of it is the receiver's: a word of sleep, two lines for each member, and a ring of
 * `ring` bytes for each member. A position counts the bytes of a ring's records since the
 * beginning; its place is the position modulo `ring`. A record is a header and a message, or the
 * key of the memory in which a long one lies. A record may go on at the beginning of the ring.
 *
 * Who writes which word. A sender: its ring, its TAIL and WANTED. The receiver: HEAD of each
 * sender, and ASLEEP. TAIL, WANTED and HEAD only grow.
 *
 * How a message becomes visible. The record is written first, then TAIL, on one lane; where the
 * memory is mapped they are stored, TAIL with release order. So who sees TAIL sees the record. The
 * thread that sends keeps the turn until a read on the same lane, behind all that, has come back:
 * then the record and TAIL are placed, and the next thread, whose lane is another, writes after
 * them.
 *
 * Reuse. A sender writes to what is before HEAD + ring. The receiver stores HEAD once it has
 * copied a record out, and has read what a long one tells of; with release order, and so after
 * that.
 *
 * Long messages. The sender makes its buffer memory that others may read, sends a record that
 * tells where it is, and waits until HEAD is behind the record. If the sender dies the read fails,
 * and the message is lost; if the receiver dies the sender's wait ends. Either way nobody reads
 * what the sender has back.
 *
 * Torn words. Software that stands for a device may copy a word byte by byte, the lower addresses
 * first. TAIL and WANTED are written by the network and read by a CPU: new lower bytes are seen
 * below old higher ones, which is never more than the new value. A TAIL that seems to be within a
 * record tells of those before it alone. HEAD is written by a CPU and read by the network: its
 * highest byte is at the lowest address, so what is seen there is never more than the new value
 * either (ringbuffer.c has the argument). ASLEEP is changed by atomics of the receiver, and only
 * its lowest byte changes.
 *
 * Sleep. The receiver changes ASLEEP, then looks at all TAILs once more; who sends writes TAIL,
 * then reads ASLEEP (on the lane, behind it; mapped: a full fence is between). One of the two sees
 * the other. A sender that waits writes WANTED, then looks at HEAD; the receiver stores HEAD, then
 * looks at WANTED, with full fences: the same. It rings when HEAD goes past WANTED, once; so a
 * sender that may have been shown too small a HEAD by the network looks again from time to time.
 *
 * If a sender stops between its writes TAIL is placed or is not: the receiver sees a whole record
 * or none. */

#include "config.h"

#include <stdlib.h>

#include "mailbox.h"
#include "observe/mistake.h"

#define RING ((size_t)64 << 10)
#define RING_LEAST ((size_t)512)
#define RING_MOST ((size_t)1 << 30)

static const char call[] = "loco_mailbox_create";

static int check_arguments(loco_runtime_t *rt, const char *name, const loco_group_t *group,
                           int receiver, const loco_mailbox_options_t *o)
{
    int status = loci_check_group(rt, call, name, group);

    if (status == LOCO_OK)
        status = loci_check_rank(rt, call, name, "receiver", receiver, group->size);
    if (status == LOCO_OK && group->size < 2)
        status = loci_bad_arg(rt, call, name, "members of the group", group->size, "2 or more");
    if (status == LOCO_OK && (o->ring_bytes < RING_LEAST || o->ring_bytes > RING_MOST
                              || (o->ring_bytes & (o->ring_bytes - 1)) != 0))
        status = loci_bad_arg(rt, call, name, "ring_bytes", (long long)o->ring_bytes,
                              "a power of two from %zu to %zu", RING_LEAST, RING_MOST);
    return status;
}

static void destroy_forgotten(void *box)
{
    loco_mailbox_destroy(box);
}

static int open_box(struct loco_mailbox *box, struct loci_endpoint_spec *spec)
{
    uint64_t bytes = loci_mail_line(box->size) + (uint64_t)box->size * box->ring;
    int status;

    spec->region[0] = (struct loci_region_spec){ "box", bytes, LOCI_MAIL_LINE, box->receiver };
    status = loci_endpoint_create(box->rt, spec, &box->ep);
    if (status == LOCO_OK)
        loci_endpoint_is_of(box->ep, destroy_forgotten, box);
    return status;
}

int loco_mailbox_create(loco_runtime_t *rt, const char *parent, const char *name,
                        const loco_group_t *group, int receiver,
                        const loco_mailbox_options_t *options, loco_mailbox_t **out)
{
    loco_mailbox_options_t o = options == NULL ? (loco_mailbox_options_t){ 0 } : *options;
    struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group, .type = "mailbox", .nregions = 1,
    };
    struct loco_mailbox *box;
    int status;

    o.ring_bytes = o.ring_bytes == 0 ? RING : o.ring_bytes;
    o.straight = o.straight == 0 ? o.ring_bytes : o.straight;
    status = check_arguments(rt, name, group, receiver, &o);
    if (status != LOCO_OK)
        return status;
    spec.property[0] = (struct loci_property){ "receiver", (uint64_t)receiver };
    spec.property[1] = (struct loci_property){ "ring_bytes", o.ring_bytes };
    spec.property[2] = (struct loci_property){ "straight", o.straight };
    box = calloc(1, sizeof *box);
    if (box == NULL)
        return LOCO_ERR_NO_MEMORY;
    box->rt = rt;
    box->size = group->size;
    box->rank = group->rank;
    box->receiver = receiver;
    box->ring = o.ring_bytes;
    box->straight = o.straight;
    box->from = calloc((size_t)box->size, sizeof *box->from);
    status = box->from == NULL ? LOCO_ERR_NO_MEMORY : open_box(box, &spec);
    if (status != LOCO_OK) {
        free(box->from);
        free(box);
        return status;
    }
    *out = box;
    return LOCO_OK;
}

void loco_mailbox_destroy(loco_mailbox_t *box)
{
    if (box == NULL)
        return;
    loci_endpoint_destroy(box->ep);
    free(box->from);
    free(box);
}

void loco_mailbox_stats(const loco_mailbox_t *box, loco_mailbox_stats_t *stats)
{
    const struct loci_mail_count *count = &box->count;

    *stats = (loco_mailbox_stats_t){
        .sent = count->sent, .told = count->told, .full = count->full,
        .received = count->received, .read = count->read, .lost = count->lost,
    };
}
