/* SPDX-License-Identifier: BSD-3-Clause */

/* The accumulate family (MPI 3.1, section 11.3.4). The library wants elements one after the other
 * as operand and result, and spans of elements as target. Dense sides are given as they are;
 * others are packed, unpacked or cut to spans here, a batch of elements at a time, which is
 * allowed since only single elements are atomic. */

#include "osc_loco.h"

#include <stdalign.h>
#include <string.h>

#define BATCH_BYTES 4096    /* of packed elements */
#define SPANS 512           /* of a target in a batch */

struct call {
    struct ompi_osc_loco_module *module;
    struct ompi_osc_loco_element element;
    enum loco_op op;
    int target;
    struct ompi_osc_loco_side origin, result, remote;
    loco_ack_t *ack;
    size_t combined;        /* elements with an operand, */
    size_t fetched;         /* and those behind them, which have only a result */
};

/* One operand or result, elements of which are given or taken in order. */
struct stream {
    bool used, dense;
    uint64_t next;                      /* dense: the next element */
    struct ompi_osc_loco_cursor cursor; /* else */
    size_t extent;
    alignas(16) unsigned char packed[BATCH_BYTES];
};

static size_t elements_of(const struct ompi_osc_loco_side *side,
                          const struct ompi_osc_loco_element *element)
{
    return ompi_osc_loco_bytes(side) / element->packed;
}

/* ---- dense: everything as it is ---- */

/* The elements of `len` bytes at `offset`, with operand and result as the library wants them. */
static inline int accumulate_span(const struct ompi_osc_loco_module *module, int target,
                                  enum loco_type type, enum loco_op op, uint64_t offset,
                                  size_t len, const void *operand, void *result,
                                  loco_ack_t *ack)
{
    struct loco_span span = { NULL, offset, len };
    struct loco_accumulate acc = {
        .type = type, .op = op, .operand = op == LOCO_OP_NO_OP ? NULL : operand,
        .result = result, .spans = &span, .nspans = len > 0 ? 1 : 0,
    };

    return loco_window_accumulate(window_of(module), target, &acc, ack);
}

static bool all_dense(const struct call *call)
{
    return ompi_osc_loco_is_dense(&call->remote, &call->element)
           && (call->combined == 0
               || ompi_osc_loco_is_dense(&call->origin, &call->element))
           && (call->result.type == NULL
               || ompi_osc_loco_is_dense(&call->result, &call->element));
}

static void *first_of(const struct ompi_osc_loco_side *side)
{
    if (side->type == NULL)
        return NULL;
    return (void *)(uintptr_t)(side->base + (uint64_t)side->type->super.true_lb);
}

/* Either with an operand or without. */
static int accumulate_dense(const struct call *call)
{
    uint64_t offset = call->remote.base + (uint64_t)call->remote.type->super.true_lb;
    enum loco_op op = call->combined == 0 ? LOCO_OP_NO_OP : call->op;

    return accumulate_span(call->module, call->target, call->element.type, op, offset,
                           (call->combined + call->fetched) * call->element.extent,
                           first_of(&call->origin), first_of(&call->result), call->ack);
}

/* ---- batches ---- */

static int stream_open(struct stream *stream, const struct ompi_osc_loco_side *side,
                       const struct ompi_osc_loco_element *element, bool used)
{
    stream->used = used;
    stream->extent = element->extent;
    stream->dense = used && ompi_osc_loco_is_dense(side, element);
    if (!used)
        return MPI_SUCCESS;
    if (stream->dense) {
        stream->next = (uint64_t)(uintptr_t)first_of(side);
        return MPI_SUCCESS;
    }
    return ompi_osc_loco_cursor_open(&stream->cursor, side);
}

static void stream_close(struct stream *stream)
{
    if (stream->used && !stream->dense)
        ompi_osc_loco_cursor_close(&stream->cursor);
}

/* The next n elements as an operand. */
static const void *stream_take(struct stream *stream, const struct ompi_osc_loco_element *element,
                               size_t n)
{
    unsigned char *to = stream->packed;
    uint64_t from;
    size_t now;
    const void *given = (const void *)(uintptr_t)stream->next;

    if (!stream->used)
        return NULL;
    if (stream->dense) {
        stream->next += n * stream->extent;
        return given;
    }
    while (n > 0 && (now = ompi_osc_loco_next_elements(&stream->cursor, element, n, &from)) > 0) {
        ompi_osc_loco_copy_elements(element, now, to, (const void *)(uintptr_t)from);
        to += now * stream->extent;
        n -= now;
    }
    return stream->packed;
}

