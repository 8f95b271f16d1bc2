/* SPDX-License-Identifier: BSD-3-Clause */

/* Own memory: anonymous memory files.
 *
 * Touching what is committed never fails. Where memory is scarce it is filled at once (fallocate).
 * Before, it is compared with what is left; from the look to the fill no other process of the node
 * does the same (memory/turn.c). A process that could not have its turn in time looks again before
 * each step: if others take what it has counted on, it stops before all of it is gone.
 *
 * Where there is plenty, it is owed: a program that makes large windows, and touches little of
 * them or all of it later, does not wait for the kernel to find and clear so many pages. What all
 * processes of the node owe (memory/promise.c) is no more than a part of what is left when one of
 * them takes on more of it; who fills at once leaves what others owe, or calls it in before. So
 * whoever is refused, or not, it is as if all had filled at once. The service thread of who owes
 * fills a piece now and then, and all of it when called or when there is plenty no more; what
 * programs touch is filled anyway. So nothing is owed for ever.
 *
 * Who does not answer a call may be stopped, or pretend: anybody can. What processes of this user
 * owe, which nobody else can pretend for them, is left to them as long as they live, and whoever
 * needs it is refused. What others say they owe is left to them while they are called: until they
 * have filled nothing for CALL_NS, for CALL_MOST_NS at most, and then not for DEAF_NS. So strangers
 * cost that time, and nobody's memory; and a process that is stopped while it owes is not protected
 * from other users, nor from processes whose /proc does not show it.
 *
 * The first pieces of an extent are filled at once, if they are few: a process that makes a few
 * channels owes nothing, and its service thread sleeps.
 *
 * To look at what is left takes the system a tenth of a millisecond. So more is told than is owed,
 * and what is handed out next comes of this reserve, without a look. It was told when there was
 * plenty; who calls promises in has it dropped, too.
 *
 * `owed` of a piece: set in commit(), cleared once it is filled, both under fabric->lock. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "descriptor.h"
#include "memory/budget.h"
#include "memory/memfile.h"
#include "memory/memory.h"
#include "memory/promise.h"
#include "memory/turn.h"
#include "shm.h"
#include "wait.h"

#define ALIGN ((size_t)2 << 20)             /* a huge page */
#define FILL_STEP ((size_t)64 << 20)        /* one fallocate; signals wait that long */
#define FILL_STEP_LEAST ((size_t)4 << 20)   /* where others may take memory, too: */
#define FILL_OTHERS 16                      /* so many at once */
#define PIECE ALIGN                         /* what is committed is a multiple of it */
#define FEW_BYTES (2 * PIECE)               /* of a new extent are filled at once */
#define PLENTY 4                            /* owed is at most such a part of what is left; */
#define PLENTY_NO_MORE 2                    /* where it is such a part, it is filled */
#define RESERVE_PART 8                      /* beside it such a part of what more may be owed is */
#define RESERVE_MOST 512                    /* told, and so many pieces at most, */
#define RESERVE_NS INT64_C(5000000000)      /* until nothing of it was used for so long */
#define SETTLE_NS INT64_C(100000000)        /* from one piece that is filled to the next */
#define SETTLE_AT_ONCE INT64_C(10000000)    /* of many, until others may have the lock, */
#define SETTLE_AGAIN INT64_C(1000000)       /* for so long */
#define CALL_NS INT64_C(1000000000)         /* others get so long to fill some of what they owe, */
#define CALL_MOST_NS INT64_C(10000000000)   /* and so long to fill all, and strangers */
#define DEAF_NS INT64_C(60000000000)        /* are not called again so soon if they did not */
#define LOOK_NS INT64_C(2000000)            /* how often it is looked what is left of it, */
#define LOOK_USER_NS INT64_C(50000000)      /* and whose */

/* ---- filling ---- */

bool loci_shm_needs_populate(void)
{
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "re");
    char line[256] = "";

    if (f == NULL)
        return false;
    if (fgets(line, sizeof line, f) == NULL)
        line[0] = '\0';
    fclose(f);
    return strstr(line, "[advise]") != NULL;
}

/* Of our own limit. */
static size_t left_to_us(const struct shm_fabric *f)
{
    size_t limit = (size_t)f->rt->tunables.mem_limit, used = f->rt->memory_used;

    return limit > used ? limit - used : 0;
}

