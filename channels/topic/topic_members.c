/* SPDX-License-Identifier: BSD-3-Clause */

/* Topics: members that die or leave, and the end of a topic.
 *
 * The view's thread hears of it, between two views. It notes it, and has the poller tell the
 * program: so of one topic no two callbacks run at the same time. The multicast gives nothing while
 * the view's thread is in `changed`, and the poller looks here before it hands samples out. So the
 * events come before the first sample of the new view. */

#include "config.h"

#include "topic.h"
#include "view/view.h"

/* By the view's thread, which is started when t->view is set. */
void loci_topic_changed(void *arg, uint64_t number, const int *members, int n)
{
    struct loco_topic *t = arg;
    uint64_t present = 0, lost, left;

    (void)number;
    for (int i = 0; i < n; i++)
        present |= loci_view_bit(members[i]);
    if (n > 0) {
        lost = t->members & ~present;
        left = lost & loci_view_left(t->view);
        t->members = present;
        atomic_fetch_or(&t->left, left);
        atomic_fetch_or(&t->gone, lost & ~left);
    } else {
        atomic_store(&t->ended, loco_view_members(t->view, NULL, NULL, NULL));
    }
    loci_polled_call(t->polled);
}

/* Without a view. */
void loci_topic_ended(struct loco_topic *t)
{
    for (int rank = 0; rank < t->ep->group.size; rank++)
        if (loco_group_alive(&t->ep->group, rank) == LOCO_ERR_PEER_DEAD) {
            loci_topic_tell(t, LOCO_TOPIC_MEMBER_GONE, rank);
            break;
        }
    loci_topic_tell(t, LOCO_TOPIC_ENDED, LOCO_ERR_PEER_DEAD);
}

bool loci_topic_has_news(const struct loco_topic *t)
{
    return (atomic_load_explicit(&t->gone, memory_order_relaxed)
            | atomic_load_explicit(&t->left, memory_order_relaxed)) != t->told_of
           || atomic_load_explicit(&t->ended, memory_order_relaxed) != t->told_end;
}

static void tell_all(struct loco_topic *t, enum loco_topic_event event, uint64_t set)
{
    uint64_t news = set & ~t->told_of;

    t->told_of |= set;
    for (int rank = 0; rank < LOCI_VIEW_MEMBERS; rank++)
        if (loci_view_has(news, rank))
            loci_topic_tell(t, event, rank);
}

void loci_topic_tell_news(struct loco_topic *t)
{
    tell_all(t, LOCO_TOPIC_MEMBER_GONE, atomic_load(&t->gone));
    tell_all(t, LOCO_TOPIC_MEMBER_LEFT, atomic_load(&t->left));
    if (atomic_load(&t->ended) != t->told_end) {
        t->told_end = atomic_load(&t->ended);
        loci_topic_tell(t, LOCO_TOPIC_ENDED, t->told_end);
    }
}
