/* Describes products: dense layers, batched products, and convolutions with their gradients as
 * implicit products. Functions of each element that follow are the epilogue. */
#include "device/gpu/product.h"

/* Ways to compute a product that only measurements tell apart from that of the rule: other tiles,
 * or sums that are not cut into slices. */
typedef struct way {
    const char *name;
    int tile_m, tile_n; /* 0: as the rule has them */
    bool whole;
} way;
static const way ways[] = {
    {"16x16", 16, 16, false},     {"32x32", 32, 32, false},   {"64x64", 64, 64, false},
    {"128x128", 128, 128, false}, {"128x64", 128, 64, false}, {"64x128", 64, 128, false},
    {"whole sums", 0, 0, true},
};

int gpu_product_ways(const gpu_entry *table, weft_candidate *out, int most)
{
    int count = 0;
    if (table != gpu_product_entries) return 0;
    for (; count < (int)WEFT_COUNT(ways) && count < most; count++) {
        out[count] = out[-1];
        out[count].name = ways[count].name;
    }
    return count;
}

/* So many groups occupy a device; a long sum is cut into slices until there are as many. */
enum { ENOUGH_GROUPS = 128, SHORTEST_SLICE = 512 };

static int tile(int64_t size)
{
    return size <= 16 ? 16 : size <= 32 ? 32 : 64;
}

/* The larger tiles have twice the sums for each number that is loaded; they are worth it where
 * there are enough of them. */
static bool is_large(const gpu_product *p, weft_dtype real)
{
    return real == WEFT_F32 && p->m >= 256 && p->n >= 256;
}

static void cut(gpu_product *p, int64_t groups)
{
    int64_t most = p->k / SHORTEST_SLICE, wanted = ENOUGH_GROUPS / WEFT_MAX(groups, (int64_t)1);
    p->slices = WEFT_MAX(WEFT_MIN(most, wanted), (int64_t)1);
    p->slice = ((p->k + p->slices - 1) / p->slices + 15) / 16 * 16;
    p->slices = (p->k + p->slice - 1) / p->slice;
}

/* The macros of the epilogue: what happens with element `at` of the result, which is `value`. */
static void write_epilogue(gpu_plan *plan, const gpu_elements *e, gpu_body *body)
{
    gpu_text_add(plan, body, "#define EPILOGUE_PARAMETERS ");
    bool spread = gpu_elements_parameters(plan, e, body);
    gpu_text_add(plan, body, "\n#define EPILOGUE {");
    size_t begin = body->size;
    gpu_elements_statements(plan, e, body, spread, plan->out);
    for (size_t i = begin; plan->status == WEFT_OK && i < body->size; i++)
        if (body->text[i] == '\n') body->text[i] = ' ';
    gpu_text_add(plan, body, "}\n");
}

static void add_launch(gpu_plan *plan, const gpu_product *p, bool sum, gpu_grid grid)
{
    gpu_elements e = {.count = 0};
    gpu_body body = {0};
    bool strided = p->kind == GPU_DATA && p->sizes[12] * p->sizes[13] * p->sizes[14] > 1;
    if (plan->group->count > 1) (void)gpu_elements_read(plan->group, 1, &e);
    if (sum || p->slices == 1) write_epilogue(plan, &e, &body);
    gpu_launch_add(plan, &gpu_text_product, sum ? "sum_slices" : "product", grid,
                   "#define KIND %d\n#define TM %d\n#define TN %d\n#define SLICED %d\n"
                   "#define SUM %d\n#define STRIDED %d\n",
                   (int)p->kind, sum ? 16 : p->tile_m, sum ? 16 : p->tile_n, p->slices > 1, sum,
                   strided && !sum);
    if (plan->status == WEFT_OK)
        plan->now->body = body.text;
    else
        free(body.text);
}

static void add_epilogue_arguments(gpu_plan *plan)
{
    gpu_elements e = {.count = 0};
    if (plan->group->count > 1) (void)gpu_elements_read(plan->group, 1, &e);
    gpu_elements_arguments(plan, &e);
}

