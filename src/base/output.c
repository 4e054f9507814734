#include "weft/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

enum { MOST_LINKS = 40 };
static const double READER_SECONDS = 10; /* that the reader of a named pipe may come later */
static const double WRITER_SECONDS = 3;  /* that a writer which is ending may take to close */

struct weft_output {
    FILE *file;
    char *name;      /* for messages */
    char *target;    /* the regular file to replace; NULL: written directly */
    char *temporary; /* temporary file with the new contents */
    bool regular;
    weft_error error; /* the first failure */
};

static weft_status fail(weft_output *o, const char *what)
{
    if (o->error.status == WEFT_OK) weft_error_catch(&o->error, weft_fail_io(what, o->name));
    return weft_error_raise(&o->error);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool weft_output_is_standard(const char *path)
{
    WEFT_NEED_ELSE(false, path);
    struct stat there, here;
    if (strcmp(path, "-") == 0) return true;
    return stat(path, &there) == 0 && fstat(STDOUT_FILENO, &here) == 0 && same_file(&there, &here);
}

/* Resolves a chain of symbolic links. The file at its end need not exist. */
static weft_status follow(const char *path, char **out)
{
    char to[PATH_MAX];
    WEFT_TRY(weft_strdup(path, out));
    for (int i = 0; i < MOST_LINKS; i++) {
        ssize_t size = readlink(*out, to, sizeof(to) - 1);
        if (size < 0) return WEFT_OK;
        to[size] = '\0';
        const char *slash = to[0] == '/' ? NULL : strrchr(*out, '/');
        char *next;
        weft_status status = weft_format(&next, "%.*s%s", slash ? (int)(slash - *out) + 1 : 0,
                                         slash ? *out : "", to);
        free(*out);
        *out = NULL;
        WEFT_TRY(status);
        *out = next;
    }
    errno = ELOOP;
    return weft_fail_io("open", path);
}

/* Finds the folder and the file name of a path that does not exist yet; false if the folder does
 * not exist either. The caller frees *name. */
static bool future_place(const char *path, struct stat *folder, char **name)
{
    char *target = NULL, *slash;
    bool known = follow(path, &target) == WEFT_OK;
    if (known) {
        for (size_t n = strlen(target); n > 1 && target[n - 1] == '/'; n--) target[n - 1] = '\0';
        slash = strrchr(target, '/');
        *name = strdup(slash ? slash + 1 : target);
        if (slash) slash[slash == target] = '\0';
        known = *name && stat(slash ? target : ".", folder) == 0;
    }
    free(target);
    return known;
}

bool weft_output_same(const char *a, const char *b)
{
    WEFT_NEED_ELSE(false, a, b);
    struct stat x, y;
    char *name = NULL, *other = NULL;
    bool dash = strcmp(a, "-") == 0, other_dash = strcmp(b, "-") == 0;
    if (dash || other_dash) return dash && other_dash;
    bool there = stat(a, &x) == 0;
    if (there != (stat(b, &y) == 0)) return false;
    if (there) return same_file(&x, &y) && !S_ISCHR(x.st_mode);
    bool same = future_place(a, &x, &name) && future_place(b, &y, &other) && same_file(&x, &y) &&
                strcmp(name, other) == 0;
    free(name);
    free(other);
    return same;
}

/* Creates a temporary file with the permissions of the file that it will replace. The bits that
 * lend a program its owner's or group's rights are not kept: the new file has another owner and
 * other contents. */
static weft_status open_beside(weft_output *o, const struct stat *old, int *file)
{
    WEFT_TRY(weft_beside_tidy(o->target));
    WEFT_TRY(weft_beside_open(o->target, 0666, &o->temporary, file));
    if (*file < 0) return fail(o, "create");
    if (old && S_ISREG(old->st_mode)) (void)fchmod(*file, old->st_mode & 0777);
    return WEFT_OK;
}

static weft_status open_stream(weft_output *o, int file, weft_output_mode mode)
{
    struct stat info;
    o->regular = fstat(file, &info) == 0 && S_ISREG(info.st_mode);
    o->file = fdopen(file, "w");
    /* The stream is line-buffered, so that a reader that follows the file sees whole lines, in
     * order with other writers, also if this process is killed. */
    if (o->file && (mode == WEFT_OUTPUT_STREAM || mode == WEFT_OUTPUT_APPEND))
        (void)setvbuf(o->file, NULL, _IOLBF, 0);
    if (o->file) return WEFT_OK;
    weft_status status = fail(o, "open");
    close(file);
    weft_beside_remove(&o->temporary);
    return status;
}

/* Opens a temporary file for a file that the program itself names. A link or file of that name is
 * replaced, never followed or written to; nothing else is. */
static weft_status open_own(weft_output *o, const char *path, int *file)
{
    struct stat info;
    bool there = lstat(path, &info) == 0;
    if (there && !S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode))
        return weft_fail(WEFT_ERR_IO,
                         "%s: is not a regular file, and this name is needed for one; move it "
                         "away, or choose another folder",
                         path);
    WEFT_TRY(weft_strdup(path, &o->target));
    return open_beside(o, there ? &info : NULL, file);
}

