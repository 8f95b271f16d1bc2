/* SPDX-License-Identifier: BSD-3-Clause */

/* Own memory, made known to the device.
 *
 * Extents are shm's; each is one registration, as a whole, since what was told to peers of a
 * smaller one would not hold for a larger. Registration pins memory, so all of an extent is
 * committed when it is made; where that is more than there is, an extent of just the size asked
 * for is made instead. To the device an extent begins at 0: a key holds the offset in it. */

#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../shm/shm.h"
#include "memory/protection.h"
#include "verbs.h"

#define ALL_RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE \
                    | IBV_ACCESS_REMOTE_ATOMIC)

/* Says so, and which error it is: of memory that is short, or another. */
static int cannot(struct verbs_fabric *f, size_t len, const char *what)
{
    int status = errno == ENOMEM ? LOCO_ERR_NO_MEMORY : LOCO_ERR_SYSTEM;

    LOCI_LOG(f->rt, LOCO_LOG_ERROR, "%zu bytes of %s cannot be registered with %s: %m%s", len, what,
             f->port.device, loci_verbs_remedy(errno));
    return status;
}

/* ---- extents ---- */

static int make_whole(struct loci_fabric *fabric, struct loci_extent *extent)
{
    size_t needed = extent->committed, len = extent->len;
    int status;

    extent->committed = len;
    status = loci_shm_extent_create(verbs_shm(fabric), extent);
    if (status != LOCO_ERR_NO_MEMORY || needed == len)
        return status;
    extent->committed = extent->len = needed;
    return loci_shm_extent_create(verbs_shm(fabric), extent);
}

int loci_verbs_extent_create(struct loci_fabric *fabric, struct loci_extent *extent)
{
    struct verbs_fabric *f = verbs_of(fabric);
    int status = make_whole(fabric, extent);
    struct ibv_mr *mr;

    if (status != LOCO_OK)
        return status;
    do
        mr = ibv_reg_mr_iova(f->pd, extent->base, extent->len, 0, ALL_RIGHTS);
    while (mr == NULL && errno == ENOMEM && loci_verbs_keep_less(f));
    if (mr == NULL) {
        status = cannot(f, extent->len, "network memory");
        loci_shm_extent_destroy(verbs_shm(fabric), extent);
        return status;
    }
    extent->device = VERBS_REGISTERED | mr->rkey;
    extent->device_data = mr;
    return LOCO_OK;
}

/* All of it is there already. */
int loci_verbs_extent_grow(struct loci_fabric *fabric, struct loci_extent *extent, size_t from,
                           size_t to)
{
    (void)fabric;
    (void)from;
    return to <= extent->len ? LOCO_OK : LOCO_ERR_NO_MEMORY;
}

void loci_verbs_extent_destroy(struct loci_fabric *fabric, struct loci_extent *extent)
{
    struct verbs_fabric *f = verbs_of(fabric);

    errno = ibv_dereg_mr(extent->device_data);
    if (errno != 0)
        LOCI_LOG(f->rt, LOCO_LOG_ERROR, "network memory stays registered with %s: %m",
                 f->port.device);
    extent->device_data = NULL;
    loci_shm_extent_destroy(verbs_shm(fabric), extent);
}

/* ---- memory that the user brought ----
 *
 * A device is told once, of all of it, what peers may do there. What the program itself may not
 * write peers may read; so what is of both kinds would be served as the lesser, and is refused. */

/* Not a byte of it may be written, and each be read. */
static bool is_read_only(const struct loci_protection *p)
{
    return !p->any_write && p->all_read;
}

static int refuse(struct verbs_fabric *f, size_t len, const struct loci_protection *p)
{
    char why[128] = "it cannot be pinned, as a mapping of a device's memory, or memfd_secret(2)'s";

    if (!p->all_write)
        loci_protection_text(p, why, sizeof why);
    LOCI_LOG(f->rt, LOCO_LOG_ERROR, "%zu bytes of the program's memory cannot be registered with "
             "%s, for their protection: %s%s", len, f->port.device, why,
             p->any_write && !p->all_write ? ", others may: give each kind a window of its own"
                                           : "");
    return LOCO_ERR_SHARED;
}

