/* SPDX-License-Identifier: BSD-3-Clause */

/* Data types: the bounds of what they touch, and the elements of accumulates.
 *
 * Elements are cut from runs (osc_loco_runs.c): a run holds whole elements, save of pairs, whose
 * value and index may be runs of their own. */

#include "osc_loco.h"

#include <string.h>

/* ---- bounds ---- */

#define RUNS 64         /* that are looked at together: they are mostly in one region */

bool ompi_osc_loco_extent(const struct ompi_osc_loco_side *side, int64_t *low, int64_t *high)
{
    const opal_datatype_t *type = &side->type->super;
    int64_t last;

    *low = *high = 0;
    if (side->count == 0 || type->size == 0)
        return true;
    if (__builtin_mul_overflow((int64_t)(side->count - 1), (int64_t)(type->ub - type->lb), &last))
        return false;
    /* A type resized to a negative extent runs backwards. */
    return !__builtin_add_overflow((int64_t)type->true_lb, last < 0 ? last : 0, low)
           && !__builtin_add_overflow((int64_t)type->true_ub, last > 0 ? last : 0, high);
}

/* A dynamic window's bounds are those of the attached regions, and a hole of the type may be a
 * hole between two of them: each run is looked at. */
static int check_runs(const struct ompi_osc_loco_module *module, int target,
                      const struct ompi_osc_loco_side *remote)
{
    struct ompi_osc_loco_cursor cursor;
    struct loco_span spans[RUNS];
    int status = LOCO_OK;
    size_t n;

    if (ompi_osc_loco_cursor_open(&cursor, remote) != MPI_SUCCESS)
        return LOCO_ERR_NO_MEMORY;
    do {
        for (n = 0; n < RUNS && ompi_osc_loco_cursor_peek(&cursor, &spans[n].offset, &spans[n].len);
             n++)
            ompi_osc_loco_cursor_skip(&cursor, spans[n].len);
        status = loci_window_check_spans(window_of(module), target, spans, n);
    } while (status == LOCO_OK && n == RUNS);
    ompi_osc_loco_cursor_close(&cursor);
    return status;
}

int ompi_osc_loco_check_bounds(const struct ompi_osc_loco_module *module, int target,
                               const struct ompi_osc_loco_side *remote)
{
    uint64_t size = window_of(module)->target[target].mem.key.len;
    int64_t low, high, first, end;

    if (module->flavor == MPI_WIN_FLAVOR_DYNAMIC)
        return check_runs(module, target, remote);
    if (remote->base > INT64_MAX || !ompi_osc_loco_extent(remote, &low, &high)
        || __builtin_add_overflow((int64_t)remote->base, low, &first)
        || __builtin_add_overflow((int64_t)remote->base, high, &end))
        return LOCO_ERR_RANGE;
    return first < 0 || (uint64_t)end > size ? LOCO_ERR_RANGE : LOCO_OK;
}

/* ---- elements ---- */

/* C's layouts of the pairs. */
struct short_int { short value; int index; };
struct int_int { int value; int index; };
struct long_int { long value; int index; };
struct float_int { float value; int index; };
struct double_int { double value; int index; };
struct long_double_int { long double value; int index; };
struct float_float { float value; float index; };
struct double_double { double value; double index; };

#define SIZED(bytes, one, two, four, eight) \
    ((bytes) == 1 ? (one) : (bytes) == 2 ? (two) : (bytes) == 4 ? (four) : (eight))
#define SIGNED(bytes) \
    SIZED(bytes, LOCO_TYPE_I8, LOCO_TYPE_I16, LOCO_TYPE_I32, LOCO_TYPE_I64)
#define UNSIGNED(bytes) \
    SIZED(bytes, LOCO_TYPE_U8, LOCO_TYPE_U16, LOCO_TYPE_U32, LOCO_TYPE_U64)
