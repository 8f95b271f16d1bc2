/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The limit of what a component can do between two machines by TCP, in plain sockets: how long 32
 * bytes take there and back, and how fast a stream goes one way. The server sleeps in the kernel
 * until something comes, as a process does whose memory is used while it computes; the client asks
 * its socket again and again, as one does that waits inside MPI. With --spin the server does so,
 * too: what the wake-up takes is the difference.
 *
 *   raw_tcp serve                    says its port on stdout; ends with its stdin
 *   raw_tcp ask ADDRESS PORT [--seconds S] [--computing] [--spin]
 *
 * The first byte on a connection says what the server does with it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 32, PIECE = 1 << 20, CONNECTIONS = 3, BATCHES = 5, FIRST_ROUNDS = 50 };

#define ECHO 'e'        /* send back each message */
#define SPIN 'p'        /* the same, without sleeping */
#define SINK 's'        /* take all until the end, then send one byte */
#define COMPUTE 'c'     /* keep a processor busy until the end */

static void fail(const char *what)
{
    fprintf(stderr, "raw_tcp: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- The server ---- */

static void echo(int fd)
{
    char message[MESSAGE];

    while (recv(fd, message, MESSAGE, MSG_WAITALL) == MESSAGE) {
        if (send(fd, message, MESSAGE, MSG_NOSIGNAL) != MESSAGE)
            return;
    }
}

static void echo_spinning(int fd)
{
    char message[MESSAGE];
    ssize_t n;

    for (;;) {
        n = recv(fd, message, MESSAGE, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return;
        if (n > 0 && send(fd, message, (size_t)n, MSG_NOSIGNAL) != n)
            return;
    }
}

static void sink(int fd)
{
    char *piece = malloc(PIECE);

    while (piece != NULL && recv(fd, piece, PIECE, 0) > 0)
        continue;
    free(piece);
    send(fd, "", 1, MSG_NOSIGNAL);
}

static void compute(int fd)
{
    struct pollfd end = { .fd = fd, .events = POLLIN };
    double until;

    do {
        until = now() + 0.001;
        while (now() < until)
            continue;
    } while (poll(&end, 1, 0) == 0);
}

static void *serve_one(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char what = 0;

    if (recv(fd, &what, 1, MSG_WAITALL) == 1) {
        if (what == ECHO)
            echo(fd);
        else if (what == SPIN)
            echo_spinning(fd);
        else if (what == SINK)
            sink(fd);
        else if (what == COMPUTE)
            compute(fd);
    }
    close(fd);
    return NULL;
}

static void *accept_all(void *arg)
{
    int listener = (int)(intptr_t)arg, on = 1, fd;
    pthread_t thread;

    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (pthread_create(&thread, NULL, serve_one, (void *)(intptr_t)fd) != 0)
            fail("thread");
        pthread_detach(thread);
    }
    fail("accept");
    return NULL;
}

static int serve(void)
{
    struct sockaddr_in here = { .sin_family = AF_INET };
    socklen_t size = sizeof(here);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t thread;
    char byte;

    here.sin_addr.s_addr = htonl(INADDR_ANY);
    if (listener < 0 || bind(listener, (struct sockaddr *)&here, size) != 0
        || listen(listener, 8) != 0 || getsockname(listener, (struct sockaddr *)&here, &size) != 0)
        fail("listen");
    printf("%d\n", ntohs(here.sin_port));
    fflush(stdout);
    if (pthread_create(&thread, NULL, accept_all, (void *)(intptr_t)listener) != 0)
        fail("thread");
    while (read(STDIN_FILENO, &byte, 1) > 0)
        continue;
    return 0;
}

/* ---- The client ---- */

static int ask_for(const struct sockaddr_in *there, char what)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    if (fd < 0 || connect(fd, (const struct sockaddr *)there, sizeof(*there)) != 0)
        fail("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (send(fd, &what, 1, MSG_NOSIGNAL) != 1)
        fail("send");
    return fd;
}

static void round_trip(int fd)
{
    char message[MESSAGE] = { 0 };
    size_t got = 0;

    if (send(fd, message, MESSAGE, MSG_NOSIGNAL) != MESSAGE)
        fail("send");
    while (got < MESSAGE) {
        ssize_t n = recv(fd, message + got, MESSAGE - got, MSG_DONTWAIT);

        if (n > 0)
            got += (size_t)n;
        else if (n == 0 || errno != EAGAIN)
            fail("receive");
    }
}

static double round_trips(int fd, long count)
{
    double start = now();

    for (long i = 0; i < count; i++)
        round_trip(fd);
    return now() - start;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Microseconds: the median of the batches. */
static double measure_connection(const struct sockaddr_in *there, double seconds, char what)
{
    double each[BATCHES];
    int fd = ask_for(there, what);
    long count = (long)(seconds / BATCHES / (round_trips(fd, FIRST_ROUNDS) / FIRST_ROUNDS)) + 1;

    for (int i = 0; i < BATCHES; i++)
        each[i] = round_trips(fd, count) * 1e6 / (double)count;
    close(fd);
    qsort(each, BATCHES, sizeof(each[0]), compare_doubles);
    return each[BATCHES / 2];
}

/* Where the scheduler puts the server decides: on the client's processor it is woken within a
 * microsecond, and in tens on another, which may be idle or busy with something else. */
static double measure_echo(const struct sockaddr_in *there, double seconds, char what)
{
    double least = 0, us;

    for (int i = 0; i < CONNECTIONS; i++) {
        us = measure_connection(there, seconds / CONNECTIONS, what);
        if (i == 0 || us < least)
            least = us;
    }
    return least;
}

static void send_piece(int fd, const char *piece)
{
    for (size_t sent = 0; sent < PIECE; ) {
        ssize_t n = send(fd, piece + sent, PIECE - sent, MSG_NOSIGNAL);

        if (n < 0)
            fail("send");
        sent += (size_t)n;
    }
}

/* GB/s, until the server has read all of it. */
static double measure_stream(const struct sockaddr_in *there, double seconds)
{
    char *piece = calloc(1, PIECE), last;
    int fd = ask_for(there, SINK);
    double start, bytes = 0;

    if (piece == NULL)
        fail("memory");
    send_piece(fd, piece);      /* while the window of congestion grows */
    start = now();
    do {
        send_piece(fd, piece);
        bytes += PIECE;
    } while (now() - start < seconds);
    shutdown(fd, SHUT_WR);
    if (recv(fd, &last, 1, MSG_WAITALL) != 1)
        fail("receive");
    bytes /= now() - start;
    close(fd);
    free(piece);
    return bytes / 1e9;
}

static int ask(const struct sockaddr_in *there, double seconds, bool computing, bool spin)
{
    int busy = computing ? ask_for(there, COMPUTE) : -1;
    double echo_us = measure_echo(there, seconds / 2, spin ? SPIN : ECHO);
    double stream = measure_stream(there, seconds / 2);

    if (busy >= 0)
        close(busy);
    printf("{\"echo_us\": %.3f, \"stream_GBps\": %.4f, \"computing\": %s}\n", echo_us, stream,
           computing ? "true" : "false");
    return 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: raw_tcp serve\n"
                    "       raw_tcp ask ADDRESS PORT [--seconds S] [--computing] [--spin]\n");
    return 2;
}

static bool parse(int argc, char **argv, struct sockaddr_in *there, double *seconds,
                  bool *computing, bool *spin)
{
    static const struct option names[] = {
        { "seconds", required_argument, NULL, 's' }, { "computing", no_argument, NULL, 'c' },
        { "spin", no_argument, NULL, 'p' },
        { NULL, 0, NULL, 0 },
    };
    int option;

    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (option) {
        case 's': *seconds = atof(optarg); break;
        case 'c': *computing = true; break;
        case 'p': *spin = true; break;
        default: return false;
        }
    }
    if (argc - optind != 3 || *seconds <= 0)
        return false;
    *there = (struct sockaddr_in){ .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)atoi(argv[optind + 2])) };
    return inet_pton(AF_INET, argv[optind + 1], &there->sin_addr) == 1;
}

int main(int argc, char **argv)
{
    struct sockaddr_in there;
    double seconds = 0.5;
    bool computing = false, spin = false;

    if (argc == 2 && strcmp(argv[1], "serve") == 0)
        return serve();
    if (argc < 4 || strcmp(argv[1], "ask") != 0
        || !parse(argc, argv, &there, &seconds, &computing, &spin))
        return usage();
    return ask(&there, seconds, computing, spin);
}
