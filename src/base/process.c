/* Facts about processes and the machine that the system reports in /proc: state, age, memory, the
 * name of the processor. */
#include <stdio.h>
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

enum { STAT_SIZE = 1024 };

/* Reads a file /proc/PID/stat. Its second field, a name in parentheses, may contain anything, so
 * the result is the last parenthesis, after which fields are counted; NULL: there is none. */
static const char *read_stat(const char *path, char text[STAT_SIZE])
{
    FILE *file = fopen(path, "re");
    if (!file) return NULL;
    size_t size = fread(text, 1, STAT_SIZE - 1, file);
    fclose(file);
    text[size] = '\0';
    return strrchr(text, ')');
}

char weft_process_state(pid_t pid)
{
    char path[64], text[STAT_SIZE];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    const char *at = read_stat(path, text);
    return at && at[1] == ' ' ? at[2] : '\0';
}

double weft_process_seconds(void)
{
    char text[STAT_SIZE];
    const char *at = read_stat("/proc/self/stat", text);
    /* Field 22 is the start time in clock ticks since boot. */
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    if (!at) return 0;
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    double started = strtod(at, NULL) / (double)sysconf(_SC_CLK_TCK);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - started;
}

size_t weft_resident_memory(void)
{
    char line[128];
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "RssAnon: %llu kB", &kib) == 1) break;
    if (file) fclose(file);
    return (size_t)kib * 1024;
}

size_t weft_allocated_memory(void)
{
#ifdef __GLIBC__
    struct mallinfo2 all = mallinfo2();
    return all.uordblks + all.hblkhd;
#else
    return 0;
#endif
}

void weft_trim_memory(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

/* VmHWM counts the pages of mapped files as well, which belong to the cache of the system: those
 * that are there now are taken off. The kernel begins VmHWM anew with each program. ru_maxrss,
 * which is for systems without /proc, still has the peak of the process that called exec, such as a
 * large one that starts this program. */
size_t weft_peak_memory(void)
{
    char line[128];
    unsigned long long kib, peak = 0, files = 0, own = 0;
    struct rusage usage;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "VmHWM: %llu kB", &kib) == 1) peak = kib;
        if (sscanf(line, "RssAnon: %llu kB", &kib) == 1) own = kib;
        if (sscanf(line, "RssFile: %llu kB", &kib) == 1) files += kib;
        if (sscanf(line, "RssShmem: %llu kB", &kib) == 1) files += kib;
    }
    if (file) fclose(file);
    if (peak == 0 && getrusage(RUSAGE_SELF, &usage) == 0)
        peak = (unsigned long long)usage.ru_maxrss;
    peak = peak > files ? peak - files : 0;
    return (size_t)WEFT_MAX(peak, own) * 1024;
}

void weft_processor_name(char *out, size_t size)
{
    char line[256];
    (void)snprintf(out, size, "unknown");
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof(line), file)) {
        const char *colon = strchr(line, ':');
        if (!colon || (strncmp(line, "model name", 10) != 0 && strncmp(line, "cpu\t", 4) != 0))
            continue;
        (void)snprintf(out, size, "%.*s", (int)strcspn(colon + 1 + (colon[1] == ' '), "\n"),
                       colon + 1 + (colon[1] == ' '));
        break;
    }
    if (file) fclose(file);
}
