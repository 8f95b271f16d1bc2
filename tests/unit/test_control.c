/* SPDX-License-Identifier: BSD-3-Clause */

/* Control messages that are not as they should be. */

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "names/control.h"
#include "names/endpoint.h"
#include "run.h"
#include "service.h"
#include "wait.h"

#define ROUNDS run_fuzz_rounds(20000)

static struct loci_control valid(enum loci_control_type type, unsigned nregions)
{
    struct loci_control m = {
        .magic = LOCI_CONTROL_MAGIC, .version = LOCI_CONTROL_VERSION, .type = (uint16_t)type,
        .len = (uint32_t)loci_control_len(nregions), .rank = 1, .from = 3,
        .to = type == LOCI_CONTROL_JOIN ? 0 : 1, .members = 9, .size = 2,
        .nregions = nregions, .name = "fuzz", .channel = "test",
        .property = { 7 },
    };

    for (unsigned i = 0; i < nregions; i++) {
        struct loci_control_region *r = &m.region[i];

        snprintf(r->name, sizeof r->name, "%s%u", i == 1 ? "root" : "data", i);
        r->len = 64;
        r->from = i == 1 ? 0 : LOCI_FROM_ALL;
        if ((type == LOCI_CONTROL_CONNECT || type == LOCI_CONTROL_CONNECTED) && i != 1)
            r->key = (struct loci_memkey){ .kind = LOCI_MEM_POOL, .extent = 1, .len = 64 };
    }
    loci_control_seal(&m);
    return m;
}

/* In memory of exactly that length, so that a sanitizer sees what is read past the end. */
static int parse_exact(const void *bytes, size_t len, struct loci_control *out)
{
    unsigned char *exact = malloc(len + (len == 0));
    const char *why = NULL;
    int status;

    memcpy(exact, bytes, len);
    status = loci_control_parse(exact, len, out, &why);
    free(exact);
    if (status != LOCO_OK)
        cr_assert_not_null(why);
    return status;
}

/* ---- one thing wrong ---- */

Test(control, parses_what_is_right)
{
    for (int type = LOCI_CONTROL_JOIN; type <= LOCI_CONTROL_SIMILAR; type++)
        for (unsigned nregions = 0; nregions <= LOCI_REGIONS_MAX; nregions++) {
            struct loci_control m = valid((enum loci_control_type)type, nregions), out;

            cr_assert_eq(parse_exact(&m, m.len, &out), LOCO_OK);
            cr_assert_eq(memcmp(&m, &out, sizeof m), 0);
        }
}

