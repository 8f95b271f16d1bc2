/* SPDX-License-Identifier: BSD-3-Clause */

/* What is said of a channel whose members do not come.
 *
 * The first endpoint that a wait lacks for SEEK_AFTER sends its join to the missing members as a
 * seek. A member that has the name takes it for a join. One that has not looks among its own
 * endpoints that lack the asking process for names that are nearly the same, answers with a
 * message of type similar for each, three at most, and ends with one that bears the name it was
 * asked for. When all have answered, or none has a word to say, one line of the log names the
 * channel, the ranks, and what these have instead:
 *
 *   has waited 1 s for rank 1 to make channel table; rank 1 has "tabel", which lacks this
 *   process
 *
 * It is said once for each endpoint, for all of a wait's together: the line counts the others.
 * An endpoint's time begins when it is the first that is lacked, and members from which other
 * messages come may be busy with those (SILENCE). So nothing is said while many channels become
 * ready one after the other, however long that takes.
 *
 * A search belongs to its entry, and is written under the table's lock. */

#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "names.h"

#define SEEK_AFTER INT64_C(900000000)       /* ns that an endpoint is lacked */
#define TELL_AFTER INT64_C(1000000000)
#define SILENCE INT64_C(1000000000)         /* ns without a word, after which no answer comes */
#define LATEST INT64_C(10000000000)         /* ns, though there is no silence */
#define SEEK_MANY 16                        /* members that are asked */
#define SIMILAR_MANY 3                      /* names in an answer */
#define CANDIDATES 1024                     /* endpoints that are looked at for it */
#define RANKS_MANY 8                        /* named in the line; the others are counted */
#define OTHERS_MANY 3

/* ---- texts that end where their room does ---- */

struct text {
    size_t len;
    char bytes[512];
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...)
{
    size_t room = sizeof t->bytes - t->len;
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(t->bytes + t->len, room, format, args);
    va_end(args);
    t->len += len < 0 ? 0 : (size_t)len < room ? (size_t)len : room - 1;
}

struct loci_search {
    uint64_t words;                     /* of the missing members together, and since when it is */
    int64_t silent_since;               /* so many */
    struct text found;
};

void loci_search_free(struct loci_entry *e)
{
    free(e->search);
    e->search = NULL;
}

/* ---- how similar names are ---- */

/* The part after the last slash. */
static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/');

    return slash != NULL ? slash + 1 : name;
}