static int register_user(struct verbs_fabric *f, void *base, size_t len, struct verbs_user *user,
                         uint64_t *device)
{
    struct loci_protection p;
    uint64_t rights = 0;

    user->memory = loci_verbs_register(f, base, len, ALL_RIGHTS, ALL_RIGHTS);
    if (user->memory == NULL && loci_verbs_is_protection(errno)) {
        int error = errno;

        if (!loci_protection_of(base, len, &p)) {
            errno = error;
            return cannot(f, len, "the program's memory");
        }
        if (is_read_only(&p)) {
            rights = VERBS_READ_ONLY;
            user->memory = loci_verbs_register(f, base, len, IBV_ACCESS_REMOTE_READ,
                                               IBV_ACCESS_REMOTE_READ);
        }
        if (user->memory == NULL)
            return refuse(f, len, &p);
    }
    if (user->memory == NULL)
        return cannot(f, len, "the program's memory");
    *device = VERBS_REGISTERED | rights | user->memory->mr->rkey;
    return LOCO_OK;
}

/* At shm's place for it. */
static struct verbs_user *place_of(struct verbs_fabric *f, const struct loci_memkey *key)
{
    uint32_t place = loci_shm_user_place(key->extent), room = f->users_room;
    struct verbs_user *more;

    if (place < room)
        return &f->users[place];
    room = room > 0 ? room : 16;
    while (room <= place)
        room *= 2;
    more = realloc(f->users, room * sizeof *more);
    if (more == NULL)
        return NULL;
    memset(&more[f->users_room], 0, (room - f->users_room) * sizeof *more);
    f->users = more;
    f->users_room = room;
    return &f->users[place];
}

static int note(struct verbs_fabric *f, const struct loci_memkey *key,
                struct verbs_registration *memory)
{
    struct verbs_user *user;

    pthread_mutex_lock(&f->lock);
    user = place_of(f, key);
    if (user != NULL)
        user->memory = memory;
    pthread_mutex_unlock(&f->lock);
    return user != NULL ? LOCO_OK : LOCO_ERR_NO_MEMORY;
}

static struct verbs_registration *unnote(struct verbs_fabric *f, const struct loci_memkey *key)
{
    uint32_t place = loci_shm_user_place(key->extent);
    struct verbs_registration *memory = NULL;

    pthread_mutex_lock(&f->lock);
    if (place < f->users_room) {
        memory = f->users[place].memory;
        f->users[place].memory = NULL;
    }
    pthread_mutex_unlock(&f->lock);
    return memory;
}

int loci_verbs_user_add(struct loci_fabric *fabric, void *base, size_t len,
                        struct loci_memkey *key)
{
    struct verbs_fabric *f = verbs_of(fabric);
    struct verbs_user user = { NULL };
    int status = loci_fabric_shm.user_add(verbs_shm(fabric), base, len, key);

    if (status != LOCO_OK || len == 0)
        return status;
    status = register_user(f, base, len, &user, &key->device);
    if (status == LOCO_OK) {
        status = note(f, key, user.memory);
        if (status != LOCO_OK)
            loci_verbs_unregister(f, user.memory);
    }
    if (status != LOCO_OK)
        loci_fabric_shm.user_remove(verbs_shm(fabric), key);
    return status;
}

/* The place is another's as soon as shm has it back. */
void loci_verbs_user_remove(struct loci_fabric *fabric, const struct loci_memkey *key)
{
    struct verbs_fabric *f = verbs_of(fabric);
    struct verbs_registration *memory = unnote(f, key);

    loci_fabric_shm.user_remove(verbs_shm(fabric), key);
    if (memory != NULL)
        loci_verbs_unregister(f, memory);
}

void loci_verbs_users_close(struct verbs_fabric *f)
{
    for (uint32_t i = 0; i < f->users_room; i++)
        if (f->users[i].memory != NULL)
            loci_verbs_unregister(f, f->users[i].memory);
    free(f->users);
    f->users = NULL;
    f->users_room = 0;
}
