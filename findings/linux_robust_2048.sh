#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: whoever locks a robust mutex next after its owner died gets EOWNERDEAD, for each mutex that
# the owner held (pthread_mutexattr_setrobust(3)). Neither POSIX nor that page knows a limit.
# Seen, Linux 6.18: of 5000 that a process held in shared memory when it ended, it is so for the
# 2048 that it locked last. The others stay locked by a process that is gone: trylock gives EBUSY
# for ever. Mutexes that inherit priorities (PTHREAD_PRIO_INHERIT) do the same. (The kernel walks no
# more of the list of a thread's mutexes than ROBUST_LIST_LIMIT.)
set -eu
cd "$(dirname "$0")/.."
. findings/packages

install bookworm gcc libc6-dev
compile robust gcc -pthread <<'C'
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static void look(int held, int protocol)
{
    pthread_mutex_t *m = mmap(NULL, held * sizeof *m, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int dead = 0, busy = 0, first_dead = -1;
    pthread_mutexattr_t as;

    pthread_mutexattr_init(&as);
    pthread_mutexattr_setpshared(&as, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&as, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setprotocol(&as, protocol);
    for (int i = 0; i < held; i++) pthread_mutex_init(&m[i], &as);
    if (fork() == 0) {
        for (int i = 0; i < held; i++) pthread_mutex_lock(&m[i]);
        _exit(0);
    }
    wait(NULL);
    for (int i = 0; i < held; i++) {
        int error = pthread_mutex_trylock(&m[i]);

        if (error == EOWNERDEAD && first_dead < 0) first_dead = i;
        dead += error == EOWNERDEAD;
        busy += error == EBUSY;
    }
    printf("held %d: EOWNERDEAD %d, first for number %d; EBUSY %d\n", held, dead, first_dead, busy);
}
int main(void)
{
    setlinebuf(stdout);
    look(2048, PTHREAD_PRIO_NONE);
    look(5000, PTHREAD_PRIO_NONE);
    look(5000, PTHREAD_PRIO_INHERIT);
    return 0;
}
C
echo "Linux $(uname -r)"
still "held 2048: EOWNERDEAD 2048, first for number 0; EBUSY 0
held 5000: EOWNERDEAD 2048, first for number 2952; EBUSY 2952
held 5000: EOWNERDEAD 2048, first for number 2952; EBUSY 2952" "$(inside ./robust)"
exit $changed