/* Of the machine and the control groups. Huge pages were set aside when the file was mapped. */
static size_t left_to_all(const struct shm_extent *e)
{
    return e->huge ? SIZE_MAX : loci_memory_to_commit(SIZE_MAX, 0);
}

static size_t left(const struct shm_fabric *f, const struct shm_extent *e)
{
    size_t to_us = left_to_us(f), to_all = left_to_all(e);

    return to_us < to_all ? to_us : to_all;
}

/* 0, or errno. */
static int fill_step(const struct shm_extent *e, bool populate, size_t from, size_t step)
{
    if (populate && madvise(e->base + from, step, MADV_POPULATE_WRITE) == 0)
        return 0;
    return fallocate(e->fd, 0, (off_t)from, (off_t)step) == 0 ? 0 : errno;
}

/* How much to fill before the next look at what is left, where others may take of it, too: the
 * less, the less is left beyond what we need. 0: that is no longer there. */
static size_t careful_step(size_t left, size_t needed)
{
    size_t part = left < needed ? 0 : (left - needed) / FILL_OTHERS;

    if (left < needed)
        return 0;
    return part < FILL_STEP_LEAST ? FILL_STEP_LEAST : part < FILL_STEP ? part : FILL_STEP;
}

/* 0, or errno. A signal makes fallocate give back what it has filled: none is let in meanwhile. */
static int fill(const struct shm_fabric *f, const struct shm_extent *e, size_t from, size_t to,
                bool in_turn)
{
    bool populate = f->populate && !e->huge;
    sigset_t all, before;
    int error = 0;

    sigfillset(&all);
    while (from < to && error == 0) {
        size_t most = in_turn ? FILL_STEP : careful_step(left(f, e), to - from);
        size_t step = to - from < most ? to - from : most;

        if (most == 0)
            return ENOMEM;
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = fill_step(e, populate, from, step);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (error == EINTR)
            error = 0;
        else
            from += step;
    }
    return error;
}

static void give_back(int fd, size_t from, size_t to)
{
    (void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
                     (off_t)(to - from));
}

/* ---- owing ---- */

/* A machine that grants no more memory than it has refuses a page that is touched, by a signal. */
static bool is_strict(void)
{
    FILE *f = fopen("/proc/sys/vm/overcommit_memory", "re");
    int mode = 2;

    if (f == NULL)
        return true;
    if (fscanf(f, "%d", &mode) != 1)
        mode = 2;
    fclose(f);
    return mode == 2;
}

/* A device pins all of an extent, which fills it. Large extents cost nothing where address space
 * does not, and where no huge pages are set aside, of which an extent takes as many as it may ever
 * need. */
void loci_shm_promises_open(struct shm_fabric *f)
{
    bool pins = f->device_receive != NULL;
    size_t page = 0;

    loci_promises_init(&f->promises);
    loci_errands_open(&f->errands, f->rt, "loco-memory");
    if (pins || is_strict())
        atomic_store_explicit(&f->promises.forbidden, true, memory_order_relaxed);
    f->rt->roomy = !pins && loci_budget_address_space("") == LOCI_BUDGET_ENDLESS
                   && (f->rt->tunables.huge_pages == LOCI_HUGE_NEVER
                       || (f->rt->tunables.huge_pages == LOCI_HUGE_AUTO
                           && loci_budget_huge_pages("", &page) == 0));
}

/* Pieces of an extent, under fabric->lock: what was touched is owed no more. */
static uint64_t owed_by(const struct shm_extent *e)
{
    struct stat file;
    uint64_t there, pieces;

    if (e->pieces_owed == 0 || fstat(e->fd, &file) != 0)
        return e->pieces_owed;
    there = (uint64_t)file.st_blocks * 512;
    pieces = there < e->committed ? (e->committed - there + PIECE - 1) / PIECE : 0;
    return pieces < e->pieces_owed ? pieces : e->pieces_owed;
}

static uint64_t owed_by_all(const struct shm_fabric *f)
{
    uint64_t pieces = 0;

    for (const struct shm_extent *e = f->extents; e != NULL; e = e->next)
        pieces += owed_by(e);
    return pieces;
}

