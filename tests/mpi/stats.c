/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Performance variables: what a tool reads through MPI_T is what was done, exactly, of the process
 * and of one window, from the moment that it asks. Only for --mca osc loco.
 *
 * `--only traced` is for tests/machine/observed: calls whose numbers it knows.
 */
#include "testlib.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLES 64
#define THREADS 4
#define ROUNDS 200
#define THREAD_ROUNDS 50000      /* so many that counts which are not atomic are lost */

/* Variables that are read together. */
struct tool {
    MPI_T_pvar_session session;
    int n;
    struct {
        const char *name;
        MPI_T_pvar_handle handle;
    } variable[VARIABLES];
};

static int tool_open(struct tool *tool)
{
    int provided;

    tool->n = 0;
    if (tl_may_refuse(0)) {
        tl_skip("another component than loco");
        return 0;
    }
    return tl_eq(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided), MPI_SUCCESS,
                 "MPI_T_init_thread")
           && tl_eq(MPI_T_pvar_session_create(&tool->session), MPI_SUCCESS,
                    "MPI_T_pvar_session_create");
}

static int index_of(const char *name)
{
    static const int classes[] = {MPI_T_PVAR_CLASS_COUNTER, MPI_T_PVAR_CLASS_AGGREGATE,
                                  MPI_T_PVAR_CLASS_LEVEL};
    int index;

    for (int i = 0; i < 3; i++)
        if (MPI_T_pvar_get_index(name, classes[i], &index) == MPI_SUCCESS)
            return index;
    return -1;
}

/* Bound to the window, where that is not NULL, and started. */
static int tool_add(struct tool *tool, const char *name, MPI_Win *win)
{
    MPI_T_pvar_handle *handle = &tool->variable[tool->n].handle;
    int count = 0, index = index_of(name), rc;

    if (!tl_true(index >= 0, "there is no variable %s", name))
        return 0;
    if (!tl_eq(MPI_T_pvar_handle_alloc(tool->session, index, win, handle, &count), MPI_SUCCESS,
               name)
        || !tl_eq(count, 1, name))
        return 0;
    rc = MPI_T_pvar_start(tool->session, *handle);
    tool->variable[tool->n++].name = name;
    return tl_true(rc == MPI_SUCCESS || rc == MPI_T_ERR_PVAR_NO_STARTSTOP, "%s: start says %d",
                   name, rc);
}

static unsigned long long tool_read(struct tool *tool, const char *name)
{
    unsigned long long value = 0;

    for (int i = 0; i < tool->n; i++)
        if (strcmp(tool->variable[i].name, name) == 0) {
            tl_eq(MPI_T_pvar_read(tool->session, tool->variable[i].handle, &value), MPI_SUCCESS,
                  name);
            return value;
        }
    tl_fail("%s was not added", name);
    return 0;
}

static void tool_close(struct tool *tool)
{
    for (int i = 0; i < tool->n; i++)
        tl_eq(MPI_T_pvar_handle_free(tool->session, &tool->variable[i].handle), MPI_SUCCESS,
              tool->variable[i].name);
    tl_eq(MPI_T_pvar_session_free(&tool->session), MPI_SUCCESS, "MPI_T_pvar_session_free");
    tl_eq(MPI_T_finalize(), MPI_SUCCESS, "MPI_T_finalize");
}

struct expected {
    const char *name;
    unsigned long long value;
};

static void expect_all(struct tool *tool, const struct expected *expected, int n,
                       const char *when)
{
    for (int i = 0; i < n; i++) {
        char what[128];

        snprintf(what, sizeof what, "%s %s", expected[i].name, when);
        tl_eq((long long)tool_read(tool, expected[i].name), (long long)expected[i].value, what);
    }
}

/* ---- calls whose numbers are known ---- */

enum {
    PUTS = 7, GETS = 5, ACCUMULATES = 3, GET_ACCUMULATES = 2, FETCHES = 9, SWAPS = 4, RPUTS = 3,
    RGETS = 2, RACCUMULATES = 2, RGET_ACCUMULATES = 1, NO_OPS = 2, FLUSHES = 6
};

