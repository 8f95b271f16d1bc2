/* SPDX-License-Identifier: BSD-3-Clause */

/* Growable list of operations. Memory errors end the program: this is a checking tool, and what it
 * could still say about half a history would be wrong. */

#include "history.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void *loci_history_grow(void *items, size_t *room, size_t want, size_t size)
{
    size_t more = *room > 0 ? *room : 64;

    if (want <= *room)
        return items;
    while (more < want)
        more *= 2;
    items = more <= SIZE_MAX / size ? realloc(items, more * size) : NULL;
    if (items == NULL) {
        fprintf(stderr, "no memory for %zu items of %zu bytes\n", more, size);
        abort();
    }
    *room = more;
    return items;
}

void loci_history_init(struct loci_history *history, const struct loci_op_form *forms)
{
    *history = (struct loci_history){ .forms = forms };
}

void loci_history_fini(struct loci_history *history)
{
    free(history->ops);
    *history = (struct loci_history){ 0 };
}

void loci_history_clear(struct loci_history *history)
{
    history->nops = 0;
    history->stamp = 0;
}

int loci_history_call(struct loci_history *history, int client, int op, uint64_t key, uint64_t arg,
                      uint64_t arg2)
{
    history->ops = loci_history_grow(history->ops, &history->room, history->nops + 1,
                                     sizeof *history->ops);
    history->ops[history->nops] = (struct loci_op){
        .client = client,
        .op = op,
        .key = key,
        .arg = arg,
        .arg2 = arg2,
        .call = ++history->stamp,
        .ret = LOCI_NEVER,
    };
    return (int)history->nops++;
}

void loci_history_return(struct loci_history *history, int index, int status, uint64_t result)
{
    struct loci_op *op = &history->ops[index];

    op->ret = ++history->stamp;
    op->status = status;
    op->result = result;
}

/* ---- shown ---- */

struct text {
    char *out;
    size_t size, len;
};

static void put(struct text *text, const char *s)
{
    size_t len = strlen(s);

    if (text->len < text->size)
        snprintf(text->out + text->len, text->size - text->len, "%s", s);
    text->len += len;
}

/* Large values are mostly made of parts, which hexadecimal shows. */
static void put_number(struct text *text, uint64_t n)
{
    char s[24];

    snprintf(s, sizeof s, n <= UINT32_MAX ? "%" PRIu64 : "0x%" PRIx64, n);
    put(text, s);
}

static void put_field(struct text *text, const struct loci_op *op, char field)
{
    switch (field) {
    case 'k': put_number(text, op->key); break;
    case 'a': put_number(text, op->arg); break;
    case 'b': put_number(text, op->arg2); break;
    case 'r': put_number(text, op->result); break;
    case 's': put(text, op->status ? "true" : "false"); break;
    case 'o':
        if (op->status)
            put_number(text, op->result);
        else
            put(text, "none");
        break;
    default: put(text, "%"); break;
    }
}

static void put_form(struct text *text, const struct loci_op *op, const char *form)
{
    for (; *form != '\0'; form++) {
        if (*form == '%' && form[1] != '\0')
            put_field(text, op, *++form);
        else
            put(text, (const char[]){ *form, '\0' });
    }
}

static const struct loci_op_form *form_of(const struct loci_op_form *forms, int op)
{
    static const struct loci_op_form plain = { "(key=%k, %a, %b)", "%s, %r" };

    for (int i = 0; forms != NULL && forms[i].call != NULL; i++)
        if (i == op)
            return &forms[i];
    return &plain;
}

int loci_op_print(char *out, size_t size, const struct loci_op *op,
                  const struct loci_op_form *forms, uint64_t until)
{
    const struct loci_op_form *form = form_of(forms, op->op);
    bool returned = loci_op_returned(op) && op->ret <= until;
    struct text text = { .out = out, .size = size };
    char s[64];

    snprintf(s, sizeof s, "p%d.t%d [%" PRIu64 "..", op->client >> 16, op->client & 0xffff,
             op->call);
    put(&text, s);
    if (returned)
        put_number(&text, op->ret);
    put(&text, "] ");
    put_form(&text, op, form->call);
    if (!returned) {
        put(&text, " -> ?");
    } else if (form->ret != NULL) {
        put(&text, " -> ");
        put_form(&text, op, form->ret);
    }
    return (int)text.len;
}

void loci_history_print(FILE *out, const struct loci_history *history)
{
    char line[256];

    for (size_t i = 0; i < history->nops; i++) {
        loci_op_print(line, sizeof line, &history->ops[i], history->forms, LOCI_NEVER);
        fprintf(out, "%s\n", line);
    }
}
