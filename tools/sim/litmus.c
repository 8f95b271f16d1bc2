/* SPDX-License-Identifier: BSD-3-Clause */

/* The programs, and running them. Each process has four words x, y, z, w of its own in network
 * memory; `put`, `get` and atomics go to a word of some process on one of two queue pairs of the
 * caller; `load` and `store` are its CPU's on its own words. DX and DY are words in the process's
 * device, where that has not refused them. What a program observes it writes into `seen`, in the
 * order that its list of outcomes has. */

#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "fabric/sim/sim.h"
#include "litmus.h"
#include "move/rma.h"
#include "names/endpoint.h"

#define RACE UINT64_C(99)           /* in place of the first value: a race was reported */
#define POISON UINT64_C(98)         /* a result that was looked at too early */
#define OUTCOMES 12

enum { X, Y, Z, W, WORDS, DX = WORDS, DY };
enum { IN_HOST, IN_DEVICE };            /* regions */

/* What a process of a litmus test has in hand. */
struct lit {
    loco_runtime_t *rt;
    int rank;
    struct loci_endpoint *ep;
    struct loci_thread *pair[2];    /* a queue pair to each process, each */
    uint64_t *seen;                 /* of the run: shared by all */
    uint64_t source[8];
};

struct sim_litmus {
    const char *name, *about;
    int processes, values;          /* in an outcome */
    void (*program[4])(struct lit *l);
    uint64_t outcome[OUTCOMES][SIM_LITMUS_VALUES];
    int outcomes;
};

/* ---- what programs are made of ---- */

static struct loci_mem *word(struct lit *l, int process)
{
    return loci_endpoint_mem(l->ep, process, IN_HOST);
}

/* Posted on a queue pair, not waited for. */
static loco_ack_t post(struct lit *l, int pair, struct loci_op op, int process, int at)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status = LOCO_OK;
    struct loci_lane *lane = loci_lane(l->pair[pair], l->ep->group.peer[process], &status);

    op.mem = at < WORDS ? word(l, process) : loci_endpoint_mem(l->ep, process, IN_DEVICE);
    op.offset = (uint64_t)(at % WORDS) * sizeof(uint64_t);
    if (lane != NULL)
        status = loci_lane_post(lane, &op, &ack);
    if (status < 0)
        loci_sim_fail("a post failed: %s", loco_strerror(status));
    return ack;
}

static void wait_for(struct lit *l, loco_ack_t ack)
{
    if (loco_ack_wait(l->rt, &ack) != LOCO_OK)
        loci_sim_fail("an operation failed");
}

static loco_ack_t put(struct lit *l, int pair, int process, int at, uint64_t value)
{
    return post(l, pair, (struct loci_op){ .kind = LOCI_WRITE, .local = &value, .len = 8,
                                           .by_value = true }, process, at);
}

/* From memory that must not change until it is complete. */
static loco_ack_t put_from(struct lit *l, int pair, int process, int at, const uint64_t *source,
                           size_t words)
{
    return post(l, pair, (struct loci_op){ .kind = LOCI_WRITE, .local = (void *)(uintptr_t)source,
                                           .len = 8 * words }, process, at);
}

static loco_ack_t get(struct lit *l, int pair, int process, int at, uint64_t *result, size_t words)
{
    return post(l, pair, (struct loci_op){ .kind = LOCI_READ, .local = result, .len = 8 * words },
                process, at);
}

static loco_ack_t add(struct lit *l, int pair, int process, int at, uint64_t *old)
{
    return post(l, pair, (struct loci_op){ .kind = LOCI_FETCH_ADD, .len = 8, .operand = 1,
                                           .result = old }, process, at);
}

static uint64_t got(struct lit *l, int pair, int process, int at)
{
    uint64_t value;

    wait_for(l, get(l, pair, process, at, &value, 1));
    return value;
}

static void fence(struct lit *l, int pair, int process)
{
    wait_for(l, post(l, pair, (struct loci_op){ .kind = LOCI_PLACE }, process, 0));
}

static uint64_t load(struct lit *l, int at)
{
    return loci_load64(loci_mem_ptr(word(l, l->rank)) + 8 * at);
}

static void store(struct lit *l, int at, uint64_t value)
{
    loci_store64(loci_mem_ptr(word(l, l->rank)) + 8 * at, value);
}

