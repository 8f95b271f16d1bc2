/* SPDX-License-Identifier: BSD-3-Clause */

/* CRC-32C by eight tables ("slicing by eight"): table[k][b] is what byte b contributes when k bytes
 * follow it. */

#include "config.h"

#include "crc32c.h"

#include <endian.h>
#include <string.h>

#define REFLECTED UINT32_C(0x82f63b78)

void loci_crc32c_open(struct loci_crc32c *c)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;

        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? REFLECTED : 0);
        c->table[0][byte] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = c->table[k - 1][byte];

            c->table[k][byte] = crc >> 8 ^ c->table[0][crc & 0xff];
        }
}

static uint32_t eight(const struct loci_crc32c *c, uint32_t crc, const unsigned char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof word);
    word = le64toh(word) ^ crc;
    crc = 0;
    for (int k = 7; k >= 0; k--, word >>= 8)
        crc ^= c->table[k][word & 0xff];
    return crc;
}

uint32_t loci_crc32c(const struct loci_crc32c *c, uint32_t before, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint32_t crc = ~before;

    for (; bytes >= 8; bytes -= 8, at += 8)
        crc = eight(c, crc, at);
    for (; bytes > 0; bytes--, at++)
        crc = crc >> 8 ^ c->table[0][(crc ^ *at) & 0xff];
    return ~crc;
}
