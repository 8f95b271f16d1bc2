/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of MPI one-sided calls as data: it is generated, printed, parsed, edited by hand,
 * shrunk, modelled, executed. README.md has the language. Everything of a program lies in its
 * arena and goes with it.
 */
#ifndef LOCO_TESTS_SOAK_PROGRAM_H
#define LOCO_TESTS_SOAK_PROGRAM_H

#include "elems.h"

#include <stdbool.h>
#include <stdio.h>

enum {
    SOAK_RANKS = 8,
    SOAK_THREADS = 4,
    SOAK_ACTORS = SOAK_RANKS * SOAK_THREADS,
    SOAK_COMMS = 4,
    SOAK_WINDOWS = 8,
    SOAK_PARTS = 16,        /* of a window: one per member, or dynamic regions */
    SOAK_INFOS = 4,
    SOAK_LIST = 16,
    SOAK_GUARD = 32         /* bytes before and behind each buffer that is ours */
};

/* ---- memory ---- */

struct arena {
    struct chunk *chunks;
};

void *arena_get(struct arena *arena, size_t bytes); /* zeroed */
void arena_free(struct arena *arena);

/* ---- datatypes ---- */

enum shape {
    BASIC,
    CONTIGUOUS,     /* (count; T) */
    VECTOR,         /* (count, length, stride; T) */
    HVECTOR,
    INDEXED,        /* (length, at, length, at...; T) */
    HINDEXED,
    INDEXED_BLOCK,  /* (length, at, at...; T) */
    HINDEXED_BLOCK,
    STRUCT,         /* (length, at, length, at...; T; T...), never padded at its end */
    SUBARRAY,       /* (1 if Fortran's order, dimensions, sizes..., parts..., starts...; T) */
    RESIZED,        /* (lower bound, extent; T) */
    DUP,            /* (; T) */
    SHAPES
};

struct type {
    enum shape shape;
    int el;                     /* BASIC: index of el_types */
    int args, subs;
    long *arg;
    const struct type **sub;
};

struct buffer {
    int count;
    const struct type *type;    /* NULL: there is no such buffer */
};

/* What `count` of a type touch: elements in order of the type map. */
struct spot {
    long at;
    int el;
};
struct layout {
    int n, room;
    struct spot *spot;
    long lb, ub;                /* of one */
    long low, high;             /* bytes touched by all: [low, high), 0, 0 if none */
};

/* False if it has more elements than SOAK_ELEMENTS. `spot` is malloced. */
enum { SOAK_ELEMENTS = 1 << 17 };
bool layout_of(const struct buffer *buffer, struct layout *layout);
void layout_free(struct layout *layout);
/* The parts of element `el`, which may have a hole: of part 0 and 1, place and bytes. */
int element_parts(int el, int *at, int *bytes);
/* Is this one of the bytes of a long double that hold nothing? */
bool element_padding(int el, int byte);

/* ---- windows and statements ---- */

enum flavor { ALLOCATE, CREATE, DYNAMIC, SHARED, FLAVORS };

struct part_spec {
    int owner;                  /* rank in the world */
    int unit;
    long bytes;
};

struct window_spec {
    enum flavor flavor;
    int comm;
    int parts;                  /* dynamic: regions of any owner; else one per member in order */
    struct part_spec part[SOAK_PARTS];
    int fill;                   /* memory holds elements of this type at first; -1: any bytes */
    uint64_t seed;
    int infos;
    const char *key[SOAK_INFOS], *value[SOAK_INFOS];
};

struct comm_spec {
    int n;
    int rank[SOAK_RANKS];       /* in the world, in the communicator's order */
};

enum verb {
    /* of all members of a window or communicator */
    V_OPEN, V_FREE, V_FENCE, V_BARRIER,
    /* of one thread: synchronisation */
    V_POST, V_START, V_COMPLETE, V_WAIT, V_TEST, V_LOCK, V_UNLOCK, V_LOCK_ALL, V_UNLOCK_ALL,
    V_FLUSH, V_FLUSH_LOCAL, V_FLUSH_ALL, V_FLUSH_LOCAL_ALL, V_SYNC,
    V_WAITALL, V_WAITANY, V_WAITONE, V_TESTALL, V_SIGNAL, V_JOIN,
    V_ATTACH, V_DETACH,
    /* of one thread: data */
    V_LOAD, V_STORE, V_PUT, V_GET, V_RPUT, V_RGET, V_ACC, V_RACC, V_GACC, V_RGACC, V_FOP, V_CAS,
    V_RMW,
    VERBS
};

struct statement {
    enum verb verb;
    int line;                   /* where it stood in the text, or in what was generated */
    int rank, thread;           /* rank -1: all members */
    int win, comm;
    int target;                 /* rank in the world; -1: MPI_PROC_NULL */
    int part;                   /* of the window: whose memory */
    long at;                    /* displacement in bytes */
    struct buffer origin, remote, result;
    int op;                     /* enum el_op */
    uint64_t seed;              /* of the data that are brought */
    uint64_t compare;           /* seed of what V_CAS compares with */
    int request;                /* number of its request, or -1 */
    int asserts;
    bool exclusive;
    int n, list[SOAK_LIST];     /* a group, or requests */
};

struct program {
    struct arena arena;
    uint64_t seed;
    int ranks, threads;
    int comms;
    struct comm_spec comm[SOAK_COMMS];
    int windows;
    struct window_spec window[SOAK_WINDOWS];
    int n, room;
    struct statement *s;
};

struct assert_name {
    int flag;
    const char *name;
};
enum { ASSERT_NAMES = 5 };
extern const struct assert_name assert_names[ASSERT_NAMES];

void program_init(struct program *p);
void program_free(struct program *p);
/* Head and memory of `from`, without statements; they stay valid as long as `from` is there. */
void program_like(struct program *p, const struct program *from);
struct statement *program_add(struct program *p, const struct statement *s);
void program_print(const struct program *p, FILE *to);
void statement_print(const struct program *p, const struct statement *s, FILE *to);
/* False: `why` names line and cause. */
bool program_parse(struct program *p, const char *text, char *why, size_t room);

bool verb_is_data(enum verb v);         /* V_LOAD and after */
bool verb_is_collective(enum verb v);
bool verb_is_rma(enum verb v);          /* a call of MPI's that moves data */
bool verb_fetches(enum verb v);
bool verb_brings(enum verb v);          /* has data of the origin */
bool verb_accumulates(enum verb v);
const char *verb_name(enum verb v);
const char *shape_name(enum shape s);
int member_of(const struct comm_spec *c, int rank); /* position, or -1 */
int part_of(const struct window_spec *w, int rank); /* of a window that is not dynamic */
/* Is this statement one of (rank, thread)? Thread 0 does what is collective. */
bool statement_of(const struct program *p, const struct statement *s, int rank, int thread);

/* ---- data ---- */

/* The k-th element that a statement brings, or with `seed` the compare value; covered bytes. */
void element_fill(int el, int op, void *to, uint64_t seed, int k);
/* The first content of a part. */
void part_fill(const struct window_spec *w, int part, unsigned char *to);


#endif
