/* Manages the checkpoint folder of a run: lists its checkpoints, renames a
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
#include <unistd.h>

#include "checkpoint/checkpoint.h"

#define WEFT_GONE ".gone"
/* Temporary links, renamed to those without the dot. */
static const char *const links_before[] = {".latest.tmp", ".best.tmp"};

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
    bool known = strcmp(name, "model.yaml") == 0 || strcmp(name, "index.json") == 0 ||
                 strcmp(name, WEFT_BATCH_TIMES_FILE) == 0 || strcmp(name, WEFT_TUNING_FILE) == 0;
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

/* Whether the folder has both files. */
static weft_status has_both(const char *folder, const char *one, const char *other, bool *both)
{
    char *first, *second;
    WEFT_TRY(weft_format(&first, "%s/%s", folder, one));
    weft_status status = weft_format(&second, "%s/%s", folder, other);
    if (status == WEFT_OK) {
        *both = weft_file_exists(first) && weft_file_exists(second);
        free(second);
    }
    free(first);
    return status;
}

/* Symbolic links are resolved first, so a link to a checkpoint's file is refused, too. */
weft_status weft_checkpoint_refuse_overwrite(const char *option, const char *path)
{
    char real[PATH_MAX];
    bool whole = false, exported = false;
    if (!path || strcmp(path, "-") == 0 || !realpath(path, real)) return WEFT_OK;
    char *slash = strrchr(real, '/');
    if (!slash) return WEFT_OK;
    *slash = '\0';
    const char *name = slash + 1;
    bool of_export = strcmp(name, "model.json") == 0 || strcmp(name, "weights.safetensors") == 0;
    if (is_known(name))
        WEFT_TRY(has_both(real, "index.json", weft_checkpoint_files[WEFT_PARAMETERS_FILE], &whole));
    if (is_known(name) || of_export)
        WEFT_TRY(has_both(real, "model.json", "weights.safetensors", &exported));
    if (!whole && !exported) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "--%s %s is a file of %s, which would be lost; give another", option, path,
                     whole ? "a checkpoint" : "an exported model");
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

/* Called when opendir has failed: OK if there is no folder. A folder that may be entered and not
 * listed can have checkpoints that are named. */
static weft_status fail_list(const char *directory)
{
    bool none =
        errno == ENOENT || errno == ENOTDIR || (errno == EACCES && access(directory, X_OK) == 0);
    return none ? WEFT_OK : weft_fail_io("read", directory);
}

