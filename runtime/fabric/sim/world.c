/* SPDX-License-Identifier: BSD-3-Clause */

/* One run: processes are opened, their bodies run, all are closed. */

#include "config.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "memory/memory.h"
#include "place.h"
#include "world.h"

#define AFTER_STOP_MASK ((UINT64_C(1) << 20) - 1)       /* ns that a choice takes at most then */
#define NAP_NS INT64_C(1000)
#define RECORD 512                      /* bytes that an exchange gathers of each */

/* Of the latest run of this thread: what is said of it afterwards goes there, too. */
static _Thread_local struct loci_sim_result *last_result;

/* ---- the host of a simulated process ---- */

static int64_t host_now(void *ctx)
{
    struct sim_world *w = ((struct sim_process *)ctx)->world;

    return loci_sim_clock(w);
}

static uint64_t host_random(void *ctx)
{
    return loci_sim_random(((struct sim_process *)ctx)->world, 1);
}

static void host_idle(void *ctx, unsigned rounds)
{
    (void)ctx;
    (void)rounds;
    loci_sim_block(SIM_IDLE);
}

/* By the time of the cost model a sleep of some length is one of short naps. */
static void host_sleep(void *ctx, _Atomic uint32_t *word, uint32_t seen, int64_t ns)
{
    struct sim_process *p = ctx;
    struct sim_fiber *f = p->world->current;

    if (p->world->strategy == LOCI_SIM_TIMED && ns != LOCO_FOREVER) {
        loci_sim_sleep(ns < NAP_NS ? ns : NAP_NS);
        return;
    }
    if (atomic_load_explicit(word, memory_order_acquire) != seen)
        return;
    f->futex = word;
    f->woken = false;
    f->wake = ns == LOCO_FOREVER ? INT64_MAX : p->world->time + ns;
    loci_sim_block(SIM_FUTEX);
}

static void host_wake(void *ctx, _Atomic uint32_t *word)
{
    struct sim_world *w = ((struct sim_process *)ctx)->world;

    for (int i = 0; i < w->fiber_count; i++) {
        struct sim_fiber *f = w->fibers[i];

        if (f->state == SIM_FUTEX && f->futex == word) {
            f->woken = true;
            sim_poke(f->process, loci_sim_time_wake(w));
        }
    }
    w->barren = w->without_effect = 0;
}

static struct loci_thread *host_self(void *ctx)
{
    struct sim_process *p = ctx;
    struct sim_fiber *f = p->world->current;

    if (f->context == NULL)
        f->context = loci_thread_attach(p->rt);
    return f->context;
}

static void host_waits(void *ctx, const char *what)
{
    ((struct sim_process *)ctx)->world->current->waits_for = what;
}

/* What the production runtime asks the kernel, place.h. */
int loci_place_of_self(struct loco_runtime *rt, struct loci_address *address)
{
    const struct sim_process *p = rt->host.ctx;

    address->node = p->node;
    address->pid = 1000 + p->rank;
    address->start_time = 1;
    return LOCO_OK;
}

const struct loci_fabric_ops *loci_place_fabric(struct loco_runtime *rt)
{
    (void)rt;
    return &loci_fabric_sim;
}

size_t loci_memory_left(size_t limit, size_t used, const char **what)
{
    if (what != NULL)
        *what = "LOCO_MEM_LIMIT";
    return limit > used ? limit - used : 0;
}

/* ---- exchanges ---- */

/* All enter with their records, then all leave with everybody's. The fastest may enter the next
 * exchange before the slowest has copied what the last one gathered, and nobody the one after that:
 * so two sets of records, used in turn. */
static int allgather(void *ctx, const void *mine, size_t len, void *all)
{
    struct sim_process *p = ctx;
    struct sim_world *w = p->world;
    int round = w->gather_round;
    unsigned char *gathered = w->gathered + (size_t)(round % 2 * w->count) * RECORD;

    if (len > RECORD)
        return LOCO_ERR_ARG;
    if (len > 0)
        memcpy(gathered + (size_t)p->rank * RECORD, mine, len);
    if (++w->gather_in == w->count) {
        w->gather_in = 0;
        w->gather_round++;
        for (int i = 0; i < w->count; i++)
            sim_changed(&w->process[i]);
    }
    while (w->gather_round == round)
        loci_sim_block(SIM_IDLE);
    for (int i = 0; i < w->count && len > 0; i++)
        memcpy((unsigned char *)all + (size_t)i * len, gathered + (size_t)i * RECORD, len);
    return LOCO_OK;
}

/* ---- a process ---- */

