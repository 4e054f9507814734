/* Compares the predictions of served models with those of weft predict: the same bits for a single
 * row, and up to 1e-6 for every batch size, number of instances and mesh. All built-in models are
 * among the cases. */
#include <math.h>

#include "service_fixture.h"

enum { MOST_CASES = 32 };

typedef struct model_case {
    char name[32], model[512], data[1100];
    const char *dtype;
    bool images;
} model_case;

static model_case cases[MOST_CASES];
static int case_count;

static const char *const nets[] = {
    "layers:\n"
    "  - {type: conv, name: stem, filters: 6, kernel: 3, padding: 1, init: he}\n"
    "  - {type: batch_norm}\n"
    "  - {type: relu, name: top}\n"
    "  - {type: maxpool}\n"
    "  - {type: dropout, rate: 0.3}\n"
    "  - {type: conv, name: left, filters: 5, kernel: 3, padding: 1}\n"
    "  - {type: gelu, name: a}\n"
    "  - {type: conv, name: right, filters: 4, kernel: 1, from: dropout5}\n"
    "  - {type: concat, from: \"a, right\"}\n"
    "  - {type: global_avgpool}\n"
    "  - {type: dense, units: outputs}\n",
    "layers:\n"
    "  - {type: dense, units: 24}\n"
    "  - {type: layer_norm}\n"
    "  - {type: tanh}\n"
    "  - {type: dropout, rate: 0.5}\n"
    "  - {type: dense, units: outputs}\n"};

static void add_case(const char *model, const char *data, const char *dtype, bool images)
{
    model_case *m = &cases[case_count];
    assert_true(case_count < MOST_CASES);
    (void)snprintf(m->name, sizeof(m->name), "case%d", case_count++);
    (void)snprintf(m->model, sizeof(m->model), "%s", model);
    (void)snprintf(m->data, sizeof(m->data), "%s", data);
    m->dtype = dtype;
    m->images = images;
}

static void make_cases(void)
{
    char net[2][512], path[4][512], *data[3];
    double part = (double)SAMPLES / TABLE;
    asked_write_text("images.yaml", nets[0], net[0], sizeof(net[0]));
    asked_write_text("rows.yaml", nets[1], net[1], sizeof(net[1]));
    asked_write_table("classes.csv", true, path[0], sizeof(path[0]));
    asked_write_table("numbers.csv", false, path[1], sizeof(path[1]));
    asked_write_array("samples.npy", COLUMNS, path[2], sizeof(path[2]));
    asked_write_array("targets.npy", 2, path[3], sizeof(path[3]));
    assert_ok(weft_format(&data[0], "csv:%s,label=kind,test=%.9g", path[0], part));
    assert_ok(weft_format(&data[1], "csv:%s,target=price,test=%.9g", path[1], part));
    assert_ok(weft_format(&data[2], "npy:%s,target=%s,test=%.9g", path[2], path[3], part));
    for (int i = 0; built_in(WEFT_KIND_MODEL, i); i++)
        if (takes_side(asked_context, small_model(built_in(WEFT_KIND_MODEL, i)), 17))
            add_case(small_model(built_in(WEFT_KIND_MODEL, i)), GLYPHS, "f32", true);
    add_case("vit:patch=17,layers=2,heads=2,width=16", GLYPHS, "f32", true); /* of one patch */
    for (int wide = 0; wide < 2; wide++) {
        const char *dtype = wide ? "f64" : "f32";
        add_case(net[0], GLYPHS, dtype, true);
        if (wide) add_case("mlp", GLYPHS, dtype, true);
        for (int t = 0; t < 3; t++) add_case(t == 1 ? "mlp" : net[1], data[t], dtype, false);
    }
    for (int t = 0; t < 3; t++) free(data[t]);
    for (int i = 0; i < case_count; i++)
        asked_train(cases[i].name, cases[i].model, cases[i].data, cases[i].dtype, i + 1);
}

static weft_servable *load(weft_service *service, const char *name)
{
    char path[512];
    asked_path(path, sizeof(path), name);
    assert_ok(weft_service_load(service, "it", path));
    weft_servable *served = weft_service_hold(service, "it", 0);
    assert_non_null(served);
    return served;
}

