/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TOPIC_HISTORY_H
#define LOCI_TOPIC_HISTORY_H

#include <loco/topic.h>

/* The last samples of a topic: so many at most, of so many bytes at most. Memory is taken once. Of
 * one thread, the poller. */

#define LOCI_TOPIC_ENTRY ((size_t)48)   /* bytes that count for each sample beside its own */

struct loci_topic_entry {
    uint64_t at;                /* where it is, in a ring that never ends */
    uint64_t number, record;
    size_t bytes;
    int publisher;
};
_Static_assert(sizeof(struct loci_topic_entry) <= LOCI_TOPIC_ENTRY, "it counts as that");

struct loci_topic_history {
    struct loci_topic_entry *entry;     /* a ring of `most` */
    unsigned char *ring;
    size_t most, limit, size;           /* entries; bytes of all; bytes of the ring */
    uint64_t first, next;               /* entries, counted from the beginning */
    uint64_t end;                       /* of the last sample, in the ring that never ends */
    size_t used;                        /* of `limit` */
};

/* Samples that may be kept at a time, `samples` (0: as the bytes allow) and `bytes` (0: as that
 * many need), each of `largest` at most. LOCO_ERR_NO_MEMORY. */
int loci_topic_history_open(struct loci_topic_history *h, size_t samples, size_t bytes,
                            size_t largest);
void loci_topic_history_close(struct loci_topic_history *h);

/* Keep this one; the oldest ones go. One that is larger than all may be leaves nothing. */
void loci_topic_history_put(struct loci_topic_history *h, const loco_sample_t *sample);
/* Samples `from` to `from` + max - 1, counted from the oldest; how many there are. */
int loci_topic_history_get(const struct loci_topic_history *h, uint64_t from, int max,
                           loco_sample_t *samples);

#endif
