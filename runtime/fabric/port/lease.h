/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_LEASE_H
#define LOCI_LEASE_H

#include "runtime.h"

/* Leases of keys: which parts of an owner's memory others may reach, and until when.
 *
 * Who has been given a key uses it one-sidedly, and the owner's CPU sees nothing of that. So before
 * the owner gives the memory to somebody else, it has to know that nobody uses the key any more.
 * KRCore (Wei et al., USENIX ATC 2022, section 4.2) lets clients cache keys for a second, and waits
 * for a second; that leaves out a client that was stopped between its look at the clock and its
 * post. Here the clock says when a holder has to ask again; that memory is free is told by words:
 *
 *   word            written by   says
 *   revision        owner        how often something was withdrawn; only grows
 *   record[i]       owner        version of what was lent under that number; 0: nothing
 *   seen[h]         holder h     0: it uses no key; else a revision, and it uses nothing that was
 *                                withdrawn up to that one
 *
 * Lending. The owner stores a new version in a free record, and tells the holder number and version
 * with the key. Versions are not used twice.
 *
 * Holding. Before it uses keys a holder reads the revision, writes it to seen[h], and then reads
 * revision and records on the same lane. Keys whose record has their version may be used for
 * LOCO_KEY_LEASE from before that read. In that time it renews: it reads again, and where the
 * revision has changed, stops using what is withdrawn, waits until nothing of that is under way,
 * and then writes seen[h]. Or it releases: nothing is under way, and it writes 0.
 *
 * Withdrawing. The owner stores 0 in the record, then the next revision, and then looks at `seen`.
 * It stores and looks in total order, and a holder's read is executed when its write is placed: so
 * either the holder's read finds the record withdrawn, or the owner finds that the holder is one.
 * The memory is free when each holder's word is 0 or has that revision, or the holder is gone and
 * silent: nothing that it had posted arrives any more.
 *
 * What happens when a holder stops there. It does not renew. After twice the lease the owner cuts
 * it off, as one that is dead: its connection ends, so what it posts when it goes on fails, and its
 * renewal says LOCO_ERR_PEER_DEAD. A holder that maps the owner's memory cannot be cut off: then
 * the memory is free when the holder goes on, or is dead.
 *
 * So nothing depends on two clocks that agree, nor on how long a post takes.
 *
 * Which calls may run together: those of an owner are one thread's at a time, as are those of a
 * holder with one lease; owners and holders do not wait for each other's threads. */

struct loci_leases;                 /* the owner's */

/* So many records and holders at most. LOCO_ERR_NO_MEMORY. */
int loci_leases_open(struct loco_runtime *rt, int records, int holders, struct loci_leases **out);
/* Nobody holds a lease any more. NULL is allowed. */
void loci_leases_close(struct loci_leases *leases);
/* What a holder has to know of it. */
struct loci_lease_board {
    struct loci_memkey key;
    uint32_t records, holders;
};
void loci_leases_board(const struct loci_leases *leases, struct loci_lease_board *board);
/* Where a holder's own line is on the board, and how far it goes: it writes there, and nowhere
 * else. */
uint64_t loci_lease_line(const struct loci_lease_board *board, int holder);
#define LOCI_LEASE_LINE 64u
/* A holder comes, under a number that is nobody's, below `holders`; the caller uses its place in
 * the table of peers until it is dismissed. */
void loci_leases_admit(struct loci_leases *leases, int holder, int peer);
/* It has released its lease and says so, or it is gone: LOCO_OK; LOCO_ERR_AGAIN: what it had posted
 * may arrive still. */
int loci_leases_dismiss(struct loci_leases *leases, int holder);
/* Memory is lent under that number and version. LOCO_ERR_FULL. */
int loci_leases_lend(struct loci_leases *leases, uint32_t *record, uint64_t *version);
/* It is withdrawn from now on. */
void loci_leases_end(struct loci_leases *leases, uint32_t record);
/* LOCO_OK: nobody uses it any more, and the number is free; LOCO_ERR_AGAIN: ask again. `late` is
 * asked of each holder that may use it twice the lease after it was withdrawn: true: it cannot any
 * more, as the caller knows by other means. NULL: such a holder is cut off. */
typedef bool loci_leases_late_fn(void *ctx, int holder, int peer);
int loci_leases_reclaim(struct loci_leases *leases, uint32_t record, loci_leases_late_fn *late,
                        void *ctx);

/* A holder's. Caller's storage; the fields are lease.c's. */
struct loci_lease {
    struct loco_runtime *rt;
    struct loci_mem board;
    uint32_t records;
    int holder;
    uint64_t revision;              /* that is in seen[holder], or 0 */
    int64_t until;                  /* keys may be used; 0: it holds nothing */
    uint64_t *version;              /* of each record, as it was read last; NULL: never */
    /* Nothing that uses a key whose version has changed is under way any more, when this returns
     * LOCO_OK. It asks loci_lease_has(). */
    int (*settle)(void *arg);
    void *arg;
};

/* The owner is an index of this runtime's table that the caller uses until loci_lease_fini(). */
int loci_lease_init(struct loco_runtime *rt, int owner, const struct loci_lease_board *board,
                    int holder, int (*settle)(void *arg), void *arg, struct loci_lease *out);
/* After a release. */
void loci_lease_fini(struct loci_lease *lease);
/* Whether what was lent under that number and version is so still, as far as was read. */
bool loci_lease_has(const struct loci_lease *lease, uint32_t record, uint64_t version);
/* LOCO_OK: it may be used, and what is posted next is allowed. LOCO_ERR_AGAIN: the lease is over,
 * or was never taken: renew. LOCO_ERR_STATE: it was withdrawn. Costs a look at the clock. */
int loci_lease_check(const struct loci_lease *lease, uint32_t record, uint64_t version);
/* Take it, or go on; blocks for one read, or a few where something has changed.
 * LOCO_ERR_PEER_DEAD: the owner is gone, or has cut this process off since it did not renew. On any
 * error nothing may be used. */
int loci_lease_renew(struct loci_lease *lease);
/* Nothing is under way and nothing is used until it is taken again, and the owner's memory says so
 * when this returns LOCO_OK. */
int loci_lease_release(struct loci_lease *lease);

#endif
