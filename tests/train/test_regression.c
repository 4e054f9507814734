/* Tests regression (targets that are numbers): a linear model reaches the solution of the normal
 * equations, metrics and predictions equal those computed here, and every mesh learns the same. */
#include <math.h>

#include "base/base.h"
#include "trainer_runs.h"

enum { ROWS = 53, FEATURES = 3, UNKNOWNS = FEATURES + 1 };

/* A table whose columns have very different units, and a target with noise. */
typedef struct table {
    double x[ROWS][FEATURES], y[ROWS];
} table;

static double chance(uint32_t i)
{
    uint32_t h = i * 2654435761U;
    h = (h ^ h >> 15) * 2246822519U;
    h = (h ^ h >> 13) * 3266489917U;
    return (double)(h ^ h >> 16) / 4294967296.0;
}

static void make_table(table *t)
{
    for (uint32_t i = 0; i < ROWS; i++) {
        t->x[i][0] = floor(1 + 9 * chance(7 * i));
        t->x[i][1] = 2000 + 50 * chance(7 * i + 1);
        t->x[i][2] = 1e-3 * chance(7 * i + 2);
        t->y[i] = 250000 + 4100 * t->x[i][0] - 333 * t->x[i][1] + 2e7 * t->x[i][2] +
                  3000 * chance(7 * i + 3);
    }
}

/* Writes the table as CSV; `spec` receives csv:FILE,target=price. The second column is the
 * target. */
static void write_table(const table *t, const char *folder, char *spec, size_t room)
{
    weft_text text = {0};
    char path[4200];
    weft_text_add(&text, "rooms,price,year,dust\n");
    for (int i = 0; i < ROWS; i++)
        weft_text_add(&text, "%.17g,%.17g,%.17g,%.17g\n", t->x[i][0], t->y[i], t->x[i][1],
                      t->x[i][2]);
    write_file(folder, "t.csv", text.data, text.size, path, sizeof(path));
    free(text.data);
    (void)snprintf(spec, room, "csv:%s,target=price", path);
}

/* The row of the table with this target; all targets differ. */
static int row_of(const table *t, double target)
{
    for (int i = 0; i < ROWS; i++)
        if (t->y[i] == target) return i;
    fail_msg("no row has the target %.17g", target);
    return -1;
}

/* Lists the rows of a part, in the part's order. */
static int rows_of_part(const table *t, const char *spec, weft_split split, int *rows)
{
    weft_dataset *d;
    weft_column column;
    assert_ok(weft_dataset_open(context, spec, "auto", NULL, &d));
    assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
    assert_ok(weft_dataset_prepare(d, WEFT_TEST));
    assert_true(weft_dataset_column(d, 1, &column));
    assert_true(column.role == WEFT_PORT_TARGET && column.dtype == WEFT_F32);
    assert_true(column.shape.rank == 1 && column.shape.dim[0] == 1);
    int count = (int)weft_dataset_count(d, split);
    for (int i = 0; i < count; i++) rows[i] = row_of(t, weft_dataset_target(d, split, i, 0));
    weft_dataset_close(&d);
    return count;
}

/* --- least squares --- */

/* Solves a[n][n] w = b by Gauss-Jordan elimination with pivots. */
static void solve(double a[UNKNOWNS][UNKNOWNS], double b[UNKNOWNS])
{
    for (int k = 0; k < UNKNOWNS; k++) {
        int pivot = k;
        for (int i = k; i < UNKNOWNS; i++)
            if (fabs(a[i][k]) > fabs(a[pivot][k])) pivot = i;
        for (int j = 0; j < UNKNOWNS; j++) {
            double other = a[k][j];
            a[k][j] = a[pivot][j];
            a[pivot][j] = other;
        }
        double other = b[k];
        b[k] = b[pivot];
        b[pivot] = other;
        for (int i = 0; i < UNKNOWNS; i++) {
            double factor = i == k ? 0 : a[i][k] / a[k][k];
            for (int j = k; j < UNKNOWNS; j++) a[i][j] -= factor * a[k][j];
            b[i] -= factor * b[k];
        }
    }
    for (int k = 0; k < UNKNOWNS; k++) b[k] /= a[k][k];
}