/* ---- message passing: data x, flag y ---- */

static void mp_reader(struct lit *l)
{
    l->seen[0] = load(l, Y);
    l->seen[1] = load(l, X);
}

static void mp_one_pair(struct lit *l)
{
    put(l, 0, 1, X, 1);
    put(l, 0, 1, Y, 1);
}

static void mp_two_pairs(struct lit *l)
{
    put(l, 0, 1, X, 1);
    put(l, 1, 1, Y, 1);
}

static void mp_two_pairs_complete(struct lit *l)
{
    wait_for(l, put(l, 0, 1, X, 1));
    put(l, 1, 1, Y, 1);
}

static void mp_two_pairs_fenced(struct lit *l)
{
    put(l, 0, 1, X, 1);
    fence(l, 0, 1);
    put(l, 1, 1, Y, 1);
}

static void mp_two_pairs_read(struct lit *l)
{
    put(l, 0, 1, X, 1);
    got(l, 0, 1, Z);
    put(l, 1, 1, Y, 1);
}

static void mp_fence_on_other_pair(struct lit *l)
{
    put(l, 0, 1, X, 1);
    fence(l, 1, 1);
    put(l, 1, 1, Y, 1);
}

static void mp_atomic_flag(struct lit *l)
{
    uint64_t old;

    put(l, 0, 1, X, 1);
    wait_for(l, add(l, 0, 1, Y, &old));
}

static void mp_atomic_flag_two_pairs(struct lit *l)
{
    uint64_t old;

    put(l, 0, 1, X, 1);
    wait_for(l, add(l, 1, 1, Y, &old));
}

/* Data at process 2, flag at process 1, which fetches the data. */
static void mp_far_complete(struct lit *l)
{
    wait_for(l, put(l, 0, 2, X, 1));
    put(l, 0, 1, Y, 1);
}

static void mp_far_fenced(struct lit *l)
{
    put(l, 0, 2, X, 1);
    fence(l, 0, 2);
    put(l, 0, 1, Y, 1);
}

static void mp_far_reader(struct lit *l)
{
    l->seen[0] = load(l, Y);
    l->seen[1] = got(l, 0, 2, X);
}

/* ---- the same with the flag in the device of process 1, who reads it there ---- */

static void mp_device_reader(struct lit *l)
{
    l->seen[0] = got(l, 0, 1, DX);
    l->seen[1] = load(l, X);
}

static void mp_device_flag(struct lit *l)
{
    uint64_t old;

    put(l, 0, 1, X, 1);
    wait_for(l, add(l, 0, 1, DX, &old));
}

static void mp_device_flag_complete(struct lit *l)
{
    uint64_t old;

    wait_for(l, put(l, 0, 1, X, 1));
    wait_for(l, add(l, 0, 1, DX, &old));
}

static void mp_device_flag_fenced(struct lit *l)
{
    uint64_t old;

    put(l, 0, 1, X, 1);
    fence(l, 0, 1);
    wait_for(l, add(l, 0, 1, DX, &old));
}

/* The atomic in the device is no fence for what comes after it either. */
static void mp_device_between(struct lit *l)
{
    uint64_t old;

    put(l, 0, 1, X, 1);
    wait_for(l, add(l, 0, 1, DY, &old));
    put(l, 1, 1, Y, 1);
}

static void mp_device_both(struct lit *l)
{
    uint64_t old;

    put(l, 0, 1, DY, 1);
    wait_for(l, add(l, 0, 1, DX, &old));
}

static void mp_device_both_reader(struct lit *l)
{
    l->seen[0] = got(l, 0, 1, DX);
    l->seen[1] = got(l, 0, 1, DY);
}

/* Of a third, in one go: the lock's word, then what it guards. */
static void mp_device_chain(struct lit *l)
{
    uint64_t data;
    loco_ack_t flag = add(l, 0, 1, DX, &l->seen[0]), value = get(l, 0, 1, X, &data, 1);

    wait_for(l, flag);
    wait_for(l, value);
    l->seen[1] = data;
}

static void nothing(struct lit *l)
{
    (void)l;
}

/* ---- store buffering ---- */

static void sb(struct lit *l)
{
    wait_for(l, put(l, 0, 1 - l->rank, X, 1));
    l->seen[l->rank] = load(l, X);
}

