/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_FABRIC_H
#define LOCI_FABRIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <loco/runtime.h>

/* The fabric contract.
 *
 * A fabric moves bytes between the registered memory of two processes without the target's CPU.
 * Operations are posted on a lane: one thread's way to one peer, ordered as an RC queue pair
 * orders.
 *
 *   operation               when it is complete at the origin
 *   LOCI_WRITE              source reusable; NOT yet placed or visible
 *   LOCI_READ               data is local; all earlier writes on this lane are placed
 *   LOCI_FETCH_ADD, _SWAP   old value is local; earlier writes on this lane are placed
 *   LOCI_PLACE              all earlier writes on this lane are placed
 *
 * A write with `merge` (merges) is a write in all else: unanswered, placed in its turn. But what it
 * places is not stored: each word becomes what the owner's CPU makes of it and of the word that is
 * written, by an atomic of that CPU (loci_merge_fn).
 *
 * Reads, atomics and places of a lane are executed in the order of their posts, each after the
 * writes before it; only writes may be placed before a read that was posted earlier is executed.
 * Who reads an entry and then frees it by an atomic, both in flight, relies on that.
 * Post takes a chain of operations, which are ordered and complete as if each were posted alone.
 * It returns, of the last, LOCO_OK (done; op->slot was not used) or LOCO_IN_PROGRESS (the slot
 * will be told by poll), or else why it stopped: an error, or LOCO_ERR_AGAIN. Whatever it returns,
 * the first *posted operations were taken, and op->in_flight says of each which of the two it is;
 * of the rest nothing was, and no slot of it will be told. A fabric whose writes are visible when
 * post returns (shm) says so with `synchronous`, and its lanes are never dirty; there nothing is in
 * flight, and post does not say so of each. A lane may be so alone (lane->synchronous, set by
 * lane_open): that of a peer which the fabric reaches as such a fabric does.
 * A lane to LOCI_SELF is one like the others (a device loops back): atomics of the nic domain on
 * this process's own memory are posted there, and all that is done to LOCI_MEM_DEVICE. Nothing else
 * is written on it; what the CPU stored before a post, in its own memory too, is visible to
 * whatever the operation sets off.
 * Where the owner's CPU does the atomics (owner_atomics), they are atomic to those of its own code
 * and of whoever has the memory mapped, user memory included; a lane has the same order. What is
 * posted to a process of the same node may be done by the time that post returns.
 * A lane's atomics and reads of LOCI_MEM_DEVICE are executed in order, and after its writes there;
 * but that may be before earlier operations on other memory are, and says nothing of them:
 * LOCI_PLACE does.
 * The runtime serialises posts and polls of one thread's lanes, but not where `synchronous` is
 * set: there nobody touches another thread's lanes. Post never blocks for room: LOCO_ERR_AGAIN
 * says that there is none now (poll and try again). */

struct loci_runtime;
struct loci_bells;
struct loci_peer;
struct loci_extent;
struct loci_lane;
struct loci_slot;

enum loci_mem_kind {
    LOCI_MEM_NONE = 0,
    LOCI_MEM_POOL,      /* a sub-range of an extent of the owner */
    LOCI_MEM_USER,      /* memory that the user brought, at its address in the owner */
    LOCI_MEM_DEVICE     /* the device's own (words_take): no CPU sees it, its owner's neither */
};

/* Of numbers that name memory. None is used twice: with a million each second they would last for
 * tens of thousands of years. */
#define LOCI_MEMKEY_BITS 60
#define LOCI_MEMKEY_MOST ((UINT64_C(1) << LOCI_MEMKEY_BITS) - 1)

/* A range of one process's network memory, as it is told to others. Plain data, sent as it is
 * between processes of one build; checked by whoever imports it. */
struct loci_memkey {
    uint64_t kind : 4;  /* enum loci_mem_kind */
    uint64_t extent : LOCI_MEMKEY_BITS; /* owner's number of the extent, or of user memory's */
    uint64_t base;      /* offset in the extent, or address in the owner */
    uint64_t len;
    uint64_t rkey;      /* the fabric's own */
    uint64_t device;    /* what an RDMA device knows it by, where there is one */
};

