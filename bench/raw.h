/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The raw limit: what MPI's one-sided calls come down to, in plain C between the processes of one
 * node. Memory that all of them map, and one's own memory read and written by others through the
 * kernel.
 */
#ifndef BENCH_RAW_H
#define BENCH_RAW_H

#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { RAW_LINE = 64, RAW_PAGE = 4096, RAW_MOST_RANKS = 256, RAW_MOST_LIST = 128 };

/* Each word on a cache line of its own. */
struct raw_word {
    _Alignas(RAW_LINE) _Atomic uint64_t value;
};

struct raw_shared {
    struct raw_word lock;
    struct raw_word arrived;
    struct raw_word posted[RAW_MOST_RANKS];
    struct raw_word completed[RAW_MOST_RANKS];
    struct raw_word word;                       /* target of 8-byte operations */
    _Alignas(RAW_PAGE) unsigned char bytes[];   /* target of long ones */
};

struct raw {
    struct raw_shared *shared;
    size_t mapped;
    int rank;
    int size;
    uint64_t rounds;      /* of the barrier */
    uint64_t exchanges;   /* of post and complete */
    pid_t peer;           /* for access through the kernel; 0 where it is forbidden */
    uint64_t peer_word;   /* address at the peer */
    uint64_t peer_bytes;
    void *own;            /* what the peer reads and writes here */
};

/* Collective over MPI_COMM_WORLD, whose ranks are all on one node. NULL, or what failed. */
const char *raw_open(struct raw *r, size_t bytes);
void raw_close(struct raw *r);

/* Spins a little, then yields at each try. */
void raw_relax(unsigned *tries);

void raw_lock(struct raw *r);
void raw_unlock(struct raw *r);
void raw_barrier(struct raw *r);

/* What two processes that post, start, complete and wait for each other tell each other. */
void raw_exchange(struct raw *r, int peer);

/* Memory of the size for all to map is made, mapped, and given back. */
void raw_make_memory(size_t bytes);

/* Through the kernel; false where it fails. */
bool raw_kernel_write(const struct raw *r, const void *from, uint64_t to, size_t bytes);
bool raw_kernel_read(const struct raw *r, void *to, uint64_t from, size_t bytes);

/* The same word to each of count words (up to RAW_MOST_LIST) from an address on, in one call. */
bool raw_kernel_write_list(const struct raw *r, const uint64_t *from, uint64_t to, size_t count);

#endif
