/* SPDX-License-Identifier: BSD-3-Clause */

/* Key-value stores: many lookups at once.
 *
 * A get is put down first, and the memory of its index cell is asked for. When AHEAD of them have
 * come together, or somebody asks how they are, all are looked up, and the memory of their values
 * is asked for; then all values are taken: so the cache misses of AHEAD gets are under way
 * together, not one after the other. Where a value is not mapped here, its read over a lane begins
 * then. What that brought is looked at when somebody asks, and read again if it was torn. */

#include "config.h"

#include "kv_value.h"
#include "observe/mistake.h"

#define AHEAD 16                        /* keys whose memory is fetched together */
#define MOST_AHEAD 256                  /* bytes of a value; the rest follows by itself */
#define SPARE_SIZE 64                   /* reads under way of a _get_many */

struct call {
    int *status;                        /* NULL: not in use */
    void *value;
    uint64_t key, word;
    loco_ack_t ack;
    uint64_t *image;
};

/* Gets that are put down, and nothing more. */
struct noted {
    int n;
    uint64_t key[AHEAD];
    void *value[AHEAD];
    int *status[AHEAD];
};

struct loco_kvstore_window {
    struct loco_kvstore *kv;
    int size;
    int busy;                           /* reads over lanes */
    struct noted noted;
    uint64_t *images;
    struct call call[];
};

/* ---- life ---- */

int loco_kvstore_window_open(loco_kvstore_t *kv, int size, loco_kvstore_window_t **out)
{
    size_t words = loci_kv_image_bytes(kv) / sizeof(uint64_t);
    struct loco_kvstore_window *w;

    if (size < 1 || size > LOCO_KVSTORE_WINDOW_MAX)
        return loci_bad_arg(kv->rt, "loco_kvstore_window_open", kv->ep->name, "size", size,
                            "1 to %d", LOCO_KVSTORE_WINDOW_MAX);
    w = calloc(1, sizeof *w + (size_t)size * sizeof w->call[0]);
    if (w == NULL)
        return LOCO_ERR_NO_MEMORY;
    w->images = malloc((size_t)size * words * sizeof w->images[0]);
    if (w->images == NULL) {
        free(w);
        return LOCO_ERR_NO_MEMORY;
    }
    w->kv = kv;
    w->size = size;
    for (int i = 0; i < size; i++)
        w->call[i].image = w->images + (size_t)i * words;
    *out = w;
    return LOCO_OK;
}

void loco_kvstore_window_close(loco_kvstore_window_t *w)
{
    if (w == NULL)
        return;
    loco_kvstore_window_wait(w);
    free(w->images);
    free(w);
}

/* ---- lookups ---- */

static void fetch_place(const struct loco_kvstore *kv, const unsigned char *place)
{
    size_t len = kv->stride < MOST_AHEAD ? kv->stride : MOST_AHEAD;

    for (size_t at = 0; at < len; at += LOCI_CACHE_LINE)
        __builtin_prefetch(place + at);
    __builtin_prefetch(place + len - 1);
}

/* At most AHEAD keys, whose cells were asked for: their words, and ask for their values. */
static void look_up(struct loco_kvstore *kv, int n, const uint64_t *keys, uint64_t *word)
{
    for (int i = 0; i < n; i++) {
        const unsigned char *base;

        word[i] = loci_kv_index_find(&kv->index, keys[i]);
        base = word[i] == 0 ? NULL : loci_mem_ptr(loci_kv_mem(kv, word[i]));
        if (base != NULL)
            fetch_place(kv, base + loci_kv_offset(kv, word[i]));
    }
}

/* LOCI_KV_TORN: it has to be read over a lane. */
static int get_here(struct loco_kvstore *kv, uint64_t key, uint64_t word, void *value)
{
    int got = word == 0 ? LOCO_ERR_NOT_FOUND : loci_kv_get_mapped(kv, word, value);

    if (got == LOCI_KV_TORN && (loci_kv_is_lost(kv, word) || loci_kv_mapped(kv, word) != NULL))
        got = loci_kv_read_value(kv, key, word, value);
    return got;
}

