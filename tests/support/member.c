/* SPDX-License-Identifier: BSD-3-Clause */
#include "member.h"

#include <loco/fork.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS_MAX 64
#define RECORD_MAX 4096

/* An exchange of threads: what they give goes into one of two rows of cells, by turns, so that
 * the slowest still reads one while the fastest writes the other. */
struct meeting {
    int n;
    _Atomic unsigned round[MEMBERS_MAX];
    unsigned char cell[2][MEMBERS_MAX][RECORD_MAX];
};

struct thread_place {
    struct meeting *meeting;
    int rank;
};

static int meet(void *ctx, const void *mine, size_t len, void *all)
{
    struct thread_place *place = ctx;
    struct meeting *m = place->meeting;
    unsigned round = atomic_load(&m->round[place->rank]) + 1;

    if (len > RECORD_MAX)
        return LOCO_ERR_ARG;
    memcpy(m->cell[round % 2][place->rank], mine, len);
    atomic_store(&m->round[place->rank], round);
    for (int i = 0; i < m->n; i++) {
        while (atomic_load(&m->round[i]) < round)
            sched_yield();
        memcpy((unsigned char *)all + (size_t)i * len, m->cell[round % 2][i], len);
    }
    return LOCO_OK;
}

struct job {
    member_fn *fn;
    void *arg;
    struct meeting meeting;
};

static int run_thread(loco_runtime_t *rt, int rank, void *arg)
{
    struct job *job = arg;
    struct thread_place place = { &job->meeting, rank };
    struct member m = {
        .rt = rt, .exchange = { &place, rank, job->meeting.n, meet }, .rank = rank,
        .n = job->meeting.n, .seed = (unsigned)rank + 1, .arg = job->arg,
    };

    return job->fn(&m);
}

static int run_process(const struct loco_bootstrap *boot, void *arg)
{
    struct job *job = arg;
    struct member m = {
        .exchange = boot->exchange, .rank = boot->exchange.rank, .n = boot->exchange.size,
        .seed = (unsigned)boot->exchange.rank + 1, .arg = job->arg,
    };
    struct loco_bootstrap mine = *boot;
    int status;

    run_on_node(m.rank);
    if (getenv("LOCO_LOG") == NULL)     /* else the lines are what is tested */
        mine.log = run_log;
    status = loco_runtime_open(&mine, &m.rt);

    if (status != LOCO_OK) {
        fprintf(stderr, "no runtime: %s\n", loco_strerror(status));
        return 2;
    }
    status = job->fn(&m);
    if (status == 0)
        loco_runtime_close(m.rt);
    return status;
}

int member_run(enum run_fabric fabric, int n, member_fn *fn, void *arg, int *statuses)
{
    return member_run_seed(fabric, n, 1, fn, arg, statuses);
}

int member_run_seed(enum run_fabric fabric, int n, uint64_t seed, member_fn *fn, void *arg,
                    int *statuses)
{
    static struct job job;

    if (n > MEMBERS_MAX)
        return LOCO_ERR_ARG;
    memset(&job, 0, sizeof job);
    job.fn = fn;
    job.arg = arg;
    job.meeting.n = n;
    if (fabric == RUN_WEAK)
        return weak_run(n, seed, NULL, run_thread, &job);
    return loco_fork_run(n, run_process, &job, statuses);
}

int member_window(struct member *m, enum loco_window_kind kind, void *base, size_t size,
                  loco_window_t **win)
{
    const struct loco_window_spec spec = {
        .kind = kind, .base = base, .size = size, .disp_unit = 1,
    };

    return loco_window_create(m->rt, &m->exchange, &spec, win);
}

int member_put(loco_window_t *win, int rank, uint64_t offset, const void *from, size_t len)
{
    const struct loco_span span = { (void *)from, offset, len };

    return loco_window_put(win, rank, &span, 1, NULL);
}

int member_get(loco_window_t *win, int rank, uint64_t offset, void *to, size_t len)
{
    const struct loco_span span = { to, offset, len };

    return loco_window_get(win, rank, &span, 1, NULL);
}

int member_accumulate(loco_window_t *win, int rank, enum loco_type type, enum loco_op op,
                      uint64_t offset, const void *operand, void *result, size_t n)
{
    const struct loco_span span = { NULL, offset, n * loco_type_extent(type) };
    const struct loco_accumulate acc = { type, op, operand, result, &span, 1 };

    return loco_window_accumulate(win, rank, &acc, NULL);
}
