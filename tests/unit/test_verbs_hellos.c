/* SPDX-License-Identifier: BSD-3-Clause */

/* What strangers say when they call the port of a link, and who answers where we call, is not what
 * a process of the job would say: any bytes, of any length, or a right hello of which some bits
 * are others. FUZZ_ROUNDS says how many. */

#include "config.h"

#include <criterion/criterion.h>

#include "secret.h"
#include "verbs_world.h"

#define DATA 255        /* bytes that a call may bring */

struct words {
    size_t len;
    unsigned char bytes[DATA];
};

struct half {
    int rounds;
    bool we_call;
};

static int event(struct verbs_world *w, enum rdma_cm_event_type type, struct rdma_cm_id *id,
                 const struct words *said)
{
    /* Of exactly that length, so that a sanitizer sees what is read past the end. */
    unsigned char *exact = malloc(said->len + (said->len == 0));
    struct rdma_cm_event e = { .id = id, .event = type };

    CHECK(exact != NULL);
    memcpy(exact, said->bytes, said->len);
    e.param.conn.private_data = said->len > 0 ? exact : NULL;
    e.param.conn.private_data_len = (uint8_t)said->len;
    fake_cm.event = &e;
    loci_link_connect_event(w->rt, &w->links, -1, 0);
    free(exact);
    return 0;
}

/* What a process with that address says to us. */
static void right(struct verbs_world *w, enum loci_purpose purpose,
                  const struct loci_address *from, struct words *said)
{
    struct loci_hello hello;

    loci_hello_fill(&hello, purpose, from, &w->rt->address);
    fuzz_fill(w, said->bytes, sizeof said->bytes);
    memcpy(said->bytes, &hello, sizeof hello);
    said->len = sizeof hello + fuzz_below(w, 8);
}

/* Whether it is right all the same. */
static bool any(struct verbs_world *w, enum loci_purpose purpose, const struct loci_address *from,
                struct words *said)
{
    struct loci_hello hello;

    right(w, fuzz_below(w, 16) == 0 ? LOCI_PASS + fuzz_below(w, 4) : purpose, from, said);
    switch (fuzz_below(w, 8)) {
    case 0: fuzz_fill(w, said->bytes, sizeof said->bytes); break;
    case 1: said->len = fuzz_below(w, DATA + 1); break;
    case 2: break;
    default: fuzz_change(w, said->bytes, sizeof hello);
    }
    loci_hello_fill(&hello, purpose, from, &w->rt->address);
    return said->len >= sizeof hello && memcmp(said->bytes, &hello, sizeof hello) == 0;
}

/* ---- they call ---- */

static int is_called(struct verbs_world *w)
{
    bool met = fuzz_below(w, 32) != 0, good;
    struct loci_address from = w->peer->address;
    int ids = fake_cm.ids, rejected = fake_cm.rejected, accepted = fake_cm.accepted;
    unsigned parked = w->links.links.nparked;
    enum loci_link_state state = w->link->link.state;
    struct rdma_cm_id *id = fake_id();
    struct words said;

    if (!met)
        from.identity = 1 + fuzz_below(w, 0x800);       /* of the job, but not in our table yet */
    good = any(w, LOCI_CALL, &from, &said);
    CHECK(id != NULL && event(w, RDMA_CM_EVENT_CONNECT_REQUEST, id, &said) == 0);
    if (good && !met) {
        CHECK_EQ(w->links.links.nparked, parked + 1);
        return 0;
    }
    CHECK_EQ(w->links.links.nparked, parked);
    if (good && state != LINK_READY) {
        CHECK_EQ(fake_cm.accepted, accepted + 1);
        CHECK_EQ(w->link->link.state, LINK_CONNECTING);
        CHECK(w->link->id == id);
        return 0;
    }
    CHECK_EQ(fake_cm.accepted, accepted);
    CHECK_EQ(fake_cm.rejected, rejected + 1);
    CHECK_EQ(fake_cm.ids, ids);
    CHECK_EQ(w->link->link.state, state);
    return 0;
}

