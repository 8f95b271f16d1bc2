/* SPDX-License-Identifier: BSD-3-Clause */

/* Short copies of a peer's user memory through /proc/PID/mem: what they read and write, that it is
 * that way which is taken, and what there is when the memory cannot be written, or is gone, or the
 * process is. The target helps nobody. Members return 0, or 1 and a line. */

#include "shm_world.h"

#include <signal.h>
#include <sys/resource.h>

#define TARGET 0
#define ORIGIN 1
#define LONGEST 8192            /* bytes, well beyond what is read this way */
#define PAGE ((size_t)4096)
#define MANY_WRITES 2000        /* more than from one look at the target's mappings to the next */

static const struct setup alone = { .settings = { "LOCO_OFFERS=never" } };

static unsigned char byte_at(size_t at)
{
    return (unsigned char)(at * 7 + at / 251);
}

/* The target's memory is filled. */
static int enter_filled(struct world *w, const struct loco_bootstrap *boot,
                        const struct setup *setup)
{
    NEED(enter(w, boot, setup) == 0);
    for (size_t i = 0; i < LEN; i++)
        w->memory[i] = byte_at(i);
    return together(w);
}

static struct loci_mem *at_target(struct world *w)
{
    return &w->users[TARGET];
}

static struct shm_peer *target(struct world *w)
{
    return loci_peer(w->rt, at_target(w)->peer)->fabric_data;
}

static int mem_fd(struct world *w)
{
    return atomic_load(&target(w)->mem_fd);
}

static int reads(struct world *w)
{
    static unsigned char back[LONGEST + 2];

    for (size_t len = 1; len <= LONGEST; len += 1 + len / 9) {
        for (size_t at = PAGE - len % 97; at < LEN - len; at += LEN / 7) {
            memset(back, 0xee, sizeof back);
            NEED(loci_read(w->rt, at_target(w), at, back + 1, len, NULL) == LOCO_OK);
            for (size_t i = 0; i < len; i++)
                NEED(back[1 + i] == byte_at(at + i));
            NEED(back[0] == 0xee && back[1 + len] == 0xee);
        }
    }
    return 0;
}

static int data(const struct loco_bootstrap *boot, void *arg)
{
    const struct setup *setup = arg;
    struct world w;

    NEED(enter_filled(&w, boot, setup) == 0);
    if (w.me == ORIGIN) {
        NEED(mem_fd(&w) == SHM_MEM_UNOPENED);
        NEED(reads(&w) == 0);
        NEED((mem_fd(&w) >= 0) == (setup == &alone));
    }
    return leave(&w);
}

TestSuite(peek, .timeout = 60);

Test(peek, reads_what_is_there)
{
    run(2, data, &alone);
}

Test(peek, is_not_done_where_copies_are_forbidden)
{
    run(2, data, &never);
}

/* With that limit of descriptors it does without. */
static int does_without(struct world *w, rlim_t limit)
{
    const struct rlimit few = { limit, 1024 };

    NEED(setrlimit(RLIMIT_NOFILE, &few) == 0);
    NEED(reads(w) == 0);
    NEED(mem_fd(w) == SHM_MEM_NONE);
    return 0;
}

/* Where descriptors are short, it does without, and has one again a second after there are more. Of
 * one alone nobody can see whose memory it leads to. */
static int without_descriptors(const struct loco_bootstrap *boot, void *arg)
{
    const struct rlimit enough = { 1024, 1024 };
    struct world w;
    int lowest;

    NEED(enter_filled(&w, boot, arg) == 0);
    if (w.me == ORIGIN) {
        lowest = dup(STDIN_FILENO);
        NEED(lowest >= 0 && close(lowest) == 0);
        NEED(does_without(&w, (rlim_t)lowest + 1) == 0);
        usleep(1100000);
        NEED(does_without(&w, 2 * (rlim_t)count_fds()) == 0);
        usleep(1100000);
        NEED(setrlimit(RLIMIT_NOFILE, &enough) == 0);
        NEED(reads(&w) == 0);
        NEED(mem_fd(&w) >= 0);
    }
    return leave(&w);
}

Test(peek, leaves_descriptors_to_others)
{
    run(2, without_descriptors, &alone);
}

/* Every length at many places, until it is known that this can be written, and after; and what lies
 * beside it stays. */
