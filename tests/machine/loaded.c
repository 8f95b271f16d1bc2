/* SPDX-License-Identifier: BSD-3-Clause */
/* loaded [early]: a job of one process that has libloco_mpi before MPI_Init, as a program of the
 * native API does, or gets it by the component alone. Says which of the two the library makes of
 * it. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const void *component;
    bool (*before)(const void *address);

    if (argc > 1 && strcmp(argv[1], "early") == 0 && dlopen("libloco_mpi.so.0", RTLD_NOW) == NULL)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    MPI_Init(&argc, &argv);
    component = dlsym(RTLD_DEFAULT, "mca_osc_loco_component");
    *(void **)&before = dlsym(RTLD_DEFAULT, "loci_mpi_was_loaded_before");
    if (component == NULL || before == NULL)
        printf("there is no component\n");
    else
        printf("%s\n", before(component) ? "by the program" : "by the component");
    MPI_Finalize();
    return 0;
}
