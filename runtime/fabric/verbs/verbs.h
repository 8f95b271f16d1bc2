/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_VERBS_H
#define LOCI_VERBS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime.h"
#include "threads/errand.h"
#include "device.h"
#include "domain.h"

/* The fabric of RDMA devices, over reliable connections.
 *
 *   device.c    which devices there are and which is taken
 *   verbs.c     life, peers; what it leaves to shm
 *   register.c  own memory, made known to the device
 *   cache.c     registrations of the program's memory, kept
 *   words.c     the device's own memory, for the words of locks
 *   qp.c        a queue pair's states, with nothing of the runtime
 *   connect.c   queue pairs: opened when a thread first speaks to a peer, closed when it is gone
 *   thread.c    what a thread posts through: completion queue, buffers, thread domain (domain.h)
 *   post.c      requests
 *   long.c      those of many pieces
 *   poll.c      completions; failures
 *   links.h     messages to other machines (link*.c, ../link)
 *
 * It stands on shm, which has the memory itself and, among the processes of one kernel (of several
 * nodes by LOCO_NODE), the control messages and the knowledge of who is alive. Between machines
 * both are the links'.
 *
 * A lane is a queue pair that this process posts on and its peer never does; at the peer it ends
 * in one that only answers. Its requests complete in order, so a completion is asked for now and
 * then only and retires all before it: of reads, atomics, places and registered sources each time,
 * since somebody waits for them. A write whose source was copied, into the request or a buffer, is
 * done when it is posted (LOCO_OK); that it reaches its peer the next fence, or the runtime's
 * close, sees to.
 *
 * Room: a lane has `depth` requests, a thread as many as its completion queue has entries, over all
 * lanes, so that the queue cannot overflow though each request failed. From half of either, or of
 * the buffers, on each request asks for its completion: what was posted without holds one half at
 * most, and the other comes back. And the process has credits for what it has outstanding at the
 * device (move/credit.c), which go with the request's place in the ring.
 *
 * Locks: lane and thread state is under the runtime's lock of that thread. fabric->lock is taken
 * inside it or alone, and nothing is called under it. */

#define VERBS_BLOCK ((size_t)16 << 10)  /* sources and destinations up to this size are copied */
#define VERBS_BLOCKS 32                 /* of these, per thread */
#define VERBS_WORD 64                   /* the same for words */
#define VERBS_WORDS 255                 /* the 256th, of pages that are full, is `placed` */
#define VERBS_QUEUE 4096                /* entries of a thread's completion queue, if it may */

#define VERBS_KEPT 128                  /* registrations of the program's memory */

struct shm_fabric;
struct verbs_lane;
struct loci_link;
struct verbs_links;

/* A buffer that the device may read and write; in one of its thread's lists while free. */
struct verbs_buffer {
    unsigned char *base;
    struct verbs_buffer *next;
    bool is_word;
};

struct verbs_request {
    struct verbs_lane *lane;
    struct loci_slot *slot;         /* who is told, or NULL */
    uint64_t places;                /* of a write: as in struct loci_op; of others 0 */
    enum loci_op_kind kind;
    size_t len;
    void *to;                       /* where a read or an atomic puts what the buffer gets */
    struct verbs_buffer *buffer;
    struct verbs_registration *user;    /* of source or destination, its last request's */
    size_t answer;                  /* bytes of an answer that counts in the lane's `unanswered` */
    bool asked;                     /* its completion is asked for */
};

/* A long write or read, of which not all pieces are posted; len 0: there is none. `user` NULL: the
 * program's memory cannot be registered, and goes through the thread's buffers. */
struct verbs_long {
    enum loci_op_kind kind;
    unsigned char *local;
    uint64_t remote;
    uint32_t rkey;
    size_t len, at;
    struct verbs_registration *user;
    struct loci_slot *slot;
    uint64_t places;                /* as in struct verbs_request */
};

/* What one thread posts through. */
struct verbs_thread {
    struct verbs_fabric *fabric;
    struct verbs_domain *domain;    /* NULL: the device has none */
    struct ibv_pd *pd;              /* of the thread domain; else the fabric's */
    struct ibv_cq *cq;
    unsigned entries, outstanding;  /* of the completion queue; requests not retired */
    unsigned char *memory;          /* of the buffers, and of what places read */
    struct ibv_mr *mr;
    struct verbs_buffer *buffers, *blocks, *words;
    unsigned char *placed;          /* where a place's 8 bytes go, all of them; nobody looks */
    unsigned free_blocks, free_words;
    struct verbs_thread *next;
};

