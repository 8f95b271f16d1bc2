/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_POOL_NET_H
#define LOCI_POOL_NET_H

/* Agents of other machines: connections to them, over TCP, and who may make one.
 *
 * Both ends know the pool's secret, 128 random bits in a file that only its user reads, or they get
 * no further: who listens says a number that was never said before, who calls answers with another
 * one and a proof that follows from the secret and both, and who listens proves the same. Nothing
 * else is said, or looked at, before that. What comes then is not encrypted, but for the secrets of
 * runtimes (secret.h), which are masked by what follows from the pool's secret and the two numbers.
 * So this keeps out who can call, and not who can change what others send. */

#include <stdbool.h>
#include <stdint.h>

#include "catalog.h"

/* What a caller is. */
enum loci_pool_caller { LOCI_POOL_CLIENT = 1, LOCI_POOL_AGENT };

struct loci_pool_greeting {     /* of who listens */
    uint32_t magic, version;
    uint64_t nonce[2];
};

struct loci_pool_call {         /* of who calls */
    uint32_t magic, version;
    uint32_t caller, unused;    /* enum loci_pool_caller */
    uint64_t nonce[2], proof[2];
};

struct loci_pool_answer {       /* of who listens; it closes unless `status` is LOCO_OK */
    uint32_t magic, version;
    int32_t status;
    uint32_t unused;
    uint64_t proof[2];
};

/* What both ends know. */
struct loci_pool_session {
    uint64_t secret[2];
    uint64_t pool;              /* hash of its name */
    uint64_t greeted[2], called[2];     /* the two nonces */
    uint32_t caller;
};

/* ---- the secret ---- */

/* Of that file; NULL: ~/.loco/POOL.secret. Made if it is not there. LOCO_ERR_SYSTEM: the log says
 * why, and what to do. */
int loci_pool_secret(loco_runtime_t *rt, const char *call, const char *pool, const char *file,
                     uint64_t secret[2]);

/* ---- the words of a connection that is new; pure ---- */

void loci_pool_session(struct loci_pool_session *s, const char *pool, const uint64_t secret[2]);
/* Who listens. LOCO_ERR_SYSTEM: there are no random numbers. */
int loci_pool_greet(loco_runtime_t *rt, struct loci_pool_session *s,
                    struct loci_pool_greeting *greeting);
/* LOCO_OK, LOCO_ERR_PROTOCOL, or LOCO_ERR_MISMATCH: its secret is another one. The answer is to be
 * sent either way. */
int loci_pool_hear_call(struct loci_pool_session *s, const struct loci_pool_call *call,
                        struct loci_pool_answer *answer);
/* Who calls; with the same errors. */
int loci_pool_call(loco_runtime_t *rt, struct loci_pool_session *s,
                   const struct loci_pool_greeting *greeting, enum loci_pool_caller caller,
                   struct loci_pool_call *call);
int loci_pool_hear_answer(const struct loci_pool_session *s,
                          const struct loci_pool_answer *answer);
/* Mask the secret of an address on its way to who calls, or to who listens; twice undoes it. */
void loci_pool_mask(const struct loci_pool_session *s, bool to_caller,
                    struct loci_address *address);

/* ---- calling ---- */

/* The port of a pool's agents, if none is said. */
unsigned loci_pool_port(const char *pool);
/* Connect, and prove it; blocks, for LOCI_POOL_PATIENCE at most at each place. A descriptor that
 * blocks; or an error: LOCO_ERR_MISMATCH, LOCO_ERR_PROTOCOL, LOCO_ERR_PEER_DEAD (nobody answers).
 * The log says why, at that level. */
#define LOCI_POOL_PATIENCE INT64_C(5000000000)
int loci_pool_dial(loco_runtime_t *rt, int level, const struct loci_tcp_place *place, int n,
                   enum loci_pool_caller caller, struct loci_pool_session *s);
/* So many bytes, or LOCO_ERR_PEER_DEAD; blocks until `until`, by loci_now(). */
int loci_pool_send_all(loco_runtime_t *rt, int fd, const void *bytes, size_t len, int64_t until);
int loci_pool_recv_all(loco_runtime_t *rt, int fd, void *bytes, size_t len, int64_t until);
/* Its end is noticed: as LOCO_PEER_TIMEOUT says. */
void loci_pool_tune(const loco_runtime_t *rt, int fd);
/* The addresses of HOST, HOST:PORT or [ADDRESS]:PORT, LOCI_TCP_PLACES at most; how many, or
 * LOCO_ERR_NOT_FOUND, LOCO_ERR_ARG. */
int loci_pool_resolve(loco_runtime_t *rt, const char *host, unsigned port,
                      struct loci_tcp_place place[LOCI_TCP_PLACES]);

#endif
