/* SPDX-License-Identifier: BSD-3-Clause */

/* Key-value stores: making and destroying them; what is told about them. See kvstore.c. */

#include "config.h"

#include <stdlib.h>

#include "kv_value.h"
#include "observe/mistake.h"

#define LOCKS 256
#define LOCKS_MAX (1 << 20)
#define TRACKER_BYTES ((size_t)16 << 10)
#define TRACKER_BYTES_MIN ((size_t)4 << 10)
#define PLACES_MAX (UINT64_C(1) << 40)

_Static_assert(TRACKER_BYTES_MIN >= LOCI_KV_MESSAGE, "a batch is a message");

/* Bits for numbers below n, at least one. */
static unsigned bits_for(uint64_t n)
{
    unsigned bits = 1;

    while (bits < 63 && UINT64_C(1) << bits < n)
        bits++;
    return bits;
}

/* Defaults put in, or LOCO_ERR_ARG. */
static int complete(loco_runtime_t *rt, const char *name, const loco_group_t *group,
                    loco_kvstore_options_t *o)
{
    const char *call = "loco_kvstore_create";
    uint64_t most;
    int status = loci_check_group(rt, call, name, group);

    if (status != LOCO_OK)
        return status;
    most = PLACES_MAX / (uint64_t)group->size;
    o->locks = o->locks == 0 ? LOCKS : o->locks;
    o->tracker_bytes = o->tracker_bytes == 0 ? TRACKER_BYTES : o->tracker_bytes;
    if (o->value_bytes < 1 || o->value_bytes > LOCO_KVSTORE_VALUE_MAX)
        return loci_bad_arg(rt, call, name, "value_bytes", (long long)o->value_bytes, "1 to %d",
                            LOCO_KVSTORE_VALUE_MAX);
    if (o->capacity < 1 || o->capacity > most)
        return loci_bad_arg(rt, call, name, "capacity", (long long)o->capacity, "1 to %llu",
                            (unsigned long long)most);
    if (o->locks < 1 || o->locks > LOCKS_MAX)
        return loci_bad_arg(rt, call, name, "locks", o->locks, "1 to %d, or 0 for %d", LOCKS_MAX,
                            LOCKS);
    if (o->tracker_bytes < TRACKER_BYTES_MIN)
        return loci_bad_arg(rt, call, name, "tracker_bytes", (long long)o->tracker_bytes,
                            "at least %zu, or 0 for %zu", TRACKER_BYTES_MIN, TRACKER_BYTES);
    return LOCO_OK;
}

static void lay_out(struct loco_kvstore *kv, const loco_kvstore_options_t *o, int size)
{
    kv->value_bytes = o->value_bytes;
    kv->words = (o->value_bytes + 7) / 8;
    kv->small = kv->words == 1;
    kv->stride = loci_kv_value_at(kv) + (kv->words + 1) * sizeof(uint64_t);
    kv->capacity = o->capacity;
    kv->nlocks = o->locks;
    kv->rank_shift = bits_for(o->capacity);
    kv->place_mask = (UINT64_C(1) << kv->rank_shift) - 1;
    kv->word_shift = 64 - kv->rank_shift - bits_for((uint64_t)size);
}

static void destroy_forgotten(void *kv)
{
    loco_kvstore_destroy(kv);
}

static int open_parts(struct loco_kvstore *kv, const char *parent, const char *name,
                      const loco_group_t *group, const loco_kvstore_options_t *o)
{
    const struct loci_endpoint_spec spec = {
        .parent = parent, .name = name, .group = group,
        .type = "kvstore",
        .property = { { "value_bytes", o->value_bytes }, { "capacity", o->capacity },
                      { "locks", (uint64_t)o->locks }, { "tracker_bytes", o->tracker_bytes } },
        .nregions = 1,
        .region = { { "values", o->capacity * kv->stride, 0, LOCI_FROM_ALL } },
    };
    int status = loci_endpoint_create(kv->rt, &spec, &kv->ep);

    if (status != LOCO_OK)
        return status;
    loci_endpoint_is_of(kv->ep, destroy_forgotten, kv);
    kv->versions = !kv->small && kv->ep->domain == LOCI_DOMAIN_CPU;
    status = loci_kv_index_open(&kv->index, kv->rt, o->capacity * (uint64_t)kv->ep->group.size);
    if (status == LOCO_OK && (kv->free_next = calloc(o->capacity, sizeof *kv->free_next)) == NULL)
        status = LOCO_ERR_NO_MEMORY;
    if (status == LOCO_OK)
        status = loco_ticket_array_create(kv->rt, kv->ep->name, "locks", group, o->locks,
                                          &kv->locks);
    return status == LOCO_OK ? loci_kv_tracker_open(kv, group, o->tracker_bytes) : status;
}

int loco_kvstore_create(loco_runtime_t *rt, const char *parent, const char *name,
                        const loco_group_t *group, const loco_kvstore_options_t *options,
                        loco_kvstore_t **out)
{
    loco_kvstore_options_t o;
    struct loco_kvstore *kv;
    int status;

    if (options == NULL)
        return loci_null_arg(rt, "loco_kvstore_create", name, "options");
    o = *options;
    status = complete(rt, name, group, &o);
    if (status != LOCO_OK)
        return status;
    kv = calloc(1, sizeof *kv);
    if (kv == NULL)
        return LOCO_ERR_NO_MEMORY;
    kv->rt = rt;
    lay_out(kv, &o, loco_group_size(group));
    pthread_mutex_init(&kv->free_lock, NULL);
    status = open_parts(kv, parent, name, group, &o);
    if (status != LOCO_OK) {
        loco_kvstore_destroy(kv);
        return status;
    }
    *out = kv;
    return LOCO_OK;
}

void loco_kvstore_destroy(loco_kvstore_t *kv)
{
    if (kv == NULL)
        return;
    loci_kv_tracker_close(kv);
    loco_kvstore_window_close(atomic_load_explicit(&kv->spare, memory_order_acquire));
    loco_ticket_array_destroy(kv->locks);
    loci_kv_index_close(&kv->index);
    loci_endpoint_destroy(kv->ep);
    pthread_mutex_destroy(&kv->free_lock);
    free(kv->free_next);
    free(kv);
}

/* ---- what is told ---- */

size_t loco_kvstore_value_bytes(const loco_kvstore_t *kv)
{
    return kv->value_bytes;
}

int loco_kvstore_iterate(loco_kvstore_t *kv, loco_kvstore_visit_fn *visit, void *ctx)
{
    int result;

    loci_kv_visit(kv);
    result = loci_kv_index_each(&kv->index, visit, ctx);
    loci_kv_visited(kv);
    return result;
}

void loco_kvstore_stats(loco_kvstore_t *kv, loco_kvstore_stats_t *stats)
{
    pthread_mutex_lock(&kv->free_lock);
    stats->kept = kv->kept;
    pthread_mutex_unlock(&kv->free_lock);
    stats->keys = atomic_load_explicit(&kv->index.keys, memory_order_relaxed);
    stats->capacity = kv->capacity;
    stats->index_bytes = loci_kv_index_bytes(&kv->index);
    stats->value_bytes = kv->capacity * kv->stride;
    stats->retries = atomic_load_explicit(&kv->retries, memory_order_relaxed);
}
