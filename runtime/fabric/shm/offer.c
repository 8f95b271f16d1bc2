/* SPDX-License-Identifier: BSD-3-Clause */

/* Offers: small copies that a peer does for us if it happens to be waiting anyway.
 *
 * A system call to copy a few bytes of the user's memory takes longer than a message through the
 * cache to a process that is polling. So each process has a page of slots that its peers map.
 * An origin puts a copy there, rings, and looks for a moment whether it is taken; if it is not, it
 * takes the offer back and makes the system call. Nobody ever needs the target's CPU.
 *
 * Who writes which word. `bell`: origins, who add to the slot's four bits (a carry into the next
 * slot's makes the target look there in vain). `heard`, private to the target: the bell as it was
 * when last looked at. A slot's state holds the origin's label, too:
 *
 *   FREE -> CLAIMED    an origin, by compare and swap. The slot is its own: it fills it
 *   CLAIMED -> READY   that origin (release: what it filled in)
 *   READY -> TAKEN     the target, by compare and swap (acquire), under fabric->lock
 *   READY -> FREE      that origin, by compare and swap: it does the copy itself
 *   TAKEN -> DONE      the target (release: the copy, the status, the data of a read)
 *   DONE -> FREE       that origin, when it has taken the data
 *
 * One of the two compare and swaps from READY succeeds, so each copy is done once, by one of them.
 * From READY on the origin does not write to the slot, and the target checks a copy of the spans,
 * so what it checks is what it uses. fabric->lock keeps the memory registered meanwhile. The target
 * has the system touch that memory (own.c): a fault there is a status, and the origin's.
 *
 * When an origin ends, the target's service thread frees the slots with its label, under the lock
 * that is held while a slot is TAKEN: the dead write nothing any more, and the target is not in
 * the middle of it. When the target ends, the offer is taken back, or, if it was TAKEN, the wait
 * ends with LOCO_ERR_PEER_DEAD; nobody looks at its page again.
 *
 * Who offers in vain, or waits long, has lost a microsecond, so it does not offer again for
 * 2^backoff copies. What it gains else is less than that, so one in vain counts for two.
 *
 * A slot without spans shares out a large copy (share.c), one with strips in place of spans is
 * strided.c's. */

#include "config.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "move/bell.h"
#include "memory/memfile.h"
#include "move/access.h"
#include "offer.h"
#include "own.h"
#include "service.h"
#include "wait.h"

#define SLOTS_TRIED 4
#define AGAIN_AFTER INT64_C(20000000)   /* ns that a page which cannot be mapped is left at that */
#define SPANS 128
#define OFFER_MAX 4096                  /* bytes of spans and data that are faster so */
#define LOOK_NS 1000                    /* for which an offer stands */
#define GOOD_NS 1500                    /* in which one that is worth it is done */
#define TURN_NS 500                     /* a look while others wait for the core, more or less */
#define OTHERS_NS 300000                /* that they may have it while an offer stands */

enum offer_state { FREE, CLAIMED, READY, TAKEN, DONE };
#define STATE_MASK UINT64_C(7)

#define SLOTS SHM_SLOTS
#define SLOT_BITS 4                     /* of the bell */
#define SLOT_BYTES SHM_SLOT_BYTES
#define BODY_BYTES SHM_SLOT_BODY
_Static_assert(OFFER_MAX <= BODY_BYTES, "an offer fits into a slot");

struct update {
    struct shm_span span;
    uint64_t operand, compare;
    uint64_t old;                       /* by the target */
};

static struct shm_slot *slot_at(struct shm_offers *offers, unsigned i)
{
    return (struct shm_slot *)(void *)(offers->slots + (size_t)i * SLOT_BYTES);
}

static uint64_t state_of(const struct loci_address *origin, enum offer_state state)
{
    return (origin->label & ~STATE_MASK) | state;
}

uint64_t loci_shm_slot_label(const struct loci_address *origin)
{
    return state_of(origin, FREE);
}

/* ---- the page ---- */

