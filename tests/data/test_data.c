/* The data sets glyphs, CSV, NPY and IDX, their normalization, and the loader. */
#include <math.h>

#include "data/data.h"
#include "formats/safetensors.h"
#include "learner/learner_internal.h"
#include "context.h"

#define GLYPHS_CRC 0x37125a2fu

/* The data set glyphs is drawn alike on every platform: its pixels have the checksum GLYPHS_CRC. */
static void test_glyphs_are_the_same_everywhere(void **state)
{
    (void)state;
    weft_dataset *d;
    unsigned char pixels[64][784];
    float x[784];
    assert_ok(weft_dataset_open(context, "glyphs:train=64,test=3", "none", NULL, &d));
    assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
    int seen = 0;
    for (int i = 0; i < 64; i++) {
        int32_t label;
        read_sample(d, WEFT_TRAIN, i, x, &label);
        assert_true(label >= 0 && label < 10);
        seen |= 1 << label;
        for (int j = 0; j < 784; j++) pixels[i][j] = (unsigned char)x[j];
    }
    assert_int_equal(seen, 1023);
    assert_int_equal(weft_crc32(pixels, sizeof(pixels)), GLYPHS_CRC);
    weft_dataset_close(&d);
}

static void test_glyphs_of_any_size(void **state)
{
    (void)state;
    weft_dataset *d;
    assert_ok(weft_dataset_open(context, "glyphs:size=71,train=5,test=2,seed=4", "unit", NULL, &d));
    assert_ok(weft_dataset_prepare(d, WEFT_TEST));
    assert_int_equal(weft_dataset_shape(d).dim[2], 71);
    assert_int_equal(weft_dataset_count(d, WEFT_TEST), 2);
    weft_dataset_close(&d);
    assert_refused(weft_dataset_open(context, "glyphs:sise=7", NULL, NULL, &d), WEFT_ERR_ARGUMENT,
                   "'size'");
    assert_refused(weft_dataset_open(context, "glyphs:size=2", NULL, NULL, &d), WEFT_ERR_ARGUMENT,
                   "from 8");
    assert_refused(weft_dataset_open(context, "glyphs", "untit", NULL, &d), WEFT_ERR_ARGUMENT,
                   "no normalization is named 'untit'; did you mean 'unit'?");
    assert_refused(weft_dataset_open(context, "glyph", NULL, NULL, &d), WEFT_ERR_ARGUMENT,
                   "'glyphs'");
}

static const void *column_of(const weft_batch *b, weft_port_role role)
{
    return b->data[weft_batch_find(b, role, "")];
}

/* Each sample comes once in an epoch; the last batch is padded with samples of weight zero. */
static void test_loader_covers_each_epoch(void **state)
{
    (void)state;
    weft_dataset *d;
    weft_loader *l;
    char *folder = temporary_folder(), path[4200], spec[4300];
    weft_text text = {0};
    for (int i = 0; i < 103; i++) weft_text_add(&text, "%d,%d\n", i, i % 2);
    write_file(folder, "t.csv", text.data, text.size, path, sizeof(path));
    free(text.data);
    (void)snprintf(spec, sizeof(spec), "csv:%s,test=0", path);
    assert_ok(weft_dataset_open(context, spec, "none", NULL, &d));
    assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
    weft_loader_options o = {
        .split = WEFT_TRAIN, .batch = 10, .seed = 3, .shuffle = true, .epochs = 2};
    assert_ok(weft_loader_start(d, &o, &l));
    int seen[2][103] = {{0}}, batches = 0, moved = 0;
    for (const weft_batch *b; (b = weft_loader_next(l)); batches++) {
        const float *x = column_of(b, WEFT_PORT_FEATURES),
                    *weights = column_of(b, WEFT_PORT_WEIGHTS);
        const int32_t *labels = column_of(b, WEFT_PORT_TARGET);
        float total = 0;
        for (int i = 0; i < b->size; i++) {
            total += weights[i];
            assert_true((weights[i] > 0) == (i < b->valid));
            if (i >= b->valid) continue;
            seen[b->epoch][(int)x[i]]++;
            moved += (int)x[i] != (b->done - 1) / 10 * 10 + i;
            assert_int_equal(labels[i], (int)x[i] % 2);
        }
        assert_true(total > 0.9999f && total < 1.0001f);
        assert_int_equal(b->valid, b->last ? 3 : 10);
    }
    assert_int_equal(batches, 22);
    assert_true(moved > 150);
    for (int i = 0; i < 103; i++) assert_true(seen[0][i] == 1 && seen[1][i] == 1);
    weft_loader_stop(&l);
    /* A loader that is started in the middle gives the remaining batches of the first one. */
    weft_loader *whole, *rest;
    assert_ok(weft_loader_start(d, &o, &whole));
    o.epoch = 1;
    o.done = 40;
    assert_ok(weft_loader_start(d, &o, &rest));
    for (int i = 0; i < 15; i++) (void)weft_loader_next(whole);
    for (const weft_batch *b; (b = weft_loader_next(rest));)
        assert_memory_equal(column_of(b, WEFT_PORT_FEATURES),
                            column_of(weft_loader_next(whole), WEFT_PORT_FEATURES),
                            10 * sizeof(float));
    assert_null(weft_loader_next(whole));
    weft_loader_stop(&rest);
    o.epochs = INT64_MAX; /* stopped while it waits for room */
    assert_ok(weft_loader_start(d, &o, &rest));
    weft_loader_stop(&rest);
    weft_loader_stop(&whole);
    weft_dataset_close(&d);
    remove_folder(folder);
}