static void sb_fenced(struct lit *l)
{
    put(l, 0, 1 - l->rank, X, 1);
    fence(l, 0, 1 - l->rank);
    l->seen[l->rank] = load(l, X);
}

static void sb_far_one_pair(struct lit *l)
{
    put(l, 0, 2, l->rank, 1);
    l->seen[l->rank] = got(l, 0, 2, 1 - l->rank);
}

static void sb_far_two_pairs(struct lit *l)
{
    wait_for(l, put(l, 0, 2, l->rank, 1));
    l->seen[l->rank] = got(l, 1, 2, 1 - l->rank);
}

/* ---- load buffering: each reads what the other writes afterwards ---- */

static void lb(struct lit *l)
{
    l->seen[l->rank] = got(l, 0, 2, l->rank);
    put(l, 0, 2, 1 - l->rank, 1);
}

static void lb_unwaited(struct lit *l)
{
    uint64_t value;
    loco_ack_t ack = get(l, 0, 2, l->rank, &value, 1);

    put(l, 0, 2, 1 - l->rank, 1);
    wait_for(l, ack);
    l->seen[l->rank] = value;
}

/* ---- coherence ---- */

static void write_then_read_one_pair(struct lit *l)
{
    put(l, 0, 1, X, 1);
    l->seen[0] = got(l, 0, 1, X);
}

static void write_then_read_two_pairs(struct lit *l)
{
    wait_for(l, put(l, 0, 1, X, 1));
    l->seen[0] = got(l, 1, 1, X);
}

static void read_then_write(struct lit *l)
{
    uint64_t value;
    loco_ack_t ack = get(l, 0, 1, X, &value, 1);

    put(l, 0, 1, X, 1);
    wait_for(l, ack);
    l->seen[0] = value;
}

static void two_writes_one_pair(struct lit *l)
{
    put(l, 0, 1, X, 1);
    put(l, 0, 1, X, 2);
    l->seen[0] = got(l, 0, 1, X);
}

static void two_writes_two_pairs(struct lit *l)
{
    put(l, 0, 1, X, 1);
    put(l, 1, 1, X, 2);
    fence(l, 0, 1);
    fence(l, 1, 1);
    l->seen[0] = got(l, 0, 1, X);
}

static void writes_1_then_2_one_pair(struct lit *l)
{
    put(l, 0, 1, X, 1);
    put(l, 0, 1, X, 2);
}

static void reads_x_twice(struct lit *l)
{
    l->seen[0] = load(l, X);
    l->seen[1] = load(l, X);
}

/* ---- write to read causality; independent reads of independent writes ---- */

static void wrc_writer(struct lit *l)
{
    put(l, 0, 2, X, 1);
}

static void wrc_middle(struct lit *l)
{
    l->seen[0] = got(l, 0, 2, X);
    put(l, 0, 2, Y, 1);
}

static void wrc_reader(struct lit *l)
{
    l->seen[1] = load(l, Y);
    l->seen[2] = load(l, X);
}

/* ---- atomics ---- */

static void add_here_and_there(struct lit *l)
{
    uint64_t old;

    wait_for(l, add(l, 0, 1, X, &old));
    l->seen[l->rank == 0 ? 0 : 1] = old;
}

static void cpu_adds(struct lit *l)
{
    l->seen[1] = loci_cpu_fetch_add(loci_mem_ptr(word(l, 1)) + 8 * X, 1);
}

static void device_adds(struct lit *l)
{
    uint64_t old;

    wait_for(l, add(l, 0, 1, X, &old));
    l->seen[0] = old;
}

/* Writes that merge. */

static bool merge_add(uint32_t how, void *words, const void *operands, size_t n)
{
    const uint64_t *operand = operands;

    for (size_t i = 0; i < n; i++)
        (void)loci_cpu_fetch_add((unsigned char *)words + 8 * i, how * operand[i]);
    return true;
}

static loco_ack_t merge(struct lit *l, int pair, int process, int at)
{
    uint64_t one = 1;

    return post(l, pair, (struct loci_op){ .kind = LOCI_WRITE, .local = &one, .len = 8,
                                           .by_value = true, .merge = 1 }, process, at);
}

static void merges(struct lit *l)
{
    merge(l, 0, 1, X);
    fence(l, 0, 1);
}

