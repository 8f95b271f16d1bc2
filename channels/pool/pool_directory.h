/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_POOL_DIRECTORY_H
#define LOCI_POOL_DIRECTORY_H

/* The directory of a pool as its agents keep it: each has all of it (catalog.h), and tells the
 * others what it changes.
 *
 * Who writes what. An agent alone decides about its own stores. It tells the others by messages
 * over links, which keep their order and lose nothing until they break; an agent tells all its
 * stores again when a link comes back. An agent whose link is broken is lost: its stores stay in
 * the directory as lost, for it may come back, until it does, or another agent is started on its
 * machine, or somebody has them forgotten.
 *
 * Agents. There is one entry for each machine, since a machine has one agent at a time. Only an
 * agent's own word (HELLO, at the beginning of its link) says which agent a machine has: if it is
 * another one than the entry's, that one has ended, and its stores are gone. What an agent says of
 * a third one (AGENT) may be old, so it is hearsay: it says where to dial, never that somebody has
 * ended or what stores there are. Of two that speak of different agents of one machine the later
 * born is right, for an agent is started after the one before it on its machine has ended; who
 * answers at that place then says itself who it is. Hearsay is said again and again, and an entry
 * that rests on hearsay alone is dropped after a while.
 *
 * Names. An agent that is to make a store asks all the others that it reaches. Each grants the name
 * unless it knows such a store, or wants the name itself and is further: who has all grants comes
 * before who has not, then the lower identity does; who is behind gives up when it grants. Two that
 * want the same name ask each other, and hear the other's question behind its grant, so one of them
 * learns of it before it has all grants. Nobody remembers what it has granted. Agents that do not
 * reach each other may make two stores of one name; programs then find that of the lower identity
 * (loci_catalog_is_before), and the log says so.
 *
 * This is what agents say and do. How it is carried is its user's: the simulator's scenario
 * "directory" does it in every way that can happen. One thread at a time. */

#include "catalog.h"
#include "fabric/port/lease.h"

#define LOCI_NEWS_MAGIC UINT32_C(0x6c6f636e)
#define LOCI_NEWS_VERSION 3u

enum loci_news_type {
    LOCI_NEWS_HELLO = 1,    /* the first on a link: who I am; the link's, not heard here */
    LOCI_NEWS_PING,         /* I live; likewise */
    LOCI_NEWS_AGENT,        /* one that I reach: hearsay */
    LOCI_NEWS_RECORD,       /* a store of mine, as it is now */
    LOCI_NEWS_SYNCED,       /* after a link has come up: these were all */
    LOCI_NEWS_GONE,         /* a store of mine is no more */
    LOCI_NEWS_FORGET,       /* one of a lost agent is to be forgotten */
    LOCI_NEWS_CLAIM,        /* may I make a store of that name? */
    LOCI_NEWS_GRANT, LOCI_NEWS_REFUSE,
    LOCI_NEWS_LEAVE,        /* I end, and all that I have */
    /* Of ports, which are not heard here: agent_ports.c. */
    LOCI_NEWS_KEPT,         /* one of my processes that has a place; the first on a link */
    LOCI_NEWS_WAY,          /* these were all; and how my memory is reached */
    LOCI_NEWS_SEAT,         /* a place, for a process of mine that goes by its ports */
    LOCI_NEWS_SEATED,       /* it has that place; or why not */
    LOCI_NEWS_LEFT,         /* it has gone, and nothing that it has posted comes any more */
    LOCI_NEWS_REVOKE,       /* a store of mine was removed, and no process of yours may reach it */
    LOCI_NEWS_REVOKED       /* none does any more */
};

struct loci_news {
    uint32_t magic, version;
    uint32_t type;                      /* enum loci_news_type */
    int32_t status;                     /* of REFUSE, SEATED: why; of LEFT: LOCO_OK, it said so */
    uint64_t claim;                     /* number of the asker's; of REVOKE, REVOKED: the version
                                         * that the store was lent under */
    int32_t place, places;              /* of SEATED */
    uint64_t leaving;                   /* of SEATED: places that are vacant soon */
    struct loci_address address;        /* of WAY and SEAT, its secret masked */
    struct loci_memkey table;           /* of WAY, as the next */
    struct loci_lease_board board;
    struct loci_agent_record agent;     /* of HELLO and AGENT */
    struct loci_record record;          /* of RECORD; its name and host, of GONE, FORGET, CLAIM */
};