/* A column of times in milliseconds that are close to each other, as CSV and as NPY. float32 cannot
 * tell them apart at 1.7e12, but can after the mean has been subtracted in double precision. */
static void check_far_column(const char *folder)
{
    static const double off[] = {-3, -1, 1, 3};
    unsigned char array[128 + 32], labels[128 + 4] = {0};
    char text[200] = "", path[4200], other[4200], spec[9000];
    static const char head[] = "\x93NUMPY\x01\x00\x76\x00";
    memcpy(array, head, 10);
    memcpy(labels, head, 10);
    (void)snprintf((char *)array + 10, 119, "%-117s\n",
                   "{'descr': '<f8', 'fortran_order': False, 'shape': (4, 1), }");
    (void)snprintf((char *)labels + 10, 119, "%-117s\n",
                   "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }");
    for (int i = 0; i < 4; i++) {
        double x = 1.7e12 + off[i];
        memcpy(array + 128 + 8 * i, &x, sizeof(x));
        labels[128 + i] = (unsigned char)(i % 2);
        (void)snprintf(text + strlen(text), 40, "%.17g,%d\n", x, i % 2);
    }
    for (int kind = 0; kind < 2; kind++) {
        weft_dataset *d;
        write_file(folder, "far.csv", text, strlen(text), path, sizeof(path));
        (void)snprintf(spec, sizeof(spec), "csv:%s,test=0", path);
        if (kind == 1) {
            write_file(folder, "far.npy", (char *)array, sizeof(array), path, sizeof(path));
            write_file(folder, "y.npy", (char *)labels, sizeof(labels), other, sizeof(other));
            (void)snprintf(spec, sizeof(spec), "npy:%s,%s,test=0", path, other);
        }
        assert_ok(weft_dataset_open(context, spec, "auto", NULL, &d));
        assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
        for (int i = 0; i < 4; i++) {
            float x;
            int32_t label;
            read_sample(d, WEFT_TRAIN, i, &x, &label);
            assert_int_equal(label, i % 2);
            assert_true(fabs((double)x - off[i] / sqrt(5)) < 1e-3);
        }
        weft_dataset_close(&d);
    }
}

/* With normalization auto, columns of the training part have mean 0 and deviation 1, and a constant
 * column is 0. The statistics of one data set can be applied to another. */
static void test_csv_is_standardised(void **state)
{
    (void)state;
    weft_dataset *d, *other;
    char *folder = temporary_folder(), path[4200], spec[4300];
    const char *text = "w,x,y\n1,5,cat\n2,5,dog\n3,5,cat\n4,5,dog\n5,5,cat\n";
    write_file(folder, "a.csv", text, strlen(text), path, sizeof(path));
    (void)snprintf(spec, sizeof(spec), "csv:%s,label=y,test=0.2", path);
    assert_ok(weft_dataset_open(context, spec, "auto", NULL, &d));
    assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
    assert_int_equal(weft_dataset_count(d, WEFT_TRAIN), 4);
    double sum = 0, square = 0;
    for (int i = 0; i < 4; i++) {
        float x[2];
        int32_t label;
        read_sample(d, WEFT_TRAIN, i, x, &label);
        sum += (double)x[0];
        square += (double)(x[0] * x[0]);
        assert_true(x[1] == 0);
    }
    assert_true(sum < 1e-5 && sum > -1e-5 && square > 3.999 && square < 4.001);
    check_far_column(folder);
    const char *more = "w,x,y\n10,7,dog\n";
    write_file(folder, "b.csv", more, strlen(more), path, sizeof(path));
    (void)snprintf(spec, sizeof(spec), "csv:%s,test=1", path);
    assert_ok(weft_dataset_open(context, spec, "auto", weft_dataset_stats(d), &other));
    assert_ok(weft_dataset_prepare(other, WEFT_TEST));
    float x[2];
    int32_t label;
    read_sample(other, WEFT_TEST, 0, x, &label);
    assert_int_equal(label, 1); /* dog, though it is the only class of that file */
    assert_true(x[1] == 2);
    weft_dataset_close(&other);
    const char *bird = "w,x,y\n10,7,bird\n";
    write_file(folder, "c.csv", bird, strlen(bird), path, sizeof(path));
    (void)snprintf(spec, sizeof(spec), "csv:%s,test=1", path);
    assert_ok(weft_dataset_open(context, spec, "auto", weft_dataset_stats(d), &other));
    assert_refused(weft_dataset_prepare(other, WEFT_TEST), WEFT_ERR_ARGUMENT, "'bird'");
    weft_dataset_close(&other);
    weft_dataset_close(&d);
    remove_folder(folder);
}

