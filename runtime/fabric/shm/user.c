/* SPDX-License-Identifier: BSD-3-Clause */

/* Memory that the user brought: what peers may ask this process to copy. A place in a table for
 * each; its number is that place and how often it was used before, so that the number of memory
 * that is gone says nothing until its place was used 2^36 times more. */

#include "config.h"

#include <stdlib.h>

#include "shm.h"

static int add(struct shm_fabric *f, const struct shm_user *user, uint64_t *number)
{
    struct shm_user *place;

    if (f->free_user == SHM_NO_USER) {
        uint32_t room = f->users_room > 0 ? 2 * f->users_room : 16;
        struct shm_user *more;

        if (room > SHM_USERS)
            return LOCO_ERR_NO_MEMORY;
        more = realloc(f->users, room * sizeof more[0]);
        if (more == NULL)
            return LOCO_ERR_NO_MEMORY;
        for (uint32_t i = f->users_room; i < room; i++)
            more[i] = (struct shm_user){ .number = SHM_USERS + i,
                                         .next = i + 1 < room ? i + 1 : SHM_NO_USER };
        f->users = more;
        f->free_user = f->users_room;
        f->users_room = room;
    }
    place = &f->users[f->free_user];
    f->free_user = place->next;
    place->base = user->base;
    place->len = user->len;
    place->next = SHM_USED;
    *number = place->number;
    return LOCO_OK;
}

int loci_shm_user_add(struct loci_fabric *fabric, void *base, size_t len, struct loci_memkey *key)
{
    struct shm_fabric *f = shm_of(fabric);
    const struct shm_user user = { .base = (uintptr_t)base, .len = len };
    uint64_t number;
    int status;

    if (len > UINTPTR_MAX - (uintptr_t)base)
        return LOCO_ERR_ARG;
    pthread_mutex_lock(&f->lock);
    status = add(f, &user, &number);
    pthread_mutex_unlock(&f->lock);
    if (status == LOCO_OK)
        key->extent = number;
    return status;
}

struct shm_user *loci_shm_user(struct shm_fabric *f, uint64_t number)
{
    uint32_t place = loci_shm_user_place(number);
    struct shm_user *user;

    if (place >= f->users_room)
        return NULL;
    user = &f->users[place];
    return user->next == SHM_USED && user->number == number ? user : NULL;
}

void loci_shm_user_remove(struct loci_fabric *fabric, const struct loci_memkey *key)
{
    struct shm_fabric *f = shm_of(fabric);
    struct shm_user *user;

    pthread_mutex_lock(&f->lock);
    user = loci_shm_user(f, key->extent);
    if (user != NULL) {
        user->number = (user->number + SHM_USERS) & LOCI_MEMKEY_MOST;
        user->next = f->free_user;
        f->free_user = loci_shm_user_place(key->extent);
    }
    pthread_mutex_unlock(&f->lock);
}
