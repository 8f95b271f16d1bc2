/* SPDX-License-Identifier: BSD-3-Clause */

/* What the program may do with its memory, as the kernel's table of mappings has it. */

#include "config.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/protection.h"

#define PAGE ((size_t)4096)
#define PAGES 8

static unsigned char *fresh(void)
{
    unsigned char *base = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert_neq(base, MAP_FAILED);
    return base;
}

static void says(const void *base, size_t len, const char *expected)
{
    struct loci_protection p;
    char text[128];

    cr_assert(loci_protection_of(base, len, &p));
    loci_protection_text(&p, text, sizeof text);
    cr_assert_str_eq(text, expected);
}

Test(protection, of_memory_that_may_be_written)
{
    unsigned char *base = fresh();
    struct loci_protection p;

    cr_assert(loci_protection_of(base + 100, 3 * PAGE, &p));
    cr_assert(p.all_read && p.all_write && p.any_write);
    says(base + 100, 3 * PAGE, "all bytes may be written");
}

Test(protection, of_a_part)
{
    unsigned char *base = fresh();
    struct loci_protection p;

    cr_assert_eq(mprotect(base + 2 * PAGE, 2 * PAGE, PROT_READ), 0);
    cr_assert(loci_protection_of(base, PAGES * PAGE, &p));
    cr_assert(p.all_read && !p.all_write && p.any_write);
    says(base, PAGES * PAGE, "bytes 8192 to 16383 may be read, not written (PROT_READ)");
    says(base + 3 * PAGE + 8, PAGE, "bytes 0 to 4087 may be read, not written (PROT_READ)");
    says(base, 2 * PAGE, "all bytes may be written");
    cr_assert_eq(mprotect(base + 3 * PAGE, PAGE, PROT_NONE), 0);
    cr_assert(loci_protection_of(base, PAGES * PAGE, &p));
    cr_assert(!p.all_read);
    says(base, PAGES * PAGE, "bytes 8192 to 12287 may be read, not written (PROT_READ)");
    says(base + 3 * PAGE, PAGE, "bytes 0 to 4095 may not be accessed (PROT_NONE)");
}

Test(protection, of_all)
{
    unsigned char *base = fresh();
    struct loci_protection p;

    cr_assert_eq(mprotect(base, PAGES * PAGE, PROT_READ), 0);
    cr_assert(loci_protection_of(base, PAGES * PAGE, &p));
    cr_assert(p.all_read && !p.all_write && !p.any_write);
}

Test(protection, of_a_hole)
{
    unsigned char *base = fresh();
    struct loci_protection p;

    cr_assert_eq(munmap(base + PAGE, PAGE), 0);
    cr_assert_eq(munmap(base + 5 * PAGE, 3 * PAGE), 0);
    cr_assert(loci_protection_of(base, 5 * PAGE, &p));
    cr_assert(!p.all_read && !p.all_write && p.any_write);
    says(base, 5 * PAGE, "bytes 4096 to 8191 are not mapped");
    says(base + PAGE, PAGE, "bytes 0 to 4095 are not mapped");
}

Test(protection, of_a_shared_file)
{
    char name[] = "/tmp/loco-protection.XXXXXX";
    int fd = mkstemp(name);
    unsigned char *base;

    cr_assert(fd >= 0 && unlink(name) == 0 && ftruncate(fd, (off_t)PAGE) == 0);
    base = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    cr_assert_neq(base, MAP_FAILED);
    says(base, PAGE, "bytes 0 to 4095 are a file that is mapped to be read (PROT_READ, "
         "MAP_SHARED)");
}

/* Lines that are longer than what is read at once, and of no sense. */
Test(protection, of_any_table)
{
    char table[4096] = "10000-11000 rw-p 00000000 00:00 0 ", name[1200];
    struct loci_protection p;
    FILE *f;

    memset(name, 'x', sizeof name);
    memcpy(name + 511 - strlen(table), "11000-12000 ---p 0", 18);   /* where a piece begins */
    name[sizeof name - 1] = '\0';
    strcat(table, name);
    strcat(table, "\nnonsense\n11000-13000 r--p 00000000 00:00 0 \n");
    f = fmemopen(table, strlen(table), "r");
    cr_assert_not_null(f);
    cr_assert(loci_protection_read(f, (void *)0x10800, 0x1000, &p));
    cr_assert(p.all_read && !p.all_write && p.any_write && p.readable && p.mapped);
    cr_assert_eq(p.begin, 0x800);
    cr_assert_eq(p.end, 0x1000);
    fclose(f);
}

Test(protection, of_no_table)
{
    char empty[1] = "";
    struct loci_protection p;
    FILE *f = fmemopen(empty, 1, "r");

    cr_assert_not(loci_protection_read(f, empty, 1, &p));
    fclose(f);
}
