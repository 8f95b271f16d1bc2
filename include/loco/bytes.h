/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_BYTES_H
#define LOCO_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup bytes Byte strings: keys and values
 *
 * A byte string is a pointer and a length. It may contain any bytes, including zeros, and no
 * function frees it. Strings are compared byte by byte, as unsigned numbers. If one is a prefix of
 * the other, the shorter one is smaller.
 *
 * \see loco_hash(3), loco_tree(3)
 * @{ */
typedef struct {
    const void *data;       /**< may be any pointer, also NULL, if `len` is 0 */
    size_t len;
} loco_bytes_t;

static inline loco_bytes_t loco_bytes(const void *data, size_t len)
{
    loco_bytes_t bytes;

    bytes.data = data;
    bytes.len = len;
    return bytes;
}

/** The characters of a string without its final zero. */
static inline loco_bytes_t loco_text(const char *text)
{
    return loco_bytes(text, strlen(text));
}

/** A number as a key. Such keys are in the order of their numbers: the 8 bytes of the number, the
 * most significant first, are written to `bytes`, which must remain valid as long as the key is
 * used. */
static inline loco_bytes_t loco_key64(uint64_t number, unsigned char bytes[8])
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(number >> (56 - 8 * i));
    return loco_bytes(bytes, 8);
}

/** The number of such a key, or 0 if the key does not have 8 bytes. */
static inline uint64_t loco_number_of(loco_bytes_t key)
{
    const unsigned char *bytes = (const unsigned char *)key.data;
    uint64_t number = 0;

    for (int i = 0; i < 8 && key.len == 8; i++)
        number = number << 8 | bytes[i];
    return number;
}

/** The smallest string greater than every string that begins with `prefix`. It is the end of a scan
 * over these strings; the scan begins at `prefix` itself. Its bytes, at most as many as the prefix
 * has, are written to `bytes`, which must remain valid as long as the result is used. If there is
 * no such string, as for the empty prefix, the length is 0, and the scan goes to the last key. */
static inline loco_bytes_t loco_prefix_end(loco_bytes_t prefix, void *bytes)
{
    unsigned char *end = (unsigned char *)bytes;
    size_t len = prefix.len;

    if (len > 0)
        memcpy(end, prefix.data, len);
    while (len > 0 && end[len - 1] == 0xff)
        len--;
    if (len > 0)
        end[len - 1]++;
    return loco_bytes(bytes, len);
}
/** @} */

#ifdef __cplusplus
}
#endif
#endif
