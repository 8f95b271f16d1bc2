/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <loco/status.h>

#include "observe/tunables.h"

/* What the log was told, lines joined. */
struct heard {
    char text[4096];
    int lines;
};

static void hear(void *ctx, int level, const char *text)
{
    struct heard *heard = ctx;
    size_t used = strlen(heard->text);

    (void)level;
    snprintf(heard->text + used, sizeof heard->text - used, "%s\n", text);
    heard->lines++;
}

static int load(struct loci_tunables *t, struct heard *heard)
{
    struct loci_log log = { hear, heard, LOCO_LOG_WARN };

    memset(heard, 0, sizeof *heard);
    return loci_tunables_load(t, &log);
}

static void clean_environment(void)
{
    size_t n;
    const struct loci_tunable_row *row = loci_tunables_rows(&n);

    for (size_t i = 0; i < n; i++)
        unsetenv(row[i].name);
}

TestSuite(tunables, .init = clean_environment);

static const struct loci_tunable_row *row_of(const char *name)
{
    size_t n;
    const struct loci_tunable_row *row = loci_tunables_rows(&n);

    for (size_t i = 0; i < n; i++)
        if (strcmp(row[i].name, name) == 0)
            return &row[i];
    cr_assert_fail("no row %s", name);
    return NULL;
}

Test(tunables, defaults_are_valid_and_shown_as_written)
{
    struct loci_tunables t;
    struct heard heard;
    char text[LOCI_TUNABLE_TEXT];
    size_t n;
    const struct loci_tunable_row *row = loci_tunables_rows(&n);

    cr_assert_eq(load(&t, &heard), LOCO_OK);
    cr_assert_eq(heard.lines, 0, "%s", heard.text);
    for (size_t i = 0; i < n; i++) {
        loci_tunables_text(&t, &row[i], text, sizeof text);
        cr_expect_str_eq(text, row[i].text, "%s", row[i].name);
        cr_expect_eq(t.origin[i], LOCI_FROM_DEFAULT);
        cr_expect(strlen(row[i].help) > 20, "%s has no help", row[i].name);
    }
    cr_assert_eq(t.extent_min, 16 << 20);
    cr_assert_eq(t.lock_patience, 1000000);
    cr_assert_eq(t.mem_limit, LOCI_INFINITE);
}

Test(tunables, environment_sets_value_and_origin)
{
    struct loci_tunables t;
    struct heard heard;
    char text[LOCI_TUNABLE_TEXT];

    setenv("LOCO_FABRIC", "shm", 1);
    setenv("LOCO_EXTENT_MIN", "2.5M", 1);
    setenv("LOCO_NODE", "left", 1);
    cr_assert_eq(load(&t, &heard), LOCO_OK, "%s", heard.text);
    cr_assert_eq(t.fabric, LOCI_FABRIC_SHM);
    cr_assert_eq(t.extent_min, 5 << 19);
    cr_assert_str_eq(t.node, "left");
    loci_tunables_text(&t, row_of("LOCO_EXTENT_MIN"), text, sizeof text);
    cr_assert_str_eq(text, "2560K");
    for (const char **name = (const char *[]){ "LOCO_FABRIC", "LOCO_NODE", NULL }; *name; name++) {
        size_t n;

        cr_assert_eq(t.origin[row_of(*name) - loci_tunables_rows(&n)], LOCI_FROM_ENVIRONMENT);
    }
}

Test(tunables, wrong_value_names_variable_value_and_what_is_allowed)
{
    struct loci_tunables t;
    struct heard heard;

    setenv("LOCO_FABRIC", "pigeon", 1);
    setenv("LOCO_EXTENT_MIN", "12parsecs", 1);
    cr_assert_eq(load(&t, &heard), LOCO_ERR_ARG);
    cr_assert_eq(heard.lines, 2, "each wrong one is named: %s", heard.text);
    cr_assert(strstr(heard.text, "LOCO_FABRIC=pigeon (from the environment)") != NULL);
    cr_assert(strstr(heard.text, "auto|shm|verbs|tcp") != NULL);
    cr_assert(strstr(heard.text, "LOCO_EXTENT_MIN=12parsecs") != NULL);
    cr_assert(strstr(heard.text, "64K to 64G") != NULL, "%s", heard.text);
    cr_assert_eq(t.fabric, LOCI_FABRIC_AUTO, "a wrong value changes nothing");
}

