/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TCP_WIRE_H
#define LOCI_TCP_WIRE_H

#include <stdint.h>

/* What goes over a data connection: requests one way and answers to them the other, both ways at
 * once, since each end posts and serves. A stream in order is what an RC queue pair promises:
 * requests are done in the order of their posts.
 *
 *   request         its data                answer
 *   TCP_WRITE       len bytes follow        none
 *   TCP_WORDS       up to 16 bytes, in a,b  none
 *   TCP_MERGE       len bytes follow        none
 *   TCP_MERGE_WORD  the word, in b          none
 *   TCP_READ        a: bytes of memory      the bytes, in pieces
 *   TCP_ADD         a: added                a: the old value
 *   TCP_SWAP        a: stored, b: expected  a: the old value
 *   TCP_PLACE       -                       yes
 *   TCP_RESET       -                       none
 *
 * What merges is a write of whole words, each of which the owner combines with what is there, by an
 * atomic of its CPU, as `a` says.
 *
 * Answers come in the order of the requests that have one, which is how the poster knows whose they
 * are. A request that the owner refuses is not done, nor is any behind it on the same lane, until
 * that lane is reset: their answers tell why, and that it was an earlier one. So a refused write is
 * known by the lane's next answer. What makes no sense at all ends the connection.
 *
 * Both ends are of one build and one byte order (struct loci_address says so), so frames are sent
 * as they lie. */

enum tcp_op {
    TCP_WRITE = 1, TCP_WORDS, TCP_MERGE, TCP_MERGE_WORD,
    TCP_READ, TCP_ADD, TCP_SWAP, TCP_PLACE, TCP_RESET,
    TCP_ANSWER              /* the last piece of one, or all of it */,
    TCP_PART                /* a piece of the answer to a read, of which more follows */
};

struct tcp_frame {
    uint8_t op;             /* enum tcp_op */
    uint8_t kind;           /* request: enum loci_mem_kind */
    uint16_t lane;          /* request: a number of the poster's lane */
    uint32_t len;           /* bytes of memory, unless it is a read; those of a write, and of an
                             * answer, follow */
    uint64_t extent;        /* request: the owner's number of it, or of user memory */
    uint64_t at;            /* request: offset in the extent, or address; answer: its status */
    uint64_t a, b;          /* answer: b says that an earlier request was refused */
};

_Static_assert(sizeof(struct tcp_frame) == 40, "frames have no holes");

#define TCP_SHORT ((uint64_t)4096)      /* bytes of a read that is copied when it comes; behind a
                                         * longer one no atomic is sent before it is answered */
#define TCP_WORDS_MOST 16               /* bytes that travel in the frame itself */
#define TCP_PIECE ((uint32_t)128 << 10) /* most data behind one frame: longer writes and reads go
                                         * in several, so that answers get in between */

#endif
