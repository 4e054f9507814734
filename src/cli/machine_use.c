/* The use of this machine's cores, as the kernel counts it. The load average counts processes of
 * the minute before, and also those that have ended; this counts the time that others took while a
 * run was measured. */
#include "machine_use.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

bool machine_use_read(const char *text, double own, machine_use *out)
{
    /* user, nice, system, idle, waiting for disks, interrupts (two), taken by the host */
    enum { COLUMNS = 8, IDLE = 3, DISKS = 4 };
    static const char name[] = "cpu ";
    double ticks[COLUMNS];
    char *end;
    *out = (machine_use){.own = own};
    if (strncmp(text, name, strlen(name)) != 0) return false;
    text += strlen(name);
    for (int i = 0; i < COLUMNS; i++, text = end) {
        ticks[i] = strtod(text, &end);
        if (end == text) return false;
    }
    for (int i = 0; i < COLUMNS; i++) out->all += ticks[i];
    out->busy = out->all - ticks[IDLE] - ticks[DISKS];
    return true;
}

static double ticks_of(int who)
{
    struct rusage used;
    if (getrusage(who, &used) != 0) return 0;
    double seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                     1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
    return seconds * (double)sysconf(_SC_CLK_TCK);
}

machine_use machine_use_now(void)
{
    char text[256] = "";
    machine_use now;
    FILE *file = fopen("/proc/stat", "re");
    if (file && !fgets(text, sizeof(text), file)) *text = '\0';
    if (file) fclose(file);
    return machine_use_read(text, ticks_of(RUSAGE_SELF) + ticks_of(RUSAGE_CHILDREN), &now)
               ? now
               : (machine_use){0};
}

double machine_use_by_others(const machine_use *before, const machine_use *after)
{
    double all = after->all - before->all, own = after->own - before->own;
    double others = after->busy - before->busy - own;
    return all > 0 && others > 0 ? others / all : 0;
}
