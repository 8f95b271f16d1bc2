/* SPDX-License-Identifier: BSD-3-Clause */

/* An agent of a pool over several machines: where it listens, and who calls. The first thread's.
 *
 * Anybody can call. Until a caller has proven that it knows the pool's secret (net.h) it costs a
 * descriptor and one of these records, of which there are few: the oldest makes room. It has some
 * seconds, and what it says is its call and nothing else. */

#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent.h"
#include "names/interfaces.h"
#include "observe/mistake.h"
#include "runtime.h"
#include "wait.h"

#define BACKLOG 256
#define CALLERS 64
#define PROVE_NS INT64_C(5000000000)

struct loci_agent_caller {
    struct loci_agent_watch watch;      /* first */
    struct loci_agent_caller *next;
    struct loci_pool_session session;
    struct loci_pool_call call;
    size_t got;
    int64_t until;
};

/* ---- callers ---- */

static void drop_caller(struct loco_agent *a, struct loci_agent_caller *caller)
{
    struct loci_agent_caller **at = &a->callers;

    while (*at != caller)
        at = &(*at)->next;
    *at = caller->next;
    a->ncallers--;
    if (caller->watch.fd >= 0)
        close(caller->watch.fd);
    free(caller);
}

static void refuse(struct loco_agent *a, struct loci_agent_caller *caller, const char *why)
{
    uint64_t times = loci_log_seldom(&a->strangers, loci_now(a->rt));

    atomic_fetch_add(&a->refused, 1);
    if (times > 0)
        LOCI_LOG(a->rt, LOCO_LOG_WARN, "pool %s: a call from another machine is refused, the last "
                 "of %llu: %s", a->pool, (unsigned long long)times, why);
    drop_caller(a, caller);
}

static void proven(struct loco_agent *a, struct loci_agent_caller *caller)
{
    int fd = caller->watch.fd;
    struct loci_pool_session session = caller->session;

    (void)epoll_ctl(a->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    caller->watch.fd = -1;
    drop_caller(a, caller);
    if (session.caller == LOCI_POOL_AGENT)
        loci_agent_add_link(a, fd, false, &session);
    else
        loci_agent_add_client(a, fd, &session);
}

static void heard(struct loco_agent *a, struct loci_agent_caller *caller)
{
    struct loci_pool_answer answer;
    int status = loci_pool_hear_call(&caller->session, &caller->call, &answer);

    if (send(caller->watch.fd, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT)
        != (ssize_t)sizeof answer)
        refuse(a, caller, "it does not listen");
    else if (status == LOCO_ERR_MISMATCH)
        refuse(a, caller, "it has another secret, or is of another pool. The secret's file must be "
               "the same on all machines of a pool");
    else if (status != LOCO_OK)
        refuse(a, caller, "it is no agent or client of this version of libloco");
    else
        proven(a, caller);
}

static void caller_event(struct loco_agent *a, struct loci_agent_watch *w, uint32_t events)
{
    struct loci_agent_caller *caller = (struct loci_agent_caller *)w;
    ssize_t n = recv(w->fd, (char *)&caller->call + caller->got,
                     sizeof caller->call - caller->got, MSG_DONTWAIT);

    (void)events;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        refuse(a, caller, "it hangs up before it has said who it is");
        return;
    }
    caller->got += (size_t)n;
    if (caller->got == sizeof caller->call)
        heard(a, caller);
}

static struct loci_agent_caller *oldest(struct loco_agent *a)
{
    struct loci_agent_caller *caller = a->callers;

    while (caller->next != NULL)
        caller = caller->next;
    return caller;
}

