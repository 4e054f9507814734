/* Gradients that a program exports, in every way to run: each is reported once a step, as soon as
 * it is final, with the value that the update reads, and is not written afterwards. Parameters that
 * arrive late: a program reads a parameter only after it has called the hook `needed` for it. */
#include <math.h>

#include "graph_fixture.h"

typedef struct heard {
    const setting *setting;
    weft_store *store;
    weft_instance *instance;
    int64_t polls;             /* calls of the hook poll in this step */
    int64_t at[MOST_TENSORS];  /* by gradient: polls before it was ready; -1: not ready */
    void *copy[MOST_TENSORS];  /* by gradient: its value when it was ready */
    void *first[MOST_TENSORS]; /* by gradient: its value in the first step */
    size_t size[MOST_TENSORS]; /* by gradient: its bytes */
    int count;
    void *before; /* the parameters before the step */
    size_t bytes;
    int brought;  /* parameters supplied in this step */
    double flops; /* flops before the first use of the last one */
} heard;

static size_t size_of(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? 8 : 4;
}

static weft_status hear(void *user, const weft_gradient *g)
{
    heard *h = user;
    const void *data;
    if (h->at[g->index] >= 0) {
        fprintf(stderr, "the gradient of %s came twice\n", g->name);
        return WEFT_ERR_INTERNAL;
    }
    h->at[g->index] = h->polls;
    weft_status status = weft_gradient_map(h->instance, g->index, &data);
    if (status != WEFT_OK) return status;
    memcpy(h->copy[g->index], data, h->size[g->index]);
    weft_gradient_unmap(h->instance, g->index, data);
    return WEFT_OK;
}

static bool is_late(const heard *h)
{
    return h->setting->update == WEFT_UPDATE_ELSEWHERE;
}

/* Writes numbers into the store; NULL: NaN. */
static void put(const heard *h, int entry, const void *numbers)
{
    void *data;
    weft_dtype dtype;
    size_t bytes;
    rank_ok(weft_store_map(h->store, entry, &dtype, &data, &bytes));
    if (numbers)
        memcpy(data, numbers, bytes);
    else
        memset(data, 0xff, bytes);
    rank_ok(weft_store_unmap(h->store, entry, data));
}

static void bring_one(heard *h, const weft_reading *r)
{
    rank_check(r->index == h->brought && r->flops >= h->flops);
    rank_check(strcmp(weft_store_name(h->store, r->entry), r->name) == 0);
    h->brought++;
    h->flops = r->flops;
    put(h, r->entry, (const char *)h->before + (size_t)r->begin * size_of(r->dtype));
}

/* The hook `needed`: supplies a parameter at its first use. */
static weft_status bring(void *user, const weft_reading *r)
{
    heard *h = user;
    if (r->index >= h->brought) bring_one(h, r); /* in the first micro-batch */
    return WEFT_OK;
}

static weft_status count_poll(void *user)
{
    ((heard *)user)->polls++;
    return WEFT_OK;
}

/* Checks that each parameter moved by the learning rate along its gradient, or not at all if the
 * update is made elsewhere. */
static void check_update(heard *h, const weft_gradient *g, const void *now)
{
    double rate = h->setting->model->lr;
    double close = h->setting->real == WEFT_F64 ? 1e-13 : 1e-6;
    for (int64_t i = 0; i < g->count; i++) {
        double moved =
            value_at(h->before, g->dtype, g->begin + i) - value_at(now, g->dtype, g->begin + i);
        double want = rate * value_at(h->copy[g->index], g->dtype, i);
        if (h->setting->update == WEFT_UPDATE_ELSEWHERE) want = 0;
        rank_check(fabs(moved - want) <= close * (1 + fabs(want)));
    }
}

static void check_step(heard *h)
{
    weft_gradient g;
    void *now;
    const void *data;
    size_t bytes;
    weft_dtype dtype;
    rank_ok(weft_store_map(h->store, WEFT_ALL_PARAMETERS, &dtype, &now, &bytes));
    for (int i = 0; weft_program_gradient(weft_instance_program(h->instance), i, &g); i++) {
        rank_check(h->at[i] >= 0);
        rank_check(g.begin >= 0 && (size_t)(g.begin + g.count) * size_of(dtype) <= bytes);
        rank_ok(weft_gradient_map(h->instance, i, &data));
        rank_check(memcmp(data, h->copy[i], h->size[i]) == 0);
        weft_gradient_unmap(h->instance, i, data);
        check_update(h, &g, now);
        if (!h->first[i]) {
            h->first[i] = malloc(h->size[i]);
            memcpy(h->first[i], h->copy[i], h->size[i]);
        }
    }
    weft_store_unmap_read(h->store, now);
}

