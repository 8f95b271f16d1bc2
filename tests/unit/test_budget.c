/* SPDX-License-Identifier: BSD-3-Clause */

/* How much memory is left, by copies of /proc and /sys that the tests make up. */

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/budget.h"
#include "memory/memory.h"

#define MiB ((size_t)1 << 20)
#define GiB ((size_t)1 << 30)

static char root[64];
static char made[64][512];          /* files, to be removed */
static int nmade;

static void set_up(void)
{
    strcpy(root, "/tmp/loco-budget.XXXXXX");
    cr_assert(mkdtemp(root) != NULL);
    nmade = 0;
}

static void tear_down(void)
{
    for (int i = 0; i < nmade; i++) {
        char *slash;

        unlink(made[i]);
        while ((slash = strrchr(made[i], '/')) != NULL && slash - made[i] >= (long)strlen(root)) {
            *slash = '\0';
            rmdir(made[i]);
        }
    }
    rmdir(root);
}

TestSuite(budget, .init = set_up, .fini = tear_down);

static void put(const char *path, const char *text)
{
    char full[512];
    FILE *f;

    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(full, 0700);
        *at = '/';
    }
    f = fopen(full, "w");
    cr_assert(f != NULL, "%s", full);
    fputs(text, f);
    fclose(f);
    strcpy(made[nmade++], full);
}

static void put_meminfo(unsigned long total_kib, unsigned long available_kib)
{
    char text[512];

    snprintf(text, sizeof text, "MemTotal:       %lu kB\nMemFree:          1 kB\n"
             "MemAvailable:   %lu kB\nHugePages_Total:      9\nHugePages_Free:       7\n"
             "HugePages_Rsvd:       2\nHugepagesize:       2048 kB\n", total_kib, available_kib);
    put("/proc/meminfo", text);
}

/* Version 2 in one mount; the process is in /a/b. */
static void put_v2(void)
{
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/proc/self/mountinfo",
        "22 1 0:20 / /proc rw - proc proc rw\n"
        "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
}

Test(budget, machine_keeps_a_reserve)
{
    put_meminfo(64 << 20, 32 << 20);    /* 64 GiB, 32 GiB available */
    cr_assert_eq(loci_budget_machine(root), 30 * GiB);
    tear_down();
    set_up();
    put_meminfo(64 << 20, 1 << 20);
    cr_assert_eq(loci_budget_machine(root), 0, "less is available than is kept");
}

Test(budget, unreadable_is_endless)
{
    cr_assert_eq(loci_budget_machine(root), LOCI_BUDGET_ENDLESS);
    cr_assert_eq(loci_budget_cgroups(root), LOCI_BUDGET_ENDLESS);
    cr_assert_eq(loci_budget_to_commit(root, 5 * MiB, 2 * MiB), 3 * MiB);
    cr_assert_eq(loci_budget_to_commit(root, 5 * MiB, 7 * MiB), 0);
    put("/proc/meminfo", "MemAvailable: many kB\n");
    cr_assert_eq(loci_budget_machine(root), LOCI_BUDGET_ENDLESS);
}

Test(budget, huge_pages_not_promised)
{
    size_t page = 0;

    put_meminfo(1 << 20, 1 << 20);
    cr_assert_eq(loci_budget_huge_pages(root, &page), 5);
    cr_assert_eq(page, 2 * MiB);
}

Test(budget, version_2_takes_the_least_of_all_levels)
{
    put_v2();
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    put("/sys/fs/cgroup/a/b/memory.current", "1000\n");
    cr_assert_eq(loci_budget_cgroups(root), LOCI_BUDGET_ENDLESS);
    put("/sys/fs/cgroup/a/memory.max", "4294967296\n");         /* 4 GiB: 128 MiB in reserve */
    put("/sys/fs/cgroup/a/memory.current", "2147483648\n");
    cr_assert_eq(loci_budget_cgroups(root), (4096 - 128 - 2048) * MiB);
    put("/sys/fs/cgroup/a/memory.stat", "anon 5\nfile 99\ninactive_file 1048576\n"
        "active_file 2097152\n");
    cr_assert_eq(loci_budget_cgroups(root), (4096 - 128 - 2048 + 2) * MiB);
    put("/sys/fs/cgroup/a/b/memory.high", "67108864\n");        /* 64 MiB: 16 in reserve */
    cr_assert_eq(loci_budget_cgroups(root), 48 * MiB - 1000);
}

Test(budget, more_used_than_allowed_is_nothing_left)
{
    put_v2();
    put("/sys/fs/cgroup/a/b/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/a/b/memory.current", "2073741824\n");
    cr_assert_eq(loci_budget_cgroups(root), 0);
    put("/sys/fs/cgroup/a/b/memory.max", "0\n");
    cr_assert_eq(loci_budget_cgroups(root), 0);
}

