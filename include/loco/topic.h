/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_TOPIC_H
#define LOCO_TOPIC_H

#include <stddef.h>
#include <stdint.h>

#include <loco/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup topic Topics: publish and subscribe
 *
 * Publishers of a topic publish samples; each subscriber's handler is given all of them. A topic is
 * an atomic multicast (loco_multicast(3)) of a view (loco_view(3)) with what a bus for data has
 * beside: samples that are kept for whoever subscribes later, samples that are logged to a file, a
 * deadline.
 *
 *     static void show(void *arg, const loco_sample_t *samples, int n)
 *     {
 *         for (int i = 0; i < n; i++)
 *             printf("%.*s\n", (int)samples[i].bytes, (const char *)samples[i].data);
 *     }
 *
 *     const int stations[] = { 0, 1 };
 *     loco_topic_options_t o = { .publishers = stations, .npublishers = 2, .handler = show,
 *                                .subscribe = 1, .level = LOCO_TOPIC_KEPT, .history = 10 };
 *     loco_topic_create(rt, NULL, "weather", loco_everyone(rt), &o, &t);
 *     loco_runtime_wait_ready(rt, LOCO_FOREVER);
 *     loco_topic_post(t, "rain", 4, NULL);
 *
 * | call            | by whom     | concurrent | blocks | when it returns LOCO_OK |
 * |-----------------|-------------|------------|--------|--------------------------|
 * | _reserve        | publishers  | yes        | until a slot is free | the caller has the slot |
 * | _try_reserve    | publishers  | yes        | no     | the same |
 * | _publish        | publishers  | yes        | no     | the sample has its place |
 * | _post           | publishers  | yes        | as _reserve | the same |
 * | _try_post       | publishers  | yes        | no     | the same |
 * | _wait_delivered | publishers  | yes        | until then | every member has been given it |
 * | _subscribe      | members with a handler | yes | no | the handler will be called |
 * | _logged         | members with a log | yes | no     | |
 * | _wait_synced    | members with a log | yes | until then | that record is on the disk |
 * | _create, _destroy | all       | of other names; with nothing | _destroy: for the log | |
 *
 * Levels, each with what those before it have:
 * LOCO_TOPIC_UNORDERED: a sample is handed out on arrival, each publisher's in order.
 * LOCO_TOPIC_ATOMIC: all members are given all samples in the same order, and only such as all
 * members have received.
 * LOCO_TOPIC_KEPT: each member keeps the last samples in memory for when it subscribes.
 * LOCO_TOPIC_LOGGED: a member that names a file has all samples appended to it.
 *
 * Late subscribers: a member that was made without `subscribe` calls loco_topic_subscribe when it
 * wants to. On levels with history its handler is then given the kept samples, at most the
 * last `history` and within `history_bytes`, then each new one: every sample once, none is missing
 * between the two. The event LOCO_TOPIC_SUBSCRIBED comes in between. On other levels it is given
 * what is delivered from then on.
 *
 * Logs: a record is appended for each sample that is delivered to this member, whether it has
 * subscribed or not, before the handler is called. loco_topic_logged says up to which record the
 * file has been written, and up to which it is on the disk. At the start, what a crash left of a
 * record at the file's end is cut off, and no whole record is; a damaged file is refused
 * (loco-log(1)). If the log fails later, because the disk is full, the topic goes on without it,
 * and LOCO_TOPIC_LOG_ENDED says so. loco_topic_replay reads a file.
 *
 * Handlers are called by the runtime's poller, one thread for all multicasts, stores and topics of
 * a process; loco_multicast(3) says what they may do, and that a slow one slows all members. Of
 * one topic no two callbacks run at the same time.
 *
 * What fits: all members give the same publishers, slots, slot_bytes and order (unordered, or not).
 * A publisher's level is what it offers, a subscriber's what it requests: a publisher that offers
 * less than a subscriber requests does not fit. Then both sides' loco_runtime_wait_ready returns
 * LOCO_ERR_MISMATCH, and the log of both names both.
 *
 * Deaths: when a member dies, destroys the topic or closes its runtime, the others go on without
 * it. They are told by LOCO_TOPIC_MEMBER_GONE or LOCO_TOPIC_MEMBER_LEFT, before the first sample
 * that is delivered without it. All who go on are given the same samples of it, and all their own.
 * loco_view(3) has the promises, and says when a member that lives has to stop; the `view` option
 * is its flags. Such a member is told LOCO_TOPIC_ENDED, and all calls return LOCO_ERR_PARTITIONED
 * from then on. What was logged stays.
 *   Topics on level LOCO_TOPIC_UNORDERED, and those of more than 64 members, have fixed members: a
 * death ends them, with LOCO_ERR_PEER_DEAD. A member destroys them when no other needs it any more:
 * all samples are delivered (_wait_delivered of each publisher, then a barrier).
 * Visibility: a sample orders nothing but itself. To tell of data written elsewhere, fence, then
 * publish.
 * Source: the data distribution service of Jha, Rosa and Birman, "Spindle" (ICDCS 2022), section 4.
 * The log's format and the way a late subscriber catches up are our own.
 * @{ */
typedef struct loco_topic loco_topic_t;

/** Each has what those before it have. */
enum loco_topic_level {
    LOCO_TOPIC_UNORDERED = 0,   /**< each publisher's samples in order (DDS: RELIABLE, VOLATILE) */
    LOCO_TOPIC_ATOMIC = 1,      /**< one order for all (DDS has no such level) */
    LOCO_TOPIC_KEPT = 2,        /**< the last are kept in memory (DDS: TRANSIENT_LOCAL) */
    LOCO_TOPIC_LOGGED = 3       /**< and logged to a file (DDS: PERSISTENT) */
};

/** When a log is written to the disk's medium. */
enum loco_topic_sync {
    LOCO_TOPIC_SYNC_BATCH = 0,  /**< after each batch of samples, as soon as the disk can */
    LOCO_TOPIC_SYNC_SECOND = 1, /**< once a second, and when somebody waits for it */
    LOCO_TOPIC_SYNC_NEVER = 2   /**< when the system does: a crash of the machine may lose more */
};

/** A sample, as the handler is given it. */
typedef struct loco_sample {
    const void *data;           /**< not to be written to; aligned to 16 bytes, but of
                                     loco_topic_replay to 8 */
    size_t bytes;               /**< 0 to slot_bytes */
    int publisher;              /**< its publisher's rank in the group */
    int kept;                   /**< 1: it was kept, for this member has subscribed later */
    uint64_t number;            /**< its place in the order: grows, not by 1; unordered: among its
                                     publisher's */
    uint64_t record;            /**< the log's number for it; 0: it is not logged */
} loco_sample_t;

/** Called in the poller with the next `n` samples in order, 128 at most; `arg` is the options'.
 * They are gone when it returns. */
typedef void loco_topic_handler_t(void *arg, const loco_sample_t *samples, int n);

/** What may happen beside. */
enum loco_topic_event {
    LOCO_TOPIC_SUBSCRIBED,      /**< the kept samples have been handed out: so many */
    LOCO_TOPIC_DEADLINE_MISSED, /**< no sample has come for deadline_ns: how often so far */
    LOCO_TOPIC_MEMBER_GONE,     /**< a member has died, or is taken for dead: its rank */
    LOCO_TOPIC_LOG_ENDED,       /**< nothing is logged any more: the last record's number */
    LOCO_TOPIC_MEMBER_LEFT,     /**< a member has destroyed the topic, or closed its runtime: its
                                     rank */
    LOCO_TOPIC_ENDED            /**< the topic has ended for this member: what its calls return */
};

/** Called in the poller. */
typedef void loco_topic_event_handler_t(void *arg, enum loco_topic_event event, int64_t value);

/** How a topic is made. Zero is the default of all but handler and log. */
typedef struct loco_topic_options {
    const int *publishers;      /**< ranks of the members that publish, `npublishers` of them, the
                                     same at all members. NULL: all members */
    int npublishers;
    int level;                  /**< enum loco_topic_level: offered by publishers, requested by
                                     others */
    int slots;                  /**< samples of a publisher that may be under way; 0: 100 */
    size_t slot_bytes;          /**< of the largest sample; 0: 10 KiB */
    int subscribe;              /**< 1: the handler is called from the beginning */
    loco_topic_handler_t *handler;          /**< NULL: this member does not subscribe */
    loco_topic_event_handler_t *event;      /**< NULL: nobody is told */
    void *arg;                  /**< of both */
    int history;                /**< levels with history: samples that are kept, at most; 0: as many
                                     as history_bytes allow, or 1 where that is 0 */
    size_t history_bytes;       /**< memory for them, 48 bytes more for each sample than it has; 0:
                                     what `history` samples need */
    int64_t deadline_ns;        /**< within which samples should follow each other; 0: none */
    const char *log;            /**< LOCO_TOPIC_LOGGED: this member's file; NULL: no log */
    int sync;                   /**< enum loco_topic_sync */
    int view;                   /**< whether a minority goes on: enum loco_view_flags, or 0 */
} loco_topic_options_t;

/** Make a topic. All members of `group` make it (`parent` and `name`: loco(3)). Usable once the
 * runtime is ready (loco_runtime_wait_ready). Local, but that a log is read through. Errors:
 * LOCO_ERR_ARG (the log says which option), LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY, LOCO_ERR_SYSTEM (no
 * thread, or the file: the log says what), LOCO_ERR_STATE (the file is in use; or in a callback),
 * LOCO_ERR_MISMATCH (it is of another topic), LOCO_ERR_DAMAGED (it is damaged),
 * LOCO_ERR_UNSUPPORTED (a later version wrote it).
 * _destroy leaves the topic: the others go on. What this member has published and was not
 * delivered yet may be lost (_wait_delivered). What is logged is synced then, but with
 * LOCO_TOPIC_SYNC_NEVER. Not in a callback; NULL is allowed. */
int loco_topic_create(loco_runtime_t *rt, const char *parent, const char *name,
                      const loco_group_t *group, const loco_topic_options_t *options,
                      loco_topic_t **topic);
void loco_topic_destroy(loco_topic_t *t);

/** A publisher: take a slot, in which the caller then builds a sample of up to slot_bytes bytes, at
 * `*slot`, aligned to 16 bytes. As loco_multicast_reserve and loco_multicast_try_reserve.
 * LOCO_ERR_STATE: this member is no publisher. LOCO_ERR_AGAIN: no slot is free; of _reserve only in
 * a callback. LOCO_ERR_PEER_DEAD, LOCO_ERR_PARTITIONED: the topic has ended. */
int loco_topic_reserve(loco_topic_t *t, void **slot);
int loco_topic_try_reserve(loco_topic_t *t, void **slot);

/** A publisher: publish the first `bytes` bytes of a slot that a reserve gave. `*number`, unless
 * `number` is NULL, becomes the sample's number among this member's, from 1 on. Errors: as of
 * loco_multicast_send. */
int loco_topic_publish(loco_topic_t *t, void *slot, size_t bytes, uint64_t *number);

/** A publisher: reserve a slot, copy `bytes` bytes from `data` there and publish it. */
int loco_topic_post(loco_topic_t *t, const void *data, size_t bytes, uint64_t *number);
int loco_topic_try_post(loco_topic_t *t, const void *data, size_t bytes, uint64_t *number);

/** A publisher: wait until every member has been given this member's sample `number`, and so all
 * its earlier ones. LOCO_ERR_ARG: no sample has that number yet. LOCO_ERR_AGAIN: in a callback. */
int loco_topic_wait_delivered(loco_topic_t *t, uint64_t number);

/** Have the handler called from now on, after it has been given what is kept. Does not wait.
 * Again, or where `subscribe` was given: nothing happens. LOCO_ERR_STATE: it has no handler. */
int loco_topic_subscribe(loco_topic_t *t);

/** The numbers of the last record that is written to the log, and of the last that is on the disk,
 * with all before it; 0: none. Each may be NULL. LOCO_ERR_STATE: there is no log. Local. */
int loco_topic_logged(const loco_topic_t *t, uint64_t *written, uint64_t *synced);

/** Wait until record `record` is on the disk, for `timeout_ns` at most: LOCO_ERR_TIMEOUT.
 * LOCO_ERR_ARG: it is not written yet. LOCO_ERR_STATE: there is no log, or it is never synced.
 * LOCO_ERR_SYSTEM: the log has failed. LOCO_ERR_AGAIN: in a callback. */
int loco_topic_wait_synced(loco_topic_t *t, uint64_t record, int64_t timeout_ns);

/** Read a log: `handler(arg, samples, n)` is called in this thread with all records from number
 * `from` on, in order, one at a time. A record that is torn at the end is left out. The log of `rt`
 * is told what is wrong.
 * Errors: LOCO_ERR_SYSTEM, LOCO_ERR_ARG (no log), LOCO_ERR_UNSUPPORTED, LOCO_ERR_NO_MEMORY,
 * LOCO_ERR_DAMAGED (after what is before the damage has been handed out). No file, or one without a
 * record: LOCO_OK. Thread-safe, also while the file is written. */
int loco_topic_replay(loco_runtime_t *rt, const char *path, uint64_t from,
                      loco_topic_handler_t *handler, void *arg);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
