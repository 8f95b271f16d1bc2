/* SPDX-License-Identifier: BSD-3-Clause */

/* Log files of topics: what is appended is read; torn ends are cut off, and nothing before them;
 * damage is refused; what can be wrong with a file is said. */

#include "tlog_world.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "run.h"

enum { MOST = 60, RECORDS = 40, ROOM = 1 << 16 };

static struct loci_tlog *open_log(struct tlog_world *w, int wanted)
{
    struct loci_tlog *log = NULL;
    int status;

    w->lines = 0;
    w->said[0] = '\0';
    status = loci_tlog_open(w->path, "weather", LOCI_TLOG_SYNC_NEVER, &w->say, &log);
    cr_assert(status == wanted, "%s, %s", loco_strerror(status), w->said);
    return log;
}

static void make_log(struct tlog_world *w, uint64_t records)
{
    struct loci_tlog *log = open_log(w, LOCO_OK);

    cr_assert_eq(tlog_append(log, records, 7, MOST), LOCO_OK);
    loci_tlog_close(log);
}

/* Published values: RFC 3720, B.4, and the usual check. */
Test(tlog, sums_as_published)
{
    struct loci_crc32c c;
    unsigned char bytes[64];

    loci_crc32c_open(&c);
    cr_assert_eq(loci_crc32c(&c, 0, "123456789", 9), UINT32_C(0xe3069283));
    memset(bytes, 0, sizeof bytes);
    cr_assert_eq(loci_crc32c(&c, 0, bytes, 32), UINT32_C(0x8a9136aa));
    memset(bytes, 0xff, sizeof bytes);
    cr_assert_eq(loci_crc32c(&c, 0, bytes, 32), UINT32_C(0x62a8ab43));
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    cr_assert_eq(loci_crc32c(&c, 0, bytes, 32), UINT32_C(0x46dd794e));
    for (size_t cut = 0; cut <= 64; cut++)
        cr_assert_eq(loci_crc32c(&c, loci_crc32c(&c, 0, bytes, cut), bytes + cut, 64 - cut),
                     loci_crc32c(&c, 0, bytes, 64));
}

Test(tlog, keeps_what_is_appended)
{
    struct tlog_world w;
    struct loci_tlog_item end;
    struct loci_tlog *log;

    tlog_enter(&w);
    for (uint64_t records = 0; records < 300; records += 1 + records / 3) {
        log = open_log(&w, LOCO_OK);
        cr_assert_eq(w.lines, 0, "%s", w.said);
        cr_assert_eq(tlog_count(w.path, &w.say, MOST, &end), loci_tlog_written(log));
        cr_assert_eq(tlog_append(log, records, (int)(records % 64) + 1, MOST), LOCO_OK);
        loci_tlog_close(log);
        cr_assert_eq(tlog_count(w.path, &w.say, MOST, &end), records);
        cr_assert_eq(end.found, LOCI_TLOG_FOUND_END);
    }
    tlog_leave(&w);
}

/* More in one call than a write has, and samples larger than what is read at a time. */
Test(tlog, takes_many_and_large)
{
    enum { N = 300, LARGE = 700000 };
    static unsigned char large[LARGE];
    static struct loci_tlog_entry entries[N];
    struct tlog_world w;
    struct loci_tlog *log;
    struct loci_tlog_reader *r;
    struct loci_tlog_item item;
    uint64_t number = 0;

    for (size_t i = 0; i < LARGE; i++)
        large[i] = (unsigned char)(i * 31 >> 3);
    for (int i = 0; i < N; i++)
        entries[i] = (struct loci_tlog_entry){ large + i, i % 100 == 50 ? LARGE - N : (uint32_t)i,
                                               (uint32_t)i, i };
    tlog_enter(&w);
    log = open_log(&w, LOCO_OK);
    cr_assert_eq(loci_tlog_append(log, entries, N, &number), LOCO_OK);
    cr_assert_eq(number, N);
    loci_tlog_close(log);
    cr_assert_eq(loci_tlog_reader_open(w.path, &w.say, &r), LOCO_OK);
    for (int i = 0; i < N; i++) {
        cr_assert_eq(loci_tlog_reader_next(r, &item), LOCO_OK);
        cr_assert_eq(item.found, LOCI_TLOG_FOUND_RECORD);
        cr_assert_eq(item.record.bytes, entries[i].bytes);
        cr_assert(memcmp(item.data, entries[i].data, entries[i].bytes) == 0);
    }
    loci_tlog_reader_close(r);
    tlog_leave(&w);
}

