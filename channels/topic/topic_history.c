/* SPDX-License-Identifier: BSD-3-Clause */

/* The last samples of a topic, in a ring of bytes. A sample is in one piece: where it does not fit
 * before the ring's end, that is left empty. The ring has room for that beside all that may be
 * kept: of what is kept at a time at most one sample begins anew. */

#include "config.h"

#include "topic_history.h"

#include <stdlib.h>

#include "move/access.h"

#define ALIGN ((size_t)16)
#define MOST (SIZE_MAX / 4)             /* bytes, so that no sum of two overflows */

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static size_t cost(size_t bytes)
{
    return aligned(bytes) + LOCI_TOPIC_ENTRY;
}

int loci_topic_history_open(struct loci_topic_history *h, size_t samples, size_t bytes,
                            size_t largest)
{
    if (largest > MOST || bytes > MOST || (bytes == 0 && samples > MOST / cost(largest)))
        return LOCO_ERR_NO_MEMORY;
    *h = (struct loci_topic_history){ .limit = bytes != 0 ? bytes : samples * cost(largest) };
    h->most = h->limit / LOCI_TOPIC_ENTRY;
    if (samples != 0 && samples < h->most)
        h->most = samples;
    h->size = aligned(h->limit) + aligned(largest);
    h->entry = calloc(h->most, sizeof *h->entry);
    h->ring = aligned_alloc(ALIGN, h->size);
    if (h->entry != NULL && h->ring != NULL)
        return LOCO_OK;
    loci_topic_history_close(h);
    return LOCO_ERR_NO_MEMORY;
}

void loci_topic_history_close(struct loci_topic_history *h)
{
    free(h->ring);
    free(h->entry);
    h->ring = NULL;
    h->entry = NULL;
}

static struct loci_topic_entry *entry_of(const struct loci_topic_history *h, uint64_t i)
{
    return &h->entry[i % h->most];
}

static void drop_oldest(struct loci_topic_history *h)
{
    h->used -= cost(entry_of(h, h->first)->bytes);
    h->first++;
}

void loci_topic_history_put(struct loci_topic_history *h, const loco_sample_t *sample)
{
    size_t bytes = aligned(sample->bytes);

    while (h->first < h->next
           && (h->next - h->first == h->most || h->used + cost(sample->bytes) > h->limit))
        drop_oldest(h);
    if (cost(sample->bytes) > h->limit)
        return;
    if (h->end % h->size + bytes > h->size)
        h->end += h->size - h->end % h->size;
    loci_copy_out(h->ring + h->end % h->size, sample->data, sample->bytes);
    *entry_of(h, h->next) = (struct loci_topic_entry){
        .at = h->end, .number = sample->number, .record = sample->record, .bytes = sample->bytes,
        .publisher = sample->publisher,
    };
    h->end += bytes;
    h->used += cost(sample->bytes);
    h->next++;
}

int loci_topic_history_get(const struct loci_topic_history *h, uint64_t from, int max,
                           loco_sample_t *samples)
{
    int n = 0;

    for (uint64_t i = h->first + from; i < h->next && n < max; i++, n++) {
        const struct loci_topic_entry *e = entry_of(h, i);

        samples[n] = (loco_sample_t){
            .data = h->ring + e->at % h->size, .bytes = e->bytes, .publisher = e->publisher,
            .kept = 1, .number = e->number, .record = e->record,
        };
    }
    return n;
}
