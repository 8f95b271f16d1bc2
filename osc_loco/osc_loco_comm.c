/* SPDX-License-Identifier: BSD-3-Clause */

/* Put and get (MPI 3.1, section 11.3). The short way: both sides one run of bytes, the target
 * mapped here, an epoch open: a copy. So it is, some instructions later, between an array and a
 * column. Other types are runs that are zipped, and copied where the target is mapped, else given
 * to the library as spans, a batch at a time. Only short blocks for memory that the fabric takes
 * strips of are packed: there each span would cost more. */

#include "osc_loco_strip.h"

#include <string.h>

#define SPANS 128           /* in a batch */
#define SHORT_BLOCK 1024    /* bytes; shorter ones are packed for memory that is not mapped */

typedef int move_fn(loco_window_t *window, int rank, const struct loco_span *spans, size_t n,
                    loco_ack_t *ack);

/* Both sides of one transfer. */
struct transfer {
    struct ompi_osc_loco_module *module;
    move_fn *move;
    struct ompi_osc_loco_side local, remote;
    int target;
    loco_ack_t *ack;
};

/* Add a run, to the last span where it goes on there. */
static void add_span(struct loco_span *spans, size_t *n, uint64_t local, uint64_t offset,
                     size_t len)
{
    struct loco_span *last = *n > 0 ? &spans[*n - 1] : NULL;

    if (last != NULL && (uint64_t)(uintptr_t)last->local + last->len == local
        && last->offset + last->len == offset) {
        last->len += len;
        return;
    }
    spans[(*n)++] = (struct loco_span){ (void *)(uintptr_t)local, offset, len };
}

static int move_runs(const struct transfer *t, struct ompi_osc_loco_cursor *local,
                     struct ompi_osc_loco_cursor *remote)
{
    struct loco_span spans[SPANS];
    uint64_t from, to;
    size_t have, room, n = 0;
    int status = LOCO_OK;

    while (status == LOCO_OK && ompi_osc_loco_cursor_peek(local, &from, &have)
           && ompi_osc_loco_cursor_peek(remote, &to, &room)) {
        size_t len = have < room ? have : room;

        add_span(spans, &n, from, to, len);
        ompi_osc_loco_cursor_skip(local, len);
        ompi_osc_loco_cursor_skip(remote, len);
        if (n == SPANS) {
            status = t->move(window_of(t->module), t->target, spans, n, t->ack);
            if (status == LOCO_IN_PROGRESS)
                status = LOCO_OK;
            n = 0;
        }
    }
    if (n > 0 && status == LOCO_OK)
        status = t->move(window_of(t->module), t->target, spans, n, t->ack);
    return status;
}

/* ---- strips of memory that is not mapped ---- */

/* Strips of the remote side that hold at most `most` bytes; how many they hold. */
static size_t take_strips(struct ompi_osc_loco_cursor *remote, size_t most,
                          struct loci_strip *strips, int *n)
{
    size_t bytes = 0;

    for (*n = 0; *n < LOCI_STRIDED_STRIPS && bytes < most && ompi_osc_loco_cursor_has(remote);
         (*n)++) {
        struct loci_strip *strip = &strips[*n];
        size_t room = most - bytes, whole = room / remote->block;

        *strip = (struct loci_strip){ remote->at, remote->left, remote->stride, 1 };
        if (remote->left == remote->block && whole > 0) {
            strip->blocks = remote->blocks < whole ? remote->blocks : whole;
            ompi_osc_loco_cursor_skip_blocks(remote, strip->blocks);
        } else {
            strip->len = remote->left < room ? remote->left : room;
            ompi_osc_loco_cursor_skip(remote, strip->len);
        }
        bytes += strip->len * strip->blocks;
    }
    return bytes;
}

/* Short blocks go packed, with a list of strips; `bytes` are left on the sender's side. */
static int move_strips(const struct transfer *t, struct ompi_osc_loco_cursor *local,
                       struct ompi_osc_loco_cursor *remote, size_t bytes)
{
    unsigned char packed[LOCI_STRIDED_BYTES];
    struct loci_strip strips[LOCI_STRIDED_STRIPS];
    enum loci_op_kind kind = t->move == loco_window_put ? LOCI_WRITE : LOCI_READ;
    int status = LOCO_OK, n;

