/* SPDX-License-Identifier: BSD-3-Clause */

#include "config.h"

#include "gather_words.h"

#include <string.h>

#include "window/acc/window_acc_right.h"
#include "window/acc/window_acc_run.h"

/* ---- gathering ---- */

static uint16_t *head_of(struct loci_words *w, uint64_t offset)
{
    return &w->head[offset * UINT64_C(0x9e3779b97f4a7c15) >> (64 - LOCI_WORDS_BITS)];
}

void loci_words_clear(struct loci_words *w)
{
    w->n = w->ops = 0;
    memset(w->head, 0, sizeof w->head);
}

/* With room for its first operation, which is the next. */
static struct loci_word *add_word(struct loci_words *w, uint64_t offset)
{
    uint16_t *head = head_of(w, offset);
    struct loci_word *word = &w->word[w->n];

    *word = (struct loci_word){ offset, w->ops, w->ops, *head };
    *head = ++w->n;
    return word;
}

static struct loci_word *find_word(struct loci_words *w, uint64_t offset)
{
    unsigned at = *head_of(w, offset);

    while (at != 0 && w->word[at - 1].offset != offset)
        at = w->word[at - 1].next;
    return at != 0 ? &w->word[at - 1] : NULL;
}

/* Sums of integers are the same with and without sign. */
static bool is_sum(const struct loci_word_op *op)
{
    return op->op == LOCO_OP_SUM && op->type <= LOCO_TYPE_U64;
}

void loci_words_add(struct loci_words *w, enum loco_type type, enum loco_op op, uint64_t offset,
                    const void *operand)
{
    struct loci_word_op new = { .type = type, .op = op }, *last;
    struct loci_word *word = find_word(w, offset);

    memcpy(&new.operand, operand, sizeof new.operand);
    last = word != NULL ? &w->op[word->last] : NULL;
    if (last != NULL && is_sum(last) && is_sum(&new)) {
        last->operand += new.operand;
        return;
    }
    if (word == NULL)
        add_word(w, offset);
    else if (op == LOCO_OP_REPLACE)
        word->first = word->last = w->ops;      /* whatever came before */
    else
        last->next = (uint16_t)(w->ops + 1), word->last = w->ops;
    w->op[w->ops++] = new;
}

/* ---- doing ---- */

/* Some of the words, all of which are added to or all of which are swapped. */
struct part {
    struct loco_window *win;
    int rank;
    const struct loci_words *w;
    bool sums;
    struct loci_acc_run run;
    const struct loci_word *word[LOCI_ACC_RUN_WORDS];
};

static bool is_only_added(const struct loci_words *w, const struct loci_word *word)
{
    return word->first == word->last && is_sum(&w->op[word->first]);
}

static void change(const void *how, size_t k, uint64_t *value)
{
    const struct part *part = how;
    unsigned at = part->word[k]->first + 1u;

    while (at != 0) {
        const struct loci_word_op *op = &part->w->op[at - 1];

        loci_reduce_table[op->type][op->op](value, &op->operand, 1);
        at = op->next;
    }
}

static int part_send(struct part *part)
{
    uint64_t operand[LOCI_ACC_RUN_WORDS];

    if (part->run.n == 0)
        return LOCO_OK;
    if (!part->sums)
        return loci_acc_run_change(&part->run, change, part);
    for (size_t k = 0; k < part->run.n; k++)
        operand[k] = part->w->op[part->word[k]->first].operand;
    return loci_acc_run_sum(&part->run, operand);
}

/* A part that is full, or that the word is not for, goes first. */
static int part_add(struct part *part, const struct loci_word *word)
{
    size_t len = 8;
    int found = loci_acc_run_add(part->win, part->rank, word->offset, &len, &part->run);

    if (found == LOCO_ERR_AGAIN) {
        int status = part_send(part);

        if (status != LOCO_OK)
            return status;
        len = 8;
        found = loci_acc_run_add(part->win, part->rank, word->offset, &len, &part->run);
    }
    if (found != 1)
        return found < 0 ? found : LOCO_ERR_RANGE;  /* attached anew since, in another way */
    part->word[part->run.n - 1] = word;
    return LOCO_OK;
}

static int send(struct part *part, const struct loci_words *w, bool sums)
{
    int status = LOCO_OK;

    part->sums = sums;
    for (unsigned i = 0; status == LOCO_OK && i < w->n; i++)
        if (is_only_added(w, &w->word[i]) == sums)
            status = part_add(part, &w->word[i]);
    return status == LOCO_OK ? part_send(part) : status;
}

static int send_all(struct loco_window *win, int rank, const struct loci_words *w)
{
    struct part part;
    int status, done;

    part.win = win;
    part.rank = rank;
    part.w = w;
    loci_acc_run_open(win, &part.run);
    status = send(&part, w, true);
    if (status == LOCO_OK)
        status = send(&part, w, false);
    done = loci_acc_run_close(&part.run);
    return status == LOCO_OK ? done : status;
}

/* However many they are, they are single elements to whoever weighs atomics against the lock. */
int loci_words_send(struct loco_window *win, int rank, struct loci_words *w)
{
    bool locks;
    int status = loci_acc_right_begin(win, rank, 1, &locks), ended;

    if (status == LOCO_ERR_AGAIN)
        status = loci_acc_right_take(win, rank);
    if (status == LOCO_OK) {
        status = send_all(win, rank, w);
        ended = loci_acc_right_end(win, rank);
        status = status == LOCO_OK ? ended : status;
    }
    loci_words_clear(w);
    return status;
}
