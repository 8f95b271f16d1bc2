/* SPDX-License-Identifier: BSD-3-Clause */

/* Counting and tracing of windows, at no cost for those that nobody watches: a watched window has
 * another table of functions, which count, trace and call the real ones. The table is put in when
 * the window is made, with LOCO_STATS or LOCO_TRACE, or later, when a tool binds a performance
 * variable; it is taken out when the last one is unbound. A call that runs at that moment goes one
 * way or the other.
 *
 * A window's numbers stay with it while it is alive (tools may ask for them), and are added to the
 * runtime's when it is freed. */

#include "osc_loco.h"

#include <stdlib.h>

#include "observe/observe.h"

#define COMPONENT (&mca_osc_loco_component)
#define OBSERVERS (&mca_osc_loco_component.observers)
#define NO_TARGET (-1)

/* ---- one call ---- */

struct call {
    struct ompi_osc_loco_module *module;
    int which;                  /* LOCI_STAT_CALLS or LOCI_STAT_SYNC and what it is */
    bool traced;
};

static struct call call_begins(const struct ompi_win_t *win, int which, const char *category,
                               const char *name, int target, int64_t bytes)
{
    struct call call = { .module = ompi_osc_loco_module(win), .which = which };
    struct loci_trace_arg args[3] = { { "window", call.module->number, NULL } };
    int n = 1;

    if (COMPONENT->rt->trace == NULL)
        return call;
    if (target != NO_TARGET)
        args[n++] = (struct loci_trace_arg){ "target", target, NULL };
    if (bytes >= 0)
        args[n++] = (struct loci_trace_arg){ "bytes", bytes, NULL };
    call.traced = loci_trace_begin(COMPONENT->rt, category, name, args, n);
    return call;
}

static int call_ends(const struct call *call, int rc)
{
    struct loci_trace_arg error = { "error", rc, NULL };

    loci_stats_add(call->module->stats, rc == MPI_SUCCESS ? call->which : (int)LOCI_STAT_ERRORS, 1);
    if (call->traced)
        loci_trace_end(COMPONENT->rt, &error, rc != MPI_SUCCESS);
    return rc;
}

static struct call sync_begins(const struct ompi_win_t *win, enum loci_stats_sync sync, int target)
{
    return call_begins(win, LOCI_STAT_SYNC + (int)sync, "sync", loci_stats_sync_names[sync],
                       target, -1);
}

struct operation {
    struct call call;
    uint64_t out, in;
};

static struct operation op_begins(const struct ompi_win_t *win, enum loci_stats_op op, int target,
                                  uint64_t out, uint64_t in)
{
    return (struct operation){
        .call = call_begins(win, LOCI_STAT_CALLS + (int)op, "rma", loci_stats_op_names[op], target,
                            (int64_t)(out > in ? out : in)),
        .out = out, .in = in,
    };
}

static int op_ends(const struct operation *op, int rc)
{
    loci_counter *stats = op->call.module->stats;
    int kind = op->call.which - LOCI_STAT_CALLS;

    if (rc == MPI_SUCCESS && op->out > 0)
        loci_stats_add(stats, LOCI_STAT_BYTES_OUT + kind, op->out);
    if (rc == MPI_SUCCESS && op->in > 0)
        loci_stats_add(stats, LOCI_STAT_BYTES_IN + kind, op->in);
    return call_ends(&op->call, rc);
}

static uint64_t bytes_of(const struct ompi_datatype_t *type, int count)
{
    return (uint64_t)type->super.size * (uint64_t)count;
}

/* Of an accumulate: MPI_NO_OP sends nothing. */
static uint64_t operand_of(const struct ompi_op_t *op, const struct ompi_datatype_t *type,
                           int count)
{
    return op == &ompi_mpi_op_no_op.op ? 0 : bytes_of(type, count);
}

/* ---- operations ---- */

static int watched_put(const void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                       int target, ptrdiff_t disp, int target_count,
                       struct ompi_datatype_t *target_type, struct ompi_win_t *win)
{
    struct operation op = op_begins(win, LOCI_STATS_PUT, target,
                                    bytes_of(origin_type, origin_count), 0);

