/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_SECRET_H
#define LOCI_SECRET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who may talk to a process.
 *
 * What a process tells its peers of itself has a secret of 128 random bits, which goes nowhere but
 * through the program's own exchange: so who knows it belongs to the job. Its label, as random, is
 * for everybody: names that the system lists are made of it, and a message says by it which runtime
 * of a process sent it.
 *
 * No message bears a secret. It bears a proof: 64 bits that follow from the receiver's secret, from
 * what the proof is good for, and from the sender. Who reads it, since it has taken over the name
 * of a receiver that died, cannot use it with anybody who lives: their secrets are others.
 *
 * Over a network that strangers can listen to, proofs can be read and said again. This keeps out
 * who can send, not who can listen. */

struct loco_runtime;
struct loci_address;

enum loci_purpose {
    LOCI_PASS = 1,      /* in front of all messages to one receiver; of no sender */
    LOCI_MESSAGE,       /* a message of one node */
    LOCI_CALL,          /* a hello that asks for a connection, */
    LOCI_ANSWER,        /* one that accepts it: who called knows by it who answers */
    LOCI_CALL_DATA,     /* the same for a connection that is the fabric's, for its data */
    LOCI_ANSWER_DATA
};

/* What both ends of a connection say first. */
struct loci_hello {
    uint32_t magic, version;
    uint64_t from, label;       /* the sender's identity and label */
    uint64_t proof;             /* to the receiver */
};

/* SipHash-2-4 of len bytes, by Aumasson and Bernstein: as hard to guess as its key. */
uint64_t loci_siphash(const uint64_t key[2], const void *bytes, size_t len);

/* What the process `from`, of that label, proves to the receiver with that secret. */
uint64_t loci_proof(const uint64_t secret[2], enum loci_purpose purpose, uint64_t from,
                    uint64_t label);
/* Whether two proofs are the same, in a time that does not depend on it. */
bool loci_same_proof(uint64_t a, uint64_t b);

void loci_hello_fill(struct loci_hello *hello, enum loci_purpose purpose,
                     const struct loci_address *from, const struct loci_address *to);
/* Whether that is said to `me` by somebody of the job, for that purpose. */
bool loci_hello_is_sound(const struct loci_hello *hello, enum loci_purpose purpose,
                         const struct loci_address *me);

/* A secret for this runtime. LOCO_ERR_SYSTEM: the system has no random numbers. */
int loci_secret_draw(struct loco_runtime *rt, uint64_t secret[2]);

#endif
