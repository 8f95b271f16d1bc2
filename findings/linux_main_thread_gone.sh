#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: a process whose main thread has ended by pthread_exit while another one works on is an
# ordinary process still: process_vm_readv and pidfd_getfd, which name it by its id, reach it.
# Seen, Linux 6.18: both fail with ESRCH, "No such process", and /proc/PID/maps is empty, though
# kill(pid, 0) finds the process and waitpid says that it runs. The id of its other thread does for
# process_vm_readv. The manual pages give ESRCH only for a process that does not exist (pidfd_getfd:
# that has ended).
set -eu
cd "$(dirname "$0")/.."
. findings/packages

install bookworm gcc libc6-dev
compile gone gcc <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
static int word = 7;
static volatile int *worker;
static void *work(void *unused)
{
    *worker = gettid();
    for (;;) pause();
}
static const char *read_from(int id)
{
    int got;
    struct iovec to = {&got, sizeof got}, from = {&word, sizeof word};

    if (process_vm_readv(id, &to, 1, &from, 1, 0) > 0) return "reads";
    return errno == ESRCH ? "no such process" : "fails";
}
static int lines(int pid)
{
    char name[64];
    FILE *maps;
    int n = 0, c;

    sprintf(name, "/proc/%d/maps", pid);
    maps = fopen(name, "r");
    while (maps && (c = getc(maps)) != EOF) n += c == '\n';
    return n;
}
int main(void)
{
    pthread_t thread;
    int pid, fd;

    worker = mmap(NULL, sizeof *worker, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if ((pid = fork()) == 0) {
        pthread_create(&thread, NULL, work, NULL);
        sleep(2);
        pthread_exit(NULL);
    }
    sleep(1);
    printf("before: by process %s, by thread %s; maps %s\n", read_from(pid), read_from(*worker),
           lines(pid) ? "there" : "empty");
    sleep(3);
    printf("after: by process %s, by thread %s; maps %s", read_from(pid), read_from(*worker),
           lines(pid) ? "there" : "empty");
    fd = syscall(SYS_pidfd_getfd, syscall(SYS_pidfd_open, pid, 0), 1, 0);
    printf("\npidfd_getfd %s", fd >= 0 ? "works" : errno == ESRCH ? "no such process" : "fails");
    printf("; kill %s, waitpid %s\n", kill(pid, 0) ? "fails" : "finds it",
           waitpid(pid, NULL, WNOHANG) ? "says ended" : "says running");
    kill(pid, SIGKILL);
    return 0;
}
C
echo "Linux $(uname -r)"
still "before: by process reads, by thread reads; maps there
after: by process no such process, by thread reads; maps empty
pidfd_getfd no such process; kill finds it, waitpid says running" "$(inside ./gone)"
exit $changed
