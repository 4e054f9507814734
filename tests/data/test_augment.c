/* Tests augmentations: each one keeps its promise, is a function of seed, epoch and sample alone,
 * and changes batches of the training alone. */
#include <math.h>

#include "base/base.h"
#include "context.h"
#include "data/augment/augment.h"
#include "data/loader.h"

enum { CHANNELS = 3, HEIGHT = 17, WIDTH = 23, PLANE = HEIGHT * WIDTH, COUNT = CHANNELS * PLANE };

static void draw_picture(float *x)
{
    weft_random r;
    weft_random_start(&r, 1, 2);
    for (int i = 0; i < COUNT; i++) x[i] = (float)(1 + weft_random_u32(&r) % 254);
}

/* Applies a list to the picture that draw_picture makes; other samples are grey. */
static void change(const char *list, const weft_sample_key *key, float *x)
{
    const weft_shape shape = weft_shape_of(3, (int64_t[]){CHANNELS, HEIGHT, WIDTH});
    float spare[COUNT];
    weft_augment a;
    assert_ok(weft_augment_parse(context, list, &a));
    draw_picture(x);
    weft_augment_apply(&a, key, &shape, 0, 255, x, spare);
    for (int i = 0; i < COUNT; i++) spare[i] = 99;
    if (a.mixing) (void)weft_augment_mix(&a, key, &shape, x, spare);
}

/* Each row of the table: numbers stay between black and white, the same key gives the
 * same picture, and each part of the key matters. */
static void test_keys(void **state)
{
    (void)state;
    float plain[COUNT], first[COUNT], again[COUNT];
    draw_picture(plain);
    for (int k = 0; built_in(WEFT_KIND_AUGMENTATION, k); k++) {
        const char *name = built_in(WEFT_KIND_AUGMENTATION, k);
        bool differs[3] = {false}, changes = false;
        for (int64_t i = 0; i < 30; i++) {
            const weft_sample_key key = {7, 2, WEFT_TRAIN, i};
            change(name, &key, first);
            change(name, &key, again);
            assert_memory_equal(first, again, sizeof(first));
            changes = changes || memcmp(first, plain, sizeof(first)) != 0;
            for (int j = 0; j < COUNT; j++) assert_true(first[j] >= 0 && first[j] <= 255);
            for (int part = 0; part < 3; part++) {
                const weft_sample_key other = {key.seed + (part == 0), key.epoch + (part == 1),
                                               WEFT_TRAIN, i + 100 * (part == 2)};
                change(name, &other, again);
                differs[part] = differs[part] || memcmp(first, again, sizeof(first)) != 0;
            }
        }
        assert_true(changes && differs[0] && differs[1] && differs[2]);
    }
}

/* Special cases, in which the picture is known. */
static void test_promises(void **state)
{
    (void)state;
    float plain[COUNT], x[COUNT];
    bool seen[5][5] = {{false}};
    int places = 0;
    draw_picture(plain);
    for (int64_t i = 0; i < 300; i++) {
        const weft_sample_key key = {3, 0, WEFT_TRAIN, i};
        static const char *const nothing[] = {"rotate=0", "color=0", "flip=0",       "erase=0",
                                              "crop=0",   "vflip=0", "resizedcrop=1"};
        change(nothing[i % (int64_t)WEFT_COUNT(nothing)], &key, x);
        for (int j = 0; j < COUNT; j++) assert_true(fabsf(x[j] - plain[j]) < 1e-4F);
        change("flip=1", &key, x);
        for (int j = 0; j < COUNT; j++)
            assert_true(x[j] == plain[j / WIDTH * WIDTH + WIDTH - 1 - j % WIDTH]);
        change("vflip=1", &key, x);
        for (int j = 0; j < COUNT; j++)
            assert_true(
                x[j] ==
                plain[j / PLANE * PLANE + (HEIGHT - 1 - j % PLANE / WIDTH) * WIDTH + j % WIDTH]);
        change("crop:pad=2", &key, x);
        for (int down = -2; down <= 2; down++)
            for (int right = -2; right <= 2; right++) {
                bool same = true;
                for (int j = 0; j < COUNT && same; j++) {
                    int from_y = j % PLANE / WIDTH - down, from_x = j % WIDTH - right;
                    bool in = from_y >= 0 && from_y < HEIGHT && from_x >= 0 && from_x < WIDTH;
                    same = x[j] == (in ? plain[j / PLANE * PLANE + from_y * WIDTH + from_x] : 0);
                }
                places += same && !seen[down + 2][right + 2];
                seen[down + 2][right + 2] = seen[down + 2][right + 2] || same;
            }
        change("erase=1", &key, x);
        int erased = 0;
        for (int j = 0; j < PLANE; j++) {
            bool gone = x[j] != plain[j] || x[j + PLANE] != plain[j + PLANE];
            erased += gone;
            for (int c = 0; c < CHANNELS; c++)
                assert_true(gone ? x[j + c * PLANE] == x[j] && fabsf(x[j] - 127) < 12
                                 : x[j + c * PLANE] == plain[j + c * PLANE]);
        }
        assert_true(erased >= 4 && erased <= PLANE * 2 / 5);
    }
    assert_int_equal(places, 25);
}

