/* SPDX-License-Identifier: BSD-3-Clause */

/* The addresses of this machine, and which of them other machines are told.
 *
 * LOCO_TCP_IF is "auto", or a list of interfaces' names and of networks (10.0.0.0/8), of which a ^
 * in front leaves one out. Where it names some, those are told and no others, in its order. Else
 * it is for us to guess which network leads to the other machines: that of the default route, then
 * others, and at last those that look as if they end inside this machine. */

#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interfaces.h"

/* ---- addresses ---- */

static bool is_v4(const unsigned char address[16])
{
    static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };

    return memcmp(address, mapped, sizeof mapped) == 0;
}

void loci_tcp_place_of(const struct sockaddr *address, struct loci_tcp_place *place)
{
    *place = (struct loci_tcp_place){ .address = { [10] = 0xff, [11] = 0xff } };
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;

        memcpy(place->address + 12, &v4->sin_addr, 4);
        place->port = ntohs(v4->sin_port);
    } else {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;

        memcpy(place->address, &v6->sin6_addr, 16);
        place->port = ntohs(v6->sin6_port);
    }
}

bool loci_tcp_place_is_inside(const struct loci_tcp_place *place)
{
    static const unsigned char loopback[16] = { [15] = 1 };

    return is_v4(place->address) ? place->address[12] == 127
           : memcmp(place->address, loopback, sizeof loopback) == 0;
}

socklen_t loci_tcp_sockaddr(const struct loci_tcp_place *place, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof *out);
    if (is_v4(place->address)) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;

        v4->sin_family = AF_INET;
        memcpy(&v4->sin_addr, place->address + 12, 4);
        v4->sin_port = htons(place->port);
        return sizeof *v4;
    } else {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)out;

        v6->sin6_family = AF_INET6;
        memcpy(&v6->sin6_addr, place->address, 16);
        v6->sin6_port = htons(place->port);
        return sizeof *v6;
    }
}

void loci_tcp_place_text(const struct loci_tcp_place *place, char text[TCP_PLACE_TEXT])
{
    char name[INET6_ADDRSTRLEN] = "?";

    if (is_v4(place->address))
        inet_ntop(AF_INET, place->address + 12, name, sizeof name);
    else
        inet_ntop(AF_INET6, place->address, name, sizeof name);
    if (place->port != 0)
        snprintf(text, TCP_PLACE_TEXT, "%s port %u", name, (unsigned)place->port);
    else
        snprintf(text, TCP_PLACE_TEXT, "%s", name);
}

/* Whether the first so many bits are the same. */
static bool same_bits(const unsigned char a[16], const unsigned char b[16], unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    return memcmp(a, b, whole) == 0
           && (rest == 0 || ((a[whole] ^ b[whole]) & (0xff00 >> rest) & 0xff) == 0);
}

bool loci_tcp_is_near(const struct loci_tcp_place *mine, const struct loci_tcp_place *other)
{
    return mine->prefix <= 128 && is_v4(mine->address) == is_v4(other->address)
           && same_bits(mine->address, other->address, mine->prefix);
}

/* ---- what there is ---- */

/* Addresses of one link alone say nothing to another machine. */
static bool is_of_use(const struct ifaddrs *i)
{
    if (i->ifa_addr == NULL || (i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_RUNNING) == 0)
        return false;
    if (i->ifa_addr->sa_family == AF_INET6) {
        const struct in6_addr *a =
            &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr;

        return !IN6_IS_ADDR_LINKLOCAL(a) && !IN6_IS_ADDR_MULTICAST(a)
               && !IN6_IS_ADDR_V4MAPPED(a);
    }
    if (i->ifa_addr->sa_family == AF_INET) {
        uint32_t a = ntohl(((const struct sockaddr_in *)(const void *)i->ifa_addr)
                           ->sin_addr.s_addr);

        return a != 0 && a >> 16 != 0xa9fe;     /* 169.254: nobody gave it one */
    }
    return false;
}

