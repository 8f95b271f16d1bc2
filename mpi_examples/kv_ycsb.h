/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the parts of kv_ycsb share: options, the stores that can be measured, and what a worker, one
 * thread of one rank, has found out.
 */
#ifndef MPI_EXAMPLES_KV_YCSB_H
#define MPI_EXAMPLES_KV_YCSB_H

#include "common.h"
#include "kv_histogram.h"
#include "kv_workload.h"

enum { KV_MOST_WINDOW = 128, KV_MOST_THREADS = 256 };

struct kv_backend;

struct kv_options {
    const struct kv_backend *backend;
    const struct kv_mix *mix;
    enum kv_distribution distribution;
    int64_t records;   /* loaded */
    int64_t room;      /* for new records, over all workers */
    int64_t key_bytes;
    int64_t value_bytes;
    int64_t window;    /* operations outstanding per worker */
    int64_t threads;   /* per rank */
    int64_t ops;       /* per worker; 0: as many as there is time for */
    double seconds;
    int64_t sample;    /* one of so many operations is timed */
    int64_t seed;
    enum ex_flavor flavor;
    const char *at;    /* where the store is, if it has to be told */
    int64_t server;    /* the store's process, whose CPU time counts, too; 0: none */
    bool check;
    bool json;
    bool progress;
};

/* ---- Stores ---- */

enum kv_result { KV_DONE, KV_MISSING, KV_EXISTS };

struct worker;

struct kv_op {
    enum kv_kind kind;   /* not KV_MODIFY: that is a read, and then an update */
    enum kv_result result;
    uint64_t key;
    unsigned char *name; /* the key as key_bytes bytes, where the store takes such */
    uint64_t limit;      /* of a scan: entries at most; 0: all there are */
    void *value;         /* value_bytes: to write, or where a read puts what it found */
    int backend_word;    /* for the store, from start to finish */

    /* The driver's. */
    int role;
    bool busy;
    bool modify;         /* a read that an update follows */
    uint32_t number;
    uint64_t index;
    uint64_t begin;      /* nanoseconds; 0 where it is not timed */
    struct worker *worker;
    uint64_t found;      /* entries, by a scan; */
    unsigned char *last; /* the key of the last one, until the next scan; */
    uint64_t bad;        /* and those that are wrong */
};

/* What a scan calls for each entry that it finds. */
void kv_found(struct kv_op *op, const void *name, size_t name_bytes, const void *value,
              size_t value_bytes);

/*
 * A store of keys and values. A session is one thread's use of it. Operations of a session are
 * finished in the order of their start. Those that are outstanding at the same time may take effect
 * in any order. A call that fails ends the program.
 */
struct kv_backend {
    const char *name;
    const char *text;     /* for --help */
    bool alone;           /* each rank has a map of its own, so all of them load everything */
    bool one_thread;
    bool one_process;
    bool names;           /* takes keys as bytes, of any size that there is */
    bool ordered;         /* has scans */
    const char *place;    /* what --at has to name; NULL: nothing */

    /* Collective over the ranks. A rank inserts `most` keys at most, all ranks together `all`. */
    void *(*open)(const struct kv_options *o, uint64_t most, uint64_t all);
    void (*close)(void *store);

    void *(*attach)(void *store, int window); /* window: operations outstanding at most */
    void (*detach)(void *session);

    /* True where the operation is done at once; else finish is called for it later, which is NULL
     * for a store that does all at once. */
    bool (*start)(void *session, struct kv_op *op);
    void (*finish)(void *session, struct kv_op *op);
};

/* Those that the program has, the default first; ends with NULL. */
extern const struct kv_backend *const kv_backends[];

extern const struct kv_backend kv_hash, kv_loco, kv_mpi, kv_tree;

/* ---- Results ---- */

struct kv_result_set {
    double open_seconds, load_seconds, seconds, cpu_seconds, check_seconds;
    uint64_t ops, usual, others;  /* by the mix */
    uint64_t entries;     /* that scans found */
    uint64_t checked;     /* values looked at after the run */
    uint64_t wrong;       /* values that nobody wrote for their key, missing keys, lost updates */
    uint64_t full;        /* workers that ran out of room for new records */
    struct kv_histogram usual_times, other_times;
};

/* Collective: loads the store, runs the mix, and looks at what is there then. The results are those
 * of all ranks, on rank 0. */
void kv_measure(const struct kv_options *o, struct kv_result_set *r);

#endif
