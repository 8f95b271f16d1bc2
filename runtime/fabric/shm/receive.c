/* SPDX-License-Identifier: BSD-3-Clause */

/* Control messages, the receiving half: the service thread's.
 *
 * Nothing of a message is believed before it was looked at. The system says which user sent it,
 * and another one's is dropped; so is one whose sender does not know our secret, whether we know
 * that sender or not. (The user alone says little: all that a namespace does not map look alike.)
 * Its head then names a process of our table, by identity and label. One that we are about to meet
 * may be faster than we are: its messages are parked until it is in the table, and are handed on
 * before the next one that it sends.
 *
 * What is dropped is said in one line a second at most: strangers may send a lot.
 *
 * fabric->lock decides whether that is so: who parks looks for the sender under it, and who enters
 * a peer looks for parked messages of it. So one of the two finds the other. */

#include "config.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "offer.h"
#include "service.h"
#include "wait.h"
#include "shm.h"

#define PARKED_BYTES ((size_t)64 << 20)
#define AT_ONCE 64                  /* messages, before other events have their turn */
#define DRAIN_MANY 65536            /* more than any queue of the system's is long */
#define FDS_MANY 4                  /* descriptors in one message; more are closed by the kernel */

#define PARKED_SPARE 16

struct shm_parked {
    struct shm_parked *next;
    size_t len;
    struct shm_message message;     /* `len` bytes of it */
};

struct shm_spare {
    bool used;
    struct shm_parked parked;
};

/* ---- checking ---- */

static bool copy_is_sound(const struct shm_copy *copy, size_t len)
{
    return len >= offsetof(struct shm_copy, span) && copy->nspans <= SHM_SPANS
           && len == offsetof(struct shm_copy, span) + copy->nspans * sizeof copy->span[0];
}

const char *loci_shm_message_error(const struct shm_message *m, size_t len)
{
    size_t body = len - sizeof m->head;
    bool fits;

    if (len < sizeof m->head || m->head.len != len)
        return "wrong length";
    if (m->head.magic != SHM_MAGIC)
        return "not a control message";
    if (m->head.version != SHM_VERSION)
        return "version of another release";
    switch (m->head.type) {
    case SHM_DEVICE:
    case SHM_CONTROL: fits = body > 0 && body <= LOCI_CONTROL_MAX; break;
    case SHM_COPY: fits = copy_is_sound(&m->body.copy, body); break;
    case SHM_GOODBYE:
    case SHM_WANT_FD:
    case SHM_HERE_IS_FD:
    case SHM_MAPPED:
    case SHM_UNMAP:
    case SHM_NO_AREA:
    case SHM_AREA: fits = body == 0; break;
    default: return "unknown type";
    }
    return fits ? NULL : "wrong length of its type";
}

bool loci_shm_message_is_proven(const struct shm_fabric *f, const struct shm_message *m)
{
    uint64_t proof = loci_proof(f->rt->address.secret, LOCI_MESSAGE, m->head.from, m->head.label);

    return loci_same_proof(m->head.proof, proof);
}

/* ---- messages ---- */

static void said_goodbye(struct shm_peer *p)
{
    p->goodbye = true;
    if (p->gone)
        return;
    p->gone = true;
    loci_shm_stop_watching(p);
    loci_shm_area_close(p);
    loci_shm_offers_reclaim(p);
    loci_peer_gone(p->fabric->rt, p->peer, LOCI_PEER_LEFT, "it has closed its runtime");
    loci_shm_unmap_unused(p);
}

/* Returns whether `fd` was taken. */
static bool hand_on(struct shm_peer *p, const struct shm_message *m, int fd)
{
    switch (m->head.type) {
    case SHM_CONTROL:
        loci_control_receive(p->fabric->rt, p->peer->index, m->body.control,
                             m->head.len - sizeof m->head);
        return false;
    case SHM_DEVICE:
        if (p->fabric->device_receive != NULL)
            p->fabric->device_receive(p->fabric->device_ctx, p->peer, m->body.control,
                                      m->head.len - sizeof m->head);
        return false;
    case SHM_GOODBYE: said_goodbye(p); return false;
    case SHM_WANT_FD: loci_shm_fd_wanted(p, &m->head); return false;
    case SHM_HERE_IS_FD: loci_shm_fd_here(p, &m->head, fd); return true;
    case SHM_MAPPED: loci_shm_mapped(p, m->head.extent); return false;
    case SHM_UNMAP: loci_shm_unmap(p, m->head.extent); return false;
    case SHM_AREA: loci_shm_area_here(p, &m->head, fd); return true;
    case SHM_NO_AREA: loci_shm_area_refused(p, &m->head); return false;
    case SHM_COPY: loci_shm_copy_wanted(p, &m->body.copy); return false;
    default: return false;
    }
}