static void set_owed(struct shm_fabric *f, struct shm_extent *e, size_t from, size_t to, bool owed)
{
    size_t count = 0;

    for (size_t i = from / PIECE; i < to / PIECE; i++) {
        count += e->owed[i] != owed;
        e->owed[i] = owed;
    }
    e->pieces_owed = owed ? e->pieces_owed + count : e->pieces_owed - count;
    if (owed)
        atomic_fetch_add(&f->pieces_owed, count);
    else
        atomic_fetch_sub(&f->pieces_owed, count);
}

/* Under fabric->lock: what others see. */
static bool tell_owed(struct shm_fabric *f)
{
    return loci_promises_set(&f->promises, owed_by_all(f) + atomic_load(&f->reserve));
}

/* Under fabric->lock; `reserve` is then what is told beside it. */
static bool owe(struct shm_fabric *f, struct shm_extent *e, size_t from, size_t to, size_t reserve)
{
    size_t before = atomic_load(&f->reserve);

    set_owed(f, e, from, to, true);
    e->committed += to - from;
    atomic_store(&f->reserve, reserve);
    atomic_store(&f->reserve_until, loci_now(f->rt) + RESERVE_NS);
    /* From the reserve, no more is owed than they see. */
    if (reserve < before || tell_owed(f))
        return true;
    set_owed(f, e, from, to, false);
    e->committed -= to - from;
    atomic_store(&f->reserve, before);
    return false;
}

/* Under fabric->lock. */
static bool can_owe(struct shm_extent *e)
{
    if (e->owed == NULL)
        e->owed = calloc(e->len / PIECE, 1);
    return e->owed != NULL;
}

/* Without a look at what is left, which was there when the reserve was told. */
static bool promise_of_reserve(struct shm_fabric *f, struct shm_extent *e, size_t from, size_t to)
{
    size_t pieces = (to - from) / PIECE, reserve;
    bool good;

    if (e->huge || atomic_load(&f->reserve) < pieces)
        return false;
    pthread_mutex_lock(&f->lock);
    reserve = atomic_load(&f->reserve);
    good = reserve >= pieces && can_owe(e) && owe(f, e, from, to, reserve - pieces);
    pthread_mutex_unlock(&f->lock);
    return good;
}

/* In turn. False: fill it at once. */
static bool promise(struct shm_fabric *f, struct shm_extent *e, size_t from, size_t to)
{
    uint64_t others = loci_promises_of_others(&f->promises), most, all, reserve;
    bool good;

    if (e->huge || others == UINT64_MAX || !loci_promises_are_seen(&f->promises))
        return false;
    most = left_to_all(e) / PIECE / PLENTY;
    pthread_mutex_lock(&f->lock);
    all = owed_by_all(f) + (to - from) / PIECE + others;
    good = all <= most && can_owe(e);
    if (good) {
        reserve = (most - all) / RESERVE_PART;
        atomic_store(&f->reserve, 0);
        good = owe(f, e, from, to, reserve < RESERVE_MOST ? reserve : RESERVE_MOST);
    }
    pthread_mutex_unlock(&f->lock);
    if (good)
        loci_shm_timer_soon(f);
    return good;
}

/* What was told when there was plenty holds no more once that is taken. */
static void drop_reserve(struct shm_fabric *f)
{
    pthread_mutex_lock(&f->lock);
    atomic_store(&f->reserve, 0);
    tell_owed(f);
    pthread_mutex_unlock(&f->lock);
}

/* Whether `need` bytes may be filled while others owe that many pieces, which were counted before:
 * what is filled in between counts twice rather than not at all. */
static bool fits(struct shm_fabric *f, const struct shm_extent *e, size_t need, uint64_t others)
{
    uint64_t own;

    pthread_mutex_lock(&f->lock);
    own = owed_by_all(f);
    pthread_mutex_unlock(&f->lock);
    return others <= UINT64_MAX / 2 && need / PIECE + own + others <= left_to_all(e) / PIECE;
}

/* Where nobody sees what others owe, nobody owes; or a stranger has filled the system's table. */
static uint64_t owed_by_others(struct shm_fabric *f, bool of_user)
{
    uint64_t others = of_user ? UINT64_MAX : loci_promises_of_others(&f->promises);

    if (others == UINT64_MAX)
        others = loci_promises_of_user(&f->promises);
    return others == UINT64_MAX ? 0 : others;
}