static void around(void *user, bool after)
{
    heard *h = user;
    void *now;
    weft_dtype dtype;
    if (after) {
        weft_reading r;
        rank_check(!is_late(h) ||
                   !weft_program_reading(weft_instance_program(h->instance), h->brought, &r));
        weft_instance_enable_needed_hook(h->instance, false);
        if (is_late(h)) put(h, WEFT_ALL_PARAMETERS, h->before); /* also those never read */
        check_step(h);
        return;
    }
    h->polls = h->brought = 0;
    h->flops = 0;
    for (int i = 0; i < h->count; i++) h->at[i] = -1;
    rank_ok(weft_store_map(h->store, WEFT_ALL_PARAMETERS, &dtype, &now, &h->bytes));
    if (!h->before) h->before = malloc(h->bytes + 1);
    memcpy(h->before, now, h->bytes);
    weft_store_unmap_read(h->store, now);
    if (is_late(h)) put(h, WEFT_ALL_PARAMETERS, NULL);
    weft_instance_enable_needed_hook(h->instance, is_late(h));
}

/* Whether gradients are ready during backward: none is summed over ranks, or clipped. */
static bool comes_early(const setting *s)
{
    const char *mesh = s->mesh->mesh;
    return s->clip == 0 && mesh && (s->mesh->ranks == 1 || strcmp(mesh, "tensor=2") == 0);
}

static void listen(heard *h, const setting *s, prepared *p)
{
    weft_gradient g;
    *h = (heard){.setting = s, .store = p->store, .instance = p->program};
    for (; weft_program_gradient(weft_instance_program(p->program), h->count, &g); h->count++)
        h->copy[h->count] = malloc(h->size[h->count] = (size_t)g.count * size_of(g.dtype));
    weft_instance_listen(
        p->program,
        &(weft_listener){.ready = hear, .needed = bring, .poll = count_poll, .user = h});
    p->around = around;
    p->user = h;
}

static void forget(heard *h)
{
    for (int i = 0; i < h->count; i++) free(h->copy[i]);
    for (int i = 0; i < h->count; i++) free(h->first[i]);
    free(h->before);
}

static void rank_hears(weft_comm *world, void *user)
{
    setting s = *(const setting *)user;
    heard h[2];
    for (int elsewhere = 0; elsewhere < (s.mesh->zero ? 1 : 2); elsewhere++) {
        prepared p;
        double losses[STEPS];
        s.update = elsewhere ? WEFT_UPDATE_ELSEWHERE : WEFT_UPDATE_TOLD;
        rank_ok(net_prepare(&p, &s, world));
        listen(&h[elsewhere], &s, &p);
        rank_ok(net_train(&s, &p, losses));
        if (comes_early(&s) && h[elsewhere].count > 2)
            rank_check(h[elsewhere].at[0] < h[elsewhere].at[h[elsewhere].count - 1]);
        net_unprepare(&p);
    }
    /* The first gradients are the same, whether the program makes the update or not. */
    for (int i = 0; i < h[0].count && !s.mesh->zero; i++) {
        rank_check(h[0].count == h[1].count);
        rank_check(memcmp(h[0].first[i], h[1].first[i], h[0].size[i]) == 0);
    }
    for (int elsewhere = 0; elsewhere < (s.mesh->zero ? 1 : 2); elsewhere++) forget(&h[elsewhere]);
}

static setting told(const model_case *model, const mesh_case *mesh)
{
    setting s = net_setting(model, mesh);
    s.update = WEFT_UPDATE_TOLD;
    return s;
}

static void run(const setting *s)
{
    int failures = failures_on_ranks("threads", s->mesh->ranks, rank_hears, (void *)(uintptr_t)s);
    if (failures)
        fail_msg("%s, mesh %s of %d ranks, zero %d, %s, %d micro-batches, clip %g: %d failures",
                 s->model->model, s->mesh->mesh ? s->mesh->mesh : s->mesh->place, s->mesh->ranks,
                 s->mesh->zero, s->device, s->microbatches, s->clip, failures);
}

static void test_every_mesh(void **state)
{
    (void)state;
    static const char *const names[] = {"mlp", "convolutions", "pooled", "mixed_pool"};
    const char *only = getenv("WEFT_ONLY_MODEL");
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
        for (int m = 0; m < MODELS; m++) {
            if (strcmp(models[m].model, names[n]) != 0 || (only && strcmp(only, names[n]) != 0))
                continue;
            for (int k = 0; k < MESHES; k++) {
                setting s = told(&models[m], &suite_meshes[k]);
                s.real = WEFT_F64;
                s.clip = k % 3 == 1 ? 0.5 : 0;
                s.bucket_bytes = k % 2 ? 1 : 0;
                if (!in_full() && (k + (int)n) % 2) continue;
                if (net_fits(&s, &suite_meshes[k], 0)) run(&s);
            }
        }
}

