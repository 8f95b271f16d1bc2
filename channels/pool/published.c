/* SPDX-License-Identifier: BSD-3-Clause */

/* See published.h. */

#include "config.h"

#include <string.h>

#include "base/sum.h"
#include "move/rma.h"
#include "published.h"
#include "wait.h"

struct head {
    uint64_t version;
    uint64_t sum[2];                /* of the copies, each with its version */
    uint64_t unused[5];
};
_Static_assert(sizeof(struct head) == LOCI_PUBLISHED_HEAD, "the head has a line of its own");

static uint64_t sum_of(uint64_t version, const void *record, size_t len)
{
    const unsigned char *at = record;
    struct loci_sum sum;

    loci_sum_begin(&sum, version);
    for (size_t i = 0; i < len / 8; i++) {
        uint64_t word;

        memcpy(&word, at + 8 * i, sizeof word);
        loci_sum_add(&sum, i, word);
    }
    return loci_sum_end(&sum);
}

static size_t copy_at(uint64_t version, size_t len)
{
    return LOCI_PUBLISHED_HEAD + (version + 1) % 2 * len;
}

uint64_t loci_publish(unsigned char *place, const void *record, size_t len)
{
    uint64_t version = loci_load64(place) + 1;
    unsigned char *copy = place + copy_at(version, len);
    unsigned char *sum = place + offsetof(struct head, sum) + 8 * (version % 2);

    loci_copy_in_raced(copy, record, len);
    loci_store64(sum, sum_of(version, record, len));
    /* Release: the copy, then the version that leads to it. */
    loci_store64(place, version);
    return version;
}

struct reading {
    struct loco_runtime *rt;
    struct loci_mem *mem;
    uint64_t at, next;              /* UINT64_MAX: no other place's version is wanted */
    uint64_t version;               /* of that */
    size_t len;
    unsigned char image[LOCI_PUBLISHED(LOCI_PUBLISHED_MOST)];
};

static uint64_t version_of(const struct reading *r)
{
    uint64_t version;

    memcpy(&version, r->image, sizeof version);
    return version;
}

static const unsigned char *copy_of(const struct reading *r)
{
    return r->image + copy_at(version_of(r), r->len);
}

/* Both reads are under way together. */
static int fetch(struct reading *r)
{
    loco_ack_t ack = LOCO_ACK_INIT;
    int status, ended = LOCO_OK;

    status = loci_read(r->rt, r->mem, r->at, r->image, LOCI_PUBLISHED_HEAD + r->len, &ack);
    if (status >= 0 && r->next != UINT64_MAX)
        status = loci_read64(r->rt, r->mem, r->next, &r->version, &ack);
    ended = loco_ack_wait(r->rt, &ack);         /* on errors, too: what comes is ours */
    if (status < 0 || ended < 0)
        return status < 0 ? status : ended;
    if (version_of(r) % 2 == 1 || version_of(r) == 0)
        return LOCO_OK;
    return loci_read(r->rt, r->mem, r->at, r->image, LOCI_PUBLISHED(r->len), NULL);
}

/* 1: it is whole; 0: it was being written; or an error. */
static int is_whole(void *arg)
{
    struct reading *r = arg;
    const unsigned char *p = loci_mem_ptr(r->mem);
    struct head head;
    int status = LOCO_OK;

    if (p != NULL) {
        loci_copy_out_raced(r->image, p + r->at, LOCI_PUBLISHED(r->len));
        r->version = r->next != UINT64_MAX ? loci_load64(p + r->next) : 0;
    } else {
        status = fetch(r);
    }
    if (status != LOCO_OK)
        return status;
    memcpy(&head, r->image, sizeof head);
    return head.sum[head.version % 2] == sum_of(head.version, copy_of(r), r->len)
           || head.version == 0;
}

int loci_published_read_and(struct loco_runtime *rt, struct loci_mem *mem, uint64_t at,
                            void *record, size_t len, uint64_t next, uint64_t *version)
{
    struct reading r = { .rt = rt, .mem = mem, .at = at, .next = next, .len = len };
    const struct loci_reason why = {
        .what = "a record of the pool's directory", .at = mem, .peer = mem->peer,
        .timeout_ns = LOCO_FOREVER,
    };
    int status = loci_wait(rt, &why, is_whole, &r);

    if (status < 0)
        return status;
    *version = r.version;
    if (version_of(&r) == 0)
        return LOCO_ERR_NOT_FOUND;
    memcpy(record, copy_of(&r), len);
    return LOCO_OK;
}

int loci_published_read(struct loco_runtime *rt, struct loci_mem *mem, uint64_t at, void *record,
                        size_t len)
{
    uint64_t version;

    return loci_published_read_and(rt, mem, at, record, len, UINT64_MAX, &version);
}

int loci_published_version(struct loco_runtime *rt, struct loci_mem *mem, uint64_t at,
                           uint64_t *version)
{
    return loci_read64(rt, mem, at, version, NULL);
}
