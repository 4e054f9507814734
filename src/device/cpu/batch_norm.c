/* Implements batch normalization with batch statistics, and its gradient. Any group of its
 * operators can be one kernel. If the statistics need no transfer between ranks, mean, variance,
 * running statistics and result are one kernel, and both parts of the gradient are another; each
 * handles one block of channels after the other. */
#include <math.h>

#include "device/cpu/planes.h"

typedef enum role {
    X,
    DY,
    GAMMA,
    BETA,
    WEIGHTS,
    COUNTS,
    MEAN,
    VARIANCE,
    OLD_MEAN,
    OLD_VARIANCE,
    NEW_MEAN,
    NEW_VARIANCE,
    Y,
    DGAMMA,
    DBETA,
    DX,
    ROLES
} role;

static const struct member {
    const char *op;
    role in[9], out[2];
} members[] = {
    {"batch_mean", {X, WEIGHTS, COUNTS}, {MEAN}},
    {"batch_variance", {X, WEIGHTS, COUNTS, MEAN}, {VARIANCE}},
    {"batch_running", {MEAN, VARIANCE, COUNTS, OLD_MEAN, OLD_VARIANCE}, {NEW_MEAN, NEW_VARIANCE}},
    {"batch_norm", {X, GAMMA, BETA, WEIGHTS, COUNTS, MEAN, VARIANCE}, {Y}},
    {"batch_norm_sums", {DY, X, MEAN, VARIANCE}, {DGAMMA, DBETA}},
    {"batch_norm_dx", {DY, X, GAMMA, WEIGHTS, COUNTS, MEAN, VARIANCE, DGAMMA, DBETA}, {DX}},
};

typedef struct batch_kernel {
    weft_kernel head;
    cpu_planes p;
    weft_value value[ROLES];
    bool made[ROLES]; /* whether the kernel computes the value instead of reading it */
    int in[ROLES], out[ROLES];
    void *data[ROLES]; /* addresses, when bound; NULL: not needed */
    double epsilon, momentum, positions;
    int threads;
} batch_kernel;

/* Assigns the values of a group to roles; false if a node has no role here, or a role has two
 * values. */
static bool cast(const weft_group *group, batch_kernel *k)
{
    for (int r = 0; r < ROLES; r++) k->value[r] = WEFT_NO_VALUE;
    for (int n = 0; n < group->count; n++) {
        const weft_node *node = group->node[n];
        const struct member *m = NULL;
        for (size_t i = 0; i < WEFT_COUNT(members); i++)
            if (strcmp(members[i].op, node->op->name) == 0) m = &members[i];
        for (int i = 0; m && i < node->in_count + node->out_count; i++) {
            bool out = i >= node->in_count;
            role r = out ? m->out[i - node->in_count] : m->in[i];
            weft_value v = out ? node->out + i - node->in_count : node->in[i];
            if ((out && k->made[r]) || (k->value[r] != WEFT_NO_VALUE && k->value[r] != v))
                return false;
            k->value[r] = v;
            k->made[r] = k->made[r] || out;
        }
        if (!m) return false;
    }
    return true;
}

/* The tensors have one type, f32 or bf16, and all vectors are f32. */
static bool supports(const weft_group *group)
{
    batch_kernel k = {.threads = 0};
    bool fits = cast(group, &k), narrow = false;
    for (int pass = 0; pass < 2; pass++)
        for (int r = 0; r < ROLES && fits; r++) {
            if (k.value[r] == WEFT_NO_VALUE) continue;
            bool is = weft_value_type(group->graph, k.value[r])->dtype == WEFT_BF16;
            bool tensor = r == X || r == DY || r == Y || r == DX;
            if (pass == 1) fits = is == (narrow && tensor);
            narrow = narrow || is;
        }
    return fits;
}

/* --- one block of channels --- */

typedef struct block_job {
    int64_t block, first, lanes;
    double mean[WIDEST]; /* not rounded to float; set if the kernel computes the mean */
} block_job;