void loci_shm_offers_open(struct shm_fabric *f, struct loci_address *mine)
{
    struct stat file;
    void *page;

    f->offers_fd = -1;
    if (f->rt->tunables.offers == LOCI_OFFERS_NEVER)
        return;
    f->offers_fd = loci_memfile("loco-offers", sizeof(struct shm_offers), false);
    if (f->offers_fd < 0 || fstat(f->offers_fd, &file) != 0)
        return;
    page = mmap(NULL, sizeof(struct shm_offers), PROT_READ | PROT_WRITE, MAP_SHARED,
                f->offers_fd, 0);
    if (page == MAP_FAILED)
        return;
    f->offers = page;
    f->rt->bells = &f->offers->bells;
    mine->fabric[1] = sizeof(struct shm_offers);
    mine->fabric[2] = shm_rkey((uint64_t)file.st_ino, f->offers_fd);
}

void loci_shm_offers_close(struct shm_fabric *f)
{
    f->rt->bells = &f->rt->own_bells;
    if (f->rt->peers != NULL && f->rt->peers[LOCI_SELF] != NULL)
        atomic_store_explicit(&f->rt->peers[LOCI_SELF]->bells, f->rt->bells, memory_order_release);
    if (f->offers != NULL)
        munmap(f->offers, sizeof(struct shm_offers));
    if (f->offers_fd >= 0)
        close(f->offers_fd);
}

static bool has_page(const struct shm_peer *p)
{
    const struct loci_address *a = &p->peer->address;

    return p->fabric->offers != NULL && a->fabric[1] == sizeof(struct shm_offers)
           && p->fabric->pid_space != 0 && a->fabric[0] == p->fabric->pid_space;
}

/* Whoever signals or offers has another way, and does not wait. */
static struct shm_offers *map_page(struct shm_peer *p)
{
    const struct loci_mem page = {
        .peer = p->peer->index,
        .key = { .kind = LOCI_MEM_POOL, .extent = SHM_OFFERS_EXTENT,
                 .len = sizeof(struct shm_offers), .rkey = p->peer->address.fabric[2] },
    };
    struct shm_offers *offers = NULL;

    if (has_page(p))
        offers = (struct shm_offers *)(void *)loci_shm_map_soon((struct loci_fabric *)p->fabric,
                                                                &page);
    if (offers != NULL)
        atomic_store_explicit(&p->offers, offers, memory_order_release);
    else
        atomic_store_explicit(&p->offers_again, has_page(p) ? loci_now(p->fabric->rt) + AGAIN_AFTER
                                                            : INT64_MAX, memory_order_relaxed);
    return offers;
}

/* A peer's page, mapped on first use; NULL where it has none or it cannot be mapped now. */
static struct shm_offers *offers_of(struct shm_peer *p)
{
    struct shm_offers *offers = atomic_load_explicit(&p->offers, memory_order_acquire);
    int64_t again;

    if (offers != NULL)
        return offers;
    again = atomic_load_explicit(&p->offers_again, memory_order_relaxed);
    return again == INT64_MAX || (again != 0 && loci_now(p->fabric->rt) < again) ? NULL
           : map_page(p);
}

int loci_shm_ring(struct loci_fabric *fabric, struct loci_peer *peer, uint32_t number)
{
    struct shm_peer *p = peer->fabric_data;
    struct shm_offers *offers = p == NULL ? NULL : offers_of(p);

    if (offers == NULL)
        return LOCO_ERR_AGAIN;
    if (number != 0)
        loci_ring_poller(shm_of(fabric)->rt, &offers->bells, number);
    else
        loci_ring_bell(shm_of(fabric)->rt, &offers->bells.bell[LOCI_BELL_ANY]);
    return LOCO_OK;
}

bool loci_shm_rings(struct shm_peer *p)
{
    return has_page(p);
}

struct loci_bells *loci_shm_bells(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct shm_peer *p = peer->fabric_data;
    struct shm_offers *offers = p == NULL ? NULL : offers_of(p);

    (void)fabric;
    return offers == NULL ? NULL : &offers->bells;
}

/* ---- origin ---- */

bool loci_shm_is_promising(struct shm_guess *guess)
{
    unsigned skip = atomic_load_explicit(&guess->to_skip, memory_order_relaxed);

    if (skip == 0)
        return true;
    atomic_store_explicit(&guess->to_skip, skip - 1, memory_order_relaxed);
    return false;
}

