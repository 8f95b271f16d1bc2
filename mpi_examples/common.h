/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the example programs share: messages that every rank agrees on, the command line and
 * numbers on it, a window of any flavor, progress, and strings in JSON.
 */
#ifndef MPI_EXAMPLES_COMMON_H
#define MPI_EXAMPLES_COMMON_H

#include <getopt.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum ex_flavor { EX_ALLOCATE, EX_CREATE, EX_DYNAMIC, EX_SHARED };

#define EX_FLAVORS "allocate|create|dynamic|shared"

/* Exit statuses: wrong results (or a call that failed) and wrong use. */
enum { EX_WRONG = 1, EX_USAGE = 2 };

/*
 * A window over bytes of memory at each rank, whatever its flavor. Displacements are bytes; where
 * they start differs by flavor, so every access goes through ex_at.
 */
struct ex_window {
    MPI_Win win;
    enum ex_flavor flavor;
    void *base;            /* this rank's part */
    MPI_Aint *origin;      /* displacement of each rank's first byte */
};

/* MPI_Init_thread with the level asked for, and errors of communicators returned. Ends the program
 * where the level is not there. */
void ex_init(int *argc, char ***argv, int level);

int ex_rank(void);
int ex_size(void);

/* Nanoseconds of a clock that only goes on. */
int64_t ex_now(void);

/* The next random number below `range`, by xorshift64*; `*state` is not 0. */
uint32_t ex_random_below(uint64_t *state, int64_t range);

/* Of this process, of all its threads, so far. */
double ex_cpu_seconds(void);

/* Every rank calls it with the same condition (the command line is the same everywhere): rank 0
 * says what is wrong and all leave with EX_USAGE. */
_Noreturn void ex_usage_error(const char *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Rank 0 prints the text, and all leave with status 0. */
_Noreturn void ex_help(const char *text);

/* What getopt's `option` says, with `optarg`; false where that is wrong. */
typedef bool ex_option_fn(int option, void *options);

/* The options of the command line, but for 'h', which is ex_help; a wrong one is ex_usage_error.
 * The index of the first argument behind them. */
int ex_options(int argc, char **argv, const struct option *names, const char *help,
               ex_option_fn *set, void *options);

/* The same where no other arguments are to follow. */
void ex_only_options(int argc, char **argv, const struct option *names, const char *help,
                     ex_option_fn *set, void *options);

/* One rank cannot go on: it says why and takes the job down with EX_WRONG. */
_Noreturn void ex_abort(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ex_abort with the text of an MPI error, if rc is one. */
void ex_check(int rc, const char *what);

/* Zeroed; ex_abort where there is none. */
void *ex_memory(size_t n, size_t bytes);

/* FNV-1a over words of 8 bytes, with the high bits brought down; `hash` is what came before, 0 at
 * first. */
uint64_t ex_hash_word(uint64_t hash, uint64_t word);
uint64_t ex_hash(uint64_t hash, const void *data, size_t bytes);

/* A whole number with an optional k, m or g (thousands); false where it is none or out of range. */
bool ex_number(const char *text, int64_t least, int64_t most, int64_t *value);

/* A decimal number; false where it is none or out of range. */
bool ex_real(const char *text, double least, double most, double *value);

bool ex_flavor_parse(const char *text, enum ex_flavor *flavor);
const char *ex_flavor_name(enum ex_flavor flavor);

/* Collective over MPI_COMM_WORLD. The memory is zeroed at each rank before any rank returns; a part
 * may have no bytes. */
void ex_window_create(struct ex_window *w, enum ex_flavor flavor, size_t bytes);
void ex_window_free(struct ex_window *w);

/* The displacement of a byte of a rank's part. */
static inline MPI_Aint ex_at(const struct ex_window *w, int rank, size_t byte)
{
    return w->origin[rank] + (MPI_Aint)byte;
}

/* Progress on stderr, by rank 0, twice a second at most: on a terminal, or where asked for. */
struct ex_progress {
    bool shown;
    bool terminal;
    double next;
};

void ex_progress_init(struct ex_progress *p, bool asked);
void ex_progress_say(struct ex_progress *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void ex_progress_end(struct ex_progress *p);

/* The text in quotes, as JSON wants it; bytes that are not UTF-8 become U+FFFD. */
void ex_json_string(FILE *to, const char *text, size_t length);

/* Flushes stdout, MPI_Finalize, and the status to return from main. */
int ex_finish(int status);

#endif
