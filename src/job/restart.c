/* Decides whether a failed job is restarted, and with how many ranks. */
#include <signal.h>
#include <stdio.h>

#include "checkpoint/checkpoint.h"
#include "job/supervisor.h"
#include "weft/plan.h"

/* The largest number of ranks, at most `most`, with which the job can continue. With an exchange
 * any number of learners can. In a mesh only the data axis shrinks, and it must divide the virtual
 * workers. A job with an explicit placement cannot shrink. */
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

/* Shortens the data axis of the mesh to the number of ranks that are left. */
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

/* Excludes the failed ranks or the lost host. If the process that died is no rank itself (the
 * launcher, or the process whose threads are ranks), no rank is excluded. */
void weft_job_shrink(job *j)
{
    int64_t most = j->ranks;
    if (j->lost_at >= 0) {
        weft_hosts_remove(&j->hosts, j->lost_at);
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

/* A restart is useless if the host was never reached, if no host is left, or if the error is the
 * rank's own and would recur. */
bool weft_job_can_restart(const job *j, int code)
{
    bool nowhere = (j->no_host && !j->begun) || (j->lost_at >= 0 && j->hosts.count == 1);
    return code != 0 && code != 2 && !j->own && j->options->checkpoint && !nowhere;
}

/* A damaged checkpoint counts as one: the restarted job reads it and reports the damage. */
bool weft_job_has_checkpoint(const job *j)
{
    bool found;
    if (j->afar) return true;
    return weft_checkpoint_found(j->options->checkpoint, &found) != WEFT_OK || found;
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

/* A second signal kills the ranks at once, which is no surprise. */
bool weft_job_unsaved(const job *j, int code, int times)
{
    return times == 1 && code > 2 && !j->stopped[0];
}

bool weft_job_stopped(const job *j, int code, int asked)
{
    bool killed = (j->dead >= 0 && !j->left) || j->no_host || j->cut_short || j->ending > 0;
    return code != 0 && (asked || (!killed && (code == 128 + SIGHUP || code == 128 + SIGINT ||
                                               code == 128 + SIGTERM)));
}
