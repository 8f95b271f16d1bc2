/* SPDX-License-Identifier: BSD-3-Clause */

/* A visit that writes requests into the ring itself, mostly such as no lane would: each is done if
 * it was granted, and refused if not, whatever was posted before it. In the end it counts more than
 * the ring has, and loses the port. */

#include "config.h"

#include "move/rma.h"
#include "scenario_ports.h"
#include "wait.h"

#define REQUESTS 24

struct forger {
    struct ports_user *u;
    const struct ports_client *c;
    unsigned char *slab;
    struct loci_port_at at;
    uint64_t posted;
    uint16_t epoch;
    int target;
};

/* ---- what is forged ---- */

static uint64_t near(uint64_t base, uint64_t len)
{
    switch (loci_sim_draw(8)) {
    case 0: return base - 1 - loci_sim_draw(16);
    case 1: return base + len - loci_sim_draw(16);
    case 2: return UINT64_MAX - loci_sim_draw(64);
    default: return base + loci_sim_draw((uint32_t)len);
    }
}

static uint32_t draw_len(void)
{
    switch (loci_sim_draw(12)) {
    case 0: return 0;
    case 1: return UINT32_MAX - loci_sim_draw(32);
    case 2: return 200 + loci_sim_draw(200);
    default: return loci_sim_draw(3) == 0 ? 8 : 1 + loci_sim_draw(20);
    }
}

/* Bytes of writes in the lower half of the arena, of reads in the upper one. */
static uint32_t draw_arena(const struct forger *f, uint32_t kind)
{
    uint32_t half = f->c->welcome.arena / 2;

    switch (loci_sim_draw(8)) {
    case 0: return LOCI_PORT_NO_ARENA;
    case 1: return 2 * half - loci_sim_draw(16);
    case 2: return UINT32_MAX - 1 - loci_sim_draw(64);
    default: return loci_sim_draw(half / 2) + (kind == LOCI_READ ? half : 0);
    }
}

static void forge(struct forger *f, struct loci_port_request *r)
{
    int which = WINDOW_FORGED + (int)loci_sim_draw(3);
    const struct ports_window *w = &f->c->window[f->target][which];

    *r = (struct loci_port_request){ .operand = UINT64_C(0xa5a5a5a5a5a5a5a5),
                                     .epoch = ++f->epoch };
    r->kind = (uint8_t)(loci_sim_draw(16) == 0 ? loci_sim_draw(256) : loci_sim_draw(5));
    r->grant = loci_sim_draw(16) == 0 ? (uint32_t)near(0, LOCI_PORT_GRANTS) : w->grant;
    r->offset = near(w->base, w->len);
    r->len = draw_len();
    r->arena = draw_arena(f, r->kind);
    if (loci_sim_draw(4) != 0 && r->kind >= LOCI_FETCH_ADD)
        r->offset = w->base + loci_sim_draw(3) * 4;
    if (r->kind == LOCI_FETCH_ADD || r->kind == LOCI_COMPARE_SWAP)
        r->len = loci_sim_draw(6) == 0 ? r->len : 8;
}

/* ---- what was granted ---- */

static const struct ports_window *window_of(const struct forger *f, uint32_t grant)
{
    for (int t = ports_first_target(f->u->s); t < f->u->run->processes; t++)
        for (int i = 0; i < WINDOWS; i++)
            if (f->c->window[t][i].grant == grant)
                return &f->c->window[t][i];
    return NULL;
}

/* A request may name the grant of another target. */
static int target_of(const struct forger *f, uint32_t grant)
{
    const struct ports_window *w = window_of(f, grant);

    for (int t = ports_first_target(f->u->s); t < f->u->run->processes; t++)
        if (w >= f->c->window[t] && w < f->c->window[t] + WINDOWS)
            return t;
    return f->target;
}

static bool is_within(const struct ports_window *w, const struct loci_port_request *r)
{
    for (uint64_t i = 0; i < r->len; i++)
        if (r->offset + i < w->base || r->offset + i >= w->base + w->len || r->offset + i < i)
            return false;
    return true;
}

static bool has_bytes(const struct forger *f, const struct loci_port_request *r)
{
    if (r->arena == LOCI_PORT_NO_ARENA)
        return r->kind == LOCI_WRITE && r->len <= 8;
    return (uint64_t)r->arena + r->len <= f->c->welcome.arena;
}

static bool is_granted(const struct forger *f, const struct loci_port_request *r)
{
    const struct ports_window *w = window_of(f, r->grant);

    if (w == NULL)
        return false;
    switch (r->kind) {
    case LOCI_PLACE:
        return true;
    case LOCI_WRITE:
    case LOCI_READ:
        return r->len > 0 && r->len <= 1000 && is_within(w, r) && has_bytes(f, r)
               && (w->may & (r->kind == LOCI_READ ? LOCI_PORT_MAY_READ : LOCI_PORT_MAY_WRITE));
    case LOCI_FETCH_ADD:
    case LOCI_COMPARE_SWAP:
        return r->len == 8 && is_within(w, r) && (r->offset + f->u->s->key[f->target].base) % 8 == 0
               && (w->may & LOCI_PORT_MAY_ATOMIC);
    default:
        return false;
    }
}