/* Where the next n results are to go; stream_give then brings them to their places. */
static void *stream_room(struct stream *stream)
{
    if (!stream->used)
        return NULL;
    return stream->dense ? (void *)(uintptr_t)stream->next : stream->packed;
}

static void stream_give(struct stream *stream, const struct ompi_osc_loco_element *element,
                        size_t n)
{
    const unsigned char *from = stream->packed;
    uint64_t to;
    size_t now;

    if (!stream->used)
        return;
    if (stream->dense) {
        stream->next += n * stream->extent;
        return;
    }
    while (n > 0 && (now = ompi_osc_loco_next_elements(&stream->cursor, element, n, &to)) > 0) {
        ompi_osc_loco_copy_elements(element, now, (void *)(uintptr_t)to, from);
        from += now * stream->extent;
        n -= now;
    }
}

/* Spans of the target's next elements, at most `most` of them; returns how many. */
static size_t target_spans(struct ompi_osc_loco_cursor *cursor,
                           const struct ompi_osc_loco_element *element, size_t most,
                           struct loco_span *spans, size_t *nspans)
{
    size_t n = 0, now;
    uint64_t at;

    *nspans = 0;
    while (n < most && *nspans < SPANS
           && (now = ompi_osc_loco_next_elements(cursor, element, most - n, &at)) > 0) {
        struct loco_span *last = *nspans > 0 ? &spans[*nspans - 1] : NULL;

        if (last != NULL && last->offset + last->len == at)
            last->len += now * element->extent;
        else
            spans[(*nspans)++] = (struct loco_span){ NULL, at, now * element->extent };
        n += now;
    }
    return n;
}

/* The next n of the target's elements; operand: NULL with LOCO_OP_NO_OP. */
static int accumulate_batches(const struct call *call, enum loco_op op, size_t n,
                              struct ompi_osc_loco_cursor *target, struct stream *operand,
                              struct stream *result)
{
    const struct ompi_osc_loco_element *element = &call->element;
    size_t most = BATCH_BYTES / element->extent;
    struct loco_span spans[SPANS];
    int status = LOCO_OK;

    while (n > 0 && status == LOCO_OK) {
        struct loco_accumulate acc = { .type = element->type, .op = op, .spans = spans };
        size_t now = target_spans(target, element, n < most ? n : most, spans, &acc.nspans);

        if (now == 0)
            return LOCO_ERR_ARG;
        acc.operand = operand == NULL ? NULL : stream_take(operand, element, now);
        acc.result = stream_room(result);
        /* Packed buffers are used again, so this waits. */
        status = loco_window_accumulate(window_of(call->module), call->target, &acc, NULL);
        if (status == LOCO_OK)
            stream_give(result, element, now);
        n -= now;
    }
    return status;
}

static int accumulate_derived(const struct call *call)
{
    struct ompi_osc_loco_cursor target;
    struct stream operand, result;
    int status = ompi_osc_loco_check_bounds(call->module, call->target, &call->remote);

    if (status != LOCO_OK)
        return ompi_osc_loco_class(status);
    status = MPI_ERR_NO_MEM;
    if (ompi_osc_loco_cursor_open(&target, &call->remote) != MPI_SUCCESS)
        return status;
    if (stream_open(&operand, &call->origin, &call->element, call->combined > 0) != MPI_SUCCESS)
        goto no_operand;
    if (stream_open(&result, &call->result, &call->element, call->result.type != NULL)
        != MPI_SUCCESS)
        goto no_result;
    status = accumulate_batches(call, call->op, call->combined, &target, &operand, &result);
    if (status == LOCO_OK)
        status = accumulate_batches(call, LOCO_OP_NO_OP, call->fetched, &target, NULL, &result);
    status = ompi_osc_loco_class(status);
    stream_close(&result);
no_result:
    stream_close(&operand);
no_operand:
    ompi_osc_loco_cursor_close(&target);
    return status;
}

/* ---- one call ---- */

