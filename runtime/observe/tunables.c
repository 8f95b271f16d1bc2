/* SPDX-License-Identifier: BSD-3-Clause */
#include "tunables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <loco/status.h>

#define FIELD(member) offsetof(struct loci_tunables, member)
#define KiB INT64_C(1024)
#define MiB (1024 * KiB)
#define GiB (1024 * MiB)
#define US INT64_C(1000)
#define MS (1000 * US)
#define SECOND (1000 * MS)

static const struct loci_tunable_row rows[] = {
    { "LOCO_FABRIC", "auto", LOCI_TUNABLE_CHOICE, 0, 0, "auto|shm|verbs|tcp", FIELD(fabric),
      "which fabric carries data: shared memory of one node, RDMA devices, TCP, or what is "
      "there" },
    { "LOCO_NODE", "auto", LOCI_TUNABLE_STRING, 0, 0, NULL, FIELD(node),
      "name of this node; processes with different names share no memory, even on one kernel" },
    { "LOCO_DEVICE", "auto", LOCI_TUNABLE_STRING, 0, 0, NULL, FIELD(device),
      "RDMA device, name or name:port; of several, with commas between, processes take the next in "
      "turn; auto: the nearest to the process" },
    { "LOCO_RDMA_CACHE", "1G", LOCI_TUNABLE_SIZE, 0, LOCI_INFINITE, NULL, FIELD(rdma_cache),
      "bytes of the program's memory that stay registered with an RDMA device for the next time" },
    { "LOCO_RDMA_DEPTH", "256", LOCI_TUNABLE_INT, 16, 8192, NULL, FIELD(rdma_depth),
      "requests that a thread may have in flight to one peer over RDMA" },
    { "LOCO_RDMA_DEVICE_MEMORY", "0", LOCI_TUNABLE_SIZE, 0, LOCI_INFINITE, NULL,
      FIELD(rdma_device_memory),
      "bytes of an RDMA device's own memory that a process may take for its locks; 0: none" },
    { "LOCO_RDMA_GID", "auto", LOCI_TUNABLE_INT, 0, 255, "auto", FIELD(rdma_gid),
      "which of the addresses of an RDMA device's port, by its index (GID)" },
    { "LOCO_RDMA_INLINE", "220", LOCI_TUNABLE_SIZE, 0, 4096, NULL, FIELD(rdma_inline),
      "writes up to this size go to an RDMA device with their data, if it can" },
    { "LOCO_RDMA_OUTSTANDING", "inf", LOCI_TUNABLE_INT, 1, LOCI_INFINITE, "auto",
      FIELD(rdma_outstanding),
      "requests that all threads of a process together may have in flight at an RDMA device; auto: "
      "as many as most are done with, which is tried out; inf: no bound" },
    { "LOCO_RDMA_OUTSTANDING_BYTES", "inf", LOCI_TUNABLE_SIZE, 4 * KiB, LOCI_INFINITE, "auto",
      FIELD(rdma_outstanding_bytes),
      "bytes of these requests; auto: 1M over soft-RoCE, whose queues overflow, else no bound" },
    { "LOCO_RDMA_OUTSTANDING_EPOCH", "8ms", LOCI_TUNABLE_TIME, 10 * US, 10 * SECOND, NULL,
      FIELD(rdma_outstanding_epoch),
      "time for which a bound of requests in flight is tried; the best stays for 60 times that" },
    { "LOCO_RDMA_PKEY", "auto", LOCI_TUNABLE_HEX, 1, 0xffff, "auto", FIELD(rdma_pkey),
      "InfiniBand partition, by its key, with or without the bit of full members; auto: the first "
      "that the port is a full member of" },
    { "LOCO_RDMA_PLACE", "read", LOCI_TUNABLE_CHOICE, 0, 0, "read|read8|ack", FIELD(rdma_place),
      "what tells a fence that writes over RDMA are placed: a read behind them, of nothing or of 8 "
      "bytes; or their acknowledgements, which do not promise it, but which most others are "
      "content with" },
    { "LOCO_RDMA_READ_AHEAD", "256K", LOCI_TUNABLE_SIZE, 64 * KiB, LOCI_INFINITE, NULL,
      FIELD(rdma_read_ahead),
      "bytes of long reads that a thread may have asked of one peer over RDMA and not got yet" },
    { "LOCO_RDMA_SERVICE_LEVEL", "0", LOCI_TUNABLE_INT, 0, 15, NULL, FIELD(rdma_service_level),
      "service level of what goes over InfiniBand" },
    { "LOCO_RDMA_TIMEOUT", "67ms", LOCI_TUNABLE_TIME, 10 * US, 100 * SECOND, NULL,
      FIELD(rdma_timeout),
      "time until an RDMA device sends again what was not acknowledged; after 7 times it gives "
      "up" },
    { "LOCO_RDMA_TRAFFIC_CLASS", "0", LOCI_TUNABLE_INT, 0, 255, NULL, FIELD(rdma_traffic_class),
      "traffic class of what goes over RDMA; with RoCE the packets' DSCP times 4" },
    { "LOCO_RDMA_WRITE_PIECE", "1M", LOCI_TUNABLE_SIZE, 4 * KiB, LOCI_INFINITE, NULL,
      FIELD(rdma_write_piece),
      "longer writes go to an RDMA device in pieces of this size, each of which it tries again" },
    { "LOCO_TCP_BUFFER", "256K", LOCI_TUNABLE_SIZE, 64 * KiB, 1024 * MiB, NULL, FIELD(tcp_buffer),
      "bytes that may wait to be sent to one process over TCP, of requests and of answers each" },
    { "LOCO_TCP_IF", "auto", LOCI_TUNABLE_STRING, 0, 0, NULL, FIELD(tcp_if),
      "where other machines connect to by TCP: names of network interfaces, and networks such as "
      "10.0.0.0/8, with commas between; ^ in front leaves one out; auto: what leads outside" },
    { "LOCO_TCP_PORTS", "auto", LOCI_TUNABLE_STRING, 0, 0, NULL, FIELD(tcp_ports),
      "ports that TCP connections come in by, FIRST-LAST, for a firewall to let through; auto: the "
      "system chooses" },
    { "LOCO_PEER_TIMEOUT", "30s", LOCI_TUNABLE_TIME, 3 * SECOND, LOCI_INFINITE, NULL,
      FIELD(peer_timeout),
      "time after which a process on another machine that was silent over TCP counts as dead; inf: "
      "never" },
    { "LOCO_MEM_LIMIT", "inf", LOCI_TUNABLE_SIZE, 2 * MiB, LOCI_INFINITE, NULL, FIELD(mem_limit),
      "network memory that one process may have, beside what machine and control group allow" },
    { "LOCO_HUGE_PAGES", "auto", LOCI_TUNABLE_CHOICE, 0, 0, "auto|never|always",
      FIELD(huge_pages), "huge pages for extents; always: fail where there are none" },
    { "LOCO_EXTENT_MIN", "16M", LOCI_TUNABLE_SIZE, 64 * KiB, 64 * GiB, NULL, FIELD(extent_min),
      "size of the first extent of network memory; each next one is twice as large" },
    { "LOCO_EXTENT_MAX", "1G", LOCI_TUNABLE_SIZE, 64 * KiB, 1024 * GiB, NULL, FIELD(extent_max),
      "size at which extents stop doubling; a larger request gets an extent of its own" },
    { "LOCO_SPIN", "100", LOCI_TUNABLE_INT, 0, 1000000000, NULL, FIELD(spin),
      "times that a waiting thread polls before it lets others run" },
    { "LOCO_SLEEP_AFTER", "50us", LOCI_TUNABLE_TIME, 0, LOCI_INFINITE, NULL, FIELD(sleep_after),
      "time that a wait which may sleep (that of a ring buffer's reader) polls before it does" },
    { "LOCO_NAP_AFTER", "1ms", LOCI_TUNABLE_TIME, 0, LOCI_INFINITE, NULL, FIELD(nap_after),
      "time that any other wait polls before it sleeps, and looks now and then; inf: never" },
    { "LOCO_KEY_LEASE", "1s", LOCI_TUNABLE_TIME, 10 * US, 100 * SECOND, NULL, FIELD(key_lease),
      "time for which a process uses keys of another machine's memory before it asks again whether "
      "they hold" },
    { "LOCO_PORTS", "yes", LOCI_TUNABLE_BOOL, 0, 0, NULL, FIELD(ports),
      "reach stores of other machines by way of the agent of this one, if it has ports" },
    { "LOCO_PORTS_LEAVE", "100000", LOCI_TUNABLE_INT, 1, LOCI_INFINITE, NULL, FIELD(ports_leave),
      "requests to a machine by way of the agent after which a process connects there by itself; "
      "inf: never" },
    { "LOCO_LOCK_HANDOVERS", "64", LOCI_TUNABLE_INT, 0, 1000000000, NULL, FIELD(lock_handovers),
      "times in a row that a ticket lock may pass between threads of one process while other "
      "processes wait" },
    { "LOCO_LOCK_PATIENCE", "1ms", LOCI_TUNABLE_TIME, 0, LOCI_INFINITE, NULL,
      FIELD(lock_patience),
      "time that a waiter for a window's lock lets later ones overtake it" },
    { "LOCO_LOCK_PASS", "100ms", LOCI_TUNABLE_TIME, 1000, LOCI_INFINITE, NULL, FIELD(lock_pass),
      "time after which who could have a window's lock at once passes one in line that cannot; a "
      "tenth of that with another lock of the window in hand" },
    { "LOCO_LOCK_REOPEN", "64", LOCI_TUNABLE_INT, 1, 1000000000, NULL, FIELD(lock_reopen),
      "exclusive locks in a row after which those of a window on one node cost one atomic again, "
      "and the next lock_all has to stop them" },
    { "LOCO_ACC_SINGLES", "64", LOCI_TUNABLE_INT, 1, 65535, NULL, FIELD(acc_singles),
      "accumulates of few elements in a row after which those to a window's member go from its "
      "lock to atomics" },
    { "LOCO_ACC_VECTORS", "512", LOCI_TUNABLE_INT, 1, 1000000000, NULL, FIELD(acc_vectors),
      "elements of vectors done by atomics after which accumulates to a window's member go from "
      "atomics to its lock; more where such changes did not pay" },
    { "LOCO_TX_PATIENCE", "1ms", LOCI_TUNABLE_TIME, 0, LOCI_INFINITE, NULL, FIELD(tx_patience),
      "time that a transaction waits for another's commit before it undoes that" },
    { "LOCO_CMA", "auto", LOCI_TUNABLE_CHOICE, 0, 0, "auto|never", FIELD(cma),
      "copy memory that the user brought with process_vm_readv and _writev where permitted" },
    { "LOCO_OFFERS", "auto", LOCI_TUNABLE_CHOICE, 0, 0, "auto|never", FIELD(offers),
      "let a process that is waiting anyway do small copies of its user memory for its peers" },
    { "LOCO_LOG", "warn", LOCI_TUNABLE_CHOICE, 0, 0, "none|error|warn|info|debug", FIELD(log),
      "what is logged; lines go to stderr where the program gives no hook" },
    { "LOCO_STATS", "no", LOCI_TUNABLE_STRING, 0, 0, NULL, FIELD(stats),
      "a table of what each process did, at its end: yes (to stderr), no, or a file; %r in its "
      "name is the rank, %p the process" },
    { "LOCO_TRACE", "no", LOCI_TUNABLE_STRING, 0, 0, NULL, FIELD(trace),
      "file for a trace of all window calls and waits, in the JSON of Perfetto and Chrome; one per "
      "process: %r in its name is the rank, %p the process" },
    { "LOCO_TRACE_LIMIT", "64M", LOCI_TUNABLE_SIZE, 512 * KiB, LOCI_INFINITE, NULL,
      FIELD(trace_limit), "size at which a process's trace takes no more events" },
};
#define ROWS (sizeof rows / sizeof rows[0])
_Static_assert(ROWS <= LOCI_TUNABLES_MAX, "more tunables than room for their origins");