/* Finds the row of sample i in the table as f64, before rounding to f32, for the request. */
static void widen(const model_case *m, const told *t, int i, double *wide)
{
    bool found = false;
    for (int row = 0; row < TABLE && !found; row++) {
        asked_row(row, wide);
        found = true;
        for (int j = 0; j < COLUMNS; j++) found = found && (float)wide[j] == t->x[i][j];
    }
    assert_true(found || m->images);
}

/* An output as weft predict prints it: probabilities are rounded to f32. */
static double shown(const told *t, double said)
{
    return t->numbers ? said : (double)(float)said;
}

/* Sends each sample as a request of its own. */
static void check_alone(const model_case *m, weft_servable *served, const told *t)
{
    double said[16], wide[COLUMNS];
    for (int i = 0; i < SAMPLES; i++) {
        weft_inference_request q = asked_question(1, t->x[i], said);
        widen(m, t, i, wide);
        if (!m->images) q.x_double = wide;
        assert_ok(weft_servable_predict(served, &q, NULL));
        for (int j = 0; j < t->outputs; j++)
            if (shown(t, said[j]) != t->said[i][j])
                fail_msg("%s (%s): sample %d says %.17g, predicted is %.17g", m->model, m->dtype, i,
                         said[j], t->said[i][j]);
    }
}

static void test_alone(void **state)
{
    (void)state;
    static told t;
    char from[512], to[512];
    for (int i = 0; i < case_count; i++) {
        const model_case *m = &cases[i];
        if (!in_full() && i % 2) continue;
        weft_service *service = asked_serve_plainly(1, 4);
        asked_predict(m->name, 1, &t);
        asked_features(m->data, "none", &t);
        weft_servable *served = load(service, m->name);
        check_alone(m, served, &t);
        weft_servable_release(&served);
        asked_path(from, sizeof(from), m->name);
        asked_path(to, sizeof(to), "exported");
        assert_ok(weft_checkpoint_export_folder(asked_context, from, to));
        served = load(service, "exported");
        check_alone(m, served, &t);
        weft_servable_release(&served);
        weft_service_destroy(&service);
    }
}

/* Raw requests send normalized features and receive the network's outputs, without the conversion
 * of regression targets back to the units of the data. */
static void test_raw(void **state)
{
    (void)state;
    static told t, raw;
    double said[16];
    for (int i = 0; i < case_count; i++) {
        const model_case *m = &cases[i];
        weft_dataset *d;
        weft_service *service = asked_serve_plainly(1, 4);
        asked_predict(m->name, 1, &t);
        asked_features(m->data, "auto", &raw);
        assert_ok(weft_dataset_open(asked_context, m->data, "auto", NULL, &d));
        assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
        const weft_data_stats *stats = weft_dataset_stats(d);
        weft_servable *served = load(service, m->name);
        for (int k = 0; k < SAMPLES; k++) {
            weft_inference_request q = asked_question(1, raw.x[k], said);
            q.raw = true;
            assert_ok(weft_servable_predict(served, &q, NULL));
            for (int j = 0; j < t.outputs; j++) {
                double own = said[j];
                if (t.numbers) own = own * stats->target_deviation[j] + stats->target_mean[j];
                assert_true(shown(&t, own) == t.said[k][j]);
            }
        }
        weft_servable_release(&served);
        weft_dataset_close(&d);
        weft_service_destroy(&service);
    }
}

/* The description of a servable has the class names and shapes of the data set. */
static void test_about(void **state)
{
    (void)state;
    for (int i = 0; i < case_count; i++) {
        weft_servable_info about;
        weft_dataset *d;
        weft_service *service = asked_serve_plainly(1, 2);
        assert_ok(weft_dataset_open(asked_context, cases[i].data, "auto", NULL, &d));
        assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
        const weft_data_stats *stats = weft_dataset_stats(d);
        weft_servable *served = load(service, cases[i].name);
        weft_servable_describe(served, &about);
        assert_int_equal(about.classes, stats->classes);
        assert_int_equal(about.targets, stats->targets);
        assert_true(about.real == (strcmp(cases[i].dtype, "f64") == 0 ? WEFT_F64 : WEFT_F32));
        assert_int_equal(weft_shape_elements(&about.input[0].shape),
                         weft_shape_elements(&stats->input[0].shape));
        for (int c = 0; stats->class_names && c < stats->classes; c++)
            assert_string_equal(about.class_names[c], stats->class_names[c]);
        assert_true(about.bytes == cases[i].images && about.table != cases[i].images);
        weft_servable_release(&served);
        weft_dataset_close(&d);
        weft_service_destroy(&service);
    }
}

