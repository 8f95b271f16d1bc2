/* SPDX-License-Identifier: BSD-3-Clause */

/* Channels of every kind end in any order, at any distance in time, and nobody meets memory that is
 * no more.
 *
 * In each round every member makes the same channels, each in an order of its own; all use them,
 * and meet; then each destroys them in an order of its own, with pauses, and goes on to the next
 * round, which has the same names, without a look at the others. In the last round one member
 * leaves early: it closes its runtime with channels that it has not destroyed, and the others still
 * use theirs.
 *
 * endings [SECONDS [SEED]]. What goes wrong is a signal, a status, a report of a sanitizer, or a
 * member that hangs. */

#include <time.h>
#include <unistd.h>

#include <loco/loco.h>

#include "machine.h"

#define MEMBERS 3
#define ROUNDS 4
#define CHANNELS 26                     /* each kind twice */

struct member {
    loco_runtime_t *rt;
    const loco_group_t *all;
    const struct loco_exchange *exchange;
    int me;
    unsigned seed;
};

/* ---- the kinds ---- */

typedef int make_fn(struct member *m, const char *name, void *made);
typedef int use_fn(struct member *m, void *made);

/* A status that is right for who may have lost a member. */
static int but_for_who_left(int status)
{
    return status == LOCO_ERR_PEER_DEAD ? LOCO_OK : status;
}

static int make_region(struct member *m, const char *name, void *made)
{
    return loco_region_create(m->rt, NULL, name, m->all, 3 << 20, made);
}

static int use_region(struct member *m, void *made)
{
    uint64_t value;
    int status = loco_region_write64(made, (m->me + 1) % MEMBERS, 8, 7);

    return status != LOCO_OK ? status
           : loco_region_read64(made, (m->me + 2) % MEMBERS, 1 << 20, &value);
}

static int make_owned(struct member *m, const char *name, void *made)
{
    return loco_owned_var_create(m->rt, NULL, name, m->all, 1, 5000, LOCO_OWNED_PULL, made);
}

static int use_owned(struct member *m, void *made)
{
    unsigned char value[5000] = { 1 };

    return m->me == 1 ? loco_owned_var_store(made, value) : loco_owned_var_pull(made, value);
}

static int make_atomic(struct member *m, const char *name, void *made)
{
    return loco_atomic_var_create(m->rt, NULL, name, m->all, 1, made);
}

static int use_atomic(struct member *m, void *made)
{
    (void)m;
    return loco_atomic_var_fetch_add(made, 1, NULL);
}

static int make_atomics(struct member *m, const char *name, void *made)
{
    return loco_atomic_array_create(m->rt, NULL, name, m->all, 300000, LOCO_ATOMIC_STRIPED, made);
}

static int use_atomics(struct member *m, void *made)
{
    return loco_atomic_array_fetch_add(made, (uint64_t)rand_r(&m->seed) % 300000, 1, NULL);
}

static int make_sst(struct member *m, const char *name, void *made)
{
    return loco_sst_create(m->rt, NULL, name, m->all, 100, LOCO_SST_ROWS, made);
}

static int use_sst(struct member *m, void *made)
{
    int status = loco_sst_set(made, 3, (uint64_t)m->me);

    return status != LOCO_OK ? status : loco_sst_push_all(made, 0, 100);
}

static int make_barrier(struct member *m, const char *name, void *made)
{
    return loco_barrier_create(m->rt, NULL, name, m->all, made);
}

static int use_barrier(struct member *m, void *made)
{
    (void)m;
    return loco_barrier_wait(made);
}

static int make_ticket(struct member *m, const char *name, void *made)
{
    return loco_ticket_lock_create(m->rt, NULL, name, m->all, 2, made);
}

static int use_ticket(struct member *m, void *made)
{
    int status = loco_ticket_lock_acquire(made);

    (void)m;
    return status != LOCO_OK ? status : loco_ticket_lock_release(made, LOCO_FENCE_THREAD, 0);
}

static int make_rw(struct member *m, const char *name, void *made)
{
    return loco_rw_lock_create(m->rt, NULL, name, m->all, 0, made);
}

static int use_rw(struct member *m, void *made)
{
    int status = loco_rw_lock_acquire_shared(made);

    (void)m;
    return status != LOCO_OK ? status : loco_rw_lock_release_shared(made, LOCO_FENCE_THREAD, 0);
}

static int make_rw_group(struct member *m, const char *name, void *made)
{
    return loco_rw_group_create(m->rt, NULL, name, m->all, 9, made);
}

static int use_rw_group(struct member *m, void *made)
{
    int status = loco_rw_group_acquire_shared(made, m->me, false);

    return status != LOCO_OK ? status
           : loco_rw_group_release_shared(made, m->me, LOCO_FENCE_THREAD, 0);
}

