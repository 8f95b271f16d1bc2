/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_POISON_H
#define LOCI_POISON_H

/* Own network memory that was given back belongs to nobody until it is handed out again. Here the
 * simulator is told of both, to which any access meanwhile is a failure, by whatever process; and
 * the address sanitizer, which sees those of this process's own code. Others need not know. */

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#if defined(LOCO_SIM)

#define loci_memory_given(at, len) loci_sim_given(at, len)
#define loci_memory_taken(at, len) loci_sim_taken(at, len)
/* What comes back next, for the report: a region of this channel. */
#define loci_memory_named(mine, channel, region) loci_sim_named(channel, region)

#elif defined(__SANITIZE_ADDRESS__)

#include <sanitizer/asan_interface.h>

#define loci_memory_given(at, len) ASAN_POISON_MEMORY_REGION(at, len)
#define loci_memory_taken(at, len) ASAN_UNPOISON_MEMORY_REGION(at, len)
#define loci_memory_named(mine, channel, region) ((void)(mine), (void)(channel), (void)(region))

#else

#define loci_memory_given(at, len) ((void)(at), (void)(len))
#define loci_memory_taken(at, len) ((void)(at), (void)(len))
#define loci_memory_named(mine, channel, region) ((void)(mine), (void)(channel), (void)(region))

#endif

#endif
