/* SPDX-License-Identifier: BSD-3-Clause */

/* Proofs: the published values of the function that makes them, and what each depends on. */

#include <criterion/criterion.h>

#include <loco/fork.h>

#include "runtime.h"
#include "secret.h"

/* Of the key 00 01 ... 0f and the first `len` of the bytes 00 01 02 ... (SipHash: a fast
 * short-input PRF, appendix A, and the vectors that come with it). */
Test(secret, hashes_as_published)
{
    static const struct {
        size_t len;
        uint64_t hash;
    } published[] = {
        { 0, UINT64_C(0x726fdb47dd0e0e31) }, { 1, UINT64_C(0x74f839c593dc67fd) },
        { 2, UINT64_C(0x0d6c8009d9a94f5a) }, { 3, UINT64_C(0x85676696d7fb7e2d) },
        { 4, UINT64_C(0xcf2794e0277187b7) }, { 5, UINT64_C(0x18765564cd99a68d) },
        { 6, UINT64_C(0xcbc9466e58fee3ce) }, { 7, UINT64_C(0xab0200f58b01d137) },
        { 8, UINT64_C(0x93f5f5799a932462) }, { 15, UINT64_C(0xa129ca6149be45e5) },
    };
    const uint64_t key[2] = { UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908) };
    unsigned char bytes[16];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        uint64_t hash = loci_siphash(key, bytes, published[i].len);

        cr_assert(hash == published[i].hash, "%zu bytes: %016llx", published[i].len,
                  (unsigned long long)hash);
    }
}

Test(secret, proves_one_thing)
{
    const uint64_t secret[2] = { 1, 2 }, low[2] = { 3, 2 }, high[2] = { 1, 3 };
    uint64_t proof = loci_proof(secret, LOCI_MESSAGE, 5, 6);

    cr_assert(loci_same_proof(proof, loci_proof(secret, LOCI_MESSAGE, 5, 6)));
    cr_assert(!loci_same_proof(proof, loci_proof(low, LOCI_MESSAGE, 5, 6)));
    cr_assert(!loci_same_proof(proof, loci_proof(high, LOCI_MESSAGE, 5, 6)));
    cr_assert(!loci_same_proof(proof, loci_proof(secret, LOCI_CALL, 5, 6)));
    cr_assert(!loci_same_proof(proof, loci_proof(secret, LOCI_MESSAGE, 4, 6)));
    cr_assert(!loci_same_proof(proof, loci_proof(secret, LOCI_MESSAGE, 5, 7)));
    for (int bit = 0; bit < 64; bit++)
        cr_assert(!loci_same_proof(proof, proof ^ UINT64_C(1) << bit), "bit %d", bit);
}

/* ---- the first words of a connection ---- */

static const struct loci_address caller = { .identity = 7, .label = 70, .secret = { 71, 72 } };
static const struct loci_address called = { .identity = 8, .label = 80, .secret = { 81, 82 } };
/* Knows all that is public. */
static const struct loci_address stranger = { .identity = 7, .label = 70, .secret = { 1, 2 } };

Test(secret, greets_who_knows_it)
{
    struct loci_hello call, answer;

    loci_hello_fill(&call, LOCI_CALL, &caller, &called);
    loci_hello_fill(&answer, LOCI_ANSWER, &called, &caller);
    cr_assert(loci_hello_is_sound(&call, LOCI_CALL, &called));
    cr_assert(loci_hello_is_sound(&answer, LOCI_ANSWER, &caller));
    cr_assert(call.from == caller.identity && call.label == caller.label);
}

Test(secret, greets_nobody_else)
{
    struct loci_address guessed = called;
    struct loci_hello call, answer, other;

    loci_hello_fill(&call, LOCI_CALL, &caller, &called);
    loci_hello_fill(&answer, LOCI_ANSWER, &called, &caller);
    /* What was said to somebody else, or for something else. */
    cr_assert(!loci_hello_is_sound(&call, LOCI_CALL, &caller));
    cr_assert(!loci_hello_is_sound(&call, LOCI_ANSWER, &called));
    cr_assert(!loci_hello_is_sound(&answer, LOCI_CALL, &caller));
    /* By who does not know the secret. */
    guessed.secret[1]++;
    loci_hello_fill(&other, LOCI_CALL, &stranger, &guessed);
    cr_assert(!loci_hello_is_sound(&other, LOCI_CALL, &called));
    loci_hello_fill(&other, LOCI_ANSWER, &called, &stranger);
    cr_assert(!loci_hello_is_sound(&other, LOCI_ANSWER, &caller));
    /* For another sender. */
    other = call;
    other.from++;
    cr_assert(!loci_hello_is_sound(&other, LOCI_CALL, &called));
    other = call;
    other.label++;
    cr_assert(!loci_hello_is_sound(&other, LOCI_CALL, &called));
    for (size_t bit = 0; bit < 8 * sizeof call; bit++) {
        other = call;
        ((unsigned char *)&other)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        cr_assert(!loci_hello_is_sound(&other, LOCI_CALL, &called), "bit %zu", bit);
    }
}

/* ---- secrets of runtimes ---- */

static int tells_its_secret(const struct loco_bootstrap *boot, void *arg)
{
    struct loci_address all[2];
    loco_runtime_t *rt;

    (void)arg;
    if (loco_runtime_open(boot, &rt) != LOCO_OK
        || boot->exchange.allgather(boot->exchange.ctx, &rt->address, sizeof rt->address, all)
               != LOCO_OK)
        return 1;
    loco_runtime_close(rt);
    return all[0].secret[0] == all[1].secret[0] || all[0].secret[1] == all[1].secret[1]
           || all[0].secret[0] == all[0].secret[1] || all[0].secret[0] == 0;
}

Test(secret, is_each_runtimes_own)
{
    int statuses[2];

    loco_fork_run(2, tells_its_secret, NULL, statuses);
    cr_assert(statuses[0] == 0 && statuses[1] == 0);
}
