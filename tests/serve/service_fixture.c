#include "service_fixture.h"

weft_context *asked_context;
char asked_folder[] = "/tmp/weft-service-XXXXXX";

void asked_path(char *path, size_t size, const char *name)
{
    (void)snprintf(path, size, "%s/%s", asked_folder, name);
}

static void on_prediction(void *user, const weft_prediction *p)
{
    told *t = user;
    t->outputs = p->targets ? p->targets : p->classes;
    t->numbers = p->targets > 0;
    for (int j = 0; j < t->outputs; j++)
        t->said[t->count][j] = p->targets ? p->numbers[j] : (double)p->probabilities[j];
    t->count++;
}

void asked_train(const char *name, const char *model, const char *data, const char *dtype, int seed)
{
    weft_trainer *trainer;
    weft_train_options o = {0};
    char text[512], number[32];
    const weft_option *table = weft_train_table(asked_context);
    assert_ok(weft_train_options_init(asked_context, &o));
    asked_path(text, sizeof(text), name);
    (void)snprintf(number, sizeof(number), "%d", seed);
    const char *const set[][2] = {{"model", model}, {"data", data},       {"dtype", dtype},
                                  {"epochs", "1"},  {"checkpoint", text}, {"batch", "20"},
                                  {"seed", number}, {"threads", "1"}};
    for (size_t i = 0; i < WEFT_COUNT(set); i++)
        assert_ok(weft_options_set(table, &o, set[i][0], set[i][1]));
    assert_ok(weft_trainer_create(asked_context, &o, &trainer));
    assert_ok(weft_trainer_run(trainer, NULL, NULL));
    weft_trainer_destroy(&trainer);
    weft_options_free(table, &o);
}

void asked_predict(const char *name, int batch, told *out)
{
    char path[512], number[32];
    weft_eval_options o = {0};
    asked_path(path, sizeof(path), name);
    assert_ok(weft_options_init(weft_predict_table(), &o));
    assert_ok(weft_options_set(weft_predict_table(), &o, "checkpoint", path));
    assert_ok(weft_options_set(weft_predict_table(), &o, "threads", "1"));
    (void)snprintf(number, sizeof(number), "%d", batch);
    assert_ok(weft_options_set(weft_predict_table(), &o, "batch", number));
    *out = (told){.count = 0};
    assert_ok(weft_predict(asked_context, &o, on_prediction, out));
    weft_options_free(weft_predict_table(), &o);
    assert_int_equal(out->count, SAMPLES);
}

void asked_features(const char *data, const char *normalize, told *out)
{
    weft_dataset *d;
    assert_ok(weft_dataset_open(asked_context, data, normalize, NULL, &d));
    assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
    assert_ok(weft_dataset_prepare(d, WEFT_TEST));
    for (int i = 0; i < SAMPLES; i++) assert_ok(weft_dataset_read(d, WEFT_TEST, i, 0, out->x[i]));
    weft_dataset_close(&d);
}

weft_inference_request asked_question(int64_t rows, const float *x, double *said)
{
    weft_inference_request q;
    weft_inference_request_init(&q);
    q.rows = rows;
    q.x = x;
    q.prediction = said;
    return q;
}

weft_service *asked_serve(weft_service_options *o)
{
    weft_service *service;
    o->threads = 1;
    o->measure = 0.02;
    if (!o->times) o->times = "none";
    assert_ok(weft_service_create(asked_context, o, &service));
    return service;
}

weft_service *asked_serve_plainly(int instances, int64_t limit)
{
    weft_service_options o;
    weft_service_options_init(&o);
    o.instances = instances;
    o.limit = limit;
    return asked_serve(&o);
}

/* The context has one thread: the thread sanitizer cannot see how OpenMP runtimes synchronize. */
void asked_begin(void)
{
    if (weft_context_create(&asked_context) != WEFT_OK || !mkdtemp(asked_folder) ||
        weft_context_set_threads(asked_context, 1) != WEFT_OK)
        exit(1);
}

int asked_end(void)
{
    char remove_it[600];
    (void)snprintf(remove_it, sizeof(remove_it), "rm -rf %s", asked_folder);
    weft_context_destroy(&asked_context);
    return system(remove_it);
}

/* --- data --- */

void asked_write_text(const char *name, const char *text, char *path, size_t size)
{
    asked_path(path, size, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

void asked_row(int i, double *x)
{
    x[0] = 1e6 + i * 7 % 50;
    x[1] = 1e-3 * (i * 13 % 29);
    x[2] = -4.25 * (i % 5);
}

void asked_write_table(const char *name, bool classes, char *path, size_t size)
{
    static const char *const kinds[] = {"oak", "\"elm, red\"", "fir"};
    asked_path(path, size, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "height,weight,age,%s\n", classes ? "kind" : "price");
    for (int i = 0; i < TABLE; i++) {
        double x[COLUMNS];
        asked_row(i, x);
        fprintf(file, "%.17g,%.17g,%.17g,", x[0], x[1], x[2]);
        if (classes)
            fprintf(file, "%s\n", kinds[(i + i / 3) % 3]);
        else
            fprintf(file, "%.17g\n", 2.5e5 + 3e3 * x[2] + x[0] / 7);
    }
    assert_int_equal(fclose(file), 0);
}

void asked_write_array(const char *name, int columns, char *path, size_t size)
{
    char head[128];
    asked_path(path, size, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    int bytes =
        snprintf(head, sizeof(head),
                 "\x93NUMPY%c%cv%c{'descr': '<f8', 'fortran_order': False, 'shape': (%d, %d), }", 1,
                 0, 0, TABLE, columns);
    assert_int_equal(fwrite(head, 1, (size_t)bytes, file), bytes);
    for (; bytes < 127; bytes++) (void)fputc(' ', file);
    (void)fputc('\n', file);
    for (int i = 0; i < TABLE; i++) {
        double x[COLUMNS];
        asked_row(i, x);
        const double target[] = {1e-2 * x[1] + x[2], 7 * x[0] - 5};
        assert_int_equal(
            fwrite(columns == COLUMNS ? x : target, sizeof(double), (size_t)columns, file),
            columns);
    }
    assert_int_equal(fclose(file), 0);
}
