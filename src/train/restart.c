/* Whether a job that died is started again, and as what. */
#include <signal.h>
#include <stdio.h>

#include "train/job.h"
#include "train/train.h"
#include "weft/plan.h"

/* The most ranks, without the lost one, that can go on. Learners are as many as are left. In a mesh
 * the data axis shrinks: the other axes stay whole, and it must divide the virtual workers. Places
 * are the user's. */
static int64_t ranks_left(const job *j)
{
    const weft_train_options *o = j->options;
    int64_t mesh = j->ranks, data = j->ranks, most = j->mpi ? j->ranks - 1 : j->ranks;
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
    const weft_train_options *o = j->options;
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

void weft_job_shrink(job *j)
{
    if (j->dead < 0) return;
    j->ranks = ranks_left(j);
    shrink_mesh(j);
}

bool weft_job_can_restart(const job *j, int code)
{
    return code != 0 && code != 2 && j->options->checkpoint;
}

bool weft_job_stopped(const job *j, int code, int asked)
{
    bool killed = j->dead >= 0 && !j->left;
    return code != 0 && (asked || (!killed && (code == 128 + SIGHUP || code == 128 + SIGINT ||
                                               code == 128 + SIGTERM)));
}
