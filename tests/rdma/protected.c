/* SPDX-License-Identifier: BSD-3-Clause */

/* Cases of `contract`: memory that may not be written, or not be locked. A device is told of memory
 * what peers may do there, so it refuses some of what shared memory serves; it says why, and what
 * is not refused is served. */

#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "world.h"

#define PAGE ((size_t)4096)
#define PAGES 8
#define LONG_BYTES ((size_t)4 << 20)

static unsigned char *pages(void)
{
    unsigned char *base = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return base != MAP_FAILED ? base : NULL;
}

/* A file of so many bytes, each its pattern, that may be read. */
static unsigned char *file_to_read(size_t len)
{
    char name[] = "/tmp/loco-contract.XXXXXX";
    int fd = mkstemp(name);
    unsigned char *base = MAP_FAILED;

    if (fd >= 0 && unlink(name) == 0 && ftruncate(fd, (off_t)len) == 0) {
        base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        for (size_t i = 0; base != MAP_FAILED && i < len; i++)
            base[i] = pattern(i, 5);
        if (base != MAP_FAILED && mprotect(base, len, PROT_READ) != 0)
            base = MAP_FAILED;
        close(fd);
    }
    return base != MAP_FAILED ? base : NULL;
}

static int add(struct world *w, unsigned char *base, size_t len, int expected)
{
    struct loci_mem mem = { .key.kind = LOCI_MEM_NONE };
    int status = loci_user_add(w->rt, base, len, &mem);

    if (status == LOCO_OK)
        loci_user_remove(w->rt, &mem);
    CHECK_EQ(status, expected);
    return 0;
}

/* What a device cannot serve as one is refused, for its protection. */
static int refused(struct world *w)
{
    unsigned char *base = pages(), *file = file_to_read(PAGES * PAGE);

    CHECK(base != NULL && file != NULL);
    CHECK(add(w, base, PAGES * PAGE, LOCO_OK) == 0);
    CHECK_EQ(mprotect(base + PAGE, PAGE, PROT_READ), 0);
    CHECK(add(w, base, PAGES * PAGE, LOCO_ERR_SHARED) == 0);
    CHECK(add(w, base + 2 * PAGE, (PAGES - 2) * PAGE, LOCO_OK) == 0);
    CHECK_EQ(mprotect(base + PAGE, PAGE, PROT_NONE), 0);
    CHECK(add(w, base, PAGES * PAGE, LOCO_ERR_SHARED) == 0);
    CHECK_EQ(munmap(base + PAGE, PAGE), 0);
    CHECK(add(w, base, PAGES * PAGE, LOCO_ERR_SHARED) == 0);
    CHECK(add(w, file, PAGES * PAGE, LOCO_ERR_SHARED) == 0);
    munmap(file, PAGES * PAGE);
    return 0;
}

/* What all may only read can be read, and a write is refused to who writes, each time. */
static int read_only(struct world *w)
{
    struct loci_mem mine = { .key.kind = LOCI_MEM_NONE }, all[PEERS], *to = &all[next_of(w)];
    unsigned char *base = pages(), back[PAGE];
    uint64_t word;

    CHECK(base != NULL);
    for (size_t i = 0; i < PAGES * PAGE; i++)
        base[i] = pattern(i, w->m->rank);
    CHECK_EQ(mprotect(base, PAGES * PAGE, PROT_READ), 0);
    CHECK_OK(loci_user_add(w->rt, base, PAGES * PAGE, &mine));
    CHECK(share(w, &mine, all) == 0);
    for (int round = 0; round < 3; round++) {
        CHECK_OK(loci_write64(w->rt, &w->users[next_of(w)], 8, (uint64_t)round, NULL));
        CHECK_EQ(loci_write64(w->rt, to, 8, 1, NULL), LOCO_ERR_RANGE);
        CHECK_EQ(loci_write(w->rt, to, 8, back, PAGE, NULL), LOCO_ERR_RANGE);
        CHECK_EQ(loci_fetch_add(w->rt, to, 8, 1, &word, NULL), LOCO_ERR_RANGE);
        CHECK_OK(loci_fence_peer(w->rt, LOCO_FENCE_THREAD, to->peer));
        CHECK_OK(loci_read(w->rt, to, PAGE / 2, back, PAGE, NULL));
        for (size_t i = 0; i < PAGE; i++)
            CHECK_EQ(back[i], pattern(PAGE / 2 + i, next_of(w)));
    }
    CHECK_OK(together(w));
    loci_user_remove(w->rt, &mine);
    munmap(base, PAGES * PAGE);
    return 0;
}

int guarded(struct member *m)
{
    struct world w;

    CHECK(enter(&w, m, LEN) == 0);
    if (by_device(&w)) {
        CHECK(refused(&w) == 0);
        CHECK(read_only(&w) == 0);
    }
    return leave(&w);
}

/* Long operations whose buffers here the device may not have: a file that may be read, and, where
 * the limit of locked memory is just above what the runtime needs, whatever else. */
int copied(struct member *m)
{
    unsigned char *file = file_to_read(LONG_BYTES), *back = malloc(LONG_BYTES);
    struct world w;
    struct loci_mem *to;

    CHECK(file != NULL && back != NULL);
    CHECK(enter(&w, m, LEN) == 0);
    loci_free(w.rt, &w.pool);
    CHECK_OK(loci_alloc(w.rt, LONG_BYTES + 1, 0, &w.pool));
    CHECK(share(&w, &w.pool, w.pools) == 0);
    to = &w.pools[next_of(&w)];
    CHECK_OK(loci_write(w.rt, to, 1, file, LONG_BYTES, NULL));
    memset(back, 0xee, LONG_BYTES);
    CHECK_OK(loci_read(w.rt, to, 1, back, LONG_BYTES, NULL));
    CHECK_EQ(memcmp(back, file, LONG_BYTES), 0);
    memset(back, 0x11, LONG_BYTES);
    CHECK_OK(loci_write(w.rt, to, 1, back, LONG_BYTES, NULL));
    CHECK_OK(loci_fence_peer(w.rt, LOCO_FENCE_THREAD, to->peer));
    CHECK_OK(together(&w));
    CHECK_EQ(memcmp(loci_mem_ptr(&w.pool) + 1, back, LONG_BYTES), 0);
    CHECK_OK(together(&w));
    if (by_device(&w))
        CHECK_EQ(loci_read(w.rt, to, 0, file, LONG_BYTES, NULL), LOCO_ERR_ARG);
    CHECK_OK(loci_fence_peer(w.rt, LOCO_FENCE_THREAD, to->peer));
    munmap(file, LONG_BYTES);
    free(back);
    return leave(&w);
}