struct unit {
    const char *name;
    int64_t factor;
};

/* Largest first: that is how they are written, too. The first of each kind that divides a value
 * is the unit it is shown in. */
static const struct unit size_units[] = {
    { "T", 1024 * GiB }, { "G", GiB }, { "M", MiB }, { "K", KiB }, { "", 1 },
    { "TiB", 1024 * GiB }, { "GiB", GiB }, { "MiB", MiB }, { "KiB", KiB }, { "B", 1 },
    { NULL, 0 }
};
static const struct unit time_units[] = {
    { "s", SECOND }, { "ms", MS }, { "us", US }, { "ns", 1 }, { "min", 60 * SECOND }, { NULL, 0 }
};
static const struct unit no_units[] = { { "", 1 }, { NULL, 0 } };

static const struct unit *units_of(enum loci_tunable_kind kind)
{
    switch (kind) {
    case LOCI_TUNABLE_SIZE: return size_units;
    case LOCI_TUNABLE_TIME: return time_units;
    default: return no_units;
    }
}

const struct loci_tunable_row *loci_tunables_rows(size_t *n)
{
    *n = ROWS;
    return rows;
}

const char *loci_tunables_origin_name(int origin)
{
    switch (origin) {
    case LOCI_FROM_DEFAULT: return "default";
    case LOCI_FROM_ENVIRONMENT: return "environment";
    case LOCI_FROM_PROGRAM: return "program";
    default: return "?";
    }
}

