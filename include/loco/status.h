/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_STATUS_H
#define LOCO_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup status Status codes
 *
 * Every call that can fail returns an int: LOCO_OK (0) for success, or a negative number for an
 * error. A few calls also return a positive number, and say so: LOCO_IN_PROGRESS from calls that
 * test, and, from calls that are given a callback (loco_tx_run, scans, lists), what the callback
 * returned to end them. The first function that detects an error logs its cause (loco_log(3)); its
 * callers only return the number. Outputs are written on success only.
 *
 * \see loco_log(3), loco_runtime(3)
 * @{ */
enum loco_status {
    LOCO_OK = 0,
    LOCO_IN_PROGRESS = 1,           /**< started, not finished: test or wait for its ack */

    /* The caller's mistake; nothing was written. */
    LOCO_ERR_ARG = -1,              /**< an argument is outside what the call documents */
    LOCO_ERR_RANGE = -2,            /**< offset and length reach outside the region */
    LOCO_ERR_STATE = -3,            /**< not allowed now: no epoch, lock held twice, not held */
    LOCO_ERR_NAME = -4,             /**< name in use here, empty or too long */
    LOCO_ERR_MISMATCH = -5,         /**< members made a channel of one name, or a
                                         window, differently; the log says in what */
    LOCO_ERR_SHARED = -6,           /**< that memory cannot be shared with this process */
    LOCO_ERR_ATTACH = -7,           /**< no attached memory there, or it overlaps what is */

    /* The machine said no; try later or with less. */
    LOCO_ERR_NO_MEMORY = -20,       /**< less memory is left than was asked for */
    LOCO_ERR_SYSTEM = -21,          /**< a system call failed; the log hook was told which */
    LOCO_ERR_UNSUPPORTED = -22,     /**< no fabric reaches that peer, or not built in */
    LOCO_ERR_TIMEOUT = -23,         /**< timed out */
    LOCO_ERR_AGAIN = -24,           /**< would have to wait, and was asked not to */
    LOCO_ERR_DAMAGED = -25,         /**< a file does not hold what was written to it */

    /* What a store contains, or not; nothing was changed. */
    LOCO_ERR_NOT_FOUND = -30,       /**< there is no such key, or object */
    LOCO_ERR_EXISTS = -31,          /**< the key is there already */
    LOCO_ERR_FULL = -32,            /**< no room is left; the log says in what */
    LOCO_ERR_SIZE = -33,            /**< the value has another size */
    LOCO_ERR_DIFFERS = -34,         /**< the value is not the one that was expected */

    LOCO_ERR_CONFLICT = -35,        /**< another transaction was in the way; nothing was changed */

    LOCO_ERR_CLOSED = -39,          /**< the queue was closed, and is empty or lets nothing in */

    /* A peer is lost; what needs it fails, the rest goes on. */
    LOCO_ERR_PEER_DEAD = -40,       /**< a process that the call needs has ended */
    LOCO_ERR_PROTOCOL = -41,        /**< a peer sent what this version does not understand */
    LOCO_ERR_PARTITIONED = -42      /**< this process is cut off from most of its view, or was
                                         taken for dead by it */
};

/** A static text for a status, for example "a process that the call needs has ended".
 * Any number is accepted. Thread-safe; never NULL. */
const char *loco_strerror(int status);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
