/* SPDX-License-Identifier: BSD-3-Clause */

/* Other users of the machine cannot slow a job down.
 *
 * In a network namespace of their own, two members make channels, and then windows of 64 MiB
 * each, as fast as they can. Beside them four processes of another user do all that such a user
 * may: three send to each local socket that the system lists, and connect to it, with garbage, with
 * messages that look right, with descriptors; one locks each file of ours that it can open. For a
 * moment they do so to the members' sockets and files, for the next to some of their own, and so
 * on: what the members manage in the one is judged against what they manage in the other, which
 * holds on a busy machine, too. Then the same with each member in a pid namespace of its own, as in
 * containers that share their host's network.
 *
 * It takes root. With an argument they are attacked for so many seconds, in place of 5, with
 * channels and then with windows; with a second one the strangers are so much nicer. */

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <loco/barrier.h>
#include <loco/window.h>

#include "fabric/shm/shm.h"
#include "machine.h"
#include "run.h"

#define NOBODY 65534
#define MEMBERS 2
#define FLOODERS 3
#define NAMES 64
#define WINDOW ((size_t)64 << 20)
#define EXCHANGE 8192
#define LONGEST INT64_C(500000000)          /* ns that strangers may add to a wait */

/* ---- what all share ---- */

enum phase { IDLE, SPARED, ATTACKED, PHASES, ENDED };
enum kind { CHANNELS, WINDOWS, KINDS };

/* us that they are attacked, or spared, at a time. A lock is held for the whole of it. */
static const int slice[KINDS] = { 250000, 2500000 };

struct tally {
    int64_t ns, longest;
    long made;
};

struct stage {
    _Atomic int phase, kind;                /* enum phase, enum kind */
    _Atomic int lines;                      /* of members' logs while they were attacked */
    _Atomic long sent[PHASES], locks[PHASES];   /* by strangers: tries that the system took */
    _Atomic int pids[MEMBERS];
    struct tally tally[KINDS][PHASES];      /* member 0's */
    _Atomic long arrived;                   /* at exchanges */
    unsigned char exchanged[2][MEMBERS][EXCHANGE];  /* of every other one */
    bool apart;                             /* each member in a pid namespace of its own */
};

static struct stage *stage;

/* ---- strangers ---- */

struct target {
    struct sockaddr_un name;
    socklen_t len;
    unsigned long long identity, label;
};

/* Names of sockets that the system lists: the strangers' own, or all others. */
static int list_targets(struct target *targets, bool own)
{
    char line[512], at[200];
    int n = 0;
    FILE *f = fopen("/proc/net/unix", "re");

    while (f != NULL && n < NAMES && fgets(line, sizeof line, f) != NULL) {
        struct target *t = &targets[n];

        if (sscanf(line, "%*s %*s %*s %*s %*s %*s %*s @%100s", at) != 1
            || (strncmp(at, "decoy", 5) == 0) != own)
            continue;
        memset(t, 0, sizeof *t);
        t->name.sun_family = AF_UNIX;
        strcpy(t->name.sun_path + 1, at);
        t->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(at));
        sscanf(at, "loco.%llx.%llx", &t->identity, &t->label);
        n++;
    }
    if (f != NULL)
        fclose(f);
    return n;
}

