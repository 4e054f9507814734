/* Describes attention and its gradient. */
#include "device/gpu/gpu.h"

/* Most columns of a slice of a query or value, whose sums are in registers; most groups along an
 * axis. */
enum { SLICE = 256, MOST_GROUPS = 65535 };

static int64_t parts(int64_t columns)
{
    int64_t n = 1;
    while (n * 16 < WEFT_MIN(columns, (int64_t)SLICE)) n *= 2;
    return n;
}

/* Queries, keys and values are inputs `at` to at + 2. */
static bool fits(const weft_group *group, int at)
{
    const weft_value *in;
    if (group->count != 1) return false;
    (void)weft->node_inputs(group->node[0], &in);
    const int64_t *q = weft->value_type(group->graph, in[at])->shape.dim;
    return q[0] * q[2] <= MOST_GROUPS;
}

static bool forward_fits(const weft_group *group)
{
    return fits(group, 0);
}

static bool gradient_fits(const weft_group *group)
{
    return fits(group, 1);
}

/* Begins a launch for tiles of `rows` rows of each of `heads` heads, whose results have so many
 * columns. */
static void begin(gpu_plan *plan, const char *function, int at, int64_t rows, int64_t heads,
                  int64_t columns)
{
    const int64_t *q = gpu_in_shape(plan, at)->dim, *v = gpu_in_shape(plan, at + 2)->dim;
    gpu_launch_add(plan, &gpu_text_attention, function,
                   (gpu_grid){{(int)((rows + 15) / 16), (int)(q[0] * heads),
                               (int)((columns + SLICE - 1) / SLICE)},
                              {16, 16}},
                   "#define D_PARTS %d\n#define E_PARTS %d\n", (int)parts(q[3]), (int)parts(v[3]));
}

static void sizes(gpu_plan *plan, int at, int lengths)
{
    const int64_t *q = gpu_in_shape(plan, at)->dim, *v = gpu_in_shape(plan, at + 2)->dim;
    const weft_node *node = plan->node;
    gpu_ints(plan, 9,
             (int64_t[]){q[1], v[1], q[2], v[2], q[3], v[3],
                         gpu_node_int(node, "causal", 0, 0) != 0, gpu_node_int(node, "first", 0, 0),
                         plan->in_count > lengths});
    gpu_real(plan, gpu_node_real(node, "scale", 1));
}

static void forward(gpu_plan *plan)
{
    const int64_t *q = gpu_in_shape(plan, 0)->dim, *v = gpu_in_shape(plan, 2)->dim;
    begin(plan, "attention", 0, q[1], q[2], v[3]);
    for (int i = 0; i < 3; i++) gpu_in(plan, i);
    gpu_in(plan, plan->in_count > 3 ? 3 : 0);
    gpu_out(plan, 0);
    gpu_out(plan, 1);
    sizes(plan, 0, 3);
}

static void gradient(gpu_plan *plan)
{
    const int64_t *q = gpu_in_shape(plan, 1)->dim, *v = gpu_in_shape(plan, 3)->dim;
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 0)
            begin(plan, "attention_dq", 1, q[1], q[2], q[3]);
        else
            begin(plan, "attention_dkv", 1, v[1], v[2], WEFT_MAX(q[3], v[3]));
        for (int i = 0; i < 6; i++) gpu_in(plan, i);
        gpu_in(plan, plan->in_count > 6 ? 6 : 0);
        gpu_out(plan, pass);
        if (pass == 1) gpu_out(plan, 2);
        sizes(plan, 1, 6);
    }
}

const gpu_entry gpu_attention_entries[] = {
    {"attention", "tiles", forward_fits, forward, false},
    {"attention_grad", "tiles", gradient_fits, gradient, false},
    {NULL, NULL, NULL, NULL, false},
};