/* Predicts all rows by the least-squares solution for the given rows. Columns are centred on their
 * ranges, since the normal equations would be badly conditioned otherwise. */
static void fit_line(const table *t, const int *rows, int count, double said[ROWS])
{
    static const double middle[] = {5, 2025, 5e-4}, width[] = {5, 25, 5e-4};
    double a[UNKNOWNS][UNKNOWNS] = {{0}}, b[UNKNOWNS] = {0}, z[ROWS][UNKNOWNS];
    for (int i = 0; i < ROWS; i++) {
        z[i][0] = 1;
        for (int j = 0; j < FEATURES; j++) z[i][j + 1] = (t->x[i][j] - middle[j]) / width[j];
    }
    for (int n = 0; n < count; n++)
        for (int i = 0; i < UNKNOWNS; i++) {
            for (int j = 0; j < UNKNOWNS; j++) a[i][j] += z[rows[n]][i] * z[rows[n]][j];
            b[i] += z[rows[n]][i] * t->y[rows[n]];
        }
    solve(a, b);
    for (int i = 0; i < ROWS; i++) {
        said[i] = 0;
        for (int j = 0; j < UNKNOWNS; j++) said[i] += b[j] * z[i][j];
    }
}

/* --- predictions and metrics --- */

typedef struct heard {
    int count, targets;
    double said[ROWS][2], target[ROWS][2];
} heard;

static void on_prediction(void *user, const weft_prediction *p)
{
    heard *h = user;
    assert_true(p->sample >= h->count); /* the row in the file */
    assert_true(p->classes == 0 && p->label == -1 && !p->probabilities);
    h->targets = p->targets;
    for (int j = 0; j < p->targets; j++) {
        h->said[h->count][j] = p->numbers[j];
        h->target[h->count][j] = p->target ? p->target[j] : (double)NAN;
    }
    h->count++;
}

static void ask(const char *folder, const char *split, heard *h, weft_report *r)
{
    weft_eval_options e = {0};
    memset(h, 0, sizeof(*h));
    assert_ok(weft_options_init(weft_eval_table(), &e));
    assert_ok(weft_options_set(weft_eval_table(), &e, "checkpoint", folder));
    assert_ok(weft_options_set(weft_eval_table(), &e, "split", split));
    assert_ok(weft_options_set(weft_eval_table(), &e, "batch", "4"));
    assert_ok(weft_options_set(weft_eval_table(), &e, "device", "reference"));
    assert_ok(weft_predict(context, &e, on_prediction, h));
    assert_ok(weft_evaluate(context, &e, r));
    assert_int_equal(r->samples, h->count);
    weft_options_free(weft_eval_table(), &e);
}

/* R2, mean absolute error and root mean squared error of target j, by their definitions. */
static weft_fit figures(const heard *h, int j)
{
    double mean = 0, left = 0, all = 0, off = 0, n = h->count;
    for (int i = 0; i < h->count; i++) mean += h->target[i][j] / n;
    for (int i = 0; i < h->count; i++) {
        double error = h->said[i][j] - h->target[i][j];
        left += error * error;
        off += fabs(error);
        all += (h->target[i][j] - mean) * (h->target[i][j] - mean);
    }
    return (weft_fit){.r2 = 1 - left / all, .mae = off / n, .rmse = sqrt(left / n)};
}

static void near(const char *what, double have, double want, double tolerance)
{
    if (!(fabs(have - want) <= tolerance * fabs(want)))
        fail_msg("%s is %.12g, should be %.12g", what, have, want);
}

static void same_fit(const weft_fit *have, const weft_fit *want)
{
    near("R2", have->r2, want->r2, 1e-9);
    near("MAE", have->mae, want->mae, 1e-9);
    near("RMSE", have->rmse, want->rmse, 1e-9);
}

/* --- the tests --- */

