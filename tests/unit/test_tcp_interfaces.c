/* SPDX-License-Identifier: BSD-3-Clause */

/* Which of a machine's addresses others are told. */

#include "config.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>

#include "names/interfaces.h"

struct given {
    const char *name, *address;
    unsigned prefix;            /* bits, as it is written */
    bool routes;
};

static struct tcp_interface list[TCP_INTERFACES];
static int n;

static void place(const char *address, unsigned prefix, struct loci_tcp_place *p)
{
    struct sockaddr_storage a = { .ss_family = strchr(address, ':') != NULL ? AF_INET6 : AF_INET };
    bool v6 = a.ss_family == AF_INET6;
    void *at = v6 ? (void *)&((struct sockaddr_in6 *)&a)->sin6_addr
               : (void *)&((struct sockaddr_in *)&a)->sin_addr;

    cr_assert_eq(inet_pton(a.ss_family, address, at), 1);
    loci_tcp_place_of((struct sockaddr *)&a, p);
    p->prefix = (uint8_t)(prefix + (v6 ? 0 : 96));
}

static void give(const struct given *given)
{
    for (n = 0; given[n].name != NULL; n++) {
        struct tcp_interface *i = &list[n];

        memset(i, 0, sizeof *i);
        snprintf(i->name, sizeof i->name, "%s", given[n].name);
        i->loopback = strcmp(i->name, "lo") == 0;
        i->routes = given[n].routes;
        place(given[n].address, given[n].prefix, &i->place);
    }
}

/* The addresses that the rule chooses, with blanks between; or what is wrong with it. */
static const char *chosen(const char *rule)
{
    static char text[512];
    char one[TCP_PLACE_TEXT];
    const char *wrong = NULL;
    int at[LOCI_TCP_PLACES], count = loci_tcp_interfaces_choose(list, n, rule, at, &wrong);

    text[0] = '\0';
    if (count < 0) {
        snprintf(text, sizeof text, "wrong: %s", wrong);
        return text;
    }
    for (int i = 0; i < count; i++) {
        loci_tcp_place_text(&list[at[i]].place, one);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i > 0 ? " " : "", one);
    }
    return text;
}

static const struct given cluster[] = {
    { "lo", "127.0.0.1", 8, false },
    { "lo", "::1", 128, false },
    { "docker0", "172.17.0.1", 16, false },
    { "ib0", "10.1.2.3", 16, false },
    { "eth0", "192.168.7.3", 24, true },
    { "eth0", "192.168.7.4", 24, true },
    { "eth0", "2001:db8::3", 64, true },
    { "eth1", "10.9.0.1", 24, false },
    { "virbr0", "192.168.122.1", 24, false },
    { NULL, NULL, 0, false },
};

Test(tcp_interfaces, the_default_routes_comes_first)
{
    give(cluster);
    cr_assert_str_eq(chosen("auto"), "192.168.7.3 2001:db8::3 10.1.2.3 10.9.0.1");
}

Test(tcp_interfaces, what_is_named_is_told_in_that_order)
{
    give(cluster);
    cr_expect_str_eq(chosen("eth1,ib0"), "10.9.0.1 10.1.2.3");
    cr_expect_str_eq(chosen("ib0"), "10.1.2.3");
    cr_expect_str_eq(chosen("eth0"), "192.168.7.3 192.168.7.4 2001:db8::3");
    cr_expect_str_eq(chosen("docker0"), "172.17.0.1");
    cr_expect_str_eq(chosen("lo"), "127.0.0.1 ::1");
    cr_expect_str_eq(chosen("eth"), "", "names are whole");
    cr_expect_str_eq(chosen("eth00"), "");
}

Test(tcp_interfaces, networks_are_told_by_their_bits)
{
    give(cluster);
    cr_expect_str_eq(chosen("10.0.0.0/8"), "10.1.2.3 10.9.0.1");
    cr_expect_str_eq(chosen("10.0.0.0/13"), "10.1.2.3");
    cr_expect_str_eq(chosen("10.8.0.0/13"), "10.9.0.1");
    cr_expect_str_eq(chosen("2001:db8::/32,10.1.2.3"), "2001:db8::3 10.1.2.3");
    cr_expect_str_eq(chosen("0.0.0.0/0,^lo,^10.0.0.0/8"),
                     "172.17.0.1 192.168.7.3 192.168.7.4 192.168.122.1");
    cr_expect_str_eq(chosen("::/0"), "::1 2001:db8::3");
    cr_expect_str_eq(chosen("11.0.0.0/8"), "");
}

