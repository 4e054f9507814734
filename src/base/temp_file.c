/* New contents of a file, beside it until they are whole. Who writes them holds a lock on them, so
 * what nobody holds was left by a process that was killed, on whatever machine that was. */
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

/* Whoever tidies on another machine between the two calls takes it for left behind, and it is made
 * again. Who has the lock for longer is this process itself, with another output to the same file.
 */
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

/* Whether it is named as this program names such files of a process that is gone here. */
static bool named(const char *name, const char *target)
{
    size_t size = strlen(target), mark = sizeof(MARK) - 1;
    int64_t pid;
    if (strncmp(name, target, size) != 0 || strncmp(name + size, MARK, mark) != 0) return false;
    const char *number = name + size + mark;
    if (!isdigit((unsigned char)*number) || !weft_parse_int(number, &pid) || pid > INT32_MAX)
        return false;
    return pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* Only files of this user that nobody holds. Where there are no locks, all are left alone. */
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
    if (!all) return WEFT_OK; /* which the one that writes there will notice */
    for (struct dirent *one; (one = readdir(all));)
        if (named(one->d_name, slash ? slash + 1 : target)) remove_left(dirfd(all), one->d_name);
    closedir(all);
    return WEFT_OK;
}
