/* SPDX-License-Identifier: BSD-3-Clause */
/* Command line and results of word_index, an inverted index; word_index.h says how it is made. */
#include "word_index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: mpirun -np N word_index [OPTION]... FILE|FOLDER...\n"
    "Makes an index of all text in files: for each word the files that it is in, and how often.\n"
    "The index is a tree in a store over all ranks, each of which reads a part of the files, so\n"
    "all need to see them. A word is a run of letters and digits; A to Z count as a to z. Of\n"
    "folders all files are read that have no zero byte in their first 128 KiB; links in them are\n"
    "not followed. What is left out is counted, and what cannot be read is said, too.\n"
    "\n"
    "  --query WORD      then show the files that have the word; may be repeated, as the next two\n"
    "  --prefix TEXT     show the words that begin so\n"
    "  --and 'WORD WORD' show the files that have all of these words, 16 at most\n"
    "  --limit N         of each answer, show so many lines (10)\n"
    "  --check           compare with an index that rank 0 makes alone, in its own memory\n"
    "  --binary          read files with zero bytes, too\n"
    "  --memory MIB      of the index, at each rank (by how much text there is)\n"
    "  --batch MIB       of postings that a rank collects before it enters them (64)\n"
    "  --leaf BYTES      of a leaf of the tree, 64 to 16384 (1024)\n"
    "  --verbose         name all files that are left out\n"
    "  --json            print the results as JSON\n"
    "  --progress        show progress on stderr (otherwise only on a terminal)\n"
    "  --help            this text\n"
    "\n"
    "The index lasts as long as the program. If a rank dies, the index stays whole: files count\n"
    "only when all words of their batch are entered. But mpirun then ends the other ranks.\n"
    "Exit status: 0, 1 if the index is wrong or a call failed, 2 on wrong use.\n";

enum { MIB_MAX = 1 << 18, MEMORY_LEAST = 64 };

struct options {
    struct index_options index;
    struct index_query query[MOST_QUERIES];
    int queries;
    int64_t limit;
    bool check;
    bool json;
};

struct result {
    struct index_tally all;
    struct index_content content;
    double seconds, appending;      /* the latter: mean over ranks */
    double check_seconds;
    bool right;
};

/* ---- the command line ---- */

static bool add_query(struct options *o, int kind, const char *text)
{
    struct index_query q = { .text = text };
    const char *problem;

    q.kind = kind == 'q' ? QUERY_WORD : kind == 'x' ? QUERY_PREFIX : QUERY_AND;
    problem = o->queries == MOST_QUERIES ? "64 questions at most" : index_query_problem(&q);
    if (problem != NULL) {
        if (ex_rank() == 0)
            fprintf(stderr, "%s: %s\n", text, problem);
        return false;
    }
    o->query[o->queries++] = q;
    return true;
}

static bool parse_one(int c, void *options)
{
    struct options *o = options;

    switch (c) {
    case 'q':
    case 'x':
    case 'a': return add_query(o, c, optarg);
    case 'l': return ex_number(optarg, 0, INT64_MAX, &o->limit);
    case 'c': return o->check = true;
    case 'B': return o->index.binary = true;
    case 'm': return ex_number(optarg, 1, MIB_MAX, &o->index.memory);
    case 'b': return ex_number(optarg, 1, MIB_MAX, &o->index.batch);
    case 'L': return ex_number(optarg, 64, 16384, &o->index.leaf);
    case 'v': return o->index.verbose = true;
    case 'j': return o->json = true;
    case 'p': return o->index.progress = true;
    default: return false;
    }
}

static char *const *parse(int argc, char **argv, struct options *o)
{
    static const struct option names[] = {
        { "query", required_argument, NULL, 'q' },  { "prefix", required_argument, NULL, 'x' },
        { "and", required_argument, NULL, 'a' },    { "limit", required_argument, NULL, 'l' },
        { "check", no_argument, NULL, 'c' },        { "binary", no_argument, NULL, 'B' },
        { "memory", required_argument, NULL, 'm' }, { "batch", required_argument, NULL, 'b' },
        { "leaf", required_argument, NULL, 'L' },   { "verbose", no_argument, NULL, 'v' },
        { "json", no_argument, NULL, 'j' },         { "progress", no_argument, NULL, 'p' },
        { "help", no_argument, NULL, 'h' },         { NULL, 0, NULL, 0 },
    };
    int first;

    *o = (struct options){ .limit = 10, .index = { .batch = 64, .leaf = 1024 } };
    first = ex_options(argc, argv, names, help, parse_one, o);
    if (first == argc)
        ex_usage_error(argv[0], "no file and no folder");
    return argv + first;
}

/* Entries take about as much as the text; a rank may have more of them than another. */
static uint64_t memory_for(const struct options *o, const struct index_files *files)
{
    uint64_t mib = (uint64_t)o->index.memory;

    if (mib == 0)
        mib = MEMORY_LEAST + (files->bytes / (uint64_t)ex_size() >> 20) * 3 / 2;
    return mib << 20;
}

/* ---- results ---- */

