/* SPDX-License-Identifier: BSD-3-Clause */

/* See catalog.h. */

#include "config.h"

#include <string.h>

#include "catalog.h"
#include "observe/mistake.h"

int loci_catalog_check_name(loco_runtime_t *rt, const char *call, const char *name)
{
    size_t len = name == NULL ? 0 : strlen(name);

    return len > 0 && len < LOCI_CATALOG_NAME ? LOCO_OK
           : loci_mistake(rt, LOCO_ERR_NAME, call, NULL,
                          "the name of a store has %zu bytes; allowed is 1 to %d", len,
                          LOCI_CATALOG_NAME - 1);
}

uint64_t loci_catalog_hash(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash % LOCI_CATALOG_RECORDS;
}

bool loci_catalog_is_before(const struct loci_record *a, const struct loci_record *b)
{
    return a->lost != b->lost ? b->lost != 0 : a->host < b->host;
}

/* ---- stores ---- */

/* And the version in the place behind it. */
static int read_store(loco_runtime_t *rt, struct loci_mem *table, uint64_t i,
                      struct loci_record *record, uint64_t *next)
{
    int status = loci_published_read_and(rt, table, loci_catalog_store_at(i), record,
                                         sizeof *record, loci_catalog_store_at(i + 1), next);

    if (status != LOCO_OK)
        return status == LOCO_ERR_NOT_FOUND ? LOCO_ERR_RANGE : status;
    record->name[LOCI_CATALOG_NAME - 1] = '\0';
    return record->number == 0 ? LOCO_ERR_NOT_FOUND : LOCO_OK;
}

int loci_catalog_read(loco_runtime_t *rt, struct loci_mem *table, uint64_t i,
                      struct loci_record *record)
{
    uint64_t next;

    return read_store(rt, table, i, record, &next);
}

/* A search ends at a place that was never used, which is found out with the one before it. */
int loci_catalog_find(loco_runtime_t *rt, struct loci_mem *table, const char *name,
                      struct loci_record *record)
{
    uint64_t first = loci_catalog_hash(name), behind = 1;
    int found = LOCO_ERR_NOT_FOUND;

    for (uint64_t i = 0; i < LOCI_CATALOG_RECORDS && behind != 0; i++) {
        struct loci_record next;
        int status = read_store(rt, table, first + i, &next, &behind);

        if (status == LOCO_ERR_RANGE)
            break;
        if (status == LOCO_ERR_NOT_FOUND || (status == LOCO_OK && strcmp(next.name, name) != 0))
            continue;
        if (status != LOCO_OK)
            return status;
        if (found != LOCO_OK || loci_catalog_is_before(&next, record))
            *record = next;
        found = LOCO_OK;
    }
    return found;
}

int loci_catalog_is_current(loco_runtime_t *rt, struct loci_mem *table,
                            const struct loci_record *record)
{
    uint64_t version;
    int status = loci_published_version(rt, table, loci_catalog_store_at(record->at), &version);

    return status != LOCO_OK ? status : version == record->version;
}

/* ---- agents ---- */

int loci_catalog_read_agent(loco_runtime_t *rt, struct loci_mem *table, uint64_t i,
                            struct loci_agent_record *record)
{
    int status = loci_published_read(rt, table, loci_catalog_agent_at(i), record, sizeof *record);

    if (status != LOCO_OK)
        return status;
    record->machine[LOCI_MACHINE_NAME - 1] = '\0';
    return record->state == LOCI_AGENT_NONE ? LOCO_ERR_NOT_FOUND : LOCO_OK;
}

static bool is_machine(const struct loci_agent_record *record, const char *machine)
{
    size_t len = strlen(machine);

    return len > 0 && strncmp(record->machine, machine, len) == 0
           && (record->machine[len] == '\0' || record->machine[len] == '.');
}

int loci_catalog_find_agent(loco_runtime_t *rt, struct loci_mem *table, uint64_t identity,
                            const char *machine, struct loci_agent_record *record)
{
    for (uint64_t i = 0; i < LOCI_AGENTS_MAX; i++) {
        int status = loci_catalog_read_agent(rt, table, i, record);

        if (status == LOCO_OK
            && (identity != 0 ? record->identity == identity : is_machine(record, machine)))
            return LOCO_OK;
        if (status != LOCO_OK && status != LOCO_ERR_NOT_FOUND)
            return status;
    }
    return LOCO_ERR_NOT_FOUND;
}
