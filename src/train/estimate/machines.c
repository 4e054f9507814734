/* The machines of a run: the measured times of a cluster file, and the ranks on its machines. */
#include <stdio.h>

#include "train/estimate/tracks.h"
#include "weft/estimate.h"

/* The times are in a file beside that of the cluster, unless their path is absolute. */
weft_status weft_machines_times(const char *path, const weft_cluster *c, weft_times **out)
{
    char *file;
    weft_bytes text = {0};
    const char *slash = strrchr(path, '/');
    int folder = slash && c->times && *c->times != '/' ? (int)(slash - path) + 1 : 0;
    if (!c->times)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: there is no key 'times', which names a file of measured times; weft "
                         "measure writes both files",
                         path);
    WEFT_TRY(weft_format(&file, "%.*s%s", folder, path, c->times));
    weft_status status = weft_file_read(file, &text);
    if (status == WEFT_OK) status = weft_times_read((const char *)text.data, text.size, file, out);
    free((void *)(uintptr_t)text.data);
    free(file);
    return status == WEFT_OK ? status : weft_fail_within(status, "%s: times", path);
}

/* Ranks fill the machines in the order of the file, equally many on each. */
weft_status weft_machines_place(const weft_trainer *t, const weft_cluster *c, weft_hosts *h)
{
    int ranks = t->size;
    int64_t machines = 0, cores = 0;
    for (int g = 0; g < c->group_count; g++) machines += c->groups[g].count;
    h->each = (int)((ranks + machines - 1) / machines);
    h->machines = (ranks + h->each - 1) / h->each;
    WEFT_TRY(WEFT_NEW(&h->machine, ranks));
    WEFT_TRY(WEFT_NEW(&h->speed, ranks));
    WEFT_TRY(WEFT_NEW(&h->bytes, h->machines));
    WEFT_TRY(WEFT_NEW(&h->wires, h->machines));
    WEFT_TRY(WEFT_NEW(&h->group, h->machines));
    for (int m = 0; m < h->machines; m++) {
        h->group[m] = weft_cluster_group_of(c, m);
        const weft_sim_link *link = &h->group[m]->link;
        h->wires[m] = (weft_wire){.latency = link->latency + link->jitter / 2,
                                  .bandwidth = link->bandwidth * h->group[m]->awake};
    }
    for (int r = 0; r < ranks; r++) {
        h->machine[r] = r / h->each;
        const weft_machine_group *g = h->group[h->machine[r]];
        h->speed[r] = g->speed * g->awake;
        cores = cores == 0 ? g->cores : WEFT_MIN(cores, g->cores);
    }
    h->threads = (int)t->options.where.threads;
    if (h->threads == 0) h->threads = (int)weft_usual_threads(cores, h->each);
    if (h->machines < machines && c->group_count > 1)
        weft_log(t->context, WEFT_LOG_NOTE,
                 "the %d rank%s %s on the first %d of the %lld machines of the file, which are "
                 "unlike: those that a run should use come first",
                 ranks, weft_plural(ranks), ranks == 1 ? "is" : "are", h->machines,
                 (long long)machines);
    if ((int64_t)h->threads * h->each <= cores) return WEFT_OK;
    weft_log(t->context, WEFT_LOG_NOTE,
             "%d rank%s of %d thread%s on machines of %lld core%s take turns on the cores", h->each,
             weft_plural(h->each), h->threads, weft_plural(h->threads), (long long)cores,
             weft_plural(cores));
    double share = (double)cores / ((double)h->threads * h->each);
    for (int r = 0; r < ranks; r++) h->speed[r] *= share;
    return WEFT_OK;
}

void weft_machines_free(weft_hosts *hosts)
{
    free(hosts->machine);
    free(hosts->speed);
    free(hosts->bytes);
    free(hosts->wires);
    free((void *)hosts->group);
}

/* --- this machine --- */

static weft_status check_here(const char *path, const weft_times *times)
{
    char processor[200];
    weft_processor_name(processor, sizeof(processor));
    if (strcmp(processor, weft_times_processor(times)) == 0) return WEFT_OK;
    return weft_fail(
        WEFT_ERR_ARGUMENT,
        "%s: the times were measured on '%s', and this processor is '%s'; weft measure "
        "writes a file of this one",
        path, weft_times_processor(times), processor);
}

weft_status weft_measured_here(const char *path, char **processor)
{
    WEFT_NEED_AS("cluster, processor", path, processor);
    weft_cluster c;
    weft_times *times = NULL;
    int64_t machines = 1;
    *processor = NULL;
    WEFT_TRY(weft_cluster_open(path, &machines, &c));
    weft_status status = weft_machines_times(path, &c, &times);
    if (status == WEFT_OK) status = weft_strdup(weft_times_processor(times), processor);
    if (status == WEFT_OK) status = check_here(path, times);
    weft_times_free(&times);
    weft_cluster_free(&c);
    return status;
}

weft_status weft_cluster_machines(const char *cluster, int64_t *machines)
{
    WEFT_NEED(cluster, machines);
    weft_cluster c;
    int64_t count = 1;
    WEFT_TRY(weft_cluster_open(cluster, &count, &c));
    *machines = count;
    weft_cluster_free(&c);
    return WEFT_OK;
}