static void requested(const struct tl_win *w, int target, MPI_Aint at)
{
    long long value = 1, result;
    MPI_Request request;

    for (int i = 0; i < RPUTS; i++) {
        MPI_Rput(&value, 1, MPI_LONG_LONG, target, at, 1, MPI_LONG_LONG, w->win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < RGETS; i++) {
        MPI_Rget(&result, 1, MPI_LONG_LONG, target, at, 1, MPI_LONG_LONG, w->win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < RACCUMULATES; i++) {
        MPI_Raccumulate(&value, 1, MPI_LONG_LONG, target, at, 1, MPI_LONG_LONG, MPI_SUM, w->win,
                        &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    for (int i = 0; i < RGET_ACCUMULATES; i++) {
        MPI_Rget_accumulate(&value, 1, MPI_LONG_LONG, &result, 1, MPI_LONG_LONG, target, at, 1,
                            MPI_LONG_LONG, MPI_SUM, w->win, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

static void operations(const struct tl_win *w, int target)
{
    MPI_Aint at = tl_disp(w, target, 0);
    char bytes[10] = "123456789";
    int numbers[3] = {1, 2, 3}, results[3];
    long long value = 1, compare = 0, result;

    for (int i = 0; i < PUTS; i++)
        MPI_Put(bytes, 10, MPI_CHAR, target, at, 10, MPI_CHAR, w->win);
    for (int i = 0; i < GETS; i++)
        MPI_Get(bytes, 5, MPI_CHAR, target, at, 5, MPI_CHAR, w->win);
    for (int i = 0; i < ACCUMULATES; i++)
        MPI_Accumulate(numbers, 3, MPI_INT, target, at, 3, MPI_INT, MPI_SUM, w->win);
    for (int i = 0; i < GET_ACCUMULATES; i++)
        MPI_Get_accumulate(numbers, 3, MPI_INT, results, 3, MPI_INT, target, at, 3, MPI_INT,
                           MPI_SUM, w->win);
    for (int i = 0; i < FETCHES; i++)
        MPI_Fetch_and_op(&value, &result, MPI_LONG_LONG, target, at, MPI_SUM, w->win);
    for (int i = 0; i < NO_OPS; i++)    /* reads: nothing goes to the target */
        MPI_Fetch_and_op(NULL, &result, MPI_LONG_LONG, target, at, MPI_NO_OP, w->win);
    for (int i = 0; i < SWAPS; i++)
        MPI_Compare_and_swap(&value, &compare, &result, MPI_LONG_LONG, target, at, w->win);
    requested(w, target, at);
}

static void all_calls(const struct tl_win *w, int target)
{
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win);
    operations(w, target);
    for (int i = 0; i < FLUSHES; i++)
        MPI_Win_flush(target, w->win);
    MPI_Win_flush_local(target, w->win);
    MPI_Win_flush_all(w->win);
    MPI_Win_flush_local_all(w->win);
    MPI_Win_sync(w->win);
    MPI_Win_unlock(target, w->win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win);
    MPI_Win_unlock(target, w->win);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, w->win);
    MPI_Win_unlock_all(w->win);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, w->win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win);
}

#define BYTES_OUT                                                                                  \
    (PUTS * 10 + ACCUMULATES * 12 + GET_ACCUMULATES * 12 + FETCHES * 8 + SWAPS * 8                \
     + (RPUTS + RACCUMULATES + RGET_ACCUMULATES) * 8)
#define BYTES_IN                                                                                   \
    (GETS * 5 + GET_ACCUMULATES * 12 + (FETCHES + NO_OPS) * 8 + SWAPS * 8                          \
     + (RGETS + RGET_ACCUMULATES) * 8)

static const struct expected once[] = {
    {"osc_loco_put", PUTS},
    {"osc_loco_get", GETS},
    {"osc_loco_accumulate", ACCUMULATES},
    {"osc_loco_get_accumulate", GET_ACCUMULATES},
    {"osc_loco_fetch_and_op", FETCHES + NO_OPS},
    {"osc_loco_compare_and_swap", SWAPS},
    {"osc_loco_rput", RPUTS},
    {"osc_loco_rget", RGETS},
    {"osc_loco_raccumulate", RACCUMULATES},
    {"osc_loco_rget_accumulate", RGET_ACCUMULATES},
    {"osc_loco_bytes_out", BYTES_OUT},
    {"osc_loco_bytes_in", BYTES_IN},
    {"osc_loco_lock_shared", 1},
    {"osc_loco_lock_exclusive", 1},
    {"osc_loco_lock_all", 1},
    {"osc_loco_lock_nocheck", 1},
    {"osc_loco_unlock", 2},
    {"osc_loco_unlock_all", 1},
    {"osc_loco_flush", FLUSHES},
    {"osc_loco_flush_all", 1},
    {"osc_loco_flush_local", 1},
    {"osc_loco_flush_local_all", 1},
    {"osc_loco_sync", 1},
    {"osc_loco_fence", 2},
    {"osc_loco_start", 0},
    {"osc_loco_errors", 0},
    {"osc_loco_window_put", PUTS},
    {"osc_loco_window_bytes_in", BYTES_IN},
    {"osc_loco_window_flush", FLUSHES},
};
enum { ONCE = sizeof once / sizeof once[0] };

static int add_all(struct tool *tool, struct tl_win *w)
{
    int good = 1;

    for (int i = 0; i < ONCE && good; i++)
        good = tool_add(tool, once[i].name, strstr(once[i].name, "_window_") ? &w->win : NULL);
    return good;
}

/* The window is older than the tool; other windows do not count for its own variables. */
static void counted(int flavor)
{
    struct tl_win w, other;
    struct tool tool;
    int target = (tl_rank() + 1) % tl_size();
    struct expected twice[ONCE];

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 1)
        || !tl_win_open(&other, flavor, MPI_COMM_WORLD, 64, 1))
        return;
    all_calls(&w, target);
    if (tool_open(&tool) && add_all(&tool, &w)) {
        tl_barrier();
        expect_all(&tool, once, 0, "");
        all_calls(&w, target);
        expect_all(&tool, once, ONCE, "after one round");
        all_calls(&other, target);
        for (int i = 0; i < ONCE; i++) {
            twice[i] = once[i];
            twice[i].value *= strstr(once[i].name, "_window_") ? 1 : 2;
        }
        expect_all(&tool, twice, ONCE, "after a round on another window");
        tl_win_close(&other);       /* its numbers stay in the process's */
        tl_eq((long long)tool_read(&tool, "osc_loco_put"), 2 * PUTS, "puts of a freed window");
        tool_close(&tool);
        all_calls(&w, target);      /* not watched any more */
    }
    tl_win_close(&w);
}

/* Stopped handles stand still. */
static void stopped(int flavor)
{
    struct tl_win w;
    struct tool tool;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 1))
        return;
    if (tool_open(&tool) && add_all(&tool, &w)) {
        all_calls(&w, 0);
        for (int i = 0; i < tool.n; i++)
            tl_eq(MPI_T_pvar_stop(tool.session, tool.variable[i].handle), MPI_SUCCESS, "stop");
        all_calls(&w, 0);
        expect_all(&tool, once, ONCE, "after the stop");
        tool_close(&tool);
    }
    tl_win_close(&w);
}

