/* SPDX-License-Identifier: BSD-3-Clause */

/* Short puts and gets that wait to be sent together.
 *
 * They wait until the next synchronization call on the window, whichever it is, and no longer: from
 * then on the target may poll for what was put, and the origin need not call anything any more. A
 * flush_local is such a call, and so is the wait for a request: puts that have an ack of their own
 * are never deferred.
 *
 * One into or from memory that the user brought costs a system call, which takes many of them as
 * well as one. So where one thread calls, such puts are copied to lists of this process, one for
 * each member that they go to, and sent: when a list is full, before anything else is done in the
 * window, or when the origin synchronizes. Gets that are
 * LOCO_UNTIL_FLUSH make such lists as well; but the first after a flush goes at once, for where it
 * is the only one a list costs more than it saves. So does the first put of more than RUN_LEN;
 * those behind it are copied twice, up to COPIED_LEN, in a third of the time of a call each.
 *
 * Those through a device are deferred, too, for a doorbell, which soft-RoCE has as a system call,
 * takes several as well as one; but only those to the member of the one before, which goes at once,
 * so that whoever puts one and then computes has it done meanwhile, and each by itself, as the
 * program made them. Those over TCP are, too, but neighbours become one: the owner's CPU lands
 * them, and both ends are spared a frame for each.
 *
 * Operations between two flushes have no order, so all lists may be sent whenever one has to be. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "window.h"

#define RUNS 128                /* of a list */
#define RUN_LEN 64              /* bytes of one that may be deferred */
#define COPIED_LEN 2048         /* the same where the system copies, behind another one */
#define DATA_LEN 16384          /* of all puts of a list */
_Static_assert(DATA_LEN <= LOCI_STRIDED_BYTES, "neighbours that became one are moved packed");
#define LISTS 32                /* members share them by their ranks */

struct list {
    int n;                      /* runs; 0: it is nobody's */
    int rank;
    enum loci_op_kind kind;
    size_t bytes;               /* of all runs */
    struct loco_span span[RUNS];
    unsigned char data[DATA_LEN];
};

struct loci_deferred {
    struct list *list[LISTS];   /* by rank; made on first use */
    int used[LISTS], nused;     /* those that have runs */
};

static int send_list(struct loco_window *win, struct list *list)
{
    size_t n = (size_t)list->n;

    list->n = 0;
    if (list->kind == LOCI_WRITE)
        return loci_window_move_packed(win, list->rank, LOCI_WRITE, list->span, n);
    return loci_window_move(win, list->rank, LOCI_READ, list->span, n, LOCO_UNTIL_FLUSH);
}

/* Whatever becomes of them, they are not deferred any more: the first error is told, and once. */
int loci_window_send_deferred(struct loco_window *win)
{
    struct loci_deferred *d = win->deferred;
    int status = LOCO_OK, n = d->nused;

    win->deferred_runs = 0;     /* what sends them would send them, too */
    d->nused = 0;
    for (int i = 0; i < n; i++) {
        int sent = send_list(win, d->list[d->used[i]]);

        status = status == LOCO_OK ? sent : status;
    }
    return status;
}

static size_t longest(const struct loco_window *win)
{
    return win->synchronous ? COPIED_LEN : RUN_LEN;
}

bool loci_window_may_defer(const struct loco_window *win, int rank, enum loci_op_kind kind,
                           size_t len, const loco_ack_t *ack)
{
    bool copied = kind == LOCI_WRITE && ack == NULL, at_once;

    if (len > longest(win) || !win->one_thread || rank == win->group.rank
        || (ack != LOCO_UNTIL_FLUSH && !copied))
        return false;
    at_once = win->under_way < 0 && (kind == LOCI_READ || len > RUN_LEN);
    if (win->synchronous)
        return win->kind == LOCO_WINDOW_CREATE && !at_once;
    return win->kind != LOCO_WINDOW_DYNAMIC && rank == win->under_way;
}

void loci_window_deferred_free(struct loco_window *win)
{
    for (int i = 0; win->deferred != NULL && i < LISTS; i++)
        free(win->deferred->list[i]);
    free(win->deferred);
}

static struct list **list_of(struct loco_window *win, int rank)
{
    if (win->deferred == NULL)
        win->deferred = calloc(1, sizeof *win->deferred);
    return win->deferred == NULL ? NULL : &win->deferred->list[rank % LISTS];
}

static bool has_room(const struct loco_window *win, const struct list *list)
{
    return list->n < (win->synchronous ? RUNS : LOCI_CHAIN)
           && list->bytes <= DATA_LEN - longest(win);
}

/* A list with room for one more of that kind to or from that member. LOCO_ERR_NO_MEMORY, or how
 * others were sent that were in the way. */
static int open_list(struct loco_window *win, int rank, enum loci_op_kind kind, struct list **out)
{
    struct list **at = list_of(win, rank), *list;
    int status = LOCO_OK;

    if (at != NULL && *at == NULL && (*at = malloc(sizeof **at)) != NULL)
        (*at)->n = 0;
    if (at == NULL || *at == NULL)
        return LOCO_ERR_NO_MEMORY;
    list = *at;
    if (list->n > 0 && (list->rank != rank || list->kind != kind || !has_room(win, list)))
        status = loci_window_send_deferred(win);
    if (status == LOCO_OK && list->n == 0) {
        list->rank = rank;
        list->kind = kind;
        list->bytes = 0;
        win->deferred->used[win->deferred->nused++] = rank % LISTS;
    }
    *out = list;
    return status;
}

static bool merges(const struct loco_window *win)
{
    return win->synchronous || win->rt->ops->owner_atomics;
}

/* One that begins where the last one ended, there and here, makes that longer, where a CPU does
 * it: what is copied costs by the piece. */
static void add_run(struct loco_window *win, struct list *list, void *local,
                    const struct loco_span *span)
{
    struct loco_span *last = list->n > 0 ? &list->span[list->n - 1] : NULL;

    if (last != NULL && merges(win)
        && span->offset == last->offset + last->len
        && (unsigned char *)local == (unsigned char *)last->local + last->len) {
        last->len += span->len;
    } else {
        list->span[list->n++] = (struct loco_span){ local, span->offset, span->len };
        win->deferred_runs++;
    }
    list->bytes += span->len;
}

int loci_window_defer(struct loco_window *win, int rank, enum loci_op_kind kind,
                      const struct loco_span *span)
{
    void *local = span->local;
    struct list *list;
    int status = open_list(win, rank, kind, &list);

    if (status != LOCO_OK)
        return status;
    if (kind == LOCI_WRITE) {
        local = list->data + list->bytes;       /* packed, so that neighbours there are here */
        memcpy(local, span->local, span->len);
    }
    add_run(win, list, local, span);
    win->under_way = rank;
    return LOCO_OK;
}
