/* SPDX-License-Identifier: BSD-3-Clause */
/* The text form of a program, read. */
#include "program.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    struct program *p;
    const char *at;         /* in the line */
    int line;
    bool failed;
    char *why;
    size_t room;
};

static void wrong(struct parser *ps, const char *format, ...)
{
    va_list args;
    int n;

    if (ps->failed)
        return;
    ps->failed = true;
    n = snprintf(ps->why, ps->room, "line %d: ", ps->line);
    va_start(args, format);
    vsnprintf(ps->why + n, ps->room - (size_t)n, format, args);
    va_end(args);
}

static void skip_blank(struct parser *ps)
{
    while (*ps->at == ' ' || *ps->at == '\t')
        ps->at++;
}

static bool at_end(struct parser *ps)
{
    skip_blank(ps);
    return *ps->at == '\0' || *ps->at == '\n' || *ps->at == '#';
}

static bool take(struct parser *ps, const char *text)
{
    size_t n = strlen(text);

    skip_blank(ps);
    if (strncmp(ps->at, text, n) != 0)
        return false;
    ps->at += n;
    return true;
}

/* A whole word of letters, digits and underscores. */
static bool take_word(struct parser *ps, const char *word)
{
    const char *before = ps->at;

    if (take(ps, word) && !isalnum((unsigned char)*ps->at) && *ps->at != '_')
        return true;
    ps->at = before;
    return false;
}

static bool number_next(struct parser *ps)
{
    skip_blank(ps);
    return isdigit((unsigned char)*ps->at) ||
           (*ps->at == '-' && isdigit((unsigned char)ps->at[1]));
}

static long number(struct parser *ps, long low, long high)
{
    char *end;
    long v;

    if (!number_next(ps)) {
        wrong(ps, "a number is missing at \"%.20s\"", ps->at);
        return low;
    }
    v = strtol(ps->at, &end, 10);
    ps->at = end;
    if (v < low || v > high) {
        wrong(ps, "%ld is not in %ld..%ld", v, low, high);
        return low;
    }
    return v;
}

static uint64_t big_number(struct parser *ps)
{
    char *end;
    uint64_t v;

    if (!number_next(ps))
        wrong(ps, "a number is missing at \"%.20s\"", ps->at);
    v = strtoull(ps->at, &end, 10);
    ps->at = end;
    return v;
}

static int element_name(struct parser *ps)
{
    const char *start;
    size_t n = 0;

    skip_blank(ps);
    start = ps->at;
    while (isalnum((unsigned char)start[n]) || start[n] == '_')
        n++;
    for (int i = 0; i < el_type_count; i++)
        if (strlen(el_types[i].name) == n + 4 && strncmp(el_types[i].name + 4, start, n) == 0) {
            ps->at += n;
            return i;
        }
    wrong(ps, "no datatype \"%.*s\"", (int)n, start);
    return 0;
}

/* ---- datatypes ---- */

static bool args_fit(const struct type *t)
{
    static const int wanted[SHAPES] = {[CONTIGUOUS] = 1, [VECTOR] = 3, [HVECTOR] = 3,
                                       [RESIZED] = 2, [DUP] = 0};

    switch (t->shape) {
    case INDEXED:
    case HINDEXED:
        return t->args % 2 == 0 && t->subs == 1;
    case STRUCT:
        return t->args == 2 * t->subs;
    case INDEXED_BLOCK:
    case HINDEXED_BLOCK:
        return t->args >= 1 && t->subs == 1;
    case SUBARRAY:
        return t->args >= 5 && t->arg[1] >= 1 && t->arg[1] <= 4 &&
               t->args == 2 + 3 * t->arg[1] && t->subs == 1;
    default:
        return t->args == wanted[t->shape] && t->subs == 1;
    }
}

static const struct type *parse_type(struct parser *ps, int depth);

