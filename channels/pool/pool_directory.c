/* SPDX-License-Identifier: BSD-3-Clause */

/* See pool_directory.h. */

#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "pool_directory.h"
#include "wait.h"

#define SELF 0

static uint64_t bit(int agent)
{
    return UINT64_C(1) << agent;
}

static bool is_up(const struct loci_directory *d, int agent)
{
    return (d->up & bit(agent)) != 0;
}

/* ---- news ---- */

static struct loci_news news_of(enum loci_news_type type)
{
    return (struct loci_news){ .magic = LOCI_NEWS_MAGIC, .version = LOCI_NEWS_VERSION,
                               .type = (uint32_t)type };
}

static struct loci_news news_of_store(enum loci_news_type type, const char *name, uint64_t host)
{
    struct loci_news news = news_of(type);

    memcpy(news.record.name, name, strnlen(name, LOCI_CATALOG_NAME - 1));
    news.record.host = host;
    return news;
}

static void tell_all(struct loci_directory *d, const struct loci_news *news)
{
    for (int i = 1; i < LOCI_AGENTS_MAX; i++)
        if (is_up(d, i))
            d->ops->send(d->ctx, i, news);
}

/* ---- the table of stores ---- */

static int place_of(const struct loci_directory *d, const char *name, uint64_t host)
{
    uint64_t first = loci_catalog_hash(name);

    for (uint64_t i = 0; i < LOCI_CATALOG_RECORDS; i++) {
        uint64_t at = (first + i) % LOCI_CATALOG_RECORDS;
        const struct loci_record *r = &d->store[at];

        if (!d->used[at])
            break;
        if (r->number != 0 && r->host == host && strcmp(r->name, name) == 0)
            return (int)at;
    }
    return -1;
}

static int free_place(const struct loci_directory *d, const char *name)
{
    uint64_t first = loci_catalog_hash(name);

    for (uint64_t i = 0; i < LOCI_CATALOG_RECORDS; i++) {
        uint64_t at = (first + i) % LOCI_CATALOG_RECORDS;

        if (d->store[at].number == 0)
            return (int)at;
    }
    return -1;
}

const struct loci_record *loci_directory_find(const struct loci_directory *d, const char *name)
{
    const struct loci_record *found = NULL;

    for (int i = 0; i < LOCI_CATALOG_RECORDS; i++) {
        const struct loci_record *r = &d->store[i];

        if (r->number != 0 && strcmp(r->name, name) == 0
            && (found == NULL || loci_catalog_is_before(r, found)))
            found = r;
    }
    return found;
}

static void publish_store(struct loci_directory *d, int at)
{
    struct loci_record *r = &d->store[at];
    unsigned char *place = d->table + loci_catalog_store_at((uint64_t)at);

    /* What will be its place and version here: the record tells the others. */
    if (r->host == d->agent[SELF].identity) {
        r->at = (uint64_t)at;
        r->version = loci_load64(place) + 1;
    }
    d->used[at] = true;
    loci_publish(place, r, sizeof *r);
}

static void drop_store(struct loci_directory *d, int at)
{
    d->store[at] = (struct loci_record){ .number = 0 };
    d->stale[at] = false;
    d->stores--;
    publish_store(d, at);
}

/* Two agents made it while they did not reach each other. */
static void tell_of_two(struct loci_directory *d, const struct loci_record *new)
{
    const struct loci_record *found = loci_directory_find(d, new->name);

    if (found != NULL && found->host != new->host && found->lost == 0)
        LOCI_LOG(d->rt, LOCO_LOG_WARN, "store %s is at the agents %016llx and %016llx, which made "
                 "it while they did not reach each other: programs find that of the lower number, "
                 "and the other one when that is removed", new->name,
                 (unsigned long long)found->host, (unsigned long long)new->host);
}

