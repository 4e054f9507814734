/* The gathering of tensors for a checkpoint, on every mesh. The first rank receives each tensor as
 * a run of one rank has it. The other ranks receive nothing, and allocate no more than the part
 * that they send needs.
 *
 * The test counts the memory that a rank's thread requests while it gathers, and the bytes that its
 * communicators report as sent; every byte that one rank receives, another rank has sent. */
#include <string.h>

#include "checkpoint/folder.h"
#include "graph_fixture.h"

/* The linker puts this function in the place of posix_memalign, in the library too. */
int __real_posix_memalign(void **out, size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes);

static _Thread_local size_t asked;

int __wrap_posix_memalign(void **out, size_t alignment, size_t bytes)
{
    asked += bytes;
    return __real_posix_memalign(out, alignment, bytes);
}

/* Counts of one rank for one tensor. */
typedef struct figures {
    int64_t sent;  /* bytes, without the table of which rank has which part */
    size_t asked;  /* bytes of memory requested */
    int64_t range; /* bytes of the tensor that the rank holds; 0: none */
    bool spread;
} figures;

typedef struct gather_case {
    setting setting;
    bool image; /* gathers an image of the parameters, in which every number is doubled */
    int count;
    weft_type types[MOST_TENSORS];
    void *tensors[MOST_TENSORS]; /* as the first rank received them */
    figures (*seen)[MOST_TENSORS];
} gather_case;

/* Copies the memory of all parameters of this rank, with every number doubled. */
static weft_status doubled(const weft_store *store, void **image)
{
    weft_dtype dtype;
    void *data;
    size_t bytes;
    weft_status status = weft_store_map(store, WEFT_ALL_PARAMETERS, &dtype, &data, &bytes);
    if (status != WEFT_OK) return status;
    *image = malloc(bytes + 1);
    for (size_t i = 0; i < bytes / weft_dtype_size(dtype); i++)
        weft_number_put(dtype, *image, (int64_t)i, 2 * weft_number_get(dtype, data, (int64_t)i));
    weft_store_unmap_read(store, data);
    return WEFT_OK;
}

static figures figures_before(const prepared *p, const char *name, weft_comm *world)
{
    figures f = {.sent = -weft_comm_get_stats(world).bytes};
    int entry = weft_store_find(p->store, name);
    f.sent -= (weft_comm_size(world) - 1) * (int64_t)((1 + 2 * WEFT_MAX_RANK) * sizeof(double));
    if (entry < 0) return f;
    weft_type type = weft_store_type(p->store, entry);
    int64_t count = weft_shape_elements(&type.shape);
    f.spread = weft_store_is_spread(p->store, entry);
    if (f.spread) {
        int n = weft_comm_size(p->comms.axes[1]), me = weft_comm_rank(p->comms.axes[1]);
        count = count * (me + 1) / n - count * me / n;
    }
    f.range = count * (int64_t)weft_dtype_size(type.dtype);
    return f;
}

static void gather_all(weft_comm *world, void *user)
{
    gather_case *c = user;
    prepared p;
    weft_gathering g;
    void *image = NULL;
    int me = weft_comm_rank(world), t = 0;
    rank_ok(net_prepare(&p, &c->setting, world));
    rank_ok(weft_gathering_open(&p.comms, p.store, &g));
    if (c->image) rank_ok(doubled(p.store, &image));
    for (weft_value v = 0; v < weft_graph_value_count(p.n.graph); v++) {
        weft_value_kind kind = weft_graph_value_kind(p.n.graph, v);
        bool state = kind == WEFT_VALUE_STATE && !c->image &&
                     weft_graph_role(p.n.graph, v, NULL) != WEFT_ROLE_SUM;
        if (kind != WEFT_VALUE_PARAM && !state) continue;
        const char *name = weft_graph_value_name(p.n.graph, v);
        weft_type type = weft_graph_value_type(p.n.graph, v);
        void *data = me == 0 ? malloc(weft_type_bytes(&type)) : NULL;
        figures f = figures_before(&p, name, world);
        asked = 0;
        rank_ok(weft_gather_tensor(&g, name, &type, image, data));
        f.asked = asked;
        f.sent += weft_comm_get_stats(world).bytes;
        c->seen[me][t] = f;
        if (me == 0) c->types[t] = type;
        if (me == 0) c->tensors[t] = data;
        t++;
    }
    if (me == 0) c->count = t;
    free(image);
    weft_gathering_close(&g);
    rank_ok(weft_comm_barrier(world));
    net_unprepare(&p);
}