static double off(double said, double right)
{
    return fabs(said - right) / WEFT_MAX(1, fabs(right));
}

/* For classes, the softmax of the logits must be the probabilities; returns the largest error. */
static double check_logits(const told *t, const double *logits, const double *said)
{
    double sum = 0, most = logits[0], worst = 0;
    for (int j = 1; j < t->outputs; j++) most = WEFT_MAX(most, logits[j]);
    for (int j = 0; j < t->outputs; j++) sum += exp(logits[j] - most);
    for (int j = 0; j < t->outputs && !t->numbers; j++)
        worst = WEFT_MAX(worst, off(exp(logits[j] - most) / sum, said[j]));
    return worst;
}

/* Sends the samples in requests of every size, and returns the largest error against the
 * predictions of weft predict. */
static double compare(weft_servable *served, const told *t)
{
    static float x[SAMPLES][SIZE];
    static double said[SAMPLES * 16], logits[SAMPLES * 16];
    weft_servable_info about;
    double worst = 0;
    weft_servable_describe(served, &about);
    int64_t size = weft_shape_elements(&about.input[0].shape);
    for (int64_t rows = 1; rows <= WEFT_MIN(about.most_rows, SAMPLES); rows += 1 + rows / 3)
        for (int64_t first = 0; first + rows <= SAMPLES; first += rows) {
            for (int64_t r = 0; r < rows; r++)
                memcpy(&x[0][0] + r * size, t->x[first + r], (size_t)size * sizeof(float));
            weft_inference_request q = asked_question(rows, &x[0][0], said);
            q.logits = logits;
            assert_ok(weft_servable_predict(served, &q, NULL));
            for (int64_t r = 0; r < rows; r++) {
                for (int j = 0; j < t->outputs; j++)
                    worst = WEFT_MAX(worst, off(said[r * t->outputs + j], t->said[first + r][j]));
                worst = WEFT_MAX(worst,
                                 check_logits(t, &logits[r * t->outputs], &said[r * t->outputs]));
            }
        }
    return worst;
}

static void test_batches(void **state)
{
    (void)state;
    static told t;
    for (int i = 0; i < case_count; i++)
        for (int instances = 1; instances <= 2; instances++) {
            if (!in_full() && instances != 1 + i % 2) continue;
            weft_service *service =
                asked_serve_plainly(instances, instances == 1 ? (int64_t)MOST : 5);
            asked_predict(cases[i].name, SAMPLES, &t);
            asked_features(cases[i].data, "none", &t);
            weft_servable *served = load(service, cases[i].name);
            double worst = compare(served, &t);
            if (worst > 1e-6) fail_msg("%s: off by %g", cases[i].model, worst);
            weft_servable_release(&served);
            weft_service_destroy(&service);
        }
}

/* Instances that are meshes of several ranks, one or two instances of them. */
static void test_meshes(void **state)
{
    (void)state;
    static told t;
    static const char *const meshes[] = {"tensor=2", "pipeline=2",          "data=2",
                                         "domain=2", "tensor=2,pipeline=2", "data=3"};
    for (int i = 0; i < case_count; i++)
        for (size_t k = 0; k < WEFT_COUNT(meshes); k++) {
            weft_service_options o;
            weft_service_options_init(&o);
            if (!cases[i].images && strstr(meshes[k], "domain")) continue;
            if (getenv("WEFT_FAST") && (i + (int)k) % 4 != 0) continue;
            o.mesh = meshes[k];
            o.limit = 9;
            o.instances = 1 + (i + (int)k) % 2;
            weft_service *service = asked_serve(&o);
            asked_predict(cases[i].name, SAMPLES, &t);
            asked_features(cases[i].data, "none", &t);
            weft_servable *served = load(service, cases[i].name);
            double worst = compare(served, &t);
            if (worst > 1e-6) fail_msg("%s, %s: off by %g", cases[i].model, meshes[k], worst);
            weft_servable_release(&served);
            weft_service_destroy(&service);
        }
}

