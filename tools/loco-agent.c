/* SPDX-License-Identifier: BSD-3-Clause */

/* loco-agent: keeps a pool of memory on this machine, for programs that come and go. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <loco/pool.h>

#include "pool/agent.h"

enum { OK = 0, FAILED = 1, USAGE = 2 };

struct options {
    loco_agent_options_t agent;
    bool json;
    const char *log;            /* of `start`: a file; NULL: none */
};

static const char usage[] =
    "usage: loco-agent run    --pool NAME [--memory SIZE] [--places N] [--join HOST[:PORT]]\n"
    "                         [--port PORT] [--secret FILE] [--ports N]\n"
    "       loco-agent start  the same, and [--log FILE]\n"
    "       loco-agent status --pool NAME [--json]\n"
    "       loco-agent stop   --pool NAME\n"
    "\n"
    "Keep a pool of memory that programs find stores in by name (loco_pool_open).\n"
    "run stays in the foreground; start returns when the pool can be opened.\n"
    "  -p, --pool NAME     letters, digits, '.', '_' and '-'\n"
    "  -m, --memory SIZE   bytes that all stores may take together, with K, M, G or T;\n"
    "                      otherwise what the machine has\n"
    "  -n, --places N      processes that may be in the pool at a time (64)\n"
    "  -J, --join HOST     of several machines: any that has an agent of the pool, the\n"
    "                      first its own; HOST:PORT, if that has a --port\n"
    "  -P, --port PORT     where other machines connect (by the pool's name)\n"
    "  -s, --secret FILE   that all machines of the pool have (~/.loco/NAME.secret)\n"
    "  -w, --ports N       processes of this machine that may reach the others by way\n"
    "                      of this agent at a time, without connections of their own\n"
    "                      (as many as places, but at most 64); 0: none\n"
    "  -l, --log FILE      where start writes what goes wrong (nowhere)\n"
    "  -j, --json          status as JSON\n"
    "  -h, --help\n"
    "  -V, --version\n";

/* ---- running ---- */

static int alone(void *ctx, const void *mine, size_t len, void *all)
{
    (void)ctx;
    memcpy(all, mine, len);
    return LOCO_OK;
}

static void end_this(void *ctx)
{
    (void)ctx;
    kill(getpid(), SIGTERM);
}

static void wait_for_signal(const sigset_t *set)
{
    int which;

    while (sigwait(set, &which) != 0)
        ;
}

/* Whoever starts it hears what goes wrong before it is ready; from then on, the log does. */
static void tell_ready(const struct options *o, int ready, int log)
{
    if (ready < 0) {
        printf("loco-agent: pool %s is there (pid %d)\n", o->agent.pool, (int)getpid());
        fflush(stdout);
        return;
    }
    (void)!write(ready, "+", 1);
    dup2(log, 2);
}

/* `ready`: a descriptor that is told of it, and `log` where messages go then; -1: nobody waits. */
static int run(const struct options *o, int ready, int log)
{
    const struct loco_bootstrap boot = {
        .identity = loci_pool_identity(), .exchange = { .size = 1, .allgather = alone },
        .other_machines = o->agent.join != NULL,
    };
    loco_runtime_t *rt;
    loco_agent_t *agent;
    sigset_t set;
    int status;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);     /* before there are threads */
    status = loco_runtime_open(&boot, &rt);
    if (status != LOCO_OK) {
        fprintf(stderr, "loco-agent: no runtime: %s\n", loco_strerror(status));
        return FAILED;
    }
    status = loco_agent_start(rt, &o->agent, &agent);
    if (status == LOCO_OK) {
        loci_agent_on_stop(agent, end_this, NULL);
        tell_ready(o, ready, log);
        wait_for_signal(&set);
        loco_agent_stop(agent);
    }
    loco_runtime_close(rt);
    return status == LOCO_OK ? OK : FAILED;
}

/* In the background, of no terminal. What its caller had open it does not keep: it would hold that
 * caller's locks, and ends of pipes, for as long as the pool is there. */
