/* SPDX-License-Identifier: BSD-3-Clause */

/* Damaged log files of topics: bits, bytes, runs, ends, records that are moved, doubled or another
 * file's. Neither a start nor the tool crashes, and no record is taken that is not as it was
 * written. Each round is a file; FUZZ_ROUNDS says how many. */

#include "tlog_world.h"

#include "run.h"

int loco_log_main(int argc, char **argv);
#define main loco_log_main
#include "loco-log.c"
#undef main

#define ROUNDS 20000
enum { MOST = 60, IMAGES = 6, ROOM = 1 << 15, RECORDS = 12 };

struct image {
    unsigned char bytes[ROOM];
    size_t size, head;
    size_t at[64];              /* of record i + 1; the last one: the end */
    int records;
};

struct fuzz {
    struct tlog_world w;
    struct image image[IMAGES];
    const struct image *of;     /* the one that is damaged */
    unsigned char bytes[2 * ROOM];
    size_t size;
    uint64_t random;
    int fd;
    uint64_t refused, cut, whole, kept;
};

/* In place of the system's: no machine stops here. */
int fsync(int fd)
{
    (void)fd;
    return 0;
}

static size_t below(struct fuzz *z, size_t n)
{
    return n == 0 ? 0 : (size_t)(run_random(&z->random) % n);
}

/* Logs of the same topic; the last of them with its own beginning as a sample in it. */
static void make_image(struct fuzz *z, int which)
{
    struct image *image = &z->image[which];
    struct loci_tlog *log;
    struct loci_tlog_reader *r;
    struct loci_tlog_item item;

    cr_assert_eq(loci_tlog_open(z->w.path, "weather", LOCI_TLOG_SYNC_NEVER, &z->w.say, &log),
                 LOCO_OK);
    cr_assert_eq(tlog_append(log, (uint64_t)(which * RECORDS / (IMAGES - 1)), 3, MOST), LOCO_OK);
    if (which == IMAGES - 1) {
        image->size = tlog_bytes(z->w.path, image->bytes, ROOM);
        cr_assert_eq(loci_tlog_append(log, &(struct loci_tlog_entry){
            .data = image->bytes, .bytes = (uint32_t)image->size }, 1, NULL), LOCO_OK);
    }
    loci_tlog_close(log);
    image->size = tlog_bytes(z->w.path, image->bytes, ROOM);
    cr_assert_eq(loci_tlog_reader_open(z->w.path, &z->w.say, &r), LOCO_OK);
    image->head = loci_tlog_reader_head(r)->bytes;
    while (loci_tlog_reader_next(r, &item) == LOCO_OK && item.found == LOCI_TLOG_FOUND_RECORD)
        image->at[image->records++] = (size_t)item.from;
    image->at[image->records] = image->size;
    loci_tlog_reader_close(r);
    unlink(z->w.path);
}

/* ---- damage ---- */

static void put(struct fuzz *z, size_t at, const unsigned char *from, size_t n)
{
    if (z->size + n > ROOM)
        return;
    memmove(z->bytes + at + n, z->bytes + at, z->size - at);
    memmove(z->bytes + at, from, n);
    z->size += n;
}

static void take_out(struct fuzz *z, size_t at, size_t n)
{
    n = n < z->size - at ? n : z->size - at;
    memmove(z->bytes + at, z->bytes + at + n, z->size - at - n);
    z->size -= n;
}

/* A place in the file: any, or one where a record begins. */
static size_t somewhere(struct fuzz *z)
{
    size_t at = below(z, 3) == 0 ? z->of->at[below(z, (size_t)z->of->records + 1)]
                                   + below(z, 2) * below(z, LOCI_TLOG_RECORD)
                                 : below(z, z->size + 1);

    return at < z->size ? at : z->size;
}