/* A result may overlie what only the epilogue reads, element by element. */
static void allow_in_place(gpu_plan *plan)
{
    gpu_elements e = {.count = 0};
    if (plan->group->count > 1) (void)gpu_elements_read(plan->group, 1, &e);
    for (int i = 0; i < plan->group->in_count && i < 32; i++) {
        bool by_main = false;
        for (int j = 0; j < plan->in_count; j++)
            by_main = by_main || plan->in[j] == plan->group->in[i];
        for (int o = 0; o < plan->group->out_count; o++)
            if (!by_main && gpu_elements_overlies(plan->group, &e, o, i))
                plan->kernel->head.in_place[o] |= 1u << i;
    }
}

/* Chooses tiles and slices by the rule or, where the candidate names another way, by that. */
static void divide(gpu_plan *plan, gpu_product *p)
{
    bool large = is_large(p, plan->real);
    int tile_m = large ? 128 : tile(p->m), tile_n = large ? 128 : tile(p->n);
    const way *w = NULL;
    for (size_t i = 0; i < WEFT_COUNT(ways) && !w; i++)
        if (plan->way == ways[i].name) w = &ways[i];
    p->tile_m = w && w->tile_m ? w->tile_m : tile_m;
    p->tile_n = w && w->tile_n ? w->tile_n : tile_n;
    cut(p, ((p->n + p->tile_n - 1) / p->tile_n) * ((p->m + p->tile_m - 1) / p->tile_m) * p->batch);
    bool other = w && (w->whole ? p->slices > 1 : p->tile_m != tile_m || p->tile_n != tile_n);
    int largest = plan->real == WEFT_F32 ? 128 : 64;
    if (w && (!other || WEFT_MAX(p->tile_m, p->tile_n) > largest || p->tile_m >= 2 * p->m ||
              p->tile_n >= 2 * p->n))
        plan->status =
            weft->fail(WEFT_ERR_UNSUPPORTED, "%s: a product of %lld x %lld is not computed by %s",
                       plan->kernel->what, (long long)p->m, (long long)p->n, w->name);
    if (!w || !w->whole) return;
    p->slices = 1;
    p->slice = p->k;
}

/* Whether the library's routine computes the group, which has more than the product. */
static bool is_whole(const gpu_plan *plan)
{
    return plan->group->count == 1 || plan->library->library->whole(plan->group);
}

void gpu_routine_result(gpu_plan *plan)
{
    if (plan->group->count == 1)
        gpu_out(plan, 0);
    else if (is_whole(plan))
        gpu_group_out(plan, 0);
    else
        gpu_scratch(plan, 0);
}

/* A routine of a library and, if it does not compute the whole group, the epilogue: the sum of one
 * slice, whose elements lie as those of the result do. */
static void add_routine(gpu_plan *plan, const gpu_product *p)
{
    int64_t size = gpu_out_size(plan, 0);
    size_t each = plan->real == WEFT_F64 ? sizeof(double) : sizeof(float);
    if (!is_whole(plan)) (void)gpu_reserve(plan, each * (size_t)size);
    plan->library->library->make(plan, p);
    if (is_whole(plan)) return;
    const gpu_product slice = {.kind = GPU_PLAIN, .slices = 1};
    add_launch(plan, &slice, true, gpu_line(size, 1024));
    gpu_scratch(plan, 0);
    gpu_ints(plan, 4, (int64_t[]){1, size, 1, 1});
    gpu_ints(plan, 6, slice.sizes);
    add_epilogue_arguments(plan);
    allow_in_place(plan);
}

