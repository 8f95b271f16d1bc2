/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCO_LOG_H
#define LOCO_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

/** \defgroup log What the library has to say
 *
 * Errors and warnings of a native program go to stderr, one line each. LOCO_LOG in the environment
 * chooses another level; LOCO_LOG=none suppresses all lines. A program that passes a hook to
 * loco_runtime_open (struct loco_bootstrap) receives all lines of that level itself, and none goes
 * to stderr. An MPI program that calls loco_runtime_open_mpi also gets them on stderr, unless
 * osc_base_verbose of Open MPI receives them. A program that only creates MPI windows sees what
 * MPI's error handlers print.
 *
 * \see loco_runtime(3), loco_status(3)
 * @{ */
enum loco_log_level {
    LOCO_LOG_NONE = 0,
    LOCO_LOG_ERROR,     /**< a call failed, or a peer is lost: the cause */
    LOCO_LOG_WARN,      /**< works, but not as well as it could */
    LOCO_LOG_INFO,      /**< a few lines per runtime */
    LOCO_LOG_DEBUG      /**< a line per object made, never one per operation */
};

/** Receives one line, without newline, of LOCO_LOG_ERROR and above. `text` is gone when the hook
 * returns. Any thread of the library may call it, its service thread included, several at once;
 * it must not call the library. */
typedef void loco_log_fn(void *ctx, int level, const char *text);
/** @} */

#ifdef __cplusplus
}
#endif
#endif