Test(budget, version_1_beside_version_2)
{
    put("/proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/job\n0::/\n");
    put("/proc/self/mountinfo",
        "30 22 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
        "31 22 0:27 / /sys/fs/cgroup/hugetlb rw - cgroup cgroup rw,hugetlb\n"
        "32 22 0:28 / /sys/fs/cgroup/memory rw shared:1 master:2 - cgroup cgroup rw,cpu,memory\n");
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912\n");
    put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "104857600\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    cr_assert_eq(loci_budget_cgroups(root), (512 - 16 - 100) * MiB);
    put("/sys/fs/cgroup/memory/job/memory.stat", "inactive_file 7\n"
        "total_inactive_file 10485760\ntotal_active_file 0\n");
    cr_assert_eq(loci_budget_cgroups(root), (512 - 16 - 90) * MiB);
}

Test(budget, container_sees_only_its_part)
{
    put("/proc/self/cgroup", "4:memory:/docker/abc/job\n");
    put("/proc/self/mountinfo",
        "32 22 0:28 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912\n");
    cr_assert_eq(loci_budget_cgroups(root), 496 * MiB);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n");
    cr_assert_eq(loci_budget_cgroups(root), 240 * MiB);
}

Test(budget, group_of_another_root_counts_as_the_mount)
{
    put("/proc/self/cgroup", "0::/../other\n");
    put("/proc/self/mountinfo", "30 22 0:26 /here /cg rw - cgroup2 cgroup2 rw\n");
    put("/cg/memory.max", "536870912\n");
    cr_assert_eq(loci_budget_cgroups(root), 496 * MiB);
}

Test(budget, nonsense_is_no_limit_and_no_crash)
{
    static const char *const cgroups[] = {
        "", ":\n", "0::\n", "0:", "4:memory\n", "::::::\n", "4:notmemory,memoryx:/a\n",
    };
    static const char *const mounts[] = {
        "", " - \n", "1 2 3 - cgroup2 x y\n", "30 22 0:26 / - cgroup2 cgroup2 rw\n", "\n\n",
    };
    char longest[8192];

    for (size_t i = 0; i < sizeof cgroups / sizeof cgroups[0]; i++)
        for (size_t j = 0; j < sizeof mounts / sizeof mounts[0]; j++) {
            put("/proc/self/cgroup", cgroups[i]);
            put("/proc/self/mountinfo", mounts[j]);
            nmade = nmade > 50 ? 50 : nmade;
            cr_expect_eq(loci_budget_cgroups(root), LOCI_BUDGET_ENDLESS, "%s %s", cgroups[i],
                         mounts[j]);
        }
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memcpy(longest, "0::/", 4);
    put("/proc/self/cgroup", longest);
    put("/proc/self/mountinfo", longest);
    cr_assert_eq(loci_budget_cgroups(root), LOCI_BUDGET_ENDLESS);
}

Test(budget, address_space_limit)
{
    struct rlimit limit = { .rlim_max = RLIM_INFINITY };

    put("/proc/self/statm", "100 50 20 1 0 10 0\n");
    cr_assert_eq(loci_budget_address_space(root), LOCI_BUDGET_ENDLESS);
    limit.rlim_cur = limit.rlim_max = (rlim_t)1 << 60;  /* sanitizers map terabytes */
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        cr_skip_test("RLIMIT_AS cannot be set: %m");
    cr_assert_eq(loci_budget_address_space(root),
                 ((size_t)1 << 60) - 100 * (size_t)sysconf(_SC_PAGESIZE));
}

/* Each in turn leaves the least, and is named. */
Test(budget, the_least_is_named)
{
    struct rlimit limit = { .rlim_cur = (rlim_t)1 << 60, .rlim_max = (rlim_t)1 << 60 };
    const char *what = "";

    put("/proc/self/statm", "100 50 20 1 0 10 0\n");
    put("/proc/meminfo", "MemTotal: 4194304 kB\nMemAvailable: 1048576 kB\n");
    cr_assert_eq(loci_budget_least(root, 900 * MiB, 100 * MiB, &what), 800 * MiB);
    cr_expect_str_eq(what, "LOCO_MEM_LIMIT");
    cr_assert_eq(loci_budget_least(root, LOCI_BUDGET_ENDLESS, 0, &what), (1024 - 128) * MiB);
    cr_expect_str_eq(what, "this machine");
    put("/proc/self/cgroup", "0::/a\n");
    put("/proc/self/mountinfo", "30 22 0:26 / /cg rw - cgroup2 cgroup2 rw\n");
    put("/cg/a/memory.max", "536870912\n");
    cr_assert_eq(loci_budget_least(root, LOCI_BUDGET_ENDLESS, 0, &what), 496 * MiB);
    cr_expect_str_eq(what, "the control group");
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        cr_skip_test("RLIMIT_AS cannot be set: %m");
    put("/proc/self/statm", "281474976710600 50 20 1 0 10 0\n");
    cr_assert_eq(loci_budget_least(root, LOCI_BUDGET_ENDLESS, 0, &what), 0);
    cr_expect_str_eq(what, "the limit of address space (ulimit -v)");
    cr_expect_eq(loci_budget_to_commit(root, LOCI_BUDGET_ENDLESS, 0), 496 * MiB);
}

Test(budget, this_machine)
{
    size_t left = loci_memory_left(LOCI_BUDGET_ENDLESS, 0, NULL);

    cr_assert_gt(left, 0);
    cr_assert_lt(left, LOCI_BUDGET_ENDLESS, "a machine has an end");
    cr_assert_eq(loci_memory_left(12345, 345, NULL), left < 12000 ? left : 12000);
}
