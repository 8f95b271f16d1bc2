/* SPDX-License-Identifier: BSD-3-Clause */

/* wire WHAT FILE PID...: a network that joins the network namespaces of these processes, each of
 * which gets an interface eth0, and loses, delays and reorders what goes through it, as
 * tc-netem(8) does, which few kernels have built in:
 *
 *   loss P%   delay TIME [JITTER]   reorder P%   duplicate P%
 *
 * One that is reordered is not delayed, so it overtakes others. TIME is in ms or us. Each direction
 * suffers, so a round trip is delayed twice. FILE says, ten times a second, how many packets went
 * in, were lost and were reordered: "sent 100 lost 1 reordered 0 duplicated 0".
 *
 * A switch: it learns which address is behind which interface. Packets lie in a heap by the time
 * when they go out, those of one time in the order in which they came. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { PORTS_MAX = 64, FRAME = 2048, QUEUE = 65536, ADDRESS = 6, TELL_EVERY_MS = 100 };

static struct {
    double loss, reorder, duplicate;    /* parts of 1 */
    int64_t delay, jitter;              /* ns */
} netem;

struct packet {
    int64_t due;
    uint64_t number;
    int to;
    size_t len;
    unsigned char *bytes;
};

static struct packet heap[QUEUE];
static size_t waiting;
static uint64_t numbers, sent, lost, reordered, duplicated, told;
static int port[PORTS_MAX], ports;
static unsigned char behind[PORTS_MAX][ADDRESS];
static uint64_t random_state = 88172645463325252u;

static int64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* 0 to 1. */
static double chance(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (double)(random_state >> 11) / (double)(UINT64_C(1) << 53);
}

/* ---- packets on their way ---- */

static bool is_before(const struct packet *a, const struct packet *b)
{
    return a->due < b->due || (a->due == b->due && a->number < b->number);
}

static void swap(size_t a, size_t b)
{
    struct packet kept = heap[a];

    heap[a] = heap[b];
    heap[b] = kept;
}

static void push(struct packet p)
{
    size_t at = waiting++;

    heap[at] = p;
    for (; at > 0 && is_before(&heap[at], &heap[(at - 1) / 2]); at = (at - 1) / 2)
        swap(at, (at - 1) / 2);
}

static struct packet pop(void)
{
    struct packet first = heap[0];
    size_t at = 0, least;

    heap[0] = heap[--waiting];
    for (;; at = least) {
        least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < waiting; child++)
            if (is_before(&heap[child], &heap[least]))
                least = child;
        if (least == at)
            return first;
        swap(at, least);
    }
}

static void enqueue(int to, const unsigned char *bytes, size_t len)
{
    struct packet p = { .due = now(), .number = numbers++, .to = to, .len = len };

    if (waiting == QUEUE || (p.bytes = malloc(len)) == NULL) {
        lost++;
        return;
    }
    memcpy(p.bytes, bytes, len);
    if (netem.reorder > 0 && chance() < netem.reorder)
        reordered++;
    else
        p.due += netem.delay + (int64_t)((2 * chance() - 1) * (double)netem.jitter);
    push(p);
}

static void send_through(int to, const unsigned char *bytes, size_t len)
{
    sent++;
    if (chance() < netem.loss) {
        lost++;
        return;
    }
    enqueue(to, bytes, len);
    if (netem.duplicate > 0 && chance() < netem.duplicate) {
        duplicated++;
        enqueue(to, bytes, len);
    }
}

/* An interface that is down takes nothing: what was for it is gone. */
static void deliver(void)
{
    while (waiting > 0 && heap[0].due <= now()) {
        struct packet p = pop();

        if (write(port[p.to], p.bytes, p.len) < 0 && errno != EIO && errno != EAGAIN)
            perror("wire: write");
        free(p.bytes);
    }
}

/* ---- the switch ---- */

static int port_of(const unsigned char *address)
{
    for (int i = 0; i < ports; i++)
        if (memcmp(behind[i], address, ADDRESS) == 0)
            return i;
    return -1;
}

static void forward(int from, const unsigned char *frame, size_t len)
{
    int to;

    if (len < 2 * ADDRESS)
        return;
    memcpy(behind[from], frame + ADDRESS, ADDRESS);
    to = (frame[0] & 1) != 0 ? -1 : port_of(frame);     /* 1: for many */
    for (int i = 0; i < ports; i++)
        if (i != from && (to < 0 || to == i))
            send_through(i, frame, len);
}

