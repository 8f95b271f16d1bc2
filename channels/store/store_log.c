/* SPDX-License-Identifier: BSD-3-Clause */

/* Log slots (store_log.h). A reader takes status and entries as they come, in any order: entries
 * that have the sum of `seq` are those of `seq`, whatever the status says by now; and a status of
 * `seq` was true when it was read. */

#include "config.h"

#include <stddef.h>
#include <string.h>

#include "base/sum.h"
#include "store_log.h"

static struct loci_mem *slot_mem(struct loco_store *s, uint64_t slot)
{
    return loci_store_mem(s, loci_slot_host(s, slot), LOCI_STORE_HEAD);
}

static uint64_t sum_of(const struct loci_log_slot *image, uint64_t seq)
{
    struct loci_sum sum;
    size_t at = 1;

    loci_sum_begin(&sum, seq);
    loci_sum_add(&sum, 0, image->n);
    for (uint64_t i = 0; i < image->n; i++) {
        const struct loci_log_entry *e = &image->entry[i];

        loci_sum_add(&sum, at++, e->object);
        loci_sum_add(&sum, at++, e->old);
        loci_sum_add(&sum, at++, e->new);
    }
    return loci_sum_end(&sum);
}

void loci_log_fill(struct loci_log_slot *image, uint64_t seq)
{
    image->sum = sum_of(image, seq);
}

/* From `n` to the last entry in use. Words, as others may be reading them. */
int loci_log_write(struct loco_store *s, uint64_t slot, const struct loci_log_slot *image,
                   loco_ack_t *ack)
{
    struct loci_mem *mem = slot_mem(s, slot);
    uint64_t at = loci_slot_at(s, slot) + offsetof(struct loci_log_slot, n);
    size_t len = offsetof(struct loci_log_slot, entry) - offsetof(struct loci_log_slot, n)
                 + image->n * sizeof image->entry[0];
    unsigned char *p = loci_mem_ptr(mem);

    if (p == NULL)
        return loci_post_write(s->rt, mem, at, &image->n, len, ack);
    LOCI_COUNT_MEM(s->rt, writes, mem);
    loci_copy_in_raced(p + at, &image->n, len);
    return LOCO_OK;
}

int loci_log_swap(struct loco_store *s, uint64_t slot, uint64_t from, uint64_t to, uint64_t *old,
                  loco_ack_t *ack)
{
    return loci_compare_swap(s->rt, slot_mem(s, slot), loci_slot_at(s, slot), from, to, old, ack);
}

int loci_log_beat(struct loco_store *s, uint64_t slot, uint64_t heartbeat, loco_ack_t *ack)
{
    return loci_write64(s->rt, slot_mem(s, slot),
                        loci_slot_at(s, slot) + offsetof(struct loci_log_slot, heartbeat),
                        heartbeat, ack);
}

int loci_log_status(struct loco_store *s, uint64_t slot, uint64_t *status)
{
    return loci_read64(s->rt, slot_mem(s, slot), loci_slot_at(s, slot), status, NULL);
}

/* The whole slot, or its beginning: most transactions are short. */
#define FEW_ENTRIES 8
static int read_entries(struct loco_store *s, uint64_t slot, struct loci_log_slot *image)
{
    struct loci_mem *mem = slot_mem(s, slot);
    uint64_t at = loci_slot_at(s, slot) + offsetof(struct loci_log_slot, n);
    size_t few = offsetof(struct loci_log_slot, entry) - offsetof(struct loci_log_slot, n)
                 + FEW_ENTRIES * sizeof image->entry[0];
    const unsigned char *p = loci_mem_ptr(mem);
    int status = LOCO_OK;

    if (p != NULL)
        loci_copy_out_raced(&image->n, p + at, few);
    else
        status = loci_read(s->rt, mem, at, &image->n, few, NULL);
    if (status != LOCO_OK || image->n <= FEW_ENTRIES || image->n > LOCO_TX_WRITES_MAX)
        return status;
    few += (image->n - FEW_ENTRIES) * sizeof image->entry[0];
    if (p != NULL)
        loci_copy_out_raced(&image->n, p + at, few);
    else
        status = loci_read(s->rt, mem, at, &image->n, few, NULL);
    return status;
}

static bool find(const struct loci_log_slot *image, loco_object_t object, struct loci_owner *owner)
{
    for (uint64_t i = 0; i < image->n; i++)
        if (image->entry[i].object == object) {
            owner->old = image->entry[i].old;
            owner->new = image->entry[i].new;
            return true;
        }
    return false;
}

int loci_log_read_owner(struct loco_store *s, loco_object_t object, uint64_t word,
                        struct loci_owner *owner)
{
    uint64_t slot = loci_cell_slot(word), seq = loci_cell_seq(word);
    struct loci_log_slot image;
    int status;

    if (loci_slot_rank(s, slot) >= s->ep->group.size)   /* no word that this version makes */
        return LOCO_ERR_PROTOCOL;
    if (loci_host_is_lost(s, loci_slot_host(s, slot)))
        return LOCO_ERR_PEER_DEAD;
    status = read_entries(s, slot, &image);
    if (status == LOCO_OK)
        status = loci_log_status(s, slot, &owner->status);
    if (status != LOCO_OK)
        return status;
    owner->heartbeat = image.heartbeat;
    owner->state = loci_status_state(owner->status);
    if (loci_status_seq(owner->status) != seq || image.n > LOCO_TX_WRITES_MAX
        || image.sum != sum_of(&image, seq) || !find(&image, object, owner))
        return LOCO_ERR_AGAIN;
    return LOCO_OK;
}
