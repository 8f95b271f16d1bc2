/* SPDX-License-Identifier: BSD-3-Clause */

/* Identities of processes that meet without a job that numbers them: 63 random bits, so that of a
 * million processes no two have the same, but once in ten million such pools. */

#include "config.h"

#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "pool.h"

uint64_t loci_pool_identity(void)
{
    uint64_t identity;
    struct timespec now;

    if (getrandom(&identity, sizeof identity, GRND_NONBLOCK) != (ssize_t)sizeof identity) {
        clock_gettime(CLOCK_REALTIME, &now);
        identity = ((uint64_t)now.tv_sec << 34 ^ (uint64_t)now.tv_nsec)
                   * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)getpid();
    }
    return identity | UINT64_C(1) << 63;
}