/* A queue pair of a lane; mostly the only one. */
struct verbs_lane {
    struct loci_lane *lane;
    struct verbs_thread *thread;
    struct ibv_qp *qp;
    uint64_t anchor;                /* what a place reads: an address of the peer's */
    uint32_t anchor_key;
    uint32_t end;                   /* number of the queue pair that answers */
    uint32_t depth, max_inline;
    uint32_t posted, retired;       /* requests since it was opened */
    uint32_t asked;                 /* posted, when a completion was asked for last */
    size_t unanswered;              /* bytes of long reads in flight */
    struct verbs_long rest;
    bool broken;                    /* nothing is posted any more */
    bool lost;                      /* writes with it, or who knows what */
    bool silent;                    /* given up without completions: it has no qp any more */
    int64_t silent_after;           /* broken: when that is done */
    struct verbs_request *ring;
    struct verbs_lane *twin;        /* the lane's other queue pair, where it has two (post.c) */
    struct verbs_lane *next;        /* silent, and of no lane any more */
};

/* An end of a peer's lane: it answers. */
struct verbs_end {
    struct ibv_qp *qp;
    uint32_t of;                    /* number of the peer's queue pair */
    struct verbs_end *next;
};

struct verbs_peer {
    struct loci_peer *peer;
    _Atomic bool lost;              /* the device gave up: for the service thread */
    _Atomic unsigned errands;       /* for it, sent and not over */
    struct loci_link *link;         /* NULL: it runs on this kernel */
    struct verbs_end *ends;         /* the fabric's lock, as the next */
    unsigned nends;
};

/* Memory of the program's, known to the device; see cache.c. */
struct verbs_registration {
    struct ibv_mr *mr;              /* NULL: this entry is free */
    _Atomic uintptr_t begin, end;   /* begin 0: none */
    _Atomic bool stale;             /* some of it was given back: not for anybody else */
    int rights;
    unsigned users;
    uint64_t used;                  /* by age; of the cache's `uses` */
};

struct verbs_cache {
    pthread_mutex_t lock;           /* inside a thread's lock, or alone */
    bool watched;                   /* memory that is given back is marked, so something is kept */
    size_t bytes;                   /* in entries */
    uint64_t uses;
    struct verbs_registration entries[VERBS_KEPT];
};

/* Memory that the user brought, at the place that shm has given it. */
struct verbs_user {
    struct verbs_registration *memory;  /* NULL: the place is free, or it has no bytes */
};

/* What there is of the device's own memory; words.c. */
struct verbs_chunk;

struct verbs_words {
    pthread_mutex_t lock;
    struct verbs_chunk *chunks;
    size_t bytes;                   /* in them */
    bool refused;                   /* the device had no more */
};

/* What a thread waits for: how to reach the end that the peer has made. */
struct verbs_call;

struct verbs_fabric {
    struct loco_runtime *rt;
    struct shm_fabric *shm;
    bool beside_shm;                /* memory of one node is mapped */

    struct loci_device_port port;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *end_cq;          /* of ends, which complete nothing */
    union ibv_gid gid;
    unsigned char *anchor;          /* a page for peers' places to read: nothing of it, or zeros */
    struct ibv_mr *anchor_mr;
    uint64_t no_answer;             /* what a buffer begins with before its answer, on soft-RoCE */
    int news_fd;                    /* eventfd: a peer was lost, or registered memory is gone */
    struct verbs_cache cache;
    struct verbs_words words;
    struct loci_errands errands;
    struct verbs_domains domains;
    _Atomic unsigned homeless;      /* threads without a thread domain */
    _Atomic bool sharing_said;      /* that threads share */
    _Atomic bool copies;            /* the log was told that long operations go through buffers */
    struct verbs_links *links;      /* NULL: none can be made */
    const char *no_links;           /* why not */

    struct loci_log_seldom dropped, refused; /* messages; who asks for an end */

    pthread_mutex_t lock;           /* all that follows */
    struct verbs_thread *threads;
    struct verbs_lane *silent;
    struct verbs_end *own_ends;     /* of this process to itself; a peer's are in its verbs_peer */
    struct verbs_user *users;
    uint32_t users_room;
    struct verbs_call *calls;
    uint64_t calls_made;
};

/* In loci_memkey.device, beside the rkey. */
#define VERBS_REGISTERED (UINT64_C(1) << 32)
#define VERBS_READ_ONLY (UINT64_C(1) << 33)     /* the owner may not write there, so nobody may */

/* verbs.c */
/* A message to connect.c at the peer. */
int loci_verbs_tell(struct loci_peer *peer, const void *message, size_t len);

/* link.c */
/* Be there for other machines, and say where in *mine. Where that cannot be, there are none. */
void loci_verbs_links_open(struct verbs_fabric *f, struct loci_address *mine);
/* Sends what is queued, for a second at most. */
void loci_verbs_links_close(struct verbs_fabric *f);
int loci_verbs_link_add(struct verbs_fabric *f, struct loci_peer *peer, struct loci_link **link);

/* register.c */
int loci_verbs_extent_create(struct loci_fabric *fabric, struct loci_extent *extent);
int loci_verbs_extent_grow(struct loci_fabric *fabric, struct loci_extent *extent,
                           size_t from, size_t to);
void loci_verbs_extent_destroy(struct loci_fabric *fabric, struct loci_extent *extent);
int loci_verbs_user_add(struct loci_fabric *fabric, void *base, size_t len,
                        struct loci_memkey *key);
