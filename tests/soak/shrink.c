/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shrinking: all cuts of a program that are worth trying go into one job; the smallest of those
 * that fail is the next program to cut, until none fails.
 */
#include "shrink.h"

#include <stdlib.h>
#include <string.h>

enum { CUTS = 400, ROUNDS = 60 };

struct search {
    struct job job;
    char file[4096];
    struct program *p;          /* the smallest that failed */
    char *why;
    size_t room;
    struct program cut[CUTS];
    long size[CUTS];
    int cuts;
    int run;                    /* the statements that the last cut of them took out */
};

/* A program of its own, whatever it was cut from. */
static bool own(const struct program *p, struct program *out)
{
    char *text, why[300];
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    bool done;

    program_print(p, f);
    fclose(f);
    done = program_parse(out, text, why, sizeof why);
    free(text);
    return done;
}

static void offer(struct search *s, struct program *cut)
{
    struct program mine;
    long size = program_size(cut);

    if (s->cuts == CUTS || size >= program_size(s->p) || !own(cut, &mine)) {
        program_free(cut);
        return;
    }
    program_free(cut);
    s->size[s->cuts] = size;
    s->cut[s->cuts++] = mine;
}

static void write_cuts(const struct search *s)
{
    FILE *f = fopen(s->file, "w");

    for (int i = 0; i < s->cuts && f != NULL; i++)
        program_print(&s->cut[i], f);
    if (f != NULL)
        fclose(f);
}

/* Runs what was offered; takes the smallest that fails. */
static bool take(struct search *s)
{
    struct result r;
    int best = -1;

    if (s->cuts == 0)
        return false;
    write_cuts(s);
    s->job.ranks = s->cut[0].ranks;
    s->job.threads = s->cut[0].threads;
    launch(&s->job, &r);
    for (int i = 0; i < r.failures; i++) {
        int k = r.failure[i].number;
        if (r.failure[i].end != E_INVALID && k >= 0 && k < s->cuts && r.programs > 0 &&
            (best < 0 || s->size[k] < s->size[r.failure[best].number]))
            best = i;
    }
    if (best >= 0) {
        struct program smaller = s->cut[r.failure[best].number];
        program_init(&s->cut[r.failure[best].number]);
        program_free(s->p);
        *s->p = smaller;
        snprintf(s->why, s->room, "%s: %s", end_name(r.failure[best].end), r.failure[best].why);
    }
    for (int i = 0; i < s->cuts; i++)
        program_free(&s->cut[i]);
    s->cuts = 0;
    result_free(&r);
    return best >= 0;
}

static bool fewer_ranks(struct search *s)
{
    for (int r = 0; r < s->p->ranks; r++) {
        struct program cut;
        if (s->p->ranks > 1 && edit_without_rank(s->p, r, &cut))
            offer(s, &cut);
    }
    return take(s);
}

static bool fewer_windows(struct search *s)
{
    bool *keep = calloc((size_t)s->p->n + 1, sizeof *keep);

    for (int w = 0; w < s->p->windows && s->p->windows > 1; w++) {
        struct program cut;
        for (int i = 0; i < s->p->n; i++)
            keep[i] = s->p->s[i].win != w || s->p->s[i].verb == V_BARRIER ||
                      s->p->s[i].verb == V_SIGNAL || s->p->s[i].verb == V_JOIN;
        if (edit_keep(s->p, keep, &cut))
            offer(s, &cut);
    }
    free(keep);
    return take(s);
}

/* Without one run of so many statements, each in turn. */
static bool fewer_by(struct search *s, int size, bool *keep)
{
    int n = s->p->n;

    for (int start = 0; start < n && s->cuts < CUTS; start += size) {
        struct program cut;
        for (int i = 0; i < n; i++)
            keep[i] = i < start || i >= start + size;
        if (edit_keep(s->p, keep, &cut))
            offer(s, &cut);
    }
    return take(s);
}

/* A job for each length of the runs, longest first, from twice that of the last one that did: most
 * of a long program goes in a few jobs of a few cuts. */
static bool fewer_statements(struct search *s)
{
    int n = s->p->n, size = s->run > 0 && 2 * s->run < n / 2 ? 2 * s->run : n / 2;
    bool *keep = calloc((size_t)n + 1, sizeof *keep);

    for (; size >= 1; size /= 2)
        if (fewer_by(s, size, keep)) {
            s->run = size;
            free(keep);
            return true;
        }
    for (int i = 0; i < n; i++)             /* pairs that only go together */
        for (int k = i + 1; k < n && n <= 24 && s->cuts < CUTS; k++) {
            struct program cut;
            for (int j = 0; j < n; j++)
                keep[j] = j != i && j != k;
            if (edit_keep(s->p, keep, &cut))
                offer(s, &cut);
        }
    free(keep);
    return take(s);
}

static bool simpler(struct search *s)
{
    bool more = true;

    for (int i = 0; more; i++) {
        struct program cut;
        if (edit_simpler(s->p, i, &more, &cut))
            offer(s, &cut);
    }
    return take(s);
}

/* Fails it again? How often it has to be tried is what all cuts are tried then. */
static bool again(struct search *s)
{
    static const int repeats[3] = {1, 10, 100};
    struct result r;

    s->cuts = 0;
    for (int i = 0; i < 3; i++) {
        FILE *f = fopen(s->file, "w");
        bool failed;
        if (f == NULL)
            return false;
        program_print(s->p, f);
        fclose(f);
        s->job.ranks = s->p->ranks;
        s->job.threads = s->p->threads;
        s->job.repeat = repeats[i];
        launch(&s->job, &r);
        failed = r.failures > 0 && r.failure[0].end != E_INVALID && r.programs > 0;
        if (failed)
            snprintf(s->why, s->room, "%s: %s", end_name(r.failure[0].end), r.failure[0].why);
        result_free(&r);
        if (failed) {
            s->job.repeat = i == 0 ? 2 : 2 * repeats[i];
            return true;
        }
    }
    return false;
}

bool shrink(struct program *p, const struct job *like, char *why, size_t room)
{
    struct search *s = calloc(1, sizeof *s);
    bool failed, progress = true;

    s->job = *like;
    s->job.file = s->file;
    s->job.patience = like->patience < 20 ? like->patience : 20;
    s->p = p;
    s->why = why;
    s->room = room;
    snprintf(s->file, sizeof s->file, "%s/cuts", like->folder);
    failed = again(s);
    for (int round = 0; failed && progress && round < ROUNDS; round++)
        progress = fewer_windows(s) || fewer_ranks(s) || fewer_statements(s) || simpler(s);
    free(s);
    return failed;
}
