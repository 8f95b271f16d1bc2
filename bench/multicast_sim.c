/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicasts in the virtual time of a simulated network (docs/loco-sim-model.md): what all members
 * are given in a second, how long a message takes until its sender has delivered it, what is
 * posted, and how large batches are. Parts can be left out (channels/multicast/multicast_parts.h),
 * down to the baseline of the paper of Spindle.
 *
 * Each process sends as fast as it gets slots, to its multicasts in turn, and has a handler. Each
 * member counts its time from one number of deliveries to another. What each is given is compared
 * with what the others are: the same messages, in the same order.
 */
#include "config.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>

#include "fabric/sim/cost.h"
#include "fabric/sim/sim.h"
#include "multicast/multicast.h"

enum { MOST = 1024, GROUPS = 64, TICK = 1000 };

struct options {
    int members, senders, slots, bytes, messages, groups, active, delayed;
    int64_t fill, delay;        /* ns; delay < 0: for ever */
    unsigned parts;
    const char *profile;
    int post;                   /* ns; 0: the profile's */
    int direct;
    bool unordered, json;
};

/* Of all members of a multicast. */
struct group {
    uint64_t *log;              /* numbers, as the first who was given each has it */
    uint64_t logged, room;
};

struct sum {
    uint64_t sent, send_batches, nulls, null_batches, receive_batches, delivered, deliver_batches;
    uint64_t pushes, posts, full;
};

/* The observer's, for all processes. */
struct work {
    const struct options *o;
    struct group group[GROUPS];
    int arrived, generation;
    int done;                   /* members that have had enough */
    uint64_t sent[GROUPS];
    double rate, prompt;        /* of all members: messages a second; of those not delayed */
    double took, times;         /* ns until delivered */
    uint64_t writes;
    struct sum sum;
};

struct member {
    struct work *w;
    loco_runtime_t *rt;
    int rank;
    uint64_t given, prompt, prompt_before;
    int64_t begin, end;
    struct part {
        struct member *member;
        loco_multicast_t *m;
        struct group *g;
        uint64_t given;
        uint64_t next[MOST];    /* by sender */
    } part[GROUPS];
};

struct message {
    int64_t sent_at;
    uint64_t number, sender;
};

/* ---- what comes ---- */

/* One order: where it is not checked by numbers, whoever is first says what is next. */
static void compare(struct part *p, const loco_delivery_t *d)
{
    struct group *g = p->g;
    const struct message *message = d->data;

    if (message->number != p->next[d->sender]++ || message->sender != (uint64_t)d->sender)
        loci_sim_fail("p%d is given message %llu of p%d, not %llu", p->member->rank,
                      (unsigned long long)message->number, d->sender,
                      (unsigned long long)p->next[d->sender] - 1);
    if (p->member->w->o->unordered)
        return;
    if (p->given == g->logged) {
        if (g->logged == g->room) {
            g->room = 2 * g->room + 4096;
            g->log = realloc(g->log, g->room * sizeof g->log[0]);
            if (g->log == NULL)
                abort();
        }
        g->log[g->logged++] = d->number;
    }
    if (g->log[p->given] != d->number)
        loci_sim_fail("p%d is given number %llu, and another %llu", p->member->rank,
                      (unsigned long long)d->number, (unsigned long long)g->log[p->given]);
}

static void note(struct member *me, const struct message *message)
{
    struct work *w = me->w;
    const uint64_t most = (uint64_t)w->o->messages;
    bool counts = me->given >= most / 4 && me->given < most;

    if (++me->given == most / 4)
        me->begin = loci_sim_time();
    if (me->given == most) {
        me->end = loci_sim_time();
        w->done++;
    }
    if (!counts)
        return;
    me->prompt += message->sender >= (uint64_t)w->o->delayed;
    if (message->sender == (uint64_t)me->rank) {
        w->took += (double)(loci_sim_time() - message->sent_at);
        w->times++;
    }
}

static void handle(void *arg, const loco_delivery_t *messages, int n)
{
    struct part *p = arg;

    for (int i = 0; i < n; i++) {
        compare(p, &messages[i]);
        p->given++;
        note(p->member, messages[i].data);
    }
}

/* ---- who sends ---- */

