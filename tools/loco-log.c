/* SPDX-License-Identifier: BSD-3-Clause */

/* loco-log: shows, checks and cuts the log files of topics. */

#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <loco/status.h>

#include "topic/tlog_read.h"

enum { OK = 0, DAMAGED = 1, USAGE = 2, FAILED = 3 };
enum format { TEXT, HEX, RAW };

struct options {
    uint64_t from, to;          /* numbers */
    enum format format;
    bool from_given, to_given, format_given, damaged;
};

static const char usage[] =
    "usage: loco-log list FILE...\n"
    "       loco-log check FILE...\n"
    "       loco-log dump [--from N] [--to N] [--format text|hex|raw] FILE\n"
    "       loco-log cut [--damaged] [--from N] FILE\n"
    "\n"
    "Show, check or cut the log files that subscribers of topics write (loco_topic(3)).\n"
    "list says in a line for each file what it has; check names each damaged place; dump\n"
    "prints records, also those behind a damaged place; cut removes what a killed process\n"
    "left of a record at the end, which the next start does, too.\n"
    "  -f, --from N        dump: the first record; cut: remove record N and all later ones\n"
    "  -t, --to N          dump: the last record\n"
    "  -F, --format KIND   dump: text (as it is), hex, or raw (samples and nothing else)\n"
    "  -d, --damaged       cut: remove the first damaged place and all that follows it,\n"
    "                      whole records, too\n"
    "  -h, --help\n"
    "  -V, --version\n"
    "Exit status: 0, 1 if a file is damaged, 2 for a wrong command line, 3 if a file cannot\n"
    "be read or changed.\n";

static void complain_of_file(void *ctx, int level, const char *text)
{
    (void)ctx;
    (void)level;
    fprintf(stderr, "loco-log: %s\n", text);
}

static const struct loci_log say = { .fn = complain_of_file, .level = LOCO_LOG_WARN };

static int result_of(int status)
{
    return status == LOCO_OK ? OK : status == LOCO_ERR_DAMAGED ? DAMAGED : FAILED;
}

static int worse(int a, int b)
{
    return a > b ? a : b;
}

/* An open log; NULL: `*result`. */
static struct loci_tlog_reader *open_log(const char *path, int *result)
{
    struct loci_tlog_reader *r = NULL;
    int status = loci_tlog_reader_open(path, &say, &r);

    if (status == LOCO_ERR_AGAIN)
        fprintf(stderr, "loco-log: log %s is empty: no process has begun it\n", path);
    else if (status == LOCO_ERR_NO_MEMORY)
        fprintf(stderr, "loco-log: log %s: %s\n", path, loco_strerror(status));
    *result = result_of(status);
    return r;
}

static const char *time_text(int64_t ns, char text[48])
{
    int64_t part = ns % 1000000000;
    time_t seconds;
    struct tm tm;

    part = part < 0 ? part + 1000000000 : part;
    seconds = (time_t)((ns - part) / 1000000000);
    if (gmtime_r(&seconds, &tm) == NULL || strftime(text, 32, "%Y-%m-%dT%H:%M:%S", &tm) == 0)
        snprintf(text, 48, "%" PRId64, ns);
    else
        snprintf(text + strlen(text), 16, ".%09" PRId64 "Z", part);
    return text;
}

/* A byte that would do something to a terminal, or to whoever reads lines, is escaped. */
static void put_text(const unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] == '\\')
            fputs("\\\\", stdout);
        else if (data[i] == '\n')
            fputs("\\n", stdout);
        else if (data[i] == '\t')
            fputs("\\t", stdout);
        else if (data[i] >= 0x80 || isprint(data[i]))
            putchar(data[i]);
        else
            printf("\\x%02x", data[i]);
    }
}

static void put_name(const struct loci_tlog_reader *r)
{
    const char *topic = loci_tlog_reader_head(r)->topic;

    put_text((const unsigned char *)topic, strlen(topic));
}

/* ---- going through a file ---- */

struct found {
    uint64_t records, bytes, first, last;
    int64_t begun, ended;
    uint64_t damages, lost;     /* places; records that are known to be missing there */
    uint64_t damage_at, damage_number;  /* of the first */
    uint64_t torn;              /* bytes */
    uint64_t after;             /* records behind the first damaged place */
};

