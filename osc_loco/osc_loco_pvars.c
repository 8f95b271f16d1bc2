/* SPDX-License-Identifier: BSD-3-Clause */

/* Performance variables (MPI 3.1, section 14.3.7). Each number of a window is there twice: for the
 * process (osc_loco_put), and bound to a window (osc_loco_window_put). They count from the moment
 * that a handle is bound; no window is watched before (osc_loco_observe.c). */

#include "osc_loco.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "observe/observe.h"
#include "opal/mca/base/mca_base_pvar.h"

#define COMPONENT (&mca_osc_loco_component)
#define OBSERVERS (&mca_osc_loco_component.observers)

/* How a value is made of the numbers. */
enum make {
    MAKE_ONE,           /* the number of that index */
    MAKE_BYTES,         /* of all operations; the index of the first */
    MAKE_FAST,          /* calls of a path that were not slow; the path */
    MAKE_ALIVE          /* windows made and not freed */
};

/* A variable's context is such a value, in a pointer. */
struct value {
    unsigned char make, index, of_window;
};

static void *context_of(struct value v)
{
    return (void *)((uintptr_t)v.make << 16 | (uintptr_t)v.of_window << 8 | v.index);
}

static struct value value_of(const void *context)
{
    uintptr_t bits = (uintptr_t)context;

    return (struct value){ (unsigned char)(bits >> 16), (unsigned char)bits,
                           (unsigned char)(bits >> 8 & 1) };
}

static uint64_t make(struct value v, const loci_counter *stats)
{
    uint64_t sum = 0, slow;

    switch ((enum make)v.make) {
    case MAKE_BYTES:
        for (int i = 0; i < LOCI_STATS_OPS; i++)
            sum += loci_stats_get(stats, v.index + i);
        return sum;
    case MAKE_FAST:
        sum = loci_stats_path_calls(stats, (enum loci_stats_path)v.index);
        slow = loci_stats_get(stats, LOCI_STAT_SLOW + v.index);
        return sum > slow ? sum - slow : 0;
    case MAKE_ALIVE:
        return loci_stats_get(stats, LOCI_STAT_WINDOWS_MADE)
               - loci_stats_get(stats, LOCI_STAT_WINDOWS_FREED);
    default:
        return loci_stats_get(stats, v.index);
    }
}

static bool is_windows(struct value v)
{
    return v.make == MAKE_BYTES || v.make == MAKE_FAST
           || (v.make == MAKE_ONE && v.index < LOCI_STATS_OF_WINDOW);
}

/* Of the process: what freed windows left, and the windows that are there. Under the lock. */
static uint64_t of_process(struct value v)
{
    uint64_t sum;

    if (!OBSERVERS->open)
        return 0;
    sum = make(v, COMPONENT->rt->stats);
    if (is_windows(v))
        for (const struct ompi_osc_loco_module *m = OBSERVERS->modules; m != NULL; m = m->next)
            sum += m->stats != NULL ? make(v, m->stats) : 0;
    return sum;
}

/* The module behind a window that a handle is bound to, if it still is there and ours. */
static const struct ompi_osc_loco_module *module_of(const void *win)
{
    const struct ompi_osc_loco_module *m = OBSERVERS->modules;

    while (m != NULL && m->win != win)
        m = m->next;
    return m;
}

static int read_value(const struct mca_base_pvar_t *pvar, void *value, void *obj)
{
    struct value v = value_of(pvar->ctx);
    unsigned long long result = 0;
    int rc = OPAL_SUCCESS;

    pthread_mutex_lock(&OBSERVERS->lock);
    if (v.of_window != 0) {
        const struct ompi_osc_loco_module *m = module_of(obj);

        if (m == NULL)
            rc = OPAL_ERR_NOT_BOUND;
        else if (m->stats != NULL)
            result = make(v, m->stats);
    } else {
        result = of_process(v);
    }
    pthread_mutex_unlock(&OBSERVERS->lock);
    memcpy(value, &result, sizeof result);
    return rc;
}

/* Whatever the answer to BIND is, an UNBIND follows. */
static int notify(struct mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *obj, int *count)
{
    bool found = true;

    if (event == MCA_BASE_PVAR_HANDLE_UNBIND)
        ompi_osc_loco_observe_handles(-1);
    if (event != MCA_BASE_PVAR_HANDLE_BIND)
        return OPAL_SUCCESS;
    ompi_osc_loco_observe_handles(1);
    *count = 1;
    if (value_of(pvar->ctx).of_window != 0) {
        pthread_mutex_lock(&OBSERVERS->lock);
        found = module_of(obj) != NULL;
        pthread_mutex_unlock(&OBSERVERS->lock);
    }
    return found ? OPAL_SUCCESS : OPAL_ERR_NOT_BOUND;
}

/* ---- the variables ---- */

