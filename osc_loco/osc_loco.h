/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OMPI_OSC_LOCO_H
#define OMPI_OSC_LOCO_H

/* The component is a translator: MPI's arguments, types and errors to a loco_window_t and back.
 * It has no protocol of its own; all that a window does is in channels/window/window.c.
 *
 * Files follow the chapters of the standard: _component (life of component and windows), _info,
 * _comm (put and get), _accumulate, _runs and _types (data types to runs and elements), _request,
 * _active, _passive, _dynamic; _observe and _pvars count and trace, _mistakes says what the program
 * did wrong. Functions of the table return an MPI error class, from which the core calls the
 * window's error handler. */

#include "ompi_config.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "ompi/version.h"
#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/datatype/ompi_datatype_internal.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/mca/osc/base/base.h"
#include "ompi/op/op.h"
#include "ompi/request/request.h"
#include "ompi/win/win.h"

#if !(OMPI_MAJOR_VERSION == 4 && OMPI_MINOR_VERSION == 1) \
    && !(OMPI_MAJOR_VERSION == 5 && OMPI_MINOR_VERSION == 0)
#error "osc_loco is for Open MPI 4.1 and 5.0: 6.0 changes the interface of components"
#endif

#include "loco_mpi.h"
#include "observe/log.h"
#include "observe/tunables.h"
#include "window/window.h"

/* ---- component (osc_loco_component.c) ---- */

/* Requests in flight (osc_loco_request.c). All of it belongs to MPI's side: no thread of the
 * library touches it. */
struct ompi_osc_loco_request;
struct ompi_osc_loco_requests {
    opal_free_list_t free;
    pthread_mutex_t lock;       /* of the list */
    struct ompi_osc_loco_request *pending;
    _Atomic int count;
    bool open;
};

/* Who counts and traces (osc_loco_observe.c). */
struct ompi_osc_loco_observers {
    pthread_mutex_t lock;       /* of all below, and of the modules' part of it */
    struct ompi_osc_loco_module *modules;       /* windows that are there */
    int made;
    int handles;                /* of performance variables that are bound */
    bool always;                /* LOCO_STATS or LOCO_TRACE */
    bool open;                  /* there is a runtime */
};

struct ompi_osc_loco_component {
    ompi_osc_base_component_t super;
    void *of_later_releases[8]; /* NULL: what later releases of a series add to super, as 5.0.10 */
    int priority;
    int priority_variable;      /* its index in the MCA system */
    bool asked_for;             /* by the user; else it serves no windows */
    bool late_requests;         /* for tests: see its help text */
    bool serialized;            /* MPI_THREAD_SERIALIZED: blocking calls say when they run */
    bool open;                  /* the runtime was opened, and is closed in finalize */
    bool told_several_nodes;
    loco_runtime_t *rt;
    char *tunable[LOCI_TUNABLES_MAX];       /* values of the MCA variables, by row */
    int variable[LOCI_TUNABLES_MAX];        /* their indices in the MCA system */
    pthread_mutex_t lock;       /* of the three below and of the opening */
    char first_error[LOCI_LOG_LINE];    /* since a window began to be made, for the one message */
    char last_error[LOCI_LOG_LINE];     /* for the message about a call that failed */
    bool told_failure;
    struct ompi_osc_loco_requests requests;
    struct ompi_osc_loco_observers observers;
};
extern struct ompi_osc_loco_component mca_osc_loco_component;

/* Hints of a window: what its info keys say. */
struct ompi_osc_loco_hints {
    bool no_locks, noncontiguous, bulk;
    bool same_size, same_disp_unit, same_op;
    unsigned char relaxed;      /* bits of accumulate_ordering that were not asked for */
    int alignment;              /* bytes; of memory that is allocated */
};

/* What was looked up for the last accumulate of the short way (osc_loco_accumulate.c): the next one
 * mostly has the same type and operation. Of windows that one thread calls. */
struct ompi_osc_loco_known {
    const struct ompi_datatype_t *type;     /* predefined, as the operation is; NULL: none */
    const struct ompi_op_t *op;
    enum loco_type element;                 /* the library's for both */
    enum loco_op operation;
    struct loci_combine how;
};

