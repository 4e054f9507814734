/* What every codec promises, whichever it is: nothing is lost, a message stands for what it says,
 * state goes on, and what is damaged is refused. And what some of them promise alone. */
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>

#include "base/registry.h"
#include "compress/compress.h"

/* Each codec as it is by default and in other ways; what is momentum's comes later. */
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
};
static const int64_t counts[] = {1, 2, 15, 64, 257, 1000, 4099};
static const weft_dtype dtypes[] = {WEFT_F32, WEFT_F64};

static weft_context *context;

/* Multiples of a power of two, so few digits that sums are exact: some ranges are empty, some full,
 * and now and then there is something large. */
static void draw(weft_random *random, weft_dtype dtype, void *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int kind = (int)(i / 100 % 3);
        int64_t x = (int64_t)(weft_random_u32(random) % 401) - 200;
        if (kind == 0 && weft_random_u32(random) % 50) x = 0;
        if (weft_random_u32(random) % 100 == 0) x *= 20;
        weft_number_put(dtype, to, i, (double)x / 1024);
    }
}

typedef struct link {
    weft_codec *codec;
    weft_dtype dtype;
    int64_t count;
    void *update, *message, *got;
    size_t bound, bytes;
    double *sent, *given; /* sums */
    weft_random random;
} link;

static link open_link(const char *spec, weft_dtype dtype, int64_t count, uint64_t seed)
{
    link l = {.dtype = dtype, .count = count};
    size_t size = (size_t)count * weft_dtype_size(dtype);
    assert_int_equal(weft_codec_open(context, spec, dtype, count, &l.codec), WEFT_OK);
    l.bound = weft_message_bound(dtype, count);
    assert_int_equal(weft_new_aligned(size, &l.update), WEFT_OK);
    assert_int_equal(weft_new_aligned(size, &l.got), WEFT_OK);
    assert_int_equal(weft_new_aligned(l.bound + 64, &l.message), WEFT_OK);
    assert_int_equal(WEFT_NEW(&l.sent, count), WEFT_OK);
    assert_int_equal(WEFT_NEW(&l.given, count), WEFT_OK);
    weft_random_start(&l.random, seed, (uint64_t)count);
    return l;
}

static void close_link(link *l)
{
    weft_codec_close(&l->codec);
    free(l->update);
    free(l->message);
    free(l->got);
    free(l->sent);
    free(l->given);
}

static void receive(link *l, double scale, int64_t piece)
{
    weft_message m;
    size_t size = weft_dtype_size(l->dtype);
    assert_int_equal(weft_message_open(l->message, l->bytes, l->dtype, l->count, &m), WEFT_OK);
    memset(l->got, 0, (size_t)l->count * size);
    for (int64_t at = 0; at < l->count; at += piece)
        weft_message_add(&m, WEFT_MIN(piece, l->count - at), scale, (char *)l->got + at * size);
}

/* Encodes the update that is there, within the bound, and sums up both sides. */
static void send(link *l)
{
    char *behind = (char *)l->message + l->bound;
    memset(behind, 77, 64);
    assert_int_equal(weft_codec_encode(l->codec, l->update, l->message, &l->bytes), WEFT_OK);
    assert_true(l->bytes <= l->bound);
    for (int i = 0; i < 64; i++) assert_int_equal(behind[i], 77);
    receive(l, 1, l->count);
    for (int64_t i = 0; i < l->count; i++) {
        l->sent[i] += weft_number_get(l->dtype, l->got, i);
        l->given[i] += weft_number_get(l->dtype, l->update, i);
    }
}

static double kept(const link *l, int64_t i)
{
    return l->codec->residual ? weft_number_get(l->dtype, l->codec->residual, i) : 0;
}

typedef void (*check_fn)(const char *spec, weft_dtype dtype, int64_t count);

static void all(check_fn check)
{
    for (size_t s = 0; s < WEFT_COUNT(specs); s++)
        for (size_t d = 0; d < WEFT_COUNT(dtypes); d++)
            for (size_t c = 0; c < WEFT_COUNT(counts); c++) check(specs[s], dtypes[d], counts[c]);
}

/* --- what all promise --- */

static void conserves(const char *spec, weft_dtype dtype, int64_t count)
{
    link l = open_link(spec, dtype, count, 1);
    for (int round = 0; round < 12; round++) {
        draw(&l.random, dtype, l.update, count);
        send(&l);
        for (int64_t i = 0; i < count; i++)
            if (l.sent[i] + kept(&l, i) != l.given[i])
                fail_msg("%s, %s, number %d of %d, round %d: %.17g sent, %.17g kept, %.17g given",
                         spec, weft_dtype_name(dtype), (int)i, (int)count, round, l.sent[i],
                         kept(&l, i), l.given[i]);
    }
    close_link(&l);
}

static void test_conservation(void **state)
{
    (void)state;
    all(conserves);
}