/* Whose atomics change a range's words (DESIGN 7): the CPU's are not atomic to the device's, so a
 * word belongs to one domain for its life, and all who update it agree on which. */
enum loci_domain {
    LOCI_DOMAIN_NONE = 0,       /* not said: there are no atomics on it */
    LOCI_DOMAIN_CPU,            /* the CPU's, through the mapping */
    LOCI_DOMAIN_NIC,            /* the fabric's, on the lane to the owner, by the owner too */
    LOCI_DOMAIN_OWNER           /* the CPU's, through the mapping by those who have it, and by the
                                 * owner for those who post them on the lane to it */
};

/* The same range as it is reached from here. `ptr` is where the hot path finds mapped memory; it
 * is NULL until first use, and for ever where the memory cannot be mapped. `word` is the same for
 * the CPU's atomics: NULL in the nic domain, also where the memory is mapped or this process's. */
struct loci_mem {
    _Atomic(unsigned char *) ptr;
    _Atomic(unsigned char *) word;
    int peer;                   /* owner, an index of this runtime's table of peers */
    enum loci_domain domain;    /* said by who shares the range, before its first atomic */
    struct loci_memkey key;
};

enum loci_op_kind { LOCI_WRITE, LOCI_READ, LOCI_FETCH_ADD, LOCI_COMPARE_SWAP, LOCI_PLACE };

struct loci_op {
    enum loci_op_kind kind;
    const struct loci_mem *mem; /* target range; for LOCI_PLACE any range of the peer, or NULL */
    uint64_t offset;            /* in the range; bounds were checked */
    void *local;                /* source of a write, destination of a read */
    size_t len;                 /* bytes; 8 for atomics */
    bool by_value;              /* a write of at most 8 bytes, or that merges: its source is copied
                                 * by post */
    uint32_t merge;             /* of a write: what the owner does with each of its words, by its
                                 * loci_merge_fn; 0: it stores them */
    bool in_flight;             /* said by post: its slot will be told */
    uint64_t operand;           /* added, or swapped in */
    uint64_t compare;
    uint64_t *result;           /* where an atomic's old value goes */
    bool unwanted;              /* nobody looks at that, and it may stay as it is */
    bool awaited;               /* a read or atomic that loci_finish_reads() waits for, */
    bool untold;                /* and whose failure it tells: nobody has its ack */
    struct loci_slot *slot;     /* who is told of the completion */
    uint64_t places;            /* of a write: its completion places the lane's writes up to here;
                                 * 0: nothing. Post sets 0 where there is no completion */
};

/* Blocks of `len` bytes, at least one, `stride` from the beginning of one to that of the next. */
struct loci_strip {
    uint64_t at;                /* of the first */
    uint64_t len;
    int64_t stride;
    uint64_t blocks;
};

/* A write or read of strips of one range of user memory, to or from bytes that lie packed. */
#define LOCI_STRIDED_BYTES 32768
#define LOCI_STRIDED_STRIPS 256
struct loci_strided {
    enum loci_op_kind kind;
    const struct loci_mem *mem;
    const struct loci_strip *strips;    /* inside the range; at most LOCI_STRIDED_STRIPS */
    int n;
    uint64_t shift;                     /* from a strip's `at` to an address in the owner */
    unsigned char *packed;
    size_t bytes;                       /* at most LOCI_STRIDED_BYTES */
    uint32_t what;                      /* combine: what the owner's loci_combine_fn is to do */
    unsigned char *old;                 /* combine: room for what was there, or NULL */
};

/* Bytes of this process's memory, by their address. */
struct loci_piece {
    uint64_t at;
    uint64_t len;
};

/* Combine len bytes of memory with operands, which become what was there where `what` says so.
 * False: it makes no sense, and nothing is done; target NULL asks for that alone. */
typedef bool loci_combine_fn(uint32_t what, void *target, void *operand, size_t len);

/* A write that merges: words at a multiple of 8, of whole extents or user memory, and so many. */
#define LOCI_MERGE_WORDS 64
/* What it does at the owner, to n words of its memory, atomically each. False: that makes no sense,
 * and nothing is done. Any thread of the owner's, or several; it takes no lock. */
