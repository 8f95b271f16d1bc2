/* SPDX-License-Identifier: BSD-3-Clause */

/* Large copies of the user's memory that origin and target do together: between forked processes,
 * where the target polls, sleeps, refuses, or is killed. Members return 0, or 1 and a line. */

#include "shm_world.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "fabric/shm/offer.h"

#define AREA ((size_t)9 << 20)      /* of the target's large memory, of each origin */
#define ORIGINS 2
#define TARGET 0
#define ROUNDS 12

/* How the target passes its time. */
enum way { POLLS, SLEEPS, MIXES, REFUSES, FAILS };

/* A world with large memory, too: at rank 0 it holds an area for each origin. */
struct large {
    struct world w;
    struct loci_mem mem, at_target;
    unsigned char *memory;
    unsigned seed;
    enum way way;
};

/* From here on this thread may not copy between processes. */
static int forbid(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    const struct sock_fprog program = { sizeof code / sizeof code[0], code };

    NEED(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    NEED(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    return 0;
}

static int enter_large(struct large *l, const struct loco_bootstrap *boot, enum way way)
{
    struct loci_mem all[8];

    NEED(enter(&l->w, boot, &(struct setup){ false }) == 0);
    l->way = way;
    l->seed = (unsigned)run_now() + (unsigned)l->w.me;
    l->memory = mmap(NULL, AREA * ORIGINS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
    NEED(l->memory != MAP_FAILED);
    NEED(loci_user_add(l->w.rt, l->memory, AREA * ORIGINS, &l->mem) == LOCO_OK);
    NEED(share(&l->w, &l->mem, all) == 0);
    l->at_target = all[TARGET];
    if (way == REFUSES && l->w.me == TARGET)    /* its help, not access */
        loci_user_remove(l->w.rt, &l->mem);
    if (way == FAILS && l->w.me == TARGET)
        NEED(forbid() == 0);
    NEED(loci_mem_map(l->w.rt, &l->w.pools[TARGET]) != NULL);
    NEED(together(&l->w) == LOCO_OK);
    return 0;
}

static int leave_large(struct large *l)
{
    NEED(together(&l->w) == LOCO_OK);
    if (l->way != REFUSES || l->w.me != TARGET)
        loci_user_remove(l->w.rt, &l->mem);
    munmap(l->memory, AREA * ORIGINS);
    return leave(&l->w);
}

static unsigned char *count_of_done(struct large *l)
{
    return loci_mem_ptr(&l->w.pools[TARGET]);
}

static void pass_time(struct large *l, uint64_t origins)
{
    unsigned rounds = 0;

    while (loci_load64(count_of_done(l)) < origins) {
        if (l->way == SLEEPS || (l->way == MIXES && rand_r(&l->seed) % 200 == 0))
            usleep(100);
        else
            loci_wait_round(l->w.rt, &rounds);
    }
}

static uint64_t place_of(const struct large *l)
{
    return AREA * (uint64_t)(l->w.me - 1);
}

/* Writes and reads of all lengths, beside a copy that says what must be there. */
static int write_and_read(struct large *l)
{
    unsigned char *mine = l->memory, *back = l->memory + AREA;

    for (int i = 0; i < ROUNDS; i++) {
        size_t len = 1 + (size_t)rand_r(&l->seed) % (i % 3 == 0 ? AREA : 2 << 20);
        size_t at = (size_t)rand_r(&l->seed) % (AREA - len + 1);

        for (size_t k = at; k < at + len; k++)
            mine[k] = (unsigned char)(mine[k] * 7 + k + (unsigned)i + 1);
        NEED(loci_write(l->w.rt, &l->at_target, place_of(l) + at, mine + at, len, NULL)
             == LOCO_OK);
        len = 1 + (size_t)rand_r(&l->seed) % (AREA - at);
        memset(back, 0xee, AREA);
        NEED(loci_read(l->w.rt, &l->at_target, place_of(l) + at, back + at, len, NULL)
             == LOCO_OK);
        NEED(memcmp(back + at, mine + at, len) == 0);
        NEED(at == 0 || back[at - 1] == 0xee);
        NEED(at + len == AREA || back[at + len] == 0xee);
    }
    NEED(loci_read(l->w.rt, &l->at_target, place_of(l), back, AREA, NULL) == LOCO_OK);
    NEED(memcmp(back, mine, AREA) == 0);
    return 0;
}

static int data(const struct loco_bootstrap *boot, void *arg)
{
    struct large l;

    NEED(enter_large(&l, boot, *(enum way *)arg) == 0);
    if (l.w.me == TARGET) {
        pass_time(&l, ORIGINS);
        NEED(loci_shm_offers_in_use(shm_of(l.w.rt->fabric)) == 0);
    } else {
        NEED(write_and_read(&l) == 0);
        loci_cpu_fetch_add(count_of_done(&l), 1);
    }
    return leave_large(&l);
}

TestSuite(share, .timeout = 120);

static void check_data(enum way way)
{
    cr_assert_eq(loco_fork_run(1 + ORIGINS, data, &way, NULL), LOCO_OK);
}

Test(share, copies_with_a_target_that_polls)
{
    check_data(POLLS);
}

Test(share, copies_without_a_target_that_sleeps)
{
    check_data(SLEEPS);
}

Test(share, copies_with_a_target_that_does_both)
{
    check_data(MIXES);
}

Test(share, copies_what_the_target_refuses)
{
    check_data(REFUSES);
}

/* It takes pieces and cannot copy them. */
Test(share, copies_what_the_target_fails_to)
{
    check_data(FAILS);
}

/* ---- who does it ---- */

/* Pieces of one copy of a whole offer that the target has done; or -1. */
static int pieces_by_target(struct large *l, enum loci_op_kind kind)
{
    struct loci_op op = {
        .kind = kind, .mem = &l->at_target, .local = l->memory, .len = (size_t)4 << 20,
    };
    unsigned pieces;
    size_t bytes;

    if (loci_shm_share(loci_peer(l->w.rt, l->at_target.peer)->fabric_data, &op, 0, &bytes, &pieces)
        != LOCO_OK || bytes != op.len)
        return -1;
    return (int)pieces;
}

/* For ever, where it does none: the test's time ends. */
static int taken(const struct loco_bootstrap *boot, void *arg)
{
    struct large l;

    (void)arg;
    NEED(enter_large(&l, boot, POLLS) == 0);
    if (l.w.me == TARGET) {
        pass_time(&l, 1);
        return leave_large(&l);
    }
    for (int kind = LOCI_WRITE; kind <= LOCI_READ; kind++) {
        int pieces;

        do {
            pieces = pieces_by_target(&l, (enum loci_op_kind)kind);
            NEED(pieces >= 0);
        } while (pieces == 0);
    }
    loci_cpu_fetch_add(count_of_done(&l), 1);
    return leave_large(&l);
}

Test(share, is_taken_by_who_polls)
{
    cr_assert_eq(loco_fork_run(2, taken, NULL, NULL), LOCO_OK);
}

static int not_taken(const struct loco_bootstrap *boot, void *arg)
{
    struct large l;

    (void)arg;
    NEED(enter_large(&l, boot, SLEEPS) == 0);
    if (l.w.me == TARGET) {
        pass_time(&l, 1);
        return leave_large(&l);
    }
    for (int i = 0; i < 20; i++)
        NEED(pieces_by_target(&l, LOCI_WRITE) == 0);
    loci_cpu_fetch_add(count_of_done(&l), 1);
    return leave_large(&l);
}

Test(share, is_not_taken_by_who_sleeps)
{
    cr_assert_eq(loco_fork_run(2, not_taken, NULL, NULL), LOCO_OK);
}

/* ---- deaths ---- */

static int until_target_dies(const struct loco_bootstrap *boot, void *arg)
{
    _Atomic int *ready = arg;
    struct large l;
    int status = LOCO_OK;

    NEED(enter_large(&l, boot, POLLS) == 0);
    atomic_fetch_add(ready, 1);
    if (l.w.me == TARGET)
        pass_time(&l, 1);           /* never */
    while (status == LOCO_OK)
        status = loci_write(l.w.rt, &l.at_target, 0, l.memory, AREA, NULL);
    NEED(status == LOCO_ERR_PEER_DEAD);
    loco_runtime_close(l.w.rt);
    return 0;
}

Test(share, ends_when_the_target_is_killed)
{
    _Atomic int *ready = mmap(NULL, sizeof *ready, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned seed = (unsigned)run_now();

    cr_assert_neq(ready, MAP_FAILED);
    for (int i = 0; i < 8; i++) {
        loco_fork_t *job;
        int results[2];

        atomic_store(ready, 0);
        cr_assert_eq(loco_fork_start(2, until_target_dies, ready, &job), LOCO_OK);
        while (atomic_load(ready) < 2)
            usleep(100);
        usleep(1000 + (unsigned)rand_r(&seed) % 20000);
        kill(loco_fork_pid(job, TARGET), SIGKILL);
        loco_fork_wait(job, results);
        cr_assert_eq(results[1], 0);
    }
    munmap(ready, sizeof *ready);
}