/* Directly before the library's window, in the same memory: what a call has to load before it knows
 * where the window's words are is waited for, for after an atomic nothing is loaded early. */
struct ompi_osc_loco_module {
    /* must be first: win->w_osc_module */
    alignas(LOCI_CACHE_LINE) ompi_osc_base_module_t super;
    struct ompi_osc_loco_known known;
    int flavor;
    struct ompi_osc_loco_hints hints;       /* in force */
    char shown[24];                         /* of a hint, for the core to copy */

    /* osc_loco_observe.c */
    _Atomic bool watched;
    loci_counter *stats;                    /* [LOCI_STATS_OF_WINDOW], once it was watched */
    struct ompi_win_t *win;
    int number;                             /* in the order that this process made windows */
    struct ompi_osc_loco_module *next, **link;
};

static inline struct ompi_osc_loco_module *ompi_osc_loco_module(const struct ompi_win_t *win)
{
    return (struct ompi_osc_loco_module *)win->w_osc_module;
}

static inline loco_window_t *window_of(const struct ompi_osc_loco_module *module)
{
    return (loco_window_t *)(uintptr_t)(module + 1);
}

static inline loco_window_t *ompi_osc_loco_window(const struct ompi_win_t *win)
{
    return window_of(ompi_osc_loco_module(win));
}

/* Bytes from the start of the target's part; for a dynamic window, an address. What 63 bits do not
 * hold becomes an offset that is out of every bounds, and with a type's lower bound, too: added to
 * a larger one that could come round to the window. */
static inline uint64_t ompi_osc_loco_offset(const struct ompi_osc_loco_module *module, int target,
                                            ptrdiff_t disp)
{
    uint64_t unit = window_of(module)->target[target].disp_unit, offset;

    return __builtin_mul_overflow((uint64_t)disp, unit, &offset)
           || (offset > INT64_MAX && unit != 1) ? UINT64_C(1) << 63 : offset;
}

/* A status of the library as a class of MPI. */
int ompi_osc_loco_class_of_other(int status);
static inline int ompi_osc_loco_class(int status)
{
    return status == LOCO_OK ? MPI_SUCCESS : ompi_osc_loco_class_of_other(status);
}

/* Calls that may block are between these two. */
static inline void ompi_osc_loco_enter(void)
{
    if (mca_osc_loco_component.serialized)
        loci_mpi_enter();
}

static inline int ompi_osc_loco_leave(int status)
{
    if (mca_osc_loco_component.serialized)
        loci_mpi_leave();
    return status == LOCO_OK ? MPI_SUCCESS : ompi_osc_loco_class(status);
}

/* ---- counting and tracing (osc_loco_observe.c, osc_loco_pvars.c) ---- */

/* The runtime is open, or is about to be closed. */
void ompi_osc_loco_observe_open(void);
void ompi_osc_loco_observe_close(void);
/* "allocate" and its like. */
const char *ompi_osc_loco_flavor_name(const struct ompi_osc_loco_module *module);
/* A window was made, is about to be freed. */
void ompi_osc_loco_observe_window(struct ompi_win_t *win, struct ompi_osc_loco_module *module);
void ompi_osc_loco_observe_gone(struct ompi_osc_loco_module *module);
/* More handles of performance variables are bound, or fewer. */
void ompi_osc_loco_observe_handles(int more);
/* Register the performance variables. */
void ompi_osc_loco_pvars(void);

/* An operation that did not take its path's short way has returned rc. */
static inline int ompi_osc_loco_slow(const struct ompi_osc_loco_module *module,
                                     enum loci_stats_path path, int rc)
{
    if (atomic_load_explicit(&module->watched, memory_order_relaxed) && rc == MPI_SUCCESS)
        loci_stats_add(module->stats, LOCI_STAT_SLOW + (int)path, 1);
    return rc;
}

/* ---- what the program did wrong (osc_loco_mistakes.c) ---- */