/* With several micro-batches, one after the other or in a pipeline. */
static void test_micro_batches(void **state)
{
    (void)state;
    static const char *const meshes[] = {"data=1", "data=2", "tensor=2", "pipeline=2",
                                         "data=2,pipeline=2"};
    for (size_t i = 0; i < sizeof(meshes) / sizeof(meshes[0]); i++)
        for (int k = 0; k < MESHES; k++) {
            const mesh_case *mesh = &suite_meshes[k];
            if (!mesh->mesh || mesh->shard || strcmp(mesh->mesh, meshes[i]) != 0) continue;
            static const char *const schedules[] = {NULL, "1f1b", "gpipe"};
            for (int how = 0; how < 3; how++)
                for (int clip = 0; clip < 2; clip++) {
                    setting s = told(&models[0], mesh);
                    s.real = WEFT_F64;
                    s.microbatches = 3;
                    s.clip = clip * 0.1;
                    s.schedule = schedules[how];
                    if (!how && strstr(mesh->mesh, "pipeline")) continue;
                    if (!in_full() && (k + how + clip) % 2) continue;
                    if (net_fits(&s, mesh, 0)) run(&s);
                }
        }
}

/* On devices with layouts of their own, with memory of their own, and with both. */
static void test_devices(void **state)
{
    (void)state;
    static const char *const devices[] = {"cpu", "distant", "distant:lacks=dense_dw+sgd",
                                          "cpu,distant"};
    static const char *const meshes[] = {"data=1", "data=2", "tensor=2", "data=2,tensor=2"};
    for (size_t d = 0; d < sizeof(devices) / sizeof(devices[0]); d++)
        for (int m = 0; m < MODELS; m++)
            for (int k = 0; k < MESHES; k++) {
                setting s = told(&models[m], &suite_meshes[k]);
                s.device = devices[d];
                s.clip = k % 2 ? 0.5 : 0;
                bool fits = false;
                for (size_t i = 0; i < sizeof(meshes) / sizeof(meshes[0]) && s.mesh->mesh; i++)
                    fits = fits || strcmp(meshes[i], s.mesh->mesh) == 0;
                if (!fits || s.mesh->zero > 0 || models[m].f32 || !net_fits(&s, s.mesh, 0))
                    continue;
                if (m % 3 && s.mesh->ranks > 2) continue;
                if (!in_full() && (m + (int)d) % 6) continue;
                run(&s);
            }
}

/* An exported gradient that cannot be the gradient of a parameter is refused. */
static void test_refusals(void **state)
{
    (void)state;
    weft_context *c;
    weft_shape pair = weft_shape_of(1, (int64_t[]){2}), three = weft_shape_of(1, (int64_t[]){3});
    assert_ok(weft_context_create(&c));
    for (int i = 0; i < 4; i++) {
        weft_graph *g;
        assert_ok(weft_graph_create(c, WEFT_F32, &g));
        const weft_init zero = {WEFT_INIT_CONSTANT, 0};
        weft_value w = weft_graph_leaf(g, WEFT_VALUE_PARAM, "w", WEFT_F32, &pair, zero);
        weft_value v = weft_graph_leaf(g, WEFT_VALUE_PARAM, "v", WEFT_F32, &three, zero);
        weft_value y = weft_graph_node(g, "relu", "y", &w, 1, NULL, 0);
        if (i == 0) weft_graph_export_gradient(g, v, y); /* another shape */
        if (i == 1) weft_graph_export_gradient(g, y, y); /* of a value that is no parameter */
        if (i == 2) weft_graph_export_gradient(g, w, v); /* a leaf, which no node makes */
        if (i == 3) weft_graph_export_gradient(g, w, y);
        assert_int_equal(weft_graph_status(g), i == 3 ? WEFT_OK : WEFT_ERR_ARGUMENT);
        if (i == 3) weft_graph_export_gradient(g, w, y); /* twice */
        assert_refused(weft_graph_status(g), WEFT_ERR_ARGUMENT, "an exported gradient belongs");
        weft_graph_destroy(&g);
    }
    weft_context_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_mesh), cmocka_unit_test(test_micro_batches),
        cmocka_unit_test(test_devices), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests_name("exported gradients", tests, NULL, NULL);
}
