/* Processes that a launcher leaves behind. While it adopts orphans, this process becomes the parent
 * of whatever its children leave, and can end it. It may have children of its own: what descends
 * from a job is told by the group of its first process, and by a word in its environment that no
 * other has. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "job/status_page.h"

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

void weft_orphans_begin(weft_orphans *o, const char *mark)
{
    *o = (weft_orphans){.mark = mark, .group = -1};
    (void)prctl(PR_GET_CHILD_SUBREAPER, &o->adopted, 0, 0, 0);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

/* Whether a process was started with this word in its environment. */
static bool has_mark(pid_t pid, const char *mark)
{
    char path[64], *word = NULL;
    size_t room = 0;
    bool found = false;
    (void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && !found && getdelim(&word, &room, '\0', file) > 0) found = !strcmp(word, mark);
    free(word);
    if (file) fclose(file);
    return found;
}

void weft_orphans_kill(const weft_orphans *o, pid_t pid)
{
    if (pid > 0 && has_mark(pid, o->mark)) kill(pid, SIGKILL);
}

/* One that has ended has no environment any more, so who was one of the job stays one. */
static bool is_of_job(weft_orphans *o, pid_t pid)
{
    for (int i = 0; i < o->count; i++)
        if (o->known[i] == pid) return true;
    bool grouped = o->group > 0 && getpgid(pid) == o->group;
    if (!grouped && !has_mark(pid, o->mark)) return false;
    if (o->count < MOST_CHILDREN) o->known[o->count++] = pid;
    return true;
}

/* Takes what an ended one has left; then its number may be another's. */
static void forget(weft_orphans *o, pid_t pid)
{
    for (int i = 0; i < o->count; i++)
        if (o->known[i] == pid) o->known[i--] = o->known[--o->count];
}

/* Ends every process of the job that this one has adopted, and what they leave in turn. Lists of
 * children may miss one while others end, so only the kernel's word counts, or, where there are
 * other children, that several lists in a row name none. */
void weft_orphans_end(weft_orphans *o)
{
    enum { SURE = 6, ROUNDS = 500 };
    for (int round = 0, empty = 0; round < ROUNDS && empty < SURE; round++) {
        siginfo_t info;
        int count = weft_list_children(getpid(), o->now, MOST_CHILDREN);
        empty++;
        for (int i = 0; i < count; i++) {
            pid_t pid = o->now[i];
            if (!is_of_job(o, pid)) continue;
            kill(pid, SIGKILL);
            if (waitpid(pid, NULL, WNOHANG) == pid) forget(o, pid);
            empty = 0;
        }
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD) break;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, o->adopted, 0, 0, 0);
}
