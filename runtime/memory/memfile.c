/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "memfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hush.h"

static int set_length(int fd, size_t len)
{
    struct loci_hush h;
    int failed;

    loci_hush(&h);
    failed = ftruncate(fd, (off_t)len);
    loci_unhush(&h, failed != 0 ? errno : 0);
    return failed;
}

int loci_memfile(const char *name, size_t len, bool huge)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0)), error;

    if (fd < 0)
        return -1;
    if (set_length(fd, len) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}
