/* SPDX-License-Identifier: BSD-3-Clause */

/* libloco_mpi.so: one runtime per process, shared by the component and native callers, and the
 * way into it from a communicator. */

#include "ompi_config.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/proc/proc.h"
#include "ompi/runtime/mpiruntime.h"
#include "ompi/runtime/params.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/proc.h"

#include "loco_mpi.h"
#include "loco_mpi_memory.h"
#include "observe/log.h"
#include "observe/mistake.h"
#include "runtime.h"
#include "wait.h"
#include "window/window.h"

/* All that this process has once. */
struct loci_mpi {
    pthread_mutex_t lock;               /* of the fields up to the blank line, and of the last */
    loco_runtime_t *rt;
    int users;                          /* opens without their close */
    bool everyone_is_set;               /* by the first native open */

    _Atomic(pthread_t) caller;          /* the thread that may call MPI; 0: none now */
    _Atomic int64_t busy_until;         /* MPI's progress is, ns: nobody sleeps */
    _Atomic(pthread_t) dozer;           /* the last thread to call progress between two sleeps */

    pthread_mutex_t component_lock;     /* of the three below, and held while the log is told */
    const struct loci_mpi_component *component;
    bool log_to_stderr;                 /* LOCO_LOG is in the environment */
    int native_users;                   /* native opens without their close: they hear the log */

    struct loci_mpi_memory memory;
};

/* The one static state of the tree: see DESIGN, "No global state". */
static struct loci_mpi process = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .component_lock = PTHREAD_MUTEX_INITIALIZER,
};

/* ---- who may call MPI ---- */

static bool mpi_is_up(void)
{
    int state = ompi_mpi_state;

    return state < OMPI_MPI_STATE_FINALIZE_PAST_COMM_SELF_DESTRUCT;
}

bool loci_mpi_may_call(void)
{
    if (!mpi_is_up())
        return false;
    return ompi_mpi_thread_provided == MPI_THREAD_MULTIPLE
           || atomic_load_explicit(&process.caller, memory_order_relaxed) == pthread_self();
}

static void set_caller(pthread_t thread)
{
    atomic_store_explicit(&process.caller, thread, memory_order_relaxed);
}

void loci_mpi_enter(void)
{
    if (ompi_mpi_thread_provided == MPI_THREAD_SERIALIZED)
        set_caller(pthread_self());
}

void loci_mpi_leave(void)
{
    if (ompi_mpi_thread_provided == MPI_THREAD_SERIALIZED)
        set_caller(0);
}

/* What peers wait for may depend on messages that only this thread's progress sends off. The
 * service thread never waits (service.h), so it does not come here. */
static void idle(void *ctx, unsigned rounds)
{
    (void)ctx;
    (void)rounds;
    if (!loci_mpi_may_call()) {
        sched_yield();
        return;
    }
    opal_progress();
    if (!opal_progress_yield_when_idle)     /* else it has yielded itself */
        sched_yield();
}

#define SLICE_NS INT64_C(700000)
#define BUSY_NS INT64_C(10000)      /* CPU time of a call that has found something, and */
#define AWAKE_NS INT64_C(100000)    /* for how long none is slept through then */

static int64_t thread_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Whether MPI's progress has work: what it has just done may have an answer soon. It does not say
 * so itself; what it takes does, not counting what others had of the core meanwhile. */
static bool progress_is_busy(void *ctx)
{
    int64_t before = thread_time(), now;

    atomic_store_explicit(&process.dozer, pthread_self(), memory_order_relaxed);
    opal_progress();
    atomic_store_explicit(&process.dozer, 0, memory_order_relaxed);
    now = loci_host_system.now(ctx);
    if (thread_time() - before > BUSY_NS)
        atomic_store_explicit(&process.busy_until, now + AWAKE_NS, memory_order_relaxed);
    return now < atomic_load_explicit(&process.busy_until, memory_order_relaxed);
}

/* One word for all threads, for it is set for no longer than a call of MPI's progress. Of two that
 * doze in the same moment one is taken for spinning: its peers then wait a tick longer, once. */
bool loci_mpi_spins(void)
{
    return atomic_load_explicit(&process.dozer, memory_order_relaxed) != pthread_self();
}

/* Who may call MPI sleeps in slices, for the same reason, and not at all while there is something
 * to do. */
static void sleep_in_mpi(void *ctx, _Atomic uint32_t *word, uint32_t seen, int64_t ns)
{
    if (loci_mpi_may_call()) {
        if (progress_is_busy(ctx)) {
            sched_yield();
            return;
        }
        if (ns == LOCO_FOREVER || ns > SLICE_NS)
            ns = SLICE_NS;
    }
    loci_host_system.sleep(ctx, word, seen, ns);
}

