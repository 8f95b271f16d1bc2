/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_FILE_H
#define LOCI_FILE_H

/* Files that the library writes for its user: traces and statistics. They never hurt the program:
 * nothing is mapped, no signal is raised (SIGXFSZ, SIGPIPE), no open waits for another process, and
 * only a plain file of this user's own is written to: no symbolic link is followed, and no pipe,
 * device, file with a second name or file of another user is taken. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct loco_runtime;

/* What may be wrong beside what errno knows. */
enum loci_file_error {
    LOCI_FILE_ODD = 10001,      /* a pipe, a device... */
    LOCI_FILE_LINKED,           /* it has a second name */
    LOCI_FILE_FOREIGN,          /* another user's */
    LOCI_FILE_BUSY,             /* other processes write to it, and to the one beside it */
    LOCI_FILE_REMOVED,          /* while it was written */
};

/* The cause and the remedy of an errno or one of the above, into buf; returns buf. */
const char *loci_file_trouble(int error, char *buf, size_t size);

/* Open that file to write it from its beginning, empty, and lock it. Where another live process has
 * it (a spawned one of the same rank), `name`, of that size, gets this process's id behind it. -1:
 * *error says why, and no file was changed. */
int loci_file_open(char *name, size_t size, int *error);

/* All of these bytes, at that offset (-1: behind what was written last). Returns how many were
 * written; where these are fewer, errno says why. */
size_t loci_file_write(int fd, const char *bytes, size_t len, off_t at);

/* A warning on stderr, wherever the runtime's log goes: the user asked for a file, and shall hear
 * what became of it. LOCO_LOG=none or error is silence. */
__attribute__((format(printf, 2, 3)))
void loci_file_warn(const struct loco_runtime *rt, const char *fmt, ...);

#endif
