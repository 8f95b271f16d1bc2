/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_SHM_H
#define LOCI_SHM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "memory/promise.h"
#include "memory/turn.h"
#include "runtime.h"
#include "secret.h"
#include "threads/errand.h"

/* The fabric of one node.
 *
 *   shm.c      life, peers
 *   user.c     memory that the user brought
 *   extent.c   own memory files
 *   map.c      peers' memory files, mapped here
 *   copy.c     post: copies, process_vm_readv/writev
 *   peek.c     short copies, /proc/PID/mem
 *   offer.c    small copies by a peer that is waiting anyway
 *   assist.c   copies through the owner's service thread
 *   own.c      own memory, touched for peers
 *   link.c     control messages: sending
 *   receive.c  control messages: checking, handing on
 *   task.c     ways to a peer's process in the kernel
 *   timer.c    what the service thread does by the clock
 *   alive.c    who is alive
 *
 * Locks: fabric->lock before none, peer->lock before none: neither is held while the other is
 * taken, and neither while loci_* of the runtime is called, save loci_service_watch. */

struct shm_message;
struct shm_queued;
struct shm_area;
struct shm_offers;

/* Own memory file. */
struct shm_extent {
    uint64_t number;
    int fd;
    uint64_t inode;
    unsigned char *base;
    size_t len;
    bool huge;                          /* hugetlb pages */
    /* Under fabric->lock: */
    size_t committed;                   /* bytes, filled or owed */
    unsigned char *owed;                /* of each piece, whether it may be unfilled; NULL: none */
    size_t pieces_owed;
    struct shm_peer **mappers;          /* who told us that it maps this */
    unsigned nmappers;
    struct shm_extent *next;
};

/* A place for memory of the user that peers may ask us to copy. The lower bits of its number say
 * which. */
#define SHM_USERS (UINT64_C(1) << 24)
#define SHM_USED UINT32_MAX
#define SHM_NO_USER (UINT32_MAX - 1)

struct shm_user {
    uint64_t number;                    /* of the next that takes the place, while it is free */
    uint32_t next; /* SHM_USED; or free, and the next that is, or SHM_NO_USER */
    uint64_t base, len;
};

/* A peer's memory file, mapped here. */
struct shm_mapping {
    uint64_t extent;
    unsigned char *base;                /* NULL: it could not be mapped, */
    int64_t again_at;                   /* and is tried again then, */
    bool asked;                         /* or the owner was asked for the file */
    uint64_t rkey;                      /* of this key */
    size_t len;
    unsigned users;                     /* handles with an address in it, */
    bool freed;                         /* and whether its owner has freed it: map.c */
    struct shm_mapping *next;
};

/* What a thread waits for: a peer's answer to a request. On its stack; in the fabric's list. */
struct shm_call {
    uint64_t id;
    struct shm_peer *peer;
    int fd;                             /* answer: a descriptor, or -1 */
    _Atomic int done;
    struct shm_call *next;
};

struct shm_parked;
struct shm_spare;
struct shm_kept;

enum shm_cma { SHM_CMA_TRY, SHM_CMA_FORBIDDEN };
enum shm_mem_fd { SHM_MEM_UNOPENED = -1, SHM_MEM_NONE = -2 };

/* Whether a peer takes offers: how many to leave out, and of how many (2^backoff) next time. */
struct shm_guess {
    _Atomic unsigned to_skip, backoff;
};

/* A mapping of a peer's that can be written, as of when the system was asked; peek.c. */
struct shm_writable {
    _Atomic unsigned turn;              /* odd: it is being changed */
    _Atomic unsigned strange;           /* writes elsewhere */
    _Atomic uint64_t from, to;
};

/* A memory file of ours to copy through; own.c. */
struct shm_scratch {
    unsigned char *base;                /* NULL: not used yet */
    int fd;
    size_t len;
};

