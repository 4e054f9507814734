/* The processor time of machines that have less than their cores: control groups with a quota, and
 * pauses in each period. A group is named by the process that makes it; those of processes that
 * were killed are removed by the next one. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shaped_network.h"

/* Microseconds: the least quota, and the shortest period. Short ones matter, since ranks of MPI
 * that wait take processor time, too, and have none left when a message comes late in a period. */
enum { QUOTA = 1000, SHORTEST = 2000 };

#define NAME "weft-shaped-"

/* Version 1 of control groups has a hierarchy for processor time, version 2 one for all. */
static const char FIRST[] = "/sys/fs/cgroup/cpu", SECOND[] = "/sys/fs/cgroup";
static bool is_first;

static bool put(const char *folder, const char *name, const char *text)
{
    char path[200];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool done = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
    int why = errno;
    if (file >= 0) close(file);
    errno = why;
    return done;
}

static const char *root(void)
{
    is_first = access("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", W_OK) == 0;
    if (!is_first) (void)put(SECOND, "cgroup.subtree_control", "+cpu");
    return is_first ? FIRST : SECOND;
}

static bool set_quota(const char *group, double cores)
{
    char quota[32], period[32], both[80];
    double length = fmax(QUOTA / cores, SHORTEST);
    (void)snprintf(quota, sizeof(quota), "%.0f", cores * length);
    (void)snprintf(period, sizeof(period), "%.0f", length);
    (void)snprintf(both, sizeof(both), "%s %s", quota, period);
    if (!is_first) return put(group, "cpu.max", both);
    return put(group, "cpu.cfs_period_us", period) && put(group, "cpu.cfs_quota_us", quota);
}

/* Removes the groups of processes that have ended. */
static void remove_abandoned(const char *at)
{
    DIR *all = opendir(at);
    char path[400];
    for (const struct dirent *e; all && (e = readdir(all));) {
        if (strncmp(e->d_name, NAME, strlen(NAME)) != 0) continue;
        long pid = strtol(e->d_name + strlen(NAME), NULL, 10);
        if (pid <= 0 || kill((pid_t)pid, 0) == 0 || errno != ESRCH) continue;
        (void)snprintf(path, sizeof(path), "%s/%s", at, e->d_name);
        (void)rmdir(path);
    }
    if (all) closedir(all);
}

bool share_make(share *s, int number)
{
    const char *at = root();
    if (number == 0) remove_abandoned(at);
    if (s->cores <= 0) return true;
    (void)snprintf(s->group, sizeof(s->group), "%s/" NAME "%ld-%d", at, (long)getpid(), number);
    if (mkdir(s->group, 0755) != 0) {
        s->group[0] = '\0';
        return false;
    }
    return set_quota(s->group, s->cores);
}

void share_remove(share *s)
{
    const struct timespec soon = {.tv_nsec = 10000000};
    enum { TRIES = 200 }; /* the last process has ended and may still be counted */
    for (int i = 0; s->group[0] && i < TRIES && rmdir(s->group) != 0 && errno == EBUSY; i++)
        nanosleep(&soon, NULL);
    s->group[0] = '\0';
}

/* Whether a machine is awake after so many seconds. Machines pause one after the other, and not
 * while a job begins: mpirun gives up where a signal interrupts it as it connects. */
static bool awake(const share *s, int number, int count, double now)
{
    const double BEGINS = 6;
    return now < BEGINS || fmod(now + s->period * number / count, s->period) < s->awake * s->period;
}

/* Sends a signal to all processes of a group. */
static void tell(const share *s, int signal)
{
    char path[200];
    long pid;
    (void)snprintf(path, sizeof(path), "%s/cgroup.procs", s->group);
    FILE *file = fopen(path, "re");
    while (file && fscanf(file, "%ld", &pid) == 1)
        if (pid > 0) (void)kill((pid_t)pid, signal);
    if (file) (void)fclose(file);
}

/* Stops and continues the processes of machines again and again, so that new ones stop, too. */
__attribute__((noreturn)) static void pause_machines(const share *all, int count)
{
    const struct timespec between = {.tv_nsec = 5000000};
    struct timespec begun, now;
    bool was[MOST_MACHINES];
    for (int i = 0; i < count; i++) was[i] = true;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (;; nanosleep(&between, NULL)) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        double gone =
            (double)(now.tv_sec - begun.tv_sec) + 1e-9 * (double)(now.tv_nsec - begun.tv_nsec);
        for (int i = 0; i < count; i++) {
            bool is = all[i].awake >= 1 || awake(&all[i], i, count, gone);
            if (!is || !was[i]) tell(&all[i], is ? SIGCONT : SIGSTOP);
            was[i] = is;
        }
    }
}

void share_pauses(const share *all, int count)
{
    bool pauses = false;
    for (int i = 0; i < count; i++) pauses = pauses || all[i].awake < 1;
    if (!pauses || fork() != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pause_machines(all, count);
}
