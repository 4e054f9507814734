/* Tests whole training runs: the same bits twice, after an interruption and with micro-batches;
 * refusal of checkpoints that are damaged or of another model; and errors for losses that are not
 * finite. */
#include <math.h>
#include <sys/stat.h>

#include "trainer_runs.h"

static char *weights_of(const char *folder, size_t *size)
{
    char path[4200];
    (void)snprintf(path, sizeof(path), "%s/w.safetensors", folder);
    assert_ok(weft_checkpoint_export(context, folder, path));
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *data = malloc(1 << 25);
    *size = fread(data, 1, 1 << 25, f);
    fclose(f);
    return data;
}

static void assert_same_weights(const char *a, const char *b)
{
    size_t size_a, size_b;
    char *x = weights_of(a, &size_a), *y = weights_of(b, &size_b);
    assert_int_equal(size_a, size_b);
    assert_memory_equal(x, y, size_a);
    free(x);
    free(y);
}

/* A model with everything that has state: dropout, batch statistics and, by the options below,
 * moments, a schedule and a padded last batch. */
static const char *const net =
    "layers:\n  - {type: conv, filters: 8, kernel: 3}\n  - {type: batch_norm}\n"
    "  - {type: relu}\n  - {type: maxpool}\n  - {type: dropout, rate: 0.3}\n"
    "  - {type: dense, units: classes}\n";

static void test_same_bits_twice_and_resumed(void **state)
{
    (void)state;
    char *root = temporary_folder(), path[4200], words[4400], resumed[4500], a[4200], b[4200],
         c[4200];
    write_file(root, "net.yaml", net, strlen(net), path, sizeof(path));
    (void)snprintf(
        words, sizeof(words),
        "model=%s data=glyphs:size=12,train=70,test=30 batch=20 epochs=3 optimizer=adamw "
        "weight-decay=0.01 lr-schedule=cosine warmup=3 clip-norm=1 checkpoint-every=2 threads=2",
        path);
    (void)snprintf(a, sizeof(a), "%s/a", root);
    (void)snprintf(b, sizeof(b), "%s/b", root);
    (void)snprintf(c, sizeof(c), "%s/c", root);
    log_of_run first, second, part;
    assert_ok(train(words, a, 0, &first));
    assert_ok(train(words, b, 0, &second));
    assert_int_equal(first.steps, 12);
    assert_int_equal(first.evaluations, 3);
    assert_memory_equal(first.loss, second.loss, 12 * sizeof(double));
    assert_same_weights(a, b);
    /* Stops the run twice in the middle of an epoch, and resumes it. */
    (void)snprintf(resumed, sizeof(resumed), "%s resume=true", words);
    assert_refused(train(words, c, 3, &part), WEFT_ERR_INTERRUPTED, "stopped after step 3");
    assert_refused(train(words, c, 0, &part), WEFT_ERR_ARGUMENT, "add --resume");
    assert_refused(train(resumed, c, 3, &part), WEFT_ERR_INTERRUPTED, "stopped after step 6");
    assert_memory_equal(part.loss, first.loss + 3, 3 * sizeof(double));
    assert_ok(train(resumed, c, 0, &part));
    assert_memory_equal(part.loss, first.loss + 6, 6 * sizeof(double));
    assert_same_weights(a, c);
    remove_folder(root);
}

/* A batch in 4 micro-batches equals the batch, dropout included, up to the order of sums. */
static void test_accumulation_is_the_batch(void **state)
{
    (void)state;
    const char *words =
        "model=mlp data=glyphs:size=12,train=70,test=10 batch=20 steps=6 optimizer=sgd lr=0.1";
    char cut[512];
    log_of_run whole, parts;
    assert_ok(train(words, NULL, 0, &whole));
    (void)snprintf(cut, sizeof(cut), "%s microbatches=4", words);
    assert_ok(train(cut, NULL, 0, &parts));
    for (int i = 0; i < 6; i++) assert_true(fabs(whole.loss[i] - parts.loss[i]) < 1e-5);
    assert_true(fabs(whole.test_loss - parts.test_loss) < 1e-5);
    (void)snprintf(cut, sizeof(cut), "%s microbatches=3", words);
    assert_refused(train(cut, NULL, 0, &parts), WEFT_ERR_ARGUMENT, "cannot be cut into 3");
}

