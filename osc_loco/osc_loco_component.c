/* SPDX-License-Identifier: BSD-3-Clause */

/* Life of the component and of its windows. */

#include "osc_loco.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ompi/runtime/mpiruntime.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/util/output.h"

#define OUTPUT ompi_osc_base_framework.framework_output

static int component_register(void);
static int component_open(void);
static int component_close(void);
static int component_init(bool enable_progress_threads, bool enable_mpi_threads);
static int component_query(struct ompi_win_t *win, void **base, size_t size, int disp_unit,
                           struct ompi_communicator_t *comm, struct opal_info_t *info,
                           int flavor);
static int component_select(struct ompi_win_t *win, void **base, size_t size, int disp_unit,
                            struct ompi_communicator_t *comm, struct opal_info_t *info,
                            int flavor, int *model);
static int component_finalize(void);

struct ompi_osc_loco_component mca_osc_loco_component = {
    .super = {
        .osc_version = {
            OMPI_OSC_BASE_VERSION_3_0_0,
            .mca_component_name = "loco",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
                                  OMPI_RELEASE_VERSION),
            .mca_open_component = component_open,
            .mca_close_component = component_close,
            .mca_register_component_params = component_register,
        },
        .osc_data = { .param_field = MCA_BASE_METADATA_PARAM_NONE },
        .osc_init = component_init,
        .osc_query = component_query,
        .osc_select = component_select,
        .osc_finalize = component_finalize,
    },
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .observers = { .lock = PTHREAD_MUTEX_INITIALIZER },
};
#define COMPONENT (&mca_osc_loco_component)

const ompi_osc_base_module_t ompi_osc_loco_module_template = {
    .osc_win_shared_query = ompi_osc_loco_shared_query,
    .osc_win_attach = ompi_osc_loco_attach,
    .osc_win_detach = ompi_osc_loco_detach,
    .osc_free = ompi_osc_loco_free,

    .osc_put = ompi_osc_loco_put,
    .osc_get = ompi_osc_loco_get,
    .osc_accumulate = ompi_osc_loco_accumulate,
    .osc_compare_and_swap = ompi_osc_loco_compare_and_swap,
    .osc_fetch_and_op = ompi_osc_loco_fetch_and_op,
    .osc_get_accumulate = ompi_osc_loco_get_accumulate,

    .osc_rput = ompi_osc_loco_rput,
    .osc_rget = ompi_osc_loco_rget,
    .osc_raccumulate = ompi_osc_loco_raccumulate,
    .osc_rget_accumulate = ompi_osc_loco_rget_accumulate,

    .osc_fence = ompi_osc_loco_fence,

    .osc_start = ompi_osc_loco_start,
    .osc_complete = ompi_osc_loco_complete,
    .osc_post = ompi_osc_loco_post,
    .osc_wait = ompi_osc_loco_wait,
    .osc_test = ompi_osc_loco_test,

    .osc_lock = ompi_osc_loco_lock,
    .osc_unlock = ompi_osc_loco_unlock,
    .osc_lock_all = ompi_osc_loco_lock_all,
    .osc_unlock_all = ompi_osc_loco_unlock_all,

    .osc_sync = ompi_osc_loco_sync,
    .osc_flush = ompi_osc_loco_flush,
    .osc_flush_all = ompi_osc_loco_flush_all,
    .osc_flush_local = ompi_osc_loco_flush_local,
    .osc_flush_local_all = ompi_osc_loco_flush_local_all,
};

/* The framework's own stream is closed unless osc_base_verbose is set; this one is not. */
static int stream(bool aloud)
{
    return aloud ? 0 : OUTPUT;
}

/* Not the program's doing, and its class may say nothing (4.1 has none for processes that are
 * gone): told aloud, the first time. */
static bool is_news(int status)
{
    bool news;

    if (status != LOCO_ERR_PEER_DEAD && status != LOCO_ERR_SYSTEM)
        return false;
    pthread_mutex_lock(&COMPONENT->lock);
    news = !COMPONENT->told_failure;
    COMPONENT->told_failure = true;
    pthread_mutex_unlock(&COMPONENT->lock);
    return news;
}

/* The program's doing: osc_loco_mistakes.c says more. */
static bool is_mistake(int status)
{
    return status == LOCO_ERR_RANGE || status == LOCO_ERR_STATE || status == LOCO_ERR_ATTACH;
}

