/* SPDX-License-Identifier: BSD-3-Clause */

/* Which port of which RDMA device is taken, on machines that are made up: a list of ports, and,
 * with hwloc, a machine of two packages with devices in it. */
#include "config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "fabric/verbs/choose.h"
#include "fabric/verbs/near.h"

#define PORTS 4

/* A port as device.c describes one that can be used. */
static struct loci_device_port port(const char *device, int number)
{
    struct loci_device_port p = {
        .port = number, .usable = true, .gid_kind = "RoCE v2, IPv4", .gid_rank = 4,
        .rate = 100000, .distance = LOCI_DISTANCE_UNKNOWN,
    };

    snprintf(p.device, sizeof p.device, "%s", device);
    return p;
}

static void break_link(struct loci_device_port *p)
{
    snprintf(p->why_not, sizeof p->why_not, "its link is not up");
    p->usable = false;
}

/* Which of a copy of the ports is chosen, or -1. The others say why they are not. */
static int choice(const struct loci_device_port *ports, int n, const char *wanted, unsigned turn)
{
    struct loci_device_port list[PORTS];
    int chosen = -1;

    memcpy(list, ports, (size_t)n * sizeof list[0]);
    loci_choose(list, n, wanted, turn, "1");
    for (int i = 0; i < n; i++) {
        cr_assert_eq(list[i].chosen, list[i].why_not[0] == '\0', "%s", list[i].why_not);
        cr_assert_eq(list[i].chosen, list[i].why[0] != '\0', "%s", list[i].why);
        cr_assert(!list[i].chosen || chosen < 0, "%d and %d are chosen", chosen, i);
        if (list[i].chosen)
            chosen = i;
    }
    return chosen;
}

/* ... and what is said of port `which`. */
static void expect(const struct loci_device_port *ports, int n, const char *wanted, unsigned turn,
                   int which, const char *words)
{
    struct loci_device_port list[PORTS];
    const char *said;

    memcpy(list, ports, (size_t)n * sizeof list[0]);
    loci_choose(list, n, wanted, turn, "1");
    said = list[which].chosen ? list[which].why : list[which].why_not;
    cr_assert_str_eq(said, words);
}

/* ---- without places ---- */

Test(choose, nothing_and_one)
{
    struct loci_device_port one[] = { port("rxe0", 1) };

    cr_assert_eq(choice(one, 0, "auto", 0), -1);
    cr_assert_eq(choice(one, 1, "auto", 7), 0);
    expect(one, 1, "auto", 7, 0, "the only one that can be used");
    break_link(&one[0]);
    cr_assert_eq(loci_choose_count(one, 1, "auto", 0), 0);
}

Test(choose, devices_that_are_nowhere_take_turns)
{
    struct loci_device_port two[] = { port("rxe0", 1), port("rxe1", 1) };

    for (unsigned turn = 0; turn < 6; turn++)
        cr_assert_eq(choice(two, 2, "auto", turn), (int)turn % 2);
    expect(two, 2, "auto", 0, 0, "one of 2 that can be used; processes take turns");
    expect(two, 2, "auto", 0, 1, "its turn is another process's");
}

Test(choose, as_the_user_says)
{
    struct loci_device_port list[] = { port("mlx5_0", 1), port("mlx5_1", 1), port("mlx5_1", 2),
                                       port("mlx5_10", 1) };

    list[0].distance = 0;       /* nearer, and not asked for */
    cr_assert_eq(choice(list, 4, "mlx5_10", 5), 3);
    cr_assert_eq(choice(list, 4, "mlx5_1:2", 0), 2);
    cr_assert_eq(choice(list, 4, "mlx5_1", 0), 1);
    cr_assert_eq(choice(list, 4, "mlx5_1", 1), 2, "the ports of one device take turns");
    cr_assert_eq(choice(list, 4, "mlx5_1:3", 0), -1);
    cr_assert_eq(choice(list, 4, "mlx5", 0), -1);
    expect(list, 4, "mlx5_10", 0, 3, "the only one that LOCO_DEVICE names");
    expect(list, 4, "mlx5_10", 0, 0, "LOCO_DEVICE names another");
}

Test(choose, a_list_is_taken_in_turn)
{
    struct loci_device_port list[] = { port("a", 1), port("b", 1), port("c", 1), port("c", 2) };
    const char *wanted = "b,a,c";
    static const int expected[] = { 1, 0, 2, 1, 0, 3, 1, 0, 2 };

    for (unsigned turn = 0; turn < sizeof expected / sizeof expected[0]; turn++)
        cr_assert_eq(choice(list, 4, wanted, turn), expected[turn], "turn %u", turn);
    cr_assert_eq(loci_choose_count(list, 4, wanted, 0), 1);
    cr_assert_eq(loci_choose_count(list, 4, wanted, 2), 2);
    expect(list, 4, "b,a", 0, 0, "LOCO_DEVICE names it for others, in turn");
    expect(list, 4, "b,a", 0, 2, "LOCO_DEVICE names another");
    break_link(&list[0]);
    cr_assert_eq(choice(list, 4, wanted, 1), -1, "what is named and broken is not replaced");
}

