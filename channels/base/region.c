/* SPDX-License-Identifier: BSD-3-Clause */

/* Regions: names and bounds around rma.h. A region is an endpoint's, or a view of memory that
 * another object has, whose parts may differ in length. */

#include "config.h"

#include <stdlib.h>

#include <loco/region.h>

#include "fetch_op.h"
#include "move/rma.h"
#include "names/endpoint.h"
#include "observe/mistake.h"
#include "region.h"

struct loco_region {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;       /* NULL: a view */
    struct loci_region_view view;   /* where `ep` is NULL */
    size_t len;                     /* of the own part */
    struct loci_calls *calls;       /* the endpoint's, or NULL */
};

static void destroy_forgotten(void *region)
{
    loco_region_destroy(region);
}

int loco_region_create(loco_runtime_t *rt, const char *parent, const char *name,
                       const loco_group_t *group, size_t len, loco_region_t **out)
{
    const struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group,
        .type = "region", .nregions = 1,
        .region = { { "data", len, 0, LOCI_FROM_ALL } },
    };
    int status = loci_check_group(rt, "loco_region_create", name, group);
    loco_region_t *region;

    if (status != LOCO_OK)
        return status;
    region = calloc(1, sizeof *region);
    if (region == NULL)
        return LOCO_ERR_NO_MEMORY;
    region->rt = rt;
    region->len = len;
    status = loci_endpoint_create(rt, &spec, &region->ep);
    if (status != LOCO_OK) {
        free(region);
        return status;
    }
    region->calls = region->ep->calls;
    loci_endpoint_is_of(region->ep, destroy_forgotten, region);
    *out = region;
    return LOCO_OK;
}

int loci_region_of_view(struct loco_runtime *rt, const struct loci_region_view *view,
                        loco_region_t **out)
{
    loco_region_t *region = calloc(1, sizeof *region);

    if (region == NULL)
        return LOCO_ERR_NO_MEMORY;
    region->rt = rt;
    region->view = *view;
    region->len = view->part(view->owner, view->rank)->key.len;
    *out = region;
    return LOCO_OK;
}

void loco_region_destroy(loco_region_t *region)
{
    if (region == NULL)
        return;
    if (region->ep != NULL) {
        loci_renew_own(region->rt, loci_endpoint_mem(region->ep, region->ep->group.rank, 0));
        loci_endpoint_destroy(region->ep);
    }
    free(region);
}

void *loco_region_local(const loco_region_t *region)
{
    if (region->ep == NULL)
        return region->view.base;
    return loci_mem_ptr(loci_endpoint_mem(region->ep, region->ep->group.rank, 0));
}

size_t loco_region_len(const loco_region_t *region)
{
    return region->len;
}

struct loci_mem *loci_region_mem(const loco_region_t *region, int rank)
{
    return region->ep != NULL ? loci_endpoint_mem(region->ep, rank, 0)
                              : region->view.part(region->view.owner, rank);
}

struct loci_calls *loci_region_calls(const loco_region_t *region)
{
    return region->calls;
}

struct loco_runtime *loci_region_runtime(const loco_region_t *region)
{
    return region->rt;
}

/* The length of that rank's part. */
static int part_len(const loco_region_t *region, int rank, uint64_t *len)
{
    int size = region->ep != NULL ? region->ep->group.size : region->view.size;

    if (rank < 0 || rank >= size)
        return LOCO_ERR_ARG;
    *len = region->ep != NULL ? region->len : loci_region_mem(region, rank)->key.len;
    return LOCO_OK;
}

int loci_region_check(const loco_region_t *region, int rank, uint64_t offset, size_t len)
{
    uint64_t there;
    int status = part_len(region, rank, &there);

    if (status != LOCO_OK)
        return status;
    return offset > there || len > there - offset ? LOCO_ERR_RANGE : LOCO_OK;
}

static int check_word(const loco_region_t *region, int rank, uint64_t offset)
{
    return offset % 8 != 0 ? LOCO_ERR_ARG : loci_region_check(region, rank, offset, 8);
}

/* The blocking forms are the others with no ack: rma.h waits then. */

int loco_region_write_ack(loco_region_t *region, int rank, uint64_t offset, const void *source,
                          size_t len, loco_ack_t *ack)
{
    int status = loci_region_check(region, rank, offset, len);
    struct loci_thread *self;

    if (status != LOCO_OK)
        return status;
    self = loci_call_begin(region->calls, LOCI_CALL_WRITE, len);
    return loci_call_end(self, loci_write(region->rt, loci_region_mem(region, rank), offset,
                                          source, len, ack));
}