    return op_ends(&op, ompi_osc_loco_put(origin, origin_count, origin_type, target, disp,
                                          target_count, target_type, win));
}

static int watched_get(void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                       int target, ptrdiff_t disp, int target_count,
                       struct ompi_datatype_t *target_type, struct ompi_win_t *win)
{
    struct operation op = op_begins(win, LOCI_STATS_GET, target, 0,
                                    bytes_of(target_type, target_count));

    return op_ends(&op, ompi_osc_loco_get(origin, origin_count, origin_type, target, disp,
                                          target_count, target_type, win));
}

static int watched_rput(const void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                        int target, ptrdiff_t disp, int target_count,
                        struct ompi_datatype_t *target_type, struct ompi_win_t *win,
                        struct ompi_request_t **request)
{
    struct operation op = op_begins(win, LOCI_STATS_RPUT, target,
                                    bytes_of(origin_type, origin_count), 0);

    return op_ends(&op, ompi_osc_loco_rput(origin, origin_count, origin_type, target, disp,
                                           target_count, target_type, win, request));
}

static int watched_rget(void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                        int target, ptrdiff_t disp, int target_count,
                        struct ompi_datatype_t *target_type, struct ompi_win_t *win,
                        struct ompi_request_t **request)
{
    struct operation op = op_begins(win, LOCI_STATS_RGET, target, 0,
                                    bytes_of(target_type, target_count));

    return op_ends(&op, ompi_osc_loco_rget(origin, origin_count, origin_type, target, disp,
                                           target_count, target_type, win, request));
}

static int watched_accumulate(const void *origin, int origin_count,
                              struct ompi_datatype_t *origin_type, int target, ptrdiff_t disp,
                              int target_count, struct ompi_datatype_t *target_type,
                              struct ompi_op_t *mpi_op, struct ompi_win_t *win)
{
    struct operation op = op_begins(win, LOCI_STATS_ACCUMULATE, target,
                                    operand_of(mpi_op, origin_type, origin_count), 0);

    return op_ends(&op, ompi_osc_loco_accumulate(origin, origin_count, origin_type, target, disp,
                                                 target_count, target_type, mpi_op, win));
}

static int watched_raccumulate(const void *origin, int origin_count,
                               struct ompi_datatype_t *origin_type, int target, ptrdiff_t disp,
                               int target_count, struct ompi_datatype_t *target_type,
                               struct ompi_op_t *mpi_op, struct ompi_win_t *win,
                               struct ompi_request_t **request)
{
    struct operation op = op_begins(win, LOCI_STATS_RACCUMULATE, target,
                                    operand_of(mpi_op, origin_type, origin_count), 0);

    return op_ends(&op, ompi_osc_loco_raccumulate(origin, origin_count, origin_type, target, disp,
                                                  target_count, target_type, mpi_op, win,
                                                  request));
}

static int watched_get_accumulate(const void *origin, int origin_count,
                                  struct ompi_datatype_t *origin_type, void *result,
                                  int result_count, struct ompi_datatype_t *result_type,
                                  int target, ptrdiff_t disp, int target_count,
                                  struct ompi_datatype_t *target_type, struct ompi_op_t *mpi_op,
                                  struct ompi_win_t *win)
{
    struct operation op = op_begins(win, LOCI_STATS_GET_ACCUMULATE, target,
                                    operand_of(mpi_op, origin_type, origin_count),
                                    bytes_of(target_type, target_count));

    return op_ends(&op, ompi_osc_loco_get_accumulate(origin, origin_count, origin_type, result,
                                                     result_count, result_type, target, disp,
                                                     target_count, target_type, mpi_op, win));
}

static int watched_rget_accumulate(const void *origin, int origin_count,
                                   struct ompi_datatype_t *origin_type, void *result,
                                   int result_count, struct ompi_datatype_t *result_type,
                                   int target, ptrdiff_t disp, int target_count,
                                   struct ompi_datatype_t *target_type, struct ompi_op_t *mpi_op,
                                   struct ompi_win_t *win, struct ompi_request_t **request)
{
    struct operation op = op_begins(win, LOCI_STATS_RGET_ACCUMULATE, target,
                                    operand_of(mpi_op, origin_type, origin_count),
                                    bytes_of(target_type, target_count));

