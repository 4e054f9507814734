#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "weft/output.h"

weft_status weft_fail_io(const char *what, const char *path)
{
    const char *remedy = "";
    if (errno == ENOSPC) remedy = "; free some space or choose another folder";
    if (errno == EACCES || errno == EROFS)
        remedy = "; give yourself the permission, or choose another place";
    if (errno == ENOENT) remedy = "; check the path";
    return weft_fail(WEFT_ERR_IO, "%s: cannot %s: %s%s", path, what, strerror(errno), remedy);
}

weft_status weft_file_map(const char *path, weft_bytes *out)
{
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* opening a pipe would block */
    if (file < 0) return weft_fail_io("open", path);
    struct stat info;
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(file);
        return weft_fail(WEFT_ERR_IO, "%s: is not a regular file; give the path of a file", path);
    }
    *out = (weft_bytes){.size = (size_t)info.st_size};
    if (info.st_size > 0) {
        void *data = mmap(NULL, out->size, PROT_READ, MAP_PRIVATE, file, 0);
        if (data == MAP_FAILED) {
            close(file);
            return weft_fail_io("map", path);
        }
        out->data = data;
        out->mapped = true;
    }
    close(file);
    return WEFT_OK;
}

void weft_file_unmap(weft_bytes *bytes)
{
    /* munmap takes a non-const pointer. */
    if (bytes->mapped) munmap((void *)(uintptr_t)bytes->data, bytes->size);
    *bytes = (weft_bytes){0};
}

weft_status weft_file_read(const char *path, weft_bytes *out)
{
    weft_bytes file = {0};
    unsigned char *copy;
    WEFT_TRY(weft_file_map(path, &file));
    weft_status status = WEFT_NEW(&copy, file.size);
    if (status == WEFT_OK) {
        if (file.size > 0) memcpy(copy, file.data, file.size);
        *out = (weft_bytes){.data = copy, .size = file.size};
    }
    weft_file_unmap(&file);
    return status;
}

static weft_status write_all(int file, const char *path, const void *data, size_t size)
{
    const char *next = data;
    while (size > 0) {
        ssize_t done = write(file, next, WEFT_MIN(size, (size_t)1 << 30));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return weft_fail_io("write", path);
        next += done;
        size -= (size_t)done;
    }
    return WEFT_OK;
}

weft_status weft_file_write(const char *path, const void *data, size_t size)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) return weft_fail_io("create", path);
    weft_status status = write_all(file, path, data, size);
    if (status == WEFT_OK && fsync(file) != 0) status = weft_fail_io("sync", path);
    if (close(file) != 0 && status == WEFT_OK) status = weft_fail_io("close", path);
    if (status != WEFT_OK) unlink(path);
    return status;
}

weft_status weft_file_replace(const char *path, const void *data, size_t size)
{
    weft_output *output;
    WEFT_TRY(weft_output_open(path, WEFT_OUTPUT_REPLACE, &output));
    weft_status status = weft_output_write(output, data, size),
                end = weft_output_close(&output, true);
    return status == WEFT_OK ? end : status;
}

/* Syncs the parent folder of a path, so that a new folder survives a power failure. A parent folder
 * without read permission cannot be opened, so it is not synced. */
static weft_status sync_above(char *path)
{
    char *slash = strrchr(path, '/');
    weft_status status = WEFT_OK;
    if (slash && slash > path) *slash = '\0';
    const char *above = !slash ? "." : slash == path ? "/" : path;
    if (access(above, R_OK) == 0) status = weft_dir_sync(above);
    if (slash && slash > path) *slash = '/';
    return status;
}

weft_status weft_dir_make(const char *path)
{
    char *copy;
    WEFT_TRY(weft_strdup(path, &copy));
    weft_status status = WEFT_OK;
    for (char *c = copy + 1; status == WEFT_OK; c++) {
        if (*c != '/' && *c != '\0') continue;
        char old = *c;
        *c = '\0';
        struct stat info;
        bool made = mkdir(copy, 0777) == 0;
        if (!made && (errno != EEXIST || stat(copy, &info) != 0))
            status = weft_fail_io("make the folder", copy);
        else if (stat(copy, &info) == 0 && !S_ISDIR(info.st_mode))
            status = weft_fail(WEFT_ERR_IO, "%s: is a file, a folder is needed here", copy);
        else if (made)
            status = sync_above(copy);
        *c = old;
        if (old == '\0') break;
    }
    free(copy);
    return status;
}

weft_status weft_dir_sync(const char *path)
{
    int file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) return weft_fail_io("open", path);
    weft_status status = fsync(file) != 0 && errno != EINVAL ? weft_fail_io("sync", path) : WEFT_OK;
    close(file);
    return status;
}

weft_status weft_dir_remove(const char *path)
{
    int file = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) return errno == ENOENT ? WEFT_OK : weft_fail_io("open", path);
    DIR *dir = fdopendir(file);
    if (!dir) {
        close(file);
        return weft_fail_io("open", path);
    }
    struct dirent *entry;
    int why = 0;
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlinkat(dirfd(dir), entry->d_name, 0) != 0 && errno != EBUSY)
            why = errno;
    closedir(dir);
    if (rmdir(path) == 0) return WEFT_OK;
    if (why == 0 && (errno == ENOTEMPTY || errno == EBUSY)) return WEFT_OK; /* of NFS */
    if (why != 0) errno = why;
    return weft_fail_io("remove", path);
}

bool weft_file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}