    while (status == LOCO_OK && bytes > 0) {
        size_t len = take_strips(remote, bytes < sizeof packed ? bytes : sizeof packed, strips,
                                 &n);
        struct ompi_osc_loco_cursor run = {
            .at = (uint64_t)(uintptr_t)packed, .left = len, .block = len, .blocks = 1,
        };
        bool direct = ompi_osc_loco_cursor_has(local) && local->left >= len;
        unsigned char *at = direct ? (unsigned char *)(uintptr_t)local->at : packed;

        if (!direct && kind == LOCI_WRITE)
            ompi_osc_loco_copy_runs(local, &run);
        status = loci_window_move_strips(window_of(t->module), t->target, kind, strips, n, at, len);
        if (direct)
            ompi_osc_loco_cursor_skip(local, len);
        else if (kind == LOCI_READ && status == LOCO_OK)
            ompi_osc_loco_copy_runs(&run, local);
        bytes -= len;
    }
    return status;
}

/* Whether blocks are so short that a copy of each by itself costs more than copying them twice. */
static bool goes_in_strips(const struct transfer *t, struct ompi_osc_loco_cursor *local,
                           struct ompi_osc_loco_cursor *remote)
{
    return loci_window_takes_strips(window_of(t->module)) && ompi_osc_loco_cursor_has(local)
           && ompi_osc_loco_cursor_has(remote)
           && (local->left < SHORT_BLOCK || remote->left < SHORT_BLOCK);
}

/* ---- other types ---- */

/* Whether all that the remote side touches is mapped here; if so, its base is an address from now
 * on. (In place: what is copied, or stored again, just before it is read is waited for.) */
static bool to_mapped(struct transfer *t)
{
    unsigned char *p;
    int64_t low, high;

    if (!ompi_osc_loco_extent(&t->remote, &low, &high))
        return false;
    p = t->move == loco_window_put
        ? loci_window_direct_put(window_of(t->module), t->target, t->remote.base + (uint64_t)low,
                                 (size_t)(high - low))
        : loci_window_direct(window_of(t->module), t->target, t->remote.base + (uint64_t)low,
                             (size_t)(high - low));
    if (p == NULL)
        return false;
    t->remote.base = (uint64_t)(uintptr_t)p - (uint64_t)low;
    return true;
}

static int zip(const struct transfer *t, bool mapped)
{
    struct ompi_osc_loco_cursor local, remote;
    bool put = t->move == loco_window_put;
    int status = LOCO_OK;

    if (ompi_osc_loco_cursor_open(&local, &t->local) != MPI_SUCCESS)
        return MPI_ERR_NO_MEM;
    if (ompi_osc_loco_cursor_open(&remote, &t->remote) != MPI_SUCCESS) {
        ompi_osc_loco_cursor_close(&local);
        return MPI_ERR_NO_MEM;
    }
    if (!mapped && goes_in_strips(t, &local, &remote))
        status = move_strips(t, &local, &remote,
                             ompi_osc_loco_bytes(put ? &t->local : &t->remote));
    else if (!mapped)
        status = move_runs(t, &local, &remote);
    else if (put)
        ompi_osc_loco_copy_runs(&local, &remote);
    else
        ompi_osc_loco_copy_runs(&remote, &local);
    ompi_osc_loco_cursor_close(&remote);
    ompi_osc_loco_cursor_close(&local);
    return ompi_osc_loco_class(status);
}

static int move_derived(struct transfer *t)
{
    int status;

    if (to_mapped(t)) {
        bool put = t->move == loco_window_put;

        if (ompi_osc_loco_copy_grid(put ? &t->local : &t->remote, put ? &t->remote : &t->local))
            return MPI_SUCCESS;
        return zip(t, true);
    }
    status = ompi_osc_loco_check_bounds(t->module, t->target, &t->remote);
    return status == LOCO_OK ? zip(t, false) : ompi_osc_loco_class(status);
}

/* Like a message: what is sent may be shorter than what the receiver has room for. */
static int move(struct transfer *t, const struct ompi_osc_loco_side *sender,
                const struct ompi_osc_loco_side *receiver)
{
    size_t len = ompi_osc_loco_bytes(sender);
    struct loco_span span;

    if (len > ompi_osc_loco_bytes(receiver))
        return MPI_ERR_TRUNCATE;
    if (len == 0)       /* checks the epoch */
        return ompi_osc_loco_class(t->move(window_of(t->module), t->target, NULL, 0, t->ack));
    if (!ompi_osc_loco_is_run(&t->local) || !ompi_osc_loco_is_run(&t->remote))
        return move_derived(t);
    span.local = (void *)(uintptr_t)(t->local.base + (uint64_t)t->local.type->super.true_lb);
    span.offset = t->remote.base + (uint64_t)t->remote.type->super.true_lb;
    span.len = len;
    return ompi_osc_loco_class(t->move(window_of(t->module), t->target, &span, 1, t->ack));
}