static float *vector(const batch_kernel *k, role r)
{
    return k->data[r];
}

static double share(const batch_kernel *k, int64_t b)
{
    const float *counts = vector(k, COUNTS), *weights = vector(k, WEIGHTS);
    double part = counts[0] == 0 ? 1.0 / (double)counts[2] : (double)weights[b] / (double)counts[0];
    return part / k->positions;
}

static void *plane(const batch_kernel *k, const block_job *j, role r, int64_t b)
{
    return cpu_element(k->data[r], b * k->p.batch + j->block * k->p.channel, k->p.narrow);
}

static void find_mean(const batch_kernel *k, block_job *j)
{
    double part[WIDEST];
    for (int64_t l = 0; l < j->lanes; l++) j->mean[l] = 0;
    for (int64_t b = 0; b < k->p.batch_count; b++) {
        cpu_sum_plane(plane(k, j, X, b), &k->p, j->lanes, part);
        for (int64_t l = 0; l < j->lanes; l++) j->mean[l] += share(k, b) * part[l];
    }
    for (int64_t l = 0; l < j->lanes; l++) vector(k, MEAN)[j->first + l] = (float)j->mean[l];
}

static void find_variance(const batch_kernel *k, const block_job *j)
{
    double part[WIDEST], sum[WIDEST] = {0};
    for (int64_t b = 0; b < k->p.batch_count; b++) {
        cpu_square_plane(plane(k, j, X, b), &k->p, j->lanes, vector(k, MEAN) + j->first, part);
        for (int64_t l = 0; l < j->lanes; l++) sum[l] += share(k, b) * part[l];
    }
    bool single = vector(k, COUNTS)[1] == 1 && k->positions == 1; /* which has no variance */
    for (int64_t l = 0; l < j->lanes; l++)
        vector(k, VARIANCE)[j->first + l] = single ? NAN : (float)sum[l];
}

static void run_on(const batch_kernel *k, const block_job *j)
{
    double n = (double)vector(k, COUNTS)[1] * k->positions;
    double step = vector(k, COUNTS)[1] > 0 ? k->momentum : 0;
    for (int64_t c = j->first; c < j->first + j->lanes; c++) {
        double mean = (double)vector(k, MEAN)[c], variance = (double)vector(k, VARIANCE)[c];
        if (n > 1) variance *= n / (n - 1);
        vector(k, NEW_MEAN)[c] = (float)((1 - step) * (double)vector(k, OLD_MEAN)[c] + step * mean);
        vector(k, NEW_VARIANCE)[c] =
            (float)((1 - step) * (double)vector(k, OLD_VARIANCE)[c] + step * variance);
    }
}

static double rstd_of(const batch_kernel *k, int64_t c)
{
    return 1 / sqrt((double)vector(k, VARIANCE)[c] + k->epsilon);
}

static void normalize(const batch_kernel *k, const block_job *j)
{
    cpu_affine a = {0};
    for (int64_t l = 0; l < j->lanes; l++) {
        int64_t c = j->first + l;
        a.mean[l] = vector(k, MEAN)[c];
        if (k->made[MEAN]) a.low[l] = (float)(j->mean[l] - (double)a.mean[l]);
        a.scale[l] = (float)(rstd_of(k, c) * (double)vector(k, GAMMA)[c]);
        a.shift[l] = vector(k, BETA)[c];
    }
    for (int64_t b = 0; b < k->p.batch_count; b++)
        cpu_affine_plane(plane(k, j, X, b), plane(k, j, Y, b), &k->p, j->lanes, &a);
}