/* ---- torn ends ---- */

/* Of a file that ends anywhere all whole records are kept, and it can be appended to. */
static void end_at(struct tlog_world *w, const unsigned char *bytes, size_t length, size_t filled)
{
    unsigned char torn[ROOM];
    struct loci_tlog_item end;
    struct loci_tlog *log;
    uint64_t whole;
    char said[32];

    memcpy(torn, bytes, length);
    memset(torn + length, 0, filled);
    tlog_make(w->path, torn, length + filled);
    whole = tlog_count(w->path, &w->say, MOST, &end);
    cr_assert(filled > 0 || end.to == length);
    log = open_log(w, LOCO_OK);
    cr_assert_eq(loci_tlog_written(log), whole);
    cr_assert_eq(w->lines, end.from < end.to, "%s", w->said);
    snprintf(said, sizeof said, "last %d bytes", (int)(end.to - end.from));
    cr_assert(end.from == end.to || strstr(w->said, said) != NULL, "%s: %s", said, w->said);
    cr_assert_eq(tlog_append(log, whole + 3, 2, MOST), LOCO_OK);
    loci_tlog_close(log);
    cr_assert_eq(tlog_count(w->path, &w->say, MOST, &end), whole + 3);
    cr_assert_eq(end.found, LOCI_TLOG_FOUND_END);
}

Test(tlog, cuts_torn_ends)
{
    static unsigned char bytes[ROOM];
    struct tlog_world w;
    size_t size, begin = 0;
    uint64_t before = 0;

    tlog_enter(&w);
    make_log(&w, 6);
    size = tlog_bytes(w.path, bytes, ROOM);
    for (size_t length = LOCI_TLOG_FIXED + 8; length <= size; length++) {
        struct loci_tlog_item end;
        uint64_t whole;

        end_at(&w, bytes, length, 0);
        end_at(&w, bytes, length, 5);       /* and the length on the disk, and no contents */
        tlog_make(w.path, bytes, length);
        whole = tlog_count(w.path, &w.say, MOST, &end);
        cr_assert(whole == before || whole == before + 1);
        before = whole;
        begin += whole == 6;
    }
    cr_assert_eq(before, 6);
    cr_assert_eq(begin, 1);
    tlog_leave(&w);
}

/* A process that died while it made the log has no records in it. */
Test(tlog, begins_anew_without_a_head)
{
    static unsigned char bytes[ROOM];
    struct tlog_world w;

    tlog_enter(&w);
    make_log(&w, 0);
    cr_assert_eq(tlog_bytes(w.path, bytes, ROOM), LOCI_TLOG_FIXED + 8);
    for (size_t length = 0; length < LOCI_TLOG_FIXED + 8; length++) {
        struct loci_tlog *log;

        tlog_make(w.path, bytes, length);
        log = open_log(&w, LOCO_OK);
        cr_assert_eq(w.lines, length > 0, "%s", w.said);
        cr_assert_eq(tlog_append(log, 2, 2, MOST), LOCO_OK);
        loci_tlog_close(log);
    }
    tlog_leave(&w);
}

/* ---- damage ---- */