Test(tcp_interfaces, what_is_left_out_leaves_the_others_to_us)
{
    give(cluster);
    cr_expect_str_eq(chosen("^eth0"), "10.1.2.3 10.9.0.1");
    cr_expect_str_eq(chosen("^ib0,^eth1"), "192.168.7.3 2001:db8::3");
    cr_expect_str_eq(chosen("^::/0,^192.168.0.0/16"), "10.1.2.3 10.9.0.1");
    cr_expect_str_eq(chosen("eth0,^2001:db8::/32"), "192.168.7.3 192.168.7.4");
}

Test(tcp_interfaces, what_ends_inside_counts_where_there_is_nothing_else)
{
    static const struct given alone[] = {
        { "lo", "127.0.0.1", 8, false }, { NULL, NULL, 0, false },
    };
    static const struct given container[] = {
        { "lo", "127.0.0.1", 8, false }, { "veth7", "10.0.0.2", 24, false },
        { NULL, NULL, 0, false },
    };
    static const struct given host[] = {
        { "eth0", "10.2.0.1", 16, false }, { "br-lan", "10.3.0.1", 16, true },
        { NULL, NULL, 0, false },
    };

    give(alone);
    cr_expect_str_eq(chosen("auto"), "127.0.0.1");
    give(container);
    cr_expect_str_eq(chosen("auto"), "10.0.0.2");
    cr_expect_str_eq(chosen("^veth7"), "127.0.0.1");
    give(host);
    cr_expect_str_eq(chosen("auto"), "10.3.0.1 10.2.0.1", "a bridge that leads outside");
}

Test(tcp_interfaces, a_rule_that_makes_no_sense_is_told)
{
    static const char *const wrong[] = {
        "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/8x", "10.0.0.0/-1", "eth0/8", "::/129", "^",
        "an-interface-with-a-long-name", "fd00::/8/8",
    };
    char text[128];

    give(cluster);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(text, sizeof text, "wrong: %s", wrong[i] + (wrong[i][0] == '^'));
        cr_expect_str_eq(chosen(wrong[i]), text);
    }
    cr_expect_str_eq(chosen("ib0,nothing/,eth1"), "wrong: nothing/,eth1");
    cr_expect_str_eq(chosen("ib0, ,eth1"), "10.1.2.3 10.9.0.1");
}

Test(tcp_interfaces, near_is_in_a_network_of_ours)
{
    static const struct {
        const char *mine;
        unsigned prefix;
        const char *other;
        bool near;
    } cases[] = {
        { "10.1.2.3", 16, "10.1.255.1", true }, { "10.1.2.3", 16, "10.2.2.3", false },
        { "10.1.2.3", 32, "10.1.2.3", true }, { "10.1.2.3", 32, "10.1.2.2", false },
        { "10.1.2.3", 23, "10.1.3.9", true }, { "10.1.2.3", 23, "10.1.4.9", false },
        { "fd00::1", 8, "fd12::9", true }, { "fd00::1", 8, "fc12::9", false },
        { "fd00::1", 128, "fd00::1", true }, { "::", 0, "10.1.2.3", false },
        { "10.0.0.1", 0, "fd00::1", false },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct loci_tcp_place mine, other;

        place(cases[i].mine, cases[i].prefix, &mine);
        place(cases[i].other, 0, &other);
        cr_expect_eq(loci_tcp_is_near(&mine, &other), cases[i].near, "%s and %s", cases[i].mine,
                     cases[i].other);
    }
}

Test(tcp_interfaces, this_machine_has_some)
{
    static struct tcp_interface mine[TCP_INTERFACES];
    int many = loci_tcp_interfaces(mine), at[LOCI_TCP_PLACES];
    bool loopback = false;
    const char *wrong;

    cr_assert_gt(many, 0);
    for (int i = 0; i < many; i++) {
        char text[TCP_PLACE_TEXT];

        loci_tcp_place_text(&mine[i].place, text);
        printf("# %s %s/%d%s\n", mine[i].name, text, mine[i].place.prefix,
               mine[i].routes ? ", of the default route" : "");
        if (strcmp(text, "127.0.0.1") == 0) {
            loopback = true;
            cr_expect(mine[i].loopback);
            cr_expect_eq(mine[i].place.prefix, 96 + 8);
            cr_expect_not(mine[i].routes);
        }
    }
    cr_expect(loopback);
    cr_expect_gt(loci_tcp_interfaces_choose(mine, many, "auto", at, &wrong), 0);
}