/* The mean loss over the test part does not depend on the batch size of the evaluation. */
static void test_every_sample_counts_once(void **state)
{
    (void)state;
    char *folder = temporary_folder();
    log_of_run l;
    weft_eval_options e = {0};
    double loss[3];
    assert_ok(train("model=mlp data=glyphs:size=12,train=64,test=37 batch=16", folder, 0, &l));
    for (int i = 0; i < 3; i++) {
        static const char *const batches[] = {"37", "10", "36"};
        weft_report r;
        assert_ok(weft_options_init(weft_eval_table(), &e));
        assert_ok(weft_options_set(weft_eval_table(), &e, "checkpoint", folder));
        assert_ok(weft_options_set(weft_eval_table(), &e, "batch", batches[i]));
        assert_ok(weft_evaluate(context, &e, &r));
        assert_int_equal(r.samples, 37);
        loss[i] = r.loss;
        weft_report_free(&r);
        weft_options_free(weft_eval_table(), &e);
    }
    assert_true(fabs(loss[0] - loss[1]) < 1e-6 && fabs(loss[0] - loss[2]) < 1e-6);
    assert_true(fabs(loss[0] - l.test_loss) < 1e-6);
    remove_folder(folder);
}

static void flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    (void)fputc(c ^ 1, f);
    fclose(f);
}

static void test_damaged_checkpoints(void **state)
{
    (void)state;
    char *folder = temporary_folder(), path[4200], *text;
    const char *words =
        "model=mlp data=glyphs:size=12,train=40,test=10 batch=10 checkpoint-every=2";
    char resumed[512];
    log_of_run l;
    assert_ok(train(words, folder, 0, &l));
    assert_ok(weft_checkpoint_text(context, folder, &text));
    assert_non_null(strstr(text, "fc1/weight"));
    weft_free(text);
    (void)snprintf(path, sizeof(path), "%s/step-4/parameters.safetensors", folder);
    flip(path, 5000);
    assert_refused(weft_checkpoint_text(context, folder, &text), WEFT_ERR_FORMAT,
                   "checksum does not fit");
    assert_refused(weft_checkpoint_text(context, folder, &text), WEFT_ERR_FORMAT, "step-2");
    (void)snprintf(resumed, sizeof(resumed), "%s resume=true", words);
    assert_refused(train(resumed, folder, 0, &l), WEFT_ERR_FORMAT, "damaged checkpoint");
    flip(path, 5000);
    assert_ok(weft_checkpoint_text(context, folder, &text));
    weft_free(text);
    assert_int_equal(truncate(path, 1000), 0);
    assert_refused(weft_checkpoint_text(context, folder, &text), WEFT_ERR_FORMAT,
                   "size has changed");
    (void)snprintf(path, sizeof(path), "%s/step-4/index.json", folder);
    assert_int_equal(truncate(path, 100), 0);
    assert_refused(weft_checkpoint_text(context, folder, &text), WEFT_ERR_FORMAT, "index.json");
    assert_int_equal(truncate(path, 0), 0);
    assert_refused(weft_checkpoint_text(context, folder, &text), WEFT_ERR_FORMAT,
                   "index.json: damaged checkpoint: it is empty");
    (void)snprintf(path, sizeof(path), "rm -rf %s/step-4", folder);
    assert_int_equal(system(path), 0);
    assert_ok(train(resumed, folder, 0, &l)); /* from step 2, since `latest` is dangling */
    assert_int_equal(l.steps, 2);
    remove_folder(folder);
}

static void test_checkpoint_of_another_model(void **state)
{
    (void)state;
    char *folder = temporary_folder();
    log_of_run l;
    const char *data = "data=glyphs:size=16,train=40,test=10 batch=10 resume=true";
    char words[512];
    (void)snprintf(words, sizeof(words), "model=mlp %s", data);
    assert_ok(train(words, folder, 0, &l));
    (void)snprintf(words, sizeof(words), "model=lenet %s epochs=2", data);
    assert_refused(train(words, folder, 0, &l), WEFT_ERR_ARGUMENT, "--model mlp");
    (void)snprintf(words, sizeof(words), "model=mlp %s epochs=2 optimizer=sgd momentum=0.5", data);
    assert_refused(train(words, folder, 0, &l), WEFT_ERR_ARGUMENT, "--optimizer adam");
    (void)snprintf(words, sizeof(words), "model=mlp %s epochs=2 seed=2", data);
    assert_refused(train(words, folder, 0, &l), WEFT_ERR_ARGUMENT, "--seed 1");
    remove_folder(folder);
}

static void test_only_the_newest_are_kept(void **state)
{
    (void)state;
    char *folder = temporary_folder(), path[4200];
    log_of_run l;
    assert_ok(train("model=mlp data=glyphs:size=12,train=40,test=10 batch=10 epochs=2 "
                    "checkpoint-every=1 keep=2",
                    folder, 0, &l));
    for (int step = 1; step <= 8; step++) {
        struct stat info;
        (void)snprintf(path, sizeof(path), "%s/step-%d", folder, step);
        assert_int_equal(stat(path, &info) == 0, step > 6);
    }
    remove_folder(folder);
}