/* An input gets the column of its role; if several columns have the role, the one of its name. */
static void test_columns_go_to_inputs(void **state)
{
    (void)state;
    const weft_batch b = {.columns = 4,
                          .column = {{"left", WEFT_PORT_FEATURES, WEFT_F32, {.rank = 0}},
                                     {"right", WEFT_PORT_FEATURES, WEFT_F32, {.rank = 0}},
                                     {"labels", WEFT_PORT_TARGET, WEFT_I32, {.rank = 0}},
                                     {"weights", WEFT_PORT_WEIGHTS, WEFT_F32, {.rank = 0}}}};
    assert_int_equal(weft_batch_find(&b, WEFT_PORT_FEATURES, "left"), 0);
    assert_int_equal(weft_batch_find(&b, WEFT_PORT_FEATURES, "right"), 1);
    assert_int_equal(weft_batch_find(&b, WEFT_PORT_TARGET, "y"), 2);
    const weft_port x = {"x", WEFT_PORT_FEATURES, WEFT_NO_VALUE};
    const weft_port first = {"first_sample", WEFT_PORT_POSITION, WEFT_NO_VALUE};
    assert_refused(weft_feed_port(NULL, NULL, &x, WEFT_NO_VALUE, &b, 0), WEFT_ERR_ARGUMENT,
                   "model's input 'x' (features); they have left (features), right (features), "
                   "labels (target), weights (weights)");
    assert_ok(weft_feed_port(NULL, NULL, &first, WEFT_NO_VALUE, &b, 0));
}

static void put_idx(const char *folder, const char *name, int dims, int count, int value)
{
    char path[4200];
    unsigned char file[1024] = {
        0, 0, 8, (unsigned char)dims, 0, 0, 0, (unsigned char)count, 0, 0, 0, 2, 0, 0, 0, 3};
    size_t header = dims == 1 ? 8 : 16, size = dims == 1 ? (size_t)count : (size_t)count * 6;
    for (size_t i = 0; i < size; i++)
        file[header + i] = (unsigned char)(dims == 1 ? (i == 0 ? value : (int)(i % 2)) : (int)i);
    write_file(folder, name, file, header + size, path, sizeof(path));
}

