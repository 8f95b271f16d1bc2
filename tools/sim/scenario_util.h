/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SCENARIO_UTIL_H
#define SIM_SCENARIO_UTIL_H

/* What the scenarios share. */

#include <stdlib.h>
#include <string.h>

#include <loco/loco.h>
#include <loco/window.h>

#include "scenario.h"

/* What a part of a body comes to: done; wrong, which ends the run; or it was told of a death, so
 * that the body winds down. */
enum { SIM_FINE, SIM_WRONG, SIM_TOLD };

/* In a function that returns one of these: leave it unless the call returned LOCO_OK. Told of a
 * death is wrong where nobody has stopped; and where no control message is lost, that an endpoint
 * does not connect, or to one of another time. */
int sim_check(const struct sim_run *run, int status, const char *call);
#define TRY(run, call)                                                                            \
    do {                                                                                          \
        int try_ = sim_check(run, call, #call);                                                   \
        if (try_ != SIM_FINE)                                                                     \
            return try_;                                                                          \
    } while (0)
/* The same of a function that returns one of these. */
#define PASS(call)                                                                                \
    do {                                                                                          \
        int pass_ = (call);                                                                       \
        if (pass_ != SIM_FINE)                                                                    \
            return pass_;                                                                         \
    } while (0)
/* The first of two that is not fine: a lock is given back, whatever happened under it. */
static inline int sim_first(int a, int b)
{
    return a != SIM_FINE ? a : b;
}
/* Leave it with this text unless the condition holds. */
#define WANT(condition, ...)                                                                      \
    do {                                                                                          \
        if (!(condition))                                                                         \
            return loci_sim_fail(__VA_ARGS__);                                                    \
    } while (0)

bool sim_any_stopped(const struct sim_run *run);
/* A word of network memory, or of a channel's, as the observer sees it: no step. */
uint64_t sim_peek(const void *word);
/* n threads, or just a call where n is 1. */
int sim_threads(loco_runtime_t *rt, int n, int (*fn)(void *arg, int thread), void *arg);

/* Wait until the observer's `ready(arg)` says 1; for ever, whoever dies. */
int sim_wait(loco_runtime_t *rt, int (*ready)(void *arg), void *arg);

/* A place where processes meet outside their network: in the observer's memory. It orders nothing,
 * and makes nothing visible. */
struct sim_place;

struct sim_place *sim_place_make(int processes);
void sim_place_free(struct sim_place *place);

/* A process there. */
struct sim_seat {
    struct sim_place *place;
    loco_runtime_t *rt;
    int rank;
};

struct sim_seat sim_seat(struct sim_place *place, loco_runtime_t *rt, int rank);
/* Wait for all; LOCO_ERR_PEER_DEAD where one has stopped, or left for good. */
int sim_meet(struct sim_seat *seat);
/* An exchange for windows, with the same errors. */
struct loco_exchange sim_exchange(struct sim_seat *seat);
/* Wait until the endpoints made so far are connected; for so long at most where messages may be
 * lost. Then all are, or all are told. */
int sim_ready(const struct sim_run *run, struct sim_seat *seat);
int sim_ready_below(const struct sim_run *run, struct sim_seat *seat, const char *name);
int64_t sim_patience(const struct sim_run *run);
/* The end of a body, before it destroys what others may still use: its writes are placed, and all
 * that have not stopped have come as far. Returns what the body does, for what its parts came
 * to. */
int sim_part(struct sim_seat *seat, int result);
/* Leave the place for good, and wait for nobody. */
void sim_leave(struct sim_seat *seat);

/* Calls on windows of one span, or one element. */
int sim_put(loco_window_t *win, int rank, uint64_t offset, const void *from, size_t len);
int sim_get(loco_window_t *win, int rank, uint64_t offset, void *to, size_t len);
int sim_accumulate(loco_window_t *win, int rank, enum loco_type type, enum loco_op op,
                   uint64_t offset, const void *operand, void *result, size_t n);

/* That a history is one of such objects (enum loci_linear_kind): as an end() does. Of registers. */
struct loci_history;
int sim_check_history(const struct loci_history *history, int kind);
int sim_check_register(const struct loci_history *history);

/* All that most scenarios keep. First in their states. */
struct sim_state {
    struct sim_place *place;
};

/* A state of `size` bytes, zeroed; 0 or -1. sim_state_free frees it. */
int sim_state_begin(struct sim_run *run, size_t size);
void sim_state_free(struct sim_run *run);

/* Where windows are measured: an exchange of all processes of the world. */
struct loco_exchange sim_scale_exchange(loco_runtime_t *rt, int rank, int processes,
                                        struct sim_seat *seat);
void sim_scale_leave(struct sim_seat *seat);

#endif
