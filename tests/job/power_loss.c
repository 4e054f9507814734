/* Preloaded into a run (LD_PRELOAD), records all changes of the folder POWER_DIR, so that
 * power_loss.py can reconstruct what a power cut would have left at any moment. POWER_LOG gets a
 * line for each call, in order; for each fsync of a file, POWER_LOG.N is a copy of its contents.
 * With POWER_KILL=N the process is killed before its N-th removal of a file.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}
#define REAL(name_)                                                                                \
    __typeof__(&name_) real;                                                                       \
    void *symbol = next(#name_);                                                                   \
    memcpy(&real, &symbol, sizeof(real))

static int wanted(const char *path)
{
    const char *dir = getenv("POWER_DIR");
    return dir && path && strncmp(path, dir, strlen(dir)) == 0;
}

static void note(const char *format, ...)
{
    char line[2048];
    va_list arguments;
    const char *path = getenv("POWER_LOG");
    if (!path) return;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 || write(file, line, (size_t)size) != size) abort();
    close(file);
}

static char *name_of(int file, char *room, size_t size)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, room, size - 1);
    room[n > 0 ? n : 0] = '\0';
    return room;
}

static void keep_copy(const char *path)
{
    static int count;
    char copy[1100], block[65536];
    snprintf(copy, sizeof(copy), "%s.%d", getenv("POWER_LOG"), count);
    FILE *in = fopen(path, "rb"), *out = fopen(copy, "wb");
    if (!in || !out) abort();
    for (size_t n; (n = fread(block, 1, sizeof(block), in)) > 0;) fwrite(block, 1, n, out);
    fclose(in);
    fclose(out);
    note("sync\t%s\t%d\n", path, count++);
}

int fsync(int file)
{
    char path[1024];
    struct stat info;
    REAL(fsync);
    int code = real(file);
    if (code == 0 && wanted(name_of(file, path, sizeof(path)))) {
        if (fstat(file, &info) == 0 && S_ISDIR(info.st_mode))
            note("syncdir\t%s\n", path);
        else
            keep_copy(path);
    }
    return code;
}

static void note_open(int file, int existed)
{
    char path[1024];
    if (!existed && file >= 0 && wanted(name_of(file, path, sizeof(path))))
        note("create\t%s\n", path);
}

int open(const char *path, int flags, ...)
{
    REAL(open);
    va_list arguments;
    va_start(arguments, flags);
    unsigned mode = flags & O_CREAT ? va_arg(arguments, unsigned) : 0;
    va_end(arguments);
    int existed = !wanted(path) || !(flags & O_CREAT) || access(path, F_OK) == 0;
    int file = real(path, flags, mode);
    note_open(file, existed);
    return file;
}

int open64(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    unsigned mode = flags & O_CREAT ? va_arg(arguments, unsigned) : 0;
    va_end(arguments);
    return open(path, flags, mode);
}

FILE *fopen(const char *path, const char *how)
{
    REAL(fopen);
    int existed = !wanted(path) || how[0] == 'r' || access(path, F_OK) == 0;
    FILE *file = real(path, how);
    if (file) note_open(fileno(file), existed);
    return file;
}

FILE *fopen64(const char *path, const char *how)
{
    return fopen(path, how);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir);
    int code = real(path, mode);
    if (code == 0 && wanted(path)) note("mkdir\t%s\n", path);
    return code;
}

int rmdir(const char *path)
{
    REAL(rmdir);
    /* As with NFS, where a removed file that is still mapped has another name in its folder. */
    if (getenv("POWER_BUSY") && wanted(path)) {
        errno = ENOTEMPTY;
        return -1;
    }
    int code = real(path);
    if (code == 0 && wanted(path)) note("rmdir\t%s\n", path);
    return code;
}

int symlink(const char *target, const char *path)
{
    REAL(symlink);
    int code = real(target, path);
    if (code == 0 && wanted(path)) note("symlink\t%s\t%s\n", path, target);
    return code;
}

int rename(const char *from, const char *to)
{
    REAL(rename);
    int code = real(from, to);
    if (code == 0 && wanted(from)) note("rename\t%s\t%s\n", from, to);
    return code;
}

int renameat2(int at, const char *from, int to_at, const char *to, unsigned flags)
{
    REAL(renameat2);
    if (getenv("POWER_OLD")) { /* as on a file system without RENAME_EXCHANGE */
        errno = EINVAL;
        return -1;
    }
    int code = real(at, from, to_at, to, flags);
    if (code == 0 && wanted(from))
        note("%s\t%s\t%s\n", flags & 2 ? "exchange" : "rename", from, to);
    return code;
}

static void count_removal(void)
{
    static int removals;
    const char *last = getenv("POWER_KILL");
    if (last && ++removals == atoi(last)) raise(SIGKILL);
}

int unlink(const char *path)
{
    REAL(unlink);
    if (wanted(path)) count_removal();
    int code = real(path);
    if (code == 0 && wanted(path)) note("unlink\t%s\n", path);
    return code;
}

int unlinkat(int dir, const char *name, int flags)
{
    char path[1024], whole[1400];
    REAL(unlinkat);
    snprintf(whole, sizeof(whole), "%s/%s", name_of(dir, path, sizeof(path)), name);
    if (wanted(whole)) count_removal();
    int code = real(dir, name, flags);
    if (code == 0 && wanted(whole)) note("unlink\t%s\n", whole);
    return code;
}
