/* SPDX-License-Identifier: BSD-3-Clause */

/* The secret of a pool over several machines: its file, and proofs of it. See net.h. */

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net.h"
#include "observe/mistake.h"
#include "runtime.h"
#include "secret.h"

#define MAGIC UINT32_C(0x6c6f6373)
#define NET_VERSION 1u

/* ---- its file ---- */

static int path_of(loco_runtime_t *rt, const char *call, const char *pool, const char *file,
                   char path[512])
{
    const char *home = getenv("HOME");
    int len;

    if (file == NULL && (home == NULL || home[0] != '/'))
        return loci_mistake(rt, LOCO_ERR_SYSTEM, call, pool, "there is no HOME, where the pool's "
                            "secret would be: say in which file it is (--secret)");
    if (file == NULL) {
        (void)snprintf(path, 512, "%s/.loco", home);
        (void)mkdir(path, 0700);
        len = snprintf(path, 512, "%s/.loco/%s.secret", home, pool);
    } else {
        len = snprintf(path, 512, "%s", file);
    }
    return len < 512 ? LOCO_OK
           : loci_mistake(rt, LOCO_ERR_SYSTEM, call, pool, "the path of the secret is too long");
}

static int bad_file(loco_runtime_t *rt, const char *call, const char *pool, const char *path,
                    const char *why)
{
    return loci_mistake(rt, LOCO_ERR_SYSTEM, call, pool, "the pool's secret, %s: %s", path, why);
}

/* Written apart, and linked to its name: who finds it finds all of it, and the first who makes it
 * has made it, on a file system that machines share, too. */
static int make_file(loco_runtime_t *rt, const char *call, const char *pool, const char *path)
{
    char other[600], line[34];
    uint64_t secret[2];
    int fd, status = loci_secret_draw(rt, secret);
    bool written;

    if (status != LOCO_OK)
        return status;
    snprintf(other, sizeof other, "%s.%016" PRIx64, path, rt->address.label);
    snprintf(line, sizeof line, "%016" PRIx64 "%016" PRIx64 "\n", secret[0], secret[1]);
    fd = open(other, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return bad_file(rt, call, pool, other, strerror(errno));
    written = write(fd, line, 33) == 33 && fsync(fd) == 0;
    if (close(fd) != 0 || !written || (link(other, path) != 0 && errno != EEXIST))
        status = bad_file(rt, call, pool, path, strerror(errno));
    (void)unlink(other);
    return status;
}

static int read_file(loco_runtime_t *rt, const char *call, const char *pool, const char *path,
                     int fd, uint64_t secret[2])
{
    char line[34] = "", end;
    struct stat st;

    if (fstat(fd, &st) != 0)
        return bad_file(rt, call, pool, path, strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0)
        return bad_file(rt, call, pool, path, "it is not a file of this user that nobody else may "
                        "read: chmod 600");
    if (read(fd, line, 33) != 33
        || sscanf(line, "%16" SCNx64 "%16" SCNx64 "%c", &secret[0], &secret[1], &end) != 3
        || end != '\n' || strspn(line, "0123456789abcdef") != 32)
        return bad_file(rt, call, pool, path, "it is not 32 hexadecimal digits and the end of a "
                        "line: remove it, and the next agent makes one");
    return LOCO_OK;
}

int loci_pool_secret(loco_runtime_t *rt, const char *call, const char *pool, const char *file,
                     uint64_t secret[2])
{
    char path[512];
    int fd, status = path_of(rt, call, pool, file, path);

    if (status != LOCO_OK)
        return status;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT) {
        status = make_file(rt, call, pool, path);
        if (status != LOCO_OK)
            return status;
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    }
    if (fd < 0)
        return bad_file(rt, call, pool, path, strerror(errno));
    status = read_file(rt, call, pool, path, fd, secret);
    close(fd);
    return status;
}

/* ---- proofs ---- */

enum { OF_CALLER = 0x100, OF_LISTENER, MASK_TO_CALLER, MASK_TO_LISTENER };