static uint8_t prefix_of(const struct sockaddr *mask)
{
    struct loci_tcp_place bits;
    uint8_t n = 0;

    if (mask == NULL)
        return 128;
    loci_tcp_place_of(mask, &bits);
    if (mask->sa_family == AF_INET)
        memset(bits.address, 0xff, 12);
    while (n < 128 && (bits.address[n / 8] >> (7 - n % 8) & 1) != 0)
        n++;
    return n;
}

/* Interfaces that a default route leaves by, one line each of the kernel's tables: version 4 says
 * interface, destination, gateway, flags...; version 6 destination, bits, ..., interface. */
static void mark_routes(struct tcp_interface *list, int n)
{
    static const struct {
        const char *path, *format;
        bool v4;
    } tables[] = {
        { "/proc/net/route", "%15s %32s", true },
        { "/proc/net/ipv6_route", "%*s %32s %*s %*s %*s %*s %*s %*s %*s %15s", false },
    };

    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        FILE *f = fopen(tables[t].path, "re");
        char line[512], name[33], to[33];

        while (f != NULL && fgets(line, sizeof line, f) != NULL) {
            bool is_default;

            if (sscanf(line, tables[t].format, tables[t].v4 ? name : to,
                       tables[t].v4 ? to : name) != 2)
                continue;
            is_default = strcmp(to, tables[t].v4 ? "00000000" : "00") == 0;
            for (int i = 0; is_default && i < n; i++)
                list[i].routes |= strcmp(list[i].name, name) == 0 && !list[i].loopback;
        }
        if (f != NULL)
            fclose(f);
    }
}

int loci_tcp_interfaces(struct tcp_interface list[TCP_INTERFACES])
{
    struct ifaddrs *all = NULL;
    int n = 0;

    if (getifaddrs(&all) != 0)
        return -1;
    for (struct ifaddrs *i = all; i != NULL && n < TCP_INTERFACES; i = i->ifa_next) {
        if (!is_of_use(i))
            continue;
        memset(&list[n], 0, sizeof list[n]);
        snprintf(list[n].name, sizeof list[n].name, "%s", i->ifa_name);
        list[n].loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
        loci_tcp_place_of(i->ifa_addr, &list[n].place);
        list[n].place.port = 0;
        list[n].place.prefix = prefix_of(i->ifa_netmask);
        n++;
    }
    freeifaddrs(all);
    mark_routes(list, n);
    return n;
}

/* ---- the rule ---- */

struct word {
    const char *text;
    size_t len;
    bool leaves_out;
    bool is_network;
    struct loci_tcp_place network;
};

/* The next of the list's words; false: there is none. */
static bool next_word(const char **at, struct word *w)
{
    const char *p = *at + strspn(*at, ", ");

    *w = (struct word){ .leaves_out = *p == '^' };
    if (w->leaves_out)
        p++;
    w->text = p;
    w->len = strcspn(p, ", ");
    *at = p + w->len;
    return w->len > 0 || w->leaves_out;
}

/* A name, or an address with or without a prefix; false: neither. */
static bool read_word(struct word *w)
{
    char text[80], *slash, *end;
    struct in6_addr a6;
    struct in_addr a4;
    unsigned long bits, most;
    bool v4;

    if (w->len == 0 || w->len >= sizeof text)
        return false;
    memcpy(text, w->text, w->len);
    text[w->len] = '\0';
    slash = strchr(text, '/');
    if (slash != NULL)
        *slash = '\0';
    v4 = inet_pton(AF_INET, text, &a4) == 1;
    if (!v4 && inet_pton(AF_INET6, text, &a6) != 1)
        return slash == NULL && w->len < IF_NAMESIZE;
    most = v4 ? 32 : 128;
    bits = most;
    if (slash != NULL) {
        bits = strtoul(slash + 1, &end, 10);
        if (slash[1] < '0' || slash[1] > '9' || *end != '\0' || bits > most)
            return false;
    }
    w->is_network = true;
    w->network.address[10] = w->network.address[11] = 0xff;
    memcpy(w->network.address + (v4 ? 12 : 0), v4 ? (void *)&a4 : (void *)&a6, v4 ? 4 : 16);
    w->network.prefix = (uint8_t)(128 - most + bits);
    return true;
}