static void parse_inside(struct parser *ps, struct type *t, int depth)
{
    long arg[512];
    const struct type *sub[128];

    while (number_next(ps) && t->args < 512) {
        arg[t->args++] = number(ps, -(1L << 40), 1L << 40);
        if (!take(ps, ","))
            break;
    }
    while (!ps->failed && take(ps, ";") && t->subs < 128)
        sub[t->subs++] = parse_type(ps, depth + 1);
    if (!take(ps, ")"))
        wrong(ps, "\")\" is missing at \"%.20s\"", ps->at);
    t->arg = arena_get(&ps->p->arena, (size_t)t->args * sizeof *arg + 1);
    memcpy(t->arg, arg, (size_t)t->args * sizeof *arg);
    t->sub = arena_get(&ps->p->arena, (size_t)t->subs * sizeof *sub + 1);
    memcpy(t->sub, sub, (size_t)t->subs * sizeof *sub);
}

static const struct type *parse_type(struct parser *ps, int depth)
{
    struct type *t = arena_get(&ps->p->arena, sizeof *t);

    if (depth > 16) {
        wrong(ps, "a datatype of more than 16 levels");
        return t;
    }
    for (int i = CONTIGUOUS; i < SHAPES; i++) {
        const char *before = ps->at;
        if (take_word(ps, shape_name((enum shape)i)) && take(ps, "(")) {
            t->shape = (enum shape)i;
            parse_inside(ps, t, depth);
            if (!ps->failed && !args_fit(t))
                wrong(ps, "wrong number of arguments of %s", shape_name(t->shape));
            return t;
        }
        ps->at = before;
    }
    t->el = element_name(ps);
    return t;
}

static struct buffer parse_buffer(struct parser *ps)
{
    struct buffer b = {0, NULL};

    b.count = (int)number(ps, 0, 1 << 24);
    if (!take(ps, "*"))
        wrong(ps, "\"*\" is missing at \"%.20s\"", ps->at);
    b.type = parse_type(ps, 0);
    return b;
}

/* ---- the head ---- */

static int comm_name(struct parser *ps)
{
    if (!take(ps, "c"))
        wrong(ps, "a communicator is missing at \"%.20s\"", ps->at);
    return (int)number(ps, 0, ps->p->comms > 0 ? ps->p->comms - 1 : 0);
}

static void parse_comm(struct parser *ps)
{
    struct program *p = ps->p;
    struct comm_spec *c = &p->comm[p->comms];

    if (p->comms == SOAK_COMMS || !take(ps, "c") ||
        number(ps, p->comms, p->comms) != p->comms) {
        wrong(ps, "communicators are c0 to c%d, in order", SOAK_COMMS - 1);
        return;
    }
    while (number_next(ps) && c->n < SOAK_RANKS && !ps->failed) {
        int rank = (int)number(ps, 0, p->ranks - 1);
        if (member_of(c, rank) >= 0)
            wrong(ps, "rank %d is there twice", rank);
        c->rank[c->n++] = rank;
    }
    if (c->n == 0)
        wrong(ps, "a communicator without ranks");
    p->comms++;
}

static void parse_info(struct parser *ps, struct window_spec *w)
{
    size_t key = strcspn(ps->at, "= \n"), value;
    char *text;

    if (ps->at[key] != '=' || w->infos == SOAK_INFOS) {
        wrong(ps, "info:KEY=VALUE, at most %d", SOAK_INFOS);
        return;
    }
    value = strcspn(ps->at + key + 1, " \n");
    text = arena_get(&ps->p->arena, key + value + 2);
    memcpy(text, ps->at, key);
    memcpy(text + key + 1, ps->at + key + 1, value);
    w->key[w->infos] = text;
    w->value[w->infos++] = text + key + 1;
    ps->at += key + 1 + value;
}

static void parse_parts(struct parser *ps, struct window_spec *w)
{
    const struct comm_spec *c = &ps->p->comm[w->comm];

    for (; number_next(ps) && w->parts < SOAK_PARTS && !ps->failed; w->parts++) {
        struct part_spec *part = &w->part[w->parts];
        part->unit = 1;
        if (w->flavor == DYNAMIC) {
            part->owner = (int)number(ps, 0, ps->p->ranks - 1);
            if (member_of(c, part->owner) < 0 || !take(ps, ":"))
                wrong(ps, "regions of a dynamic window are OWNER:BYTES");
            part->bytes = number(ps, 1, 1 << 24);
        } else {
            part->owner = w->parts < c->n ? c->rank[w->parts] : 0;
            part->bytes = number(ps, 0, 1 << 24);
            if (take(ps, "/"))
                part->unit = (int)number(ps, 1, 1 << 16);
        }
    }
    if (w->flavor != DYNAMIC && w->parts != c->n)
        wrong(ps, "a window needs BYTES/UNIT of each member");
}