static int enter_store(struct loci_directory *d, const struct loci_record *r)
{
    int at = place_of(d, r->name, r->host);

    if (at < 0) {
        tell_of_two(d, r);
        at = free_place(d, r->name);
        if (at < 0) {
            LOCI_LOG(d->rt, LOCO_LOG_ERROR, "the pool's directory is full: store %s cannot be "
                     "found by programs of this machine", r->name);
            return LOCO_ERR_FULL;
        }
        d->stores++;
    }
    d->store[at] = *r;
    d->stale[at] = false;
    publish_store(d, at);
    return LOCO_OK;
}

/* Each store of that agent, as `what` says. */
enum what { LOSE, DOUBT, DROP, DROP_STALE };

static void for_stores_of(struct loci_directory *d, uint64_t host, enum what what)
{
    for (int at = 0; at < LOCI_CATALOG_RECORDS; at++) {
        struct loci_record *r = &d->store[at];

        if (r->number == 0 || r->host != host)
            continue;
        if (what == LOSE) {
            r->lost = 1;
            publish_store(d, at);
        } else if (what == DOUBT) {
            d->stale[at] = true;
        } else if (what == DROP || d->stale[at]) {
            drop_store(d, at);
        }
    }
}

/* ---- agents ---- */

static void publish_agent(struct loci_directory *d, int agent)
{
    loci_publish(d->table + loci_catalog_agent_at((uint64_t)agent), &d->agent[agent],
                 sizeof d->agent[agent]);
}

static void set_state(struct loci_directory *d, int agent, enum loci_agent_state state)
{
    d->agent[agent].state = state;
    d->agent[agent].since = (uint64_t)loci_now(d->rt);
    publish_agent(d, agent);
}

void loci_directory_open(struct loci_directory *d, struct loco_runtime *rt, unsigned char *table,
                         const struct loci_agent_record *self,
                         const struct loci_directory_ops *ops, void *ctx)
{
    memset(d, 0, sizeof *d);
    d->rt = rt;
    d->table = table;
    d->ops = ops;
    d->ctx = ctx;
    d->agent[SELF] = *self;
    set_state(d, SELF, LOCI_AGENT_UP);
}

void loci_directory_close(struct loci_directory *d)
{
    struct loci_claim *c;

    while ((c = d->claims) != NULL) {
        d->claims = c->next;
        free(c);
    }
}

static void end_agent(struct loci_directory *d, int agent)
{
    for_stores_of(d, d->agent[agent].identity, DROP);
    d->agent[agent] = d->heard[agent] = (struct loci_agent_record){ .identity = 0 };
    set_state(d, agent, LOCI_AGENT_NONE);
}

static int entry_of(const struct loci_directory *d, uint64_t node)
{
    for (int i = 0; i < LOCI_AGENTS_MAX; i++)
        if (d->agent[i].state != LOCI_AGENT_NONE && d->agent[i].node == node)
            return i;
    return -1;
}

static bool has_stores(const struct loci_directory *d, int agent)
{
    for (int i = 0; i < LOCI_CATALOG_RECORDS; i++)
        if (d->store[i].number != 0 && d->store[i].host == d->agent[agent].identity)
            return true;
    return false;
}

/* A vacant entry; who comes itself displaces one that is out of reach and has nothing. */
static int vacant_entry(struct loci_directory *d, bool displace)
{
    for (int i = 1; i < LOCI_AGENTS_MAX; i++)
        if (d->agent[i].state == LOCI_AGENT_NONE)
            return i;
    for (int i = 1; i < LOCI_AGENTS_MAX && displace; i++)
        if (!is_up(d, i) && !has_stores(d, i)) {
            end_agent(d, i);
            return i;
        }
    return LOCO_ERR_FULL;
}

static void enter_agent(struct loci_directory *d, int at, const struct loci_agent_record *agent,
                        enum loci_agent_state state)
{
    d->agent[at] = *agent;
    d->agent[at].machine[LOCI_MACHINE_NAME - 1] = '\0';
    d->heard[at] = d->agent[at];
    set_state(d, at, state);
}

