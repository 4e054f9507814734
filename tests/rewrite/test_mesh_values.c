/* Every value of a graph can be read from the ranks of any mesh: the parts that count, each added
 * at the place where it begins, are the value that one rank computes. For every model and mesh of
 * the tables the forward graph fetches all values that its nodes make. */
#include <math.h>

#include "graph_fixture.h"

typedef struct whole {
    int count;
    int64_t *size;
    double **value; /* of each value of the graph; NULL: it is no real value of a node */
} whole;

typedef struct mesh_values {
    const setting *setting;
    whole *sums;
    pthread_mutex_t lock;
} mesh_values;

static void whole_make(const weft_graph *g, whole *out)
{
    out->count = weft_graph_value_count(g);
    out->size = calloc((size_t)out->count, sizeof(*out->size));
    out->value = calloc((size_t)out->count, sizeof(*out->value));
    for (weft_value v = 0; v < out->count; v++) {
        weft_type type = weft_graph_value_type(g, v);
        /* Integers such as those of a max pool are places within a rank's own part. */
        if (weft_graph_value_kind(g, v) != WEFT_VALUE_RESULT || !weft_dtype_is_float(type.dtype))
            continue;
        out->size[v] = weft_shape_elements(&type.shape);
        out->value[v] = calloc((size_t)out->size[v], sizeof(double));
    }
}

static void whole_free(whole *w)
{
    for (int v = 0; v < w->count; v++) free(w->value[v]);
    free(w->value);
    free(w->size);
}

/* Adds this rank's part of value v where it begins; outside of the value is a failure. */
static void add_part(const prepared *e, weft_value v, double *to, int64_t size)
{
    const weft_graph *g = weft_rewritten_graph(e->mine);
    weft_value local = weft_rewritten_value(e->mine, v);
    weft_type part = weft_graph_value_type(g, local);
    weft_shape all;
    int64_t start[WEFT_MAX_RANK], index[WEFT_MAX_RANK] = {0};
    const void *data = weft_instance_output(e->program, local);
    weft_graph_part(g, local, &all, start);
    rank_check(data != NULL && weft_shape_elements(&all) == size);
    for (int64_t i = 0; data && i < weft_shape_elements(&part.shape); i++) {
        int64_t place = 0;
        for (int d = 0; d < all.rank; d++) place = place * all.dim[d] + start[d] + index[d];
        rank_check(place < size);
        if (place < size) to[place] += value_at(data, part.dtype, i);
        for (int d = all.rank; d-- > 0 && ++index[d] == part.shape.dim[d];) index[d] = 0;
    }
}

static void run_rank(weft_comm *world, void *user)
{
    mesh_values *t = user;
    prepared p, e;
    rank_ok(net_prepare(&p, t->setting, world));
    weft_status status = net_run_forward(t->setting, &p, weft_comm_rank(world), true, &e);
    if (status != WEFT_OK) weft_comm_abort(world);
    rank_ok(status);
    pthread_mutex_lock(&t->lock);
    for (weft_value v = 0; status == WEFT_OK && v < t->sums->count; v++)
        if (t->sums->value[v] && weft_rewritten_counts(e.mine, v))
            add_part(&e, v, t->sums->value[v], t->sums->size[v]);
    pthread_mutex_unlock(&t->lock);
    rank_ok(weft_comm_barrier(world));
    net_drop_forward(&e);
    net_unprepare(&p);
}

static void compare(const setting *s, const weft_graph *g, const whole *want, const whole *have)
{
    for (weft_value v = 0; v < want->count; v++)
        for (int64_t i = 0; want->value[v] && i < want->size[v]; i++) {
            double a = want->value[v][i], b = have->value[v][i];
            if (!(fabs(a - b) <= 1e-9 * fmax(1, fabs(a))))
                fail_msg("%s on %s: '%s'[%lld] is %.17g, should be %.17g", s->model->model,
                         s->mesh->mesh ? s->mesh->mesh : s->mesh->place,
                         weft_graph_value_name(g, v), (long long)i, b, a);
        }
}

/* Compares all meshes with one rank, which runs without a plan. */
static int check_model(const model_case *m)
{
    int checked = 0;
    setting s = net_setting(m, &suite_meshes[0]);
    s.real = WEFT_F64;
    prepared one = {0}, e;
    whole want, have;
    assert_ok(net_build(&one.n, &s));
    assert_ok(weft_store_create(one.n.context, s.device, 5, &one.store));
    assert_ok(net_run_forward(&s, &one, 0, true, &e));
    whole_make(e.n.graph, &want);
    for (weft_value v = 0; v < want.count; v++)
        for (int64_t i = 0; i < want.size[v]; i++)
            want.value[v][i] = value_at(weft_instance_output(e.program, v),
                                        weft_graph_value_type(e.n.graph, v).dtype, i);
    for (int i = 0; i < MESHES; i++) {
        if (!net_fits(&s, &suite_meshes[i], 0)) continue;
        s.mesh = &suite_meshes[i];
        whole_make(e.n.graph, &have);
        mesh_values t = {.setting = &s, .sums = &have, .lock = PTHREAD_MUTEX_INITIALIZER};
        on_ranks("threads", s.mesh->ranks, run_rank, &t);
        compare(&s, e.n.graph, &want, &have);
        whole_free(&have);
        checked++;
    }
    whole_free(&want);
    net_drop_forward(&e);
    net_unprepare(&one);
    return checked;
}

static void test_values(void **state)
{
    (void)state;
    int checked = 0;
    for (size_t m = 0; m < MODELS; m++)
        if (!models[m].f32) checked += check_model(&models[m]);
    assert_true(checked > MODELS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
