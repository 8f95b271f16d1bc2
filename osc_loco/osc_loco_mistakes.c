/* SPDX-License-Identifier: BSD-3-Clause */

/* What the program did wrong, in words. MPI's error handler says the call, the window and the class
 * of the error; what its writer needs to know is which epochs are open, or what reaches outside of
 * what. Told on stderr where the error ends the program, for then nobody else can say it; else with
 * osc_base_verbose 1. It is all found out when the call has failed, from the window's words: where
 * several threads call, another one may have changed them since. */

#include "osc_loco.h"

#include <stdarg.h>
#include <stdio.h>

struct text {
    char line[512];
    size_t used;
};

static __attribute__((format(printf, 2, 3))) void add(struct text *t, const char *format, ...)
{
    size_t room = sizeof t->line - t->used;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(t->line + t->used, room, format, args);
    va_end(args);
    if (n > 0)
        t->used += (size_t)n < room ? (size_t)n : room - 1;
}

static bool is_fatal(const struct ompi_win_t *win)
{
    const struct ompi_errhandler_t *handler = win->error_handler;

#if OMPI_MAJOR_VERSION >= 5
    if (handler == &ompi_mpi_errors_abort.eh)
        return true;
#endif
    return handler == &ompi_mpi_errors_are_fatal.eh;
}

/* ---- what is so ---- */

/* `MPI_Put, rank 1 of window "table" (allocate): ` */
static void add_call(struct text *t, const struct ompi_win_t *win, const char *call, int target)
{
    const struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);

    add(t, "%s", call);
    if (target != OMPI_OSC_LOCO_NO_TARGET)
        add(t, ", rank %d", target);
    add(t, " of ");
    if (win->w_name[0] != '\0')
        add(t, "window \"%s\"", win->w_name);
    else
        add(t, "this process's window number %d", module->number);
    add(t, " (%s): ", ompi_osc_loco_flavor_name(module));
}

/* "called with no epoch open; ", or which are */
static void add_epochs(struct text *t, const struct loco_window *window, int target)
{
    static const struct {
        uint64_t bit;
        const char *opened_by;
    } epochs[] = {
        { LOCI_EPOCH_PASSIVE, "MPI_Win_lock_all" },
        { LOCI_EPOCH_START, "MPI_Win_start" },
        { LOCI_EPOCH_EXPOSED, "MPI_Win_post" },
        { LOCI_EPOCH_FENCE, "MPI_Win_fence" },
    };
    uint64_t state = atomic_load_explicit(&window->state, memory_order_relaxed);
    uint64_t locks = (state & LOCI_EPOCH_LOCKS) / LOCI_EPOCH_ONE_LOCK;
    bool has_target = loci_window_has(window, target);
    const char *between = "called with an open epoch of ", *more = " and of ";

    for (size_t i = 0; i < sizeof epochs / sizeof epochs[0]; i++) {
        if ((state & epochs[i].bit) == 0)
            continue;
        add(t, "%s%s", between, epochs[i].opened_by);
        between = more;
    }
    if ((state & LOCI_EPOCH_FENCE) != 0 && (state & LOCI_EPOCH_ACCESS) != 0)
        add(t, " (with operations in it)");
    if (has_target && (atomic_load_explicit(&window->target[target].epoch, memory_order_relaxed)
                       & LOCI_EPOCH_PASSIVE) != 0) {
        add(t, "%sMPI_Win_lock of this rank", between);
        between = more;
        locks -= locks > 0;
    }
    if (locks > 0)
        add(t, "%sMPI_Win_lock of %llu%s rank%s", between, (unsigned long long)locks,
            has_target ? " other" : "", locks > 1 ? "s" : "");
    else if (between != more)
        add(t, "called with no epoch open");
    add(t, "; ");
}

static void add_rule(struct text *t, const struct loco_window *window, int target,
                     const char *rule)
{
    add_epochs(t, window, target);
    add(t, "%s%s", rule, window->no_locks ? "; and the window was made with no_locks" : "");
}

static const char *name_of(const struct ompi_datatype_t *type)
{
    return type->name[0] != '\0' ? type->name : "a type of the program's";
}