int loco_region_read_ack(loco_region_t *region, int rank, uint64_t offset, void *result,
                         size_t len, loco_ack_t *ack)
{
    int status = loci_region_check(region, rank, offset, len);
    struct loci_thread *self;

    if (status != LOCO_OK)
        return status;
    self = loci_call_begin(region->calls, LOCI_CALL_READ, len);
    return loci_call_end(self, loci_read(region->rt, loci_region_mem(region, rank), offset, result,
                                         len, ack));
}

int loco_region_write64_ack(loco_region_t *region, int rank, uint64_t offset, uint64_t value,
                            loco_ack_t *ack)
{
    int status = check_word(region, rank, offset);
    struct loci_thread *self;

    if (status != LOCO_OK)
        return status;
    self = loci_call_begin(region->calls, LOCI_CALL_WRITE, 8);
    return loci_call_end(self, loci_write64(region->rt, loci_region_mem(region, rank), offset,
                                            value, ack));
}

int loco_region_read64_ack(loco_region_t *region, int rank, uint64_t offset, uint64_t *value,
                           loco_ack_t *ack)
{
    int status = check_word(region, rank, offset);
    struct loci_thread *self;

    if (status != LOCO_OK)
        return status;
    self = loci_call_begin(region->calls, LOCI_CALL_READ, 8);
    return loci_call_end(self, loci_read64(region->rt, loci_region_mem(region, rank), offset,
                                           value, ack));
}

int loco_region_fetch_add_ack(loco_region_t *region, int rank, uint64_t offset, uint64_t add,
                              uint64_t *old, loco_ack_t *ack)
{
    int status = check_word(region, rank, offset);
    struct loci_thread *self;

    if (status != LOCO_OK)
        return status;
    self = loci_call_begin(region->calls, LOCI_CALL_ATOMIC, 8);
    return loci_call_end(self, loci_fetch_add(region->rt, loci_region_mem(region, rank), offset,
                                              add, old, ack));
}

int loco_region_compare_swap_ack(loco_region_t *region, int rank, uint64_t offset,
                                 uint64_t expected, uint64_t desired, uint64_t *old,
                                 loco_ack_t *ack)
{
    int status = check_word(region, rank, offset);
    struct loci_thread *self;

    if (status != LOCO_OK)
        return status;
    self = loci_call_begin(region->calls, LOCI_CALL_ATOMIC, 8);
    return loci_call_end(self, loci_compare_swap(region->rt, loci_region_mem(region, rank), offset,
                                                 expected, desired, old, ack));
}

int loco_region_write(loco_region_t *region, int rank, uint64_t offset, const void *source,
                      size_t len)
{
    return loco_region_write_ack(region, rank, offset, source, len, NULL);
}

int loco_region_read(loco_region_t *region, int rank, uint64_t offset, void *result, size_t len)
{
    return loco_region_read_ack(region, rank, offset, result, len, NULL);
}

int loco_region_write64(loco_region_t *region, int rank, uint64_t offset, uint64_t value)
{
    return loco_region_write64_ack(region, rank, offset, value, NULL);
}

int loco_region_read64(loco_region_t *region, int rank, uint64_t offset, uint64_t *value)
{
    return loco_region_read64_ack(region, rank, offset, value, NULL);
}

int loco_region_fetch_add(loco_region_t *region, int rank, uint64_t offset, uint64_t add,
                          uint64_t *old)
{
    uint64_t unused;

    return loco_region_fetch_add_ack(region, rank, offset, add, old == NULL ? &unused : old,
                                     NULL);
}

int loco_region_compare_swap(loco_region_t *region, int rank, uint64_t offset, uint64_t expected,
                             uint64_t desired, uint64_t *old)
{
    return loco_region_compare_swap_ack(region, rank, offset, expected, desired, old, NULL);
}

int loco_region_fetch_op(loco_region_t *region, int rank, uint64_t offset, enum loco_op op,
                         enum loco_type type, const void *operand, void *old)
{
    uint64_t unused;
    int status;
    struct loci_thread *self;

    if (!loci_fetch_op_allowed(op, type))
        return loci_no_word_op(region->rt, "loco_region_fetch_op",
                               region->ep != NULL ? region->ep->name : NULL, op, type);
    status = check_word(region, rank, offset);
    if (status != LOCO_OK)
        return status;
    self = loci_call_begin(region->calls, LOCI_CALL_ATOMIC, 8);
    return loci_call_end(self, loci_fetch_op(region->rt, loci_region_mem(region, rank), offset, op,
                                             type, operand, old == NULL ? &unused : old));
}