/* Whether the element type has the operation; the core has not looked at that of fetch_and_op. */
static inline bool has_op(const struct ompi_osc_loco_element *element, enum loco_op op)
{
    if (op == LOCO_OP_REPLACE || op == LOCO_OP_NO_OP)
        return true;
    return op != LOCO_OP_COUNT && !element->moves_only && loco_op_allowed(op, element->type);
}

/* Like messages: the operand may be shorter than the target, and the target than the result. What
 * the operand does not reach is not changed, and fetched all the same. */
static bool share_out(struct call *call)
{
    bool has_result = call->result.type != NULL;
    size_t target = elements_of(&call->remote, &call->element);
    size_t operand = call->op == LOCO_OP_NO_OP ? 0 : elements_of(&call->origin, &call->element);

    call->combined = operand;
    call->fetched = has_result ? target - operand : 0;
    return operand <= target
           && (!has_result || target <= elements_of(&call->result, &call->element));
}

static int run(struct call *call, struct ompi_datatype_t *target_type, const struct ompi_op_t *op)
{
    int rc = ompi_osc_loco_element_of(target_type, &call->element);

    if (rc != MPI_SUCCESS)
        return rc;
    call->op = ompi_osc_loco_op(op);
    if (!has_op(&call->element, call->op))
        return MPI_ERR_OP;
    if (!share_out(call))
        return MPI_ERR_TRUNCATE;
    ompi_osc_loco_enter();
    if (call->combined + call->fetched == 0
        || ((call->combined == 0 || call->fetched == 0) && all_dense(call)))
        rc = ompi_osc_loco_class(accumulate_dense(call));
    else
        rc = accumulate_derived(call);
    (void)ompi_osc_loco_leave(LOCO_OK);
    return ompi_osc_loco_slow(call->module, LOCI_STATS_PATH_ACCUMULATE, rc);
}

/* The common call: one predefined type on all sides, which lie as the library wants them. */
static inline bool is_plain(const struct ompi_datatype_t *type,
                            const struct ompi_datatype_t *other, int count, int other_count)
{
    return type == other && count == other_count && ompi_datatype_is_predefined(type);
}

static __attribute__((noinline)) int run_plain(struct ompi_win_t *win, const void *origin,
                                               void *result, int target, ptrdiff_t disp,
                                               int count, struct ompi_datatype_t *type,
                                               const struct ompi_op_t *mpi_op, loco_ack_t *ack)
{
    const struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);
    enum loco_op op = ompi_osc_loco_op(mpi_op);
    uint64_t offset = ompi_osc_loco_offset(module, target, disp);
    const struct ompi_osc_loco_element *element = ompi_osc_loco_common_element(type);
    struct ompi_osc_loco_element other;
    int status;

    if (element == NULL) {
        int rc = ompi_osc_loco_element_of(type, &other);

        if (rc != MPI_SUCCESS)
            return rc;
        element = &other;
    }
    if (op == LOCO_OP_COUNT || (element->moves_only && !has_op(element, op)))
        return MPI_ERR_OP;
    if (loci_window_accumulate_run(window_of(module), target, element->type, op, offset,
                                   (size_t)count, origin, result) == LOCO_OK)
        return MPI_SUCCESS;
    ompi_osc_loco_enter();
    status = accumulate_span(module, target, element->type, op, offset,
                             (size_t)count * element->extent, origin, result, ack);
    (void)ompi_osc_loco_leave(LOCO_OK);
    if (status == LOCO_OK)
        return ompi_osc_loco_slow(module, LOCI_STATS_PATH_ACCUMULATE, MPI_SUCCESS);
    return has_op(element, op) ? ompi_osc_loco_class(status) : MPI_ERR_OP;
}

/* The short way: counters and tickets. */
static inline __attribute__((always_inline)) bool
run_word(const struct ompi_win_t *win, const void *origin, void *result, int target,
         ptrdiff_t disp, const struct ompi_datatype_t *type, const struct ompi_op_t *op)
{
    const struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);

    return ompi_osc_loco_is_word(type)
           && loci_window_fetch_word(window_of(module), target, ompi_osc_loco_word_op(op),
                                     ompi_osc_loco_offset(module, target, disp), origin, result);
}

static int accumulate_any(const void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                      int target, ptrdiff_t disp, int target_count,
                      struct ompi_datatype_t *target_type, struct ompi_op_t *op,
                      struct ompi_win_t *win, loco_ack_t *ack)
{
    struct call call = { .module = ompi_osc_loco_module(win), .target = target, .ack = ack };