static void test_idx_folders(void **state)
{
    (void)state;
    weft_dataset *d;
    char *folder = temporary_folder(), spec[4200];
    (void)snprintf(spec, sizeof(spec), "idx:%s", folder);
    assert_refused(weft_dataset_open(context, spec, NULL, NULL, &d), WEFT_ERR_IO,
                   "has no file train-images-idx3-ubyte or train-images-idx3-ubyte.gz; give");
    put_idx(folder, "train-images-idx3-ubyte", 3, 4, 0);
    assert_refused(weft_dataset_open(context, spec, NULL, NULL, &d), WEFT_ERR_IO,
                   "has no file train-labels-idx1-ubyte or train-labels-idx1-ubyte.gz; give");
    put_idx(folder, "train-labels-idx1-ubyte", 1, 4, 0);
    put_idx(folder, "t10k-images-idx3-ubyte", 3, 2, 0);
    put_idx(folder, "t10k-labels-idx1-ubyte", 1, 2, 7);
    assert_ok(weft_dataset_open(context, spec, NULL, NULL, &d));
    assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
    assert_int_equal(weft_dataset_shape(d).dim[1], 2);
    assert_refused(weft_dataset_prepare(d, WEFT_TEST), WEFT_ERR_FORMAT,
                   "the test part, sample 0: the label is 7, and the 2 classes are from 0 to 1");
    weft_dataset_close(&d);
    weft_dataset *bare;
    char labels[4200];
    (void)snprintf(labels, sizeof(labels), "%s/t10k-labels-idx1-ubyte", folder);
    assert_int_equal(remove(labels), 0);
    double zero = 0, one = 1;
    const weft_data_stats stats = {
        .inputs = 1,
        .input = {{"x", WEFT_F32, weft_shape_of(3, (int64_t[]){1, 2, 3}), 0}},
        .features = 1,
        .mean = &zero,
        .deviation = &one,
        .classes = 2};
    assert_refused(weft_dataset_open(context, spec, NULL, &stats, &bare), WEFT_ERR_IO,
                   "t10k-labels-idx1-ubyte");
    assert_ok(weft_dataset_open_unlabelled(context, spec, &stats, &bare));
    assert_ok(weft_dataset_prepare(bare, WEFT_TEST));
    assert_false(weft_dataset_labelled(bare));
    assert_int_equal(weft_dataset_count(bare, WEFT_TEST), 2);
    weft_dataset_close(&bare);
    put_idx(folder, "t10k-labels-idx1-ubyte", 1, 2, 7);
    put_idx(folder, "train-labels-idx1-ubyte", 1, 3, 0);
    assert_ok(weft_dataset_open(context, spec, NULL, NULL, &d));
    assert_refused(weft_dataset_prepare(d, WEFT_TRAIN), WEFT_ERR_FORMAT, "4 images and 3 labels");
    weft_dataset_close(&d);
    put_idx(folder, "train-images-idx3-ubyte", 1, 4, 0); /* labels in place of images */
    assert_refused(weft_dataset_open(context, spec, NULL, NULL, &d), WEFT_ERR_FORMAT,
                   "images need 2 to 4");
    remove_folder(folder);
}

/* IDX labels of four bytes: only 0 to 65535 can be classes. */
static void test_idx_labels(void **state)
{
    (void)state;
    static const int64_t labels[] = {0, 1, 65535, 65536, -1, INT32_MAX, INT32_MIN};
    char *folder = temporary_folder(), spec[4200], path[4200];
    (void)snprintf(spec, sizeof(spec), "idx:%s", folder);
    put_idx(folder, "train-images-idx3-ubyte", 3, 2, 0);
    put_idx(folder, "t10k-images-idx3-ubyte", 3, 2, 0);
    put_idx(folder, "t10k-labels-idx1-ubyte", 1, 2, 0);
    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
        weft_dataset *d;
        char words[64];
        unsigned char file[] = {0, 0, 12, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0};
        for (int k = 0; k < 4; k++)
            file[12 + k] = (unsigned char)((uint32_t)labels[i] >> (24 - 8 * k) & 255);
        write_file(folder, "train-labels-idx1-ubyte", file, sizeof(file), path, sizeof(path));
        assert_ok(weft_dataset_open(context, spec, NULL, NULL, &d));
        (void)snprintf(words, sizeof(words), "training label 1 is %g,", (double)labels[i]);
        if (labels[i] >= 0 && labels[i] <= 65535) {
            assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
            assert_int_equal(weft_dataset_stats(d)->classes, labels[i] > 1 ? labels[i] + 1 : 2);
        } else {
            assert_refused(weft_dataset_prepare(d, WEFT_TRAIN), WEFT_ERR_FORMAT, words);
        }
        weft_dataset_close(&d);
    }
    remove_folder(folder);
}

/* Mapped files may change during a run: a batch with a class or token that is out of range since
 * then is refused, and what is read indexes nothing beyond an array. */
