/* Manages the checkpoint folder of a run: locks it for one writer, lists its checkpoints, renames a
 * new checkpoint into place and removes old ones. Invariant: at any time, also after a crash, every
 * entry step-N that a run has made is a complete checkpoint. */
#include "checkpoint/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/checkpoint.h"

#define WEFT_GONE ".gone"
#define LINK_BEFORE ".latest.tmp" /* temporary link, renamed to `latest` */

/* --- the lock --- */

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

/* Takes the lock. Waits only while a process of the same job holds it: after a restart, a rank that
 * has lost its connection may live and keep the lock for some time. */
static weft_status wait_for(int file, const char *directory, const char *job, double timeout)
{
    holder mine = this_process(job);
    double end = weft_seconds() + timeout;
    while (flock(file, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) return WEFT_OK; /* a file system without locks */
        holder other = read_holder(file);
        if (strcmp(mine.job, "-") != 0 && strcmp(mine.job, other.job) == 0 &&
            weft_seconds() < end) {
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
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    weft_status status = WEFT_OK;
    if (file < 0)
        status = weft_fail(WEFT_ERR_IO, "%s: cannot be written: %s; choose another folder",
                           directory, strerror(errno));
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
    if (*lock >= 0) close(*lock);
    *lock = -1;
}

/* --- contents --- */

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x > y ? -1 : x < y;
}

/* Whether the name is step-N in canonical form; a copy that a user has named step-06 is not. */
static bool is_step(const char *name, int64_t *step)
{
    char own[40];
    if (strncmp(name, "step-", 5) != 0 || !weft_parse_int(name + 5, step)) return false;
    (void)snprintf(own, sizeof(own), "step-%lld", (long long)*step);
    return *step >= 0 && strcmp(name, own) == 0;
}

/* A checkpoint is complete if it has an index, which is written last. */
static bool is_whole(const char *directory, const char *name)
{
    char *index;
    if (weft_format(&index, "%s/%s/index.json", directory, name) != WEFT_OK) return true;
    bool whole = weft_file_exists(index);
    free(index);
    return whole;
}

/* Whether the name is that of a checkpoint that is being written (.step-N.tmp), removed
 * (.step-N.gone) or replaced (.step-N.old); *step gets N. */
static bool is_hidden(const char *name, int64_t *step)
{
    static const char *const ends[] = {".tmp", WEFT_GONE, WEFT_ASIDE};
    char own[64];
    for (size_t i = 0; i < WEFT_COUNT(ends); i++) {
        size_t size = strlen(name), end = strlen(ends[i]);
        if (name[0] != '.' || size <= end || size - end > sizeof(own) ||
            strcmp(name + size - end, ends[i]) != 0)
            continue;
        (void)snprintf(own, sizeof(own), "%.*s", (int)(size - end - 1), name + 1);
        if (is_step(own, step)) return true;
    }
    return false;
}

static bool is_folder(const char *directory, const char *name)
{
    struct stat info = {0};
    char *path;
    if (weft_format(&path, "%s/%s", directory, name) != WEFT_OK) return false;
    bool folder = lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
    free(path);
    return folder;
}

/* Whether checkpoints contain a file of this name. */
static bool is_known(const char *name)
{
    bool known = strcmp(name, "model.yaml") == 0 || strcmp(name, "index.json") == 0;
    for (int f = 0; f < WEFT_CHECKPOINT_FILES && !known; f++)
        known = strcmp(name, weft_checkpoint_files[f]) == 0;
    return known;
}

/* Whether the entry is a folder that contains only files of a checkpoint, though perhaps not all of
 * them. If it contains another file, `other` (NULL: not wanted) gets text that names that file. */
static bool is_ours(const char *directory, const char *name, char *other, size_t size)
{
    char *path = NULL;
    bool ours =
        is_folder(directory, name) && weft_format(&path, "%s/%s", directory, name) == WEFT_OK;
    DIR *dir = ours ? opendir(path) : NULL;
    ours = dir != NULL;
    for (struct dirent *entry; ours && (entry = readdir(dir));) {
        const char *in = entry->d_name;
        bool known = in[0] == '.' || is_known(in);
        if (!known && other) (void)snprintf(other, size, " ('%s' is in it)", in);
        ours = known;
    }
    if (dir) closedir(dir);
    free(path);
    return ours;
}

/* Symbolic links are resolved first, so a link to a checkpoint's file is refused, too. */
weft_status weft_checkpoint_refuse_overwrite(const char *option, const char *path)
{
    char real[PATH_MAX], *index, *parameters;
    if (!path || strcmp(path, "-") == 0 || !realpath(path, real)) return WEFT_OK;
    char *slash = strrchr(real, '/');
    if (!slash || !is_known(slash + 1)) return WEFT_OK;
    *slash = '\0';
    WEFT_TRY(weft_format(&index, "%s/index.json", real));
    weft_status status =
        weft_format(&parameters, "%s/%s", real, weft_checkpoint_files[WEFT_PARAMETERS_FILE]);
    bool whole = status == WEFT_OK && weft_file_exists(index) && weft_file_exists(parameters);
    free(index);
    if (status == WEFT_OK) free(parameters);
    if (!whole) return status;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "--%s %s is a file of a checkpoint, which would be lost; give another", option,
                     path);
}