Test(choose, best_address_then_rate_then_place)
{
    struct loci_device_port list[] = { port("a", 1), port("b", 1), port("c", 1) };

    list[0].gid_rank = 1;
    list[0].gid_kind = "RoCE v1";
    list[0].rate = 400000;
    list[0].distance = 0;
    list[1].rate = 40000;
    list[1].distance = 0;
    list[2].distance = 8;
    cr_assert_eq(choice(list, 3, "auto", 0), 2);
    expect(list, 3, "auto", 0, 0, "the address of another is better: RoCE v2, IPv4");
    expect(list, 3, "auto", 0, 1, "slower: 40 Gb/s, another has 100");
    expect(list, 3, "auto", 0, 2, "the only one with the highest rate");
    list[1].rate = 50000;
    cr_assert_eq(choice(list, 3, "auto", 0), 1, "half as fast, but near");
    list[1].rate = 0;
    cr_assert_eq(choice(list, 3, "auto", 0), 1, "of unknown rate, but near");
}

Test(choose, a_device_of_software_comes_after_one_that_has_a_place)
{
    struct loci_device_port list[] = { port("rxe0", 1), port("mlx5_0", 1) };

    list[1].distance = 64;
    cr_assert_eq(choice(list, 2, "auto", 0), 1);
    expect(list, 2, "auto", 0, 0, "where it is in the machine is unknown, unlike another");
}

/* Whether the processes of a job have consecutive packages, or fill one first. */
Test(choose, neighbours_have_different_devices)
{
    struct loci_device_port list[] = { port("a", 1), port("b", 1), port("c", 1), port("d", 1) };
    int consecutive[PORTS] = { 0 }, each_second[PORTS] = { 0 };

    list[0].distance = list[1].distance = 0;
    list[2].distance = list[3].distance = 8;
    for (unsigned i = 0; i < 8; i++) {
        consecutive[choice(list, 4, "auto", i)]++;
        each_second[choice(list, 4, "auto", 2 * i + 1)]++;
    }
    for (int i = 0; i < PORTS; i++) {
        cr_assert_eq(consecutive[i], i < 2 ? 4 : 0);
        cr_assert_eq(each_second[i], i < 2 ? 4 : 0);
    }
    cr_assert_neq(choice(list, 4, "auto", 0), choice(list, 4, "auto", 1));
    cr_assert_neq(choice(list, 4, "auto", 0), choice(list, 4, "auto", 2));
}

/* ---- with places ---- */

#ifdef LOCO_HAVE_HWLOC

/* Two packages, each of two NUMA nodes of one CPU. near0 is at node 0, near2 at node 2, wide at all
 * of package 1, and soft at nothing. */
#define SETS(set)                                                                                 \
    "cpuset=\"" set "\" complete_cpuset=\"" set "\" nodeset=\"" set "\" "                          \
    "complete_nodeset=\"" set "\" "
#define DEVICE(name, id)                                                                          \
    "<object type=\"OSDev\" gp_index=\"7" id "\" name=\"" name "\" osdev_type=\"3\"/>"
#define PCI_DEVICE(name, id)                                                                      \
    "<object type=\"PCIDev\" gp_index=\"6" id "\" pci_busid=\"0000:0" id ":00.0\" "                \
    "pci_type=\"0207 [15b3:101b] [15b3:0006] 00\" pci_link_speed=\"0.0\">" DEVICE(name, id)        \
    "</object>"
#define NODE_OF(id, set, devices)                                                                 \
    "<object type=\"Group\" " SETS(set) "gp_index=\"5" id "\" kind=\"1001\" subkind=\"0\">"        \
    "<object type=\"NUMANode\" os_index=\"" id "\" " SETS(set) "gp_index=\"4" id "\" "             \
    "local_memory=\"1073741824\"/>"                                                               \
    "<object type=\"PU\" os_index=\"" id "\" " SETS(set) "gp_index=\"3" id "\"/>"                  \
    devices "</object>"
#define PACKAGE_OF(id, set, children)                                                             \
    "<object type=\"Package\" os_index=\"" id "\" " SETS(set) "gp_index=\"2" id "\">"              \
    children "</object>"

