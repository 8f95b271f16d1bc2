/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated network does all that its rules allow, and nothing else. TAP. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "litmus.h"

#define SEEDS 4000

int main(void)
{
    const struct sim_litmus *litmus;
    int n = 0, failed = 0;

    while (sim_litmus_at(n) != NULL)
        n++;
    printf("1..%d\n", n);
    for (int i = 0; (litmus = sim_litmus_at(i)) != NULL; i++) {
        struct sim_litmus_report report;
        bool ok = sim_litmus_run(litmus, 1, SEEDS, NULL, &report) == 0;

        printf("%sok %d - %s: %d of %d allowed outcomes", ok ? "" : "not ", i + 1,
               sim_litmus_name(litmus), report.seen, report.allowed);
        if (report.forbidden > 0)
            printf(", forbidden ones in %" PRIu64 " of %" PRIu64 " runs, first with seed %" PRIu64,
                   report.forbidden, report.runs, report.first_forbidden);
        printf("\n");
        failed += !ok;
    }
    return failed == 0 ? 0 : 1;
}
