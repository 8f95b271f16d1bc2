/* SPDX-License-Identifier: BSD-3-Clause */

/* What processes of this node owe: memory that they have handed out, and that is not filled yet.
 *
 * Each that owes anything holds a record lock for reading on the inode of the turn (turn.c), from
 * byte 0 on, a byte for each piece. Such locks do not keep each other off; /proc/locks lists them
 * for everybody; and the kernel takes them back whatever their holder dies of. Who needs memory
 * while others owe much of what is left calls their promises in by another lock, of one byte far
 * behind; they look for it now and then, and fill what they owe.
 *
 * Everybody can open that inode, so another user may pretend to owe any amount, or call for ever.
 * Both only make our processes fill at once what they hand out, and wait for a while, once a
 * minute (extent.c): nobody is refused memory because of what a stranger pretends. What a process
 * of this user owes counts for as long as it holds the lock, whether it answers a call or not: it
 * may be stopped, or slow, and will touch that memory. /proc/locks does not say whose such a lock
 * is. /proc/PID/fdinfo does, of each descriptor of a process, and nobody else can put a descriptor
 * there. To search those takes some milliseconds, so that is done only where what is told would
 * lead to a refusal.
 *
 * A child that was forked holds its parent's lock until it ends or executes another program, and
 * has the memory until then. Its descriptor shows that lock, too: it is counted twice, but never
 * beyond what /proc/locks shows in all. That is too much rather than too little. */

#include "config.h"

#include "promise.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "turn.h"

#define CALL_AT (INT64_C(1) << 40)          /* the byte that calls */
#define LOCKS_BYTES 65536                   /* of the system's table, which strangers may fill */

void loci_promises_init(struct loci_promises *p)
{
    atomic_init(&p->fd, -1);
    atomic_init(&p->forbidden, false);
    pthread_mutex_init(&p->lock, NULL);
    p->mine = p->least = 0;
    p->looks = 0;
}

static int fd_of(const struct loci_promises *p)
{
    return atomic_load_explicit(&p->fd, memory_order_acquire);
}

static bool is_forbidden(const struct loci_promises *p)
{
    return atomic_load_explicit(&p->forbidden, memory_order_relaxed);
}

static void forbid(struct loci_promises *p)
{
    atomic_store_explicit(&p->forbidden, true, memory_order_relaxed);
}

static int set_lock(int fd, short type, int64_t from, int64_t len)
{
    struct flock lock = { .l_type = type, .l_whence = SEEK_SET, .l_start = from, .l_len = len };

    return fcntl(fd, F_OFD_SETLK, &lock);
}

/* A child may keep the descriptor open, so the lock would stay. */
void loci_promises_close(struct loci_promises *p)
{
    if (fd_of(p) >= 0) {
        set_lock(fd_of(p), F_UNLCK, 0, CALL_AT);
        close(fd_of(p));
    }
    pthread_mutex_destroy(&p->lock);
    atomic_init(&p->fd, -1);
}

/* Under p->lock. */
static bool add_to_mine(struct loci_promises *p, int64_t n)
{
    int fd = fd_of(p);

    if (n >= CALL_AT || is_forbidden(p))
        return false;
    if (fd < 0) {
        fd = loci_turn_open();
        atomic_store_explicit(&p->fd, fd, memory_order_release);
    }
    if (fd >= 0 && set_lock(fd, F_RDLCK, 0, n) == 0)
        return true;
    forbid(p);
    return false;
}

/* Where nothing more may be promised, what was is kept, and taken back as ever. */
static bool set_mine(struct loci_promises *p, uint64_t pieces)
{
    int64_t n = (int64_t)pieces;
    bool good = true;

    pthread_mutex_lock(&p->lock);
    if (pieces > p->mine)
        good = add_to_mine(p, n);
    else if (pieces < p->mine)
        good = set_lock(fd_of(p), F_UNLCK, n, CALL_AT - n) == 0;
    if (good) {
        p->mine = pieces;
        p->least = pieces < p->least ? pieces : p->least;
    }
    pthread_mutex_unlock(&p->lock);
    return good;
}

