/* The lock of the run that writes to a checkpoint folder: a lock of the file `.lock`, which names
 * its holder. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"

enum { NAMED_WITHIN = 10 }; /* seconds that a holder takes at most to write its name */

/* The holder of the lock, as written to the lock file; job "-": it has no supervisor. */
typedef struct holder {
    int pid;
    char host[128], job[160];
} holder;

static holder this_process(const char *job)
{
    holder h = {.pid = (int)getpid(), .host = "unknown", .job = "-"};
    (void)gethostname(h.host, sizeof(h.host) - 1);
    if (job && *job) (void)snprintf(h.job, sizeof(h.job), "%s", job);
    return h;
}

static holder read_holder(int file)
{
    holder h = {0};
    char text[400] = "";
    if (pread(file, text, sizeof(text) - 1, 0) < 0 ||
        sscanf(text, "%d %127s %159s", &h.pid, h.host, h.job) != 3)
        h = (holder){.host = "unknown", .job = ""};
    return h;
}

static weft_status note_holder(int file, const char *path, const char *job)
{
    holder h = this_process(job);
    char text[400];
    int size = snprintf(text, sizeof(text), "%d %s %s\n", h.pid, h.host, h.job);
    if (ftruncate(file, 0) != 0 || pwrite(file, text, (size_t)size, 0) != size)
        return weft_fail(WEFT_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    return WEFT_OK;
}

/* Whether the file names nobody, or a process of this machine that has ended: the lock has just
 * been taken, and its holder has not written its name yet. */
static bool is_former(const holder *named)
{
    holder mine = this_process(NULL);
    return named->pid <= 0 ||
           (strcmp(named->host, mine.host) == 0 && kill(named->pid, 0) != 0 && errno == ESRCH);
}

/* Takes the lock. Waits while a process of the same job holds it: after a restart, a rank that has
 * lost its connection may live and keep the lock for some time. */
static weft_status wait_for(int file, const char *directory, const char *job, double timeout)
{
    holder mine = this_process(job);
    double now = weft_seconds(), end = now + timeout, named = now + NAMED_WITHIN;
    while (flock(file, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) return WEFT_OK; /* a file system without locks */
        holder other = read_holder(file);
        bool same = strcmp(mine.job, "-") != 0 && strcmp(mine.job, other.job) == 0;
        now = weft_seconds();
        if ((same && now < end) || (is_former(&other) && now < named)) {
            nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
            continue;
        }
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: another run (process %d on %s) writes its checkpoints there; wait "
                         "for its end, or give another folder",
                         directory, other.pid, other.host);
    }
    return WEFT_OK;
}

weft_status weft_folder_lock(const char *directory, const char *job, double timeout, int *lock)
{
    char *path;
    if (*lock >= 0) return WEFT_OK;
    WEFT_TRY(weft_format(&path, "%s/.lock", directory));
    int file = -1;
    weft_status status = weft_file_open_own(path, &file);
    if (status == WEFT_OK) status = wait_for(file, directory, job, timeout);
    if (status == WEFT_OK) status = note_holder(file, path, job);
    if (status == WEFT_OK)
        *lock = file;
    else if (file >= 0)
        close(file);
    free(path);
    return status;
}

void weft_folder_unlock(int *lock)
{
    if (*lock >= 0) {
        (void)!ftruncate(*lock, 0); /* the next holder is not taken for this one */
        close(*lock);
    }
    *lock = -1;
}
