/* SPDX-License-Identifier: BSD-3-Clause */

/* The fabric of one node: memory, mapped and copied. */

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "memory/memory.h"
#include "move/bell.h"
#include "shm_world.h"

/* ---- pool memory ---- */

static int uses_pool(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;
    uint64_t old, value = 0;
    int next;

    NEED(enter(&w, boot, arg) == 0);
    next = (w.me + 1) % w.n;
    for (int i = 0; i < 1000; i++)
        for (int to = 0; to < w.n; to++)
            NEED(loci_fetch_add(w.rt, &w.pools[to], 0, 1, &old, NULL) == LOCO_OK);
    NEED(loci_mem_ptr(&w.pools[next]) != NULL);
    NEED(loci_write64(w.rt, &w.pools[next], LEN - 8, (uint64_t)w.me + 7, NULL) == LOCO_OK);
    NEED(together(&w) == LOCO_OK);
    NEED(loci_load64(w.pool.ptr) == 1000u * (unsigned)w.n);
    NEED(loci_load64(w.pool.ptr + LEN - 8) == (uint64_t)(w.me + w.n - 1) % (uint64_t)w.n + 7);
    NEED(loci_compare_swap(w.rt, &w.pools[next], 8, 0, (uint64_t)w.me + 1, &old, NULL)
         == LOCO_OK && old == 0);
    NEED(loci_read64(w.rt, &w.pools[next], 8, &value, NULL) == LOCO_OK);
    NEED(value == (uint64_t)w.me + 1);
    return leave(&w);
}

Test(shm, memory_of_peers_is_mapped)
{
    run(2, uses_pool, &plain);
    run(4, uses_pool, &plain);
}

Test(shm, descriptors_are_passed_where_proc_does_not_help)
{
    run(3, uses_pool, &foreign);
}

/* The page with a peer's bells comes as descriptors of memory do; who signals does not wait for
 * it. */
static int maps_bells(const struct loco_bootstrap *boot, void *arg)
{
    struct loci_bells *bells;
    struct world w;
    uint32_t before;
    int64_t start;
    int next;

    NEED(enter(&w, boot, arg) == 0);
    next = w.rt->everyone->peer[(w.me + 1) % w.n];
    before = atomic_load(&w.rt->bells->bell[LOCI_BELL_SST].rings);
    NEED(together(&w) == LOCO_OK);
    for (start = run_now(); (bells = loci_bells_of(w.rt, next)) == NULL; usleep(1000))
        NEED(run_now() - start < run_limit(RUN_PATIENCE));
    loci_ring_bell(w.rt, &bells->bell[LOCI_BELL_SST]);
    NEED(together(&w) == LOCO_OK);
    NEED(atomic_load(&w.rt->bells->bell[LOCI_BELL_SST].rings) == before + 1);
    return leave(&w);
}

Test(shm, bells_are_mapped_where_proc_does_not_help, .timeout = 60)
{
    run(2, maps_bells, &plain);
    run(2, maps_bells, &closed);
}

/* A stopped owner does not answer. */
static int maps_soon(const struct loco_bootstrap *boot, void *arg)
{
    struct loci_mem *theirs;
    struct world w;
    int64_t start;
    pid_t pids[2], me = getpid();

    NEED(enter(&w, boot, arg) == 0);
    NEED(w.exchange->allgather(w.exchange->ctx, &me, sizeof me, pids) == LOCO_OK);
    if (w.me == 1) {
        NEED(together(&w) == LOCO_OK && raise(SIGSTOP) == 0);
        return leave(&w);
    }
    theirs = &w.pools[1];
    NEED(together(&w) == LOCO_OK);
    usleep(200000);
    start = run_now();
    NEED(loci_mem_map_soon(w.rt, theirs) == NULL && loci_mem_map_soon(w.rt, theirs) == NULL);
    NEED(!run_too_long(start, 500000000));
    NEED(kill(pids[1], SIGCONT) == 0);
    for (start = run_now(); loci_mem_map_soon(w.rt, theirs) == NULL; usleep(1000))
        NEED(run_now() - start < run_limit(RUN_PATIENCE));
    NEED(loci_mem_map(w.rt, theirs) == loci_mem_ptr(theirs));
    loci_mem_drop(w.rt, theirs);
    return leave(&w);
}

