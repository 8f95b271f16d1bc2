/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank's copy of the settings of replicated_config: names with values, which the multicast's
 * handler changes while other threads read.
 *
 * A value is an array of words behind a counter that is odd while the handler writes to them. A
 * reader copies the words, and copies again if the counter was odd or is another one afterwards: so
 * it never waits for a lock, and never returns half of a change. The order that this needs is said
 * at settings_get() and at write_value() in settings.c.
 */
#ifndef MPI_EXAMPLES_SETTINGS_H
#define MPI_EXAMPLES_SETTINGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <loco/multicast.h>

enum { SETTINGS_NAME = 64, SETTINGS_VALUE = 256, SETTINGS_WORDS = SETTINGS_VALUE / 8 };

/* What a copy does wrong, once, to see that it is noticed; SETTINGS_TORN: always. */
enum settings_spoil { SETTINGS_RIGHT, SETTINGS_ORDER, SETTINGS_LOST, SETTINGS_WON, SETTINGS_TORN };

enum settings_kind { SETTINGS_SET, SETTINGS_SET_IF, SETTINGS_END };

/* A message: this, then the name and the value. */
struct settings_change {
    uint32_t kind;
    uint32_t name_bytes, value_bytes;
    uint32_t unused;
    uint64_t version;           /* SETTINGS_SET_IF: the setting must have it; 0: is not there */
};

struct setting {
    _Atomic uint64_t counter;   /* odd: the value changes; half of it: the version. 0: none yet */
    _Atomic uint64_t bytes;
    _Atomic uint64_t word[SETTINGS_WORDS];
    char name[SETTINGS_NAME];   /* the handler writes it before the counter is not 0 any more */
};

struct settings {
    struct setting *setting;    /* a table with open addressing */
    uint64_t room;              /* of it, a power of two; at most half are used */
    enum settings_spoil spoil;
    unsigned char *held;        /* SETTINGS_ORDER: a change that waits for the next, */
    size_t held_bytes;          /* if this is not 0 */
    int held_sender;
    uint64_t hash;              /* of all changes so far */
    uint64_t refused;           /* SET_IFs that came too late */
    uint64_t full;              /* changes for which there was no room */
    _Atomic uint64_t applied;
    atomic_bool mine_done;      /* whether this rank's last change changed anything */
    atomic_int ends;
    atomic_bool died;
};

/* With room for so many names. */
void settings_open(struct settings *s, uint64_t names, enum settings_spoil spoil);
void settings_close(struct settings *s);

/* The handler of the multicast; `arg` is the settings. */
void settings_deliver(void *arg, const loco_delivery_t *messages, int n);

/* Any thread, at any time: the value, and after it a '\0', to `value`; its version, which is 1 when
 * it is set first; or 0: it is not there. */
uint64_t settings_get(const struct settings *s, const char *name, char value[SETTINGS_VALUE + 1]);

/* Of all names, values and versions: the same at two ranks if these are. Not while they change. */
uint64_t settings_hash(const struct settings *s);

/* All settings, in the order of their names, as lines "name = value". Likewise. */
void settings_print(const struct settings *s);

#endif
