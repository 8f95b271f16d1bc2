/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_BUDGET_H
#define LOCI_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

/* How much memory may still be committed. `fallocate` does not fail when memory runs short: the
 * kernel kills somebody later. So we look before. */

#define LOCI_BUDGET_ENDLESS ((size_t)-1)

/* loci_memory_left() and loci_memory_to_commit() on a copy of /proc and /sys below `root` ("" is
 * the machine): the least of what the machine, each control group above this process and `limit`
 * leave; of the former RLIMIT_AS, too, which counts what is mapped, committed or not. */
size_t loci_budget_least(const char *root, size_t limit, size_t used, const char **what);
size_t loci_budget_to_commit(const char *root, size_t limit, size_t used);

/* The parts of it; each LOCI_BUDGET_ENDLESS where there is no such limit or it cannot be read. */
size_t loci_budget_machine(const char *root);
size_t loci_budget_cgroups(const char *root);
size_t loci_budget_address_space(const char *root);

/* Free huge pages of the default size, not promised to anybody: their count, and bytes of one. */
size_t loci_budget_huge_pages(const char *root, size_t *page);

#endif
