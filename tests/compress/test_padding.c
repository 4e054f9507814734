/* Tests codecs on ranges with padding (elements of a padded layout that hold no parameter): a codec
 * treats the real elements as if the padding were not there. */
#include <stdio.h>

#include "compress/compress.h"
#include "one_context.h"
#include "support.h"
#include "weft/registry.h"

enum { REAL = 600, MOST = 4 * REAL, MESSAGES = 12 };

/* Computes where the real elements lie: padding before every seventh of them, and at the end.
 * Declares the padding to `codec`, unless that is NULL. */
static int64_t spread(weft_codec *codec, int64_t place[REAL])
{
    int64_t at = 0;
    for (int i = 0; i < REAL; i++) {
        if (i % 7 == 0) {
            int64_t gap = 1 + i % 11;
            if (codec) assert_ok(weft_codec_skip(codec, at, gap));
            at += gap;
        }
        place[i] = at++;
    }
    if (codec) assert_ok(weft_codec_skip(codec, at, 9));
    return at + 9;
}

/* Draws numbers with few digits, so that their sums are exact in any order. The padding holds large
 * numbers, which the codec must ignore. */
static void draw(weft_random *random, const int64_t *place, int64_t count, double *plain,
                 double *gapped)
{
    for (int64_t i = 0; i < count; i++) gapped[i] = 1000;
    for (int i = 0; i < REAL; i++)
        gapped[place[i]] = plain[i] =
            (double)((int64_t)(weft_random_unit(random) * 4096) - 2048) / 256;
}

static void test_as_if_they_were_not_there(void **state)
{
    (void)state;
    static const char *const specs[] = {"bf16",
                                        "threshold:tau=4,adaptive",
                                        "bitmap:tau=4,adaptive",
                                        "onebit:block=4096",
                                        "onebit:block=4096,warmup=3",
                                        "topk:ratio=0.0234",
                                        "topk:ratio=0.5",
                                        "dgc:ratio=0.05,momentum=0.5,warmup=4",
                                        "dgc:ratio=0.05,momentum=0.5,clip=64"};
    static double plain[REAL], gapped[MOST], room[MOST];
    int64_t place[REAL], count = spread(NULL, place);
    void *message = malloc(weft_encoded_bound(WEFT_F64, MOST));
    assert_true(count <= MOST);
    for (size_t s = 0; s < WEFT_COUNT(specs); s++) {
        weft_codec *dense, *padded;
        weft_random random;
        size_t bytes;
        weft_random_start(&random, 7, s);
        assert_ok(weft_codec_open(context, specs[s], WEFT_F64, REAL, &dense));
        assert_ok(weft_codec_open(context, specs[s], WEFT_F64, count, &padded));
        (void)spread(padded, place);
        for (int m = 0; m < MESSAGES; m++) {
            draw(&random, place, count, plain, gapped);
            assert_ok(weft_codec_encode(dense, plain, message, &bytes));
            assert_ok(weft_codec_encode(padded, gapped, message, &bytes));
            for (int i = 0; i < REAL; i++) {
                double a = ((double *)dense->residual)[i],
                       b = ((double *)padded->residual)[place[i]];
                if (a != b)
                    fail_msg("%s: message %d leaves %g of %d, not %g", specs[s], m, b, i, a);
            }
            assert_true(dense->step == padded->step);
        }
        for (int64_t i = 0; i < count; i++) room[i] = ((double *)padded->residual)[i];
        for (int i = 0; i < REAL; i++) room[place[i]] = 0;
        for (int64_t i = 0; i < count; i++) assert_true(room[i] == 0);
        weft_codec_close(&dense);
        weft_codec_close(&padded);
    }
    free(message);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_if_they_were_not_there)};
    return cmocka_run_group_tests_name("gaps", tests, setup, teardown);
}