static void greet(struct loco_agent *a, int fd)
{
    struct loci_agent_caller *caller = calloc(1, sizeof *caller);
    struct loci_pool_greeting greeting;

    if (caller == NULL) {
        close(fd);
        return;
    }
    if (a->ncallers == CALLERS)
        refuse(a, oldest(a), "too many call at once");
    caller->watch = (struct loci_agent_watch){ caller_event, fd };
    caller->until = loci_now(a->rt) + PROVE_NS;
    caller->next = a->callers;
    a->callers = caller;
    a->ncallers++;
    loci_pool_tune(a->rt, fd);
    loci_pool_session(&caller->session, a->pool, a->secret);
    if (loci_pool_greet(a->rt, &caller->session, &greeting) != LOCO_OK
        || send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL | MSG_DONTWAIT)
           != (ssize_t)sizeof greeting
        || loci_agent_watch(a, &caller->watch, EPOLLIN) != 0)
        refuse(a, caller, "it does not listen");
}

static void port_event(struct loco_agent *a, struct loci_agent_watch *w, uint32_t events)
{
    int fd;

    (void)events;
    while ((fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
        greet(a, fd);
    loci_agent_accept_failed(a, errno);
}

void loci_agent_net_accept(struct loco_agent *a, bool accept)
{
    for (int i = 0; i < LOCI_TCP_PLACES; i++) {
        struct epoll_event event = { .events = accept ? EPOLLIN : 0, .data.ptr = &a->listen[i] };

        if (a->listen[i].fd > 0)
            (void)epoll_ctl(a->epoll_fd, EPOLL_CTL_MOD, a->listen[i].fd, &event);
    }
}

void loci_agent_net_tick(struct loco_agent *a)
{
    int64_t now = loci_now(a->rt);
    struct loci_agent_caller *caller = a->callers, *next;

    for (; caller != NULL; caller = next) {
        next = caller->next;
        if (now > caller->until)
            refuse(a, caller, "it does not say who it is");
    }
}

/* ---- ports ---- */

static int cannot(struct loco_agent *a, const struct loci_tcp_place *place)
{
    char text[TCP_PLACE_TEXT];

    loci_tcp_place_text(place, text);
    return loci_mistake(a->rt, LOCO_ERR_SYSTEM, "loco_agent_start", a->pool,
                        "%s cannot be listened on: %s. Another port: the agent's option --port, "
                        "and HOST:PORT where others join it", text, strerror(errno));
}

static int listen_at(struct loco_agent *a, struct loci_agent_watch *w,
                     const struct loci_tcp_place *place)
{
    struct sockaddr_storage address;
    socklen_t len = loci_tcp_sockaddr(place, &address);
    int on = 1;

    *w = (struct loci_agent_watch){
        port_event, socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
    };
    if (w->fd < 0)
        return cannot(a, place);
    setsockopt(w->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return bind(w->fd, (struct sockaddr *)&address, len) != 0 || listen(w->fd, BACKLOG) != 0
           || loci_agent_watch(a, w, EPOLLIN) != 0 ? cannot(a, place) : LOCO_OK;
}

int loci_agent_net_open(struct loco_agent *a)
{
    struct tcp_interface list[TCP_INTERFACES];
    int chosen[LOCI_TCP_PLACES], n = loci_tcp_interfaces(list), status = LOCO_OK;
    const char *wrong;

    n = n < 0 ? 0 : loci_tcp_interfaces_choose(list, n, a->rt->tunables.tcp_if, chosen, &wrong);
    if (n <= 0)
        return loci_mistake(a->rt, LOCO_ERR_UNSUPPORTED, "loco_agent_start", a->pool,
                            "no network interface has an address that LOCO_TCP_IF=%s allows",
                            a->rt->tunables.tcp_if);
    for (int i = 0; i < n && status == LOCO_OK; i++) {
        a->place[i] = list[chosen[i]].place;
        a->place[i].port = (uint16_t)a->port;
        status = listen_at(a, &a->listen[i], &a->place[i]);
    }
    return status;
}

void loci_agent_net_close(struct loco_agent *a)
{
    while (a->callers != NULL)
        drop_caller(a, a->callers);
    for (int i = 0; i < LOCI_TCP_PLACES; i++)
        if (a->listen[i].fd > 0)
            close(a->listen[i].fd);
}