/* ---- text to value ---- */

/* "12", "1.5" and a unit. Fractions only of units: "1.5" alone is nothing countable. */
static bool parse_number(const struct loci_tunable_row *row, const char *text, int64_t *value)
{
    const struct unit *unit;
    double scaled;
    int64_t whole;
    char *end;

    if (strcasecmp(text, "inf") == 0) {
        *value = LOCI_INFINITE;
        return true;
    }
    if (strspn(text, "0123456789") == 0)    /* no sign, blank, or "nan" */
        return false;
    errno = 0;
    whole = strtoll(text, &end, 10);
    if (errno != 0)
        return false;
    scaled = (double)whole;
    if (*end == '.') {
        if (strspn(end + 1, "0123456789") == 0)
            return false;
        scaled = strtod(text, &end);        /* digits, dot, digits: no locale, no exponent */
    }
    if (whole == 0 && scaled == 0 && *end == '\0') {    /* 0 of any unit */
        *value = 0;
        return true;
    }
    for (unit = units_of(row->kind); unit->name != NULL; unit++)
        if (strcasecmp(end, unit->name) == 0)
            break;
    if (unit->name == NULL)
        return false;
    if (scaled != (double)whole) {
        if (unit->factor == 1 || scaled * (double)unit->factor >= 9e18)
            return false;
        *value = (int64_t)(scaled * (double)unit->factor + 0.5);
        return true;
    }
    return !__builtin_mul_overflow(whole, unit->factor, value);
}