static int make_ring(struct member *m, const char *name, void *made)
{
    return loco_ringbuffer_create(m->rt, NULL, name, m->all, 1, 900000, 0, made);
}

/* Not all is read: what is in the ring when it ends was for nobody. */
static int use_ring(struct member *m, void *made)
{
    char message[700] = "x";
    size_t bytes;
    int status = LOCO_OK;

    for (int i = 0; i < 5 && status == LOCO_OK && m->me == 1; i++)
        status = loco_ringbuffer_send(made, message, sizeof message, NULL);
    for (int i = 0; i < 3 && status == LOCO_OK && m->me != 1; i++)
        status = loco_ringbuffer_receive(made, LOCO_FOREVER, message, sizeof message, &bytes);
    return status;
}

static int make_queue(struct member *m, const char *name, void *made)
{
    return loco_queue_create(m->rt, NULL, name, m->all, 5000, 1000, 0, made);
}

static int use_queue(struct member *m, void *made)
{
    char entry[5000] = "y";
    int status = loco_queue_push(made, entry);

    (void)m;
    return status != LOCO_OK ? status : loco_queue_pop(made, entry);
}

static int make_store(struct member *m, const char *name, void *made)
{
    const loco_kvstore_options_t o = { .value_bytes = 64, .capacity = 30000, .locks = 16 };

    return loco_kvstore_create(m->rt, NULL, name, m->all, &o, made);
}

/* The next member may have deleted the key, or may not have yet. */
static int of_store(int status)
{
    return status == LOCO_ERR_NOT_FOUND || status == LOCO_ERR_EXISTS ? LOCO_OK : status;
}

/* A delete tells the owner of the place of it, and does not wait for that to be read. */
static int use_store(struct member *m, void *made)
{
    uint64_t mine = (uint64_t)m->me, next = (mine + 1) % MEMBERS;
    char value[64] = "z";
    int status = of_store(loco_kvstore_insert(made, mine, value, sizeof value));

    if (status == LOCO_OK)
        status = of_store(loco_kvstore_get(made, mine, value, sizeof value));
    if (status == LOCO_OK)
        status = of_store(loco_kvstore_get(made, next, value, sizeof value));
    return status == LOCO_OK ? of_store(loco_kvstore_delete(made, next)) : status;
}

static int make_window(struct member *m, const char *name, void *made)
{
    const struct loco_window_spec spec = { .kind = LOCO_WINDOW_ALLOCATE, .size = 3 << 20 };

    (void)name;
    return loco_window_create(m->rt, m->exchange, &spec, made);
}

static int use_window(struct member *m, void *made)
{
    uint64_t word = 1;
    struct loco_span span = { &word, 2 << 20, sizeof word };
    int status = loco_window_lock(made, LOCO_LOCK_SHARED, (m->me + 1) % MEMBERS, 0);

    if (status == LOCO_OK)
        status = loco_window_put(made, (m->me + 1) % MEMBERS, &span, 1, NULL);
    return status != LOCO_OK ? status : loco_window_unlock(made, (m->me + 1) % MEMBERS);
}

static const struct kind {
    const char *name;
    make_fn *make;
    use_fn *use;
    void (*destroy)(void *made);
} kinds[];

/* A function called through a pointer to its own type. */
#define DESTROY(type)                                                                             \
    static void destroy_##type(void *made)                                                        \
    {                                                                                             \
        loco_##type##_destroy(made);                                                              \
    }
DESTROY(region) DESTROY(owned_var) DESTROY(atomic_var) DESTROY(atomic_array) DESTROY(sst)
DESTROY(barrier) DESTROY(ticket_lock) DESTROY(rw_lock) DESTROY(rw_group) DESTROY(ringbuffer)
DESTROY(queue) DESTROY(kvstore) DESTROY(window)

/* Windows last: all members make and end them together. */
static const struct kind kinds[] = {
    { "region", make_region, use_region, destroy_region },
    { "owned", make_owned, use_owned, destroy_owned_var },
    { "atomic", make_atomic, use_atomic, destroy_atomic_var },
    { "atomics", make_atomics, use_atomics, destroy_atomic_array },
    { "sst", make_sst, use_sst, destroy_sst },
    { "barrier", make_barrier, use_barrier, destroy_barrier },
    { "ticket", make_ticket, use_ticket, destroy_ticket_lock },
    { "rw", make_rw, use_rw, destroy_rw_lock },
    { "rw_group", make_rw_group, use_rw_group, destroy_rw_group },
    { "ring", make_ring, use_ring, destroy_ringbuffer },
    { "queue", make_queue, use_queue, destroy_queue },
    { "store", make_store, use_store, destroy_kvstore },
    { "window", make_window, use_window, destroy_window },
};
#define KINDS ((int)(sizeof kinds / sizeof kinds[0]))
_Static_assert(CHANNELS == 2 * sizeof kinds / sizeof kinds[0], "each kind twice");