/* ---- senders ---- */

static void tell_dropped(struct shm_fabric *f, size_t len, const char *error)
{
    uint64_t times = loci_log_seldom(&f->dropped, loci_now(f->rt));

    if (times > 0)
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "message of %zu bytes on a control socket dropped: %s; it "
                 "is number %llu since the last such line", len, error, (unsigned long long)times);
}

static bool is_from(const struct shm_message *m, const struct shm_peer *p)
{
    return p->peer->address.identity == m->head.from && p->peer->address.label == m->head.label;
}

static struct shm_peer *known_sender(struct shm_fabric *f, const struct shm_message *m)
{
    int index = loci_peer_find(f->rt, m->head.from);
    struct shm_peer *p = index < 0 ? NULL : loci_peer(f->rt, index)->fabric_data;

    return p != NULL && is_from(m, p) ? p : NULL;
}

/* Under fabric->lock. */
static struct shm_peer *entered_sender(struct shm_fabric *f, const struct shm_message *m)
{
    struct shm_peer *p = f->peers;

    while (p != NULL && !is_from(m, p))
        p = p->next;
    return p;
}

/* A message that is lost here is waited for by its sender. Those that memory is out for have some
 * that was set aside. */
static struct shm_parked *take_spare(struct shm_fabric *f)
{
    for (int i = 0; f->spare != NULL && i < PARKED_SPARE; i++)
        if (!f->spare[i].used) {
            f->spare[i].used = true;
            return &f->spare[i].parked;
        }
    return NULL;
}

/* Under fabric->lock, or where nobody else is left. */
static void free_parked(struct shm_fabric *f, struct shm_parked *parked)
{
    for (int i = 0; i < PARKED_SPARE; i++)
        if (parked == &f->spare[i].parked) {
            f->spare[i].used = false;
            return;
        }
    free(parked);
}

/* Under fabric->lock. NULL, or why not. */
static const char *park(struct shm_fabric *f, const struct shm_message *m, size_t len)
{
    size_t bytes = offsetof(struct shm_parked, message) + len;
    struct shm_parked *parked;

    if (f->parked_bytes + bytes > PARKED_BYTES)
        return "no room for what comes from processes that are not known yet";
    parked = malloc(bytes);
    if (parked == NULL)
        parked = take_spare(f);
    if (parked == NULL)
        return "no memory to keep it until its sender is known";
    parked->next = NULL;
    parked->len = len;
    memcpy(&parked->message, m, len);
    *f->parked_last = parked;
    f->parked_last = &parked->next;
    f->parked_bytes += bytes;
    return NULL;
}

/* The sender of a message, or NULL: it is not known yet, and the message is parked. */
static struct shm_peer *sender_or_park(struct shm_fabric *f, const struct shm_message *m,
                                       size_t len)
{
    struct shm_peer *p = known_sender(f, m);
    const char *lost = NULL;

    if (p != NULL)
        return p;
    pthread_mutex_lock(&f->lock);
    p = entered_sender(f, m);
    if (p == NULL)
        lost = park(f, m, len);
    pthread_mutex_unlock(&f->lock);
    if (lost != NULL)
        tell_dropped(f, len, lost);
    return p;
}

bool loci_shm_is_early(struct shm_peer *p)
{
    const struct shm_parked *parked = p->fabric->parked;

    while (parked != NULL && !is_from(&parked->message, p))
        parked = parked->next;
    return parked != NULL;
}

/* The first parked message of that peer, taken out. */
static struct shm_parked *take_parked(struct shm_peer *p)
{
    struct shm_fabric *f = p->fabric;
    struct shm_parked **at, *parked;

