/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch.h"

#include "execute.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TICK_MS = 20, PATH = 4096, ARGUMENTS = 48 };

const char *end_name(enum end e)
{
    static const char *const names[] = {"fine", "wrong result", "invalid", "failed call",
                                        "crash", "hang"};

    return names[e];
}

char *slurp(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = NULL;
    size_t bytes = 0, n;

    if (f == NULL)
        return NULL;
    do {
        text = realloc(text, bytes + 65536);
        n = fread(text + bytes, 1, 65535, f);
        bytes += n;
    } while (n > 0);
    text[bytes] = '\0';
    fclose(f);
    return text;
}

void result_free(struct result *r)
{
    free(r->current);
    r->current = NULL;
}

static void in_folder(const struct job *job, const char *name, char *path)
{
    snprintf(path, PATH, "%s/%s", job->folder, name);
}

/* ---- starting ---- */

/* Of the build tree that this program lies in: DIR/tests/soak/soak. */
static void beside(const char *relative, char *path)
{
    ssize_t n = readlink("/proc/self/exe", path, PATH - 1);

    path[n > 0 ? n : 0] = '\0';
    if (strrchr(path, '/') != NULL)
        *strrchr(path, '/') = '\0';
    strncat(path, relative, PATH - strlen(path) - 1);
}

static void start(const struct job *job)
{
    static char with_loco[PATH], batch[PATH], numbers[5][32], folder[PATH];
    char *argv[ARGUMENTS];
    int n = 0;

    beside("/../../tools/with-loco", with_loco);
    beside("/batch", batch);
    snprintf(folder, sizeof folder, "%s", job->folder);
    snprintf(numbers[0], 32, "%d", job->ranks);
    snprintf(numbers[1], 32, "%d", job->threads);
    snprintf(numbers[2], 32, "%d", job->repeat);
    snprintf(numbers[3], 32, "%llu", (unsigned long long)job->seed);
    snprintf(numbers[4], 32, "%d", job->count);
#define ARG(text) argv[n++] = (char *)(uintptr_t)(text)
    if (access(with_loco, X_OK) == 0)
        ARG(with_loco);
    ARG("mpirun"); ARG("--oversubscribe"); ARG("-np"); ARG(numbers[0]);
    if (strcmp(job->component, "default") != 0) {
        ARG("--mca"); ARG("osc"); ARG(job->component);
    }
    if (job->late_requests) {
        ARG("--mca"); ARG("osc_loco_late_requests"); ARG("1");
    }
    if (job->no_cma) {
        ARG("--mca"); ARG("osc_loco_cma"); ARG("never");
    }
    ARG(batch); ARG(folder); ARG("--threads"); ARG(numbers[1]); ARG("--repeat"); ARG(numbers[2]);
    if (job->file != NULL) {
        ARG("--file"); ARG(job->file);
    } else {
        ARG("--seed"); ARG(numbers[3]); ARG("--count"); ARG(numbers[4]);
    }
#undef ARG
    argv[n] = NULL;
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    execvp(argv[0], argv);
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static pid_t spawn(const struct job *job)
{
    char path[PATH];
    pid_t pid;
    int out;

    in_folder(job, "output", path);
    out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid = fork();
    if (pid != 0) {
        close(out);
        return pid;
    }
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);   /* in a group of its own it would outlive us */
    dup2(out, 1);
    dup2(out, 2);
    dup2(open("/dev/null", O_RDONLY), 0);
    start(job);
    return -1;
}

/* ---- watching ---- */

static long size_of(const char *path)
{
    FILE *f = fopen(path, "r");
    long n = 0;

    if (f == NULL)
        return 0;
    if (fseek(f, 0, SEEK_END) == 0)
        n = ftell(f);
    fclose(f);
    return n;
}

/* mpirun ends its processes, if it still can. */
static void end_job(pid_t pid)
{
    int status;

    kill(pid, SIGTERM);
    for (int i = 0; i < 5000 / TICK_MS; i++) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return;
        usleep(TICK_MS * 1000);
    }
    kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
}