static void send_one(int from, const struct target *t, const void *bytes, size_t len, int extra)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = { .bytes = { 0 } };
    struct iovec part = { (void *)bytes, len };
    struct msghdr m = {
        .msg_name = (void *)&t->name, .msg_namelen = t->len, .msg_iov = &part, .msg_iovlen = 1,
    };

    if (extra >= 0) {
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof control.bytes;
        control.align = (struct cmsghdr){ CMSG_LEN(sizeof extra), SOL_SOCKET, SCM_RIGHTS };
        memcpy(CMSG_DATA(&control.align), &extra, sizeof extra);
    }
    if (sendmsg(from, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
        atomic_fetch_add(&stage->sent[atomic_load(&stage->phase) % PHASES], 1);
}

/* As another member would send it, but for what only members know. */
static void send_plausible(int from, const struct target *t, const struct target *as, int extra)
{
    static uint16_t type;
    struct shm_message m = { .head = {
        .magic = SHM_MAGIC, .version = SHM_VERSION, .len = sizeof m.head + 48,
        .type = (uint16_t)(SHM_CONTROL + type++ % 10), .from = as->identity, .label = as->label,
    } };

    if (type % 2 == 0)
        m.head.len = sizeof m.head;
    send_one(from, t, &m, m.head.len, extra);
}

static void flood_once(const struct target *targets, int n, int from, int extra)
{
    static const unsigned char garbage[4096] = "garbage";
    static const int kinds[] = { SOCK_DGRAM, SOCK_STREAM, SOCK_SEQPACKET };

    for (int i = 0; i < n; i++) {
        const struct target *t = &targets[i];

        for (int k = 0; k < 8; k++) {
            send_one(from, t, garbage, k < 4 ? 100 : sizeof garbage, -1);
            send_plausible(from, t, &targets[(i + k) % n], k == 0 ? extra : -1);
        }
        for (int k = 0; k < 3; k++) {
            int fd = socket(AF_UNIX, kinds[k] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

            (void)!connect(fd, (const struct sockaddr *)&t->name, t->len);
            (void)!send(fd, garbage, 100, MSG_NOSIGNAL | MSG_DONTWAIT);
            close(fd);
        }
    }
}

/* Until the end. It has a socket of its own for the times when it spares the members. */
static void flood(int number)
{
    struct target targets[NAMES];
    struct sockaddr_un decoy = { .sun_family = AF_UNIX };
    int own = socket(AF_UNIX, SOCK_DGRAM, 0), from = socket(AF_UNIX, SOCK_DGRAM, 0);
    int extra = memfd_create("extra", 0), n = 0, phase = IDLE, now;
    int len = snprintf(decoy.sun_path + 1, 32, "decoy.%d", number);
    int64_t listed = 0;

    (void)!bind(own, (struct sockaddr *)&decoy,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)len);
    while ((now = atomic_load(&stage->phase)) != ENDED) {
        if (now == IDLE) {
            usleep(1000);
            continue;
        }
        if (now != phase || run_now() - listed > 50000000) {
            n = list_targets(targets, now == SPARED);
            listed = run_now();
            phase = now;
        }
        flood_once(targets, n, from, extra);
    }
}

/* All that a member may lock and others can open. */
static int open_all(int *fds, int most)
{
    static const char *const places[] = {
        "/", "/tmp", "/dev/shm", "/run", "/var/tmp", "/proc", "/sys", "/dev/null", "/etc/passwd",
        "/proc/self/ns/net", "/proc/self/ns/pid", "/proc/self/ns/mnt", "/proc/self/ns/user",
        "/proc/self/ns/ipc", "/proc/self/ns/uts", "/proc/self/ns/cgroup", "/proc/net/unix",
        "/proc/locks", "/proc/meminfo",
    };
    static const char *const files[] = { "", "/stat", "/fd", "/ns/net", "/exe", "/maps", "/mem" };
    int n = 0;

    for (size_t i = 0; i < sizeof places / sizeof places[0] && n < most; i++)
        if ((fds[n] = open(places[i], O_RDONLY | O_CLOEXEC)) >= 0)
            n++;
    for (int m = 0; m < MEMBERS; m++)
        for (size_t i = 0; i < sizeof files / sizeof files[0] && n < most; i++) {
            char path[64];

            snprintf(path, sizeof path, "/proc/%d%s", atomic_load(&stage->pids[m]), files[i]);
            if ((fds[n] = open(path, O_RDONLY | O_CLOEXEC)) >= 0)
                n++;
        }
    return n;
}

static void lock_all(void)
{
    int fds[NAMES], n = 0, phase = IDLE, now;
    bool held[NAMES] = { false };

    while ((now = atomic_load(&stage->phase)) != ENDED) {
        if (now != phase) {
            while (n > 0)
                close(fds[--n]);
            memset(held, 0, sizeof held);
            phase = now;
        }
        if (now == ATTACKED && n == 0)
            n = open_all(fds, NAMES);
        for (int i = 0; i < n; i++)
            if (!held[i] && flock(fds[i], LOCK_EX | LOCK_NB) == 0) {
                held[i] = true;
                atomic_fetch_add(&stage->locks[now % PHASES], 1);
            }
        usleep(100);
    }
}

static void start_strangers(pid_t *pids, int nice_value)
{
    for (int i = 0; i <= FLOODERS; i++) {
        pids[i] = fork();
        if (pids[i] != 0)
            continue;
        errno = 0;      /* as nice as the members, and so much nicer */
        if ((nice(nice_value) == -1 && errno != 0)
            || setresgid(NOBODY, NOBODY, NOBODY) != 0 || setresuid(NOBODY, NOBODY, NOBODY) != 0
            || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
            _exit(1);
        if (i < FLOODERS)
            flood(i);
        else
            lock_all();
        _exit(0);
    }
}

/* ---- members ---- */

/* The exchange of a bootstrap, through the stage: that of forked members asks for lives by pids,
 * which say nothing in other pid namespaces. A member is at most one exchange ahead. */
static int gather(void *ctx, const void *mine, size_t len, void *all)
{
    struct loco_exchange *x = ctx;
    static long round;
    unsigned char (*at)[EXCHANGE] = stage->exchanged[round++ % 2];
    int64_t start = run_now();

    if (len > EXCHANGE)
        return LOCO_ERR_ARG;
    if (len > 0)
        memcpy(at[x->rank], mine, len);
    atomic_fetch_add(&stage->arrived, 1);
    while (atomic_load(&stage->arrived) < round * MEMBERS) {
        if (run_now() - start > 60000000000)
            return LOCO_ERR_TIMEOUT;
        sched_yield();
    }
    for (int i = 0; i < MEMBERS && len > 0; i++)
        memcpy((unsigned char *)all + (size_t)i * len, at[i], len);
    return LOCO_OK;
}

static void count_lines(void *ctx, int level, const char *text)
{
    (void)ctx;
    (void)level;
    printf("# %s\n", text);
    fflush(stdout);
    if (atomic_load(&stage->phase) == ATTACKED)
        atomic_fetch_add(&stage->lines, 1);
}

static int make_channel(loco_runtime_t *rt, long number)
{
    loco_barrier_t *barrier;
    char name[32];
    int status;

    snprintf(name, sizeof name, "b%ld", number);
    status = loco_barrier_create(rt, NULL, name, loco_everyone(rt), &barrier);
    if (status != LOCO_OK)
        return status;
    status = loco_runtime_wait_ready(rt, 60000000000);
    if (status == LOCO_OK)
        status = loco_barrier_wait(barrier);
    loco_barrier_destroy(barrier);
    return status;
}

/* All of it is used. Strangers that pretend to owe memory (memory/promise.c) have windows filled
 * when they are made; else they are filled when they are touched. */
static int make_window(loco_runtime_t *rt, const struct loco_exchange *exchange)
{
    const struct loco_window_spec spec = {
        .kind = LOCO_WINDOW_ALLOCATE, .size = WINDOW, .disp_unit = 1,
    };
    struct loco_window *win;
    int status = loco_window_create(rt, exchange, &spec, &win);

    if (status != LOCO_OK)
        return status;
    for (size_t at = 0; at < WINDOW; at += 4096)
        ((unsigned char *)loco_window_base(win))[at] = 1;
    return loco_window_destroy(win);
}

static void count(int kind, int phase, int64_t ns)
{
    struct tally *t = &stage->tally[kind][phase];

    t->ns += ns;
    t->made++;
    if (ns > t->longest)
        t->longest = ns;
}

/* Member 0 looks at the stage for both. What began in a phase counts for it. */
static int makes_until_the_end(const struct loco_bootstrap *boot)
{
    struct loco_bootstrap own = *boot;
    struct loco_exchange *x = &own.exchange;
    loco_runtime_t *rt;
    long number = 0;
    int status;

    own.log = count_lines;
    x->ctx = x;
    x->allgather = gather;
    status = loco_runtime_open(&own, &rt);
    if (status != LOCO_OK)
        printf("# open: %s\n", loco_strerror(status));
    NEED(status == LOCO_OK);
    for (;;) {
        int what[2] = { atomic_load(&stage->phase), atomic_load(&stage->kind) };
        int both[MEMBERS][2];
        int64_t start;

        NEED(x->allgather(x->ctx, what, sizeof what, both) == LOCO_OK);
        if (both[0][0] == ENDED)
            break;
        start = run_now();
        NEED((both[0][1] == CHANNELS ? make_channel(rt, number++) : make_window(rt, x))
             == LOCO_OK);
        if (x->rank == 0)
            count(both[0][1], both[0][0], run_now() - start);
    }
    loco_runtime_close(rt);
    return 0;
}

static int member(const struct loco_bootstrap *boot, void *arg)
{
    int status = 1;
    pid_t pid;

    (void)arg;
    atomic_store(&stage->pids[boot->exchange.rank], (int)getpid());
    if (!stage->apart)
        return makes_until_the_end(boot);
    NEED(unshare(CLONE_NEWPID) == 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        status = makes_until_the_end(boot);
        fflush(stdout);
        _exit(status);
    }
    NEED(waitpid(pid, &status, 0) == pid);
    return status != 0;
}

/* ---- the test ---- */

static void enter_phase(enum phase phase, enum kind kind, unsigned microseconds)
{
    atomic_store(&stage->kind, kind);
    atomic_store(&stage->phase, phase);
    usleep(microseconds);
}

static double rate(enum kind kind, enum phase phase)
{
    const struct tally *t = &stage->tally[kind][phase];

    return t->ns > 0 ? (double)t->made / ((double)t->ns * 1e-9) : 0;
}

static bool makes_half(enum kind kind)
{
    return rate(kind, ATTACKED) > 0 && rate(kind, ATTACKED) >= rate(kind, SPARED) / 2;
}

static bool waits_no_longer(enum kind kind)
{
    return stage->tally[kind][ATTACKED].longest
           <= stage->tally[kind][SPARED].longest + run_limit(LONGEST);
}

static void say_figures(void)
{
    static const char *const what[] = { "channels", "windows of 64 MiB" };

    for (int kind = CHANNELS; kind < KINDS; kind++)
        printf("# %s a second: %.1f, longest %.3f s; attacked: %.1f, longest %.3f s\n", what[kind],
               rate(kind, SPARED), (double)stage->tally[kind][SPARED].longest * 1e-9,
               rate(kind, ATTACKED), (double)stage->tally[kind][ATTACKED].longest * 1e-9);
    printf("# sent by strangers: %ld messages and more that did not go, %ld when attacking; %ld "
           "locks; %d lines in logs\n", stage->sent[SPARED], stage->sent[ATTACKED],
           stage->locks[ATTACKED], stage->lines);
}

/* Whether members and strangers ran to the end. */
static bool run_stage(bool apart, int seconds, int nice_value)
{
    pid_t strangers[FLOODERS + 1];
    int statuses[MEMBERS], status;
    loco_fork_t *job;
    bool all_ended = true;

    memset(stage, 0, sizeof *stage);
    stage->apart = apart;
    start_strangers(strangers, nice_value);
    status = loco_fork_start(MEMBERS, member, NULL, &job);
    enter_phase(IDLE, CHANNELS, 300000);
    for (int kind = CHANNELS; kind < KINDS; kind++)
        for (int i = 0; i < seconds * 1000000 / slice[kind]; i++) {
            enter_phase(SPARED, kind, (unsigned)slice[kind]);
            enter_phase(ATTACKED, kind, (unsigned)slice[kind]);
        }
    atomic_store(&stage->phase, ENDED);
    if (status == LOCO_OK)
        status = loco_fork_wait(job, statuses);
    for (int i = 0; i <= FLOODERS; i++) {
        int ended;

        all_ended = waitpid(strangers[i], &ended, 0) == strangers[i] && ended == 0 && all_ended;
    }
    say_figures();
    return status == LOCO_OK && all_ended;
}

/* A machine that is busy with other things as well is so by fits and starts: up to three tries. */
static void test_stage(struct tap *tap, bool apart, int seconds, int nice_value)
{
    const char *how = apart ? ", members in pid namespaces of their own" : "";
    bool ran = false, good = false;

    for (int try = 0; try < 3 && !good; try++) {
        ran = run_stage(apart, seconds, nice_value);
        good = ran && makes_half(CHANNELS) && makes_half(WINDOWS) && waits_no_longer(CHANNELS)
               && waits_no_longer(WINDOWS);
    }
    tap_ok(tap, ran, "members and strangers ran%s", how);
    tap_ok(tap, makes_half(CHANNELS), "channels: at least half as many when attacked%s", how);
    tap_ok(tap, waits_no_longer(CHANNELS), "channels: no wait longer by 0.5 s%s", how);
    tap_ok(tap, makes_half(WINDOWS), "windows: at least half as many when attacked%s", how);
    tap_ok(tap, waits_no_longer(WINDOWS), "windows: no wait longer by 0.5 s%s", how);
    tap_ok(tap, stage->lines <= KINDS * seconds, "at most one line a second%s", how);
}

int main(int argc, char **argv)
{
    int seconds = argc > 1 ? atoi(argv[1]) : 5, nice_value = argc > 2 ? atoi(argv[2]) : 0;
    struct tap tap = { 0, 0 };

    stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (stage == MAP_FAILED)
        return 1;
    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) {
        fprintf(stderr, "strangers: NO SECOND USER and no network namespace could be had (it takes "
                "root): not tested\n");
        tap_skip(&tap, "other users cannot slow a job down", "be root");
        return tap_end(&tap);
    }
    test_stage(&tap, false, seconds, nice_value);
    test_stage(&tap, true, seconds, nice_value);
    return tap_end(&tap);
}
