/* SPDX-License-Identifier: BSD-3-Clause */

/* The local socket of a pool: where it is, and questions over it. See messages.h. */

#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "messages.h"
#include "observe/log.h"
#include "observe/mistake.h"
#include "runtime.h"
#include "wait.h"

#define PATIENCE_MS 1000        /* after which a wait is told */

static bool is_name(const char *pool)
{
    size_t len = pool == NULL ? 0 : strlen(pool);

    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)pool[i]) && strchr("._-", pool[i]) == NULL)
            return false;
    return len > 0 && len < LOCO_POOL_NAME_MAX && pool[0] != '.';
}

/* The folder is this user's, and nobody else writes there, so nobody else can be the agent. */
static int check_folder(loco_runtime_t *rt, const char *call, const char *folder)
{
    struct stat st;

    if (lstat(folder, &st) != 0)
        return errno == ENOENT ? LOCO_ERR_NOT_FOUND
               : loci_mistake(rt, LOCO_ERR_SYSTEM, call, NULL, "%s: %s", folder,
                              strerror(errno));
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
        return loci_mistake(rt, LOCO_ERR_SYSTEM, call, NULL,
                            "%s is not a folder that this user alone writes to: remove it, or set "
                            "XDG_RUNTIME_DIR", folder);
    return LOCO_OK;
}

int loci_pool_path(loco_runtime_t *rt, const char *call, const char *pool, bool make,
                   struct loci_pool_path *path)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    char folder[80];
    int len, status;

    if (!is_name(pool))
        return loci_mistake(rt, LOCO_ERR_NAME, call, NULL,
                            "a pool's name is 1 to %d letters, digits, '.', '_' and '-', and does "
                            "not begin with a '.'", LOCO_POOL_NAME_MAX - 1);
    if (base != NULL && base[0] == '/')
        len = snprintf(folder, sizeof folder, "%s/loco", base);
    else
        len = snprintf(folder, sizeof folder, "/tmp/loco-%u", (unsigned)geteuid());
    if (len >= (int)sizeof folder
        || snprintf(path->socket, sizeof path->socket, "%s/%s.sock", folder, pool)
           >= (int)sizeof path->socket)
        return loci_mistake(rt, LOCO_ERR_NAME, call, NULL,
                            "the socket %s/%s.sock has a path of more than %zu bytes: take a "
                            "shorter name, or another XDG_RUNTIME_DIR", folder, pool,
                            sizeof path->socket - 1);
    snprintf(path->lock, sizeof path->lock, "%s/%s.lock", folder, pool);
    if (make)
        (void)mkdir(folder, 0700);
    status = check_folder(rt, call, folder);
    return status;
}

bool loci_pool_is_own(int fd)
{
    struct ucred who;
    socklen_t len = sizeof who;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.uid == geteuid();
}

static int none(loco_runtime_t *rt, const char *call, const char *pool)
{
    return loci_mistake(rt, LOCO_ERR_NOT_FOUND, call, pool,
                        "no agent of this pool runs on this machine for this user: "
                        "loco-agent start --pool %s", pool);
}

/* ---- the sign ---- */

#define SIGN_AT 8       /* in the lock's file, behind the time of the agent's birth */

bool loci_pool_put_sign(int lock_fd, const struct loci_pool_reply *hello)
{
    struct loci_pool_sign sign = {
        .magic = LOCI_POOL_MAGIC, .version = LOCI_POOL_VERSION, .pid = (int32_t)getpid(),
        .several = hello->several, .near = hello->near, .end = LOCI_POOL_MAGIC,
    };

    memcpy(sign.fabric, hello->fabric, sizeof sign.fabric);
    return pwrite(lock_fd, &sign, sizeof sign, SIGN_AT) == (ssize_t)sizeof sign;
}

bool loci_pool_read_sign(const char *lock, int fd, struct loci_pool_reply *hello)
{
    struct loci_pool_sign sign;
    struct ucred who;
    socklen_t len = sizeof who;
    int file = open(lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = file < 0 ? -1 : pread(file, &sign, sizeof sign, SIGN_AT);

    if (file >= 0)
        close(file);
    if (n != (ssize_t)sizeof sign || sign.magic != LOCI_POOL_MAGIC || sign.end != LOCI_POOL_MAGIC
        || sign.version != LOCI_POOL_VERSION
        || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) != 0 || who.pid != sign.pid)
        return false;
    *hello = (struct loci_pool_reply){ .several = sign.several, .near = sign.near };
    memcpy(hello->fabric, sign.fabric, sizeof hello->fabric);
    hello->fabric[sizeof hello->fabric - 1] = '\0';
    return true;
}

int loci_pool_connect(loco_runtime_t *rt, const char *call, const char *pool)
{
    struct loci_pool_path path;

    return loci_pool_connect_by(rt, call, pool, &path);
}

