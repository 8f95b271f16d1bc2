/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_CRC32C_H
#define LOCI_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32C, the checksum of iSCSI and ext4 (polynomial 0x1edc6f41, reflected): every error of up to
 * 32 adjacent bits is found, and all but 1 in 2^32 of the others. Eight bytes a step, by tables
 * that are made when they are first needed, 8 KiB. */
struct loci_crc32c {
    uint32_t table[8][256];
};

void loci_crc32c_open(struct loci_crc32c *c);

/* The checksum of what had checksum `before` (0: nothing), followed by these bytes. */
uint32_t loci_crc32c(const struct loci_crc32c *c, uint32_t before, const void *data, size_t bytes);

#endif