static int fail(const struct member *me, int status)
{
    return loci_sim_fail("p%d: %s", me->rank, loco_strerror(status));
}

static int send_one(struct member *me, int g, uint64_t number)
{
    struct work *w = me->w;
    struct message *slot;
    int status = loco_multicast_reserve(me->part[g].m, (void **)&slot);

    if (status == LOCO_OK) {
        *slot = (struct message){ 0, number, (uint64_t)me->rank };
        if (w->o->fill > 0)
            loci_sim_sleep(w->o->fill);
        slot->sent_at = loci_sim_time();
        w->sent[g]++;
        status = loco_multicast_send(me->part[g].m, slot, (size_t)w->o->bytes, NULL);
    }
    return status == LOCO_OK ? 0 : fail(me, status);
}

static int send_all(struct member *me)
{
    const struct options *o = me->w->o;
    bool delayed = me->rank < o->delayed;
    uint64_t number[GROUPS] = { 0 };

    if (me->rank >= o->senders || (delayed && o->delay < 0))
        return 0;
    for (int g = 0; me->w->done < o->members; g = (g + 1) % o->active) {
        if (send_one(me, g, number[g]++) != 0)
            return 1;
        if (delayed)
            loci_sim_sleep(o->delay);
    }
    return 0;
}

/* ---- a process ---- */

static void meet(struct work *w)
{
    int generation = w->generation;

    if (++w->arrived == w->o->members) {
        w->arrived = 0;
        w->generation++;
    }
    while (w->generation == generation)
        loci_sim_sleep(TICK);
}

static int make(struct member *me)
{
    const struct options *o = me->w->o;
    const struct loci_multicast_tuning tuning = { .direct = o->direct };
    int senders[MOST], status = LOCO_OK;
    char name[16];

    for (int i = 0; i < o->senders; i++)
        senders[i] = i;
    for (int g = 0; g < o->groups && status == LOCO_OK; g++) {
        struct part *p = &me->part[g];
        const loco_multicast_options_t options = {
            .senders = senders, .nsenders = o->senders, .slots = o->slots,
            .slot_bytes = g < o->active ? (size_t)o->bytes : sizeof(struct message),
            .flags = o->unordered ? LOCO_MULTICAST_UNORDERED : 0, .handler = handle, .arg = p,
        };

        p->member = me;
        p->g = &me->w->group[g];
        snprintf(name, sizeof name, "m%d", g);
        status = loci_multicast_create(me->rt, NULL, name, loco_everyone(me->rt), &options,
                                       &tuning, &p->m);
    }
    return status == LOCO_OK ? loco_runtime_wait_ready(me->rt, LOCO_FOREVER) : status;
}

/* Without nulls what comes after another sender's last is never delivered. */
static bool has_all(const struct member *me)
{
    if ((me->w->o->parts & LOCI_MC_NULLS) == 0)
        return true;
    for (int g = 0; g < me->w->o->active; g++)
        if (me->part[g].given < me->w->sent[g])
            return false;
    return true;
}

static void add(struct member *me)
{
    struct work *w = me->w;
    double seconds = (double)(me->end - me->begin) / 1e9;
    double counted = (double)w->o->messages - (double)(w->o->messages / 4);

    w->rate += counted / seconds;
    w->prompt += (double)me->prompt / seconds;
    w->writes += loci_sim_counts(me->rt).writes;
    for (int g = 0; g < w->o->groups; g++) {
        const struct loci_mc_counts *c = &me->part[g].m->counts;

        w->sum.sent += c->sent;
        w->sum.send_batches += c->send_batches;
        w->sum.nulls += c->nulls;
        w->sum.null_batches += c->null_batches;
        w->sum.receive_batches += c->receive_batches;
        w->sum.delivered += c->delivered;
        w->sum.deliver_batches += c->deliver_batches;
        w->sum.pushes += c->pushes;
        w->sum.posts += c->posts;
        w->sum.full += c->full;
    }
}

static int use(struct member *me)
{
    struct work *w = me->w;

    meet(w);
    if (send_all(me) != 0)
        return 1;
    while (w->done < w->o->members)
        loci_sim_sleep(TICK);
    meet(w);
    while (!has_all(me))
        loci_sim_sleep(TICK);
    add(me);
    meet(w);
    return 0;
}