static void damage_once(struct fuzz *z)
{
    static const unsigned char odd[] = { 0, 1, 0x7f, 0x80, 0xfe, 0xff };
    const struct image *other = &z->image[below(z, IMAGES)];
    int from = (int)below(z, (size_t)other->records), n = 1 + (int)below(z, 3);
    unsigned char copy[64];
    size_t at = somewhere(z), run = 1 + below(z, below(z, 2) == 0 ? 16 : 300);

    run = run < z->size - at ? run : z->size - at;
    switch (below(z, 10)) {
    case 0: case 1:
        if (at < z->size)
            z->bytes[at] ^= (unsigned char)(1u << below(z, 8));
        break;
    case 2:
        if (at < z->size)
            z->bytes[at] = odd[below(z, sizeof odd)];
        break;
    case 3: memset(z->bytes + at, below(z, 2) == 0 ? 0 : 0xff, run); break;
    case 4:
        for (size_t i = 0; i < run; i++)
            z->bytes[at + i] = (unsigned char)run_random(&z->random);
        break;
    case 5: z->size = at; break;
    case 6: take_out(z, at, run); break;
    case 7:
        memcpy(copy, z->bytes + at, run < sizeof copy ? run : sizeof copy);
        put(z, somewhere(z), copy, run < sizeof copy ? run : sizeof copy);
        break;
    case 8:                     /* whole records, of this file or another one */
        if (from + n > other->records)
            n = other->records - from;
        put(z, at, other->bytes + other->at[from], other->at[from + n] - other->at[from]);
        break;
    default:
        take_out(z, z->of->at[from % (z->of->records + 1)] < z->size
                    ? z->of->at[from % (z->of->records + 1)] : z->size, run);
        break;
    }
}

static void make_damaged(struct fuzz *z)
{
    z->of = &z->image[below(z, IMAGES)];
    memcpy(z->bytes, z->of->bytes, z->of->size);
    z->size = z->of->size;
    for (size_t n = below(z, 4); n > 0; n--)
        damage_once(z);
    cr_assert_eq(ftruncate(z->fd, 0), 0);
    cr_assert_eq(pwrite(z->fd, z->bytes, z->size, 0), (ssize_t)z->size);
}

/* ---- what must hold ---- */

/* A record is that of its number in the file of the head's id. */
static void check_record(const struct fuzz *z, const struct loci_tlog_head *head,
                         const struct loci_tlog_item *item)
{
    for (int i = 0; i < IMAGES; i++) {
        const struct image *image = &z->image[i];
        uint64_t id;
        size_t at;

        memcpy(&id, image->bytes + 16, sizeof id);
        if (id != head->id)
            continue;
        cr_assert(item->record.number >= 1 && item->record.number <= (uint64_t)image->records);
        at = image->at[item->record.number - 1];
        cr_assert_eq(loci_tlog_length(item->record.bytes), image->at[item->record.number] - at);
        at += LOCI_TLOG_RECORD;
        cr_assert(memcmp(image->bytes + at, item->data, item->record.bytes) == 0);
        return;
    }
    cr_assert(false, "a head that nobody wrote");
}

/* Records before the first one that differs from what was written. */
static uint64_t untouched(const struct fuzz *z)
{
    uint64_t n = 0;

    while (n < (uint64_t)z->of->records && z->of->at[n + 1] <= z->size
           && memcmp(z->bytes, z->of->bytes, z->of->at[n + 1]) == 0)
        n++;
    return n;
}

static uint64_t read_it(struct fuzz *z)
{
    struct loci_tlog_reader *r;
    struct loci_tlog_item item = { .to = 0 };
    uint64_t whole = 0, before = 0;

    if (loci_tlog_reader_of(z->fd, z->w.path, &z->w.say, &r) != LOCO_OK)
        return 0;
    do {
        uint64_t end = item.to;

        cr_assert_eq(loci_tlog_reader_next(r, &item), LOCO_OK);
        cr_assert(item.from <= item.to && item.from >= end && item.to <= loci_tlog_reader_size(r));
        if (item.found != LOCI_TLOG_FOUND_RECORD)
            continue;
        check_record(z, loci_tlog_reader_head(r), &item);
        cr_assert(item.record.number > before);
        whole += item.record.number == whole + 1;
        before = item.record.number;
    } while (item.found != LOCI_TLOG_FOUND_END);
    loci_tlog_reader_close(r);
    return whole;
}