static void merges_then_adds(struct lit *l)
{
    merge(l, 0, 1, X);
    device_adds(l);
}

static void merges_then_adds_two_pairs(struct lit *l)
{
    uint64_t old;

    merge(l, 0, 1, X);
    wait_for(l, add(l, 1, 1, X, &old));
    l->seen[0] = old;
}

static void mp_merged_data(struct lit *l)
{
    merge(l, 0, 1, X);
    put(l, 0, 1, Y, 1);
}

static void mp_merged_flag(struct lit *l)
{
    put(l, 0, 1, X, 1);
    merge(l, 0, 1, Y);
}

static void mp_merged_two_pairs(struct lit *l)
{
    merge(l, 0, 1, X);
    merge(l, 1, 1, Y);
}

static void mp_merged_fenced(struct lit *l)
{
    merge(l, 0, 1, X);
    fence(l, 0, 1);
    merge(l, 1, 1, Y);
}

static void cpu_stores_7(struct lit *l)
{
    store(l, X, 7);
}

static void device_adds_then_reads(struct lit *l)
{
    uint64_t old;

    wait_for(l, add(l, 0, 1, X, &old));
    l->seen[0] = old;
}

/* ---- data by a queue pair, and a word of one's own as flag ---- */

static void mp_own_flag(struct lit *l)
{
    put(l, 0, 1, X, 1);
    (void)loci_cpu_fetch_add(loci_mem_ptr(word(l, 0)) + 8 * Y, 1);
}

static void mp_own_flag_fenced(struct lit *l)
{
    put(l, 0, 1, X, 1);
    fence(l, 0, 1);
    (void)loci_cpu_fetch_add(loci_mem_ptr(word(l, 0)) + 8 * Y, 1);
}

static void mp_own_flag_reader(struct lit *l)
{
    l->seen[0] = got(l, 0, 0, Y);
    l->seen[1] = load(l, X);
}

/* ---- sources and results ---- */

static void reuses_early(struct lit *l)
{
    l->source[0] = 1;
    put_from(l, 0, 1, X, l->source, 1);
    loci_sim_pause();
    l->source[0] = 2;
    l->seen[0] = got(l, 0, 1, X);
}

static void reuses_after_completion(struct lit *l)
{
    l->source[0] = 1;
    wait_for(l, put_from(l, 0, 1, X, l->source, 1));
    l->source[0] = 2;
    l->seen[0] = got(l, 0, 1, X);
}

static void looks_early(struct lit *l)
{
    uint64_t value = 5;
    loco_ack_t ack = get(l, 0, 1, X, &value, 1);

    loci_sim_pause();
    l->seen[0] = value == 0 || value == 5 ? value : POISON;
    wait_for(l, ack);
    l->seen[1] = value;
}

/* ---- torn ---- */

static void puts_two_words(struct lit *l)
{
    l->source[0] = l->source[1] = 1;
    wait_for(l, put_from(l, 0, 1, X, l->source, 2));
}

static void loads_two_words(struct lit *l)
{
    l->seen[0] = load(l, X);
    l->seen[1] = load(l, Y);
}

static void loads_two_words_backwards(struct lit *l)
{
    l->seen[1] = load(l, Y);
    l->seen[0] = load(l, X);
}

static void gets_two_words(struct lit *l)
{
    uint64_t value[2];

    wait_for(l, get(l, 0, 1, X, value, 2));
    l->seen[0] = value[0];
    l->seen[1] = value[1];
}

static void stores_two_words(struct lit *l)
{
    store(l, X, 1);
    store(l, Y, 1);
}

/* ---- the table ---- */

#define PROGRAMS(...) .program = { __VA_ARGS__ }
#define MP_ALL .values = 2, .outcomes = 4, .outcome = { { 0, 0 }, { 0, 1 }, { 1, 1 }, { 1, 0 } }
#define MP_ORDERED .values = 2, .outcomes = 3, .outcome = { { 0, 0 }, { 0, 1 }, { 1, 1 } }

