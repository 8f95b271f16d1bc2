/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TRACE_H
#define LOCI_TRACE_H

/* A trace in the JSON that chrome://tracing and ui.perfetto.dev read: LOCO_TRACE=FILE. One file per
 * process, an array of events, one per line, with times of CLOCK_MONOTONIC, which the processes of
 * a node share; loco-trace-merge makes one file of several.
 *
 * Events wait as text in a buffer of the process, for a twentieth of a second at most, and are then
 * written with a tail that ends the array. So memory is bounded, and however the process ends the
 * file is there but for its last moment, as valid JSON (but for a process that is killed in the
 * middle of a write: a line may be cut there, and the tail missing). A file that has reached
 * LOCO_TRACE_LIMIT takes no more events, but the ends of those begun; what was dropped is counted
 * and told. A file that cannot be written, or not any longer, is told once, and the program goes on
 * without (file.h). */

#include <stdbool.h>
#include <stdint.h>

struct loco_runtime;
struct loci_trace;

/* What is told of an event: a number, or a text where it is not NULL. */
struct loci_trace_arg {
    const char *key;
    int64_t value;
    const char *text;
};

/* LOCO_TRACE: make the file. Where that is not possible it is told, and nothing is traced. */
void loci_trace_open(struct loco_runtime *rt);
/* Nobody traces any more: write what still waits, tell what was dropped. */
void loci_trace_close(struct loco_runtime *rt);

/* Something begins on this thread and ends with the next end that was not another's; false: it was
 * dropped, and has no end. Any thread. */
bool loci_trace_begin(struct loco_runtime *rt, const char *category, const char *name,
                      const struct loci_trace_arg *args, int n);
void loci_trace_end(struct loco_runtime *rt, const struct loci_trace_arg *args, int n);
/* Something that takes no time. */
void loci_trace_mark(struct loco_runtime *rt, const char *category, const char *name,
                     const struct loci_trace_arg *args, int n);

#endif