/* The first records, as many as are whole, are right, or the file is refused and left as it is. */
static void must_be_noticed(struct tlog_world *w, const unsigned char *bytes, size_t size,
                            size_t at)
{
    static unsigned char after[ROOM];
    struct loci_tlog *log = NULL;
    struct loci_tlog_item end;
    int status;

    tlog_make(w->path, bytes, size);
    w->lines = 0;
    status = loci_tlog_open(w->path, "weather", LOCI_TLOG_SYNC_NEVER, &w->say, &log);
    cr_assert(w->lines > 0, "byte %zu: nothing is said", at);
    cr_assert(strstr(w->said, w->path) != NULL, "%s", w->said);
    if (status == LOCO_OK) {
        cr_assert_eq(tlog_count(w->path, &w->say, MOST, &end), loci_tlog_written(log));
        cr_assert(loci_tlog_written(log) >= RECORDS - 1, "byte %zu: only %d left", at,
                  (int)loci_tlog_written(log));
        loci_tlog_close(log);
        return;
    }
    cr_assert_eq(tlog_bytes(w->path, after, ROOM), size);
    cr_assert(memcmp(bytes, after, size) == 0, "byte %zu", at);
}

Test(tlog, notices_each_byte)
{
    static unsigned char bytes[ROOM];
    struct tlog_world w;
    size_t size;

    tlog_enter(&w);
    make_log(&w, RECORDS);
    size = tlog_bytes(w.path, bytes, ROOM);
    for (size_t at = 0; at < size; at++) {
        unsigned char was = bytes[at];

        bytes[at] ^= (unsigned char)(1 << at % 8);
        must_be_noticed(&w, bytes, size, at);
        bytes[at] = was;
    }
    tlog_leave(&w);
}

/* Offset of record `number`. */
static size_t offset_of(const char *path, uint64_t number)
{
    struct loci_tlog_reader *r;
    struct loci_tlog_item item = { .to = 0 };

    cr_assert_eq(loci_tlog_reader_open(path, NULL, &r), LOCO_OK);
    do {
        cr_assert_eq(loci_tlog_reader_next(r, &item), LOCO_OK);
        cr_assert_eq(item.found, LOCI_TLOG_FOUND_RECORD);
    } while (item.record.number != number);
    loci_tlog_reader_close(r);
    return (size_t)item.from;
}

Test(tlog, names_what_is_damaged)
{
    static unsigned char bytes[ROOM];
    struct tlog_world w;
    struct loci_tlog_item item;
    size_t size, at;
    char words[64];

    tlog_enter(&w);
    make_log(&w, RECORDS);
    at = offset_of(w.path, 9);
    size = tlog_bytes(w.path, bytes, ROOM);
    bytes[at + 45] ^= 4;
    tlog_make(w.path, bytes, size);
    open_log(&w, LOCO_ERR_DAMAGED);
    snprintf(words, sizeof words, "damaged at offset %zu, where record 9 should be", at);
    cr_assert(strstr(w.said, w.path) != NULL && strstr(w.said, words) != NULL
              && strstr(w.said, "number 10") != NULL && strstr(w.said, "loco-log cut") != NULL,
              "%s", w.said);
    cr_assert_eq(tlog_count(w.path, &w.say, MOST, &item), 8);
    cr_assert_eq(item.found, LOCI_TLOG_FOUND_DAMAGE);
    cr_assert(item.from == at && item.next == 10);
    tlog_leave(&w);
}

/* Records that are whole, and not where they were: one removed, one twice, one after the last,
 * bytes put in between. */
