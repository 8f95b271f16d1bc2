/* SPDX-License-Identifier: BSD-3-Clause */

/* What was made and not destroyed yet. */

#include "config.h"

#include "living.h"
#include "runtime.h"

#define SAID 10                         /* lines; a program that forgets one may forget thousands */

void loci_living_add(struct loco_runtime *rt, struct loci_living *living)
{
    if (living->destroy == NULL)
        return;
    pthread_mutex_lock(&rt->living_lock);
    living->before = rt->youngest;
    living->after = NULL;
    if (rt->youngest != NULL)
        rt->youngest->after = living;
    else
        rt->oldest = living;
    rt->youngest = living;
    pthread_mutex_unlock(&rt->living_lock);
}

void loci_living_remove(struct loco_runtime *rt, struct loci_living *living)
{
    if (living->destroy == NULL)
        return;
    pthread_mutex_lock(&rt->living_lock);
    if (living->before != NULL)
        living->before->after = living->after;
    else
        rt->oldest = living->after;
    if (living->after != NULL)
        living->after->before = living->before;
    else
        rt->youngest = living->before;
    pthread_mutex_unlock(&rt->living_lock);
    living->destroy = NULL;
}

void loci_living_end(struct loco_runtime *rt)
{
    unsigned n = 0;

    for (struct loci_living *living; (living = rt->oldest) != NULL; n++) {
        if (n < SAID)
            LOCI_LOG(rt, LOCO_LOG_WARN, "%s%s%s was not destroyed before its runtime closes: it "
                     "is now", living->type, living->name[0] != '\0' ? " " : "", living->name);
        living->destroy(living->object);
    }
    if (n > SAID)
        LOCI_LOG(rt, LOCO_LOG_WARN, "%u more were not destroyed before their runtime closes: they "
                 "are now", n - SAID);
}
