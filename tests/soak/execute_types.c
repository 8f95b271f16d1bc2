/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI's datatypes of ours. */
#include "execute.h"

#include <stdlib.h>

static MPI_Datatype build(const struct type *t);

static void release(MPI_Datatype *type, const struct type *t)
{
    if (t->shape != BASIC)
        MPI_Type_free(type);
}

static MPI_Datatype build_indexed(const struct type *t, MPI_Datatype sub)
{
    int n = t->args / 2, *length = calloc((size_t)n + 1, sizeof *length);
    int *at = calloc((size_t)n + 1, sizeof *at);
    MPI_Aint *bytes = calloc((size_t)n + 1, sizeof *bytes);
    MPI_Datatype type;

    for (int i = 0; i < n; i++) {
        length[i] = (int)t->arg[2 * i];
        at[i] = (int)t->arg[2 * i + 1];
        bytes[i] = t->arg[2 * i + 1];
    }
    if (t->shape == INDEXED)
        MPI_Type_indexed(n, length, at, sub, &type);
    else
        MPI_Type_create_hindexed(n, length, bytes, sub, &type);
    free(length);
    free(at);
    free(bytes);
    return type;
}

static MPI_Datatype build_block(const struct type *t, MPI_Datatype sub)
{
    int n = t->args - 1, *at = calloc((size_t)n + 1, sizeof *at);
    MPI_Aint *bytes = calloc((size_t)n + 1, sizeof *bytes);
    MPI_Datatype type;

    for (int i = 0; i < n; i++) {
        at[i] = (int)t->arg[i + 1];
        bytes[i] = t->arg[i + 1];
    }
    if (t->shape == INDEXED_BLOCK)
        MPI_Type_create_indexed_block(n, (int)t->arg[0], at, sub, &type);
    else
        MPI_Type_create_hindexed_block(n, (int)t->arg[0], bytes, sub, &type);
    free(at);
    free(bytes);
    return type;
}

static MPI_Datatype build_struct(const struct type *t)
{
    int *length = calloc((size_t)t->subs + 1, sizeof *length);
    MPI_Aint *at = calloc((size_t)t->subs + 1, sizeof *at);
    MPI_Datatype *sub = calloc((size_t)t->subs + 1, sizeof(MPI_Datatype)), type;

    for (int i = 0; i < t->subs; i++) {
        length[i] = (int)t->arg[2 * i];
        at[i] = t->arg[2 * i + 1];
        sub[i] = build(t->sub[i]);
    }
    MPI_Type_create_struct(t->subs, length, at, sub, &type);
    for (int i = 0; i < t->subs; i++)
        release(&sub[i], t->sub[i]);
    free(length);
    free(at);
    free(sub);
    return type;
}

static MPI_Datatype build_subarray(const struct type *t, MPI_Datatype sub)
{
    int dims = (int)t->arg[1], size[4], part[4], start[4];
    MPI_Datatype type;

    for (int i = 0; i < dims; i++) {
        size[i] = (int)t->arg[2 + i];
        part[i] = (int)t->arg[2 + dims + i];
        start[i] = (int)t->arg[2 + 2 * dims + i];
    }
    MPI_Type_create_subarray(dims, size, part, start,
                             t->arg[0] != 0 ? MPI_ORDER_FORTRAN : MPI_ORDER_C, sub, &type);
    return type;
}

static MPI_Datatype build_from(const struct type *t, MPI_Datatype sub)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;

    switch (t->shape) {
    case CONTIGUOUS:
        MPI_Type_contiguous((int)t->arg[0], sub, &type);
        break;
    case VECTOR:
        MPI_Type_vector((int)t->arg[0], (int)t->arg[1], (int)t->arg[2], sub, &type);
        break;
    case HVECTOR:
        MPI_Type_create_hvector((int)t->arg[0], (int)t->arg[1], t->arg[2], sub, &type);
        break;
    case INDEXED:
    case HINDEXED:
        return build_indexed(t, sub);
    case INDEXED_BLOCK:
    case HINDEXED_BLOCK:
        return build_block(t, sub);
    case SUBARRAY:
        return build_subarray(t, sub);
    case RESIZED:
        MPI_Type_create_resized(sub, t->arg[0], t->arg[1], &type);
        break;
    default:
        MPI_Type_dup(sub, &type);
        break;
    }
    return type;
}

static MPI_Datatype build(const struct type *t)
{
    MPI_Datatype type, sub;

    if (t->shape == BASIC)
        return el_types[t->el].type;
    if (t->shape == STRUCT)
        return build_struct(t);
    sub = build(t->sub[0]);
    type = build_from(t, sub);
    release(&sub, t->sub[0]);
    return type;
}

MPI_Datatype datatype_of(const struct type *t)
{
    MPI_Datatype type = build(t);

    if (t->shape != BASIC)
        MPI_Type_commit(&type);
    return type;
}
