/* SPDX-License-Identifier: BSD-3-Clause */

/* A case of `contract`: a device that gives no completions any more, not even of what is flushed
 * when the peer dies. */

#include "config.h"

#include <signal.h>
#include <unistd.h>

#include "world.h"
#ifdef LOCO_HAVE_VERBS
#include "fabric/verbs/verbs.h"
#endif

#define NOTICED INT64_C(20000000000)    /* ns in which all must have been told */

#ifdef LOCO_HAVE_VERBS
static int no_completion(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    (void)cq;
    (void)n;
    (void)wc;
    return 0;
}
#endif

/* False: there is no device. */
static bool silence(const struct world *w)
{
#ifdef LOCO_HAVE_VERBS
    if (w->rt->ops == &loci_fabric_verbs || w->rt->ops == &loci_fabric_verbs_and_shm) {
        verbs_of(w->rt->fabric)->context->ops.poll_cq = no_completion;
        return true;
    }
#endif
    (void)w;
    return false;
}

/* The last member dies; who reads from it is told, and what it would have read into is let go. */
int silent(struct member *m)
{
    int victim = m->n - 1;
    struct world w;
    int64_t begin;
    uint64_t word;

    CHECK(enter(&w, m, LEN) == 0);
    if (m->rank != victim)
        CHECK_OK(loci_read64(w.rt, &w.users[victim], 64, &word, NULL));
    CHECK_OK(together(&w));
    if (m->rank == victim) {
        usleep(200000);
        kill(getpid(), SIGKILL);
    }
    if (!silence(&w))
        return 0;
    begin = run_now();
    CHECK_EQ(loci_read64(w.rt, &w.users[victim], 64, &word, NULL), LOCO_ERR_PEER_DEAD);
    CHECK(run_now() - begin < run_limit(NOTICED));
    return 0;
}
