/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_SIM_HOOKS_H
#define LOCI_SIM_HOOKS_H

/* Included by force before every source of runtime/ and channels/ that is built for simulation.
 * The sources are the same as in production; what differs is what these names mean:
 *
 *   - every C11 atomic operation is a step, where the scheduler may go on elsewhere;
 *   - a mutex or condition that would block lets other fibers run;
 *   - what the production runtime asks the kernel (threads, keys) is answered here.
 *
 * Sequential consistency between steps: the CPU's own store buffers are not simulated. */

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum loci_sim_access { LOCI_SIM_LOAD, LOCI_SIM_STORE, LOCI_SIM_RMW };

/* Before an access to `at`: a step. */
void loci_sim_step(enum loci_sim_access kind, const void *at, size_t len);
/* After one that changed what was there: waiters of this process look again. */
void loci_sim_changed(const void *at);
/* A copy from or to network memory, torn between words. */
void loci_sim_copy(void *to, const void *from, size_t len, int to_network);
/* Network memory of the process that runs was given back / is handed out (again): poison.h. What is
 * given back next is a region of this channel. */
void loci_sim_given(const void *at, size_t len);
void loci_sim_taken(const void *at, size_t len);
void loci_sim_named(const char *channel, const char *region);

/* ---- atomics ---- */

/* The compilers' own operations under <stdatomic.h>, which are spelt differently. */
#ifdef __clang__
#define SIM_LOAD(p, o) __c11_atomic_load(p, o)
#define SIM_STORE(p, v, o) __c11_atomic_store(p, v, o)
#define SIM_EXCHANGE(p, v, o) __c11_atomic_exchange(p, v, o)
#define SIM_ADD(p, v, o) __c11_atomic_fetch_add(p, v, o)
#define SIM_SUB(p, v, o) __c11_atomic_fetch_sub(p, v, o)
#define SIM_OR(p, v, o) __c11_atomic_fetch_or(p, v, o)
#define SIM_AND(p, v, o) __c11_atomic_fetch_and(p, v, o)
#define SIM_SWAP(p, e, d, s, f) __c11_atomic_compare_exchange_strong(p, e, d, s, f)
#else
#define SIM_LOAD(p, o) __atomic_load_n(p, o)
#define SIM_STORE(p, v, o) __atomic_store_n(p, v, o)
#define SIM_EXCHANGE(p, v, o) __atomic_exchange_n(p, v, o)
#define SIM_ADD(p, v, o) __atomic_fetch_add(p, v, o)
#define SIM_SUB(p, v, o) __atomic_fetch_sub(p, v, o)
#define SIM_OR(p, v, o) __atomic_fetch_or(p, v, o)
#define SIM_AND(p, v, o) __atomic_fetch_and(p, v, o)
#define SIM_SWAP(p, e, d, s, f) __atomic_compare_exchange_n(p, e, d, 0, s, f)
#endif

#undef atomic_init
#undef atomic_load_explicit
#undef atomic_load
#undef atomic_store_explicit
#undef atomic_store
#undef atomic_exchange_explicit
#undef atomic_exchange
#undef atomic_fetch_add_explicit
#undef atomic_fetch_add
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_or_explicit
#undef atomic_fetch_or
#undef atomic_fetch_and_explicit
#undef atomic_fetch_and
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak_explicit
#undef atomic_compare_exchange_weak

/* Each argument is evaluated once, before the step; one may hold such an operation itself. */
#pragma GCC diagnostic ignored "-Wshadow"
#define SIM_LET(p) __auto_type sim_p = (p)

/* Nobody else sees it yet: no step. */
#define atomic_init(p, v) SIM_STORE(p, v, __ATOMIC_RELAXED)
#define atomic_load_explicit(p, o)                                                                \
    __extension__({                                                                               \
        SIM_LET(p);                                                                               \
        loci_sim_step(LOCI_SIM_LOAD, (const void *)sim_p, sizeof *sim_p);                         \
        SIM_LOAD(sim_p, o);                                                                       \
    })
#define atomic_store_explicit(p, v, o)                                                            \
    __extension__({                                                                               \
        SIM_LET(p);                                                                               \
        __typeof__((void)0, SIM_LOAD(sim_p, __ATOMIC_RELAXED)) sim_v = (v);                       \
        loci_sim_step(LOCI_SIM_STORE, (const void *)sim_p, sizeof *sim_p);                        \
        if (SIM_EXCHANGE(sim_p, sim_v, __ATOMIC_SEQ_CST) != sim_v)                                \
            loci_sim_changed((const void *)sim_p);                                                \
        (void)(o);                                                                                \
    })
