/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tpcc whose clients do not write a row now and then, of the table that TPCC_FAULT names: the
 * conditions at the end have to notice. "none": all are written.
 */
#include "../../mpi_examples/tpcc.h"

/* That of the example, under another name. */
int true_put(struct tpcc_client *c, enum tpcc_table table, const struct tpcc_key *key,
             const void *row, size_t bytes);

#define tpcc_put true_put
#include "../../mpi_examples/tpcc_rows.c"
#undef tpcc_put

#include <stdlib.h>

enum { EVERY = 17 };    /* so many rows of that table to one fault */

int tpcc_put(struct tpcc_client *c, enum tpcc_table table, const struct tpcc_key *key,
             const void *row, size_t bytes)
{
    static const char *const names[TABLES] = {
        "warehouse", "district", "customer", "name", "history", "new_order", "order", "order_line",
        "item", "stock",
    };
    static uint64_t made;
    const char *fault = getenv("TPCC_FAULT");

    if (fault != NULL && c->number > 0 && strcmp(fault, names[table]) == 0 && ++made % EVERY == 0)
        return LOCO_OK;
    return true_put(c, table, key, row, bytes);
}