/* ---- the short way ---- */

/* Where a function begins in its line of cache is worth 5 % of a put of a word, and of a column's,
 * on a Zen 4; without this any change of what is before it would move it. */
#define ON_A_LINE __attribute__((aligned(64)))

/* Whether that many elements of the type are one run that begins at displacement 0, and how many
 * bytes. Of a predefined type neither the bound nor the number of bytes has to be looked at. */
static inline bool is_dense(const struct ompi_datatype_t *type, int count, size_t *len)
{
    const uint16_t dense = OPAL_DATATYPE_FLAG_CONTIGUOUS | OPAL_DATATYPE_FLAG_NO_GAPS;
    const uint16_t predefined = dense | OMPI_DATATYPE_FLAG_PREDEFINED;
    int64_t bytes;

    if (__builtin_expect((type->super.flags & predefined) == predefined, 1)) {
        *len = type->super.size * (size_t)count;
        return true;
    }
    if ((type->super.flags & dense) != dense || type->super.true_lb != 0
        || __builtin_mul_overflow((int64_t)type->super.size, (int64_t)count, &bytes))
        return false;
    *len = (size_t)bytes;
    return true;
}

/* A transfer of one run between equal types: where its target is, and of how many bytes; NULL: it
 * is something else. No division, no call, little to remember: each look here is a good part of
 * what a put of a word costs. */
static inline void *short_way(int origin_count, const struct ompi_datatype_t *origin_type,
                              int target, ptrdiff_t disp, int target_count,
                              const struct ompi_datatype_t *target_type,
                              const struct loco_window *window, size_t *len)
{
    const struct loci_target *t = &window->target[target];
    int64_t offset;

    __asm__("" : "+r"(t));      /* one address, not one for each of its fields */
    if (origin_type != target_type || origin_count != target_count
        || !is_dense(origin_type, origin_count, len)
        || __builtin_mul_overflow((int64_t)disp, (int64_t)t->disp_unit, &offset))
        return NULL;
    return loci_window_direct_at(window, target, t, (uint64_t)offset, *len);
}

static __attribute__((noinline)) int copy_run(void *to, const void *from, size_t len)
{
    loci_copy_plain(to, from, len);
    return MPI_SUCCESS;
}

static inline int copy(void *to, const void *from, size_t len)
{
    if (len != sizeof(uint64_t))
        return copy_run(to, from, len);
    memcpy(to, from, sizeof(uint64_t));     /* one instruction each way */
    return MPI_SUCCESS;
}

/* ---- the short way of a column ---- */

static inline __attribute__((always_inline)) void
array_to_or_from(bool puts, char *array, char *vector, const ddt_elem_desc_t *item, size_t len)
{
    const size_t word = sizeof(uint64_t), n = item->count;
    ptrdiff_t stride = item->extent;
    size_t block;

    /* The size of a block is four loads away, each by what the one before brought: words do not
     * wait for it. */
    if (len == n * word) {
        if (puts)
            ompi_osc_loco_copy_each(vector, stride, array, (ptrdiff_t)word, word, n, true);
        else
            ompi_osc_loco_copy_each(array, (ptrdiff_t)word, vector, stride, word, n, true);
        return;
    }
    block = ompi_osc_loco_block(item);
    if (puts)
        ompi_osc_loco_copy_blocks(vector, stride, array, (ptrdiff_t)block, block, n);
    else
        ompi_osc_loco_copy_blocks(array, (ptrdiff_t)block, vector, stride, block, n);
}

/* A put or a get between an array and a vector, of as many bytes, at a target that is mapped here:
 * what move() would do, without what it has to look at for other types, which is most of what a
 * column of 256 words takes beside its copy. False: it is something else, one run for one, or an
 * error; nothing was done. */