    return op_ends(&op, ompi_osc_loco_rget_accumulate(origin, origin_count, origin_type, result,
                                                      result_count, result_type, target, disp,
                                                      target_count, target_type, mpi_op, win,
                                                      request));
}

static int watched_fetch_and_op(const void *origin, void *result, struct ompi_datatype_t *type,
                                int target, ptrdiff_t disp, struct ompi_op_t *mpi_op,
                                struct ompi_win_t *win)
{
    struct operation op = op_begins(win, LOCI_STATS_FETCH_AND_OP, target,
                                    operand_of(mpi_op, type, 1), bytes_of(type, 1));

    return op_ends(&op, ompi_osc_loco_fetch_and_op(origin, result, type, target, disp, mpi_op,
                                                   win));
}

static int watched_compare_and_swap(const void *origin, const void *compare, void *result,
                                    struct ompi_datatype_t *type, int target, ptrdiff_t disp,
                                    struct ompi_win_t *win)
{
    struct operation op = op_begins(win, LOCI_STATS_COMPARE_AND_SWAP, target, bytes_of(type, 1),
                                    bytes_of(type, 1));

    return op_ends(&op, ompi_osc_loco_compare_and_swap(origin, compare, result, type, target, disp,
                                                       win));
}

/* ---- synchronisation ---- */

static int watched_fence(int asserts, struct ompi_win_t *win)
{
    struct call call = sync_begins(win, LOCI_STATS_FENCE, NO_TARGET);

    return call_ends(&call, ompi_osc_loco_fence(asserts, win));
}

static int watched_start(struct ompi_group_t *group, int asserts, struct ompi_win_t *win)
{
    struct call call = sync_begins(win, LOCI_STATS_START, NO_TARGET);

    return call_ends(&call, ompi_osc_loco_start(group, asserts, win));
}

static int watched_complete(struct ompi_win_t *win)
{
    struct call call = sync_begins(win, LOCI_STATS_COMPLETE, NO_TARGET);

    return call_ends(&call, ompi_osc_loco_complete(win));
}

static int watched_post(struct ompi_group_t *group, int asserts, struct ompi_win_t *win)
{
    struct call call = sync_begins(win, LOCI_STATS_POST, NO_TARGET);

    return call_ends(&call, ompi_osc_loco_post(group, asserts, win));
}

static int watched_wait(struct ompi_win_t *win)
{
    struct call call = sync_begins(win, LOCI_STATS_WAIT, NO_TARGET);

    return call_ends(&call, ompi_osc_loco_wait(win));
}

static int watched_test(struct ompi_win_t *win, int *flag)
{
    struct call call = sync_begins(win, LOCI_STATS_TEST, NO_TARGET);

    return call_ends(&call, ompi_osc_loco_test(win, flag));
}

static void count_nocheck(const struct call *call, int asserts, int rc)
{
    if (rc == MPI_SUCCESS && (asserts & MPI_MODE_NOCHECK) != 0)
        loci_stats_add(call->module->stats, LOCI_STAT_SYNC + LOCI_STATS_LOCK_NOCHECK, 1);
}

static int watched_lock(int kind, int target, int asserts, struct ompi_win_t *win)
{
    struct call call = sync_begins(win, kind == MPI_LOCK_EXCLUSIVE ? LOCI_STATS_LOCK_EXCLUSIVE
                                                                   : LOCI_STATS_LOCK_SHARED,
                                   target);
    int rc = ompi_osc_loco_lock(kind, target, asserts, win);

    count_nocheck(&call, asserts, rc);
    return call_ends(&call, rc);
}

static int watched_unlock(int target, struct ompi_win_t *win)
{
    struct call call = sync_begins(win, LOCI_STATS_UNLOCK, target);

    return call_ends(&call, ompi_osc_loco_unlock(target, win));
}