Test(tlog, notices_what_was_moved)
{
    static unsigned char bytes[ROOM], other[ROOM];
    struct tlog_world w;
    size_t size, nine, ten;

    tlog_enter(&w);
    make_log(&w, RECORDS);
    nine = offset_of(w.path, 9);
    ten = offset_of(w.path, 10);
    size = tlog_bytes(w.path, bytes, ROOM);

    memcpy(other, bytes, nine);
    memcpy(other + nine, bytes + ten, size - ten);
    tlog_make(w.path, other, size - (ten - nine));
    open_log(&w, LOCO_ERR_DAMAGED);

    memcpy(other, bytes, ten);
    memcpy(other + ten, bytes + nine, size - nine);
    tlog_make(w.path, other, size + (ten - nine));
    open_log(&w, LOCO_ERR_DAMAGED);

    memcpy(other, bytes, size);
    memcpy(other + size, bytes + nine, ten - nine);
    tlog_make(w.path, other, size + (ten - nine));
    open_log(&w, LOCO_ERR_DAMAGED);
    cr_assert(strstr(w.said, "and number 9 is") != NULL, "%s", w.said);

    for (size_t n = 1; n < 10; n++) {
        memcpy(other, bytes, ten);
        memset(other + ten, 0, n);
        memcpy(other + ten + n, bytes + ten, size - ten);
        tlog_make(w.path, other, size + n);
        open_log(&w, LOCO_ERR_DAMAGED);
    }
    tlog_leave(&w);
}

/* A record of another log of the same topic is none of this one: a disk may have kept its blocks.
 */
Test(tlog, takes_no_record_of_another_file)
{
    static unsigned char bytes[ROOM], other[ROOM];
    struct tlog_world w;
    struct loci_tlog *log;
    size_t size, nine;

    tlog_enter(&w);
    make_log(&w, RECORDS);
    size = tlog_bytes(w.path, other, ROOM);
    cr_assert_eq(unlink(w.path), 0);
    make_log(&w, RECORDS);
    cr_assert_eq(tlog_bytes(w.path, bytes, ROOM), size);
    nine = offset_of(w.path, 9);
    memcpy(bytes + nine, other + nine, size - nine);
    tlog_make(w.path, bytes, size);
    log = open_log(&w, LOCO_OK);
    cr_assert_eq(loci_tlog_written(log), 8);
    cr_assert_eq(w.lines, 1);
    loci_tlog_close(log);
    tlog_leave(&w);
}

/* The sample that was being written may contain this very log. */
Test(tlog, is_not_deceived_by_samples)
{
    static unsigned char bytes[ROOM];
    struct tlog_world w;
    struct loci_tlog_entry entry = { .data = bytes };
    struct loci_tlog *log;
    struct stat stat_;

    tlog_enter(&w);
    make_log(&w, RECORDS);
    entry.bytes = (uint32_t)tlog_bytes(w.path, bytes, ROOM);
    log = open_log(&w, LOCO_OK);
    cr_assert_eq(loci_tlog_append(log, &entry, 1, NULL), LOCO_OK);
    loci_tlog_close(log);
    cr_assert_eq(stat(w.path, &stat_), 0);
    cr_assert_eq(truncate(w.path, stat_.st_size - 1), 0);
    log = open_log(&w, LOCO_OK);
    cr_assert_eq(loci_tlog_written(log), RECORDS);
    loci_tlog_close(log);
    tlog_leave(&w);
}

/* ---- what else can be wrong ---- */

static void refuses(struct tlog_world *w, int status, const char *words)
{
    open_log(w, status);
    cr_assert(w->lines == 1 && strstr(w->said, words) != NULL && strstr(w->said, w->path) != NULL,
              "not \"%s\" but: %s", words, w->said);
}

