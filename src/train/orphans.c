/* Processes that a launcher leaves behind. While it adopts orphans, this process becomes the parent
 * of whatever its children leave, and can end it. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "train/board.h"

int weft_list_children(pid_t parent, pid_t *out, int room)
{
    int count = 0;
    char of[64];
    (void)snprintf(of, sizeof(of), "/proc/%d/task", (int)parent);
    DIR *tasks = opendir(of);
    if (!tasks) return 0;
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[340];
        int pid;
        (void)snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)parent, task->d_name);
        FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (!file) continue;
        while (count < room && fscanf(file, "%d", &pid) == 1) out[count++] = pid;
        fclose(file);
    }
    closedir(tasks);
    return count;
}

void weft_orphans_begin(weft_orphans *o)
{
    o->count = weft_list_children(getpid(), o->before, MOST_CHILDREN);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static bool known(const weft_orphans *o, pid_t pid)
{
    for (int i = 0; i < o->count; i++)
        if (o->before[i] == pid) return true;
    return false;
}

/* Lists of children may miss one while others end, so only the kernel's word counts, or, where
 * there were children before, that several lists in a row name no new one. */
static bool all_gone(const weft_orphans *o, int left, int *empty)
{
    siginfo_t info;
    *empty = left == 0 ? *empty + 1 : 0;
    if (o->count > 0) return *empty > 5;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

/* Ends every process that has come since, and what they leave in turn. */
void weft_orphans_end(weft_orphans *o)
{
    for (int round = 0, empty = 0; round < 500; round++) {
        pid_t now[MOST_CHILDREN];
        int left = 0, count = weft_list_children(getpid(), now, MOST_CHILDREN);
        for (int i = 0; i < count; i++) {
            if (known(o, now[i])) continue;
            kill(now[i], SIGKILL);
            (void)waitpid(now[i], NULL, WNOHANG);
            left++;
        }
        if (all_gone(o, left, &empty)) break;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}