/* Where an operation goes to. */
struct ompi_osc_loco_place {
    int target;
    ptrdiff_t disp;
    int count;
    const struct ompi_datatype_t *type;
};

/* Of calls that fail with this class, by their MPI names: say why, to whom see there; the class.
 * `op`: NULL where there is none. `rule`: what the call needs that it may be called. */
int ompi_osc_loco_tell_operation(const struct ompi_win_t *win, int class, const char *call,
                                 const struct ompi_osc_loco_place *place,
                                 const struct ompi_op_t *op);
#define OMPI_OSC_LOCO_NO_TARGET (-1)
int ompi_osc_loco_tell_sync(const struct ompi_win_t *win, int class, const char *call, int target,
                            const char *rule);
#define OMPI_OSC_LOCO_ENDS_ACCESS   /* for rules */ \
    "MPI_Win_unlock, MPI_Win_unlock_all or MPI_Win_complete ends it, and MPI_Win_fence with " \
    "MPI_MODE_NOSUCCEED that of fences"
/* Any other reason. */
int ompi_osc_loco_tell(const struct ompi_win_t *win, int class, const char *call, int target,
                       const char *reason);

/* An operation has returned rc. */
static inline int ompi_osc_loco_told(const struct ompi_win_t *win, int rc, const char *call,
                                     int target, ptrdiff_t disp, int count,
                                     const struct ompi_datatype_t *type,
                                     const struct ompi_op_t *op)
{
    const struct ompi_osc_loco_place place = { target, disp, count, type };

    return rc == MPI_SUCCESS ? rc : ompi_osc_loco_tell_operation(win, rc, call, &place, op);
}

/* A call that is none, inside enter and leave, has returned a status. */
static inline int ompi_osc_loco_leave_sync(const struct ompi_win_t *win, int status,
                                           const char *call, int target, const char *rule)
{
    int rc = ompi_osc_loco_leave(status);

    return rc == MPI_SUCCESS ? rc : ompi_osc_loco_tell_sync(win, rc, call, target, rule);
}

/* ---- info (osc_loco_info.c) ---- */

/* What the info object of a new window asks for; absent keys leave the defaults. */
void ompi_osc_loco_hints(struct opal_info_t *info, struct ompi_osc_loco_hints *hints);
/* A hint is a promise of all members: what one does not give is not in force. Collective; also
 * the least of the members' statuses. */
int ompi_osc_loco_hints_agree(struct ompi_communicator_t *comm, int status,
                              struct ompi_osc_loco_hints *hints);
/* Show what is in force in MPI_Win_get_info, now and after MPI_Win_set_info. */
int ompi_osc_loco_info_subscribe(struct ompi_win_t *win);

/* ---- data types (osc_loco_types.c) ---- */

/* One side of a transfer: count elements of a type at an address or offset. */
struct ompi_osc_loco_side {
    const struct ompi_datatype_t *type;
    size_t count;
    uint64_t base;              /* where displacement 0 of the first element is */
};

/* Bytes that a side holds; SIZE_MAX for more than that. */
static inline size_t ompi_osc_loco_bytes(const struct ompi_osc_loco_side *side)
{
    size_t bytes;

    return __builtin_mul_overflow(side->type->super.size, side->count, &bytes) ? SIZE_MAX : bytes;
}

/* The bytes of a side as one run, if they are. */
static inline bool ompi_osc_loco_is_run(const struct ompi_osc_loco_side *side)
{
    uint16_t flags = side->type->super.flags;

    return (flags & OPAL_DATATYPE_FLAG_CONTIGUOUS)
           && (side->count == 1 || (flags & OPAL_DATATYPE_FLAG_NO_GAPS));
}

/* First byte touched and the one behind the last, relative to the base; both 0 for no bytes. False:
 * 64 bits do not hold them. */
bool ompi_osc_loco_extent(const struct ompi_osc_loco_side *side, int64_t *low, int64_t *high);

/* Walks the runs of bytes of a side in the order of its type map, which it reads in Open MPI's
 * own description of the type; osc_loco_runs.c. Runs that repeat are a strip: `blocks` of `block`
 * bytes, the first at `at`, one `stride` after the other; of the first, `left` bytes are to come.
 * Of one that has begun, `at` is its next byte. */
