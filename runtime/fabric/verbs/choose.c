/* SPDX-License-Identifier: BSD-3-Clause */

/* Which port a process takes. Of those that can be used and that LOCO_DEVICE permits, these are
 * left, one rule after the other:
 *
 * 1. the best kind of address, for peers are to have one of the same kind;
 * 2. at least half of the highest rate: what is more than twice as fast is worth the way from
 *    another package, a smaller lead is not;
 * 3. the nearest to the CPUs that the process is bound to. To one that is bound to several
 *    packages, or not at all, the devices of each are as near. A device that has no place in the
 *    machine (one of software) comes after all that have; among such none is nearer;
 * 4. the one whose turn it is by the process's number: so do all devices have work.
 *
 * Users know it so: Open MPI's btl/openib took the nearest devices, its common/ofi (of mtl and
 * btl/ofi) gives the processes of a package the nearest ones in turn, and UCX goes by bandwidth,
 * then by distance; it takes the first of those that are as near, and is asked for turns
 * (openucx/ucx, issue 8401). Processes may differ in their device, for a word is reached through
 * its owner's device alone, whoever posts the atomic. But all devices have to reach each other. */

#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "choose.h"

#define SLOWER 2        /* a rate below this part of the highest is not taken */

static bool is_left(const struct loci_device_port *p)
{
    return p->why_not[0] == '\0';
}

static int count_left(const struct loci_device_port *list, int n)
{
    int left = 0;

    for (int i = 0; i < n; i++)
        left += is_left(&list[i]);
    return left;
}

__attribute__((format(printf, 2, 3)))
static void drop(struct loci_device_port *p, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(p->why_not, sizeof p->why_not, fmt, args);
    va_end(args);
}

/* ---- LOCO_DEVICE ---- */

/* Of "name[:port],name[:port]"; 0: any device will do. */
static unsigned count_entries(const char *wanted)
{
    unsigned n = 1;

    if (strcmp(wanted, "auto") == 0 || wanted[0] == '\0')
        return 0;
    for (const char *c = wanted; *c != '\0'; c++)
        n += *c == ',';
    return n;
}

/* entry: the rest of the list is not looked at. */
static bool is_entry(const struct loci_device_port *p, const char *entry)
{
    size_t name = strcspn(entry, ":,");

    if (strlen(p->device) != name || strncmp(p->device, entry, name) != 0)
        return false;
    return entry[name] != ':' || atoi(entry + name + 1) == p->port;
}

/* The entry of that number; past the last: none. */
static bool is_named(const struct loci_device_port *p, const char *wanted, unsigned entry)
{
    for (; entry > 0; entry--) {
        wanted += strcspn(wanted, ",");
        wanted += *wanted == ',';
    }
    return is_entry(p, wanted);
}

static bool is_listed(const struct loci_device_port *p, const char *wanted)
{
    for (unsigned i = 0, n = count_entries(wanted); i < n; i++)
        if (is_named(p, wanted, i))
            return true;
    return false;
}

int loci_choose_count(const struct loci_device_port *list, int n, const char *wanted,
                      unsigned turn)
{
    unsigned entries = count_entries(wanted);
    int count = 0;

    for (int i = 0; i < n; i++)
        count += is_left(&list[i])
                 && (entries == 0 || is_named(&list[i], wanted, turn % entries));
    return count;
}

static void drop_others(struct loci_device_port *list, int n, const char *wanted, unsigned entry)
{
    for (int i = 0; i < n; i++)
        if (is_left(&list[i]) && !is_named(&list[i], wanted, entry))
            drop(&list[i], "LOCO_DEVICE names %s",
                 is_listed(&list[i], wanted) ? "it for others, in turn" : "another");
}

/* ---- what makes a port better; each says whether it dropped any ---- */

static bool drop_worse_addresses(struct loci_device_port *list, int n)
{
    const struct loci_device_port *best = NULL;
    bool dropped = false;

    for (int i = 0; i < n; i++)
        if (is_left(&list[i]) && (best == NULL || list[i].gid_rank > best->gid_rank))
            best = &list[i];
    for (int i = 0; i < n; i++)
        if (is_left(&list[i]) && list[i].gid_rank < best->gid_rank) {
            drop(&list[i], "the address of another is better: %s", best->gid_kind);
            dropped = true;
        }
    return dropped;
}

/* A rate that is unknown is nobody's fault. */
static bool drop_slower(struct loci_device_port *list, int n)
{
    unsigned fastest = 0;
    bool dropped = false;

    for (int i = 0; i < n; i++)
        if (is_left(&list[i]) && list[i].rate > fastest)
            fastest = list[i].rate;
    for (int i = 0; i < n; i++)
        if (is_left(&list[i]) && list[i].rate > 0 && list[i].rate < fastest / SLOWER) {
            drop(&list[i], "slower: %g Gb/s, another has %g", list[i].rate / 1000.0,
                 fastest / 1000.0);
            dropped = true;
        }
    return dropped;
}

static bool drop_farther(struct loci_device_port *list, int n, const char *here)
{
    unsigned nearest = LOCI_DISTANCE_UNKNOWN;
    bool dropped = false;

    for (int i = 0; i < n; i++)
        if (is_left(&list[i]) && list[i].distance < nearest)
            nearest = list[i].distance;
    for (int i = 0; i < n; i++) {
        if (!is_left(&list[i]) || list[i].distance == nearest)
            continue;
        if (list[i].distance == LOCI_DISTANCE_UNKNOWN)
            drop(&list[i], "where it is in the machine is unknown, unlike another");
        else
            drop(&list[i], "farther away: at NUMA node %s, this process at %s", list[i].nodes,
                 here);
        dropped = true;
    }
    return dropped;
}

/* ---- turns ---- */

/* Which of the `left` nearest of `all`. The machine has about all / left such places. Launchers
 * fill one with processes after the other, or give processes to the places in turn: in both cases
 * those of a place are to have different devices. */
static unsigned whose_turn(unsigned turn, int all, int left)
{
    unsigned groups = (unsigned)((all + left - 1) / left);

    return (turn % groups + turn / groups) % (unsigned)left;
}

static void take(struct loci_device_port *list, int n, unsigned at, int left, const char *which)
{
    for (int i = 0; i < n; i++) {
        if (!is_left(&list[i]))
            continue;
        if (at-- > 0) {
            drop(&list[i], "its turn is another process's");
            continue;
        }
        list[i].chosen = true;
        if (left == 1)
            snprintf(list[i].why, sizeof list[i].why, "the only one %s", which);
        else
            snprintf(list[i].why, sizeof list[i].why, "one of %d %s; processes take turns", left,
                     which);
    }
}

void loci_choose(struct loci_device_port *list, int n, const char *wanted, unsigned turn,
                 const char *here)
{
    const char *which = "that can be used";
    unsigned entries = count_entries(wanted);
    int all, left;

    if (entries > 0) {
        drop_others(list, n, wanted, turn % entries);
        turn /= entries;
        which = entries == 1 ? "that LOCO_DEVICE names" : "that LOCO_DEVICE names for this process";
    }
    if (drop_worse_addresses(list, n))
        which = "with the best kind of address";
    if (drop_slower(list, n))
        which = "with the highest rate";
    all = count_left(list, n);
    if (drop_farther(list, n, here))
        which = "so near to this process";
    left = count_left(list, n);
    if (left > 0)
        take(list, n, whose_turn(turn, all, left), left, which);
}