/* In turn: have others fill what they owe, until there is room beside it. They look ten times a
 * second. Those who did not answer a while ago are not waited for, unless they are this user's. */
static void call_in(struct shm_fabric *f, const struct shm_extent *e, size_t need)
{
    int64_t start = loci_now(f->rt), filled_at = start, look_at = start, now = start;
    const bool deaf = start < f->deaf_until;
    uint64_t before = UINT64_MAX, others;
    int fd = loci_promises_call();
    unsigned rounds = 0;

    while (fd >= 0 && now - filled_at < CALL_NS && now - start < CALL_MOST_NS) {
        if (now >= look_at) {
            others = owed_by_others(f, deaf);
            if (others == 0 || fits(f, e, need, others))
                break;
            filled_at = others < before ? now : filled_at;
            before = others;
            look_at = loci_now(f->rt) + (deaf ? LOOK_USER_NS : LOOK_NS);
        }
        loci_wait_round(f->rt, &rounds);
        now = loci_now(f->rt);
    }
    if (!deaf && now - start >= CALL_NS)
        f->deaf_until = now + DEAF_NS;
    if (fd >= 0)
        close(fd);
}

/* Whether `need` bytes may be filled now, which leaves what everybody owes. */
static bool is_there(struct shm_fabric *f, const struct shm_extent *e, size_t need)
{
    uint64_t others;

    if (need > left_to_us(f))
        return false;
    drop_reserve(f);
    others = owed_by_others(f, false);
    if (fits(f, e, need, others))
        return true;
    if (others == 0 || !fits(f, e, need, 0))
        return false;
    call_in(f, e, need);
    return fits(f, e, need, owed_by_others(f, true));
}

/* ---- settling ---- */

/* One piece, under fabric->lock. False: it cannot be had now. */
static bool settle_piece(struct shm_fabric *f, struct shm_extent *e)
{
    bool populate = f->populate && !e->huge;
    size_t i = 0;

    while (e->owed[i] == 0)
        i++;
    if (fill_step(e, populate, i * PIECE, PIECE) != 0)
        return false;
    set_owed(f, e, i * PIECE, (i + 1) * PIECE, false);
    return true;
}

/* The next piece of any extent; what programs have touched in the meantime is settled. */
static bool settle_one(struct shm_fabric *f)
{
    struct shm_extent *e;
    bool good = true;

    pthread_mutex_lock(&f->lock);
    for (e = f->extents; e != NULL && e->pieces_owed == 0; e = e->next)
        ;
    if (e != NULL && owed_by(e) == 0)
        set_owed(f, e, 0, e->len, false);
    else if (e != NULL)
        good = settle_piece(f, e);
    tell_owed(f);
    pthread_mutex_unlock(&f->lock);
    return good;
}

/* ---- is there plenty still? ---- */

/* To find out may take seconds on a machine under load, in which the service thread would hear of
 * no message and no death: an errand. It is asked for each time that something is to be settled,
 * and tells the next time. */
static bool look_step(struct loci_errand *errand)
{
    struct shm_look *look = (struct shm_look *)errand;
    struct shm_fabric *f = look->fabric;
    uint64_t others = loci_promises_of_others(&f->promises);
    bool scarce = others == UINT64_MAX
                  || others + atomic_load(&f->pieces_owed) + atomic_load(&f->reserve)
                     > loci_memory_to_commit(SIZE_MAX, 0) / PIECE / PLENTY_NO_MORE;

    atomic_store(&look->scarce, scarce);
    return true;
}

static void look_end(struct loci_errand *errand)
{
    atomic_store(&((struct shm_look *)errand)->under_way, false);
}

void loci_shm_promises_close(struct shm_fabric *f)
{
    loci_errands_close(&f->errands);
    loci_promises_close(&f->promises);
}

/* As it was found the last time. */
static bool is_scarce(struct shm_fabric *f)
{
    struct shm_look *look = &f->look;

    if (!atomic_exchange(&look->under_way, true)) {
        look->errand = (struct loci_errand){ .step = look_step, .end = look_end };
        look->fabric = f;
        loci_errands_send(&f->errands, &look->errand);
    }
    return atomic_load(&look->scarce);
}

int64_t loci_shm_settle_pause(struct shm_fabric *f)
{
    return f->settle_at == 0 ? SETTLE_NS : f->settle_at - loci_now(f->rt);
}

