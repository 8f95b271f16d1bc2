#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: once a socket waits for SO_RCVLOWAT bytes, poll and epoll call it readable when there are
# that many, as socket(7) says ("Since Linux 2.6.28"). So a recv after that does not block.
# Seen, Linux 6.18: it is so for TCP. For a Unix stream socket poll and epoll call it readable at
# the first byte, while recv goes on to wait for all of them. A loop of poll and recv stands still
# there.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

install bookworm gcc libc6-dev
compile lowat gcc <<'C'
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
enum { MARK = 100, MS = 300 };
static void tcp_pair(int s[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM, 0);

    bind(listener, (struct sockaddr *)&a, bytes);
    listen(listener, 1);
    getsockname(listener, (struct sockaddr *)&a, &bytes);
    s[1] = socket(AF_INET, SOCK_STREAM, 0);
    connect(s[1], (struct sockaddr *)&a, bytes);
    s[0] = accept(listener, NULL, NULL);
}
static const char *received(int socket)
{
    struct timeval before, now, limit = {1, 0};
    char got[MARK];

    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    gettimeofday(&before, NULL);
    recv(socket, got, sizeof got, 0);
    gettimeofday(&now, NULL);
    timersub(&now, &before, &now);
    return now.tv_sec > 0 ? "after its time limit" : "at once";
}
static void look(const char *name, int s[2])
{
    int mark = MARK, epoll = epoll_create1(0);
    struct epoll_event watched = {EPOLLIN}, seen;
    struct pollfd p = {s[0], POLLIN};

    setsockopt(s[0], SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark);
    epoll_ctl(epoll, EPOLL_CTL_ADD, s[0], &watched);
    write(s[1], "x", 1);
    printf("%s, 1 byte of 100: poll %d,", name, poll(&p, 1, MS));
    printf(" epoll %d,", epoll_wait(epoll, &seen, 1, MS));
    printf(" recv returns %s\n", received(s[0]));
}
int main(void)
{
    int s[2];

    tcp_pair(s);
    look("TCP", s);
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    look("Unix", s);
    return 0;
}
C
echo "Linux $(uname -r)"
still "TCP, 1 byte of 100: poll 0, epoll 0, recv returns after its time limit
Unix, 1 byte of 100: poll 1, epoll 1, recv returns after its time limit" "$(inside ./lowat)"
exit $changed