static void tell_failure(int status)
{
    char cause[LOCI_LOG_LINE] = "";
    bool news = is_news(status);

    if (news) {
        pthread_mutex_lock(&COMPONENT->lock);
        memcpy(cause, COMPONENT->last_error, sizeof cause);
        pthread_mutex_unlock(&COMPONENT->lock);
    }
    opal_output_verbose(news ? 0 : 1, stream(news), "osc loco: a call fails: %s%s%s",
                        loco_strerror(status), cause[0] != '\0' ? ": " : "", cause);
}

int ompi_osc_loco_class_of_other(int status)
{
    static const struct {
        int status, class;
    } map[] = {
        { LOCO_IN_PROGRESS, MPI_SUCCESS },
        { LOCO_ERR_ARG, MPI_ERR_ARG },
        { LOCO_ERR_RANGE, MPI_ERR_RMA_RANGE },
        { LOCO_ERR_STATE, MPI_ERR_RMA_SYNC },
        { LOCO_ERR_MISMATCH, MPI_ERR_ARG },
        { LOCO_ERR_SHARED, MPI_ERR_RMA_SHARED },
        { LOCO_ERR_ATTACH, MPI_ERR_RMA_ATTACH },
        { LOCO_ERR_NO_MEMORY, MPI_ERR_NO_MEM },
        { LOCO_ERR_UNSUPPORTED, MPI_ERR_UNSUPPORTED_OPERATION },
#ifdef MPI_ERR_PROC_FAILED
        { LOCO_ERR_PEER_DEAD, MPI_ERR_PROC_FAILED },
#endif
    };

    if (status < 0 && !is_mistake(status))
        tell_failure(status);
    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++)
        if (map[i].status == status)
            return map[i].class;
    return MPI_ERR_OTHER;
}

/* ---- MCA variables ---- */

/* LOCO_SPIN becomes osc_loco_spin. */
static void variable_name(const struct loci_tunable_row *row, char *name, size_t size)
{
    size_t i;

    snprintf(name, size, "%s", row->name + strlen("LOCO_"));
    for (i = 0; name[i] != '\0'; i++)
        name[i] = (char)tolower((unsigned char)name[i]);
}

static int register_tunable(const struct loci_tunable_row *row, int i)
{
    char name[64], help[512], range[128];

    variable_name(row, name, sizeof name);
    loci_tunables_range(row, range, sizeof range);
    snprintf(help, sizeof help, "%s (%s); the environment's %s is weaker", row->help, range,
             row->name);
    COMPONENT->tunable[i] = (char *)(uintptr_t)row->text;   /* copied by the MCA system */
    COMPONENT->variable[i] = mca_base_component_var_register(
        &COMPONENT->super.osc_version, name, help, MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0,
        OPAL_INFO_LVL_6, MCA_BASE_VAR_SCOPE_READONLY, &COMPONENT->tunable[i]);
    return COMPONENT->variable[i] < 0 ? COMPONENT->variable[i] : OPAL_SUCCESS;
}

static int component_register(void)
{
    const mca_base_component_t *component = &COMPONENT->super.osc_version;
    size_t n;
    const struct loci_tunable_row *rows = loci_tunables_rows(&n);
    int rc = OPAL_SUCCESS;

    COMPONENT->priority = 5;
    COMPONENT->priority_variable = mca_base_component_var_register(component, "priority",
        "Priority of the component for a window. It serves windows where it is asked for only: "
        "named in the list of components (--mca osc loco), or given a priority",
        MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_3, MCA_BASE_VAR_SCOPE_ALL_EQ,
        &COMPONENT->priority);
    COMPONENT->late_requests = false;
    (void)mca_base_component_var_register(component, "late_requests",
        "For tests: requests of rput, rget, raccumulate and rget_accumulate complete in MPI's "
        "progress engine even where the operation is over when it returns",
        MCA_BASE_VAR_TYPE_BOOL, NULL, 0, 0, OPAL_INFO_LVL_9, MCA_BASE_VAR_SCOPE_READONLY,
        &COMPONENT->late_requests);
    for (size_t i = 0; i < n && rc == OPAL_SUCCESS; i++)
        rc = register_tunable(&rows[i], (int)i);
    ompi_osc_loco_pvars();
    return rc;
}

/* ---- the runtime ---- */