typedef bool loci_merge_fn(uint32_t how, void *words, const void *operands, size_t n);

/* Where a process listens for TCP connections. */
#define LOCI_TCP_PLACES 4
struct loci_tcp_place {
    unsigned char address[16];  /* version 6, or a version 4 one mapped to it */
    uint16_t port;              /* 0: there is no such place */
    uint8_t prefix;             /* bits of its network, of 128 */
    uint8_t unused[5];
};

/* What peers must know to reach this process; sent as it is in exchanges, and nowhere else: neither
 * in messages nor in logs, since it has a secret. */
struct loci_address {
    uint64_t identity;
    uint64_t node;              /* equal on processes that may share memory (LOCO_NODE, boot id) */
    uint64_t kernel;            /* equal on processes that local sockets connect (boot id) */
    uint64_t start_time;        /* of the process, in clock ticks since boot: pids are reused */
    int32_t pid;
    uint32_t version;           /* of this record and of the control messages; 0: no process, it
                                 * could not open its runtime */
    int32_t service; /* the thread that serves its runtime, for the kernel; 0: not told */
    uint32_t unused;
    uint64_t service_start;     /* its start time */
    uint64_t label;             /* random, public: part of names, tells runtimes of one identity */
    uint64_t secret[2];         /* random: who knows it may talk to this process; secret.h */
    uint64_t socket;            /* inode of its control socket; 0: it has none */
    uint64_t fabric[3];         /* the fabric's own */
    uint64_t link[3];           /* where other machines connect to it: IPv6 address (a version 4 one
                                 * mapped to it), port in network order; 0: nowhere */
    struct loci_tcp_place tcp[LOCI_TCP_PLACES];     /* the same for TCP, the best first */
    uint64_t carrier;           /* which fabric that is: it must be the same everywhere */
};

struct loci_fabric;

struct loci_fabric_ops {
    const char *name;
    bool synchronous;           /* writes are visible when post returns: fences need no place */
    /* Pool memory of the same node can be mapped, so its words are of the cpu domain. Where that
     * is refused to a process all the same, what it posts there is done by the owner's CPU. */
    bool maps;
    bool spans;                 /* reaches processes of other machines */
    bool owner_atomics;         /* between nodes the owner's CPU does the atomics: words are of the
                                 * owner domain there, else of the nic domain */
    bool merges;                /* takes writes that merge, on lanes that are not synchronous; only
                                 * with owner_atomics */
    bool completes;             /* operations in flight go on while their thread sleeps, and what
                                 * completes rings LOCI_BELL_ACK */

    /* Life. open: fills in the fabric's part of rt's own address. */
    int (*open)(struct loco_runtime *rt, struct loci_address *mine, struct loci_fabric **fabric);
    void (*close)(struct loci_fabric *fabric);

    /* Peers. add: says whether the fabric reaches it (LOCO_OK, LOCO_ERR_UNSUPPORTED); from then
     * on the fabric tells loci_peer_gone() when it ends. */
    int (*peer_add)(struct loci_fabric *fabric, struct loci_peer *peer);
    void (*peer_remove)(struct loci_fabric *fabric, struct loci_peer *peer);
    /* Nullable. It has ended or left, and its state says so: what is held for it is given back, in
     * time. By the service thread, or by one that has opened a lane to it meanwhile. From when on
     * nothing arrives here that it had posted, the fabric says by loci_peer_silent(); without this
     * call it is so at once. */
    void (*peer_gone)(struct loci_fabric *fabric, struct loci_peer *peer);
    /* Nullable: what is held for peers is kept until the fabric closes. It is gone, and nobody uses
     * it: give back all of it, and leave fabric_data and device_data NULL. False: something is
     * under way, or it has got a user (peer->users) inside the fabric; whoever ends that says so by
     * loci_peers_end_use() or loci_peer_is_unused(), and this is called again. By the service
     * thread, under peers_lock: no other user begins meanwhile. */
    bool (*peer_forget)(struct loci_fabric *fabric, struct loci_peer *peer);