static void add_up(struct index_tally *mine, double appending, struct result *r)
{
    enum { NUMBERS = sizeof(*mine) / sizeof(uint64_t) };

    ex_check(MPI_Allreduce(mine, &r->all, NUMBERS, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
    ex_check(MPI_Allreduce(&appending, &r->appending, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD),
             "MPI_Allreduce");
    r->appending /= ex_size();
}

static void expect(struct result *r, const char *what, uint64_t found, uint64_t expected)
{
    if (found == expected)
        return;
    r->content.wrong++;
    fprintf(stderr, "wrong: %" PRIu64 " %s in the index, and %" PRIu64 " were entered\n", found,
            what, expected);
}

/* Rank 0: nothing of what all ranks have read may be missing. */
static void look(struct word_index *ix, const struct options *o, const struct index_files *files,
                 struct result *r)
{
    double start = MPI_Wtime();

    index_look(ix, &o->index, files, o->check, &r->content);
    expect(r, "words of text", r->content.occurrences, r->all.words);
    expect(r, "postings", r->content.postings, r->all.postings);
    expect(r, "files", r->content.files, r->all.files);
    r->right = r->content.wrong == 0;
    r->check_seconds = MPI_Wtime() - start;
}

static const char *verdict(const struct options *o, const struct result *r)
{
    if (!r->right)
        return "WRONG";
    return o->check ? "as the serial index" : "nothing is missing";
}

static void print_table(const struct options *o, const struct index_files *f,
                        const struct word_index *ix, const struct result *r)
{
    const struct index_tally *a = &r->all;
    const struct index_content *c = &r->content;
    double mb = (double)a->bytes / 1e6;

    printf("%-16s %d, %" PRIu64 " MiB for the index each\n", "ranks", ex_size(), ix->memory >> 20);
    printf("%-16s %" PRIu64 " indexed, %.1f MB\n", "files", a->files, mb);
    printf("%-16s %" PRIu64 " binary, %" PRIu64 " empty, %" PRIu64 " unreadable, %" PRIu64
           " links, %" PRIu64 " special\n", "left out", a->binary, a->empty,
           a->unreadable + f->unreadable, f->links, f->special);
    printf("%-16s %" PRIu64 ", %" PRIu64 " different, %" PRIu64 " postings\n", "words", a->words,
           c->words, c->postings);
    printf("%-16s %" PRIu64 " entries, %.1f MB; %" PRIu64 " of them further chunks; the longest "
           "list has %.1f kB\n", "index", c->entries, (double)c->bytes / 1e6, c->chunks,
           (double)c->longest / 1e3);
    printf("%-16s %" PRIu64 ", in %" PRIu64 " transactions; begun again %" PRIu64 " times\n",
           "batches", a->batches, a->transactions, a->conflicts);
    printf("%-16s %.3f (%.2f MB/s), of which entering took %.3f\n", "seconds", r->seconds,
           mb / r->seconds, r->appending);
    printf("%-16s %s (%.3f s)\n", "check", verdict(o, r), r->check_seconds);
}

static void print_json(const struct options *o, const struct index_files *f,
                       const struct word_index *ix, const struct result *r)
{
    const struct index_tally *a = &r->all;
    const struct index_content *c = &r->content;

    printf("{\"example\": \"word_index\", \"ranks\": %d, \"memory\": %" PRIu64 ", \"files\": %"
           PRIu64 ", \"bytes\": %" PRIu64 ", \"binary\": %" PRIu64 ", \"empty\": %" PRIu64
           ", \"unreadable\": %" PRIu64 ", \"links\": %" PRIu64 ", \"special\": %" PRIu64 ", ",
           ex_size(), ix->memory, a->files, a->bytes, a->binary, a->empty,
           a->unreadable + f->unreadable, f->links, f->special);
    printf("\"words\": %" PRIu64 ", \"distinct\": %" PRIu64 ", \"postings\": %" PRIu64
           ", \"entries\": %" PRIu64 ", \"chunks\": %" PRIu64 ", \"index_bytes\": %" PRIu64
           ", \"longest\": %" PRIu64 ", ", a->words, c->words, c->postings, c->entries, c->chunks,
           c->bytes, c->longest);
    printf("\"batches\": %" PRIu64 ", \"transactions\": %" PRIu64 ", \"again\": %" PRIu64
           ", \"seconds\": %.6f, \"entering_seconds\": %.6f, \"check_seconds\": %.6f, "
           "\"check\": \"%s\"", a->batches, a->transactions, a->conflicts, r->seconds,
           r->appending, r->check_seconds, verdict(o, r));
}

static void answer(struct word_index *ix, const struct options *o)
{
    if (o->json)
        printf(", \"answers\": [");
    for (int i = 0; i < o->queries; i++) {
        if (o->json && i > 0)
            printf(", ");
        index_answer(ix, &o->query[i], o->limit, o->json);
    }
    if (o->json)
        printf("]}\n");
}

int main(int argc, char **argv)
{
    struct options o;
    struct index_files files;
    struct word_index ix;
    struct index_tally mine = { 0 };
    struct result r = { .right = false };
    char *const *names;
    double start, appending;

    ex_init(&argc, &argv, MPI_THREAD_SINGLE);
    names = parse(argc, argv, &o);
    index_files_find(&files, argv[0], names);
    index_open(&ix, memory_for(&o, &files), (size_t)o.index.leaf);
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    start = MPI_Wtime();
    appending = index_build(&ix, &o.index, &files, &mine);
    ex_check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
    r.seconds = MPI_Wtime() - start;
    add_up(&mine, appending, &r);
    if (ex_rank() == 0) {
        look(&ix, &o, &files, &r);
        (o.json ? print_json : print_table)(&o, &files, &ix, &r);
        answer(&ix, &o);
    }
    ex_check(MPI_Bcast(&r.right, 1, MPI_C_BOOL, 0, MPI_COMM_WORLD), "MPI_Bcast");
    index_close(&ix);
    index_files_free(&files);
    return ex_finish(r.right ? 0 : EX_WRONG);
}
