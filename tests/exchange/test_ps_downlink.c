/* Tests the compressed downlink: a learner that applies a server's differences has exactly the bits
 * of the server's reference, whenever it begins and however rarely it asks, and the reference stays
 * close to the parameters. */
#include <math.h>

#include "base/registry.h"
#include "exchange/ps/range/downlink.h"
#include "one_context.h"

enum { MOST = 4000, FOLLOWERS = 4 };

/* A server's range with its downlink, and the learners that follow it: the server's parameters
 * (now), each learner's parameters (known) and version (at; -1: none), and the bytes sent. */
typedef struct world {
    weft_dtype dtype;
    int64_t count, version;
    size_t size;
    weft_downlink *p;
    const weft_codec_ops *ops;
    _Alignas(8) char now[MOST * 8];
    _Alignas(8) char known[FOLLOWERS][MOST * 8];
    int64_t at[FOLLOWERS];
    size_t sent;
} world;

static world *begin_with(const char *spec, weft_dtype dtype, int64_t count)
{
    world *w = calloc(1, sizeof(*w));
    weft_codec *codec;
    assert_non_null(w);
    w->dtype = dtype;
    w->count = count;
    w->size = weft_dtype_size(dtype);
    for (int64_t i = 0; i < count; i++) weft_number_put(dtype, w->now, i, sin(0.7 * (double)i));
    assert_int_equal(weft_codec_open_back(context, spec, dtype, count, &codec), WEFT_OK);
    w->ops = codec->ops;
    assert_int_equal(weft_downlink_open(codec, &w->p), WEFT_OK);
    memcpy(weft_downlink_reference(w->p), w->now, (size_t)count * w->size);
    for (int k = 0; k < FOLLOWERS; k++) w->at[k] = -1;
    return w;
}

static void finish(world *w)
{
    weft_downlink_close(&w->p);
    free(w);
}

static void change(world *w, weft_random *random, double size)
{
    for (int64_t i = 0; i < w->count; i++) {
        double x = weft_random_between(random, -1, 1);
        weft_number_put(w->dtype, w->now, i,
                        weft_number_get(w->dtype, w->now, i) + size * x * x * x * x * x);
    }
    w->version++;
}

static void follow(world *w, int k)
{
    weft_buffer *blob;
    bool changes;
    assert_int_equal(weft_downlink_update(w->p, w->now, w->version), WEFT_OK);
    if (w->at[k] == w->version) return;
    assert_int_equal(weft_downlink_delta_since(w->p, w->at[k], &blob, &changes), WEFT_OK);
    w->sent += blob->bytes;
    assert_true(blob->bytes <= (size_t)w->count * w->size);
    if (changes)
        assert_int_equal(weft_downlink_apply(blob, w->ops, w->dtype, w->count, w->known[k]),
                         WEFT_OK);
    else
        memcpy(w->known[k], blob->data, (size_t)w->count * w->size);
    weft_buffer_unref(&blob);
    w->at[k] = w->version;
    assert_memory_equal(w->known[k], weft_downlink_reference(w->p), (size_t)w->count * w->size);
}

static double distance(const world *w)
{
    double most = 0;
    for (int64_t i = 0; i < w->count; i++)
        most = fmax(most, fabs(weft_number_get(w->dtype, w->now, i) -
                               weft_number_get(w->dtype, weft_downlink_reference(w->p), i)));
    return most;
}

static const int64_t counts[] = {1, 17, 1000, MOST - 1};

/* Checks every codec with learners that pull each version, every seventh, at random, or late. */
static void test_followers(void **state)
{
    (void)state;
    const weft_entry *e;
    for (int c = 0; (e = weft_context_entry(context, WEFT_KIND_CODEC, c)); c++)
        for (size_t n = 0; n < WEFT_COUNT(counts); n++)
            for (int d = 0; d < 2; d++) {
                world *w = begin_with(e->name, d ? WEFT_F64 : WEFT_F32, counts[n]);
                weft_random random;
                weft_random_start(&random, 5, (uint64_t)n);
                for (int round = 1; round <= 60; round++) {
                    change(w, &random, 0.01);
                    follow(w, 0);
                    if (round % 7 == 0) follow(w, 1);
                    if (weft_random_u32(&random) % 3 == 0) follow(w, 2);
                    if (round > 40) follow(w, 3);
                }
                finish(w);
            }
}

/* The errors of compression do not accumulate: what a message omits is part of the next difference.
 * When the parameters no longer change, the reference reaches them. */
static void test_drift(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        double most;
    } cases[] = {{"threshold:tau=0.005", 0.005}, {"bitmap:tau=0.005", 0.005}, {"bf16", 1e-4}};
    for (size_t c = 0; c < WEFT_COUNT(cases); c++) {
        world *w = begin_with(cases[c].spec, WEFT_F32, 1000);
        weft_random random;
        weft_random_start(&random, 6, c);
        for (int round = 0; round < 300; round++) {
            change(w, &random, 0.01);
            follow(w, 0);
            assert_true(distance(w) <= cases[c].most * 1.001);
        }
        finish(w);
    }
    world *w = begin_with("topk:ratio=0.05", WEFT_F32, 1000);
    weft_random random;
    weft_random_start(&random, 7, 7);
    for (int round = 0; round < 50; round++) {
        change(w, &random, 0.01);
        follow(w, 0);
    }
    for (int round = 0; round < 40; round++) {
        w->version++;
        follow(w, 0);
    }
    assert_true(distance(w) < 1e-6);
    assert_true(w->sent < 90 * 1000 * 4 / 5);
    finish(w);
}

/* With codecs that send nearly all elements, learners have the parameters up to one rounding. */
static void test_all_is_all(void **state)
{
    (void)state;
    static const char *const specs[] = {"none", "topk:ratio=1", "threshold:tau=0",
                                        "threshold:tau=1e-12", "dgc:ratio=1"};
    for (size_t c = 0; c < WEFT_COUNT(specs); c++) {
        world *w = begin_with(specs[c], WEFT_F32, 777);
        weft_random random;
        weft_random_start(&random, 8, c);
        for (int round = 0; round < 20; round++) {
            change(w, &random, 0.01);
            follow(w, 0);
            assert_true(distance(w) < 1.2e-7);
        }
        finish(w);
    }
}

static void test_damaged(void **state)
{
    (void)state;
    world *w = begin_with("topk:ratio=0.1", WEFT_F32, 500);
    weft_random random;
    weft_random_start(&random, 9, 9);
    follow(w, 0);
    change(w, &random, 0.1);
    assert_int_equal(weft_downlink_update(w->p, w->now, w->version), WEFT_OK);
    weft_buffer *blob, *part;
    bool changes;
    assert_int_equal(weft_downlink_delta_since(w->p, 0, &blob, &changes), WEFT_OK);
    assert_true(changes);
    assert_int_equal(weft_buffer_new(blob->bytes, &part), WEFT_OK);
    for (size_t bytes = 1; bytes + 8 < blob->bytes; bytes++) {
        memcpy(part->data, blob->data, bytes);
        part->bytes = bytes;
        assert_int_equal(weft_downlink_apply(part, w->ops, w->dtype, 500, w->known[0]),
                         WEFT_ERR_FORMAT);
    }
    weft_buffer_unref(&part);
    weft_buffer_unref(&blob);
    finish(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_followers),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_all_is_all),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