static void test_loss_that_is_no_number(void **state)
{
    (void)state;
    static const char *const ways[] = {"threads=2",
                                       "microbatches=5",
                                       "ranks=2",
                                       "ranks=2 zero=3",
                                       "ranks=2 virtual-workers=10",
                                       "ranks=2 mesh=tensor=2",
                                       "ranks=2 mesh=pipeline=2 microbatches=5",
                                       "ranks=3 mesh=pipeline=3 microbatches=5 schedule=gpipe"};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        log_of_run l;
        char words[300];
        (void)snprintf(words, sizeof(words),
                       "model=mlp data=glyphs:size=12,train=200,test=10 batch=10 optimizer=sgd "
                       "lr=100000 timeout=10 %s",
                       ways[i]);
        assert_refused(train(words, NULL, 0, &l), WEFT_ERR_NUMERIC, "step ");
        const char *said = weft_last_message();
        if ((!strstr(said, "the first to make") && !strstr(said, "earlier step made it so")) ||
            strstr(said, "gradient_sum"))
            fail_msg("%s: %s", ways[i], said);
    }
}

/* A relu may turn NaN weights into zeros, so that the loss stays finite, and no loss follows the
 * last update. In both cases the run must fail without an evaluation or a checkpoint. */
static void test_weights_that_are_no_numbers(void **state)
{
    (void)state;
    static const char *const ways[] = {"model=lenet lr=1000000 steps=6 device=cpu",
                                       "model=lenet lr=1000000 steps=6 ranks=2",
                                       "model=lenet lr=1000000 steps=6 recompute=true",
                                       "model=lenet lr=1000000 steps=6 ranks=2 exchange=oneshot",
                                       ("model=lenet lr=1000000 steps=4 ranks=2 timeout=60 "
                                        "exchange=gossip:mode=average"),
                                       "model=lenet lr=1000000 steps=6 ranks=2 zero=3"};
    char *root = temporary_folder(), folder[4200], latest[4300];
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        log_of_run l;
        char words[300];
        (void)snprintf(words, sizeof(words),
                       "data=glyphs:size=28,train=200,test=10 batch=20 optimizer=sgd threads=1 %s",
                       ways[i]);
        (void)snprintf(folder, sizeof(folder), "%s/%zu", root, i);
        (void)snprintf(latest, sizeof(latest), "%s/latest", folder);
        assert_refused(train(words, folder, 0, &l), WEFT_ERR_NUMERIC, "not finite");
        assert_int_equal(l.evaluations, 0);
        assert_int_not_equal(access(latest, F_OK), 0);
    }
    remove_folder(root);
}

/* A feature is so large that the first layer overflows. The error must name that layer and its
 * rank, in every way to run and for every micro-batch. */
static void test_who_made_it(void **state)
{
    (void)state;
    static const char *const model = "layers:\n  - {type: dense, units: 8}\n  - {type: relu}\n"
                                     "  - {type: dense, units: 6}\n  - {type: relu}\n"
                                     "  - {type: dense, units: classes}\n";
    enum { SAMPLES = 20 };
    char *root = temporary_folder(), yaml[4200], csv[4200], text[SAMPLES * 40] = "", words[9000];
    write_file(root, "net.yaml", model, strlen(model), yaml, sizeof(yaml));
    for (int i = 0; i < SAMPLES; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d.5,%s,%d\n", i % 7,
                       i % 4 == 1 ? "3e38" : "0.25", i % 3);
    write_file(root, "data.csv", text, strlen(text), csv, sizeof(csv));
    static const char *const ways[] = {"threads=1", "microbatches=4", "ranks=2",
                                       "ranks=3 mesh=pipeline=3 microbatches=4",
                                       "ranks=3 mesh=pipeline=3 microbatches=4 schedule=gpipe"};
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        log_of_run l;
        (void)snprintf(words, sizeof(words),
                       "model=%s data=csv:%s,test=0.2 normalize=none batch=16 "
                       "epochs=4 optimizer=sgd lr=1 seed=4 timeout=10 %s",
                       yaml, csv, ways[i]);
        assert_refused(train(words, NULL, 0, &l), WEFT_ERR_NUMERIC, "the first to make");
        if (!strstr(weft_last_message(), "dense1"))
            fail_msg("%s: %s", ways[i], weft_last_message());
    }
    remove_folder(root);
}

