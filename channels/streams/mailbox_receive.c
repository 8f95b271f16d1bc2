/* SPDX-License-Identifier: BSD-3-Clause */

/* Mailboxes: the receiver. It has all of the memory mapped. See mailbox.c. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "mailbox.h"
#include "memory/memory.h"
#include "observe/log.h"
#include "observe/mistake.h"
#include "wait.h"

/* A message, where it is: in the ring of a sender. */
struct letter {
    int from;
    int kind;                   /* enum loci_mail_kind */
    uint64_t bytes, end;        /* HEAD behind it */
    uint64_t at;                /* position of what is behind the header */
};

static unsigned char *memory(const struct loco_mailbox *box)
{
    return loci_mem_ptr(loci_mail_mem(box));
}

/* ---- what has come ---- */

static uint64_t next_of(const struct loco_mailbox *box, int from)
{
    return atomic_load_explicit(&box->from[from], memory_order_relaxed);
}

/* Acquire: who sees TAIL sees the records before it. Total: who says that it sleeps, then looks
 * here. */
static uint64_t tail_of(const struct loco_mailbox *box, int from)
{
    return loci_load64_total(memory(box) + loci_mail_line(from) + LOCI_MAIL_TAIL);
}

static int astray(const struct loco_mailbox *box, int from, uint64_t word)
{
    LOCI_LOG(box->rt, LOCO_LOG_ERROR, "mailbox %s: the ring of rank %d has %016llx at position "
             "%llu, which no sender writes: memory was written astray", box->ep->name, from,
             (unsigned long long)word, (unsigned long long)next_of(box, from));
    return LOCO_ERR_PROTOCOL;
}

/* Of what is behind a header. */
static uint64_t len_of(const struct loco_mailbox *box, const struct letter *letter)
{
    return letter->kind == LOCI_MAIL_TOLD ? sizeof(struct loci_memkey)
           : letter->kind == LOCI_MAIL_FIRST ? loci_mail_most(box) : letter->bytes;
}

/* The next record of a sender. LOCO_ERR_AGAIN: there is none. */
static int find_record(const struct loco_mailbox *box, int from, struct letter *letter)
{
    uint64_t at = next_of(box, from), tail = tail_of(box, from), word, check;
    const unsigned char *header = memory(box) + loci_mail_place(box, from, at);

    if (tail < at + LOCI_MAIL_HEADER)
        return LOCO_ERR_AGAIN;
    word = loci_load64(header);
    check = loci_load64(header + 8);
    letter->from = from;
    letter->kind = (int)(word >> 56);
    letter->bytes = word & LOCI_MAIL_LONGEST;
    letter->at = at + LOCI_MAIL_HEADER;
    if (check != loci_mail_record_check(word, at) || letter->kind < LOCI_MAIL_COPIED
        || letter->kind > LOCI_MAIL_NEXT || len_of(box, letter) > box->ring
        || (letter->kind == LOCI_MAIL_FIRST && letter->bytes <= loci_mail_most(box))
        || tail - at > box->ring)
        return astray(box, from, word);
    letter->end = at + loci_mail_space(len_of(box, letter));
    return letter->end > tail ? LOCO_ERR_AGAIN : LOCO_OK;
}

/* ---- taking it out ---- */

static void copy(const struct loco_mailbox *box, int from, uint64_t position, void *to, size_t len)
{
    uint64_t until_end = box->ring - (position & (box->ring - 1));
    size_t first = len < until_end ? len : (size_t)until_end;
    const unsigned char *p = memory(box);

    if (first > 0)
        loci_copy_out(to, p + loci_mail_place(box, from, position), first);
    if (len > first)
        loci_copy_out((char *)to + first, p + loci_mail_place(box, from, position + first),
                      len - first);
}

static int read_straight(struct loco_mailbox *box, const struct letter *letter, void *buffer)
{
    int peer = box->ep->group.peer[letter->from], status;
    struct loci_memkey key;
    struct loci_mem theirs;

    copy(box, letter->from, letter->at, &key, sizeof key);
    status = loci_mem_import(box->rt, peer, &key, &theirs);
    if (status != LOCO_OK)
        return status;
    status = theirs.key.len < letter->bytes ? LOCO_ERR_PROTOCOL
             : loci_read(box->rt, &theirs, 0, buffer, letter->bytes, NULL);
    loci_mem_drop(box->rt, &theirs);
    return status;
}

/* The sender may write to the ring up to there again, and has a long message back. */
static void advance(struct loco_mailbox *box, const struct letter *letter)
{
    unsigned char *line = memory(box) + loci_mail_line(letter->from);
    uint64_t before = next_of(box, letter->from), wanted;

    atomic_store_explicit(&box->from[letter->from], letter->end, memory_order_relaxed);
    box->next = (letter->from + 1) % box->size;
    loci_store64(line + LOCI_MAIL_HEAD, loci_mail_head(letter->end));
    atomic_thread_fence(memory_order_seq_cst);
    wanted = loci_load64_total(line + LOCI_MAIL_WANTED);
    /* When HEAD goes past it. Who is dead needs no ring. */
    if (!box->hosted && wanted > before && wanted <= letter->end)
        (void)loci_ring(box->rt, box->ep->group.peer[letter->from]);
}

