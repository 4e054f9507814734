/* Creates temporary files for atomic replacement, lists them, so that a process which ends at once
 * can remove its own, and removes those that killed processes have left. A temporary file is always
 * a new one (O_EXCL) with a random name, so nobody can put a link or a pipe in its place. A writer
 * locks its file (flock), so an unlocked file belongs to no live process on any machine that shares
 * the folder. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

#define MARK ".weft-tmp"

/* The temporary files of this process; their names are given out. */
typedef struct temporary {
    struct temporary *next;
    char name[];
} temporary;
static temporary *own;
static pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;

/* A thread that has the lock takes no signals, so that a handler, which never interrupts it, may
 * wait for the lock. */
static void lock_own(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, before);
    pthread_mutex_lock(&own_lock);
}

static void unlock_own(const sigset_t *before)
{
    pthread_mutex_unlock(&own_lock);
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* With the lock: the file is no longer this process's. */
static void forget(char **name)
{
    temporary *mine = (temporary *)(void *)(*name - offsetof(temporary, name)), **at = &own;
    while (*at && *at != mine) at = &(*at)->next;
    if (*at) *at = mine->next;
    free(mine);
    *name = NULL;
}

void weft_beside_remove(char **name)
{
    sigset_t before;
    if (!*name) return;
    lock_own(&before);
    (void)unlink(*name);
    forget(name);
    unlock_own(&before);
}

bool weft_beside_place(char **name, const char *target)
{
    sigset_t before;
    lock_own(&before);
    bool done = rename(*name, target) == 0;
    int why = errno;
    if (done) forget(name);
    unlock_own(&before);
    errno = why;
    return done;
}

void weft_output_abandon_all(void)
{
    sigset_t before;
    lock_own(&before); /* for ever */
    for (const temporary *t = own; t; t = t->next) (void)unlink(t->name);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* With the lock. A process on another machine may remove the new file between open and lock
 * (weft_beside_tidy). Another file is then created. */
static int open_new(char *name, size_t size, const char *target, mode_t mode)
{
    enum { TRIES = 20 };
    struct stat info;
    for (int i = 0;; i++) {
        uint32_t number = 0;
        while (getentropy(&number, sizeof(number)) != 0 && errno == EINTR) continue;
        (void)snprintf(name, size, "%s" MARK "%ld.%08x", target, (long)getpid(), number);
        int file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (file < 0 && (errno != EEXIST || i == TRIES)) return -1;
        if (file < 0) continue;
        (void)flock(file, LOCK_EX | LOCK_NB); /* fails on a file system without locks */
        bool gone = fstat(file, &info) == 0 && info.st_nlink == 0;
        if (i == TRIES || !gone) return file;
        close(file);
    }
}

weft_status weft_beside_open(const char *target, mode_t mode, char **name, int *file)
{
    temporary *t;
    sigset_t before;
    size_t size = strlen(target) + sizeof(MARK) + 32;
    *name = NULL;
    WEFT_TRY(weft_new_bytes(&t, 1, sizeof(*t) + size));
    lock_own(&before);
    *file = open_new(t->name, size, target, mode);
    int why = errno;
    if (*file >= 0) {
        t->next = own;
        own = t;
        *name = t->name;
    }
    unlock_own(&before);
    if (*file < 0) free(t);
    errno = why;
    return WEFT_OK;
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
    sigset_t before;
    WEFT_TRY(folder_of(target, &folder));
    DIR *all = opendir(folder);
    free(folder);
    if (!all) return WEFT_OK; /* the writer will report the error */
    lock_own(&before);        /* another thread may not have locked its new file yet */
    for (struct dirent *one; (one = readdir(all));)
        if (named(one->d_name, slash ? slash + 1 : target)) remove_left(dirfd(all), one->d_name);
    unlock_own(&before);
    closedir(all);
    return WEFT_OK;
}
