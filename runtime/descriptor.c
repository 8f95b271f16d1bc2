/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include <errno.h>
#include <sys/resource.h>

#include "descriptor.h"

#define RESERVE 16
/* The service thread's two, three of the fabric, a page, a scratch, memory, and two in use for a
 * moment. */
#define OWN 10

/* Descriptors are numbered from below, so each says how many are open. */
bool loci_descriptor_is_spare(int fd, enum loci_spare most)
{
    struct rlimit limit;
    rlim_t reserve;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    reserve = most == LOCI_SPARE_HALF ? limit.rlim_cur / 2 : limit.rlim_cur / 8;
    if (reserve < RESERVE)
        reserve = RESERVE;
    return (rlim_t)fd + reserve < limit.rlim_cur;
}

static bool raise_limit(struct loco_runtime *rt)
{
    struct rlimit limit;
    rlim_t before;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
        return false;
    before = limit.rlim_cur;
    limit.rlim_cur = before < limit.rlim_max / 2 ? 2 * before : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    LOCI_LOG(rt, LOCO_LOG_INFO, "connections to other machines are many: this process may have "
             "%llu descriptors from now on, and not %llu (ulimit -n)",
             (unsigned long long)limit.rlim_cur, (unsigned long long)before);
    return true;
}

bool loci_descriptor_make_room(struct loco_runtime *rt, int fd)
{
    int error = errno;
    bool raised = false;

    if (fd < 0 ? error == EMFILE : !loci_descriptor_is_spare(fd, LOCI_SPARE_MOST))
        raised = raise_limit(rt);
    errno = error;
    return raised && fd < 0;
}

void loci_descriptor_missing(struct loco_runtime *rt, const char *what)
{
    struct rlimit limit = { .rlim_cur = 0 };
    int error = errno;

    if (error == EMFILE) {
        getrlimit(RLIMIT_NOFILE, &limit);
        LOCI_LOG(rt, LOCO_LOG_ERROR, "%s: all %llu descriptors that this process may have are in "
                 "use. This library needs %d beside the program's, better one more for each "
                 "process of the node, and over TCP two for each of another machine: raise the "
                 "limit, ulimit -n", what,
                 (unsigned long long)limit.rlim_cur, OWN);
    } else if (error == ENFILE) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "%s: the machine's table of open files is full: raise "
                 "fs.file-max", what);
    } else if (error == EFBIG) {
        getrlimit(RLIMIT_FSIZE, &limit);
        LOCI_LOG(rt, LOCO_LOG_ERROR, "%s: files of this process may have %llu bytes, and memory "
                 "that processes share counts as a file: raise the limit, ulimit -f", what,
                 (unsigned long long)limit.rlim_cur);
    } else {
        errno = error;
        LOCI_LOG(rt, LOCO_LOG_ERROR, "%s: %m", what);
    }
    errno = error;
}