    /* Memory. extent_create commits len bytes of zeroed memory and fills in base, rkey and
     * fabric_data; LOCO_ERR_NO_MEMORY where that is more than there is. extent_grow commits
     * [from, to), whole pieces of 2 MiB, of an extent that was created with less than its full
     * size; extent_shrink, nullable, gives such pieces back, which are zero when they are committed
     * again. */
    int (*extent_create)(struct loci_fabric *fabric, struct loci_extent *extent);
    int (*extent_grow)(struct loci_fabric *fabric, struct loci_extent *extent, size_t from,
                       size_t to);
    void (*extent_shrink)(struct loci_fabric *fabric, struct loci_extent *extent, size_t from,
                          size_t to);
    void (*extent_destroy)(struct loci_fabric *fabric, struct loci_extent *extent);
    /* Nullable. Pages that the program had a pointer to are about to be used again: undo what it
     * has made of them. base and len are whole pages of an extent, own or mapped. */
    int (*renew)(struct loci_fabric *fabric, void *base, size_t len);
    /* User memory: checks nothing but that it can be registered. */
    int (*user_add)(struct loci_fabric *fabric, void *base, size_t len, struct loci_memkey *key);
    void (*user_remove)(struct loci_fabric *fabric, const struct loci_memkey *key);
    /* Memory of the device's own, zeroed, for words that atomics of the nic domain change: fills in
     * key's base, rkey, device and extent. Both nullable; LOCO_ERR_AGAIN: there is none (left). Any
     * thread. */
    int (*words_take)(struct loci_fabric *fabric, size_t len, struct loci_memkey *key);
    void (*words_give)(struct loci_fabric *fabric, const struct loci_memkey *key);
    /* Where `mem`, of another process, is mapped here; NULL if it cannot be. May block. What is
     * mapped stays for as many unmaps, whatever becomes of its owner; unmap is nullable. */
    unsigned char *(*map)(struct loci_fabric *fabric, const struct loci_mem *mem);
    /* The same, which never waits for that process: NULL, too, where it cannot be mapped yet. Ask
     * again. Nullable: `map` does not wait either. */
    unsigned char *(*map_soon)(struct loci_fabric *fabric, const struct loci_mem *mem);
    void (*unmap)(struct loci_fabric *fabric, const struct loci_mem *mem);

    /* Lanes. A fabric that needs no state of its own leaves these NULL. */
    int (*lane_open)(struct loci_fabric *fabric, struct loci_lane *lane);
    void (*lane_close)(struct loci_fabric *fabric, struct loci_lane *lane);
    /* Make a lane that has failed as if it were new, unless writes are lost of which not all have
     * been told who have to be (lane->loss is not LOCI_LOSS_TOLD): LOCO_ERR_STATE. Nullable: it
     * stays as it is. Called by any thread, one at a time, without the lane's lock.
     * LOCO_ERR_AGAIN: something is in flight still, poll. On any error it is what it was. */
    int (*lane_mend)(struct loci_fabric *fabric, struct loci_lane *lane);
    /* The runtime closes, its lanes next. A fabric that says LOCO_OK of writes that its device may
     * still hold waits here until they have reached their peers, or cannot any more. */
    void (*drain)(struct loci_fabric *fabric);
    /* Post a chain of n operations on one lane; *posted says how many were taken. */
    int (*post)(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *ops, int n,
                int *posted);
    /* Post one write whose source may be used again at once, as with a device that takes its bytes
     * with the request; nullable. LOCO_ERR_AGAIN: it is to be posted as any other. */
    int (*write)(struct loci_fabric *fabric, struct loci_lane *lane, struct loci_op *op);
    /* Mark finished operations of this lane; returns how many, or an error of the lane. */
    int (*poll)(struct loci_fabric *fabric, struct loci_lane *lane);

