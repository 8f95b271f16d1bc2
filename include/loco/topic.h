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
 * Publishers of a topic publish samples, and the handler of each subscriber receives all of them. A
 * topic is an atomic multicast (loco_multicast(3)) of a view (loco_view(3)) with the services of a
 * data bus: samples are kept for late subscribers, samples are appended to a log file, and late
 * samples are reported.
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
 * | _publish        | publishers  | yes        | no     | the sample has its place in this member's order |
 * | _post           | publishers  | yes        | as _reserve | the same |
 * | _try_post       | publishers  | yes        | no     | the same |
 * | _wait_delivered | publishers  | yes        | until then | it is delivered at every member, as defined below |
 * | _subscribe      | members with a handler | yes | no | the handler will be called |
 * | _logged         | members with a log file | yes | no     | |
 * | _wait_synced    | members with a log file | yes | until then | that record is on the disk |
 * | _create, _destroy | all       | of other names; with nothing | _destroy: until the log file is synced | |
 *
 * In this page, "log file" is a topic's file of samples, and "the messages" are what the library
 * reports about errors (loco_log(3)).
 *
 * Levels. Each includes the ones before it:
 * LOCO_TOPIC_UNORDERED: a sample is handed out on arrival. The samples of one publisher are in
 * order.
 * LOCO_TOPIC_ATOMIC: all members receive all samples in the same order. A sample is handed out only
 * when all members have received it.
 * LOCO_TOPIC_KEPT: each member also keeps the last samples in memory, for the time when it
 * subscribes.
 * LOCO_TOPIC_LOGGED: a member that names a log file also has all samples appended to it.
 *
 * Delivered: a member counts a sample as delivered when the sample is kept (LOCO_TOPIC_KEPT), when
 * it is written to the member's log file, though not yet synced (LOCO_TOPIC_LOGGED), and when the
 * handler has returned from the call that contained it. A member that has no handler, or has not
 * subscribed, needs no handler call for this. So after _wait_delivered all subscribers have handled
 * the sample, and all log files contain it.
 *
 * Late subscribers: a member that was created without `subscribe` calls loco_topic_subscribe at any
 * later time. On levels with history its handler first receives the kept samples, which are the
 * last `history` ones, within `history_bytes`. Then it receives each new one. Every sample comes
 * once, and none is missing in between. The event LOCO_TOPIC_SUBSCRIBED separates the two. On other
 * levels the handler receives the samples that are delivered from then on.
 *
 * Log files: a record is appended for each sample that is delivered at this member, whether it has
 * subscribed or not, before the handler is called. loco_topic_logged returns the last record that
 * is written, and the last that is on the disk. When a file is opened, an incomplete record that a
 * crash left at its end is cut off; complete records are never removed. A damaged file is refused
 * (loco-log(1)). If writing fails later, for example because the disk is full, the topic continues
 * without the log file, and the event LOCO_TOPIC_LOG_ENDED reports it. loco_topic_replay reads a
 * file.
 *
 * Handlers are called by the runtime's poller, one thread for all multicasts, stores and topics of
 * a process. loco_multicast(3) says what they may do, and that a slow one slows down all members.
 * No two callbacks of a topic run at the same time.
 *
 * Compatibility: all members pass the same publishers, slots, slot_bytes and order (unordered or
 * not). The level of a publisher is the one that it offers, that of a subscriber the one that it
 * requests. If a publisher offers less than a subscriber requests, loco_runtime_wait_ready returns
 * LOCO_ERR_MISMATCH at both, and both members log an error that names the two members.
 *
 * Process failures: when a member dies, destroys the topic or closes its runtime, the others
 * continue without it. They receive the event LOCO_TOPIC_MEMBER_GONE or LOCO_TOPIC_MEMBER_LEFT
 * before the first sample that is delivered without this member. All survivors receive the same
 * samples from the lost member, and every sample from each other. loco_view(3) has the guarantees,
 * and says when a living member has to stop; the `view` option takes its flags. Such a member
 * receives the event LOCO_TOPIC_ENDED, and all its calls return LOCO_ERR_PARTITIONED from then on.
 * Its log file remains.
 *   Topics on level LOCO_TOPIC_UNORDERED, and those of more than 64 members, have a fixed
 * membership: a death ends them for all members. Each member receives the events
 * LOCO_TOPIC_MEMBER_GONE, for one dead member, and LOCO_TOPIC_ENDED. All its calls return
 * LOCO_ERR_PEER_DEAD from then on, also those that wait for a slot or a delivery. A member destroys
 * such a topic when no other member needs it any more, that is when all samples are delivered: each
 * publisher calls _wait_delivered, then all meet at a barrier.
 * Visibility: a sample makes no other data visible. To announce data that was written elsewhere,
 * fence first, then publish.
 * Source: the data distribution service of Jha, Rosa and Birman, "Spindle" (ICDCS 2022), section 4.
 * The format of log files and the way a late subscriber catches up are our own.
 *
 * \see loco_multicast(3), loco_view(3), loco-log(1)
 * @{ */
typedef struct loco_topic loco_topic_t;

/** Each level includes the ones before it. */
enum loco_topic_level {
    LOCO_TOPIC_UNORDERED = 0,   /**< each publisher's samples in order (DDS: RELIABLE, VOLATILE) */
    LOCO_TOPIC_ATOMIC = 1,      /**< one order for all (DDS has no such level) */
    LOCO_TOPIC_KEPT = 2,        /**< the last ones are kept in memory (DDS: TRANSIENT_LOCAL) */
    LOCO_TOPIC_LOGGED = 3       /**< and all appended to a file (DDS: PERSISTENT) */
};

/** When a log file is synced to the disk. */
enum loco_topic_sync {
    LOCO_TOPIC_SYNC_BATCH = 0,  /**< after each batch of samples, as soon as the disk can */
    LOCO_TOPIC_SYNC_SECOND = 1, /**< once a second, and for loco_topic_wait_synced */
    LOCO_TOPIC_SYNC_NEVER = 2   /**< when the system does: a crash of the machine may lose more */
};

/** A sample as the handler receives it. */
typedef struct loco_sample {
    const void *data;           /**< read-only; aligned to 16 bytes, from loco_topic_replay to
                                     8 */
    size_t bytes;               /**< 0 to slot_bytes */
    int publisher;              /**< its publisher's rank in the group */
    int kept;                   /**< 1: it was kept before this member subscribed */
    uint64_t number;            /**< its place in the order: increases, with gaps; unordered: in its
                                     publisher's order */
    uint64_t record;            /**< the number of its record in the log file; 0: none */
} loco_sample_t;

/** Called in the poller with the next `n` samples in order, at most 128. `arg` is that of the
 * options. The samples are invalid when the handler has returned. */
typedef void loco_topic_handler_t(void *arg, const loco_sample_t *samples, int n);

/** Events other than samples, and what `value` is for each. */
enum loco_topic_event {
    LOCO_TOPIC_SUBSCRIBED,      /**< the kept samples have been handed out: their number */
    LOCO_TOPIC_DEADLINE_MISSED, /**< no sample came for deadline_ns: how often so far */
    LOCO_TOPIC_MEMBER_GONE,     /**< a member has died, or is taken for dead: its rank */
    LOCO_TOPIC_LOG_ENDED,       /**< the log file failed: the number of its last record */
    LOCO_TOPIC_MEMBER_LEFT,     /**< a member has destroyed the topic, or closed its runtime: its
                                     rank */
    LOCO_TOPIC_ENDED            /**< the topic has ended for this member: the status of its calls */
};

/** Called in the poller. */
typedef void loco_topic_event_handler_t(void *arg, enum loco_topic_event event, int64_t value);

/** Options of a topic. A zero stands for the default. */
typedef struct loco_topic_options {
    const int *publishers;      /**< ranks of the `npublishers` members that publish, the same
                                     at all members. NULL: all members */
    int npublishers;
    int level;                  /**< enum loco_topic_level: offered by publishers, requested by
                                     others */
    int slots;                  /**< undelivered samples that a publisher may have; 0: 100 */
    size_t slot_bytes;          /**< of the longest sample; 0: 10 KiB */
    int subscribe;              /**< 1: the handler is called from the beginning */
    loco_topic_handler_t *handler;          /**< NULL: this member does not subscribe */
    loco_topic_event_handler_t *event;      /**< NULL: no events */
    void *arg;                  /**< for both callbacks */
    int history;                /**< levels with history: the maximum number of kept samples; 0: as
                                     many as history_bytes allow, or 1 if that is 0, too */
    size_t history_bytes;       /**< memory for them; a sample takes its bytes and 48 more; 0: as
                                     much as `history` samples need */
    int64_t deadline_ns;        /**< the longest time between two samples; 0: no deadline */
    const char *log;            /**< LOCO_TOPIC_LOGGED: this member's log file; NULL: none */
    int sync;                   /**< enum loco_topic_sync */
    int view;                   /**< whether a minority continues: enum loco_view_flags, or 0 */
} loco_topic_options_t;

/** Create a topic. All members of `group` call it (`parent` and `name`: loco(3)). It is usable once
 * the runtime is ready (loco_runtime_wait_ready). Local, except that an existing log file is read.
 * Errors: LOCO_ERR_ARG (a message says which option), LOCO_ERR_NAME, LOCO_ERR_NO_MEMORY,
 * LOCO_ERR_SYSTEM (no thread, or the file; a message says why), LOCO_ERR_STATE (the file is in use;
 * or the call is in a callback), LOCO_ERR_MISMATCH (the file belongs to another topic),
 * LOCO_ERR_DAMAGED (the file is damaged), LOCO_ERR_UNSUPPORTED (a later version wrote it).
 * _destroy leaves the topic, and the others continue. Samples of this member that are not delivered
 * yet may be lost (_wait_delivered). The log file is synced first, unless `sync` is
 * LOCO_TOPIC_SYNC_NEVER. Do not call it in a callback. NULL is allowed. */
int loco_topic_create(loco_runtime_t *rt, const char *parent, const char *name,
                      const loco_group_t *group, const loco_topic_options_t *options,
                      loco_topic_t **topic);
void loco_topic_destroy(loco_topic_t *t);

/** For publishers: take a slot, like loco_multicast_reserve and loco_multicast_try_reserve. The
 * caller then builds a sample of up to slot_bytes bytes at `*slot`, which is aligned to 16 bytes.
 * LOCO_ERR_STATE: this member does not publish. LOCO_ERR_AGAIN: no slot is free; _reserve returns
 * it only in a callback. LOCO_ERR_PEER_DEAD, LOCO_ERR_PARTITIONED: the topic has ended. */
int loco_topic_reserve(loco_topic_t *t, void **slot);
int loco_topic_try_reserve(loco_topic_t *t, void **slot);

/** For publishers: publish the first `bytes` bytes of a reserved slot. `*number`, unless `number`
 * is NULL, becomes the sample's number among those of this member, from 1 on. Errors: those of
 * loco_multicast_send. */
int loco_topic_publish(loco_topic_t *t, void *slot, size_t bytes, uint64_t *number);

/** For publishers: reserve a slot, copy `bytes` bytes from `data` into it and publish it. Errors:
 * those of _reserve, and LOCO_ERR_ARG (the sample is longer than slot_bytes). */
int loco_topic_post(loco_topic_t *t, const void *data, size_t bytes, uint64_t *number);
int loco_topic_try_post(loco_topic_t *t, const void *data, size_t bytes, uint64_t *number);

/** For publishers: wait until this member's sample `number`, and so all its earlier ones, are
 * delivered at every member. "Delivered" is defined above. LOCO_ERR_ARG: no sample has that number
 * yet. LOCO_ERR_AGAIN: in a callback. */
int loco_topic_wait_delivered(loco_topic_t *t, uint64_t number);

/** Subscribe: the handler receives the kept samples, then each new one. Does not wait. If this
 * member has subscribed already, nothing happens. LOCO_ERR_STATE: this member has no handler. */
int loco_topic_subscribe(loco_topic_t *t);

/** The numbers of the last record that is written to the log file, and of the last one that is on
 * the disk with all before it; 0: none. Each pointer may be NULL. LOCO_ERR_STATE: this member has
 * no log file. Local. */
int loco_topic_logged(const loco_topic_t *t, uint64_t *written, uint64_t *synced);

/** Wait until record `record` is on the disk, for at most `timeout_ns` nanoseconds (LOCO_FOREVER:
 * without limit), then return LOCO_ERR_TIMEOUT. LOCO_ERR_ARG: the record is not written yet.
 * LOCO_ERR_STATE: there is no log file, or it is never synced. LOCO_ERR_SYSTEM: the log file has
 * failed. LOCO_ERR_AGAIN: in a callback. */
int loco_topic_wait_synced(loco_topic_t *t, uint64_t record, int64_t timeout_ns);

/** Read a log file: call `handler(arg, samples, n)` in this thread with all records from number
 * `from` on, in order, one at a time. An incomplete record at the end is left out. Problems are
 * reported to the log hook of `rt` (loco_log(3)).
 * Errors: LOCO_ERR_SYSTEM, LOCO_ERR_ARG (not a log file), LOCO_ERR_UNSUPPORTED, LOCO_ERR_NO_MEMORY,
 * LOCO_ERR_DAMAGED (the records before the damage have been handed out). If there is no file, or it
 * has no record, the call returns LOCO_OK. Thread-safe, also while the file is written. */
int loco_topic_replay(loco_runtime_t *rt, const char *path, uint64_t from,
                      loco_topic_handler_t *handler, void *arg);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