/* ---- pieces ---- */

static bool is_whole(const struct loci_mail_pieces *pieces)
{
    return pieces->bytes != NULL && pieces->have == pieces->len;
}

static void drop(struct loci_mail_pieces *pieces)
{
    free(pieces->bytes);
    *pieces = (struct loci_mail_pieces){ .bytes = NULL };
}

/* LOCO_ERR_NO_MEMORY: it stays where it is. */
static int add_piece(struct loco_mailbox *box, const struct letter *letter)
{
    struct loci_mail_pieces *pieces = &box->pieces[letter->from];
    uint64_t len = len_of(box, letter);

    if (letter->kind == LOCI_MAIL_FIRST) {
        unsigned char *bytes = malloc((size_t)letter->bytes);

        if (bytes == NULL)
            return LOCO_ERR_NO_MEMORY;
        drop(pieces);
        *pieces = (struct loci_mail_pieces){ bytes, letter->bytes, 0 };
    }
    /* Else its first piece was taken by who received before. */
    if (pieces->bytes != NULL && len <= pieces->len - pieces->have) {
        copy(box, letter->from, letter->at, pieces->bytes + pieces->have, (size_t)len);
        pieces->have += len;
    }
    advance(box, letter);
    if (is_whole(pieces))
        atomic_fetch_add(&box->assembled, 1);
    return LOCO_OK;
}

/* The next message of a sender. LOCO_ERR_AGAIN: there is none. */
static int find(struct loco_mailbox *box, int from, struct letter *letter)
{
    struct loci_mail_pieces *pieces = &box->pieces[from];
    int status = LOCO_OK;

    while (status == LOCO_OK && !is_whole(pieces)) {
        status = find_record(box, from, letter);
        if (status == LOCO_OK && letter->kind < LOCI_MAIL_FIRST) {
            drop(pieces);               /* their sender did not come to the last one */
            return LOCO_OK;
        }
        if (status == LOCO_OK)
            status = add_piece(box, letter);
    }
    if (status == LOCO_OK)
        *letter = (struct letter){ from, LOCI_MAIL_ASSEMBLED, pieces->len, 0, 0 };
    return status;
}

/* By turns, from whoever is next. */
static int find_any(struct loco_mailbox *box, struct letter *letter)
{
    int next = box->next;

    for (int i = 0; i < box->size; i++) {
        int from = (next + i) % box->size, status = find(box, from, letter);

        if (status != LOCO_ERR_AGAIN)
            return status;
    }
    return LOCO_ERR_AGAIN;
}

static void take_assembled(struct loco_mailbox *box, const struct letter *letter, void *buffer)
{
    struct loci_mail_pieces *pieces = &box->pieces[letter->from];

    memcpy(buffer, pieces->bytes, (size_t)pieces->len);
    drop(pieces);
    atomic_fetch_sub(&box->assembled, 1);
    box->next = (letter->from + 1) % box->size;
}

/* ---- messages ---- */

/* LOCO_ERR_PEER_DEAD, or LOCO_ERR_SYSTEM: no memory of the sender's is there. */
static int is_lost(struct loco_mailbox *box, const struct letter *letter, int status)
{
    LOCI_COUNT_ONE(box->count.lost);
    if (status == LOCO_ERR_PEER_DEAD)
        return status;
    LOCI_LOG(box->rt, LOCO_LOG_ERROR, "mailbox %s: a message of %llu bytes of rank %d cannot be "
             "read where its sender said that it was: %s", box->ep->name,
             (unsigned long long)letter->bytes, letter->from, loco_strerror(status));
    return LOCO_ERR_SYSTEM;
}

static int take(struct loco_mailbox *box, const struct letter *letter, void *buffer)
{
    int status = LOCO_OK;

    if (letter->kind == LOCI_MAIL_TOLD)
        status = read_straight(box, letter, buffer);
    else if (letter->kind == LOCI_MAIL_COPIED)
        copy(box, letter->from, letter->at, buffer, (size_t)letter->bytes);
    if (letter->kind == LOCI_MAIL_ASSEMBLED)
        take_assembled(box, letter, buffer);
    else
        advance(box, letter);
    if (status != LOCO_OK)
        return is_lost(box, letter, status);
    LOCI_COUNT_ONE(box->count.received);
    if (letter->kind == LOCI_MAIL_TOLD)
        LOCI_COUNT_ONE(box->count.read);
    return LOCO_OK;
}

