/* SPDX-License-Identifier: BSD-3-Clause */

/* A window's memory as a region, for native calls. */

#include "config.h"

#include "base/region.h"
#include "window.h"

static struct loci_mem *part(void *owner, int rank)
{
    struct loco_window *win = owner;

    return &win->target[rank].mem;
}

int loci_window_region(struct loco_window *win, loco_region_t **out)
{
    const struct loci_region_view view = {
        .owner = win, .part = part, .base = win->base,
        .rank = win->group.rank, .size = win->group.size,
    };

    if (win->kind == LOCO_WINDOW_DYNAMIC)
        return LOCO_ERR_ARG;
    return loci_region_of_view(win->rt, &view, out);
}
