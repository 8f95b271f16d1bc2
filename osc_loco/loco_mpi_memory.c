/* SPDX-License-Identifier: BSD-3-Clause */

/* When memory of the process is given back: known by Open MPI's memory hooks, which overwrite the
 * beginnings of munmap and its relatives. No other thread may be in one of these meanwhile, so they
 * are set up while MPI is, and only where there are RDMA devices. */

#include "ompi_config.h"

#include <dirent.h>
#include <link.h>
#include <sched.h>

#include "opal/mca/base/mca_base_framework.h"
#include "opal/mca/memory/base/base.h"
#include "opal/memoryhooks/memory.h"

#include <loco/status.h>

#include "loco_mpi.h"
#include "loco_mpi_memory.h"

/* Open MPI calls without a lock, so the end of a watch waits for who is inside. */
static void released(void *base, size_t len, void *arg, bool from_alloc)
{
    struct loci_mpi_memory *m = arg;
    const struct loci_mpi_watcher *watcher;

    (void)from_alloc;
    atomic_fetch_add(&m->inside, 1);
    watcher = atomic_load(&m->watcher);
    if (watcher != NULL)
        watcher->released(watcher->arg, base, len);
    atomic_fetch_sub(&m->inside, 1);
}

static bool has_devices(void)
{
    DIR *dir = opendir("/sys/class/infiniband");
    const struct dirent *entry;
    bool any = false;

    if (dir == NULL)
        return false;
    while (!any && (entry = readdir(dir)) != NULL)
        any = entry->d_name[0] != '.';
    closedir(dir);
    return any;
}

/* Of two addresses the one whose object the process loaded first. */
struct order {
    uintptr_t a, b, first;
};

static bool holds(const struct dl_phdr_info *object, uintptr_t address)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];

        if (part->p_type == PT_LOAD
            && address - (object->dlpi_addr + part->p_vaddr) < part->p_memsz)
            return true;
    }
    return false;
}

/* Objects come in the order that they were loaded; what an object needs comes behind it. */
static int look_at(struct dl_phdr_info *object, size_t size, void *arg)
{
    struct order *order = arg;

    (void)size;
    if (holds(object, order->a))
        order->first = order->a;
    else if (holds(object, order->b))
        order->first = order->b;
    return order->first != 0;
}

bool loci_mpi_was_loaded_before(const void *address)
{
    struct order order = { .a = (uintptr_t)loci_mpi_was_loaded_before, .b = (uintptr_t)address };

    dl_iterate_phdr(look_at, &order);
    return order.first == order.a;
}

void loci_mpi_memory_open(struct loci_mpi_memory *m)
{
    const int all = OPAL_MEMORY_FREE_SUPPORT | OPAL_MEMORY_MUNMAP_SUPPORT;

    if (m->is_open || !has_devices()
        || mca_base_framework_open(&opal_memory_base_framework, 0) != OPAL_SUCCESS)
        return;
    m->is_open = (opal_mem_hooks_support_level() & all) == all
                 && opal_mem_hooks_register_release(released, m) == OPAL_SUCCESS;
    if (!m->is_open)
        mca_base_framework_close(&opal_memory_base_framework);
}

void loci_mpi_memory_close(struct loci_mpi_memory *m)
{
    if (!m->is_open || atomic_load(&m->watcher) != NULL)
        return;
    m->is_open = false;
    opal_mem_hooks_unregister_release(released);
    mca_base_framework_close(&opal_memory_base_framework);
}

int loci_mpi_memory_watch(void *ctx, loci_released_fn *fn, void *arg)
{
    struct loci_mpi_memory *m = ctx;

    if (!m->is_open)
        return LOCO_ERR_UNSUPPORTED;
    if (fn != NULL) {
        m->last = (struct loci_mpi_watcher){ fn, arg };
        atomic_store(&m->watcher, &m->last);
        return LOCO_OK;
    }
    atomic_store(&m->watcher, NULL);
    while (atomic_load(&m->inside) > 0)
        sched_yield();
    return LOCO_OK;
}
