/* The contract of every codec. Messages and the residual add up to the updates, a message can be
 * decoded in pieces, a codec can be saved and restored, and damaged messages are refused. */
#include <float.h>
#include <math.h>

#include "one_context.h"
#include "codec_pair.h"

/* Each codec with its defaults and with other settings, also those of plug-ins; dgc without
 * momentum, which test_codec_cases.c covers. */
static const char *const specs[] = {
    "none",
    "bf16",
    "threshold:tau=0.25",
    "threshold:tau=0.03125,warmup=2",
    "threshold:tau=64,adaptive",
    "threshold:tau=0",
    "bitmap:tau=0.125",
    "bitmap:tau=0.0009765625",
    "onebit",
    "onebit:block=16,warmup=1",
    "topk",
    "topk:ratio=0.3",
    "topk:ratio=1",
    "topk:ratio=0.05,values=bf16,warmup=1",
    "dgc:momentum=0,ratio=0.1",
    "dgc:momentum=0,ratio=0.01,values=bf16,warmup=6",
    "dgc:momentum=0,ratio=1",
    "int8",
    "int8:warmup=2",
    "cycle:parts=3",
};
static const int64_t counts[] = {1, 2, 15, 64, 257, 1000, 4099};

typedef void (*check_fn)(const char *spec, weft_dtype dtype, int64_t count);

static void all(check_fn check)
{
    for (size_t s = 0; s < WEFT_COUNT(specs); s++)
        for (size_t d = 0; d < WEFT_COUNT(dtypes); d++)
            for (size_t c = 0; c < WEFT_COUNT(counts); c++) check(specs[s], dtypes[d], counts[c]);
}

/* --- properties of all codecs --- */

static void conserves(const char *spec, weft_dtype dtype, int64_t count)
{
    line l = line_open(context, spec, dtype, count, 1);
    for (int round = 0; round < 12; round++) {
        draw(&l.random, dtype, l.update, count);
        line_send(&l);
        for (int64_t i = 0; i < count; i++)
            if (l.sent[i] + line_kept(&l, i) != l.given[i])
                fail_msg("%s, %s, number %d of %d, round %d: %.17g sent, %.17g kept, %.17g given",
                         spec, weft_dtype_name(dtype), (int)i, (int)count, round, l.sent[i],
                         line_kept(&l, i), l.given[i]);
    }
    line_close(&l);
}

static void test_conservation(void **state)
{
    (void)state;
    all(conserves);
}

/* A message that is decoded in pieces, times a scale, gives the scaled numbers of the whole. */
static void reads_in_pieces(const char *spec, weft_dtype dtype, int64_t count)
{
    static const int64_t pieces[] = {1, 7, 64, 1001};
    line l = line_open(context, spec, dtype, count, 2);
    double *whole;
    assert_int_equal(WEFT_NEW(&whole, count), WEFT_OK);
    for (int round = 0; round < 4; round++) {
        draw(&l.random, dtype, l.update, count);
        line_send(&l);
        for (int64_t i = 0; i < count; i++) whole[i] = weft_number_get(dtype, l.got, i);
        for (size_t p = 0; p < WEFT_COUNT(pieces); p++) {
            line_receive(&l, -0.5, pieces[p]);
            for (int64_t i = 0; i < count; i++)
                assert_true(weft_number_get(dtype, l.got, i) == -0.5 * whole[i]);
        }
    }
    free(whole);
    line_close(&l);
}

static void test_pieces(void **state)
{
    (void)state;
    all(reads_in_pieces);
}

/* With a plain codec, weft_codec_write_slice writes an update into a message in pieces, in any
 * order; the message equals one that is encoded at once. */
static void is_laid_in_pieces(const char *spec, weft_dtype dtype, int64_t count)
{
    line l = line_open(context, spec, dtype, count, 4);
    size_t size = weft_dtype_size(dtype), bytes = 0;
    int64_t cut = count / 3;
    void *laid;
    if (l.codec->ops->plain) {
        assert_ok(weft_new_aligned(l.bound, &laid));
        draw(&l.random, dtype, l.update, count);
        line_send(&l);
        const char *rest = (const char *)l.update + (size_t)cut * size;
        assert_ok(weft_codec_write_slice(l.codec, rest, cut, count - cut, laid));
        assert_ok(weft_codec_write_slice(l.codec, l.update, 0, cut, laid));
        assert_ok(weft_codec_encode(l.codec, NULL, laid, &bytes));
        assert_int_equal(bytes, l.bytes);
        assert_memory_equal(laid, l.message, bytes);
        weft_number_put(dtype, l.update, count - 1, NAN);
        assert_int_equal(weft_codec_write_slice(l.codec, rest, cut, count - cut, laid),
                         WEFT_ERR_NUMERIC);
        free(laid);
    }
    line_close(&l);
}

