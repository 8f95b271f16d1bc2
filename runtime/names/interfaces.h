/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TCP_INTERFACES_H
#define LOCI_TCP_INTERFACES_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "fabric/fabric.h"

/* The addresses of this machine, and which of them other machines are told; and the ports. For
 * loco-info, too. */

struct tcp_interface {
    char name[IF_NAMESIZE];
    struct loci_tcp_place place;    /* no port */
    bool loopback;
    bool routes;                    /* a default route leaves by it */
};

#define TCP_INTERFACES 128
#define TCP_PLACE_TEXT 64           /* an address, and a port */

/* Those that are up, and have an address that more than one link knows. How many; -1: errno. */
int loci_tcp_interfaces(struct tcp_interface list[TCP_INTERFACES]);

/* Which of the n are told, as LOCO_TCP_IF says (`rule`): their places in the list, the best first.
 * How many; 0: none; -1: the rule makes no sense, *wrong says where. */
int loci_tcp_interfaces_choose(const struct tcp_interface *list, int n, const char *rule,
                               int chosen[LOCI_TCP_PLACES], const char **wrong);

/* Whether the other address is in this place's network. */
bool loci_tcp_is_near(const struct loci_tcp_place *mine, const struct loci_tcp_place *other);

struct tcp_range_of_ports {
    unsigned first, last;           /* 0: the system chooses */
};

/* What LOCO_TCP_PORTS says; false: it makes no sense. */
bool loci_tcp_ports_read(const char *rule, struct tcp_range_of_ports *ports);

/* How the system writes it; bytes of the result. */
socklen_t loci_tcp_sockaddr(const struct loci_tcp_place *place, struct sockaddr_storage *out);
void loci_tcp_place_of(const struct sockaddr *address, struct loci_tcp_place *place);
/* Whether it is an address of loopback, which leads to this machine on each. */
bool loci_tcp_place_is_inside(const struct loci_tcp_place *place);
/* "10.0.0.1 port 4711", or without a port. */
void loci_tcp_place_text(const struct loci_tcp_place *place, char text[TCP_PLACE_TEXT]);

#endif