static bool parse_hex(const char *text, int64_t *value)
{
    size_t digits = strspn(text, "0123456789abcdefABCDEF");

    if (digits == 0 || digits > 15 || text[digits] != '\0')
        return false;
    *value = strtoll(text, NULL, 16);
    return true;
}

/* A number, or the word that the row permits beside it. */
static bool parse_value(const struct loci_tunable_row *row, const char *text, int64_t *value)
{
    bool is_hex = row->kind == LOCI_TUNABLE_HEX && strncasecmp(text, "0x", 2) == 0;

    if (row->choices != NULL && strcasecmp(text, row->choices) == 0) {
        *value = LOCI_AUTO;
        return true;
    }
    return (is_hex ? parse_hex(text + 2, value) : parse_number(row, text, value))
           && *value >= row->min && *value <= row->max;
}

static bool parse_bool(const char *text, bool *value)
{
    static const char *const yes[] = { "yes", "on", "true", "1" };
    static const char *const no[] = { "no", "off", "false", "0" };

    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        bool is_yes = strcasecmp(text, yes[i]) == 0;

        if (is_yes || strcasecmp(text, no[i]) == 0) {
            *value = is_yes;
            return true;
        }
    }
    return false;
}

static bool parse_choice(const char *choices, const char *text, int *value)
{
    size_t len = strlen(text);
    const char *p = choices;

    for (int i = 0; len > 0; i++) {
        size_t one = strcspn(p, "|");

        if (one == len && strncasecmp(p, text, len) == 0) {
            *value = i;
            return true;
        }
        if (p[one] == '\0')
            break;
        p += one + 1;
    }
    return false;
}

