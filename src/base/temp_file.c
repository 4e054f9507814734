/* Creates temporary files for atomic replacement, and removes the ones that killed processes have
 * left. A temporary file is always a new one (O_EXCL) with a random name, so nobody can put a link
 * or a pipe in its place. A writer locks its file (flock), so an unlocked file belongs to no live
 * process on any machine that shares the folder. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

#define MARK ".weft-tmp"

/* A process on another machine may remove the new file between open and lock (weft_beside_tidy).
 * Another file is then created. */
weft_status weft_beside_open(const char *target, mode_t mode, char **name, int *file)
{
    enum { TRIES = 20 };
    struct stat info;
    *name = NULL;
    for (int i = 0;; i++) {
        uint32_t number = 0;
        while (getentropy(&number, sizeof(number)) != 0 && errno == EINTR) continue;
        free(*name);
        WEFT_TRY(weft_format(name, "%s" MARK "%ld.%08x", target, (long)getpid(), number));
        *file = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (*file < 0 && (errno != EEXIST || i == TRIES)) return WEFT_OK;
        if (*file < 0) continue;
        (void)flock(*file, LOCK_EX | LOCK_NB); /* fails on a file system without locks */
        bool gone = fstat(*file, &info) == 0 && info.st_nlink == 0;
        if (i == TRIES || !gone) return WEFT_OK;
        close(*file);
    }
}

/* Whether no process with this id runs on this machine. One that has ended may stay a zombie, for
 * example in a container whose first process does not wait for it. */
static bool has_ended(pid_t pid)
{
    return (kill(pid, 0) != 0 && errno == ESRCH) || weft_process_state(pid) == 'Z';
}

/* Whether `name` is a temporary file for `target`, of a process that, by the id in the name, does
 * not run on this machine, or of one with the id of this process: of an earlier one, as every
 * process of a container that is its first, or of this process, which then holds its lock. */
static bool named(const char *name, const char *target)
{
    size_t size = strlen(target), mark = sizeof(MARK) - 1;
    char number[16];
    int64_t pid;
    if (strncmp(name, target, size) != 0 || strncmp(name + size, MARK, mark) != 0) return false;
    name += size + mark;
    size_t digits = strspn(name, "0123456789");
    (void)snprintf(number, sizeof(number), "%.*s", (int)digits, name);
    if (name[digits] != '\0' && name[digits] != '.') return false;
    if (!weft_parse_int(number, &pid) || pid <= 0 || pid > INT32_MAX) return false;
    return pid == (int64_t)getpid() || has_ended((pid_t)pid);
}

/* Removes the file if it is unlocked, regular, and owned by this user. On a file system without
 * locks no file is removed. */
static void remove_left(int folder, const char *name)
{
    struct stat info;
    int file = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (file < 0) return;
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        flock(file, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(folder, name, 0);
    close(file);
}

static weft_status folder_of(const char *target, char **out)
{
    const char *slash = strrchr(target, '/');
    return weft_format(out, "%.*s", slash ? (int)(slash - target) + 1 : 1, slash ? target : ".");
}

weft_status weft_beside_lock(const char *target, int *lock)
{
    char *folder;
    WEFT_TRY(folder_of(target, &folder));
    *lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    while (*lock >= 0 && flock(*lock, LOCK_EX) != 0 && errno == EINTR) continue;
    return WEFT_OK;
}

void weft_beside_unlock(int lock)
{
    if (lock >= 0) close(lock);
}

weft_status weft_beside_tidy(const char *target)
{
    const char *slash = strrchr(target, '/');
    char *folder;
    WEFT_TRY(folder_of(target, &folder));
    DIR *all = opendir(folder);
    free(folder);
    if (!all) return WEFT_OK; /* the writer will report the error */
    for (struct dirent *one; (one = readdir(all));)
        if (named(one->d_name, slash ? slash + 1 : target)) remove_left(dirfd(all), one->d_name);
    closedir(all);
    return WEFT_OK;
}
