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
 * Pieces. A message that is copied and is longer than half a ring goes in pieces, one record each,
 * one after the other. The receiver puts them together in memory of its own, so that no message of
 * another waits for them.
 *
 * Hosted ones. The memory is a host's, and members come and go. RECEIVER says who receives; that
 * process has the memory mapped, and goes on at the HEADs that are there. Whoever comes to a rank
 * goes on at the TAIL that is there: what the one before was writing behind it is nobody's. Pieces
 * whose first one was another's are dropped; those of a message that has not become whole are, once
 * another message begins. Nobody knows the others, so nobody rings: who waits looks again at
 * intervals of up to a millisecond.
 *
 * If a sender stops between its writes TAIL is placed or is not: the receiver sees a whole record
 * or none. */

#include "config.h"

#include <stdlib.h>

#include "mailbox.h"
#include "memory/memory.h"
#include "names/hosted.h"
#include "observe/mistake.h"

#define RING ((size_t)64 << 10)
#define RING_LEAST ((size_t)512)
#define RING_MOST ((size_t)1 << 30)

static int check_group(loco_runtime_t *rt, const char *name, const loco_group_t *group,
                       int receiver)
{
    static const char call[] = "loco_mailbox_create";
    int status = loci_check_group(rt, call, name, group);

    if (status == LOCO_OK)
        status = loci_check_rank(rt, call, name, "receiver", receiver, group->size);
    return status == LOCO_OK && group->size < 2
           ? loci_bad_arg(rt, call, name, "members of the group", group->size, "2 or more")
           : status;
}

int loci_mailbox_complete(loco_runtime_t *rt, const char *call, const char *name,
                          const loco_mailbox_options_t *options, loco_mailbox_options_t *o)
{
    *o = options == NULL ? (loco_mailbox_options_t){ 0 } : *options;
    o->ring_bytes = o->ring_bytes == 0 ? RING : o->ring_bytes;
    o->straight = o->straight == 0 ? o->ring_bytes : o->straight;
    if (o->ring_bytes < RING_LEAST || o->ring_bytes > RING_MOST
        || (o->ring_bytes & (o->ring_bytes - 1)) != 0)
        return loci_bad_arg(rt, call, name, "ring_bytes", (long long)o->ring_bytes,
                            "a power of two from %zu to %zu", RING_LEAST, RING_MOST);
    return LOCO_OK;
}

static void destroy_forgotten(void *box)
{
    loco_mailbox_destroy(box);
}

uint64_t loci_mailbox_hosted_bytes(uint64_t ring, int members)
{
    return loci_mail_line(members) + (uint64_t)members * ring;
}

static int open_box(struct loco_mailbox *box, enum loci_mailbox_way way,
                    struct loci_endpoint_spec *spec, enum loci_domain domain)
{
    uint64_t bytes = loci_mailbox_hosted_bytes(box->ring, box->size);
    int status;

    spec->region[0] = (struct loci_region_spec){ "box", bytes, LOCI_MAIL_LINE, box->host };
    status = way == LOCI_MAILBOX_MET ? loci_endpoint_create(box->rt, spec, &box->ep)
             : way == LOCI_MAILBOX_HOST ? loci_hosted_create(box->rt, spec, domain, &box->ep)
             : loci_hosted_use(box->rt, spec, domain, &box->ep);
    if (status == LOCO_OK)
        loci_endpoint_is_of(box->ep, destroy_forgotten, box);
    return status;
}

int loci_mailbox_make(loco_runtime_t *rt, enum loci_mailbox_way way, const char *parent,
                      const char *name, const loco_group_t *group, int receiver,
                      const loco_mailbox_options_t *o, enum loci_domain domain,
                      loco_mailbox_t **out)
{
    struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group, .type = "mailbox", .nregions = 1,
        .property = { { "receiver", (uint64_t)receiver }, { "ring_bytes", o->ring_bytes },
                      { "straight", o->straight } },
    };
    struct loco_mailbox *box = calloc(1, sizeof *box);
    int status;

    if (box == NULL)
        return LOCO_ERR_NO_MEMORY;
    box->rt = rt;
    box->size = group->size;
    box->rank = group->rank;
    box->hosted = way != LOCI_MAILBOX_MET;
    box->host = box->hosted ? 0 : receiver;
    box->receiver = box->hosted ? -1 : receiver;
    box->ring = o->ring_bytes;
    box->straight = o->straight;
    box->from = calloc((size_t)box->size, sizeof *box->from);
    box->pieces = calloc((size_t)box->size, sizeof *box->pieces);
    status = box->from == NULL || box->pieces == NULL ? LOCO_ERR_NO_MEMORY
             : open_box(box, way, &spec, domain);
    if (status != LOCO_OK) {
        free(box->pieces);
        free(box->from);
        free(box);
        return status;
    }
    *out = box;
    return LOCO_OK;
}

