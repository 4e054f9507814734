/* Tests the validation split: a share of the training split of any source, other data, or what a
 * source brings. */
#include <math.h>

#include "context.h"

enum { MOST = 600 };

/* A number for each sample of a split that follows from all its columns. */
static int sum_up(const weft_dataset *d, weft_split split, uint64_t *out)
{
    static union {
        unsigned char bytes[1 << 16];
        float aligned;
    } room;
    int count = (int)weft_dataset_count(d, split);
    assert_true(count <= MOST);
    for (int i = 0; i < count; i++) {
        weft_column c;
        out[i] = 1469598103934665603u;
        for (int k = 0; weft_dataset_column(d, k, &c); k++) {
            size_t bytes = weft_type_bytes(&(weft_type){c.dtype, c.shape});
            assert_true(bytes <= sizeof(room));
            assert_ok(weft_dataset_read(d, split, i, k, room.bytes));
            for (size_t b = 0; b < bytes; b++) out[i] = (out[i] ^ room.bytes[b]) * 1099511628211u;
        }
    }
    return count;
}

static weft_dataset *open_all(const char *spec, const char *normalize, const char *validation,
                              uint64_t seed)
{
    weft_dataset *d;
    weft_status status =
        weft_dataset_open_validated(context, spec, normalize, NULL, validation, seed, &d);
    for (int i = 0; i < WEFT_SPLITS && status == WEFT_OK; i++)
        status = weft_dataset_prepare(d, (weft_split)i);
    if (status != WEFT_OK) fail_msg("%s: %s", spec, weft_last_message());
    return d;
}

/* Files of a table, arrays and a text. */
typedef struct files {
    char *folder, csv[4200], text[4200];
} files;

static files put_files(void)
{
    files f = {.folder = temporary_folder()};
    static char table[MOST * 40];
    int at = 0;
    for (int i = 0; i < 211; i++)
        at += snprintf(table + at, sizeof(table) - (size_t)at, "%d,%d,%s\n", i * i % 97 + 3, i,
                       i % 3 ? "left" : "right");
    write_file(f.folder, "t.csv", table, (size_t)at, f.csv, sizeof(f.csv));
    for (int i = 0; i < 4000; i++) table[i] = (char)('a' + (i * 7 + i / 11 * i % 5) % 26);
    write_file(f.folder, "t.txt", table, 4000, f.text, sizeof(f.text));
    return f;
}

/* The training and the validation split are those samples that the training has without it, each
 * once and in their order; the test split is as it was. */
static void check_share(const char *spec, const char *share)
{
    static uint64_t all[MOST], test[MOST], part[MOST], held[MOST], other[MOST];
    weft_dataset *d = open_all(spec, "none", NULL, 5);
    assert_int_equal(weft_dataset_count(d, WEFT_VALIDATION), 0);
    int n = sum_up(d, WEFT_TRAIN, all), tests = sum_up(d, WEFT_TEST, test);
    weft_dataset_close(&d);
    d = open_all(spec, "none", share, 5);
    int rest = sum_up(d, WEFT_TRAIN, part), taken = sum_up(d, WEFT_VALIDATION, held);
    assert_int_equal(rest + taken, n);
    assert_int_equal(taken, (int)(n * strtod(share, NULL) + 0.5));
    for (int i = 0, a = 0, b = 0; i < n; i++) {
        bool stays = a < rest && part[a] == all[i];
        if (!stays && !(b < taken && held[b] == all[i])) fail_msg("%s: sample %d is lost", spec, i);
        a += stays;
        b += !stays;
    }
    assert_int_equal(sum_up(d, WEFT_TEST, other), tests);
    assert_memory_equal(other, test, (size_t)tests * sizeof(*test));
    weft_dataset_close(&d);
    for (uint64_t seed = 5; seed < 7; seed++) {
        d = open_all(spec, "none", share, seed);
        assert_int_equal(sum_up(d, WEFT_VALIDATION, other), taken);
        if ((memcmp(other, held, (size_t)taken * sizeof(*held)) == 0) != (seed == 5))
            fail_msg("%s: seed %d", spec, (int)seed);
        weft_dataset_close(&d);
    }
}

static void test_shares(void **state)
{
    (void)state;
    files f = put_files();
    static const char *const shares[] = {"0.1", "0.37"};
    char specs[5][4300];
    (void)snprintf(specs[0], sizeof(specs[0]), "glyphs:size=9,train=123,test=9");
    (void)snprintf(specs[1], sizeof(specs[1]), "csv:%s,test=0.3", f.csv);
    (void)snprintf(specs[2], sizeof(specs[2]), "text:%s,context=16", f.text);
    (void)snprintf(specs[3], sizeof(specs[3]), "tokens:%s,values=40000,context=9", f.text);
    (void)snprintf(specs[4], sizeof(specs[4]), "pairs:%s,length=20,train=80,test=11", f.text);
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < 2; k++) check_share(specs[i], shares[k]);
    remove_folder(f.folder);
}

/* Statistics are those of the samples that remain. */
static void test_statistics(void **state)
{
    (void)state;
    files f = put_files();
    char spec[4300];
    (void)snprintf(spec, sizeof(spec), "csv:%s", f.csv);
    weft_dataset *d = open_all(spec, "standard", "0.5", 3);
    for (int split = 0; split < WEFT_SPLITS; split++) {
        double sum = 0;
        float x[2];
        int64_t count = weft_dataset_count(d, (weft_split)split);
        for (int64_t i = 0; i < count; i++) {
            assert_ok(weft_dataset_read(d, (weft_split)split, i, 0, x));
            sum += (double)x[0];
        }
        assert_true((fabs(sum / (double)count) < 1e-6) == (split == WEFT_TRAIN));
    }
    weft_dataset_close(&d);
    remove_folder(f.folder);
}

