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

/* Opening a pipe would wait for its writer, and opening a device may act on it, so both are looked
 * at first; the flags cover a path that becomes one in between. */
weft_status weft_file_open(const char *path, struct stat *info, int *file)
{
    bool special = stat(path, info) == 0 && !S_ISREG(info->st_mode);
    *file = special ? -1 : open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (!special && *file < 0) return weft_fail_io("open", path);
    if (!special && fstat(*file, info) == 0 && S_ISREG(info->st_mode)) return WEFT_OK;
    if (*file >= 0) close(*file);
    return weft_fail(WEFT_ERR_IO, "%s: is not a regular file; give the path of a file", path);
}

weft_status weft_file_map(const char *path, weft_bytes *out)
{
    struct stat info;
    int file;
    WEFT_TRY(weft_file_open(path, &info, &file));
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

weft_status weft_file_read_from(int file, const char *path, void *data, size_t size, size_t *done)
{
    for (*done = 0; *done < size;) {
        ssize_t count = read(file, (char *)data + *done, WEFT_MIN(size - *done, (size_t)1 << 30));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return weft_fail_io("read", path);
        if (count == 0) break;
        *done += (size_t)count;
    }
    return WEFT_OK;
}

weft_status weft_file_read(const char *path, weft_bytes *out)
{
    struct stat info;
    unsigned char *data = NULL;
    size_t size;
    int file;
    WEFT_TRY(weft_file_open(path, &info, &file));
    weft_status status = WEFT_NEW(&data, (size_t)info.st_size);
    if (status == WEFT_OK)
        status = weft_file_read_from(file, path, data, (size_t)info.st_size, &size);
    close(file);
    if (status == WEFT_OK)
        *out = (weft_bytes){.data = data, .size = size};
    else
        free(data);
    return status;
}

weft_status weft_file_replace(const char *path, weft_output_mode mode, const void *data,
                              size_t size)
{
    weft_output *output;
    WEFT_TRY(weft_output_open(path, mode, &output));
    weft_status status = weft_output_write(output, data, size),
                end = weft_output_close(&output, true);
    return status == WEFT_OK ? end : status;
}

/* Anyone who can write to the folder could put a link of that name there, symbolic or hard, so that
 * the contents of another file would be overwritten. */
weft_status weft_file_open_own(const char *path, int *out)
{
    struct stat info;
    int file = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (file < 0 && errno != ELOOP) return weft_fail_io("open", path);
    if (file >= 0 && fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_nlink <= 1) {
        *out = file;
        return WEFT_OK;
    }
    if (file >= 0) close(file);
    return weft_fail(WEFT_ERR_IO,
                     "%s: is a link or no regular file, and this name is needed for a file of "
                     "this program; move it away, or choose another folder",
                     path);
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

weft_status weft_dir_make_new(const char *path)
{
    return mkdir(path, 0777) == 0 ? WEFT_OK : weft_fail_io("make the folder", path);
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
