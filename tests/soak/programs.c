/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * programs [SEED COUNT]: what the generator makes and what the shrinker cuts is a whole program:
 * the model takes each of its statements, and nothing stays open. Runs no MPI; speaks TAP.
 */
#include "close.h"
#include "generate.h"
#include "shrink.h"

#include <stdlib.h>
#include <string.h>

#include "testlib.h"

static long programs, wrong;

static char *text_of(const struct program *p)
{
    char *text;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);

    program_print(p, f);
    fclose(f);
    return text;
}

/* As `batch` would see it. */
static bool is_whole(const struct program *p, char *why)
{
    struct program read;
    char *text = text_of(p);
    struct model *m;
    bool whole = program_parse(&read, text, why, WHY);

    free(text);
    if (!whole)
        return false;
    m = model_new(&read);
    for (int i = 0; i < read.n && whole; i++)
        whole = model_step(m, &read.s[i], why);
    whole = whole && model_over(m, why);
    model_free(m);
    program_free(&read);
    return whole;
}

static void look(const struct program *p, uint64_t seed, int ranks, int threads, const char *how)
{
    char why[WHY];

    programs++;
    if (is_whole(p, why))
        return;
    if (++wrong <= 20)
        printf("# seed %llu, %d ranks, %d threads, %s: %s\n", (unsigned long long)seed, ranks,
               threads, how, why);
}

/* A cut is as random as what it is cut from: any statement may be missing. */
static void cut(const struct program *p, uint64_t seed, int ranks, int threads)
{
    bool *keep = calloc((size_t)p->n + 1, sizeof *keep);
    uint64_t state = seed;
    struct program out;

    for (int i = 0; i < p->n; i++)
        keep[i] = tl_random(&state) % 4 != 0;
    if (edit_keep(p, keep, &out)) {
        look(&out, seed, ranks, threads, "cut");
        program_free(&out);
    }
    if (ranks > 1 && edit_without_rank(p, (int)(seed % (uint64_t)ranks), &out)) {
        look(&out, seed, ranks, threads, "a rank less");
        program_free(&out);
    }
    free(keep);
}

static void one(uint64_t seed, int ranks, int threads)
{
    struct program p;

    model_free(generate(&p, seed, ranks, threads));
    look(&p, seed, ranks, threads, "generated");
    cut(&p, seed, ranks, threads);
    program_free(&p);
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    int count = argc > 2 ? atoi(argv[2]) : 25;

    for (int i = 0; i < count; i++)
        for (int ranks = 1; ranks <= SOAK_RANKS; ranks++) {
            one(seed + (uint64_t)i, ranks, 1);
            one(seed + (uint64_t)i, ranks, SOAK_THREADS);
        }
    /* A thread had locked while another's last use of the target was not known to it: it could not
     * unlock before they had met, and they could not meet, as others might wait for the lock. */
    one(1005097, 5, SOAK_THREADS);
    printf("1..1\n%sok 1 - %ld programs, %ld that do not end\n", wrong > 0 ? "not " : "", programs,
           wrong);
    return wrong > 0;
}