/* ---- calls under way ---- */

static void finish(struct loco_kvstore_window *w, struct call *c, int status)
{
    *c->status = status;
    c->status = NULL;
    w->busy--;
}

/* The read has come, or failed. A torn value is read again; slowly where somebody is dead, since
 * that may be its writer. */
static void look(struct loco_kvstore_window *w, struct call *c)
{
    struct loco_kvstore *kv = w->kv;
    int status = loco_ack_test(kv->rt, &c->ack);

    if (status == LOCO_IN_PROGRESS)
        return;
    if (status == LOCO_OK)
        status = loci_kv_parse_image(kv, c->image, c->word, c->value);
    if (status != LOCI_KV_TORN) {
        finish(w, c, status);
        return;
    }
    if (atomic_load_explicit(&kv->rt->deaths, memory_order_relaxed) != 0) {
        finish(w, c, loci_kv_read_value(kv, c->key, c->word, c->value));
        return;
    }
    atomic_fetch_add_explicit(&kv->retries, 1, memory_order_relaxed);
    c->ack = (loco_ack_t)LOCO_ACK_INIT;
    status = loci_kv_read_image(kv, c->word, c->image, &c->ack);
    if (status != LOCO_OK)
        finish(w, c, status);
}

static void begin_noted(struct loco_kvstore_window *w);

int loco_kvstore_window_poll(loco_kvstore_window_t *w)
{
    begin_noted(w);
    for (int i = 0; i < w->size && w->busy > 0; i++)
        if (w->call[i].status != NULL)
            look(w, &w->call[i]);
    return w->busy;
}

struct room {
    struct loco_kvstore_window *w;
    int busy;                           /* so many calls may be left */
};

static int has_room(void *arg)
{
    struct room *room = arg;

    return loco_kvstore_window_poll(room->w) <= room->busy;
}

/* Reads end by themselves: with the death of whom they read from, at the latest. */
static int wait_for(struct loco_kvstore_window *w, int busy)
{
    const struct loci_reason why = {
        .what = "values under way", .peer = -1, .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_FENCE,
    };
    struct room room = { w, busy };

    return w->busy + w->noted.n <= busy ? LOCO_OK
           : loci_wait(w->kv->rt, &why, has_room, &room);
}

int loco_kvstore_window_wait(loco_kvstore_window_t *w)
{
    return wait_for(w, 0);
}

static struct call *free_call(struct loco_kvstore_window *w)
{
    for (int i = 0; i < w->size; i++)
        if (w->call[i].status == NULL)
            return &w->call[i];
    return NULL;
}

/* Read over a lane. */
static void begin(struct loco_kvstore_window *w, uint64_t key, uint64_t word, void *value,
                  int *status)
{
    struct call *c;
    int begun = wait_for(w, w->size - 1);

    *status = begun;
    if (begun != LOCO_OK)
        return;
    c = free_call(w);
    *c = (struct call){ status, value, key, word, LOCO_ACK_INIT, c->image };
    *status = LOCO_IN_PROGRESS;
    w->busy++;
    begun = loci_kv_read_image(w->kv, word, c->image, &c->ack);
    if (begun != LOCO_OK)
        finish(w, c, begun);
}

static void begin_one(struct loco_kvstore_window *w, uint64_t key, uint64_t word, void *value,
                      int *status)
{
    int got = get_here(w->kv, key, word, value);

    if (got != LOCI_KV_TORN)
        *status = got;
    else
        begin(w, key, word, value, status);
}

static void begin_noted(struct loco_kvstore_window *w)
{
    const struct noted *noted = &w->noted;
    uint64_t word[AHEAD];
    int n = noted->n;

    if (n == 0)
        return;
    loci_kv_help(w->kv);
    w->noted.n = 0;         /* nothing is noted while these are begun */
    look_up(w->kv, n, noted->key, word);
    for (int i = 0; i < n; i++)
        begin_one(w, noted->key[i], word[i], noted->value[i], noted->status[i]);
}

