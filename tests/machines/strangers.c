/* SPDX-License-Identifier: BSD-3-Clause */

/* strangers [CALLS]: a process that is not of the job, on a machine of its own, connects to every
 * port that two members listen on, CALLS times (2000), and says anything: random bytes, a few and
 * no more, nothing at all, a greeting without the secret, and many at once. Each connection is
 * closed by the member, in bounded time; meanwhile the members go on, and in the end hold no more
 * descriptors and threads than before. To be run on three machines (in_machines.c). Speaks TAP. */

#include "config.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <loco/loco.h>

#include "run.h"
#include "runtime.h"
#include "secret.h"
#include "tasks.h"

enum { MEMBERS = 2, PORTS = 8, AT_ONCE = 300, SECONDS = 500 };
/* Until one that says too little is closed; what a process may have to spare: a log's file. */
#define PATIENCE_MS (int)(run_limit(30000000000) / 1000000)
enum { SPARE = 2 };

static struct shared {
    int port[MEMBERS][PORTS];           /* 0: no more */
    struct loci_address address[MEMBERS];   /* without their secret */
    int fds[MEMBERS][2], threads[MEMBERS][2];   /* before and after */
    _Atomic int ready, over;
    _Atomic int closed, left_open, not_connected, rounds;
} *shared;

/* ---- who calls ---- */