static void log_line(void *ctx, int level, const char *text)
{
    struct sim_process *p = ctx;

    if (level <= LOCO_LOG_WARN)
        SIM_TRACE(p->world, p->rank, p->world->current->thread, "log", 0, -1, "%s", text);
}

#define SETTINGS_MOST 8

/* Waits that might as well poll do, unless sleeping is what is looked at. What a scenario says
 * comes later, and counts. */
static void fill_settings(const struct sim_process *p, const char **settings)
{
    static const char *const defaults[] = { "LOCO_SPIN=0", NULL };
    const char *const *given = p->world->config->settings;
    int n = 0;

    settings[n++] = p->world->config->asleep ? "LOCO_NAP_AFTER=0" : "LOCO_NAP_AFTER=inf";
    for (given = given != NULL ? given : defaults; *given != NULL; given++) {
        LOCO_ASSERT(n < SETTINGS_MOST);
        settings[n++] = *given;
    }
    settings[n] = NULL;
}

static int open_runtime(struct sim_process *p, const struct loco_exchange *exchange)
{
    const char *settings[SETTINGS_MOST + 1];
    const struct loci_sim_config *config = p->world->config;
    const struct loci_host host = {
        .ctx = p, .now = host_now, .random = host_random, .idle = host_idle, .self = host_self,
        .waits = host_waits, .sleep = host_sleep, .wake = host_wake,
    };
    const struct loco_bootstrap boot = {
        .identity = SIM_IDENTITY + (uint64_t)p->rank,
        .exchange = *exchange,
        .log = log_line, .log_ctx = p,
        .settings = settings,
    };

    fill_settings(p, settings);
    return loci_runtime_open(&boot, &host, config->one_node ? &loci_fabric_sim_node
                                           : config->owner_atomics ? &loci_fabric_sim_owner
                                           : &loci_fabric_sim, &p->rt);
}

static int gather_alone(void *ctx, const void *mine, size_t len, void *all)
{
    (void)ctx;
    memcpy(all, mine, len);
    return LOCO_OK;
}

int loci_sim_again(loco_runtime_t **rt)
{
    const struct loco_exchange alone = { NULL, 0, 1, gather_alone };
    struct sim_process *p = (*rt)->host.ctx;
    struct sim_world *w = p->world;
    int status;

    loco_runtime_close(*rt);
    p->rt = NULL;
    p->closing = false;
    loci_sim_letters_free(p);
    memset(p->peers, 0, (size_t)w->count * sizeof p->peers[0]);
    for (int i = 0; i < w->fiber_count; i++)
        if (w->fibers[i]->process == p)
            w->fibers[i]->context = NULL;
    status = open_runtime(p, &alone);
    if (status == LOCO_OK)
        *rt = p->rt;
    return status;
}

/* Wait for the others; the last one in lets all go on. */
static void meet(struct sim_process *p)
{
    allgather(p, NULL, 0, NULL);
}

static void all_changed(struct sim_world *w)
{
    for (int i = 0; i < w->count; i++)
        sim_changed(&w->process[i]);
}

static void body_ends(struct sim_process *p)
{
    struct sim_world *w = p->world;

    p->finished = true;
    if (--w->unfinished == 0)
        all_changed(w);
    while (w->unfinished > 0)
        loci_sim_block(SIM_IDLE);
    w->quiet = true;
}

static void main_fiber(void *arg)
{
    struct sim_fiber *f = arg;
    struct sim_process *p = f->process;
    struct sim_world *w = p->world;
    const struct loco_exchange everyone = { p, p->rank, w->count, allgather };
    int status = open_runtime(p, &everyone);

    if (status != LOCO_OK)
        loci_sim_fail("p%d: no runtime: %s", p->rank, loco_strerror(status));
    meet(p);
    w->quiet = false;
    f->waits_for = "the end of the others";
    if (w->body(p->rt, p->rank, w->arg) != 0)
        loci_sim_fail("p%d: its body has failed", p->rank);
    f->waits_for = "the end of the others";
    body_ends(p);
    loco_runtime_close(p->rt);          /* unless the body has */
    p->rt = NULL;
    if (--w->open == 0) {
        w->result->verdict = LOCI_SIM_PASSED;
        loci_sim_end(LOCI_SIM_PASSED);
    }
    loci_sim_block(SIM_DONE);
}