/* ---- fast and slow ---- */

static void paths(int flavor)
{
    struct tl_win w;
    struct tool tool;
    MPI_Datatype holes;
    char byte = 1;
    long long value = 1;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 1))
        return;
    MPI_Type_vector(4, 1, 2, MPI_CHAR, &holes);
    MPI_Type_commit(&holes);
    if (tool_open(&tool) && tool_add(&tool, "osc_loco_fast_put", NULL)
        && tool_add(&tool, "osc_loco_slow_put", NULL)
        && tool_add(&tool, "osc_loco_fast_accumulate", NULL)
        && tool_add(&tool, "osc_loco_slow_accumulate", NULL)) {
        char strided[8] = "abcdefg";
        int mapped = flavor == TL_ALLOCATE || flavor == TL_SHARED;

        MPI_Win_lock_all(0, w.win);
        for (int i = 0; i < 10; i++)
            MPI_Put(&byte, 1, MPI_CHAR, tl_rank(), tl_disp(&w, tl_rank(), 0), 1, MPI_CHAR, w.win);
        for (int i = 0; i < 3; i++)
            MPI_Put(strided, 1, holes, tl_rank(), tl_disp(&w, tl_rank(), 8), 1, holes, w.win);
        for (int i = 0; i < 5; i++)
            MPI_Accumulate(&value, 1, MPI_LONG_LONG, tl_rank(), tl_disp(&w, tl_rank(), 16), 1,
                           MPI_LONG_LONG, MPI_SUM, w.win);
        MPI_Win_unlock_all(w.win);
        tl_eq((long long)(tool_read(&tool, "osc_loco_fast_put")
                          + tool_read(&tool, "osc_loco_slow_put")), 13, "puts of both ways");
        tl_eq((long long)(tool_read(&tool, "osc_loco_fast_accumulate")
                          + tool_read(&tool, "osc_loco_slow_accumulate")), 5,
              "accumulates of both ways");
        if (mapped)
            tl_true(tool_read(&tool, "osc_loco_fast_put") >= 9,
                    "of 10 puts into mapped memory %llu were fast",
                    tool_read(&tool, "osc_loco_fast_put"));
        if (flavor == TL_DYNAMIC)
            tl_eq((long long)tool_read(&tool, "osc_loco_fast_put"), 0, "fast puts");
        tool_close(&tool);
    }
    MPI_Type_free(&holes);
    tl_win_close(&w);
}

