/* SPDX-License-Identifier: BSD-3-Clause */

/* Variables of the environment that look like tunables and are none. Who mistypes a name measures
 * the default and believes the other; so a name close to a tunable's is a warning. Others may be of
 * the program, or of our own scripts, and are told only to who asks for much. */

#include "tunables.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PREFIX "LOCO_"
#define NAME_MAX_LEN 40     /* longer ones are close to no tunable */
#define CLOSE 2             /* letters that are missing, too many or others */

static int least(int a, int b) { return a < b ? a : b; }

/* How many letters have to be put in, taken out or changed to make one name of the other
 * (Levenshtein's distance, row by row). */
static int distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int row[NAME_MAX_LEN + 1];

    for (size_t j = 0; j <= b_len; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= a_len; i++) {
        int corner = row[0];

        row[0] = (int)i;
        for (size_t j = 1; j <= b_len; j++) {
            int above = row[j], changed = corner + (a[i - 1] != b[j - 1]);

            row[j] = least(changed, 1 + least(above, row[j - 1]));
            corner = above;
        }
    }
    return row[b_len];
}

/* The tunable that a name is closest to; *far: by how much. */
static const char *closest(const char *name, size_t len, int *far)
{
    const struct loci_tunable_row *row;
    const char *best = NULL;
    size_t rows;

    row = loci_tunables_rows(&rows);
    *far = NAME_MAX_LEN;
    for (size_t i = 0; i < rows && len <= NAME_MAX_LEN; i++) {
        int to_row = distance(name, len, row[i].name, strlen(row[i].name));

        if (to_row < *far) {
            *far = to_row;
            best = row[i].name;
        }
    }
    return best;
}

void loci_tunables_tell_unknown(const struct loci_log *log)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        int len = (int)strcspn(*entry, "="), far;
        const char *meant;

        if (strncmp(*entry, PREFIX, strlen(PREFIX)) != 0
            || loci_tunables_row(*entry, (size_t)len) != NULL)
            continue;
        meant = closest(*entry, (size_t)len, &far);
        if (far <= CLOSE)
            loci_log(log, LOCO_LOG_WARN, "%.*s in the environment does nothing: no tunable has "
                     "that name (%s has); loco-info lists them", len, *entry, meant);
        else
            loci_log(log, LOCO_LOG_INFO, "%.*s in the environment is no tunable", len, *entry);
    }
}
