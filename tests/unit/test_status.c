/* SPDX-License-Identifier: BSD-3-Clause */
#include <criterion/criterion.h>
#include <string.h>

#include <loco/status.h>

static const int all[] = {
    LOCO_OK, LOCO_IN_PROGRESS, LOCO_ERR_ARG, LOCO_ERR_RANGE, LOCO_ERR_STATE, LOCO_ERR_NAME,
    LOCO_ERR_MISMATCH, LOCO_ERR_SHARED, LOCO_ERR_ATTACH, LOCO_ERR_NO_MEMORY, LOCO_ERR_SYSTEM,
    LOCO_ERR_UNSUPPORTED, LOCO_ERR_TIMEOUT, LOCO_ERR_AGAIN, LOCO_ERR_DAMAGED, LOCO_ERR_NOT_FOUND,
    LOCO_ERR_EXISTS, LOCO_ERR_FULL, LOCO_ERR_SIZE, LOCO_ERR_DIFFERS,
    LOCO_ERR_CONFLICT, LOCO_ERR_CLOSED,
    LOCO_ERR_PEER_DEAD, LOCO_ERR_PROTOCOL
};
#define COUNT (sizeof all / sizeof all[0])

Test(status, each_has_a_text_of_its_own)
{
    for (size_t i = 0; i < COUNT; i++)
        for (size_t j = 0; j < i; j++)
            cr_assert(strcmp(loco_strerror(all[i]), loco_strerror(all[j])) != 0,
                      "%d and %d are both \"%s\"", all[i], all[j], loco_strerror(all[i]));
}

Test(status, none_is_unknown)
{
    for (size_t i = 0; i < COUNT; i++)
        cr_assert(strncmp(loco_strerror(all[i]), "unknown", 7) != 0, "%d", all[i]);
}

Test(status, any_number_is_accepted)
{
    cr_assert_str_eq(loco_strerror(-12345), "unknown error");
    cr_assert_str_eq(loco_strerror(12345), "unknown status");
}
