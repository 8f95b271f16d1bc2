#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: a process-shared recursive mutex in shared memory keeps processes apart, in whichever
# containers they run. The manual pages name no exception.
# Seen, glibc 2.36: it knows its owner by the thread's number only, and processes in two PID
# namespaces may have the same one, as a container's first process always has. Then the second gets
# the mutex while the first holds it; of an error-checking one it is told that it would wait for
# itself. A plain mutex keeps them apart.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

install bookworm gcc libc6-dev
compile both gcc <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static struct {
    pthread_mutex_t recursive, plain, checking;
    sem_t locked, tried;
    int holder;
} *shared;
static void make(pthread_mutex_t *mutex, int type)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_settype(&attr, type);
    pthread_mutex_init(mutex, &attr);
}
static void first(void)
{
    shared->holder = getpid();
    pthread_mutex_lock(&shared->recursive);
    pthread_mutex_lock(&shared->checking);
    pthread_mutex_lock(&shared->plain);
    sem_post(&shared->locked);
    sem_wait(&shared->tried);
}
static const char *said(int error)
{
    return !error ? "locked" : error == EBUSY ? "busy" : strerror(error);
}
static void second(void)
{
    struct timespec past = {0, 0};

    sem_wait(&shared->locked);
    printf("held by process %d, and for process %d\n", shared->holder, getpid());
    printf("recursive: %s\n", said(pthread_mutex_trylock(&shared->recursive)));
    printf("error-checking: %s\n", said(pthread_mutex_timedlock(&shared->checking, &past)));
    printf("plain: %s\n", said(pthread_mutex_trylock(&shared->plain)));
    fflush(stdout);
    sem_post(&shared->tried);
}
static void contain(void (*run)(void))
{
    if (fork() > 0) return;
    unshare(CLONE_NEWPID);
    if (fork() == 0) run(); else wait(NULL);
    _exit(0);
}
int main(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    make(&shared->recursive, PTHREAD_MUTEX_RECURSIVE);
    make(&shared->checking, PTHREAD_MUTEX_ERRORCHECK);
    make(&shared->plain, PTHREAD_MUTEX_NORMAL);
    sem_init(&shared->locked, 1, 0);
    sem_init(&shared->tried, 1, 0);
    contain(first);
    contain(second);
    while (wait(NULL) > 0) { }
    return 0;
}
C
still "held by process 1, and for process 1
recursive: locked
error-checking: Resource deadlock avoided
plain: busy" "$(inside ./both)"
exit $changed