#define SIM_MODIFY(operation, p, v)                                                               \
    __extension__({                                                                               \
        SIM_LET(p);                                                                               \
        __typeof__((void)0, SIM_LOAD(sim_p, __ATOMIC_RELAXED)) sim_v = (v), sim_old;              \
        loci_sim_step(LOCI_SIM_RMW, (const void *)sim_p, sizeof *sim_p);                          \
        sim_old = operation(sim_p, sim_v, __ATOMIC_SEQ_CST);                                      \
        if (SIM_LOAD(sim_p, __ATOMIC_RELAXED) != sim_old)                                         \
            loci_sim_changed((const void *)sim_p);                                                \
        sim_old;                                                                                  \
    })
#define atomic_exchange_explicit(p, v, o) SIM_MODIFY(SIM_EXCHANGE, p, v)
#define atomic_fetch_add_explicit(p, v, o) SIM_MODIFY(SIM_ADD, p, v)
#define atomic_fetch_sub_explicit(p, v, o) SIM_MODIFY(SIM_SUB, p, v)
#define atomic_fetch_or_explicit(p, v, o) SIM_MODIFY(SIM_OR, p, v)
#define atomic_fetch_and_explicit(p, v, o) SIM_MODIFY(SIM_AND, p, v)
#define atomic_compare_exchange_strong_explicit(p, e, d, s, f)                                    \
    __extension__({                                                                               \
        SIM_LET(p);                                                                               \
        __auto_type sim_e = (e);                                                                  \
        __typeof__(*sim_e) sim_d = (d), sim_was = *sim_e;                                         \
        _Bool sim_done;                                                                           \
        loci_sim_step(LOCI_SIM_RMW, (const void *)sim_p, sizeof *sim_p);                          \
        sim_done = SIM_SWAP(sim_p, sim_e, sim_d, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);             \
        if (sim_done && sim_was != sim_d)                                                         \
            loci_sim_changed((const void *)sim_p);                                                \
        sim_done;                                                                                 \
    })
#define atomic_compare_exchange_weak_explicit(p, e, d, s, f)                                      \
    atomic_compare_exchange_strong_explicit(p, e, d, s, f)

#define atomic_load(p) atomic_load_explicit(p, memory_order_seq_cst)
#define atomic_store(p, v) atomic_store_explicit(p, v, memory_order_seq_cst)
#define atomic_exchange(p, v) SIM_MODIFY(SIM_EXCHANGE, p, v)
#define atomic_fetch_add(p, v) SIM_MODIFY(SIM_ADD, p, v)
#define atomic_fetch_sub(p, v) SIM_MODIFY(SIM_SUB, p, v)
#define atomic_fetch_or(p, v) SIM_MODIFY(SIM_OR, p, v)
#define atomic_fetch_and(p, v) SIM_MODIFY(SIM_AND, p, v)
#define atomic_compare_exchange_strong(p, e, d)                                                   \
    atomic_compare_exchange_strong_explicit(p, e, d, memory_order_seq_cst, memory_order_seq_cst)
#define atomic_compare_exchange_weak(p, e, d) atomic_compare_exchange_strong(p, e, d)

/* ---- threads ---- */

struct loci_sim_mutex {
    int locked;
};

struct loci_sim_cond {
    unsigned told;                      /* grows with each broadcast */
};

void loci_sim_mutex_lock(struct loci_sim_mutex *mutex);
int loci_sim_mutex_trylock(struct loci_sim_mutex *mutex);
void loci_sim_mutex_unlock(struct loci_sim_mutex *mutex);
void loci_sim_cond_wait(struct loci_sim_cond *cond, struct loci_sim_mutex *mutex);
void loci_sim_cond_broadcast(struct loci_sim_cond *cond);

#define pthread_mutex_t struct loci_sim_mutex
#define pthread_mutex_init(m, attr) ((m)->locked = 0)
#define pthread_mutex_destroy(m) ((void)(m))
#define pthread_mutex_lock(m) loci_sim_mutex_lock(m)
#define pthread_mutex_trylock(m) loci_sim_mutex_trylock(m)
#define pthread_mutex_unlock(m) loci_sim_mutex_unlock(m)
#define pthread_cond_t struct loci_sim_cond
#define pthread_cond_init(c, attr) ((c)->told = 0)
#define pthread_cond_destroy(c) ((void)(c))
#define pthread_cond_wait(c, m) loci_sim_cond_wait(c, m)
#define pthread_cond_broadcast(c) loci_sim_cond_broadcast(c)
#define pthread_cond_signal(c) loci_sim_cond_broadcast(c)

/* The context of a fiber is its own: struct loci_host's `self`. */
#define pthread_key_create(key, end) ((void)(key), (void)(end), 0)
#define pthread_key_delete(key) ((void)(key))
#define pthread_getspecific(key) ((void)(key), (void *)0)
static inline int loci_sim_setspecific(void *value)
{
    (void)value;
    return 0;
}
#define pthread_setspecific(key, value) loci_sim_setspecific(value)

#endif