#define OMPI_OSC_LOCO_LOOPS 8
struct ompi_osc_loco_loop {
    uint32_t start, left;       /* first item, rounds to come */
    uint64_t base;              /* of the first round */
};
struct ompi_osc_loco_cursor {
    uint64_t at;
    size_t left, block, blocks;
    ptrdiff_t stride;
    /* what comes behind the strip */
    const dt_elem_desc_t *items;
    uint32_t item, item_count;  /* next, all */
    size_t elements;            /* of the type, this one included */
    uint64_t element, base;     /* where this one is, and the round of the innermost loop */
    ptrdiff_t extent;
    int depth;
    struct ompi_osc_loco_loop loops[OMPI_OSC_LOCO_LOOPS];
    struct ompi_osc_loco_loop *loop;        /* that, or allocated for more */
};
int ompi_osc_loco_cursor_open(struct ompi_osc_loco_cursor *cursor,
                              const struct ompi_osc_loco_side *side);
static inline void ompi_osc_loco_cursor_close(struct ompi_osc_loco_cursor *cursor)
{
    if (cursor->loop != cursor->loops)
        free(cursor->loop);
}
/* Goes on to the next strip if there is nothing left of this; false at the end. */
bool ompi_osc_loco_cursor_refill(struct ompi_osc_loco_cursor *cursor);
static inline bool ompi_osc_loco_cursor_has(struct ompi_osc_loco_cursor *cursor)
{
    return cursor->left > 0 || ompi_osc_loco_cursor_refill(cursor);
}
/* What is left of the current run; false at the end. `*len` > 0. */
static inline bool ompi_osc_loco_cursor_peek(struct ompi_osc_loco_cursor *cursor, uint64_t *base,
                                             size_t *len)
{
    if (!ompi_osc_loco_cursor_has(cursor))
        return false;
    *base = cursor->at;
    *len = cursor->left;
    return true;
}
/* Go on by whole blocks, none of which has been begun. */
static inline void ompi_osc_loco_cursor_skip_blocks(struct ompi_osc_loco_cursor *cursor, size_t n)
{
    cursor->at += (uint64_t)cursor->stride * n;
    cursor->blocks -= n;
    cursor->left = cursor->blocks > 0 ? cursor->block : 0;
}
/* Go on by at most what peek said. */
static inline void ompi_osc_loco_cursor_skip(struct ompi_osc_loco_cursor *cursor, size_t len)
{
    cursor->left -= len;
    if (cursor->left > 0) {
        cursor->at += len;
    } else {
        cursor->at -= cursor->block - len;
        ompi_osc_loco_cursor_skip_blocks(cursor, 1);
    }
}
/* Copies what is left of one to the other, until either ends. */
void ompi_osc_loco_copy_runs(struct ompi_osc_loco_cursor *from, struct ompi_osc_loco_cursor *to);
/* The same without cursors, which cost as much as a good part of a column's or a face's copy: of
 * two sides that are addresses, each rounds of blocks at equal distances, or one of them a run;
 * blocks, and rounds where there are several, are as long on both. `to` has room for all of `from`.
 * False: they are not, nothing was done. */
bool ompi_osc_loco_copy_grid(const struct ompi_osc_loco_side *from,
                             const struct ompi_osc_loco_side *to);

/* Where a transfer takes several calls of the library, the first must not move anything if a later
 * one is out of bounds. A status: whether all that `remote` touches is in the target's part. */
int ompi_osc_loco_check_bounds(const struct ompi_osc_loco_module *module, int target,
                               const struct ompi_osc_loco_side *remote);

/* The element type of accumulates. */
struct ompi_osc_loco_element {
    enum loco_type type;
    bool moves_only;            /* REPLACE and NO_OP alone are defined */
    unsigned char extent;       /* bytes from one to the next in the library's operands */
    unsigned char packed;       /* bytes of data in it */
    unsigned char second;       /* pairs: where the index is; else 0 */
};
/* The common case of the next one: a predefined type that is what its number says; else NULL. */
extern const struct ompi_osc_loco_element
    ompi_osc_loco_elements[OMPI_DATATYPE_MPI_MAX_PREDEFINED];