static const char machine[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
    "<topology version=\"2.0\">"
    "<object type=\"Machine\" os_index=\"0\" allowed_cpuset=\"0xf\" allowed_nodeset=\"0xf\" "
    SETS("0xf") "gp_index=\"1\">"
    PACKAGE_OF("0", "0x3", NODE_OF("0", "0x1", PCI_DEVICE("near0", "0")) NODE_OF("1", "0x2", ""))
    PACKAGE_OF("1", "0xc", NODE_OF("2", "0x4", PCI_DEVICE("near2", "2")) NODE_OF("3", "0x8", "")
                           PCI_DEVICE("wide", "3"))
    DEVICE("soft", "9")
    "</object></topology>\n";

/* What loci_near_in() says for a process that is bound to these CPUs. */
static void measure(struct loci_device_port *list, int n, const char *cpus, char *here)
{
    hwloc_bitmap_t process = hwloc_bitmap_alloc();
    hwloc_topology_t topology;

    cr_assert_eq(hwloc_topology_init(&topology), 0);
    cr_assert_eq(hwloc_topology_set_xmlbuffer(topology, machine, sizeof machine), 0);
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    cr_assert_eq(hwloc_topology_load(topology), 0);
    hwloc_bitmap_list_sscanf(process, cpus);
    loci_near_in(topology, process, list, n, here);
    hwloc_bitmap_free(process);
    hwloc_topology_destroy(topology);
}

Test(near, tells_distances_and_places)
{
    struct loci_device_port list[] = { port("near0", 1), port("near2", 1), port("wide", 1),
                                       port("soft", 1) };
    char here[LOCI_NODES_TEXT];

    measure(list, 4, "3", here);
    cr_assert_str_eq(here, "3");
    cr_assert_eq(list[0].distance, 4, "another package");
    cr_assert_eq(list[1].distance, 2, "another NUMA node of this package");
    cr_assert_eq(list[2].distance, 0, "this package");
    cr_assert_eq(list[3].distance, LOCI_DISTANCE_UNKNOWN);
    cr_assert_str_eq(list[0].nodes, "0");
    cr_assert_str_eq(list[1].nodes, "2");
    cr_assert_str_eq(list[2].nodes, "2-3");
    cr_assert_str_eq(list[3].nodes, "");
    measure(list, 4, "0-3", here);
    cr_assert_str_eq(here, "0-3");
    for (int i = 0; i < 3; i++)
        cr_assert_eq(list[i].distance, 0);
}

Test(near, no_such_device_is_unknown)
{
    struct loci_device_port list[] = { port("elsewhere", 1) };
    char here[LOCI_NODES_TEXT];

    list[0].distance = 0;
    measure(list, 1, "0", here);
    cr_assert_eq(list[0].distance, LOCI_DISTANCE_UNKNOWN);
}

/* A device for each package. */
static int choice_on(const char *cpus, const char *wanted, unsigned turn, int broken)
{
    struct loci_device_port list[] = { port("near0", 1), port("near2", 1) };
    char here[LOCI_NODES_TEXT];

    if (broken >= 0)
        break_link(&list[broken]);
    measure(list, 2, cpus, here);
    return choice(list, 2, wanted, turn);
}

Test(near, a_bound_process_takes_its_package_s_device)
{
    for (unsigned turn = 0; turn < 4; turn++) {
        cr_assert_eq(choice_on("0", "auto", turn, -1), 0);
        cr_assert_eq(choice_on("1", "auto", turn, -1), 0);
        cr_assert_eq(choice_on("2-3", "auto", turn, -1), 1);
    }
}

Test(near, an_unbound_process_takes_turns)
{
    for (unsigned turn = 0; turn < 4; turn++) {
        cr_assert_eq(choice_on("0-3", "auto", turn, -1), (int)turn % 2);
        cr_assert_eq(choice_on("0,2", "auto", turn, -1), (int)turn % 2, "bound to both packages");
    }
}

Test(near, what_the_user_says_is_stronger)
{
    cr_assert_eq(choice_on("0", "near2", 0, -1), 1);
    cr_assert_eq(choice_on("0", "near0,near2", 1, -1), 1);
}

Test(near, a_link_that_is_down_leaves_the_other_device)
{
    cr_assert_eq(choice_on("0", "auto", 0, 0), 1);
    cr_assert_eq(choice_on("3", "auto", 0, 1), 0);
    cr_assert_eq(choice_on("0-3", "auto", 1, 1), 0);
    cr_assert_eq(choice_on("0", "near0", 0, 0), -1);
}

Test(near, says_why)
{
    struct loci_device_port list[] = { port("near0", 1), port("near2", 1), port("wide", 1) };
    char here[LOCI_NODES_TEXT];

    measure(list, 3, "2", here);
    loci_choose(list, 3, "auto", 0, here);
    cr_assert_str_eq(list[0].why_not, "farther away: at NUMA node 0, this process at 2");
    cr_assert_str_eq(list[1].why, "one of 2 so near to this process; processes take turns");
    cr_assert_str_eq(list[2].why_not, "its turn is another process's");
}

#endif

/* This machine has neither device. */
Test(near, this_machine_is_measured)
{
    struct loci_device_port list[] = { port("near0", 1), port("near2", 1) };
    char here[LOCI_NODES_TEXT] = "x";

    list[0].distance = 0;
    loci_near_measure(list, 2, here);
    cr_assert_eq(list[0].distance, LOCI_DISTANCE_UNKNOWN);
    cr_assert_eq(list[1].distance, LOCI_DISTANCE_UNKNOWN);
#ifdef LOCO_HAVE_HWLOC
    cr_assert_str_not_empty(here);
#else
    cr_assert_str_empty(here);
#endif
}
