/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs Criterion's tests without Criterion's library, for the sanitizers.
 *
 * Criterion's own runner maps its arena at addresses that the thread sanitizer cannot have, and
 * its test processes end without the address sanitizer's search for leaks. So sanitizer builds
 * link this: the few functions that the assertion macros call, and a main() that runs each test
 * in a forked process which ends by exit(). What it does not know (parameters, theories, the
 * new-style eq(...) criteria) does not link, or fails.
 *
 *      PROGRAM [--tap=FILE] [--filter=PATTERN] [--timeout=SECONDS] [--list]
 *
 * Other options that Criterion takes are ignored. */
#include <criterion/criterion.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The linker's names for the ends of the sections where Test() and TestSuite() leave theirs. */
extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *__stop_cr_sts[] __attribute__((weak));

/* What a test process tells of itself, in memory that runner and test share. */
struct report {
    _Atomic int failed;         /* assertions */
    _Atomic int skipped;
    _Atomic int finished;       /* came to its end, not to an exit() on the way */
    char why[1024];
};
static struct report *report;
static const struct criterion_test *current;

/* ---- what the assertion macros call ---- */

struct criterion_options criterion_options;

int cr_asprintf(char **strp, const char *fmt, ...)
{
    va_list args;
    int len;

    va_start(args, fmt);
    len = vasprintf(strp, fmt, args);
    va_end(args);
    return len;
}

void cr_asprintf_free(char *buf)
{
    free(buf);
}

char *cr_translate_assert_msg(int index, ...)
{
    char *text = NULL;
    va_list args;

    va_start(args, index);
    if (asprintf(&text, "assertion of kind %d failed: %s", index, va_arg(args, const char *)) < 0)
        abort();
    va_end(args);
    return text;
}

void cri_asserts_passed_incr(void)
{
}

void criterion_send_assert(struct criterion_assert_stats *stats)
{
    if (stats->passed)
        return;
    if (atomic_fetch_add(&report->failed, 1) == 0)
        snprintf(report->why, sizeof report->why, "%s:%u: %s", stats->file, stats->line,
                 stats->message);
    fprintf(stderr, "%s:%u: %s\n", stats->file, stats->line, stats->message);
}

void criterion_abort_test(void)
{
    fflush(NULL);
    _exit(1);
}

void criterion_continue_test(void)
{
}

void criterion_skip_test(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(report->why, sizeof report->why, format, args);
    va_end(args);
    atomic_store(&report->skipped, 1);
    fflush(NULL);
    _exit(0);
}

void criterion_test_die(const char *msg, ...)
{
    va_list args;

    va_start(args, msg);
    vsnprintf(report->why, sizeof report->why, msg, args);
    va_end(args);
    atomic_fetch_add(&report->failed, 1);
    criterion_abort_test();
}

static const struct criterion_suite *suite_of(const struct criterion_test *test)
{
    for (struct criterion_suite **s = __start_cr_sts; s < __stop_cr_sts; s++)
        if (*s != NULL && strcmp((*s)->name, test->category) == 0)
            return *s;
    return NULL;
}

void criterion_internal_test_setup(void)
{
    const struct criterion_suite *suite = suite_of(current);

    if (suite != NULL && suite->data->init != NULL)
        suite->data->init();
    if (current->data->init != NULL)
        current->data->init();
}

void criterion_internal_test_main(void (*fn)(void))
{
    fn();
}

void criterion_internal_test_teardown(void)
{
    const struct criterion_suite *suite = suite_of(current);

    if (current->data->fini != NULL)
        current->data->fini();
    if (suite != NULL && suite->data->fini != NULL)
        suite->data->fini();
    atomic_store(&report->finished, 1);
}

/* ---- the runner ---- */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Its status as waitpid says, or -1 when it did not end in time; its process group is ended. */
static int wait_for(pid_t pid, double seconds)
{
    double end = now() + seconds;
    int status = 0;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now() > end) {
            kill(-pid, SIGKILL);
            waitpid(pid, &status, 0);
            return -1;
        }
        usleep(1000);
    }
    return status;
}

static bool as_expected(const struct criterion_test *test, int status)
{
    if (test->data->signal != 0)
        return WIFSIGNALED(status) && WTERMSIG(status) == test->data->signal;
    if (test->data->exit_code != 0)
        return WIFEXITED(status) && WEXITSTATUS(status) == test->data->exit_code;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return false;
    return report->finished != 0;
}

static bool run(const struct criterion_test *test, double timeout, double scale, FILE *tap)
{
    const struct criterion_suite *suite = suite_of(test);
    double start = now();
    int status;
    pid_t pid;

    memset(report, 0, sizeof *report);
    current = test;
    if (suite != NULL && suite->data->timeout > 0)
        timeout = suite->data->timeout;
    if (test->data->timeout > 0)
        timeout = test->data->timeout;
    timeout *= scale;
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        test->test();
        exit(0);        /* not _exit: the leak search runs now */
    }
    setpgid(pid, pid);
    status = wait_for(pid, timeout);
    if (report->skipped) {
        fprintf(tap, "ok - %s::%s # SKIP %s\n", test->category, test->name, report->why);
        return true;
    }
    if (report->failed == 0 && status != -1 && as_expected(test, status)) {
        fprintf(tap, "ok - %s::%s (%.2fs)\n", test->category, test->name, now() - start);
        return true;
    }
    fprintf(tap, "not ok - %s::%s %s (wait status 0x%x) %s\n", test->category, test->name,
            status == -1 ? "timed out" : "", (unsigned)status, report->why);
    return false;
}

int main(int argc, char **argv)
{
    const char *filter = "*";
    const char *slow = getenv("TEST_SCALE");
    double timeout = 60, scale = slow != NULL && atof(slow) > 1 ? atof(slow) : 1;
    bool list = false, ok = true;
    FILE *tap = stderr;
    int selected = 0;

    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--tap=", 6) == 0 && (tap = fopen(argv[i] + 6, "w")) == NULL)
            return 2;
        if (strncmp(argv[i], "--filter=", 9) == 0)
            filter = argv[i] + 9;
        if (strncmp(argv[i], "--timeout=", 10) == 0)
            timeout = atof(argv[i] + 10);
        list = list || strcmp(argv[i], "--list") == 0;
    }
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED)
        return 2;
    for (struct criterion_test **t = __start_cr_tst; t < __stop_cr_tst; t++) {
        char name[512];

        if (*t == NULL)         /* padding of the section */
            continue;
        snprintf(name, sizeof name, "%s/%s", (*t)->category, (*t)->name);
        if (fnmatch(filter, name, 0) != 0)
            continue;
        selected++;
        if (list)
            puts(name);
        else if ((*t)->data->kind_ != CR_TEST_NORMAL)
            fprintf(tap, "not ok - %s has parameters, which this runner does not know\n", name);
        else
            ok = run(*t, timeout, scale, tap) && ok;
        fflush(tap);
    }
    fprintf(tap, "1..%d\n", selected);
    return ok && fclose(tap) == 0 ? 0 : 1;
}
