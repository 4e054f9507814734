/* The files of ipc addresses: a listener takes the place of a socket that an ended process has
 * left, and of no other file. */
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
    return at && strncmp(at, ipc, n) == 0 && at[n] != '*' && at[n] != '@' ? at + n : NULL;
}

/* Whether a process listens at a socket. A full queue of connections, or a socket of another type,
 * belongs to a process as well. */
static bool has_listener(const char *file)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (probe < 0) return false;
    (void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", file);
    bool found = connect(probe, (const struct sockaddr *)&to, sizeof(to)) == 0 || errno == EAGAIN ||
                 errno == EPROTOTYPE;
    close(probe);
    return found;
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
    if (!has_listener(file)) return WEFT_OK;
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
