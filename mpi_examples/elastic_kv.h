/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of elastic_kv: elastic_kv.c has the command line and the MPI jobs, elastic_table.c the
 * table in the pool, elastic_serve.c the workers that come and go.
 */
#ifndef MPI_EXAMPLES_ELASTIC_KV_H
#define MPI_EXAMPLES_ELASTIC_KV_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <loco/loco.h>

#define ELASTIC_STORE "elastic_kv"
#define ELASTIC_PHASES 64
#define ELASTIC_WORKERS 512

enum elastic_what { ELASTIC_NOTHING, ELASTIC_LOAD, ELASTIC_QUERY, ELASTIC_SERVE };

struct elastic_options {
    enum elastic_what what;
    const char *pool;
    uint64_t keys;
    size_t value_bytes;
    int phases, workers[ELASTIC_PHASES];
    double phase, updates;              /* seconds; percent */
    bool remove, kill, json;
};

struct elastic_table {
    loco_pool_t *pool;
    loco_store_t *store;
    loco_tx_t *tx;
    loco_tree_t *tree;
};

/* Statuses of libloco. The table is made if it is not there. */
int elastic_open(loco_runtime_t *rt, const struct elastic_options *o, struct elastic_table *t);
void elastic_close(struct elastic_table *t);
/* Give key `i` its value; `version` tells apart those of one key. */
int elastic_put(struct elastic_table *t, const struct elastic_options *o, uint64_t i,
                uint64_t version);
/* Whether key `i` has one of its values, whole: LOCO_ERR_NOT_FOUND, LOCO_ERR_DIFFERS. */
int elastic_check(struct elastic_table *t, const struct elastic_options *o, uint64_t i);

/* Whether the command line asks for --serve. */
bool elastic_is_serving(int argc, char **argv);
int elastic_serve_main(int argc, char **argv, const struct option *names, const char *help,
                       bool (*parse)(int option, void *options), struct elastic_options *o);

#endif