static bool is_window(int channel)
{
    return channel % KINDS == KINDS - 1;
}

/* ---- rounds ---- */

static void shuffle(struct member *m, int *order)
{
    for (int i = 0; i < CHANNELS; i++)
        order[i] = i;
    for (int i = CHANNELS - 1; i > 0; i--) {
        int j = (int)(rand_r(&m->seed) % (unsigned)(i + 1)), was = order[i];

        order[i] = order[j];
        order[j] = was;
    }
}

static void pause_at_times(struct member *m)
{
    if (rand_r(&m->seed) % 8 == 0)
        usleep(rand_r(&m->seed) % 4000);
}

static int make_all(struct member *m, void **made)
{
    int order[CHANNELS], status = LOCO_OK;
    char name[32];

    shuffle(m, order);
    for (int i = 0; i < 2 * CHANNELS && status == LOCO_OK; i++) {
        int at = order[i % CHANNELS];

        if (is_window(at) != (i >= CHANNELS))
            continue;
        snprintf(name, sizeof name, "%s%d", kinds[at % KINDS].name, at / KINDS);
        /* All make windows, and end them, in one order. */
        at = is_window(at) ? KINDS - 1 + (made[KINDS - 1] != NULL ? KINDS : 0) : at;
        status = kinds[at % KINDS].make(m, name, &made[at]);
        pause_at_times(m);
    }
    return status == LOCO_OK ? loco_runtime_wait_ready(m->rt, LOCO_FOREVER) : status;
}

static int use_all(struct member *m, void **made, int (*verdict)(int status))
{
    for (int i = 0; i < CHANNELS; i++) {
        int status = kinds[i % KINDS].use(m, made[i]);

        if (verdict != NULL)
            status = verdict(status);
        if (status != LOCO_OK) {
            fprintf(stderr, "member %d: %s: %s\n", m->me, kinds[i % KINDS].name,
                    loco_strerror(status));
            return status;
        }
    }
    return LOCO_OK;
}

/* `most`: so many of them, of those that are not windows. */
static void destroy_all(struct member *m, void **made, int most)
{
    int order[CHANNELS];

    for (int i = KINDS - 1; i < CHANNELS && most == CHANNELS; i += KINDS)
        destroy_window(made[i]);
    shuffle(m, order);
    for (int i = 0; i < most; i++) {
        if (is_window(order[i]))
            continue;
        pause_at_times(m);
        kinds[order[i] % KINDS].destroy(made[order[i]]);
    }
}

static void quiet(void *ctx, int level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

/* ---- members ---- */

static int live(const struct loco_bootstrap *boot, void *arg)
{
    const char *const settings[] = { "LOCO_EXTENT_MIN=2M", NULL };
    struct loco_bootstrap mine = *boot;
    struct member m = {
        .exchange = &boot->exchange, .me = boot->exchange.rank,
        .seed = *(unsigned *)arg * MEMBERS + (unsigned)boot->exchange.rank,
    };
    int leaver = (int)(*(unsigned *)arg % MEMBERS);
    void *made[CHANNELS];

    mine.settings = settings;
    mine.log = quiet;                   /* what is forgotten is said */
    NEED(loco_runtime_open(&mine, &m.rt) == LOCO_OK);
    m.all = loco_everyone(m.rt);
    for (int round = 0; round < ROUNDS; round++) {
        memset(made, 0, sizeof made);
        NEED(make_all(&m, made) == LOCO_OK);
        NEED(use_all(&m, made, NULL) == LOCO_OK);
        NEED(use_barrier(&m, made[5]) == LOCO_OK);
        if (round + 1 < ROUNDS)
            destroy_all(&m, made, CHANNELS);
    }
    if (m.me != leaver) {
        pause_at_times(&m);
        NEED(use_all(&m, made, but_for_who_left) == LOCO_OK);
    }
    destroy_all(&m, made, (int)(rand_r(&m.seed) % (CHANNELS - 1)));
    pause_at_times(&m);
    loco_runtime_close(m.rt);
    return 0;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    double end = now() + (argc > 1 ? atof(argv[1]) : 6);
    unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1, first = seed;
    int statuses[MEMBERS] = { 0 };
    struct tap tap = { 0 };
    bool ok = true;

    do {
        alarm(120);                     /* one that hangs */
        ok = loco_fork_run(MEMBERS, live, &seed, statuses) == LOCO_OK;
    } while (ok && ++seed != 0 && now() < end && argc <= 2);
    tap_ok(&tap, ok, "channels of every kind end in any order, seeds %u to %u: exits %d %d %d",
           first, ok ? seed - 1 : seed, statuses[0], statuses[1], statuses[2]);
    return tap_end(&tap);
}
