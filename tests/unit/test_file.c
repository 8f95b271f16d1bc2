/* SPDX-License-Identifier: BSD-3-Clause */

/* Files of traces and statistics: what is taken, and that writing raises no signal. What becomes of
 * a program then is in tests/cases (traced). */

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "observe/file.h"

static char dir[64], name[128], other[128];

static void begin(void)
{
    snprintf(dir, sizeof dir, "/tmp/loco-file.XXXXXX");
    cr_assert(mkdtemp(dir) != NULL);
    snprintf(name, sizeof name, "%s/t", dir);
    snprintf(other, sizeof other, "%s/other", dir);
}

static void end(void)
{
    cr_assert_eq(rmdir(dir), 0, "something is left in %s", dir);
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    cr_assert(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

static bool holds(const char *path, const char *text)
{
    char read[64] = "";
    FILE *f = fopen(path, "r");
    size_t n;

    cr_assert(f != NULL);
    n = fread(read, 1, sizeof read - 1, f);
    fclose(f);
    return n == strlen(text) && memcmp(read, text, n) == 0;
}

/* The error of opening `name`, 0 if it is open: then it is closed again. */
static int error_of_open(void)
{
    char taken[160];
    int error = 0, fd;

    snprintf(taken, sizeof taken, "%s", name);
    fd = loci_file_open(taken, sizeof taken, &error);
    cr_assert_eq(fd < 0, error != 0);
    if (fd >= 0)
        close(fd);
    return error;
}

Test(file, what_is_there_is_emptied)
{
    begin();
    cr_assert_eq(error_of_open(), 0);
    put(name, "old");
    cr_assert_eq(error_of_open(), 0);
    cr_assert(holds(name, ""));
    unlink(name);
    end();
}

Test(file, what_is_no_plain_file_of_ours_is_left)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int s = socket(AF_UNIX, SOCK_STREAM, 0);

    begin();
    put(other, "precious");
    cr_assert_eq(symlink(other, name), 0);
    cr_assert_eq(error_of_open(), ELOOP);
    unlink(name);
    cr_assert_eq(symlink("nowhere", name), 0);
    cr_assert_eq(error_of_open(), ELOOP);
    unlink(name);
    cr_assert_eq(link(other, name), 0);
    cr_assert_eq(error_of_open(), LOCI_FILE_LINKED);
    unlink(name);
    cr_assert_eq(mkdir(name, 0700), 0);
    cr_assert_eq(error_of_open(), EISDIR);
    rmdir(name);
    memcpy(address.sun_path, name, strlen(name) + 1);
    cr_assert_eq(bind(s, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(error_of_open(), ENXIO);
    unlink(name);
    cr_assert(holds(other, "precious"));
    unlink(other);
    close(s);
    end();
}

/* Neither without a reader, nor with one. */
Test(file, a_pipe_is_refused_at_once, .timeout = 20)
{
    int reader;

    begin();
    cr_assert_eq(mkfifo(name, 0600), 0);
    cr_assert_eq(error_of_open(), ENXIO);
    reader = open(name, O_RDONLY | O_NONBLOCK);
    cr_assert(reader >= 0);
    cr_assert_eq(error_of_open(), LOCI_FILE_ODD);
    close(reader);
    unlink(name);
    end();
}

Test(file, a_file_of_another_user_is_refused)
{
    if (geteuid() != 0)
        return;
    begin();
    put(name, "theirs");
    cr_assert_eq(chown(name, 12345, 12345), 0);
    cr_assert_eq(error_of_open(), LOCI_FILE_FOREIGN);
    cr_assert(holds(name, "theirs"));
    unlink(name);
    end();
}

/* Who holds it keeps what is in it; the second one takes a name of its own, the third has none. */
Test(file, one_that_is_written_is_left_to_its_writer)
{
    char first[160], second[160], third[160];
    int error = 0, fd[2];

    begin();
    snprintf(first, sizeof first, "%s", name);
    snprintf(second, sizeof second, "%s", name);
    snprintf(third, sizeof third, "%s", name);
    fd[0] = loci_file_open(first, sizeof first, &error);
    cr_assert(fd[0] >= 0);
    cr_assert_eq(loci_file_write(fd[0], "text", 4, 0), 4);
    fd[1] = loci_file_open(second, sizeof second, &error);
    cr_assert(fd[1] >= 0);
    cr_assert_str_eq(first, name);
    cr_assert_neq(strcmp(second, name), 0);
    cr_assert(holds(name, "text"));
    cr_assert_lt(loci_file_open(third, sizeof third, &error), 0);
    cr_assert_eq(error, LOCI_FILE_BUSY);
    close(fd[0]);
    close(fd[1]);
    unlink(first);
    unlink(second);
    end();
}

/* ---- signals ---- */

static bool waits(int sig)
{
    sigset_t set;

    return sigpending(&set) == 0 && sigismember(&set, sig) == 1;
}

static void check_mask(int sig, bool held)
{
    sigset_t set;

    cr_assert_eq(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
    cr_assert_eq(sigismember(&set, sig) == 1, held);
}

Test(file, a_write_beyond_the_limit_raises_no_signal)
{
    const struct rlimit limit = { 10, RLIM_INFINITY };
    int error = 0, fd;

    begin();
    fd = loci_file_open(name, sizeof name, &error);
    cr_assert(fd >= 0);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_eq(loci_file_write(fd, "0123456789abcdef", 16, 0), 10);
    cr_assert_eq(errno, EFBIG);
    cr_assert_eq(loci_file_write(fd, "x", 1, 10), 0);
    cr_assert_eq(errno, EFBIG);
    check_mask(SIGXFSZ, false);
    cr_assert(!waits(SIGXFSZ));
    close(fd);
    unlink(name);
    end();
}

/* One that the program holds back is still there. */
Test(file, a_signal_of_the_program_stays)
{
    int ends[2];
    sigset_t held;

    sigemptyset(&held);
    sigaddset(&held, SIGPIPE);
    cr_assert_eq(pipe(ends), 0);
    close(ends[0]);
    cr_assert_eq(loci_file_write(ends[1], "x", 1, -1), 0);
    cr_assert_eq(errno, EPIPE);
    check_mask(SIGPIPE, false);
    pthread_sigmask(SIG_BLOCK, &held, NULL);
    cr_assert_eq(loci_file_write(ends[1], "x", 1, -1), 0);
    cr_assert(!waits(SIGPIPE));
    raise(SIGPIPE);
    cr_assert_eq(loci_file_write(ends[1], "x", 1, -1), 0);
    cr_assert(waits(SIGPIPE));
    check_mask(SIGPIPE, true);
    close(ends[1]);
}

/* ---- words ---- */

Test(file, each_trouble_has_a_cause_and_a_remedy)
{
    static const int errors[] = {
        LOCI_FILE_ODD, LOCI_FILE_LINKED, LOCI_FILE_FOREIGN, LOCI_FILE_BUSY, LOCI_FILE_REMOVED,
        ELOOP, ENXIO, EISDIR, ENOENT, EACCES, EROFS, ENOSPC, EFBIG, EMFILE, EIO,
    };
    char text[256];

    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        const char *middle = strstr(loci_file_trouble(errors[i], text, sizeof text), "; ");

        cr_assert(middle != NULL && middle > text && middle[2] != '\0', "%s", text);
        cr_assert(strstr(text, "Unknown error") == NULL, "%s", text);
    }
}