static int body(loco_runtime_t *rt, int rank, void *arg)
{
    struct work *w = arg;
    struct member *me = calloc(1, sizeof *me);
    int status, result;

    if (me == NULL)
        abort();
    *me = (struct member){ .w = w, .rt = rt, .rank = rank };
    status = make(me);
    result = status != LOCO_OK ? fail(me, status) : use(me);
    for (int g = 0; g < w->o->groups; g++)
        loco_multicast_destroy(me->part[g].m);
    free(me);
    return result;
}

/* ---- what it comes to ---- */

static double per(uint64_t a, uint64_t b)
{
    return b == 0 ? 0 : (double)a / (double)b;
}

static void report(const struct work *w)
{
    const struct options *o = w->o;
    const struct sum *s = &w->sum;
    double n = o->members, rate = w->rate / n;

    printf(o->json ? "{\"members\": %d, \"rate\": %.0f, \"gb\": %.4f, \"prompt\": %.0f, "
                     "\"us\": %.2f, \"pushes\": %.4f, \"posts\": %.4f, \"writes\": %.4f, "
                     "\"send\": %.2f, \"receive\": %.2f, \"deliver\": %.2f, \"nulls\": %.4f, "
                     "\"full\": %.4f}\n"
           : "%d members: %.0f messages a second, %.3f GB/s (%.0f of who is not delayed); "
             "%.1f us; a message takes %.3f pushes, a push %.2f posts, a post %.2f writes; "
             "batches %.2f sent, %.2f received, %.2f delivered; %.3f nulls a message; "
             "%.2f of sends had no slot\n",
           o->members, rate, rate * o->bytes / 1e9, w->prompt / n,
           w->times > 0 ? w->took / w->times / 1000 : 0, per(s->pushes, s->sent),
           per(s->posts, s->pushes), per(w->writes, s->posts), per(s->sent, s->send_batches),
           per(s->delivered, s->receive_batches), per(s->delivered, s->deliver_batches),
           per(s->nulls, s->sent), per(s->full, s->sent));
}

static int run(const struct options *o)
{
    static const char *const settings[] = { "LOCO_SPIN=0", "LOCO_NAP_AFTER=0", NULL };
    struct loci_sim_cost cost = *loci_sim_cost_named(o->profile);
    const struct loci_sim_config config = {
        .processes = o->members, .seed = 1, .strategy = LOCI_SIM_TIMED,
        .faults = LOCI_SIM_NO_FAULTS, .settings = settings, .step_limit = UINT64_MAX,
        .cost = &cost, .look_every = TICK,
    };
    struct loci_sim_result result;
    struct work *w = calloc(1, sizeof *w);

    if (w == NULL)
        abort();
    w->o = o;
    cost.post = o->post > 0 ? o->post : cost.post;
    loci_multicast_parts = o->parts;
    loci_sim_run(&config, body, w, &result);
    free(result.decisions);
    if (result.verdict != LOCI_SIM_PASSED)
        fprintf(stderr, "multicast_sim: %s\n%s", result.text, result.detail);
    else
        report(w);
    for (int g = 0; g < GROUPS; g++)
        free(w->group[g].log);
    free(w);
    return result.verdict != LOCI_SIM_PASSED || ferror(stdout) ? 1 : 0;
}

/* ---- the command line ---- */

static const char help[] =
    "usage: multicast_sim [OPTION]...\n"
    "Multicasts over a simulated network, in virtual time. Deterministic.\n\n"
    "  --members N       (16)\n"
    "  --senders N       of them, the first (all)\n"
    "  --bytes N         of a message, at least 24 (10240)\n"
    "  --slots N         of each sender: the window (100)\n"
    "  --messages N      that each member is given; the first quarter is not measured (20000)\n"
    "  --fill NS         that a sender takes to build one (250)\n"
    "  --delayed N       senders that wait after each message, the first, (0)\n"
    "  --delay US        for so long; ever: they send none (100)\n"
    "  --groups N        multicasts, up to 64 (1), of which\n"
    "  --active N        are sent to, in turn (all)\n"
    "  --unordered\n"
    "  --without LIST    of send,receive,deliver (batches), nulls, early (release of the lock)\n"
    "  --direct N        up to so many members each writes to all others; of more they relay (64)\n"
    "  --post NS         of the CPU, for each write (the profile's)\n"
    "  --profile NAME    the network (ib100)\n"
    "  --json            print the results as JSON\n";