/* Threads may overwrite each other's count: it is a guess anyway. */
void loci_shm_learn(struct shm_guess *guess, bool good, const struct shm_odds *odds)
{
    unsigned backoff = atomic_load_explicit(&guess->backoff, memory_order_relaxed);
    unsigned more = backoff + odds->vain < odds->most ? backoff + odds->vain : odds->most;

    if (good) {
        if (backoff > 0)
            atomic_store_explicit(&guess->backoff, backoff > odds->good ? backoff - odds->good : 0,
                                  memory_order_relaxed);
        return;
    }
    atomic_store_explicit(&guess->to_skip, 1u << backoff, memory_order_relaxed);
    if (more > backoff)
        atomic_store_explicit(&guess->backoff, more, memory_order_relaxed);
}

/* How many of the ops, all of the run at the start of the chain, go into one offer; 0: not all. */
static int fitting(const struct loci_op *ops, int n)
{
    size_t bytes = 0;
    int i;

    for (i = 0; i < n; i++) {
        const struct loci_op *op = &ops[i];

        if (op->kind != ops[0].kind || op->mem->key.kind != LOCI_MEM_USER
            || op->mem->key.extent != ops[0].mem->key.extent)
            break;
        if (i == SPANS || op->len > OFFER_MAX)
            return 0;
        bytes += sizeof(struct shm_span) + op->len;
        if (bytes > OFFER_MAX)
            return 0;
    }
    return i;
}

static struct shm_slot *claim(struct shm_peer *p, struct shm_offers *offers, unsigned *at)
{
    const struct loci_address *mine = &p->fabric->rt->address;
    unsigned first = (unsigned)(mine->label >> 32);

    for (unsigned i = 0; i < SLOTS_TRIED; i++) {
        struct shm_slot *slot = slot_at(offers, (first + i) % SLOTS);
        uint64_t free = FREE;

        if (atomic_load_explicit(&slot->state, memory_order_relaxed) == FREE
            && atomic_compare_exchange_strong_explicit(&slot->state, &free,
                                                       state_of(mine, CLAIMED),
                                                       memory_order_acquire,
                                                       memory_order_relaxed)) {
            *at = (first + i) % SLOTS;
            return slot;
        }
    }
    return NULL;
}

static void fill(struct shm_slot *slot, const struct loci_op *ops, int n)
{
    unsigned char *data = slot->body + (size_t)n * sizeof(struct shm_span);

    slot->number = ops[0].mem->key.extent;
    slot->op = (uint16_t)ops[0].kind;
    slot->nspans = (uint16_t)n;
    for (int i = 0; i < n; i++) {
        const struct shm_span span = { ops[i].mem->key.base + ops[i].offset, ops[i].len };

        memcpy(slot->body + (size_t)i * sizeof span, &span, sizeof span);
        if (ops[0].kind == LOCI_WRITE)
            memcpy(data, ops[i].local, span.len);
        data += span.len;
    }
}

static void take_data(const struct shm_slot *slot, const struct loci_op *ops, int n)
{
    const unsigned char *data = slot->body + (size_t)n * sizeof(struct shm_span);

    for (int i = 0; i < n; i++) {
        memcpy(ops[i].local, data, ops[i].len);
        data += ops[i].len;
    }
}

/* Look for a moment, without yielding, whether the offer is taken; help others meanwhile, who may
 * be waiting for this process in the same way. */
static bool look(struct shm_fabric *f, const struct shm_slot *slot, uint64_t ready)
{
    int64_t start = loci_now(f->rt);

    for (unsigned i = 1; atomic_load_explicit(&slot->state, memory_order_relaxed) == ready; i++) {
        loci_cpu_relax();
        if (i % 4 != 0)
            continue;
        loci_shm_help((struct loci_fabric *)f, true);
        if (loci_now(f->rt) - start > LOOK_NS)
            return false;
    }
    return true;
}

