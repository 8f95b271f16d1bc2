/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Origins and windows in memory that the program gives back to the system, and gets anew at the
 * same address: what moves is what is there now. RDMA devices go on with the pages that they were
 * told of, so where a registration is kept it has to go with the memory.
 */
#include "testlib.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BYTES ((size_t)256 << 10)   /* more than is copied on its way */
#define ROUNDS 5

/* ---- ways to get memory at one address again ---- */

static unsigned char *map_at(unsigned char *at, int how)
{
    unsigned char *p = mmap(at, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | how,
                            -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static unsigned char *unmapped(unsigned char *old)
{
    if (old != NULL)
        munmap(old, BYTES);
    return map_at(old, 0);
}

static unsigned char *mapped_over(unsigned char *old)
{
    return map_at(old, old != NULL ? MAP_FIXED : 0);
}

static unsigned char *moved_away(unsigned char *old)
{
    unsigned char *to;

    if (old != NULL) {
        to = mremap(old, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
        if (to != MAP_FAILED)
            munmap(to, 2 * BYTES);
    }
    return map_at(old, 0);
}

static unsigned char *discarded(unsigned char *old)
{
    if (old == NULL)
        return map_at(NULL, 0);
    return madvise(old, BYTES, MADV_DONTNEED) == 0 ? old : NULL;
}

static unsigned char *freed(unsigned char *old)
{
    free(old);
    return malloc(BYTES);
}

/* The heap shrinks as far as it can, and grows again. */
static unsigned char *trimmed(unsigned char *old)
{
    unsigned char *p;

    mallopt(M_MMAP_THRESHOLD, 4 << 20);
    free(old);
    malloc_trim(0);
    p = malloc(BYTES);
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    return p;
}

static const struct way {
    const char *name;
    unsigned char *(*renew)(unsigned char *old);
    int by_malloc;
} ways[] = {
    {"munmap", unmapped, 0},      {"mmap over it", mapped_over, 0}, {"mremap", moved_away, 0},
    {"madvise", discarded, 0},    {"free", freed, 1},               {"malloc_trim", trimmed, 1},
};
#define WAYS (int)(sizeof ways / sizeof ways[0])

static void end_of(const struct way *way, unsigned char *memory)
{
    if (way->by_malloc)
        free(memory);
    else if (memory != NULL)
        munmap(memory, BYTES);
}

static int same(const unsigned char *got, uint64_t seed, unsigned char *room)
{
    tl_pattern(room, BYTES, seed);
    return memcmp(got, room, BYTES) == 0;
}

static uint64_t seed_of(int way, int round, int rank)
{
    return tl_mix((uint64_t)(way * ROUNDS + round), (uint64_t)rank);
}

/* ---- origins ---- */

static void put_once(struct tl_win *w, const struct way *way, int round, unsigned char *memory,
                     unsigned char *room)
{
    int next = (w->rank + 1) % w->size, before = (w->rank + w->size - 1) % w->size;

    tl_pattern(memory, BYTES, seed_of((int)(way - ways), round, w->rank));
    tl_ok(MPI_Put(memory, (int)BYTES, MPI_BYTE, next, tl_disp(w, next, 0), (int)BYTES, MPI_BYTE,
                  w->win), "put");
    tl_ok(MPI_Win_flush(next, w->win), "flush");
    tl_barrier();
    MPI_Win_sync(w->win);
    tl_true(same(w->base, seed_of((int)(way - ways), round, before), room),
            "%s, round %d: not what the origin had", way->name, round);
    tl_barrier();
}

static void get_once(struct tl_win *w, const struct way *way, int round, unsigned char *memory,
                     unsigned char *room)
{
    int next = (w->rank + 1) % w->size;

    tl_pattern(w->base, BYTES, seed_of((int)(way - ways), round, w->rank));
    MPI_Win_sync(w->win);
    tl_barrier();
    memset(memory, 0, BYTES);
    tl_ok(MPI_Get(memory, (int)BYTES, MPI_BYTE, next, tl_disp(w, next, 0), (int)BYTES, MPI_BYTE,
                  w->win), "get");
    tl_ok(MPI_Win_flush(next, w->win), "flush");
    tl_true(same(memory, seed_of((int)(way - ways), round, next), room),
            "%s, round %d: not what the target had", way->name, round);
    tl_barrier();
}

static void move(int flavor, void (*once)(struct tl_win *, const struct way *, int,
                                          unsigned char *, unsigned char *))
{
    unsigned char *room = malloc(BYTES);
    struct tl_win w;

    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, BYTES, 1)) {
        free(room);
        return;
    }
    tl_ok(MPI_Win_lock_all(0, w.win), "lock_all");
    for (int i = 0; i < WAYS; i++) {
        unsigned char *memory = NULL, *before;
        int again = 0;

        for (int round = 0; round < ROUNDS; round++) {
            before = memory;
            memory = ways[i].renew(before);
            if (!tl_true(room != NULL && memory != NULL, "%s: no memory", ways[i].name))
                break;
            again += memory == before;
            once(&w, &ways[i], round, memory, room);
        }
        if (again == 0)
            tl_note("%s: never at the same address", ways[i].name);
        end_of(&ways[i], memory);
    }
    tl_ok(MPI_Win_unlock_all(w.win), "unlock_all");
    tl_win_close(&w);
    free(room);
}

static void sources(int flavor)
{
    move(flavor, put_once);
}

static void destinations(int flavor)
{
    move(flavor, get_once);
}

/* ---- windows ---- */

static void windows(int flavor)
{
    unsigned char *room = malloc(BYTES), *mine = malloc(BYTES);
    int next = (tl_rank() + 1) % tl_size();

    (void)flavor;
    for (int i = 0; i < WAYS; i++) {
        unsigned char *memory = NULL;

        for (int round = 0; round < ROUNDS; round++) {
            MPI_Win win;

            memory = ways[i].renew(memory);
            if (!tl_true(memory != NULL && room != NULL && mine != NULL, "no memory"))
                break;
            tl_pattern(memory, BYTES, seed_of(i, round, tl_rank()));
            tl_ok(MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win), "create");
            MPI_Win_fence(0, win);
            tl_ok(MPI_Get(mine, (int)BYTES, MPI_BYTE, next, 0, (int)BYTES, MPI_BYTE, win), "get");
            MPI_Win_fence(0, win);
            tl_true(same(mine, seed_of(i, round, next), room), "%s, round %d: not what is there",
                    ways[i].name, round);
            MPI_Win_free(&win);
        }
        end_of(&ways[i], memory);
    }
    free(room);
    free(mine);
}

