/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "args.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_JOBS 256
#define DEFAULT_LIMIT 60.0      /* seconds of the CPU for a run */

static const char explore_help[] =
    "usage: loco-sim explore CHANNEL|all [options]\n"
    "Run a channel's scenario under many schedules, each from a seed, and check every run.\n\n"
    "  --seeds A..B       these seeds (1..10000; with --stop-every 1..1); all: divided among them\n"
    "  --seconds S        for so long; seeds then go on without end unless --seeds says\n"
    "  --processes N      simulated processes        (each scenario has its own defaults;\n"
    "  --threads T        threads of each             `loco-sim list` shows them)\n"
    "  --rounds R         how much each thread does\n"
    "  --faults[=KIND]    in each run something fails, drawn from its seed: any, stop (a process,\n"
    "                     for ever), slow (a process or link), messages (of control)\n"
    "  --stop-every       for each seed: stop each process at each of its steps in turn\n"
    "  --one-node         all memory is mapped by all processes\n"
    "  --owner            atomics are done by the CPU of whose memory it is, as over tcp, and\n"
    "                     some processes may share a node; not with --one-node\n"
    "  --device-memory    locks are in the memory of RDMA devices; with neither of these\n"
    "  --asleep           whoever waits sleeps at once; with --one-node until it is rung\n"
    "  --torn-words       of 8 bytes those at lower addresses may come before the others\n"
    "  --strategy NAME    uniform, sticky, priority, lazy, eager; auto: by the seed (default)\n"
    "  --jobs J           OS processes that work (one per CPU)\n"
    "  --run-seconds S    a run that takes longer is a failure (60, of the CPU)\n"
    "  --keep-going       go on after a failure, and list them all\n"
    "  --json             the summary as JSON on stdout, all else on stderr\n"
    "  --help, --version\n\n"
    "Exit status: 0 all passed; 1 a failure was found; 2 wrong use.\n";

static const char replay_help[] =
    "usage: loco-sim replay SEED [options]\n"
    "Run one seed again, as a failure printed it: CHANNEL/SIZES/NUMBER. A failure is shrunk.\n\n"
    "  --trace FILE       write the whole trace there; - is stdout\n"
    "  --draw FILE        write a drawing: trace-event JSON, for ui.perfetto.dev\n"
    "  --no-shrink        trace and draw the run as the seed makes it\n"
    "  --run-seconds S    a run that takes longer is a failure (60, of the CPU)\n"
    "  --channel NAME, --processes, --threads, --rounds, --faults, --one-node, --owner,\n"
    "  --device-memory, --asleep, --torn-words, --strategy\n"
    "                     where SEED is a number alone: as for explore\n"
    "  --help, --version\n\n"
    "Exit status: 0 it passed; 1 it failed; 2 wrong use.\n";

/* The value of getopt_long says which; who takes it stands beside. */
static const struct {
    struct option option;
    int commands;
} options[] = {
    { { "seeds", required_argument, NULL, 's' }, SIM_EXPLORE },
    { { "seconds", required_argument, NULL, 'S' }, SIM_EXPLORE },
    { { "processes", required_argument, NULL, 'p' }, SIM_EXPLORE | SIM_REPLAY },
    { { "threads", required_argument, NULL, 't' }, SIM_EXPLORE | SIM_REPLAY },
    { { "rounds", required_argument, NULL, 'r' }, SIM_EXPLORE | SIM_REPLAY },
    { { "faults", optional_argument, NULL, 'f' }, SIM_EXPLORE | SIM_REPLAY },
    { { "stop-every", no_argument, NULL, 'e' }, SIM_EXPLORE },
    { { "one-node", no_argument, NULL, 'n' }, SIM_EXPLORE | SIM_REPLAY },
    { { "owner", no_argument, NULL, 'o' }, SIM_EXPLORE | SIM_REPLAY },
    { { "device-memory", no_argument, NULL, 'D' }, SIM_EXPLORE | SIM_REPLAY },
    { { "asleep", no_argument, NULL, 'a' }, SIM_EXPLORE | SIM_REPLAY },
    { { "torn-words", no_argument, NULL, 'w' }, SIM_EXPLORE | SIM_REPLAY },
    { { "strategy", required_argument, NULL, 'y' }, SIM_EXPLORE | SIM_REPLAY },
    { { "jobs", required_argument, NULL, 'j' }, SIM_EXPLORE },
    { { "run-seconds", required_argument, NULL, 'l' }, SIM_EXPLORE | SIM_REPLAY },
    { { "keep-going", no_argument, NULL, 'k' }, SIM_EXPLORE },
    { { "json", no_argument, NULL, 'J' }, SIM_EXPLORE },
    { { "channel", required_argument, NULL, 'c' }, SIM_REPLAY },
    { { "trace", required_argument, NULL, 'T' }, SIM_REPLAY },
    { { "draw", required_argument, NULL, 'd' }, SIM_REPLAY },
    { { "no-shrink", no_argument, NULL, 'N' }, SIM_REPLAY },
    { { "help", no_argument, NULL, 'h' }, SIM_EXPLORE | SIM_REPLAY },
    { { "version", no_argument, NULL, 'V' }, SIM_EXPLORE | SIM_REPLAY },
};
#define OPTIONS (sizeof options / sizeof options[0])