void loci_verbs_user_remove(struct loci_fabric *fabric, const struct loci_memkey *key);
void loci_verbs_users_close(struct verbs_fabric *f);
/* Whether memory was not registered for what its pages are, not for their number: they may not be
 * written, or not be pinned at all. */
static inline bool loci_verbs_is_protection(int error)
{
    return error == EFAULT || error == EACCES || error == EPERM;
}
/* Behind the errno of what the device did not do: what helps, where it is the usual limit. */
static inline const char *loci_verbs_remedy(int error)
{
    return error == ENOMEM ? "; raise the limit of locked memory (ulimit -l, memlock)" : "";
}

/* cache.c */
void loci_verbs_cache_open(struct verbs_fabric *f);
void loci_verbs_cache_close(struct verbs_fabric *f);
/* The program's memory with these rights of ibv_reg_mr, or, where it may not be written, `least` of
 * them. NULL: errno says why. Any thread. */
struct verbs_registration *loci_verbs_register(struct verbs_fabric *f, void *base, size_t len,
                                               int rights, int least);
void loci_verbs_unregister(struct verbs_fabric *f, struct verbs_registration *r);
/* Keep nothing that is not in use; whether there was anything. */
bool loci_verbs_keep_less(struct verbs_fabric *f);
/* Let go of what was given back. */
void loci_verbs_drop_stale(struct verbs_fabric *f);

/* words.c */
int loci_verbs_words_take(struct loci_fabric *fabric, size_t len, struct loci_memkey *key);
void loci_verbs_words_give(struct loci_fabric *fabric, const struct loci_memkey *key);
void loci_verbs_words_close(struct verbs_fabric *f);

/* connect.c */
int loci_verbs_lane_open(struct loci_fabric *fabric, struct loci_lane *lane);
void loci_verbs_lane_close(struct loci_fabric *fabric, struct loci_lane *lane);
int loci_verbs_lane_mend(struct loci_fabric *fabric, struct loci_lane *lane);
/* Service thread: what a peer's connect.c has sent. */
void loci_verbs_receive(void *fabric, struct loci_peer *peer, const void *message, size_t len);
/* All ends of that peer. */
void loci_verbs_ends_drop(struct verbs_fabric *f, const struct loci_peer *peer);
/* In time its ends are given back, and lanes to it hold nothing any more. */
void loci_verbs_peer_gone(struct loci_fabric *fabric, struct loci_peer *peer);

/* thread.c */
/* The thread's part; made on its first lane. NULL: the log has been told. */
struct verbs_thread *loci_verbs_thread(struct verbs_fabric *f, struct loci_thread *thread);
void loci_verbs_threads_close(struct verbs_fabric *f);
/* A buffer for so many bytes, at most a block; NULL: none is free now. */
struct verbs_buffer *loci_verbs_buffer_take(struct verbs_thread *t, size_t len);
void loci_verbs_buffer_give(struct verbs_thread *t, struct verbs_buffer *buffer);

/* post.c */
int loci_verbs_post(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *ops, int n,
                    int *posted);
int loci_verbs_write(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *op);
/* For one request more, of so many bytes. */
bool loci_verbs_has_room(const struct verbs_lane *l, size_t bytes);
/* Give it to the device, and remember what is to be done on completion. The caller has seen that
 * there is room. `ask`: its completion is wanted, as that of one with a slot always is. */
int loci_verbs_give(struct verbs_lane *l, struct ibv_send_wr *wr,
                    const struct verbs_request *what, bool ask);

/* long.c */
/* Take a long write or read; some of it may be posted only when the lane is polled. */
int loci_verbs_long(struct verbs_lane *l, const struct loci_op *op);
/* Go on with it; false: not all of it is posted yet, and nothing else may be. */
bool loci_verbs_long_posted(struct verbs_lane *l);
/* Nothing of it is in flight, nor left to be posted. */
static inline bool loci_verbs_is_idle(const struct verbs_lane *l)
{
    return l->posted == l->retired && l->rest.len == 0;
}
/* The lane posts nothing any more: who waits for it is told why. */
void loci_verbs_long_fail(struct verbs_lane *l, int status);

/* poll.c */
int loci_verbs_poll(struct loci_fabric *fabric, struct loci_lane *lane);
/* Nothing more is posted; who waits for the lane sees why. */
void loci_verbs_break(struct verbs_lane *l, int status);
/* The same, and the device flushes what is in flight. */
void loci_verbs_flush(struct verbs_lane *l, int status);
/* The queue pair is no more, and its completions are taken. The lane is idle, or broken. */
void loci_verbs_end_way(struct verbs_lane *l);
/* Retire what is left of a lane whose queue pair is no more. */
void loci_verbs_retire_all(struct verbs_lane *l, int status);

static inline struct verbs_fabric *verbs_of(struct loci_fabric *fabric)
{
    return (struct verbs_fabric *)fabric;
}

static inline struct loci_fabric *verbs_shm(struct loci_fabric *fabric)
{
    return (struct loci_fabric *)verbs_of(fabric)->shm;
}

#endif