/* Time is counted in ticks of this process: where all is stopped for a while, so are they. */
static bool watch(const struct job *job, pid_t pid, int *status)
{
    char path[PATH];
    long size = 0, quiet = 0;

    in_folder(job, "status", path);
    while (waitpid(pid, status, WNOHANG) == 0) {
        long now = size_of(path);
        quiet = now == size ? quiet + 1 : 0;
        size = now;
        if (quiet > (long)job->patience * 1000 / TICK_MS) {
            end_job(pid);
            return false;
        }
        usleep(TICK_MS * 1000);
    }
    return true;
}

/* ---- reading ---- */

static struct failure *add(struct result *r, int number, enum end end, const char *why)
{
    struct failure *f;

    for (int i = 0; i < r->failures; i++)       /* of several repetitions, one */
        if (r->failure[i].number == number)
            return &r->failure[i];
    if (r->failures == FAILURES)
        return &r->failure[FAILURES - 1];
    f = &r->failure[r->failures++];
    f->number = number;
    f->end = end;
    snprintf(f->why, sizeof f->why, "%s", why);
    return f;
}

static void read_line(struct result *r, const char *line, int *running, bool *fatal)
{
    int number = 0, rank, statement, at = 0;
    long operations, statements;

    if (sscanf(line, "start %d", &number) == 1) {
        *running = number;
        r->programs++;
    } else if (sscanf(line, "ok %d %ld %ld", &number, &operations, &statements) == 3) {
        r->operations += operations;
        r->statements += statements;
        *running = -1;
    } else if (sscanf(line, "wrong %d %n", &number, &at) == 1 && at > 0) {
        add(r, number, E_WRONG, line + at);
        *running = -1;
    } else if (sscanf(line, "invalid %d %n", &number, &at) == 1 && at > 0) {
        add(r, number, E_INVALID, line + at);
    } else if (sscanf(line, "fatal %d %d %d %n", &number, &rank, &statement, &at) == 3 &&
               !*fatal) {
        char why[500];
        snprintf(why, sizeof why, "rank %d, statement %d: %s", rank, statement, line + at);
        add(r, number, E_FATAL, why);
        *fatal = true;
    } else if (strcmp(line, "end") == 0) {
        r->ended = true;
    }
}

/* Where everybody is. */
static void describe_places(const struct job *job, char *why, size_t room)
{
    char path[PATH];
    struct place place[SOAK_RANKS];
    FILE *f;
    size_t n = strlen(why);

    in_folder(job, "places", path);
    f = fopen(path, "r");
    if (f == NULL || fread(place, sizeof place[0], (size_t)job->ranks, f) == 0)
        n = room;
    if (f != NULL)
        fclose(f);
    for (int r = 0; r < job->ranks; r++)
        for (int t = 0; t < SOAK_THREADS && n + 40 < room; t++)
            if (place[r].statement[t] > 0)
                n += (size_t)snprintf(why + n, room - n, "; rank %d.%d in statement %d", r, t,
                                      place[r].statement[t]);
}

static void read_status(const struct job *job, struct result *r, bool hung, int status)
{
    char path[PATH], why[600], *text, *save = NULL;
    int running = -1;
    bool fatal = false;

    in_folder(job, "status", path);
    text = slurp(path);
    for (char *line = text != NULL ? strtok_r(text, "\n", &save) : NULL; line != NULL;
         line = strtok_r(NULL, "\n", &save))
        read_line(r, line, &running, &fatal);
    free(text);
    if (r->ended && !hung)
        return;
    if (!fatal) {
        snprintf(why, sizeof why, "%s, status %d", hung ? "no news" : "the job ended", status);
        describe_places(job, why, sizeof why);
        add(r, running >= 0 ? running : r->programs, hung ? E_HUNG : E_CRASHED, why);
    }
    in_folder(job, "current", path);
    r->current = slurp(path);
}

bool launch(const struct job *job, struct result *result)
{
    static const char *const names[3] = {"status", "current", "places"};
    char path[PATH];
    int status = 0;
    bool hung;

    memset(result, 0, sizeof *result);
    for (int i = 0; i < 3; i++) {
        in_folder(job, names[i], path);
        unlink(path);
    }
    hung = !watch(job, spawn(job), &status);
    read_status(job, result, hung, status);
    return result->programs > 0 || result->ended;
}