void loci_shm_settle(struct shm_fabric *f)
{
    int64_t now = loci_now(f->rt);
    bool all, good = true;

    if (atomic_load(&f->pieces_owed) == 0 && atomic_load(&f->reserve) == 0) {
        f->settle_at = 0;
        atomic_store(&f->look.scarce, false);
        return;
    }
    if (f->settle_at == 0)
        f->settle_at = now + SETTLE_NS;
    if (now < f->settle_at)
        return;
    all = loci_promises_are_called(&f->promises) || is_scarce(f);
    if (all || now >= atomic_load(&f->reserve_until))
        drop_reserve(f);
    do
        good = settle_one(f);
    while (all && good && atomic_load(&f->pieces_owed) > 0
           && loci_now(f->rt) - now < SETTLE_AT_ONCE);
    if (!good && !f->settle_failed)
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "memory that windows have cannot be filled: others have "
                 "taken what there was: %m");
    f->settle_failed = !good;
    f->settle_at = loci_now(f->rt) + (all && good ? SETTLE_AGAIN : SETTLE_NS);
}

/* ---- committing ---- */

static void add_committed(struct shm_fabric *f, struct shm_extent *e, size_t bytes)
{
    pthread_mutex_lock(&f->lock);
    e->committed += bytes;
    pthread_mutex_unlock(&f->lock);
}

/* Commit [from, to). */
static int commit(struct shm_fabric *f, struct shm_extent *e, size_t from, size_t to)
{
    int error = ENOMEM, lock;
    bool few;

    if (to <= from)
        return LOCO_OK;
    if (to - from > left_to_us(f))
        return LOCO_ERR_NO_MEMORY;
    few = from == 0 && to <= FEW_BYTES;
    if (!few && promise_of_reserve(f, e, from, to))
        return LOCO_OK;
    lock = loci_turn_take(f->rt, &f->turn);
    if (lock >= 0 && !few && promise(f, e, from, to)) {
        loci_turn_give(lock);
        return LOCO_OK;
    }
    if (is_there(f, e, to - from)) {
        /* Before its bytes are there: what is owed is what of this is not. */
        add_committed(f, e, to - from);
        error = fill(f, e, from, to, lock >= 0);
        if (error != 0) {
            give_back(e->fd, from, to);
            add_committed(f, e, from - to);
            LOCI_LOG(f->rt, LOCO_LOG_ERROR, "%zu bytes of memory cannot be had: %s", to - from,
                     error == ENOMEM && lock < 0 ? "others have taken what there was meanwhile"
                     : strerror(error));
        }
    }
    loci_turn_give(lock);
    return error == 0 ? LOCO_OK : LOCO_ERR_NO_MEMORY;
}

/* ---- files and their mapping ---- */

unsigned char *loci_shm_map_aligned(int fd, size_t len)
{
    size_t room = (len + ALIGN - 1) / ALIGN * ALIGN + ALIGN, before;
    unsigned char *space = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                                -1, 0);
    unsigned char *base;

    if (space == MAP_FAILED)
        return NULL;
    before = (ALIGN - (uintptr_t)space % ALIGN) % ALIGN;
    base = mmap(space + before, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    if (base == MAP_FAILED) {
        int error = errno;

        munmap(space, room);
        errno = error;
        return NULL;
    }
    if (before > 0)
        munmap(space, before);
    len = (len + 4095) / 4096 * 4096;
    munmap(base + len, room - before - len);
    return base;
}

static bool wants_huge(struct shm_fabric *f, const struct loci_extent *extent)
{
    size_t page = 0, pages;

    if (f->rt->tunables.huge_pages == LOCI_HUGE_NEVER)
        return false;
    pages = loci_budget_huge_pages("", &page);
    if (page != 0 && page <= ALIGN && extent->len % page == 0 && pages >= extent->len / page)
        return true;
    if (f->rt->tunables.huge_pages == LOCI_HUGE_ALWAYS)
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "LOCO_HUGE_PAGES=always, but %zu free huge pages of %zu "
                 "bytes are no %zu bytes: raise vm.nr_hugepages, or use auto", pages, page,
                 extent->len);
    return false;
}