static void test_files_that_change(void **state)
{
    (void)state;
    char *folder = temporary_folder(), spec[4400], path[4300];
    for (int what = 0; what < 2; what++) { /* labels of an IDX folder, tokens of a file */
        weft_dataset *d;
        weft_loader *l;
        uint16_t tokens[60];
        for (int i = 0; i < 60; i++) tokens[i] = (uint16_t)(i % 7);
        put_idx(folder, "train-images-idx3-ubyte", 3, 9, 0);
        put_idx(folder, "train-labels-idx1-ubyte", 1, 9, 0);
        put_idx(folder, "t10k-images-idx3-ubyte", 3, 9, 0);
        put_idx(folder, "t10k-labels-idx1-ubyte", 1, 9, 0);
        write_file(folder, "t.bin", tokens, sizeof(tokens), path, sizeof(path));
        (void)snprintf(spec, sizeof(spec),
                       what ? "tokens:%s,values=7,context=5,test=0.5" : "idx:%s",
                       what ? path : folder);
        assert_ok(weft_dataset_open(context, spec, NULL, NULL, &d));
        assert_ok(weft_dataset_prepare(d, WEFT_TEST));
        if (!what) (void)snprintf(path, sizeof(path), "%s/t10k-labels-idx1-ubyte", folder);
        FILE *file = fopen(path, "r+b");
        assert_non_null(file);
        assert_int_equal(fseek(file, what ? 2 * 42 : 8 + 4, SEEK_SET), 0);
        assert_int_equal(fputc(255, file), 255);
        assert_int_equal(fclose(file), 0);
        weft_loader_options o = {.split = WEFT_TEST, .batch = 2, .epochs = 1};
        assert_ok(weft_loader_start(d, &o, &l));
        int refused = 0;
        for (const weft_batch *b; (b = weft_loader_next(l));) {
            if (weft_batch_check(b, d, WEFT_TEST) == WEFT_OK) continue;
            refused++;
            assert_non_null(strstr(weft_last_message(),
                                   what ? "t.bin: token 42 (byte 84) is 255, must be from 0 to 6"
                                        : "the test part, sample 4: the label is 255, and the"));
            for (int c = 0; c < b->columns; c++)
                for (int64_t i = 0; b->column[c].dtype == WEFT_I32 && i < b->valid; i++)
                    assert_true(*(const int32_t *)weft_batch_rows(b, c, i) < 10);
        }
        assert_int_equal(refused, 1);
        weft_loader_stop(&l);
        weft_dataset_close(&d);
    }
    remove_folder(folder);
}

static void test_mnist(void **state)
{
    (void)state;
    const char *folder = shared_data("mnist15k");
    char spec[4200];
    weft_dataset *d;
    if (!folder) skip();
    (void)snprintf(spec, sizeof(spec), "idx:%s", folder);
    assert_ok(weft_dataset_open(context, spec, "standard", NULL, &d));
    assert_ok(weft_dataset_prepare(d, WEFT_TEST));
    assert_int_equal(weft_dataset_count(d, WEFT_TRAIN), 10000);
    assert_int_equal(weft_dataset_count(d, WEFT_TEST), 5000);
    const weft_data_stats *stats = weft_dataset_stats(d);
    assert_int_equal(stats->classes, 10);
    assert_true(stats->mean[0] > 30 && stats->mean[0] < 37 && stats->deviation[0] > 75);
    weft_dataset_close(&d);
}

/* A context that keeps data sets reads each specification once, whoever opens and closes it, and
 * also if the first one who did had a context of threads of its own. */
static void test_kept_data_are_read_once(void **state)
{
    (void)state;
    static const char text[] = "a,b,kind\n1,2,x\n2,1,y\n3,5,x\n4,1,y\n5,1,x\n";
    weft_context *c, *own;
    weft_dataset *first = NULL, *again = NULL, *other = NULL;
    char *folder = temporary_folder(), path[4200], spec[4300];
    write_file(folder, "t.csv", text, sizeof(text) - 1, path, sizeof(path));
    (void)snprintf(spec, sizeof(spec), "csv:%s,test=0.2", path);
    assert_ok(weft_context_create(&c));
    assert_ok(weft_context_with_threads(c, 1, &own));
    assert_ok(weft_dataset_keep(c));
    assert_ok(weft_dataset_open(own, spec, "none", NULL, &first));
    assert_ok(weft_dataset_prepare(first, WEFT_TRAIN));
    weft_dataset *same = first;
    weft_dataset_close(&first);
    assert_null(first);
    weft_context_destroy(&own);
    assert_int_equal(unlink(path), 0);
    assert_ok(weft_dataset_open(c, spec, "none", NULL, &again));
    assert_ptr_equal(again, same);
    assert_int_equal(weft_dataset_count(again, WEFT_TRAIN), 4);
    assert_refused(weft_dataset_open(c, spec, "standard", NULL, &other), WEFT_ERR_IO, "t.csv");
    assert_refused(weft_dataset_open(c, spec, "none", weft_dataset_stats(again), &other),
                   WEFT_ERR_IO, "t.csv");
    weft_dataset_close(&again);
    weft_context_destroy(&c);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_glyphs_are_the_same_everywhere),
        cmocka_unit_test(test_glyphs_of_any_size),
        cmocka_unit_test(test_loader_covers_each_epoch),
        cmocka_unit_test(test_csv_is_standardised),
        cmocka_unit_test(test_columns_go_to_inputs),
        cmocka_unit_test(test_idx_folders),
        cmocka_unit_test(test_idx_labels),
        cmocka_unit_test(test_files_that_change),
        cmocka_unit_test(test_mnist),
        cmocka_unit_test(test_kept_data_are_read_once),
    };
    return cmocka_run_group_tests_name("data", tests, setup, teardown);
}
