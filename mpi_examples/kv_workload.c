/* SPDX-License-Identifier: BSD-3-Clause */
#include "kv_workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORD = 8, CHECK_BITS = 64 - KV_WRITER_BITS - KV_NUMBER_BITS, SUMMED = 4096 };

static const uint64_t step_of_words = UINT64_C(0x9e3779b97f4a7c15);

const char *const kv_distribution_names[KV_DISTRIBUTIONS] = {
    [KV_UNIFORM] = "uniform",
    [KV_ZIPF] = "zipf",
    [KV_LATEST] = "latest",
};

static const struct kv_mix mixes[] = {
    { 'a', 50, KV_READ, KV_UPDATE, KV_ZIPF, "50 % reads, 50 % updates" },
    { 'b', 95, KV_READ, KV_UPDATE, KV_ZIPF, "95 % reads, 5 % updates" },
    { 'c', 100, KV_READ, KV_UPDATE, KV_ZIPF, "reads" },
    { 'd', 95, KV_READ, KV_INSERT, KV_LATEST, "95 % reads, 5 % inserts" },
    { 'e', 95, KV_SCAN, KV_INSERT, KV_ZIPF, "95 % scans, 5 % inserts" },
    { 'f', 50, KV_READ, KV_MODIFY, KV_ZIPF, "50 % reads, 50 % reads with an update" },
};

const struct kv_mix *kv_mix_find(char name)
{
    for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++) {
        if (mixes[i].name == name)
            return &mixes[i];
    }
    return NULL;
}

/* ---- Keys ---- */

static const char key_head[] = { 'u', 's', 'e', 'r' };

void kv_key_make(unsigned char *to, size_t bytes, uint64_t key)
{
    static const char digits[] = "0123456789abcdef";

    if (bytes == KV_NUMBER_KEY) {
        for (int i = 0; i < 8; i++)
            to[i] = (unsigned char)(key >> (56 - 8 * i));
        return;
    }
    memset(to, '0', bytes - 16);
    memcpy(to, key_head, sizeof(key_head));
    for (int i = 0; i < 16; i++)
        to[bytes - 16 + (size_t)i] = (unsigned char)digits[key >> (60 - 4 * i) & 15];
}

bool kv_key_read(const void *from, size_t bytes, uint64_t *key)
{
    const unsigned char *at = from;
    uint64_t number = 0;
    bool good = true;

    if (bytes == KV_NUMBER_KEY) {
        for (int i = 0; i < 8; i++)
            number = number << 8 | at[i];
        *key = number;
        return true;
    }
    if (bytes < KV_LEAST_TEXT_KEY || memcmp(at, key_head, sizeof(key_head)) != 0)
        return false;
    for (size_t i = sizeof(key_head); i < bytes; i++) {
        unsigned digit = at[i] <= '9' ? at[i] - (unsigned)'0' : at[i] - (unsigned)'a' + 10;

        good = good && digit < 16;
        number = number << 4 | (digit & 15);
    }
    *key = number;
    return good;
}

/* ---- Values ---- */

/* The first word of a value: check, writer, number. */
static uint64_t first_word(uint64_t key, struct kv_stamp stamp)
{
    uint64_t stamped = (uint64_t)stamp.writer << KV_NUMBER_BITS | (stamp.number & KV_NUMBER_MASK);
    uint64_t check = kv_mix64(key ^ kv_mix64(stamped + 1)) >> (64 - CHECK_BITS);

    return check << (64 - CHECK_BITS) | stamped;
}

void kv_value_make(void *value, size_t bytes, uint64_t key, struct kv_stamp stamp)
{
    unsigned char *to = value;
    uint64_t word = first_word(key, stamp);

    for (; bytes >= WORD; bytes -= WORD, to += WORD) {
        memcpy(to, &word, WORD);
        word += step_of_words;
    }
    memcpy(to, &word, bytes);
}

