/* SPDX-License-Identifier: BSD-3-Clause */

/* Sums of integers are added. Else the elements are read, and what the operation makes of them is
 * swapped in where nobody was faster, again and again; an element that the operation leaves as it
 * is was combined when it was read. All of a run go as chains: a device has as many under way as it
 * can, and a round costs one round trip, not one for each element.
 *
 * Of sums whose results nobody wants a run is not waited for, either: the next is posted behind it.
 * They are added in the order of their posting, so the elements of one origin stay in order. */

#include "config.h"

#include "window_acc_run.h"

#include <string.h>

void loci_acc_run_open(struct loco_window *win, struct loci_acc_run *r)
{
    r->rt = win->rt;
    r->ack = (loco_ack_t)LOCO_ACK_INIT;
    r->n = 0;
}

/* `room`: the range was found anew, as DYNAMIC's are. */
static bool is_another(const struct loci_acc_run *r, const struct loci_mem *mem,
                       const struct loci_mem *room)
{
    return mem != room ? mem != r->mem
                       : mem->key.extent != r->mem->key.extent || mem->key.base != r->mem->key.base
                         || mem->key.len != r->mem->key.len;
}

int loci_acc_run_add(struct loco_window *win, int rank, uint64_t offset, size_t *len,
                     struct loci_acc_run *r)
{
    const size_t left = 8 * (LOCI_ACC_RUN_WORDS - r->n);
    struct loci_mem room, *mem;
    uint64_t at;
    int status;

    if (left == 0)
        return LOCO_ERR_AGAIN;
    *len = *len < left ? *len : left;
    status = loci_window_locate(win, rank, offset, len, &mem, &at, &room);
    if (status != LOCO_OK)
        return status;
    if (*len < 8 || ((mem->key.base + at) & 7) != 0) {
        *len = *len < 8 ? 8 : *len & ~(size_t)7;
        return 0;
    }
    if (r->n > 0 && is_another(r, mem, &room))
        return LOCO_ERR_AGAIN;
    if (r->n == 0 && mem == &room)
        r->room = room;
    if (r->n == 0)
        r->mem = mem == &room ? &r->room : mem;
    *len &= ~(size_t)7;
    for (size_t k = 0; k < *len; k += 8)
        r->offset[r->n++] = at + k;
    return 1;
}

int loci_acc_run_close(struct loci_acc_run *r)
{
    int status = loco_ack_wait(r->rt, &r->ack);

    r->ack = (loco_ack_t)LOCO_ACK_INIT;
    return status;
}

/* What was read or swapped is looked at next: nothing is in flight from here on. */
static int run_done(struct loci_acc_run *r, int status)
{
    int done = loci_acc_run_close(r);

    return status == LOCO_OK ? done : status;
}

/* Operations of a run, given to the fabric as chains; in the owner domain atomics on what is mapped
 * are done by the CPU here and now. */
struct run_chain {
    struct loci_acc_run *r;
    unsigned char *word;                /* where that is so */
    int n;
    struct loci_op op[LOCI_CHAIN];
};

static void chain_open(struct run_chain *c, struct loci_acc_run *r)
{
    c->r = r;
    c->n = 0;
    (void)loci_mem_map(r->rt, r->mem);
    c->word = loci_mem_word(r->mem);
}

static int chain_send(struct run_chain *c)
{
    int n = c->n;

    c->n = 0;
    return loci_post_spans(c->r->rt, c->op, n, &c->r->ack);
}

static int do_here(struct run_chain *c, size_t k, const struct loci_op *op)
{
    unsigned char *word = c->word + c->r->offset[k];

    LOCI_COUNT_MEM(c->r->rt, atomics, c->r->mem);
    *op->result = op->kind == LOCI_FETCH_ADD
                  ? loci_cpu_fetch_add(word, op->operand)
                  : loci_cpu_compare_swap(word, op->compare, op->operand);
    return LOCO_OK;
}

/* One on `words` from the run's k-th on; the caller fills in the rest. */
static int chain_add(struct run_chain *c, size_t k, size_t words, struct loci_op op)
{
    if (c->word != NULL)
        return do_here(c, k, &op);
    op.mem = c->r->mem;
    op.offset = c->r->offset[k];
    op.len = 8 * words;
    LOCO_ASSERT(loci_mem_is_posted_to(op.mem));
    c->op[c->n++] = op;
    return c->n == LOCI_CHAIN ? chain_send(c) : LOCO_OK;
}