/* Who has been accepted says nothing more. */
static int is_connected(struct verbs_world *w)
{
    struct words said = { .len = fuzz_below(w, DATA + 1) };

    fuzz_fill(w, said.bytes, said.len);
    CHECK(event(w, RDMA_CM_EVENT_ESTABLISHED, w->link->id, &said) == 0);
    CHECK_EQ(w->link->link.state, LINK_READY);
    return 0;
}

static void forget_parked(struct verbs_world *w)
{
    for (struct loci_link_parked *p = w->links.links.parked; p != NULL; p = p->next)
        p->since -= INT64_C(130000000000);
    loci_link_tidy_parked(&w->links.links);
}

/* ---- we call ---- */

static int calls(struct verbs_world *w)
{
    struct words said = { .len = 0 };
    bool good;

    loci_verbs_link_connect(&w->link->link);
    CHECK_EQ(w->link->link.state, LINK_CONNECTING);
    CHECK(event(w, RDMA_CM_EVENT_ADDR_RESOLVED, w->link->id, &said) == 0);
    CHECK(event(w, RDMA_CM_EVENT_ROUTE_RESOLVED, w->link->id, &said) == 0);
    good = any(w, LOCI_ANSWER, &w->peer->address, &said);
    CHECK(event(w, RDMA_CM_EVENT_ESTABLISHED, w->link->id, &said) == 0);
    CHECK_EQ(w->link->link.state, good ? LINK_READY : LINK_NEW);
    CHECK_EQ(fake_cm.ids, good ? 1 : 0);
    return 0;
}

/* ---- all ---- */

static int one_round(struct verbs_world *w, const struct half *half)
{
    struct verbs_link *l = w->link;

    CHECK((half->we_call ? calls(w) : is_called(w)) == 0);
    if (!half->we_call && l->link.state == LINK_CONNECTING && fuzz_below(w, 4) == 0)
        CHECK(is_connected(w) == 0);
    if (l->link.state == LINK_READY && (half->we_call || fuzz_below(w, 16) == 0)) {
        loci_verbs_link_disconnect(&l->link);        /* and all begins again */
        l->link.state = LINK_NEW;
    }
    CHECK_EQ(fake_cm.ids, (int)w->links.links.nparked + (l->id != NULL));
    return 0;
}

static int fuzz_body(loco_runtime_t *rt, int rank, void *arg)
{
    const struct half *half = arg;
    struct verbs_world *w;
    int64_t begin = loci_now(rt);
    struct words said;
    int lines;

    /* Who has the lower identity calls. */
    if (rank != (half->we_call ? 0 : 1))
        return 0;
    w = calloc(1, sizeof *w);
    CHECK(w != NULL && verbs_open(w, rt, 1) == 0);
    for (int i = 0; i < half->rounds; i++) {
        CHECK(one_round(w, half) == 0);
        if (w->links.links.nparked > 4096)
            forget_parked(w);
    }
    forget_parked(w);
    CHECK_EQ(w->links.links.nparked, 0);
    lines = weak_logged(rt, "a stranger's call is refused");
    printf("# %d hellos: %d accepted, %d rejected, %d asked, %llu strangers, %d lines\n",
           half->rounds, fake_cm.accepted, fake_cm.rejected, fake_cm.connected,
           (unsigned long long)atomic_load(&w->links.links.refused.all), lines);
    CHECK(lines <= 2 + (loci_now(rt) - begin) / 1000000000);
    /* A right one is taken. */
    loci_verbs_link_disconnect(&w->link->link);
    w->link->link.state = LINK_NEW;
    if (!half->we_call) {
        right(w, LOCI_CALL, &w->peer->address, &said);
        CHECK(event(w, RDMA_CM_EVENT_CONNECT_REQUEST, fake_id(), &said) == 0);
        CHECK(is_connected(w) == 0);
    }
    CHECK(verbs_close(w) == 0);
    free(w);
    return 0;
}

Test(verbs_hellos, who_calls_is_of_the_job, .timeout = 3600)
{
    struct half half = { fuzz_rounds(), false };

    cr_assert_eq(run_on(RUN_WEAK, 2, 3, NULL, fuzz_body, &half), 0);
}

Test(verbs_hellos, who_answers_is_of_the_job, .timeout = 3600)
{
    struct half half = { fuzz_rounds(), true };

    cr_assert_eq(run_on(RUN_WEAK, 2, 3, NULL, fuzz_body, &half), 0);
}