/* Whoever sees an error first knows the cause; what its callers log on the way up says less. */
static void remember(const char *text)
{
    pthread_mutex_lock(&COMPONENT->lock);
    if (COMPONENT->first_error[0] == '\0')
        snprintf(COMPONENT->first_error, sizeof COMPONENT->first_error, "%s", text);
    snprintf(COMPONENT->last_error, sizeof COMPONENT->last_error, "%s", text);
    pthread_mutex_unlock(&COMPONENT->lock);
}

static void forget_errors(void)
{
    pthread_mutex_lock(&COMPONENT->lock);
    COMPONENT->first_error[0] = '\0';
    pthread_mutex_unlock(&COMPONENT->lock);
}

/* The library may log from its own threads, which may not call into Open MPI. Errors of the
 * user's making are told by MPI's error class; whoever wants the cause too turns on
 * osc_base_verbose. What makes a window impossible is told anyway, from first_error, and what else
 * goes wrong that is not their doing, from last_error. */
static bool log_line(int level, const char *text)
{
    int wanted = level == LOCO_LOG_ERROR ? 1 : 5 * level;

    if (level == LOCO_LOG_ERROR)
        remember(text);
    if (opal_output_get_verbosity(OUTPUT) < wanted)
        return false;
    if (loci_mpi_may_call())
        opal_output(OUTPUT, "osc loco: %s: %s", loci_log_level_name(level), text);
    else
        loci_log_stderr(NULL, level, text);
    return true;
}

/* Tunables that somebody set as MCA variables, as "LOCO_SPIN=50". Ended by NULL. */
static char **settings(void)
{
    size_t n, used = 0;
    const struct loci_tunable_row *rows = loci_tunables_rows(&n);
    char **list = calloc(n + 1, sizeof list[0]);

    for (size_t i = 0; i < n && list != NULL; i++) {
        mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;

        mca_base_var_get_value(COMPONENT->variable[i], NULL, &source, NULL);
        if (source == MCA_BASE_VAR_SOURCE_DEFAULT || COMPONENT->tunable[i] == NULL)
            continue;
        if (asprintf(&list[used], "%s=%s", rows[i].name, COMPONENT->tunable[i]) >= 0)
            used++;
        else
            list[used] = NULL;
    }
    return list;
}

static int open_runtime(void)
{
    int status = loci_mpi_open(&COMPONENT->rt);

    if (status != LOCO_OK)
        return status;
    if (ompi_osc_loco_requests_open() != OPAL_SUCCESS) {
        loci_mpi_close();
        return LOCO_ERR_NO_MEMORY;
    }
    COMPONENT->open = true;
    ompi_osc_loco_observe_open();
    return LOCO_OK;
}

/* On the first window. Windows may be made by several threads at once. */
static int open_once(void)
{
    static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
    int status = LOCO_OK;

    pthread_mutex_lock(&opening);
    if (!COMPONENT->open)
        status = open_runtime();
    pthread_mutex_unlock(&opening);
    return status;
}

/* ---- life of the component ---- */

/* Of a window of any component. */
static loco_window_t *if_ours(MPI_Win win)
{
    if (win == NULL || ompi_win_invalid(win) || win->w_osc_module->osc_free != ompi_osc_loco_free)
        return NULL;
    return ompi_osc_loco_window(win);
}

/* Whether the user's list of components (--mca osc a,b) names this one. A list that begins with ^
 * is of those that are left out. */
static bool is_named(void)
{
    const char *list = ompi_osc_base_framework.framework_selection;
    const char *name = COMPONENT->super.osc_version.mca_component_name;
    size_t n;

    if (list == NULL || list[0] == '^')
        return false;
    for (; list[n = strcspn(list, ",")] != '\0'; list += n + 1)
        if (n == strlen(name) && strncmp(list, name, n) == 0)
            return true;
    return strcmp(list, name) == 0;
}

/* A component that is merely installed serves no window: the user named it, or gave it a priority,
 * by whatever way Open MPI's parameters are set. */
static bool is_asked_for(void)
{
    mca_base_var_source_t source = MCA_BASE_VAR_SOURCE_DEFAULT;

    (void)mca_base_var_get_value(COMPONENT->priority_variable, NULL, &source, NULL);
    return source != MCA_BASE_VAR_SOURCE_DEFAULT || is_named();
}

/* Headers of another release, or of an Open MPI configured otherwise, may lay the structures out in
 * another way than the Open MPI that loads this. Each class knows its size. */