/* The file of an extent, mapped; nothing committed. */
static int make_file(struct shm_fabric *f, struct shm_extent *e)
{
    struct stat file;

    e->fd = loci_memfile("loco", e->len, e->huge);
    if (e->fd < 0 || fstat(e->fd, &file) != 0)
        return errno == ENOMEM ? LOCO_ERR_NO_MEMORY : LOCO_ERR_SYSTEM;
    e->inode = file.st_ino;
    e->base = loci_shm_map_aligned(e->fd, e->len);
    if (e->base == NULL)
        return errno == ENOMEM ? LOCO_ERR_NO_MEMORY : LOCO_ERR_SYSTEM;
    if (!e->huge && f->rt->tunables.huge_pages != LOCI_HUGE_NEVER)
        madvise(e->base, e->len, MADV_HUGEPAGE);
    return LOCO_OK;
}

/* Where the service thread finds what it owes. */
static void enter(struct shm_fabric *f, struct shm_extent *e)
{
    pthread_mutex_lock(&f->lock);
    e->next = f->extents;
    f->extents = e;
    pthread_mutex_unlock(&f->lock);
}

/* Under fabric->lock. */
static void take_out(struct shm_fabric *f, struct shm_extent *e)
{
    struct shm_extent **at = &f->extents;

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    if (e->pieces_owed > 0) {
        set_owed(f, e, 0, e->len, false);
        tell_owed(f);
    }
}

static void drop_file(struct shm_extent *e)
{
    if (e->base != NULL)
        munmap(e->base, e->len);
    if (e->fd >= 0)
        close(e->fd);
    e->base = NULL;
    e->fd = -1;
}

static int make_and_commit(struct shm_fabric *f, struct shm_extent *e, size_t committed, bool huge)
{
    int status;

    e->huge = huge;
    status = make_file(f, e);
    if (status == LOCO_ERR_SYSTEM && e->fd < 0)
        loci_descriptor_missing(f->rt, "no memory file");
    else if (status == LOCO_ERR_SYSTEM)
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "no memory file of %zu bytes%s: %m", e->len,
                 huge ? " in huge pages" : "");
    if (status != LOCO_OK) {
        drop_file(e);
        return status;
    }
    enter(f, e);
    status = commit(f, e, 0, committed);
    if (status == LOCO_OK)
        return LOCO_OK;
    pthread_mutex_lock(&f->lock);
    take_out(f, e);
    pthread_mutex_unlock(&f->lock);
    drop_file(e);
    return status;
}

/* ---- extents ---- */

struct shm_extent *loci_shm_extent(struct shm_fabric *f, uint64_t number)
{
    struct shm_extent *e = f->extents;

    while (e != NULL && e->number != number)
        e = e->next;
    return e;
}

static void free_extent(struct shm_extent *e)
{
    drop_file(e);
    free(e->mappers);
    free(e->owed);
    free(e);
}

int loci_shm_extent_create(struct loci_fabric *fabric, struct loci_extent *extent)
{
    struct shm_fabric *f = shm_of(fabric);
    struct shm_extent *e = calloc(1, sizeof *e);
    bool huge = wants_huge(f, extent);
    int status = LOCO_ERR_NO_MEMORY;

    if (e == NULL)
        return status;
    *e = (struct shm_extent){ .number = extent->number, .fd = -1, .len = extent->len };
    if (huge || f->rt->tunables.huge_pages != LOCI_HUGE_ALWAYS)
        status = make_and_commit(f, e, extent->committed, huge);
    if (status != LOCO_OK && huge && f->rt->tunables.huge_pages == LOCI_HUGE_AUTO)
        status = make_and_commit(f, e, extent->committed, false);
    if (status != LOCO_OK) {
        free_extent(e);
        return status;
    }
    extent->base = e->base;
    extent->rkey = shm_rkey(e->inode, e->fd);
    extent->fabric_data = e;
    return LOCO_OK;
}

int loci_shm_extent_grow(struct loci_fabric *fabric, struct loci_extent *extent, size_t from,
                         size_t to)
{
    struct shm_extent *e = extent->fabric_data;

    if (to > e->len)
        return LOCO_ERR_NO_MEMORY;
    return commit(shm_of(fabric), e, from, to);
}

