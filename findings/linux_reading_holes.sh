#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: reading what nobody has written costs no memory: each page is the one page of zeros, as in
# private memory and on a disk's file system, where a hole stays a hole.
# Seen, Linux 6.18: in a memfd each page that is read through a mapping is allocated, and stays so
# when the mapping is gone, though it was for reading only, and also if it was a private one. Reads
# by pread allocate nothing. So looking once through a sparse segment makes it as big as it is long.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

install bookworm gcc libc6-dev
compile holes gcc <<'C'
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
enum { BYTES = 4 << 20, PAGE = 4096 };
static volatile char sum;
static long kib(int fd)
{
    struct stat s;

    fstat(fd, &s);
    return s.st_blocks / 2;
}
static long mapped(int how)
{
    int fd = memfd_create("holes", 0);
    char *map;

    ftruncate(fd, BYTES);
    map = mmap(NULL, BYTES, PROT_READ, how, fd, 0);
    for (long at = 0; at < BYTES; at += PAGE) sum += map[at];
    munmap(map, BYTES);
    return kib(fd);
}
int main(void)
{
    int fd = memfd_create("holes", 0);
    char page[PAGE];

    ftruncate(fd, BYTES);
    for (long at = 0; at < BYTES; at += PAGE) pread(fd, page, PAGE, at);
    printf("4 MiB read by pread: %ld KiB allocated; ", kib(fd));
    printf("by a shared mapping: %ld; by a private one: %ld\n", mapped(MAP_SHARED),
           mapped(MAP_PRIVATE));
    return 0;
}
C
echo "Linux $(uname -r)"
still "4 MiB read by pread: 0 KiB allocated; by a shared mapping: 4096; by a private one: 4096" \
    "$(inside ./holes)"
exit $changed
