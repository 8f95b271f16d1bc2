/* SPDX-License-Identifier: BSD-3-Clause */
#include "mistake.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL_TEXT 256       /* bytes of a call with the channel's name */

static const struct loci_log *log_of(const struct loco_runtime *rt, struct loci_log *none)
{
    const char *level = getenv("LOCO_LOG");

    if (rt != NULL)
        return &rt->log;
    *none = (struct loci_log){ .fn = loci_log_stderr, .level = LOCO_LOG_ERROR };
    if (level != NULL && strcmp(level, "none") == 0)
        none->fn = NULL;
    return none;
}

static void write_call(char *text, const char *call, const char *name)
{
    if (name == NULL)
        snprintf(text, CALL_TEXT, "%s", call);
    else
        snprintf(text, CALL_TEXT, "%s(%s)", call, name);
}

int loci_bad_arg(const struct loco_runtime *rt, const char *call, const char *name,
                 const char *argument, long long value, const char *allowed, ...)
{
    char where[CALL_TEXT], right[CALL_TEXT];
    struct loci_log none;
    va_list args;

    write_call(where, call, name);
    va_start(args, allowed);
    vsnprintf(right, sizeof right, allowed, args);
    va_end(args);
    loci_log(log_of(rt, &none), LOCO_LOG_ERROR, "%s: %s is %lld; allowed is %s", where, argument,
             value, right);
    return LOCO_ERR_ARG;
}

int loci_null_arg(const struct loco_runtime *rt, const char *call, const char *name,
                  const char *argument)
{
    return loci_mistake(rt, LOCO_ERR_ARG, call, name, "%s is NULL", argument);
}

int loci_mistake(const struct loco_runtime *rt, int status, const char *call, const char *name,
                 const char *what, ...)
{
    char where[CALL_TEXT], text[LOCI_LOG_LINE];
    struct loci_log none;
    va_list args;

    write_call(where, call, name);
    va_start(args, what);
    vsnprintf(text, sizeof text, what, args);
    va_end(args);
    loci_log(log_of(rt, &none), LOCO_LOG_ERROR, "%s: %s", where, text);
    return status;
}

int loci_check_group(const struct loco_runtime *rt, const char *call, const char *name,
                     const struct loco_group *group)
{
    if (group == NULL)
        return loci_null_arg(rt, call, name, "group");
    if (group->rank < 0)
        return loci_mistake(rt, LOCO_ERR_ARG, call, name, "this process is not in the group");
    return LOCO_OK;
}

int loci_refuse_scope(const struct loco_runtime *rt, const char *call, const char *name,
                      enum loco_fence_scope scope, int peer)
{
    if ((unsigned)scope > LOCO_FENCE_PROCESS)
        return loci_bad_arg(rt, call, name, "scope", (long long)scope,
                            "%d (LOCO_FENCE_NONE) to %d (LOCO_FENCE_PROCESS)", LOCO_FENCE_NONE,
                            LOCO_FENCE_PROCESS);
    return loci_bad_arg(rt, call, name, "peer", peer, "0 to %d%s", rt->everyone->size - 1,
                        scope == LOCO_FENCE_PAIR ? " with LOCO_FENCE_PAIR"
                                                 : ", or LOCO_ALL_PEERS");
}