/* ---- how often memory is registered ---- */

/* How often memory was registered, and how often it was still so; from open on. */
struct counts {
    MPI_T_pvar_session session;
    MPI_T_pvar_handle made, kept;
};

static void variable(struct counts *c, const char *name, MPI_T_pvar_handle *handle)
{
    int index, count, rc;

    tl_true(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS
            && MPI_T_pvar_handle_alloc(c->session, index, NULL, handle, &count) == MPI_SUCCESS,
            "there is no variable %s", name);
    rc = MPI_T_pvar_start(c->session, *handle);
    tl_true(rc == MPI_SUCCESS || rc == MPI_T_ERR_PVAR_NO_STARTSTOP, "%s: start says %d", name, rc);
}

static void counts_open(struct counts *c)
{
    int provided;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&c->session);
    variable(c, "osc_loco_registrations", &c->made);
    variable(c, "osc_loco_registrations_kept", &c->kept);
}

static long long counted_by(const struct counts *c, MPI_T_pvar_handle handle)
{
    unsigned long long value = 0;

    tl_ok(MPI_T_pvar_read(c->session, handle, &value), "MPI_T_pvar_read");
    return (long long)value;
}

static void counts_close(struct counts *c)
{
    MPI_T_pvar_handle_free(c->session, &c->made);
    MPI_T_pvar_handle_free(c->session, &c->kept);
    MPI_T_pvar_session_free(&c->session);
    MPI_T_finalize();
}

#define PUTS 20

/* Rank 0 puts from a few buffers in turn. `made`: how often one is registered, if by a device,
 * which there must be if `device`. */
static void puts_from(struct tl_win *w, int buffers, long long made, int device)
{
    unsigned char *from[PUTS];
    struct counts counts;

    for (int i = 0; i < buffers; i++)
        from[i] = map_at(NULL, 0);
    counts_open(&counts);
    for (int i = 0; i < PUTS && w->rank == 0; i++) {
        tl_ok(MPI_Put(from[i % buffers], (int)BYTES, MPI_BYTE, 1, tl_disp(w, 1, 0), (int)BYTES,
                      MPI_BYTE, w->win), "put");
        tl_ok(MPI_Win_flush(1, w->win), "flush");
    }
    if (w->rank == 0 && !device
        && counted_by(&counts, counts.made) + counted_by(&counts, counts.kept) == 0)
        tl_note("nothing goes through a device");
    else if (w->rank == 0) {
        tl_eq(counted_by(&counts, counts.made), made, "registrations");
        tl_eq(counted_by(&counts, counts.kept), PUTS - made, "times that they were still there");
    }
    counts_close(&counts);
    for (int i = 0; i < buffers; i++)
        munmap(from[i], BYTES);
}

/* --room N: over a device, where no more than so many of these buffers may stay registered
 * (LOCO_RDMA_CACHE). */
static void counted(int flavor)
{
    int room = (int)tl_option("--room", -1);
    struct tl_win w;

    if (getenv("TL_REFUSED_IS_SKIP") != NULL && getenv("OSC") != NULL
        && strcmp(getenv("OSC"), "loco") != 0) {
        tl_skip("another component than loco");
        return;
    }
    if (!tl_win_open(&w, flavor, MPI_COMM_WORLD, BYTES, 1))
        return;
    tl_ok(MPI_Win_lock_all(0, w.win), "lock_all");
    if (room != 0)
        puts_from(&w, room > 0 ? room : 4, room > 0 ? room : 4, room > 0);
    if (room >= 0)
        puts_from(&w, room + 1, PUTS, 1);   /* in turn: the oldest is the next */
    tl_ok(MPI_Win_unlock_all(w.win), "unlock_all");
    tl_win_close(&w);
}

int main(int argc, char **argv)
{
    static const struct tl_case cases[] = {
        {"sources", sources, TL_ALLOCATE | TL_CREATE, 1, 120},
        {"destinations", destinations, TL_ALLOCATE, 1, 120},
        {"windows", windows, 0, 1, 120},
        {"counted", counted, TL_ALLOCATE, 2, 60},
    };

    return tl_main(argc, argv, "given_back", MPI_THREAD_SINGLE, cases, 4);
}