/* Opens something that is there and is no regular file. A named pipe without a reader cannot be
 * opened; its reader may still be starting. */
static int open_special(const char *path, const struct stat *info)
{
    double end = weft_seconds() + READER_SECONDS;
    for (;;) {
        int file = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (file >= 0) (void)fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
        if (file >= 0 || errno != ENXIO || !S_ISFIFO(info->st_mode) || weft_seconds() >= end)
            return file;
        (void)usleep(20000);
    }
}

/* Locks a file that is written line by line, until it is closed: lines of two runs in one file
 * could not be told apart. Both writers would also cut it. File systems without locks let all pass.
 */
static weft_status lock_lines(const weft_output *o, int file)
{
    double end = weft_seconds() + WRITER_SECONDS;
    while (flock(file, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) return WEFT_OK;
        if (weft_seconds() >= end)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "%s: another run writes to this file; wait for its end, or give "
                             "another file",
                             o->name);
        (void)usleep(20000);
    }
    return WEFT_OK;
}

/* Opens a regular file that is written directly, and empties it only once it is locked. */
static weft_status open_lines(weft_output *o, const char *path, weft_output_mode mode, int *file)
{
    struct stat info;
    *file = open(path, O_WRONLY | O_CREAT | O_NOCTTY | O_CLOEXEC | O_APPEND, 0666);
    if (*file < 0) return fail(o, "open");
    weft_status status = WEFT_OK;
    if (fstat(*file, &info) == 0 && S_ISREG(info.st_mode)) {
        status = lock_lines(o, *file);
        if (status == WEFT_OK && mode == WEFT_OUTPUT_STREAM && ftruncate(*file, 0) != 0)
            status = fail(o, "empty");
    }
    if (status != WEFT_OK) close(*file);
    return status;
}

static weft_status open_file(weft_output *o, const char *path, weft_output_mode mode)
{
    struct stat info;
    int file;
    if (mode == WEFT_OUTPUT_OWN) {
        WEFT_TRY(open_own(o, path, &file));
        return open_stream(o, file, mode);
    }
    bool there = stat(path, &info) == 0;
    if (weft_output_is_standard(path) &&
        (fcntl(STDOUT_FILENO, F_GETFL) & O_ACCMODE) == O_RDONLY) { /* stdout was closed at start */
        errno = EBADF;
        file = -1;
    } else if (weft_output_is_standard(path)) {
        file = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    } else if (mode == WEFT_OUTPUT_REPLACE && (!there || S_ISREG(info.st_mode))) {
        WEFT_TRY(follow(path, &o->target));
        WEFT_TRY(open_beside(o, there ? &info : NULL, &file));
    } else if (there && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
        file = open_special(path, &info);
        if (file < 0 && errno == ENXIO && S_ISFIFO(info.st_mode))
            return weft_fail(WEFT_ERR_IO,
                             "%s: cannot open: nobody reads this pipe; start its reader first",
                             path);
    } else {
        WEFT_TRY(open_lines(o, path, mode, &file));
    }
    if (file < 0) return fail(o, "open");
    return open_stream(o, file, mode);
}