Test(shm, who_cannot_wait_has_memory_mapped_later, .timeout = 60)
{
    run(2, maps_soon, &closed);
}

/* Memory files that are mapped here, own ones included. */
static int count_maps(void)
{
    char line[512];
    FILE *f = fopen("/proc/self/maps", "re");
    int n = 0;

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        n += strstr(line, "memfd:loco") != NULL;
    if (f != NULL)
        fclose(f);
    return n;
}

static int wait_for_maps(int most)
{
    int n = 0;

    for (int i = 0; i < 2000; i++) {
        n = count_maps();
        if (n <= most)
            return n;
        usleep(1000);
    }
    return n;
}

static void drop(struct world *w, struct loci_mem *handles)
{
    for (int i = 0; i < w->n; i++)
        loci_mem_drop(w->rt, &handles[i]);
}

/* The owner frees an extent while a peer has handles on it: these find zeros until the last of them
 * is dropped; then the mapping goes. */
static int outlive_owner(struct world *w)
{
    struct loci_mem big, first[8], second[8];
    int next = (w->me + 1) % w->n;

    NEED(loci_alloc(w->rt, (size_t)40 << 20, 0, &big) == LOCO_OK);
    loci_store64(loci_mem_ptr(&big), 7);
    NEED(share(w, &big, first) == 0 && share(w, &big, second) == 0);
    NEED(loci_mem_map(w->rt, &first[next]) != NULL && loci_mem_map(w->rt, &second[next]) != NULL);
    NEED(loci_load64(loci_mem_ptr(&first[next])) == 7);
    NEED(together(w) == LOCO_OK);
    loci_free(w->rt, &big);
    NEED(together(w) == LOCO_OK);
    usleep(100000);                     /* its owner's word is here by then */
    NEED(loci_load64(loci_mem_ptr(&first[next])) == 0);
    loci_mem_drop(w->rt, &first[next]);
    NEED(loci_load64(loci_mem_ptr(&second[next])) == 0);
    loci_mem_drop(w->rt, &second[next]);
    return 0;
}

static int outlives_its_owner(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;
    int maps;

    NEED(enter(&w, boot, arg) == 0);
    NEED(outlive_owner(&w) == 0);
    usleep(100000);
    maps = count_maps();
    for (int i = 0; i < 3; i++)
        NEED(outlive_owner(&w) == 0);
    NEED(wait_for_maps(maps) <= maps);
    return leave(&w);
}

Test(shm, a_mapping_stays_for_its_handles, .timeout = 60)
{
    run(2, outlives_its_owner, &plain);
    run(2, outlives_its_owner, &foreign);
}

/* As after that many: numbers of extents and of the user's memory. */
static int count_on(struct world *w, uint64_t extents, uint64_t users)
{
    struct shm_fabric *f = shm_of(w->rt->fabric);

    w->rt->extents_made = extents;
    for (uint32_t i = 0; i < f->users_room; i++)
        if (f->users[i].next != SHM_USED)
            f->users[i].number = (users * SHM_USERS + i) & LOCI_MEMKEY_MOST;
    return 0;
}

/* Memory of numbers that differ from those of other memory in their upper halves alone, or come
 * after the last one: what is written there is there, and not elsewhere. */
