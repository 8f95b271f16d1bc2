/* SPDX-License-Identifier: BSD-3-Clause */

/* Control messages, the service thread, and who is alive.
 *
 * A process's letters come in the order of each sender; which sender's is next is chosen. The
 * service thread is a fiber that sleeps until there is one. What is garbled here is a random byte
 * or the length: what a parser has to withstand. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "service.h"
#include "wait.h"
#include "world.h"

/* ---- letters ---- */

/* To and from the runtimes with these labels, at that process and by process `from`. */
static void append(struct sim_process *to, uint64_t label, int from, uint64_t sender,
                   enum sim_letter_kind kind, const void *bytes, size_t len)
{
    struct sim_letter *letter = malloc(sizeof *letter + len);

    if (letter == NULL)
        abort();
    *letter = (struct sim_letter){
        .kind = kind, .from = from, .label = sender, .to = label, .len = len,
        .at = loci_sim_time_arrival(to->world),
    };
    if (len > 0)
        memcpy(letter->bytes, bytes, len);
    *to->last_letter = letter;
    to->last_letter = &letter->next;
}

static bool happens(struct sim_world *w, int per_mille)
{
    return per_mille > 0 && !w->quiet && (int)(loci_sim_random(w, 1) % 1000) < per_mille;
}

static void garble(struct sim_world *w, struct sim_letter *letter)
{
    uint64_t draw = loci_sim_random(w, 1);

    if (letter->len == 0)
        return;
    if (draw % 4 == 0)
        letter->len = (draw >> 8) % letter->len;
    else
        letter->bytes[(draw >> 8) % letter->len] ^= (unsigned char)(1 << (draw >> 4) % 8);
}

void loci_sim_send_letter(struct sim_process *to, uint64_t label, int from,
                          enum sim_letter_kind kind, const void *bytes, size_t len)
{
    struct sim_world *w = to->world;
    const struct loci_sim_faults *faults = &w->config->faults;
    const struct loco_runtime *rt = w->process[from].rt;
    uint64_t sender = rt != NULL ? rt->address.label : 0;

    if (to->stopped || to->rt == NULL)
        return;
    if (kind == SIM_CONTROL && happens(w, faults->lose)) {
        SIM_TRACE(w, from, -1, "message lost", 0, to->rank, "%zu bytes", len);
        return;
    }
    append(to, label, from, sender, kind, bytes, len);
    if (kind == SIM_CONTROL && happens(w, faults->twice)) {
        SIM_TRACE(w, from, -1, "message doubled", 0, to->rank, "%zu bytes", len);
        append(to, label, from, sender, kind, bytes, len);
    } else if (kind == SIM_CONTROL && happens(w, faults->garble)) {
        struct sim_letter *letter = to->letters;

        while (letter->next != NULL)
            letter = letter->next;
        garble(w, letter);
        SIM_TRACE(w, from, -1, "message garbled", 0, to->rank, "%zu bytes", letter->len);
    }
    w->barren = w->without_effect = 0;
    sim_poke(to, w->quiet || w->agenda == NULL ? 0 : w->config->cost->message);
}

/* The first letter of a sender; of which is chosen. */
static struct sim_letter *take_letter(struct sim_process *p)
{
    struct sim_world *w = p->world;
    struct sim_letter **firsts[64], *letter;
    uint32_t n = 0;

    for (struct sim_letter **at = &p->letters; *at != NULL && n < 64; at = &(*at)->next) {
        bool earlier = false;

        for (struct sim_letter *l = p->letters; l != *at; l = l->next)
            earlier = earlier || l->from == (*at)->from;
        if (!earlier)
            firsts[n++] = at;
        if (w->count > 64)      /* scale: as they came */
            break;
    }
    n = w->quiet || n == 1 || w->strategy == LOCI_SIM_TIMED ? 0
        : loci_sim_choose(w, n, (uint32_t)(loci_sim_random(w, 0) % n));
    letter = *firsts[n];
    *firsts[n] = letter->next;
    if (letter->next == NULL)
        p->last_letter = firsts[n];
    return letter;
}

/* Who sent it. A process that has opened a runtime again is another one than before; NULL: it is
 * not known yet, or has been forgotten, or this process is not the one that it was for. */
static struct loci_peer *sender_of(struct sim_process *p, const struct sim_letter *letter)
{
    int count = atomic_load_explicit(&p->rt->peer_count, memory_order_acquire);

    if (letter->to != 0 && letter->to != p->rt->address.label)
        return NULL;
    if (p->peers[letter->from] != NULL
        && p->peers[letter->from]->address.label == letter->label)
        return p->peers[letter->from];
    for (int i = 1; i < count; i++) {
        struct loci_peer *peer = loci_peer(p->rt, i);

        if (peer->in_table && peer->address.label == letter->label)
            return peer;
    }
    return NULL;
}

