/* SPDX-License-Identifier: BSD-3-Clause */
#include "stress.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define DURATION INT64_C(1500000000)        /* ns */

int64_t stress_duration(void)
{
    static _Atomic int64_t known;       /* for it is asked in the loops themselves */
    int64_t ns = atomic_load_explicit(&known, memory_order_relaxed);

    if (ns == 0) {
        const char *seconds = getenv("CASE_SECONDS");

        ns = seconds == NULL ? DURATION : (int64_t)(atof(seconds) * 1e9);
        atomic_store_explicit(&known, ns, memory_order_relaxed);
    }
    return ns;
}

bool stress_goes_on(int64_t start)
{
    return run_now() - start < stress_duration();
}

int stress_sum(loco_runtime_t *rt, uint64_t mine, uint64_t *sum)
{
    loco_atomic_var_t *total;

    CHECK_OK(loco_atomic_var_create(rt, "stress", "sum", loco_everyone(rt), 0, &total));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    CHECK_OK(loco_atomic_var_fetch_add(total, mine, NULL));
    CHECK_OK(run_meet(rt));
    CHECK_OK(loco_atomic_var_load(total, sum));
    CHECK_OK(run_meet(rt));
    loco_atomic_var_destroy(total);
    return 0;
}

int stress_run(const struct stress_case *cases, int n)
{
    int failed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("1..%d\n", n);
    for (int i = 0; i < n; i++) {
        int arg = cases[i].arg;
        bool ok = run_on(RUN_SHM, cases[i].n, 0, NULL, cases[i].fn, &arg) == 0;

        printf("%sok %d - %s, %d processes\n", ok ? "" : "not ", i + 1, cases[i].name,
               cases[i].n);
        failed += !ok;
    }
    return failed == 0 ? 0 : 1;
}
