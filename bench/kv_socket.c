/* SPDX-License-Identifier: BSD-3-Clause */
#include "kv_socket.h"

#include "../mpi_examples/common.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 16 };

struct buffer {
    char *bytes;
    size_t begin, end, capacity;
};

struct kv_socket {
    int fd;
    int send_at, requests; /* so many requests are sent together; there are so many */
    struct buffer out, in;
};

/* Room for more at the end. */
static void make_room(struct buffer *b, size_t more)
{
    if (b->begin == b->end)
        b->begin = b->end = 0;
    if (b->capacity - b->end >= more)
        return;
    if (b->begin > 0) {
        memmove(b->bytes, b->bytes + b->begin, b->end - b->begin);
        b->end -= b->begin;
        b->begin = 0;
    }
    if (b->capacity - b->end < more) {
        b->capacity = 2 * b->capacity + more;
        b->bytes = realloc(b->bytes, b->capacity);
        if (b->bytes == NULL)
            ex_abort("no memory for %zu bytes of requests or replies", b->capacity);
    }
}

struct kv_socket *kv_socket_open(const char *path, int window)
{
    struct kv_socket *s = calloc(1, sizeof(*s));
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    if (s == NULL)
        ex_abort("no memory for a connection");
    if (strlen(path) >= sizeof(address.sun_path))
        ex_abort("%s: too long a name for a socket", path);
    strcpy(address.sun_path, path);
    s->send_at = (window + 1) / 2;
    s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s->fd < 0 || connect(s->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        ex_abort("%s: %s", path, strerror(errno));
    return s;
}

void kv_socket_close(struct kv_socket *s)
{
    close(s->fd);
    free(s->out.bytes);
    free(s->in.bytes);
    free(s);
}

static void receive(struct kv_socket *s, int flags)
{
    ssize_t n;

    make_room(&s->in, READ_BYTES);
    n = recv(s->fd, s->in.bytes + s->in.end, s->in.capacity - s->in.end, flags);
    if (n == 0)
        ex_abort("the server has closed the connection");
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        ex_abort("no reply of the server: %s", strerror(errno));
    s->in.end += n > 0 ? (size_t)n : 0;
}

/* While the server takes no more it may be waiting for us to take its replies. */
static void send_all(struct kv_socket *s)
{
    while (s->out.begin < s->out.end) {
        ssize_t n = send(s->fd, s->out.bytes + s->out.begin, s->out.end - s->out.begin,
                         MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n >= 0) {
            s->out.begin += (size_t)n;
        } else if (errno == EAGAIN) {
            struct pollfd p = { .fd = s->fd, .events = POLLIN | POLLOUT };

            poll(&p, 1, -1);
            if ((p.revents & POLLIN) != 0)
                receive(s, MSG_DONTWAIT);
        } else if (errno != EINTR) {
            ex_abort("the server takes no request: %s", strerror(errno));
        }
    }
    s->requests = 0;
}

void kv_socket_put(struct kv_socket *s, const void *bytes, size_t length)
{
    make_room(&s->out, length);
    memcpy(s->out.bytes + s->out.end, bytes, length);
    s->out.end += length;
}

void kv_socket_end_request(struct kv_socket *s)
{
    if (++s->requests >= s->send_at)
        send_all(s);
}

static void receive_more(struct kv_socket *s)
{
    send_all(s);
    receive(s, 0);
}

const void *kv_socket_take(struct kv_socket *s, size_t length)
{
    while (s->in.end - s->in.begin < length)
        receive_more(s);
    s->in.begin += length;
    return s->in.bytes + s->in.begin - length;
}

const char *kv_socket_take_line(struct kv_socket *s)
{
    size_t looked = 0;
    char *line;

    for (;;) {
        size_t there = s->in.end - s->in.begin;
        char *from = s->in.bytes + s->in.begin + looked;
        char *end = there > looked ? memchr(from, '\n', there - looked) : NULL;

        if (end != NULL) {
            line = s->in.bytes + s->in.begin;
            s->in.begin = (size_t)(end + 1 - s->in.bytes);
            *end = '\0';
            if (end > line && end[-1] == '\r')
                end[-1] = '\0';
            return line;
        }
        looked = there;
        receive_more(s);
    }
}