bool loci_promises_set(struct loci_promises *p, uint64_t pieces)
{
    return set_mine(p, pieces);
}

bool loci_promises_are_seen(struct loci_promises *p)
{
    if (fd_of(p) >= 0 || is_forbidden(p))
        return !is_forbidden(p);
    if (set_mine(p, 1) && loci_promises_of_others(p) == UINT64_MAX)
        forbid(p);
    set_mine(p, 0);
    return !is_forbidden(p);
}

/* The pieces in the line of /proc/locks for such a lock on that inode, else 0:
 * "1: OFDLCK ADVISORY  READ -1 00:04:4026531833 0 639". To the end of the file is more than anybody
 * has. */
static uint64_t pieces_in(const char *line, unsigned long long inode)
{
    unsigned long long at, from, to;
    char last[32];

    if (sscanf(line, "%*d: OFDLCK %*s READ %*d %*x:%*x:%llu %llu %31s", &at, &from, last) != 3
        || at != inode || from != 0)
        return 0;
    return sscanf(last, "%llu", &to) == 1 && to < CALL_AT ? to + 1 : (uint64_t)CALL_AT;
}

/* As the system's table shows; UINT64_MAX: not whole. */
static uint64_t pieces_in_table(unsigned long long inode)
{
    FILE *locks = fopen("/proc/locks", "re");
    uint64_t pieces = 0;
    size_t bytes = 0;
    char line[256];
    bool whole;

    if (locks == NULL)
        return UINT64_MAX;
    while (bytes < LOCKS_BYTES && fgets(line, sizeof line, locks) != NULL) {
        bytes += strlen(line);
        pieces += pieces_in(line, inode);
    }
    whole = bytes < LOCKS_BYTES && !ferror(locks);
    fclose(locks);
    return whole ? pieces : UINT64_MAX;
}

/* To read the table takes the system seconds where it is loaded, and what this process promises
 * changes meanwhile: nobody waits for that. What the table shows of it is no less than the least
 * that it has promised since, so that others may seem to owe more than they do, but never less. */
static void begin_look(struct loci_promises *p)
{
    pthread_mutex_lock(&p->lock);
    if (p->looks++ == 0)
        p->least = p->mine;
    pthread_mutex_unlock(&p->lock);
}

static uint64_t end_look(struct loci_promises *p)
{
    uint64_t least;

    pthread_mutex_lock(&p->lock);
    p->looks--;
    least = p->least;
    pthread_mutex_unlock(&p->lock);
    return least;
}

uint64_t loci_promises_of_others(struct loci_promises *p)
{
    int own_fd = fd_of(p), fd = own_fd >= 0 ? own_fd : loci_turn_open();
    uint64_t pieces = UINT64_MAX, own = 0;
    struct stat file;

    if (fd >= 0 && fstat(fd, &file) == 0) {
        begin_look(p);
        pieces = pieces_in_table((unsigned long long)file.st_ino);
        own = end_look(p);
    }
    if (fd >= 0 && fd != own_fd)
        close(fd);
    /* Where not even our own lock is shown, nothing can be told. */
    return pieces == UINT64_MAX || pieces < own ? UINT64_MAX : pieces - own;
}

/* ---- of this user's processes ---- */

/* What is looked for: a descriptor of that inode, which looks so in a folder of descriptors. */
struct search {
    unsigned long long inode;
    char link[64];
    size_t link_len;
};

static bool prepare(struct search *search, int fd)
{
    char path[32];
    struct stat file;
    ssize_t len;

    if (fd < 0 || fstat(fd, &file) != 0)
        return false;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    len = readlink(path, search->link, sizeof search->link);
    if (len <= 0)
        return false;
    search->inode = (unsigned long long)file.st_ino;
    search->link_len = (size_t)len;
    return true;
}