static void test_learns_on_every_device_and_precision(void **state)
{
    (void)state;
    static const char *const how[] = {
        "device=cpu",           "device=reference", "device=reference dtype=f64",
        "device=cpu dtype=f64", "device=distant",   "device=distant:lacks=dense_dw+adam"};
    for (size_t i = 0; i < sizeof(how) / sizeof(how[0]); i++) {
        char words[512];
        log_of_run l;
        (void)snprintf(
            words, sizeof(words),
            "model=mlp data=glyphs:size=10,train=60,test=10 batch=20 epochs=8 lr=0.01 %s", how[i]);
        assert_ok(train(words, NULL, 0, &l));
        assert_true(l.loss[l.steps - 1] < 0.8 * l.loss[0]);
    }
}

/* Options with a struct_size of another library version, or with 0, are refused. */
static void test_sizes_of_options(void **state)
{
    (void)state;
    weft_trainer *trainer;
    weft_train_options o = {0};
    char *text;
    assert_refused(weft_trainer_create(context, &o, &trainer), WEFT_ERR_ARGUMENT,
                   "weft_train_options has 0 bytes, this library's");
    assert_ok(weft_train_options_init(context, &o));
    size_t *const sizes[] = {&o.task.struct_size,     &o.length.struct_size, &o.update.struct_size,
                             &o.where.struct_size,    &o.job.struct_size,    &o.output.struct_size,
                             &o.parallel.struct_size, &o.show.struct_size};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        *sizes[i] += 8;
        assert_refused(weft_trainer_create(context, &o, &trainer), WEFT_ERR_ARGUMENT,
                       "bytes, this library's");
        assert_refused(weft_train_plan_text(context, &o, -1, &text), WEFT_ERR_ARGUMENT,
                       "bytes, this library's");
        *sizes[i] -= 8;
    }
    weft_options_free(weft_train_table(context), &o);
}

/* The option --threads is valid for its run only; the number of threads of the context stays. */
static void test_the_context_stays(void **state)
{
    (void)state;
    log_of_run l;
    weft_eval_options e = {0};
    weft_train_options o = {0};
    weft_trainer *two;
    weft_report r = {0};
    char *folder = temporary_folder(), latest[1200], *text;
    int before = weft_context_threads(context);
    assert_ok(weft_context_set_threads(context, 5));
    assert_ok(
        train("model=mlp data=glyphs:train=40,test=20 steps=2 batch=20 threads=2", folder, 0, &l));
    assert_int_equal(weft_context_threads(context), 5);
    assert_refused(train("model=mlp data=glyphs:train=40 batch=50 threads=3", NULL, 0, &l),
                   WEFT_ERR_ARGUMENT, "has only 40");
    assert_int_equal(weft_context_threads(context), 5);
    (void)snprintf(latest, sizeof(latest), "%s/latest", folder);
    assert_ok(weft_options_init(weft_eval_table(), &e));
    assert_ok(weft_options_set(weft_eval_table(), &e, "checkpoint", latest));
    assert_ok(weft_options_set(weft_eval_table(), &e, "threads", "1"));
    assert_ok(weft_evaluate(context, &e, &r));
    assert_int_equal(weft_context_threads(context), 5);
    weft_report_free(&r);
    weft_options_free(weft_eval_table(), &e);
    assert_ok(weft_train_options_init(context, &o));
    assert_ok(weft_options_set(weft_train_table(context), &o, "threads", "2"));
    assert_ok(weft_options_set(weft_train_table(context), &o, "data", "glyphs:train=200,test=20"));
    assert_ok(weft_train_plan_text(context, &o, -1, &text));
    weft_free(text);
    assert_ok(weft_trainer_create(context, &o, &two));
    assert_int_equal(weft_context_threads(context), 5);
    weft_trainer_destroy(&two);
    weft_options_free(weft_train_table(context), &o);
    assert_ok(weft_context_set_threads(context, before));
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_of_options),
        cmocka_unit_test(test_the_context_stays),
        cmocka_unit_test(test_same_bits_twice_and_resumed),
        cmocka_unit_test(test_accumulation_is_the_batch),
        cmocka_unit_test(test_every_sample_counts_once),
        cmocka_unit_test(test_damaged_checkpoints),
        cmocka_unit_test(test_checkpoint_of_another_model),
        cmocka_unit_test(test_only_the_newest_are_kept),
        cmocka_unit_test(test_loss_that_is_no_number),
        cmocka_unit_test(test_weights_that_are_no_numbers),
        cmocka_unit_test(test_who_made_it),
        cmocka_unit_test(test_learns_on_every_device_and_precision),
    };
    return cmocka_run_group_tests_name("train", tests, setup, teardown);
}
