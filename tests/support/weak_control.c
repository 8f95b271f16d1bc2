/* SPDX-License-Identifier: BSD-3-Clause */

/* Control messages of the fabric for tests: letters that lie with whom they are for until its
 * service thread takes them. With faults they are lost, doubled, garbled, late, or out of order. */

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service.h"
#include "weak_world.h"

/* In percent; under the lock. */
static bool happens(struct weak_world *world, unsigned percent)
{
    return percent != 0 && weak_draw(world) % 100 < percent;
}

/* The letter that arrives next: the first one, or, with faults, the first one of some sender, or
 * any. Under the lock. */
static struct letter **next_letter(struct loci_fabric *f)
{
    struct weak_world *world = f->world;
    struct letter **link = &f->letters, **first = &f->letters;
    unsigned count = 0, at;

    for (struct letter *letter = f->letters; letter != NULL; letter = letter->next)
        count++;
    if (world->faults == NULL || count == 0)
        return link;
    for (at = (unsigned)(weak_draw(world) % count); at > 0; at--)
        link = &(*link)->next;
    if (happens(world, world->faults->overtake))
        return link;
    while ((*first)->from != (*link)->from)
        first = &(*first)->next;
    return first;
}

/* NULL: none, or they are delayed. */
static struct letter *take_letter(struct loci_fabric *f, struct loci_peer **from)
{
    struct weak_world *world = f->world;
    struct letter **link, *letter = NULL;

    pthread_mutex_lock(&world->lock);
    link = next_letter(f);
    if (*link != NULL && (world->faults == NULL || !happens(world, world->faults->delay))) {
        letter = *link;
        *link = letter->next;
        if (*link == NULL)
            f->last_letter = link;
        *from = f->peer[letter->from];
    }
    pthread_mutex_unlock(&world->lock);
    return letter;
}

void weak_on_letters(struct loco_runtime *rt, void *ctx, int fd, uint32_t events)
{
    struct loci_fabric *f = ctx;
    struct loci_peer *from = NULL;
    struct letter *letter;
    uint64_t count;

    (void)events;
    if (read(fd, &count, sizeof count) < 0)
        return;
    while ((letter = take_letter(f, &from)) != NULL) {
        if (from != NULL && !atomic_load(&f->dead))
            loci_control_receive(rt, from->index, letter->bytes, letter->len);
        free(letter);
    }
}

/* Under the lock. */
static int put_letter(struct loci_fabric *f, struct loci_fabric *to, const void *message,
                      size_t len)
{
    const struct weak_faults *faults = f->world->faults;
    int number = f->world->letters++;
    struct letter *letter;

    if (faults != NULL
        && (happens(f->world, faults->lose)
            || (number < 64 && (faults->lose_these >> number & 1) != 0)))
        return LOCO_OK;
    letter = calloc(1, sizeof *letter);
    if (letter == NULL || len > sizeof letter->bytes) {
        free(letter);
        return LOCO_ERR_NO_MEMORY;
    }
    letter->from = f->rank;
    letter->len = len;
    memcpy(letter->bytes, message, len);
    if (faults != NULL && happens(f->world, faults->garble))
        letter->bytes[weak_draw(f->world) % len] ^= (unsigned char)(1u << weak_draw(f->world) % 8);
    *to->last_letter = letter;
    to->last_letter = &letter->next;
    return LOCO_OK;
}

int weak_control_send(struct loci_fabric *f, struct loci_peer *peer, const void *message,
                      size_t len)
{
    struct loci_fabric *to = &f->world->member[peer->address.identity - WEAK_IDENTITY];
    const struct weak_faults *faults = f->world->faults;
    uint64_t one = 1;
    int status;

    if (atomic_load(&to->dead))
        return LOCO_ERR_PEER_DEAD;
    pthread_mutex_lock(&f->world->lock);
    status = to->closed ? LOCO_ERR_PEER_DEAD : put_letter(f, to, message, len);
    if (status == LOCO_OK && faults != NULL && happens(f->world, faults->twice))
        status = put_letter(f, to, message, len);
    /* Under the lock: the number of a closed event may soon be another's. */
    if (status == LOCO_OK && write(to->event, &one, sizeof one) != sizeof one)
        status = LOCO_ERR_SYSTEM;
    pthread_mutex_unlock(&f->world->lock);
    return status;
}
