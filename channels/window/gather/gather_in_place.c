/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "gather_in_place.h"

#include <string.h>
#include <unistd.h>

#define RUNS 1024               /* of pages that adjoin */

/* ---- what the records are for ---- */

static unsigned place_of(const struct loci_gather_area *area, uint64_t address)
{
    return (unsigned)(address >> area->shift) % LOCI_GATHER_PAGES;
}

static uint64_t first_page(const struct loci_gather_area *area)
{
    return (area->base + area->low) >> area->shift;
}

static uint64_t last_page(const struct loci_gather_area *area)
{
    return (area->base + area->high - 1) >> area->shift;
}

static bool begin(const struct loci_gather_way *way, const unsigned char *record, size_t bytes,
                  struct loci_gather_area *area)
{
    struct loci_gather_what what = { .word = 0 };
    uint64_t at;

    if (!loci_gather_next(record, bytes, &what))
        return false;
    area->low = loci_load64(record);
    area->high = area->low + what.len;
    if (area->high < area->low || way->locate(way, area->low, what.len, &at) != LOCO_OK)
        return false;
    area->base = at - area->low;
    area->shift = (unsigned)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
    memset(area->page, 0, sizeof area->page);
    return true;
}

/* Neither they nor what lies between is known to be the target's yet. */
static bool look_at_all(const unsigned char *record, size_t bytes, struct loci_gather_area *area)
{
    struct loci_gather_what what = { .word = 0 };

    while (bytes > 0) {
        uint64_t low, high;

        if (!loci_gather_next(record, bytes, &what))
            return false;
        low = loci_load64(record);
        high = low + what.len;
        if (high < low)
            return false;
        area->low = low < area->low ? low : area->low;
        area->high = high > area->high ? high : area->high;
        if (last_page(area) - first_page(area) >= LOCI_GATHER_PAGES)
            return false;
        area->page[place_of(area, area->base + low)] = true;
        area->page[place_of(area, area->base + high - 1)] = true;
        record += LOCI_GATHER_RECORD(what.len);
        bytes -= LOCI_GATHER_RECORD(what.len);
    }
    return true;
}

bool loci_gather_survey(const struct loci_gather_way *way, const unsigned char *record,
                        size_t bytes, struct loci_gather_area *area)
{
    uint64_t at;

    return way->reach != NULL && begin(way, record, bytes, area)
           && look_at_all(record, bytes, area)
           && way->locate(way, area->low, area->high - area->low, &at) == LOCO_OK;
}

static bool is_any_of_eight(const struct loci_gather_area *area, uint64_t page)
{
    static const bool none[8];

    return page % 8 != 0 || memcmp(&area->page[page % LOCI_GATHER_PAGES], none, 8) != 0;
}

bool loci_gather_reach(const struct loci_gather_way *way, const struct loci_gather_area *area)
{
    struct loci_piece run[RUNS];
    uint64_t last = last_page(area);
    bool before = false;
    int n = 0;

    for (uint64_t page = first_page(area); page <= last; page++) {
        bool here = area->page[page % LOCI_GATHER_PAGES];

        if (!is_any_of_eight(area, page)) {
            before = false;
            page += 7;
            continue;
        }
        if (here && !before && n == RUNS)
            return false;
        if (here && !before)
            run[n++] = (struct loci_piece){ page << area->shift, 0 };
        if (here)
            run[n - 1].len += (size_t)1 << area->shift;
        before = here;
    }
    return way->reach(way, run, n);
}

/* ---- doing them ---- */

static bool is_inside(const struct loci_gather_area *area, uint64_t low, size_t len)
{
    uint64_t size = area->high - area->low, from = low - area->low, address = area->base + low;

    return len <= size && from <= size - len
           && area->page[place_of(area, address)] && area->page[place_of(area, address + len - 1)];
}

/* Inline: a copy of a length that is known is a load or a store. */
static inline __attribute__((always_inline)) void
combine(unsigned char *at, const struct loci_gather_what *what, const unsigned char *from,
        size_t len)
{
    uint64_t value[LOCI_GATHER_MOST / 8], operand[LOCI_GATHER_MOST / 8];

    if (len == 8)
        operand[0] = loci_load64(from);
    else
        loci_copy_out(operand, from, len);
    if (what->reduce == NULL) {
        loci_copy_in(at, operand, len);
        return;
    }
    loci_copy_out(value, at, len);
    what->reduce(value, operand, what->n);
    loci_copy_in(at, value, len);
}

size_t loci_gather_in_place(const struct loci_gather_area *area, const unsigned char *record,
                            size_t bytes)
{
    struct loci_gather_what what = { .word = 0 };
    size_t left = bytes;

    while (left > 0 && loci_gather_next(record, left, &what)) {
        uint64_t low = loci_load64(record);
        unsigned char *at = (unsigned char *)(uintptr_t)(area->base + low);

        if (!is_inside(area, low, what.len))
            break;
        if (what.len == 8)
            combine(at, &what, record + 16, 8);
        else if (what.len == 4)
            combine(at, &what, record + 16, 4);
        else
            combine(at, &what, record + 16, what.len);
        record += LOCI_GATHER_RECORD(what.len);
        left -= LOCI_GATHER_RECORD(what.len);
    }
    return bytes - left;
}
