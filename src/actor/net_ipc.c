/* The files of ipc addresses: a listener takes the place of a socket that an ended process has
 * left, and of no other file. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "actor/net_internal.h"

const char *weft_net_ipc_file(const char *at)
{
    static const char ipc[] = "ipc://";
    size_t n = sizeof(ipc) - 1;
    return at && strncmp(at, ipc, n) == 0 ? at + n : NULL;
}

/* Whether a process listens at a socket: only a refused connection, or a file that is gone, tells
 * that none does. A full queue of connections, or a socket of another type or user, belongs to a
 * process as well. */
static weft_status find_listener(const char *file, bool *found)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (probe < 0) return weft_fail_io("be looked at", file);
    (void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", file);
    *found = connect(probe, (const struct sockaddr *)&to, sizeof(to)) == 0 ||
             (errno != ECONNREFUSED && errno != ENOENT);
    close(probe);
    return WEFT_OK;
}

weft_status weft_net_ipc_check(const char *at)
{
    struct stat about;
    const char *file = weft_net_ipc_file(at);
    if (!file || lstat(file, &about) != 0) return WEFT_OK;
    if (!S_ISSOCK(about.st_mode))
        return weft_fail(WEFT_ERR_IO,
                         "cannot listen at %s: the file exists and is not a socket; give another "
                         "path, or remove it",
                         at);
    bool found = false;
    WEFT_TRY(find_listener(file, &found));
    if (!found) return WEFT_OK;
    return weft_fail(WEFT_ERR_IO,
                     "cannot listen at %s: another process listens there already; give another "
                     "path",
                     at);
}

/* The umask would do so from the beginning, but it is that of all threads. */
weft_status weft_net_ipc_protect(const char *at)
{
    const char *file = weft_net_ipc_file(at);
    if (!file || chmod(file, S_IRUSR | S_IWUSR) == 0) return WEFT_OK;
    return weft_fail_io("be protected from other users", file);
}

/* Whether this process may write to a file, which connecting to a socket takes. */
static bool may_write(const char *file)
{
    return faccessat(AT_FDCWD, file, W_OK, AT_EACCESS) == 0 || errno != EACCES;
}

static bool lacks_folder(const char *file)
{
    struct stat about;
    char *folder;
    if (weft_format(&folder, "%.*s", (int)(strrchr(file, '/') - file), file) != WEFT_OK)
        return false;
    bool lacks = *folder && stat(folder, &about) != 0 && errno == ENOENT;
    free(folder);
    return lacks;
}

const char *weft_net_ipc_trouble(const char *at)
{
    struct stat about;
    const char *file = weft_net_ipc_file(at);
    if (!file) return NULL;
    if (stat(file, &about) != 0) {
        if (errno == EACCES) return "this user may not enter the folder of the socket";
        if (errno == ENOENT && strchr(file, '/') && lacks_folder(file))
            return "the folder of the socket does not exist; check the path";
        return errno == ENOENT ? NULL : strerror(errno);
    }
    if (!S_ISSOCK(about.st_mode)) return "the file there is not a socket; check the path";
    return may_write(file) ? NULL
                           : "the socket admits only the user whose process listens there; give "
                             "the command as that user";
}