    call.origin = (struct ompi_osc_loco_side){ origin_type, (size_t)origin_count,
                                               (uint64_t)(uintptr_t)origin };
    call.remote = (struct ompi_osc_loco_side){ target_type, (size_t)target_count,
                                               ompi_osc_loco_offset(call.module, target, disp) };
    return run(&call, target_type, op);
}

static int get_accumulate_any(const void *origin, int origin_count,
                          struct ompi_datatype_t *origin_type, void *result, int result_count,
                          struct ompi_datatype_t *result_type, int target, ptrdiff_t disp,
                          int target_count, struct ompi_datatype_t *target_type,
                          struct ompi_op_t *op, struct ompi_win_t *win, loco_ack_t *ack)
{
    struct call call = { .module = ompi_osc_loco_module(win), .target = target, .ack = ack };

    /* 4.1's core has not looked at these. */
    if (result_count < 0)
        return MPI_ERR_COUNT;
    if (result_type == MPI_DATATYPE_NULL || !ompi_datatype_is_committed(result_type))
        return MPI_ERR_TYPE;
    call.origin = (struct ompi_osc_loco_side){ origin_type, (size_t)origin_count,
                                               (uint64_t)(uintptr_t)origin };
    call.result = (struct ompi_osc_loco_side){ result_type, (size_t)result_count,
                                               (uint64_t)(uintptr_t)result };
    call.remote = (struct ompi_osc_loco_side){ target_type, (size_t)target_count,
                                               ompi_osc_loco_offset(call.module, target, disp) };
    return run(&call, target_type, op);
}

/* ---- the short way of accumulates: predefined types on memory that is mapped ---- */

static void know(struct ompi_osc_loco_module *module, const struct ompi_datatype_t *type,
                 const struct ompi_op_t *mpi_op)
{
    const struct ompi_osc_loco_element *element = ompi_osc_loco_common_element(type);
    struct ompi_osc_loco_known *known = &module->known;
    enum loco_op op = ompi_osc_loco_op(mpi_op);

    if (element == NULL || element->moves_only || op == LOCO_OP_COUNT
        || !loci_window_combine_open(window_of(module), element->type, op, &known->how))
        return;
    known->type = type;
    known->op = mpi_op;
    known->element = element->type;
    known->operation = op;
}

static inline bool run_known(const struct ompi_win_t *win, const void *origin, int origin_count,
                             const struct ompi_datatype_t *origin_type, int target,
                             ptrdiff_t disp, int target_count,
                             const struct ompi_datatype_t *target_type,
                             const struct ompi_op_t *op)
{
    const struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);
    const struct ompi_osc_loco_known *known = &module->known;

    return target_type == known->type && op == known->op && origin_type == target_type
           && origin_count == target_count
           && loci_window_combine(window_of(module), target, &known->how,
                                  ompi_osc_loco_offset(module, target, disp),
                                  (size_t)target_count, origin);
}

/* Of a window whose accumulates are being gathered: LOCO_ERR_AGAIN where this one is not to be. */
static inline int run_gathered(const struct ompi_win_t *win, const void *origin, int origin_count,
                               const struct ompi_datatype_t *origin_type, int target,
                               ptrdiff_t disp, int target_count,
                               const struct ompi_datatype_t *target_type,
                               const struct ompi_op_t *op)
{
    const struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);
    const struct ompi_osc_loco_known *known = &module->known;
    int status;

    if (target_type != known->type || op != known->op
        || origin_type != target_type || origin_count != target_count)
        return LOCO_ERR_AGAIN;
    ompi_osc_loco_enter();
    status = loci_window_gather(window_of(module), target, known->element, known->operation,
                                ompi_osc_loco_offset(module, target, disp), origin,
                                (size_t)target_count << known->how.shift);
    (void)ompi_osc_loco_leave(LOCO_OK);
    return status;
}

static int accumulate(const void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                      int target, ptrdiff_t disp, int target_count,
                      struct ompi_datatype_t *target_type, struct ompi_op_t *op,
                      struct ompi_win_t *win, loco_ack_t *ack)
{
    int rc;