void loci_sim_stop(struct sim_process *p)
{
    struct sim_world *w = p->world;

    SIM_TRACE(w, p->rank, w->current->thread, "stops", 0, -1, "for ever, at its step %llu",
              (unsigned long long)p->steps);
    p->stopped = true;
    /* Waiters that poll give the dead some hundred milliseconds: not in steps of nanoseconds. */
    w->time_mask |= AFTER_STOP_MASK;
    for (int i = 0; i < w->fiber_count; i++)
        if (w->fibers[i]->process == p) {
            w->fibers[i]->state = SIM_DONE;
            loci_sim_drain(w->fibers[i]);       /* as a CPU does with what it has executed */
        }
    loci_sim_lanes_stop(p);
    w->open--;
    if (!p->finished && --w->unfinished == 0)
        all_changed(w);
    for (int i = 0; i < w->count; i++)
        if (i != p->rank)
            loci_sim_send_letter(&w->process[i], 0, p->rank, SIM_DEATH, NULL, 0);
    if (w->open == 0)
        loci_sim_end(LOCI_SIM_PASSED);
}

/* ---- a run ---- */

static enum loci_sim_strategy choose_strategy(struct sim_world *w)
{
    static const enum loci_sim_strategy all[] = {
        LOCI_SIM_UNIFORM, LOCI_SIM_STICKY, LOCI_SIM_PRIORITY, LOCI_SIM_LAZY, LOCI_SIM_EAGER,
    };

    return w->config->strategy != LOCI_SIM_AUTO ? w->config->strategy
           : all[loci_sim_random(w, 1) % 5];
}

/* Where only those of one node differ from those of others, both are to be met: in every other run
 * they are spread at random over two nodes or more. */
static void place_processes(struct sim_world *w)
{
    bool spread = w->config->owner_atomics && w->strategy != LOCI_SIM_TIMED && w->count > 1
                  && loci_sim_random(w, 1) % 2 == 0;
    uint64_t nodes = spread ? 2 + loci_sim_random(w, 1) % (uint64_t)(w->count - 1) : 0;

    for (int i = 0; i < w->count; i++)
        w->process[i].node = w->config->node_of != NULL
                             ? (uint64_t)w->config->node_of(i, w->count)
                             : w->config->one_node ? 1
                             : 1 + (spread ? loci_sim_random(w, 1) % nodes : (uint64_t)i);
}

static void share_devices(struct sim_world *w)
{
    for (int i = 0; i < w->count; i++) {
        int first = i;

        for (int j = 0; j < i && first == i && w->config->machines; j++)
            if (w->process[j].node == w->process[i].node)
                first = j;
        w->process[i].nic = &w->process[first].own_nic;
    }
}

static void begin(struct sim_world *w)
{
    static const int run_means[] = { 1, 2, 4, 16, 64 };
    uint64_t seed = w->config->seed;

    for (int i = 0; i < 3; i++) {
        w->random[i] = seed * 3 + (uint64_t)i;
        w->random[i] = loci_sim_random(w, i);
    }
    w->hash = UINT64_C(0xcbf29ce484222325);
    w->strategy = choose_strategy(w);
    w->run_mean = run_means[loci_sim_random(w, 1) % 5];
    if (w->strategy == LOCI_SIM_STICKY)
        w->run_mean *= 4;
    w->time = 1000000;
    w->time_mask = (UINT64_C(1) << (loci_sim_random(w, 1) % 16)) - 1;
    if (w->strategy == LOCI_SIM_TIMED)
        loci_sim_timed_open(w);
    w->quiet = true;
    w->unfinished = w->open = w->count;
    place_processes(w);
    share_devices(w);
    for (int i = 0; i < w->count; i++) {
        struct sim_process *p = &w->process[i];

        p->world = w;
        p->rank = i;
        p->last_letter = &p->letters;
        p->peers = calloc((size_t)w->count, sizeof p->peers[0]);
        if (p->peers == NULL)
            abort();
        p->main = loci_sim_start(p, 0, main_fiber);
    }
}

static void end(struct sim_world *w)
{
    struct loci_sim_result *r = w->result;

    r->steps = w->steps;
    r->choices = w->choices;
    r->schedule = w->hash;
    r->time = w->time;
    r->decisions = w->decisions;
    r->decision_count = w->decision_count;
    loci_sim_lanes_free(w);
    free(w->lanes);
    for (int i = 0; i < w->fiber_count; i++) {
        loci_fiber_free(&w->fibers[i]->fiber);
        free(w->fibers[i]);
    }
    for (int i = 0; i < w->count; i++) {
        struct sim_process *p = &w->process[i];

        r->total.writes += p->counts.writes;
        r->total.reads += p->counts.reads;
        r->total.atomics += p->counts.atomics;
        r->total.places += p->counts.places;
        r->total.bytes += p->counts.bytes;
        r->total.messages += p->counts.messages;
        loci_sim_letters_free(p);
        for (int j = 0; j < p->extent_count; j++) {
            const struct sim_extent *e = &p->extents[j];

            loci_sim_give_memory(e->base, e->len, e->number == SIM_WORDS_EXTENT ? p->words_taken
                                                  : e->gone ? e->touched : e->len);
        }
        free(p->extents);
        free(p->users);
        free(p->peers);
    }
    free(w->fibers);
    free(w->actors);
    loci_sim_timed_close(w);
    free(w->gathered);
    free(w->given);
    free(w->spans);
    free(w->process);
}