struct shm_peer {
    struct shm_fabric *fabric;
    struct loci_peer *peer;
    _Atomic int cma;                    /* enum shm_cma */
    _Atomic int32_t task;               /* a thread of its, for the kernel; task.c */
    _Atomic bool parted;                /* we have said goodbye: its end is no news any more */
    _Atomic(struct shm_offers *) offers;    /* its page for offers; offer.c */
    _Atomic int64_t offers_again;       /* when its page, which cannot be mapped, is tried again;
                                           INT64_MAX: it has none */
    struct shm_guess offers_guess, strided_guess, share_guess;
    _Atomic int mem_fd;                 /* its memory, or SHM_MEM_*; peek.c */
    _Atomic int64_t mem_again;          /* as offers_again */
    struct shm_writable writable;

    struct sockaddr_un name;            /* of its socket */
    socklen_t name_len;
    uint64_t pass, proof;               /* what our messages bear */
    _Atomic bool early;                 /* messages of it are parked: receive.c */

    pthread_mutex_t lock;               /* up to the next blank line */
    int pid_fd;                         /* -1: none, the timer looks after it; alive.c */
    bool hung_up;                       /* it can not be reached any more */
    struct shm_queued *first, **last;   /* messages that did not fit into the socket */
    struct shm_mapping *mappings;
    struct shm_area *area;              /* we copy through it in its memory; assist.c */
    _Atomic unsigned queued;            /* messages; read without the lock */

    /* The service thread's. */
    bool polled;                        /* counted in fabric->polled */
    bool goodbye;                       /* it has told that it closes */
    bool gone;                          /* loci_peer_gone was called */
    unsigned char *its_area;            /* where it wants its copies; NULL: not told yet */

    struct shm_peer *next;              /* fabric->lock */
};

/* At what others owe, by another thread than the service thread, which asks for it: extent.c. */
struct shm_look {
    struct loci_errand errand;          /* the first member */
    struct shm_fabric *fabric;
    _Atomic bool under_way, scarce;
};

struct shm_fabric {
    struct loco_runtime *rt;
    /* Beside a device that carries the data: peers are all processes of this kernel, those of other
     * nodes for messages alone; in the service thread, a message for the device's own part. */
    void (*device_receive)(void *ctx, struct loci_peer *peer, const void *bytes, size_t len);
    void *device_ctx;
    int socket_fd;                      /* all control messages, both ways */
    int probe_fd; /* -1 until a peer's life has to be asked for; peers' lock */
    int timer_fd;                       /* wakes the service thread; timer.c */
    _Atomic unsigned waiting;           /* peers with queued messages, */
    _Atomic unsigned polled;            /* whose life is asked for, now and then, */
    _Atomic unsigned watched;           /* and of which a pidfd tells; asked for, too, but seldom */
    _Atomic bool early;                 /* a peer has become known of which messages are parked */
    int64_t retry_ns, probe_at;         /* the service thread's, as are the next three: */
    int64_t owners_at;
    struct loci_log_seldom dropped;     /* lines about messages */
    _Atomic int64_t doubt_at;           /* 0: not set yet */
    _Atomic unsigned mem_fds;           /* peers' memory that is open; peek.c */
    struct loci_turn turn;
    int64_t deaf_until;                 /* others do not fill what they owe; in turn */
    _Atomic size_t pieces_owed;         /* of all extents; under lock, as are the next two */
    _Atomic size_t reserve;             /* pieces that others believe to be owed, too */
    _Atomic int64_t reserve_until;
    int64_t settle_at;                  /* the service thread's */
    bool settle_failed;
    struct shm_look look;
    struct loci_errands errands;        /* of the above */
    bool populate;                      /* huge pages come with page faults, not with fallocate */
    uint64_t pid_space;                 /* 0: /proc does not show our pids */
    _Atomic int closing, closed;
    struct shm_offers *offers;          /* page where peers offer copies; NULL: none */
    int offers_fd;
    _Atomic uint64_t heard;             /* its bell when last looked at; written under lock */