static void add(const char *name, int class, struct value v, const char *help)
{
    unsigned flags = MCA_BASE_PVAR_FLAG_READONLY;

    if (class == MCA_BASE_PVAR_CLASS_LEVEL)
        flags |= MCA_BASE_PVAR_FLAG_CONTINUOUS;
    (void)mca_base_component_pvar_register(
        &COMPONENT->super.osc_version, name, help, OPAL_INFO_LVL_4, class,
        MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL,
        v.of_window != 0 ? MCA_BASE_VAR_BIND_MPI_WIN : MCA_BASE_VAR_BIND_NO_OBJECT,
        (mca_base_pvar_flag_t)flags, read_value, NULL, notify, context_of(v));
}

/* Of the process, and of a window. */
__attribute__((format(printf, 4, 5)))
static void add_both(const char *name, int class, struct value v, const char *fmt, ...)
{
    char what[256], help[320], window_name[64];
    va_list args;

    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    snprintf(help, sizeof help, "%s, in all windows of this process", what);
    add(name, class, v, help);
    v.of_window = 1;
    snprintf(window_name, sizeof window_name, "window_%s", name);
    snprintf(help, sizeof help, "%s, in the window", what);
    add(window_name, class, v, help);
}

static void add_calls(void)
{
    for (int i = 0; i < LOCI_STATS_OPS; i++)
        add_both(loci_stats_op_names[i], MCA_BASE_PVAR_CLASS_COUNTER,
                 (struct value){ MAKE_ONE, (unsigned char)(LOCI_STAT_CALLS + i), 0 },
                 "Calls of %s that succeeded", loci_stats_op_names[i]);
    for (int i = 0; i < LOCI_STATS_SYNCS; i++)
        add_both(loci_stats_sync_names[i], MCA_BASE_PVAR_CLASS_COUNTER,
                 (struct value){ MAKE_ONE, (unsigned char)(LOCI_STAT_SYNC + i), 0 },
                 i == LOCI_STATS_LOCK_NOCHECK ? "Those of the locks that had MPI_MODE_NOCHECK (%s)"
                                              : "Calls of %s that succeeded",
                 loci_stats_sync_names[i]);
    add_both("errors", MCA_BASE_PVAR_CLASS_COUNTER,
             (struct value){ MAKE_ONE, LOCI_STAT_ERRORS, 0 }, "Calls that failed");
    add_both("bytes_out", MCA_BASE_PVAR_CLASS_AGGREGATE,
             (struct value){ MAKE_BYTES, LOCI_STAT_BYTES_OUT, 0 },
             "Bytes that operations took to their targets");
    add_both("bytes_in", MCA_BASE_PVAR_CLASS_AGGREGATE,
             (struct value){ MAKE_BYTES, LOCI_STAT_BYTES_IN, 0 },
             "Bytes that operations brought from their targets");
}

static void add_paths(void)
{
    char name[64];

    for (int i = 0; i < LOCI_STATS_PATHS; i++) {
        snprintf(name, sizeof name, "fast_%s", loci_stats_path_names[i]);
        add_both(name, MCA_BASE_PVAR_CLASS_COUNTER,
                 (struct value){ MAKE_FAST, (unsigned char)i, 0 },
                 "Operations of the kind of %s that were one copy or one atomic",
                 loci_stats_path_names[i]);
        snprintf(name, sizeof name, "slow_%s", loci_stats_path_names[i]);
        add_both(name, MCA_BASE_PVAR_CLASS_COUNTER,
                 (struct value){ MAKE_ONE, (unsigned char)(LOCI_STAT_SLOW + i), 0 },
                 "Operations of the kind of %s that went through the library",
                 loci_stats_path_names[i]);
    }
}

static void add_waits(void)
{
    char name[64], help[160];

    for (int i = 0; i < LOCI_WAIT_KINDS; i++) {
        const char *kind = loci_wait_kind_names[i];

        snprintf(name, sizeof name, "%s_waits", kind);
        snprintf(help, sizeof help, "Waits (%s) that were not over at the first look", kind);
        add(name, MCA_BASE_PVAR_CLASS_COUNTER,
            (struct value){ MAKE_ONE, (unsigned char)(LOCI_STAT_WAITS + i), 0 }, help);
        snprintf(name, sizeof name, "%s_wait_time", kind);
        snprintf(help, sizeof help, "Nanoseconds of the waits (%s)", kind);
        add(name, MCA_BASE_PVAR_CLASS_AGGREGATE,
            (struct value){ MAKE_ONE, (unsigned char)(LOCI_STAT_WAIT_NS + i), 0 }, help);
    }
}