void loci_sim_run(const struct loci_sim_config *config, loci_sim_body *body, void *arg,
                  struct loci_sim_result *result)
{
    struct sim_world world = { .config = config, .result = result, .body = body, .arg = arg,
                               .count = config->processes };

    /* Runs are short and many: their memory stays with the process. */
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    memset(result, 0, sizeof *result);
    last_result = result;
    world.process = calloc((size_t)world.count, sizeof world.process[0]);
    world.gathered = calloc(2 * (size_t)world.count, RECORD);
    if (world.process == NULL || world.gathered == NULL)
        abort();
    loci_sim_world = &world;
    loci_fiber_main(&world.os);
    begin(&world);
    loci_sim_run_fibers(&world);
    loci_sim_world = NULL;
    end(&world);
}

/* ---- in a body ---- */

static void thread_fiber(void *arg)
{
    struct sim_fiber *f = arg;

    f->result = f->fn(f->arg, f->thread);
    if (f->context != NULL)
        atomic_store_explicit(&f->context->in_use, false, memory_order_release);
    f->starter->unjoined--;
    sim_poke(f->process, 0);
    loci_sim_block(SIM_DONE);
}

int loci_sim_threads(loco_runtime_t *rt, int n, int (*fn)(void *arg, int thread), void *arg)
{
    struct sim_process *p = rt->host.ctx;
    struct sim_world *w = p->world;
    struct sim_fiber *here = w->current;
    int first = w->fiber_count, result = 0;

    here->unjoined = n;
    for (int i = 0; i < n; i++) {
        struct sim_fiber *f = loci_sim_start(p, i, thread_fiber);

        f->fn = fn;
        f->arg = arg;
        f->starter = here;
    }
    while (here->unjoined > 0)
        loci_sim_block(SIM_JOIN);
    for (int i = 0; i < n; i++)
        result = result != 0 ? result : w->fibers[first + i]->result;
    return result;
}

int loci_sim_fail(const char *format, ...)
{
    struct sim_world *w = loci_sim_world;
    va_list args;

    va_start(args, format);
    vsnprintf(last_result->text, sizeof last_result->text, format, args);
    va_end(args);
    last_result->verdict = LOCI_SIM_FAILED;
    if (w == NULL)          /* said of a run that is over */
        return 1;
    SIM_TRACE(w, w->current->process->rank, w->current->thread, "FAILS", 0, -1, "%s",
              w->result->text);
    loci_sim_end(LOCI_SIM_FAILED);
}

void loci_sim_work(int64_t ns)
{
    if (loci_sim_world->strategy != LOCI_SIM_TIMED)
        return;
    loci_sim_time_cpu(loci_sim_world, ns);
    loci_sim_block(SIM_READY);
}

void loci_sim_tell(int rank)
{
    sim_changed(&loci_sim_world->process[rank]);
}

uint32_t loci_sim_draw(uint32_t n)
{
    return (uint32_t)(loci_sim_random(loci_sim_world, 2) % n);
}

void loci_sim_pause(void)
{
    loci_sim_step(LOCI_SIM_LOAD, loci_sim_world, 1);
    if (loci_sim_world->strategy == LOCI_SIM_TIMED)
        loci_sim_block(SIM_READY);
}

void loci_sim_sleep(int64_t ns)
{
    struct sim_world *w = loci_sim_world;

    w->current->wake = loci_sim_clock(w) + ns;
    loci_sim_block(SIM_ASLEEP);
}

struct loci_sim_counts loci_sim_counts(loco_runtime_t *rt)
{
    return ((struct sim_process *)rt->host.ctx)->counts;
}

int64_t loci_sim_time(void)
{
    return loci_sim_clock(loci_sim_world);
}

uint64_t loci_sim_process_steps(int rank)
{
    return loci_sim_world->process[rank].steps;
}

void loci_sim_hold(bool (*held)(void *arg, int from, int to), void *arg)
{
    loci_sim_world->held = held;
    loci_sim_world->held_arg = arg;
}

void loci_sim_kill(int rank)
{
    struct sim_process *p = &loci_sim_world->process[rank];

    loci_sim_stop(p);
    if (loci_sim_world->current->process == p)
        loci_sim_block(SIM_DONE);
}

bool loci_sim_is_stopped(int rank)
{
    return loci_sim_world->process[rank].stopped;
}