static int numbers_memory(const struct loco_bootstrap *boot, void *arg)
{
    static const uint64_t before[] = {
        UINT64_C(1) << 32, UINT64_C(5) << 32, (LOCI_MEMKEY_MOST >> 24) - 1,
    };
    struct loci_mem big, user, bigs[8], users[8], old = { .key.kind = LOCI_MEM_NONE };
    static uint64_t words[4];
    struct world w;

    NEED(enter(&w, boot, arg) == 0);
    for (int i = 0; i < 9; i++) {
        uint64_t value = 0, number = (uint64_t)i + 10;
        int next = (w.me + 1) % w.n;

        if (i % 3 == 0)
            NEED(count_on(&w, before[i / 3], before[i / 3]) == 0);
        NEED(loci_alloc(w.rt, (size_t)40 << 20, 0, &big) == LOCO_OK);
        NEED(loci_user_add(w.rt, words, sizeof words, &user) == LOCO_OK);
        NEED(share(&w, &big, bigs) == 0 && share(&w, &user, users) == 0);
        NEED(loci_write64(w.rt, &bigs[next], 8, number, NULL) == LOCO_OK);
        NEED(loci_write64(w.rt, &users[next], 8, number + 1, NULL) == LOCO_OK);
        if (old.key.kind != LOCI_MEM_NONE && w.rt->tunables.cma == LOCI_CMA_NEVER)
            NEED(loci_write64(w.rt, &old, 8, 1, NULL) != LOCO_OK);
        NEED(together(&w) == LOCO_OK);
        NEED(loci_load64(loci_mem_ptr(&big) + 8) == number && words[1] == number + 1);
        NEED(loci_read64(w.rt, &w.pools[next], 8, &value, NULL) == LOCO_OK && value == 0);
        old = users[next];
        drop(&w, bigs);
        NEED(together(&w) == LOCO_OK);
        loci_user_remove(w.rt, &user);
        loci_free(w.rt, &big);
    }
    return leave(&w);
}

Test(shm, numbers_of_memory_do_not_wrap, .timeout = 60)
{
    run(2, numbers_memory, &plain);
    run(2, numbers_memory, &foreign);
    run(2, numbers_memory, &never);
}

static int maps_own_extents(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;
    struct loci_mem big, others[8];
    uint64_t old;
    int maps = 0, fds = 0;

    NEED(enter(&w, boot, arg) == 0);
    for (int i = 0; i < 40; i++) {
        int next = (w.me + 1) % w.n;

        /* Larger than what is left of the first extent: its own. */
        NEED(loci_alloc(w.rt, (size_t)40 << 20, 0, &big) == LOCO_OK);
        NEED(share(&w, &big, others) == 0);
        for (int j = 0; j < 3; j++)
            NEED(loci_fetch_add(w.rt, &others[next], 4096, 1, &old, NULL) == LOCO_OK
                 && old == (uint64_t)j);
        NEED(loci_mem_ptr(&others[next]) != NULL);
        drop(&w, others);
        NEED(together(&w) == LOCO_OK);
        loci_free(w.rt, &big);
        if (i == 1) {
            NEED(together(&w) == LOCO_OK);
            maps = wait_for_maps(1);
            fds = count_fds();
        }
    }
    NEED(together(&w) == LOCO_OK);
    NEED(wait_for_maps(maps) <= maps);
    NEED(count_fds() <= fds);
    return leave(&w);
}

Test(shm, mappings_of_freed_extents_go, .timeout = 60)
{
    static const struct setup small = { .settings = { "LOCO_EXTENT_MIN=2M" } };
    static const struct setup small_foreign = { .foreign = true,
                                                .settings = { "LOCO_EXTENT_MIN=2M" } };

    run(3, maps_own_extents, &small);
    run(2, maps_own_extents, &small_foreign);
}

/* All copies go through the owner's service thread. */
static const struct setup by_service = {
    .settings = { "LOCO_CMA=never", "LOCO_OFFERS=never" },
};

/* Have the next mapping of that peer's memory fail. Sanitizers map memory of their own all the
 * time, so with them the failure is only remembered, not met. */
static void stop_mapping(struct world *w, int rank)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    struct shm_peer *p = loci_peer(w->rt, w->pools[rank].peer)->fabric_data;
    struct shm_mapping *m = calloc(1, sizeof *m);

    m->extent = w->pools[rank].key.extent;
    m->again_at = INT64_MAX;
    m->next = p->mappings;
    p->mappings = m;
#else
    struct rlimit limit = { .rlim_cur = 1, .rlim_max = RLIM_INFINITY };

    (void)w;
    (void)rank;
    free(malloc((size_t)100 << 10));    /* the heap keeps that: small pieces are still to be had */
    setrlimit(RLIMIT_AS, &limit);
