/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hush.h"
#include "runtime.h"

#define TRIES 8         /* while somebody makes and removes a file of that name */

/* ---- what is wrong ---- */

static const struct {
    int error;
    const char *cause;          /* NULL: errno's own text */
    const char *remedy;
} troubles[] = {
    { LOCI_FILE_ODD, "it is no plain file", "name one that is, or that is not there yet" },
    { LOCI_FILE_LINKED, "it has a second name (a hard link), whose content would be lost",
      "remove it, or name another one" },
    { LOCI_FILE_FOREIGN, "it belongs to another user", "remove it, or name another one" },
    { LOCI_FILE_BUSY, "another process writes to it", "put %p, the process, into the name" },
    { LOCI_FILE_REMOVED, "it was removed meanwhile", "leave it there until the program has ended" },
    { ELOOP, "it is a symbolic link, which is not followed", "name the file itself" },
    { ENXIO, "it is no plain file", "name one that is, or that is not there yet" },
    { EISDIR, "it is a folder", "name a file in it" },
    { ENOENT, NULL, "make the folder" },
    { ENOTDIR, NULL, "make the folder" },
    { EACCES, NULL, "name a file in a folder that you may write to" },
    { EPERM, NULL, "name a file in a folder that you may write to" },
    { EROFS, NULL, "name a file in a folder that you may write to" },
    { ENOSPC, NULL, "free some space, or name a file on another disk" },
    { EDQUOT, NULL, "free some space, or name a file on another disk" },
    { EFBIG, NULL, "allow larger files (ulimit -f)" },
    { EMFILE, NULL, "allow more descriptors (ulimit -n)" },
    { ENFILE, NULL, "let this machine have more open files" },
};

const char *loci_file_trouble(int error, char *buf, size_t size)
{
    const char *cause = NULL, *remedy = "name another file";

    for (size_t i = 0; i < sizeof troubles / sizeof troubles[0]; i++)
        if (troubles[i].error == error) {
            cause = troubles[i].cause;
            remedy = troubles[i].remedy;
        }
    errno = error;
    if (cause != NULL)
        snprintf(buf, size, "%s; %s", cause, remedy);
    else
        snprintf(buf, size, "%m; %s", remedy);
    return buf;
}

void loci_file_warn(const struct loco_runtime *rt, const char *fmt, ...)
{
    char text[LOCI_LOG_LINE];
    va_list args;

    if (rt->log.level < LOCO_LOG_WARN)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    loci_log_stderr(NULL, LOCO_LOG_WARN, text);
}

/* ---- open ---- */

/* A new file, or one that is there. Not truncated, and nobody is waited for: not the reader of a
 * pipe, not who has a lease. -1 with errno. */
static int open_or_make(const char *name, bool *made)
{
    const int flags = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = -1;

    for (int i = 0; i < TRIES; i++) {
        fd = open(name, flags | O_CREAT | O_EXCL, 0666);
        *made = fd >= 0;
        if (fd >= 0 || errno != EEXIST)
            return fd;
        fd = open(name, flags);
        if (fd >= 0 || errno != ENOENT)
            return fd;
    }
    return fd;
}

/* 0, or why nothing may be written to it. Who made it on a server may be another user there. */
static int check_kind(int fd, bool made)
{
    struct stat is;

    if (fstat(fd, &is) != 0)
        return errno;
    if (!S_ISREG(is.st_mode))
        return LOCI_FILE_ODD;
    if (is.st_nlink > 1)
        return LOCI_FILE_LINKED;
    return made || is.st_uid == geteuid() ? 0 : LOCI_FILE_FOREIGN;
}

/* 0 also where the filesystem knows no locks: then nobody has one. */
static int lock(int fd)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    switch (errno) {
    case EWOULDBLOCK:
        return LOCI_FILE_BUSY;
    case ENOSYS:
    case ENOLCK:
    case EOPNOTSUPP:
    case EINVAL:
        return 0;
    default:
        return errno;
    }
}

/* An open, locked and empty file, or -1. */
static int open_one(const char *name, int *error)
{
    bool made;
    int fd = open_or_make(name, &made);

    if (fd < 0) {
        *error = errno;
        return -1;
    }
    *error = check_kind(fd, made);
    if (*error == 0)
        *error = lock(fd);
    if (*error == 0 && ftruncate(fd, 0) != 0)
        *error = errno;
    if (*error == 0)
        return fd;
    close(fd);
    return -1;
}

int loci_file_open(char *name, size_t size, int *error)
{
    int fd = open_one(name, error);
    size_t len = strlen(name);

    if (fd >= 0 || *error != LOCI_FILE_BUSY)
        return fd;
    if ((size_t)snprintf(name + len, size - len, ".%ld", (long)getpid()) >= size - len) {
        *error = ENAMETOOLONG;
        return -1;
    }
    return open_one(name, error);
}

/* ---- write ---- */

size_t loci_file_write(int fd, const char *bytes, size_t len, off_t at)
{
    size_t done = 0;
    int error = 0;
    struct loci_hush h;

    loci_hush(&h);
    while (done < len && error == 0) {
        ssize_t n = at < 0 ? write(fd, bytes + done, len - done)
                           : pwrite(fd, bytes + done, len - done, at + (off_t)done);

        if (n > 0)
            done += (size_t)n;
        else if (n == 0)
            error = ENOSPC;
        else if (errno != EINTR)
            error = errno;
    }
    loci_unhush(&h, error);
    errno = error;
    return done;
}
