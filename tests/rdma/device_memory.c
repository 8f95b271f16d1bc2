/* SPDX-License-Identifier: BSD-3-Clause */

/* To be preloaded: devices that have memory of their own, which is some of the host's in truth. No
 * CPU is told where. TEST_DEVICE_MEMORY: how many bytes, 256 KiB; "half": so many, but for
 * processes of odd numbers, which find none left. TEST_DEVICE_SAYS: a file, which gets a line each
 * time that a process has got some. */

#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE ((size_t)4096)          /* an address of the device keeps its place in one */

struct memory {
    struct ibv_dm dm;               /* first */
    unsigned char *bytes;
    size_t len;
};

static int (*real_query)(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                         struct ibv_device_attr_ex *attr, size_t size);
static _Atomic size_t taken;

static size_t size_of_all(void)
{
    const char *text = getenv("TEST_DEVICE_MEMORY");

    return text == NULL || strcmp(text, "half") == 0 ? (size_t)256 << 10 : strtoul(text, NULL, 10);
}

static bool others_have_it(void)
{
    const char *text = getenv("TEST_DEVICE_MEMORY");

    return text != NULL && strcmp(text, "half") == 0 && getpid() % 2 == 1;
}

static int query(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                 struct ibv_device_attr_ex *attr, size_t size)
{
    int status = real_query(context, input, attr, size);

    attr->max_dm_size = size_of_all();
    return status;
}

static int copy_to(struct ibv_dm *dm, uint64_t offset, const void *from, size_t len)
{
    struct memory *m = (struct memory *)dm;

    if (offset + len > m->len || len % 4 != 0)
        return EINVAL;
    memcpy(m->bytes + offset, from, len);
    return 0;
}

static int copy_from(void *to, struct ibv_dm *dm, uint64_t offset, size_t len)
{
    struct memory *m = (struct memory *)dm;

    if (offset + len > m->len || len % 4 != 0)
        return EINVAL;
    memcpy(to, m->bytes + offset, len);
    return 0;
}

static void say(size_t len)
{
    const char *name = getenv("TEST_DEVICE_SAYS");
    FILE *file = name == NULL ? NULL : fopen(name, "a");

    if (file == NULL)
        return;
    fprintf(file, "%d has %zu bytes of device memory\n", (int)getpid(), len);
    fclose(file);
}

static struct ibv_dm *alloc(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
    struct memory *m = calloc(1, sizeof *m);

    if (m == NULL || others_have_it()) {
        free(m);
        errno = ENOMEM;
        return NULL;
    }
    if (atomic_fetch_add(&taken, attr->length) + attr->length > size_of_all()) {
        atomic_fetch_sub(&taken, attr->length);
        free(m);
        errno = ENOMEM;
        return NULL;
    }
    m->bytes = aligned_alloc(PAGE, (attr->length + PAGE - 1) / PAGE * PAGE);
    m->len = attr->length;
    if (m->bytes == NULL)
        abort();
    memset(m->bytes, 0xd5, m->len);     /* it is as others have left it */
    m->dm.context = context;
    m->dm.memcpy_to_dm = copy_to;
    m->dm.memcpy_from_dm = copy_from;
    say(m->len);
    return &m->dm;
}

static int give(struct ibv_dm *dm)
{
    struct memory *m = (struct memory *)dm;

    atomic_fetch_sub(&taken, m->len);
    free(m->bytes);
    free(m);
    return 0;
}

static struct ibv_mr *reg(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t len,
                          unsigned access)
{
    struct memory *m = (struct memory *)dm;

    if ((access & IBV_ACCESS_ZERO_BASED) == 0 || offset + len > m->len) {
        errno = EINVAL;
        return NULL;
    }
    return ibv_reg_mr_iova(pd, m->bytes + offset, len, 0,
                           (int)(access & ~(unsigned)IBV_ACCESS_ZERO_BASED));
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *(*real_open)(struct ibv_device *) =
        (struct ibv_context *(*)(struct ibv_device *))dlvsym(RTLD_NEXT, "ibv_open_device",
                                                             "IBVERBS_1.1");
    struct ibv_context *context = real_open == NULL ? NULL : real_open(device);
    struct verbs_context *ops = context == NULL ? NULL : verbs_get_ctx(context);

    if (ops != NULL && ops->query_device_ex != query) {
        real_query = ops->query_device_ex;
        ops->query_device_ex = query;
        ops->alloc_dm = alloc;
        ops->free_dm = give;
        ops->reg_dm_mr = reg;
    }
    return context;
}