static inline __attribute__((always_inline)) bool
column_way(bool puts, void *array, int array_count, const struct ompi_datatype_t *array_type,
           int target, ptrdiff_t disp, int count, const struct ompi_datatype_t *vector,
           const struct loco_window *window)
{
    const struct loci_target *t = &window->target[target];
    const dt_type_desc_t *described = ompi_osc_loco_description(&vector->super);
    const ddt_elem_desc_t *item = &described->desc->elem;
    ptrdiff_t low = vector->super.true_lb;
    unsigned char *far;
    size_t len;
    int64_t offset;

    if (count != 1 || (vector->super.flags & OPAL_DATATYPE_FLAG_CONTIGUOUS) != 0
        || !is_dense(array_type, array_count, &len) || len != vector->super.size
        || !ompi_osc_loco_is_one_item(described)
        || __builtin_mul_overflow((int64_t)disp, (int64_t)t->disp_unit, &offset))
        return false;
    far = loci_window_direct_at(window, target, t, (uint64_t)offset + (uint64_t)low,
                                (size_t)(vector->super.true_ub - low));
    if (far == NULL)
        return false;
    far += item->disp - low;
    if (puts)
        loci_window_stored(window);
    array_to_or_from(puts, array, (char *)far, item, len);
    return true;
}

/* The long way begins with the arguments of the call. Those that are on the stack are read from
 * there again, so that they need no registers meanwhile, which others would be saved for. */
#define READ_AGAIN(arg) __asm__("" : "+m"(arg))

/* ---- one call ---- */

/* Whether it is one run between equal types, as most are that go to where nothing is mapped: the
 * library needs no more than that run. */
static inline bool is_one_run(void *origin, int origin_count,
                              const struct ompi_datatype_t *origin_type, int target,
                              ptrdiff_t disp, int target_count,
                              const struct ompi_datatype_t *target_type,
                              const struct ompi_osc_loco_module *module, struct loco_span *run)
{
    if (origin_type != target_type || origin_count != target_count
        || !is_dense(origin_type, origin_count, &run->len) || run->len == 0)
        return false;
    run->local = origin;
    run->offset = ompi_osc_loco_offset(module, target, disp);
    return true;
}

/* Whatever the types and places are. */
static __attribute__((noinline))
int put_or_get_any(bool puts, void *origin, int origin_count,
                   struct ompi_datatype_t *origin_type, int target, ptrdiff_t disp,
                   int target_count, struct ompi_datatype_t *target_type,
                   struct ompi_osc_loco_module *module, loco_ack_t *ack)
{
    struct transfer t = {
        .module = module, .move = puts ? loco_window_put : loco_window_get, .target = target,
        .ack = ack,
        .local = { origin_type, (size_t)origin_count, (uint64_t)(uintptr_t)origin },
        .remote = { target_type, (size_t)target_count,
                    ompi_osc_loco_offset(module, target, disp) },
    };

    return puts ? move(&t, &t.local, &t.remote) : move(&t, &t.remote, &t.local);
}

/* MPI_Put and MPI_Rput, and of !puts MPI_Get and MPI_Rget. */
static inline __attribute__((always_inline))
int put_or_get(bool puts, void *origin, int origin_count, struct ompi_datatype_t *origin_type,
               int target, ptrdiff_t disp, int target_count, struct ompi_datatype_t *target_type,
               struct ompi_win_t *win, loco_ack_t *ack)
{
    struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);
    bool flushed = ack == LOCO_UNTIL_FLUSH;
    struct loco_span run;
    int rc;

    if (is_one_run(origin, origin_count, origin_type, target, disp, target_count, target_type,
                   module, &run))
        rc = ompi_osc_loco_class(loci_window_put_or_get(window_of(module), target,
                                                        puts ? LOCI_WRITE : LOCI_READ, &run, 1,
                                                        ack));
    else
        rc = put_or_get_any(puts, origin, origin_count, origin_type, target, disp, target_count,
                            target_type, module, ack);
    rc = ompi_osc_loco_slow(module, puts ? LOCI_STATS_PATH_PUT : LOCI_STATS_PATH_GET, rc);
    return ompi_osc_loco_told(win, rc, puts ? flushed ? "MPI_Put" : "MPI_Rput"
                                            : flushed ? "MPI_Get" : "MPI_Rget",
                              target, disp, target_count, target_type, NULL);
}

