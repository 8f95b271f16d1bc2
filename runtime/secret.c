/* SPDX-License-Identifier: BSD-3-Clause */

/* Proofs that a sender knows the receiver's secret. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "runtime.h"
#include "secret.h"
#include "wait.h"

/* ---- SipHash-2-4 ---- */

static uint64_t rotate(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static void rounds(uint64_t v[4], int n)
{
    for (; n > 0; n--) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32) + v[3];
        v[2] += v[1];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

/* Up to 8 bytes as a number, the first one lowest. */
static uint64_t word_of(const unsigned char *bytes, size_t len)
{
    uint64_t word = 0;

    for (size_t i = 0; i < len; i++)
        word |= (uint64_t)bytes[i] << 8 * i;
    return word;
}

static void absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    rounds(v, 2);
    v[0] ^= word;
}

uint64_t loci_siphash(const uint64_t key[2], const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint64_t v[4] = {
        key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
        key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573),
    };
    size_t left = len;

    for (; left >= 8; at += 8, left -= 8)
        absorb(v, word_of(at, 8));
    absorb(v, (uint64_t)len << 56 | word_of(at, left));
    v[2] ^= 0xff;
    rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* ---- proofs ---- */

uint64_t loci_proof(const uint64_t secret[2], enum loci_purpose purpose, uint64_t from,
                    uint64_t label)
{
    const uint64_t what[3] = { (uint64_t)purpose, from, label };

    return loci_siphash(secret, what, sizeof what);
}

bool loci_same_proof(uint64_t a, uint64_t b)
{
    return (a ^ b) == 0;        /* one instruction compares a register */
}

/* ---- the first words of a connection ---- */

#define HELLO_MAGIC UINT32_C(0x6c6f6369)
#define HELLO_VERSION 1

void loci_hello_fill(struct loci_hello *hello, enum loci_purpose purpose,
                     const struct loci_address *from, const struct loci_address *to)
{
    *hello = (struct loci_hello){
        .magic = HELLO_MAGIC, .version = HELLO_VERSION, .from = from->identity,
        .label = from->label,
        .proof = loci_proof(to->secret, purpose, from->identity, from->label),
    };
}

bool loci_hello_is_sound(const struct loci_hello *hello, enum loci_purpose purpose,
                         const struct loci_address *me)
{
    uint64_t proof = loci_proof(me->secret, purpose, hello->from, hello->label);

    return hello->magic == HELLO_MAGIC && hello->version == HELLO_VERSION
           && loci_same_proof(hello->proof, proof);
}

/* ---- a secret ---- */

/* What the clock says instead would not be a secret. */
static bool system_secret(void *bytes, size_t len)
{
    ssize_t n;
    int fd;

    do
        n = getrandom(bytes, len, 0);
    while (n < 0 && errno == EINTR);
    if (n == (ssize_t)len)
        return true;
    fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);    /* a filter forbids the call */
    if (fd < 0)
        return false;
    n = read(fd, bytes, len);
    close(fd);
    return n == (ssize_t)len;
}

int loci_secret_draw(struct loco_runtime *rt, uint64_t secret[2])
{
    if (rt->host.random != loci_host_system.random) {
        /* In a simulation. A draw more would make another run of each seed that is known. */
        secret[0] = loci_proof((uint64_t[2]){ 0, 0 }, LOCI_PASS, 0, rt->address.label);
        secret[1] = ~secret[0];
    } else if (!system_secret(secret, 2 * sizeof secret[0])) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "the system has no random numbers (getrandom, /dev/urandom): "
                 "%m. Without them no process can tell its peers from strangers");
        return LOCO_ERR_SYSTEM;
    }
    return LOCO_OK;
}