static FILE *open_text(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    FILE *text = fd >= 0 ? fdopen(fd, "r") : NULL;

    if (text == NULL && fd >= 0)
        close(fd);
    return text;
}

static DIR *open_folder(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;

    if (folder == NULL && fd >= 0)
        close(fd);
    return folder;
}

/* A program that runs with this user's rights, but was started by somebody else, may have been
 * given a descriptor by them. */
static bool is_started_by_user(int process)
{
    FILE *status = open_text(process, "status");
    unsigned real = 0, effective = 0;
    bool found = false;
    char line[256];

    if (status == NULL)
        return false;
    while (!found && fgets(line, sizeof line, status) != NULL)
        found = sscanf(line, "Uid: %u %u", &real, &effective) == 2;
    fclose(status);
    return found && real == geteuid() && effective == geteuid();
}

/* "lock:" and then as in /proc/locks. */
static uint64_t pieces_of_descriptor(const struct search *search, int process, const char *number)
{
    uint64_t pieces = 0;
    char line[256];
    FILE *info;

    snprintf(line, sizeof line, "fdinfo/%.20s", number);
    info = open_text(process, line);
    if (info == NULL)
        return 0;
    while (fgets(line, sizeof line, info) != NULL)
        if (strncmp(line, "lock:", 5) == 0)
            pieces += pieces_in(line + 5, search->inode);
    fclose(info);
    return pieces;
}

static uint64_t pieces_of_process(const struct search *search, int process, int but)
{
    DIR *folder = open_folder(process, "fd");
    const struct dirent *entry;
    uint64_t pieces = 0;
    char link[64];

    if (folder == NULL)
        return 0;
    while ((entry = readdir(folder)) != NULL) {
        ssize_t len = readlinkat(dirfd(folder), entry->d_name, link, sizeof link);

        if (len == (ssize_t)search->link_len && memcmp(link, search->link, (size_t)len) == 0
            && atoi(entry->d_name) != but)
            pieces += pieces_of_descriptor(search, process, entry->d_name);
    }
    closedir(folder);
    return pieces;
}

static bool is_this_process(const char *number)
{
    char self[32];
    ssize_t len = readlink("/proc/self", self, sizeof self);

    return len > 0 && (size_t)len == strlen(number) && memcmp(self, number, (size_t)len) == 0;
}

/* UINT64_MAX: it cannot be told. */
static uint64_t search_all(const struct search *search, int own_fd)
{
    DIR *proc = open_folder(AT_FDCWD, "/proc");
    const struct dirent *entry;
    uint64_t pieces = 0;
    struct stat owner;

    if (proc == NULL)
        return UINT64_MAX;
    while ((entry = readdir(proc)) != NULL) {
        int process;

        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        process = openat(dirfd(proc), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (process < 0)
            continue;
        if (fstat(process, &owner) == 0 && owner.st_uid == geteuid()
            && is_started_by_user(process))
            pieces += pieces_of_process(search, process,
                                        is_this_process(entry->d_name) ? own_fd : -1);
        close(process);
    }
    closedir(proc);
    return pieces;
}

uint64_t loci_promises_of_user(struct loci_promises *p)
{
    uint64_t all = loci_promises_of_others(p), pieces = UINT64_MAX;
    int own_fd = fd_of(p), fd = own_fd >= 0 ? own_fd : loci_turn_open();
    struct search search;

    if (all > 0 && prepare(&search, fd))
        pieces = search_all(&search, own_fd);
    if (fd >= 0 && fd != own_fd)
        close(fd);
    return pieces < all ? pieces : all;
}

int loci_promises_call(void)
{
    int fd = loci_turn_open();

    if (fd >= 0 && set_lock(fd, F_RDLCK, CALL_AT, 1) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

bool loci_promises_are_called(const struct loci_promises *p)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = CALL_AT, .l_len = 1 };

    return fd_of(p) >= 0 && fcntl(fd_of(p), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}
