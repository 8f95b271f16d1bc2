#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: as many processes read an LMDB file at once as its table of readers has places (126), in
# whichever containers they run; lmdb.h excludes remote file systems only. With no place left it is
# MDB_READERS_FULL.
# Seen, LMDB 0.9.24: processes with the same number in two PID namespaces, as the first ones of two
# containers are, cannot read at once: while one has read, mdb_txn_begin of the other fails with
# EAGAIN, "Resource temporarily unavailable", until the first one closes the environment. It may
# write, though.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

install bookworm gcc libc6-dev liblmdb-dev=0.9.24-1
compile readers gcc -llmdb <<'C'
#define _GNU_SOURCE
#include <lmdb.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static sem_t *has_read, *may_close, *closed;
static MDB_env *opened(void)
{
    MDB_env *env;

    mdb_env_create(&env);
    mdb_env_open(env, ".", 0, 0600);
    return env;
}
static const char *begun(MDB_env *env, int flags)
{
    MDB_txn *txn;
    int error = mdb_txn_begin(env, NULL, flags, &txn);

    if (error) return mdb_strerror(error);
    mdb_txn_abort(txn);
    return "begun";
}
static void first(void)
{
    MDB_env *env = opened();

    printf("first: reading %s\n", begun(env, MDB_RDONLY));
    fflush(stdout);
    sem_post(has_read);
    sem_wait(may_close);
    mdb_env_close(env);
    sem_post(closed);
}
static void second(void)
{
    MDB_env *env;

    sem_wait(has_read);
    env = opened();
    printf("second: reading %s\n", begun(env, MDB_RDONLY));
    printf("second: writing %s\n", begun(env, 0));
    sem_post(may_close);
    sem_wait(closed);
    printf("second, when the first has closed: reading %s\n", begun(env, MDB_RDONLY));
    fflush(stdout);
}
static void start(void (*run)(void), int contained)
{
    if (fork() > 0) return;
    if (contained) unshare(CLONE_NEWPID);
    if (fork() == 0) run(); else wait(NULL);
    _exit(0);
}
int main(int argc, char **argv)
{
    has_read = mmap(NULL, 3 * sizeof *has_read, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    may_close = has_read + 1;
    closed = has_read + 2;
    for (int i = 0; i < 3; i++) sem_init(has_read + i, 1, 0);
    start(first, argc > 1);
    start(second, argc > 1);
    while (wait(NULL) > 0) { }
    return 0;
}
C
still "first: reading begun
second: reading begun
second: writing begun
second, when the first has closed: reading begun" "$(inside ./readers)"
still "first: reading begun
second: reading Resource temporarily unavailable
second: writing begun
second, when the first has closed: reading begun" "$(inside './readers contained')"
exit $changed