    pthread_mutex_t lock;               /* all that follows */
    struct loci_promises promises;
    struct shm_peer *peers;
    struct shm_parked *parked, **parked_last;   /* messages of whom we do not know yet */
    struct shm_spare *spare;            /* room for some of them when memory is out */
    size_t parked_bytes;
    struct shm_kept *kept;              /* room for messages to queue, too; link.c */
    _Atomic uint32_t kept_free;         /* a bit each */
    struct shm_extent *extents;
    struct shm_user *users;
    uint32_t users_room, free_user;
    struct shm_scratch scratch;         /* own.c */
    struct shm_call *calls;
    uint64_t calls_made;

    struct shm_scratch room;            /* of `touch`: one thread at a time */
};

/* ---- messages, as they go through the sockets ---- */

#define SHM_MAGIC UINT32_C(0x6d68736c)
#define SHM_VERSION 4

enum shm_type {
    SHM_CONTROL = 2,    /* for loci_control_receive */
    SHM_GOODBYE,        /* the sender closes its runtime */
    SHM_WANT_FD,        /* the descriptor of an extent, please */
    SHM_HERE_IS_FD,     /* answer, with the descriptor or without */
    SHM_MAPPED,         /* the sender has mapped an extent of ours */
    SHM_UNMAP,          /* an extent of the sender is gone */
    SHM_AREA,           /* with a descriptor: where the sender wants its copies */
    SHM_COPY,           /* copy for the sender */
    SHM_NO_AREA,        /* the sender cannot map the receiver's area: it does not copy */
    SHM_DEVICE          /* for the device's part of this fabric */
};

struct shm_head {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t len;               /* bytes of the whole message */
    uint32_t unused;
    uint64_t extent;            /* WANT_FD, MAPPED, UNMAP */
    uint64_t call;              /* WANT_FD, HERE_IS_FD; AREA, NO_AREA: which area */
    uint64_t pass;              /* the receiver's: the system tosses what has another one */
    uint64_t from, label;       /* the sender's identity and label */
    uint64_t proof;             /* that it knows the receiver's secret: secret.h */
};

#define SHM_SPANS 64

struct shm_span {
    uint64_t at;                /* address of user memory, offset in an extent */
    uint64_t len;
};

struct shm_copy {
    uint32_t op;                /* enum loci_op_kind */
    uint32_t kind;              /* enum loci_mem_kind */
    uint32_t slot;              /* of the sender's area */
    uint32_t nspans;
    uint64_t number;            /* of the extent or the user's memory */
    uint64_t operand, compare;
    struct shm_span span[SHM_SPANS];
};

struct shm_message {
    struct shm_head head;
    union {
        struct shm_copy copy;
        unsigned char control[LOCI_CONTROL_MAX];
    } body;
};

/* ---- extent.c ---- */
int loci_shm_extent_create(struct loci_fabric *fabric, struct loci_extent *extent);
int loci_shm_extent_grow(struct loci_fabric *fabric, struct loci_extent *extent, size_t from,
                         size_t to);
void loci_shm_extent_shrink(struct loci_fabric *fabric, struct loci_extent *extent, size_t from,
                            size_t to);
void loci_shm_extent_destroy(struct loci_fabric *fabric, struct loci_extent *extent);
int loci_shm_renew(struct loci_fabric *fabric, void *base, size_t len);
/* Whether the system gives memory files huge pages only where madvise asks for them. */
bool loci_shm_needs_populate(void);
/* The service thread, by the clock: fill some of what was handed out and is not filled yet. */
void loci_shm_settle(struct shm_fabric *f);
/* ns until it wants to be called; 0: nothing is owed. */
int64_t loci_shm_settle_pause(struct shm_fabric *f);
/* Where nothing may be owed, all is filled at once. */
void loci_shm_promises_open(struct shm_fabric *f);
/* The service thread settles nothing any more. */
void loci_shm_promises_close(struct shm_fabric *f);
/* Under fabric->lock: the own extent of that number, or NULL. */
struct shm_extent *loci_shm_extent(struct shm_fabric *f, uint64_t number);
/* A peer has mapped an extent of ours. */
void loci_shm_mapped(struct shm_peer *p, uint64_t number);
/* Under fabric->lock: the peer is to be told of none any more. */
void loci_shm_forget_mapper(struct shm_peer *p);
/* Address space for `len` bytes of `fd`, aligned to 2 MiB; NULL. */
unsigned char *loci_shm_map_aligned(int fd, size_t len);
#define SHM_KEY_FD_BITS 24
static inline uint64_t shm_rkey(uint64_t inode, int fd)
{
    return inode << SHM_KEY_FD_BITS | (uint64_t)fd;
}