Test(tlog, says_what_is_wrong_with_a_file)
{
    static unsigned char bytes[ROOM];
    struct tlog_world w;
    struct loci_tlog *log, *again;
    size_t size;

    tlog_enter(&w);
    cr_assert_eq(mkdir(w.path, 0700), 0);
    refuses(&w, LOCO_ERR_SYSTEM, "cannot be opened: Is a directory");
    cr_assert_eq(rmdir(w.path), 0);
    cr_assert_eq(mkfifo(w.path, 0600), 0);
    refuses(&w, LOCO_ERR_ARG, "is not a regular file");
    cr_assert_eq(unlink(w.path), 0);
    tlog_make(w.path, (const unsigned char *)"my letters, all of them", 23);
    refuses(&w, LOCO_ERR_ARG, "is not the log of a topic");
    cr_assert_eq(tlog_bytes(w.path, bytes, ROOM), 23);
    cr_assert_eq(unlink(w.path), 0);

    make_log(&w, 3);
    cr_assert_eq(loci_tlog_open(w.path, "news", LOCI_TLOG_SYNC_NEVER, &w.say, &again),
                 LOCO_ERR_MISMATCH);
    cr_assert(strstr(w.said, "is of topic weather, not of news") != NULL, "%s", w.said);
    log = open_log(&w, LOCO_OK);
    refuses(&w, LOCO_ERR_STATE, "is in use");
    loci_tlog_close(log);
    size = tlog_bytes(w.path, bytes, ROOM);
    bytes[8] = 2;
    tlog_make(w.path, bytes, size);
    refuses(&w, LOCO_ERR_UNSUPPORTED, "is of format 2");
    bytes[8] = 1;
    bytes[49] ^= 1;
    tlog_make(w.path, bytes, size);
    refuses(&w, LOCO_ERR_DAMAGED, "its first bytes");
    tlog_leave(&w);
    strcpy(w.path, "/nowhere/at/all");
    refuses(&w, LOCO_ERR_SYSTEM, "cannot be opened: No such file or directory");
    memset(bytes, 'a', 300);
    bytes[300] = '\0';
    cr_assert_eq(loci_tlog_open(w.path, (char *)bytes, LOCI_TLOG_SYNC_NEVER, &w.say, &log),
                 LOCO_ERR_NAME);
}

/* As an ordinary user, in a folder that is somebody else's, and of a file that is. */
Test(tlog, needs_permission)
{
    struct tlog_world w;
    pid_t child;
    int status;

    if (geteuid() != 0)
        cr_skip_test("only root can become somebody else");
    tlog_enter(&w);
    cr_assert_eq(chmod(w.folder, 0755), 0);
    for (int there = 0; there < 2; there++) {
        if (there == 1)
            make_log(&w, 2);
        child = fork();
        if (child == 0) {
            struct loci_tlog *log;

            if (setresuid(65534, 65534, 65534) != 0)
                _exit(2);
            status = loci_tlog_open(w.path, "weather", LOCI_TLOG_SYNC_NEVER, &w.say, &log);
            _exit(status != LOCO_ERR_SYSTEM
                  || strstr(w.said, "cannot be opened: Permission denied") == NULL);
        }
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0);
    }
    tlog_leave(&w);
}

/* Two processes that begin a log at the same time: one has it. */
Test(tlog, is_one_process_s)
{
    struct tlog_world w;

    for (int round = 0; round < run_rounds(50); round++) {
        int both[2], opened = 0, status;
        pid_t child[4];
        char byte = 0;

        tlog_enter(&w);
        cr_assert_eq(pipe(both), 0);
        for (int i = 0; i < 4; i++) {
            child[i] = fork();
            if (child[i] == 0) {
                struct loci_tlog *log;

                status = loci_tlog_open(w.path, "weather", LOCI_TLOG_SYNC_NEVER, &w.say, &log);
                close(both[1]);
                if (status == LOCO_OK)
                    (void)!read(both[0], &byte, 1);     /* until all have tried */
                _exit(status == LOCO_OK ? 10 : status == LOCO_ERR_STATE ? 11 : 12);
            }
        }
        close(both[1]);
        for (int i = 0; i < 4; i++) {
            cr_assert_eq(waitpid(child[i], &status, 0), child[i]);
            cr_assert(WIFEXITED(status) && WEXITSTATUS(status) < 12);
            opened += WEXITSTATUS(status) == 10;
        }
        close(both[0]);
        cr_assert_eq(opened, 1);
        tlog_leave(&w);
    }
}

/* ---- while it is written ---- */

