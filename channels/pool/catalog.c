/* SPDX-License-Identifier: BSD-3-Clause */

/* See catalog.h. */

#include "config.h"

#include <stddef.h>
#include <string.h>

#include "base/sum.h"
#include "catalog.h"
#include "move/rma.h"
#include "observe/mistake.h"
#include "wait.h"

#define BODY offsetof(struct loci_record, sum)      /* what follows the version */

int loci_catalog_check_name(loco_runtime_t *rt, const char *call, const char *name)
{
    size_t len = name == NULL ? 0 : strlen(name);

    return len > 0 && len < LOCI_CATALOG_NAME ? LOCO_OK
           : loci_mistake(rt, LOCO_ERR_NAME, call, NULL,
                          "the name of a store has %zu bytes; allowed is 1 to %d", len,
                          LOCI_CATALOG_NAME - 1);
}

static uint64_t hash_of(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash % LOCI_CATALOG_RECORDS;
}

static uint64_t sum_of(const struct loci_record *record)
{
    const size_t first = offsetof(struct loci_record, number) / 8;
    uint64_t word[sizeof *record / 8];
    struct loci_sum sum;

    memcpy(word, record, sizeof word);
    loci_sum_begin(&sum, 0);
    for (size_t i = first; i < sizeof *record / 8; i++)
        loci_sum_add(&sum, i - first, word[i]);
    return loci_sum_end(&sum);
}

/* ---- the agent's ---- */

static unsigned char *at(unsigned char *table, uint64_t i)
{
    return table + i % LOCI_CATALOG_RECORDS * sizeof(struct loci_record);
}

/* Readers see an odd version while the rest changes: release before it, and acquire behind. */
static void put(unsigned char *place, const struct loci_record *record)
{
    struct loci_record image = *record;
    uint64_t version = loci_load64(place);

    image.sum = sum_of(&image);
    loci_store64(place, version + 1);
    atomic_thread_fence(memory_order_release);
    loci_copy_in_raced(place + BODY, (unsigned char *)&image + BODY, sizeof image - BODY);
    loci_store64(place, version + 2);
}

static bool is_free(const unsigned char *place)
{
    return loci_load64(place) == 0 || place[offsetof(struct loci_record, name)] == '\0';
}

int loci_catalog_enter(unsigned char *table, const struct loci_record *record)
{
    uint64_t first = hash_of(record->name);

    for (uint64_t i = 0; i < LOCI_CATALOG_RECORDS; i++)
        if (is_free(at(table, first + i))) {
            put(at(table, first + i), record);
            return LOCO_OK;
        }
    return LOCO_ERR_FULL;
}

void loci_catalog_remove(unsigned char *table, const char *name)
{
    static const struct loci_record none = { .number = 0 };
    uint64_t first = hash_of(name);

    for (uint64_t i = 0; i < LOCI_CATALOG_RECORDS; i++) {
        unsigned char *place = at(table, first + i);

        if (loci_load64(place) == 0)
            return;
        if (strncmp((char *)place + offsetof(struct loci_record, name), name,
                    LOCI_CATALOG_NAME) == 0) {
            put(place, &none);
            return;
        }
    }
}

/* ---- anybody's ---- */

struct reading {
    loco_runtime_t *rt;
    struct loci_mem *mem;
    uint64_t at;
    struct loci_record *record;
};

/* 1: it is whole; 0: it is being written; or an error. */
static int is_whole(void *arg)
{
    struct reading *r = arg;
    const unsigned char *p = loci_mem_ptr(r->mem);
    uint64_t version;
    int status = LOCO_OK;

    if (p != NULL)
        loci_copy_out_raced(r->record, p + r->at, sizeof *r->record);
    else
        status = loci_read(r->rt, r->mem, r->at, r->record, sizeof *r->record, NULL);
    if (status == LOCO_OK)
        status = loci_read64(r->rt, r->mem, r->at, &version, NULL);
    if (status != LOCO_OK)
        return status;
    if (version == 0)
        return 1;
    return version % 2 == 0 && r->record->version == version
           && r->record->sum == sum_of(r->record);
}

int loci_catalog_read(loco_runtime_t *rt, struct loci_mem *table, uint64_t i,
                        struct loci_record *record)
{
    struct reading r = { rt, table, i % LOCI_CATALOG_RECORDS * sizeof *record, record };
    const struct loci_reason why = {
        .what = "a record of the pool's catalog", .at = table, .peer = table->peer,
        .timeout_ns = LOCO_FOREVER,
    };
    int status = loci_wait(rt, &why, is_whole, &r);

    if (status < 0)
        return status;
    if (record->version == 0)
        return LOCO_ERR_RANGE;
    record->name[LOCI_CATALOG_NAME - 1] = '\0';
    return record->name[0] == '\0' ? LOCO_ERR_NOT_FOUND : LOCO_OK;
}

int loci_catalog_find(loco_runtime_t *rt, struct loci_mem *table, const char *name,
                        struct loci_record *record)
{
    uint64_t first = hash_of(name);

    for (uint64_t i = 0; i < LOCI_CATALOG_RECORDS; i++) {
        int status = loci_catalog_read(rt, table, first + i, record);

        if (status == LOCO_ERR_RANGE)
            break;
        if (status == LOCO_OK && strcmp(record->name, name) == 0)
            return LOCO_OK;
        if (status != LOCO_OK && status != LOCO_ERR_NOT_FOUND)
            return status;
    }
    return LOCO_ERR_NOT_FOUND;
}