/* ---- several threads ---- */

static void *put_often(void *arg)
{
    const struct tl_win *w = arg;
    long long value = 1, result;

    for (int i = 0; i < tl_rounds(THREAD_ROUNDS); i++) {
        MPI_Put(&value, 1, MPI_LONG_LONG, 0, tl_disp(w, 0, 0), 1, MPI_LONG_LONG, w->win);
        MPI_Fetch_and_op(&value, &result, MPI_LONG_LONG, 0, tl_disp(w, 0, 8), MPI_SUM, w->win);
        MPI_Win_flush(0, w->win);
    }
    return NULL;
}

static void threads(int flavor)
{
    const unsigned long long each = (unsigned long long)tl_rounds(THREAD_ROUNDS) * THREADS;
    const struct expected expected[] = {
        {"osc_loco_put", each},
        {"osc_loco_fetch_and_op", each},
        {"osc_loco_flush", each},
        {"osc_loco_bytes_out", 2 * 8 * each},
        {"osc_loco_bytes_in", 8 * each},
    };
    pthread_t thread[THREADS];
    struct tl_win w;
    struct tool tool;
    int good, provided;

    MPI_Query_thread(&provided);
    if (provided != MPI_THREAD_MULTIPLE) {
        tl_skip("no MPI_THREAD_MULTIPLE");
        return;
    }
    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 1))
        return;
    good = tool_open(&tool);
    for (int i = 0; good && i < 5; i++)
        good = tool_add(&tool, expected[i].name, NULL);
    MPI_Win_lock_all(0, w.win);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, put_often, &w);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    MPI_Win_unlock_all(w.win);
    if (good) {
        expect_all(&tool, expected, 5, "by 4 threads");
        tool_close(&tool);
    }
    tl_win_close(&w);
}

/* Handles come and go while another thread puts: no call is lost or done twice. */
static void *come_and_go(void *arg)
{
    _Atomic int *stop = arg;

    while (!*stop) {
        struct tool tool;

        if (!tool_open(&tool) || !tool_add(&tool, "osc_loco_put", NULL))
            return NULL;
        tool_close(&tool);
    }
    return NULL;
}

