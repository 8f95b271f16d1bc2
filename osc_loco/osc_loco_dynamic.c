/* SPDX-License-Identifier: BSD-3-Clause */

/* Attached memory and the shared query (MPI 3.1, sections 11.2.3 and 11.2.4). */

#include "osc_loco.h"

#define ONLY_DYNAMIC "memory is attached to windows of MPI_Win_create_dynamic alone"
#define NO_ROOM "no memory is left for one region more, or no more can be registered with the " \
    "device (the line before says which): detach what is not used, or attach fewer, larger regions"

int ompi_osc_loco_attach(struct ompi_win_t *win, void *base, size_t size)
{
    struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);

    int rc;

    if (module->flavor != MPI_WIN_FLAVOR_DYNAMIC)
        return ompi_osc_loco_tell(win, MPI_ERR_RMA_FLAVOR, "MPI_Win_attach",
                                  OMPI_OSC_LOCO_NO_TARGET, ONLY_DYNAMIC);
    rc = ompi_osc_loco_class(loco_window_attach(window_of(module), base, size));
    if (rc == MPI_ERR_RMA_ATTACH)
        return ompi_osc_loco_tell(win, rc, "MPI_Win_attach", OMPI_OSC_LOCO_NO_TARGET,
                                  "a part of this memory is attached already");
    if (rc == MPI_ERR_NO_MEM)
        return ompi_osc_loco_tell(win, rc, "MPI_Win_attach", OMPI_OSC_LOCO_NO_TARGET, NO_ROOM);
    return rc;
}

int ompi_osc_loco_detach(struct ompi_win_t *win, const void *base)
{
    struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);

    int rc;

    if (module->flavor != MPI_WIN_FLAVOR_DYNAMIC)
        return ompi_osc_loco_tell(win, MPI_ERR_RMA_FLAVOR, "MPI_Win_detach",
                                  OMPI_OSC_LOCO_NO_TARGET, ONLY_DYNAMIC);
    rc = ompi_osc_loco_class(loco_window_detach(window_of(module), base));
    return rc != MPI_ERR_RMA_ATTACH
           ? rc : ompi_osc_loco_tell(win, rc, "MPI_Win_detach", OMPI_OSC_LOCO_NO_TARGET,
                                     "no memory is attached that begins at this address");
}

/* MPI_PROC_NULL asks for the lowest rank with memory; with none, everything is nothing. */
int ompi_osc_loco_shared_query(struct ompi_win_t *win, int rank, size_t *size, int *disp_unit,
                               void *baseptr)
{
    struct ompi_osc_loco_module *module = ompi_osc_loco_module(win);
    int members = loco_window_members(window_of(module));
    size_t unit;
    void *base;
    int status;

    if (module->flavor != MPI_WIN_FLAVOR_SHARED)
        return MPI_ERR_RMA_FLAVOR;
    if (rank == MPI_PROC_NULL) {
        rank = 0;
        while (rank < members && loco_window_size(window_of(module), rank) == 0)
            rank++;
    }
    if (rank == members) {
        *size = 0;
        *disp_unit = 0;
        *(void **)baseptr = NULL;
        return MPI_SUCCESS;
    }
    status = loco_window_query(window_of(module), rank, size, &unit, &base);
    if (status == LOCO_OK) {
        *disp_unit = (int)unit;
        *(void **)baseptr = base;
    }
    return ompi_osc_loco_class(status);
}