#define REFUSED_OF(type, change)                                                                  \
    do {                                                                                          \
        struct loci_control m = valid(type, 2);                                                   \
        change;                                                                                   \
        loci_control_seal(&m);                                                                    \
        cr_assert_eq(parse_exact(&m, loci_control_len(2), &out), LOCO_ERR_PROTOCOL, #change);     \
    } while (0)
#define REFUSED(change) REFUSED_OF(LOCI_CONTROL_JOIN, change)
#define REFUSED_CONNECT(change) REFUSED_OF(LOCI_CONTROL_CONNECT, change)

Test(control, refuses_each_kind_of_wrong_head)
{
    struct loci_control out;

    REFUSED(m.magic++);
    REFUSED(m.version++);
    REFUSED(m.type = 0);
    REFUSED(m.type = LOCI_CONTROL_SIMILAR + 1);
    REFUSED(m.len--);
    REFUSED(m.nregions = 1);
    REFUSED(m.nregions = LOCI_REGIONS_MAX + 1);
    REFUSED(m.nregions = UINT32_MAX);
    REFUSED(m.rank = -1);
    REFUSED(m.rank = 2);
    REFUSED(m.size = 0);
    REFUSED(m.size = UINT32_MAX);
    REFUSED(m.from = 0);
    REFUSED_CONNECT(m.to = 0);
    REFUSED(m.name[0] = '\0');
    REFUSED(memset(m.name, 'x', sizeof m.name));
    REFUSED(memset(m.channel, 'x', sizeof m.channel));
}

Test(control, refuses_each_kind_of_wrong_region)
{
    struct loci_control out;

    REFUSED(m.region[1].name[0] = '\0');
    REFUSED(memset(m.region[1].name, 'x', LOCI_REGION_NAME));
    REFUSED(m.region[1].from = -3);
    REFUSED(m.region[1].from = 2);
    REFUSED(m.region[0].key.kind = LOCI_MEM_POOL);
    REFUSED(m.region[0].key.rkey = 1);
    REFUSED_CONNECT(m.region[0].key.kind = LOCI_MEM_NONE);
    REFUSED_CONNECT(m.region[0].key.kind = LOCI_MEM_USER);
    REFUSED_CONNECT((m.region[0].from = LOCI_FROM_SOME, m.region[0].key.len = 63));
    REFUSED_CONNECT(m.region[0].key.kind = 15);
    REFUSED_CONNECT(m.region[0].key.len = 63);
    REFUSED_CONNECT(m.region[0].key.len = UINT64_MAX);
    REFUSED_CONNECT(m.region[0].len = m.region[0].key.len = UINT64_MAX);
    REFUSED_CONNECT(m.region[0].key.base = UINT64_MAX - 8);
    REFUSED_CONNECT(m.region[1].key.kind = LOCI_MEM_POOL);      /* rank 0's */
}

Test(control, any_length_is_refused_but_the_right_one)
{
    struct loci_control m = valid(LOCI_CONTROL_CONNECT, 2), out;
    unsigned char big[LOCI_CONTROL_MAX] = { 0 };

    memcpy(big, &m, sizeof m);
    for (size_t len = 0; len <= sizeof big; len++)
        cr_assert_eq(parse_exact(big, len, &out),
                     len == loci_control_len(2) ? LOCO_OK : LOCO_ERR_PROTOCOL);
}

Test(control, each_bit_that_is_flipped_is_seen)
{
    for (unsigned nregions = 0; nregions <= LOCI_REGIONS_MAX; nregions += 4) {
        struct loci_control m = valid(LOCI_CONTROL_CONNECT, nregions), out;
        unsigned char *bytes = (unsigned char *)&m;

        memset(&out, 0x55, sizeof out);
        for (size_t bit = 0; bit < 8 * (size_t)loci_control_len(nregions); bit++) {
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
            cr_assert_eq(parse_exact(bytes, loci_control_len(nregions), &out),
                         LOCO_ERR_PROTOCOL, "bit %zu", bit);
            bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
        for (size_t i = 0; i < sizeof out; i++)
            cr_assert_eq(((unsigned char *)&out)[i], 0x55);
    }
}

/* ---- much wrong ---- */

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

Test(control, random_bytes_are_refused, .timeout = 6000)
{
    uint64_t state = 88172645463325252u;
    struct loci_control out;

    for (int i = 0, rounds = ROUNDS; i < rounds; i++) {
        unsigned char bytes[LOCI_CONTROL_MAX];
        size_t len = next_random(&state) % (sizeof bytes + 1);

        for (size_t k = 0; k < len; k++)
            bytes[k] = (unsigned char)next_random(&state);
        cr_assert_eq(parse_exact(bytes, len, &out), LOCO_ERR_PROTOCOL);
    }
}

/* Some random changes to a right message; sealed again, as its sender would have. */
static size_t changed(uint64_t *state, unsigned char bytes[sizeof(struct loci_control)])
{
    unsigned types = LOCI_CONTROL_SIMILAR;
    struct loci_control m = valid((enum loci_control_type)(1 + next_random(state) % types), 2);
    int changes = (int)(next_random(state) % 5);
    size_t len = m.len;

    m.from = 1 + next_random(state) % 4;
    m.rank = (int32_t)(next_random(state) % 2);
    memcpy(bytes, &m, sizeof m);
    for (int c = 0; c < changes; c++) {
        size_t at = next_random(state) % len;

        if (next_random(state) % 2 == 0)
            bytes[at] = (unsigned char)next_random(state);
        else
            bytes[at] ^= (unsigned char)(1 << next_random(state) % 8);
    }
    memcpy(&m, bytes, sizeof m);
    if (m.len <= sizeof m && next_random(state) % 8 != 0)
        loci_control_seal(&m);
    memcpy(bytes, &m, sizeof m);
    return next_random(state) % 8 == 0 ? next_random(state) % sizeof m : len;
}

static bool in_range(const struct loci_control *m)
{
    bool right = m->rank >= 0 && (uint32_t)m->rank < m->size && m->size <= LOCI_MAX_PEERS
                 && m->nregions <= LOCI_REGIONS_MAX && m->len == loci_control_len(m->nregions)
                 && strnlen(m->name, LOCI_NAME_MAX) < LOCI_NAME_MAX && m->from != 0
                 && strnlen(m->channel, LOCI_TYPE_NAME) < LOCI_TYPE_NAME;

    for (unsigned i = 0; i < m->nregions; i++) {
        const struct loci_control_region *r = &m->region[i];

        right = right && strnlen(r->name, LOCI_REGION_NAME) < LOCI_REGION_NAME && r->from >= -2
                && r->from < (int32_t)m->size && r->key.base <= SIZE_MAX / 2
                && (r->key.kind == LOCI_MEM_NONE || r->key.len >= r->len);
    }
    return right;
}

Test(control, what_is_believed_is_in_range, .timeout = 6000)
{
    uint64_t state = 1234567;
    int taken = 0, rounds = 5 * ROUNDS;

    for (int i = 0; i < rounds; i++) {
        unsigned char bytes[sizeof(struct loci_control)];
        size_t len = changed(&state, bytes);
        struct loci_control out;

        if (parse_exact(bytes, len, &out) == LOCO_OK) {
            cr_assert(in_range(&out));
            taken++;
        }
    }
    cr_assert_gt(taken, rounds / 50);       /* or we tried nothing but the head */
}

/* The same, given to a live endpoint as if its peer had sent it. */
static int fuzz_body(loco_runtime_t *rt, int rank, void *arg)
{
    struct loci_endpoint_spec spec = {
        .name = "fuzz", .type = "test", .property = { { "width", 7 } },
        .group = loco_everyone(rt), .nregions = 2,
        .region = { { "data0", 64, 0, LOCI_FROM_ALL }, { "root1", 64, 0, 0 } },
    };
    uint64_t state = 987654321;
    struct loci_endpoint *ep;
    int64_t begin = loci_now(rt);
    int refused = 0;

    if (rank == 1)
        return 0;       /* its runtime takes the answers */
    CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
    for (int i = 0; i < *(int *)arg; i++) {
        unsigned char bytes[sizeof(struct loci_control)];
        size_t len = changed(&state, bytes);
        struct loci_control out;
        const char *why;

        refused += loci_control_parse(bytes, len, &out, &why) != LOCO_OK;
        loci_control_receive(rt, 1, bytes, len);
        if (i % 64 == 63) {     /* most end up failed: begin afresh */
            loci_endpoint_destroy(ep);
            CHECK_OK(loci_endpoint_create(rt, &spec, &ep));
        }
    }
    loci_endpoint_destroy(ep);
    CHECK_EQ(atomic_load(&rt->dropped.all), refused);
    CHECK(refused == 0 || weak_logged(rt, "process 1001 dropped: ") > 0);
    CHECK(weak_logged(rt, "process 1001 dropped: ") <= 2 + (loci_now(rt) - begin) / 1000000000);
    return 0;
}

Test(control, nothing_that_a_peer_sends_breaks_an_endpoint, .timeout = 6000)
{
    int rounds = ROUNDS / 2;

    cr_assert_eq(run_on(RUN_WEAK, 2, 3, NULL, fuzz_body, &rounds), 0);
}
