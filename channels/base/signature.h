/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_SIGNATURE_H
#define LOCI_SIGNATURE_H

#include <stdint.h>

/* The signature of a channel's endpoint: of its type and the parameters that all must agree on. */
static inline uint64_t loci_signature(const char *type, uint64_t a, uint64_t b, uint64_t c)
{
    const uint64_t parameter[] = { a, b, c };
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *type != '\0'; type++)
        hash = (hash ^ (unsigned char)*type) * UINT64_C(0x100000001b3);
    for (int i = 0; i < 3; i++) {
        hash = (hash ^ parameter[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash;
}

#endif
