/* SPDX-License-Identifier: BSD-3-Clause */

/* See scenario_tree.h. All that live have done what they wanted to, and one of them looks: at all
 * nodes, level by level, so that each has the keys between its fences, its neighbours begin where
 * it ends, and the nodes above name just those that there are; at all values; and whether any
 * object is there that no node names. */

#include "config.h"

#include "scenario_tree.h"

#include "hash_survey.h"
#include "tree_survey.h"

#define TRIES 10                        /* what the dead had begun may still come */
#define PAUSE 20000                     /* ns */

/* Objects are those of the tree, and no more. */
static int count(const struct tree_user *u, uint64_t objects, char why[SIM_TREE_WHY])
{
    loco_store_scavenged_t found = { 0 };
    int status = loco_store_scavenge(u->store, &found);

    if (status == LOCO_OK && found.objects != objects)
        snprintf(why, SIM_TREE_WHY, "%llu objects are there, and the tree has %llu",
                 (unsigned long long)found.objects, (unsigned long long)objects);
    return status;
}

/* Each key once more, and all of them. */
static int look_up_all(struct tree_client *c)
{
    for (uint64_t key = 0; key < tree_keys(c->u->s); key++)
        PASS(tree_get(c, key));
    return tree_scan(c, 0, tree_keys(c->u->s), 0);
}

static int survey_once(struct tree_client *c, uint64_t *objects, char why[SIM_TREE_WHY])
{
    return c->hash != NULL ? sim_hash_survey(c->hash, c->u->s->grows, objects, why)
           : sim_tree_survey(c->tree, objects, why);
}

/* What the dead had begun comes; and look-ups make the directory of a table complete. */
static void pass_time(struct tree_client *c)
{
    unsigned char bytes[TREE_KEY_BYTES];
    size_t len;

    loci_sim_sleep(PAUSE);
    for (uint64_t i = 0; i < tree_keys(c->u->s) && c->hash != NULL; i++)
        (void)map_get(c, tree_key(c->u->s, i, bytes), NULL, 0, &len);
}

static int survey(struct tree_client *c)
{
    bool counts = sim_any_stopped(c->u->run) || loci_sim_draw(8) == 0;
    char why[SIM_TREE_WHY] = "";
    int status = LOCO_OK;

    for (int i = 0; i < TRIES; i++) {
        uint64_t objects;

        status = survey_once(c, &objects, why);
        if (status == LOCO_OK && why[0] == '\0' && counts)
            status = count(c->u, objects, why);
        if (status == LOCO_ERR_PEER_DEAD && tree_host_died(c->u))
            return SIM_FINE;
        if (status == LOCO_OK && why[0] == '\0')
            return SIM_FINE;
        pass_time(c);
    }
    return loci_sim_fail("the tree is not whole: %s", status == LOCO_OK ? why
                         : loco_strerror(status));
}

int tree_end(struct tree_user *u)
{
    struct tree_client c;

    PASS(tree_open(u, 0, &c));
    c.made = 512;                       /* numbers that nobody else gives */
    PASS(look_up_all(&c));
    PASS(survey(&c));
    tree_close(&c);
    return SIM_FINE;
}
