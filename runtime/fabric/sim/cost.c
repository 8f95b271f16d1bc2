/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include <stddef.h>
#include <string.h>

#include "cost.h"

const struct loci_sim_cost loci_sim_costs[] = {
    { .name = "roce25", .about = "25 Gb/s RoCE (LOCO, section 7)", .post = 100, .poll = 50,
      .step = 5, .device = 100, .device_in = 100, .device_atomic = 200, .byte = 0.32,
      .wire = 900, .place = 200, .complete = 200, .message = 20000 },
    { .name = NULL },
};

const struct loci_sim_cost *loci_sim_cost_named(const char *name)
{
    for (const struct loci_sim_cost *c = loci_sim_costs; c->name != NULL; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}
