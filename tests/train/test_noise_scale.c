/* Tests the noise scale of gradients: it is the same however a step is shared out, to the bit with
 * virtual workers, and leaves the training as it is. noise_formula.py compares it with a formula.
 */
#include <math.h>

#include "trainer_runs.h"

enum { MOST = 64 };
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

#define RUN "model=mlp data=glyphs:size=9,train=96,test=8 seed=4 threads=1 batch=16 steps=12 "
#define EXACT RUN "dtype=f64 device=reference "

typedef struct scales {
    double scale[MOST], loss[MOST], lr[MOST];
    int steps;
} scales;

static void take(void *user, const weft_event *e)
{
    scales *s = user;
    if (e->kind != WEFT_EVENT_STEP || s->steps == MOST) return;
    s->scale[s->steps] = e->noise_scale;
    s->loss[s->steps] = e->loss;
    s->lr[s->steps++] = e->lr;
}

static weft_status run(const char *words, const char *more, scales *out)
{
    weft_train_options o = {0};
    weft_trainer *t = NULL;
    const weft_option *table = weft_train_table(context);
    char copy[600], *save = NULL;
    memset(out, 0, sizeof(*out));
    assert_ok(weft_train_options_init(context, &o));
    assert_true(snprintf(copy, sizeof(copy), "%s %s", words, more) < (int)sizeof(copy));
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(w, '=');
        *equals = '\0';
        assert_ok(weft_options_set(table, &o, w, equals + 1));
    }
    weft_status status = weft_trainer_create(context, &o, &t);
    if (status == WEFT_OK) status = weft_trainer_run(t, take, out);
    weft_trainer_destroy(&t);
    weft_options_free(table, &o);
    return status;
}

static void must(const char *words, const char *more, scales *out)
{
    if (run(words, more, out) != WEFT_OK) fail_msg("%s%s: %s", words, more, weft_last_message());
}

static void test_any_number_of_ranks(void **state)
{
    (void)state;
    static const char *const types[] = {RUN, EXACT};
    static const char *const ways[] = {"ranks=1", "ranks=2", "ranks=4", "ranks=2 zero=1"};
    for (size_t k = 0; k < COUNT(types); k++) {
        scales one, other;
        int known = 0;
        char words[400];
        (void)snprintf(words, sizeof(words), "%s virtual-workers=4 noise-scale=1 clip-norm=0.5 ",
                       types[k]);
        must(words, ways[0], &one);
        assert_int_equal(one.steps, 12);
        for (int i = 0; i < 12; i++) known += one.scale[i] > 0;
        assert_true(known >= 2);
        for (size_t w = 1; w < COUNT(ways); w++) {
            must(words, ways[w], &other);
            for (int i = 0; i < 12; i++) {
                if (one.scale[i] != other.scale[i])
                    fail_msg("%s%s, step %d: %.17g, and %.17g on one rank", words, ways[w], i + 1,
                             other.scale[i], one.scale[i]);
                assert_true(fabs(one.loss[i] - other.loss[i]) <= 1e-5 * one.loss[i]);
            }
        }
    }
}

/* Other ranks and ways compute equal parts of a batch. */
static void test_ways(void **state)
{
    (void)state;
    static const char *const ways[] = {"ranks=4",
                                       "ranks=2 microbatches=2",
                                       "ranks=4 zero=1",
                                       "ranks=4 zero=2",
                                       "ranks=2 zero=2 microbatches=2",
                                       "ranks=4 zero=3",
                                       "ranks=2 zero=3 microbatches=2",
                                       "ranks=2 mesh=tensor=2 microbatches=4",
                                       "ranks=4 mesh=data=2,tensor=2 microbatches=2",
                                       "ranks=2 mesh=pipeline=2 microbatches=4",
                                       "recompute=true microbatches=4"};
    scales one, other;
    must(EXACT "noise-scale=2 ", "microbatches=4", &one);
    for (size_t w = 0; w < COUNT(ways); w++) {
        must(EXACT "noise-scale=2 ", ways[w], &other);
        for (int i = 0; i < 12; i++) {
            bool near = fabs(one.scale[i] - other.scale[i]) <= 1e-6 * one.scale[i];
            if (!near)
                fail_msg("%s, step %d: %.17g, not %.17g", ways[w], i + 1, other.scale[i],
                         one.scale[i]);
        }
    }
}

/* In bf16 the lengths are those of the gradients that the update reads. */
static void test_narrow(void **state)
{
    (void)state;
    scales wide, narrow;
    must(RUN "noise-scale=1 ", "microbatches=4", &wide);
    must(RUN "noise-scale=1 ", "microbatches=4 dtype=bf16", &narrow);
    for (int i = 0; i < 12; i++)
        assert_true((wide.scale[i] > 0) == (narrow.scale[i] > 0) &&
                    fabs(wide.scale[i] - narrow.scale[i]) <= 0.2 * wide.scale[i]);
}

/* A run that measures trains as one that does not. */
static void test_trains_alike(void **state)
{
    (void)state;
    static const char *const ways[] = {"microbatches=4 lr-schedule=cosine", "ranks=2 zero=2",
                                       "batch=8 ranks=4 exchange=average:every=2 mesh=data=2",
                                       "ranks=2 device=distant"};
    for (size_t w = 0; w < COUNT(ways); w++) {
        scales one, other;
        char words[400];
        (void)snprintf(words, sizeof(words), "%s noise-scale=3", ways[w]);
        must(EXACT, ways[w], &one);
        must(EXACT, words, &other);
        for (int i = 0; i < 12; i++) {
            assert_true(one.scale[i] == 0);
            assert_true(fabs(one.loss[i] - other.loss[i]) <= 1e-9 * one.loss[i]);
            assert_true(one.lr[i] == other.lr[i]);
        }
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *words, *says;
    } all[] = {
        {"", "give --microbatches 2, or several ranks"},
        {"ranks=3 batch=16", "batch 16 has no 3; give a multiple of 3"},
        {"ranks=2 exchange=server", "those of exchange server do not"},
        {"ranks=4 mesh=data=2 exchange=gossip", "those of exchange gossip do not"},
        {"ranks=2 shares=3,1", "leave --shares out"},
    };
    scales s;
    for (size_t i = 0; i < COUNT(all); i++)
        assert_refused(run(RUN "noise-scale=2", all[i].words, &s), WEFT_ERR_ARGUMENT, all[i].says);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_number_of_ranks),
                                       cmocka_unit_test(test_ways), cmocka_unit_test(test_narrow),
                                       cmocka_unit_test(test_trains_alike),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