bool loci_tunable_parse(const struct loci_tunable_row *row, const char *text, void *field)
{
    int64_t number;

    switch (row->kind) {
    case LOCI_TUNABLE_BOOL:
        return parse_bool(text, field);
    case LOCI_TUNABLE_CHOICE:
        return parse_choice(row->choices, text, field);
    case LOCI_TUNABLE_STRING:
        if (*text == '\0' || strlen(text) >= LOCI_TUNABLE_TEXT)
            return false;
        strcpy(field, text);
        return true;
    default:
        if (!parse_value(row, text, &number))
            return false;
        *(int64_t *)field = number;
        return true;
    }
}

/* ---- value to text ---- */

static void number_text(enum loci_tunable_kind kind, int64_t value, char *buf, size_t len)
{
    const struct unit *unit = units_of(kind);

    if (value == LOCI_INFINITE) {
        snprintf(buf, len, "inf");
        return;
    }
    if (value == 0) {
        snprintf(buf, len, "0");
        return;
    }
    if (kind == LOCI_TUNABLE_HEX) {
        snprintf(buf, len, "0x%llx", (unsigned long long)value);
        return;
    }
    while (value % unit->factor != 0)
        unit++;
    snprintf(buf, len, "%lld%s", (long long)(value / unit->factor), unit->name);
}

static void choice_text(const char *choices, int value, char *buf, size_t len)
{
    while (value > 0) {
        choices += strcspn(choices, "|") + 1;
        value--;
    }
    snprintf(buf, len, "%.*s", (int)strcspn(choices, "|"), choices);
}

void loci_tunables_text(const struct loci_tunables *t, const struct loci_tunable_row *row,
                        char *buf, size_t len)
{
    const void *field = (const char *)t + row->offset;

    switch (row->kind) {
    case LOCI_TUNABLE_BOOL:
        snprintf(buf, len, "%s", *(const bool *)field ? "yes" : "no");
        break;
    case LOCI_TUNABLE_CHOICE:
        choice_text(row->choices, *(const int *)field, buf, len);
        break;
    case LOCI_TUNABLE_STRING:
        snprintf(buf, len, "%s", (const char *)field);
        break;
    default:
        if (row->choices != NULL && *(const int64_t *)field == LOCI_AUTO)
            snprintf(buf, len, "%s", row->choices);
        else
            number_text(row->kind, *(const int64_t *)field, buf, len);
        break;
    }
}

void loci_tunables_range(const struct loci_tunable_row *row, char *buf, size_t len)
{
    char min[LOCI_TUNABLE_TEXT], max[LOCI_TUNABLE_TEXT];

    switch (row->kind) {
    case LOCI_TUNABLE_BOOL:
        snprintf(buf, len, "yes or no");
        break;
    case LOCI_TUNABLE_CHOICE:
        snprintf(buf, len, "%s", row->choices);
        break;
    case LOCI_TUNABLE_STRING:
        snprintf(buf, len, "1 to %d characters", LOCI_TUNABLE_TEXT - 1);
        break;
    default:
        number_text(row->kind, row->min, min, sizeof min);
        number_text(row->kind, row->max, max, sizeof max);
        snprintf(buf, len, "%s%s%s to %s", row->choices != NULL ? row->choices : "",
                 row->choices != NULL ? ", or " : "", min, max);
        break;
    }
}

/* ---- the whole table ---- */

const struct loci_tunable_row *loci_tunables_row(const char *name, size_t len)
{
    for (size_t i = 0; i < ROWS; i++)
        if (strlen(rows[i].name) == len && strncmp(rows[i].name, name, len) == 0)
            return &rows[i];
    return NULL;
}