    pthread_mutex_lock(&f->lock);
    at = &f->parked;
    while (*at != NULL && !is_from(&(*at)->message, p))
        at = &(*at)->next;
    parked = *at;
    if (parked != NULL) {
        *at = parked->next;
        if (parked->next == NULL)
            f->parked_last = at;
        f->parked_bytes -= offsetof(struct shm_parked, message) + parked->len;
    }
    pthread_mutex_unlock(&f->lock);
    return parked;
}

static void give_back(struct shm_fabric *f, struct shm_parked *parked)
{
    pthread_mutex_lock(&f->lock);
    free_parked(f, parked);
    pthread_mutex_unlock(&f->lock);
}

void loci_shm_unpark(struct shm_peer *p)
{
    struct shm_parked *parked;

    if (!atomic_load_explicit(&p->early, memory_order_relaxed))
        return;
    while ((parked = take_parked(p)) != NULL) {
        /* Whoever sends descriptors knows us, and has heard from us before. */
        hand_on(p, &parked->message, -1);
        give_back(p->fabric, parked);
    }
    atomic_store_explicit(&p->early, false, memory_order_relaxed);
}

void loci_shm_unpark_unread(struct shm_peer *p)
{
    struct shm_parked *parked;

    while ((parked = take_parked(p)) != NULL)
        give_back(p->fabric, parked);
}

bool loci_shm_parked_open(struct shm_fabric *f)
{
    f->parked_last = &f->parked;
    f->spare = calloc(PARKED_SPARE, sizeof f->spare[0]);
    return f->spare != NULL;
}

void loci_shm_parked_close(struct shm_fabric *f)
{
    struct shm_parked *parked;

    while ((parked = f->parked) != NULL) {
        f->parked = parked->next;
        free_parked(f, parked);
    }
    f->parked_last = &f->parked;
    free(f->spare);
    f->spare = NULL;
}

/* ---- the socket ---- */

/* What came beside the bytes: the sender's user, and the first descriptor; others are closed. */
static int take_extras(struct msghdr *m, bool *same_user)
{
    int first = -1;

    *same_user = false;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
        size_t n = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS
                   ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
        struct ucred who;

        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&who, CMSG_DATA(c), sizeof who);
            *same_user = who.uid == geteuid();
        }
        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (first < 0)
                first = fd;
            else
                close(fd);
        }
    }
    return first;
}

/* NULL: it is a peer's. */
static const char *error_of(const struct shm_fabric *f, const struct shm_message *m, size_t len,
                            bool same_user)
{
    const char *error = same_user ? loci_shm_message_error(m, len) : "it is another user's";

    if (error == NULL && !loci_shm_message_is_proven(f, m))
        error = "its sender does not know our secret";
    return error;
}

static void take_message(struct shm_fabric *f, const struct shm_message *m, size_t len,
                         bool same_user, int fd)
{
    const char *error = error_of(f, m, len, same_user);
    struct shm_peer *p = NULL;
    bool taken = false;

    if (error != NULL)
        tell_dropped(f, len, error);
    else
        p = sender_or_park(f, m, len);
    if (p != NULL) {
        loci_shm_unpark(p);
        taken = hand_on(p, m, fd);
    }
    if (fd >= 0 && !taken)
        close(fd);
}

/* False: there is nothing. */
static bool receive(struct shm_fabric *f)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(FDS_MANY * sizeof(int))];
    } control;
    struct shm_message message;
    struct iovec part = { &message, sizeof message };
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes,
        .msg_controllen = sizeof control.bytes,
    };
    ssize_t n = recvmsg(f->socket_fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    bool same_user;
    int fd;

    if (n < 0)
        return errno == EINTR;
    if (m.msg_flags & MSG_TRUNC)
        message.head.len = 0;       /* which no message has */
    fd = take_extras(&m, &same_user);
    take_message(f, &message, (size_t)n, same_user, fd);
    return true;
}

void loci_shm_readable(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    (void)rt;
    (void)fd;
    (void)events;
    for (int i = 0; i < AT_ONCE && receive(ctx); i++)
        ;
}

void loci_shm_drain(struct shm_fabric *f)
{
    for (int i = 0; i < DRAIN_MANY && receive(f); i++)
        ;
}
