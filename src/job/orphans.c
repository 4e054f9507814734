/* Ends processes that a launcher leaves behind. As a subreaper (prctl) this process becomes the
 * parent of all orphaned descendants, and can kill them. Since it may have unrelated children, a
 * process belongs to the job only if it is in the process group of the job's first process, or has
 * the job's mark in its environment. */
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

/* Whether a process was started with this entry in its environment. */
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

void weft_orphans_signal(const weft_orphans *o, pid_t pid, int number)
{
    if (pid > 0 && has_mark(pid, o->mark)) kill(pid, number);
}

/* Whether a process belongs to the job. Processes of the job are remembered, since a process that
 * has ended has no environment any more. */
static bool is_of_job(weft_orphans *o, pid_t pid)
{
    for (int i = 0; i < o->count; i++)
        if (o->known[i] == pid) return true;
    bool grouped = o->group > 0 && getpgid(pid) == o->group;
    if (!grouped && !has_mark(pid, o->mark)) return false;
    if (o->count < MOST_CHILDREN) o->known[o->count++] = pid;
    return true;
}

/* Forgets a process that was reaped, since its id may be reused. */
static void forget(weft_orphans *o, pid_t pid)
{
    for (int i = 0; i < o->count; i++)
        if (o->known[i] == pid) o->known[i--] = o->known[--o->count];
}

/* Kills all adopted processes of the job, and the processes that these orphan in turn. A list of
 * children may miss some while others end, so the loop stops only if wait reports no children or,
 * if there are unrelated ones, if several lists in a row contain no process of the job. */
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
