/* SPDX-License-Identifier: BSD-3-Clause */

/* Info keys of windows. The core knows none of the standard's but accumulate_ops; unknown keys
 * are ignored, as the standard asks.
 *
 * Nothing here depends on most of them: accumulates of one origin to one place are always in
 * order and may be of any operations, and sizes and units are known of every member. They are read
 * all the same, so that MPI_Win_get_info shows what is in force and nothing else: not a value that
 * means nothing, nor one that a member did not give, nor one that is not true. */

#include "osc_loco.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#if OMPI_MAJOR_VERSION >= 5
typedef const char *info_text;
#else
typedef char *info_text;
#endif

/* ---- values ---- */

static bool read_bool(const char *text, bool *value)
{
    bool yes = strcasecmp(text, "true") == 0 || strcasecmp(text, "yes") == 0
               || strcmp(text, "1") == 0;
    bool no = strcasecmp(text, "false") == 0 || strcasecmp(text, "no") == 0
              || strcmp(text, "0") == 0;

    if (yes || no)
        *value = yes;
    return yes || no;
}

static const char *bool_text(bool value)
{
    return value ? "true" : "false";
}

static bool read_choice(const char *text, const char *yes, const char *no, bool *value)
{
    bool is_yes = strcmp(text, yes) == 0;

    if (is_yes || strcmp(text, no) == 0)
        *value = is_yes;
    return is_yes || strcmp(text, no) == 0;
}

#define RELATIONS 4
static const char relation[RELATIONS][4] = { "rar", "raw", "war", "waw" };

/* "none", or some of the relations with commas between. */
static bool read_ordering(const char *text, unsigned char *relaxed)
{
    unsigned kept = 0;
    size_t len;

    for (bool last = strcmp(text, "none") == 0; !last; text += len + 1) {
        int i = 0;

        len = strcspn(text, ",");
        while (i < RELATIONS && (len != 3 || memcmp(text, relation[i], 3) != 0))
            i++;
        if (i == RELATIONS)
            return false;
        kept |= 1u << i;
        last = text[len] == '\0';
    }
    *relaxed = (unsigned char)(~kept & ((1u << RELATIONS) - 1));
    return true;
}

static void ordering_text(unsigned char relaxed, char *text)
{
    text[0] = '\0';
    for (int i = 0; i < RELATIONS; i++)
        if ((relaxed >> i & 1) == 0)
            strcat(strcat(text, text[0] != '\0' ? "," : ""), relation[i]);
    if (text[0] == '\0')
        strcpy(text, "none");
}

#define ALIGNMENT_MAX (1 << 30)

/* A power of two. */
static bool read_alignment(const char *text, int *bytes)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < 1 || value > ALIGNMENT_MAX
        || (value & (value - 1)) != 0)
        return false;
    *bytes = value > LOCI_CACHE_LINE ? (int)value : LOCI_CACHE_LINE;
    return true;
}

/* ---- keys ---- */

enum key {
    NO_LOCKS, ORDERING, OPS, SAME_SIZE, SAME_DISP_UNIT, NONCONTIGUOUS, ALIGNMENT, BULK, KEYS
};

static const char *const key_name[KEYS] = {
    [NO_LOCKS] = "no_locks", [ORDERING] = "accumulate_ordering", [OPS] = "accumulate_ops",
    [SAME_SIZE] = "same_size", [SAME_DISP_UNIT] = "same_disp_unit",
    [NONCONTIGUOUS] = "alloc_shared_noncontig", [ALIGNMENT] = "mpi_minimum_memory_alignment",
    [BULK] = "loco_accumulate",
};

#define TEXT 24     /* room for what is shown of a hint */