/* With the arguments of the call, so that these need not be kept beside what the short way does. */
static __attribute__((noinline)) ON_A_LINE
int put_long(const void *origin, int origin_count, struct ompi_datatype_t *origin_type, int target,
             ptrdiff_t disp, int target_count, struct ompi_datatype_t *target_type,
             struct ompi_win_t *win)
{
    if (column_way(true, (void *)(uintptr_t)origin, origin_count, origin_type, target, disp,
                   target_count, target_type, ompi_osc_loco_window(win)))
        return MPI_SUCCESS;
    return put_or_get(true, (void *)(uintptr_t)origin, origin_count, origin_type, target, disp,
                      target_count, target_type, win, LOCO_UNTIL_FLUSH);
}

static __attribute__((noinline)) ON_A_LINE
int get_long(void *origin, int origin_count, struct ompi_datatype_t *origin_type, int target,
             ptrdiff_t disp, int target_count, struct ompi_datatype_t *target_type,
             struct ompi_win_t *win)
{
    if (column_way(false, origin, origin_count, origin_type, target, disp, target_count,
                   target_type, ompi_osc_loco_window(win)))
        return MPI_SUCCESS;
    return put_or_get(false, origin, origin_count, origin_type, target, disp, target_count,
                      target_type, win, LOCO_UNTIL_FLUSH);
}

ON_A_LINE
int ompi_osc_loco_put(const void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                      int target, ptrdiff_t disp, int target_count,
                      struct ompi_datatype_t *target_type, struct ompi_win_t *win)
{
    const struct loco_window *window = ompi_osc_loco_window(win);
    size_t len;
    void *remote = short_way(origin_count, origin_type, target, disp, target_count, target_type,
                             window, &len);

    if (remote == NULL) {
        READ_AGAIN(target_type);
        READ_AGAIN(win);
        return put_long(origin, origin_count, origin_type, target, disp, target_count,
                        target_type, win);
    }
    loci_window_stored(window);
    return copy(remote, origin, len);
}

ON_A_LINE
int ompi_osc_loco_get(void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                      int target, ptrdiff_t disp, int target_count,
                      struct ompi_datatype_t *target_type, struct ompi_win_t *win)
{
    const struct loco_window *window = ompi_osc_loco_window(win);
    size_t len;
    void *remote = short_way(origin_count, origin_type, target, disp, target_count, target_type,
                             window, &len);

    if (remote == NULL) {
        READ_AGAIN(target_type);
        READ_AGAIN(win);
        return get_long(origin, origin_count, origin_type, target, disp, target_count,
                        target_type, win);
    }
    return copy(origin, remote, len);
}

/* MPI_Rput, and of !puts MPI_Rget. */
static inline __attribute__((always_inline))
int request(bool puts, void *origin, int origin_count, struct ompi_datatype_t *origin_type,
            int target, ptrdiff_t disp, int target_count, struct ompi_datatype_t *target_type,
            struct ompi_win_t *win, struct ompi_request_t **out)
{
    const struct loco_window *window = ompi_osc_loco_window(win);
    loco_ack_t ack = LOCO_ACK_INIT;
    size_t len;
    void *remote;
    int rc;

    if (!ompi_osc_loco_may_request(win, target))
        return ompi_osc_loco_told(win, MPI_ERR_RMA_SYNC, puts ? "MPI_Rput" : "MPI_Rget", target,
                                  disp, target_count, target_type, NULL);
    remote = short_way(origin_count, origin_type, target, disp, target_count, target_type, window,
                       &len);
    if (remote != NULL && !mca_osc_loco_component.late_requests) {
        if (puts)
            loci_window_stored(window);
        *out = &ompi_request_empty;
        return puts ? copy(remote, origin, len) : copy(origin, remote, len);
    }
    rc = put_or_get(puts, origin, origin_count, origin_type, target, disp, target_count,
                    target_type, win, &ack);
    return ompi_osc_loco_request(win, rc, &ack, out);
}

int ompi_osc_loco_rput(const void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                       int target, ptrdiff_t disp, int target_count,
                       struct ompi_datatype_t *target_type, struct ompi_win_t *win,
                       struct ompi_request_t **out)
{
    return request(true, (void *)(uintptr_t)origin, origin_count, origin_type, target, disp,
                   target_count, target_type, win, out);
}

int ompi_osc_loco_rget(void *origin, int origin_count, struct ompi_datatype_t *origin_type,
                       int target, ptrdiff_t disp, int target_count,
                       struct ompi_datatype_t *target_type, struct ompi_win_t *win,
                       struct ompi_request_t **out)
{
    return request(false, origin, origin_count, origin_type, target, disp, target_count,
                   target_type, win, out);
}
