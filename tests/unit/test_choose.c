/* SPDX-License-Identifier: BSD-3-Clause */

/* Which port of which RDMA device is taken, of ports that are made up. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "fabric/verbs/choose.h"

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