    /* Any thread that waits, in each round; NULL where there is no such thing: do what peers have
     * left for this process to do if it happens to be waiting. They never need it. `spins`: this
     * thread does not sleep before it helps again. Costs one load where there is nothing to do;
     * returns whether there was something. */
    int (*help)(struct loci_fabric *fabric, bool spins);
    /* The other side of it, nullable: leave a LOCI_FETCH_ADD or LOCI_COMPARE_SWAP of 1, 2, 4 or 8
     * bytes of user memory to its owner. Not atomic: the caller holds a lock on those bytes.
     * LOCO_ERR_AGAIN: the owner is not waiting, or cannot; read and write instead. */
    int (*update)(struct loci_fabric *fabric, struct loci_peer *peer, const struct loci_op *op);
    /* Write or read strips of user memory; nullable. Done when it returns, or LOCO_ERR_AGAIN:
     * nothing is, or what is may be done again; post the blocks one by one. */
    int (*strided)(struct loci_fabric *fabric, struct loci_peer *peer,
                   const struct loci_strided *op);
    /* Leave it to the owner to combine strips of its user memory with the packed bytes; nullable.
     * Not atomic: the caller holds a lock on them. LOCO_ERR_AGAIN: nothing is done, the owner is
     * not waiting, or cannot. */
    int (*combine)(struct loci_fabric *fabric, struct loci_peer *peer,
                   const struct loci_strided *op);

    /* This process's own memory, touched for peers: what is not there, or may not be touched so, is
     * a status, and no signal. touch_room: `len` bytes that what is touched is copied through, the
     * same in each call, until the fabric closes; NULL: there is no memory. touch: between pieces
     * of the process's memory and bytes of that room, which lie packed there; LOCO_ERR_SYSTEM: some
     * cannot be touched, those before are done. Both by one thread at a time; nullable: there plain
     * loads and stores do. */
    unsigned char *(*touch_room)(struct loci_fabric *fabric, size_t len);
    int (*touch)(struct loci_fabric *fabric, bool writes, const struct loci_piece *pieces, int n,
                 unsigned char *packed);
    /* The same without a copy. reach: whether this thread can load from all bytes of n pieces of
     * whole pages, and store to them, until `reached`, unless the program changes that meanwhile;
     * false: ask touch. Nullable: it can. */
    bool (*reach)(struct loci_fabric *fabric, const struct loci_piece *pieces, int n);
    void (*reached)(struct loci_fabric *fabric);

    /* Ring LOCI_BELL_ANY of that peer's process: wakes its sleepers, once at least; with a number
     * that is not 0, its poller instead (loci_ring_for).
     * Nullable; LOCO_ERR_AGAIN: cannot, a control message does it. Reliable. */
    int (*ring)(struct loci_fabric *fabric, struct loci_peer *peer, uint32_t number);

    /* Map the bells of that peer's process, whose peer->bells is NULL; nullable. peer_add says of
     * which that is so: those who ring this process's, too. NULL: not now. */
    struct loci_bells *(*bells)(struct loci_fabric *fabric, struct loci_peer *peer);

    /* Control messages, of at most LOCI_CONTROL_MAX bytes; reliable and ordered per peer; may be
     * called by any thread. What arrives is given to loci_control_receive() in the service
     * thread. */
    int (*control_send)(struct loci_fabric *fabric, struct loci_peer *peer, const void *message,
                        size_t len);
};

#define LOCI_CONTROL_MAX 4096

/* What carries a lane: a fabric, of which lane_*, post, write and poll are used. */
struct loci_way {
    const struct loci_fabric_ops *ops;
    struct loci_fabric *fabric;
};

/* A fabric that has lanes alone (and close): to some peers it takes them in place of the runtime's
 * own. Example: ports, which go by an agent of this machine. */
struct loci_detour {
    struct loci_way way;
    /* Whether a lane that is opened to that peer goes this way. Any thread. */
    bool (*takes)(struct loci_fabric *fabric, const struct loci_peer *peer);
    /* The runtime closes: what is under way is finished, lanes leave it (loci_lanes_leave). */
    void (*leave)(struct loci_fabric *fabric);
};

extern const struct loci_fabric_ops loci_fabric_shm, loci_fabric_tcp;
/* For a process that reaches by a detour alone what the device of its peers would reach: it has
 * their carrier (loci_fabric_verbs_and_shm) and opens no device. Atomics of the nic domain on
 * memory of its own node go by a detour, too, or are refused. */
extern const struct loci_fabric_ops loci_fabric_near;
#ifdef LOCO_HAVE_VERBS
/* Everything through the device; and the same beside shm, which has what is of one node. */
extern const struct loci_fabric_ops loci_fabric_verbs, loci_fabric_verbs_and_shm;
#endif

#endif