    if (is_plain(target_type, origin_type, target_count, origin_count))
        rc = run_plain(win, origin, NULL, target, disp, target_count, target_type, op, ack);
    else
        rc = accumulate_any(origin, origin_count, origin_type, target, disp, target_count,
                            target_type, op, win, ack);
    return ompi_osc_loco_told(win, rc, ack == NULL ? "MPI_Accumulate" : "MPI_Raccumulate",
                              target, disp, target_count, target_type, op);
}

/* With the arguments of the call, so that these need not be kept beside what the short way does. */
static __attribute__((noinline)) int
accumulate_long(const void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                int target, ptrdiff_t disp, int target_count, struct ompi_datatype_t *target_type,
                struct ompi_op_t *op, struct ompi_win_t *win)
{
    struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);

    if (is_plain(target_type, origin_type, target_count, origin_count)) {
        if (window_of(module)->one_thread
            && (target_type != module->known.type || op != module->known.op))
            know(module, target_type, op);
        if (target_count == 1 && run_word(win, origin, NULL, target, disp, target_type, op))
            return MPI_SUCCESS;
    }
    return accumulate(origin, origin_count, origin_type, target, disp, target_count, target_type,
                      op, win, NULL);
}

static inline int get_accumulate(const void *origin, int origin_count,
                                 struct ompi_datatype_t *origin_type, void *result,
                                 int result_count, struct ompi_datatype_t *result_type,
                                 int target, ptrdiff_t disp, int target_count,
                                 struct ompi_datatype_t *target_type, struct ompi_op_t *op,
                                 struct ompi_win_t *win, loco_ack_t *ack)
{
    int rc;

    /* With MPI_NO_OP nothing of the origin counts. */
    if (is_plain(target_type, result_type, target_count, result_count)
        && (op == &ompi_mpi_op_no_op.op
            || is_plain(target_type, origin_type, target_count, origin_count)))
        rc = run_plain(win, origin, result, target, disp, target_count, target_type, op, ack);
    else
        rc = get_accumulate_any(origin, origin_count, origin_type, result, result_count,
                                result_type, target, disp, target_count, target_type, op, win,
                                ack);
    return ompi_osc_loco_told(win, rc, ack == NULL ? "MPI_Get_accumulate" : "MPI_Rget_accumulate",
                              target, disp, target_count, target_type, op);
}

/* ---- the module's functions ---- */

int ompi_osc_loco_accumulate(const void *origin, int origin_count,
                             struct ompi_datatype_t *origin_type, int target, ptrdiff_t disp,
                             int target_count, struct ompi_datatype_t *target_type,
                             struct ompi_op_t *op, struct ompi_win_t *win)
{
    if (window_of(ompi_osc_loco_module(win))->gathering != 0) {
        int status = run_gathered(win, origin, origin_count, origin_type, target, disp,
                                  target_count, target_type, op);

        if (status == LOCO_OK)
            return MPI_SUCCESS;
        if (status != LOCO_ERR_AGAIN)
            return ompi_osc_loco_told(win, ompi_osc_loco_class(status), "MPI_Accumulate", target,
                                      disp, target_count, target_type, op);
    }
    if (run_known(win, origin, origin_count, origin_type, target, disp, target_count, target_type,
                  op))
        return MPI_SUCCESS;
    return accumulate_long(origin, origin_count, origin_type, target, disp, target_count,
                           target_type, op, win);
}

int ompi_osc_loco_raccumulate(const void *origin, int origin_count,
                              struct ompi_datatype_t *origin_type, int target, ptrdiff_t disp,
                              int target_count, struct ompi_datatype_t *target_type,
                              struct ompi_op_t *op, struct ompi_win_t *win,
                              struct ompi_request_t **request)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int rc;

    if (!ompi_osc_loco_may_request(win, target))
        return ompi_osc_loco_told(win, MPI_ERR_RMA_SYNC, "MPI_Raccumulate", target, disp,
                                  target_count, target_type, op);
    rc = accumulate(origin, origin_count, origin_type, target, disp, target_count, target_type,
                    op, win, &ack);
    return ompi_osc_loco_request(win, rc, &ack, request);
}

