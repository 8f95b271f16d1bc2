/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SCENARIO_STORE_H
#define SIM_SCENARIO_STORE_H

#include "scenario_util.h"

#include <loco/store.h>
#include <loco/tx.h>

#include "tx_history.h"

/* Between scenario_store.c, which says what transactions do, scenario_store_tx.c, which calls the
 * store and keeps the history, and scenario_store_end.c, which looks at what there is at the end.
 *
 * There are some accounts, in a slot each: the value of a root is the account; or it names an
 * object that is, and that is replaced by another one at times. The accounts hold START each from
 * the beginning, and together as much for ever. */

#define STORE_PROCESSES_MAX 16
#define STORE_THREADS_MAX 8
#define STORE_SLOTS_MAX 6
#define STORE_VALUE_MAX 300
#define STORE_START 100
#define STORE_BLOCK_MAX 384u    /* that and its header, rounded up */
#define STORE_PAGE 4096u        /* what a client takes of a host's memory at a time */

/* What a part of a transaction comes to, beside SIM_FINE and so on. */
enum {
    STORE_AGAIN = SIM_TOLD + 1, /* conflict: it is over */
    STORE_FULL                  /* where that is asked for */
};

struct store_state {
    struct sim_state common;
    bool drawn;
    bool ready[STORE_PROCESSES_MAX];    /* a process: it takes part */
    int first;                  /* rank whose first thread makes the accounts; others do so when */
    bool gave_up;               /* it cannot */
    bool set_up;                /* somebody has seen the accounts */
    int slots;
    bool indirect[STORE_SLOTS_MAX];
    size_t len;                 /* of all values; 0: drawn for each */
    bool tight;                 /* little memory, which is filled at the end */
    bool hosted;                /* scenario_hosted.c: process 0 keeps all, and takes it along */
    int agent;                  /* by which all others reach the host; 0: there is none */
    int host[2];                /* ranks */
    loco_store_options_t options;
    struct sim_tx_history history;
};

struct store_user {
    struct sim_run *run;
    struct store_state *s;
    loco_runtime_t *rt;
    loco_store_t *store;
    int rank;
};

enum store_kind {
    STORE_ACCOUNT,              /* of a root: 8 bytes and more */
    STORE_NAMED,                /* an account that is an object of its own */
    STORE_NAME                  /* of a root: what names that one */
};

struct store_value {
    uint64_t number;            /* of no other value in the run: its version */
    uint64_t balance;
    loco_object_t object;       /* of a STORE_NAME: what it names */
    uint64_t id;                /* of that one, in the history: its first number */
};

/* A slot, as a transaction has read it. */
struct store_view {
    bool has_root, has_account;
    struct store_value root, account;
};

/* A thread with a handle. */
struct store_client {
    struct store_user *u;
    loco_tx_t *tx;
    int name;                   /* in the history */
    uint64_t made;              /* numbers so far */
    int kind;                   /* what the transaction does: scenario_store.c */
    bool relaxed;
    bool open;                  /* in the history */
    size_t at;                  /* there */
    struct store_view view[STORE_SLOTS_MAX];
};

/* Calls, and what they came to. PEER_DEAD is right only where a host has died. */
bool store_host_died(const struct store_user *u);
int store_some_host(const struct store_user *u);
int store_told(const struct store_client *c, int status, const char *call);
int store_open(struct store_user *u, int thread, struct store_client *c);
int store_reopen(struct store_client *c);
int store_begin(struct store_client *c, bool relaxed);
int store_commit(struct store_client *c);
int store_validate(struct store_client *c);
void store_abort(struct store_client *c);
/* In the history alone: for loco_tx_run. */
void store_begins(struct store_client *c, bool relaxed);
int store_ended(struct store_client *c, int status);

/* A new number, and what has it; a value of a kind as bytes, and from them. */
struct store_value store_make(struct store_client *c, uint64_t balance);
size_t store_encode(const struct store_client *c, enum store_kind kind,
                    const struct store_value *v, unsigned char *out);
int store_decode(const struct store_client *c, enum store_kind kind, const unsigned char *bytes,
                 size_t have, size_t len, struct store_value *v);

/* What a run is like: drawn once. The accounts, by one thread of all. Some transaction or other. */
void store_choose(struct store_state *s, const struct sim_run *run);
int store_make_accounts(struct store_client *c);
int store_one_round(struct store_client *c);

/* Parts of a transaction. */
loco_object_t store_root(const struct store_client *c, int slot);
int store_set_up(struct store_client *c);
int store_read(struct store_client *c, int slot);
int store_read_many(struct store_client *c);
int store_write(struct store_client *c, int slot, uint64_t balance);
int store_replace(struct store_client *c, int slot);

/* What the last of those that live finds: by one of them. */
int store_end(struct store_user *u);

#endif