static int watched_lock_all(int asserts, struct ompi_win_t *win)
{
    struct call call = sync_begins(win, LOCI_STATS_LOCK_ALL, NO_TARGET);
    int rc = ompi_osc_loco_lock_all(asserts, win);

    count_nocheck(&call, asserts, rc);
    return call_ends(&call, rc);
}

static int watched_unlock_all(struct ompi_win_t *win)
{
    struct call call = sync_begins(win, LOCI_STATS_UNLOCK_ALL, NO_TARGET);

    return call_ends(&call, ompi_osc_loco_unlock_all(win));
}

static int watched_sync(struct ompi_win_t *win)
{
    struct call call = sync_begins(win, LOCI_STATS_SYNC, NO_TARGET);

    return call_ends(&call, ompi_osc_loco_sync(win));
}

static int watched_flush(int target, struct ompi_win_t *win)
{
    struct call call = sync_begins(win, LOCI_STATS_FLUSH, target);

    return call_ends(&call, ompi_osc_loco_flush(target, win));
}

static int watched_flush_all(struct ompi_win_t *win)
{
    struct call call = sync_begins(win, LOCI_STATS_FLUSH_ALL, NO_TARGET);

    return call_ends(&call, ompi_osc_loco_flush_all(win));
}

static int watched_flush_local(int target, struct ompi_win_t *win)
{
    struct call call = sync_begins(win, LOCI_STATS_FLUSH_LOCAL, target);

    return call_ends(&call, ompi_osc_loco_flush_local(target, win));
}

static int watched_flush_local_all(struct ompi_win_t *win)
{
    struct call call = sync_begins(win, LOCI_STATS_FLUSH_LOCAL_ALL, NO_TARGET);

    return call_ends(&call, ompi_osc_loco_flush_local_all(win));
}

static int watched_attach(struct ompi_win_t *win, void *base, size_t size)
{
    struct call call = sync_begins(win, LOCI_STATS_ATTACH, NO_TARGET);

    return call_ends(&call, ompi_osc_loco_attach(win, base, size));
}

static int watched_detach(struct ompi_win_t *win, const void *base)
{
    struct call call = sync_begins(win, LOCI_STATS_DETACH, NO_TARGET);

    return call_ends(&call, ompi_osc_loco_detach(win, base));
}

static const ompi_osc_base_module_t watched = {
    .osc_win_shared_query = ompi_osc_loco_shared_query,
    .osc_win_attach = watched_attach,
    .osc_win_detach = watched_detach,
    .osc_free = ompi_osc_loco_free,

    .osc_put = watched_put,
    .osc_get = watched_get,
    .osc_accumulate = watched_accumulate,
    .osc_compare_and_swap = watched_compare_and_swap,
    .osc_fetch_and_op = watched_fetch_and_op,
    .osc_get_accumulate = watched_get_accumulate,

    .osc_rput = watched_rput,
    .osc_rget = watched_rget,
    .osc_raccumulate = watched_raccumulate,
    .osc_rget_accumulate = watched_rget_accumulate,

    .osc_fence = watched_fence,

    .osc_start = watched_start,
    .osc_complete = watched_complete,
    .osc_post = watched_post,
    .osc_wait = watched_wait,
    .osc_test = watched_test,

    .osc_lock = watched_lock,
    .osc_unlock = watched_unlock,
    .osc_lock_all = watched_lock_all,
    .osc_unlock_all = watched_unlock_all,

    .osc_sync = watched_sync,
    .osc_flush = watched_flush,
    .osc_flush_all = watched_flush_all,
    .osc_flush_local = watched_flush_local,
    .osc_flush_local_all = watched_flush_local_all,
};

/* ---- who is watched ---- */

/* Function by function: other threads may be calling. What a window's watched functions need is
 * there before them. */
static void put_table(struct ompi_osc_loco_module *module, const ompi_osc_base_module_t *table)
{
    void *const *from = (void *const *)(const void *)table;
    void **to = (void **)(void *)&module->super;

    _Static_assert(sizeof *table % sizeof *from == 0, "the module is pointers to functions");
    for (size_t i = 0; i < sizeof *table / sizeof *from; i++)
        __atomic_store_n(&to[i], from[i], __ATOMIC_RELEASE);
}