/* A start keeps all before the first damage, or refuses the file and leaves it as it is. */
static void start_it(struct fuzz *z)
{
    static unsigned char after[2 * ROOM];
    struct loci_tlog *log;
    uint64_t before = untouched(z), written;

    z->w.lines = 0;
    if (loci_tlog_open(z->w.path, "weather", LOCI_TLOG_SYNC_NEVER, &z->w.say, &log) != LOCO_OK) {
        cr_assert(z->w.lines > 0);
        cr_assert_eq(pread(z->fd, after, sizeof after, 0), (ssize_t)z->size);
        cr_assert(memcmp(after, z->bytes, z->size) == 0);
        z->refused++;
        return;
    }
    written = loci_tlog_written(log);
    cr_assert(z->size < z->of->head || written >= before, "%d of %d records", (int)written,
              (int)before);
    z->kept += written;
    z->cut += z->w.lines > 0;
    z->whole += z->w.lines == 0;
    cr_assert_eq(loci_tlog_append(log, &(struct loci_tlog_entry){ .data = "x", .bytes = 1 }, 1,
                                  NULL), LOCO_OK);
    cr_assert_eq(loci_tlog_written(log), written + 1);
    loci_tlog_close(log);
}

static void run_tool(const char *const *words)
{
    char *argv[8];
    int argc = 0;

    for (; words[argc] != NULL; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc];
    argv[argc] = NULL;
    optind = 0;
    cr_assert(loco_log_main(argc, argv) <= FAILED);
}

static void show_it(struct fuzz *z)
{
    static const char *const formats[] = { "text", "hex", "raw" };

    run_tool((const char *const []){ "loco-log", "check", z->w.path, NULL });
    switch (below(z, 4)) {
    case 0: run_tool((const char *const []){ "loco-log", "list", z->w.path, NULL }); break;
    case 1:
        run_tool((const char *const []){ "loco-log", "cut", "--from", "3", z->w.path, NULL });
        break;
    case 2: run_tool((const char *const []){ "loco-log", "cut", "--damaged", z->w.path, NULL });
        break;
    default:
        run_tool((const char *const []){ "loco-log", "dump", "--format", formats[below(z, 3)],
                                         z->w.path, NULL });
    }
}

Test(fuzz_tlog, files, .timeout = 6000)
{
    static struct fuzz z;
    int rounds = run_fuzz_rounds(ROUNDS);

    tlog_enter(&z.w);
    z.random = UINT64_C(20261130);
    for (int i = 0; i < IMAGES; i++)
        make_image(&z, i);
    z.fd = open(z.w.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    cr_assert(z.fd >= 0);
    cr_assert(freopen("/dev/null", "w", stdout) != NULL);
    cr_assert(freopen("/dev/null", "w", stderr) != NULL);
    for (int i = 0; i < rounds; i++) {
        uint64_t whole;

        make_damaged(&z);
        whole = read_it(&z);
        cr_assert(whole >= untouched(&z) || z.size < z.of->head);
        if (below(&z, 2) == 0)
            start_it(&z);
        else
            show_it(&z);
    }
    /* Or we tried nothing but what is refused at once. */
    cr_assert(z.refused > (uint64_t)rounds / 20 && z.cut > (uint64_t)rounds / 20
              && z.whole > (uint64_t)rounds / 20 && z.kept > (uint64_t)rounds,
              "refused %d, cut %d, whole %d, kept %d", (int)z.refused, (int)z.cut, (int)z.whole,
              (int)z.kept);
    close(z.fd);
    tlog_leave(&z.w);
}
