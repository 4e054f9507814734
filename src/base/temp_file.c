/* Creates temporary files for atomic replacement, and removes the ones that killed processes have
 * left. A writer locks its file (flock), so an unlocked file belongs to no live process on any
 * machine that shares the folder. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

#define MARK ".weft-tmp"

/* A process on another machine may remove the new file between open and lock (weft_beside_tidy).
 * The file is then created again. If the lock stays held through all tries, this process itself
 * writes another output to the same target, since the name contains its id; it then goes on without
 * the lock. */
weft_status weft_beside_open(const char *target, char **name, int *file)
{
    enum { TRIES = 20 };
    struct stat info;
    WEFT_TRY(weft_format(name, "%s" MARK "%ld", target, (long)getpid()));
    for (int i = 0;; i++) {
        *file = open(*name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (*file < 0) return WEFT_OK;
        bool held = flock(*file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
        bool gone = fstat(*file, &info) == 0 && info.st_nlink == 0;
        if (i == TRIES || (!held && !gone)) return WEFT_OK;
        close(*file);
        (void)usleep(1000);
    }
}

/* Whether no process with this id runs on this machine. One that has ended may stay a zombie, for
 * example in a container whose first process does not wait for it. */
static bool has_ended(pid_t pid)
{
    return (kill(pid, 0) != 0 && errno == ESRCH) || weft_process_state(pid) == 'Z';
}

/* Whether `name` is a temporary file for `target` whose process, by the id in the name, does not
 * run on this machine. */
static bool named(const char *name, const char *target)
{
    size_t size = strlen(target), mark = sizeof(MARK) - 1;
    int64_t pid;
    if (strncmp(name, target, size) != 0 || strncmp(name + size, MARK, mark) != 0) return false;
    const char *number = name + size + mark;
    if (!isdigit((unsigned char)*number) || !weft_parse_int(number, &pid) || pid > INT32_MAX)
        return false;
    return pid > 0 && has_ended((pid_t)pid);
}

/* Removes the file if it is unlocked, regular, and owned by this user. On a file system without
 * locks no file is removed. */
static void remove_left(int folder, const char *name)
{
    struct stat info;
    int file = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return;
    if (fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        flock(file, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(folder, name, 0);
    close(file);
}

weft_status weft_beside_tidy(const char *target)
{
    const char *slash = strrchr(target, '/');
    char *folder;
    WEFT_TRY(
        weft_format(&folder, "%.*s", slash ? (int)(slash - target) + 1 : 1, slash ? target : "."));
    DIR *all = opendir(folder);
    free(folder);
    if (!all) return WEFT_OK; /* the writer will report the error */
    for (struct dirent *one; (one = readdir(all));)
        if (named(one->d_name, slash ? slash + 1 : target)) remove_left(dirfd(all), one->d_name);
    closedir(all);
    return WEFT_OK;
}