static bool layouts_agree(void)
{
    static const struct {
        const opal_class_t *class;
        size_t size;
    } used[] = {
        { OBJ_CLASS(ompi_win_t), sizeof(ompi_win_t) },
        { OBJ_CLASS(ompi_communicator_t), sizeof(ompi_communicator_t) },
        { OBJ_CLASS(ompi_datatype_t), sizeof(ompi_datatype_t) },
        { OBJ_CLASS(ompi_op_t), sizeof(ompi_op_t) },
        { OBJ_CLASS(ompi_request_t), sizeof(ompi_request_t) },
        { OBJ_CLASS(opal_free_list_t), sizeof(opal_free_list_t) },
        { OBJ_CLASS(opal_mutex_t), sizeof(opal_mutex_t) },
    };

    for (size_t i = 0; i < sizeof used / sizeof used[0]; i++) {
        bool aloud = is_named();

        if (used[i].class->cls_sizeof == used[i].size)
            continue;
        opal_output_verbose(aloud ? 0 : 1, stream(aloud), "osc loco: built for Open MPI %s, "
                            "whose %s has %zu bytes; here it has %zu. Build "
                            "osc_loco anew with the mpicc of this Open MPI",
                            OMPI_VERSION, used[i].class->cls_name, used[i].size,
                            used[i].class->cls_sizeof);
        return false;
    }
    return true;
}

static int component_open(void)
{
    static const struct loci_mpi_component hooks = {
        .settings = settings, .log = log_line, .window_of = if_ours,
    };

    if (!layouts_agree())
        return OMPI_ERR_NOT_AVAILABLE;
    loci_mpi_set_component(&hooks);
    return OMPI_SUCCESS;
}

static int component_close(void)
{
    loci_mpi_set_component(NULL);
    loci_mpi_hook_memory(false);
    return OMPI_SUCCESS;
}

static int component_init(bool enable_progress_threads, bool enable_mpi_threads)
{
    (void)enable_progress_threads;
    (void)enable_mpi_threads;
    COMPONENT->serialized = ompi_mpi_thread_provided == MPI_THREAD_SERIALIZED;
    COMPONENT->asked_for = is_asked_for();
    if (!COMPONENT->asked_for)
        opal_output_verbose(10, OUTPUT, "osc loco: not asked for, serves no windows: neither the "
                            "MCA parameter osc names it nor is osc_loco_priority set");
    if (COMPONENT->asked_for || loci_mpi_was_loaded_before(COMPONENT))
        loci_mpi_hook_memory(true);
    return OMPI_SUCCESS;
}

static int component_finalize(void)
{
    if (COMPONENT->open) {
        ompi_osc_loco_requests_close();
        ompi_osc_loco_observe_close();
        loci_mpi_close();
        COMPONENT->open = false;
    }
    return OMPI_SUCCESS;
}

/* ---- selection ---- */

/* Told once, and aloud where the user named this component: then no other may be there. */
static void tell_several_nodes(struct ompi_communicator_t *comm, const char *why)
{
    bool aloud = is_named() && ompi_comm_rank(comm) == 0 && !COMPONENT->told_several_nodes;

    if (aloud)
        COMPONENT->told_several_nodes = true;
    opal_output_verbose(aloud ? 0 : 1, stream(aloud), "osc loco: declines a window whose members "
                        "are on several nodes, for %s: use a communicator of one node "
                        "(MPI_Comm_split_type), or let other components serve it (--mca "
                        "osc_loco_priority 200 instead of --mca osc loco)", why);
}

enum spread { ONE_NODE, MANY_NODES, APART };

/* Of all members: whether their runtimes are open, and reach other nodes; and the least and the
 * complement of the largest of each half of what numbers the node, equal where memory is shared. */
enum standing { READY, SPANS, LOW, HIGH, NOT_LOW, NOT_HIGH, STANDINGS };

/* Collective over communicators that Open MPI takes to be of several nodes: it knows no better of
 * processes that another mpirun has started, though they may share this one's kernel. No memory is
 * needed to tell the others that there is none. */
static enum spread spread_of(struct ompi_communicator_t *comm)
{
    int all[STANDINGS] = { open_once() == LOCO_OK };