#define ROW(name, type, moves_only, bytes) \
    [OMPI_DATATYPE_MPI_##name] = { (type), (moves_only), (bytes), (bytes), 0 }
#define TYPE(name, type, bytes) ROW(name, type, false, bytes)
#define MOVES(name, type, bytes) ROW(name, type, true, bytes)
#define PAIR(name, type, layout) \
    [OMPI_DATATYPE_MPI_##name] = { \
        (type), false, sizeof(struct layout), \
        sizeof(((struct layout *)0)->value) + sizeof(((struct layout *)0)->index), \
        offsetof(struct layout, index) \
    }

/* What predefined types hold, by Open MPI's number of the type. Synonyms (MPI_INT, MPI_INT32_T)
 * have one number, and MPI_BYTE has that of MPI_UINT8_T: it can be summed, as on all components of
 * Open MPI, and programs do. Numbers that are not here have extent 0. */
const struct ompi_osc_loco_element
    ompi_osc_loco_elements[OMPI_DATATYPE_MPI_MAX_PREDEFINED] = {
    TYPE(INT8_T, LOCO_TYPE_I8, 1), TYPE(UINT8_T, LOCO_TYPE_U8, 1),
    TYPE(INT16_T, LOCO_TYPE_I16, 2), TYPE(UINT16_T, LOCO_TYPE_U16, 2),
    TYPE(INT32_T, LOCO_TYPE_I32, 4), TYPE(UINT32_T, LOCO_TYPE_U32, 4),
    TYPE(INT64_T, LOCO_TYPE_I64, 8), TYPE(UINT64_T, LOCO_TYPE_U64, 8),
    TYPE(LONG, SIGNED(sizeof(long)), sizeof(long)),
    TYPE(UNSIGNED_LONG, UNSIGNED(sizeof(long)), sizeof(long)),
    TYPE(AINT, SIGNED(sizeof(MPI_Aint)), sizeof(MPI_Aint)),
    TYPE(OFFSET, SIGNED(sizeof(MPI_Offset)), sizeof(MPI_Offset)),
    TYPE(COUNT, SIGNED(sizeof(MPI_Count)), sizeof(MPI_Count)),
    TYPE(FLOAT, LOCO_TYPE_F32, sizeof(float)), TYPE(DOUBLE, LOCO_TYPE_F64, sizeof(double)),
    TYPE(LONG_DOUBLE, LOCO_TYPE_LONG_DOUBLE, sizeof(long double)),
    TYPE(BOOL, LOCO_TYPE_BOOL8, 1), TYPE(C_BOOL, LOCO_TYPE_BOOL8, 1),
    TYPE(C_COMPLEX, LOCO_TYPE_C32, 2 * sizeof(float)),
    TYPE(C_FLOAT_COMPLEX, LOCO_TYPE_C32, 2 * sizeof(float)),
    TYPE(C_DOUBLE_COMPLEX, LOCO_TYPE_C64, 2 * sizeof(double)),
    TYPE(C_LONG_DOUBLE_COMPLEX, LOCO_TYPE_C_LONG_DOUBLE, 2 * sizeof(long double)),
    MOVES(WCHAR, UNSIGNED(sizeof(wchar_t)), sizeof(wchar_t)), MOVES(PACKED, LOCO_TYPE_BYTE, 1),

    /* Fortran's; describe() compares with the size, which depends on the compiler. */
    MOVES(CHARACTER, LOCO_TYPE_U8, 1), TYPE(LOGICAL, LOCO_TYPE_LOGICAL32, 4),
    TYPE(INTEGER, SIGNED(OMPI_SIZEOF_FORTRAN_INTEGER), OMPI_SIZEOF_FORTRAN_INTEGER),
    TYPE(REAL, LOCO_TYPE_F32, 4), TYPE(DOUBLE_PRECISION, LOCO_TYPE_F64, 8),
    TYPE(COMPLEX8, LOCO_TYPE_C32, 8), TYPE(COMPLEX16, LOCO_TYPE_C64, 16),
    TYPE(COMPLEX, LOCO_TYPE_C32, 8), TYPE(DOUBLE_COMPLEX, LOCO_TYPE_C64, 16),

    PAIR(SHORT_INT, LOCO_TYPE_I16_INT, short_int), PAIR(2INT, LOCO_TYPE_I32_INT, int_int),
    PAIR(LONG_INT, sizeof(long) == 8 ? LOCO_TYPE_I64_INT : LOCO_TYPE_I32_INT, long_int),
    PAIR(FLOAT_INT, LOCO_TYPE_F32_INT, float_int),
    PAIR(DOUBLE_INT, LOCO_TYPE_F64_INT, double_int),
    PAIR(LONG_DOUBLE_INT, LOCO_TYPE_LONG_DOUBLE_INT, long_double_int),
    PAIR(2INTEGER, LOCO_TYPE_I32_INT, int_int), PAIR(2REAL, LOCO_TYPE_F32_F32, float_float),
    PAIR(2DBLPREC, LOCO_TYPE_F64_F64, double_double),
};

/* Of a predefined type; false where no accumulate takes it. */
static bool describe(const struct ompi_datatype_t *basic, struct ompi_osc_loco_element *element)
{
    size_t size = basic->super.size;

    *element = ompi_osc_loco_elements[basic->id];
    /* Fortran's types of another size than the row's, and REAL*16, which is not long double
     * though it has its number, can only be moved, as something of their size. */
    if (element->packed == size && basic != &ompi_mpi_real16.dt)
        return true;
    if (size != 32 && size != 16 && size != 8 && size != 4 && size != 2 && size != 1)
        return false;
    element->type = size == 32 ? LOCO_TYPE_C_LONG_DOUBLE : size == 16 ? LOCO_TYPE_C64
                                                                      : UNSIGNED(size);
    element->moves_only = true;
    element->extent = element->packed = (unsigned char)size;
    element->second = 0;
    return true;
}

int ompi_osc_loco_element_of(struct ompi_datatype_t *type, struct ompi_osc_loco_element *element)
{
    struct ompi_datatype_t *basic = type;

    if (!ompi_datatype_is_predefined(type))
        basic = ompi_datatype_get_single_predefined_type_from_args(type);
    if (basic == NULL) {
        /* Built of several predefined types: the standard has no accumulate for it, Open MPI
         * lets replacements pass. */
        *element = (struct ompi_osc_loco_element){ LOCO_TYPE_BYTE, true, 1, 1, 0 };
        return MPI_SUCCESS;
    }
    if (basic->id < 0 || basic->id >= OMPI_DATATYPE_MPI_MAX_PREDEFINED)
        return MPI_ERR_TYPE;
    return describe(basic, element) ? MPI_SUCCESS : MPI_ERR_TYPE;
}

const unsigned char ompi_osc_loco_ops[OMPI_OP_NUM_OF_TYPES] = {
    [OMPI_OP_NULL] = LOCO_OP_COUNT,
    [OMPI_OP_MAX] = LOCO_OP_MAX, [OMPI_OP_MIN] = LOCO_OP_MIN,
    [OMPI_OP_SUM] = LOCO_OP_SUM, [OMPI_OP_PROD] = LOCO_OP_PROD,
    [OMPI_OP_LAND] = LOCO_OP_LAND, [OMPI_OP_BAND] = LOCO_OP_BAND,
    [OMPI_OP_LOR] = LOCO_OP_LOR, [OMPI_OP_BOR] = LOCO_OP_BOR,
    [OMPI_OP_LXOR] = LOCO_OP_LXOR, [OMPI_OP_BXOR] = LOCO_OP_BXOR,
    [OMPI_OP_MAXLOC] = LOCO_OP_MAXLOC, [OMPI_OP_MINLOC] = LOCO_OP_MINLOC,
    [OMPI_OP_REPLACE] = LOCO_OP_REPLACE,
};

bool ompi_osc_loco_is_dense(const struct ompi_osc_loco_side *side,
                            const struct ompi_osc_loco_element *element)
{
    if (element->packed == element->extent && element->second == 0)
        return ompi_osc_loco_is_run(side);
    /* Pairs: their predefined type itself, whose extent is the C struct's. */
    return ompi_datatype_is_predefined(side->type)
           && (size_t)(side->type->super.ub - side->type->super.lb) == element->extent;
}

/* The next element of a pair, in one run or two. */
static size_t next_pair(struct ompi_osc_loco_cursor *cursor,
                        const struct ompi_osc_loco_element *element, uint64_t *base)
{
    size_t left = element->packed, len;
    uint64_t at;

    if (!ompi_osc_loco_cursor_peek(cursor, base, &len))
        return 0;
    for (;;) {
        ompi_osc_loco_cursor_skip(cursor, len < left ? len : left);
        if (len >= left)
            return 1;
        left -= len;
        if (!ompi_osc_loco_cursor_peek(cursor, &at, &len))
            return 0;
    }
}

size_t ompi_osc_loco_next_elements(struct ompi_osc_loco_cursor *cursor,
                                   const struct ompi_osc_loco_element *element, size_t most,
                                   uint64_t *base)
{
    size_t len, n;

    if (element->second != 0)
        return next_pair(cursor, element, base);
    if (!ompi_osc_loco_cursor_peek(cursor, base, &len))
        return 0;
    n = len / element->extent < most ? len / element->extent : most;
    ompi_osc_loco_cursor_skip(cursor, n * element->extent);
    return n;
}

void ompi_osc_loco_copy_elements(const struct ompi_osc_loco_element *element, size_t n, void *to,
                                 const void *from)
{
    size_t index = element->type == LOCO_TYPE_F64_F64 ? sizeof(double) : sizeof(int);
    char *sink = to;
    const char *source = from;

    if (element->second == 0) {
        memcpy(to, from, n * element->extent);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(sink, source, element->packed - index);
        memcpy(sink + element->second, source + element->second, index);
        sink += element->extent;
        source += element->extent;
    }
}