static void add_tcp(void)
{
    static const struct {
        const char *name;
        int class;
        const char *help;
    } numbers[LOCI_STATS_TCPS] = {
        [LOCI_STATS_TCP_CONNECTIONS] = { "tcp_connections", MCA_BASE_PVAR_CLASS_COUNTER,
            "Connections for data made over TCP with processes of other machines" },
        [LOCI_STATS_TCP_BYTES_OUT] = { "tcp_bytes_out", MCA_BASE_PVAR_CLASS_AGGREGATE,
            "Bytes sent over them" },
        [LOCI_STATS_TCP_BYTES_IN] = { "tcp_bytes_in", MCA_BASE_PVAR_CLASS_AGGREGATE,
            "Bytes received over them" },
        [LOCI_STATS_TCP_SERVED] = { "tcp_requests_served", MCA_BASE_PVAR_CLASS_COUNTER,
            "Requests of other processes, done by this one" },
        [LOCI_STATS_TCP_BY_SERVICE] = { "tcp_requests_by_service",
            MCA_BASE_PVAR_CLASS_COUNTER,
            "Of these, those that the service thread did, not a thread that was waiting" },
    };

    for (int i = 0; i < LOCI_STATS_TCPS; i++)
        add(numbers[i].name, numbers[i].class,
            (struct value){ MAKE_ONE, (unsigned char)(LOCI_STAT_TCP + i), 0 }, numbers[i].help);
}

static void add_store(void)
{
    static const struct {
        const char *name, *help;
    } numbers[LOCI_STATS_STORES] = {
        [LOCI_STATS_COMMITS] = { "store_commits", "Transactions on stores that were committed" },
        [LOCI_STATS_SINGLE] = { "store_single", "Of these, those of one object, without a log" },
        [LOCI_STATS_READ_ONLY] = { "store_read_only", "Of these, those that wrote nothing" },
        [LOCI_STATS_CONFLICTS] = { "store_conflicts",
            "Transactions that another was in the way of" },
        [LOCI_STATS_ABORTED_BY_OTHERS] = { "store_aborted_by_others",
            "Commits that another process has undone, for they took too long" },
        [LOCI_STATS_HELPED] = { "store_helped",
            "Words of others' transactions that were put right" },
        [LOCI_STATS_SUSPECTED] = { "store_suspected",
            "Transactions of others that were undone, for they took too long or their process had "
            "died" },
        [LOCI_STATS_RETRIES] = { "store_retries",
            "Values that were read again, for they were being replaced" },
        [LOCI_STATS_SCAVENGED_UNDONE] = { "store_scavenged_undone",
            "Transactions of the dead that scavenging has undone" },
        [LOCI_STATS_SCAVENGED_BLOCKS] = { "store_scavenged_blocks",
            "Blocks of the dead that scavenging has made free memory" },
        [LOCI_STATS_SCAVENGED_BYTES] = { "store_scavenged_bytes", "Their size" },
        [LOCI_STATS_SCAVENGED_CELLS] = { "store_scavenged_cells",
            "Places for objects of the dead that it has made free" },
    };

    for (int i = 0; i < LOCI_STATS_STORES; i++)
        add(numbers[i].name, i == LOCI_STATS_SCAVENGED_BYTES ? MCA_BASE_PVAR_CLASS_AGGREGATE
                                                             : MCA_BASE_PVAR_CLASS_COUNTER,
            (struct value){ MAKE_ONE, (unsigned char)(LOCI_STAT_STORE + i), 0 },
            numbers[i].help);
}

static void add_index(void)
{
    static const struct {
        const char *name, *help;
    } numbers[LOCI_STATS_INDEXES] = {
        [LOCI_STATS_LOOKUPS] = { "index_lookups", "Leaves of indexes that were looked up" },
        [LOCI_STATS_STALE] = { "index_stale", "Times that a hint led to no such leaf" },
        [LOCI_STATS_WALKED_RIGHT] = { "index_walked_right",
            "Steps to a right neighbour, for a hint was old" },
        [LOCI_STATS_AHEAD] = { "index_ahead", "Leaves that were read together with others" },
        [LOCI_STATS_SPLITS] = { "index_splits", "Nodes that were split" },
        [LOCI_STATS_REMOVED] = { "index_removed", "Nodes that were taken out, being empty" },
        [LOCI_STATS_HOT] = { "index_hot",
            "Entries that got an object of their own, for their leaf was hot" },
    };

    for (int i = 0; i < LOCI_STATS_INDEXES; i++)
        add(numbers[i].name, MCA_BASE_PVAR_CLASS_COUNTER,
            (struct value){ MAKE_ONE, (unsigned char)(LOCI_STAT_INDEX + i), 0 }, numbers[i].help);
}