static void find_sums(const batch_kernel *k, const block_job *j)
{
    double sum[WIDEST] = {0}, sum_x[WIDEST] = {0};
    for (int64_t b = 0; b < k->p.batch_count; b++)
        cpu_grad_sums(plane(k, j, DY, b), plane(k, j, X, b), &k->p, j->lanes,
                      vector(k, MEAN) + j->first, sum, sum_x);
    for (int64_t l = 0; l < j->lanes; l++) {
        vector(k, DGAMMA)[j->first + l] = (float)(sum_x[l] * rstd_of(k, j->first + l));
        vector(k, DBETA)[j->first + l] = (float)sum[l];
    }
}

static void find_dx(const batch_kernel *k, const block_job *j)
{
    float scale[WIDEST], base[WIDEST], slope[WIDEST];
    double rstd[WIDEST];
    for (int64_t l = 0; l < j->lanes; l++) {
        rstd[l] = rstd_of(k, j->first + l);
        scale[l] = vector(k, GAMMA)[j->first + l] * (float)rstd[l];
    }
    for (int64_t b = 0; b < k->p.batch_count; b++) {
        double part = share(k, b);
        for (int64_t l = 0; l < j->lanes; l++) {
            base[l] = (float)(part * (double)vector(k, DBETA)[j->first + l]);
            slope[l] = (float)(part * rstd[l] * (double)vector(k, DGAMMA)[j->first + l]);
        }
        cpu_grad_plane(plane(k, j, DY, b), plane(k, j, X, b), plane(k, j, DX, b), &k->p, j->lanes,
                       vector(k, MEAN) + j->first, scale, base, slope);
    }
}

static void run_blocks(void *user, int64_t begin, int64_t end)
{
    const batch_kernel *k = user;
    for (int64_t block = begin; block < end; block++) {
        block_job j = {block, block * k->p.block, lanes_of(&k->p, block), {0}};
        if (k->made[MEAN]) find_mean(k, &j);
        if (k->made[VARIANCE]) find_variance(k, &j);
        if (k->made[NEW_MEAN]) run_on(k, &j);
        if (k->made[Y]) normalize(k, &j);
        if (k->made[DGAMMA]) find_sums(k, &j);
        if (k->made[DX]) find_dx(k, &j);
    }
}

/* --- the kernel --- */

typedef struct batch_bound {
    weft_bound head;
    batch_kernel kernel;
} batch_bound;

static weft_status place(weft_bound *bound, const weft_address *in, const weft_address *out,
                         weft_address scratch)
{
    batch_kernel *k = &((batch_bound *)bound)->kernel;
    float *next = weft_host(scratch);
    for (int r = 0; r < ROLES; r++) {
        k->data[r] = NULL;
        if (k->out[r] >= 0) k->data[r] = weft_host(out[k->out[r]]);
        if (k->in[r] >= 0) k->data[r] = weft_host(in[k->in[r]]);
        if (k->data[r] || !k->made[r]) continue;
        k->data[r] = next; /* a vector that only this kernel reads */
        next += k->p.channel_count;
    }
    return WEFT_OK;
}

static weft_status run(weft_bound *bound, weft_queue *queue)
{
    (void)queue;
    batch_kernel *k = &((batch_bound *)bound)->kernel;
    weft_parallel(k->threads, blocks_of(&k->p), 1, run_blocks, k);
    return WEFT_OK;
}

static void bound_destroy(weft_bound *bound)
{
    free(bound);
}

static const weft_bound_ops bound_ops = {.place = place, .run = run, .destroy = bound_destroy};

static weft_status bind(const weft_kernel *kernel, weft_bound **out)
{
    WEFT_TRY(weft_bound_new(kernel, &bound_ops, sizeof(batch_bound), out));
    ((batch_bound *)*out)->kernel = *(const batch_kernel *)kernel;
    return WEFT_OK;
}

static void destroy(weft_kernel *kernel)
{
    free(kernel);
}

static const weft_kernel_ops kernel_ops = {.bind = bind, .destroy = destroy};

static void allow_in_place(batch_kernel *k, role out, role in)
{
    if (k->out[out] >= 0 && k->in[in] >= 0) k->head.in_place[k->out[out]] = 1u << k->in[in];
}

