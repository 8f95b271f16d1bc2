/* SPDX-License-Identifier: BSD-3-Clause */
#include "testlib.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REASON = 240, GUARD = 256, GUARD_BYTE = 0xa5 };

/* One program, one run of its cases: the signal handlers can reach nothing else. */
static struct {
    int argc;
    char **argv;
    const char *program;
    int rank, size;
    char current[128];
    const char *phase;
    char reason[REASON];
    int failures;
    int skips;
    int passed, failed, skipped;
    unsigned scale, limit; /* of the watchdog: a factor; seconds for all cases alike */
    unsigned one_of, turn; /* each such part of a test is done, each case from another on */
    struct sigaction before[3];
    double began;           /* the watchdog's: the case */
    double queued_before;   /* what its rank had waited for a CPU by then */
    double seconds;         /* that it has, that wait left out */
} run;

static const int crash_signal[3] = {SIGSEGV, SIGBUS, SIGABRT};

int tl_rank(void)
{
    return run.rank;
}

int tl_size(void)
{
    return run.size;
}

unsigned tl_scale(void)
{
    return run.scale;
}

int tl_turn(unsigned at)
{
    return (at + run.turn) % run.one_of == 0;
}

int tl_rounds(int rounds)
{
    return (rounds + (int)run.one_of - 1) / (int)run.one_of;
}

int tl_failed(void)
{
    return run.failures > 0;
}

const char *tl_program_path(void)
{
    return run.argv[0];
}

void tl_phase(const char *doing)
{
    run.phase = doing;
}

const char *tl_flavor_name(int flavor)
{
    switch (flavor) {
    case TL_ALLOCATE:
        return "allocate";
    case TL_SHARED:
        return "shared";
    case TL_CREATE:
        return "create";
    case TL_DYNAMIC:
        return "dynamic";
    default:
        return "";
    }
}

void tl_fail(const char *format, ...)
{
    va_list args;

    if (run.failures++ > 0)
        return;
    va_start(args, format);
    vsnprintf(run.reason, sizeof run.reason, format, args);
    va_end(args);
}

void tl_skip(const char *format, ...)
{
    va_list args;

    if (run.skips++ > 0 || run.failures > 0)
        return;
    va_start(args, format);
    vsnprintf(run.reason, sizeof run.reason, format, args);
    va_end(args);
}

void tl_note(const char *format, ...)
{
    va_list args;

    if (run.rank != 0)
        return;
    printf("# %s: ", run.current);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
}

int tl_true(int holds, const char *format, ...)
{
    va_list args;

    if (holds)
        return 1;
    if (run.failures++ == 0) {
        va_start(args, format);
        vsnprintf(run.reason, sizeof run.reason, format, args);
        va_end(args);
    }
    return 0;
}

static const char *class_name(int error_class, char *room)
{
    int length = 0;

    if (MPI_Error_string(error_class, room, &length) != MPI_SUCCESS)
        snprintf(room, MPI_MAX_ERROR_STRING, "class %d", error_class);
    return room;
}

int tl_ok(int rc, const char *call)
{
    char text[MPI_MAX_ERROR_STRING];

    if (rc == MPI_SUCCESS)
        return 1;
    return tl_true(0, "%s: %s", call, class_name(rc, text));
}

int tl_class2(int rc, const char *call, int wanted, int also)
{
    char got_text[MPI_MAX_ERROR_STRING];
    char wanted_text[MPI_MAX_ERROR_STRING];
    int got = MPI_SUCCESS;

    if (rc != MPI_SUCCESS)
        MPI_Error_class(rc, &got);
    if (got == wanted || got == also)
        return 1;
    return tl_true(0, "%s: got \"%s\", wanted \"%s\"", call, class_name(got, got_text),
                   class_name(wanted, wanted_text));
}

int tl_class(int rc, const char *call, int wanted)
{
    return tl_class2(rc, call, wanted, wanted);
}

int tl_eq(long long got, long long wanted, const char *what)
{
    return tl_true(got == wanted, "%s: got %lld, wanted %lld", what, got, wanted);
}

/* splitmix64 */
uint64_t tl_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t tl_mix(uint64_t a, uint64_t b)
{
    uint64_t state = a * UINT64_C(0xff51afd7ed558ccd) + b;

    tl_random(&state);
    return tl_random(&state);
}

int tl_below(uint64_t *state, int bound)
{
    return (int)(tl_random(state) % (uint64_t)bound);
}

