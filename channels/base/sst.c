/* SPDX-License-Identifier: BSD-3-Clause */

/* Shared state tables: a register of owned.h per process, all in one region, so that a table of
 * N rows costs one endpoint. Rows begin on cache lines of their own: neighbours have different
 * writers. */

#include "config.h"

#include <stdlib.h>

#include "observe/mistake.h"
#include "owned.h"
#include "sst.h"

struct loco_sst {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    int columns, rank;
    bool rows_checked;
    struct loci_owned *row;     /* by rank */
};

bool loci_sst_knows(const loco_sst_t *sst, int rank)
{
    return loci_endpoint_knows(sst->ep, rank);
}

static int open_rows(struct loco_sst *sst, size_t stride, bool rings)
{
    int size = sst->ep->group.size;

    for (int i = 0; i < size; i++) {
        int status;

        sst->row[i] = (struct loci_owned){
            .ep = sst->ep, .owner = i, .offset = (uint64_t)i * stride,
            .words = (size_t)sst->columns, .checked = sst->rows_checked,
            .rings = rings,
        };
        status = loci_owned_open(&sst->row[i]);
        if (status != LOCO_OK) {
            while (i-- > 0)
                loci_owned_close(&sst->row[i]);
            return status;
        }
    }
    return LOCO_OK;
}

static void destroy_forgotten(void *sst)
{
    loco_sst_destroy(sst);
}

void loci_sst_is_of(loco_sst_t *sst, void (*destroy)(void *channel), void *channel)
{
    loci_endpoint_is_of(sst->ep, destroy, channel);
}

int loci_sst_create(loco_runtime_t *rt, const char *type, const char *parent, const char *name,
                    const loco_group_t *group, int columns, int flags, bool rings,
                    loco_sst_t **out)
{
    struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group,
        .type = type, .nregions = 1,
        .property = { { "columns", (uint64_t)columns }, { "flags", (uint64_t)flags } },
    };
    struct loco_sst *sst;
    size_t stride, size;
    int status;

    size = (size_t)loco_group_size(group);
    stride = (loci_owned_size((size_t)columns, flags & LOCO_SST_ROWS) + LOCI_CACHE_LINE - 1)
             / LOCI_CACHE_LINE * LOCI_CACHE_LINE;
    spec.region[0] = (struct loci_region_spec){ "rows", size * stride, 0, LOCI_FROM_ALL };
    sst = calloc(1, sizeof *sst);
    if (sst != NULL)
        sst->row = calloc(size, sizeof sst->row[0]);
    status = sst == NULL || sst->row == NULL ? LOCO_ERR_NO_MEMORY : LOCO_OK;
    if (status == LOCO_OK)
        status = loci_endpoint_create(rt, &spec, &sst->ep);
    if (status != LOCO_OK)
        goto no_endpoint;
    sst->rt = rt;
    sst->columns = columns;
    sst->rows_checked = (flags & LOCO_SST_ROWS) != 0;
    sst->rank = sst->ep->group.rank;
    status = open_rows(sst, stride, rings);
    if (status != LOCO_OK)
        goto no_rows;
    loci_endpoint_is_of(sst->ep, destroy_forgotten, sst);
    *out = sst;
    return LOCO_OK;

no_rows:
    loci_endpoint_destroy(sst->ep);
no_endpoint:
    if (sst != NULL)
        free(sst->row);
    free(sst);
    return status;
}

int loco_sst_create(loco_runtime_t *rt, const char *parent, const char *name,
                    const loco_group_t *group, int columns, int flags, loco_sst_t **sst)
{
    const char *call = "loco_sst_create";
    int status = loci_check_group(rt, call, name, group);

    if (status == LOCO_OK && columns < 1)
        status = loci_bad_arg(rt, call, name, "columns", columns, "at least 1");
    if (status == LOCO_OK && (flags & ~LOCO_SST_ROWS) != 0)
        status = loci_bad_arg(rt, call, name, "flags", flags, "LOCO_SST_COLUMNS or LOCO_SST_ROWS");
    if (status != LOCO_OK)
        return status;
    return loci_sst_create(rt, "sst", parent, name, group, columns, flags, false, sst);
}

void loco_sst_destroy(loco_sst_t *sst)
{
    if (sst == NULL)
        return;
    for (int i = 0; i < sst->ep->group.size; i++)
        loci_owned_close(&sst->row[i]);
    loci_endpoint_destroy(sst->ep);
    free(sst->row);
    free(sst);
}

const char *loci_sst_name(const loco_sst_t *sst)
{
    return sst->ep->name;
}

struct loci_calls *loci_sst_calls(const loco_sst_t *sst)
{
    return sst->ep->calls;
}