static void add_product(gpu_plan *plan, gpu_product *p)
{
    if (plan->library) {
        add_routine(plan, p);
        return;
    }
    divide(plan, p);
    if (plan->status != WEFT_OK) return;
    int64_t columns = (p->n + p->tile_n - 1) / p->tile_n;
    int64_t rows = (p->m + p->tile_m - 1) / p->tile_m;
    int64_t layers = p->batch * p->slices;
    size_t size = plan->real == WEFT_F64 ? sizeof(double) : sizeof(float), partial = 0;
    if (rows > 65535 || layers > 65535) {
        plan->status = weft->fail(WEFT_ERR_UNSUPPORTED, "%s has too many tiles of a product",
                                  plan->kernel->what);
        return;
    }
    if (p->slices > 1) partial = gpu_reserve(plan, size * (size_t)(layers * p->m * p->n));
    add_launch(plan, p, false, (gpu_grid){{(int)columns, (int)rows, (int)layers}, {16, 16}});
    gpu_in(plan, p->a);
    gpu_in(plan, p->b);
    gpu_ints(plan, 5, (int64_t[]){p->m, p->n, p->k, p->slices, p->slice});
    gpu_ints(plan, 2, (int64_t[]){p->a_fast, p->b_fast});
    gpu_ints(plan, p->size_count, p->sizes);
    if (p->slices == 1) {
        add_epilogue_arguments(plan);
    } else {
        gpu_scratch(plan, partial);
        add_launch(plan, p, true, gpu_line(p->m * p->n * p->batch, 1024));
        gpu_scratch(plan, partial);
        gpu_ints(plan, 4, (int64_t[]){p->m, p->n, p->batch, p->slices});
        gpu_ints(plan, p->size_count, p->sizes);
        add_epilogue_arguments(plan);
    }
    allow_in_place(plan);
}

/* Strides of a product without a window: element (i, p) of a is at i ai + p ap, (p, j) of b at p bp
 * + j bj. */
static void strided(gpu_plan *plan, gpu_product p, const int64_t strides[6])
{
    memcpy(p.sizes, strides, 6 * sizeof(strides[0]));
    p.size_count = 6;
    p.b = 1;
    p.a_fast = strides[1] == 1;
    p.b_fast = strides[2] == 1 && strides[3] != 1;
    add_product(plan, &p);
}

/* y [r, n] = x [r, k] w [k, n] */
static void dense(gpu_plan *plan)
{
    int64_t k = gpu_in_shape(plan, 1)->dim[0], n = gpu_in_shape(plan, 1)->dim[1];
    strided(plan, (gpu_product){.m = gpu_in_size(plan, 0) / k, .n = n, .k = k, .batch = 1},
            (int64_t[]){k, 1, n, 1, 0, 0});
}

/* dx [r, k] = dy [r, n] w^T */
static void dense_dx(gpu_plan *plan)
{
    int64_t k = gpu_in_shape(plan, 1)->dim[0], n = gpu_in_shape(plan, 1)->dim[1];
    strided(plan, (gpu_product){.m = gpu_in_size(plan, 0) / n, .n = k, .k = n, .batch = 1},
            (int64_t[]){n, 1, 1, n, 0, 0});
}

/* dw [k, n] = x^T dy */
static void dense_dw(gpu_plan *plan)
{
    int64_t k = gpu_out_shape(plan, 0)->dim[0], n = gpu_out_shape(plan, 0)->dim[1];
    strided(plan, (gpu_product){.m = k, .n = n, .k = gpu_in_size(plan, 0) / k, .batch = 1},
            (int64_t[]){1, k, n, 1, 0, 0});
}

static void matmul(gpu_plan *plan)
{
    const weft_shape *left = gpu_in_shape(plan, 0), *out = gpu_out_shape(plan, 0);
    bool ta = gpu_node_int(plan->node, "ta", 0, 0) != 0;
    bool tb = gpu_node_int(plan->node, "tb", 0, 0) != 0;
    int64_t m = out->dim[out->rank - 2], n = out->dim[out->rank - 1];
    int64_t k = left->dim[ta ? left->rank - 2 : left->rank - 1];
    strided(plan, (gpu_product){.m = m, .n = n, .k = k, .batch = gpu_out_size(plan, 0) / (m * n)},
            (int64_t[]){ta ? 1 : k, ta ? m : 1, tb ? 1 : n, tb ? k : 1, m * k, k * n});
}