static int be_background(const struct options *o, int caller)
{
    int ready = 3, null, log;

    if (caller != ready && dup3(caller, ready, O_CLOEXEC) < 0)
        return FAILED;
    closefrom(ready + 1);
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    log = o->log != NULL ? open(o->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : null;
    if (setsid() < 0 || null < 0 || log < 0) {
        fprintf(stderr, "loco-agent: %s: %s\n", o->log != NULL ? o->log : "/dev/null",
                strerror(errno));
        return FAILED;
    }
    if (chdir("/") != 0)
        return FAILED;
    dup2(null, 0);
    dup2(null, 1);
    return run(o, ready, log);
}

static int start(const struct options *o)
{
    int ready[2];
    char byte;
    pid_t pid;

    if (pipe2(ready, O_CLOEXEC) != 0)
        return FAILED;
    pid = fork();
    if (pid < 0) {
        fprintf(stderr, "loco-agent: fork: %s\n", strerror(errno));
        return FAILED;
    }
    if (pid == 0) {
        close(ready[0]);
        _exit(be_background(o, ready[1]));
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) == 1) {
        printf("loco-agent: pool %s is there (pid %d)\n", o->agent.pool, (int)pid);
        return OK;
    }
    waitpid(pid, NULL, 0);
    return FAILED;
}

/* ---- asking ---- */

/* The answer, or a message and FAILED. */
static int ask(const struct options *o, enum loci_pool_ask what, struct loci_pool_reply *reply,
               int *fd)
{
    struct loci_pool_request request = { .ask = what };
    int status;

    *fd = loci_pool_connect(NULL, "loco-agent", o->agent.pool);
    if (*fd < 0)
        return FAILED;                  /* said by the library */
    status = loci_pool_ask(NULL, *fd, &request, reply);
    if (status == LOCO_OK)
        return OK;
    fprintf(stderr, "loco-agent: the agent of pool %s: %s\n", o->agent.pool,
            loco_strerror(status));
    close(*fd);
    return FAILED;
}

/* The agents of a pool of several machines, one after the other. */
static int show_agents(const struct options *o, int fd)
{
    struct loci_pool_request request = { .ask = LOCI_POOL_AGENTS };
    struct loci_pool_reply reply = { .status = LOCO_OK };
    bool any = false;
    int status;

    for (; reply.status != LOCO_ERR_RANGE; request.bytes++) {
        const struct loci_agent_record *r = &reply.agent;

        status = loci_pool_ask(NULL, fd, &request, &reply);
        if (status != LOCO_OK)
            return status;
        if (reply.status != LOCO_OK)
            continue;
        if (o->json)
            printf("%s{\"machine\": \"%s\", \"pid\": %" PRIu64 ", \"reached\": %s, \"stores\": %"
                   PRIu64 "}", any ? ", " : "", r->machine, r->pid,
                   r->state == LOCI_AGENT_UP ? "true" : "false", reply.agent_stores);
        else
            printf("agent             %s, pid %" PRIu64 ", %" PRIu64 " stores%s\n", r->machine,
                   r->pid, reply.agent_stores,
                   r->state == LOCI_AGENT_UP ? "" : ", OUT OF REACH");
        any = true;
    }
    return LOCO_OK;
}

static int show_status(const struct options *o)
{
    struct loci_pool_reply reply;
    const loco_agent_stats_t *s = &reply.stats;
    int fd, result = ask(o, LOCI_POOL_STATUS, &reply, &fd);

    if (result != OK)
        return result;
    if (o->json)
        printf("{\"pool\": \"%s\", \"pid\": %d, \"places\": %d, \"clients\": %" PRIu64
               ", \"attached\": %" PRIu64 ", \"died\": %" PRIu64 ", \"cleaned\": %" PRIu64
               ", \"leaving\": %" PRIu64 ", \"stores\": %" PRIu64 ", \"removed\": %" PRIu64
               ", \"memory\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"ports\": %" PRIu64
               ", \"port_requests\": %" PRIu64 ", \"port_refused\": %" PRIu64
               ", \"port_failed\": %" PRIu64 ", \"agents\": [",
               o->agent.pool, reply.pid, reply.places, s->clients, s->attached, s->died,
               s->cleaned, s->leaving, s->stores, s->removed, s->memory, s->refused, s->ports,
               s->port_requests, s->port_refused, s->port_failed);
    else
        printf("pool %s, agent's pid %d\n"
               "processes now     %" PRIu64 " of %d, and %" PRIu64 " places to be cleaned up\n"
               "so far            %" PRIu64 ", of which %" PRIu64 " died, %" PRIu64
               " of them in the middle of something\n"
               "stores            %" PRIu64 ", and %" PRIu64 " that are removed and still in use\n"
               "memory of stores  %.1f MiB\n"
               "refused           %" PRIu64 " connections and questions\n", o->agent.pool,
               reply.pid, s->clients, reply.places, s->leaving, s->attached, s->died, s->cleaned,
               s->stores, s->removed, (double)s->memory / 1048576, s->refused);
    if (!o->json && reply.several != 0)
        printf("ports             %" PRIu64 " processes go by them; so far %" PRIu64
               " requests, of which %" PRIu64 " were refused and %" PRIu64 " failed\n", s->ports,
               s->port_requests, s->port_refused, s->port_failed);
    result = o->json || reply.several != 0 ? show_agents(o, fd) : LOCO_OK;
    if (o->json)
        puts("]}");
    close(fd);
    return result == LOCO_OK ? OK : FAILED;
}