static const char line_model[] = "loss: mse\nlayers:\n  - {type: dense, units: outputs}\n";
static const char *const ways[] = {
    "ranks=1",
    "ranks=3",
    "ranks=2 microbatches=2 batch=42",
    "ranks=2 zero=1",
    "ranks=4 zero=2",
    "ranks=3 zero=3",
    "ranks=2 virtual-workers=6",
    "ranks=1 virtual-workers=5",
    "ranks=2 mesh=tensor=2",
    "ranks=1 device=cpu",
};

/* After fifty steps with the whole training part as batch, a linear model is the solution of the
 * normal equations, in the units of the table, on every mesh and device. */
static void test_least_squares(void **state)
{
    (void)state;
    static table t;
    static heard h;
    weft_report r;
    log_of_run l;
    int trained[ROWS], tested[ROWS];
    double said[ROWS];
    char *folder = temporary_folder(), spec[4300], words[14000], path[4300], net[4300];
    make_table(&t);
    write_table(&t, folder, spec, sizeof(spec));
    int count = rows_of_part(&t, spec, WEFT_TRAIN, trained);
    int rest = rows_of_part(&t, spec, WEFT_TEST, tested);
    assert_true(count == 42 && rest == 11);
    write_file(folder, "line.yaml", line_model, strlen(line_model), net, sizeof(net));
    fit_line(&t, trained, count, said);
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++) {
        (void)snprintf(path, sizeof(path), "%s/run%zu", folder, w);
        (void)snprintf(words, sizeof(words),
                       "model=%s data=%s batch=%d epochs=50 optimizer=sgd lr=0.4 device=reference "
                       "dtype=f64 %s",
                       net, spec, count, ways[w]);
        assert_ok(train(words, path, 0, &l));
        assert_true(l.loss[49] < l.loss[0]);
        ask(path, "test", &h, &r);
        assert_true(h.count == rest && h.targets == 1 && r.targets == 1 && r.classes == 0);
        for (int i = 0; i < rest; i++) {
            assert_true(h.target[i][0] == t.y[tested[i]]);
            near(ways[w], h.said[i][0], said[tested[i]], 1e-6);
        }
        weft_fit want = figures(&h, 0);
        same_fit(&r.fit, &want);
        same_fit(&r.fits[0], &want);
        same_fit(&l.fit, &want);
        near("the loss", l.test_loss, r.loss, 1e-9);
        assert_true(want.r2 > 0.99 && want.mae > 100);
        weft_report_free(&r);
    }
    remove_folder(folder);
}

static const char curve_model[] = "layers:\n  - {type: dense, units: 12}\n  - {type: tanh}\n"
                                  "  - {type: dense, units: 8}\n  - {type: sigmoid}\n"
                                  "  - {type: dense, units: outputs, bias: false}\n";
static const struct {
    const char *words;
    bool bits; /* the bits of the mesh before, which has the same virtual workers */
} meshes[] = {
    {"ranks=3", false},
    {"ranks=2 mesh=tensor=2", false},
    {"ranks=3 mesh=tensor=3", false},
    {"ranks=2 mesh=tensor=2 shard=dense5/weight:in=tensor", false}, /* sum split over ranks */
    {"ranks=2 mesh=pipeline=2 microbatches=5", false},
    {"ranks=4 mesh=data=2,tensor=2 zero=3", false},
    {"ranks=4 mesh=data=2,pipeline=2 microbatches=2 zero=1", false},
    {"ranks=2 microbatches=2 recompute=true", false},
    {"ranks=1 virtual-workers=10", false},
    {"ranks=2 virtual-workers=10", true},
    {"ranks=5 virtual-workers=10 zero=2", true},
};

/* A nonlinear network, with batches that leave a remainder: every mesh gives the predictions of one
 * rank up to rounding, and a run that is stopped and resumed gives them to the last bit. */