/* The classes of pixels go where these go: in a picture of two colours, one of each class, a pixel
 * that is of one colour alone has its class. Changes that move no pixels leave classes alone. */
static void test_classes(void **state)
{
    (void)state;
    const weft_shape shape = weft_shape_of(3, (int64_t[]){CHANNELS, HEIGHT, WIDTH});
    float x[COUNT], before[PLANE], classes[PLANE], spare[COUNT];
    weft_augment a;
    for (int k = 0; built_in(WEFT_KIND_AUGMENTATION, k); k++) {
        assert_ok(weft_augment_parse(context, built_in(WEFT_KIND_AUGMENTATION, k), &a));
        bool changes = false;
        for (int64_t i = 0; i < 30; i++) {
            const weft_sample_key key = {7, 2, WEFT_TRAIN, i};
            draw_picture(x);
            for (int j = 0; j < PLANE; j++) before[j] = classes[j] = (float)((int)x[j] % 2);
            for (int j = 0; j < COUNT; j++) x[j] = 200 * before[j % PLANE];
            weft_augment_apply(&a, &key, &shape, 0, 200, x, spare);
            weft_augment_move(&a, &key, &shape, 0, classes, spare);
            changes = changes || memcmp(before, classes, sizeof(before)) != 0;
            for (int j = 0; j < COUNT && weft_augment_moves(&a); j++)
                if (x[j] == 0 || x[j] == 200) assert_true(classes[j % PLANE] == x[j] / 200);
            for (int j = 0; j < PLANE; j++) assert_true(classes[j] == 0 || classes[j] == 1);
        }
        assert_true(changes == weft_augment_moves(&a));
    }
    /* Lists are moved in their order. */
    assert_ok(weft_augment_parse(context, "color,crop:pad=3,flip,erase,rotate=0", &a));
    const weft_sample_key key = {1, 1, WEFT_TRAIN, 5};
    for (int j = 0; j < PLANE; j++) x[j] = before[j] = (float)(j % 251);
    const weft_shape grey = weft_shape_of(3, (int64_t[]){1, HEIGHT, WIDTH});
    weft_augment_move(&a, &key, &shape, WEFT_LABEL_IGNORED, before, spare);
    assert_ok(weft_augment_parse(context, "crop:pad=3,flip", &a));
    weft_augment_apply(&a, &key, &grey, WEFT_LABEL_IGNORED, 255, x, spare);
    assert_memory_equal(before, x, sizeof(before));
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *data, *list, *words;
    } bad[] = {
        {"glyphs:train=20,test=10", "flop", "did you mean 'flip'?"},
        {"glyphs:train=20,test=10", "flip,flip", "augmentation flip is given twice"},
        {"glyphs:train=20,test=10", "flip=2", "p is '2', must be from 0 to 1"},
        {"glyphs:train=20,test=10", "crop:pad=1.5", "must be a whole number from 0 to 1024"},
        {"glyphs:train=20,test=10", "crop:size=3", "no key is named 'size'"},
        {"glyphs:train=20,test=10", "flip,", "augment"},
    };
    for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
        weft_dataset *d;
        assert_ok(weft_dataset_open(context, bad[k].data, NULL, NULL, &d));
        assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
        assert_refused(weft_dataset_set_augment(d, bad[k].list), WEFT_ERR_ARGUMENT, bad[k].words);
        weft_dataset_close(&d);
    }
    char *folder = temporary_folder(), path[4200], spec[4300];
    weft_dataset *d;
    write_file(folder, "t.csv", "a,b,c\n1,2,x\n2,1,y\n1,1,x\n", 24, path, sizeof(path));
    (void)snprintf(spec, sizeof(spec), "csv:%s", path);
    assert_ok(weft_dataset_open(context, spec, NULL, NULL, &d));
    assert_refused(weft_dataset_set_augment(d, "flip"), WEFT_ERR_ARGUMENT, "are no pictures");
    weft_dataset_close(&d);
    remove_folder(folder);
}