void tl_pattern(void *to, size_t bytes, uint64_t seed)
{
    unsigned char *p = to;

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = tl_random(&seed);
        memcpy(p + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

void tl_barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

double tl_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Also in a signal's handler: no stdio. The kernel's file has the time on a CPU, then that in a
 * queue for one, in nanoseconds. */
double tl_queued(void)
{
    char text[96];
    int fd = open("/proc/self/schedstat", O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    const char *second;

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    second = strchr(text, ' ');
    return second == NULL ? 0 : 1e-9 * (double)strtoull(second, NULL, 10);
}

void tl_compute(double seconds)
{
    double end = tl_now() + seconds;
    uint64_t state = 1;

    while (tl_now() < end)
        for (int i = 0; i < 1000; i++)
            tl_random(&state);
}

void tl_wait_quietly(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&t, NULL);
}

long tl_option(const char *option, long otherwise)
{
    for (int i = 1; i + 1 < run.argc; i++)
        if (strcmp(run.argv[i], option) == 0)
            return strtol(run.argv[i + 1], NULL, 0);
    return otherwise;
}

static const char *option_text(const char *option)
{
    for (int i = 1; i < run.argc; i++)
        if (strcmp(run.argv[i], option) == 0)
            return i + 1 < run.argc ? run.argv[i + 1] : "";
    return NULL;
}

/* Only what a signal handler may call. */
static void report_from_handler(const char *what)
{
    char line[512];
    size_t at = 0;
    char digits[12];
    int n = 0;
    const char *first = run.failures > 0 ? run.reason : "";
    const char *phase = run.phase != NULL ? run.phase : "";
    const char *parts[8] = {"FAIL ", run.current, what, *phase != '\0' ? " in " : "", phase,
                            *first != '\0' ? " after: " : "", first, " on rank "};

    for (int i = 0; i < 8; i++)
        for (const char *c = parts[i]; *c != '\0' && at < sizeof line - 20; c++)
            line[at++] = *c;
    for (int r = run.rank; n == 0 || r > 0; r /= 10)
        digits[n++] = (char)('0' + r % 10);
    while (n > 0)
        line[at++] = digits[--n];
    line[at++] = '\n';
    if (write(STDOUT_FILENO, line, at) < 0)
        _exit(4);
}

/* A rank that others keep from the CPU is not hung: it gets what it waited for, up to twice its
 * limit. */
static bool watch_on(void)
{
    double ran = tl_now() - run.began, lost = tl_queued() - run.queued_before;

    if (ran - lost >= run.seconds || ran >= 3 * run.seconds)
        return false;
    alarm((unsigned)(run.seconds - (ran - lost)) + 1);
    return true;
}

static void watch(unsigned seconds)
{
    run.seconds = seconds;
    run.began = tl_now();
    run.queued_before = tl_queued();
    alarm(seconds);
}

static void on_alarm(int signal_number)
{
    (void)signal_number;
    if (watch_on())
        return;
    report_from_handler(": hung");
    if (getenv("TL_HANG_ABORTS") != NULL)
        abort();
    _exit(3);
}

static void on_crash(int signal_number)
{
    report_from_handler(": crashed");
    for (int i = 0; i < 3; i++)
        sigaction(crash_signal[i], &run.before[i], NULL);
    raise(signal_number);
}

static void catch_signals(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_alarm;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    action.sa_handler = on_crash;
    for (int i = 0; i < 3; i++)
        sigaction(crash_signal[i], &action, &run.before[i]);
}

/* Rank 0 prints the verdict that the worst rank came to. */
static void print_verdict(void)
{
    struct {
        int value, rank;
    } mine = {run.failures > 0 ? 2 : run.skips > 0 ? 1 : 0, run.rank}, worst;
    char reason[REASON];

    MPI_Allreduce(&mine, &worst, 1, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD);
    memcpy(reason, run.reason, sizeof reason);
    MPI_Bcast(reason, REASON, MPI_CHAR, worst.rank, MPI_COMM_WORLD);
    if (worst.value == 0)
        run.passed++;
    else if (worst.value == 1)
        run.skipped++;
    else
        run.failed++;
    if (run.rank != 0)
        return;
    if (worst.value == 0)
        printf("PASS %s\n", run.current);
    else
        printf("%s %s: %s (rank %d)\n", worst.value == 1 ? "SKIP" : "FAIL", run.current, reason,
               worst.rank);
    fflush(stdout);
}

static void run_case(const struct tl_case *c, int flavor)
{
    const char *only = option_text("--only");

    if ((only != NULL && strcmp(only, c->name) != 0) ||
        (run.size < c->min_ranks && option_text("--fitting") != NULL))
        return;
    snprintf(run.current, sizeof run.current, "%s.%s%s%s%s", run.program, c->name,
             flavor != 0 ? "[" : "", tl_flavor_name(flavor), flavor != 0 ? "]" : "");
    run.phase = "";
    run.turn++;
    run.failures = 0;
    run.skips = 0;
    run.reason[0] = '\0';
    tl_barrier();
    watch(run.limit != 0 ? run.limit : (c->seconds != 0 ? c->seconds : 60) * run.scale);
    if (run.size < c->min_ranks)
        tl_skip("needs %d ranks", c->min_ranks);
    else
        c->run(flavor);
    print_verdict();
    alarm(0);
}

static unsigned wanted_flavors(void)
{
    const char *text = option_text("--flavor");

    if (text == NULL || strcmp(text, "all") == 0)
        return TL_ALL;
    for (int flavor = TL_ALLOCATE; flavor <= TL_DYNAMIC; flavor *= 2)
        if (strcmp(text, tl_flavor_name(flavor)) == 0)
            return (unsigned)flavor;
    fprintf(stderr, "--flavor allocate|shared|create|dynamic|all\n");
    exit(2);
}

static int list_cases(const struct tl_case *cases, int count)
{
    for (int i = 0; i < count; i++)
        printf("%s%s\n", cases[i].name, cases[i].flavors != 0 ? " flavors" : "");
    return 0;
}

/* Options of single programs are here, too: each has one value. */
static bool takes_value(const char *option)
{
    static const char *const known[] = {
        "--only", "--flavor", "--abort", "--away", "--churn", "--late", "--level", "--many",
        "--room", "--rounds", "--words",
    };

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(option, known[i]) == 0)
            return true;
    return false;
}

/* Whoever mistypes an option or a case must not take what is run, or not run, for the answer. */
static void check_options(const struct tl_case *cases, int count)
{
    const char *only = option_text("--only");

    for (int i = 1; i < run.argc; i++) {
        if (takes_value(run.argv[i]) && i + 1 < run.argc) {
            i++;
        } else if (strcmp(run.argv[i], "--fitting") != 0) {
            fprintf(stderr, "%s: no option %s, or it has no value; there are --list, --fitting, "
                    "--only CASE, --flavor FLAVOR\n", run.program, run.argv[i]);
            exit(2);
        }
    }
    for (int i = 0; only != NULL && i < count; i++)
        if (strcmp(only, cases[i].name) == 0)
            return;
    if (only != NULL) {
        fprintf(stderr, "%s: no case %s; --list shows them\n", run.program, only);
        exit(2);
    }
}

static void start_mpi(int level)
{
    int provided;
    const char *scale = getenv("TL_TIMEOUT_SCALE"), *limit = getenv("TL_SECONDS");
    const char *one_of = getenv("TL_ONE_OF");

    if (MPI_Init_thread(&run.argc, &run.argv, level, &provided) != MPI_SUCCESS)
        exit(2);
    MPI_Comm_rank(MPI_COMM_WORLD, &run.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &run.size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    run.scale = scale != NULL ? (unsigned)strtoul(scale, NULL, 10) : 1;
    run.limit = limit != NULL ? (unsigned)strtoul(limit, NULL, 10) : 0;
    if (run.scale == 0)
        run.scale = 1;
    run.one_of = one_of != NULL ? (unsigned)strtoul(one_of, NULL, 10) : 1;
    if (run.one_of == 0)
        run.one_of = 1;
    catch_signals();
    if (provided < level && run.rank == 0)
        printf("# thread level %d given, %d asked\n", provided, level);
}

int tl_main(int argc, char **argv, const char *program, int level, const struct tl_case *cases,
            int count)
{
    unsigned flavors;

    run.argc = argc;
    run.argv = argv;
    run.program = program;
    if (option_text("--list") != NULL)
        return list_cases(cases, count);
    check_options(cases, count);
    flavors = wanted_flavors();
    start_mpi(level);
    for (int i = 0; i < count; i++) {
        if (cases[i].flavors == 0)
            run_case(&cases[i], 0);
        for (int flavor = TL_ALLOCATE; flavor <= TL_DYNAMIC; flavor *= 2)
            if ((cases[i].flavors & flavors & (unsigned)flavor) != 0)
                run_case(&cases[i], flavor);
    }
    if (run.rank == 0) {
        printf("%d passed, %d failed, %d skipped\n", run.passed, run.failed, run.skipped);
        fflush(stdout);
    }
    snprintf(run.current, sizeof run.current, "%s.finalize", program);
    watch(60 * run.scale);
    MPI_Finalize();
    return run.failed > 0 ? 1 : 0;
}

/* ---- windows ---- */

static unsigned char *guarded(size_t bytes)
{
    unsigned char *block = malloc(bytes + 2 * GUARD);

    if (block == NULL)
        return NULL;
    memset(block, GUARD_BYTE, bytes + 2 * GUARD);
    memset(block + GUARD, 0, bytes);
    return block;
}

static void check_guards(const struct tl_win *w)
{
    for (size_t i = 0; i < GUARD; i++) {
        if (w->block[i] != GUARD_BYTE)
            tl_fail("byte %zd before the window was written", (ptrdiff_t)i - GUARD);
        if (w->block[GUARD + w->bytes + i] != GUARD_BYTE)
            tl_fail("byte %zu behind the window was written", i);
    }
}

static int make_window(struct tl_win *w, int unit, MPI_Info info)
{
    MPI_Aint bytes = (MPI_Aint)w->bytes;
    int rc;

    switch (w->flavor) {
    case TL_ALLOCATE:
        return MPI_Win_allocate(bytes, unit, info, w->comm, &w->base, &w->win);
    case TL_SHARED:
        return MPI_Win_allocate_shared(bytes, unit, info, w->comm, &w->base, &w->win);
    case TL_CREATE:
        return MPI_Win_create(w->base, bytes, unit, info, w->comm, &w->win);
    default:
        rc = MPI_Win_create_dynamic(info, w->comm, &w->win);
        if (rc != MPI_SUCCESS || bytes == 0)
            return rc;
        MPI_Win_set_errhandler(w->win, MPI_ERRORS_RETURN);
        return MPI_Win_attach(w->win, w->base, bytes);
    }
}

int tl_may_refuse(int flavor)
{
    const char *refused = getenv("TL_REFUSED_IS_SKIP");

    return refused != NULL
           && (strcmp(refused, "1") == 0 || strcmp(refused, tl_flavor_name(flavor)) == 0);
}

int tl_one_machine(void)
{
    MPI_Comm machine;
    int size;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &size);
    MPI_Comm_free(&machine);
    return size == run.size;
}

/* A component that is not ours may refuse a flavor: the run says so, and is told apart. */
static void refused(const struct tl_win *w, int rc)
{
    char text[MPI_MAX_ERROR_STRING] = "on another rank";

    if (rc != MPI_SUCCESS)
        class_name(rc, text);
    if (tl_may_refuse(w->flavor))
        tl_skip("%s window refused: %s", tl_flavor_name(w->flavor), text);
    else
        tl_fail("%s window of %zu bytes refused: %s", tl_flavor_name(w->flavor), w->bytes, text);
}

static void learn_parts(struct tl_win *w, int unit)
{
    MPI_Aint mine = 0;

    if (w->flavor == TL_DYNAMIC) {
        MPI_Get_address(w->base, &mine);
        unit = 1;
    }
    w->unit = malloc((size_t)w->size * sizeof *w->unit);
    w->address = malloc((size_t)w->size * sizeof *w->address);
    MPI_Allgather(&unit, 1, MPI_INT, w->unit, 1, MPI_INT, w->comm);
    MPI_Allgather(&mine, 1, MPI_AINT, w->address, 1, MPI_AINT, w->comm);
}

int tl_win_open_info(struct tl_win *w, int flavor, MPI_Comm comm, size_t bytes, int unit,
                     MPI_Info info)
{
    int rc, there, everywhere;

    memset(w, 0, sizeof *w);
    w->win = MPI_WIN_NULL;
    w->comm = comm;
    w->flavor = flavor;
    w->bytes = bytes;
    MPI_Comm_rank(comm, &w->rank);
    MPI_Comm_size(comm, &w->size);
    if (flavor == TL_CREATE || flavor == TL_DYNAMIC) {
        w->block = guarded(bytes);
        w->base = w->block + GUARD;
    }
    rc = make_window(w, unit, info);
    there = rc == MPI_SUCCESS;
    MPI_Allreduce(&there, &everywhere, 1, MPI_INT, MPI_MIN, comm);
    if (!everywhere) {
        refused(w, rc);
        free(w->block);
        return 0;
    }
    MPI_Win_set_errhandler(w->win, MPI_ERRORS_RETURN);
    learn_parts(w, unit);
    if (bytes > 0)
        memset(w->base, 0, bytes);
    MPI_Barrier(comm);
    return 1;
}

int tl_win_open(struct tl_win *w, int flavor, MPI_Comm comm, size_t bytes, int unit)
{
    return tl_win_open_info(w, flavor, comm, bytes, unit, MPI_INFO_NULL);
}

void tl_win_close(struct tl_win *w)
{
    MPI_Barrier(w->comm);
    if (w->flavor == TL_DYNAMIC && w->bytes > 0)
        tl_ok(MPI_Win_detach(w->win, w->base), "MPI_Win_detach");
    tl_ok(MPI_Win_free(&w->win), "MPI_Win_free");
    if (w->block != NULL)
        check_guards(w);
    free(w->block);
    free(w->unit);
    free(w->address);
}

MPI_Aint tl_disp(const struct tl_win *w, int target, size_t byte)
{
    if (w->flavor == TL_DYNAMIC)
        return MPI_Aint_add(w->address[target], (MPI_Aint)byte);
    return (MPI_Aint)(byte / (size_t)w->unit[target]);
}

void tl_local_begin(struct tl_win *w)
{
    tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, w->rank, 0, w->win), "MPI_Win_lock of own part");
}

