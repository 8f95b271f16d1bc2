/* SPDX-License-Identifier: BSD-3-Clause */

/* Waking sleepers.
 *
 * Who writes what. `rings` of a bell: who rings it, by an atomic. `asleep`: the threads of the
 * process whose bell it is, by atomics. `watchers`: any process that has the bells mapped, by
 * atomics.
 *
 *   sleeper    rings read, asleep + 1 (and watchers + 1), fence of all, look, sleep while
 *              `rings` is what was read, look; rings read, look, sleep ... ; asleep - 1
 *   signaller  the store or atomic that ends the wait (the cause), then `asleep` read, and if
 *              that is not 0: rings + 1, wake
 *
 * No sleeper is missed. Two fences would do: one between asleep + 1 and the look, one between the
 * cause and the read of `asleep`; one of the two reads then comes after the other's write. But
 * signallers are in a hurry, and there are few sleepers. So the sleeper makes both
 * (asymmetric.h): loci_fence_heavy() has every CPU that runs a thread of a registered process
 * execute a full fence before it returns; a thread that is not running has one where the kernel
 * switches to it or away from it. Until its process has registered a signaller fences itself. So
 * at each signaller there is a moment, during that call, before which all that it does in the order
 * of its program is seen by what the sleeper does after the call, and after which it sees what the
 * sleeper has done before. Where the signaller's read of `asleep` comes after that moment it sees
 * the sleeper, and rings. Where it comes before, so does the cause, and the sleeper's look sees
 * that. For the compiler alone cause and read are kept in order. `asleep` stays up while the
 * sleeper looks again, so one call is enough for one wait.
 *
 * That it sleeps while `rings` is what was read before the look is the futex's affair: a ring in
 * between changes it. A ring has release order and is after the cause: who reads it sees the cause.
 *
 * The kernel knows no boundaries there: users, namespaces and control groups do not matter. Where
 * it refuses that fence to the sleeper, its waits look now and then. So do those of a process that
 * knows one which is of another machine, or cannot map its bells (rt->unheard); where a device
 * writes what is waited for, which does not ring; and once somebody is dead, for much is then told
 * by time.
 *
 * A wait that has not lasted long does not ask for the fence: it interrupts all who run. It looks
 * now and then, and is rung for all but always: a cause and a read that change places do so within
 * some hundred nanoseconds.
 *
 * If a process stops between cause and ring, its death rings (peer.c). If it stops asleep it is
 * rung in vain. The asymmetric fence is that of Dice, Huang and Yang, "Asymmetric Dekker
 * Synchronization" (2001); the kernel's is by Desnoyers. */

#include "config.h"

#include "bell.h"
#include "names/control.h"

void loci_ring_bell(struct loco_runtime *rt, struct loci_bell *bell)
{
    /* Release: who finds that it has changed finds what it was rung for. */
    atomic_fetch_add_explicit(&bell->rings, 1, memory_order_release);
    if (rt->host.wake != NULL)
        rt->host.wake(rt->host.ctx, &bell->rings);
}

void loci_ring_self(struct loco_runtime *rt)
{
    for (int i = 0; rt->bells != NULL && i < LOCI_BELLS; i++)
        loci_ring_bell(rt, &rt->bells->bell[i]);
}

void loci_ring_poller(struct loco_runtime *rt, struct loci_bells *bells, uint32_t number)
{
    loci_rung_mark(&bells->rung, number);
    loci_ring_bell(rt, &bells->bell[LOCI_BELL_POLLER]);
}

int loci_ring_for(struct loco_runtime *rt, int peer, uint32_t number)
{
    int status = LOCO_ERR_AGAIN;

    if (!loci_peer_alive(rt, peer))
        return LOCO_ERR_PEER_DEAD;
    if (rt->ops->ring != NULL)
        status = rt->ops->ring(rt->fabric, loci_peer(rt, peer), number);
    return status == LOCO_ERR_AGAIN ? loci_control_ring(rt, peer, number) : status;
}

int loci_ring(struct loco_runtime *rt, int peer)
{
    return loci_ring_for(rt, peer, 0);
}

struct loci_bells *loci_bells_of(struct loco_runtime *rt, int peer)
{
    struct loci_peer *p = loci_peer(rt, peer);
    struct loci_bells *bells = loci_bells_known(rt, peer), *none = NULL;

    if (bells != NULL || !loci_peer_alive(rt, peer) || rt->ops->bells == NULL)
        return bells;
    loci_asymmetric_state(rt);          /* whoever signals takes part in the fence, soon */
    bells = rt->ops->bells(rt->fabric, p);
    if (bells == NULL
        || atomic_compare_exchange_strong_explicit(&p->bells, &none, bells, memory_order_release,
                                                   memory_order_acquire))
        return bells;
    return none;        /* another thread has mapped them */
}

/* Whoever signals takes part in the fence, soon, also where it has signalled nobody but itself. */
void loci_before_signal_slow(struct loco_runtime *rt)
{
    loci_asymmetric_state(rt);
    atomic_thread_fence(memory_order_seq_cst);
}

/* That it cannot be told is because it is dead, or its own affair: it is told of that, too. */
void loci_signal_slow(struct loco_runtime *rt, int peer, enum loci_bell_kind kind)
{
    struct loci_bells *bells = loci_bells_of(rt, peer);

    if (bells == NULL && loci_peer_alive(rt, peer))
        loci_control_ring(rt, peer, 0);
    else if (bells != NULL
             && atomic_load_explicit(&bells->bell[kind].asleep, memory_order_relaxed) != 0)
        loci_ring_bell(rt, &bells->bell[kind]);
}

void loci_signal_watchers_slow(struct loco_runtime *rt, const struct loco_group *group,
                               enum loci_bell_kind kind)
{
    for (int i = 0; i < group->size; i++)
        loci_signal(rt, group->peer[i], kind);
}