/* Of each record and place; false: stop. */
typedef bool visit_fn(const struct loci_tlog_reader *r, const struct loci_tlog_item *item,
                      void *arg);

static void count(struct found *f, const struct loci_tlog_item *item)
{
    switch (item->found) {
    case LOCI_TLOG_FOUND_RECORD:
        f->first = f->records == 0 ? item->record.number : f->first;
        f->begun = f->records == 0 ? item->record.time : f->begun;
        f->last = item->record.number;
        f->ended = item->record.time;
        f->bytes += item->record.bytes;
        f->records++;
        f->after += f->damages > 0;
        break;
    case LOCI_TLOG_FOUND_DAMAGE:
        if (f->damages++ == 0) {
            f->damage_at = item->from;
            f->damage_number = item->expected;
        }
        f->lost += item->next > item->expected ? item->next - item->expected : 0;
        break;
    case LOCI_TLOG_FOUND_TORN: f->torn = item->to - item->from; break;
    case LOCI_TLOG_FOUND_END: break;
    }
}

static int walk(struct loci_tlog_reader *r, struct found *f, visit_fn *visit, void *arg)
{
    struct loci_tlog_item item;
    int status;

    *f = (struct found){ .records = 0 };
    do {
        status = loci_tlog_reader_next(r, &item);
        if (status != LOCO_OK)
            return FAILED;
        count(f, &item);
        if (visit != NULL && !visit(r, &item, arg))
            break;
    } while (item.found != LOCI_TLOG_FOUND_END);
    return f->damages > 0 ? DAMAGED : OK;
}

/* ---- list and check ---- */

static int list(const char *path)
{
    struct found f;
    char begun[48], ended[48];
    int result;
    struct loci_tlog_reader *r = open_log(path, &result);

    if (r == NULL)
        return result;
    result = walk(r, &f, NULL, NULL);
    printf("%s: topic ", path);
    put_name(r);
    if (f.records == 0)
        printf(", no records");
    else
        printf(", %" PRIu64 " records, %" PRIu64 " to %" PRIu64 ", %" PRIu64 " bytes, %s to %s",
               f.records, f.first, f.last, f.bytes, time_text(f.begun, begun),
               time_text(f.ended, ended));
    printf("%s%s%s\n", f.damages > 0 ? ", DAMAGED" : "", f.torn > 0 ? ", torn at its end" : "",
           loci_tlog_reader_in_use(r) ? ", in use" : "");
    loci_tlog_reader_close(r);
    return result;
}

static bool show_damage(const struct loci_tlog_reader *r, const struct loci_tlog_item *item,
                        void *path)
{
    if (item->found == LOCI_TLOG_FOUND_TORN)
        printf("%s: %" PRIu64 " bytes at the end, from offset %" PRIu64 " on, are the beginning of "
               "record %" PRIu64 "%s\n", (const char *)path, item->to - item->from, item->from,
               item->expected, loci_tlog_reader_in_use(r) ? ", perhaps being written"
                                                           : "; the next start cuts them off");
    if (item->found != LOCI_TLOG_FOUND_DAMAGE)
        return true;
    printf("%s: DAMAGED from offset %" PRIu64 " to %" PRIu64 ": record %" PRIu64 " should be "
           "there; ", (const char *)path, item->from, item->to, item->expected);
    if (item->next == 0)
        printf("number %" PRIu64 " is, and no later record follows\n", item->record.number);
    else if (item->next == item->expected)
        printf("it follows behind that\n");
    else
        printf("%" PRIu64 " records are lost, and number %" PRIu64 " follows\n",
               item->next - item->expected, item->next);
    return true;
}

static int check(const char *path)
{
    struct found f;
    int result;
    struct loci_tlog_reader *r = open_log(path, &result);

    if (r == NULL)
        return result;
    result = walk(r, &f, show_damage, (void *)(uintptr_t)path);
    if (result == OK)
        printf("%s: %" PRIu64 " records, all whole\n", path, f.records);
    loci_tlog_reader_close(r);
    return result;
}

