/* SPDX-License-Identifier: BSD-3-Clause */

/* Where this process listens, which its peers are told: one socket for each address. Whoever calls
 * is call.c's. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "descriptor.h"
#include "dial.h"
#include "service.h"
#include "wait.h"

#define BACKLOG 1024
#define ACCEPTS 16              /* before others have their turn */

struct tcp_port {
    int fd;
    bool paused;                /* it is not listened to, for want of descriptors */
};

struct tcp_ports {
    struct tcp_fabric *fabric;
    struct tcp_port port[LOCI_TCP_PLACES];
    int n;
    int spare;                  /* a descriptor, given up for a caller to be refused with; or -1 */
    struct loci_log_seldom missing;
};

/* ---- callers ---- */

static void pause_port(struct tcp_ports *ports, struct tcp_port *p);

static void take_spare(struct tcp_ports *ports)
{
    if (ports->spare < 0)
        ports->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* There is no descriptor for who calls, and no end of the event before the call is taken: it is
 * refused with one that was kept for this. Where that does not help either, who calls has to wait
 * until the next tick. */
static void refuse(struct tcp_ports *ports, struct tcp_port *p)
{
    struct loco_runtime *rt = ports->fabric->rt;
    int fd;

    if (loci_log_seldom(&ports->missing, loci_now(rt)) > 0)
        loci_descriptor_missing(rt, "other processes cannot connect to this one");
    if (ports->spare < 0) {
        pause_port(ports, p);
        return;
    }
    close(ports->spare);
    fd = accept4(p->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    ports->spare = -1;
    take_spare(ports);
    if (fd < 0)
        pause_port(ports, p);
}

static struct tcp_port *port_of(struct tcp_ports *ports, int fd)
{
    for (int i = 0; i < ports->n; i++)
        if (ports->port[i].fd == fd)
            return &ports->port[i];
    return NULL;
}

/* Errors beside those of want are of the connection that would have been accepted. */
static void called(struct loco_runtime *rt, void *ctx, int listener, uint32_t events)
{
    struct tcp_ports *ports = ctx;
    struct tcp_port *p = port_of(ports, listener);

    (void)rt;
    (void)events;
    for (int i = 0; p != NULL && !p->paused && i < ACCEPTS; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (loci_descriptor_make_room(ports->fabric->rt, fd))
            continue;
        if (fd >= 0) {
            loci_tcp_called(ports->fabric->dials, fd);
        } else if (errno == EMFILE || errno == ENFILE) {
            refuse(ports, p);
        } else if (errno == ENOBUFS || errno == ENOMEM) {
            pause_port(ports, p);
        } else if (errno == EAGAIN) {
            return;
        }
    }
}

static void pause_port(struct tcp_ports *ports, struct tcp_port *p)
{
    p->paused = true;
    loci_service_watch(ports->fabric->rt, p->fd, 0, called, ports);
    loci_links_tick(ports->fabric->links);
}

void loci_tcp_ports_tick(struct tcp_ports *ports)
{
    take_spare(ports);
    for (int i = 0; i < ports->n; i++)
        if (ports->port[i].paused) {
            ports->port[i].paused = false;
            loci_service_watch(ports->fabric->rt, ports->port[i].fd, EPOLLIN, called, ports);
        }
}

/* ---- ports ---- */

/* A socket that listens there; -1: errno. */
static int listen_at(const struct loci_tcp_place *place)
{
    struct sockaddr_storage address;
    socklen_t len = loci_tcp_sockaddr(place, &address);
    int fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    int error;

    if (fd < 0)
        return -1;
    /* A port whose last owner has just gone is free. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, len) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Processes of one machine begin at different ports of the range. */
static int listen_in(const struct loco_runtime *rt, struct loci_tcp_place *place,
                     const struct tcp_range_of_ports *r)
{
    unsigned many = r->last - r->first + 1, from = (unsigned)(rt->address.identity % many);
    int fd = -1;

    for (unsigned i = 0; i < many && fd < 0; i++) {
        place->port = (uint16_t)(r->first + (from + i) % many);
        fd = listen_at(place);
        if (fd < 0 && errno != EADDRINUSE && errno != EACCES)
            break;
    }
    return fd;
}

/* The port that it has got. */
static bool learn_port(int fd, struct loci_tcp_place *place)
{
    struct sockaddr_storage address;
    struct loci_tcp_place got;
    socklen_t len = sizeof address;

    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return false;
    loci_tcp_place_of((struct sockaddr *)&address, &got);
    place->port = got.port;
    return got.port != 0;
}

/* Of errno: the address is there, but of no use; that of an interface that has just come up, or
 * whose like another machine has. */
static bool is_not_ready(void)
{
    return errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT;
}

static void say_why(const struct loco_runtime *rt, const struct tcp_range_of_ports *r,
                    const struct loci_tcp_place *place)
{
    char text[TCP_PLACE_TEXT];

    loci_tcp_place_text(place, text);
    if (errno == EADDRINUSE)
        LOCI_LOG(rt, LOCO_LOG_ERROR, "all ports from %u to %u of %s are in use: LOCO_TCP_PORTS=%s "
                 "has to have one for each process of a machine", r->first, r->last, text,
                 rt->tunables.tcp_ports);
    else if (errno == EACCES)
        LOCI_LOG(rt, LOCO_LOG_ERROR, "this process may not listen on ports from %u to %u of %s: "
                 "LOCO_TCP_PORTS=%s", r->first, r->last, text, rt->tunables.tcp_ports);
    else
        LOCI_LOG(rt, is_not_ready() ? LOCO_LOG_WARN : LOCO_LOG_ERROR,
                 "%s cannot be listened on: %m", text);
}

/* LOCO_ERR_AGAIN: others have to do. */
static int open_port(struct tcp_ports *ports, const struct tcp_range_of_ports *r,
                     const struct loci_tcp_place *place, struct loci_tcp_place *mine)
{
    struct loco_runtime *rt = ports->fabric->rt;
    struct loci_tcp_place at = *place;
    int fd = listen_in(rt, &at, r);

    if (fd >= 0)
        ports->port[ports->n++].fd = fd;
    if (fd >= 0 && learn_port(fd, &at)) {
        *mine = at;
        return LOCO_OK;
    }
    if (errno == EMFILE || errno == ENFILE)
        loci_descriptor_missing(rt, "no descriptor to listen with");
    else
        say_why(rt, r, place);
    return is_not_ready() ? LOCO_ERR_AGAIN : LOCO_ERR_SYSTEM;
}

/* ---- life ---- */

/* The addresses; how many, 0: the log knows. */
static int choose(struct loco_runtime *rt, struct loci_tcp_place places[LOCI_TCP_PLACES])
{
    struct tcp_interface list[TCP_INTERFACES];
    int chosen[LOCI_TCP_PLACES], n = loci_tcp_interfaces(list), count;
    const char *wrong;

    if (n < 0) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "the machine's addresses cannot be listed: %m");
        return 0;
    }
    count = loci_tcp_interfaces_choose(list, n, rt->tunables.tcp_if, chosen, &wrong);
    if (count < 0)
        LOCI_LOG(rt, LOCO_LOG_ERROR, "LOCO_TCP_IF=%s: \"%s\" does not begin with the name of an "
                 "interface, or a network such as 10.0.0.0/8", rt->tunables.tcp_if, wrong);
    else if (count == 0)
        LOCI_LOG(rt, LOCO_LOG_ERROR, "no network interface that is up has an address that "
                 "LOCO_TCP_IF=%s allows", rt->tunables.tcp_if);
    for (int i = 0; i < count; i++)
        places[i] = list[chosen[i]].place;
    return count < 0 ? 0 : count;
}

static void say_where(const struct loco_runtime *rt, const struct loci_address *mine)
{
    char text[TCP_PLACE_TEXT];

    for (int i = 0; i < LOCI_TCP_PLACES && mine->tcp[i].port != 0; i++) {
        loci_tcp_place_text(&mine->tcp[i], text);
        LOCI_LOG(rt, LOCO_LOG_DEBUG, "other machines connect to %s", text);
    }
}

static int open_ports(struct tcp_ports *ports, struct loci_address *mine)
{
    struct loco_runtime *rt = ports->fabric->rt;
    struct loci_tcp_place places[LOCI_TCP_PLACES];
    int status = LOCO_OK, count;
    struct tcp_range_of_ports r;

    if (!loci_tcp_ports_read(rt->tunables.tcp_ports, &r)) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "LOCO_TCP_PORTS=%s: allowed is auto, or FIRST-LAST within 1 "
                 "to 65535", rt->tunables.tcp_ports);
        return LOCO_ERR_ARG;
    }
    count = choose(rt, places);
    if (count == 0)
        return LOCO_ERR_UNSUPPORTED;
    for (int i = 0; i < count && status == LOCO_OK; i++) {
        status = open_port(ports, &r, &places[i], &mine->tcp[ports->n]);
        if (status == LOCO_ERR_AGAIN)
            status = LOCO_OK;
    }
    if (status == LOCO_OK && ports->n == 0) {
        LOCI_LOG(rt, LOCO_LOG_ERROR, "no address that LOCO_TCP_IF=%s allows can be listened on",
                 rt->tunables.tcp_if);
        return LOCO_ERR_SYSTEM;
    }
    return status;
}

