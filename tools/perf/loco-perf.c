/* SPDX-License-Identifier: BSD-3-Clause */
/* loco-perf: what it is asked for, and the processes that do it. */
#include "config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <loco/fork.h>
#include <loco/loco.h>

#include "perf.h"

#define PORT "18575"

static void usage(FILE *to)
{
    fputs("usage: loco-perf [--rows LIST] [OPTION]...\n"
          "       loco-perf --op OP [OPTION]...\n"
          "       loco-perf --listen [--port P]\n"
          "       loco-perf HOST [--op OP] [OPTION]...\n"
          "What calls of libloco cost between two processes, over the fabric that LOCO_FABRIC\n"
          "names. The first form compares them with the raw operation: of the device (verbs), of\n"
          "memory (shm). The others show one operation by size: on this machine, or between this\n"
          "one and another, where --listen runs first.\n\n"
          "  --rows LIST    of", to);
    for (int row = 0; row < PERF_ROWS; row++)
        fprintf(to, "%s%s", row == 0 ? " " : row % 5 == 0 ? ",\n                 " : ", ",
                perf_rows[row].name);
    fputs(" (all)\n"
          "  --rounds N     1 to 99 (5); figures of rows are medians\n"
          "  --gate RATIO   exit with 1 if a row takes more than so many times the raw\n"
          "                 operation\n\n"
          "  --op OP        put, get, fetch_add or compare_swap (put)\n"
          "  --sizes A[-B]  from A to B bytes, each twice the one before: 64, 8-1M (8-1M)\n"
          "  --outstanding N  so many at once, for MB/s; 1 to 256 (64)\n"
          "  --port P       of the listener (" PORT ")\n\n"
          "  --seconds S    for each measurement, 0.001 to 60 (0.2)\n"
          "  --json         an object for each line of the table\n"
          "  -h, --help, --version\n\n"
          "Exit status: 0; 1 the gate; 2 wrong use, or it could not be measured.\n", to);
}

static int wrong(const char *what, const char *value)
{
    fprintf(stderr, "loco-perf: --%s: '%s' will not do; see --help\n", what, value);
    return 2;
}

static bool is_number(const char *text, double least, double most, double *value)
{
    char *end;

    *value = strtod(text, &end);
    return end != text && *end == '\0' && *value >= least && *value <= most;
}

static bool take_rows(struct perf_options *o, const char *list)
{
    memset(o->wanted, 0, sizeof o->wanted);
    for (const char *name = list;; name++) {
        size_t len = strcspn(name, ",");
        int row = 0;

        while (row < PERF_ROWS
               && (strlen(perf_rows[row].name) != len
                   || strncmp(perf_rows[row].name, name, len) != 0))
            row++;
        if (row == PERF_ROWS)
            return false;
        o->wanted[row] = true;
        name += len;
        if (*name == '\0')
            return true;
    }
}

static bool take_op(struct perf_options *o, const char *name)
{
    for (o->op = 0; o->op < PERF_OPS; o->op++)
        if (strcmp(perf_op_names[o->op], name) == 0)
            return true;
    return false;
}

static bool take_size(const char **text, uint64_t *size)
{
    char *end;
    unsigned long long n = strtoull(*text, &end, 10);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;

    if (end == *text || **text == '-' || n == 0 || n > PERF_SIZE_MAX >> shift)
        return false;
    *size = (uint64_t)n << shift;
    *text = end + (shift > 0);
    return true;
}

static bool take_sizes(struct perf_options *o, const char *text)
{
    if (!take_size(&text, &o->least))
        return false;
    o->most = o->least;
    if (*text == '-' && (text++, !take_size(&text, &o->most)))
        return false;
    return *text == '\0' && o->most >= o->least;
}

/* Options that go together, and one host at most. */
static int check_options(int argc, char **argv, struct perf_options *o)
{
    bool sweeps = o->op != PERF_OPS;

    if (optind < argc)
        o->host = argv[optind++];
    if (optind < argc || (o->listen && (o->host != NULL || sweeps)))  {
        usage(stderr);
        return 2;
    }
    if (o->rows_given && (sweeps || o->listen || o->host != NULL)) {
        fputs("loco-perf: --rows compares processes of this machine; for sizes and other machines "
              "there is --op\n", stderr);
        return 2;
    }
    if (o->host != NULL && !sweeps)
        o->op = PERF_OP_PUT;
    return -1;
}