#endif
}

static int copies_what_it_cannot_map(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;
    const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
    uint64_t old, value = 0;
    int next;

    NEED(enter(&w, boot, arg) == 0);
    next = (w.me + 1) % w.n;
    NEED(loci_write64(w.rt, &w.users[next], 0, 5, NULL) == LOCO_OK);
    NEED(together(&w) == LOCO_OK);      /* both have mapped the area for the other's copies */
    if (w.me == 0)
        stop_mapping(&w, next);
    NEED(loci_write64(w.rt, &w.pools[next], 64, 5, NULL) == LOCO_OK);
    NEED(loci_fetch_add(w.rt, &w.pools[next], 64, 3, &old, NULL) == LOCO_OK && old == 5);
    NEED(loci_compare_swap(w.rt, &w.pools[next], 64, 8, 9, &old, NULL) == LOCO_OK && old == 8);
    NEED(loci_compare_swap(w.rt, &w.pools[next], 64, 8, 10, &old, NULL) == LOCO_OK && old == 9);
    NEED(loci_read64(w.rt, &w.pools[next], 64, &value, NULL) == LOCO_OK && value == 9);
    NEED((loci_mem_ptr(&w.pools[next]) == NULL) == (w.me == 0));
    NEED(setrlimit(RLIMIT_AS, &unlimited) == 0);
    return leave(&w);
}

/* An owner that cannot take or map what the copy goes through says so: nobody waits for ever. There
 * are more requests than an area has slots. Once it can, it copies. */
static int is_refused_and_served(struct world *w, int resource, const struct rlimit *little)
{
    struct rlimit before = { 0, 0 };

    if (w->me == 0) {
        NEED(getrlimit(resource, &before) == 0);
        NEED(setrlimit(resource, &(struct rlimit){ little->rlim_cur, before.rlim_max }) == 0);
    }
    NEED(together(w) == LOCO_OK);
    for (int i = 0; w->me == 1 && i < 20; i++)
        NEED(loci_write64(w->rt, &w->users[0], 0, 5, NULL) == LOCO_ERR_NO_MEMORY);
    NEED(together(w) == LOCO_OK);
    if (w->me == 0)
        NEED(setrlimit(resource, &before) == 0);
    NEED(together(w) == LOCO_OK);
    for (int i = 0; w->me == 1 && i < 20; i++)
        NEED(loci_write64(w->rt, &w->users[0], 0, 5, NULL) == LOCO_OK);
    return 0;
}

static int lacks_descriptors(const struct loco_bootstrap *boot, void *arg)
{
    const struct rlimit none = { .rlim_cur = 3 };
    struct world w;

    NEED(enter(&w, boot, arg) == 0);
    NEED(is_refused_and_served(&w, RLIMIT_NOFILE, &none) == 0);
    return leave(&w);
}