static void take_from(int from)
{
    unsigned char frame[FRAME];
    ssize_t len;

    for (int i = 0; i < 64 && (len = read(port[from], frame, sizeof frame)) > 0; i++)
        forward(from, frame, (size_t)len);
}

static void tell(int fd)
{
    char line[160];
    int len = snprintf(line, sizeof line,
                       "sent %llu lost %llu reordered %llu duplicated %llu\n",
                       (unsigned long long)sent, (unsigned long long)lost,
                       (unsigned long long)reordered, (unsigned long long)duplicated);

    if (pwrite(fd, line, (size_t)len, 0) != len)
        perror("wire: tell");
    told = sent;
}

static void serve(int fd)
{
    struct pollfd looks[PORTS_MAX];
    struct timespec most = { 0, TELL_EVERY_MS * 1000000L };
    int64_t next = 0;

    for (int i = 0; i < ports; i++)
        looks[i] = (struct pollfd){ .fd = port[i], .events = POLLIN };
    for (;;) {
        struct timespec nap = most;

        if (waiting > 0) {
            int64_t left = heap[0].due - now();

            nap.tv_nsec = left < 0 ? 0 : left < most.tv_nsec ? left : most.tv_nsec;
        }
        ppoll(looks, (nfds_t)ports, &nap, NULL);
        for (int i = 0; i < ports; i++)
            if ((looks[i].revents & POLLIN) != 0)
                take_from(i);
        deliver();
        if (next == 0 || (sent != told && now() > next)) {
            tell(fd);
            next = now() + TELL_EVERY_MS * INT64_C(1000000);
        }
    }
}

/* ---- what is asked for ---- */

static void fail(const char *what)
{
    fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* An interface in that process's network. */
static int open_port(const char *pid)
{
    struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI };
    char path[64];
    int fd;

    snprintf(path, sizeof path, "/proc/%.20s/ns/net", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0)
        fail(path);
    close(fd);
    fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    strcpy(request.ifr_name, "eth0");
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) != 0)
        fail("/dev/net/tun");
    return fd;
}

static double part(const char *word)
{
    char *end;
    double percent = word == NULL ? -1 : strtod(word, &end);

    if (word == NULL || end == word || strcmp(end, "%") != 0 || percent < 0 || percent > 100) {
        fprintf(stderr, "wire: %s: not a percentage\n", word == NULL ? "" : word);
        exit(2);
    }
    return percent / 100;
}

/* -1: it is no time. */
static int64_t time_of(const char *word)
{
    char *end;
    double value = word == NULL ? -1 : strtod(word, &end);

    if (word == NULL || end == word || value < 0)
        return -1;
    if (strcmp(end, "ms") == 0)
        return (int64_t)(value * 1e6);
    return strcmp(end, "us") == 0 ? (int64_t)(value * 1e3) : -1;
}

static void understand(char *what)
{
    char *at = NULL, *word = strtok_r(what, " ", &at);

    while (word != NULL) {
        char *value = strtok_r(NULL, " ", &at), *next;

        if (strcmp(word, "loss") == 0) {
            netem.loss = part(value);
        } else if (strcmp(word, "reorder") == 0) {
            netem.reorder = part(value);
        } else if (strcmp(word, "duplicate") == 0) {
            netem.duplicate = part(value);
        } else if (strcmp(word, "delay") == 0 && (netem.delay = time_of(value)) >= 0) {
            next = strtok_r(NULL, " ", &at);
            netem.jitter = time_of(next);
            if (netem.jitter < 0) {
                netem.jitter = 0;
                word = next;
                continue;
            }
        } else {
            fprintf(stderr, "wire: %s %s: not understood\n", word, value == NULL ? "" : value);
            exit(2);
        }
        word = strtok_r(NULL, " ", &at);
    }
    if (netem.jitter > netem.delay)
        netem.jitter = netem.delay;
}

int main(int argc, char **argv)
{
    int fd;

    if (argc < 4 || argc > 3 + PORTS_MAX)
        return 2;
    understand(argv[1]);
    fd = open(argv[2], O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        fail(argv[2]);
    for (int i = 3; i < argc; i++)
        port[ports++] = open_port(argv[i]);
    serve(fd);
}