/* -1: go on; else the exit status. */
static int take_options(int argc, char **argv, struct perf_options *o)
{
    static const struct option known[] = {
        { "rows", required_argument, NULL, 'r' },  { "seconds", required_argument, NULL, 's' },
        { "rounds", required_argument, NULL, 'n' }, { "gate", required_argument, NULL, 'g' },
        { "op", required_argument, NULL, 'o' },    { "sizes", required_argument, NULL, 'z' },
        { "outstanding", required_argument, NULL, 'k' }, { "listen", no_argument, NULL, 'l' },
        { "port", required_argument, NULL, 'p' },  { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' },        { "version", no_argument, NULL, 'v' },
        { NULL, 0, NULL, 0 },
    };
    double number;

    for (int c; (c = getopt_long(argc, argv, "h", known, NULL)) != -1;)
        switch (c) {
        case 'r':
            if (!take_rows(o, optarg))
                return wrong("rows", optarg);
            o->rows_given = true;
            break;
        case 's':
            if (!is_number(optarg, 0.001, 60, &o->seconds))
                return wrong("seconds", optarg);
            break;
        case 'n':
            if (!is_number(optarg, 1, PERF_ROUNDS_MAX, &number))
                return wrong("rounds", optarg);
            o->rounds = (int)number;
            break;
        case 'g':
            if (!is_number(optarg, 0.01, 1e6, &o->gate))
                return wrong("gate", optarg);
            break;
        case 'o':
            if (!take_op(o, optarg))
                return wrong("op", optarg);
            break;
        case 'z':
            if (!take_sizes(o, optarg))
                return wrong("sizes", optarg);
            break;
        case 'k':
            if (!is_number(optarg, 1, PERF_OUTSTANDING_MAX, &number))
                return wrong("outstanding", optarg);
            o->outstanding = (int)number;
            break;
        case 'p':
            if (!is_number(optarg, 1, 65535, &number))
                return wrong("port", optarg);
            o->port = optarg;
            break;
        case 'l': o->listen = true; break;
        case 'j': o->json = true; break;
        case 'h': usage(stdout); return 0;
        case 'v': printf("loco-perf %s\n", PACKAGE_VERSION); return 0;
        default: usage(stderr); return 2;
        }
    return check_options(argc, argv, o);
}

/* Two processes of this machine. */
static int run_here(struct perf_options *o)
{
    int statuses[2] = { 2, 2 }, status;

    o->shared = mmap(NULL, PERF_SHARED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (o->shared == MAP_FAILED) {
        perror("loco-perf: memory");
        return 2;
    }
    status = loco_fork_run(2, o->op == PERF_OPS ? perf_rows_member : perf_sweep_member, o,
                           statuses);
    if (status != LOCO_OK && status != LOCO_ERR_PEER_DEAD)      /* else members have said why */
        fprintf(stderr, "loco-perf: no processes: %s\n", loco_strerror(status));
    for (int i = 0; i < 2; i++)
        if (statuses[i] < 0)
            fprintf(stderr, "loco-perf: process %d was ended by signal %d\n", i, -statuses[i]);
    return statuses[1] != 0 ? 2 : statuses[0] < 0 ? 2 : statuses[0];
}

int main(int argc, char **argv)
{
    struct perf_options o = {
        .seconds = 0.2, .rounds = 5, .op = PERF_OPS, .least = 8, .most = (uint64_t)1 << 20,
        .outstanding = 64, .port = PORT,
    };
    int status;

    memset(o.wanted, 1, sizeof o.wanted);
    status = take_options(argc, argv, &o);
    if (status >= 0)
        return status;
#ifndef LOCO_HAVE_VERBS
    if (perf_over_device()) {
        fputs("loco-perf: LOCO_FABRIC=verbs, but this was configured --without-verbs\n", stderr);
        return 2;
    }
#endif
    return o.listen || o.host != NULL ? perf_wire_run(&o) : run_here(&o);
}