/* The bytes that it touches, from the start of the target's part; false: too many for 64 bits. */
static bool bytes_of(const struct ompi_osc_loco_place *place, unsigned unit, int64_t *first,
                     int64_t *last)
{
    const struct ompi_osc_loco_side side = { place->type, (size_t)place->count, 0 };
    int64_t low, high, start;

    return ompi_osc_loco_extent(&side, &low, &high)
           && !__builtin_mul_overflow((int64_t)place->disp, (int64_t)unit, &start)
           && !__builtin_add_overflow(start, low, first)
           && !__builtin_add_overflow(start, high - 1, last);
}

static void add_bounds(struct text *t, const struct ompi_osc_loco_module *module,
                       const struct ompi_osc_loco_place *place)
{
    const struct loco_window *window = window_of(module);
    bool dynamic = module->flavor == MPI_WIN_FLAVOR_DYNAMIC;
    unsigned unit = window->target[place->target].disp_unit;
    int64_t first, last;

    add(t, "%d of %s at displacement %td", place->count, name_of(place->type), place->disp);
    if (unit != 1)
        add(t, " in units of %u", unit);
    if (bytes_of(place, unit, &first, &last) && dynamic)
        add(t, ", addresses %#llx to %#llx", (unsigned long long)first, (unsigned long long)last);
    else if (bytes_of(place, unit, &first, &last))
        add(t, ", bytes %lld to %lld", (long long)first, (long long)last);
    if (dynamic)
        add(t, ": not all of it is attached there (displacements are what MPI_Get_address says at "
            "the target)");
    else
        add(t, ": that rank's part has %zu bytes", loco_window_size(window, place->target));
}

/* ---- telling ---- */

static int tell(const struct ompi_win_t *win, int class, const struct text *t)
{
    bool aloud = is_fatal(win);

    opal_output_verbose(aloud ? 0 : 1, aloud ? 0 : ompi_osc_base_framework.framework_output,
                        "osc loco: %s", t->line);
    return class;
}

int ompi_osc_loco_tell(const struct ompi_win_t *win, int class, const char *call, int target,
                       const char *reason)
{
    struct text t = { .used = 0 };

    add_call(&t, win, call, target);
    add(&t, "%s", reason);
    return tell(win, class, &t);
}

int ompi_osc_loco_tell_sync(const struct ompi_win_t *win, int class, const char *call, int target,
                            const char *rule)
{
    struct text t = { .used = 0 };

    if (class != MPI_ERR_RMA_SYNC)
        return class;
    add_call(&t, win, call, target);
    add_rule(&t, ompi_osc_loco_window(win), target, rule);
    return tell(win, class, &t);
}

int ompi_osc_loco_tell_operation(const struct ompi_win_t *win, int class, const char *call,
                                 const struct ompi_osc_loco_place *place,
                                 const struct ompi_op_t *op)
{
    struct text t = { .used = 0 };

    add_call(&t, win, call, place->target);
    switch (class) {
    case MPI_ERR_RMA_SYNC:
        add_rule(&t, ompi_osc_loco_window(win), place->target,
                 "it belongs in one that includes the rank, by MPI_Win_lock, MPI_Win_lock_all, "
                 "MPI_Win_start or MPI_Win_fence (with a request: by one of the first two)");
        break;
    case MPI_ERR_RMA_RANGE:
        add_bounds(&t, ompi_osc_loco_module(win), place);
        break;
    case MPI_ERR_TRUNCATE:
        add(&t, "more is sent than there is room for where it goes");
        break;
    case MPI_ERR_OP:
        add(&t, "no accumulate has the operation %s on %s; operations are predefined ones",
            op != NULL && op->o_name[0] != '\0' ? op->o_name : "of the program's",
            name_of(place->type));
        break;
    case MPI_ERR_TYPE:
        add(&t, "does not take %s: accumulates are of elements of one predefined type, "
            "MPI_Compare_and_swap of an integer, logical or byte", name_of(place->type));
        break;
    default:
        return class;
    }
    return tell(win, class, &t);
}