static bool fits(const struct tcp_interface *i, const struct word *w)
{
    if (w->is_network)
        return loci_tcp_is_near(&w->network, &i->place);
    return strlen(i->name) == w->len && memcmp(i->name, w->text, w->len) == 0;
}

/* Each interface's place in the order, as far as the rule says: 0 nothing, -1 it is left out, else
 * which word names it. Returns how many words name some, or -1. */
static int read_rule(const struct tcp_interface *list, int n, const char *rule, int *place,
                     const char **wrong)
{
    struct word w;
    int named = 0;

    memset(place, 0, (size_t)n * sizeof *place);
    if (strcmp(rule, "auto") == 0)
        return 0;
    for (const char *at = rule; next_word(&at, &w);) {
        if (!read_word(&w)) {
            *wrong = w.text;
            return -1;
        }
        named += !w.leaves_out;
        for (int i = 0; i < n; i++)
            if (fits(&list[i], &w) && (w.leaves_out || place[i] == 0))
                place[i] = w.leaves_out ? -1 : named;
    }
    return named;
}

/* ---- our guess ---- */

/* Bridges and the ends of pairs that software of containers and virtual machines makes. */
static bool is_inside(const struct tcp_interface *i)
{
    static const char *const begins[] = {
        "docker", "virbr", "veth", "br-", "cni", "podman", "lxcbr", "lxdbr", "vnet", "cali",
        "flannel", "vboxnet", "vmnet",
    };

    for (size_t b = 0; b < sizeof begins / sizeof begins[0]; b++)
        if (strncmp(i->name, begins[b], strlen(begins[b])) == 0)
            return !i->routes;
    return false;
}

/* From 1; the higher, the later. */
static int guess(const struct tcp_interface *i)
{
    return i->loopback ? 4 : is_inside(i) ? 3 : i->routes ? 1 : 2;
}

/* One address of each version is enough of an interface. */
static bool is_repeated(const struct tcp_interface *list, const int *chosen, int count, int i)
{
    for (int c = 0; c < count; c++)
        if (strcmp(list[chosen[c]].name, list[i].name) == 0
            && is_v4(list[chosen[c]].place.address) == is_v4(list[i].place.address))
            return true;
    return false;
}

int loci_tcp_interfaces_choose(const struct tcp_interface *list, int n, const char *rule,
                               int chosen[LOCI_TCP_PLACES], const char **wrong)
{
    int place[TCP_INTERFACES], count = 0, last;
    int named = read_rule(list, n, rule, place, wrong);

    if (named < 0)
        return -1;
    last = named;
    if (named == 0) {
        last = 4;
        for (int i = 0; i < n; i++)
            place[i] = place[i] < 0 ? -1 : guess(&list[i]);
    }
    for (int p = 1; p <= last && count < LOCI_TCP_PLACES; p++) {
        if (named == 0 && p >= 3 && count > 0)
            break;      /* others than those that end inside, and than loopback */
        for (int i = 0; i < n && count < LOCI_TCP_PLACES; i++)
            if (place[i] == p && (named > 0 || !is_repeated(list, chosen, count, i)))
                chosen[count++] = i;
    }
    return count;
}

/* ---- ports ---- */

bool loci_tcp_ports_read(const char *rule, struct tcp_range_of_ports *ports)
{
    int end = 0;

    *ports = (struct tcp_range_of_ports){ 0, 0 };
    if (strcmp(rule, "auto") == 0)
        return true;
    return rule[strspn(rule, "0123456789-")] == '\0'
           && sscanf(rule, "%5u-%5u%n", &ports->first, &ports->last, &end) == 2
           && rule[end] == '\0' && ports->first >= 1 && ports->first <= ports->last
           && ports->last <= 65535;
}
