/* Reads and creates files with secrets, such as tokens and keys. A file whose mode lets other users
 * read it is refused, and what was read is erased before its memory is given back. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

enum { MOST_SECRET = 4 << 20 };

/* The text that callers get, with its size, as callers may cut it into lines. */
typedef struct secret {
    size_t room;
    char text[];
} secret;

static secret *secret_of(char *text)
{
    return (secret *)(void *)(text - offsetof(secret, text));
}

/* `room` is one more than the file had when it was opened, so a longer text means that the file is
 * being written. */
static weft_status read_secret(int file, const char *path, const char *what, secret *s)
{
    size_t size;
    WEFT_TRY(weft_file_read_from(file, path, s->text, s->room, &size));
    if (size == s->room)
        return weft_fail(WEFT_ERR_IO, "%s: grew while it was read; try again", path);
    if (memchr(s->text, '\0', size))
        return weft_fail(WEFT_ERR_FORMAT, "%s: has a zero byte, so it is not %s", path, what);
    return WEFT_OK;
}

static weft_status check_secret(const char *path, const struct stat *info, unsigned closed_to,
                                const char *what)
{
    if (info->st_mode & closed_to)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: other users can access this, %s (mode %03o); chmod 600 %s, and make "
                         "a new one if one of them may have read it",
                         path, what, (unsigned)info->st_mode & 0777, path);
    if (info->st_size > MOST_SECRET)
        return weft_fail(WEFT_ERR_FORMAT, "%s: is too long for %s", path, what);
    return WEFT_OK;
}

weft_status weft_secret_read(const char *path, unsigned closed_to, const char *what, char **out)
{
    struct stat info;
    int file;
    *out = NULL;
    WEFT_TRY(weft_file_open(path, &info, &file));
    weft_status status = check_secret(path, &info, closed_to, what);
    size_t room = (size_t)info.st_size + 1;
    secret *s = status == WEFT_OK ? calloc(1, sizeof(*s) + room + 1) : NULL;
    if (status == WEFT_OK && !s) status = weft_fail_memory(room);
    if (s) {
        s->room = room;
        *out = s->text;
        status = read_secret(file, path, what, s);
    }
    if (status != WEFT_OK) weft_secret_free(out);
    close(file);
    return status;
}

void weft_secret_free(char **text)
{
    if (*text) {
        secret *s = secret_of(*text);
        explicit_bzero(s->text, s->room);
        free(s);
    }
    *text = NULL;
}

weft_status weft_file_create(const char *path, mode_t mode, const void *data, size_t size,
                             bool *exists)
{
    char *name;
    int file;
    size_t done = 0;
    *exists = false;
    weft_status status = weft_beside_open(path, mode, &name, &file);
    if (status == WEFT_OK && file < 0) status = weft_fail_io("create", path);
    if (status == WEFT_OK && fchmod(file, mode) != 0) status = weft_fail_io("create", path);
    while (status == WEFT_OK && done < size) {
        ssize_t count = write(file, (const char *)data + done, size - done);
        if (count > 0) done += (size_t)count;
        if (count < 0 && errno != EINTR) status = weft_fail_io("write", path);
    }
    if (status == WEFT_OK && fsync(file) != 0) status = weft_fail_io("sync", path);
    if (status == WEFT_OK && link(name, path) != 0) {
        *exists = errno == EEXIST;
        status = weft_fail_io("create", path);
    }
    weft_beside_remove(&name);
    if (file >= 0) close(file);
    return status;
}