Test(shm, an_owner_without_descriptors_says_so, .timeout = 20)
{
    run(2, lacks_descriptors, &by_service);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
static int lacks_address_space(const struct loco_bootstrap *boot, void *arg)
{
    const struct rlimit none = { .rlim_cur = 1 };
    struct world w;

    NEED(enter(&w, boot, arg) == 0);
    free(malloc((size_t)100 << 10));    /* the heap keeps that: small pieces are still to be had */
    NEED(is_refused_and_served(&w, RLIMIT_AS, &none) == 0);
    return leave(&w);
}

Test(shm, an_owner_that_cannot_copy_says_so, .timeout = 20)
{
    run(2, lacks_address_space, &by_service);
}
#endif

/* Requests that cannot be sent keep no slot, of which there are eight: the next one that can be
 * does not wait for them. */
static int cannot_send(const struct loco_bootstrap *boot, void *arg)
{
    struct shm_peer *p;
    struct world w;

    NEED(enter(&w, boot, arg) == 0);
    p = loci_peer(w.rt, w.users[1 - w.me].peer)->fabric_data;
    NEED(loci_write64(w.rt, &w.users[1 - w.me], 0, 5, NULL) == LOCO_OK);
    for (int i = 0; w.me == 0 && i < 20; i++) {
        pthread_mutex_lock(&p->lock);
        p->hung_up = true;
        pthread_mutex_unlock(&p->lock);
        NEED(loci_write64(w.rt, &w.users[1], 0, 5, NULL) == LOCO_ERR_PEER_DEAD);
        pthread_mutex_lock(&p->lock);
        p->hung_up = false;
        pthread_mutex_unlock(&p->lock);
    }
    NEED(loci_write64(w.rt, &w.users[1 - w.me], 0, 6, NULL) == LOCO_OK);
    NEED(together(&w) == LOCO_OK);
    NEED(w.memory[0] == 6);
    return leave(&w);
}

Test(shm, what_cannot_be_sent_keeps_no_room, .timeout = 20)
{
    run(2, cannot_send, &by_service);
}

/* The owner is told of the area by a message with a descriptor, which takes a socket more. Where
 * there is none the call fails, and the next one tries again. */
static int lacks_a_socket(const struct loco_bootstrap *boot, void *arg)
{
    struct rlimit limit, few;
    struct world w;
    int next;

    NEED(enter(&w, boot, arg) == 0);
    NEED(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    few = limit;
    next = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    NEED(next >= 0 && close(next) == 0);
    few.rlim_cur = (rlim_t)next + 1;    /* for the area itself */
    if (w.me == 0) {
        NEED(setrlimit(RLIMIT_NOFILE, &few) == 0);
        NEED(loci_write64(w.rt, &w.users[1], 0, 5, NULL) == LOCO_ERR_SYSTEM);
        NEED(loci_write64(w.rt, &w.users[1], 0, 5, NULL) == LOCO_ERR_SYSTEM);
        NEED(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        NEED(loci_write64(w.rt, &w.users[1], 0, 7, NULL) == LOCO_OK);
    }
    NEED(together(&w) == LOCO_OK);
    NEED(w.me == 0 || w.memory[0] == 7);
    return leave(&w);
}

Test(shm, an_area_that_could_not_be_told_is_told_later, .timeout = 20)
{
    run(2, lacks_a_socket, &by_service);
}

Test(shm, memory_that_cannot_be_mapped_is_copied_by_its_owner)
{
    run(2, copies_what_it_cannot_map, &by_service);
}

/* ---- memory of the user ---- */

/* What member `from` writes at `at`. */
static unsigned char pattern(int from, size_t at)
{
    return (unsigned char)((size_t)from * 31 + at * 7 + at / 251);
}

/* Spans of many sizes, disjoint, over the first half of the range; some empty. */
static int make_spans(struct loci_op *ops, int most, struct loci_mem *mem, unsigned char *local,
                      enum loci_op_kind kind)
{
    unsigned seed = 12345;
    size_t at = 0;
    int n = 0;

    while (n < most && at < LEN / 2) {
        size_t len = rand_r(&seed) % 700;

        ops[n] = (struct loci_op){ .kind = kind, .mem = mem, .offset = at, .local = local + at,
                                   .len = len };
        n++;
        at += len + (size_t)rand_r(&seed) % 30;
    }
    return n;
}

static int copies_user_memory(const struct loco_bootstrap *boot, void *arg)
{
    enum { MOST = 4000 };
    static struct loci_op ops[MOST];
    unsigned char *local = malloc(LEN), *back = malloc(LEN);
    struct world w;
    int n, next, before, posted = 0;

    NEED(local != NULL && back != NULL && enter(&w, boot, arg) == 0);
    next = (w.me + 1) % w.n;
    before = (w.me + w.n - 1) % w.n;
    for (size_t i = 0; i < LEN; i++)
        local[i] = pattern(w.me, i);
    memset(w.memory, 1, LEN);
    NEED(together(&w) == LOCO_OK);
    n = make_spans(ops, MOST, &w.users[next], local, LOCI_WRITE);
    NEED(n > 1000);
    NEED(loci_post_spans(w.rt, ops, n, NULL) == LOCO_OK);
    NEED(loci_write(w.rt, &w.users[next], LEN / 2, local + LEN / 2, LEN / 2, NULL) == LOCO_OK);
    NEED(together(&w) == LOCO_OK);
    for (size_t i = LEN / 2; i < LEN; i++)
        NEED(w.memory[i] == pattern(before, i));
    for (size_t i = 0, at = 0; at < LEN / 2; at++) {
        while (i < (size_t)n && at >= ops[i].offset + ops[i].len)
            i++;
        NEED(w.memory[at] == (i < (size_t)n && at >= ops[i].offset ? pattern(before, at) : 1));
    }
    memset(back, 1, LEN);
    n = make_spans(ops, MOST, &w.users[next], back, LOCI_READ);
    NEED(loci_post_spans(w.rt, ops, n, NULL) == LOCO_OK);
    NEED(loci_read(w.rt, &w.users[next], LEN / 2, back + LEN / 2, LEN / 2, NULL) == LOCO_OK);
    for (size_t i = LEN / 2; i < LEN; i++)
        NEED(back[i] == local[i]);
    for (int i = 0; i < n; i++)
        NEED(memcmp(back + ops[i].offset, local + ops[i].offset, ops[i].len) == 0);
    NEED(w.rt->ops->post(w.rt->fabric, loci_lane(loci_self(w.rt), w.users[next].peer, &n), ops, 0,
                         &posted) == LOCO_OK && posted == 0);
    free(local);
    free(back);
    return leave(&w);
}

Test(shm, memory_of_the_user_is_copied)
{
    run(2, copies_user_memory, &plain);
    run(4, copies_user_memory, &plain);
}

Test(shm, memory_of_the_user_is_copied_by_its_owner)
{
    run(2, copies_user_memory, &never);
    run(4, copies_user_memory, &never);
    run(2, copies_user_memory, &foreign);
}

struct copier {
    struct world *w;
    int next;
    uint64_t base;
    int status;
};

static void *copy_much(void *arg)
{
    struct copier *c = arg;
    uint64_t value = 0;

    for (uint64_t i = 1; i <= 500 && c->status == LOCO_OK; i++) {
        c->status = loci_write64(c->w->rt, &c->w->users[c->next], c->base, i, NULL);
        if (c->status == LOCO_OK)
            c->status = loci_read64(c->w->rt, &c->w->users[c->next], c->base, &value, NULL);
        if (c->status == LOCO_OK && value != i)
            c->status = -999;
    }
    return NULL;
}

static int copies_with_threads(const struct loco_bootstrap *boot, void *arg)
{
    enum { THREADS = 12 };      /* more than there are slots */
    pthread_t threads[THREADS];
    struct copier copiers[THREADS];
    struct world w;

    NEED(enter(&w, boot, arg) == 0);
    for (int i = 0; i < THREADS; i++) {
        copiers[i] = (struct copier){ &w, (w.me + 1) % w.n, (uint64_t)i * 8, LOCO_OK };
        NEED(pthread_create(&threads[i], NULL, copy_much, &copiers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        NEED(copiers[i].status == LOCO_OK);
    }
    return leave(&w);
}

Test(shm, many_threads_copy_at_once)
{
    run(2, copies_with_threads, &never);
    run(2, copies_with_threads, &plain);
}

static int asks_for_what_is_not_registered(const struct loco_bootstrap *boot, void *arg)
{
    unsigned char bytes[64] = { 1 };
    struct world w;
    struct loci_mem wrong;
    uint64_t old = 77;

    NEED(enter(&w, boot, arg) == 0);
    if (w.me == 0) {
        wrong = w.users[1];
        wrong.key.extent += 1000;
        NEED(loci_write(w.rt, &wrong, 0, bytes, 64, NULL) == LOCO_ERR_RANGE);
        wrong = w.users[1];
        NEED(loci_write(w.rt, &wrong, LEN - 63, bytes, 64, NULL) == LOCO_ERR_RANGE);
        wrong.key.base -= 1;
        NEED(loci_write(w.rt, &wrong, 0, bytes, 64, NULL) == LOCO_ERR_RANGE);
        NEED(loci_read(w.rt, &wrong, 0, bytes, 64, NULL) == LOCO_ERR_RANGE);
        wrong.key.base = UINT64_MAX - 10;
        NEED(loci_read(w.rt, &wrong, 0, bytes, 64, NULL) == LOCO_ERR_RANGE);
        NEED(bytes[0] == 1);
        NEED(loci_fetch_add(w.rt, &w.users[1], 0, 1, &old, NULL) == LOCO_ERR_UNSUPPORTED);
        NEED(loci_compare_swap(w.rt, &w.users[1], 0, 0, 1, &old, NULL) == LOCO_ERR_UNSUPPORTED);
        NEED(old == 77);
    }
    NEED(together(&w) == LOCO_OK);
    for (size_t i = 0; i < LEN; i++)
        NEED(w.memory[i] == 0);
    return leave(&w);
}

Test(shm, owner_copies_only_what_is_registered)
{
    run(2, asks_for_what_is_not_registered, &never);
}

static int copies_from_what_is_not_there(const struct loco_bootstrap *boot, void *arg)
{
    unsigned char bytes[64];
    struct world w;

    NEED(enter(&w, boot, arg) == 0);
    if (w.me == 1)
        NEED(hole(w.memory, LEN) == 0);
    NEED(together(&w) == LOCO_OK);
    if (w.me == 0) {
        NEED(loci_read(w.rt, &w.users[1], 0, bytes, 64, NULL) == LOCO_ERR_SYSTEM);
        NEED(loci_write(w.rt, &w.users[1], 0, bytes, 64, NULL) == LOCO_ERR_SYSTEM);
    }
    return leave(&w);
}

Test(shm, unmapped_memory_of_the_user_is_an_error)
{
    run(2, copies_from_what_is_not_there, &plain);
    run(2, copies_from_what_is_not_there, &never);
}

/* ---- words of user memory, in the owner domain ---- */

/* Between the owner's own, and those of two who ask it. */
#define ADDS 2000

static int updates_user_memory(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;
    uint64_t old = 77;

    NEED(enter(&w, boot, arg) == 0);
    for (int i = 0; i < w.n; i++)
        loci_mem_set_domain(&w.users[i], LOCI_DOMAIN_OWNER);
    NEED(loci_mem_word(&w.users[w.me]) == w.memory && loci_mem_word(&w.users[1 - w.me]) == NULL);
    for (int i = 0; i < ADDS; i++)
        NEED(loci_fetch_add(w.rt, &w.users[1], 64, 1, &old, NULL) == LOCO_OK);
    NEED(together(&w) == LOCO_OK);
    if (w.me == 0) {
        NEED(loci_fetch_add(w.rt, &w.users[1], 64, 0, &old, NULL) == LOCO_OK && old == 2 * ADDS);
        NEED(loci_compare_swap(w.rt, &w.users[1], 64, 1, 2, &old, NULL) == LOCO_OK
             && old == 2 * ADDS);
        NEED(loci_compare_swap(w.rt, &w.users[1], 64, old, 5, &old, NULL) == LOCO_OK);
        NEED(loci_fetch_add(w.rt, &w.users[1], 68, 1, &old, NULL) == LOCO_ERR_UNSUPPORTED);
        NEED(loci_fetch_add(w.rt, &w.users[1], LEN, 1, &old, NULL) == LOCO_ERR_RANGE);
    }
    NEED(together(&w) == LOCO_OK);
    NEED(w.me == 0 || loci_load64(w.memory + 64) == 5);
    return leave(&w);
}

Test(shm, owner_updates_user_memory)
{
    run(2, updates_user_memory, &plain);
    run(2, updates_user_memory, &never);
}

/* The owner is told of no signal, whatever became of its memory, and goes on. */
static int updates_what_it_may_not(const struct loco_bootstrap *boot, void *arg)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t old = 77;
    struct world w;

    NEED(enter(&w, boot, arg) == 0);
    loci_mem_set_domain(&w.users[1 - w.me], LOCI_DOMAIN_OWNER);
    if (w.me == 1) {
        NEED(mprotect(w.memory, page, PROT_READ) == 0);
        NEED(mprotect(w.memory + page, page, PROT_NONE) == 0);
        NEED(hole(w.memory + 2 * page, page) == 0);
    }
    NEED(together(&w) == LOCO_OK);
    if (w.me == 0) {
        for (size_t i = 0; i < 3; i++) {
            NEED(loci_fetch_add(w.rt, &w.users[1], i * page, 1, &old, NULL) == LOCO_ERR_SYSTEM);
            NEED(loci_compare_swap(w.rt, &w.users[1], i * page + 8, 0, 1, &old, NULL)
                 == LOCO_ERR_SYSTEM);
        }
        NEED(old == 77);
        NEED(loci_fetch_add(w.rt, &w.users[1], 3 * page, 1, &old, NULL) == LOCO_OK && old == 0);
    }
    return leave(&w);
}

Test(shm, memory_that_may_not_be_updated_is_an_error)
{
    run(2, updates_what_it_may_not, &plain);
}

/* ---- nodes ---- */

static int lives_on_its_own_node(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;

    NEED(enter(&w, boot, arg) == 0);
    NEED(!loci_peer(w.rt, 1)->reachable);
    NEED(loci_write64(w.rt, &w.pools[1 - w.me], 0, 5, NULL) == LOCO_ERR_UNSUPPORTED);
    NEED(loci_write64(w.rt, &w.users[1 - w.me], 0, 5, NULL) == LOCO_ERR_UNSUPPORTED);
    NEED(w.rt->ops->control_send(w.rt->fabric, loci_peer(w.rt, 1), "x", 1)
         == LOCO_ERR_UNSUPPORTED);
    return leave(&w);
}

Test(shm, other_nodes_are_not_reached)
{
    static const struct setup nodes = { .own_node = true };

    run(2, lives_on_its_own_node, &nodes);
}

/* ---- limits, and the program's own forks ---- */

static int asks_for_too_much(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;
    struct loci_mem mem;

    NEED(enter(&w, boot, arg) == 0);
    NEED(loci_alloc(w.rt, (size_t)64 << 20, 0, &mem) == LOCO_ERR_NO_MEMORY);
    NEED(loci_alloc(w.rt, (size_t)1 << 62, 0, &mem) == LOCO_ERR_NO_MEMORY);
    NEED(loci_alloc(w.rt, (size_t)8 << 20, 0, &mem) == LOCO_OK);
    memset(mem.ptr, 1, (size_t)8 << 20);
    loci_free(w.rt, &mem);
    return leave(&w);
}

Test(shm, memory_beyond_the_limit_is_refused)
{
    static const struct setup limited = { .settings = { "LOCO_MEM_LIMIT=32M" },
                                          .log = count_dropped };

    run(2, asks_for_too_much, &limited);
}

static int forks_itself(const struct loco_bootstrap *boot, void *arg)
{
    char *const argv[] = { (char *)"true", NULL };
    struct world w;
    uint64_t old;
    int first = count_fds();

    NEED(enter(&w, boot, arg) == 0);
    NEED(loci_fetch_add(w.rt, &w.pools[1 - w.me], 0, 1, &old, NULL) == LOCO_OK);
    for (int fd = 3; fd < 1024; fd++) {
        char path[32], name[128] = "";
        int flags = fcntl(fd, F_GETFD);

        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        if (flags < 0 || (flags & FD_CLOEXEC) || readlink(path, name, sizeof name - 1) < 0)
            continue;
        first--;    /* was there before us, then: no more than those */
    }
    NEED(first >= 0);
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        int status;

        if (pid == 0 && i % 2)
            execv("/bin/true", argv);
        if (pid == 0)
            _exit(0);
        NEED(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        NEED(loci_fetch_add(w.rt, &w.pools[1 - w.me], 0, 1, &old, NULL) == LOCO_OK);
        NEED(loci_write64(w.rt, &w.users[1 - w.me], 0, 1, NULL) == LOCO_OK);
    }
    return leave(&w);
}

Test(shm, programs_may_fork)
{
    run(2, forks_itself, &plain);
    run(2, forks_itself, &never);
}
