/* SPDX-License-Identifier: BSD-3-Clause */

/* PETSc's star forests on windows of all kinds: Debian's library is built without those that MPI
 * allocates and dynamic ones. Linked with -Wl,--wrap=PetscInitialize, so that the type "window" is
 * this one in an unchanged program. */

#include <petscsf.h>

PetscErrorCode PetscSFCreate_Window(PetscSF sf);
PetscErrorCode __real_PetscInitialize(int *argc, char ***argv, const char *file, const char *help);
PetscErrorCode __wrap_PetscInitialize(int *argc, char ***argv, const char *file, const char *help);

PetscErrorCode __wrap_PetscInitialize(int *argc, char ***argv, const char *file, const char *help)
{
    PetscErrorCode error = __real_PetscInitialize(argc, argv, file, help);

    if (error == 0)
        error = PetscSFInitializePackage();
    return error != 0 ? error : PetscSFRegister("window", PetscSFCreate_Window);
}