/* In this thread's turn. */
static int receive_in_turn(struct loco_mailbox *box, void *buffer, size_t room, int *from,
                           size_t *bytes)
{
    struct letter letter;
    int status;

    do {
        status = find_any(box, &letter);
        if (status != LOCO_OK)
            return status;
        if (from != NULL)
            *from = letter.from;
        if (bytes != NULL)
            *bytes = (size_t)letter.bytes;
        if (letter.bytes > room) {
            box->next = letter.from;        /* the next call meets it again */
            return LOCO_ERR_RANGE;
        }
        status = take(box, &letter, buffer);
    } while (status == LOCO_ERR_PEER_DEAD);
    return status;
}

/* ---- waiting ---- */

/* Who might send. Of a hosted one they may come at any time, as long as it is there. */
static bool anybody_lives(const struct loco_mailbox *box)
{
    if (box->hosted)
        return loci_mail_host_lives(box);
    for (int rank = 0; rank < box->size; rank++)
        if (rank != box->rank && loci_peer_alive(box->rt, box->ep->group.peer[rank]))
            return true;
    return false;
}

/* The look comes after: what the last of them had sent still counts. */
static int receive_now(struct loco_mailbox *box, void *buffer, size_t room, int *from,
                       size_t *bytes)
{
    bool alive = anybody_lives(box);
    int status = loci_turns_enter(box->rt, &box->receiving,
                                 "other threads that receive from a mailbox");

    if (status != LOCO_OK)
        return status;
    status = receive_in_turn(box, buffer, room, from, bytes);
    loci_turns_leave(&box->receiving);
    return status == LOCO_ERR_AGAIN && !alive ? LOCO_ERR_PEER_DEAD : status;
}

static int has_come(void *arg)
{
    struct loco_mailbox *box = arg;

    if (atomic_load(&box->assembled) > 0)
        return 1;
    for (int from = 0; from < box->size; from++)
        if (tail_of(box, from) > next_of(box, from))
            return 1;
    return !anybody_lives(box);
}

static void announce(void *arg, int change)
{
    struct loco_mailbox *box = arg;

    loci_cpu_fetch_add(memory(box) + LOCI_MAIL_ASLEEP, (uint64_t)(int64_t)change);
}

/* Senders may die: has_come() asks whether all have. */
static int go_on(void *arg)
{
    (void)arg;
    return LOCO_OK;
}

static int wait_for_news(struct loco_mailbox *box, int64_t timeout_ns)
{
    const struct loci_reason why = {
        .what = box->ep->name, .peer = -1, .broken = go_on, .timeout_ns = timeout_ns,
        .kind = LOCI_WAIT_SYNC, .what_for = LOCI_FOR_MAIL,
        .announce = box->hosted ? NULL : announce,
    };

    return loci_wait(box->rt, &why, has_come, box);
}

static int check_receiver(const struct loco_mailbox *box, const void *buffer, size_t room)
{
    if (box->rank != box->receiver)
        return LOCO_ERR_STATE;
    return buffer == NULL && room > 0 ? LOCO_ERR_ARG : LOCO_OK;
}

static int receive(loco_mailbox_t *box, int64_t timeout_ns, void *buffer, size_t room, int *from,
                   size_t *bytes)
{
    int status = check_receiver(box, buffer, room);
    int64_t end;

    if (status == LOCO_OK)
        status = loci_check_timeout(box->rt, "loco_mailbox_receive", box->ep->name, timeout_ns);
    if (status != LOCO_OK)
        return status;
    end = loci_deadline(box->rt, timeout_ns);
    for (;;) {
        int64_t left = loci_time_left(box->rt, end);

        status = receive_now(box, buffer, room, from, bytes);
        if (status != LOCO_ERR_AGAIN)
            return status;
        /* Other threads may have taken what came, each time. */
        status = left == 0 ? LOCO_ERR_TIMEOUT : wait_for_news(box, left);
        if (status != LOCO_OK)
            return status;
    }
}

int loco_mailbox_receive(loco_mailbox_t *box, int64_t timeout_ns, void *buffer, size_t room,
                         int *from, size_t *bytes)
{
    struct loci_thread *self = loci_call_begin(box->ep->calls, LOCI_CALL_RECEIVE, 0);

    return loci_call_end(self, receive(box, timeout_ns, buffer, room, from, bytes));
}

static int try_receive(loco_mailbox_t *box, void *buffer, size_t room, int *from, size_t *bytes)
{
    int status = check_receiver(box, buffer, room);

    return status != LOCO_OK ? status : receive_now(box, buffer, room, from, bytes);
}

int loco_mailbox_try_receive(loco_mailbox_t *box, void *buffer, size_t room, int *from,
                             size_t *bytes)
{
    struct loci_thread *self = loci_call_begin(box->ep->calls, LOCI_CALL_RECEIVE, 0);

    return loci_call_end(self, try_receive(box, buffer, room, from, bytes));
}