static void windowed(gpu_plan *plan, gpu_product p, const gpu_window *w)
{
    p.window = *w;
    p.batch = w->groups;
    p.a_fast = true;
    p.sizes[0] = w->groups;
    p.sizes[1] = w->in / w->groups;
    p.sizes[2] = w->out / w->groups;
    p.size_count = 3;
    const int64_t *const lists[] = {w->x, w->y, w->kernel, w->stride, w->padding, w->dilation};
    for (size_t l = 0; l < WEFT_COUNT(lists); l++)
        for (int d = 0; d < 3; d++) p.sizes[p.size_count++] = lists[l][d];
    add_product(plan, &p);
}

static void conv(gpu_plan *plan)
{
    gpu_window w =
        gpu_window_of(plan, gpu_in_shape(plan, 0), gpu_in_shape(plan, 1), gpu_out_shape(plan, 0));
    windowed(plan,
             (gpu_product){.kind = GPU_FORWARD,
                           .a = 1,
                           .b = 0,
                           .m = w.out / w.groups,
                           .n = w.batch * w.y_plane,
                           .k = w.in / w.groups * w.kernel_size},
             &w);
}

static void conv_dx(gpu_plan *plan)
{
    gpu_window w =
        gpu_window_of(plan, gpu_out_shape(plan, 0), gpu_in_shape(plan, 1), gpu_in_shape(plan, 0));
    windowed(plan,
             (gpu_product){.kind = GPU_DATA,
                           .a = 1,
                           .b = 0,
                           .m = w.in / w.groups,
                           .n = w.batch * w.x_plane,
                           .k = w.out / w.groups * w.kernel_size},
             &w);
}

static void conv_dw(gpu_plan *plan)
{
    gpu_window w =
        gpu_window_of(plan, gpu_in_shape(plan, 0), gpu_out_shape(plan, 0), gpu_in_shape(plan, 1));
    windowed(plan,
             (gpu_product){.kind = GPU_WEIGHT,
                           .a = 1,
                           .b = 0,
                           .m = w.out / w.groups,
                           .n = w.in / w.groups * w.kernel_size,
                           .k = w.batch * w.y_plane},
             &w);
}

/* A product alone, or with functions of each element of its result after it. */
static bool with_epilogue(const weft_group *group)
{
    gpu_elements e;
    weft_value main_out;
    if (group->count == 1) return true;
    (void)weft->node_outputs(group->node[0], &main_out);
    if (!gpu_elements_read(group, 1, &e)) return false;
    const weft_shape *shape = &weft->value_type(group->graph, main_out)->shape;
    if (shape->rank != e.full.rank ||
        memcmp(shape->dim, e.full.dim, sizeof(shape->dim[0]) * (size_t)shape->rank) != 0)
        return false;
    /* A neighbour that reads an operand of the product, but not its result, is no epilogue. */
    for (int n = 0; n < e.count; n++) {
        const weft_value *in;
        int count = weft->node_inputs(e.node[n], &in);
        bool after = false;
        for (int i = 0; i < count; i++) after = after || weft->group_in(group, in[i]) < 0;
        if (!after) return false;
    }
    return true;
}

const gpu_entry gpu_product_entries[] = {
    {"dense", "tiles", with_epilogue, dense, false},
    {"dense_dx", "tiles", with_epilogue, dense_dx, false},
    {"dense_dw", "tiles", with_epilogue, dense_dw, false},
    {"matmul", "tiles", with_epilogue, matmul, false},
    {NULL, NULL, NULL, NULL, false},
};

const gpu_entry gpu_conv_entries[] = {
    {"conv", "implicit tiles", with_epilogue, conv, false},
    {"conv_dx", "implicit tiles", with_epilogue, conv_dx, false},
    {"conv_dw", "implicit tiles", with_epilogue, conv_dw, false},
    {NULL, NULL, NULL, NULL, false},
};
