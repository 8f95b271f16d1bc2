/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"

#include "explain.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "draw.h"
#include "shrink.h"

#define TAIL 60                 /* lines of a trace that are shown unasked */

/* How far the child has come, for who finds it crashed. */
enum stage { CALM_RUN, RUN, SHRINK, TRACE };

struct telling {
    struct sim_case c;
    const struct sim_explain *how;
    FILE *trace;                /* how->trace, or a file without name */
    _Atomic int *stage;         /* shared */
    struct loci_sim_faults faults;
};

static void enter(struct telling *t, enum stage stage)
{
    atomic_store_explicit(t->stage, (int)stage, memory_order_relaxed);
    sim_child_limit(stage == SHRINK ? t->how->limit * 20 : t->how->limit);
}

/* ---- lines ---- */

static void tell_case(const struct telling *t)
{
    char text[SIM_CASE_TEXT];

    sim_case_text(&t->c, text);
    fprintf(t->how->to, "seed      %s\n", text);
    fprintf(t->how->to, "about     %s\n", t->c.scenario->about);
}

static void tell_faults(const struct telling *t)
{
    char text[SIM_CASE_TEXT];

    if (t->c.faults == SIM_CALM && t->c.stop_process < 0)
        return;
    sim_faults_text(&t->faults, text, sizeof text);
    fprintf(t->how->to, "faults    %s\n", text);
}

static void tell_lines(FILE *to, const char *lines)
{
    while (*lines != '\0') {
        int len = (int)strcspn(lines, "\n");

        fprintf(to, "          %.*s\n", len, lines);
        lines += len + (lines[len] == '\n');
    }
}

static void tell_verdict(FILE *to, const char *title, int verdict, const char *text)
{
    fprintf(to, "%-9s %s%s%s\n", title, sim_verdict_name(verdict), text[0] != '\0' ? ": " : "",
            text);
}

static void tell_result(FILE *to, const struct loci_sim_result *r)
{
    tell_verdict(to, "verdict", (int)r->verdict, r->text);
    tell_lines(to, r->detail);
    fprintf(to, "run       %llu steps, %llu choices, %lld ns, schedule %016llx\n",
            (unsigned long long)r->steps, (unsigned long long)r->choices, (long long)r->time,
            (unsigned long long)r->schedule);
}

static void tell_shrunk(FILE *to, const struct sim_shrunk *s)
{
    if (!s->repeats)
        fprintf(to, "shrunk    no: its decisions alone do not make it fail again\n");
    else
        fprintf(to, "shrunk    to %zu decisions, of which %zu are not the default; before %zu and "
                "%zu; %u runs\n", s->count, s->changed, s->first_count, s->first_changed, s->runs);
}

/* ---- the trace ---- */

static size_t count_lines(FILE *f)
{
    size_t n = 0;
    int c;

    rewind(f);
    while ((c = getc(f)) != EOF)
        n += c == '\n';
    return n;
}

static void copy_lines(FILE *to, FILE *from, size_t skip)
{
    int c;

    rewind(from);
    while ((c = getc(from)) != EOF) {
        if (skip == 0)
            putc(c, to);
        else
            skip -= c == '\n';
    }
}

static void tell_trace(const struct telling *t)
{
    const struct sim_explain *how = t->how;
    size_t lines = count_lines(t->trace), skip = lines > TAIL ? lines - TAIL : 0;

    if (how->trace != NULL) {
        fprintf(how->to, "trace     %zu lines in %s\n", lines, how->trace_name);
        return;
    }
    if (how->whole)
        skip = 0;
    if (skip > 0)
        fprintf(how->to, "trace     the last %d of %zu lines; replay with --trace - shows all\n",
                TAIL, lines);
    else
        fprintf(how->to, "trace     %zu lines\n", lines);
    copy_lines(how->to, t->trace, skip);
}

/* ---- a run ---- */

/* Again, with all that happens on record. */
static void record(struct telling *t, const struct sim_shrunk *shrunk)
{
    const struct sim_explain *how = t->how;
    struct sim_watch watch = { .trace = t->trace };
    struct sim_draw *draw = how->draw != NULL ? sim_draw_begin(how->draw) : NULL;
    struct loci_sim_result r;

    if (shrunk != NULL && shrunk->repeats) {
        watch.decisions = shrunk->decisions;
        watch.decision_count = shrunk->count;
        watch.follow = true;
    }
    if (draw != NULL) {
        watch.event = sim_draw_event;
        watch.event_ctx = draw;
    }
    enter(t, TRACE);
    sim_case_run(&t->c, &t->faults, &watch, NULL, &r);
    if (watch.follow)
        tell_result(how->to, &r);
    tell_trace(t);
    if (draw != NULL) {
        sim_draw_end(draw);
        fprintf(how->to, "drawing   %s, for ui.perfetto.dev or chrome://tracing\n",
                how->draw_name);
    }
    free(r.decisions);
}

