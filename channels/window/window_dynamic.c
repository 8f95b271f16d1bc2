/* SPDX-License-Identifier: BSD-3-Clause */

/* Attached regions of a dynamic window: attach and detach. The regions of a member are in a tree
 * that it alone changes and others search (window_tree.h, window_search.c). Each access looks
 * before and after whether its region is attached: so a key is never used once its region's detach
 * has returned, and an access that ran into one is told LOCO_ERR_RANGE. (An access while its region
 * is being detached is the program's error, and may still reach the memory.) */

#include "config.h"

#include <stdlib.h>

#include "window.h"
#include "window_tree.h"

_Static_assert(sizeof(struct loci_tree_head) <= LOCI_WINDOW_ROWS - LOCI_WINDOW_REGIONS,
               "head too large");

/* ---- life ---- */

int loci_regions_open(struct loco_window *win)
{
    win->views = calloc((size_t)win->group.size, sizeof win->views[0]);
    win->tree = calloc(1, sizeof *win->tree);
    if (win->views == NULL || win->tree == NULL) {
        free(win->views);
        free(win->tree);
        win->views = NULL;
        win->tree = NULL;
        return LOCO_ERR_NO_MEMORY;
    }
    loci_tree_open(win->tree, win->rt, loci_mem_ptr(&win->own_control) + LOCI_WINDOW_REGIONS);
    pthread_mutex_init(&win->regions_lock, NULL);
    return LOCO_OK;
}

void loci_regions_close(struct loco_window *win)
{
    if (win->tree == NULL)
        return;
    loci_tree_close(win->tree);
    loci_regions_forget(win);
    free(win->tree);
    free(win->nothing);
    pthread_mutex_destroy(&win->regions_lock);
}

/* ---- regions ---- */

static int attach(struct loco_window *win, void *base, size_t len)
{
    struct loci_mem region;
    int status;

    if (loci_tree_overlaps(win->tree, (uintptr_t)base, len))
        return LOCO_ERR_ATTACH;
    status = loci_tree_reserve(win->tree);
    if (status == LOCO_OK)
        status = loci_user_add(win->rt, base, len, &region);
    if (status == LOCO_OK)
        loci_tree_insert(win->tree, &region.key);
    return status;
}

/* A region of no bytes contains nothing of another, wherever it is: as good as none. */
static int attach_nothing(struct loco_window *win, const void *base)
{
    size_t count = (size_t)win->nothing_count + 1;
    const void **nothing = realloc(win->nothing, count * sizeof *nothing);

    if (nothing == NULL)
        return LOCO_ERR_NO_MEMORY;
    nothing[count - 1] = base;
    win->nothing = nothing;
    win->nothing_count++;
    return LOCO_OK;
}

static int detach_nothing(struct loco_window *win, const void *base)
{
    for (int i = 0; i < win->nothing_count; i++)
        if (win->nothing[i] == base) {
            win->nothing[i] = win->nothing[--win->nothing_count];
            return LOCO_OK;
        }
    return LOCO_ERR_ATTACH;
}

int loco_window_attach(loco_window_t *win, void *base, size_t len)
{
    int status;

    if (win->kind != LOCO_WINDOW_DYNAMIC)
        return LOCO_ERR_STATE;
    if (base == NULL || len > SIZE_MAX / 2 || (uintptr_t)base > UINTPTR_MAX - len)
        return LOCO_ERR_ARG;
    pthread_mutex_lock(&win->regions_lock);
    status = len > 0 ? attach(win, base, len) : attach_nothing(win, base);
    pthread_mutex_unlock(&win->regions_lock);
    return status;
}

static int detach(struct loco_window *win, const void *base)
{
    struct loci_mem region;

    if (!loci_tree_has(win->tree, (uintptr_t)base, &region.key))
        return detach_nothing(win, base);
    loci_tree_remove(win->tree, (uintptr_t)base);
    loci_user_remove(win->rt, &region);
    return LOCO_OK;
}

int loco_window_detach(loco_window_t *win, const void *base)
{
    int status;

    if (win->kind != LOCO_WINDOW_DYNAMIC)
        return LOCO_ERR_STATE;
    pthread_mutex_lock(&win->regions_lock);
    status = detach(win, base);
    pthread_mutex_unlock(&win->regions_lock);
    return status;
}
