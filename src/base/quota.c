/* Reads what the control groups of this process allow it: cores and memory. A container is often
 * limited by cpu.max and memory.max (version 2), or cpu.cfs_quota_us and memory.limit_in_bytes
 * (version 1), alone, which the affinity mask, OpenMP and the size of the memory do not reflect. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/base.h"

enum { PATH = 512 };

/* A kind of limits: the controller, and how the limit of a group is read; 0: it has none. */
typedef struct resource {
    const char *controller;
    double (*of_group)(const char *folder, bool version2);
} resource;

/* The quota of a control group in cores, or 0 if it has none. Version 2 has one file, with "QUOTA
 * PERIOD" or "max PERIOD". Version 1 has two files, and a quota of -1 means none. */
static double group_quota(const char *folder, bool version2)
{
    char path[2 * PATH + 32], text[64];
    double quota = 0, period = 0;
    const char *names[] = {version2 ? "cpu.max" : "cpu.cfs_quota_us", "cpu.cfs_period_us"};
    double *values[] = {&quota, &period};
    for (int i = 0; i < (version2 ? 1 : 2); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        FILE *file = fopen(path, "r");
        bool read = file && fgets(text, sizeof(text), file);
        if (file) (void)fclose(file);
        if (!read) return 0;
        if (version2 && sscanf(text, "%lf %lf", &quota, &period) != 2) return 0;
        if (!version2 && sscanf(text, "%lf", values[i]) != 1) return 0;
    }
    return quota > 0 && period > 0 ? quota / period : 0;
}

/* The most bytes of a control group. Version 1 has a huge number where there is no limit. */
static double group_memory(const char *folder, bool version2)
{
    char path[2 * PATH + 32];
    double bytes;
    (void)snprintf(path, sizeof(path), "%s/%s", folder,
                   version2 ? "memory.max" : "memory.limit_in_bytes");
    FILE *file = fopen(path, "r");
    bool read = file && fscanf(file, "%lf", &bytes) == 1;
    if (file) (void)fclose(file);
    return read && bytes > 0 && bytes < 0x1p62 ? bytes : 0;
}

static const resource cpu = {"cpu", group_quota}, memory = {"memory", group_memory};

/* The smallest limit of the group `path` and of its parent groups up to the mount point; 0:
 * none. */
static double smallest_limit(const resource *of, const char *root, const char *mount,
                             const char *path, bool version2)
{
    char folder[2 * PATH];
    double least = 0;
    int top = snprintf(folder, sizeof(folder), "%s%s", root, mount);
    int length =
        snprintf(folder, sizeof(folder), "%s%s%s", root, mount, strcmp(path, "/") == 0 ? "" : path);
    if (top < 0 || length < top || length >= (int)sizeof(folder)) return 0;
    for (;;) {
        double limit = of->of_group(folder, version2);
        if (limit > 0 && (least == 0 || limit < least)) least = limit;
        if (length <= top) return least;
        do length--;
        while (length > top && folder[length] != '/');
        folder[length] = 0;
    }
}

/* Whether a list such as "cpu,cpuacct" contains a controller. */
static bool has(const char *list, const char *controller)
{
    size_t size = strlen(controller);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, controller, size) == 0 &&
            (at[size] == ',' || at[size] == 0 || at[size] == '\n'))
            return true;
    return false;
}

/* Finds the path of this process's control group in the hierarchy of version 2, or in the hierarchy
 * of version 1 that has the controller. */
static bool find_group(const char *root, const char *controller, bool version2, char path[PATH])
{
    char name[PATH], *line = NULL;
    size_t size = 0;
    (void)snprintf(name, sizeof(name), "%s/proc/self/cgroup", root);
    FILE *file = fopen(name, "r");
    bool found = false;
    while (file && !found && getline(&line, &size, file) > 0) {
        char *controllers = strchr(line, ':'),
             *at = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!at) continue;
        *at = 0;
        found = version2 ? strncmp(line, "0:", 2) == 0 && controllers[1] == 0
                         : has(controllers + 1, controller);
        at[1 + strcspn(at + 1, "\n")] = 0;
        if (found) (void)snprintf(path, PATH, "%s", at + 1);
    }
    if (file) (void)fclose(file);
    free(line);
    return found;
}

/* Parses a line of mountinfo. *top: the folder of the hierarchy that is mounted; *mount: the mount
 * point. False if the line is not a mount of the hierarchy. */
static bool is_mount(const char *line, const char *controller, bool version2, char top[PATH],
                     char mount[PATH])
{
    char kind[32], options[PATH];
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(line, "%*s %*s %*s %511s %511s", top, mount) != 2 ||
        sscanf(rest, " - %31s %*s %511s", kind, options) != 2)
        return false;
    return version2 ? strcmp(kind, "cgroup2") == 0
                    : strcmp(kind, "cgroup") == 0 && has(options, controller);
}

static double hierarchy_limit(const resource *of, const char *root, bool version2)
{
    char path[PATH], name[PATH], top[PATH], mount[PATH], *line = NULL;
    size_t size = 0;
    double limit = 0;
    if (!find_group(root, of->controller, version2, path)) return 0;
    (void)snprintf(name, sizeof(name), "%s/proc/self/mountinfo", root);
    FILE *file = fopen(name, "r");
    while (file && getline(&line, &size, file) > 0) {
        if (!is_mount(line, of->controller, version2, top, mount)) continue;
        /* In a container the mount may begin at the group `top`, so `top` is removed from the path
         * of the group. */
        size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top);
        bool below = strncmp(path, top, length) == 0 && (path[length] == '/' || path[length] == 0);
        limit =
            smallest_limit(of, root, mount, below && path[length] ? path + length : "/", version2);
        break;
    }
    if (file) (void)fclose(file);
    free(line);
    return limit;
}

static double group_limit(const resource *of, const char *root)
{
    double one = hierarchy_limit(of, root, false), two = hierarchy_limit(of, root, true);
    return one > 0 && (two == 0 || one < two) ? one : two;
}

double weft_cpu_quota(const char *root)
{
    return group_limit(&cpu, root);
}

size_t weft_memory_limit(const char *root)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    struct rlimit room;
    double most = pages > 0 && page > 0 ? (double)pages * (double)page : 0x1p62;
    double group = group_limit(&memory, root);
    if (group > 0) most = fmin(most, group);
    if (getrlimit(RLIMIT_AS, &room) == 0 && room.rlim_cur != RLIM_INFINITY)
        most = fmin(most, (double)room.rlim_cur);
    return (size_t)most;
}

int weft_cpu_quota_share(const char *root, int processes)
{
    double quota = weft_cpu_quota(root);
    return quota > 0 ? (int)fmin(fmax(floor(quota / processes), 1), 1024) : 0;
}