static void add_multicast(void)
{
    static const struct {
        const char *name, *help;
    } numbers[LOCI_STATS_MULTICASTS] = {
        [LOCI_STATS_SENT] = { "multicast_sent",
            "Messages that multicasts of this process sent, which were destroyed" },
        [LOCI_STATS_SEND_BATCHES] = { "multicast_send_batches", "Batches in which they were sent" },
        [LOCI_STATS_NULLS] = { "multicast_nulls",
            "Numbers that this process gave away, for others' messages waited for them" },
        [LOCI_STATS_NULL_BATCHES] = { "multicast_null_batches", "Times that it gave some away" },
        [LOCI_STATS_RECEIVE_BATCHES] = { "multicast_receive_batches",
            "Looks at the others that found messages or nulls" },
        [LOCI_STATS_DELIVERED] = { "multicast_delivered", "Messages that were delivered here" },
        [LOCI_STATS_DELIVER_BATCHES] = { "multicast_deliver_batches",
            "Batches in which they were delivered" },
        [LOCI_STATS_PUSHES] = { "multicast_pushes", "Times that the others were told something" },
        [LOCI_STATS_SLOTS_FULL] = { "multicast_full",
            "Times that no slot was free for a message" },
    };

    for (int i = 0; i < LOCI_STATS_MULTICASTS; i++)
        add(numbers[i].name, MCA_BASE_PVAR_CLASS_COUNTER,
            (struct value){ MAKE_ONE, (unsigned char)(LOCI_STAT_MULTICAST + i), 0 },
            numbers[i].help);
}

static void add_runtime(void)
{
    static const char *const posts[LOCI_STATS_POSTS] = { "writes", "reads", "atomics" };
    char name[64], help[160];

    for (int i = 0; i < LOCI_STATS_FENCES; i++) {
        snprintf(name, sizeof name, "runtime_fence_%s", loci_stats_fence_names[i]);
        snprintf(help, sizeof help, "Fences of the runtime that needed at most: %s",
                 loci_stats_fence_names[i]);
        add(name, MCA_BASE_PVAR_CLASS_COUNTER,
            (struct value){ MAKE_ONE, (unsigned char)(LOCI_STAT_FENCES + i), 0 }, help);
    }
    for (int i = 0; i < LOCI_STATS_POSTS; i++) {
        snprintf(name, sizeof name, "posted_%s", posts[i]);
        snprintf(help, sizeof help, "%s that were given to the fabric, as the memory is not "
                 "mapped here", posts[i]);
        add(name, MCA_BASE_PVAR_CLASS_COUNTER,
            (struct value){ MAKE_ONE, (unsigned char)(LOCI_STAT_POSTED + i), 0 }, help);
        snprintf(name, sizeof name, "posted_%s_bytes", posts[i]);
        snprintf(help, sizeof help, "Bytes of the %s that were given to the fabric", posts[i]);
        add(name, MCA_BASE_PVAR_CLASS_AGGREGATE,
            (struct value){ MAKE_ONE, (unsigned char)(LOCI_STAT_POSTED_BYTES + i), 0 }, help);
    }
    add("outstanding_bound", MCA_BASE_PVAR_CLASS_LEVEL,
        (struct value){ MAKE_ONE, LOCI_STAT_OUTSTANDING + LOCI_STATS_BOUND, 0 },
        "Requests that this process may have in flight at its RDMA device now; 0: no bound");
    add("outstanding_waits", MCA_BASE_PVAR_CLASS_COUNTER,
        (struct value){ MAKE_ONE, LOCI_STAT_OUTSTANDING + LOCI_STATS_BOUND_WAITS, 0 },
        "Times that a request was not let through at first for that bound");
    add("outstanding_trials", MCA_BASE_PVAR_CLASS_COUNTER,
        (struct value){ MAKE_ONE, LOCI_STAT_OUTSTANDING + LOCI_STATS_BOUND_TRIALS, 0 },
        "Bounds that LOCO_RDMA_OUTSTANDING=auto has tried");
    add("registrations", MCA_BASE_PVAR_CLASS_COUNTER,
        (struct value){ MAKE_ONE, LOCI_STAT_REGISTRATIONS, 0 },
        "Times that memory of the program was registered with an RDMA device");
    add("registrations_kept", MCA_BASE_PVAR_CLASS_COUNTER,
        (struct value){ MAKE_ONE, LOCI_STAT_REGISTRATIONS_KEPT, 0 },
        "Times that it was still registered with one");
    add_tcp();
    add_store();
    add_index();
    add_multicast();
    add("windows_made", MCA_BASE_PVAR_CLASS_COUNTER,
        (struct value){ MAKE_ONE, LOCI_STAT_WINDOWS_MADE, 0 }, "Windows that were made");
    add("windows_alive", MCA_BASE_PVAR_CLASS_LEVEL, (struct value){ MAKE_ALIVE, 0, 0 },
        "Windows that are there now");
}

void ompi_osc_loco_pvars(void)
{
    _Static_assert(LOCI_STAT_COUNT <= UCHAR_MAX, "an index is a byte of the context");
    add_calls();
    add_paths();
    add_waits();
    add_runtime();
}