static void test_laid(void **state)
{
    (void)state;
    all(is_laid_in_pieces);
}

/* A second codec that gets the state of the first one sends the same messages from then on. */
static void goes_on(const char *spec, weft_dtype dtype, int64_t count)
{
    line a = line_open(context, spec, dtype, count, 3),
         b = line_open(context, spec, dtype, count, 3);
    weft_codec_state from, to;
    for (int round = 0; round < 3; round++) {
        draw(&a.random, dtype, a.update, count);
        line_send(&a);
    }
    for (int i = 0; weft_codec_state_of(a.codec, i, &from); i++) {
        assert_true(weft_codec_state_of(b.codec, i, &to));
        assert_string_equal(from.name, to.name);
        assert_int_equal(from.extent, to.extent);
        memcpy(to.data, from.data,
               from.extent == WEFT_CODEC_EACH ? (size_t)count * weft_dtype_size(dtype)
                                              : sizeof(double));
    }
    for (int round = 0; round < 5; round++) {
        draw(&a.random, dtype, a.update, count);
        memcpy(b.update, a.update, (size_t)count * weft_dtype_size(dtype));
        line_send(&a);
        line_send(&b);
        assert_int_equal(a.bytes, b.bytes);
        assert_memory_equal(a.message, b.message, a.bytes);
    }
    line_close(&a);
    line_close(&b);
}

static void test_state(void **state)
{
    (void)state;
    all(goes_on);
}

/* A message that is cut anywhere, or is longer, is refused. With one bit of any byte changed, it is
 * refused or decodes to finite numbers; sanitizer builds check that nothing beyond them is
 * touched. If the squares of the message count as finite, they are, and those of a whole message
 * are. */
static void refuses_damage(const char *spec, weft_dtype dtype, int64_t count)
{
    if (count > 300) return;
    line l = line_open(context, spec, dtype, count, 4);
    weft_encoded m;
    for (int round = 0; round < 3; round++) {
        draw(&l.random, dtype, l.update, count);
        line_send(&l);
    }
    assert_ok(weft_encoded_open(l.message, l.bytes, l.codec->ops, dtype, count, &m));
    assert_true(weft_encoded_squares(&m));
    for (size_t cut = 0; cut < l.bytes; cut++) {
        void *copy;
        assert_int_equal(weft_new_aligned(WEFT_MAX(cut, 1), &copy), WEFT_OK);
        memcpy(copy, l.message, cut);
        assert_int_equal(weft_encoded_open(copy, cut, l.codec->ops, dtype, count, &m),
                         WEFT_ERR_FORMAT);
        free(copy);
    }
    assert_int_equal(weft_encoded_open(l.message, l.bytes + 1, l.codec->ops, dtype, count, &m),
                     WEFT_ERR_FORMAT);
    assert_int_equal(weft_encoded_open(l.message, l.bytes, l.codec->ops, dtype, count + 1, &m),
                     WEFT_ERR_FORMAT);
    for (size_t at = 0; at < l.bytes; at++)
        for (int bit = 0; bit < 8; bit++) {
            uint8_t *byte = (uint8_t *)l.message + at;
            *byte ^= (uint8_t)(1 << bit);
            if (weft_encoded_open(l.message, l.bytes, l.codec->ops, dtype, count, &m) == WEFT_OK) {
                double most = weft_encoded_squares(&m) ? dtype == WEFT_F32 ? 0x1p63 : 0x1p511
                              : dtype == WEFT_F32      ? FLT_MAX
                                                       : DBL_MAX;
                line_receive(&l, 1, count);
                for (int64_t i = 0; i < count; i++)
                    assert_true(fabs(weft_number_get(dtype, l.got, i)) <= most);
            }
            *byte ^= (uint8_t)(1 << bit);
        }
    line_close(&l);
}

static void test_damage(void **state)
{
    (void)state;
    all(refuses_damage);
}

