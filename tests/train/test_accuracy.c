/* The accuracy that the README promises, on MNIST digits and on the built-in data set glyphs. */
#include "support.h"

typedef struct result {
    double accuracy, f1;
} result;

static void on_event(void *user, const weft_event *e)
{
    result *r = user;
    if (e->kind != WEFT_EVENT_EVAL) return;
    r->accuracy = e->report->accuracy;
    r->f1 = e->report->f1_macro;
}

static result train(const char *model, const char *data, const char *epochs)
{
    weft_context *context;
    weft_trainer *t;
    weft_train_options o = {0};
    result r = {0, 0};
    assert_ok(weft_context_create(&context));
    assert_ok(weft_train_options_init(context, &o));
    assert_ok(weft_options_set(weft_train_table(context), &o, "model", model));
    assert_ok(weft_options_set(weft_train_table(context), &o, "data", data));
    assert_ok(weft_options_set(weft_train_table(context), &o, "epochs", epochs));
    assert_ok(weft_trainer_create(context, &o, &t));
    assert_ok(weft_trainer_run(t, on_event, &r));
    weft_trainer_destroy(&t);
    weft_options_free(weft_train_table(context), &o);
    weft_context_destroy(&context);
    print_message("%s on %s, %s epochs: accuracy %.4f, macro F1 %.4f\n", model, data, epochs,
                  r.accuracy, r.f1);
    return r;
}

static void test_mnist(void **state)
{
    (void)state;
    char spec[4200];
    const char *folder = shared_data("mnist15k");
    if (!folder) skip();
    (void)snprintf(spec, sizeof(spec), "idx:%s", folder);
    result r = train("lenet", spec, "5");
    assert_true(r.accuracy >= 0.965 && r.f1 >= 0.965);
}

static void test_glyphs(void **state)
{
    (void)state;
    result cnn = train("lenet", "glyphs", "1"), mlp = train("mlp", "glyphs", "1");
    assert_true(cnn.accuracy >= 0.97);
    assert_true(mlp.accuracy < cnn.accuracy - 0.03);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mnist), cmocka_unit_test(test_glyphs)};
    return cmocka_run_group_tests_name("accuracy", tests, NULL, NULL);
}