static const char *command_name(const struct sim_args *args)
{
    return args->command == SIM_EXPLORE ? "explore" : "replay";
}

int sim_args_wrong(const struct sim_args *args, const char *format, ...)
{
    va_list list;

    fprintf(stderr, "loco-sim %s: ", command_name(args));
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "; see loco-sim %s --help\n", command_name(args));
    return 2;
}

/* ---- values ---- */

/* The whole text must be a number; *end, if it is not NULL, may hold more behind it. */
static bool number(const char *text, const char **end, uint64_t *value)
{
    char *stop;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &stop, 10);
    if (end != NULL)
        *end = stop;
    return errno == 0 && (end != NULL || *stop == '\0');
}

static int take_int(const struct sim_args *args, const char *option, const char *text, int max,
                    int *value)
{
    uint64_t n;

    if (!number(text, NULL, &n) || n < 1 || n > (uint64_t)max)
        return sim_args_wrong(args, "--%s \"%s\": say a number of 1 to %d", option, text, max);
    *value = (int)n;
    return -1;
}

static int take_seconds(const struct sim_args *args, const char *option, const char *text,
                        double *value)
{
    char *end;
    double seconds = strtod(text, &end);

    if (end == text || *end != '\0' || !(seconds >= 0.01) || seconds > 1e7)
        return sim_args_wrong(args, "--%s \"%s\": say seconds, 0.01 to 10000000", option, text);
    *value = seconds;
    return -1;
}

/* A..B, or one number. */
static int take_seeds(struct sim_args *args, const char *text)
{
    const char *end = text;
    bool right = number(text, &end, &args->first);

    args->last = args->first;
    if (right && strncmp(end, "..", 2) == 0)
        right = number(end + 2, &end, &args->last);
    if (!right || *end != '\0' || args->last < args->first || args->last == UINT64_MAX)
        return sim_args_wrong(args, "--seeds \"%s\": say the first and the last, as 1..10000",
                              text);
    args->seeds = true;
    return -1;
}

static int take_strategy(struct sim_args *args, const char *text)
{
    if (sim_strategy_named(text, &args->strategy))
        return -1;
    return sim_args_wrong(args, "--strategy \"%s\": there are auto, uniform, sticky, priority, "
                          "lazy and eager", text);
}

static int take_faults(struct sim_args *args, const char *text)
{
    if (sim_faults_named(text != NULL ? text : "any", &args->faults))
        return -1;
    return sim_args_wrong(args, "--faults=%s: there are any, stop, slow and messages", text);
}

/* ---- options ---- */

static int help(const struct sim_args *args)
{
    fputs(args->command == SIM_EXPLORE ? explore_help : replay_help, stdout);
    return 0;
}