/* Each word at once, never torn; of mapped memory by the CPU, which is fine in all domains. */
static int run_read(struct loci_acc_run *r)
{
    struct run_chain chain;
    int status = LOCO_OK;

    if (loci_mem_map(r->rt, r->mem) != NULL) {
        for (size_t k = 0; status == LOCO_OK && k < r->n; k++)
            status = loci_read64(r->rt, r->mem, r->offset[k], &r->old[k], NULL);
        return status;
    }
    chain_open(&chain, r);
    for (size_t k = 0, words; status == LOCO_OK && k < r->n; k += words) {
        for (words = 1; k + words < r->n && r->offset[k + words] == r->offset[k] + 8 * words;)
            words++;
        status = chain_add(&chain, k, words,
                           (struct loci_op){ .kind = LOCI_READ, .local = &r->old[k] });
    }
    if (status == LOCO_OK)
        status = chain_send(&chain);
    return run_done(r, status);
}

/* Without `wanted` they may be in flight when it returns. */
static int run_add(struct loci_acc_run *r, const unsigned char *operand, bool wanted)
{
    struct run_chain chain;
    int status = LOCO_OK;

    chain_open(&chain, r);
    for (size_t k = 0; status == LOCO_OK && k < r->n; k++) {
        struct loci_op op = {
            .kind = LOCI_FETCH_ADD, .result = &r->old[k], .unwanted = !wanted,
        };

        memcpy(&op.operand, operand + 8 * k, sizeof op.operand);
        status = chain_add(&chain, k, 1, op);
    }
    if (status == LOCO_OK)
        status = chain_send(&chain);
    return wanted ? run_done(r, status) : status;
}

/* One try for each of the words in `left`; *left becomes those where somebody was faster, whose
 * new values are in old[]. `fresh`: what is there now was the device's to say, so that a word which
 * stays as it is need not be swapped. */
static int run_try(struct loci_acc_run *r, loci_acc_change_fn *change, const void *how, bool fresh,
                   uint64_t *left)
{
    uint64_t seen[LOCI_ACC_RUN_WORDS], tried = 0, missed = 0;
    struct run_chain chain;
    int status = LOCO_OK;

    chain_open(&chain, r);
    for (uint64_t todo = *left; status == LOCO_OK && todo != 0; todo &= todo - 1) {
        int k = __builtin_ctzll(todo);
        struct loci_op op = {
            .kind = LOCI_COMPARE_SWAP, .operand = r->old[k], .compare = r->old[k],
            .result = &seen[k],
        };

        change(how, (size_t)k, &op.operand);
        if (fresh && op.operand == op.compare)
            continue;
        tried |= UINT64_C(1) << k;
        status = chain_add(&chain, (size_t)k, 1, op);
    }
    if (status == LOCO_OK)
        status = chain_send(&chain);
    status = run_done(r, status);
    for (uint64_t todo = tried; status == LOCO_OK && todo != 0; todo &= todo - 1) {
        int k = __builtin_ctzll(todo);

        if (seen[k] != r->old[k])
            missed |= UINT64_C(1) << k;
        r->old[k] = seen[k];
    }
    *left = missed;
    return status;
}

/* In the nic domain the CPU may see a word of mapped memory as it was before the device's last
 * atomic on it. Then the swap fails, and says what is there. */
static int run_change(struct loci_acc_run *r, loci_acc_change_fn *change, const void *how)
{
    uint64_t left = UINT64_MAX >> (LOCI_ACC_RUN_WORDS - r->n);
    bool fresh = loci_mem_map(r->rt, r->mem) == NULL || loci_mem_word(r->mem) != NULL;
    int status = run_read(r);

    for (; status == LOCO_OK && left != 0; fresh = true)
        status = run_try(r, change, how, fresh, &left);
    return status;
}

int loci_acc_run_change(struct loci_acc_run *r, loci_acc_change_fn *change, const void *how)
{
    int status = run_change(r, change, how);

    r->n = 0;
    return status;
}

int loci_acc_run_sum(struct loci_acc_run *r, const uint64_t *operand)
{
    int status = run_add(r, (const unsigned char *)operand, false);

    r->n = 0;
    return status;
}

/* An operation and its operands, packed. */
struct reduction {
    loci_reduce_fn *reduce;
    const unsigned char *operand;
};

static void reduce_word(const void *how, size_t k, uint64_t *word)
{
    const struct reduction *reduction = how;

    reduction->reduce(word, reduction->operand + 8 * k, 1);
}

int loci_acc_run_combine(struct loci_acc_run *r, const struct loco_accumulate *acc,
                         const unsigned char *operand, unsigned char *result)
{
    const struct reduction reduction = { loci_reduce(acc->op, acc->type), operand };
    int status;

    if (acc->op == LOCO_OP_NO_OP)
        status = run_read(r);
    else if (acc->op == LOCO_OP_SUM && acc->type <= LOCO_TYPE_U64)
        status = run_add(r, operand, result != NULL);
    else
        status = run_change(r, reduce_word, &reduction);
    if (status == LOCO_OK && result != NULL)
        memcpy(result, r->old, 8 * r->n);
    r->n = 0;
    return status;
}
