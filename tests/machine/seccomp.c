/* SPDX-License-Identifier: BSD-3-Clause */

/* Where a seccomp filter forbids process_vm_readv and process_vm_writev, as containers do, and
 * pidfd_open as well, everything works through the owner's service thread. */

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "machine.h"
#include "run.h"

#define LEN ((size_t)4 << 20)
#define ROUNDS 2000

struct filter {
    const char *name;
    int error;          /* 0: no filter */
    bool pidfd;         /* pidfd_open, too */
};

static int forbid(const struct filter *filter)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, filter->pidfd ? SYS_pidfd_open : 0xffffff, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)filter->error),
    };
    const struct sock_fprog program = { sizeof code / sizeof code[0], code };

    if (filter->error == 0)
        return 0;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* The filter is there: a copy of our own memory fails as it says. */
static bool is_forbidden(const struct filter *filter)
{
    char a = 1, b = 0;
    const struct iovec from = { &a, 1 }, to = { &b, 1 };

    if (filter->error == 0)
        return true;
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) < 0 && errno == filter->error
           && process_vm_writev(getpid(), &to, 1, &from, 1, 0) < 0 && errno == filter->error
           && (!filter->pidfd || (syscall(SYS_pidfd_open, getpid(), 0) < 0
                                  && errno == filter->error));
}

/* Microseconds per operation. */
static double timed(struct world *w, struct loci_mem *mem, bool put, unsigned char *local,
                    size_t len, int rounds)
{
    int64_t start = loci_now(w->rt);

    for (int i = 0; i < rounds; i++) {
        int status = put ? loci_write(w->rt, mem, 0, local, len, NULL)
                         : loci_read(w->rt, mem, 0, local, len, NULL);

        if (status != LOCO_OK)
            return -1;
    }
    return (double)(loci_now(w->rt) - start) / 1000 / rounds;
}

static int measure(struct world *w, struct loci_mem *mem, const char *name)
{
    unsigned char *local = calloc(1, LEN);
    double put, get, bulk;

    NEED(local != NULL);
    put = timed(w, mem, true, local, 8, ROUNDS);
    get = timed(w, mem, false, local, 8, ROUNDS);
    bulk = timed(w, mem, true, local, LEN, 20);
    NEED(put > 0 && get > 0 && bulk > 0);
    printf("# %s: put of 8 bytes %.2f us, get %.2f us, put of 4 MiB %.0f us (%.1f GB/s)\n", name,
           put, get, bulk, (double)LEN / bulk / 1000);
    free(local);
    return 0;
}

static int never_ready(void *arg)
{
    (void)arg;
    return 0;
}

static int copies(const struct loco_bootstrap *boot, void *arg)
{
    const struct filter *filter = arg;
    unsigned char *local = malloc(LEN), *back = malloc(LEN);
    struct world w;
    uint64_t old;
    int next;

    NEED(local != NULL && back != NULL && forbid(filter) == 0 && is_forbidden(filter));
    NEED(enter(&w, boot, LEN) == LOCO_OK);
    next = (w.me + 1) % w.n;
    for (size_t i = 0; i < LEN; i++)
        local[i] = (unsigned char)(i * 13 + i / 4096 + (size_t)w.me);
    NEED(loci_write(w.rt, &w.users[next], 0, local, LEN, NULL) == LOCO_OK);
    NEED(loci_read(w.rt, &w.users[next], 0, back, LEN, NULL) == LOCO_OK);
    NEED(memcmp(local, back, LEN) == 0);
    NEED(loci_fetch_add(w.rt, &w.pools[next], 0, 1, &old, NULL) == LOCO_OK && old == 0);
    NEED(together(&w) == LOCO_OK);
    for (size_t i = 0; i < LEN; i++)
        NEED(w.memory[i] == (unsigned char)(i * 13 + i / 4096 + (size_t)((w.me + w.n - 1) % w.n)));
    NEED(together(&w) == LOCO_OK);
    if (w.me == 0)
        NEED(measure(&w, &w.users[next], filter->name) == 0);
    free(local);
    free(back);
    return leave(&w) == LOCO_OK ? 0 : 1;
}

static int outlives(const struct loco_bootstrap *boot, void *arg)
{
    const struct loci_reason why = { .what = "a death", .peer = 1, .timeout_ns = 5000000000 };
    struct world w;
    int64_t start;

    NEED(forbid(arg) == 0 && enter(&w, boot, 4096) == LOCO_OK);
    NEED(loci_write64(w.rt, &w.users[1 - w.me], 0, 1, NULL) == LOCO_OK);
    NEED(together(&w) == LOCO_OK);
    if (w.me == 1)
        raise(SIGKILL);
    start = run_now();
    NEED(loci_wait(w.rt, &why, never_ready, NULL) == LOCO_ERR_PEER_DEAD);
    NEED(!run_too_long(start, 1000000000));
    loco_runtime_close(w.rt);
    return 0;
}

int main(void)
{
    static const struct filter filters[] = {
        { "process_vm_* allowed", 0, false },
        { "process_vm_* answered with EPERM", EPERM, false },
        { "process_vm_* answered with ENOSYS", ENOSYS, false },
        { "process_vm_* and pidfd_open answered with EPERM", EPERM, true },
    };
    struct tap tap = { 0, 0 };

    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        int statuses[2];

        tap_ok(&tap, loco_fork_run(2, copies, (void *)&filters[i], NULL) == LOCO_OK,
               "2 processes, %s", filters[i].name);
        tap_ok(&tap, loco_fork_run(4, copies, (void *)&filters[i], NULL) == LOCO_OK,
               "4 processes, %s", filters[i].name);
        loco_fork_run(2, outlives, (void *)&filters[i], statuses);
        tap_ok(&tap, statuses[0] == 0 && statuses[1] == -SIGKILL, "death is noticed, %s",
               filters[i].name);
    }
    return tap_end(&tap);
}
