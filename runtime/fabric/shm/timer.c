/* SPDX-License-Identifier: BSD-3-Clause */

/* What the service thread does by the clock: it sends again what found no room, asks for the lives
 * of peers of which nothing tells them, hands on what peers sent before they were known, and fills
 * memory that was handed out.
 *
 * The timer is not set while there is nothing of that. Any thread that makes the first such thing
 * says so in one of the words below and then sets the timer; the service thread sets it to what it
 * still needs and then looks at the words again. So whichever of the two sets it last, the thing is
 * seen: if it is the service thread, its look comes after the other's word. */

#include "config.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "descriptor.h"
#include "service.h"
#include "wait.h"
#include "shm.h"

#define SOON_NS INT64_C(50000)              /* a full queue is looked at again, first, */
#define RETRY_MAX_NS INT64_C(5000000)       /* and at last, if its owner takes nothing */
#define PROBE_NS INT64_C(20000000)          /* from one look at a life to the next, */
#define PROBE_PEER_NS INT64_C(100000)       /* or so much for each: a hundredth of the time */
#define DOUBT_NS INT64_C(10000000000)       /* from one look to the next where a pidfd tells */

static void set(struct shm_fabric *f, int64_t ns)
{
    const struct itimerspec when = { .it_value = { ns / 1000000000, ns % 1000000000 } };

    timerfd_settime(f->timer_fd, 0, &when, NULL);
}

void loci_shm_timer_soon(struct shm_fabric *f)
{
    set(f, SOON_NS);
}

struct shm_peer *loci_shm_first_peer(struct shm_fabric *f)
{
    struct shm_peer *p;

    pthread_mutex_lock(&f->lock);
    p = f->peers;
    pthread_mutex_unlock(&f->lock);
    return p;
}

/* ---- the service thread ---- */

static bool is_urgent(struct shm_fabric *f)
{
    return atomic_load(&f->early) || atomic_load(&f->closing) != 0;
}

static int64_t sooner(int64_t ns, int64_t other)
{
    other = other < 1 ? 1 : other;
    return ns == 0 || other < ns ? other : ns;
}

/* For how long there is nothing to do; 0: for ever. */
static int64_t pause_of(struct shm_fabric *f)
{
    int64_t ns = 0;

    if (is_urgent(f))
        return 1;
    if (atomic_load(&f->polled) > 0)
        ns = sooner(ns, f->probe_at - loci_now(f->rt));
    if (atomic_load(&f->watched) > 0)
        ns = sooner(ns, atomic_load(&f->doubt_at) - loci_now(f->rt));
    if (atomic_load(&f->waiting) > 0)
        ns = sooner(ns, f->retry_ns);
    if (atomic_load(&f->pieces_owed) > 0 || atomic_load(&f->reserve) > 0)
        ns = sooner(ns, loci_shm_settle_pause(f));
    return ns;
}

static void rearm(struct shm_fabric *f)
{
    int64_t ns = pause_of(f), again;

    set(f, ns);
    again = pause_of(f);
    if (again != 0 && (ns == 0 || again < ns))
        set(f, again);
}

static void send_again(struct shm_fabric *f)
{
    bool sent = false;

    if (atomic_load(&f->waiting) == 0)
        return;
    for (struct shm_peer *p = loci_shm_first_peer(f); p != NULL; p = p->next)
        if (atomic_load_explicit(&p->queued, memory_order_relaxed) > 0)
            sent = loci_shm_flush(p) || sent;
    if (sent)
        f->retry_ns = SOON_NS;
    else
        f->retry_ns = 2 * f->retry_ns < RETRY_MAX_NS ? 2 * f->retry_ns : RETRY_MAX_NS;
}

static void ask_for_lives(struct shm_fabric *f)
{
    int64_t polled = atomic_load(&f->polled), pause = polled * PROBE_PEER_NS;

    if (polled == 0 || loci_now(f->rt) < f->probe_at)
        return;
    loci_shm_probe_polled(f);
    f->probe_at = loci_now(f->rt) + (pause > PROBE_NS ? pause : PROBE_NS);
}

static void doubt_lives(struct shm_fabric *f)
{
    int64_t now = loci_now(f->rt), at = atomic_load(&f->doubt_at);

    if (atomic_load(&f->watched) == 0 || now < at)
        return;
    if (at != 0)
        loci_shm_probe_watched(f);
    atomic_store(&f->doubt_at, now + DOUBT_NS);
}

static void timer_event(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct shm_fabric *f = ctx;
    uint64_t times;

    (void)events;
    if (read(fd, &times, sizeof times) < 0 && errno != EAGAIN)
        LOCI_LOG(rt, LOCO_LOG_ERROR, "reading the timer: %m");
    if (atomic_load(&f->closing) != 0) {
        loci_shm_close_all(f);
        return;
    }
    if (atomic_exchange(&f->early, false))
        for (struct shm_peer *p = loci_shm_first_peer(f); p != NULL; p = p->next)
            loci_shm_unpark(p);
    send_again(f);
    ask_for_lives(f);
    doubt_lives(f);
    loci_shm_settle(f);
    rearm(f);
}

int loci_shm_timer_open(struct shm_fabric *f)
{
    f->retry_ns = SOON_NS;
    f->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (f->timer_fd < 0) {
        loci_descriptor_missing(f->rt, "no timer");
        return LOCO_ERR_SYSTEM;
    }
    return loci_service_watch(f->rt, f->timer_fd, EPOLLIN, timer_event, f);
}
