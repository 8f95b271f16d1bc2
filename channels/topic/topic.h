/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TOPIC_H
#define LOCI_TOPIC_H

/* Shared by the files of this folder. topic.c says how a topic works. */

#include <loco/multicast.h>
#include <loco/view.h>
#include <loco/topic.h>

#include "names/endpoint.h"
#include "threads/poller.h"
#include "threads/worker.h"
#include "topic_history.h"

#define LOCI_TOPIC_BATCH 128        /* samples that a handler is given at a time, at most */

/* Whether this member's handler is called. */
enum { LOCI_TOPIC_SILENT, LOCI_TOPIC_ASKED, LOCI_TOPIC_ON };

struct loco_topic {
    struct loco_runtime *rt;
    struct loci_endpoint *ep;
    loco_view_t *view;              /* NULL: its members are fixed, a death ends it */
    loco_multicast_t *m;            /* of the view, if there is one */
    int level;
    loco_topic_handler_t *handler;
    loco_topic_event_handler_t *event;
    void *arg;
    struct loci_polled *polled;
    _Atomic int state;
    /* The poller's. */
    bool keeps, log_ended;
    struct loci_topic_history history;
    struct loci_topic_log *log;     /* nullable */
    /* Members: topic_members.c. The first by the view's thread, the next three by that for the
     * poller, which has told of the rest. Sets of ranks, and a status. */
    uint64_t members;
    _Atomic uint64_t gone, left;
    _Atomic int ended;
    uint64_t told_of;
    int told_end;
    /* The deadline: topic_watch.c. */
    int64_t deadline_ns;            /* 0: none */
    struct loci_worker *watcher;
    _Atomic int64_t last;           /* when something was delivered */
    _Atomic int64_t missed;         /* deadlines, as the watcher counts them */
    int64_t told;                   /* as the poller has told them */
    _Atomic bool stops;
    _Atomic int waits;              /* the watcher sleeps, or is about to */
};

/* topic_deliver.c: the multicast's handler, and the topic's part in the poller. */
void loci_topic_deliver(void *topic, const loco_delivery_t *messages, int n);
void loci_topic_tell(const struct loco_topic *t, enum loco_topic_event event, int64_t value);
extern const struct loci_polled_ops loci_topic_polled_ops;

/* topic_members.c: the view's `changed`; by the poller: what is to be told of it, and the end of a
 * topic that has no view. */
void loci_topic_changed(void *topic, uint64_t number, const int *members, int n);
bool loci_topic_has_news(const struct loco_topic *t);
void loci_topic_tell_news(struct loco_topic *t);
void loci_topic_ended(struct loco_topic *t);

/* topic_log.c: the log, if there is one. Open sets t->log. Append: `first` becomes the record of
 * the first message, also where it fails. */
struct loci_topic_log;
int loci_topic_log_open(struct loco_topic *t, const char *parent, const char *name,
                        const loco_topic_options_t *o);
void loci_topic_log_close(struct loci_topic_log *log);
int loci_topic_log_append(struct loci_topic_log *log, const loco_delivery_t *messages, int n,
                          uint64_t *first);

/* topic_watch.c: a thread that notices missed deadlines, and has the poller tell of them. */
int loci_topic_watch_begin(struct loco_topic *t);
void loci_topic_watch_end(struct loco_topic *t);

#endif