/* In pieces of any size, and scaled, it is the same. */
static void reads_in_pieces(const char *spec, weft_dtype dtype, int64_t count)
{
    static const int64_t pieces[] = {1, 7, 64, 1001};
    link l = open_link(spec, dtype, count, 2);
    double *whole;
    assert_int_equal(WEFT_NEW(&whole, count), WEFT_OK);
    for (int round = 0; round < 4; round++) {
        draw(&l.random, dtype, l.update, count);
        send(&l);
        for (int64_t i = 0; i < count; i++) whole[i] = weft_number_get(dtype, l.got, i);
        for (size_t p = 0; p < WEFT_COUNT(pieces); p++) {
            receive(&l, -0.5, pieces[p]);
            for (int64_t i = 0; i < count; i++)
                assert_true(weft_number_get(dtype, l.got, i) == -0.5 * whole[i]);
        }
    }
    free(whole);
    close_link(&l);
}

static void test_pieces(void **state)
{
    (void)state;
    all(reads_in_pieces);
}

/* Another codec with this one's state sends the same messages from there on. */
static void goes_on(const char *spec, weft_dtype dtype, int64_t count)
{
    link a = open_link(spec, dtype, count, 3), b = open_link(spec, dtype, count, 3);
    weft_codec_state from, to;
    for (int round = 0; round < 3; round++) {
        draw(&a.random, dtype, a.update, count);
        send(&a);
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
        send(&a);
        send(&b);
        assert_int_equal(a.bytes, b.bytes);
        assert_memory_equal(a.message, b.message, a.bytes);
    }
    close_link(&a);
    close_link(&b);
}

static void test_state(void **state)
{
    (void)state;
    all(goes_on);
}

/* Cut anywhere, and longer, it is refused; with any byte changed it is refused or stands for finite
 * numbers, and nothing beyond them is touched (the sanitizers look). */
static void refuses_damage(const char *spec, weft_dtype dtype, int64_t count)
{
    if (count > 300) return;
    link l = open_link(spec, dtype, count, 4);
    weft_message m;
    for (int round = 0; round < 3; round++) {
        draw(&l.random, dtype, l.update, count);
        send(&l);
    }
    for (size_t cut = 0; cut < l.bytes; cut++) {
        void *copy;
        assert_int_equal(weft_new_aligned(WEFT_MAX(cut, 1), &copy), WEFT_OK);
        memcpy(copy, l.message, cut);
        assert_int_equal(weft_message_open(copy, cut, dtype, count, &m), WEFT_ERR_FORMAT);
        free(copy);
    }
    assert_int_equal(weft_message_open(l.message, l.bytes + 1, dtype, count, &m), WEFT_ERR_FORMAT);
    assert_int_equal(weft_message_open(l.message, l.bytes, dtype, count + 1, &m), WEFT_ERR_FORMAT);
    for (size_t at = 0; at < l.bytes; at++)
        for (int bit = 0; bit < 8; bit++) {
            uint8_t *byte = (uint8_t *)l.message + at;
            *byte ^= (uint8_t)(1 << bit);
            if (weft_message_open(l.message, l.bytes, dtype, count, &m) == WEFT_OK) {
                receive(&l, 1, count);
                for (int64_t i = 0; i < count; i++)
                    assert_true(isfinite(weft_number_get(dtype, l.got, i)));
            }
            *byte ^= (uint8_t)(1 << bit);
        }
    close_link(&l);
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
        link l = open_link(spec, dtype, count, 5);
        draw(&l.random, dtype, l.update, count);
        weft_number_put(dtype, l.update, count / 2, wrong[w]);
        assert_int_equal(weft_codec_encode(l.codec, l.update, l.message, &l.bytes),
                         WEFT_ERR_NUMERIC);
        (void)snprintf(said, sizeof(said), "number %d of an update is not finite", (int)count / 2);
        assert_string_equal(weft_last_message(), said);
        close_link(&l);
    }
}

static void test_not_finite(void **state)
{
    (void)state;
    all(refuses_what_is_no_number);
}

/* --- degenerate settings --- */

static void test_all_is_sent(void **state)
{
    (void)state;
    static const char *const whole[] = {"none", "threshold:tau=0", "topk:ratio=1",
                                        "dgc:ratio=1,momentum=0", "onebit:warmup=9"};
    for (size_t s = 0; s < WEFT_COUNT(whole); s++)
        for (size_t d = 0; d < WEFT_COUNT(dtypes); d++) {
            link l = open_link(whole[s], dtypes[d], 1000, 6);
            for (int round = 0; round < 3; round++) {
                for (int64_t i = 0; i < l.count; i++)
                    weft_number_put(l.dtype, l.update, i, sin((double)(i * (round + 1))));
                send(&l);
                assert_memory_equal(l.got, l.update, (size_t)l.count * weft_dtype_size(l.dtype));
            }
            close_link(&l);
        }
}

