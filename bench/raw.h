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

enum { RAW_LINE = 64, RAW_PAGE = 4096, RAW_MOST_RANKS = 256, RAW_MOST_LIST = 1024 };

/* Each word on a cache line of its own. */
struct raw_word {
    _Alignas(RAW_LINE) _Atomic uint64_t value;
};

struct raw_shared {
    struct raw_word lock;
    struct raw_word arrived;
    struct raw_word posted[RAW_MOST_RANKS];
    struct raw_word completed[RAW_MOST_RANKS];
    struct raw_word word[RAW_MOST_RANKS];       /* each rank's target of 8-byte operations */
    _Alignas(RAW_PAGE) unsigned char bytes[];   /* of long ones: as many for each rank */
};

/* Where each rank's own memory is. */
struct raw_peer {
    uint64_t process, word, bytes;
};

struct raw {
    struct raw_shared *shared;
    size_t mapped;
    int rank;
    int size;
    uint64_t rounds;      /* of the barrier */
    uint64_t exchanges;   /* of post and complete */
    size_t bytes;         /* of each rank */
    int target;           /* the rank whose memory is worked on */
    _Atomic uint64_t *word;
    unsigned char *far;   /* its bytes */
    pid_t peer;           /* its process, for access through the kernel; 0: that is forbidden */
    uint64_t peer_word;   /* address there */
    uint64_t peer_bytes;
    struct raw_peer *peers;
    void *own;            /* what the peer reads and writes here */
};

/* Collective over MPI_COMM_WORLD, whose ranks are all on one node. NULL, or what failed. A raw that
 * was not opened, and is all zero, is closed and aimed for nothing. */
const char *raw_open(struct raw *r, size_t bytes);
void raw_close(struct raw *r);

/* Work on the memory of that rank from now on. */
void raw_aim(struct raw *r, int target);

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

/* Words of 8 bytes at distances, as many in one call as the kernel takes. */
bool raw_kernel_move(const struct raw *r, bool writes, void *local, ptrdiff_t local_step,
                     uint64_t remote, ptrdiff_t remote_step, size_t count);

#endif