static uint64_t derive(const struct loci_pool_session *s, uint64_t purpose, uint64_t i)
{
    const uint64_t what[8] = { purpose, i, s->pool, s->caller, s->greeted[0], s->greeted[1],
                               s->called[0], s->called[1] };

    return loci_siphash(s->secret, what, sizeof what);
}

static bool is_proof(const struct loci_pool_session *s, uint64_t purpose, const uint64_t proof[2])
{
    bool first = loci_same_proof(proof[0], derive(s, purpose, 0));

    return loci_same_proof(proof[1], derive(s, purpose, 1)) && first;
}

void loci_pool_session(struct loci_pool_session *s, const char *pool, const uint64_t secret[2])
{
    static const uint64_t none[2] = { 0, 0 };

    *s = (struct loci_pool_session){ .secret = { secret[0], secret[1] },
                                     .pool = loci_siphash(none, pool, strlen(pool)) };
}

int loci_pool_greet(loco_runtime_t *rt, struct loci_pool_session *s,
                    struct loci_pool_greeting *greeting)
{
    int status = loci_secret_draw(rt, s->greeted);

    *greeting = (struct loci_pool_greeting){ .magic = MAGIC, .version = NET_VERSION,
                                             .nonce = { s->greeted[0], s->greeted[1] } };
    return status;
}

int loci_pool_hear_call(struct loci_pool_session *s, const struct loci_pool_call *call,
                        struct loci_pool_answer *answer)
{
    int status = LOCO_OK;

    s->caller = call->caller;
    memcpy(s->called, call->nonce, sizeof s->called);
    if (call->magic != MAGIC || call->version != NET_VERSION
        || (call->caller != LOCI_POOL_CLIENT && call->caller != LOCI_POOL_AGENT))
        status = LOCO_ERR_PROTOCOL;
    else if (!is_proof(s, OF_CALLER, call->proof))
        status = LOCO_ERR_MISMATCH;
    *answer = (struct loci_pool_answer){ .magic = MAGIC, .version = NET_VERSION, .status = status };
    for (uint64_t i = 0; i < 2 && status == LOCO_OK; i++)
        answer->proof[i] = derive(s, OF_LISTENER, i);
    return status;
}

int loci_pool_call(loco_runtime_t *rt, struct loci_pool_session *s,
                   const struct loci_pool_greeting *greeting, enum loci_pool_caller caller,
                   struct loci_pool_call *call)
{
    int status = loci_secret_draw(rt, s->called);

    if (greeting->magic != MAGIC || greeting->version != NET_VERSION)
        return LOCO_ERR_PROTOCOL;
    s->caller = (uint32_t)caller;
    memcpy(s->greeted, greeting->nonce, sizeof s->greeted);
    *call = (struct loci_pool_call){ .magic = MAGIC, .version = NET_VERSION, .caller = s->caller,
                                     .nonce = { s->called[0], s->called[1] },
                                     .proof = { derive(s, OF_CALLER, 0),
                                                derive(s, OF_CALLER, 1) } };
    return status;
}

int loci_pool_hear_answer(const struct loci_pool_session *s, const struct loci_pool_answer *answer)
{
    if (answer->magic != MAGIC || answer->version != NET_VERSION)
        return LOCO_ERR_PROTOCOL;
    if (answer->status != LOCO_OK)
        return answer->status == LOCO_ERR_MISMATCH ? LOCO_ERR_MISMATCH : LOCO_ERR_PROTOCOL;
    return is_proof(s, OF_LISTENER, answer->proof) ? LOCO_OK : LOCO_ERR_MISMATCH;
}

void loci_pool_mask(const struct loci_pool_session *s, bool to_caller,
                    struct loci_address *address)
{
    for (uint64_t i = 0; i < 2; i++)
        address->secret[i] ^= derive(s, to_caller ? MASK_TO_CALLER : MASK_TO_LISTENER, i);
}