int loci_pool_connect_by(loco_runtime_t *rt, const char *call, const char *pool,
                         struct loci_pool_path *path)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int fd, status = loci_pool_path(rt, call, pool, false, path);

    if (status == LOCO_ERR_NOT_FOUND)
        return none(rt, call, pool);
    if (status != LOCO_OK)
        return status;
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return loci_mistake(rt, LOCO_ERR_SYSTEM, call, pool, "socket: %s", strerror(errno));
    memcpy(name.sun_path, path->socket, strlen(path->socket));
    if (connect(fd, (const struct sockaddr *)&name, sizeof name) != 0) {
        close(fd);
        return none(rt, call, pool);
    }
    if (!loci_pool_is_own(fd)) {
        close(fd);
        return loci_mistake(rt, LOCO_ERR_UNSUPPORTED, call, pool,
                            "its agent runs as another user");
    }
    return fd;
}

/* Who has no runtime has told nobody yet what it waits for: a warning. */
static void tell_waiting(const loco_runtime_t *rt)
{
    const struct loci_log to_stderr = { .fn = loci_log_stderr, .level = LOCO_LOG_WARN };
    const char *level = getenv("LOCO_LOG");

    if (rt != NULL)
        LOCI_LOG(rt, LOCO_LOG_INFO, "has waited 1 s for an answer of the pool's agent");
    else if (level == NULL || (strcmp(level, "none") != 0 && strcmp(level, "error") != 0))
        loci_log(&to_stderr, LOCO_LOG_WARN, "has waited 1 s for an answer of the pool's agent: "
                 "is it stopped?");
}

/* Until there is an answer, or the agent has ended. */
static void wait_for_answer(loco_runtime_t *rt, int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    bool told = false;

    while (poll(&p, 1, PATIENCE_MS) == 0)
        if (!told) {
            told = true;
            tell_waiting(rt);
        }
}

void loci_pool_leave(int fd)
{
    const struct loci_pool_request leave = { .magic = LOCI_POOL_MAGIC,
                                             .version = LOCI_POOL_VERSION,
                                             .ask = LOCI_POOL_LEAVE };

    (void)!send(fd, &leave, sizeof leave, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int check_reply(struct loci_pool_reply *reply)
{
    reply->text[LOCI_POOL_TEXT - 1] = '\0';
    reply->fabric[sizeof reply->fabric - 1] = '\0';
    reply->agent.machine[LOCI_MACHINE_NAME - 1] = '\0';
    return reply->magic == LOCI_POOL_MAGIC && reply->version == LOCI_POOL_VERSION
           ? LOCO_OK : LOCO_ERR_PROTOCOL;
}

int loci_pool_ask(loco_runtime_t *rt, int fd, struct loci_pool_request *request,
                  struct loci_pool_reply *reply)
{
    ssize_t n;

    request->magic = LOCI_POOL_MAGIC;
    request->version = LOCI_POOL_VERSION;
    if (send(fd, request, sizeof *request, MSG_NOSIGNAL) != (ssize_t)sizeof *request)
        return LOCO_ERR_PEER_DEAD;
    do {
        wait_for_answer(rt, fd);
        n = recv(fd, reply, sizeof *reply, 0);
    } while (n < 0 && (errno == EINTR || errno == EAGAIN));
    if (n <= 0)
        return LOCO_ERR_PEER_DEAD;
    return n == (ssize_t)sizeof *reply ? check_reply(reply) : LOCO_ERR_PROTOCOL;
}

/* What has come of an answer is kept, so that it may take as long as it likes. */
static int hear_far(loco_runtime_t *rt, int fd, struct loci_pool_reply *reply,
                    bool (*is_there)(void *ctx), void *ctx)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    size_t got = 0;

    while (got < sizeof *reply) {
        ssize_t n;

        if (poll(&p, 1, PATIENCE_MS) == 0) {
            if (!is_there(ctx))
                return LOCO_ERR_PEER_DEAD;
            continue;
        }
        n = recv(fd, (char *)reply + got, sizeof *reply - got, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return LOCO_ERR_PEER_DEAD;
        got += n > 0 ? (size_t)n : 0;
    }
    (void)rt;
    return check_reply(reply);
}

int loci_pool_ask_far(loco_runtime_t *rt, int fd, const struct loci_pool_session *session,
                      struct loci_pool_request *request, struct loci_pool_reply *reply,
                      bool (*is_there)(void *ctx), void *ctx)
{
    int status;

    request->magic = LOCI_POOL_MAGIC;
    request->version = LOCI_POOL_VERSION;
    loci_pool_mask(session, false, &request->address);
    status = loci_pool_send_all(rt, fd, request, sizeof *request,
                                loci_now(rt) + LOCI_POOL_PATIENCE);
    loci_pool_mask(session, false, &request->address);
    if (status == LOCO_OK)
        status = hear_far(rt, fd, reply, is_there, ctx);
    if (status == LOCO_OK)
        loci_pool_mask(session, true, &reply->address);
    return status;
}
