#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: what a file grows by reads as zeros, as ftruncate(2) says. What was stored by a mapping
# behind the file's end, in its last page, is not part of the file (mmap(2): it is not written out).
# Seen, Linux 6.18: on ext4 it is so. In a memfd and on tmpfs (/dev/shm, so shm_open) such a store
# becomes part of the file when it grows, by ftruncate, fallocate or a write further on. Shrunk
# first, it is zeros.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

install bookworm gcc libc6-dev
compile grow gcc <<'C'
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
enum { BYTES = 100, BEHIND = 200, PAGE = 4096 };
static int byte(int fd, char *map)
{
    char c = -1;

    pread(fd, &c, 1, BEHIND);
    ftruncate(fd, BYTES);
    map[BEHIND] = 7;
    return c;
}
int main(int argc, char **argv)
{
    int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0600) : memfd_create("grow", 0);
    char *map;

    ftruncate(fd, BYTES);
    map = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    map[BEHIND] = 7;
    ftruncate(fd, PAGE);
    printf("%s: grown by ftruncate %d,", argc > 1 ? argv[1] : "memfd", byte(fd, map));
    fallocate(fd, 0, 0, PAGE);
    printf(" by fallocate %d,", byte(fd, map));
    pwrite(fd, "x", 1, BEHIND + 1);
    printf(" by pwrite %d,", byte(fd, map));
    ftruncate(fd, BYTES);
    ftruncate(fd, PAGE);
    printf(" shrunk and grown %d\n", byte(fd, map));
    return 0;
}
C
echo "Linux $(uname -r)"
seen="grown by ftruncate 7, by fallocate 7, by pwrite 7, shrunk and grown 0"
still "memfd: $seen" "$(inside ./grow)"
still "/dev/shm/file: $seen" "$(inside './grow /dev/shm/file')"
case $(stat -f -c %T "$tree_root") in
ext*) still "file: ${seen//7/0}" "$(inside './grow file')" ;;
*) echo "not looked at: ext4, for the tree is on another file system" ;;
esac
exit $changed