static void switching(int flavor)
{
    static _Atomic int stop;
    long long one = 1, sum = 0;
    pthread_t thread;
    struct tl_win w;
    int provided;

    MPI_Query_thread(&provided);
    if (provided != MPI_THREAD_MULTIPLE) {
        tl_skip("no MPI_THREAD_MULTIPLE");
        return;
    }
    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 1))
        return;
    tl_local_begin(&w);
    memset(w.base, 0, 64);
    tl_local_end(&w);
    tl_barrier();
    stop = 0;
    pthread_create(&thread, NULL, come_and_go, &stop);
    MPI_Win_lock_all(0, w.win);
    for (int i = 0; i < 20 * ROUNDS; i++)
        MPI_Accumulate(&one, 1, MPI_LONG_LONG, 0, tl_disp(&w, 0, 0), 1, MPI_LONG_LONG, MPI_SUM,
                       w.win);
    MPI_Win_unlock_all(w.win);
    stop = 1;
    pthread_join(thread, NULL);
    tl_barrier();
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, w.win);
    MPI_Get(&sum, 1, MPI_LONG_LONG, 0, tl_disp(&w, 0, 0), 1, MPI_LONG_LONG, w.win);
    MPI_Win_unlock(0, w.win);
    tl_eq(sum, 20LL * ROUNDS * tl_size(), "the sum");
    tl_win_close(&w);
}

/* ---- waits ---- */

/* One holds the lock for 20 ms while the other takes it, until a wait was seen. */
static void lock_waits(int flavor)
{
    unsigned long long waits = 0, time = 0, others = 0;
    struct tl_win w;
    struct tool tool;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 1))
        return;
    if (!tool_open(&tool) || !tool_add(&tool, "osc_loco_lock_waits", NULL)
        || !tool_add(&tool, "osc_loco_lock_wait_time", NULL))
        return;
    for (int i = 0; i < 100 && others == 0; i++) {
        if (tl_rank() == 0)
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win);
        tl_barrier();
        if (tl_rank() == 0)
            tl_wait_quietly(0.02);
        else
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, w.win);
        MPI_Win_unlock(0, w.win);
        waits = tool_read(&tool, "osc_loco_lock_waits");
        MPI_Allreduce(&waits, &others, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, MPI_COMM_WORLD);
    }
    time = tool_read(&tool, "osc_loco_lock_wait_time");
    tl_true(others > 0, "no rank waited for the lock");
    tl_true((waits > 0) == (time > 0), "%llu waits of %llu ns", waits, time);
    tool_close(&tool);
    tl_win_close(&w);
}

/* ---- TCP ---- */

/* Whether all ranks are on one machine. */
static int is_one_machine(void)
{
    MPI_Comm machine;
    int size;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &size);
    MPI_Comm_free(&machine);
    return size == tl_size();
}

/* Of all ranks together. */
static long long read_sum(struct tool *tool, const char *name)
{
    long long mine = (long long)tool_read(tool, name), sum;

    MPI_Allreduce(&mine, &sum, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}

/* Each rank puts to all. Inside a machine nothing goes over TCP, between machines all does. */
static void tcp(int flavor)
{
    const char *fabric = getenv("LOCO_FABRIC");
    int one = is_one_machine(), over_tcp = !one && fabric != NULL && strcmp(fabric, "tcp") == 0;
    long long value = 1, sent, received, served;
    struct tl_win w;
    struct tool tool;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 1))
        return;
    if (tool_open(&tool) && tool_add(&tool, "osc_loco_tcp_connections", NULL)
        && tool_add(&tool, "osc_loco_tcp_bytes_out", NULL)
        && tool_add(&tool, "osc_loco_tcp_bytes_in", NULL)
        && tool_add(&tool, "osc_loco_tcp_requests_served", NULL)) {
        tl_barrier();
        MPI_Win_lock_all(0, w.win);
        for (int i = 0; i < ROUNDS; i++)
            for (int to = 0; to < tl_size(); to++)
                MPI_Put(&value, 1, MPI_LONG_LONG, to, tl_disp(&w, to, 0), 1, MPI_LONG_LONG, w.win);
        MPI_Win_unlock_all(w.win);
        tl_barrier();
        sent = read_sum(&tool, "osc_loco_tcp_bytes_out");
        received = read_sum(&tool, "osc_loco_tcp_bytes_in");
        served = read_sum(&tool, "osc_loco_tcp_requests_served");
        if (one)
            tl_eq(sent + received + served, 0, "what went over TCP");
        if (over_tcp)
            tl_true(sent >= ROUNDS * 8 && received >= ROUNDS * 8 && served >= ROUNDS,
                    "%lld bytes were sent, %lld received, %lld requests served", sent, received,
                    served);
        tool_close(&tool);
    }
    tl_win_close(&w);
}