int loci_directory_meet(struct loci_directory *d, const struct loci_agent_record *agent)
{
    int at = entry_of(d, agent->node);

    if (at == SELF)
        return LOCO_ERR_NAME;
    if (at >= 0 && is_up(d, at))
        return d->agent[at].identity == agent->identity ? at : LOCO_ERR_NAME;
    if (at >= 0 && d->agent[at].identity != agent->identity)
        end_agent(d, at);
    if (at < 0)
        at = vacant_entry(d, true);
    if (at >= 0)
        enter_agent(d, at, agent, LOCI_AGENT_LOST);
    return at;
}

/* What `agent` says may be old, or late: where that of its machine was met, or others have said
 * more, it says nothing new. */
static void hear_agent(struct loci_directory *d, const struct loci_agent_record *agent)
{
    int at = entry_of(d, agent->node);

    if (agent->identity == 0 || at == SELF || (at > 0 && is_up(d, at)))
        return;
    if (at < 0) {
        at = vacant_entry(d, false);
        if (at >= 0)
            enter_agent(d, at, agent, LOCI_AGENT_HEARD);
        return;
    }
    if (agent->born <= d->heard[at].born)
        return;
    if (d->agent[at].state == LOCI_AGENT_HEARD)
        enter_agent(d, at, agent, LOCI_AGENT_HEARD);
    else
        d->heard[at] = *agent;
}

void loci_directory_doubt(struct loci_directory *d, uint64_t since)
{
    for (int i = 1; i < LOCI_AGENTS_MAX; i++)
        if (d->agent[i].state == LOCI_AGENT_HEARD && d->agent[i].since <= since)
            end_agent(d, i);
}

void loci_directory_remind(struct loci_directory *d)
{
    struct loci_news news = news_of(LOCI_NEWS_AGENT);
    int next = d->reminded;

    do
        next = (next + 1) % LOCI_AGENTS_MAX;
    while (next != d->reminded && !is_up(d, next));
    d->reminded = next;
    if (!is_up(d, next))
        return;
    news.agent = d->agent[next];
    for (int i = 1; i < LOCI_AGENTS_MAX; i++)
        if (i != next && is_up(d, i))
            d->ops->send(d->ctx, i, &news);
}

static void tell_agents(struct loci_directory *d, int agent)
{
    struct loci_news news = news_of(LOCI_NEWS_AGENT);

    for (int i = 1; i < LOCI_AGENTS_MAX; i++) {
        if (i == agent || !is_up(d, i))
            continue;
        news.agent = d->agent[i];
        d->ops->send(d->ctx, agent, &news);
        news.agent = d->agent[agent];
        d->ops->send(d->ctx, i, &news);
    }
}

static void ask(struct loci_directory *d, struct loci_claim *c, int agent)
{
    struct loci_news news = news_of_store(LOCI_NEWS_CLAIM, c->name, 0);

    news.claim = c->number;
    c->awaited |= bit(agent);
    d->ops->send(d->ctx, agent, &news);
}

void loci_directory_up(struct loci_directory *d, int agent)
{
    struct loci_news news = news_of(LOCI_NEWS_RECORD), synced = news_of(LOCI_NEWS_SYNCED);

    d->up |= bit(agent);
    set_state(d, agent, LOCI_AGENT_UP);
    for_stores_of(d, d->agent[agent].identity, DOUBT);
    tell_agents(d, agent);
    for (int i = 0; i < LOCI_CATALOG_RECORDS; i++) {
        news.record = d->store[i];
        if (news.record.number != 0 && news.record.host == d->agent[SELF].identity)
            d->ops->send(d->ctx, agent, &news);
    }
    d->ops->send(d->ctx, agent, &synced);
    for (struct loci_claim *c = d->claims; c != NULL; c = c->next)
        if (!c->won)
            ask(d, c, agent);
}

/* ---- claims ---- */

static struct loci_claim **claim_at(struct loci_directory *d, uint64_t number)
{
    struct loci_claim **at = &d->claims;