/* ---- dump ---- */

static void dump_hex(const unsigned char *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 16) {
        size_t n = bytes - at < 16 ? bytes - at : 16;

        printf("  %08zx ", at);
        for (size_t i = 0; i < 16; i++)
            if (i < n)
                printf(" %02x", data[at + i]);
            else
                fputs("   ", stdout);
        fputs("  ", stdout);
        for (size_t i = 0; i < n; i++)
            putchar(data[at + i] < 0x80 && isprint(data[at + i]) ? data[at + i] : '.');
        putchar('\n');
    }
}

static bool dump_item(const struct loci_tlog_reader *r, const struct loci_tlog_item *item,
                      void *arg)
{
    const struct options *o = arg;
    const struct loci_tlog_record *record = &item->record;
    char text[48];

    (void)r;
    if (item->found == LOCI_TLOG_FOUND_DAMAGE)
        fprintf(stderr, "loco-log: damaged from offset %" PRIu64 " to %" PRIu64 ", where record %"
                PRIu64 " should be\n", item->from, item->to, item->expected);
    if (item->found != LOCI_TLOG_FOUND_RECORD || record->number < o->from)
        return true;
    if (record->number > o->to)
        return false;
    if (o->format == RAW) {
        fwrite(item->data, 1, record->bytes, stdout);
        return ferror(stdout) == 0;
    }
    printf("%" PRIu64 " %s rank %" PRIu32 ", %" PRIu32 " bytes%s", record->number,
           time_text(record->time, text), record->sender, record->bytes,
           o->format == HEX ? "\n" : ": ");
    if (o->format == HEX) {
        dump_hex(item->data, record->bytes);
    } else {
        put_text(item->data, record->bytes);
        putchar('\n');
    }
    return ferror(stdout) == 0;
}

static int dump(const char *path, struct options *o)
{
    struct found f;
    int result;
    struct loci_tlog_reader *r = open_log(path, &result);

    if (r == NULL)
        return result;
    result = walk(r, &f, dump_item, o);
    loci_tlog_reader_close(r);
    return result;
}

/* ---- cut ---- */

struct place {
    uint64_t number, at;        /* to be cut before this record: found there */
    bool found;
};

static bool find_place(const struct loci_tlog_reader *r, const struct loci_tlog_item *item,
                       void *arg)
{
    struct place *place = arg;

    (void)r;
    if (item->found == LOCI_TLOG_FOUND_RECORD && item->record.number == place->number
        && !place->found) {
        place->at = item->from;
        place->found = true;
    }
    return true;
}

/* Where to cut; OK, or what is the matter, told. */
static int choose(const char *path, const struct options *o, const struct found *f,
                  struct place *place, uint64_t size)
{
    if (o->from_given && place->found && (f->damages == 0 || place->at < f->damage_at))
        return OK;
    if (f->damages > 0 && !o->damaged) {
        fprintf(stderr, "loco-log: log %s is damaged at offset %" PRIu64 ", and %" PRIu64 " whole "
                "records follow. With --damaged they are removed, too; dump shows them\n", path,
                f->damage_at, f->after);
        return DAMAGED;
    }
    if (o->from_given && f->damages == 0) {
        fprintf(stderr, "loco-log: log %s has no record %" PRIu64 "\n", path, o->from);
        return FAILED;
    }
    place->at = f->damages > 0 ? f->damage_at : size - f->torn;
    return OK;
}

static int cut_open(const char *path, const struct options *o, int fd)
{
    struct loci_tlog_reader *r;
    struct place place = { .number = o->from };
    struct found f;
    uint64_t size;
    int result = result_of(loci_tlog_reader_of(fd, path, &say, &r));

    if (result != OK)
        return result;
    result = walk(r, &f, find_place, &place);
    size = loci_tlog_reader_size(r);
    if (result != FAILED)
        result = choose(path, o, &f, &place, size);
    loci_tlog_reader_close(r);
    if (result != OK)
        return result;
    if (place.at == size) {
        printf("%s: nothing to cut\n", path);
        return OK;
    }
    if (ftruncate(fd, (off_t)place.at) != 0 || fsync(fd) != 0) {
        fprintf(stderr, "loco-log: %s: %s\n", path, strerror(errno));
        return FAILED;
    }
    printf("%s: cut at offset %" PRIu64 ", %" PRIu64 " bytes\n", path, place.at, size - place.at);
    return OK;
}