/* Until it has ended: by the end of the connection. */
static int stop(const struct options *o)
{
    struct loci_pool_reply reply;
    int fd, result = ask(o, LOCI_POOL_STOP, &reply, &fd);
    char byte;

    if (result != OK)
        return result;
    while (recv(fd, &byte, 1, 0) > 0)
        ;
    close(fd);
    while (kill(reply.pid, 0) == 0)
        usleep(1000);
    return OK;
}

/* ---- the command line ---- */

static bool parse_size(const char *text, uint64_t *size)
{
    static const char units[] = "KMGT";
    char *end;
    unsigned long long n;
    const char *unit;

    errno = 0;
    n = strtoull(text, &end, 10);
    if (errno != 0 || end == text || text[0] == '-' || n == 0)
        return false;
    *size = n;
    if (*end == '\0')
        return true;
    unit = strchr(units, *end);
    if (unit == NULL || end[1] != '\0' || n > UINT64_MAX >> 10 * (unit - units + 1))
        return false;
    *size = n << 10 * (unit - units + 1);
    return true;
}

static bool parse_number(const char *text, int most, int *number)
{
    char *end;
    long n;

    errno = 0;
    n = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || n < 1 || n > most)
        return false;
    *number = (int)n;
    return true;
}

static int complain(const char *what, const char *value)
{
    fprintf(stderr, "loco-agent: %s %s\n%s", what, value, usage);
    return USAGE;
}

/* -1: go on. */
static int parse(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        { "pool", required_argument, NULL, 'p' }, { "memory", required_argument, NULL, 'm' },
        { "places", required_argument, NULL, 'n' }, { "log", required_argument, NULL, 'l' },
        { "join", required_argument, NULL, 'J' }, { "port", required_argument, NULL, 'P' },
        { "secret", required_argument, NULL, 's' }, { "ports", required_argument, NULL, 'w' },
        { "json", no_argument, NULL, 'j' }, { "help", no_argument, NULL, 'h' },
        { "version", no_argument, NULL, 'V' }, { NULL, 0, NULL, 0 }
    };
    int option;

    while ((option = getopt_long(argc, argv, "p:m:n:l:J:P:s:w:jhV", longs, NULL)) != -1) {
        switch (option) {
        case 'p': o->agent.pool = optarg; break;
        case 'm':
            if (!parse_size(optarg, &o->agent.memory))
                return complain("no size:", optarg);
            break;
        case 'n':
            if (!parse_number(optarg, LOCI_AGENT_PLACES_MOST, &o->agent.places))
                return complain("places are 1 to 1024, not", optarg);
            break;
        case 'J': o->agent.join = optarg; break;
        case 'P':
            if (!parse_number(optarg, 65535, &o->agent.port))
                return complain("ports are 1 to 65535, not", optarg);
            break;
        case 's': o->agent.secret = optarg; break;
        case 'w':
            if (strcmp(optarg, "0") == 0)
                o->agent.ports = -1;
            else if (!parse_number(optarg, LOCI_AGENT_PLACES_MOST, &o->agent.ports))
                return complain("processes with ports are 0 to 1024, not", optarg);
            break;
        case 'l': o->log = optarg; break;
        case 'j': o->json = true; break;
        case 'h': fputs(usage, stdout); return OK;
        case 'V': puts("loco-agent " PACKAGE_VERSION); return OK;
        default: fputs(usage, stderr); return USAGE;
        }
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct options o = { .json = false };
    int result = parse(argc, argv, &o);
    const char *command = optind < argc ? argv[optind] : "";

    if (result >= 0)
        return result;
    if (optind + 1 < argc)
        return complain("unexpected argument", argv[optind + 1]);
    if (o.agent.pool == NULL)
        return complain("which pool? --pool NAME", "");
    if (o.agent.join == NULL
        && (o.agent.port != 0 || o.agent.secret != NULL || o.agent.ports != 0))
        return complain("only a pool of several machines (--join) has", o.agent.port != 0
                        ? "a port" : o.agent.secret != NULL ? "a secret" : "ports");
    if (strcmp(command, "run") == 0)
        return run(&o, -1, -1);
    if (strcmp(command, "start") == 0)
        return start(&o);
    if (strcmp(command, "status") == 0)
        return show_status(&o);
    if (strcmp(command, "stop") == 0)
        return stop(&o);
    return complain(command[0] == '\0' ? "what to do?" : "no command", command);
}
