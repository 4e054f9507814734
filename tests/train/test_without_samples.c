/* A learner without samples in a step changes nothing: no optimizer makes a step, in which momentum
 * and weight decay would act, and no other learner gets an update. So a run in which one of two
 * learners never has samples is that of the other one alone. */
#include "simulations.h"

static const char ONE[] = "model=mlp seed=4 threads=1 dtype=f64 device=reference steps=8 batch=1 "
                          "data=glyphs:size=9,train=1,test=8 ";

/* With servers and one sample, asynchronous training with two learners is serial. A batch of
 * samples without weight is a step, as in serial training. */
static void test_servers(void **state)
{
    (void)state;
    enum { WEIGHTED = 12 };
    static const char *const policies[] = {"async", "softsync,c=1", "ssp,bound=3"};
    char *root = temporary_folder(), table[4300], text[WEIGHTED * 20] = "x,w,t\n", words[9000];
    for (int i = 0; i < WEIGHTED; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d,%d,%d\n", i * 5 % 7,
                       i % 2, i % 4);
    write_file(root, "t.csv", text, strlen(text), table, sizeof(table));
    char one[400];
    (void)snprintf(words, sizeof(words),
                   "model=mlp seed=4 threads=1 dtype=f64 device=reference epochs=2 batch=1 "
                   "optimizer=sgd momentum=0.9 lr=0.01 data=csv:%s,target=t,weight=w,test=0.5",
                   table);
    (void)snprintf(one, sizeof(one), "%soptimizer=adamw lr=0.01 weight-decay=0.1", ONE);
    run(one, "", made(root, "serial"), 0);
    run(words, "", made(root, "weighted"), 0);
    for (size_t p = 0; p < sizeof(policies) / sizeof(policies[0]); p++) {
        told t;
        char name[40], way[200];
        (void)snprintf(way, sizeof(way), "exchange=server:policy=%s servers=2", policies[p]);
        (void)snprintf(name, sizeof(name), "w%zu", p);
        const char *to = made(root, name);
        assert_ok(simulate(words, way, to, &t));
        assert_same(made(root, "weighted"), to, "parameters", 0, way);
        (void)snprintf(way + strlen(way), sizeof(way) - strlen(way), " ranks=2");
        for (int real = 0; real < 2; real++) {
            (void)snprintf(name, sizeof(name), "o%zu-%d", p, real);
            to = made(root, name);
            if (real)
                run(one, way, to, 0);
            else
                assert_ok(simulate(one, way, to, &t));
            assert_same(made(root, "serial"), to, "parameters", 0, way);
        }
    }
    remove_folder(root);
}

/* With easgd a single learner can be simulated, too: the centre has the same bits beside a learner
 * without samples. */
static void test_centre(void **state)
{
    (void)state;
    static const char *const optimizers[] = {
        "optimizer=adamw lr=0.01 weight-decay=0.1 warmup=5",
        "optimizer=sgd lr=0.05 momentum=0.9 weight-decay=0.1 clip-norm=0.5"};
    static const char *const ways[] = {
        "exchange=easgd:alpha=0.4 servers=2",
        "exchange=easgd:alpha=0.4,every=3 compress=topk:ratio=0.1 servers=2"};
    char *root = temporary_folder(), name[40], words[400], more[200];
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
        for (int o = 0; o < 2; o++)
            for (int with = 0; with < 3; with++) {
                told t;
                (void)snprintf(words, sizeof(words), "%s%s", ONE, optimizers[o]);
                (void)snprintf(more, sizeof(more), "%s%s", ways[w], with ? " ranks=2" : "");
                (void)snprintf(name, sizeof(name), "own-%zu-%d-%d", w, o, with);
                const char *to = made(root, name);
                if (with == 2)
                    run(words, more, to, 0);
                else
                    assert_ok(simulate(words, more, to, &t));
                (void)snprintf(name, sizeof(name), "own-%zu-%d-0", w, o);
                assert_same(made(root, name), to, "parameters", 0, more);
            }
    remove_folder(root);
}

/* The additions of the other learner, in shared memory or by the updates of gossip, differ from
 * serial training by their rounding. A mean of both learners takes half of each step. */
static void test_against_serial(void **state)
{
    (void)state;
    static const struct {
        const char *serial, *way;
    } cases[] = {{"optimizer=sgd lr=0.05 momentum=0.9 weight-decay=0.1",
                  "exchange=hogwild optimizer=sgd lr=0.05 momentum=0.9 weight-decay=0.1"},
                 {"optimizer=adamw lr=0.01 weight-decay=0.1",
                  "exchange=hogwild optimizer=adamw lr=0.01 weight-decay=0.1"},
                 {"optimizer=adamw lr=0.01 weight-decay=0.1",
                  "exchange=gossip optimizer=adamw lr=0.01 weight-decay=0.1"},
                 {"optimizer=sgd lr=0.025 weight-decay=0.1",
                  "exchange=average optimizer=sgd lr=0.05 weight-decay=0.1"}};
    char *root = temporary_folder(), name[40], more[200];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(name, sizeof(name), "serial-%zu", i);
        const char *a = made(root, name);
        run(ONE, cases[i].serial, a, 0);
        (void)snprintf(name, sizeof(name), "with-%zu", i);
        const char *b = made(root, name);
        (void)snprintf(more, sizeof(more), "ranks=2 %s", cases[i].way);
        run(ONE, more, b, 0);
        assert_same(a, b, "parameters", 1e-9, more);
    }
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_servers),
                                       cmocka_unit_test(test_centre),
                                       cmocka_unit_test(test_against_serial)};
    return cmocka_run_group_tests_name("without samples", tests, begin, end);
}
