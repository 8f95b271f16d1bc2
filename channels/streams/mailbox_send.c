/* SPDX-License-Identifier: BSD-3-Clause */

/* Mailboxes: those who send. See mailbox.c. */

#include "config.h"

#include "mailbox.h"
#include "memory/memory.h"
#include "observe/mistake.h"
#include "wait.h"

#define PARTS 3                 /* of a record, at most: its header, and a message that turns */

struct part {
    uint64_t at;                /* in the mailbox's memory */
    const void *bytes;
    size_t len;
};

/* A record that is to be written. */
struct record {
    uint64_t header[2];
    struct part part[PARTS];
    int parts;
    uint64_t end;               /* TAIL behind it */
};

/* How long a call waits for room. NULL: not at all. */
struct limit {
    int64_t end;                /* loci_deadline() */
};

/* What a lane's reads have brought, behind the writes. */
struct seen {
    uint64_t head, asleep;
};

static struct record make_record(const struct loco_mailbox *box, int kind, uint64_t bytes,
                                 const void *content, size_t len)
{
    uint64_t at = box->tail + LOCI_MAIL_HEADER, until_end = box->ring - (at & (box->ring - 1));
    size_t first = len < until_end ? len : (size_t)until_end;
    struct record r = { .parts = 1, .end = box->tail + loci_mail_space(len) };

    r.header[0] = loci_mail_kind_word(kind, bytes);
    r.header[1] = loci_mail_record_check(r.header[0], box->tail);
    r.part[0] = (struct part){ loci_mail_place(box, box->rank, box->tail), NULL,
                               LOCI_MAIL_HEADER };
    if (first > 0)
        r.part[r.parts++] = (struct part){ loci_mail_place(box, box->rank, at), content, first };
    if (len > first)
        r.part[r.parts++] = (struct part){ loci_mail_place(box, box->rank, at + first),
                                           (const char *)content + first, len - first };
    return r;
}

/* ---- where the receiver is ---- */

/* HEAD, as it lies there. */
static void learn(struct loco_mailbox *box, uint64_t word)
{
    uint64_t head = loci_mail_head(word);

    if (head > box->head && head <= box->tail)
        box->head = head;
}

static uint64_t head_at(const struct loco_mailbox *box)
{
    return loci_mail_line(box->rank) + LOCI_MAIL_HEAD;
}

static int look(struct loco_mailbox *box)
{
    struct loci_mem *mem = loci_mail_mem(box);
    const unsigned char *p = loci_mem_ptr(mem);
    uint64_t word = 0;
    int status = LOCO_OK;

    if (p != NULL)
        word = loci_load64_total(p + head_at(box));     /* total: with WANTED */
    else
        status = loci_read64(box->rt, mem, head_at(box), &word, NULL);
    if (status == LOCO_OK)
        learn(box, word);
    return status;
}

struct head_wait {
    struct loco_mailbox *box;
    uint64_t wanted;            /* until HEAD is there */
};

static int is_there(void *arg)
{
    struct head_wait *wait = arg;
    int status = look(wait->box);

    return status != LOCO_OK ? status : wait->box->head >= wait->wanted;
}

/* The receiver rings once. A lane may bring a HEAD that is being changed, which seems to be less:
 * then it may have rung before that look. */
static int64_t doze(void *arg)
{
    const struct head_wait *wait = arg;

    return loci_mem_ptr(loci_mail_mem(wait->box)) == NULL ? LOCI_NAP : LOCO_FOREVER;
}

/* WANTED only grows, so nothing is taken back. An error is told by the look that follows. */
static void announce(void *arg, int change)
{
    const struct head_wait *wait = arg;
    struct loco_mailbox *box = wait->box;
    uint64_t at = loci_mail_line(box->rank) + LOCI_MAIL_WANTED;

    if (change < 0)
        return;
    (void)loci_write64(box->rt, loci_mail_mem(box), at, wait->wanted, NULL);
    atomic_thread_fence(memory_order_seq_cst);
}

static int wait_for_head(struct loco_mailbox *box, uint64_t wanted, int64_t timeout_ns)
{
    struct head_wait wait = { box, wanted };
    const struct loci_reason why = {
        .what = box->ep->name, .peer = box->ep->group.peer[box->host],
        .timeout_ns = timeout_ns, .kind = LOCI_WAIT_SYNC, .what_for = LOCI_FOR_MAILBOX,
        .announce = box->hosted ? NULL : announce, .doze = doze,
    };

    return loci_wait(box->rt, &why, is_there, &wait);
}