    while (*at != NULL && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

static void end_claim(struct loci_directory *d, uint64_t number)
{
    struct loci_claim **at = claim_at(d, number), *c = *at;

    if (c == NULL)
        return;
    *at = c->next;
    free(c);
}

static struct loci_claim *claim_of(struct loci_directory *d, const char *name)
{
    struct loci_claim *c = d->claims;

    while (c != NULL && strcmp(c->name, name) != 0)
        c = c->next;
    return c;
}

static void lose_claim(struct loci_directory *d, uint64_t number, int status)
{
    end_claim(d, number);
    d->ops->claimed(d->ctx, number, status);
}

/* The claim may be over when this returns. */
static void answered(struct loci_directory *d, struct loci_claim *c, uint64_t agents)
{
    c->awaited &= ~agents;
    if (c->won || c->awaited != 0)
        return;
    c->won = true;
    d->ops->claimed(d->ctx, c->number, LOCO_OK);
}

/* LOCO_OK: there is no such store, as far as is known here. */
static int is_free(const struct loci_directory *d, const char *name)
{
    const struct loci_record *found = loci_directory_find(d, name);

    return found == NULL ? LOCO_OK : found->lost != 0 ? LOCO_ERR_PEER_DEAD : LOCO_ERR_EXISTS;
}

int loci_directory_claim(struct loci_directory *d, const char *name, uint64_t *number)
{
    int status = is_free(d, name);
    struct loci_claim *c;

    if (status != LOCO_OK)
        return status;
    if (claim_of(d, name) != NULL)
        return LOCO_ERR_AGAIN;
    c = calloc(1, sizeof *c);
    if (c == NULL)
        return LOCO_ERR_NO_MEMORY;
    c->number = *number = ++d->claims_so_far;
    memcpy(c->name, name, strnlen(name, LOCI_CATALOG_NAME - 1));
    c->next = d->claims;
    d->claims = c;
    for (int i = 1; i < LOCI_AGENTS_MAX; i++)
        if (is_up(d, i))
            ask(d, c, i);
    answered(d, c, 0);
    return LOCO_OK;
}

static void hear_claim(struct loci_directory *d, int agent, const struct loci_news *news)
{
    struct loci_news answer = news_of(LOCI_NEWS_GRANT);
    struct loci_claim *mine = claim_of(d, news->record.name);

    answer.claim = news->claim;
    answer.status = is_free(d, news->record.name);
    if (answer.status == LOCO_OK && mine != NULL
        && (mine->won || d->agent[SELF].identity < d->agent[agent].identity))
        answer.status = LOCO_ERR_AGAIN;
    if (answer.status != LOCO_OK)
        answer.type = LOCI_NEWS_REFUSE;
    else if (mine != NULL)
        lose_claim(d, mine->number, LOCO_ERR_AGAIN);
    d->ops->send(d->ctx, agent, &answer);
}

static void hear_grant(struct loci_directory *d, int agent, const struct loci_news *news)
{
    struct loci_claim *c = *claim_at(d, news->claim);

    if (c != NULL)
        answered(d, c, bit(agent));
}

static void hear_refusal(struct loci_directory *d, int agent, const struct loci_news *news)
{
    struct loci_claim *c = *claim_at(d, news->claim);

    if (c != NULL && !c->won && (c->awaited & bit(agent)) != 0)
        lose_claim(d, c->number, news->status == LOCO_ERR_EXISTS
                   || news->status == LOCO_ERR_PEER_DEAD ? news->status : LOCO_ERR_AGAIN);
}

void loci_directory_down(struct loci_directory *d, int agent)
{
    struct loci_claim *c = d->claims;

    d->up &= ~bit(agent);
    for_stores_of(d, d->agent[agent].identity, LOSE);
    set_state(d, agent, LOCI_AGENT_LOST);
    while (c != NULL) {
        struct loci_claim *next = c->next;

        answered(d, c, bit(agent));
        c = next;
    }
}

/* ---- stores ---- */

int loci_directory_made(struct loci_directory *d, uint64_t claim, struct loci_record *record)
{
    struct loci_news news = news_of(LOCI_NEWS_RECORD);
    int status;

    record->number = ++d->stores_so_far;
    record->host = d->agent[SELF].identity;
    status = enter_store(d, record);
    end_claim(d, claim);
    if (status != LOCO_OK)
        return status;
    *record = news.record = d->store[place_of(d, record->name, record->host)];
    tell_all(d, &news);
    return LOCO_OK;
}

void loci_directory_not_made(struct loci_directory *d, uint64_t claim)
{
    end_claim(d, claim);
}

int loci_directory_remove(struct loci_directory *d, const char *name)
{
    uint64_t self = d->agent[SELF].identity;
    struct loci_news news = news_of_store(LOCI_NEWS_GONE, name, self);
    int at = place_of(d, name, self);

    if (at < 0)
        return LOCO_ERR_NOT_FOUND;
    drop_store(d, at);
    tell_all(d, &news);
    return LOCO_OK;
}

int loci_directory_forget(struct loci_directory *d, const char *name)
{
    const struct loci_record *found = loci_directory_find(d, name);
    struct loci_news news;

    if (found == NULL)
        return LOCO_ERR_NOT_FOUND;
    if (found->lost == 0)
        return LOCO_ERR_STATE;
    news = news_of_store(LOCI_NEWS_FORGET, name, found->host);
    drop_store(d, place_of(d, name, found->host));
    tell_all(d, &news);
    return LOCO_OK;
}

void loci_directory_leave(struct loci_directory *d)
{
    const struct loci_news news = news_of(LOCI_NEWS_LEAVE);

    tell_all(d, &news);
}

/* ---- hearing ---- */

static int hear_record(struct loci_directory *d, int agent, const struct loci_news *news)
{
    struct loci_record record = news->record;

    if (record.host != d->agent[agent].identity || record.number == 0
        || record.at >= LOCI_CATALOG_RECORDS)
        return LOCO_ERR_PROTOCOL;
    record.lost = 0;
    (void)enter_store(d, &record);
    return LOCO_OK;
}

static void hear_gone(struct loci_directory *d, const char *name, uint64_t host)
{
    int at = place_of(d, name, host);

    if (at >= 0)
        drop_store(d, at);
}

static void hear_forget(struct loci_directory *d, const struct loci_news *news)
{
    int at = place_of(d, news->record.name, news->record.host);

    if (at >= 0 && d->store[at].lost != 0)
        drop_store(d, at);
}

static void hear_leave(struct loci_directory *d, int agent)
{
    loci_directory_down(d, agent);
    end_agent(d, agent);
}

int loci_directory_hear(struct loci_directory *d, int agent, const struct loci_news *news)
{
    if (memchr(news->record.name, '\0', LOCI_CATALOG_NAME) == NULL)
        return LOCO_ERR_PROTOCOL;
    switch ((enum loci_news_type)news->type) {
    case LOCI_NEWS_AGENT:
        hear_agent(d, &news->agent);
        return LOCO_OK;
    case LOCI_NEWS_RECORD: return hear_record(d, agent, news);
    case LOCI_NEWS_SYNCED: for_stores_of(d, d->agent[agent].identity, DROP_STALE); return LOCO_OK;
    case LOCI_NEWS_GONE:
        hear_gone(d, news->record.name, d->agent[agent].identity);
        return LOCO_OK;
    case LOCI_NEWS_FORGET: hear_forget(d, news); return LOCO_OK;
    case LOCI_NEWS_CLAIM: hear_claim(d, agent, news); return LOCO_OK;
    case LOCI_NEWS_GRANT: hear_grant(d, agent, news); return LOCO_OK;
    case LOCI_NEWS_REFUSE: hear_refusal(d, agent, news); return LOCO_OK;
    case LOCI_NEWS_LEAVE: hear_leave(d, agent); return LOCO_OK;
    case LOCI_NEWS_HELLO:
    case LOCI_NEWS_PING:
    case LOCI_NEWS_KEPT:
    case LOCI_NEWS_WAY:
    case LOCI_NEWS_SEAT:
    case LOCI_NEWS_SEATED:
    case LOCI_NEWS_LEFT:
    case LOCI_NEWS_REVOKE:
    case LOCI_NEWS_REVOKED:
        break;
    }
    return LOCO_ERR_PROTOCOL;
}