/* Batches of any number of threads, parts and rows have the same samples; the test part and reads
 * without a key are as they were. */
static void test_batches(void **state)
{
    (void)state;
    enum { BATCH = 12, SIDE = 9 };
    static float whole[BATCH * SIDE * SIDE];
    for (int k = 0; k < 4; k++) {
        weft_context *c;
        weft_dataset *d;
        weft_batch b;
        float x[SIDE * SIDE], y[SIDE * SIDE];
        weft_loader_options o = {.batch = BATCH, .shuffle = true, .seed = 4};
        if (k == 2) o.micro = BATCH, o.first = 3, o.rows = 5;
        if (k == 3) o.batch = BATCH / 2, o.parts = 2, o.part = 1;
        assert_ok(weft_context_with_threads(context, k == 1 ? 3 : 1, &c));
        assert_ok(weft_dataset_open(c, "glyphs:size=9,train=30,test=20", NULL, NULL, &d));
        assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
        assert_ok(weft_dataset_prepare(d, WEFT_TEST));
        assert_ok(weft_dataset_read(d, WEFT_TRAIN, 3, 0, x));
        assert_ok(
            weft_dataset_set_augment(d, "crop:pad=2,resizedcrop,flip,vflip,color,rotate,erase"));
        assert_ok(weft_dataset_read(d, WEFT_TRAIN, 3, 0, y));
        assert_memory_equal(x, y, sizeof(x));
        assert_ok(weft_batch_open(d, &o, &b));
        weft_batch_make(d, &o, 1, 0, &b);
        if (k == 0) memcpy(whole, b.data[0], sizeof(whole));
        int first = k == 3 ? BATCH / 2 : 0;
        for (int row = 0; row < (int)b.size; row++)
            if (k != 2 || (row >= 3 && row < 8))
                assert_memory_equal(whole + (ptrdiff_t)(first + row) * SIDE * SIDE,
                                    weft_batch_rows(&b, 0, row), sizeof(x));
        weft_batch_close(&b);
        o = (weft_loader_options){.batch = BATCH, .split = WEFT_TEST};
        assert_ok(weft_batch_open(d, &o, &b));
        weft_batch_make(d, &o, 0, 0, &b);
        assert_ok(weft_dataset_read(d, WEFT_TEST, 2, 0, x));
        assert_memory_equal(x, weft_batch_rows(&b, 0, 2), sizeof(x));
        weft_batch_close(&b);
        weft_dataset_close(&d);
        weft_context_destroy(&c);
    }
}

/* Whether x is sample `own` with a share of sample `other`: their mean, or pixels of either, of
 * which so many are `other`'s as the share says. */
static bool is_mixed(const float *x, const float *own, const float *other, int count, double share)
{
    bool mean = true, either = true;
    double taken = 0, same = 0; /* same: pixels that show nothing */
    for (int j = 0; j < count; j++) {
        double want = (1 - share) * (double)own[j] + share * (double)other[j];
        mean = mean && fabs((double)x[j] - want) < 1e-5;
        either = either && (x[j] == own[j] || x[j] == other[j]);
        taken += x[j] != own[j];
        same += own[j] == other[j];
    }
    return mean || (either && taken <= share * count + 0.5 && taken + same >= share * count - 0.5);
}