int loco_sst_rows(const loco_sst_t *sst)
{
    return sst->ep->group.size;
}

int loco_sst_columns(const loco_sst_t *sst)
{
    return sst->columns;
}

static int check_columns(const loco_sst_t *sst, int first, int n)
{
    return first < 0 || n < 1 || first > sst->columns - n ? LOCO_ERR_RANGE : LOCO_OK;
}

int loco_sst_set_range(loco_sst_t *sst, int first, int n, const uint64_t *values)
{
    int status = check_columns(sst, first, n);

    return status != LOCO_OK ? status
           : loci_owned_store(&sst->row[sst->rank], (size_t)first, (size_t)n, values);
}

int loco_sst_set(loco_sst_t *sst, int column, uint64_t value)
{
    return loco_sst_set_range(sst, column, 1, &value);
}

static int push(loco_sst_t *sst, int first, int n, const int *ranks, int nranks, loco_ack_t *ack)
{
    int status = check_columns(sst, first, n);

    if (status != LOCO_OK)
        return status;
    for (int i = 0; ranks != NULL && i < nranks; i++)
        if (ranks[i] < 0 || ranks[i] >= sst->ep->group.size)
            return LOCO_ERR_ARG;
    return loci_owned_push(&sst->row[sst->rank], (size_t)first, (size_t)n, ranks, nranks, ack);
}

int loco_sst_push(loco_sst_t *sst, int first, int n, int rank)
{
    struct loci_thread *self = loci_call_begin(sst->ep->calls, LOCI_CALL_PUSH, (size_t)n * 8);

    return loci_call_end(self, push(sst, first, n, &rank, 1, NULL));
}

int loco_sst_push_some(loco_sst_t *sst, int first, int n, const int *ranks, int nranks)
{
    struct loci_thread *self = loci_call_begin(sst->ep->calls, LOCI_CALL_PUSH, (size_t)n * 8);

    return loci_call_end(self, ranks == NULL || nranks < 0 ? LOCO_ERR_ARG : push(sst, first, n,
                                                                                 ranks, nranks,
                                                                                 NULL));
}

int loco_sst_push_all(loco_sst_t *sst, int first, int n)
{
    struct loci_thread *self = loci_call_begin(sst->ep->calls, LOCI_CALL_PUSH, (size_t)n * 8);

    return loci_call_end(self, push(sst, first, n, NULL, 0, NULL));
}

int loco_sst_push_ack(loco_sst_t *sst, int first, int n, int rank, loco_ack_t *ack)
{
    struct loci_thread *self = loci_call_begin(sst->ep->calls, LOCI_CALL_PUSH, (size_t)n * 8);

    return loci_call_end(self, push(sst, first, n, &rank, 1, ack));
}

int loco_sst_push_all_ack(loco_sst_t *sst, int first, int n, loco_ack_t *ack)
{
    struct loci_thread *self = loci_call_begin(sst->ep->calls, LOCI_CALL_PUSH, (size_t)n * 8);

    return loci_call_end(self, push(sst, first, n, NULL, 0, ack));
}

int loco_sst_row(loco_sst_t *sst, int rank, uint64_t *values)
{
    if (rank < 0 || rank >= sst->ep->group.size)
        return LOCO_ERR_ARG;
    struct loci_thread *self = loci_call_begin(sst->ep->calls, LOCI_CALL_LOAD,
                                               (size_t)sst->columns * 8);

    return loci_call_end(self, loci_owned_load(&sst->row[rank], values,
                                               (size_t)sst->columns * sizeof values[0]));
}

/* Of a checked row all words are read, for the checksum; `value` receives the last one. */
static int get_checked(loco_sst_t *sst, int rank, int column, uint64_t *value)
{
    uint64_t few[64], *values = few;
    int status;

    if (sst->columns > 64)
        values = malloc((size_t)sst->columns * sizeof values[0]);
    if (values == NULL)
        return LOCO_ERR_NO_MEMORY;
    status = loco_sst_row(sst, rank, values);
    if (status == LOCO_OK)
        *value = values[column];
    if (values != few)
        free(values);
    return status;
}

int loco_sst_get(loco_sst_t *sst, int rank, int column, uint64_t *value)
{
    int status = check_columns(sst, column, 1);

    if (status != LOCO_OK)
        return status;
    if (rank < 0 || rank >= sst->ep->group.size)
        return LOCO_ERR_ARG;
    if (sst->rows_checked)
        return get_checked(sst, rank, column, value);
    *value = loci_owned_word(&sst->row[rank], (size_t)column);
    return LOCO_OK;
}