    if (all[READY]) {
        uint64_t node = COMPONENT->rt->address.node;

        all[SPANS] = loci_mpi_spans_machines(COMPONENT->rt);
        all[LOW] = (int)(uint32_t)node;
        all[HIGH] = (int)(uint32_t)(node >> 32);
    }
    all[NOT_LOW] = ~all[LOW];
    all[NOT_HIGH] = ~all[HIGH];
    if (loci_mpi_agree(comm, all, STANDINGS) != LOCO_OK || !all[READY])
        return APART;
    if (all[LOW] == ~all[NOT_LOW] && all[HIGH] == ~all[NOT_HIGH])
        return ONE_NODE;
    return all[SPANS] ? MANY_NODES : APART;
}

/* Equal at all members, for each sees at least one on another node if there is one. What only the
 * members together can find out fails in select, at all alike. */
static int component_query(struct ompi_win_t *win, void **base, size_t size, int disp_unit,
                           struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor)
{
    enum spread spread;

    (void)win;
    (void)base;
    (void)size;
    (void)disp_unit;
    (void)info;
    if (!COMPONENT->asked_for)
        return -1;
    if (!ompi_group_have_remote_peers(comm->c_local_group))
        return COMPONENT->priority;
    spread = spread_of(comm);
    if (flavor == MPI_WIN_FLAVOR_SHARED && spread != ONE_NODE) {
        tell_several_nodes(comm, "they share no memory");
        return OMPI_ERR_RMA_SHARED;
    }
    if (spread == APART) {
        tell_several_nodes(comm, "not all of these can reach other machines (loco-info)");
        return -1;
    }
    return COMPONENT->priority;
}

static enum loco_window_kind kind_of(int flavor)
{
    switch (flavor) {
    case MPI_WIN_FLAVOR_CREATE: return LOCO_WINDOW_CREATE;
    case MPI_WIN_FLAVOR_DYNAMIC: return LOCO_WINDOW_DYNAMIC;
    case MPI_WIN_FLAVOR_SHARED: return LOCO_WINDOW_SHARED;
    default: return LOCO_WINDOW_ALLOCATE;
    }
}

/* The one message: cause and remedy. */
static void tell(int status)
{
    char cause[LOCI_LOG_LINE];

    pthread_mutex_lock(&COMPONENT->lock);
    memcpy(cause, COMPONENT->first_error, sizeof cause);
    pthread_mutex_unlock(&COMPONENT->lock);
    if (status == LOCO_ERR_UNSUPPORTED && cause[0] == '\0')
        snprintf(cause, sizeof cause, "members count as different nodes by LOCO_NODE, "
                 "osc_loco_node, or their containers, and the fabric is for one node alone: set "
                 "LOCO_FABRIC=tcp for all, and a LOCO_NODE for each container");
    if (cause[0] == '\0')
        snprintf(cause, sizeof cause, "see what the other members say");
    opal_output(0, "osc loco: no window: %s: %s", loco_strerror(status), cause);
}

/* The window, in `room`, with the room of its module before it. */
static int make_window(int flavor, const struct ompi_osc_loco_hints *hints, void *base,
                       size_t size, int disp_unit, const struct loco_exchange *exchange,
                       struct loci_window_room *room, struct ompi_osc_loco_module **module)
{
    struct loco_window_spec spec = {
        .kind = kind_of(flavor),
        .base = flavor == MPI_WIN_FLAVOR_CREATE ? base : NULL,
        .size = size,
        .disp_unit = (size_t)disp_unit,
        .align = (size_t)hints->alignment,
        .noncontiguous = hints->noncontiguous,
        .one_thread = ompi_mpi_thread_provided < MPI_THREAD_MULTIPLE,
        .bulk_accumulate = hints->bulk,
    };
    loco_window_t *window;
    int status = loci_window_create_behind(COMPONENT->rt, exchange, &spec, sizeof **module, room,
                                           &window);

    if (status == LOCO_OK)
        *module = (struct ompi_osc_loco_module *)(void *)window - 1;
    return status;
}

/* 4.1's core looks at the unit except for shared windows, and never at the base. */
static int check_arguments(const void *base, size_t size, int disp_unit, int flavor)
{
    const char *wrong = NULL;

    if (flavor != MPI_WIN_FLAVOR_DYNAMIC && disp_unit <= 0)
        wrong = "the displacement unit has to be positive";
    else if (flavor == MPI_WIN_FLAVOR_CREATE && base == NULL && size > 0)
        wrong = "the base is a null pointer, though the size is not 0";
    if (wrong == NULL)
        return LOCO_OK;
    log_line(LOCO_LOG_ERROR, wrong);
    return LOCO_ERR_ARG;
}