/* A batch of samples that are mixed has, beside their labels and weights, those of other samples of
 * the batch of all parts; parts and threads leave the same bits. */
static void test_mixed_batches(void **state)
{
    (void)state;
    enum { BATCH = 12, SIDE = 9, PIXELS = SIDE * SIDE };
    static float samples[30][PIXELS], whole[BATCH * PIXELS], shares[BATCH];
    int32_t labels[30];
    const char *const lists[] = {"mixup=1", "cutmix", "cutmix,mixup=1"};
    for (int k = 0; k < 6; k++) {
        weft_context *c;
        weft_dataset *d;
        weft_batch b;
        weft_loader_options o = {.batch = BATCH, .shuffle = true, .seed = 4};
        if (k % 2) o.batch = BATCH / 2, o.parts = 2, o.part = 1;
        assert_ok(weft_context_with_threads(context, k % 2 ? 3 : 1, &c));
        assert_ok(weft_dataset_open(c, "glyphs:size=9,train=30,test=20", NULL, NULL, &d));
        assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
        assert_ok(weft_dataset_set_augment(d, lists[k / 2]));
        for (int i = 0; i < 30; i++) read_sample(d, WEFT_TRAIN, i, samples[i], &labels[i]);
        assert_ok(weft_batch_open(d, &o, &b));
        assert_int_equal(b.columns, 5);
        weft_batch_make(d, &o, 1, 0, &b);
        const float *weights = b.data[2], *mixed = b.data[4];
        int first = k % 2 ? BATCH / 2 : 0;
        for (int row = 0; row < (int)b.size; row++) {
            const float *x = weft_batch_rows(&b, 0, row);
            int32_t own = ((int32_t *)b.data[1])[row], other = ((int32_t *)b.data[3])[row];
            double share = (double)(mixed[row] / weights[row]);
            bool found = false;
            assert_true(share >= 0 && share <= 1);
            for (int i = 0; i < 30 && !found; i++)
                for (int j = 0; j < 30 && !found && labels[i] == own; j++)
                    found =
                        labels[j] == other && is_mixed(x, samples[i], samples[j], PIXELS, share);
            assert_true(found);
            if (k % 2 == 0)
                shares[row] = (float)share;
            else
                assert_true(fabs((double)shares[first + row] - share) < 1e-6);
        }
        if (k % 2 == 0) memcpy(whole, b.data[0], sizeof(whole));
        assert_memory_equal(whole + (ptrdiff_t)first * PIXELS, b.data[0],
                            (size_t)b.size * sizeof(samples[0]));
        weft_batch_close(&b);
        weft_dataset_close(&d);
        weft_context_destroy(&c);
    }
}

/* Beta(alpha, alpha) is symmetric, with the variance 1 / (4 (2 alpha + 1)). */
static void test_shares(void **state)
{
    (void)state;
    const double alphas[] = {0.01, 0.2, 1, 4};
    for (int k = 0; k < 4; k++) {
        weft_random r;
        double sum = 0, squares = 0;
        enum { DRAWS = 4000 };
        weft_random_start(&r, 3, (uint64_t)k);
        for (int i = 0; i < DRAWS; i++) {
            double x = weft_random_share(&r, alphas[k]);
            assert_true(x >= 0 && x <= 1);
            sum += x / DRAWS;
            squares += x * x / DRAWS;
        }
        assert_true(fabs(sum - 0.5) < 0.04);
        assert_true(fabs(squares - sum * sum - 0.25 / (2 * alphas[k] + 1)) < 0.01);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),    cmocka_unit_test(test_promises),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_classes),
        cmocka_unit_test(test_batches), cmocka_unit_test(test_mixed_batches),
        cmocka_unit_test(test_shares),
    };
    return cmocka_run_group_tests_name("augment", tests, setup, teardown);
}