static int set_row(struct loci_tunables *t, const struct loci_tunable_row *row, const char *text,
                   enum loci_tunable_origin origin, const struct loci_log *log)
{
    static const char *const units[] = {
        [LOCI_TUNABLE_SIZE] = " (bytes, or with K, M, G, T)",
        [LOCI_TUNABLE_TIME] = " (with ns, us, ms, s or min)",
        [LOCI_TUNABLE_CHOICE] = NULL
    };
    const char *unit = units[row->kind];
    char range[256];

    if (!loci_tunable_parse(row, text, (char *)t + row->offset)) {
        loci_tunables_range(row, range, sizeof range);
        loci_log(log, LOCO_LOG_ERROR, "%s=%s (from the %s): allowed is %s%s", row->name, text,
                 loci_tunables_origin_name((int)origin), range, unit == NULL ? "" : unit);
        return LOCO_ERR_ARG;
    }
    t->origin[row - rows] = (unsigned char)origin;
    return LOCO_OK;
}

int loci_tunables_set(struct loci_tunables *t, const char *name, const char *text,
                      enum loci_tunable_origin origin, const struct loci_log *log)
{
    const struct loci_tunable_row *row = loci_tunables_row(name, strlen(name));

    if (row == NULL) {
        loci_log(log, LOCO_LOG_ERROR, "there is no tunable %s; loco-info lists them", name);
        return LOCO_ERR_ARG;
    }
    return set_row(t, row, text, origin, log);
}

/* What no single row can see. */
static int check_together(const struct loci_tunables *t, const struct loci_log *log)
{
    if (t->extent_min <= t->extent_max)
        return LOCO_OK;
    loci_log(log, LOCO_LOG_ERROR, "LOCO_EXTENT_MIN (%lld) is above LOCO_EXTENT_MAX (%lld)",
             (long long)t->extent_min, (long long)t->extent_max);
    return LOCO_ERR_ARG;
}

/* LOCO_LOG goes first, so that what is wrong with the others is heard. */
static int load_log(struct loci_tunables *t, struct loci_log *log)
{
    const struct loci_tunable_row *row = loci_tunables_row("LOCO_LOG", strlen("LOCO_LOG"));
    const char *text = getenv(row->name);
    int rc = LOCO_OK;

    if (log->fn == NULL)
        log->fn = loci_log_stderr;
    log->level = t->log;
    if (text == NULL)
        return LOCO_OK;
    rc = set_row(t, row, text, LOCI_FROM_ENVIRONMENT, log);
    log->level = t->log;
    return rc;
}

int loci_tunables_load(struct loci_tunables *t, struct loci_log *log)
{
    int rc = LOCO_OK;

    memset(t, 0, sizeof *t);
    for (size_t i = 0; i < ROWS; i++)
        set_row(t, &rows[i], rows[i].text, LOCI_FROM_DEFAULT, log);
    rc = load_log(t, log);
    for (size_t i = 0; i < ROWS; i++) {
        const char *text = getenv(rows[i].name);

        if (text != NULL && rows[i].offset != FIELD(log)
            && set_row(t, &rows[i], text, LOCI_FROM_ENVIRONMENT, log) != LOCO_OK)
            rc = LOCO_ERR_ARG;
    }
    loci_tunables_tell_unknown(log);
    return rc == LOCO_OK ? check_together(t, log) : rc;
}

int loci_tunables_apply(struct loci_tunables *t, const char *const *settings,
                        struct loci_log *log)
{
    for (; settings != NULL && *settings != NULL; settings++) {
        size_t len = strcspn(*settings, "=");
        const struct loci_tunable_row *row = loci_tunables_row(*settings, len);

        if (row == NULL || (*settings)[len] != '=') {
            loci_log(log, LOCO_LOG_ERROR, "\"%s\" is not LOCO_NAME=value; loco-info lists the "
                     "names", *settings);
            return LOCO_ERR_ARG;
        }
        if (set_row(t, row, *settings + len + 1, LOCI_FROM_PROGRAM, log) != LOCO_OK)
            return LOCO_ERR_ARG;
        log->level = t->log;
    }
    return check_together(t, log);
}