static int select_window(struct ompi_win_t *win, void **base, size_t size, int disp_unit,
                         struct ompi_communicator_t *comm, struct opal_info_t *info, int flavor)
{
    struct loci_window_room room = { NULL, NULL };
    struct ompi_osc_loco_module *module;
    struct ompi_osc_loco_hints hints;
    struct loco_exchange exchange;
    int status = open_once();

    if (status == LOCO_OK)
        status = check_arguments(*base, size, disp_unit, flavor);
    if (status == LOCO_OK)
        status = loco_exchange_mpi(comm, &exchange);
    if (status == LOCO_OK)
        status = loci_window_room(&exchange, sizeof *module, &room);
    ompi_osc_loco_hints(info, &hints);
    status = ompi_osc_loco_hints_agree(comm, status, &hints);
    if (status != LOCO_OK) {
        loci_window_room_free(&room);
        return status;
    }
    status = make_window(flavor, &hints, *base, size, disp_unit, &exchange, &room, &module);
    if (status != LOCO_OK)
        return status;
    module->super = ompi_osc_loco_module_template;
    /* Without it the core itself says MPI_ERR_RMA_FLAVOR, and leaves the results alone. */
    if (flavor != MPI_WIN_FLAVOR_SHARED)
        module->super.osc_win_shared_query = NULL;
    module->flavor = flavor;
    module->hints = hints;
    win->w_osc_module = &module->super;
    ompi_osc_loco_observe_window(win, module);
    if (flavor == MPI_WIN_FLAVOR_ALLOCATE || flavor == MPI_WIN_FLAVOR_SHARED)
        *base = loco_window_base(window_of(module));
    /* Sets OMPI_WIN_NO_LOCKS, too. Shown values are a comfort: without memory for them the window
     * is as good. */
    (void)ompi_osc_loco_info_subscribe(win);
    return LOCO_OK;
}

static int component_select(struct ompi_win_t *win, void **base, size_t size, int disp_unit,
                            struct ompi_communicator_t *comm, struct opal_info_t *info,
                            int flavor, int *model)
{
    void *no_base = NULL;
    int status;

    /* The core passes MPI_BOTTOM for dynamic windows. */
    if (flavor == MPI_WIN_FLAVOR_DYNAMIC)
        base = &no_base;
    forget_errors();
    ompi_osc_loco_enter();
    status = select_window(win, base, size, disp_unit, comm, info, flavor);
    if (status != LOCO_OK) {
        tell(status);
        /* Of shared windows the core passes the class on; of others it makes MPI_ERR_WIN. */
        status = ompi_osc_loco_leave(status);
        return status == MPI_ERR_ARG && disp_unit <= 0 ? MPI_ERR_DISP : status;
    }
    *model = MPI_WIN_UNIFIED;
    opal_output_verbose(10, OUTPUT, "osc loco: selected for a window of %d members, %zu bytes here",
                        ompi_comm_size(comm), size);
    return ompi_osc_loco_leave(LOCO_OK);
}

/* In MPI_Finalize the core frees what the program forgot, epochs and all. The other members are in
 * there, too, and wait. */
static int destroy_forgotten(loco_window_t *window)
{
    (void)loco_window_unlock_all(window);
    for (int i = 0; i < loco_window_members(window); i++)
        (void)loco_window_unlock(window, i);
    (void)loco_window_complete(window);
    return loci_window_end(window);
}

int ompi_osc_loco_free(struct ompi_win_t *win)
{
    struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);
    int status;

    if (module == NULL)
        return MPI_SUCCESS;
    ompi_osc_loco_enter();
    status = loci_window_end(window_of(module));
    if (status == LOCO_ERR_STATE && ompi_mpi_state >= OMPI_MPI_STATE_FINALIZE_STARTED)
        status = destroy_forgotten(window_of(module));
    if (status == LOCO_ERR_STATE)       /* inside an epoch: the window stays */
        return ompi_osc_loco_leave_sync(win, status, "MPI_Win_free", OMPI_OSC_LOCO_NO_TARGET,
                                        "all epochs have to be ended");
    ompi_osc_loco_observe_gone(module);
    loci_window_free(window_of(module));
    win->w_osc_module = NULL;
    return ompi_osc_loco_leave(status);
}