static void ring_here(struct loco_runtime *rt, const struct sim_letter *letter)
{
    uint32_t number;

    memcpy(&number, letter->bytes, sizeof number);
    if (number != 0)
        loci_ring_poller(rt, rt->bells, number);
    else
        loci_ring_self(rt);
}

static void handle(struct sim_process *p, const struct sim_letter *letter)
{
    struct loci_peer *from = sender_of(p, letter);

    if (letter->kind == SIM_TIDY)
        loci_peers_tidy(p->rt);
    if (from == NULL)
        return;
    switch (letter->kind) {
    case SIM_CONTROL:
        SIM_TRACE(p->world, p->rank, -1, "message handled", 0, letter->from, "%zu bytes",
                  letter->len);
        loci_control_receive(p->rt, from->index, letter->bytes, letter->len);
        break;
    case SIM_TIDY:
        break;
    case SIM_RING:
        ring_here(p->rt, letter);
        break;
    case SIM_GOODBYE:
        loci_peer_gone(p->rt, from, LOCI_PEER_LEFT, "it has closed its runtime");
        break;
    default:
        SIM_TRACE(p->world, p->rank, -1, "is told that", 0, letter->from, "p%d has stopped",
                  letter->from);
        loci_peer_gone(p->rt, from, LOCI_PEER_DEAD, "it has stopped");
        break;
    }
    sim_changed(p);
}

void loci_sim_serve(void *arg)
{
    struct sim_fiber *f = arg;
    struct sim_process *p = f->process;

    for (;;) {
        while (p->letters == NULL && !p->closing)
            loci_sim_block(SIM_MAIL);
        if (p->closing)
            break;
        struct sim_letter *letter = take_letter(p);

        loci_sim_time_letter(p->world, letter->at);
        handle(p, letter);
        free(letter);
    }
    sim_changed(p);
    loci_sim_block(SIM_DONE);
}

void loci_sim_letters_free(struct sim_process *p)
{
    while (p->letters != NULL) {
        struct sim_letter *letter = p->letters;

        p->letters = letter->next;
        free(letter);
    }
    p->last_letter = &p->letters;
}

/* ---- service.h ---- */

int loci_service_open(struct loco_runtime *rt)
{
    struct sim_process *p = rt->host.ctx;

    p->rt = rt;
    p->service = loci_sim_start(p, -1, loci_sim_serve);
    return LOCO_OK;
}

/* As a join of the thread: a handler that it is in the middle of is finished. */
static void end_service(struct sim_process *p)
{
    p->closing = true;
    sim_poke(p, 0);
    while (p->service->state != SIM_DONE)
        loci_sim_block(SIM_IDLE);
}

void loci_service_close(struct loco_runtime *rt)
{
    struct sim_process *p = rt->host.ctx;

    end_service(p);
    p->rt = NULL;
}

/* Fabrics with descriptors use these; there are none here. */
int loci_service_watch(struct loco_runtime *rt, int fd, uint32_t events, loci_service_fn *fn,
                       void *ctx)
{
    (void)rt;
    (void)fd;
    (void)events;
    (void)fn;
    (void)ctx;
    return LOCO_ERR_UNSUPPORTED;
}

void loci_service_unwatch(struct loco_runtime *rt, int fd)
{
    (void)rt;
    (void)fd;
}

void loci_service_tidy(struct loco_runtime *rt)
{
    struct sim_process *p = rt->host.ctx;

    loci_sim_send_letter(p, 0, p->rank, SIM_TIDY, NULL, 0);
}

bool loci_service_is_self(struct loco_runtime *rt)
{
    struct sim_process *p = rt->host.ctx;

    return p->world->current == p->service;
}

/* ---- the fabric's life and peers ---- */

int loci_sim_fabric_open(struct loco_runtime *rt, struct loci_address *mine,
                         struct loci_fabric **fabric);
void loci_sim_fabric_close(struct loci_fabric *fabric);
int loci_sim_peer_add(struct loci_fabric *fabric, struct loci_peer *peer);
void loci_sim_peer_remove(struct loci_fabric *fabric, struct loci_peer *peer);
bool loci_sim_peer_forget(struct loci_fabric *fabric, struct loci_peer *peer);
int loci_sim_control_send(struct loci_fabric *fabric, struct loci_peer *peer, const void *message,
                          size_t len);
int loci_sim_ring(struct loci_fabric *fabric, struct loci_peer *peer, uint32_t number);
int loci_sim_ring_here(struct loci_fabric *fabric, struct loci_peer *peer, uint32_t number);
struct loci_bells *loci_sim_bells(struct loci_fabric *fabric, struct loci_peer *peer);