/* ---- map.c ---- */
unsigned char *loci_shm_map(struct loci_fabric *fabric, const struct loci_mem *mem);
/* Without waiting for the owner: NULL where it has to be asked, and later it is mapped. */
unsigned char *loci_shm_map_soon(struct loci_fabric *fabric, const struct loci_mem *mem);
/* The other side of map. */
void loci_shm_unuse(struct loci_fabric *fabric, const struct loci_mem *mem);
/* Service thread: its owner has freed that extent; the peer has gone. */
void loci_shm_unmap(struct shm_peer *p, uint64_t number);
void loci_shm_unmap_unused(struct shm_peer *p);
/* Nobody uses the peer. */
void loci_shm_unmap_all(struct shm_peer *p);
/* A peer wants a descriptor of ours; a peer's answer to us (takes fd, or closes it). */
void loci_shm_fd_wanted(struct shm_peer *p, const struct shm_head *head);
void loci_shm_fd_here(struct shm_peer *p, const struct shm_head *head, int fd);

/* ---- copy.c, assist.c ---- */
int loci_shm_post(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *ops, int n,
                  int *posted);
/* One run of user memory at an address in the owner, or strips of it and packed bytes, by
 * process_vm_*: LOCO_ERR_AGAIN where that is forbidden. */
int loci_shm_copy_run(struct shm_peer *p, enum loci_op_kind kind, uint64_t at, void *local,
                      size_t len);
int loci_shm_copy_strips(struct shm_peer *p, const struct loci_strided *op);
/* Have the owner do the first ops of the chain: as many as one request carries, part of one, or
 * an atomic. Outputs how many ops, and bytes of the next one, are done. */
int loci_shm_assist(struct shm_peer *p, const struct loci_op *ops, int n, size_t skip, int *done,
                    size_t *part);
/* Service thread: a peer's area (takes fd), a peer's request. */
void loci_shm_area_here(struct shm_peer *p, const struct shm_head *head, int fd);
/* Service thread: the peer cannot copy for us; those who wait for it are told. */
void loci_shm_area_refused(struct shm_peer *p, const struct shm_head *head);
void loci_shm_copy_wanted(struct shm_peer *p, const struct shm_copy *copy);
void loci_shm_area_close(struct shm_peer *p);
void loci_shm_own_area_close(struct shm_peer *p);
/* What this thread touches from here to the other call, it does for another process. */
void loci_shm_as_another_process(bool begin);

/* ---- task.c ---- */
/* process_vm_readv or _writev of n spans. */
ssize_t loci_shm_vm_copy(struct shm_peer *p, bool write, const struct iovec *local,
                         const struct iovec *remote, size_t n);
/* A file of the peer's folder of /proc, or -1. */
int loci_shm_open_of(struct shm_peer *p, const char *file, int flags);

/* ---- peek.c ---- */
/* Read, or write, user memory at an address in the owner, where process_vm_* are allowed. False: it
 * is not done, or in part, which says nothing of why; it may just be too long for this way. */
bool loci_shm_peek(struct shm_peer *p, uint64_t at, void *local, size_t len);
bool loci_shm_poke(struct shm_peer *p, uint64_t at, const void *local, size_t len);
void loci_shm_peek_close(struct shm_peer *p);

/* ---- shm.c ---- */
/* The fabric as another one's part; device_receive NULL: on its own. */
int loci_shm_open(struct loco_runtime *rt, struct loci_address *mine, struct shm_fabric **out,
                  void (*device_receive)(void *ctx, struct loci_peer *peer, const void *bytes,
                                         size_t len), void *device_ctx);
/* A message to the device's part at a peer. */
int loci_shm_device_send(struct loci_peer *peer, const void *message, size_t len);

