/* The meshes of the equivalence suite, and which of them each model is run on. */
#include "graph_fixture.h"

const mesh_case suite_meshes[MESHES] = {
    {"data=1", 1, 0, NULL, NULL},
    {"data=2", 2, 0, NULL, NULL},
    {"data=3", 3, 0, NULL, NULL},
    {"data=8", 8, 0, NULL, NULL},
    {"data=2", 2, 1, NULL, NULL},
    {"data=2", 2, 2, NULL, NULL},
    {"data=2", 2, 3, NULL, NULL},
    {"data=3", 3, 1, NULL, NULL},
    {"data=3", 3, 3, NULL, NULL},
    {"data=4", 4, 2, NULL, NULL},
    {"tensor=2", 2, 0, NULL, NULL},
    {"tensor=3", 3, 0, NULL, NULL},
    {"tensor=4", 4, 0, NULL, NULL},
    {"domain=2", 2, 0, NULL, NULL},
    {"domain=3", 3, 0, NULL, NULL},
    {"domain=5", 5, 0, NULL, NULL},
    {"pipeline=2", 2, 0, NULL, NULL},
    {"pipeline=3", 3, 0, NULL, NULL},
    {"data=2,tensor=2", 4, 0, NULL, NULL},
    {"data=2,tensor=2", 4, 1, NULL, NULL},
    {"data=2,tensor=2", 4, 3, NULL, NULL},
    {"data=2,domain=2", 4, 0, NULL, NULL},
    {"data=2,domain=2", 4, 3, NULL, NULL},
    {"tensor=2,domain=2", 4, 0, NULL, NULL},
    {"data=2,pipeline=2", 4, 0, NULL, NULL},
    {"data=2,pipeline=2", 4, 2, NULL, NULL},
    {"data=2,pipeline=2", 4, 3, NULL, NULL},
    {"data=2,pipeline=3", 6, 3, NULL, NULL},
    {"tensor=2,pipeline=2", 4, 0, NULL, NULL},
    {"domain=2,pipeline=2", 4, 0, NULL, NULL},
    {"data=2,tensor=2,domain=2", 8, 0, NULL, NULL},
    {"data=2,tensor=2,domain=2", 8, 2, NULL, NULL},
    {"data=2,tensor=2,pipeline=2", 8, 0, NULL, NULL},
    {"data=2,domain=2,pipeline=2", 8, 1, NULL, NULL},
    {"tensor=2,domain=2,pipeline=2", 8, 0, NULL, NULL},
    {"domain=2,tensor=2", 4, 0, NULL, "x:3=tensor"},
    {"data=2,domain=2", 4, 0, NULL, "x:3=data"},
    {"domain=2", 2, 0, NULL, "x:1=domain"},
    {"domain=4", 4, 0, NULL, "x:1=domain"},
    {"data=2,tensor=2,domain=2", 8, 3, NULL, "x:1=domain"},
    {"tensor=2", 2, 0, NULL, "fc1/weight:in=tensor"},
    {"tensor=2", 2, 0, NULL, "fc1/weight/momentum:0=tensor,fc2/weight:out=tensor"},
    {NULL, 2, 0, "*conv*=cpu:0,*pool*=cpu:1,*=cpu:0", NULL},
    {NULL, 3, 0, "*2*=rank:1,*1*=rank:2,*=rank:0", NULL},
};

bool net_fits(const setting *s, const mesh_case *mesh, int processes)
{
    const char *data = mesh->mesh ? strstr(mesh->mesh, "data=") : NULL;
    const char *only = getenv("WEFT_ONLY_MESH");
    bool space = s->model->rank >= 2 && !s->model->tokens;
    if (processes > 0 && (mesh->ranks != processes || s->model->f32)) return false;
    /* The pinned shardings name the tokens of a sequence, the second spatial dimension of images,
     * or parameters of mlp and the momentum of sgd. */
    bool sequence = mesh->shard && strncmp(mesh->shard, "x:1", 3) == 0;
    if (sequence) {
        if (!s->model->tokens || s->model->recurrent) return false;
    } else if (mesh->shard && strncmp(mesh->shard, "x:", 2) == 0) {
        if (!space || s->model->rank != 3) return false;
    } else if (mesh->shard &&
               (strcmp(s->model->model, "mlp") != 0 || strcmp(s->optimizer, "sgd") != 0))
        return false;
    if (mesh->shard && s->update != WEFT_UPDATE_HERE && strstr(mesh->shard, "momentum"))
        return false;
    if (only && (!mesh->mesh || strcmp(only, mesh->mesh) != 0)) return false;
    if (data && atoi(data + 5) > s->model->batch / s->microbatches) return false;
    /* With WEFT_FAST, for slow builds, each large mesh is combined with about one model, and each
     * large model with one mesh; every mesh and every model still runs. */
    bool slow = (mesh->ranks > 3 && processes == 0) || s->model->f32 ||
                strcmp(s->model->model, "lenet") == 0;
    int turn = s->model->f32 ? MESHES : MODELS;
    if (getenv("WEFT_FAST") && slow && ((mesh - suite_meshes) + (s->model - models)) % turn)
        return false;
#ifdef WEFT_SANITIZED /* large models run only with 2 ranks, and vgg11 not at all */
    if (s->model->f32 && (mesh->ranks != 2 || strcmp(s->model->model, "vgg11") == 0)) return false;
#endif
#ifdef __SANITIZE_THREAD__ /* slower still: no large mesh or model */
    if (getenv("WEFT_FAST") && slow) return false;
#endif
    return space || sequence || (mesh->mesh && !strstr(mesh->mesh, "domain"));
}