/* Room for a record of so many bytes: LOCO_ERR_AGAIN, LOCO_ERR_TIMEOUT. */
static int find_room(struct loco_mailbox *box, uint64_t space, const struct limit *limit)
{
    uint64_t end = box->tail + space;
    int status;

    if (end <= box->head + box->ring)
        return LOCO_OK;
    status = look(box);
    if (status != LOCO_OK || end <= box->head + box->ring)
        return status;
    LOCI_COUNT_ONE(box->count.full);
    return limit == NULL ? LOCO_ERR_AGAIN
           : wait_for_head(box, end - box->ring, loci_time_left(box->rt, limit->end));
}

/* ---- writing ---- */

/* Where the memory is mapped. */
static void store(const struct loco_mailbox *box, unsigned char *p, const struct record *r,
                  struct seen *seen)
{
    unsigned char *tail = p + loci_mail_line(box->rank) + LOCI_MAIL_TAIL;

    for (int i = 1; i < r->parts; i++)
        loci_copy_in(p + r->part[i].at, r->part[i].bytes, r->part[i].len);
    loci_store64(p + r->part[0].at, r->header[0]);
    loci_store64(p + r->part[0].at + 8, r->header[1]);
    loci_store64(tail, r->end);
    atomic_thread_fence(memory_order_seq_cst);
    seen->asleep = loci_load64_total(p + LOCI_MAIL_ASLEEP);
}

static struct loci_op write_of(struct loci_mem *mem, uint64_t at, const void *from, size_t len)
{
    return (struct loci_op){ .kind = LOCI_WRITE, .mem = mem, .offset = at, .local = (void *)from,
                             .len = len };
}

static struct loci_op read_of(struct loci_mem *mem, uint64_t at, void *to, size_t len)
{
    return (struct loci_op){ .kind = LOCI_READ, .mem = mem, .offset = at, .local = to,
                             .len = len };
}

/* Else, on this thread's lane; all is placed when the reads have come back. */
static int post(struct loco_mailbox *box, const struct record *r, struct seen *seen)
{
    struct loci_mem *mem = loci_mail_mem(box);
    uint64_t tail = loci_mail_line(box->rank) + LOCI_MAIL_TAIL;
    struct loci_op op[PARTS + 3];
    loco_ack_t ack = LOCO_ACK_INIT;
    int n = 0, status, waited;

    for (int i = 0; i < r->parts; i++)
        op[n++] = write_of(mem, r->part[i].at, i == 0 ? r->header : r->part[i].bytes,
                           r->part[i].len);
    op[n++] = write_of(mem, tail, &r->end, sizeof r->end);
    op[n++] = read_of(mem, head_at(box), &seen->head, sizeof seen->head);
    op[n++] = read_of(mem, LOCI_MAIL_ASLEEP, &seen->asleep, sizeof seen->asleep);
    status = loci_post_spans(box->rt, op, n, &ack);
    waited = loco_ack_wait(box->rt, &ack);
    return status != LOCO_OK ? status : waited;
}

static int publish(struct loco_mailbox *box, const struct record *r)
{
    struct seen seen = { 0, 0 };
    unsigned char *p = loci_mem_map(box->rt, loci_mail_mem(box));
    int status = LOCO_OK;

    if (p != NULL)
        store(box, p, r, &seen);
    else
        status = post(box, r, &seen);
    if (status != LOCO_OK) {
        box->failed = status;
        return status;
    }
    box->tail = r->end;
    learn(box, seen.head);
    if (seen.asleep == 0 || box->hosted)
        return LOCO_OK;
    status = loci_ring(box->rt, box->ep->group.peer[box->receiver]);
    /* Who is dead needs no ring; the next call says it. */
    return status == LOCO_ERR_PEER_DEAD ? LOCO_OK : status;
}

/* ---- sending ---- */

static int send_record(struct loco_mailbox *box, enum loci_mail_kind kind, uint64_t bytes,
                       const void *content, size_t len, const struct limit *limit)
{
    int status = find_room(box, loci_mail_space(len), limit);
    struct record r;

    if (status != LOCO_OK)
        return status;
    r = make_record(box, kind, bytes, content, len);
    return publish(box, &r);
}

