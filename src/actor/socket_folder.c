/* Makes private folders for the sockets of a job's processes, and removes those that killed
 * processes have left: whoever makes one locks it (flock) while it lives. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actor/net.h"

static const char NAME[] = "weft-sockets-";

/* Removes a folder and the sockets that killed processes have left in it. */
static void remove_sockets(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) return;
    for (const struct dirent *e = readdir(folder); e; e = readdir(folder))
        if (e->d_name[0] != '.') (void)unlinkat(dirfd(folder), e->d_name, 0);
    closedir(folder);
    (void)rmdir(path);
}

/* Opens a folder of this user and locks it, as its owner does for as long as it lives. wait: until
 * another process has unlocked it. NULL: it is locked, gone, another user's, or no folder. */
static DIR *lock_folder(const char *path, bool wait)
{
    struct stat there, own;
    DIR *folder = opendir(path);
    if (!folder) return NULL;
    /* Another process may have removed the folder before it was locked. */
    if (flock(dirfd(folder), wait ? LOCK_EX : LOCK_EX | LOCK_NB) == 0 && lstat(path, &there) == 0 &&
        fstat(dirfd(folder), &own) == 0 && there.st_ino == own.st_ino && own.st_uid == geteuid())
        return folder;
    closedir(folder);
    return NULL;
}

/* Removes the folders whose owners were killed: those that can be locked. On a file system without
 * locks none can, and all stay. */
static void remove_abandoned(const char *root)
{
    DIR *all = opendir(root);
    if (!all) return;
    for (const struct dirent *e = readdir(all); e; e = readdir(all)) {
        char *path;
        if (strncmp(e->d_name, NAME, sizeof(NAME) - 1) != 0) continue;
        if (weft_format(&path, "%s/%s", root, e->d_name) != WEFT_OK) break;
        DIR *folder = lock_folder(path, false);
        if (folder) remove_sockets(path);
        if (folder) closedir(folder);
        free(path);
    }
    closedir(all);
}

/* The path of a socket is short (107 bytes) and has no '#', behind which an address has a key, and
 * no space. */
weft_status weft_socket_folder_make(weft_socket_folder *out)
{
    enum { LONGEST = 64 };
    const char *root = getenv("TMPDIR");
    if (!root || *root != '/' || strlen(root) > LONGEST || strpbrk(root, "# ")) root = "/tmp";
    remove_abandoned(root);
    do {
        (void)snprintf(out->path, sizeof(out->path), "%s/%s%016" PRIx64, root, NAME, weft_draw());
        if (mkdir(out->path, 0700) != 0) {
            out->path[0] = '\0';
            return weft_fail(WEFT_ERR_IO,
                             "%s: a folder for the sockets of processes cannot be made: %s; let "
                             "TMPDIR name a folder that can be written",
                             root, strerror(errno));
        }
        out->held = lock_folder(out->path, true);
    } while (!out->held && !weft_file_exists(out->path));
    return WEFT_OK;
}

void weft_socket_folder_remove(weft_socket_folder *folder)
{
    if (folder->path[0]) remove_sockets(folder->path);
    if (folder->held) closedir(folder->held);
    *folder = (weft_socket_folder){.held = NULL};
}