static int call(int member, int port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char address[32];

    snprintf(address, sizeof address, "10.91.0.%d", 1 + member);
    if (fd < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1
        || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        atomic_fetch_add(&shared->not_connected, 1);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

/* What the member says is read, and it closes, or not in time. */
static void await_close(int fd)
{
    int64_t begin = run_now();
    struct pollfd look = { .fd = fd, .events = POLLIN };
    char heard[4096];
    ssize_t got = 1;

    while (got > 0 && run_now() - begin < PATIENCE_MS * INT64_C(1000000))
        if (poll(&look, 1, PATIENCE_MS) == 1)
            got = recv(fd, heard, sizeof heard, 0);
    atomic_fetch_add(got > 0 ? &shared->left_open : &shared->closed, 1);
    close(fd);
}

/* The other member's greeting, as who knows all but the secret would make it. */
static void forge_hello(int member, struct loci_hello *hello, uint64_t *state)
{
    struct loci_address to = shared->address[member];

    to.secret[0] = run_random(state);
    to.secret[1] = run_random(state);
    loci_hello_fill(hello, run_random(state) % 2 == 0 ? LOCI_CALL : LOCI_CALL_DATA,
                    &shared->address[1 - member], &to);
}

/* Of a length of up to 4 KiB; often of less than a greeting, or with one in front. */
static void say_anything(int member, int fd, uint64_t *state)
{
    _Alignas(struct loci_hello) unsigned char says[4096];
    size_t most = run_random(state) % 2 == 0 ? 128 : sizeof says;
    size_t len = 1 + run_random(state) % most, said = 0;

    for (size_t i = 0; i < sizeof says; i++)
        says[i] = (unsigned char)(run_random(state) >> 24);
    if (run_random(state) % 3 == 0) {
        forge_hello(member, (struct loci_hello *)(void *)says, state);
        len += sizeof(struct loci_hello);
    }
    len = len < sizeof says ? len : sizeof says;
    while (said < len) {
        ssize_t n = send(fd, says + said, len - said, MSG_NOSIGNAL);

        if (n <= 0)
            return;
        said += (size_t)n;
    }
    /* Half of them end what they say, so that nobody waits for the rest. */
    if (run_random(state) % 2 == 0)
        shutdown(fd, SHUT_WR);
}

static int ports_of(int member)
{
    int n = 0;

    while (n < PORTS && shared->port[member][n] != 0)
        n++;
    return n;
}

/* Callers that come at once, wait for nothing, and are still there: members go on. */
static void call_at_once(int member, int port, uint64_t *state)
{
    static int fd[AT_ONCE];

    for (int i = 0; i < AT_ONCE; i++) {
        fd[i] = call(member, port);
        if (fd[i] >= 0 && i % 3 == 0)
            say_anything(member, fd[i], state);
    }
    for (int i = 0; i < AT_ONCE; i++)
        if (fd[i] >= 0)
            await_close(fd[i]);
}

static int stranger(int calls)
{
    uint64_t state = 88172645463325252u;
    int fd;

    if (run_await(&shared->ready, MEMBERS) != 0)
        return 1;
    for (int i = 0; i < calls; i++) {
        int member = i % MEMBERS, port = shared->port[member][i / MEMBERS % ports_of(member)];

        fd = call(member, port);
        if (fd < 0)
            continue;
        if (i % 100 != 99)              /* else it says nothing */
            say_anything(member, fd, &state);
        if (i % 10 == 3) {
            close(fd);
            continue;
        }
        if (i % 100 != 99 && i % 20 != 0)
            shutdown(fd, SHUT_WR);
        await_close(fd);
    }
    for (int member = 0; member < MEMBERS; member++)
        call_at_once(member, shared->port[member][0], &state);
    atomic_store(&shared->over, 1);
    return 0;
}

/* ---- members ---- */

static int entries_of(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;

    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

/* What listens on this member's machine is the member. State 0A: listening. */
static int note_ports(int rank)
{
    static const char *const files[] = { "/proc/self/net/tcp", "/proc/self/net/tcp6" };
    int n = 0;

    for (size_t i = 0; i < 2; i++) {
        FILE *f = fopen(files[i], "re");
        unsigned port, state;
        char line[512];

        while (f != NULL && fgets(line, sizeof line, f) != NULL && n < PORTS)
            if (sscanf(line, " %*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x", &port, &state) == 2
                && state == 0x0a)
                shared->port[rank][n++] = (int)port;
        if (f != NULL)
            fclose(f);
    }
    return n;
}

/* The thread that looks what memory the machine has left comes with the first who asks. */
static void note_held(int rank, int when)
{
    shared->fds[rank][when] = entries_of("/proc/self/fd");
    shared->threads[rank][when] = tasks_now(NULL) - tasks_now("loco-memory");
}

/* A channel, words both ways, and whether member 0 says that it is over. */
static int round_of(loco_runtime_t *rt, int rank, int i, uint64_t *over)
{
    loco_region_t *region;
    char name[32];

    snprintf(name, sizeof name, "round%d", i);
    CHECK_OK(loco_region_create(rt, NULL, name, loco_everyone(rt), 64, &region));
    CHECK_OK(loco_runtime_wait_ready(rt, LOCO_FOREVER));
    if (rank == 0)
        CHECK_OK(loco_region_write64(region, 1, 0, (uint64_t)atomic_load(&shared->over)));
    else
        CHECK_OK(loco_region_write64(region, 0, 8, (uint64_t)i));
    CHECK_OK(loco_fence(rt, LOCO_FENCE_THREAD, LOCO_ALL_PEERS));
    CHECK(run_meet(rt) == 0);
    CHECK_OK(loco_region_read64(region, 1, 0, over));
    CHECK(run_meet(rt) == 0);
    loco_region_destroy(region);
    return 0;
}

/* Connections that are being closed take a moment. */
static void settle(int rank)
{
    int64_t begin = run_now();

    do {
        usleep(100000);
        note_held(rank, 1);
    } while (shared->fds[rank][1] > shared->fds[rank][0] + SPARE
             && run_now() - begin < PATIENCE_MS * INT64_C(1000000));
}

static int member(loco_runtime_t *rt, int rank, void *arg)
{
    uint64_t over = 0;

    (void)arg;
    CHECK(round_of(rt, rank, 0, &over) == 0);
    CHECK(note_ports(rank) > 0);
    shared->address[rank] = rt->address;
    memset(shared->address[rank].secret, 0, sizeof rt->address.secret);
    note_held(rank, 0);
    atomic_fetch_add(&shared->ready, 1);
    for (int i = 1; over == 0; i++) {
        CHECK(round_of(rt, rank, i, &over) == 0);
        atomic_fetch_add(&shared->rounds, rank == 0);
    }
    settle(rank);
    return run_meet(rt);
}

/* ---- the parent ---- */

static int result(int number, bool good, const char *text)
{
    printf("%sok %d - %s\n", good ? "" : "not ", number, text);
    return !good;
}

static bool holds_no_more(void)
{
    bool good = true;

    for (int i = 0; i < MEMBERS; i++) {
        printf("# member %d: %d ports; descriptors %d, %d; threads %d, %d\n", i, ports_of(i),
               shared->fds[i][0], shared->fds[i][1], shared->threads[i][0],
               shared->threads[i][1]);
        good = good && shared->fds[i][1] <= shared->fds[i][0] + SPARE
               && shared->threads[i][1] <= shared->threads[i][0];
    }
    return good;
}

int main(int argc, char **argv)
{
    int calls = argc > 1 ? atoi(argv[1]) : 2000, status = 0, failed;
    pid_t members, pid;

    setvbuf(stdout, NULL, _IOLBF, 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    alarm(SECONDS);
    /* Its children are on machines 1 and 2; ours, on the first and the second as well, so the third
     * is the one that calls. */
    members = fork();
    if (members == 0)
        _exit(run_on(RUN_SHM, MEMBERS, 0, NULL, member, NULL) != 0);
    for (int i = 0; i < 2; i++) {
        pid = fork();
        if (pid == 0)
            _exit(i == 0 ? 0 : stranger(calls));
    }
    waitpid(pid, &status, 0);
    atomic_store(&shared->over, 1);
    failed = result(1, status == 0, "strangers call");
    waitpid(members, &status, 0);
    failed += result(2, status == 0, "members go on meanwhile");
    printf("# %d connections closed, %d left open, %d not made; %d rounds of the members\n",
           shared->closed, shared->left_open, shared->not_connected, shared->rounds);
    failed += result(3, shared->closed > 0 && shared->left_open == 0,
                     "each connection is closed by whom it called");
    failed += result(4, holds_no_more(), "members hold what they did before");
    printf("1..4\n");
    return failed > 0;
}