static const struct sim_litmus all[] = {
    { .name = "mp", .about = "data, flag on one queue pair: in order",
      .processes = 2, PROGRAMS(mp_one_pair, mp_reader), MP_ORDERED },
    { .name = "mp+2qp", .about = "data, flag on two queue pairs: no order",
      .processes = 2, PROGRAMS(mp_two_pairs, mp_reader), MP_ALL },
    { .name = "mp+2qp+completion", .about = "the data's completion is no fence",
      .processes = 2, PROGRAMS(mp_two_pairs_complete, mp_reader), MP_ALL },
    { .name = "mp+2qp+place", .about = "a place on the data's queue pair is",
      .processes = 2, PROGRAMS(mp_two_pairs_fenced, mp_reader), MP_ORDERED },
    { .name = "mp+2qp+read", .about = "and so is any read there",
      .processes = 2, PROGRAMS(mp_two_pairs_read, mp_reader), MP_ORDERED },
    { .name = "mp+2qp+place-elsewhere", .about = "but not on another queue pair",
      .processes = 2, PROGRAMS(mp_fence_on_other_pair, mp_reader), MP_ALL },
    { .name = "mp+atomic", .about = "an atomic as flag, on the same queue pair: in order",
      .processes = 2, PROGRAMS(mp_atomic_flag, mp_reader), MP_ORDERED },
    { .name = "mp+2qp+atomic", .about = "on another queue pair: no order",
      .processes = 2, PROGRAMS(mp_atomic_flag_two_pairs, mp_reader), MP_ALL },
    { .name = "mp+far+completion", .about = "data and flag at two processes",
      .processes = 3, PROGRAMS(mp_far_complete, mp_far_reader, nothing), MP_ALL },
    { .name = "mp+far+place", .about = "data and flag at two processes, fenced",
      .processes = 3, PROGRAMS(mp_far_fenced, mp_far_reader, nothing), MP_ORDERED },

    { .name = "mp+device", .about = "an atomic in device memory as flag: no order",
      .processes = 2, PROGRAMS(mp_device_flag, mp_device_reader), MP_ALL },
    { .name = "mp+device+completion", .about = "the data's completion is no fence",
      .processes = 2, PROGRAMS(mp_device_flag_complete, mp_device_reader), MP_ALL },
    { .name = "mp+device+place", .about = "a place before it is",
      .processes = 2, PROGRAMS(mp_device_flag_fenced, mp_device_reader), MP_ORDERED },
    { .name = "mp+device+2qp", .about = "an atomic in device memory is no fence",
      .processes = 2, PROGRAMS(mp_device_between, mp_reader), MP_ALL },
    { .name = "mp+device+both", .about = "data and flag in device memory: in order",
      .processes = 2, PROGRAMS(mp_device_both, mp_device_both_reader), MP_ORDERED },
    { .name = "mp+device+chain", .about = "an atomic in device memory, then a get: in order",
      .processes = 3, PROGRAMS(mp_device_flag_fenced, nothing, mp_device_chain), MP_ORDERED },

    { .name = "sb", .about = "put to the other, complete; load one's own",
      .processes = 2, PROGRAMS(sb, sb), MP_ALL },
    { .name = "sb+place", .about = "the same, fenced: one of them sees the other's",
      .processes = 2, PROGRAMS(sb_fenced, sb_fenced), .values = 2, .outcomes = 3,
      .outcome = { { 0, 1 }, { 1, 0 }, { 1, 1 } } },
    { .name = "sb+far", .about = "put and get at a third, one queue pair: a get places the put",
      .processes = 3, PROGRAMS(sb_far_one_pair, sb_far_one_pair, nothing), .values = 2,
      .outcomes = 3, .outcome = { { 0, 1 }, { 1, 0 }, { 1, 1 } } },
    { .name = "sb+far+2qp", .about = "on two queue pairs, the put complete: no order",
      .processes = 3, PROGRAMS(sb_far_two_pairs, sb_far_two_pairs, nothing), MP_ALL },

    { .name = "lb", .about = "get, then put what the other gets: never both",
      .processes = 3, PROGRAMS(lb, lb, nothing), .values = 2, .outcomes = 3,
      .outcome = { { 0, 0 }, { 0, 1 }, { 1, 0 } } },
    { .name = "lb+unwaited", .about = "a put may pass a get that is not complete",
      .processes = 3, PROGRAMS(lb_unwaited, lb_unwaited, nothing), MP_ALL },

    { .name = "write-read", .about = "one queue pair: one's own write is read",
      .processes = 2, PROGRAMS(write_then_read_one_pair, nothing), .values = 1, .outcomes = 1,
      .outcome = { { 1 } } },
    { .name = "write-read+2qp", .about = "two queue pairs, the write complete: perhaps",
      .processes = 2, PROGRAMS(write_then_read_two_pairs, nothing), .values = 1, .outcomes = 2,
      .outcome = { { 0 }, { 1 } } },
    { .name = "read-write", .about = "a read may return what is written after it",
      .processes = 2, PROGRAMS(read_then_write, nothing), .values = 1, .outcomes = 2,
      .outcome = { { 0 }, { 1 } } },
    { .name = "write-write", .about = "one queue pair: the last write stays",
      .processes = 2, PROGRAMS(two_writes_one_pair, nothing), .values = 1, .outcomes = 1,
      .outcome = { { 2 } } },
    { .name = "write-write+2qp", .about = "two queue pairs: either stays",
      .processes = 2, PROGRAMS(two_writes_two_pairs, nothing), .values = 1, .outcomes = 2,
      .outcome = { { 1 }, { 2 } } },
    { .name = "corr", .about = "the target's CPU sees the writes of a queue pair in order",
      .processes = 2, PROGRAMS(writes_1_then_2_one_pair, reads_x_twice), .values = 2,
      .outcomes = 6,
      .outcome = { { 0, 0 }, { 0, 1 }, { 0, 2 }, { 1, 1 }, { 1, 2 }, { 2, 2 } } },
    { .name = "wrc", .about = "what a get has returned, the target's CPU sees",
      .processes = 3, PROGRAMS(wrc_writer, wrc_middle, wrc_reader), .values = 3, .outcomes = 7,
      .outcome = { { 0, 0, 0 }, { 0, 0, 1 }, { 0, 1, 0 }, { 0, 1, 1 }, { 1, 0, 0 }, { 1, 0, 1 },
                   { 1, 1, 1 } } },

    { .name = "atomics", .about = "device with device, its own process's too: none is lost",
      .processes = 2, PROGRAMS(add_here_and_there, add_here_and_there), .values = 3,
      .outcomes = 2, .outcome = { { 0, 1, 2 }, { 1, 0, 2 } } },
    { .name = "atomics+cpu", .about = "device with CPU: one may be lost",
      .processes = 2, PROGRAMS(device_adds, cpu_adds), .values = 3, .outcomes = 3,
      .outcome = { { 0, 1, 2 }, { 1, 0, 2 }, { 0, 0, 1 } } },
    { .name = "atomics+store", .about = "a CPU's store into a device's atomic may be lost",
      .processes = 2, PROGRAMS(device_adds_then_reads, cpu_stores_7), .values = 3, .outcomes = 3,
      .outcome = { { 0, 0, 7 }, { 7, 0, 8 }, { 0, 0, 1 } } },

    { .name = "atomics+owner", .about = "owner's CPU with others' posted: none is lost",
      .processes = 2, PROGRAMS(device_adds, cpu_adds), .values = 3, .outcomes = 2,
      .outcome = { { 0, 1, 2 }, { 1, 0, 2 } } },
    { .name = "atomics+store+owner", .about = "nor is a store by the owner's CPU",
      .processes = 2, PROGRAMS(device_adds_then_reads, cpu_stores_7), .values = 3, .outcomes = 2,
      .outcome = { { 0, 0, 7 }, { 7, 0, 8 } } },
    { .name = "mp+atomic+owner", .about = "a posted atomic as flag, same queue pair: in order",
      .processes = 2, PROGRAMS(mp_atomic_flag, mp_reader), MP_ORDERED },
    { .name = "mp+2qp+atomic+owner", .about = "on another queue pair: no order",
      .processes = 2, PROGRAMS(mp_atomic_flag_two_pairs, mp_reader), MP_ALL },
    { .name = "mp+own+owner", .about = "an atomic of the CPU as flag: no order with what is posted",
      .processes = 2, PROGRAMS(mp_own_flag, mp_own_flag_reader), MP_ALL },
    { .name = "mp+own+place+owner", .about = "a place before it is a fence",
      .processes = 2, PROGRAMS(mp_own_flag_fenced, mp_own_flag_reader), MP_ORDERED },

    { .name = "atomics+merge+owner", .about = "a write that merges is one: none is lost",
      .processes = 2, PROGRAMS(merges, cpu_adds), .values = 3, .outcomes = 2,
      .outcome = { { 0, 0, 2 }, { 0, 1, 2 } } },
    { .name = "atomics+merge+add+owner", .about = "an atomic behind it, same queue pair: in order",
      .processes = 2, PROGRAMS(merges_then_adds, nothing), .values = 3, .outcomes = 1,
      .outcome = { { 1, 0, 2 } } },
    { .name = "atomics+merge+2qp+owner", .about = "on another queue pair: no order",
      .processes = 2, PROGRAMS(merges_then_adds_two_pairs, nothing), .values = 3, .outcomes = 2,
      .outcome = { { 1, 0, 2 }, { 0, 0, 2 } } },
    { .name = "mp+merge+owner", .about = "merged, then put, same queue pair: in order",
      .processes = 2, PROGRAMS(mp_merged_data, mp_reader), MP_ORDERED },
    { .name = "mp+merged+flag+owner", .about = "put, then merged: in order",
      .processes = 2, PROGRAMS(mp_merged_flag, mp_reader), MP_ORDERED },
    { .name = "mp+2qp+merge+owner", .about = "on another queue pair: no order",
      .processes = 2, PROGRAMS(mp_merged_two_pairs, mp_reader), MP_ALL },
    { .name = "mp+2qp+merge+place+owner", .about = "a place between is a fence",
      .processes = 2, PROGRAMS(mp_merged_fenced, mp_reader), MP_ORDERED },

    { .name = "source-reuse", .about = "a source changed before completion: a race, and found",
      .processes = 2, PROGRAMS(reuses_early, nothing), .values = 1, .outcomes = 2,
      .outcome = { { 1 }, { RACE } } },
    { .name = "source-reuse+completion", .about = "after completion it is free",
      .processes = 2, PROGRAMS(reuses_after_completion, nothing), .values = 1, .outcomes = 1,
      .outcome = { { 1 } } },
    { .name = "result-early", .about = "before completion a result is anything",
      .processes = 2, PROGRAMS(looks_early, nothing), .values = 2, .outcomes = 2,
      .outcome = { { POISON, 0 }, { 0, 0 } } },

    { .name = "torn-write", .about = "two words put at once come in any order",
      .processes = 2, PROGRAMS(puts_two_words, loads_two_words), MP_ALL },
    { .name = "torn-write+backwards", .about = "whichever is looked at first",
      .processes = 2, PROGRAMS(puts_two_words, loads_two_words_backwards), MP_ALL },
    { .name = "torn-read", .about = "two words got at once are read at two times",
      .processes = 2, PROGRAMS(gets_two_words, stores_two_words), MP_ALL },
};