/* Other data are all samples of a file, or the test part that they name, with the statistics and
 * the classes of the training. */
static void test_other_data(void **state)
{
    (void)state;
    files f = put_files();
    char spec[4300], other[4200], with[4300];
    int32_t label;
    float x[2];
    static const char text[] = "5,1,right\n9,2,left\n7,3,right\n8,4,right\n6,5,left\n";
    (void)snprintf(spec, sizeof(spec), "csv:%s", f.csv);
    write_file(f.folder, "o.csv", text, strlen(text), other, sizeof(other));
    (void)snprintf(with, sizeof(with), "csv:%s", other);
    weft_dataset *d = open_all(spec, "standard", with, 3);
    const weft_data_stats *s = weft_dataset_stats(d);
    assert_int_equal(weft_dataset_count(d, WEFT_TRAIN), 169);
    assert_int_equal(weft_dataset_count(d, WEFT_VALIDATION), 5);
    for (int i = 0; i < 5; i++) {
        assert_ok(weft_dataset_read(d, WEFT_VALIDATION, i, 0, x));
        assert_ok(weft_dataset_read(d, WEFT_VALIDATION, i, 1, &label));
        assert_true(fabs((double)x[1] * s->deviation[1] + s->mean[1] - (i + 1)) < 1e-4);
        assert_string_equal(s->class_names[label], i == 1 || i == 4 ? "left" : "right");
        assert_true(weft_dataset_weight(d, WEFT_VALIDATION, i, 0) == 1);
    }
    weft_dataset_close(&d);
    (void)snprintf(with, sizeof(with), "csv:%s,test=0.4", other);
    d = open_all(spec, "standard", with, 3);
    assert_int_equal(weft_dataset_count(d, WEFT_VALIDATION), 2);
    weft_dataset_close(&d);
    remove_folder(f.folder);
}

static void refused(const char *spec, const char *validation, const char *words)
{
    weft_dataset *d = NULL;
    weft_status status = weft_dataset_open_validated(context, spec, NULL, NULL, validation, 1, &d);
    if (status == WEFT_OK) status = weft_dataset_prepare(d, WEFT_VALIDATION);
    assert_refused(status, WEFT_ERR_ARGUMENT, words);
    weft_dataset_close(&d);
}

static void test_refused(void **state)
{
    (void)state;
    files f = put_files();
    char spec[4300];
    static const char data[] = "glyphs:size=9,train=23,test=9";
    refused(data, "1", "validation is 1, must be a share of the training part above 0 and below 1");
    refused(data, "-0.1", "must be a share of the training part above 0 and below 1, or");
    refused(data, "0.01", "validation is 0.01 of 23 samples of the training part, which is none");
    refused(data, "0.99", "of 23 samples of the training part, which is all of them");
    refused(data, "nothing:x", "data 'nothing:x'");
    refused(
        data, "glyphs:size=8",
        "validation: data 'glyphs:size=8' have samples of shape [1, 8, 8], the training data had "
        "[1, 9, 9]");
    (void)snprintf(spec, sizeof(spec), "text:%s,context=16,stride=3", f.text);
    refused(spec, "0.1", "the samples of the training overlap");
    remove_folder(f.folder);
}

/* --- a source with a validation split of its own --- */

static weft_status open_own(weft_context *c, const char *arguments, const weft_data_stats *trained,
                            void **state, weft_data_form *form)
{
    (void)c;
    (void)arguments;
    (void)trained;
    *state = form;
    form->inputs = 1;
    form->input[0] = (weft_input){.name = "x", .dtype = WEFT_F32, .shape = {.rank = 1, .dim = {1}}};
    form->count[WEFT_TRAIN] = 8;
    form->count[WEFT_TEST] = 3;
    form->validation = 4;
    form->classes = 2;
    return WEFT_OK;
}

static void close_own(void *state)
{
    (void)state;
}

static weft_status read_own(void *state, const weft_sample_key *key, weft_sample *sample)
{
    (void)state;
    float x = (float)(100 * (int)key->split + key->sample);
    if (sample->input[0]) {
        memcpy(sample->input[0], &x, sizeof(x));
        sample->written[0] = sizeof(x);
    }
    if (sample->label) *sample->label = (int32_t)(key->sample % 2);
    return WEFT_OK;
}

static void test_own_split(void **state)
{
    (void)state;
    static const weft_data_ops ops = {
        .struct_size = sizeof(ops), .open = open_own, .close = close_own, .read = read_own};
    const weft_entry entry = {
        .kind = WEFT_KIND_DATA, .name = "own", .summary = "numbers", .form = "own", .ops = &ops};
    float x;
    assert_ok(weft_context_register(context, &entry, 1));
    weft_dataset *d = open_all("own", "none", NULL, 1);
    assert_int_equal(weft_dataset_count(d, WEFT_VALIDATION), 4);
    assert_ok(weft_dataset_read(d, WEFT_VALIDATION, 3, 0, &x));
    assert_true(x == 203);
    weft_dataset_close(&d);
    refused("own", "0.5", "the data have a validation part of their own; leave it out");
    refused("own", "own", "the data have a validation part of their own; leave it out");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),     cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_other_data), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_own_split),
    };
    return cmocka_run_group_tests_name("validation", tests, setup, teardown);
}
