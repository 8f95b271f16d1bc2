/* SPDX-License-Identifier: BSD-3-Clause */

/* What the stamps of a round say. */

#include "smallbank.h"

#include <string.h>

#define BINS (int)(BANK_WINDOW / BANK_BIN)      /* on either side */

struct span {
    int64_t from, to;
};

/* The first of a process's stamps that is not before `at`. */
static uint32_t first_from(const struct bank_member *m, int64_t at)
{
    uint32_t low = 0, high = atomic_load(&m->n);

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (m->stamp[mid] < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int64_t longer(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Without a commit of this process; from the beginning of the span, and to its end. */
static int64_t gap_of(const struct bank_member *m, struct span span)
{
    int64_t last = span.from, gap = 0;

    for (uint32_t i = first_from(m, span.from); i < m->n && m->stamp[i] < span.to; i++) {
        gap = longer(gap, m->stamp[i] - last);
        last = m->stamp[i];
    }
    return longer(gap, span.to - last);
}

/* Without one of any of them. */
static int64_t gap_of_all(const struct bank *bank, bool victim, struct span span)
{
    uint32_t at[BANK_PROCESSES];
    int64_t last = span.from, gap = 0;

    for (int i = 0; i < BANK_PROCESSES; i++)
        at[i] = first_from(&bank->member[i], span.from);
    for (;;) {
        int next = -1;

        for (int i = 0; i < BANK_PROCESSES; i++)
            if ((victim || i != bank->victim) && at[i] < bank->member[i].n
                && (next < 0 || bank->member[i].stamp[at[i]]
                                < bank->member[next].stamp[at[next]]))
                next = i;
        if (next < 0 || bank->member[next].stamp[at[next]] >= span.to)
            break;
        gap = longer(gap, bank->member[next].stamp[at[next]] - last);
        last = bank->member[next].stamp[at[next]++];
    }
    return longer(gap, span.to - last);
}

/* Into the bins from `moment - BANK_WINDOW` on. */
static void count(const struct bank *bank, int64_t moment, uint32_t *bins)
{
    int64_t from = moment - BANK_WINDOW, to = moment + BANK_WINDOW;

    memset(bins, 0, 2 * BINS * sizeof *bins);
    for (int i = 0; i < BANK_PROCESSES; i++) {
        const struct bank_member *m = &bank->member[i];

        for (uint32_t k = first_from(m, from); k < m->n && m->stamp[k] < to; k++)
            bins[(m->stamp[k] - from) / BANK_BIN]++;
    }
}

void bank_look(const struct bank *bank, int64_t moment, struct bank_times *t,
               struct bank_line *line)
{
    const struct span before = { moment - BANK_WINDOW, moment };
    const struct span after = { moment, moment + BANK_WINDOW };
    uint32_t bins[2 * BINS];

    memset(t, 0, sizeof *t);
    t->first_any = INT64_MAX;
    for (int i = 0; i < BANK_PROCESSES; i++) {
        const struct bank_member *m = &bank->member[i];
        uint32_t first = first_from(m, moment);
        int64_t waited = first < m->n ? m->stamp[first] - moment : INT64_MAX;

        if (i == bank->victim)
            continue;
        t->first_any = waited < t->first_any ? waited : t->first_any;
        t->first_all = longer(t->first_all, waited);
        t->gap_one[0] = longer(t->gap_one[0], gap_of(m, before));
        t->gap_one[1] = longer(t->gap_one[1], gap_of(m, after));
    }
    t->gap_any[0] = gap_of_all(bank, true, before);
    t->gap_any[1] = gap_of_all(bank, false, after);
    count(bank, moment, bins);
    line->rounds++;
    for (int b = 0; b < 2 * BINS; b++) {
        line->empty[b] += bins[b] == 0;
        line->commits[b] += bins[b];
        t->empty[b >= BINS] += bins[b] == 0;
        t->commits[b >= BINS] += bins[b];
    }
}