#define COUNT ((int)(sizeof all / sizeof all[0]))

const struct sim_litmus *sim_litmus_at(int i)
{
    return i < COUNT ? &all[i] : NULL;
}

const char *sim_litmus_name(const struct sim_litmus *litmus)
{
    return litmus->name;
}

/* ---- a run ---- */

struct litmus_run {
    const struct sim_litmus *litmus;
    uint64_t seen[SIM_LITMUS_VALUES];
    int done;
};

/* What is in x of process 1 when all is over: of the tests of atomics the third value. */
static void final_value(struct lit *l, struct litmus_run *run)
{
    const struct sim_litmus *litmus = run->litmus;

    if (l->rank == 1 && strncmp(litmus->name, "atomics", 7) == 0)
        l->seen[2] = load(l, X);
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct loci_endpoint_spec spec = {
        .name = "litmus", .group = loco_everyone(rt), .type = "litmus", .nregions = 2,
        .region = { [IN_HOST] = { "words", WORDS * sizeof(uint64_t), 0, LOCI_FROM_ALL },
                    [IN_DEVICE] = { "device", WORDS * sizeof(uint64_t), 0, LOCI_FROM_ALL } },
        .words = 1u << IN_DEVICE,
    };
    struct litmus_run *run = arg;
    struct lit l = { .rt = rt, .rank = rank, .seen = run->seen };
    loco_barrier_t *end;

    atomic_store_explicit(&rt->merge, merge_add, memory_order_release);
    if (loci_endpoint_create(rt, &spec, &l.ep) != LOCO_OK
        || loco_barrier_create(rt, NULL, "end", loco_everyone(rt), &end) != LOCO_OK
        || loco_runtime_wait_ready(rt, LOCO_FOREVER) != LOCO_OK)
        return loci_sim_fail("no channels");
    /* All begin together, or late ones would see the end of early ones only. */
    if (loco_barrier_wait(end) != LOCO_OK)
        return loci_sim_fail("no barrier");
    l.pair[0] = loci_self(rt);
    l.pair[1] = loci_thread_attach(rt);
    run->litmus->program[rank](&l);
    if (loco_barrier_wait(end) != LOCO_OK)
        return loci_sim_fail("no barrier");
    final_value(&l, run);
    loco_barrier_destroy(end);
    loci_endpoint_destroy(l.ep);
    return 0;
}