/* Rank 1 is in a fence, long enough to sleep there, while rank 0 asks it for one word after the
 * other. Its service thread is to answer: the fence's own looks at the connections come after naps
 * of near a millisecond. */
static void tcp_sleeper(int flavor)
{
    enum { WORDS = 400 };
    const char *fabric = getenv("LOCO_FABRIC");
    long one = 1, got = 0;
    struct tl_win fenced, asked;
    struct tool tool;
    long long served = 0, by_service = 0;

    if (is_one_machine() || fabric == NULL || strcmp(fabric, "tcp") != 0) {
        if (tool_open(&tool) && tool_add(&tool, "osc_loco_tcp_requests_by_service", NULL)) {
            tl_eq((long long)tool_read(&tool, "osc_loco_tcp_requests_by_service"), 0,
                  "what came over TCP");
            tool_close(&tool);
        }
        return;
    }
    if (!tl_win_open(&fenced, flavor, MPI_COMM_WORLD, 64, 1))
        return;
    if (!tl_win_open(&asked, flavor, MPI_COMM_WORLD, 64, 1))
        return;
    if (tool_open(&tool) && tool_add(&tool, "osc_loco_tcp_requests_served", NULL)
        && tool_add(&tool, "osc_loco_tcp_requests_by_service", NULL)) {
        MPI_Win_fence(0, fenced.win);
        if (tl_rank() == 0) {
            MPI_Win_lock_all(0, asked.win);
            tl_wait_quietly(0.05);
            for (int i = 0; i < WORDS; i++) {
                MPI_Fetch_and_op(&one, &got, MPI_LONG, 1, tl_disp(&asked, 1, 0), MPI_SUM,
                                 asked.win);
                MPI_Win_flush(1, asked.win);
            }
            MPI_Win_unlock_all(asked.win);
            tl_eq(got, WORDS - 1, "the last sum");
        }
        MPI_Win_fence(0, fenced.win);
        if (tl_rank() == 1) {
            served = (long long)tool_read(&tool, "osc_loco_tcp_requests_served");
            by_service = (long long)tool_read(&tool, "osc_loco_tcp_requests_by_service");
            tl_note("of %lld requests the service thread served %lld", served, by_service);
            tl_true(served >= WORDS && by_service >= WORDS / 2,
                    "of %lld requests the service thread served %lld", served, by_service);
        }
        tool_close(&tool);
    }
    tl_win_close(&asked);
    tl_win_close(&fenced);
}

/* ---- errors and lives ---- */

static void failed_calls(int flavor)
{
    struct tl_win w;
    struct tool tool;
    char byte = 1;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 1))
        return;
    if (tool_open(&tool) && tool_add(&tool, "osc_loco_errors", NULL)
        && tool_add(&tool, "osc_loco_put", NULL) && tool_add(&tool, "osc_loco_bytes_out", NULL)
        && tool_add(&tool, "osc_loco_slow_put", NULL)) {
        MPI_Win_set_errhandler(w.win, MPI_ERRORS_RETURN);
        tl_true(MPI_Put(&byte, 1, MPI_CHAR, 0, 0, 1, MPI_CHAR, w.win) != MPI_SUCCESS,
                "a put outside an epoch succeeded");
        tl_eq((long long)tool_read(&tool, "osc_loco_errors"), 1, "errors");
        tl_eq((long long)tool_read(&tool, "osc_loco_put"), 0, "puts");
        tl_eq((long long)tool_read(&tool, "osc_loco_slow_put"), 0, "slow puts");
        tl_eq((long long)tool_read(&tool, "osc_loco_bytes_out"), 0, "bytes");
        tool_close(&tool);
    }
    tl_win_close(&w);
}