static void test_ways_to_run(void **state)
{
    (void)state;
    static table t;
    static heard one, other, workers;
    weft_report r;
    log_of_run l;
    char *folder = temporary_folder(), spec[4300], words[14000], run[9000], path[4300], net[4300];
    make_table(&t);
    write_table(&t, folder, spec, sizeof(spec));
    write_file(folder, "curve.yaml", curve_model, strlen(curve_model), net, sizeof(net));
    (void)snprintf(run, sizeof(run),
                   "model=%s data=%s batch=10 epochs=2 lr=0.02 device=reference dtype=f64", net,
                   spec);
    (void)snprintf(path, sizeof(path), "%s/one", folder);
    assert_ok(train(run, path, 0, &l));
    assert_int_equal(l.steps, 10);
    ask(path, "test", &one, &r);
    weft_report_free(&r);
    for (size_t m = 0; m < sizeof(meshes) / sizeof(meshes[0]); m++) {
        (void)snprintf(path, sizeof(path), "%s/mesh%zu", folder, m);
        (void)snprintf(words, sizeof(words), "%s %s", run, meshes[m].words);
        assert_ok(train(words, path, 0, &l));
        ask(path, "test", &other, &r);
        same_fit(&l.fit, &r.fit); /* the ranks have computed this together */
        weft_report_free(&r);
        for (int i = 0; i < one.count; i++)
            near(meshes[m].words, other.said[i][0], one.said[i][0], 1e-9);
        if (meshes[m].bits) assert_memory_equal(other.said, workers.said, sizeof(workers.said));
        workers = other;
    }
    (void)snprintf(path, sizeof(path), "%s/parts", folder);
    assert_int_equal(train(run, path, 4, &l), WEFT_ERR_INTERRUPTED);
    (void)snprintf(words, sizeof(words), "%s resume=true", run);
    assert_ok(train(words, path, 0, &l));
    assert_int_equal(l.steps, 6);
    ask(path, "test", &other, &r);
    weft_report_free(&r);
    assert_memory_equal(other.said, one.said, sizeof(one.said));
    remove_folder(folder);
}

static void put_array(const char *folder, const char *name, int columns, const double *numbers,
                      char *path, size_t room)
{
    unsigned char file[8192] = "\x93NUMPY\x01";
    int size =
        snprintf((char *)file + 10, 200,
                 "{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }\n", ROWS, columns);
    size_t bytes = (size_t)(ROWS * columns) * sizeof(double);
    file[8] = (unsigned char)size;
    memcpy(file + 10 + size, numbers, bytes);
    write_file(folder, name, file, 10 + (size_t)size + bytes, path, room);
}

/* Samples with two targets, one of them constant: it has no R2; the mean R2 is the other one's. */
static void test_several_targets(void **state)
{
    (void)state;
    static table t;
    static heard h;
    static double y[ROWS][2];
    weft_report r;
    log_of_run l;
    char *folder = temporary_folder(), x[4300], target[4300], words[14000], path[4300];
    make_table(&t);
    for (int i = 0; i < ROWS; i++) {
        y[i][0] = t.y[i];
        y[i][1] = -7.25;
    }
    put_array(folder, "x.npy", FEATURES, &t.x[0][0], x, sizeof(x));
    put_array(folder, "y.npy", 2, &y[0][0], target, sizeof(target));
    (void)snprintf(path, sizeof(path), "%s/run", folder);
    (void)snprintf(words, sizeof(words),
                   "model=mlp data=npy:%s,target=%s,test=0.3 batch=20 epochs=5 ranks=2", x, target);
    assert_ok(train(words, path, 0, &l));
    ask(path, "train", &h, &r);
    assert_true(h.targets == 2 && r.targets == 2 && h.count == 37);
    weft_fit first = figures(&h, 0), second = figures(&h, 1);
    near("R2", r.fits[0].r2, first.r2, 1e-9);
    assert_true(isnan(r.fits[1].r2));
    near("the mean R2", r.fit.r2, first.r2, 1e-9);
    near("the mean MAE", r.fit.mae, (first.mae + second.mae) / 2, 1e-9);
    near("the mean RMSE", r.fit.rmse, (first.rmse + second.rmse) / 2, 1e-9);
    for (int i = 0; i < h.count; i++)
        assert_true(h.target[i][1] == -7.25 && fabs(h.said[i][1] + 7.25) < 3);
    weft_report_free(&r);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least_squares),
        cmocka_unit_test(test_ways_to_run),
        cmocka_unit_test(test_several_targets),
    };
    return cmocka_run_group_tests_name("regression", tests, setup, teardown);
}