static int least(int a, int b, int c)
{
    int ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* Letters left out, put in, changed, or in the wrong order with their neighbour (the distance of
 * Damerau and Levenshtein, by rows). */
int loci_names_distance(const char *a, const char *b, int limit)
{
    int rows[3][LOCI_NAME_MAX + 1], *two = rows[0], *one = rows[1], *now = rows[2];
    int la = (int)strlen(a), lb = (int)strlen(b);

    if (abs(la - lb) > limit)
        return limit + 1;
    for (int j = 0; j <= lb; j++)
        one[j] = j;
    for (int i = 1; i <= la; i++) {
        int *free_row = two, best = now[0] = i;

        for (int j = 1; j <= lb; j++) {
            now[j] = least(one[j] + 1, now[j - 1] + 1, one[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]
                && two[j - 2] + 1 < now[j])
                now[j] = two[j - 2] + 1;
            best = now[j] < best ? now[j] : best;
        }
        if (best > limit)
            return limit + 1;
        two = one;
        one = now;
        now = free_row;
    }
    return one[lb];
}

/* 0: not similar, else the larger the less. Capitals and a forgotten parent are one mistake. */
static int difference(const char *sought, const char *name)
{
    int limit = (int)strlen(sought) / 3, distance;

    limit = limit < 1 ? 1 : limit > 4 ? 4 : limit;
    if (strcasecmp(sought, name) == 0 || strcmp(last_part(sought), name) == 0
        || strcmp(sought, last_part(name)) == 0)
        return 1;
    distance = loci_names_distance(sought, name, limit);
    return distance <= limit ? distance : 0;
}

/* ---- at a member that is asked ---- */

struct candidate {
    int difference;
    uint64_t number;
    char name[LOCI_NAME_MAX];
};

/* Into the list of the best ones, which is in order. */
static void consider(struct candidate *best, const struct loci_entry *e, int difference)
{
    int at = SIMILAR_MANY;

    while (at > 0 && (best[at - 1].difference == 0 || difference < best[at - 1].difference))
        at--;
    if (at == SIMILAR_MANY)
        return;
    memmove(&best[at + 1], &best[at], (size_t)(SIMILAR_MANY - 1 - at) * sizeof best[0]);
    best[at].difference = difference;
    best[at].number = e->number;
    memcpy(best[at].name, e->ep.name, sizeof best[at].name);
}

/* Under the lock. Of those that lack the process that seeks. */
static void find_similar(const struct loci_names *names, int peer, const char *sought,
                         struct candidate *best)
{
    int left = CANDIDATES;

    for (const struct loci_entry *e = names->open.first; e != NULL && left > 0; e = e->after) {
        int rank = loci_group_rank_of(&e->ep.group, peer), distance;

        if (rank < 0 || e->member[rank].number != 0)
            continue;
        left--;
        distance = difference(sought, e->ep.name);
        if (distance > 0)
            consider(best, e, distance);
    }
}

static void answer(struct loco_runtime *rt, int peer, const struct loci_control *sought,
                   const char *name, uint64_t number)
{
    struct loci_control m;

    loci_control_gone(sought, &m);
    m.type = LOCI_CONTROL_SIMILAR;
    m.from = number;
    memset(m.name, 0, sizeof m.name);
    snprintf(m.name, sizeof m.name, "%s", name);
    loci_names_send(rt, peer, &m);
}

void loci_names_sought(struct loco_runtime *rt, int peer, const struct loci_control *m)
{
    struct candidate best[SIMILAR_MANY] = { { 0 } };
    struct loci_names *names = rt->names;

    pthread_mutex_lock(&names->lock);
    find_similar(names, peer, m->name, best);
    pthread_mutex_unlock(&names->lock);
    for (int i = 0; i < SIMILAR_MANY && best[i].difference > 0; i++)
        answer(rt, peer, m, best[i].name, best[i].number);
    answer(rt, peer, m, m->name, m->from);
}

/* ---- at who seeks ---- */

/* Under the lock; few answers come, some of them when the search is over. */
static struct loci_entry *find_open(const struct loci_names *names, uint64_t number)
{
    struct loci_entry *e = names->open.first;

    while (e != NULL && e->number != number)
        e = e->after;
    return e;
}

/* It has no endpoint of the name: not yet, or, where it was connected to others before this one was
 * made, not any more. */
static void end_answer(struct loci_entry *e, int rank)
{
    const struct loci_endpoint_spec *spec = &e->ep.spec;

    e->member[rank].sought = false;
    if (spec->late && spec->on_absent != NULL && !e->member[rank].late && !e->member[rank].knows)
        spec->on_absent(&e->ep, rank, spec->ctx);
}

void loci_names_found(struct loco_runtime *rt, int peer, const struct loci_control *m)
{
    struct loci_names *names = rt->names;
    struct loci_entry *e;
    int rank;

    pthread_mutex_lock(&names->lock);
    e = find_open(names, m->to);
    rank = e == NULL ? -1 : loci_group_rank_of(&e->ep.group, peer);
    if (rank >= 0 && strcmp(m->name, e->ep.name) == 0)
        end_answer(e, rank);
    else if (rank >= 0 && e->search != NULL)
        add(&e->search->found, "; rank %d has \"%s\", which lacks this process", rank, m->name);
    pthread_mutex_unlock(&names->lock);
}

/* Under the lock, which is not held all the time. */
static void seek(struct loci_names *names, struct loci_entry *e, int64_t now)
{
    struct loco_runtime *rt = e->ep.rt;
    int asked = 0;

    e->search = calloc(1, sizeof *e->search);
    if (e->search == NULL)
        return;                         /* tried again at the next look; or the line is late */
    e->search->silent_since = now;
    for (int rank = 0; rank < e->ep.group.size && asked < SEEK_MANY; rank++)
        if (rank != e->ep.group.rank && e->member[rank].number == 0
            && loci_peer_alive(rt, loci_group_peer(&e->ep.group, rank))) {
            e->member[rank].ask = e->member[rank].sought = true;
            asked++;
        }
    loci_entry_ask(names, e, LOCI_CONTROL_SEEK);
}

/* Whether no answer is under way any more. */
static bool is_over(const struct loci_entry *e, int64_t now)
{
    struct loci_search *search = e->search;
    uint64_t words = 0;
    int unanswered = 0;

    for (int rank = 0; rank < e->ep.group.size; rank++)
        if (e->member[rank].sought && e->member[rank].number == 0) {
            words += loci_peer(e->ep.rt, loci_group_peer(&e->ep.group, rank))->asking.words;
            unanswered++;
        }
    if (words != search->words) {
        search->words = words;
        search->silent_since = now;
    }
    return unanswered == 0 || now - search->silent_since >= SILENCE;
}

/* ---- the line ---- */

static void add_ranks(struct text *t, const struct loci_entry *e)
{
    int n = 0, missing = 0;

    for (int rank = 0; rank < e->ep.group.size; rank++)
        missing += !e->member[rank].knows;
    add(t, missing == 1 ? "rank" : "ranks");
    for (int rank = 0; rank < e->ep.group.size && n < RANKS_MANY; rank++)
        if (!e->member[rank].knows)
            add(t, "%s %d", n++ > 0 ? "," : "", rank);
    if (missing > n)
        add(t, " and %d more", missing - n);
}

/* One that another channel is made of has its name, a slash and more: the user has not made it. */
static bool is_part_of(const struct loci_entry *e, const struct loci_entry *whole)
{
    size_t len = strlen(whole->ep.name);

    return strncmp(e->ep.name, whole->ep.name, len) == 0 && e->ep.name[len] == '/';
}

/* All that the wait lacks, of which `first` is the first; none of them is told of again. */
static void add_others(struct text *t, struct loci_entry *first, loci_scope_fn *in_scope,
                       const void *wait)
{
    const struct loci_entry *whole = first;     /* the last that is no part of one before */
    struct text some = { 0 };
    int n = 0;

    for (struct loci_entry *e = first; e != NULL; e = e->after) {
        if (e->told || !in_scope(wait, e))
            continue;
        e->told = true;
        if (e == first || is_part_of(e, whole))
            continue;
        whole = e;
        if (n++ < OTHERS_MANY)
            add(&some, "%s%s", n > 1 ? ", " : "", e->ep.name);
    }
    if (n > 0)
        add(t, "; so %s %d more: %s%s", n > 1 ? "are" : "is", n, some.bytes,
            n > OTHERS_MANY ? "..." : "");
}

static void tell(struct loco_runtime *rt, struct loci_entry *e, loci_scope_fn *in_scope,
                 const void *wait)
{
    struct loci_names *names = rt->names;
    struct text ranks = { 0 }, rest = { 0 };
    char name[LOCI_NAME_MAX];

    memcpy(name, e->ep.name, sizeof name);
    add_ranks(&ranks, e);
    if (e->search != NULL)
        add(&rest, "%s", e->search->found.bytes);
    add_others(&rest, e, in_scope, wait);
    loci_search_free(e);
    pthread_mutex_unlock(&names->lock);         /* the hook may take its time */
    LOCI_LOG(rt, LOCO_LOG_WARN, "has waited 1 s for %s to make channel %s%s", ranks.bytes, name,
             rest.bytes);
    pthread_mutex_lock(&names->lock);
}

void loci_names_tell(struct loco_runtime *rt, loci_scope_fn *in_scope, const void *wait,
                     int64_t now)
{
    struct loci_names *names = rt->names;
    struct loci_entry *e = names->open.first;
    int64_t lacked;

    while (e != NULL && (e->told || !in_scope(wait, e)))
        e = e->after;
    if (e == NULL || e->opening || e->busy > 0)
        return;
    if (e->lacked_at == 0)
        e->lacked_at = now;
    lacked = now - e->lacked_at;
    if (lacked >= LATEST || (lacked >= TELL_AFTER && e->search != NULL && is_over(e, now)))
        tell(rt, e, in_scope, wait);
    else if (lacked >= SEEK_AFTER && e->search == NULL)
        seek(names, e, now);
}