/* False for a text that means nothing: then nothing is changed. */
static bool read_hint(enum key key, const char *text, struct ompi_osc_loco_hints *hints)
{
    switch (key) {
    case NO_LOCKS: return read_bool(text, &hints->no_locks);
    case ORDERING: return read_ordering(text, &hints->relaxed);
    case OPS: return read_choice(text, "same_op", "same_op_no_op", &hints->same_op);
    case SAME_SIZE: return read_bool(text, &hints->same_size);
    case SAME_DISP_UNIT: return read_bool(text, &hints->same_disp_unit);
    case NONCONTIGUOUS: return read_bool(text, &hints->noncontiguous);
    case ALIGNMENT: return read_alignment(text, &hints->alignment);
    case BULK: return read_choice(text, "bulk", "element", &hints->bulk);
    default: return false;
    }
}

static void hint_text(enum key key, const struct ompi_osc_loco_hints *hints, char *text)
{
    const char *what = "";

    switch (key) {
    case NO_LOCKS: what = bool_text(hints->no_locks); break;
    case ORDERING: ordering_text(hints->relaxed, text); return;
    case OPS: what = hints->same_op ? "same_op" : "same_op_no_op"; break;
    case SAME_SIZE: what = bool_text(hints->same_size); break;
    case SAME_DISP_UNIT: what = bool_text(hints->same_disp_unit); break;
    case NONCONTIGUOUS: what = bool_text(hints->noncontiguous); break;
    case ALIGNMENT: snprintf(text, TEXT, "%d", hints->alignment); return;
    case BULK: what = hints->bulk ? "bulk" : "element"; break;
    default: break;
    }
    strcpy(text, what);
}

static const struct ompi_osc_loco_hints defaults = { .alignment = LOCI_CACHE_LINE };

/* ---- a new window ---- */

static void read_key(struct opal_info_t *info, enum key key, struct ompi_osc_loco_hints *hints)
{
    int found = 0;
#if OMPI_MAJOR_VERSION >= 5
    opal_cstring_t *text = NULL;

    if (opal_info_get(info, key_name[key], &text, &found) == OPAL_SUCCESS && found) {
        (void)read_hint(key, text->string, hints);
        OBJ_RELEASE(text);
    }
#else
    char text[MPI_MAX_INFO_VAL + 1];

    if (opal_info_get(info, key_name[key], MPI_MAX_INFO_VAL, text, &found) == OPAL_SUCCESS && found)
        (void)read_hint(key, text, hints);
#endif
}

void ompi_osc_loco_hints(struct opal_info_t *info, struct ompi_osc_loco_hints *hints)
{
    *hints = defaults;
    for (int key = 0; info != NULL && key < KEYS; key++)
        read_key(info, (enum key)key, hints);
}

int ompi_osc_loco_hints_agree(struct ompi_communicator_t *comm, int status,
                              struct ompi_osc_loco_hints *hints)
{
    bool *const flag[] = {
        &hints->no_locks, &hints->noncontiguous, &hints->bulk, &hints->same_size,
        &hints->same_disp_unit, &hints->same_op,
    };
    enum { FLAGS = sizeof flag / sizeof flag[0] };
    enum { VALUES = 2 + FLAGS + RELATIONS };
    int values[VALUES] = { status };

    for (int i = 0; i < FLAGS; i++)
        values[1 + i] = *flag[i];
    for (int i = 0; i < RELATIONS; i++)
        values[1 + FLAGS + i] = hints->relaxed >> i & 1;
    values[VALUES - 1] = hints->alignment;
    status = loci_mpi_agree(comm, values, VALUES);      /* the least of each */
    if (status != LOCO_OK)
        return status;
    for (int i = 0; i < FLAGS; i++)
        *flag[i] = values[1 + i] != 0;
    hints->relaxed = 0;
    for (int i = 0; i < RELATIONS; i++)
        hints->relaxed |= (unsigned char)(values[1 + FLAGS + i] << i);
    hints->alignment = values[VALUES - 1];
    return values[0];
}

/* ---- what is in force ---- */

/* What the members promise of their parts may be known to be wrong. And programs give no_locks for
 * shared windows, where no stock component looks at it, but lock them for the epoch that
 * MPI_Win_sync needs: there it is not in force. */
static void drop_untrue(const struct ompi_osc_loco_module *module,
                        struct ompi_osc_loco_hints *hints)
{
    const loco_window_t *window = window_of(module);