bool kv_value_check(const void *value, size_t bytes, uint64_t key, struct kv_stamp *stamp)
{
    const unsigned char *from = value;
    uint64_t word, found, wrong = 0;

    memcpy(&word, from, WORD);
    stamp->number = word & KV_NUMBER_MASK;
    stamp->writer = (word >> KV_NUMBER_BITS) & KV_MOST_WRITERS;
    wrong |= word ^ first_word(key, *stamp);
    for (bytes -= WORD, from += WORD; bytes >= WORD; bytes -= WORD, from += WORD) {
        memcpy(&found, from, WORD);
        word += step_of_words;
        wrong |= found ^ word;
    }
    word += step_of_words;
    return wrong == 0 && memcmp(from, &word, bytes) == 0;
}

/* ---- Draws ---- */

double kv_zeta(uint64_t n, double theta)
{
    uint64_t summed = n < SUMMED ? n : SUMMED;
    double sum = 0, m = (double)summed, last = (double)n;

    for (uint64_t r = summed; r >= 1; r--)
        sum += pow((double)r, -theta);
    if (n == summed)
        return sum;
    /* The terms m + 1 to n: the integral, half of the ends, and the first correction. */
    sum += (pow(last, 1 - theta) - pow(m, 1 - theta)) / (1 - theta);
    sum += (pow(last, -theta) - pow(m, -theta)) / 2;
    return sum + theta / 12 * (pow(m, -theta - 1) - pow(last, -theta - 1));
}

void kv_zipf_init(struct kv_zipf *z, uint64_t items, double theta)
{
    double share;

    z->items = items;
    z->theta = theta;
    z->alpha = 1 / (1 - theta);
    z->zetan = kv_zeta(items, theta);
    z->second = 1 + pow(0.5, theta);
    /* With one or two items every draw is among the exact ones. */
    share = items > 2 ? 1 - z->second / z->zetan : 1;
    z->eta = (1 - pow(2.0 / (double)items, 1 - theta)) / share;
}

uint64_t kv_zipf_draw(const struct kv_zipf *z, uint64_t *random)
{
    double u = kv_random_real(random), uz = u * z->zetan;
    uint64_t rank;

    if (uz < 1)
        return 0;
    if (uz < z->second || z->items <= 2)
        return 1 % z->items;
    rank = (uint64_t)((double)z->items * pow(z->eta * u - z->eta + 1, z->alpha));
    return rank < z->items ? rank : z->items - 1; /* rounding */
}

static uint32_t draw(enum kv_distribution distribution, const struct kv_zipf *zipf,
                     uint64_t records, uint64_t *random)
{
    uint64_t drawn;

    if (distribution == KV_UNIFORM)
        drawn = (uint64_t)(((unsigned __int128)kv_random(random) * records) >> 64);
    else
        drawn = kv_zipf_draw(zipf, random);
    if (distribution == KV_ZIPF)
        drawn = kv_mix64(drawn + 1) % records;
    return (uint32_t)drawn;
}

bool kv_tape_make(struct kv_tape *t, size_t count, const struct kv_mix *mix,
                  enum kv_distribution distribution, const struct kv_zipf *zipf,
                  uint64_t records, uint64_t seed)
{
    uint64_t random = kv_mix64(seed + 1);

    t->count = 1;
    while (t->count < count && t->count < KV_MOST_STEPS)
        t->count *= 2;
    t->steps = malloc(t->count * sizeof(*t->steps));
    if (t->steps == NULL)
        return false;
    for (size_t i = 0; i < t->count; i++) {
        bool other = kv_random_real(&random) * 100 >= mix->percent;

        t->steps[i] = draw(distribution, zipf, records, &random) | (other ? KV_STEP_OTHER : 0);
    }
    return true;
}

void kv_tape_free(struct kv_tape *t)
{
    free(t->steps);
    t->steps = NULL;
}

uint64_t kv_latest_index(uint64_t age, uint64_t turn, uint64_t records, uint64_t workers,
                         const uint64_t *inserted)
{
    uint64_t w = (age + turn) % workers, depth = age / workers;

    if (depth < inserted[w])
        return kv_new_index(records, workers, w, inserted[w] - 1 - depth);
    return records - 1 - ((depth - inserted[w]) * workers + w) % records;
}
