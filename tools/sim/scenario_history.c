/* SPDX-License-Identifier: BSD-3-Clause */

/* Histories, checked at the end of a run. */

#include "config.h"

#include <stdio.h>

#include "scenario_util.h"

#include "linear.h"

int sim_check_history(const struct loci_history *history, int kind)
{
    struct loci_linear_report report;
    char text[400] = "";
    FILE *out;

    if (loci_linear_check(history, (enum loci_linear_kind)kind, &report) != LINEAR_NOT)
        return 0;
    out = fmemopen(text, sizeof text - 1, "w");
    if (out != NULL) {
        loci_linear_print(out, history, &report);
        fclose(out);
    }
    return loci_sim_fail("not linearizable: %s", text);
}

int sim_check_register(const struct loci_history *history)
{
    return sim_check_history(history, LINEAR_REGISTER);
}