static void parse_window(struct parser *ps)
{
    static const char *const flavor[FLAVORS] = {"allocate", "create", "dynamic", "shared"};
    struct program *p = ps->p;
    struct window_spec *w = &p->window[p->windows];
    int f = 0;

    if (p->windows == SOAK_WINDOWS || !take(ps, "w") ||
        number(ps, p->windows, p->windows) != p->windows) {
        wrong(ps, "windows are w0 to w%d, in order", SOAK_WINDOWS - 1);
        return;
    }
    while (f < FLAVORS && !take_word(ps, flavor[f]))
        f++;
    if (f == FLAVORS)
        wrong(ps, "no flavor \"%.20s\"", ps->at);
    w->flavor = (enum flavor)f;
    w->comm = comm_name(ps);
    w->fill = -1;
    parse_parts(ps, w);
    while (!at_end(ps) && !ps->failed)
        if (take(ps, "fill="))
            w->fill = element_name(ps);
        else if (take(ps, "seed="))
            w->seed = big_number(ps);
        else if (take(ps, "info:"))
            parse_info(ps, w);
        else
            wrong(ps, "what is \"%.20s\"?", ps->at);
    p->windows++;
}

/* ---- statements ---- */

static int window_name(struct parser *ps)
{
    if (!take(ps, "w"))
        wrong(ps, "a window is missing at \"%.20s\"", ps->at);
    return (int)number(ps, 0, ps->p->windows > 0 ? ps->p->windows - 1 : 0);
}

static void parse_where(struct parser *ps, struct statement *s)
{
    const struct window_spec *w = &ps->p->window[s->win];

    if (take_word(ps, "null")) {
        s->target = -1;
        s->part = -1;
        return;
    }
    s->target = (int)number(ps, 0, ps->p->ranks - 1);
    if (!take(ps, "@")) {
        wrong(ps, "@OFFSET is missing");
        return;
    }
    s->at = number(ps, 0, 1 << 24);
    s->part = part_of(w, s->target);
    if (w->flavor == DYNAMIC && take(ps, ":")) {
        s->part = (int)s->at;
        s->at = number(ps, 0, 1 << 24);
    }
    if (s->part < 0 || s->part >= w->parts || w->part[s->part].owner != s->target)
        wrong(ps, "rank %d has no such memory in w%d", s->target, s->win);
}

static bool parse_option(struct parser *ps, struct statement *s)
{
    if (take(ps, "o="))
        s->origin = parse_buffer(ps);
    else if (take(ps, "r="))
        s->result = parse_buffer(ps);
    else if (take(ps, "t="))
        s->remote = parse_buffer(ps);
    else if (take(ps, "seed="))
        s->seed = big_number(ps);
    else if (take(ps, "compare="))
        s->compare = big_number(ps);
    else if (take(ps, "q"))
        s->request = (int)number(ps, 0, 1 << 20);
    else
        return false;
    return true;
}

static bool parse_op(struct parser *ps, struct statement *s)
{
    for (int i = 0; i < EL_OPS; i++)
        if (take_word(ps, el_op_name((enum el_op)i) + 4)) {
            s->op = i;
            return true;
        }
    return false;
}

static void parse_data(struct parser *ps, struct statement *s)
{
    bool asks, remote = s->verb != V_LOAD && s->verb != V_STORE;

    s->win = window_name(ps);
    parse_where(ps, s);
    s->op = EL_REPLACE;
    while (!at_end(ps) && !ps->failed)
        if (!parse_option(ps, s) && !parse_op(ps, s))
            wrong(ps, "what is \"%.20s\"?", ps->at);
    asks = s->verb == V_RPUT || s->verb == V_RGET || s->verb == V_RACC || s->verb == V_RGACC;
    if (asks != (s->request >= 0))
        wrong(ps, "%s %s a request", verb_name(s->verb), asks ? "needs" : "has not");
    if (verb_brings(s->verb) && s->origin.type == NULL)
        wrong(ps, "o=COUNT*TYPE is missing");
    if (verb_fetches(s->verb) && s->result.type == NULL)
        wrong(ps, "r=COUNT*TYPE is missing");
    if (remote && s->remote.type == NULL)
        wrong(ps, "t=COUNT*TYPE is missing");
}