/* Only where a run asks for it: what others explore is not to change. */
static bool bounds_outstanding(const struct loci_tunables *t)
{
    size_t n;
    const struct loci_tunable_row *rows = loci_tunables_rows(&n);

    for (size_t i = 0; i < n; i++)
        if (t->origin[i] != LOCI_FROM_DEFAULT
            && strncmp(rows[i].name, "LOCO_RDMA_OUTSTANDING", 21) == 0)
            return true;
    return false;
}

int loci_sim_fabric_open(struct loco_runtime *rt, struct loci_address *mine,
                         struct loci_fabric **fabric)
{
    struct sim_process *p = rt->host.ctx;

    mine->node = p->node;
    p->context_at = 0;
    p->left = false;                    /* another runtime of it may have */
    *fabric = &p->fabric;
    if (bounds_outstanding(&rt->tunables))
        loci_credits_open(rt, LOCI_CREDIT_NO_BYTES);
    return LOCO_OK;
}

/* No handler runs on when this returns: letters are all that it serves. */
void loci_sim_fabric_close(struct loci_fabric *fabric)
{
    end_service(sim_process_of(fabric));
}

/* It has gone before it was met here. */
static void tell_of_end(struct sim_process *p, const struct loci_peer *peer)
{
    const struct sim_process *to = sim_peer_process(p, peer);
    bool closed = to->rt == NULL || to->rt->address.label != peer->address.label;

    if (!to->stopped && !closed)
        return;
    append(p, 0, to->rank, peer->address.label, closed ? SIM_GOODBYE : SIM_DEATH, NULL, 0);
    sim_poke(p, 0);
}

int loci_sim_peer_add(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct sim_process *p = sim_process_of(fabric);

    p->peers[peer->address.identity - SIM_IDENTITY] = peer;
    if (p->rt->ops->bells != NULL && sim_is_near(p, sim_peer_process(p, peer)))
        atomic_store_explicit(&peer->bells, NULL, memory_order_release);
    peer->fabric_data = &p->peers[peer->address.identity - SIM_IDENTITY];
    tell_of_end(p, peer);
    return LOCO_OK;
}

bool loci_sim_peer_forget(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct loci_peer **known = peer->fabric_data;

    (void)fabric;
    if (*known == peer)
        *known = NULL;
    peer->fabric_data = NULL;
    return true;
}

void loci_sim_peer_remove(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct sim_process *p = sim_process_of(fabric);

    p->left = true;
    loci_sim_send_letter(sim_peer_process(p, peer), peer->address.label, p->rank, SIM_GOODBYE,
                         NULL, 0);
}

int loci_sim_control_send(struct loci_fabric *fabric, struct loci_peer *peer, const void *message,
                          size_t len)
{
    struct sim_process *p = sim_process_of(fabric);

    loci_sim_step(LOCI_SIM_STORE, peer, sizeof *peer);
    loci_sim_time_call(p->world);
    if (!loci_peer_alive(p->rt, peer->index))
        return LOCO_ERR_PEER_DEAD;
    p->counts.messages++;
    loci_sim_send_letter(sim_peer_process(p, peer), peer->address.label, p->rank, SIM_CONTROL,
                         message, len);
    return LOCO_OK;
}

/* A message that is not lost, and that the service thread takes when it comes to it. */
int loci_sim_ring(struct loci_fabric *fabric, struct loci_peer *peer, uint32_t number)
{
    struct sim_process *p = sim_process_of(fabric);

    loci_sim_step(LOCI_SIM_STORE, peer, sizeof *peer);
    loci_sim_time_call(p->world);
    p->counts.messages++;
    loci_sim_send_letter(sim_peer_process(p, peer), peer->address.label, p->rank, SIM_RING,
                         &number, sizeof number);
    return LOCO_OK;
}

/* On one node: the bell itself, in memory that is shared. Where there are others, to them as
 * above. */
int loci_sim_ring_here(struct loci_fabric *fabric, struct loci_peer *peer, uint32_t number)
{
    struct sim_process *p = sim_process_of(fabric), *to = sim_peer_process(p, peer);

    if (!sim_is_near(p, to))
        return loci_sim_ring(fabric, peer, number);
    if (to->rt != NULL && number != 0)
        loci_ring_poller(p->rt, to->rt->bells, number);
    else if (to->rt != NULL)
        loci_ring_bell(p->rt, &to->rt->bells->bell[LOCI_BELL_ANY]);
    return LOCO_OK;
}

struct loci_bells *loci_sim_bells(struct loci_fabric *fabric, struct loci_peer *peer)
{
    struct sim_process *to = sim_peer_process(sim_process_of(fabric), peer);

    return to->rt != NULL ? to->rt->bells : NULL;
}