void tl_local_end(struct tl_win *w)
{
    tl_ok(MPI_Win_unlock(w->rank, w->win), "MPI_Win_unlock of own part");
}

const char *tl_epoch_name(enum tl_epoch how)
{
    static const char *const name[TL_EPOCHS] = {"fence", "lock_all", "lock shared",
                                                "lock exclusive", "start"};

    return name[how];
}

int tl_epoch_passive(enum tl_epoch how)
{
    return how == TL_LOCK_ALL || how == TL_LOCK_SHARED || how == TL_LOCK_EXCLUSIVE;
}

static void post_and_start(struct tl_win *w, int target, int origin)
{
    MPI_Group all, exposed, accessed;

    MPI_Win_get_group(w->win, &all);
    MPI_Group_incl(all, 1, &origin, &exposed);
    MPI_Group_incl(all, 1, &target, &accessed);
    tl_ok(MPI_Win_post(exposed, 0, w->win), "MPI_Win_post");
    tl_ok(MPI_Win_start(accessed, 0, w->win), "MPI_Win_start");
    MPI_Group_free(&exposed);
    MPI_Group_free(&accessed);
    MPI_Group_free(&all);
}

void tl_epoch_open(struct tl_win *w, enum tl_epoch how, int target, int origin)
{
    MPI_Barrier(w->comm);
    switch (how) {
    case TL_FENCE:
        tl_ok(MPI_Win_fence(MPI_MODE_NOPRECEDE, w->win), "MPI_Win_fence");
        break;
    case TL_LOCK_ALL:
        tl_ok(MPI_Win_lock_all(0, w->win), "MPI_Win_lock_all");
        break;
    case TL_LOCK_SHARED:
        tl_ok(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, w->win), "MPI_Win_lock shared");
        break;
    case TL_LOCK_EXCLUSIVE:
        tl_ok(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, w->win), "MPI_Win_lock exclusive");
        break;
    default:
        post_and_start(w, target, origin);
        break;
    }
}

void tl_epoch_close(struct tl_win *w, enum tl_epoch how, int target)
{
    switch (how) {
    case TL_FENCE:
        tl_ok(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win), "MPI_Win_fence");
        break;
    case TL_LOCK_ALL:
        tl_ok(MPI_Win_unlock_all(w->win), "MPI_Win_unlock_all");
        break;
    case TL_LOCK_SHARED:
    case TL_LOCK_EXCLUSIVE:
        tl_ok(MPI_Win_unlock(target, w->win), "MPI_Win_unlock");
        break;
    default:
        tl_ok(MPI_Win_complete(w->win), "MPI_Win_complete");
        tl_ok(MPI_Win_wait(w->win), "MPI_Win_wait");
        break;
    }
    MPI_Barrier(w->comm);
}