static weft_status foreign(weft_status status, const char *directory, const char *name)
{
    char other[300] = "";
    if (is_ours(directory, name, other, sizeof(other))) return WEFT_OK;
    return weft_fail(
        status,
        "%s/%s is no checkpoint of weft%s, and this run would write its own under that "
        "name; move it away, or give another folder",
        directory, name, other);
}

weft_status weft_folder_check(const char *directory, int64_t after, int64_t last)
{
    DIR *dir = opendir(directory);
    if (!dir) return WEFT_OK;
    weft_status status = WEFT_OK;
    for (struct dirent *entry; status == WEFT_OK && (entry = readdir(dir));) {
        int64_t step;
        const char *name = entry->d_name;
        bool reached = is_step(name, &step) && step > after && step <= last;
        bool hidden = is_hidden(name, &step) && !is_folder(directory, name);
        bool link = strcmp(name, LINK_BEFORE) == 0 && is_folder(directory, name);
        if (reached || hidden || link) status = foreign(WEFT_ERR_ARGUMENT, directory, name);
    }
    closedir(dir);
    return status;
}

weft_status weft_checkpoint_list(const char *directory, int64_t **steps, int *count)
{
    size_t capacity = 0;
    *steps = NULL;
    *count = 0;
    DIR *dir = opendir(directory);
    if (!dir) return WEFT_OK;
    weft_status status = WEFT_OK;
    for (struct dirent *entry; status == WEFT_OK && (entry = readdir(dir));) {
        int64_t step;
        if (!is_step(entry->d_name, &step) || !is_whole(directory, entry->d_name)) continue;
        status = WEFT_GROW(steps, &capacity, *count);
        if (status == WEFT_OK) (*steps)[(*count)++] = step;
    }
    closedir(dir);
    if (*count > 0) qsort(*steps, (size_t)*count, sizeof(**steps), newest_first);
    return status;
}

/* --- removal --- */

static weft_status rename_in(const char *directory, const char *from, const char *to)
{
    char *old = NULL, *new = NULL;
    weft_status status = weft_format(&old, "%s/%s", directory, from);
    if (status == WEFT_OK) status = weft_format(&new, "%s/%s", directory, to);
    if (status == WEFT_OK && rename(old, new) != 0)
        status =
            weft_fail(WEFT_ERR_IO, "%s: cannot be renamed to %s: %s", old, new, strerror(errno));
    free(old);
    free(new);
    return status;
}

static weft_status remove_in(const char *directory, const char *name)
{
    char *path;
    WEFT_TRY(weft_format(&path, "%s/%s", directory, name));
    weft_status status = weft_dir_remove(path);
    free(path);
    return status;
}

/* Cleans up an entry that a crash has left behind. A replaced checkpoint (.old) without a complete
 * successor gets its name back; other hidden or incomplete checkpoints are removed. A folder
 * without an index to which `latest` points was complete once; it stays, so that opening it reports
 * the damage. */
