/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <stdlib.h>

#include "sim_times.h"

void sim_times_add(struct sim_times *t, int64_t ns)
{
    if (t->count == t->room) {
        t->room = t->room * 2 + 4096;
        t->ns = realloc(t->ns, t->room * sizeof t->ns[0]);
        if (t->ns == NULL)
            abort();
    }
    t->ns[t->count++] = ns;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

void sim_times_sort(struct sim_times *t)
{
    if (t->count > 0)
        qsort(t->ns, t->count, sizeof t->ns[0], compare);
}

double sim_times_us(const struct sim_times *t, double part)
{
    return t->count == 0 ? 0 : (double)t->ns[(size_t)(part * (double)(t->count - 1))] / 1000;
}

double sim_times_mean_us(const struct sim_times *t)
{
    double sum = 0;

    for (size_t i = 0; i < t->count; i++)
        sum += (double)t->ns[i];
    return t->count == 0 ? 0 : sum / (double)t->count / 1000;
}

bool sim_number(const char *text, long least, long most, int *value)
{
    char *end;
    long n = strtol(text, &end, 10);

    *value = (int)n;
    return *text != '\0' && *end == '\0' && n >= least && n <= most;
}

bool sim_real(const char *text, double most, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return *text != '\0' && *end == '\0' && *value > 0 && *value <= most;
}