static void output_free(weft_output *o)
{
    free(o->name);
    free(o->target);
    free(o);
}

weft_status weft_output_open(const char *path, weft_output_mode mode, weft_output **out)
{
    WEFT_NEED(path, out);
    WEFT_CHECK_INDEX(mode, WEFT_OUTPUT_OWN + 1);
    if (!*path) return weft_fail(WEFT_ERR_ARGUMENT, "the path of an output is empty");
    weft_output *o;
    bool standard = weft_output_is_standard(path);
    WEFT_TRY(WEFT_NEW(&o, 1));
    weft_status status =
        weft_strdup(standard && strcmp(path, "-") == 0 ? "standard output" : path, &o->name);
    if (status == WEFT_OK) status = open_file(o, path, mode);
    if (status != WEFT_OK) {
        output_free(o);
        return status;
    }
    *out = o;
    return WEFT_OK;
}

/* Returns the result of a write. A line-buffered stream discards data that it could not write, and
 * only its error flag shows that, so the flag is checked as well. */
static weft_status written(weft_output *o, bool taken)
{
    return taken && !ferror(o->file) ? WEFT_OK : fail(o, "write");
}

weft_status weft_output_write(weft_output *o, const void *data, size_t size)
{
    WEFT_NEED_AS("output", o);
    if (size > 0) WEFT_NEED(data);
    if (o->error.status != WEFT_OK) return fail(o, "write");
    return written(o, size == 0 || fwrite(data, 1, size, o->file) == size);
}

weft_status weft_output_print(weft_output *o, const char *format, ...)
{
    WEFT_NEED_AS("output, format", o, format);
    va_list arguments;
    if (o->error.status != WEFT_OK) return fail(o, "write");
    va_start(arguments, format);
    int size = vfprintf(o->file, format, arguments);
    va_end(arguments);
    return written(o, size >= 0);
}

weft_status weft_output_flush(weft_output *o)
{
    WEFT_NEED_AS("output", o);
    if (o->error.status != WEFT_OK) return fail(o, "write");
    return written(o, fflush(o->file) == 0);
}

/* Syncs the folder of a renamed file, since the rename is durable only when the directory entry is
 * synced. A folder without read permission cannot be opened, so it is not synced. */
static weft_status sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX] = "."; /* the file is in place, so no allocation may fail */
    if (slash) (void)snprintf(folder, sizeof(folder), "%.*s", (int)(slash - path) + 1, path);
    return access(folder, R_OK) == 0 ? weft_dir_sync(folder) : WEFT_OK;
}

static weft_status put_in_place(weft_output *o)
{
    if (!weft_beside_place(&o->temporary, o->target)) return fail(o, "replace");
    return sync_folder(o->target);
}

weft_status weft_output_close(weft_output **output, bool keep)
{
    if (!output || !*output) return WEFT_OK;
    weft_output *o = *output;
    *output = NULL;
    weft_status status = weft_output_flush(o);
    if (status == WEFT_OK && o->regular && fsync(fileno(o->file)) != 0 && errno != EINVAL)
        status = fail(o, "sync");
    if (fclose(o->file) != 0 && status == WEFT_OK) status = fail(o, "close");
    if (status == WEFT_OK && keep && o->target) status = put_in_place(o);
    weft_beside_remove(&o->temporary);
    output_free(o);
    return status;
}

const char *weft_json_real(double value, int digits, char *buffer, size_t size)
{
    WEFT_NEED_ELSE(NULL, buffer);
    if (size == 0 || digits < 1 || digits > 17) return NULL;
    if (isfinite(value))
        (void)snprintf(buffer, size, "%.*g", digits, value);
    else
        (void)snprintf(buffer, size, "null");
    return buffer;
}