Test(tunables, a_mistyped_name_is_told_and_another_variable_is_not)
{
    static const char *const mistyped[] = { "LOCO_SPINN", "LOCO_FABRC", "LOCO_EXTENT_MEN" };
    static const char *const others[] = { "LOCO_CHECK_SECONDS", "LOCOMOTIVE", "LOCO_", "LOCO" };
    struct loci_tunables t;
    struct heard heard;

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        setenv(others[i], "1", 1);
    cr_assert_eq(load(&t, &heard), LOCO_OK);
    cr_assert_eq(heard.lines, 0, "%s", heard.text);
    for (size_t i = 0; i < sizeof mistyped / sizeof mistyped[0]; i++) {
        setenv(mistyped[i], "7", 1);
        cr_assert_eq(load(&t, &heard), LOCO_OK);
        cr_assert_eq(heard.lines, 1, "%s", heard.text);
        cr_assert(strstr(heard.text, mistyped[i]) != NULL, "%s", heard.text);
        unsetenv(mistyped[i]);
    }
    setenv("LOCO_SPINN", "7", 1);
    load(&t, &heard);
    cr_assert(strstr(heard.text, "(LOCO_SPIN has)") != NULL, "%s", heard.text);
    unsetenv("LOCO_SPINN");
    setenv("LOCO_LOG", "info", 1);
    load(&t, &heard);
    cr_assert(strstr(heard.text, "LOCO_CHECK_SECONDS") != NULL, "%s", heard.text);
}

Test(tunables, extents_must_fit_each_other)
{
    struct loci_tunables t;
    struct heard heard;

    setenv("LOCO_EXTENT_MIN", "2G", 1);
    cr_assert_eq(load(&t, &heard), LOCO_ERR_ARG);
    cr_assert(strstr(heard.text, "LOCO_EXTENT_MAX") != NULL);
}

Test(tunables, log_level_is_heeded_before_the_rest)
{
    struct loci_tunables t;
    struct heard heard;

    setenv("LOCO_LOG", "none", 1);
    setenv("LOCO_SPIN", "many", 1);
    cr_assert_eq(load(&t, &heard), LOCO_ERR_ARG);
    cr_assert_eq(heard.lines, 0);
}

Test(tunables, log_goes_to_stderr_without_a_hook)
{
    struct loci_tunables t;
    struct loci_log log = { NULL, NULL, 0 };

    cr_assert_eq(loci_tunables_load(&t, &log), LOCO_OK);
    cr_assert(log.fn == loci_log_stderr);
    cr_assert_eq(log.level, LOCO_LOG_WARN);
    setenv("LOCO_LOG", "info", 1);
    cr_assert_eq(loci_tunables_load(&t, &log), LOCO_OK);
    cr_assert(log.fn == loci_log_stderr);
    cr_assert_eq(log.level, LOCO_LOG_INFO);
}

Test(tunables, program_beats_environment)
{
    const char *const settings[] = { "LOCO_SPIN=7", "LOCO_LOG=debug", NULL };
    struct loci_tunables t;
    struct heard heard = { "", 0 };
    struct loci_log log = { hear, &heard, 0 };

    setenv("LOCO_SPIN", "5", 1);
    cr_assert_eq(loci_tunables_load(&t, &log), LOCO_OK);
    cr_assert_eq(loci_tunables_apply(&t, settings, &log), LOCO_OK);
    cr_assert_eq(t.spin, 7);
    cr_assert_eq(log.level, LOCO_LOG_DEBUG);
    cr_assert_eq(loci_tunables_apply(&t, NULL, &log), LOCO_OK);
    cr_assert_eq(loci_tunables_set(&t, "LOCO_SPIN", "8", LOCI_FROM_PROGRAM, &log), LOCO_OK);
    cr_assert_eq(t.spin, 8);
}

Test(tunables, program_with_wrong_names_is_refused)
{
    const char *const no_value[] = { "LOCO_SPIN", NULL };
    const char *const no_row[] = { "LOCO_SPINS=3", NULL };
    struct loci_tunables t;
    struct heard heard = { "", 0 };
    struct loci_log log = { hear, &heard, 0 };

    cr_assert_eq(loci_tunables_load(&t, &log), LOCO_OK);
    cr_assert_eq(loci_tunables_apply(&t, no_value, &log), LOCO_ERR_ARG);
    cr_assert_eq(loci_tunables_apply(&t, no_row, &log), LOCO_ERR_ARG);
    cr_assert_eq(loci_tunables_set(&t, "LOCO_", "3", LOCI_FROM_PROGRAM, &log), LOCO_ERR_ARG);
    cr_assert_eq(heard.lines, 3);
    cr_assert(strstr(heard.text, "LOCO_SPINS=3") != NULL);
}

