/* SPDX-License-Identifier: BSD-3-Clause */

/* Owned variables: one register of owned.h and its name. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <loco/owned_var.h>

#include "observe/mistake.h"
#include "owned.h"

struct loco_owned_var {
    struct loci_owned reg;
    size_t size;
    enum loco_owned_mode mode;
    pthread_mutex_t store_lock;
    uint64_t *words;            /* the owner's: a value in whole words, on its way to the copy */
};

static int open_var(struct loco_owned_var *var)
{
    int status;

    var->words = calloc(var->reg.words, sizeof var->words[0]);
    if (var->words == NULL)
        return LOCO_ERR_NO_MEMORY;
    status = loci_owned_open(&var->reg);
    if (status == LOCO_OK)
        pthread_mutex_init(&var->store_lock, NULL);
    return status;
}

static int check_arguments(loco_runtime_t *rt, const char *name, const loco_group_t *group,
                           int owner, size_t size, enum loco_owned_mode mode)
{
    const char *call = "loco_owned_var_create";
    int status = loci_check_group(rt, call, name, group);

    if (status == LOCO_OK)
        status = loci_check_rank(rt, call, name, "owner", owner, group->size);
    if (status == LOCO_OK && (size == 0 || size > SIZE_MAX / 2))
        status = loci_bad_arg(rt, call, name, "size", (long long)size, "1 to %zu", SIZE_MAX / 2);
    if (status == LOCO_OK && mode != LOCO_OWNED_PUSH && mode != LOCO_OWNED_PULL)
        status = loci_bad_arg(rt, call, name, "mode", (long long)mode,
                              "LOCO_OWNED_PUSH or LOCO_OWNED_PULL");
    return status;
}

static void destroy_forgotten(void *var)
{
    loco_owned_var_destroy(var);
}

int loco_owned_var_create(loco_runtime_t *rt, const char *parent, const char *name,
                          const loco_group_t *group, int owner, size_t size,
                          enum loco_owned_mode mode, loco_owned_var_t **out)
{
    size_t words = (size + 7) / 8;
    bool checked = size > 8;
    const struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group,
        .type = "owned_var", .nregions = 1,
        .property = { { "owner", (uint64_t)owner }, { "size", size }, { "mode", mode } },
        .region = { { "copy", loci_owned_size(words, checked), 0, LOCI_FROM_ALL } },
    };
    struct loco_owned_var *var;
    int status;

    status = check_arguments(rt, name, group, owner, size, mode);
    if (status != LOCO_OK)
        return status;
    var = calloc(1, sizeof *var);
    if (var == NULL)
        return LOCO_ERR_NO_MEMORY;
    var->size = size;
    var->mode = mode;
    var->reg.owner = owner;
    var->reg.words = words;
    var->reg.checked = checked;
    status = loci_endpoint_create(rt, &spec, &var->reg.ep);
    if (status != LOCO_OK)
        goto no_endpoint;
    status = open_var(var);
    if (status != LOCO_OK)
        goto no_var;
    loci_endpoint_is_of(var->reg.ep, destroy_forgotten, var);
    *out = var;
    return LOCO_OK;

no_var:
    loci_endpoint_destroy(var->reg.ep);
no_endpoint:
    free(var->words);
    free(var);
    return status;
}

void loco_owned_var_destroy(loco_owned_var_t *var)
{
    if (var == NULL)
        return;
    loci_owned_close(&var->reg);
    loci_endpoint_destroy(var->reg.ep);
    pthread_mutex_destroy(&var->store_lock);
    free(var->words);
    free(var);
}

size_t loco_owned_var_size(const loco_owned_var_t *var)
{
    return var->size;
}

static bool is_owner(const loco_owned_var_t *var)
{
    return var->reg.ep->group.rank == var->reg.owner;
}

int loco_owned_var_store(loco_owned_var_t *var, const void *value)
{
    int status;

    if (!is_owner(var))
        return LOCO_ERR_STATE;
    pthread_mutex_lock(&var->store_lock);
    memcpy(var->words, value, var->size);
    status = loci_owned_store(&var->reg, 0, var->reg.words, var->words);
    pthread_mutex_unlock(&var->store_lock);
    return status;
}

static int push(loco_owned_var_t *var, const int *ranks, int n, loco_ack_t *ack)
{
    if (!is_owner(var) || var->mode != LOCO_OWNED_PUSH)
        return LOCO_ERR_STATE;
    if (n < 0)
        return LOCO_ERR_ARG;
    for (int i = 0; ranks != NULL && i < n; i++)
        if (ranks[i] < 0 || ranks[i] >= var->reg.ep->group.size)
            return LOCO_ERR_ARG;
    return loci_owned_push(&var->reg, 0, var->reg.words, ranks, n, ack);
}

int loco_owned_var_push(loco_owned_var_t *var, int rank)
{
    struct loci_thread *self = loci_call_begin(var->reg.ep->calls, LOCI_CALL_PUSH, var->size);

    return loci_call_end(self, push(var, &rank, 1, NULL));
}

int loco_owned_var_push_some(loco_owned_var_t *var, const int *ranks, int n)
{
    struct loci_thread *self = loci_call_begin(var->reg.ep->calls, LOCI_CALL_PUSH, var->size);

    return loci_call_end(self, ranks == NULL ? LOCO_ERR_ARG : push(var, ranks, n, NULL));
}

int loco_owned_var_push_all(loco_owned_var_t *var)
{
    struct loci_thread *self = loci_call_begin(var->reg.ep->calls, LOCI_CALL_PUSH, var->size);

    return loci_call_end(self, push(var, NULL, 0, NULL));
}

int loco_owned_var_push_ack(loco_owned_var_t *var, int rank, loco_ack_t *ack)
{
    struct loci_thread *self = loci_call_begin(var->reg.ep->calls, LOCI_CALL_PUSH, var->size);

    return loci_call_end(self, push(var, &rank, 1, ack));
}

int loco_owned_var_push_all_ack(loco_owned_var_t *var, loco_ack_t *ack)
{
    struct loci_thread *self = loci_call_begin(var->reg.ep->calls, LOCI_CALL_PUSH, var->size);

    return loci_call_end(self, push(var, NULL, 0, ack));
}

int loco_owned_var_load(loco_owned_var_t *var, void *value)
{
    struct loci_thread *self = loci_call_begin(var->reg.ep->calls, LOCI_CALL_LOAD, var->size);

    return loci_call_end(self, loci_owned_load(&var->reg, value, var->size));
}

int loco_owned_var_pull(loco_owned_var_t *var, void *value)
{
    struct loci_thread *self = loci_call_begin(var->reg.ep->calls, LOCI_CALL_PULL, var->size);

    return loci_call_end(self, loci_owned_pull(&var->reg, value, var->size,
                                               var->mode == LOCO_OWNED_PULL));
}

uint64_t loco_owned_var_retries(const loco_owned_var_t *var)
{
    return atomic_load_explicit(&var->reg.retries, memory_order_relaxed);
}