static weft_status tidy(const char *directory, const char *name)
{
    char own[40], target[64] = "", *link;
    int64_t step;
    bool hidden = is_hidden(name, &step);
    if (!hidden && (!is_step(name, &step) || is_whole(directory, name))) return WEFT_OK;
    (void)snprintf(own, sizeof(own), "step-%lld", (long long)step);
    if (hidden && strcmp(name + strlen(name) - strlen(WEFT_ASIDE), WEFT_ASIDE) == 0 &&
        is_whole(directory, name) && !is_whole(directory, own))
        return rename_in(directory, name, own);
    if (hidden) return is_folder(directory, name) ? remove_in(directory, name) : WEFT_OK;
    WEFT_TRY(weft_format(&link, "%s/latest", directory));
    if (readlink(link, target, sizeof(target) - 1) < 0) target[0] = '\0';
    free(link);
    bool damaged = strcmp(target, name) == 0;
    return !damaged && is_ours(directory, name, NULL, 0) ? remove_in(directory, name) : WEFT_OK;
}

weft_status weft_folder_tidy(const char *directory)
{
    DIR *dir = opendir(directory);
    if (!dir) return WEFT_OK;
    weft_status status = WEFT_OK;
    for (struct dirent *entry; status == WEFT_OK && (entry = readdir(dir));)
        status = tidy(directory, entry->d_name);
    closedir(dir);
    return status;
}

weft_status weft_folder_prune(const char *directory, int64_t newest, int64_t keep)
{
    int64_t *steps;
    int count, kept = 0;
    WEFT_TRY(weft_checkpoint_list(directory, &steps, &count));
    weft_status status = WEFT_OK;
    for (int i = 0; i < count && status == WEFT_OK; i++) {
        char name[40], gone[48];
        if (steps[i] > newest || kept++ < keep) continue;
        (void)snprintf(name, sizeof(name), "step-%lld", (long long)steps[i]);
        (void)snprintf(gone, sizeof(gone), ".%s" WEFT_GONE, name);
        if (!is_ours(directory, name, NULL, 0)) continue; /* the folder contains foreign files */
        status = rename_in(directory, name, gone);
        if (status == WEFT_OK) status = weft_dir_sync(directory);
        if (status == WEFT_OK) status = remove_in(directory, gone);
    }
    free(steps);
    return status;
}

/* --- addition --- */

weft_status weft_folder_enter(const char *directory, const char *temporary, const char *name)
{
    char *from = NULL, *to = NULL;
    char aside[64];
    weft_status status = weft_format(&from, "%s/%s", directory, temporary);
    if (status == WEFT_OK) status = weft_format(&to, "%s/%s", directory, name);
    (void)snprintf(aside, sizeof(aside), ".%s%s", name, WEFT_ASIDE);
    /* A run that was resumed from an earlier step may replace a checkpoint of the same name. Old
     * and new folder are exchanged atomically if the file system supports that; otherwise the old
     * one is renamed first. */
    struct stat info;
    bool there = status == WEFT_OK && lstat(to, &info) == 0;
    if (there) status = foreign(WEFT_ERR_IO, directory, name);
    there = there && status == WEFT_OK;
    bool swapped = there && renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE) == 0;
    if (status == WEFT_OK && there && !swapped) status = rename_in(directory, name, aside);
    if (status == WEFT_OK && !swapped) status = rename_in(directory, temporary, name);
    if (status == WEFT_OK) status = weft_dir_sync(directory);
    if (status == WEFT_OK && there) status = remove_in(directory, swapped ? temporary : aside);
    free(from);
    free(to);
    return status;
}

/* Replaces the symbolic link `latest` atomically, by renaming a new link over it. */
weft_status weft_folder_point(const char *directory, const char *name)
{
    char *temporary;
    WEFT_TRY(weft_format(&temporary, "%s/" LINK_BEFORE, directory));
    weft_status status = WEFT_OK;
    unlink(temporary);
    if (symlink(name, temporary) != 0)
        status = weft_fail(WEFT_ERR_IO, "%s: cannot be pointed at %s: %s", temporary, name,
                           strerror(errno));
    free(temporary);
    if (status == WEFT_OK) status = rename_in(directory, LINK_BEFORE, "latest");
    return status == WEFT_OK ? weft_dir_sync(directory) : status;
}