/* ---- user.c ---- */
int loci_shm_user_add(struct loci_fabric *fabric, void *base, size_t len, struct loci_memkey *key);
void loci_shm_user_remove(struct loci_fabric *fabric, const struct loci_memkey *key);
/* Under fabric->lock: the user's memory of that number, or NULL. */
struct shm_user *loci_shm_user(struct shm_fabric *f, uint64_t number);
static inline uint32_t loci_shm_user_place(uint64_t number)
{
    return (uint32_t)(number & (SHM_USERS - 1));
}

/* ---- link.c ---- */
int loci_shm_socket_open(struct shm_fabric *f);
bool loci_shm_queues_open(struct shm_fabric *f);
void loci_shm_queues_close(struct shm_fabric *f);
/* The name of that process's socket. */
socklen_t loci_shm_socket_name(const struct loci_address *a, struct sockaddr_un *name);
/* What messages to that peer bear. */
void loci_shm_prepare(struct shm_peer *p);
/* Send or queue; `fd` goes along if not -1 (it is duplicated where it has to wait). May wait for
 * a bounded time while very many messages are queued, but not in the service thread. */
int loci_shm_send(struct shm_peer *p, const struct shm_head *head, const void *body, size_t len,
                  int fd);
/* Service thread: try again what could not be sent. Whether something was. */
bool loci_shm_flush(struct shm_peer *p);
void loci_shm_link_close(struct shm_peer *p);

/* ---- receive.c ---- */
void loci_shm_readable(struct loco_runtime *rt, void *ctx, int fd, uint32_t events);
/* Service thread: take what has arrived. */
void loci_shm_drain(struct shm_fabric *f);
/* Under fabric->lock: whether messages of this peer came before it was known. */
bool loci_shm_is_early(struct shm_peer *p);
/* Service thread: these messages. */
void loci_shm_unpark(struct shm_peer *p);
/* Messages that came from this peer before it was known are for nobody. */
void loci_shm_unpark_unread(struct shm_peer *p);
bool loci_shm_parked_open(struct shm_fabric *f);
void loci_shm_parked_close(struct shm_fabric *f);
/* NULL where head and length make sense, else what is wrong. */
const char *loci_shm_message_error(const struct shm_message *m, size_t len);
/* Whether its sender knows our secret. */
bool loci_shm_message_is_proven(const struct shm_fabric *f, const struct shm_message *m);

/* ---- timer.c ---- */
int loci_shm_timer_open(struct shm_fabric *f);
/* Any thread, when it has given the timer something to do: `waiting`, `polled`, `watched`, `early`,
 * closing. */
void loci_shm_timer_soon(struct shm_fabric *f);
/* Any thread: the peer that was entered first; the others follow by `next`. */
struct shm_peer *loci_shm_first_peer(struct shm_fabric *f);

/* ---- alive.c ---- */
int loci_shm_watch_life(struct shm_peer *p);
/* Under its lock: whether a pidfd says that the process is there. */
bool loci_shm_surely_alive(const struct shm_peer *p);
/* Whether the socket that the peer opened has gone, whoever has its name. False, too, where the
 * system does not say. */
bool loci_shm_socket_is_gone(const struct shm_peer *p);
/* Service thread: ask for the life of those who have no pidfd; of those who have one. */
void loci_shm_probe_polled(struct shm_fabric *f);
void loci_shm_probe_watched(struct shm_fabric *f);
/* Service thread: the peer's process has ended, or its runtime. */
void loci_shm_ended(struct shm_peer *p, const char *how);
/* Service thread: nobody asks for its life any more. */
void loci_shm_stop_watching(struct shm_peer *p);
void loci_shm_alive_close(struct shm_peer *p);
/* Field 22 of /proc/PID/stat, 0 where it cannot be read. */
uint64_t loci_shm_start_time(int32_t pid);

/* ---- shm.c ---- */
/* Everything that a handler may touch is closed by the thread that runs the handlers. */
void loci_shm_close_all(struct shm_fabric *f);

static inline struct shm_fabric *shm_of(struct loci_fabric *fabric)
{
    return (struct shm_fabric *)fabric;
}

#endif