/* ---- calls ---- */

int loco_kvstore_get_ack(loco_kvstore_window_t *w, uint64_t key, void *value, size_t len,
                         int *status)
{
    struct noted *noted = &w->noted;
    int room;

    if (len != w->kv->value_bytes)
        return *status = LOCO_ERR_SIZE;
    room = wait_for(w, w->size - 1);
    if (room != LOCO_OK)
        return *status = room;
    loci_kv_index_soon(&w->kv->index, key);
    noted->key[noted->n] = key;
    noted->value[noted->n] = value;
    noted->status[noted->n++] = status;
    *status = LOCO_IN_PROGRESS;
    if (noted->n == AHEAD || noted->n == w->size)
        begin_noted(w);
    return LOCO_OK;
}

int loco_kvstore_update_ack(loco_kvstore_window_t *w, uint64_t key, const void *value, size_t len,
                            int *status)
{
    *status = loco_kvstore_update(w->kv, key, value, len);
    return *status == LOCO_ERR_SIZE ? LOCO_ERR_SIZE : LOCO_OK;
}

/* ---- many at once ---- */

/* The window of a _get_many: what the last one left, or a new one. */
static int borrow(struct loco_kvstore *kv, struct loco_kvstore_window **w)
{
    if (*w == NULL)
        *w = atomic_exchange_explicit(&kv->spare, NULL, memory_order_acquire);
    return *w != NULL ? LOCO_OK : loco_kvstore_window_open(kv, SPARE_SIZE, w);
}

static void give_back(struct loco_kvstore *kv, struct loco_kvstore_window *w)
{
    loco_kvstore_window_close(atomic_exchange_explicit(&kv->spare, w, memory_order_acq_rel));
}

static void get_one(struct loco_kvstore *kv, struct loco_kvstore_window **w, uint64_t key,
                    uint64_t word, void *value, int *status)
{
    *status = get_here(kv, key, word, value);
    if (*status != LOCI_KV_TORN)
        return;
    *status = borrow(kv, w);
    if (*status == LOCO_OK)
        begin(*w, key, word, value, status);
}

/* At most AHEAD keys. */
static void get_some(struct loco_kvstore *kv, struct loco_kvstore_window **w, int n,
                     const uint64_t *keys, unsigned char *values, int *statuses)
{
    uint64_t word[AHEAD];

    loci_kv_help(kv);
    for (int i = 0; i < n; i++)
        loci_kv_index_soon(&kv->index, keys[i]);
    look_up(kv, n, keys, word);
    for (int i = 0; i < n; i++)
        get_one(kv, w, keys[i], word[i], values + (size_t)i * kv->value_bytes, &statuses[i]);
}

static int get_many(loco_kvstore_t *kv, size_t n, const uint64_t *keys, void *values, size_t len,
                    int *statuses)
{
    struct loco_kvstore_window *w = NULL;
    int some;

    if (len != kv->value_bytes)
        return LOCO_ERR_SIZE;
    for (size_t i = 0; i < n; i += (size_t)some) {
        some = n - i < AHEAD ? (int)(n - i) : AHEAD;
        get_some(kv, &w, some, keys + i, (unsigned char *)values + i * len, statuses + i);
    }
    if (w != NULL) {
        loco_kvstore_window_wait(w);
        give_back(kv, w);
    }
    for (size_t i = 0; i < n; i++)
        if (statuses[i] != LOCO_OK && statuses[i] != LOCO_ERR_NOT_FOUND)
            return statuses[i];
    return LOCO_OK;
}

int loco_kvstore_get_many(loco_kvstore_t *kv, size_t n, const uint64_t *keys, void *values,
                          size_t len, int *statuses)
{
    struct loci_thread *self = loci_call_begin(kv->ep->calls, LOCI_CALL_GET, n * len);

    return loci_call_end(self, get_many(kv, n, keys, values, len, statuses));
}