    if (module->flavor == MPI_WIN_FLAVOR_SHARED)
        hints->no_locks = false;
    for (int i = 1; i < loco_window_members(window); i++) {
        if (loco_window_size(window, i) != loco_window_size(window, 0))
            hints->same_size = false;
        if (loco_window_disp_unit(window, i) != loco_window_disp_unit(window, 0))
            hints->same_disp_unit = false;
    }
}

/* The core looks at the flag. */
static void apply_no_locks(struct ompi_win_t *win, const struct ompi_osc_loco_hints *hints)
{
    if (hints->no_locks)
        win->w_flags |= OMPI_WIN_NO_LOCKS;
    else
        win->w_flags &= (uint16_t)~OMPI_WIN_NO_LOCKS;
}

/* Whether a later value comes into force. How accumulates are made is fixed with the window.
 * alloc_shared_noncontig is taken, as a word on how memory may be allocated, which it is by then:
 * where the parts are is what MPI_Win_shared_query says, whatever the hint. */
static bool take(struct ompi_osc_loco_module *module, enum key key, const char *value)
{
    struct ompi_osc_loco_hints wanted = module->hints;
    char asked[TEXT], in_force[TEXT];

    if (!read_hint(key, value, &wanted))
        return false;
    hint_text(key, &wanted, asked);
    wanted.bulk = module->hints.bulk;
    drop_untrue(module, &wanted);
    hint_text(key, &wanted, in_force);
    module->hints = wanted;
    return strcmp(asked, in_force) == 0;
}

/* By all members alike. 4.1 shows a later value as it was given, or no value, but not another one:
 * so a hint that was refused there falls back to its default, which is what no value means. */
static info_text change(opal_infosubscriber_t *object, info_text name, info_text value)
{
    struct ompi_win_t *win = (struct ompi_win_t *)object;
    struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);
    enum key key = 0;
    info_text show = value;

    while (key < KEYS - 1 && strcmp(name, key_name[key]) != 0)
        key++;
    if (!take(module, key, value)) {
#if OMPI_MAJOR_VERSION >= 5
        hint_text(key, &module->hints, module->shown);
        show = module->shown;
#else
        bool bulk = module->hints.bulk;

        hint_text(key, &defaults, module->shown);
        (void)read_hint(key, module->shown, &module->hints);
        module->hints.bulk = bulk;
        show = NULL;
#endif
    }
    apply_no_locks(win, &module->hints);
    return show;
}

/* What the members agreed on becomes what was asked for first: see change(). */
static int show_key(struct ompi_win_t *win, enum key key)
{
    char text[TEXT];
    int rc;

    hint_text(key, &ompi_osc_loco_module(win)->hints, text);
    rc = opal_info_set(win->super.s_info, key_name[key], text);
    /* What becomes of 28 letters, which are one too many for 4.1, is not told. */
    if (rc != OPAL_SUCCESS || key == ALIGNMENT)
        return rc;
    return opal_infosubscribe_subscribe(&win->super, (info_text)(uintptr_t)key_name[key], text,
                                        change);
}

/* Parts of a shared window that follow each other begin where the one before ends. */
static bool is_of(int key, const struct ompi_osc_loco_module *module)
{
    bool shared = module->flavor == MPI_WIN_FLAVOR_SHARED;

    if (key == ALIGNMENT)
        return module->flavor == MPI_WIN_FLAVOR_ALLOCATE
               || (shared && module->hints.noncontiguous);
    return key != NONCONTIGUOUS || shared;
}

int ompi_osc_loco_info_subscribe(struct ompi_win_t *win)
{
    struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);
    int rc = OPAL_SUCCESS;

    drop_untrue(module, &module->hints);
    apply_no_locks(win, &module->hints);
    for (int key = 0; rc == OPAL_SUCCESS && key < KEYS; key++)
        if (is_of(key, module))
            rc = show_key(win, (enum key)key);
    return rc;
}