/* A switch over all options: long, but flat. */
static int take(struct sim_args *args, int option, const char *value)
{
    switch (option) {
    case 's': return take_seeds(args, value);
    case 'S': args->time = true; return take_seconds(args, "seconds", value, &args->seconds);
    case 'p': return take_int(args, "processes", value, SIM_MAX_PROCESSES, &args->processes);
    case 't': return take_int(args, "threads", value, SIM_MAX_THREADS, &args->threads);
    case 'r': return take_int(args, "rounds", value, SIM_MAX_ROUNDS, &args->rounds);
    case 'f': return take_faults(args, value);
    case 'e': args->stop_every = true; return -1;
    case 'n': args->one_node = true; return -1;
    case 'o': args->owner = true; return -1;
    case 'a': args->asleep = true; return -1;
    case 'D': args->device_memory = true; return -1;
    case 'w': args->torn_words = true; return -1;
    case 'y': return take_strategy(args, value);
    case 'j': return take_int(args, "jobs", value, MOST_JOBS, &args->jobs);
    case 'l': return take_seconds(args, "run-seconds", value, &args->limit);
    case 'k': args->keep_going = true; return -1;
    case 'J': args->json = true; return -1;
    case 'c': args->channel = value; return -1;
    case 'T': args->trace = value; return -1;
    case 'd': args->draw = value; return -1;
    case 'N': args->no_shrink = true; return -1;
    case 'h': return help(args);
    case 'V': printf("loco-sim %s\n", PACKAGE_VERSION); return 0;
    default: return 2;
    }
}

static int unknown(const struct sim_args *args, int c, char **argv)
{
    const char *text = argv[optind - 1];

    if (c == ':')
        return sim_args_wrong(args, "%s wants a value behind it", text);
    return sim_args_wrong(args, "there is no option %s here, or it takes no value", text);
}

static int check(struct sim_args *args)
{
    if (args->target == NULL)
        return sim_args_wrong(args, args->command == SIM_EXPLORE
                              ? "say which channel, or all; `loco-sim list` shows them"
                              : "say which seed, as a failure printed it");
    if (args->faults != SIM_CALM && args->stop_every)
        return sim_args_wrong(args, "--faults draws what fails, --stop-every tries all stops: say "
                              "one of them");
    if (args->stop_every && !args->seeds)
        args->first = args->last = 1;
    return -1;
}

int sim_args_read(enum sim_command command, int argc, char **argv, struct sim_args *args)
{
    struct option mine[OPTIONS + 1] = { { NULL, 0, NULL, 0 } };
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    int n = 0, c, result = -1;

    *args = (struct sim_args){ .command = command, .first = 1, .last = 10000,
                               .limit = DEFAULT_LIMIT, .strategy = LOCI_SIM_AUTO,
                               .jobs = cpus < 1 ? 1 : cpus > MOST_JOBS ? MOST_JOBS : (int)cpus };
    for (size_t i = 0; i < OPTIONS; i++)
        if ((options[i].commands & (int)command) != 0)
            mine[n++] = options[i].option;
    opterr = 0;
    while (result < 0 && (c = getopt_long(argc, argv, ":h", mine, NULL)) != -1)
        result = c == '?' || c == ':' ? unknown(args, c, argv) : take(args, c, optarg);
    if (result >= 0)
        return result;
    if (optind < argc)
        args->target = argv[optind++];
    if (optind < argc)
        return sim_args_wrong(args, "\"%s\" is one argument too many", argv[optind]);
    return check(args);
}

/* ---- the case ---- */

/* One kind of network; that of --owner does not tear words. */
static bool check_network(const struct sim_args *args)
{
    if (args->one_node && (args->device_memory || args->owner))
        sim_args_wrong(args, "--one-node has no %s away", args->owner
                       ? "other nodes: leave --owner" : "devices: leave --device-memory");
    else if (args->owner && (args->device_memory || args->torn_words))
        sim_args_wrong(args, "--owner %s away", args->device_memory
                       ? "has no devices: leave --device-memory"
                       : "keeps words whole: leave --torn-words");
    else
        return true;
    return false;
}

bool sim_args_case(const struct sim_args *args, const struct sim_scenario *scenario,
                   struct sim_case *c)
{
    sim_case_init(c, scenario);
    if (args->processes > 0)
        c->processes = args->processes;
    if (args->threads > 0)
        c->threads = args->threads;
    if (args->rounds > 0)
        c->rounds = args->rounds;
    if (!check_network(args))
        return false;
    c->one_node = args->one_node;
    c->owner = args->owner;
    c->device_memory = args->device_memory;
    c->asleep = args->asleep;
    c->torn_words = args->torn_words;
    c->faults = args->faults;
    c->strategy = args->strategy;
    if (c->processes >= scenario->processes_min)
        return true;
    sim_args_wrong(args, "--processes %d: %s needs at least %d", c->processes, scenario->name,
                   scenario->processes_min);
    return false;
}