int loco_mailbox_create(loco_runtime_t *rt, const char *parent, const char *name,
                        const loco_group_t *group, int receiver,
                        const loco_mailbox_options_t *options, loco_mailbox_t **box)
{
    loco_mailbox_options_t o;
    int status = check_group(rt, name, group, receiver);

    if (status == LOCO_OK)
        status = loci_mailbox_complete(rt, "loco_mailbox_create", name, options, &o);
    return status != LOCO_OK ? status
           : loci_mailbox_make(rt, LOCI_MAILBOX_MET, parent, name, group, receiver, &o,
                               LOCI_DOMAIN_NONE, box);
}

/* ---- hosted ones ---- */

/* Who receives has the memory mapped, so this word is changed by CPUs alone. */
static unsigned char *receiver_word(const struct loco_mailbox *box)
{
    return loci_mem_ptr(loci_mail_mem(box)) + LOCI_MAIL_RECEIVER;
}

static int begin_to_receive(struct loco_mailbox *box)
{
    const unsigned char *p = loci_mem_map(box->rt, loci_mail_mem(box));
    uint64_t was;

    if (p == NULL)
        return loci_mistake(box->rt, LOCO_ERR_UNSUPPORTED, "loco_mailbox_open", box->ep->name,
                            "who receives from a mailbox has to be on the machine of the agent "
                            "that keeps it: the option host of who makes it");
    was = loci_cpu_compare_swap(receiver_word(box), 0, (uint64_t)box->rank + 1);
    if (was != 0)
        return loci_mistake(box->rt, LOCO_ERR_STATE, "loco_mailbox_open", box->ep->name,
                            "another process receives from it");
    box->receiver = box->rank;
    for (int rank = 0; rank < box->size; rank++)
        atomic_store(&box->from[rank],
                     loci_mail_head(loci_load64(p + loci_mail_line(rank) + LOCI_MAIL_HEAD)));
    return LOCO_OK;
}

int loci_mailbox_start(loco_mailbox_t *box, bool receives)
{
    struct loci_mem *mem = loci_mail_mem(box);
    uint64_t line = loci_mail_line(box->rank), head;
    int status = loci_read64(box->rt, mem, line + LOCI_MAIL_TAIL, &box->tail, NULL);

    if (status == LOCO_OK)
        status = loci_read64(box->rt, mem, line + LOCI_MAIL_HEAD, &head, NULL);
    if (status != LOCO_OK)
        return status;
    box->head = loci_mail_head(head);
    return receives ? begin_to_receive(box) : LOCO_OK;
}

static void end_receiving(const struct loco_mailbox *box, int rank)
{
    loci_cpu_compare_swap(receiver_word(box), (uint64_t)rank + 1, 0);
}

/* What one on another machine that has died wrote last must not come into what the next one has
 * written. */
int loci_mailbox_vacate(loco_mailbox_t *box, int rank, int peer)
{
    if (box->ep->domain != LOCI_DOMAIN_CPU && !loci_peer_alive(box->rt, peer)
        && !loci_peer_is_silent(box->rt, peer))
        return LOCO_ERR_AGAIN;
    end_receiving(box, rank);
    return LOCO_OK;
}

/* ---- the end ---- */

void loco_mailbox_destroy(loco_mailbox_t *box)
{
    if (box == NULL)
        return;
    if (box->hosted && box->receiver == box->rank)
        end_receiving(box, box->rank);
    loci_endpoint_destroy(box->ep);
    for (int rank = 0; rank < box->size; rank++)
        free(box->pieces[rank].bytes);
    if (box->gone != NULL)
        box->gone(box->gone_ctx);
    free(box->pieces);
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