/* The run that is told. Where the one without faults fails already, that one. */
static void first_run(struct telling *t, struct loci_sim_result *r)
{
    char text[SIM_CASE_TEXT];

    enter(t, CALM_RUN);
    if (sim_case_faults(&t->c, &t->faults, r)) {
        free(r->decisions);
        tell_faults(t);
        fflush(t->how->to);
        enter(t, RUN);
        sim_case_run(&t->c, &t->faults, NULL, NULL, r);
        return;
    }
    t->c.faults = SIM_CALM;
    t->faults = (struct loci_sim_faults)LOCI_SIM_NO_FAULTS;
    sim_case_text(&t->c, text);
    fprintf(t->how->to, "faults    it fails without them: %s\n", text);
}

/* In the child: its exit status. */
static int tell(struct telling *t)
{
    const struct sim_explain *how = t->how;
    struct sim_shrunk shrunk = { .repeats = false };
    struct loci_sim_result r;
    bool passed;

    first_run(t, &r);
    passed = r.verdict == LOCI_SIM_PASSED;
    tell_result(how->to, &r);
    fflush(how->to);
    if (!passed && how->shrink) {
        enter(t, SHRINK);
        sim_shrink(&t->c, &t->faults, &r, &shrunk);
        tell_shrunk(how->to, &shrunk);
    }
    if (!passed || how->trace != NULL || how->whole || how->draw != NULL)
        record(t, &shrunk);
    free(shrunk.decisions);
    free(r.decisions);
    fflush(how->to);
    return passed ? SIM_CHILD_GOOD : SIM_CHILD_BAD;
}

/* In a second child, after a crash: only the trace, each line written before the next step. */
static void record_crash(struct telling *t, bool calm)
{
    struct sim_watch watch = { .trace = t->trace };
    struct loci_sim_result r;

    setvbuf(t->trace, NULL, _IOLBF, BUFSIZ);
    sim_child_limit(t->how->limit);
    if (calm)
        t->c.faults = SIM_CALM;
    sim_case_faults(&t->c, &t->faults, &r);
    sim_case_run(&t->c, &t->faults, &watch, NULL, &r);
}

static int in_child(struct telling *t, bool crash, bool calm)
{
    int status = 0;
    pid_t child;

    fflush(NULL);
    child = sim_child_fork();
    if (child == 0) {
        int result = SIM_CHILD_BAD;

        if (crash)
            record_crash(t, calm);
        else
            result = tell(t);
        fflush(NULL);
        _exit(result);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        fprintf(stderr, "loco-sim: no child process: %s\n", strerror(errno));
        exit(1);
    }
    return status;
}

static int explain_in(struct telling *t)
{
    FILE *to = t->how->to;
    char text[200];
    int status, verdict, stage;

    tell_case(t);
    status = in_child(t, false, false);
    verdict = sim_child_verdict(status, text, sizeof text);
    if (verdict == LOCI_SIM_PASSED)
        return WEXITSTATUS(status) == SIM_CHILD_GOOD ? 0 : 1;
    stage = atomic_load_explicit(t->stage, memory_order_relaxed);
    tell_verdict(to, stage == SHRINK ? "shrunk" : "verdict", verdict, text);
    if (stage == SHRINK)
        fprintf(to, "          (while it was shrunk; the trace is of the run as it was)\n");
    else if (t->how->shrink)
        fprintf(to, "shrunk    no: a run that ends so leaves no list of its decisions\n");
    /* The first child may have been at it. */
    rewind(t->trace);
    if (ftruncate(fileno(t->trace), 0) == 0)
        in_child(t, true, stage == CALM_RUN);
    tell_trace(t);
    if (t->how->draw != NULL)
        fprintf(to, "drawing   none: the run has no end\n");
    fflush(to);
    return 1;
}

int sim_explain(const struct sim_case *c, const struct sim_explain *how)
{
    struct telling t = { .c = *c, .how = how };
    int result = 1;

    t.trace = how->trace != NULL ? how->trace : tmpfile();
    t.stage = mmap(NULL, sizeof *t.stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0);
    if (t.trace == NULL || (void *)t.stage == MAP_FAILED)
        fprintf(stderr, "loco-sim: no room for the trace: %s\n", strerror(errno));
    else
        result = explain_in(&t);
    if ((void *)t.stage != MAP_FAILED)
        munmap(t.stage, sizeof *t.stage);
    if (t.trace != NULL && t.trace != how->trace)
        fclose(t.trace);
    return result;
}