/* --- models of several outputs --- */

typedef struct further {
    int count;
    float square[SAMPLES][COLUMNS];
    bool above[SAMPLES][COLUMNS];
} further;

static void keep_further(void *user, const weft_prediction *p)
{
    further *f = user;
    assert_int_equal(p->outputs, 2);
    assert_string_equal(p->output[0].name, "square");
    assert_string_equal(p->output[1].name, "above");
    memcpy(f->square[f->count], p->value[0], sizeof(f->square[0]));
    memcpy(f->above[f->count++], p->value[1], sizeof(f->above[0]));
}

static const char several[] = "outputs: head, square, above\n"
                              "layers:\n"
                              "  - {type: tanh, name: bend}\n"
                              "  - {type: dense, name: head, units: outputs}\n"
                              "  - {type: mul, name: square, from: \"x, x\"}\n"
                              "  - {type: relu, name: top, from: x}\n"
                              "  - {type: cast, name: above, from: top, dtype: bool}\n";

/* A request of more rows than a batch has each output at its place, and only those that it wants;
 * a number of an output that is not finite is reported if the output is wanted. */
static void test_further_outputs(void **state)
{
    (void)state;
    char net[512], path[512], checkpoint[512], *data;
    static further right;
    static told t;
    double said[SAMPLES * 16];
    float square[SAMPLES][COLUMNS];
    bool above[SAMPLES][COLUMNS];
    weft_servable_info about;
    weft_eval_options o = {0};
    asked_write_text("several.yaml", several, net, sizeof(net));
    asked_write_table("further.csv", true, path, sizeof(path));
    assert_ok(weft_format(&data, "csv:%s,label=kind,test=%.9g", path, (double)SAMPLES / TABLE));
    asked_train("several", net, data, "f32", 3);
    asked_path(checkpoint, sizeof(checkpoint), "several/latest");
    assert_ok(weft_options_init(weft_predict_table(), &o));
    assert_ok(weft_options_set(weft_predict_table(), &o, "checkpoint", checkpoint));
    assert_ok(weft_predict(asked_context, &o, keep_further, &right));
    weft_options_free(weft_predict_table(), &o);
    assert_int_equal(right.count, SAMPLES);
    asked_features(data, "auto", &t);
    for (int limit = 4; limit <= 64; limit *= 4) {
        weft_service *service = asked_serve_plainly(1, limit);
        weft_servable *served = load(service, "several");
        weft_servable_describe(served, &about);
        assert_int_equal(about.output_count, 3);
        assert_true(about.output[2].dtype == WEFT_BOOL && about.output[2].shape.dim[0] == COLUMNS);
        for (int wanted = 0; wanted < 4; wanted++) {
            float rows[SAMPLES][COLUMNS];
            for (int i = 0; i < SAMPLES; i++) memcpy(rows[i], t.x[i], sizeof(rows[i]));
            weft_inference_request q = asked_question(SAMPLES, rows[0], said);
            q.raw = true;
            memset(square, 0, sizeof(square));
            memset(above, 0, sizeof(above));
            if (wanted & 1) q.output[1] = square;
            if (wanted & 2) q.output[2] = above;
            assert_ok(weft_servable_predict(served, &q, NULL));
            for (int i = 0; i < SAMPLES; i++)
                for (int j = 0; j < COLUMNS; j++) {
                    assert_true(square[i][j] == (wanted & 1 ? right.square[i][j] : 0));
                    assert_true(above[i][j] == (wanted & 2 ? right.above[i][j] : false));
                }
            rows[6][1] = 1e30f; /* its square is infinite, and the prediction is not */
            weft_status status = weft_servable_predict(served, &q, NULL);
            if (wanted & 1)
                assert_true(status == WEFT_ERR_NUMERIC &&
                            strstr(weft_last_message(), "output 'square' of row 7 is not finite"));
            else
                assert_ok(status);
        }
        weft_servable_release(&served);
        weft_service_destroy(&service);
    }
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),  cmocka_unit_test(test_raw),
        cmocka_unit_test(test_about),  cmocka_unit_test(test_batches),
        cmocka_unit_test(test_meshes), cmocka_unit_test(test_further_outputs)};
    asked_begin();
    make_cases();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + asked_end();
}
