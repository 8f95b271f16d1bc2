/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends for what a program has left open. */
#include "close.h"

bool program_try(struct program *p, struct model *m, const struct statement *s)
{
    char why[WHY];
    struct statement copy = *s;

    copy.line = p->n + 1;
    if (!model_step(m, &copy, why))
        return false;
    program_add(p, &copy);
    return true;
}

static struct statement plain(enum verb verb, int rank, int win)
{
    return (struct statement){.verb = verb, .rank = rank, .win = win, .request = -1};
}

/* By the first thread of the process that may. */
static bool try_threads(struct program *p, struct model *m, struct statement s)
{
    for (s.thread = 0; s.thread < p->threads; s.thread++)
        if (program_try(p, m, &s))
            return true;
    return false;
}

static void join_threads(struct program *p, struct model *m)
{
    struct statement s = plain(V_JOIN, 0, 0);

    for (; p->threads > 1 && s.rank < p->ranks; s.rank++)
        program_try(p, m, &s);
}

static void unlock_all(struct program *p, struct model *m, int win)
{
    for (int r = 0; r < p->ranks; r++) {
        struct statement s = plain(V_UNLOCK, r, win);
        for (s.target = 0; s.target < p->ranks; s.target++)
            if (model_locked(m, win, r, s.target))
                try_threads(p, m, s);
        s = plain(V_UNLOCK_ALL, r, win);
        if (model_locked_all(m, win, r))
            try_threads(p, m, s);
    }
}

/* Who was posted for and has not started yet does so now. */
static void end_active(struct program *p, struct model *m, int win)
{
    for (int r = 0; r < p->ranks; r++)
        if (model_started(m, win, r))
            try_threads(p, m, plain(V_COMPLETE, r, win));
    for (int r = 0; r < p->ranks; r++) {
        for (int asserts = 0; asserts <= MPI_MODE_NOCHECK; asserts += MPI_MODE_NOCHECK) {
            for (int t = 0; t < p->ranks; t++) {
                struct statement s = plain(V_START, r, win);
                s.asserts = asserts;
                s.list[s.n++] = t;
                if (model_posted(m, win, t, r) && try_threads(p, m, s))
                    try_threads(p, m, plain(V_COMPLETE, r, win));
            }
        }
    }
    for (int r = 0; r < p->ranks; r++)
        if (model_exposed(m, win, r))
            try_threads(p, m, plain(V_WAIT, r, win));
    if (model_fence_used(m, win))
        program_try(p, m, &(struct statement){.verb = V_FENCE, .rank = -1, .win = win,
                                              .request = -1});
}

static bool in_active(const struct program *p, const struct model *m, int win)
{
    for (int r = 0; r < p->ranks; r++)
        if (model_started(m, win, r) || model_exposed(m, win, r))
            return true;
    return model_fence_used(m, win);
}

/* MPI_MODE_NOCHECK at start wants the post to be over. */
static void meet_if_posted(struct program *p, struct model *m, int win)
{
    struct statement s = plain(V_BARRIER, -1, 0);

    s.comm = p->window[win].comm;
    for (int r = 0; r < p->ranks; r++)
        if (model_exposed(m, win, r)) {
            program_try(p, m, &s);
            return;
        }
}

static bool any_open(const struct program *p, const struct model *m, int win)
{
    for (int w = 0; w < p->windows; w++) {
        if ((win >= 0 && w != win) || !model_window_open(m, w))
            continue;
        for (int r = 0; r < p->ranks; r++)
            for (int t = 0; t < p->ranks; t++)
                if (model_locked(m, w, r, t) || model_locked_all(m, w, r))
                    return true;
        if (in_active(p, m, w))
            return true;
    }
    return false;
}

void program_end_epochs(struct program *p, struct model *m, int win)
{
    for (int w = 0; w < p->windows; w++)
        if (win < 0 || w == win)
            unlock_all(p, m, w);
    if (!any_open(p, m, win))
        return;
    join_threads(p, m);
    for (int w = 0; w < p->windows; w++) {
        if ((win >= 0 && w != win) || !model_window_open(m, w))
            continue;
        unlock_all(p, m, w);
        for (int round = 0; round < 2 && in_active(p, m, w); round++) {
            end_active(p, m, w);
            if (in_active(p, m, w)) {
                meet_if_posted(p, m, w);
                join_threads(p, m);
            }
        }
    }
}

void program_wait_requests(struct program *p, struct model *m, int rank, int thread)
{
    struct statement s = plain(V_WAITALL, rank, 0);

    s.thread = thread;
    s.n = model_requests(m, rank, s.list, SOAK_LIST);
    if (s.n > 0)
        program_try(p, m, &s);
}

static void free_window(struct program *p, struct model *m, int win)
{
    struct statement s = plain(V_BARRIER, -1, 0);
    bool detached = true;

    s.comm = p->window[win].comm;
    program_try(p, m, &s);
    for (int i = 0; i < p->window[win].parts && p->window[win].flavor == DYNAMIC; i++) {
        s = plain(V_DETACH, p->window[win].part[i].owner, win);
        s.part = i;
        detached &= !model_attached(m, win, i) || program_try(p, m, &s);
    }
    s = plain(V_FREE, -1, win);
    if (detached)
        program_try(p, m, &s);
}

/* Other threads' operations may have to be known first. */
static void free_windows(struct program *p, struct model *m)
{
    for (int round = 0; round < 2; round++) {
        for (int w = 0; w < p->windows; w++)
            if (model_window_open(m, w))
                free_window(p, m, w);
        for (int w = 0; w < p->windows && round == 0; w++)
            if (model_window_open(m, w)) {
                join_threads(p, m);
                break;
            }
    }
}

bool program_close(struct program *p, struct model *m)
{
    char why[WHY];
    int request;

    program_end_epochs(p, m, -1);
    program_end_epochs(p, m, -1);
    for (int r = 0; r < p->ranks; r++)
        while (model_requests(m, r, &request, 1) > 0) {
            int before = p->n;
            program_wait_requests(p, m, r, 0);
            if (p->n == before)
                join_threads(p, m);
            if (p->n == before)
                return false;
        }
    free_windows(p, m);
    return model_over(m, why);
}