/* ---- one value ---- */

static bool number(enum loci_tunable_kind kind, const char *text, int64_t *value)
{
    struct loci_tunable_row row = { .name = "X", .kind = kind, .min = 0, .max = INT64_MAX };

    *value = -1;
    return loci_tunable_parse(&row, text, value);
}

Test(tunables, numbers_with_units)
{
    static const struct { enum loci_tunable_kind kind; const char *text; int64_t value; } good[] = {
        { LOCI_TUNABLE_INT, "0", 0 }, { LOCI_TUNABLE_INT, "64", 64 },
        { LOCI_TUNABLE_INT, "inf", LOCI_INFINITE },
        { LOCI_TUNABLE_INT, "9223372036854775807", INT64_MAX },
        { LOCI_TUNABLE_SIZE, "4096", 4096 }, { LOCI_TUNABLE_SIZE, "16m", 16 << 20 },
        { LOCI_TUNABLE_SIZE, "1GiB", 1 << 30 }, { LOCI_TUNABLE_SIZE, "0.5K", 512 },
        { LOCI_TUNABLE_SIZE, "10B", 10 }, { LOCI_TUNABLE_TIME, "1ms", 1000000 },
        { LOCI_TUNABLE_TIME, "1.5us", 1500 }, { LOCI_TUNABLE_TIME, "2min", 120000000000 },
        { LOCI_TUNABLE_TIME, "0", 0 }, { LOCI_TUNABLE_TIME, "7ns", 7 },
    };
    int64_t value;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        cr_expect(number(good[i].kind, good[i].text, &value), "%s", good[i].text);
        cr_expect_eq(value, good[i].value, "%s is %lld", good[i].text, (long long)value);
    }
}

Test(tunables, what_is_no_number)
{
    static const struct { enum loci_tunable_kind kind; const char *text; } bad[] = {
        { LOCI_TUNABLE_INT, "" }, { LOCI_TUNABLE_INT, " 1" }, { LOCI_TUNABLE_INT, "1 " },
        { LOCI_TUNABLE_INT, "-1" }, { LOCI_TUNABLE_INT, "+1" }, { LOCI_TUNABLE_INT, "0x10" },
        { LOCI_TUNABLE_INT, "1e3" }, { LOCI_TUNABLE_INT, "1.5" }, { LOCI_TUNABLE_INT, "1K" },
        { LOCI_TUNABLE_INT, "9223372036854775808" }, { LOCI_TUNABLE_INT, "nan" },
        { LOCI_TUNABLE_SIZE, "1X" }, { LOCI_TUNABLE_SIZE, "1.K" }, { LOCI_TUNABLE_SIZE, ".5K" },
        { LOCI_TUNABLE_SIZE, "1.5" }, { LOCI_TUNABLE_SIZE, "99999999T" },
        { LOCI_TUNABLE_SIZE, "8388608.5T" }, { LOCI_TUNABLE_SIZE, "1.5.5K" },
        { LOCI_TUNABLE_TIME, "5" }, { LOCI_TUNABLE_TIME, "5m" }, { LOCI_TUNABLE_TIME, "1ms1" },
        { LOCI_TUNABLE_TIME, "1.5ns" }, { LOCI_TUNABLE_TIME, "infinite" },
    };
    int64_t value;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_expect(!number(bad[i].kind, bad[i].text, &value), "%s", bad[i].text);
        cr_expect_eq(value, -1, "%s was written", bad[i].text);
    }
}

Test(tunables, hexadecimal_and_a_word_beside_numbers)
{
    struct loci_tunable_row row = { .name = "X", .kind = LOCI_TUNABLE_HEX, .min = 1, .max = 0xffff,
                                    .choices = "auto" };
    static const char *const bad[] = { "0", "0x", "0x10000", "0xfffff", "8001h", "0x8001K", "-1",
                                       "aut", "inf", "0x-1", "0x 1", "0x11111111111111111" };
    int64_t value = 0;
    char range[64];

    cr_assert(loci_tunable_parse(&row, "0x8001", &value));
    cr_assert_eq(value, 0x8001);
    cr_assert(loci_tunable_parse(&row, "0XabCD", &value));
    cr_assert_eq(value, 0xabcd);
    cr_assert(loci_tunable_parse(&row, "17", &value));
    cr_assert_eq(value, 17);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect(!loci_tunable_parse(&row, bad[i], &value), "%s", bad[i]);
    cr_assert_eq(value, 17);
    cr_assert(loci_tunable_parse(&row, "Auto", &value));
    cr_assert_eq(value, LOCI_AUTO);
    loci_tunables_range(&row, range, sizeof range);
    cr_assert_str_eq(range, "auto, or 0x1 to 0xffff");
}

