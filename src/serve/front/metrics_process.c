/* Metrics of the process, such as CPU time and memory, read from the kernel. */
#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "serve/front/metrics.h"

static void add(weft_text *text, const char *name, const char *type, const char *help, double value)
{
    weft_text_add(text, "# HELP %s %s\n# TYPE %s %s\n%s %.15g\n", name, help, name, type, name,
                  value);
}

/* The pages of the address space (*all), and those of them in memory (*resident). */
static bool read_pages(double *all, double *resident)
{
    char text[128], *end;
    FILE *file = fopen("/proc/self/statm", "re");
    bool there = file && fgets(text, sizeof(text), file);
    if (file) (void)fclose(file);
    if (!there) return false;
    *all = (double)strtoll(text, &end, 10);
    *resident = (double)strtoll(end, NULL, 10);
    return *all > 0;
}

/* The number of open file descriptors; -1: unknown. */
static int64_t open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int64_t count = -3; /* without ., .. and the descriptor of the folder */
    if (!folder) return -1;
    while (readdir(folder)) count++;
    (void)closedir(folder);
    return count;
}

void weft_metrics_process(weft_text *text)
{
    struct rusage used;
    struct rlimit files;
    struct timespec now;
    double all, resident, page = (double)sysconf(_SC_PAGESIZE);
    int64_t opened = open_files();
    if (getrusage(RUSAGE_SELF, &used) == 0)
        add(text, "process_cpu_seconds_total", "counter",
            "Total user and system CPU time, in seconds",
            (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6);
    if (read_pages(&all, &resident)) {
        add(text, "process_resident_memory_bytes", "gauge", "Resident memory size, in bytes",
            resident * page);
        add(text, "process_virtual_memory_bytes", "gauge", "Virtual memory size, in bytes",
            all * page);
    }
    if (opened >= 0)
        add(text, "process_open_fds", "gauge", "Number of open file descriptors", (double)opened);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        add(text, "process_max_fds", "gauge", "Maximum number of open file descriptors",
            (double)files.rlim_cur);
    clock_gettime(CLOCK_REALTIME, &now);
    add(text, "process_start_time_seconds", "gauge",
        "Start time of the process, in seconds since the Unix epoch",
        (double)now.tv_sec + (double)now.tv_nsec * 1e-9 - weft_process_seconds());
}