int ompi_osc_loco_get_accumulate(const void *origin, int origin_count,
                                 struct ompi_datatype_t *origin_type, void *result,
                                 int result_count, struct ompi_datatype_t *result_type,
                                 int target, ptrdiff_t disp, int target_count,
                                 struct ompi_datatype_t *target_type, struct ompi_op_t *op,
                                 struct ompi_win_t *win)
{
    return get_accumulate(origin, origin_count, origin_type, result, result_count, result_type,
                          target, disp, target_count, target_type, op, win, NULL);
}

int ompi_osc_loco_rget_accumulate(const void *origin, int origin_count,
                                  struct ompi_datatype_t *origin_type, void *result,
                                  int result_count, struct ompi_datatype_t *result_type,
                                  int target, ptrdiff_t disp, int target_count,
                                  struct ompi_datatype_t *target_type, struct ompi_op_t *op,
                                  struct ompi_win_t *win, struct ompi_request_t **request)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int rc;

    if (!ompi_osc_loco_may_request(win, target))
        return ompi_osc_loco_told(win, MPI_ERR_RMA_SYNC, "MPI_Rget_accumulate", target, disp,
                                  target_count, target_type, op);
    rc = get_accumulate(origin, origin_count, origin_type, result, result_count, result_type,
                        target, disp, target_count, target_type, op, win, &ack);
    return ompi_osc_loco_request(win, rc, &ack, request);
}

static __attribute__((noinline)) int fetch_and_op(const void *origin, void *result,
                                                  struct ompi_datatype_t *type, int target,
                                                  ptrdiff_t disp, struct ompi_op_t *op,
                                                  struct ompi_win_t *win)
{
    int rc = MPI_ERR_TYPE;

    if (ompi_datatype_is_predefined(type))
        rc = run_plain(win, origin, result, target, disp, 1, type, op, NULL);
    return ompi_osc_loco_told(win, rc, "MPI_Fetch_and_op", target, disp, 1, type, op);
}

int ompi_osc_loco_fetch_and_op(const void *origin, void *result, struct ompi_datatype_t *type,
                               int target, ptrdiff_t disp, struct ompi_op_t *op,
                               struct ompi_win_t *win)
{
    if (run_word(win, origin, result, target, disp, type, op))
        return MPI_SUCCESS;
    return fetch_and_op(origin, result, type, target, disp, op, win);
}

/* C and Fortran integers, logicals, multi-language types and bytes. */
static bool compares(const struct ompi_osc_loco_element *element)
{
    switch (element->type) {
    case LOCO_TYPE_I8: case LOCO_TYPE_I16: case LOCO_TYPE_I32: case LOCO_TYPE_I64:
    case LOCO_TYPE_U8: case LOCO_TYPE_U16: case LOCO_TYPE_U32: case LOCO_TYPE_U64:
    case LOCO_TYPE_BYTE: case LOCO_TYPE_BOOL8: case LOCO_TYPE_LOGICAL32:
        return !element->moves_only;
    default:
        return false;
    }
}

static __attribute__((noinline)) int compare_and_swap(const void *origin, const void *compare,
                                                      void *result, struct ompi_datatype_t *type,
                                                      int target, ptrdiff_t disp,
                                                      struct ompi_win_t *win)
{
    struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);
    struct ompi_osc_loco_element element;
    int status, rc;

    if (!ompi_datatype_is_predefined(type)
        || ompi_osc_loco_element_of(type, &element) != MPI_SUCCESS || !compares(&element)) {
        rc = MPI_ERR_TYPE;
    } else {
        ompi_osc_loco_enter();
        status = loco_window_compare_swap(window_of(module), target, element.type,
                                          ompi_osc_loco_offset(module, target, disp), compare,
                                          origin, result);
        rc = ompi_osc_loco_slow(module, LOCI_STATS_PATH_SWAP, ompi_osc_loco_leave(status));
    }
    return ompi_osc_loco_told(win, rc, "MPI_Compare_and_swap", target, disp, 1, type, NULL);
}

int ompi_osc_loco_compare_and_swap(const void *origin, const void *compare, void *result,
                                   struct ompi_datatype_t *type, int target, ptrdiff_t disp,
                                   struct ompi_win_t *win)
{
    const struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);

    if (ompi_osc_loco_is_word(type)
        && loci_window_swap_word(window_of(module), target,
                                 ompi_osc_loco_offset(module, target, disp), compare, origin,
                                 result))
        return MPI_SUCCESS;
    return compare_and_swap(origin, compare, result, type, target, disp, win);
}