/* With a ratio of 1 it is momentum and nothing else; with a bound the update is made shorter. */
static void test_dgc_is_momentum(void **state)
{
    (void)state;
    for (size_t d = 0; d < WEFT_COUNT(dtypes); d++) {
        link l = open_link("dgc:ratio=1,momentum=0.5,clip=2", dtypes[d], 64, 7);
        double momentum[64] = {0};
        for (int round = 0; round < 6; round++) {
            /* Norm 8 or 1: a quarter of the one remains, and all of the other. */
            double x = round % 2 ? 0.125 : 1, scale = round % 2 ? 1 : 0.25;
            for (int64_t i = 0; i < 64; i++) weft_number_put(l.dtype, l.update, i, i % 3 ? x : -x);
            send(&l);
            for (int64_t i = 0; i < 64; i++) {
                momentum[i] = 0.5 * momentum[i] + scale * (i % 3 ? x : -x);
                assert_true(weft_number_get(l.dtype, l.got, i) == momentum[i]);
            }
        }
        close_link(&l);
    }
}

/* What was sent has no momentum any more, what was not has it still: by hand, of two numbers. */
static void test_dgc_masks(void **state)
{
    (void)state;
    link l = open_link("dgc:ratio=0.5,momentum=0.5", WEFT_F64, 2, 8);
    static const double updates[3][2] = {{4, 1}, {0, 1}, {0, 0}};
    /* u = (4,1), v = (4,1): 4 goes. u = (0,1.5), v = (0,2.5): that goes. Then nothing is left. */
    static const double gone[3][2] = {{4, 0}, {0, 2.5}, {0, 0}};
    for (int round = 0; round < 3; round++) {
        memcpy(l.update, updates[round], sizeof(updates[round]));
        send(&l);
        assert_memory_equal(l.got, gone[round], sizeof(gone[round]));
    }
    close_link(&l);
}

/* --- what some promise --- */

static void test_threshold_bound(void **state)
{
    (void)state;
    static const char *const some[] = {"threshold:tau=0.25", "bitmap:tau=0.25"};
    for (size_t s = 0; s < WEFT_COUNT(some); s++) {
        link l = open_link(some[s], WEFT_F32, 4099, 9);
        for (int round = 0; round < 20; round++) {
            draw(&l.random, l.dtype, l.update, l.count);
            send(&l);
            for (int64_t i = 0; i < l.count; i++) {
                assert_true(fabs(kept(&l, i)) <= 0.25);
                assert_true(fmod(weft_number_get(l.dtype, l.got, i), 0.25) == 0);
            }
        }
        close_link(&l);
    }
}

/* The step comes to where between a ten-thousandth and a hundredth of the numbers go. */
static void test_adaptive(void **state)
{
    (void)state;
    static const char *const from[] = {"threshold:tau=100,adaptive", "threshold:tau=1e-5,adaptive",
                                       "bitmap:tau=1e-5,adaptive"};
    for (size_t s = 0; s < WEFT_COUNT(from); s++) {
        link l = open_link(from[s], WEFT_F32, 100000, 10);
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
        close_link(&l);
    }
}

/* Gaps cost little more than what they tell; each hit has a sign and is told to go once. */
static void test_entropy(void **state)
{
    (void)state;
    static const int one_in[] = {3, 10, 100, 1000, 20000};
    for (size_t k = 0; k < WEFT_COUNT(one_in); k++) {
        link l = open_link("threshold:tau=1", WEFT_F32, 2000000, 11);
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
        close_link(&l);
    }
}

/* The largest are sent, of equal ones the first; the reference sorts. */
static int by_size(const void *a, const void *b)
{
    double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
    return x < y ? 1 : x > y ? -1 : 0;
}

static void test_largest(void **state)
{
    (void)state;
    for (size_t d = 0; d < WEFT_COUNT(dtypes); d++) {
        link l = open_link("topk:ratio=0.1", dtypes[d], 1000, 12);
        for (int round = 0; round < 5; round++) {
            double sorted[1000], before[1000];
            draw(&l.random, l.dtype, l.update, l.count);
            for (int64_t i = 0; i < l.count; i++)
                sorted[i] = before[i] = kept(&l, i) + weft_number_get(l.dtype, l.update, i);
            send(&l);
            qsort(sorted, 1000, sizeof(double), by_size);
            int equal = 0, want = 0;
            for (int i = 0; i < 100; i++) want += fabs(sorted[i]) == fabs(sorted[99]);
            for (int64_t i = 0; i < l.count; i++) {
                bool goes = fabs(before[i]) > fabs(sorted[99]) ||
                            (fabs(before[i]) == fabs(sorted[99]) && equal++ < want);
                assert_true(weft_number_get(l.dtype, l.got, i) == (goes ? before[i] : 0));
            }
        }
        close_link(&l);
    }
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
        {"topk:values=half", "there are full and bf16"},
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
    /* Every codec is among those that are looked at here, and opens by its name alone. */
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

static int begin(void **state)
{
    (void)state;
    return weft_context_create(&context) != WEFT_OK;
}

static int end(void **state)
{
    (void)state;
    weft_context_destroy(&context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conservation),    cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_state),           cmocka_unit_test(test_damage),
        cmocka_unit_test(test_not_finite),      cmocka_unit_test(test_all_is_sent),
        cmocka_unit_test(test_dgc_is_momentum), cmocka_unit_test(test_dgc_masks),
        cmocka_unit_test(test_threshold_bound), cmocka_unit_test(test_adaptive),
        cmocka_unit_test(test_entropy),         cmocka_unit_test(test_largest),
        cmocka_unit_test(test_arguments),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
