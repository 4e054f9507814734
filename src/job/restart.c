/* Whether a job that died is started again, and as what. */
#include <signal.h>
#include <stdio.h>

#include "checkpoint/checkpoint.h"
#include "job/supervisor.h"
#include "weft/plan.h"

/* The most ranks, of those that are left, that can go on. Learners are as many as are left. In a
 * mesh the data axis shrinks: the other axes stay whole, and it must divide the virtual workers.
 * Places are the user's. */
static int64_t ranks_left(const job *j, int64_t most)
{
    const weft_job_options *o = j->options;
    int64_t mesh = j->ranks, data = j->ranks;
    if (o->place || (o->mesh && (weft_mesh_ranks(o->mesh, &mesh) != WEFT_OK ||
                                 weft_mesh_axis(o->mesh, "data", &data) != WEFT_OK)))
        return j->ranks;
    if (o->exchange) {
        if (!o->mesh) mesh = 1;
        return most / mesh > 1 ? most / mesh * mesh : j->ranks;
    }
    int64_t others = mesh / data;
    for (int64_t n = most / others; n >= 1; n--)
        if (o->virtual_workers == 0 || o->virtual_workers % n == 0) return n * others;
    return j->ranks;
}

/* The same mesh with its data axis as long as there are ranks. */
static void shrink_mesh(job *j)
{
    static const char *const axes[] = {"domain", "tensor", "pipeline"};
    const weft_job_options *o = j->options;
    int64_t others = 1, size, all;
    size_t used = 0;
    if (o->exchange || o->place || (o->mesh && weft_mesh_ranks(o->mesh, &all) != WEFT_OK)) return;
    for (size_t i = 0; i < WEFT_COUNT(axes) && o->mesh; i++) {
        if (weft_mesh_axis(o->mesh, axes[i], &size) != WEFT_OK) return;
        others *= size;
        used += (size_t)snprintf(j->mesh + used, sizeof(j->mesh) - used, "%s=%lld,", axes[i],
                                 (long long)size);
    }
    (void)snprintf(j->mesh + used, sizeof(j->mesh) - used, "data=%lld",
                   (long long)(j->ranks / others));
    j->alone = j->ranks == others;
}

/* A process that is no rank of its own, the launcher or that of ranks that are threads, takes none
 * of the machine with it. */
void weft_job_shrink(job *j)
{
    int64_t most = j->ranks;
    if (j->lost >= 0) {
        weft_hosts_remove(&j->hosts, j->lost);
        most = 0;
        for (int i = 0; i < j->hosts.count; i++) most += j->hosts.host[i].slots;
        most = WEFT_MIN(most, j->ranks);
    } else if (j->dead >= 0 && j->mpi && !j->together) {
        most--;
    } else {
        return;
    }
    j->ranks = ranks_left(j, most);
    shrink_mesh(j);
}

int64_t weft_job_most_restarts(const weft_job_options *o)
{
    enum { OFTEN = 100 };
    return o->members && o->max_restarts == 0 ? OFTEN : o->max_restarts;
}

/* A host that was never reached is a mistake, one that is lost is not; nor is a rank that has died,
 * but what a rank fails in by itself it would fail in again. */
bool weft_job_can_restart(const job *j, int code)
{
    bool nowhere = (j->no_host && !j->begun) || (j->lost >= 0 && j->hosts.count == 1);
    return code != 0 && code != 2 && !j->own && j->options->checkpoint && !nowhere;
}

/* One that is damaged is one: who reads it says so. */
bool weft_job_has_checkpoint(const job *j)
{
    int64_t *steps;
    int count;
    char *latest;
    bool named = true;
    if (j->hosts.count > 0) return true;
    if (weft_checkpoint_list(j->options->checkpoint, &steps, &count) != WEFT_OK) return true;
    free(steps);
    if (count > 0) return true;
    if (weft_format(&latest, "%s/latest", j->options->checkpoint) == WEFT_OK) {
        named = weft_file_exists(latest);
        free(latest);
    }
    return named;
}

const char *weft_job_size(const job *j, char *out, size_t size)
{
    const weft_job_options *o = j->options;
    int64_t mesh = 1;
    bool learners = o->exchange && (!o->mesh || weft_mesh_ranks(o->mesh, &mesh) == WEFT_OK);
    int64_t count = learners ? j->ranks / mesh : j->ranks;
    (void)snprintf(out, size, "%lld %s%s", (long long)count, learners ? "learner" : "rank",
                   weft_plural(count));
    return out;
}

bool weft_job_stopped(const job *j, int code, int asked)
{
    bool killed = (j->dead >= 0 && !j->left) || j->no_host || j->cut_short || j->ending > 0;
    return code != 0 && (asked || (!killed && (code == 128 + SIGHUP || code == 128 + SIGINT ||
                                               code == 128 + SIGTERM)));
}