static int cut(const char *path, const struct options *o)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), result;

    if (fd < 0) {
        fprintf(stderr, "loco-log: %s: %s\n", path, strerror(errno));
        return FAILED;
    }
    if (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
        fprintf(stderr, "loco-log: log %s %s\n", path,
                errno == EAGAIN || errno == EACCES ? "is in use" : strerror(errno));
        close(fd);
        return FAILED;
    }
    result = cut_open(path, o, fd);
    close(fd);
    return result;
}

/* ---- the command line ---- */

static bool parse_number(const char *text, uint64_t *number)
{
    char *end;

    errno = 0;
    *number = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && isdigit((unsigned char)text[0]);
}

static int complain(const char *what, const char *value)
{
    fprintf(stderr, "loco-log: %s %s\n%s", what, value, usage);
    return USAGE;
}

/* -1: go on. */
static int parse(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        { "from", required_argument, NULL, 'f' }, { "to", required_argument, NULL, 't' },
        { "format", required_argument, NULL, 'F' }, { "damaged", no_argument, NULL, 'd' },
        { "help", no_argument, NULL, 'h' }, { "version", no_argument, NULL, 'V' },
        { NULL, 0, NULL, 0 }
    };
    static const char *const formats[] = { [TEXT] = "text", [HEX] = "hex", [RAW] = "raw" };
    int option, i;

    while ((option = getopt_long(argc, argv, "f:t:F:dhV", longs, NULL)) != -1) {
        switch (option) {
        case 'f':
        case 't':
            if (!parse_number(optarg, option == 'f' ? &o->from : &o->to))
                return complain("no number of a record:", optarg);
            *(option == 'f' ? &o->from_given : &o->to_given) = true;
            break;
        case 'F':
            for (i = 0; i < 3 && strcmp(optarg, formats[i]) != 0; i++)
                ;
            if (i == 3)
                return complain("formats are text, hex and raw, not", optarg);
            o->format = (enum format)i;
            o->format_given = true;
            break;
        case 'd': o->damaged = true; break;
        case 'h': fputs(usage, stdout); return OK;
        case 'V': puts("loco-log " PACKAGE_VERSION); return OK;
        default: fputs(usage, stderr); return USAGE;
        }
    }
    return -1;
}

static int each(char **paths, int n, int (*fn)(const char *path))
{
    int result = OK;

    for (int i = 0; i < n; i++)
        result = worse(result, fn(paths[i]));
    return result;
}

static int run(const char *command, char **paths, int n, struct options *o)
{
    bool dumps = strcmp(command, "dump") == 0, cuts = strcmp(command, "cut") == 0;

    if (!dumps && !cuts && strcmp(command, "list") != 0 && strcmp(command, "check") != 0)
        return complain(command[0] == '\0' ? "what to do?" : "no command", command);
    if (!dumps && (o->to_given || o->format_given))
        return complain("--to and --format are of dump, not of", command);
    if (!cuts && o->damaged)
        return complain("--damaged is of cut, not of", command);
    if (!cuts && !dumps && o->from_given)
        return complain("--from is of dump and cut, not of", command);
    if (n == 0)
        return complain("which FILE?", "");
    if ((dumps || cuts) && n > 1)
        return complain("one FILE at a time; unexpected:", paths[1]);
    if (dumps)
        return dump(paths[0], o);
    if (cuts)
        return cut(paths[0], o);
    return each(paths, n, strcmp(command, "list") == 0 ? list : check);
}

int main(int argc, char **argv)
{
    struct options o = { .to = UINT64_MAX };
    int result = parse(argc, argv, &o);

    if (result < 0)
        result = run(optind < argc ? argv[optind] : "", argv + optind + 1,
                     optind < argc ? argc - optind - 1 : 0, &o);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "loco-log: cannot write: %s\n", strerror(errno));
        return FAILED;
    }
    return result;
}
