/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef OSC_LOCO_STRIP_H
#define OSC_LOCO_STRIP_H

/* Types of one strip, blocks at equal distances: a vector, a column of a matrix. Open MPI describes
 * a committed type by a list of items, and these are one item. */

#include "osc_loco.h"

#include <string.h>

#include "opal/datatype/opal_datatype_internal.h"

static inline const dt_type_desc_t *ompi_osc_loco_description(const opal_datatype_t *type)
{
    return type->opt_desc.desc != NULL ? &type->opt_desc : &type->desc;
}

static inline bool ompi_osc_loco_is_one_item(const dt_type_desc_t *described)
{
    return described->used == 1
           && (described->desc->elem.common.flags & OPAL_DATATYPE_FLAG_DATA) != 0;
}

/* Bytes of a block. */
static inline size_t ompi_osc_loco_block(const ddt_elem_desc_t *item)
{
    return item->blocklen * opal_datatype_basicDatatypes[item->common.type]->size;
}

/* Copies `n` blocks of `len` bytes that lie at equal distances. Short blocks are moved by one load
 * and one store: a call of memcpy takes longer; `len` is a constant for that. By `fours`, at
 * distances that are known before, or the loop would take as long as the moves. */
static inline __attribute__((always_inline)) void
ompi_osc_loco_copy_each(char *to, ptrdiff_t to_stride, const char *from, ptrdiff_t from_stride,
                        const size_t len, size_t n, bool fours)
{
    for (; n >= 4 && fours; n -= 4, to += 4 * to_stride, from += 4 * from_stride) {
        memcpy(to, from, len);
        memcpy(to + to_stride, from + from_stride, len);
        memcpy(to + 2 * to_stride, from + 2 * from_stride, len);
        memcpy(to + 3 * to_stride, from + 3 * from_stride, len);
    }
    for (; n > 0; n--, to += to_stride, from += from_stride)
        memcpy(to, from, len);
}

/* The same for any length, by fours where that is faster (osc_loco_runs.c). */
void ompi_osc_loco_copy_blocks(char *to, ptrdiff_t to_stride, const char *from,
                               ptrdiff_t from_stride, size_t len, size_t n);

#endif /* OSC_LOCO_STRIP_H */