static weft_status complete(weft_device *device, const weft_group *group,
                            const weft_layout *const *in, batch_kernel *k)
{
    const weft_graph *g = group->graph;
    role first = k->value[DY] != WEFT_NO_VALUE ? DY : k->value[X] != WEFT_NO_VALUE ? X : MEAN;
    const weft_layout *layout;
    if (first != MEAN) {
        WEFT_TRY(cpu_planes_choose(device, group, k->value[first], in, &k->p, &layout));
    } else { /* the group has running statistics alone */
        const weft_type *mean = weft_value_type(g, k->value[MEAN]);
        WEFT_TRY(weft_layout_plain(device, mean, &layout));
        k->p = (cpu_planes){.block = 1, .channel_count = mean->shape.dim[0]};
    }
    WEFT_TRY(cpu_planes_lay(device, group, k->value[first], layout, &k->head));
    for (int r = 0; r < ROLES; r++) {
        k->in[r] = k->value[r] == WEFT_NO_VALUE ? -1 : weft_group_in(group, k->value[r]);
        k->out[r] = k->value[r] == WEFT_NO_VALUE ? -1 : weft_group_out(group, k->value[r]);
        if (k->made[r] && k->out[r] < 0)
            k->head.scratch += (size_t)k->p.channel_count * sizeof(float);
    }
    allow_in_place(k, NEW_MEAN, OLD_MEAN);
    allow_in_place(k, NEW_VARIANCE, OLD_VARIANCE);
    allow_in_place(k, DX, DY);
    for (int n = 0; n < group->count; n++) {
        const weft_node *node = group->node[n];
        k->epsilon = weft_node_real(node, "epsilon", n ? k->epsilon : 1e-5);
        k->momentum = weft_node_real(node, "momentum", n ? k->momentum : 0.1);
        k->positions = (double)weft_node_int(node, "positions", 0, n ? (int64_t)k->positions : 1);
    }
    return WEFT_OK;
}

static weft_status make(weft_device *device, const weft_group *group, const weft_layout *const *in,
                        weft_kernel **out)
{
    batch_kernel *k;
    WEFT_TRY(WEFT_NEW(&k, 1));
    k->head.ops = &kernel_ops;
    k->threads = device->threads;
    memcpy(k->head.text, "loop", sizeof("loop"));
    weft_status status = cast(group, k) ? complete(device, group, in, k)
                                        : weft_fail(WEFT_ERR_INTERNAL, "a group is no batch norm");
    if (status != WEFT_OK) {
        free(k);
        return status;
    }
    *out = &k->head;
    return WEFT_OK;
}

static void count_loop(const cpu_loop *k)
{
    const float *weights = k->in[0];
    float *counts = k->out[0];
    double sum = 0, samples = 0;
    int64_t n = weft_in(k->group.graph, k->group.node[0], 0)->shape.dim[0];
    for (int64_t b = 0; b < n; b++) {
        sum += (double)weights[b];
        samples += weights[b] > 0;
    }
    counts[0] = (float)sum;
    counts[1] = (float)samples;
    counts[2] = (float)n;
}

static weft_status count_make(weft_device *device, const weft_group *group,
                              const weft_layout *const *in, weft_kernel **out)
{
    return cpu_flat_make(device, group, count_loop, in, out);
}

const cpu_entry cpu_batch_norm_entries[] = {
    {"batch_count", "loop", cpu_single, count_make, NULL, CPU_WIDE},
    {"batch_mean", "loop", supports, make, NULL, CPU_ANY},
    {"batch_variance", "loop", supports, make, NULL, CPU_ANY},
    {"batch_running", "loop", supports, make, NULL, CPU_ANY},
    {"batch_norm", "loop", supports, make, NULL, CPU_ANY},
    {"batch_norm_sums", "loop", supports, make, NULL, CPU_ANY},
    {"batch_norm_dx", "loop", supports, make, NULL, CPU_ANY},
    {.op = NULL},
};