static struct loci_sim_result run_one(const struct sim_litmus *litmus, uint64_t seed, FILE *trace,
                                      struct litmus_run *run)
{
    const struct loci_sim_config config = {
        .processes = litmus->processes, .seed = seed, .faults = LOCI_SIM_NO_FAULTS,
        .device_memory = strstr(litmus->name, "+device") != NULL,
        .owner_atomics = strstr(litmus->name, "+owner") != NULL, .trace = trace,
    };
    struct loci_sim_result result;

    *run = (struct litmus_run){ .litmus = litmus };
    loci_sim_run(&config, body, run, &result);
    free(result.decisions);
    if (result.verdict == LOCI_SIM_RACE) {
        memset(run->seen, 0, sizeof run->seen);
        run->seen[0] = RACE;
        result.verdict = LOCI_SIM_PASSED;
    }
    return result;
}

static int outcome_of(const struct sim_litmus *litmus, const uint64_t *seen)
{
    for (int i = 0; i < litmus->outcomes; i++)
        if (memcmp(litmus->outcome[i], seen, (size_t)litmus->values * sizeof seen[0]) == 0)
            return i;
    return -1;
}

static void print_values(FILE *out, const struct sim_litmus *litmus, const uint64_t *values)
{
    for (int i = 0; i < litmus->values; i++)
        if (values[i] == RACE)
            fprintf(out, " race");
        else if (values[i] == POISON)
            fprintf(out, " undefined");
        else
            fprintf(out, " %" PRIu64, values[i]);
}

