/* Properties of single codecs: settings in which a codec equals a simpler one, bounds on the
 * residual, the share of an update that is sent, and the length of messages. */
#include "one_context.h"
#include "codec_pair.h"

/* --- settings in which the whole update, or its momentum alone, is sent --- */

static void test_all_is_sent(void **state)
{
    (void)state;
    static const char *const whole[] = {"none", "threshold:tau=0", "topk:ratio=1",
                                        "dgc:ratio=1,momentum=0", "onebit:warmup=9"};
    for (size_t s = 0; s < WEFT_COUNT(whole); s++)
        for (size_t d = 0; d < WEFT_COUNT(dtypes); d++) {
            line l = line_open(context, whole[s], dtypes[d], 1000, 6);
            for (int round = 0; round < 3; round++) {
                for (int64_t i = 0; i < l.count; i++)
                    weft_number_put(l.dtype, l.update, i, sin((double)(i * (round + 1))));
                line_send(&l);
                assert_memory_equal(l.got, l.update, (size_t)l.count * weft_dtype_size(l.dtype));
            }
            line_close(&l);
        }
}

/* With ratio 1, dgc sends the whole momentum; `clip` shortens an update to that norm. */
static void test_dgc_is_momentum(void **state)
{
    (void)state;
    for (size_t d = 0; d < WEFT_COUNT(dtypes); d++) {
        line l = line_open(context, "dgc:ratio=1,momentum=0.5,clip=2", dtypes[d], 64, 7);
        double momentum[64] = {0};
        for (int round = 0; round < 6; round++) {
            /* The update has norm 8, of which clip=2 leaves a quarter, or norm 1, which stays. */
            double x = round % 2 ? 0.125 : 1, scale = round % 2 ? 1 : 0.25;
            for (int64_t i = 0; i < 64; i++) weft_number_put(l.dtype, l.update, i, i % 3 ? x : -x);
            line_send(&l);
            for (int64_t i = 0; i < 64; i++) {
                momentum[i] = 0.5 * momentum[i] + scale * (i % 3 ? x : -x);
                assert_true(weft_number_get(l.dtype, l.got, i) == momentum[i]);
            }
        }
        line_close(&l);
    }
}

/* Momentum factor masking: an element that is sent loses its momentum, and the other one keeps it.
 * The expected numbers are computed by hand for two elements. */
static void test_dgc_masks(void **state)
{
    (void)state;
    line l = line_open(context, "dgc:ratio=0.5,momentum=0.5", WEFT_F64, 2, 8);
    static const double updates[3][2] = {{4, 1}, {0, 1}, {0, 0}};
    /* u is the momentum, v the sum to send. u = (4,1), v = (4,1): 4 is sent. u = (0,1.5), v =
     * (0,2.5): 2.5 is sent. Then nothing is left. */
    static const double gone[3][2] = {{4, 0}, {0, 2.5}, {0, 0}};
    for (int round = 0; round < 3; round++) {
        memcpy(l.update, updates[round], sizeof(updates[round]));
        line_send(&l);
        assert_memory_equal(l.got, gone[round], sizeof(gone[round]));
    }
    line_close(&l);
}

/* --- bounds, shares and lengths --- */

static void test_threshold_bound(void **state)
{
    (void)state;
    static const char *const some[] = {"threshold:tau=0.25", "bitmap:tau=0.25"};
    for (size_t s = 0; s < WEFT_COUNT(some); s++) {
        line l = line_open(context, some[s], WEFT_F32, 4099, 9);
        for (int round = 0; round < 20; round++) {
            draw(&l.random, l.dtype, l.update, l.count);
            line_send(&l);
            for (int64_t i = 0; i < l.count; i++) {
                assert_true(fabs(line_kept(&l, i)) <= 0.25);
                assert_true(fmod(weft_number_get(l.dtype, l.got, i), 0.25) == 0);
            }
        }
        line_close(&l);
    }
}

/* An adaptive step approaches a value at which between a ten-thousandth and a hundredth of the
 * elements are sent. */