static void ends(struct tlog_world *w, struct loci_tlog *log, const char *words)
{
    uint64_t written = loci_tlog_written(log);

    w->lines = 0;
    cr_assert_eq(tlog_append(log, written + 1, 1, MOST), LOCO_ERR_SYSTEM);
    cr_assert(w->lines == 1 && strstr(w->said, words) != NULL && strstr(w->said, w->path) != NULL,
              "not \"%s\" but: %s", words, w->said);
    cr_assert_eq(tlog_append(log, written + 1, 1, MOST), LOCO_ERR_SYSTEM);
    cr_assert_eq(w->lines, 1, "it is said once");
    cr_assert_eq(loci_tlog_written(log), written);
    loci_tlog_close(log);
}

Test(tlog, notices_other_programs)
{
    struct tlog_world w;
    struct loci_tlog *log;
    struct stat stat_;

    tlog_enter(&w);
    make_log(&w, 5);
    cr_assert_eq(stat(w.path, &stat_), 0);
    log = open_log(&w, LOCO_OK);
    cr_assert_eq(truncate(w.path, stat_.st_size - 20), 0);
    ends(&w, log, "another program has changed it");
    log = open_log(&w, LOCO_OK);
    cr_assert_eq(loci_tlog_written(log), 4);
    cr_assert_eq(truncate(w.path, stat_.st_size + 20), 0);
    ends(&w, log, "another program has changed it");
    log = open_log(&w, LOCO_OK);
    cr_assert_eq(unlink(w.path), 0);
    ends(&w, log, "has been removed");
    make_log(&w, 0);
    tlog_leave(&w);
}

/* A reader of a file that becomes shorter finds its end. */
Test(tlog, reads_what_is_left)
{
    struct tlog_world w;
    struct loci_tlog_reader *r;
    struct loci_tlog_item item;

    tlog_enter(&w);
    make_log(&w, 20000);        /* more than is read at a time */
    cr_assert_eq(loci_tlog_reader_open(w.path, &w.say, &r), LOCO_OK);
    cr_assert_eq(loci_tlog_reader_next(r, &item), LOCO_OK);
    cr_assert_eq(truncate(w.path, 300000), 0);
    while (item.found == LOCI_TLOG_FOUND_RECORD) {
        cr_assert(tlog_is_right(&item, MOST));
        cr_assert_eq(loci_tlog_reader_next(r, &item), LOCO_OK);
    }
    cr_assert_eq(item.found, LOCI_TLOG_FOUND_TORN);
    cr_assert(item.to <= 300000);
    loci_tlog_reader_close(r);
    tlog_leave(&w);
}

/* A disk that is full in the middle of a write: by a limit on the size of files, which takes what
 * fits. */
Test(tlog, ends_whole_on_a_full_disk)
{
    struct tlog_world w;
    struct rlimit limit;
    struct loci_tlog_item end;
    struct loci_tlog *log;

    signal(SIGXFSZ, SIG_IGN);
    tlog_enter(&w);
    for (rlim_t room = 0; room < 60; room++) {
        struct stat stat_;
        int status;

        make_log(&w, 5);
        cr_assert_eq(stat(w.path, &stat_), 0);
        log = open_log(&w, LOCO_OK);
        cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
        limit.rlim_cur = (rlim_t)stat_.st_size + room;
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        w.lines = 0;
        status = tlog_append(log, 15, 10, MOST);
        cr_assert_eq(status, LOCO_ERR_SYSTEM);
        cr_assert(w.lines == 1 && strstr(w.said, "from record 6 on") != NULL, "%s", w.said);
        cr_assert_eq(loci_tlog_written(log), 5);
        loci_tlog_close(log);
        cr_assert_eq(tlog_count(w.path, &w.say, MOST, &end), 5);
        cr_assert_eq(end.found, LOCI_TLOG_FOUND_END);       /* no torn end is left */
        limit.rlim_cur = limit.rlim_max;
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        cr_assert_eq(unlink(w.path), 0);
    }
    make_log(&w, 0);
    tlog_leave(&w);
}
