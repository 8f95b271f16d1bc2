/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_TOPIC_H
#define LOCI_TOPIC_H

/* Shared by the files of this folder. topic.c says how a topic works. */

#include <loco/multicast.h>
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
    loco_multicast_t *m;
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
extern const struct loci_polled_ops loci_topic_polled_ops;

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