static inline const struct ompi_osc_loco_element *
ompi_osc_loco_common_element(const struct ompi_datatype_t *type)
{
    const struct ompi_osc_loco_element *element = &ompi_osc_loco_elements[type->id];

    return element->packed == type->super.size && type != &ompi_mpi_real16.dt ? element : NULL;
}
/* An integer of 8 bytes. */
static inline bool ompi_osc_loco_is_word(const struct ompi_datatype_t *type)
{
    const struct ompi_osc_loco_element *element = ompi_osc_loco_elements;

    if (!ompi_datatype_is_predefined(type) || type->super.size != 8)
        return false;
    element += type->id;
    return element->packed == 8
           && (element->type == LOCO_TYPE_I64 || element->type == LOCO_TYPE_U64);
}
/* MPI_SUCCESS, or the class of the error: a type that no accumulate takes. */
int ompi_osc_loco_element_of(struct ompi_datatype_t *type, struct ompi_osc_loco_element *element);
/* LOCO_OP_COUNT for what is not a predefined operation. MPI_NO_OP has no number of its own. */
extern const unsigned char ompi_osc_loco_ops[OMPI_OP_NUM_OF_TYPES];
static inline enum loco_op ompi_osc_loco_op(const struct ompi_op_t *op)
{
    if (op == &ompi_mpi_op_no_op.op)
        return LOCO_OP_NO_OP;
    if ((op->o_flags & OMPI_OP_FLAGS_INTRINSIC) == 0
        || (unsigned)op->op_type >= OMPI_OP_NUM_OF_TYPES)
        return LOCO_OP_COUNT;
    return (enum loco_op)ompi_osc_loco_ops[op->op_type];
}
/* The same, for the operations of counters and tickets alone. */
static inline enum loco_op ompi_osc_loco_word_op(const struct ompi_op_t *op)
{
    return op == &ompi_mpi_op_sum.op ? LOCO_OP_SUM
           : op == &ompi_mpi_op_replace.op ? LOCO_OP_REPLACE
           : op == &ompi_mpi_op_no_op.op ? LOCO_OP_NO_OP : LOCO_OP_COUNT;
}
/* Whether the elements of a side lie one after the other as the library wants operands. */
bool ompi_osc_loco_is_dense(const struct ompi_osc_loco_side *side,
                            const struct ompi_osc_loco_element *element);
/* The next elements of a side that lie one after the other, at most `most`; how many. 0: the end.
 * Pairs come singly. */
size_t ompi_osc_loco_next_elements(struct ompi_osc_loco_cursor *cursor,
                                   const struct ompi_osc_loco_element *element, size_t most,
                                   uint64_t *base);
/* Copy the data of n elements, not their padding. */
void ompi_osc_loco_copy_elements(const struct ompi_osc_loco_element *element, size_t n, void *to,
                                 const void *from);

/* ---- requests (osc_loco_request.c) ---- */

/* Operations with a request belong into epochs of locks. */
static inline bool ompi_osc_loco_may_request(const struct ompi_win_t *win, int target)
{
    const loco_window_t *window = ompi_osc_loco_window(win);

    return loci_window_has(window, target)
           && (loci_window_epoch(window, target) & LOCI_EPOCH_PASSIVE) != 0;
}

int ompi_osc_loco_requests_open(void);
void ompi_osc_loco_requests_close(void);
/* The request of an operation that returned `status` and filled `ack`. */
int ompi_osc_loco_request(struct ompi_win_t *win, int status, const loco_ack_t *ack,
                          struct ompi_request_t **request);

/* ---- the module's functions ---- */

extern const ompi_osc_base_module_t ompi_osc_loco_module_template;

int ompi_osc_loco_put(const void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                      int target, ptrdiff_t disp, int target_count,
                      struct ompi_datatype_t *target_type, struct ompi_win_t *win);