/* Windows come and go under a handle. */
static void lives(int flavor)
{
    unsigned long long value = 0, alive;
    struct tl_win w, more;
    struct tool tool;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, 64, 1))
        return;
    if (!tool_open(&tool) || !tool_add(&tool, "osc_loco_windows_made", NULL)
        || !tool_add(&tool, "osc_loco_windows_alive", NULL)
        || !tl_win_open(&more, flavor, MPI_COMM_WORLD, 64, 1)
        || !tool_add(&tool, "osc_loco_window_put", &more.win))
        return;
    alive = tool_read(&tool, "osc_loco_windows_alive");
    tl_true(alive >= 2, "%llu windows are alive", alive);
    tl_win_close(&more);
    tl_eq((long long)tool_read(&tool, "osc_loco_windows_alive"), (long long)alive - 1,
          "windows alive");
    tl_eq((long long)tool_read(&tool, "osc_loco_windows_made"), 1, "windows made");
    tl_true(MPI_T_pvar_read(tool.session, tool.variable[2].handle, &value) != MPI_SUCCESS,
            "the puts of a freed window were read: %llu", value);
    tool_close(&tool);
    tl_win_close(&w);
}

/* ---- for tests/machine/observed ---- */

static void traced(int flavor)
{
    MPI_Win win;
    long long *base, value = 1, result;
    MPI_Datatype holes;
    char strided[8] = "abcdefg";
    int rounds;

    (void)flavor;
    rounds = (int)tl_option("--rounds", ROUNDS);
    MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Type_vector(4, 1, 2, MPI_CHAR, &holes);
    MPI_Type_commit(&holes);
    for (int i = 0; i < rounds; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Put(&value, 1, MPI_LONG_LONG, 0, 0, 1, MPI_LONG_LONG, win);
        MPI_Get(&result, 1, MPI_LONG_LONG, 0, 8, 1, MPI_LONG_LONG, win);
        MPI_Win_flush(0, win);
        MPI_Win_unlock(0, win);
    }
    MPI_Win_lock_all(0, win);
    MPI_Put(strided, 1, holes, 0, 16, 1, holes, win);
    MPI_Win_unlock_all(win);
    tl_true(MPI_Put(&value, 1, MPI_LONG_LONG, 0, 0, 1, MPI_LONG_LONG, win) != MPI_SUCCESS,
            "a put outside an epoch succeeded");
    if (tl_option("--abort", 0) != 0) {
        tl_barrier();
        MPI_Win_lock_all(0, win);
        tl_barrier();
        tl_wait_quietly(1);         /* a trace is some twentieth of a second behind */
        if (tl_rank() == 0 && tl_option("--abort", 0) == 1)
            MPI_Abort(MPI_COMM_WORLD, 3);
        if (tl_rank() == 0)
            abort();
        tl_wait_quietly(60);
    }
    MPI_Type_free(&holes);
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"counted", counted, TL_ALL, 1, 60},
        {"stopped", stopped, TL_ALL, 1, 60},
        {"paths", paths, TL_ALL, 1, 60},
        {"threads", threads, TL_ALL, 1, 120},
        {"switching", switching, TL_ALLOCATE, 1, 120},
        {"lock_waits", lock_waits, TL_ALLOCATE, 2, 120},
        {"tcp", tcp, TL_ALL, 2, 60},
        {"tcp_sleeper", tcp_sleeper, TL_ALLOCATE, 2, 60},
        {"failed_calls", failed_calls, TL_ALL, 1, 60},
        {"lives", lives, TL_ALL, 1, 60},
        {"traced", traced, 0, 1, 120},
    };

    return tl_main(argc, argv, "stats", MPI_THREAD_MULTIPLE, cases,
                   (int)(sizeof cases / sizeof cases[0]));
}