static int writes(struct world *w)
{
    static unsigned char model[LEN], back[LEN];
    unsigned char word[LONGEST];

    for (size_t i = 0; i < LEN; i++)
        model[i] = byte_at(i);
    for (size_t i = 0; i < MANY_WRITES; i++) {
        size_t len = 1 + i * 37 % LONGEST, at = i * 7919 % (LEN - len);

        for (size_t k = 0; k < len; k++)
            model[at + k] = word[k] = (unsigned char)(i + k);
        NEED(loci_write(w->rt, at_target(w), at, word, len, NULL) == LOCO_OK);
    }
    NEED(loci_read(w->rt, at_target(w), 0, back, LEN, NULL) == LOCO_OK);
    NEED(memcmp(back, model, LEN) == 0);
    return 0;
}

static int written(const struct loco_bootstrap *boot, void *arg)
{
    struct world w;

    NEED(enter_filled(&w, boot, arg) == 0);
    if (w.me == ORIGIN) {
        NEED(writes(&w) == 0);
        if (atomic_load(&target(&w)->writable.turn) % 2 != 0) {
            fprintf(stderr, "this kernel does not tell what can be written\n");
        } else {
            NEED(atomic_load(&target(&w)->writable.from) <= at_target(&w)->key.base);
            NEED(atomic_load(&target(&w)->writable.to) >= at_target(&w)->key.base + LEN);
            NEED(loci_shm_poke(target(&w), at_target(&w)->key.base, &w, 8));
        }
    }
    return leave(&w);
}

Test(peek, writes_what_is_said)
{
    run(2, written, &alone);
}

/* Of memory that is registered still, but has gone, nothing old is read; and memory for reading
 * only is not written, however often one tries. */
static int bad_memory(const struct loco_bootstrap *boot, void *arg)
{
    unsigned char word[8] = { 0 };
    struct world w;

    NEED(enter_filled(&w, boot, arg) == 0);
    if (w.me == TARGET) {
        NEED(mprotect(w.memory, PAGE, PROT_READ) == 0);
        NEED(munmap(w.memory + PAGE, PAGE) == 0);
    }
    NEED(together(&w) == LOCO_OK);
    if (w.me == ORIGIN) {
        NEED(loci_read(w.rt, at_target(&w), PAGE - 8, word, 8, NULL) == LOCO_OK);
        NEED(word[0] == byte_at(PAGE - 8));
        NEED(loci_read(w.rt, at_target(&w), PAGE - 4, word, 8, NULL) == LOCO_ERR_SYSTEM);
        for (int i = 0; i < MANY_WRITES; i++)
            NEED(!loci_shm_poke(target(&w), at_target(&w)->key.base, word, 8));
        for (int i = 0; i < MANY_WRITES; i++)
            NEED(!loci_shm_poke(target(&w), at_target(&w)->key.base + PAGE, word, 8));
        for (int i = 0; i < MANY_WRITES; i++)
            NEED(loci_write(w.rt, at_target(&w), 2 * PAGE, word, 8, NULL) == LOCO_OK);
        NEED(!loci_shm_poke(target(&w), at_target(&w)->key.base, word, 8));
        NEED(loci_write(w.rt, at_target(&w), 0, word, 8, NULL) == LOCO_ERR_SYSTEM);
    }
    NEED(together(&w) == LOCO_OK);
    NEED(w.me != TARGET || w.memory[0] == byte_at(0));
    return leave(&w);
}

Test(peek, bad_memory_is_an_error)
{
    run(2, bad_memory, &(struct setup){ .settings = { "LOCO_OFFERS=never" },
                                        .log = count_dropped });
}

static int until_target_dies(const struct loco_bootstrap *boot, void *arg)
{
    unsigned char word[8];
    struct world w;
    int status;

    NEED(enter_filled(&w, boot, arg) == 0);
    if (w.me == TARGET)
        raise(SIGKILL);
    do
        status = loci_read(w.rt, at_target(&w), 8, word, 8, NULL);
    while (status == LOCO_OK);
    NEED(status == LOCO_ERR_PEER_DEAD);
    loco_runtime_close(w.rt);
    return 0;
}

Test(peek, the_dead_are_told)
{
    int statuses[2];

    loco_fork_run(2, until_target_dies, (void *)&alone, statuses);
    cr_assert_neq(statuses[TARGET], 0);
    cr_assert_eq(statuses[ORIGIN], 0);
}
