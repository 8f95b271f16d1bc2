/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys, rows and random numbers of TPC-C. */
#include "tpcc.h"

#include <inttypes.h>

/* ---- keys ---- */

static void add_number(struct tpcc_key *key, uint32_t number)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        key->bytes[key->length++] = (unsigned char)(number >> shift);
}

struct tpcc_key tpcc_key(int n, const uint32_t *numbers)
{
    struct tpcc_key key = { .length = 0 };

    for (int i = 0; i < n; i++)
        add_number(&key, numbers[i]);
    return key;
}

uint32_t tpcc_number(loco_bytes_t key, int place)
{
    const unsigned char *at = (const unsigned char *)key.data + 4 * place;

    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

struct tpcc_key tpcc_name_key(uint32_t w, uint32_t d, const char last[16])
{
    struct tpcc_key key = TPCC_KEY(w, d);

    memcpy(key.bytes + key.length, last, 16);
    key.length += 16;
    return key;
}

/* ---- rows ---- */

void tpcc_check(const struct tpcc *t, int status, const char *what)
{
    if (status == LOCO_ERR_FULL)
        ex_abort("%s: the tables do not fit into %" PRIu64 " MiB of each rank: give them more "
                 "(--memory MIB), or use more ranks", what, t->memory >> 20);
    if (status != LOCO_OK)
        ex_abort("%s: %s", what, loco_strerror(status));
}

int tpcc_get(struct tpcc_client *c, enum tpcc_table table, const struct tpcc_key *key, void *row,
             size_t bytes)
{
    size_t len;
    int status = loco_tree_get(c->table[table], loco_bytes(key->bytes, key->length), row, bytes,
                               &len);

    return status == LOCO_OK && len != bytes ? LOCO_ERR_SIZE : status;
}

int tpcc_put(struct tpcc_client *c, enum tpcc_table table, const struct tpcc_key *key,
             const void *row, size_t bytes)
{
    return loco_tree_put(c->table[table], loco_bytes(key->bytes, key->length),
                         loco_bytes(row, bytes));
}

void tpcc_open_client(struct tpcc_client *c, const struct tpcc *in, uint32_t number)
{
    *c = (struct tpcc_client){ .in = in, .number = number };
    c->home = 1 + (number + (uint32_t)in->o->warehouses - 1) % (uint32_t)in->o->warehouses;
    c->random = tx_mix((uint64_t)in->o->seed * 1000003 + number) | 1;
    tpcc_check(in, loco_tx_open(in->store, &c->tx), "loco_tx_open");
    for (int i = 0; i < TABLES; i++)
        tpcc_check(in, loco_tree_open(c->tx, loco_store_root(in->store, (uint64_t)i), NULL,
                                      &c->table[i]), "loco_tree_open");
}

void tpcc_close_client(struct tpcc_client *c)
{
    for (int i = 0; i < TABLES; i++)
        loco_tree_close(c->table[i]);
    loco_tx_close(c->tx);
}

/* ---- random numbers ---- */

uint32_t tpcc_between(struct tpcc_client *c, uint32_t least, uint32_t most)
{
    return least + (uint32_t)tx_below(&c->random, (uint64_t)most - least + 1);
}

/* Clause 2.1.6.1: for last names, the constants of loading and running are 65 to 119 apart, and
 * neither 96 nor 112. */
uint32_t tpcc_uneven(struct tpcc_client *c, uint32_t a, uint32_t least, uint32_t most)
{
    uint32_t constant = a != 255 ? a / 3 : c->number == 0 ? 157 : 223;
    uint32_t drawn = tpcc_between(c, 0, a) | tpcc_between(c, least, most);

    return (drawn + constant) % (most - least + 1) + least;
}

void tpcc_last_name(uint32_t number, char last[16])
{
    static const char *const parts[] = {
        "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
    };
    char text[32];

    memset(last, 0, 16);
    snprintf(text, sizeof(text), "%s%s%s", parts[number / 100 % 10], parts[number / 10 % 10],
             parts[number % 10]);
    memcpy(last, text, strlen(text) < 16 ? strlen(text) : 16);
}
