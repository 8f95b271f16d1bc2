/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TUNABLES_H
#define LOCI_TUNABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log.h"

/* What a user may turn. All of it is one table in tunables.c: the environment, loco-info and the
 * component's MCA variables are three readers of it. To add one: a field here, a row there. */

enum loci_tunable_kind {
    LOCI_TUNABLE_INT,       /* int64_t: 64 */
    LOCI_TUNABLE_HEX,       /* int64_t: 0x8001, or as LOCI_TUNABLE_INT */
    LOCI_TUNABLE_SIZE,      /* int64_t, bytes: 16M, 1.5G, 4096 */
    LOCI_TUNABLE_TIME,      /* int64_t, nanoseconds: 1ms, 0.5s, 200us, 0 */
    LOCI_TUNABLE_BOOL,      /* bool: yes, no, on, off, true, false, 1, 0 */
    LOCI_TUNABLE_STRING,    /* char[LOCI_TUNABLE_TEXT] */
    LOCI_TUNABLE_CHOICE     /* int: index in the row's choices */
};

enum loci_tunable_origin {
    LOCI_FROM_DEFAULT,
    LOCI_FROM_ENVIRONMENT,
    LOCI_FROM_PROGRAM       /* struct loco_bootstrap, an MCA variable */
};

#define LOCI_TUNABLE_TEXT 256           /* bytes of a value as text, with its end */
#define LOCI_TUNABLES_MAX 64            /* rows */
#define LOCI_INFINITE INT64_MAX         /* "inf", where the row's range goes that far */
#define LOCI_AUTO (-1)                  /* the word that the row of a number permits beside it */

enum loci_fabric_choice { LOCI_FABRIC_AUTO, LOCI_FABRIC_SHM, LOCI_FABRIC_VERBS,
                          LOCI_FABRIC_TCP };
enum loci_huge_pages { LOCI_HUGE_AUTO, LOCI_HUGE_NEVER, LOCI_HUGE_ALWAYS };
enum loci_cma { LOCI_CMA_AUTO, LOCI_CMA_NEVER };
enum loci_rdma_place { LOCI_RDMA_PLACE_READ, LOCI_RDMA_PLACE_READ8, LOCI_RDMA_PLACE_ACK };
enum loci_offers { LOCI_OFFERS_AUTO, LOCI_OFFERS_NEVER };

struct loci_tunables {
    int fabric;                         /* enum loci_fabric_choice */
    char node[LOCI_TUNABLE_TEXT];       /* "auto": this kernel */
    char device[LOCI_TUNABLE_TEXT];     /* "auto", or name[:port],... */
    int64_t rdma_cache;                 /* bytes */
    int64_t rdma_depth;                 /* requests */
    int64_t rdma_device_memory;         /* bytes */
    int64_t rdma_gid;                   /* index, or LOCI_AUTO */
    int64_t rdma_inline;                /* bytes */
    int64_t rdma_outstanding;           /* requests; LOCI_INFINITE, or LOCI_AUTO */
    int64_t rdma_outstanding_bytes;     /* the same */
    int64_t rdma_outstanding_epoch;     /* ns */
    int64_t rdma_pkey;                  /* or LOCI_AUTO */
    int rdma_place;                     /* enum loci_rdma_place */
    int64_t rdma_read_ahead;            /* bytes */
    int64_t rdma_service_level;
    int64_t key_lease;                  /* ns */
    bool ports;
    int64_t ports_leave;                /* requests; or LOCI_INFINITE */
    int64_t rdma_timeout;               /* ns */
    int64_t rdma_traffic_class;
    int64_t rdma_write_piece;           /* bytes */
    uint64_t tcp_buffer;
    char tcp_if[LOCI_TUNABLE_TEXT];     /* "auto", or interfaces and networks */
    char tcp_ports[LOCI_TUNABLE_TEXT];  /* "auto", or FIRST-LAST */
    int64_t peer_timeout;               /* ns */
    int64_t mem_limit;                  /* bytes; LOCI_INFINITE: the machine's limit alone */
    int huge_pages;                     /* enum loci_huge_pages */
    int64_t extent_min, extent_max;     /* bytes */
    int64_t spin;                       /* polls */
    int64_t sleep_after;                /* ns */
    int64_t nap_after;                  /* ns */
    int64_t lock_handovers;
    int64_t lock_patience;              /* ns */
    int64_t lock_pass;                  /* ns */
    int64_t lock_reopen;                /* exclusive locks in a row */
    int64_t acc_singles;                /* accumulates in a row */
    int64_t acc_vectors;                /* elements */
    int64_t tx_patience;                /* ns */
    int cma;                            /* enum loci_cma */
    int offers;                         /* enum loci_offers */
    int log;                            /* enum loco_log_level */
    char stats[LOCI_TUNABLE_TEXT];      /* no, yes or a file's name */
    char trace[LOCI_TUNABLE_TEXT];      /* no or a file's name */
    int64_t trace_limit;                /* bytes */
    unsigned char origin[LOCI_TUNABLES_MAX];    /* enum loci_tunable_origin, by row */
};

struct loci_tunable_row {
    const char *name;                   /* LOCO_SPIN: also the environment variable */
    const char *text;                   /* default, as a user would write it */
    enum loci_tunable_kind kind;
    int64_t min, max;                   /* of numbers, both included */
    const char *choices;                /* of LOCI_TUNABLE_CHOICE: "auto|shm|verbs"; of numbers: the
                                         * word that is LOCI_AUTO, or NULL */
    size_t offset;                      /* in struct loci_tunables */
    const char *help;
};

/* The table; *n rows. */
const struct loci_tunable_row *loci_tunables_rows(size_t *n);
/* That of this name, `len` letters long; NULL: there is none. */
const struct loci_tunable_row *loci_tunables_row(const char *name, size_t len);

/* Defaults, then what the environment says; sets log->level, and without a hook sends the log to
 * stderr. LOCO_ERR_ARG where a variable is wrong: the
 * log is told variable, value and what is allowed; all wrong ones are named. */
int loci_tunables_load(struct loci_tunables *t, struct loci_log *log);
/* Tell the log of variables that look like tunables and are none (tunables_unknown.c). */
void loci_tunables_tell_unknown(const struct loci_log *log);

/* Set one from text. LOCO_ERR_ARG where there is no such row or the value is wrong, told to the
 * log; nothing is changed then. */
int loci_tunables_set(struct loci_tunables *t, const char *name, const char *text,
                      enum loci_tunable_origin origin, const struct loci_log *log);

/* A NULL-ended list of "LOCO_NAME=value" from the program; NULL is the empty list. */
int loci_tunables_apply(struct loci_tunables *t, const char *const *settings,
                        struct loci_log *log);

/* The value in force as text, in the shortest unit that is exact. */
void loci_tunables_text(const struct loci_tunables *t, const struct loci_tunable_row *row,
                        char *buf, size_t len);
/* What the row allows, as text: "4K to 1T", "auto, shm or verbs". */
void loci_tunables_range(const struct loci_tunable_row *row, char *buf, size_t len);
/* "default", "environment", "program". */
const char *loci_tunables_origin_name(int origin);

/* One value from text by a row's kind and range, into *field of the kind's type. False, and
 * *field unchanged, where it is wrong. */
bool loci_tunable_parse(const struct loci_tunable_row *row, const char *text, void *field);

#endif