struct loci_directory_ops {
    /* To the agent in that place of the list, whose link is up. */
    void (*send)(void *ctx, int agent, const struct loci_news *news);
    /* A claim is decided: LOCO_OK, loci_directory_made() or _not_made() is to follow; or it is
     * over: LOCO_ERR_EXISTS (there is such a store), LOCO_ERR_AGAIN (another one makes it now),
     * LOCO_ERR_PEER_DEAD (a lost agent has it). In a call of this file. */
    void (*claimed)(void *ctx, uint64_t claim, int status);
};

struct loci_claim {
    struct loci_claim *next;
    uint64_t number;
    uint64_t awaited;                   /* by place in the list: who has not answered */
    bool won;
    char name[LOCI_CATALOG_NAME];
};

struct loci_directory {
    struct loco_runtime *rt;
    const struct loci_directory_ops *ops;
    void *ctx;
    unsigned char *table;               /* LOCI_CATALOG_BYTES, zeroed; the next two are published */
    struct loci_agent_record agent[LOCI_AGENTS_MAX];    /* 0: this one */
    struct loci_agent_record heard[LOCI_AGENTS_MAX];    /* the latest of that machine: dial there */
    struct loci_record store[LOCI_CATALOG_RECORDS];
    bool used[LOCI_CATALOG_RECORDS];    /* the place was ever */
    bool stale[LOCI_CATALOG_RECORDS];   /* not told again since its agent's link is up */
    uint64_t up;                        /* by place in the list: whose link is */
    struct loci_claim *claims;
    uint64_t claims_so_far, stores_so_far;
    uint64_t stores;                    /* that are there */
    int reminded;                       /* of which agent the others were told last */
};
_Static_assert(LOCI_AGENTS_MAX <= 64, "a bit each");

/* Its agent's own record is published at once. */
void loci_directory_open(struct loci_directory *d, struct loco_runtime *rt, unsigned char *table,
                         const struct loci_agent_record *self,
                         const struct loci_directory_ops *ops, void *ctx);
/* Who waits for a claim is told nothing more. */
void loci_directory_close(struct loci_directory *d);

/* ---- agents ---- */

/* An agent says itself that it is there: its place in the list. One of that machine that is not up
 * has ended, and what it had is gone. LOCO_ERR_FULL; LOCO_ERR_NAME: another one of that machine is
 * up. */
int loci_directory_meet(struct loci_directory *d, const struct loci_agent_record *agent);
/* Tell every agent of one of the others: of the next one each time. */
void loci_directory_remind(struct loci_directory *d);
/* Drop the entries that have rested on hearsay alone since before that time. */
void loci_directory_doubt(struct loci_directory *d, uint64_t since);
/* Its link works: all is told. And no more. */
void loci_directory_up(struct loci_directory *d, int agent);
void loci_directory_down(struct loci_directory *d, int agent);
/* LOCO_ERR_PROTOCOL: it makes no sense; the link is to be broken. */
int loci_directory_hear(struct loci_directory *d, int agent, const struct loci_news *news);
/* This agent ends. */
void loci_directory_leave(struct loci_directory *d);

/* ---- stores ---- */

/* A store of that name is to be made here. Its number; or LOCO_ERR_NO_MEMORY, or as `claimed` has
 * it, which is not called then. */
int loci_directory_claim(struct loci_directory *d, const char *name, uint64_t *number);
/* It was: the record gets its number, place and version. Or not. */
int loci_directory_made(struct loci_directory *d, uint64_t claim, struct loci_record *record);
void loci_directory_not_made(struct loci_directory *d, uint64_t claim);
/* The store of this agent: nobody finds it any more. LOCO_ERR_NOT_FOUND. */
int loci_directory_remove(struct loci_directory *d, const char *name);
/* A store of an agent that is lost. LOCO_ERR_NOT_FOUND; LOCO_ERR_STATE: its agent is not lost. */
int loci_directory_forget(struct loci_directory *d, const char *name);
/* The store that programs find by that name, or NULL. */
const struct loci_record *loci_directory_find(const struct loci_directory *d, const char *name);

#endif