/* Owed no more, first: the service thread does not fill it again. */
void loci_shm_extent_shrink(struct loci_fabric *fabric, struct loci_extent *extent, size_t from,
                            size_t to)
{
    struct shm_fabric *f = shm_of(fabric);
    struct shm_extent *e = extent->fabric_data;

    pthread_mutex_lock(&f->lock);
    if (e->owed != NULL)
        set_owed(f, e, from, to, false);
    pthread_mutex_unlock(&f->lock);
    give_back(e->fd, from, to);
    pthread_mutex_lock(&f->lock);
    e->committed -= to - from;
    tell_owed(f);
    pthread_mutex_unlock(&f->lock);
}

/* While an extent is in the list, whoever forgets a peer takes it out of the mappers (under
 * fabric->lock, as we are); from then on they are kept for us. */
static void use_mappers(const struct shm_extent *e)
{
    for (unsigned i = 0; i < e->nmappers; i++) {
        atomic_fetch_add(&e->mappers[i]->peer->holders, 1);
        atomic_fetch_add(&e->mappers[i]->peer->users, 1);
    }
}

static void end_use_of_mappers(struct shm_fabric *f, const struct shm_extent *e)
{
    for (unsigned i = 0; i < e->nmappers; i++)
        loci_peers_end_use(f->rt, &e->mappers[i]->peer->index, 1);
}

void loci_shm_extent_destroy(struct loci_fabric *fabric, struct loci_extent *extent)
{
    struct shm_fabric *f = shm_of(fabric);
    struct shm_extent *e = extent->fabric_data;
    const struct shm_head gone = { .type = SHM_UNMAP, .extent = e->number };

    pthread_mutex_lock(&f->lock);
    take_out(f, e);
    use_mappers(e);
    pthread_mutex_unlock(&f->lock);
    /* The memory is free even if a peer is slow to unmap it, or is stopped, or was told goodbye
     * before: then it keeps its empty mapping until it closes. */
    give_back(e->fd, 0, e->len);
    for (unsigned i = 0; i < e->nmappers; i++)
        if (!atomic_load_explicit(&e->mappers[i]->parted, memory_order_relaxed))
            loci_shm_send(e->mappers[i], &gone, NULL, 0, -1);
    end_use_of_mappers(f, e);
    free_extent(e);
    extent->fabric_data = NULL;
}

/* What a program does to its window's memory lasts longer than the window: it may have taken the
 * right to write from a table that it has filled, or have hidden it from its children. Both calls
 * return at once where nothing was changed. Locks (mlock) stay: they hurt nobody, and to undo them
 * would undo the program's mlockall. */
int loci_shm_renew(struct loci_fabric *fabric, void *base, size_t len)
{
    (void)fabric;
    if (mprotect(base, len, PROT_READ | PROT_WRITE) != 0)
        return LOCO_ERR_SYSTEM;
    return madvise(base, len, MADV_DOFORK) == 0 ? LOCO_OK : LOCO_ERR_SYSTEM;
}

static bool add_mapper(struct shm_extent *e, struct shm_peer *p)
{
    struct shm_peer **more;

    for (unsigned i = 0; i < e->nmappers; i++)
        if (e->mappers[i] == p)
            return true;
    more = realloc(e->mappers, (e->nmappers + 1) * sizeof more[0]);
    if (more == NULL)
        return false;
    e->mappers = more;
    more[e->nmappers++] = p;
    return true;
}

void loci_shm_mapped(struct shm_peer *p, uint64_t number)
{
    struct shm_fabric *f = p->fabric;
    const struct shm_head gone = { .type = SHM_UNMAP, .extent = number };
    struct shm_extent *e;
    bool there;

    pthread_mutex_lock(&f->lock);
    e = loci_shm_extent(f, number);
    there = e != NULL && add_mapper(e, p);
    pthread_mutex_unlock(&f->lock);
    /* Freed while this message was on its way. */
    if (!there && e == NULL && !atomic_load_explicit(&p->parted, memory_order_relaxed))
        loci_shm_send(p, &gone, NULL, 0, -1);
}

void loci_shm_forget_mapper(struct shm_peer *p)
{
    for (struct shm_extent *e = p->fabric->extents; e != NULL; e = e->next)
        for (unsigned i = 0; i < e->nmappers; i++)
            if (e->mappers[i] == p)
                e->mappers[i--] = e->mappers[--e->nmappers];
}