static bool number(const char *text, long least, long most, int *to)
{
    char *end;
    long n = strtol(text, &end, 10);

    *to = (int)n;
    return *text != '\0' && *end == '\0' && n >= least && n <= most;
}

static bool parse_without(char *list, unsigned *parts)
{
    static const char *const names[] = { "send", "receive", "deliver", "nulls", "early" };

    for (char *name = strtok(list, ","); name != NULL; name = strtok(NULL, ",")) {
        unsigned i = 0;

        while (i < 5 && strcmp(name, names[i]) != 0)
            i++;
        if (i == 5)
            return false;
        *parts &= ~(1u << i);
    }
    return true;
}

static bool parse_delay(const char *text, int64_t *ns)
{
    int us;

    if (strcmp(text, "ever") == 0) {
        *ns = -1;
        return true;
    }
    if (!number(text, 0, 1000000, &us))
        return false;
    *ns = (int64_t)us * 1000;
    return true;
}

static bool parse_one(int option, struct options *o)
{
    int n = 0;
    bool fine;

    switch (option) {
    case 'm': return number(optarg, 1, MOST, &o->members);
    case 's': return number(optarg, 1, MOST, &o->senders);
    case 'b': return number(optarg, sizeof(struct message), 1 << 20, &o->bytes);
    case 'w': return number(optarg, 1, 1 << 20, &o->slots);
    case 'n': return number(optarg, 4, 1 << 30, &o->messages);
    case 'D': return number(optarg, 0, MOST, &o->delayed);
    case 'd': return parse_delay(optarg, &o->delay);
    case 'g': return number(optarg, 1, GROUPS, &o->groups);
    case 'a': return number(optarg, 1, GROUPS, &o->active);
    case 'p': return number(optarg, 1, 1000000, &o->post);
    case 'r': return number(optarg, 1, MOST, &o->direct);
    case 'o': return parse_without(optarg, &o->parts);
    case 'f': o->profile = optarg; return loci_sim_cost_named(optarg) != NULL;
    case 'F':
        fine = number(optarg, 0, 1000000, &n);
        o->fill = n;
        return fine;
    case 'u': return o->unordered = true;
    case 'j': return o->json = true;
    default: return false;
    }
}

static int check(struct options *o)
{
    o->senders = o->senders == 0 ? o->members : o->senders;
    o->active = o->active == 0 ? o->groups : o->active;
    if (o->senders <= o->members && o->active <= o->groups
        && o->delayed <= o->senders - (o->delay < 0))
        return run(o);
    fprintf(stderr, "multicast_sim: more senders than members, more active than groups, or nobody "
            "who sends (--help)\n");
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        { "members", required_argument, NULL, 'm' }, { "senders", required_argument, NULL, 's' },
        { "bytes", required_argument, NULL, 'b' }, { "slots", required_argument, NULL, 'w' },
        { "messages", required_argument, NULL, 'n' }, { "fill", required_argument, NULL, 'F' },
        { "delayed", required_argument, NULL, 'D' }, { "delay", required_argument, NULL, 'd' },
        { "groups", required_argument, NULL, 'g' }, { "active", required_argument, NULL, 'a' },
        { "unordered", no_argument, NULL, 'u' }, { "without", required_argument, NULL, 'o' },
        { "direct", required_argument, NULL, 'r' }, { "post", required_argument, NULL, 'p' },
        { "profile", required_argument, NULL, 'f' },
        { "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    struct options o = { .members = 16, .bytes = 10240, .slots = 100, .messages = 20000,
                         .fill = 250, .delay = 100000, .groups = 1, .parts = LOCI_MC_ALL,
                         .profile = "ib100" };
    int option;

    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (option == 'h')
            return printf("%s", help) < 0;
        if (option == '?')
            return 2;
        if (!parse_one(option, &o)) {
            fprintf(stderr, "multicast_sim: not a value that this option takes: %s (--help)\n",
                    optarg);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "multicast_sim: no such argument: %s (--help)\n", argv[optind]);
        return 2;
    }
    return check(&o);
}