int ompi_osc_loco_get(void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                      int target, ptrdiff_t disp, int target_count,
                      struct ompi_datatype_t *target_type, struct ompi_win_t *win);
int ompi_osc_loco_rput(const void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                       int target, ptrdiff_t disp, int target_count,
                       struct ompi_datatype_t *target_type, struct ompi_win_t *win,
                       struct ompi_request_t **request);
int ompi_osc_loco_rget(void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                       int target, ptrdiff_t disp, int target_count,
                       struct ompi_datatype_t *target_type, struct ompi_win_t *win,
                       struct ompi_request_t **request);

int ompi_osc_loco_accumulate(const void *origin, int origin_count,
                             struct ompi_datatype_t *origin_type, int target, ptrdiff_t disp,
                             int target_count, struct ompi_datatype_t *target_type,
                             struct ompi_op_t *op, struct ompi_win_t *win);
int ompi_osc_loco_get_accumulate(const void *origin, int origin_count,
                                 struct ompi_datatype_t *origin_type, void *result,
                                 int result_count, struct ompi_datatype_t *result_type,
                                 int target, ptrdiff_t disp, int target_count,
                                 struct ompi_datatype_t *target_type, struct ompi_op_t *op,
                                 struct ompi_win_t *win);
int ompi_osc_loco_raccumulate(const void *origin, int origin_count,
                              struct ompi_datatype_t *origin_type, int target, ptrdiff_t disp,
                              int target_count, struct ompi_datatype_t *target_type,
                              struct ompi_op_t *op, struct ompi_win_t *win,
                              struct ompi_request_t **request);
int ompi_osc_loco_rget_accumulate(const void *origin, int origin_count,
                                  struct ompi_datatype_t *origin_type, void *result,
                                  int result_count, struct ompi_datatype_t *result_type,
                                  int target, ptrdiff_t disp, int target_count,
                                  struct ompi_datatype_t *target_type, struct ompi_op_t *op,
                                  struct ompi_win_t *win, struct ompi_request_t **request);
int ompi_osc_loco_fetch_and_op(const void *origin, void *result, struct ompi_datatype_t *type,
                               int target, ptrdiff_t disp, struct ompi_op_t *op,
                               struct ompi_win_t *win);
int ompi_osc_loco_compare_and_swap(const void *origin, const void *compare, void *result,
                                   struct ompi_datatype_t *type, int target, ptrdiff_t disp,
                                   struct ompi_win_t *win);

int ompi_osc_loco_fence(int asserts, struct ompi_win_t *win);
int ompi_osc_loco_start(struct ompi_group_t *group, int asserts, struct ompi_win_t *win);
int ompi_osc_loco_complete(struct ompi_win_t *win);
int ompi_osc_loco_post(struct ompi_group_t *group, int asserts, struct ompi_win_t *win);
int ompi_osc_loco_wait(struct ompi_win_t *win);
int ompi_osc_loco_test(struct ompi_win_t *win, int *flag);

int ompi_osc_loco_lock(int kind, int target, int asserts, struct ompi_win_t *win);
int ompi_osc_loco_unlock(int target, struct ompi_win_t *win);
int ompi_osc_loco_lock_all(int asserts, struct ompi_win_t *win);
int ompi_osc_loco_unlock_all(struct ompi_win_t *win);
int ompi_osc_loco_sync(struct ompi_win_t *win);
int ompi_osc_loco_flush(int target, struct ompi_win_t *win);
int ompi_osc_loco_flush_all(struct ompi_win_t *win);
int ompi_osc_loco_flush_local(int target, struct ompi_win_t *win);
int ompi_osc_loco_flush_local_all(struct ompi_win_t *win);

int ompi_osc_loco_shared_query(struct ompi_win_t *win, int rank, size_t *size, int *disp_unit,
                               void *baseptr);
int ompi_osc_loco_attach(struct ompi_win_t *win, void *base, size_t size);
int ompi_osc_loco_detach(struct ompi_win_t *win, const void *base);
int ompi_osc_loco_free(struct ompi_win_t *win);

#endif