static void parse_tail(struct parser *ps, struct statement *s)
{
    while (!at_end(ps) && !ps->failed) {
        int i = 0;
        if (number_next(ps) && s->n < SOAK_LIST) {
            s->list[s->n++] = (int)number(ps, 0, ps->p->ranks - 1);
            continue;
        }
        if (take(ps, "q") && s->n < SOAK_LIST) {
            s->list[s->n++] = (int)number(ps, 0, 1 << 20);
            continue;
        }
        while (i < ASSERT_NAMES && !take_word(ps, assert_names[i].name))
            i++;
        if (i < ASSERT_NAMES)
            s->asserts |= assert_names[i].flag;
        else
            wrong(ps, "what is \"%.20s\"?", ps->at);
    }
}

static void parse_sync(struct parser *ps, struct statement *s)
{
    switch (s->verb) {
    case V_BARRIER:
        s->comm = comm_name(ps);
        break;
    case V_SIGNAL:
        s->target = (int)number(ps, 0, ps->p->ranks - 1);
        break;
    case V_JOIN: case V_WAITALL: case V_WAITANY: case V_WAITONE: case V_TESTALL:
        break;
    case V_LOCK: case V_UNLOCK: case V_FLUSH: case V_FLUSH_LOCAL:
        s->win = window_name(ps);
        s->target = (int)number(ps, 0, ps->p->ranks - 1);
        break;
    case V_ATTACH: case V_DETACH:
        s->win = window_name(ps);
        s->part = (int)number(ps, 0, SOAK_PARTS - 1);
        break;
    default:
        s->win = window_name(ps);
        break;
    }
    if (s->verb == V_LOCK) {
        s->exclusive = take_word(ps, "exclusive");
        if (!s->exclusive && !take_word(ps, "shared"))
            wrong(ps, "exclusive or shared?");
    }
    parse_tail(ps, s);
}

static void parse_statement(struct parser *ps)
{
    struct statement s = {.rank = -1, .request = -1, .line = ps->line};
    int v = 0;

    while (v < VERBS && !take_word(ps, verb_name((enum verb)v)))
        v++;
    if (v == VERBS) {
        wrong(ps, "no statement \"%.20s\"", ps->at);
        return;
    }
    s.verb = (enum verb)v;
    if (!verb_is_collective(s.verb)) {
        s.rank = (int)number(ps, 0, ps->p->ranks - 1);
        if (*ps->at == '.') {
            ps->at++;
            s.thread = (int)number(ps, 0, ps->p->threads - 1);
        }
    }
    if (verb_is_data(s.verb))
        parse_data(ps, &s);
    else
        parse_sync(ps, &s);
    if (!ps->failed)
        program_add(ps->p, &s);
}

static bool parse_line(struct parser *ps)
{
    if (at_end(ps))
        return true;
    if (take_word(ps, "end"))
        return false;
    if (take_word(ps, "program"))
        ps->p->seed = big_number(ps);
    else if (take_word(ps, "ranks"))
        ps->p->ranks = (int)number(ps, 1, SOAK_RANKS);
    else if (take_word(ps, "threads"))
        ps->p->threads = (int)number(ps, 1, SOAK_THREADS);
    else if (take_word(ps, "comm"))
        parse_comm(ps);
    else if (take_word(ps, "window"))
        parse_window(ps);
    else
        parse_statement(ps);
    if (!ps->failed && !at_end(ps))
        wrong(ps, "what is \"%.20s\"?", ps->at);
    return true;
}

bool program_parse(struct program *p, const char *text, char *why, size_t room)
{
    struct parser ps = {.p = p, .at = text, .line = 1, .why = why, .room = room};

    program_init(p);
    p->ranks = 1;
    p->threads = 1;
    while (!ps.failed && parse_line(&ps)) {
        ps.at += strcspn(ps.at, "\n");
        if (*ps.at == '\0')
            break;
        ps.at++;
        ps.line++;
    }
    return !ps.failed;
}
