/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The files that word_index reads. Rank 0 walks through folders and gives all ranks the same list,
 * in which a file's number is its place: by path, so that the same files have the same numbers.
 */
#ifndef MPI_EXAMPLES_INDEX_FILES_H
#define MPI_EXAMPLES_INDEX_FILES_H

#include <stddef.h>
#include <stdint.h>

struct index_files {
    uint64_t count;
    uint64_t bytes;         /* of all files, when they were listed */
    char *paths;            /* one behind the other, each with its zero */
    size_t paths_bytes;
    size_t *at;             /* where each file's path begins */
    uint64_t *size;
    uint32_t *order;        /* the largest first */
    uint64_t links;         /* symbolic links in folders, which are not followed; */
    uint64_t special;       /* devices, pipes and sockets; */
    uint64_t unreadable;    /* folders that could not be read */
};

/* Collective; `names` are files and folders. Ends the program, with a message, if one of them is
 * neither or is not there. */
void index_files_find(struct index_files *files, const char *program, char *const *names);
void index_files_free(struct index_files *files);

static inline const char *index_path(const struct index_files *files, uint64_t number)
{
    return files->paths + files->at[number];
}

#endif