weft_status weft_folder_check(const char *directory, int64_t after, int64_t last)
{
    DIR *dir = opendir(directory);
    if (!dir) return fail_list(directory);
    weft_status status = WEFT_OK;
    for (struct dirent *entry; status == WEFT_OK && (entry = readdir(dir));) {
        int64_t step;
        const char *name = entry->d_name;
        bool reached = is_step(name, &step) && step > after && step <= last;
        bool hidden = is_hidden(name, &step) && !is_folder(directory, name);
        bool link = false;
        for (size_t i = 0; i < WEFT_COUNT(links_before); i++)
            link = link || (strcmp(name, links_before[i]) == 0 && is_folder(directory, name));
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
    if (!dir) return fail_list(directory);
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

/* Sets `target` to what a link of the folder names; empty: there is no such link. */
static weft_status read_link(const char *directory, const char *name, char target[64])
{
    char *link;
    WEFT_TRY(weft_format(&link, "%s/%s", directory, name));
    ssize_t size = readlink(link, target, 63);
    target[size < 0 ? 0 : size] = '\0';
    free(link);
    return WEFT_OK;
}

/* Cleans up an entry that a crash has left behind. A replaced checkpoint (.old) without a complete
 * successor gets its name back; other hidden or incomplete checkpoints are removed. A folder
 * without an index to which `latest` points was complete once; it stays, so that opening it reports
 * the damage. */
static weft_status tidy(const char *directory, const char *name)
{
    char own[40], target[64];
    int64_t step;
    bool hidden = is_hidden(name, &step);
    if (!hidden && (!is_step(name, &step) || is_whole(directory, name))) return WEFT_OK;
    (void)snprintf(own, sizeof(own), "step-%lld", (long long)step);
    if (hidden && strcmp(name + strlen(name) - strlen(WEFT_ASIDE), WEFT_ASIDE) == 0 &&
        is_whole(directory, name) && !is_whole(directory, own))
        return rename_in(directory, name, own);
    if (hidden) return is_folder(directory, name) ? remove_in(directory, name) : WEFT_OK;
    WEFT_TRY(read_link(directory, WEFT_LATEST, target));
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

/* Locks a checkpoint against readers, which hold a shared lock of its folder while they open its
 * files. *out gets the descriptor that holds the lock, or -1 on a file system without locks. False:
 * the checkpoint is being read. */
static bool lock_unread(const char *directory, const char *name, int *out)
{
    char *path;
    *out = -1;
    if (weft_format(&path, "%s/%s", directory, name) != WEFT_OK) return false;
    *out = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    free(path);
    if (*out < 0 || flock(*out, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true;
    close(*out);
    return false;
}

weft_status weft_folder_prune(const char *directory, int64_t newest, int64_t keep)
{
    int64_t *steps;
    int count, kept = 0, lock;
    char best[64];
    WEFT_TRY(read_link(directory, WEFT_BEST, best));
    WEFT_TRY(weft_checkpoint_list(directory, &steps, &count));
    weft_status status = WEFT_OK;
    for (int i = 0; i < count && status == WEFT_OK; i++) {
        char name[40], gone[48];
        if (steps[i] > newest || kept++ < keep) continue;
        (void)snprintf(name, sizeof(name), "step-%lld", (long long)steps[i]);
        (void)snprintf(gone, sizeof(gone), ".%s" WEFT_GONE, name);
        if (strcmp(name, best) == 0) continue;
        if (!is_ours(directory, name, NULL, 0)) continue;   /* the folder contains foreign files */
        if (!lock_unread(directory, name, &lock)) continue; /* the next call removes it */
        status = rename_in(directory, name, gone);
        if (lock >= 0) close(lock);
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

/* Removes a checkpoint that has the name of a link; IO: something else has. */
static weft_status in_place_of(const char *directory, const char *link)
{
    struct stat info;
    char *path;
    WEFT_TRY(weft_format(&path, "%s/%s", directory, link));
    bool there = lstat(path, &info) == 0 && !S_ISLNK(info.st_mode);
    free(path);
    if (!there) return WEFT_OK;
    WEFT_TRY(foreign(WEFT_ERR_IO, directory, link));
    return remove_in(directory, link);
}

/* Replaces the symbolic link atomically, by renaming a new link over it. In a copy of the folder in
 * which links were followed, a checkpoint is in its place. */
weft_status weft_folder_point(const char *directory, const char *link, const char *name)
{
    char *temporary, before[16];
    (void)snprintf(before, sizeof(before), ".%s.tmp", link);
    WEFT_TRY(in_place_of(directory, link));
    WEFT_TRY(weft_format(&temporary, "%s/%s", directory, before));
    weft_status status = WEFT_OK;
    unlink(temporary);
    if (symlink(name, temporary) != 0)
        status = weft_fail(WEFT_ERR_IO, "%s: cannot be pointed at %s: %s", temporary, name,
                           strerror(errno));
    free(temporary);
    if (status == WEFT_OK) status = rename_in(directory, before, link);
    return status == WEFT_OK ? weft_dir_sync(directory) : status;
}

/* --- a copy without links --- */

/* Whether the index has this checksum (see weft_checkpoint); its files then have, too. */
static weft_status has_checksum(const char *directory, const char *name, uint64_t checksum,
                                bool *out)
{
    char *index;
    weft_bytes bytes = {0};
    WEFT_TRY(weft_format(&index, "%s/%s/index.json", directory, name));
    weft_status status = weft_file_map(index, &bytes);
    *out = status == WEFT_OK && checksum == 1 + (uint64_t)weft_crc32(bytes.data, bytes.size);
    weft_file_unmap(&bytes);
    free(index);
    return status;
}

/* Moves aside what has the name of the newest checkpoint, if it is an equal one. */
static weft_status make_place(const char *directory, const char *name, const char *aside,
                              const weft_checkpoint *newest, bool *moved)
{
    struct stat info;
    char *path;
    bool equal;
    WEFT_TRY(weft_format(&path, "%s/%s", directory, name));
    *moved = lstat(path, &info) == 0;
    free(path);
    if (!*moved) return WEFT_OK;
    WEFT_TRY(foreign(WEFT_ERR_ARGUMENT, directory, name));
    WEFT_TRY(has_checksum(directory, name, newest->checksum, &equal));
    if (!equal)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s/latest and %s/%s are two different checkpoints of step %lld; move "
                         "away the one that this run shall not resume from",
                         directory, directory, name, (long long)newest->position.step);
    return rename_in(directory, name, aside);
}

/* `latest` is whole, since it was read. At any moment the checkpoint has one of the two names. */
weft_status weft_folder_name_latest(const char *directory, const weft_checkpoint *newest)
{
    char name[40], aside[48];
    bool moved;
    if (!is_folder(directory, WEFT_LATEST)) return WEFT_OK;
    WEFT_TRY(foreign(WEFT_ERR_ARGUMENT, directory, WEFT_LATEST));
    if (!newest->path)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s/latest is a folder, where this run would write a link; move it away",
                         directory);
    (void)snprintf(name, sizeof(name), "step-%lld", (long long)newest->position.step);
    (void)snprintf(aside, sizeof(aside), ".%s" WEFT_GONE, name);
    WEFT_TRY(weft_folder_tidy(directory));
    WEFT_TRY(make_place(directory, name, aside, newest, &moved));
    WEFT_TRY(rename_in(directory, WEFT_LATEST, name));
    WEFT_TRY(weft_dir_sync(directory));
    WEFT_TRY(weft_folder_point(directory, WEFT_LATEST, name));
    return moved ? remove_in(directory, aside) : WEFT_OK;
}
