/* SPDX-License-Identifier: BSD-3-Clause */

/* Info keys of windows. The core knows none of the standard's but accumulate_ops; unknown keys
 * are ignored, as the standard asks. */

#include "osc_loco.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BULK_KEY "loco_accumulate"

/* opal_info_get_bool takes its key as plain char * in 4.1. */
static bool get_bool(struct opal_info_t *info, const char *key, bool otherwise)
{
    bool value;
    int found = 0;

    if (opal_info_get_bool(info, (char *)(uintptr_t)key, &value, &found) != OPAL_SUCCESS)
        return otherwise;
    return found ? value : otherwise;
}

static bool text_is(struct opal_info_t *info, const char *key, const char *wanted)
{
    bool equal = false;
    int found = 0;
#if OMPI_MAJOR_VERSION >= 5
    opal_cstring_t *text = NULL;

    if (opal_info_get(info, key, &text, &found) == OPAL_SUCCESS && found) {
        equal = strcmp(text->string, wanted) == 0;
        OBJ_RELEASE(text);
    }
#else
    char text[MPI_MAX_INFO_VAL + 1];

    if (opal_info_get(info, key, MPI_MAX_INFO_VAL, text, &found) == OPAL_SUCCESS && found)
        equal = strcmp(text, wanted) == 0;
#endif
    return equal;
}

void ompi_osc_loco_hints(struct opal_info_t *info, struct ompi_osc_loco_hints *hints)
{
    *hints = (struct ompi_osc_loco_hints){ false };
    if (info == NULL)
        return;
    hints->no_locks = get_bool(info, "no_locks", false);
    hints->noncontiguous = get_bool(info, "alloc_shared_noncontig", false);
    hints->bulk = text_is(info, BULK_KEY, "bulk");
}

/* ---- what is in force ---- */

#if OMPI_MAJOR_VERSION >= 5
typedef const char *info_text;
#else
typedef char *info_text;
#endif

static const char *bool_text(bool value)
{
    return value ? "true" : "false";
}

static bool is_true(const char *text)
{
    return strcasecmp(text, "true") == 0 || strcasecmp(text, "yes") == 0 || atoi(text) != 0;
}

/* Hints that nothing depends on: accumulates of one origin to one place are always in order, may
 * be of any operations, and sizes and units are known of every member. */
static info_text accept_hint(opal_infosubscriber_t *object, info_text key, info_text value)
{
    (void)object;
    (void)key;
    return value;
}

/* May change later, by all members alike: the core looks at the flag. */
static info_text set_no_locks(opal_infosubscriber_t *object, info_text key, info_text value)
{
    struct ompi_win_t *win = (struct ompi_win_t *)object;
    bool no_locks = is_true(value);

    (void)key;
    if (no_locks)
        win->w_flags |= OMPI_WIN_NO_LOCKS;
    else
        win->w_flags &= (uint16_t)~OMPI_WIN_NO_LOCKS;
    return (info_text)(uintptr_t)bool_text(no_locks);
}

/* Fixed when the window is made. */
static info_text keep_noncontiguous(opal_infosubscriber_t *object, info_text key, info_text value)
{
    (void)key;
    (void)value;
    return (info_text)(uintptr_t)bool_text(
        ompi_osc_loco_module((struct ompi_win_t *)object)->noncontiguous);
}

static const char *bulk_text(const struct ompi_osc_loco_module *module)
{
    return module->bulk ? "bulk" : "element";
}

static info_text keep_bulk(opal_infosubscriber_t *object, info_text key, info_text value)
{
    (void)key;
    (void)value;
    return (info_text)(uintptr_t)bulk_text(ompi_osc_loco_module((struct ompi_win_t *)object));
}

/* 4.1 shows what was asked for where a subscriber says otherwise; so what the members agreed on
 * becomes what was asked for first. */
static int show(struct ompi_win_t *win, const char *key, const char *value,
                opal_key_interest_callback_t *changed)
{
    int rc = opal_info_set(win->super.s_info, key, value);

    if (rc != OPAL_SUCCESS)
        return rc;
    return opal_infosubscribe_subscribe(&win->super, (info_text)(uintptr_t)key,
                                        (info_text)(uintptr_t)value, changed);
}

/* What is shown of a hint is what was given, or the standard's default. */
static int show_hint(struct ompi_win_t *win, const char *key, const char *otherwise)
{
    return opal_infosubscribe_subscribe(&win->super, (info_text)(uintptr_t)key,
                                        (info_text)(uintptr_t)otherwise, accept_hint);
}

int ompi_osc_loco_info_subscribe(struct ompi_win_t *win, const struct ompi_osc_loco_hints *agreed)
{
    const struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);
    int rc = show(win, "no_locks", bool_text(agreed->no_locks), set_no_locks);

    if (rc == OPAL_SUCCESS && module->flavor == MPI_WIN_FLAVOR_SHARED)
        rc = show(win, "alloc_shared_noncontig", bool_text(module->noncontiguous),
                  keep_noncontiguous);
    if (rc == OPAL_SUCCESS)
        rc = show(win, BULK_KEY, bulk_text(module), keep_bulk);
    if (rc == OPAL_SUCCESS)
        rc = show_hint(win, "accumulate_ordering", "rar,raw,war,waw");
    if (rc == OPAL_SUCCESS)
        rc = show_hint(win, "accumulate_ops", "same_op_no_op");
    if (rc == OPAL_SUCCESS)
        rc = show_hint(win, "same_size", "false");
    if (rc == OPAL_SUCCESS)
        rc = show_hint(win, "same_disp_unit", "false");
    return rc;
}