void loci_shm_slot_look(struct shm_peer *p, const struct shm_slot *slot, int64_t ns)
{
    uint64_t ready = state_of(&p->fabric->rt->address, READY);
    struct loco_runtime *rt = p->fabric->rt;
    int64_t start = loci_now(rt), last, now, own;

    if (look(p->fabric, slot, ready) || ns <= LOOK_NS)
        return;
    /* The target may be one that waits for this core. While others have it, no time of ours is
     * lost: a turn that took long counts as one. */
    last = loci_now(rt);
    own = last - start;
    for (unsigned i = 0; atomic_load_explicit(&slot->state, memory_order_relaxed) == ready; i++) {
        rt->host.idle(rt->host.ctx, i);
        loci_shm_help((struct loci_fabric *)p->fabric, true);
        now = loci_now(rt);
        own += now - last < TURN_NS ? now - last : TURN_NS;
        last = now;
        if (own > ns || now - start > ns + OTHERS_NS)
            return;
    }
}

struct done_wait {
    const struct shm_slot *slot;
    uint64_t state;
};

static int is_done(void *arg)
{
    const struct done_wait *wait = arg;

    /* Acquire: pairs with the target's release of what it did. */
    return atomic_load_explicit(&wait->slot->state, memory_order_acquire) == wait->state;
}

int loci_shm_slot_settle(struct shm_peer *p, struct shm_slot *slot)
{
    const struct loci_address *mine = &p->fabric->rt->address;
    struct done_wait wait = { slot, state_of(mine, DONE) };
    const struct loci_reason why = {
        .what = "a peer to end a copy", .peer = p->peer->index, .timeout_ns = LOCO_FOREVER,
        .kind = LOCI_WAIT_COPY,
    };
    uint64_t ready = state_of(mine, READY);

    if (is_done(&wait))
        return LOCO_OK;
    if (atomic_load_explicit(&slot->state, memory_order_relaxed) == ready
        && atomic_compare_exchange_strong_explicit(&slot->state, &ready, FREE,
                                                   memory_order_relaxed, memory_order_relaxed))
        return LOCO_ERR_AGAIN;
    return loci_wait(p->fabric->rt, &why, is_done, &wait);
}

struct shm_slot *loci_shm_slot_claim(struct shm_peer *p, unsigned *at)
{
    struct shm_offers *offers = offers_of(p);

    if (offers == NULL || loci_service_is_self(p->fabric->rt))     /* that one does not wait */
        return NULL;
    return claim(p, offers, at);
}

void loci_shm_slot_ring(struct shm_peer *p, struct shm_slot *slot, unsigned at)
{
    atomic_store_explicit(&slot->state, state_of(&p->fabric->rt->address, READY),
                          memory_order_release);
    /* Release: who hears the bell finds the slot ready. */
    atomic_fetch_add_explicit(&offers_of(p)->bell, UINT64_C(1) << at * SLOT_BITS,
                              memory_order_release);
}

void loci_shm_slot_free(struct shm_slot *slot)
{
    atomic_store_explicit(&slot->state, FREE, memory_order_release);
}

/* LOCO_OK: it is done, and the slot still the caller's. LOCO_ERR_AGAIN: it is not, nor will be. */
static int make(struct shm_peer *p, struct shm_slot *slot, unsigned at)
{
    static const struct shm_odds odds = { .good = 1, .vain = 2, .most = 10 };
    int64_t start = loci_now(p->fabric->rt);
    int status;

    loci_shm_slot_ring(p, slot, at);
    loci_shm_slot_look(p, slot, LOOK_NS);
    status = loci_shm_slot_settle(p, slot);
    /* One that was taken by who then lost its core was none of the good ones. */
    if (status == LOCO_OK || status == LOCO_ERR_AGAIN)
        loci_shm_learn(&p->offers_guess, status == LOCO_OK
                       && loci_now(p->fabric->rt) - start <= GOOD_NS, &odds);
    /* What the target refuses, the system may still do, or say why not. */
    if (status == LOCO_OK && slot->status != LOCO_OK) {
        loci_shm_slot_free(slot);
        status = LOCO_ERR_AGAIN;
    }
    return status;
}