static void gather_case_run(gather_case *c)
{
    c->seen = calloc((size_t)c->setting.mesh->ranks, sizeof(*c->seen));
    on_ranks("threads", c->setting.mesh->ranks, gather_all, c);
}

static void gather_case_free(gather_case *c)
{
    for (int t = 0; t < c->count; t++) free(c->tensors[t]);
    free(c->seen);
}

/* Alignment costs at most one cache line. */
enum { LINE = 64 };

static void check_costs(const gather_case *c, int t)
{
    const mesh_case *mesh = c->setting.mesh;
    int64_t whole = (int64_t)weft_type_bytes(&c->types[t]), others = 0;
    int64_t first = c->seen[0][t].range; /* bytes of the first rank, and own bytes that others
                                          * send */
    bool data_only = strncmp(mesh->mesh, "data=", 5) == 0 && !strchr(mesh->mesh, ',');
    for (int r = 0; r < mesh->ranks; r++) {
        const figures *f = &c->seen[r][t];
        first += WEFT_MIN(f->sent, f->range);
        if (r > 0) others += (int64_t)f->asked;
        /* On a mesh of the data axis alone, each rank sends its ZeRO range straight to the first
         * rank. */
        if (r > 0 && data_only) assert_int_equal(f->sent, f->spread ? f->range : 0);
        if (r > 0 && data_only) assert_int_equal(f->asked, 0);
        if (f->sent == 0 && r > 0) assert_int_equal(f->asked, 0);
    }
    assert_int_equal(c->seen[0][t].sent, 0);
    assert_int_equal(first, whole); /* each element comes from one rank, also if several hold it */
    /* A rank may gather a part, reorder it and then send it, which takes twice the memory. */
    assert_true(others <= 2 * (whole + mesh->ranks * LINE));
    assert_true((int64_t)c->seen[0][t].asked <= 2 * (whole + LINE));
}

static void on_every_mesh(const model_case *m, const char *device, bool image)
{
    const mesh_case one = {"data=1", 1, 0, NULL, NULL};
    gather_case alone = {.setting = net_setting(m, &one), .image = image};
    alone.setting.device = device;
    alone.setting.optimizer = "adam";
    gather_case_run(&alone);
    for (int i = 0; i < MESHES; i++) {
        gather_case c = alone;
        c.setting.mesh = &suite_meshes[i];
        if (!c.setting.mesh->mesh || !net_fits(&c.setting, c.setting.mesh, 0)) continue;
        gather_case_run(&c);
        assert_int_equal(c.count, alone.count);
        for (int t = 0; t < c.count; t++) {
            size_t bytes = weft_type_bytes(&alone.types[t]);
            if (memcmp(c.tensors[t], alone.tensors[t], bytes) != 0)
                fail_msg("%s on %s, %s, zero %d: tensor %d differs", m->model, device,
                         c.setting.mesh->mesh, c.setting.mesh->zero, t);
            check_costs(&c, t);
        }
        gather_case_free(&c);
    }
    gather_case_free(&alone);
}

static void test_gathered_by_one(void **state)
{
    (void)state;
    static const char *const devices[] = {"reference", "cpu"};
    for (size_t d = 0; d < 2; d++)
        for (int image = 0; image < 2; image++) {
            on_every_mesh(&dense8_case, devices[d], image);
            for (size_t m = 0; m < 3; m++) on_every_mesh(&models[m], devices[d], image);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gathered_by_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