/* ---- exchanges ---- */

static int allgather(void *ctx, const void *mine, size_t len, void *all)
{
    struct ompi_communicator_t *comm = ctx;
    int rc;

    if (len > INT_MAX)
        return LOCO_ERR_ARG;
    rc = comm->c_coll->coll_allgather(mine, (int)len, MPI_BYTE, all, (int)len, MPI_BYTE, comm,
                                      comm->c_coll->coll_allgather_module);
    return rc == MPI_SUCCESS ? LOCO_OK : LOCO_ERR_SYSTEM;
}

int loco_exchange_mpi(MPI_Comm comm, struct loco_exchange *exchange)
{
    if (comm == NULL || ompi_comm_invalid(comm) || OMPI_COMM_IS_INTER(comm))
        return loci_mistake(NULL, LOCO_ERR_ARG, "loco_exchange_mpi", NULL,
                            "the communicator is none, or an intercommunicator");
    exchange->ctx = comm;
    exchange->rank = ompi_comm_rank(comm);
    exchange->size = ompi_comm_size(comm);
    exchange->allgather = allgather;
    return LOCO_OK;
}

int loci_mpi_agree(MPI_Comm comm, int *values, int n)
{
    int rc = comm->c_coll->coll_allreduce(MPI_IN_PLACE, values, n, MPI_INT, MPI_MIN, comm,
                                          comm->c_coll->coll_allreduce_module);

    return rc == MPI_SUCCESS ? LOCO_OK : LOCO_ERR_SYSTEM;
}

static int agree_on_status(MPI_Comm comm, int status)
{
    int rc = loci_mpi_agree(comm, &status, 1);

    return rc == LOCO_OK ? status : rc;
}

/* ---- the runtime ---- */

static int allgather_alone(void *ctx, const void *mine, size_t len, void *all)
{
    (void)ctx;
    memcpy(all, mine, len);
    return LOCO_OK;
}

static uint64_t identity(void)
{
    const opal_process_name_t *name = OMPI_PROC_MY_NAME;

    return (uint64_t)name->jobid << 32 | name->vpid;
}

/* The component may be unloaded while native channels live, so the runtime's log is told here. A
 * job that only makes windows hears of errors from MPI, unless it asks for more. */
static void log_line(void *ctx, int level, const char *text)
{
    (void)ctx;
    pthread_mutex_lock(&process.component_lock);
    if ((process.component == NULL || !process.component->log(level, text))
        && (process.log_to_stderr || process.native_users > 0))
        loci_log_stderr(NULL, level, text);
    pthread_mutex_unlock(&process.component_lock);
}

/* With more ranks than cores, Open MPI yields in every wait that finds nothing; polling then only
 * keeps others from what this process waits for. Weaker than what the user says anywhere. */
static const char *spin_for_cores(void)
{
    bool yields = opal_progress_yield_when_idle;

    return yields && getenv("LOCO_SPIN") == NULL ? "LOCO_SPIN=0" : NULL;
}

/* A job of which not all processes are here. */
static bool has_other_machines(void)
{
    return (int)opal_process_info.num_local_peers + 1 < (int)ompi_proc_world_size();
}

/* What the runtime is opened with, ended by NULL; later ones count more. NULL: no memory. */
static const char **settings(char **given)
{
    const char *spin = spin_for_cores();
    size_t n = 0, used = 0;
    const char **list;

    while (given != NULL && given[n] != NULL)
        n++;
    list = calloc(n + 2, sizeof list[0]);
    if (list == NULL)
        return NULL;
    if (spin != NULL)
        list[used++] = spin;
    for (size_t i = 0; i < n; i++)
        list[used++] = given[i];
    return list;
}

static char **settings_of_component(void)
{
    char **list = NULL;

    pthread_mutex_lock(&process.component_lock);
    process.log_to_stderr = getenv("LOCO_LOG") != NULL;
    if (process.component != NULL)
        list = process.component->settings();
    pthread_mutex_unlock(&process.component_lock);
    return list;
}

static int open_runtime(void)
{
    struct loci_host host = loci_host_system;
    char **given = settings_of_component();
    const char **all = settings(given);
    struct loco_bootstrap boot = {
        .identity = identity(),
        .exchange = { .rank = 0, .size = 1, .allgather = allgather_alone },
        .log = log_line,
        .settings = all,
        .other_machines = has_other_machines(),
    };
    int status = LOCO_ERR_NO_MEMORY;

    host.ctx = &process.memory;
    host.watch_memory = loci_mpi_memory_watch;
    host.idle = idle;
    host.sleep = sleep_in_mpi;
    host.place = (unsigned)opal_process_info.my_local_rank + 1;
    set_caller(pthread_self());
    if (all != NULL)
        status = loci_runtime_open(&boot, &host, NULL, &process.rt);
    for (size_t i = 0; given != NULL && given[i] != NULL; i++)
        free(given[i]);
    free(given);
    free(all);
    return status;
}