static void test_adaptive(void **state)
{
    (void)state;
    static const char *const from[] = {"threshold:tau=100,adaptive", "threshold:tau=1e-5,adaptive",
                                       "bitmap:tau=1e-5,adaptive"};
    for (size_t s = 0; s < WEFT_COUNT(from); s++) {
        line l = line_open(context, from[s], WEFT_F32, 100000, 10);
        size_t hits = 0;
        for (int round = 0; round < 600; round++) {
            for (int64_t i = 0; i < l.count; i++)
                ((float *)l.update)[i] = (float)weft_random_between(&l.random, -1, 1);
            assert_int_equal(weft_codec_encode(l.codec, l.update, l.message, &l.bytes), WEFT_OK);
            if (round >= 400) hits += l.codec->hits.count;
        }
        double share = (double)hits / 200 / (double)l.count;
        print_message("%s: %.5f of the numbers, step %g\n", from[s], share, l.codec->step);
        assert_true(share > 0.5e-4 && share < 2e-2);
        line_close(&l);
    }
}

/* A message is at most 5 % longer than the entropy of the gaps between its nonzeros, plus two bits
 * for each nonzero: its sign, and that it is one step. */
static void test_entropy(void **state)
{
    (void)state;
    static const int one_in[] = {3, 10, 100, 1000, 20000};
    for (size_t k = 0; k < WEFT_COUNT(one_in); k++) {
        line l = line_open(context, "threshold:tau=1", WEFT_F32, 2000000, 11);
        float *u = l.update;
        double p = 1.0 / one_in[k];
        for (int64_t i = 0; i < l.count; i++)
            u[i] = weft_random_u32(&l.random) % (uint32_t)one_in[k] ? 0 : i % 2 ? 1.5F : -1.5F;
        assert_int_equal(weft_codec_encode(l.codec, l.update, l.message, &l.bytes), WEFT_OK);
        double told = (double)l.count * (-p * log2(p) - (1 - p) * log2(1 - p)) +
                      2 * (double)l.codec->hits.count;
        double bits = 8 * (double)(l.bytes - WEFT_MESSAGE_HEADER), ratio = bits / told;
        print_message("one in %d: %.2f bits a hit, %.3f of the entropy\n", one_in[k],
                      bits / (double)l.codec->hits.count, ratio);
        assert_true(ratio < 1.05);
        line_close(&l);
    }
}

/* topk sends the largest elements, and of equal ones the first; the reference sorts all elements by
 * size. */
static int by_size(const void *a, const void *b)
{
    double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
    return x < y ? 1 : x > y ? -1 : 0;
}

static void test_largest(void **state)
{
    (void)state;
    for (size_t d = 0; d < WEFT_COUNT(dtypes); d++) {
        line l = line_open(context, "topk:ratio=0.1", dtypes[d], 1000, 12);
        for (int round = 0; round < 5; round++) {
            double sorted[1000], before[1000];
            draw(&l.random, l.dtype, l.update, l.count);
            for (int64_t i = 0; i < l.count; i++)
                sorted[i] = before[i] = line_kept(&l, i) + weft_number_get(l.dtype, l.update, i);
            line_send(&l);
            qsort(sorted, 1000, sizeof(double), by_size);
            int equal = 0, want = 0;
            for (int i = 0; i < 100; i++) want += fabs(sorted[i]) == fabs(sorted[99]);
            for (int64_t i = 0; i < l.count; i++) {
                bool goes = fabs(before[i]) > fabs(sorted[99]) ||
                            (fabs(before[i]) == fabs(sorted[99]) && equal++ < want);
                assert_true(weft_number_get(l.dtype, l.got, i) == (goes ? before[i] : 0));
            }
        }
        line_close(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_sent), cmocka_unit_test(test_dgc_is_momentum),
        cmocka_unit_test(test_dgc_masks),   cmocka_unit_test(test_threshold_bound),
        cmocka_unit_test(test_adaptive),    cmocka_unit_test(test_entropy),
        cmocka_unit_test(test_largest),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