/* A write that the client's own part would take is not to be done: the threads know what is there.
 */
static bool does_harm(const struct forger *f, const struct loci_port_request *r)
{
    const struct ports_window *w = window_of(f, r->grant);

    for (int t = ports_first_target(f->u->s); t < f->u->run->processes; t++)
        if (w == &f->c->window[t][WINDOW_PART] || w == &f->c->window[t][WINDOW_COUNTER])
            return true;
    return false;
}

/* ---- posting ---- */

static int is_told(void *arg)
{
    const struct forger *f = arg;

    return loci_sim_is_stopped(0) || loci_load64(&f->at.words->finished) == f->posted;
}

static int post_one(struct forger *f)
{
    const uint64_t at = f->posted & (f->c->welcome.depth - 1);
    struct loci_port_request r;
    int status;

    do {
        forge(f, &r);
    } while (does_harm(f, &r));
    loci_copy_in(&f->at.request[at], &r, sizeof r);
    (void)loci_cpu_exchange(&f->at.words->posted, ++f->posted);
    if (loci_load64_total(&((struct loci_port_header *)(void *)f->slab)->asleep) != 0)
        (void)loci_ring_for(f->u->rt, f->u->agent, f->c->welcome.number);
    sim_wait(f->u->rt, is_told, f);
    if (loci_sim_is_stopped(0))
        return SIM_TOLD;
    status = (int)(uint32_t)loci_load64(&f->at.completion[at].status);
    if (status == LOCO_ERR_PEER_DEAD)
        return ports_check(f->u, target_of(f, r.grant), status, "a forged request");
    WANT((status == LOCO_OK) == is_granted(f, &r), "p%d: a request of kind %d, grant %u, len %u, "
         "bytes %u, offset %lld is %s: %s", f->u->rank, r.kind, r.grant, r.len, r.arena,
         (long long)r.offset, is_granted(f, &r) ? "granted" : "not granted",
         loco_strerror(status));
    return SIM_FINE;
}

/* ---- the end ---- */

static int count_wrong(struct forger *f)
{
    f->posted += f->c->welcome.depth + 1 + loci_sim_draw(2) * 100000;
    (void)loci_cpu_exchange(&f->at.words->posted, f->posted);
    if (loci_load64_total(&((struct loci_port_header *)(void *)f->slab)->asleep) != 0)
        (void)loci_ring_for(f->u->rt, f->u->agent, f->c->welcome.number);
    sim_wait(f->u->rt, is_told, f);
    if (loci_sim_is_stopped(0))
        return SIM_TOLD;
    for (uint32_t i = 0; i < f->c->welcome.depth; i++)
        WANT((int)(uint32_t)loci_load64(&f->at.completion[i].status) == LOCO_ERR_PROTOCOL,
             "p%d: more was posted than the ring has, and that was done", f->u->rank);
    return SIM_FINE;
}

static int check_arena(const struct forger *f)
{
    for (uint32_t i = 0; i < f->c->welcome.arena; i++) {
        unsigned char byte = f->at.arena[i];

        WANT(byte == 0 || byte == FORGED_BYTE || byte == GUARD_BYTE || sim_any_stopped(f->u->run),
             "p%d: %02x was read, which nobody granted", f->u->rank, byte);
    }
    return SIM_FINE;
}

static int forge_all(struct forger *f)
{
    loci_store64(&((struct loci_port_header *)(void *)f->slab)->opened, 1);
    f->posted = loci_load64(&f->at.words->posted);
    for (uint32_t i = 0; i < f->c->welcome.arena / 2; i++)
        f->at.arena[i] = FORGED_BYTE;
    for (uint32_t i = f->c->welcome.arena / 2; i < f->c->welcome.arena; i++)
        f->at.arena[i] = 0;
    for (int i = 0; i < REQUESTS; i++)
        PASS(post_one(f));
    PASS(check_arena(f));
    return loci_sim_draw(2) == 0 ? count_wrong(f) : SIM_FINE;
}

int ports_forge(struct ports_user *u)
{
    struct forger f = { .u = u, .c = &u->s->client[u->rank] };
    struct loci_mem slab;
    int result;

    u->s->forged = true;
    TRY(u->run, loci_mem_import(u->rt, u->agent, &f.c->welcome.slab, &slab));
    f.slab = loci_mem_map(u->rt, &slab);
    if (f.slab == NULL)
        return ports_check(u, 0, LOCO_ERR_PEER_DEAD, "map");
    f.at = loci_port_at(&f.c->welcome, f.slab, 0);
    f.target = ports_first_target(u->s) + (int)loci_sim_draw((uint32_t)u->s->targets);
    result = forge_all(&f);
    loci_mem_drop(u->rt, &slab);
    return result;
}