int loci_mpi_open(loco_runtime_t **rt)
{
    int status = LOCO_OK;

    pthread_mutex_lock(&process.lock);
    if (process.users == 0)
        status = open_runtime();
    if (status == LOCO_OK) {
        process.users++;
        *rt = process.rt;
    }
    pthread_mutex_unlock(&process.lock);
    return status;
}

bool loci_mpi_spans_machines(const loco_runtime_t *rt)
{
    return rt->ops->spans;
}

void loci_mpi_close(void)
{
    pthread_mutex_lock(&process.lock);
    if (--process.users == 0) {
        loco_runtime_close(process.rt);
        process.rt = NULL;
        process.everyone_is_set = false;
    }
    pthread_mutex_unlock(&process.lock);
}

/* The first native open makes its members everyone. */
static int take_group(loco_runtime_t *rt, loco_group_t *group)
{
    int status = LOCO_OK;
    bool taken = false;

    pthread_mutex_lock(&process.lock);
    if (!process.everyone_is_set) {
        status = loci_runtime_set_everyone(rt, group);
        taken = process.everyone_is_set = status == LOCO_OK;
    }
    pthread_mutex_unlock(&process.lock);
    if (!taken)
        loco_group_destroy(group);
    return status;
}

/* Not under process.lock, which is held while the runtime opens and says what is wrong. */
static void count_native(int change)
{
    pthread_mutex_lock(&process.component_lock);
    process.native_users += change;
    pthread_mutex_unlock(&process.component_lock);
}

static int open_over(MPI_Comm comm, const struct loco_exchange *exchange, loco_runtime_t **out)
{
    loco_group_t *group = NULL;
    loco_runtime_t *rt = NULL;
    int opened = loci_mpi_open(&rt);
    int status = agree_on_status(comm, opened);

    if (status == LOCO_OK)
        status = agree_on_status(comm, loco_group_meet(rt, exchange, &group));
    if (status == LOCO_OK)
        status = agree_on_status(comm, loci_group_reached(group));
    if (status == LOCO_OK)
        status = take_group(rt, group);
    else
        loco_group_destroy(group);
    if (status == LOCO_OK)
        *out = rt;
    else if (opened == LOCO_OK)
        loci_mpi_close();
    return status;
}

int loco_runtime_open_mpi(MPI_Comm comm, loco_runtime_t **rt)
{
    struct loco_exchange exchange;
    int status;

    if (ompi_mpi_state < OMPI_MPI_STATE_INIT_COMPLETED || !mpi_is_up())
        return loci_mistake(NULL, LOCO_ERR_ARG, "loco_runtime_open_mpi", NULL,
                            "it is called outside of MPI_Init and MPI_Finalize");
    status = loco_exchange_mpi(comm, &exchange);
    if (status != LOCO_OK)
        return status;
    loci_mpi_enter();
    count_native(1);
    status = open_over(comm, &exchange, rt);
    if (status != LOCO_OK)
        count_native(-1);
    loci_mpi_leave();
    return status;
}

void loco_runtime_close_mpi(loco_runtime_t *rt)
{
    if (rt == NULL)
        return;
    loci_mpi_close();
    count_native(-1);
}

/* ---- windows ---- */

void loci_mpi_set_component(const struct loci_mpi_component *component)
{
    pthread_mutex_lock(&process.component_lock);
    process.component = component;
    pthread_mutex_unlock(&process.component_lock);
}

void loci_mpi_hook_memory(bool on)
{
    pthread_mutex_lock(&process.lock);
    if (on)
        loci_mpi_memory_open(&process.memory);
    else
        loci_mpi_memory_close(&process.memory);
    pthread_mutex_unlock(&process.lock);
}

int loco_win_window(MPI_Win win, loco_window_t **window)
{
    loco_window_t *found = NULL;

    pthread_mutex_lock(&process.component_lock);
    if (process.component != NULL)
        found = process.component->window_of(win);
    pthread_mutex_unlock(&process.component_lock);
    if (found == NULL)
        return LOCO_ERR_UNSUPPORTED;
    *window = found;
    return LOCO_OK;
}

int loco_win_region(MPI_Win win, loco_region_t **region)
{
    loco_window_t *window;
    int status = loco_win_window(win, &window);

    return status == LOCO_OK ? loci_window_region(window, region) : status;
}