static void refuses_what_is_no_number(const char *spec, weft_dtype dtype, int64_t count)
{
    static const double wrong[] = {NAN, INFINITY, -INFINITY};
    for (size_t w = 0; w < WEFT_COUNT(wrong); w++) {
        char said[64];
        line l = line_open(context, spec, dtype, count, 5);
        draw(&l.random, dtype, l.update, count);
        weft_number_put(dtype, l.update, count / 2, wrong[w]);
        assert_int_equal(weft_codec_encode(l.codec, l.update, l.message, &l.bytes),
                         WEFT_ERR_NUMERIC);
        (void)snprintf(said, sizeof(said), "number %d of an update is not finite", (int)count / 2);
        assert_string_equal(weft_last_message(), said);
        line_close(&l);
    }
}

static void test_not_finite(void **state)
{
    (void)state;
    all(refuses_what_is_no_number);
}

/* --- arguments --- */

static void test_arguments(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *says;
    } wrong[] = {
        {"treshold", "did you mean 'threshold'"},
        {"none:tau=1", "takes no options"},
        {"bf16:x", "takes no options"},
        {"threshold:tau", "tau has no value; give tau=VALUE"},
        {"threshold:tau=", "tau has no value"},
        {"threshold:tau=-1", "must be from 0 to 1000000"},
        {"threshold:adaptive=1", "adaptive takes no value"},
        {"threshold:adaptive,adaptive", "given twice"},
        {"threshold:tau=0,adaptive", "begins above 0"},
        {"bitmap:ratio=1", "no key is named 'ratio'"},
        {"topk:ratio=0", "must be from"},
        {"topk:values=half", "must be one of full,bf16"},
        {"dgc:momentum=1", "must be from"},
        {"onebit:block=20", "must be a multiple of 8; 16 is near"},
        {"onebit:warmup=1.5", "a whole number"},
    };
    weft_codec *codec;
    const weft_entry *entry;
    for (size_t i = 0; i < WEFT_COUNT(wrong); i++) {
        assert_int_equal(weft_codec_check(context, wrong[i].spec), WEFT_ERR_ARGUMENT);
        if (!strstr(weft_last_message(), wrong[i].says))
            fail_msg("'%s' says '%s'", wrong[i].spec, weft_last_message());
    }
    for (size_t i = 0; i < WEFT_COUNT(specs); i++)
        assert_int_equal(weft_codec_check(context, specs[i]), WEFT_OK);
    /* Each codec of the library is in the list of this test, and opens by its name alone. */
    for (int i = 0; (entry = weft_context_entry(context, WEFT_KIND_CODEC, i)); i++) {
        bool there = false;
        assert_int_equal(weft_codec_check(context, entry->name), WEFT_OK);
        for (size_t s = 0; s < WEFT_COUNT(specs); s++)
            there = there || strncmp(specs[s], entry->name, strlen(entry->name)) == 0;
        if (!there) fail_msg("%s is not tested", entry->name);
    }
    assert_int_equal(weft_codec_open(context, "none", WEFT_I32, 5, &codec), WEFT_ERR_ARGUMENT);
    assert_int_equal(weft_codec_open(context, "none", WEFT_F32, 0, &codec), WEFT_ERR_ARGUMENT);
    assert_int_equal(weft_codec_open(context, "none", WEFT_F32, INT64_C(1) << 32, &codec),
                     WEFT_ERR_ARGUMENT);
}

/* A message in the own form of a codec is refused without this codec, and with another one. */
static void test_other_codecs(void **state)
{
    (void)state;
    static const char *const own[] = {"onebit", "int8"};
    for (size_t i = 0; i < WEFT_COUNT(own); i++) {
        line l = line_open(context, own[i], WEFT_F32, 1000, 6);
        const weft_codec_ops *other;
        weft_encoded m;
        draw(&l.random, WEFT_F32, l.update, 1000);
        line_send(&l);
        assert_ok(weft_codec_find(context, own[1 - i], &other));
        assert_refused(weft_encoded_open(l.message, l.bytes, other, WEFT_F32, 1000, &m),
                       WEFT_ERR_FORMAT, "or of another codec than");
        assert_refused(weft_encoded_open(l.message, l.bytes, NULL, WEFT_F32, 1000, &m),
                       WEFT_ERR_FORMAT, "or of another codec than none");
        line_close(&l);
    }
}

static int setup_all(void **state)
{
    return setup(state) || weft_plugin_load(context, PLUGINS "/libint8.so") != WEFT_OK ||
           weft_plugin_load(context, PLUGINS "/libcycle.so") != WEFT_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conservation), cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_laid),         cmocka_unit_test(test_state),
        cmocka_unit_test(test_damage),       cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_arguments),    cmocka_unit_test(test_other_codecs),
    };
    return cmocka_run_group_tests(tests, setup_all, teardown);
}
