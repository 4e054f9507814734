/* Reads the folders of a model repository. */
#include "serve/repository_scan.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "serve/servable.h"

/* Folders in each other whose files are looked at: a run has folders of steps. */
enum { DEPTH = 3 };

static uint64_t hash_files(const char *folder, int depth);

/* A hash of a file, or of the files of a folder. A link stands for what it leads to, so the hash
 * changes with its target. */
static uint64_t hash_file(const DIR *dir, const char *folder, const char *name, int depth)
{
    struct stat info;
    char *path;
    if (fstatat(dirfd((DIR *)(uintptr_t)dir), name, &info, 0) != 0) return 0;
    uint64_t hash = weft_mix(weft_hash_text(name), (uint64_t)info.st_ino);
    hash = weft_mix(hash, (uint64_t)info.st_dev);
    if (!S_ISDIR(info.st_mode)) {
        hash = weft_mix(hash, (uint64_t)info.st_size);
        hash = weft_mix(hash, (uint64_t)info.st_mtim.tv_sec);
        hash = weft_mix(hash, (uint64_t)info.st_mtim.tv_nsec);
        /* Programs that copy in place can set the time of the contents back, but not this one. */
        hash = weft_mix(hash, (uint64_t)info.st_ctim.tv_sec);
        return weft_mix(hash, (uint64_t)info.st_ctim.tv_nsec);
    }
    if (depth == DEPTH || weft_format(&path, "%s/%s", folder, name) != WEFT_OK) return hash;
    hash = weft_mix(hash, hash_files(path, depth + 1));
    free(path);
    return hash;
}

/* A hash of the names, inodes, sizes and times of the files in a folder. The hash changes when a
 * file is replaced or is still being copied, and does not depend on the order of the listing. The
 * file of batch times, and what stands in for it while it is written, is left out, since the server
 * writes it. */
static uint64_t hash_files(const char *folder, int depth)
{
    uint64_t files_hash = 1;
    DIR *dir = opendir(folder);
    if (!dir) return files_hash;
    for (const struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.' ||
            strncmp(e->d_name, WEFT_BATCH_TIMES_FILE, strlen(WEFT_BATCH_TIMES_FILE)) == 0)
            continue;
        files_hash += hash_file(dir, folder, e->d_name, depth);
    }
    closedir(dir);
    return files_hash;
}

static bool is_folder(const DIR *dir, const char *name)
{
    struct stat info;
    return fstatat(dirfd((DIR *)(uintptr_t)dir), name, &info, 0) == 0 && S_ISDIR(info.st_mode);
}

/* Whether the text is a version number in canonical form: neither 01 nor +1. */
static bool is_version(const char *text, int64_t *version)
{
    char own[32];
    if (!weft_parse_int(text, version) || *version < 1) return false;
    (void)snprintf(own, sizeof(own), "%lld", (long long)*version);
    return strcmp(own, text) == 0;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = ((const weft_found_version *)a)->version,
            y = ((const weft_found_version *)b)->version;
    return x > y ? -1 : x < y;
}

weft_status weft_repository_versions(const char *folder, weft_found_version **out, int *count)
{
    size_t capacity = 0;
    weft_status status = WEFT_OK;
    DIR *dir = opendir(folder);
    if (!dir && errno == ENOENT) return WEFT_OK;
    if (!dir) return weft_fail_io("be read", folder);
    for (const struct dirent *e; status == WEFT_OK && (e = readdir(dir));) {
        int64_t version;
        char *path = NULL;
        if (!is_version(e->d_name, &version) || !is_folder(dir, e->d_name)) continue;
        status = weft_format(&path, "%s/%s", folder, e->d_name);
        if (status == WEFT_OK) status = WEFT_GROW(out, &capacity, *count);
        if (status == WEFT_OK)
            (*out)[(*count)++] = (weft_found_version){version, hash_files(path, 0)};
        free(path);
    }
    closedir(dir);
    if (*count > 0) qsort(*out, (size_t)*count, sizeof(**out), newest_first);
    return status;
}

static weft_status add_name(const DIR *dir, const char *name, char ***names, int *count,
                            size_t *capacity)
{
    if (name[0] == '.' || !is_folder(dir, name)) return WEFT_OK;
    WEFT_TRY(WEFT_GROW(names, capacity, *count));
    WEFT_TRY(weft_strdup(name, &(*names)[*count]));
    (*count)++;
    return WEFT_OK;
}

weft_status weft_repository_names(const char *folder, char ***out, int *count, size_t *capacity)
{
    DIR *dir = opendir(folder);
    if (!dir) return weft_fail_io("be read", folder);
    weft_status status = WEFT_OK;
    for (const struct dirent *e; status == WEFT_OK && (e = readdir(dir));)
        status = add_name(dir, e->d_name, out, count, capacity);
    closedir(dir);
    weft_strings_sort(*out, *count);
    return status;
}