/* Once all of them are there: calls may come from now on. */
static int watch_ports(struct tcp_ports *ports)
{
    struct tcp_fabric *f = ports->fabric;
    int status = LOCO_OK;

    for (int i = 0; i < ports->n && status == LOCO_OK; i++)
        status = loci_service_watch(f->rt, ports->port[i].fd, EPOLLIN, called, ports);
    loci_tcp_dials_ports(f->dials, ports);
    return status;
}

int loci_tcp_ports_open(struct tcp_fabric *f, struct loci_address *mine)
{
    struct tcp_ports *ports = calloc(1, sizeof *ports);
    int status;

    if (ports == NULL)
        return LOCO_ERR_NO_MEMORY;
    ports->fabric = f;
    ports->spare = -1;
    f->ports = ports;
    take_spare(ports);
    status = open_ports(ports, mine);
    if (status == LOCO_OK)
        status = watch_ports(ports);
    if (status == LOCO_OK) {
        say_where(f->rt, mine);
        return LOCO_OK;
    }
    memset(mine->tcp, 0, sizeof mine->tcp);
    loci_tcp_ports_close(f);
    return status;
}

void loci_tcp_ports_close(struct tcp_fabric *f)
{
    struct tcp_ports *ports = f->ports;

    if (ports == NULL)
        return;
    loci_tcp_dials_ports(f->dials, NULL);
    for (int i = 0; i < ports->n; i++) {
        loci_service_unwatch(f->rt, ports->port[i].fd);
        close(ports->port[i].fd);
    }
    if (ports->spare >= 0)
        close(ports->spare);
    f->ports = NULL;
    free(ports);
}