int loci_shm_offer(struct shm_peer *p, const struct loci_op *ops, int n, int *done)
{
    struct shm_slot *slot;
    unsigned at;
    int status;

    if (offers_of(p) == NULL || (n = fitting(ops, n)) == 0
        || !loci_shm_is_promising(&p->offers_guess) || (slot = loci_shm_slot_claim(p, &at)) == NULL)
        return LOCO_ERR_AGAIN;
    fill(slot, ops, n);
    status = make(p, slot, at);
    if (status != LOCO_OK)
        return status;
    if (ops[0].kind == LOCI_READ)
        take_data(slot, ops, n);
    loci_shm_slot_free(slot);
    *done = n;
    return LOCO_OK;
}

int loci_shm_update(struct loci_fabric *fabric, struct loci_peer *peer, const struct loci_op *op)
{
    struct update update = {
        { op->mem->key.base + op->offset, op->len }, op->operand, op->compare, 0
    };
    struct shm_peer *p = peer->fabric_data;
    struct shm_slot *slot;
    unsigned at;
    int status;

    (void)fabric;
    if (p == NULL || offers_of(p) == NULL || !loci_shm_is_promising(&p->offers_guess)
        || (slot = loci_shm_slot_claim(p, &at)) == NULL)
        return LOCO_ERR_AGAIN;
    slot->number = op->mem->key.extent;
    slot->op = (uint16_t)op->kind;
    slot->nspans = 1;
    memcpy(slot->body, &update, sizeof update);
    status = make(p, slot, at);
    if (status != LOCO_OK)
        return status;
    memcpy(&update, slot->body, sizeof update);
    *op->result = update.old;
    loci_shm_slot_free(slot);
    return LOCO_OK;
}

/* ---- target ---- */

/* The spans of a slot, and whether all lie in that memory and their data in the slot. */
static bool take_spans(const struct shm_slot *slot, const struct shm_user *user,
                       struct shm_span *spans, unsigned n)
{
    uint64_t room = BODY_BYTES - n * sizeof *spans;

    loci_copy_once(spans, slot->body, n * sizeof *spans);
    for (unsigned i = 0; i < n; i++) {
        const struct shm_span *s = &spans[i];

        if (s->at < user->base || s->at - user->base > user->len
            || s->len > user->len - (s->at - user->base) || s->len > room)
            return false;
        room -= s->len;
    }
    return true;
}

/* Add or compare and swap in a copy of a word of some size, under the origin's lock. */
#define UPDATE(name, type)                                                                  \
    static uint64_t name(unsigned op, unsigned char *at, const struct update *u)            \
    {                                                                                       \
        type old, new;                                                                      \
                                                                                            \
        memcpy(&old, at, sizeof old);                                                       \
        new = (type)(op == LOCI_FETCH_ADD ? old + u->operand : u->operand);                 \
        if (op == LOCI_FETCH_ADD || old == (type)u->compare)                                \
            memcpy(at, &new, sizeof new);                                                   \
        return old;                                                                         \
    }
UPDATE(update8, uint8_t)
UPDATE(update16, uint16_t)
UPDATE(update32, uint32_t)
UPDATE(update64, uint64_t)

static int copy_one(struct shm_fabric *f, bool writes, const struct shm_span *span,
                    const unsigned char *packed)
{
    struct shm_own own;

    loci_shm_own_begin(&own, f, writes, packed);
    loci_shm_own_add(&own, span->at, span->len);
    return loci_shm_own_end(&own);
}

/* What cannot be written has not changed. */
static int update_offered(struct shm_fabric *f, struct shm_slot *slot, unsigned op,
                          const struct shm_span *span)
{
    unsigned char *word = loci_shm_scratch(f);
    uint64_t before, after;
    struct update u;
    int status;

    if (span->len > sizeof before)
        return LOCO_ERR_UNSUPPORTED;
    loci_copy_once(&u, slot->body, sizeof u);
    status = word == NULL ? LOCO_ERR_NO_MEMORY : copy_one(f, false, span, word);
    if (status != LOCO_OK)
        return status;
    memcpy(&before, word, sizeof before);
    switch (span->len) {
    case 1: u.old = update8(op, word, &u); break;
    case 2: u.old = update16(op, word, &u); break;
    case 4: u.old = update32(op, word, &u); break;
    case 8: u.old = update64(op, word, &u); break;
    default: return LOCO_ERR_UNSUPPORTED;
    }
    memcpy(&after, word, sizeof after);
    /* An add writes in any case, so that it is an error wherever one is. */
    if (op == LOCI_FETCH_ADD || after != before)
        status = copy_one(f, true, span, word);
    memcpy(slot->body, &u, sizeof u);
    return status;
}

