/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many times slower programs run here because the machine stands still: a virtual machine whose
 * host is busy does so for up to half a second, and its kernel does not see it. Reads the clock for
 * three seconds and takes each step of more than a millisecond as time that was lost. Prints the
 * factor, rounded up, 1 where at most a tenth was lost; and to stderr what it has seen.
 */
#include <math.h>
#include <stdio.h>
#include <time.h>

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(void)
{
    const double seconds = 3, step = 1e-3, tolerated = 0.1, most = 10;
    double begin = now(), last = begin, lost = 0, longest = 0, part, times;

    while (last < begin + seconds) {
        double t = now();
        if (t - last > step) {
            lost += t - last;
            longest = t - last > longest ? t - last : longest;
        }
        last = t;
    }
    part = lost / (last - begin);
    times = part <= tolerated ? 1 : ceil(1 / (1 - part));
    fprintf(stderr, "it stood still for %.0f %% of the time, up to %.0f ms at once\n", 100 * part,
            1e3 * longest);
    printf("%.0f\n", times < most ? times : most);
    return 0;
}