Test(tunables, what_is_shown_is_what_is_read)
{
    struct loci_tunables t;
    struct heard heard;
    char text[LOCI_TUNABLE_TEXT];

    setenv("LOCO_RDMA_PKEY", "0x8001", 1);
    setenv("LOCO_RDMA_GID", "3", 1);
    cr_assert_eq(load(&t, &heard), LOCO_OK);
    cr_assert_eq(t.rdma_pkey, 0x8001);
    cr_assert_eq(t.rdma_gid, 3);
    loci_tunables_text(&t, row_of("LOCO_RDMA_PKEY"), text, sizeof text);
    cr_assert_str_eq(text, "0x8001");
    setenv("LOCO_RDMA_PKEY", "auto", 1);
    cr_assert_eq(load(&t, &heard), LOCO_OK);
    loci_tunables_text(&t, row_of("LOCO_RDMA_PKEY"), text, sizeof text);
    cr_assert_str_eq(text, "auto");
    setenv("LOCO_RDMA_SERVICE_LEVEL", "16", 1);
    cr_assert_eq(load(&t, &heard), LOCO_ERR_ARG);
    cr_assert(strstr(heard.text, "LOCO_RDMA_SERVICE_LEVEL=16 (from the environment): allowed is "
                     "0 to 15") != NULL, "%s", heard.text);
}

Test(tunables, ranges_are_inclusive)
{
    struct loci_tunable_row row = { .name = "X", .kind = LOCI_TUNABLE_INT, .min = 2, .max = 4 };
    int64_t value = 0;
    char range[64];

    cr_assert(!loci_tunable_parse(&row, "1", &value));
    cr_assert(loci_tunable_parse(&row, "2", &value));
    cr_assert(loci_tunable_parse(&row, "4", &value));
    cr_assert(!loci_tunable_parse(&row, "5", &value));
    cr_assert(!loci_tunable_parse(&row, "inf", &value));
    cr_assert_eq(value, 4);
    loci_tunables_range(&row, range, sizeof range);
    cr_assert_str_eq(range, "2 to 4");
}

Test(tunables, truth_values)
{
    struct loci_tunable_row row = { .name = "X", .kind = LOCI_TUNABLE_BOOL };
    bool value = false;

    cr_assert(loci_tunable_parse(&row, "Yes", &value) && value);
    cr_assert(loci_tunable_parse(&row, "0", &value) && !value);
    cr_assert(loci_tunable_parse(&row, "on", &value) && value);
    cr_assert(!loci_tunable_parse(&row, "maybe", &value) && value);
    cr_assert(!loci_tunable_parse(&row, "", &value));
}

Test(tunables, choices_are_whole_words)
{
    struct loci_tunable_row row = { .name = "X", .kind = LOCI_TUNABLE_CHOICE,
                                    .choices = "auto|never|always" };
    int value = -1;

    cr_assert(loci_tunable_parse(&row, "ALWAYS", &value));
    cr_assert_eq(value, 2);
    cr_assert(!loci_tunable_parse(&row, "alw", &value));
    cr_assert(!loci_tunable_parse(&row, "auto|never", &value));
    cr_assert(!loci_tunable_parse(&row, "", &value));
    cr_assert_eq(value, 2);
}

Test(tunables, strings_are_bounded)
{
    struct loci_tunable_row row = { .name = "X", .kind = LOCI_TUNABLE_STRING };
    char value[LOCI_TUNABLE_TEXT] = "before";
    char longest[LOCI_TUNABLE_TEXT + 1];

    memset(longest, 'a', sizeof longest);
    longest[LOCI_TUNABLE_TEXT] = '\0';
    cr_assert(!loci_tunable_parse(&row, longest, value));
    cr_assert(!loci_tunable_parse(&row, "", value));
    cr_assert_str_eq(value, "before");
    longest[LOCI_TUNABLE_TEXT - 1] = '\0';
    cr_assert(loci_tunable_parse(&row, longest, value));
    cr_assert_str_eq(value, longest);
}