static void watch(struct ompi_osc_loco_module *module, bool on)
{
    if (on && module->stats == NULL)
        module->stats = calloc(LOCI_STATS_OF_WINDOW, sizeof module->stats[0]);
    if (module->stats == NULL)      /* not watched, or no memory for it: works all the same */
        return;
    atomic_store_explicit(&module->watched, on, memory_order_relaxed);
    put_table(module, on ? &watched : &ompi_osc_loco_module_template);
}

static bool is_wanted(void)
{
    return OBSERVERS->always || OBSERVERS->handles > 0;
}

void ompi_osc_loco_observe_open(void)
{
    pthread_mutex_lock(&OBSERVERS->lock);
    OBSERVERS->always = loci_observed(COMPONENT->rt) != 0;
    if (OBSERVERS->handles > 0)
        loci_observe_stats(COMPONENT->rt, true);
    OBSERVERS->open = true;
    pthread_mutex_unlock(&OBSERVERS->lock);
}

void ompi_osc_loco_observe_close(void)
{
    pthread_mutex_lock(&OBSERVERS->lock);
    OBSERVERS->open = false;
    pthread_mutex_unlock(&OBSERVERS->lock);
}

void ompi_osc_loco_observe_handles(int more)
{
    pthread_mutex_lock(&OBSERVERS->lock);
    OBSERVERS->handles += more;
    if (OBSERVERS->open && !OBSERVERS->always) {
        loci_observe_stats(COMPONENT->rt, is_wanted());
        for (struct ompi_osc_loco_module *m = OBSERVERS->modules; m != NULL; m = m->next)
            if (m->watched != is_wanted())
                watch(m, is_wanted());
    }
    pthread_mutex_unlock(&OBSERVERS->lock);
}

const char *ompi_osc_loco_flavor_name(const struct ompi_osc_loco_module *module)
{
    static const char *const names[] = {
        [MPI_WIN_FLAVOR_CREATE] = "create", [MPI_WIN_FLAVOR_ALLOCATE] = "allocate",
        [MPI_WIN_FLAVOR_DYNAMIC] = "dynamic", [MPI_WIN_FLAVOR_SHARED] = "shared",
    };

    return names[module->flavor];
}

void ompi_osc_loco_observe_window(struct ompi_win_t *win, struct ompi_osc_loco_module *module)
{
    pthread_mutex_lock(&OBSERVERS->lock);
    module->win = win;
    module->number = OBSERVERS->made++;
    module->next = OBSERVERS->modules;
    if (module->next != NULL)
        module->next->link = &module->next;
    module->link = &OBSERVERS->modules;
    OBSERVERS->modules = module;
    if (is_wanted())
        watch(module, true);
    pthread_mutex_unlock(&OBSERVERS->lock);
    if (COMPONENT->rt->trace != NULL) {
        const struct loci_trace_arg args[] = {
            { "window", module->number, NULL },
            { "flavor", 0, ompi_osc_loco_flavor_name(module) },
            { "members", loco_window_members(window_of(module)), NULL },
        };

        loci_trace_mark(COMPONENT->rt, "window", "window made", args, 3);
    }
}

void ompi_osc_loco_observe_gone(struct ompi_osc_loco_module *module)
{
    const struct loci_trace_arg arg = { "window", module->number, NULL };

    if (COMPONENT->rt->trace != NULL)
        loci_trace_mark(COMPONENT->rt, "window", "window freed", &arg, 1);
    pthread_mutex_lock(&OBSERVERS->lock);
    *module->link = module->next;
    if (module->next != NULL)
        module->next->link = module->link;
    for (int i = 0; module->stats != NULL && i < LOCI_STATS_OF_WINDOW; i++)
        loci_stats_add(COMPONENT->rt->stats, i, loci_stats_get(module->stats, i));
    pthread_mutex_unlock(&OBSERVERS->lock);
    free(module->stats);
}
