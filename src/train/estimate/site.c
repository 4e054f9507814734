/* The cluster of a file with its times, and what limits a step there. */
#include "train/estimate/site.h"

#include <math.h>

weft_status weft_site_open(const char *cluster, weft_site *out)
{
    int64_t machines = 1;
    double before = (double)weft_allocated_memory();
    *out = (weft_site){.times = NULL};
    WEFT_TRY(weft_cluster_open(cluster, &machines, &out->cluster));
    weft_status status = weft_machines_times(cluster, &out->cluster, &out->times);
    out->own = (double)weft_allocated_memory() - before;
    if (status != WEFT_OK) weft_site_close(out);
    return status;
}

void weft_site_close(weft_site *site)
{
    weft_times_free(&site->times);
    weft_cluster_free(&site->cluster);
}

/* --- limits --- */

bool weft_cluster_varies(const weft_cluster *c)
{
    for (int g = 0; g < c->group_count; g++)
        if (c->groups[g].jitter > 0 || c->groups[g].slow > 0) return true;
    return false;
}

/* How many times as long the slowest step of a machine may take as the fastest one of another. */
static double most_longer(const weft_cluster *c)
{
    double least = INFINITY, most = 0;
    for (int g = 0; g < c->group_count; g++) {
        double takes = 1 / (c->groups[g].speed * c->groups[g].awake);
        least = WEFT_MIN(least, takes);
        most = WEFT_MAX(most, takes * weft_cluster_slowness(&c->groups[g], 1, 0));
    }
    return most / least;
}

/* Ranks wait for a server, for a link, for a stage before or behind theirs, or for a slower
 * machine, but for that not longer than steps differ. */
static const char *name_waiting(const weft_trainer *t, const weft_cluster *cluster,
                                const weft_step_estimate *out)
{
    int64_t stages = 1;
    const char *mesh = t->options.parallel.mesh;
    if (out->server_busy > 0.5 && out->server_busy > out->busiest_link) return "server";
    if (out->busiest_link > 0.5) return "link";
    if (mesh && weft_mesh_axis(mesh, "pipeline", &stages) == WEFT_OK && stages > 1) return "bubble";
    double longer = most_longer(cluster) - 1;
    if (out->wire_bytes > 0 && out->waited > longer * out->computed) return "link";
    return longer > 0 ? "straggler" : "waiting";
}

const char *weft_estimate_limit(const weft_trainer *t, const weft_cluster *cluster,
                                const weft_step_estimate *out)
{
    const struct {
        double seconds;
        const char *name;
    } parts[] = {{out->computed, "compute"},
                 {out->transferred, "transfers"},
                 {out->waited, name_waiting(t, cluster, out)},
                 {out->rest, "host"}};
    size_t most = 0;
    if (out->memory_limit > 0 && out->memory > out->memory_limit) return "memory";
    for (size_t i = 1; i < WEFT_COUNT(parts); i++)
        if (parts[i].seconds > parts[most].seconds) most = i;
    return parts[most].name;
}

/* --- the end of a machine --- */

/* Most learners that have a rank on one machine. */
static int learners_of_machine(const weft_trainer *t, const weft_hosts *hosts)
{
    int most = 0;
    for (int m = 0; m < hosts->machines; m++) {
        int first = m * hosts->each, last = WEFT_MIN(first + hosts->each, t->size) - 1;
        most = WEFT_MAX(most, last / t->mesh - first / t->mesh + 1);
    }
    return most;
}

int weft_estimate_left(const weft_trainer *t, const weft_hosts *hosts)
{
    const weft_exchange_ops *ops;
    const char *arguments, *spec = t->run_spec.exchange;
    if (!spec || weft_exchange_find(t->context, spec, &ops, &arguments) != WEFT_OK) return 0;
    /* A server without a replica takes its part of the parameters with it. */
    bool loses = WEFT_EXCHANGE_HAS(ops, serve) && t->run_spec.replicas == 0;
    if (!WEFT_EXCHANGE_HAS(ops, began) || loses) return 0;
    return WEFT_MAX(t->learners - learners_of_machine(t, hosts), 0);
}