/* If there is no room for one in time, those before it are dropped where they have come to. */
static int send_pieces(struct loco_mailbox *box, const unsigned char *data, size_t bytes,
                       const struct limit *limit)
{
    size_t most = (size_t)loci_mail_most(box);
    int status = send_record(box, LOCI_MAIL_FIRST, bytes, data, most, limit);

    for (size_t at = most; at < bytes && status == LOCO_OK; at += most) {
        size_t len = bytes - at < most ? bytes - at : most;

        status = send_record(box, LOCI_MAIL_NEXT, len, data + at, len, limit);
    }
    return status;
}

/* The buffer is the program's again only when nobody reads it any more. */
static int send_told(struct loco_mailbox *box, const void *data, size_t bytes,
                     const struct limit *limit)
{
    struct loci_mem mine;
    struct record r;
    int status = find_room(box, loci_mail_space(sizeof mine.key), limit);

    if (status == LOCO_OK)
        status = loci_user_add(box->rt, (void *)data, bytes, &mine);
    if (status != LOCO_OK)
        return status;
    r = make_record(box, LOCI_MAIL_TOLD, bytes, &mine.key, sizeof mine.key);
    status = publish(box, &r);
    if (status == LOCO_OK) {
        LOCI_COUNT_ONE(box->count.told);
        status = wait_for_head(box, r.end, LOCO_FOREVER);
    }
    loci_user_remove(box->rt, &mine);
    return status;
}

static bool is_told(const struct loco_mailbox *box, size_t bytes)
{
    return !box->hosted && box->rank != box->receiver && box->straight != LOCO_MAILBOX_COPY_ALL
           && (bytes >= box->straight || bytes > loci_mail_most(box));
}

/* In this thread's turn. */
static int send_in_turn(struct loco_mailbox *box, const void *data, size_t bytes,
                        const struct limit *limit)
{
    bool whole = bytes <= loci_mail_most(box);
    int status;

    if (box->failed != LOCO_OK)
        return box->failed;
    if (!loci_mail_host_lives(box))
        return LOCO_ERR_PEER_DEAD;
    if (!whole && (limit == NULL || box->rank == box->receiver))
        return LOCO_ERR_RANGE;
    status = limit != NULL && is_told(box, bytes) ? send_told(box, data, bytes, limit)
             : whole ? send_record(box, LOCI_MAIL_COPIED, bytes, data, bytes, limit)
             : send_pieces(box, data, bytes, limit);
    if (status == LOCO_OK)
        LOCI_COUNT_ONE(box->count.sent);
    return status;
}

static int send(struct loco_mailbox *box, const void *data, size_t bytes,
                const struct limit *limit)
{
    int status = LOCO_OK;

    if ((data == NULL && bytes > 0) || bytes > LOCI_MAIL_LONGEST)
        return LOCO_ERR_ARG;
    if (limit == NULL && !loci_turns_try(&box->sending))
        return LOCO_ERR_AGAIN;
    if (limit != NULL)
        status = loci_turns_enter(box->rt, &box->sending, "other threads that send to a mailbox");
    if (status != LOCO_OK)
        return status;
    status = send_in_turn(box, data, bytes, limit);
    loci_turns_leave(&box->sending);
    return status;
}

int loco_mailbox_send(loco_mailbox_t *box, const void *data, size_t bytes)
{
    struct loci_thread *self = loci_call_begin(box->ep->calls, LOCI_CALL_SEND, bytes);

    return loci_call_end(self, send(box, data, bytes, &(struct limit){ LOCI_NEVER }));
}

int loco_mailbox_send_timed(loco_mailbox_t *box, int64_t timeout_ns, const void *data,
                            size_t bytes)
{
    int status = loci_check_timeout(box->rt, "loco_mailbox_send_timed", box->ep->name,
                                    timeout_ns);
    struct loci_thread *self;

    if (status != LOCO_OK)
        return status;
    self = loci_call_begin(box->ep->calls, LOCI_CALL_SEND, bytes);
    return loci_call_end(self, send(box, data, bytes, &(struct limit){ loci_deadline(box->rt,
                                    timeout_ns) }));
}

int loco_mailbox_try_send(loco_mailbox_t *box, const void *data, size_t bytes)
{
    struct loci_thread *self = loci_call_begin(box->ep->calls, LOCI_CALL_SEND, bytes);

    return loci_call_end(self, send(box, data, bytes, NULL));
}