int sim_litmus_run(const struct sim_litmus *litmus, uint64_t first, uint64_t last, FILE *out,
                   struct sim_litmus_report *report)
{
    uint64_t count[OUTCOMES] = { 0 };

    *report = (struct sim_litmus_report){ .allowed = litmus->outcomes };
    for (uint64_t seed = first; seed <= last; seed++) {
        struct litmus_run run;
        struct loci_sim_result result = run_one(litmus, seed, NULL, &run);
        int outcome = result.verdict == LOCI_SIM_PASSED ? outcome_of(litmus, run.seen) : -1;

        report->runs++;
        if (outcome >= 0) {
            report->seen += count[outcome]++ == 0;
            continue;
        }
        if (report->forbidden++ == 0)
            report->first_forbidden = seed;
        if (out != NULL && report->forbidden <= 3) {
            fprintf(out, "  seed %" PRIu64 ": forbidden:", seed);
            print_values(out, litmus, run.seen);
            fprintf(out, " %s\n", result.verdict == LOCI_SIM_PASSED ? "" : result.text);
        }
    }
    if (out != NULL) {
        fprintf(out, "%-24s %s\n", litmus->name, litmus->about);
        for (int i = 0; i < litmus->outcomes; i++) {
            fprintf(out, "  %10" PRIu64 " times:", count[i]);
            print_values(out, litmus, litmus->outcome[i]);
            fprintf(out, "%s\n", count[i] == 0 ? "   allowed, but not seen" : "");
        }
    }
    return report->forbidden == 0 && report->seen == report->allowed ? 0 : 1;
}

void sim_litmus_replay(const struct sim_litmus *litmus, uint64_t seed, FILE *out)
{
    struct litmus_run run;
    struct loci_sim_result result = run_one(litmus, seed, out, &run);

    fprintf(out, "%s:", litmus->name);
    print_values(out, litmus, run.seen);
    fprintf(out, " %s\n", result.text);
}