/* Under fabric->lock. */
static int copy_offered(struct shm_fabric *f, struct shm_slot *slot, uint64_t label)
{
    const struct shm_wish wish = loci_shm_wish(slot);
    const struct shm_user *user = loci_shm_user(f, wish.number);
    unsigned n = wish.nspans, op = wish.op;
    struct shm_span spans[SPANS];
    struct shm_own own;

    if (user != NULL && (op & SHM_STRIDED) != 0)
        return loci_shm_strided_help(f, user, &wish, slot);
    if (user != NULL && n == 0)
        return loci_shm_share_help(f, user, &wish, slot, label);
    if (user == NULL || n > SPANS || !take_spans(slot, user, spans, n))
        return LOCO_ERR_RANGE;
    if ((op == LOCI_FETCH_ADD || op == LOCI_COMPARE_SWAP) && n == 1)
        return update_offered(f, slot, op, &spans[0]);
    if (op != LOCI_WRITE && op != LOCI_READ)
        return LOCO_ERR_PROTOCOL;
    loci_shm_own_begin(&own, f, op == LOCI_WRITE, slot->body + n * sizeof(struct shm_span));
    for (unsigned i = 0; i < n; i++)
        loci_shm_own_add(&own, spans[i].at, spans[i].len);
    return loci_shm_own_end(&own);
}

static void help_slot(struct shm_fabric *f, struct shm_slot *slot)
{
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    uint64_t label = state & ~STATE_MASK;

    /* Acquire: pairs with the origin's release when it made the slot ready. */
    if ((state & STATE_MASK) != READY
        || !atomic_compare_exchange_strong_explicit(&slot->state, &state, label | TAKEN,
                                                    memory_order_acquire, memory_order_relaxed))
        return;
    slot->status = copy_offered(f, slot, label);
    atomic_store_explicit(&slot->state, label | DONE, memory_order_release);
}

int loci_shm_help(struct loci_fabric *fabric, bool spins)
{
    struct shm_fabric *f = shm_of(fabric);
    struct shm_offers *offers = f->offers;
    uint64_t bell, changed;

    (void)spins;
    if (offers == NULL
        || atomic_load_explicit(&offers->bell, memory_order_relaxed)
           == atomic_load_explicit(&f->heard, memory_order_relaxed))
        return 0;
    if (pthread_mutex_trylock(&f->lock) != 0)
        return 0;       /* somebody is at it, or next time */
    bell = atomic_load_explicit(&offers->bell, memory_order_acquire);
    changed = bell ^ atomic_load_explicit(&f->heard, memory_order_relaxed);
    atomic_store_explicit(&f->heard, bell, memory_order_relaxed);
    while (changed != 0) {
        unsigned i = (unsigned)__builtin_ctzll(changed) / SLOT_BITS;

        help_slot(f, slot_at(offers, i));
        changed &= ~(((UINT64_C(1) << SLOT_BITS) - 1) << i * SLOT_BITS);
    }
    pthread_mutex_unlock(&f->lock);
    return 1;
}

void loci_shm_offers_reclaim(struct shm_peer *p)
{
    struct shm_fabric *f = p->fabric;

    if (f->offers == NULL)
        return;
    pthread_mutex_lock(&f->lock);
    for (unsigned i = 0; i < SLOTS; i++) {
        struct shm_slot *slot = slot_at(f->offers, i);
        uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);

        if (state != FREE && (state & ~STATE_MASK) == state_of(&p->peer->address, FREE))
            atomic_store_explicit(&slot->state, FREE, memory_order_release);
    }
    pthread_mutex_unlock(&f->lock);
}

unsigned loci_shm_offers_in_use(const struct shm_fabric *f)
{
    unsigned n = 0;

    for (unsigned i = 0; f->offers != NULL && i < SLOTS; i++)
        n += atomic_load_explicit(&slot_at(f->offers, i)->state, memory_order_acquire) != FREE;
    return n;
}
