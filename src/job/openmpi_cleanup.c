/* Removes what Open MPI 4 leaves on this machine when its launcher is killed: the session folder,
 * whose name ends with the launcher's process id, and the shared memory of the ranks, whose names
 * contain the job id. Nothing else is touched. */
#include <ctype.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/status_page.h"

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    (void)remove(path);
    return 0;
}

static void remove_session(const char *host, pid_t launcher)
{
    static const char *const variables[] = {"TMPDIR", "TEMP", "TMP"};
    const char *base = NULL;
    char path[512];
    struct stat info;
    for (size_t i = 0; i < WEFT_COUNT(variables) && !base; i++) base = getenv(variables[i]);
    (void)snprintf(path, sizeof(path), "%s/ompi.%s.%u/pid.%d", base ? base : "/tmp", host,
                   (unsigned)geteuid(), (int)launcher);
    if (lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid())
        (void)nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Removes the ranks' shared memory. `job` is the job id in decimal digits; the names of segments
 * have it in hexadecimal. */
static void remove_segments(const char *host, const char *job)
{
    int64_t number;
    char begin[400];
    if (!weft_parse_int(job, &number) || number <= 0) return;
    int size = snprintf(begin, sizeof(begin), "vader_segment.%s.%u.%llx.", host,
                        (unsigned)geteuid(), (unsigned long long)number);
    DIR *dir = size < (int)sizeof(begin) ? opendir("/dev/shm") : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *rank = entry->d_name + size;
        if (strncmp(entry->d_name, begin, (size_t)size) != 0 || !isdigit((unsigned char)*rank))
            continue;
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir) closedir(dir);
}

void weft_openmpi_cleanup(pid_t launcher, const char *job)
{
    char host[256] = "";
    if (gethostname(host, sizeof(host) - 1) != 0) return;
    remove_session(host, launcher);
    remove_segments(host, job);
}
