#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: process_vm_readv copies an element of its lists wholly or not at all, as its manual page
# says ("These system calls won't perform a partial transfer that splits a single iovec element"):
# with one element that runs into memory that is not there it fails with EFAULT and copies nothing.
# Seen, Linux 6.18: it copies up to the end of the last page that is there and returns that number.
# So does process_vm_writev, into the other process, where the part that fits has been overwritten
# then.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

install bookworm gcc libc6-dev
compile part gcc <<'C'
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>
enum { PAGE = 4096, FROM = 4000, BYTES = 200 };
int main(void)
{
    char mine[BYTES], *map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct iovec here = {mine, BYTES}, there = {map + FROM, BYTES};
    long n;

    memset(map, 7, 2 * PAGE);
    munmap(map + PAGE, PAGE);
    n = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    printf("of an element of 200 bytes, 96 of them there: read %ld, ", n);
    memset(mine, 1, sizeof mine);
    n = process_vm_writev(getpid(), &here, 1, &there, 1, 0);
    printf("written %ld; the last byte there is %s\n", n,
           map[PAGE - 1] == 1 ? "overwritten" : "as it was");
    return 0;
}
C
echo "Linux $(uname -r)"
still "of an element of 200 bytes, 96 of them there: read 96, written 96; the last byte there is \
overwritten" "$(inside ./part)"
exit $changed
