/* Tests how data files are read: layouts of images, series and volumes in NPY files, and which
 * labels are classes. */
#include "base/base.h"
#include "context.h"
#include "data/data.h"

/* Writes an NPY file of bytes, as numpy.save does: element j is j % 251 or, in an array of one
 * dimension (labels), j % 2. */
static void put_npy(const char *folder, const char *name, const char *shape, int count,
                    const char *type, char *path, size_t room)
{
    unsigned char file[8192] = "\x93NUMPY\x01";
    int size = snprintf((char *)file + 10, 200,
                        "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n", type, shape);
    file[8] = (unsigned char)size;
    for (int i = 0; i < count; i++)
        file[10 + size + i] = (unsigned char)(shape[1] == ',' && !shape[2] ? i % 2 : i % 251);
    write_file(folder, name, file, (size_t)(10 + size + count), path, room);
}

typedef struct layout_case {
    const char *shape, *how;
    int h, w, c;
    bool last; /* channels come last in the file */
    const char *said;
} layout_case;

/* Whether x, with channels first, is sample n of the file. */
static bool is_sample(const layout_case *k, int n, const float *x)
{
    int size = k->h * k->w * k->c;
    for (int z = 0; z < k->c; z++)
        for (int p = 0; p < k->h * k->w; p++) {
            int at = k->last ? p * k->c + z : z * k->h * k->w + p;
            if (x[z * k->h * k->w + p] != (float)((n * size + at) % 251)) return false;
        }
    return true;
}

static void check_layout(const layout_case *k, const char *spec)
{
    weft_dataset *d;
    said s = {0};
    float x[1000];
    weft_context_set_log(context, hear, &s);
    assert_ok(weft_dataset_open(context, spec, "none", NULL, &d));
    assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
    assert_int_equal(s.lines, k->said != NULL);
    if (k->said) {
        char words[200];
        (void)snprintf(words, sizeof(words), "samples [%s] are taken for %s (layout=%s)",
                       strchr(k->shape, ' ') + 1,
                       k->last ? "height, width, channels" : "channels, height, width", k->said);
        if (!strstr(s.last, words)) fail_msg("said '%s'", s.last);
    }
    weft_shape shape = weft_dataset_shape(d);
    assert_true(shape.rank == 3 && shape.dim[0] == k->c && shape.dim[1] == k->h &&
                shape.dim[2] == k->w);
    for (int64_t i = 0; i < weft_dataset_count(d, WEFT_TRAIN); i++) {
        int32_t label;
        bool found = false;
        read_sample(d, WEFT_TRAIN, i, x, &label);
        for (int n = 0; n < 4 && !found; n++) /* a sample of the file, with its label */
            found = label == n % 2 && is_sample(k, n, x);
        assert_true(found);
    }
    weft_dataset_close(&d);
    weft_context_set_log(context, NULL, NULL);
}

/* A data set puts the channels of an image first, wherever they are in the file. */
static void test_layouts_of_images(void **state)
{
    (void)state;
    static const layout_case cases[] = {
        {"4, 9, 11, 3", "", 9, 11, 3, true, "hwc"},
        {"4, 3, 9, 11", "", 9, 11, 3, false, "chw"},
        {"4, 9, 11, 1", "", 9, 11, 1, true, "hwc"},
        {"4, 1, 9, 11", "", 9, 11, 1, false, "chw"},
        {"4, 9, 11, 4", "", 9, 11, 4, true, "hwc"},
        {"4, 9, 11, 3", ",layout=hwc", 9, 11, 3, true, NULL},
        {"4, 9, 11, 3", ",layout=chw,test=0", 11, 3, 9, false, NULL},
        {"4, 3, 9, 11", ",layout=hwc", 3, 9, 11, true, NULL},
        {"4, 5, 6, 7", ",layout=hwc", 5, 6, 7, true, NULL},
        {"4, 5, 6, 7", ",layout=chw", 6, 7, 5, false, NULL},
        {"4, 9, 11", "", 9, 11, 1, false, NULL},
    };
    char *folder = temporary_folder(), images[4200], labels[4200], spec[8500];
    put_npy(folder, "y.npy", "4,", 4, "|u1", labels, sizeof(labels));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const layout_case *k = &cases[i];
        char name[16];
        (void)snprintf(name, sizeof(name), "x%zu.npy", i);
        put_npy(folder, name, k->shape, 4 * k->h * k->w * k->c, "|u1", images, sizeof(images));
        (void)snprintf(spec, sizeof(spec), "npy:%s,%s%s", images, labels,
                       *k->how ? k->how : ",test=0");
        check_layout(k, spec);
    }
    remove_folder(folder);
}

static void test_layouts_refused(void **state)
{
    (void)state;
    static const struct {
        const char *shape, *how, *words;
    } bad[] = {
        {"4, 5, 6, 7", "",
         "where the channels of samples [5, 6, 7] are; give layout=hwc or layout=chw"},
        {"4, 3, 9, 3", "", "give layout=hwc or layout=chw"},
        {"4, 16, 8, 2", "", "give layout=hwc or layout=chw"},
        {"4, 9, 11, 3", ",layout=whc",
         "layout is 'whc', must be one of w, hw, dhw, cw, wc, chw, hwc"},
        {"4, 9, 11", ",layout=hwc", "have 2 dimensions; give one of hw, cw, wc"},
        {"4, 9, 11, 3", ",layout=cw", "have 3 dimensions; give one of dhw, chw, hwc"},
    };
    char *folder = temporary_folder(), images[4200], labels[4200], spec[8500];
    put_npy(folder, "y.npy", "4,", 4, "|u1", labels, sizeof(labels));
    for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
        weft_dataset *d;
        int n = 1, a = 1, b = 1, c = 1;
        (void)sscanf(bad[k].shape, "%d, %d, %d, %d", &n, &a, &b, &c);
        put_npy(folder, "bad.npy", bad[k].shape, n * a * b * c, "|u1", images, sizeof(images));
        (void)snprintf(spec, sizeof(spec), "npy:%s,%s%s", images, labels, bad[k].how);
        assert_refused(weft_dataset_open(context, spec, "none", NULL, &d), WEFT_ERR_ARGUMENT,
                       bad[k].words);
    }
    remove_folder(folder);
}

/* Shapes of series and volumes, and the order of their elements, which are numbered in the file. */
static void test_layouts_of_series_and_volumes(void **state)
{
    (void)state;
    static const struct {
        const char *shape, *how;
        int rank;
        int64_t dim[4], step[4]; /* step: distance of neighbours in the file */
    } cases[] = {
        {"2, 7", ",layout=w", 2, {1, 7}, {0, 1}},
        {"2, 7", "", 1, {7}, {1}},
        {"2, 3, 7", ",layout=cw", 2, {3, 7}, {7, 1}},
        {"2, 3, 7", ",layout=tc", 2, {3, 7}, {7, 1}},
        {"2, 3, 7", ",layout=wc", 2, {7, 3}, {1, 7}},
        {"2, 3, 7", ",layout=hw", 3, {1, 3, 7}, {0, 7, 1}},
        {"2, 3, 4, 5", ",layout=dhw", 4, {1, 3, 4, 5}, {0, 20, 5, 1}},
        {"2, 2, 3, 4, 5", "", 4, {2, 3, 4, 5}, {60, 20, 5, 1}},
        {"2, 2, 3, 4, 5", ",layout=cdhw", 4, {2, 3, 4, 5}, {60, 20, 5, 1}},
        {"2, 2, 3, 4, 5", ",layout=dhwc", 4, {5, 2, 3, 4}, {1, 60, 20, 5}},
    };
    char *folder = temporary_folder(), path[4200], labels[4200], spec[8500];
    put_npy(folder, "y.npy", "2,", 2, "|u1", labels, sizeof(labels));
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        weft_dataset *d;
        float x[300];
        int32_t label;
        char name[16];
        int64_t size = 1, at[4] = {0};
        for (int i = 0; i < cases[k].rank; i++) size *= cases[k].dim[i];
        (void)snprintf(name, sizeof(name), "s%zu.npy", k);
        put_npy(folder, name, cases[k].shape, (int)(2 * size), "|u1", path, sizeof(path));
        (void)snprintf(spec, sizeof(spec), "npy:%s,%s,test=0%s", path, labels, cases[k].how);
        assert_ok(weft_dataset_open(context, spec, "none", NULL, &d));
        assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
        weft_shape shape = weft_dataset_shape(d);
        assert_int_equal(shape.rank, cases[k].rank);
        for (int i = 0; i < shape.rank; i++) assert_int_equal(shape.dim[i], cases[k].dim[i]);
        read_sample(d, WEFT_TRAIN, 0, x, &label);
        for (int64_t i = 0; i < size; i++) {
            int64_t place = label * size;
            for (int j = 0; j < shape.rank; j++) place += at[j] * cases[k].step[j];
            assert_int_equal((int)x[i], place % 251);
            for (int j = shape.rank; j-- > 0 && ++at[j] == shape.dim[j];) at[j] = 0;
        }
        weft_dataset_close(&d);
    }
    remove_folder(folder);
}

/* Opens a CSV file whose labels are `distinct` different multiples of `step`, printed by `format`.
 * Many different labels that are not consecutive whole numbers look like measured values and are
 * refused as classes. */
static weft_status open_labels(const char *folder, int rows, const char *format, int distinct,
                               double step)
{
    weft_text text = {0};
    char path[4200], spec[4300];
    weft_dataset *d = NULL;
    weft_text_add(&text, "w,h,price\n");
    for (int i = 0; i < rows; i++) {
        char label[32];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(label, sizeof(label), format, step * (i % distinct));
#pragma GCC diagnostic pop
        weft_text_add(&text, "%d,%d,%s\n", i, i * i % 7, label);
    }
    write_file(folder, "t.csv", text.data, text.size, path, sizeof(path));
    free(text.data);
    (void)snprintf(spec, sizeof(spec), "csv:%s", path);
    weft_status status = weft_dataset_open(context, spec, "none", NULL, &d);
    if (status == WEFT_OK) status = weft_dataset_prepare(d, WEFT_TRAIN);
    weft_dataset_close(&d);
    return status;
}

static void test_measured_labels(void **state)
{
    (void)state;
    char *folder = temporary_folder();
    assert_refused(open_labels(folder, 30, "%.2f", 30, 0.37), WEFT_ERR_ARGUMENT,
                   "column 2 (price) holds 30 different numbers in 30 rows");
    assert_refused(open_labels(folder, 1000, "%.1f", 40, 0.1), WEFT_ERR_ARGUMENT,
                   "40 different numbers in 1000 rows");
    assert_refused(open_labels(folder, 200, "%.0f", 150, 1250), WEFT_ERR_ARGUMENT,
                   "150 different numbers");
    assert_ok(open_labels(folder, 1000, "%.0f", 100, 1));
    assert_ok(open_labels(folder, 1000, "%.1f", 40, 1)); /* whole numbers: 0.0, 1.0, 2.0, ... */
    assert_ok(open_labels(folder, 100, "%.1f", 9, 0.5));
    assert_ok(open_labels(folder, 12, "%.0f", 6, 1));
    assert_ok(open_labels(folder, 30, "city %.2f", 30, 0.37)); /* labels are names */
    remove_folder(folder);
}

/* Writes an NPY file of f64, [rows, columns], or [rows] if columns is 0, with `distinct` different
 * multiples of `step`. */
static void put_doubles(const char *folder, const char *name, int rows, int columns, int distinct,
                        double step, char *path, size_t room)
{
    unsigned char file[32768] = "\x93NUMPY\x01";
    char shape[32];
    (void)snprintf(shape, sizeof(shape), columns ? "%d, %d" : "%d,", rows, columns);
    int size = snprintf((char *)file + 10, 200,
                        "{'descr': '<f8', 'fortran_order': False, 'shape': (%s), }\n", shape);
    int count = rows * (columns ? columns : 1);
    file[8] = (unsigned char)size;
    for (int i = 0; i < count; i++) {
        double value = step * (i % distinct);
        memcpy(file + 10 + size + i * 8, &value, sizeof(value));
    }
    write_file(folder, name, file, (size_t)(10 + size + count * 8), path, room);
}

static weft_status open_arrays(const char *folder, int rows, int distinct, double step)
{
    char images[4200], labels[4200], spec[8500];
    weft_dataset *d = NULL;
    put_doubles(folder, "x.npy", rows, 2, 7, 1, images, sizeof(images));
    put_doubles(folder, "y.npy", rows, 0, distinct, step, labels, sizeof(labels));
    (void)snprintf(spec, sizeof(spec), "npy:%s,%s", images, labels);
    weft_status status = weft_dataset_open(context, spec, "none", NULL, &d);
    if (status == WEFT_OK) status = weft_dataset_prepare(d, WEFT_TRAIN);
    weft_dataset_close(&d);
    return status;
}

/* Labels in an NPY array obey the same rule; whole numbers are classes, even as f64. */
static void test_measured_arrays(void **state)
{
    (void)state;
    char *folder = temporary_folder();
    assert_refused(open_arrays(folder, 30, 30, 0.37), WEFT_ERR_ARGUMENT,
                   "y.npy holds 30 different numbers in 30 rows");
    assert_refused(open_arrays(folder, 1000, 40, 0.1), WEFT_ERR_ARGUMENT, "looks measured");
    assert_refused(open_arrays(folder, 200, 150, 125), WEFT_ERR_ARGUMENT, "looks measured");
    assert_refused(open_arrays(folder, 200, 7, 0.5), WEFT_ERR_FORMAT, "label 1 is 0.5, must be a");
    assert_refused(open_arrays(folder, 200, 7, -1), WEFT_ERR_FORMAT, "label 1 is -1, must be a");
    assert_ok(open_arrays(folder, 1000, 100, 1));
    assert_ok(open_arrays(folder, 50, 9, 1));
    remove_folder(folder);
}

/* Data to be predicted may come without labels, in every kind of file. */
static void test_data_without_labels(void **state)
{
    (void)state;
    char *folder = temporary_folder(), x[4200], y[4200], spec[8500];
    weft_dataset *d, *bare;
    put_doubles(folder, "x.npy", 10, 3, 7, 1, x, sizeof(x));
    put_doubles(folder, "y.npy", 10, 0, 2, 1, y, sizeof(y));
    (void)snprintf(spec, sizeof(spec), "npy:%s,%s,test=0.3", x, y);
    assert_ok(weft_dataset_open(context, spec, "auto", NULL, &d));
    assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
    const weft_data_stats *stats = weft_dataset_stats(d);
    static const struct {
        const char *more;
        int count;
    } cases[] = {{"", 10}, {",test=0.3", 3}, {",test=1", 10}};
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        (void)snprintf(spec, sizeof(spec), "npy:%s%s", x, cases[k].more);
        assert_refused(weft_dataset_open(context, spec, "auto", stats, &bare), WEFT_ERR_ARGUMENT,
                       "give two files");
        assert_ok(weft_dataset_open_unlabelled(context, spec, stats, &bare));
        assert_ok(weft_dataset_prepare(bare, WEFT_TEST));
        assert_false(weft_dataset_labelled(bare));
        assert_int_equal(weft_dataset_count(bare, WEFT_TEST), cases[k].count);
        weft_column column;
        assert_true(weft_dataset_column(bare, 0, &column) && column.role == WEFT_PORT_FEATURES);
        assert_false(weft_dataset_column(bare, 1, &column));
        weft_dataset_close(&bare);
    }
    (void)snprintf(spec, sizeof(spec), "npy:%s,%s,test=1", x, y); /* labels may be there, too */
    assert_ok(weft_dataset_open_unlabelled(context, spec, stats, &bare));
    assert_ok(weft_dataset_prepare(bare, WEFT_TEST));
    assert_true(weft_dataset_labelled(bare));
    weft_dataset_close(&bare);
    weft_dataset_close(&d);
    remove_folder(folder);
}

/* A feature that has the numbers of the rows causes a warning, unless it is given as id=. */
static void test_counting_columns(void **state)
{
    (void)state;
    static const struct {
        const char *header, *keys;
        int from, rows; /* the first column counts from here; below 0: it does not count */
        const char *words;
    } cases[] = {{"\"\",x,y", ",label=y", 1, 25, "column 0 (without a name) counts the rows"},
                 {",x,y", ",label=y", 0, 25, "id=0 makes it an identifier"},
                 {"Id,x,y", ",label=y", 1, 25, "column 0 (Id) counts the rows"},
                 {NULL, "", 0, 25, "column 0 (without a name) counts the rows"},
                 {",x,y", ",label=y,id=0", 0, 25, NULL},
                 {"Id,x,y", ",label=y,id=Id", 1, 25, NULL},
                 {"id,x,y", ",label=y", 1000, 25, "column 0 (id) counts the rows"},
                 {"day,x,y", ",label=y", 1, 25, NULL},
                 {",x,y", ",label=y", -1, 25, NULL},
                 {",x,y", ",label=y", 2, 25, NULL},
                 {",x,y", ",label=y", 0, 5, NULL}};
    char *folder = temporary_folder(), path[4200], spec[4300];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        weft_text text = {0};
        weft_dataset *d;
        said s = {0};
        char name[16];
        if (cases[i].header) weft_text_add(&text, "%s\n", cases[i].header);
        for (int r = 0; r < cases[i].rows; r++)
            weft_text_add(&text, "%d,%d,%d\n", cases[i].from < 0 ? r * 7 % 25 : cases[i].from + r,
                          r * 3 % 11, r % 2);
        (void)snprintf(name, sizeof(name), "t%zu.csv", i); /* one warning is printed once */
        write_file(folder, name, text.data, text.size, path, sizeof(path));
        free(text.data);
        (void)snprintf(spec, sizeof(spec), "csv:%s%s", path, cases[i].keys);
        weft_context_set_log(context, hear, &s);
        assert_ok(weft_dataset_open(context, spec, "auto", NULL, &d));
        if (s.lines != (cases[i].words != NULL)) fail_msg("case %zu: %d lines", i, s.lines);
        if (cases[i].words && !strstr(s.last, cases[i].words)) fail_msg("said '%s'", s.last);
        bool id = strstr(cases[i].keys, "id=") != NULL;
        assert_int_equal(weft_dataset_shape(d).dim[0], id ? 1 : 2);
        weft_dataset_close(&d);
    }
    weft_context_set_log(context, NULL, NULL);
    remove_folder(folder);
}

/* A table in `folder`, of which each line of `rows` is repeated `times` times. */
static void put_table(const char *folder, const char *name, const char *header, const char *rows,
                      int times, char *path, size_t room)
{
    weft_text text = {0};
    if (header) weft_text_add(&text, "%s\n", header);
    for (int i = 0; i < times; i++) weft_text_add(&text, "%s", rows);
    write_file(folder, name, text.data, text.size, path, room);
    free(text.data);
}

/* A class in several columns, of which one is the label, causes a warning. */
static void test_one_hot_columns(void **state)
{
    (void)state;
    static const struct {
        const char *header, *rows, *keys, *words;
    } cases[] = {{"x,a,b,c", "5,1,0,0\n6,0,1,0\n7,0,0,1\n", "",
                  "columns 1 to 3 have a single 1 in each row"},
                 {NULL, "5,1,0\n6,0,1\n", "", "columns 1 to 2 have a single 1 in each row"},
                 {"a,b,c,x", "1,0,0,5\n0,1,0,6\n0,0,1.0,7\n", ",label=a", "columns 0 to 2"},
                 {"a,b,n,x", "1,0,4,5\n0,1,4,6\n", ",label=b,id=n", "columns 0 to 1"},
                 {"x,a,b,c", "5,1,0,0\n6,0,1,0\n7,0,1,1\n", "", NULL},
                 {"x,a,b", "5,1,1\n6,0,0\n", "", NULL},
                 {"x,a,b", "5,1,no\n6,0,yes\n", "", NULL},
                 {"x,a,b", "5,1,2\n6,2,1\n", "", NULL},
                 {"x,a,b", "5,1,0\n6,0,1\n", ",target=b", NULL},
                 {"a,x,b", "1,3,0\n0,4,1\n", "", NULL}};
    char *folder = temporary_folder(), path[4200], spec[4300], name[16];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        weft_dataset *d;
        said s = {0};
        (void)snprintf(name, sizeof(name), "h%zu.csv", i);
        put_table(folder, name, cases[i].header, cases[i].rows, 9, path, sizeof(path));
        (void)snprintf(spec, sizeof(spec), "csv:%s%s", path, cases[i].keys);
        weft_context_set_log(context, hear, &s);
        assert_ok(weft_dataset_open(context, spec, "auto", NULL, &d));
        if (s.lines != (cases[i].words != NULL)) fail_msg("case %zu: %d lines", i, s.lines);
        if (cases[i].words && !strstr(s.last, cases[i].words)) fail_msg("said '%s'", s.last);
        weft_dataset_close(&d);
    }
    weft_context_set_log(context, NULL, NULL);
    remove_folder(folder);
}

/* If one of two tables alone has a header, a warning says that names do not decide. */
static void test_headers_of_later_tables(void **state)
{
    (void)state;
    char *folder = temporary_folder(), path[4200], spec[4300], name[16];
    for (int then = 0; then < 2; then++)
        for (int now = 0; now < 2; now++) {
            weft_dataset *d, *later;
            said s = {0};
            (void)snprintf(name, sizeof(name), "p%d%d.csv", then, now);
            put_table(folder, name, then ? "x,z,y" : NULL, "5,2,0\n6,3,1\n", 9, path, sizeof(path));
            (void)snprintf(spec, sizeof(spec), "csv:%s", path);
            assert_ok(weft_dataset_open(context, spec, "auto", NULL, &d));
            assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
            (void)snprintf(name, sizeof(name), "q%d%d.csv", then, now);
            put_table(folder, name, now ? "x,z,y" : NULL, "5,2,0\n6,3,1\n", 9, path, sizeof(path));
            (void)snprintf(spec, sizeof(spec), "csv:%s", path);
            weft_context_set_log(context, hear, &s);
            assert_ok(weft_dataset_open(context, spec, NULL, weft_dataset_stats(d), &later));
            weft_context_set_log(context, NULL, NULL);
            assert_int_equal(s.lines, then != now);
            if (then != now &&
                !strstr(s.last, now ? "has a header and the table of the training had none"
                                    : "has no header and the table of the training had one"))
                fail_msg("said '%s'", s.last);
            weft_dataset_close(&later);
            weft_dataset_close(&d);
        }
    remove_folder(folder);
}

/* Specifications are the same if they name the same files, whatever the paths. */
static void test_same_specifications(void **state)
{
    (void)state;
    char *folder = temporary_folder(), path[4200], a[9000], b[9000];
    static const struct {
        const char *a, *b; /* %s: the folder */
        bool same;
    } cases[] = {{"csv:%s/t.csv", "csv:t.csv", true},
                 {"csv:%s/t.csv,label=y", "csv:./t.csv,label=y", true},
                 {"csv:%s/t.csv,label=y", "csv:t.csv,label=x", false},
                 /* The identity of the data tells whether the column is the usual one. */
                 {"csv:%s/t.csv,label=y", "csv:t.csv", true},
                 {"csv:%s/t.csv+%s/u.csv", "csv:?.csv", true},
                 {"csv:%s/t.csv+%s/u.csv", "csv:u.csv+t.csv", true},
                 {"csv:%s/t.csv+%s/u.csv", "csv:t.csv", false},
                 {"csv:%s/t.csv,test=%s/u.csv", "csv:t.csv,test=u.csv", true},
                 {"csv:%s/t.csv,test=%s/u.csv", "csv:t.csv,test=t.csv", false},
                 {"csv:%s/t.csv", "npy:t.csv", false},
                 {"csv:%s/t.csv", "csv:u.csv", false},
                 {"csv:%s/w.csv", "csv:w.csv", false}, /* there is none */
                 {"npy:%s/t.csv,weight=%s/u.csv", "npy:t.csv,weight=u.csv", true},
                 {"npy:%s/t.csv,weight=%s/u.csv", "npy:t.csv,label=u.csv", false},
                 {"idx:%s", "idx:.", true},
                 {"glyphs", "glyphs", true},
                 {"glyphs", "glyphs:size=9", false},
                 {"glyphs:size=9", "glyphs:size=8", false},
                 {"glyphs:size=9,train=7", "glyphs:train=7,size=9", true},
                 {"glyphs:size=28", "glyphs", true},
                 {"glyphs", "glyphs:train=2e4,size=28", true},
                 {"glyphs:size=28", "glyphs:train=3", false},
                 {"glyphs:size=9.0", "glyphs:size=9", true},
                 {"glyphs", "glyphs:label=COLUMN", true},
                 {"glyphs:label=1", "glyphs:label=1.0", false},
                 {"glyphs:size=28,seed=1", "glyphs", false},
                 {"npy:%s/t.csv,%s/u.csv", "npy:u.csv,t.csv", false},
                 {"npy:%s/t.csv,%s/u.csv", "npy:t.csv,u.csv", true}};
    put_table(folder, "t.csv", NULL, "5,0\n6,1\n", 9, path, sizeof(path));
    put_table(folder, "u.csv", NULL, "5,0\n6,1\n", 9, path, sizeof(path));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool same, back;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(a, sizeof(a), cases[i].a, folder, folder);
        (void)snprintf(b, sizeof(b), cases[i].b, folder, folder);
#pragma GCC diagnostic pop
        assert_ok(
            weft_spec_same(a, b, "glyphs[:size=28,train=20000,label=COLUMN]", NULL, folder, &same));
        assert_ok(weft_spec_same(a, a, NULL, NULL, folder, &back));
        if (same != cases[i].same || !back) fail_msg("%s and %s", a, b);
    }
    remove_folder(folder);
}

/* Pictures whose target is a number have no class to mix; the message names what would. */
static void test_mixing_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *list, *words;
    } cases[] = {{"flip,mixup", "leave mixup out"}, {"cutmix=1,flip", "leave cutmix out"}};
    char *folder = temporary_folder(), images[4200], targets[4200], spec[8500];
    weft_dataset *d;
    put_npy(folder, "x.npy", "4, 3, 5, 7", 4 * 3 * 5 * 7, "|u1", images, sizeof(images));
    put_npy(folder, "y.npy", "4,", 4, "|u1", targets, sizeof(targets));
    (void)snprintf(spec, sizeof(spec), "npy:%s,target=%s,layout=chw", images, targets);
    assert_ok(weft_dataset_open(context, spec, NULL, NULL, &d));
    for (size_t i = 0; i < WEFT_COUNT(cases); i++)
        assert_refused(weft_dataset_set_augment(d, cases[i].list), WEFT_ERR_ARGUMENT,
                       cases[i].words);
    assert_ok(weft_dataset_set_augment(d, "flip"));
    weft_dataset_close(&d);
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts_of_images),
        cmocka_unit_test(test_layouts_refused),
        cmocka_unit_test(test_layouts_of_series_and_volumes),
        cmocka_unit_test(test_measured_labels),
        cmocka_unit_test(test_measured_arrays),
        cmocka_unit_test(test_data_without_labels),
        cmocka_unit_test(test_counting_columns),
        cmocka_unit_test(test_one_hot_columns),
        cmocka_unit_test(test_headers_of_later_tables),
        cmocka_unit_test(test_same_specifications),
        cmocka_unit_test(test_mixing_numbers),
    };
    return cmocka_run_group_tests_name("sources", tests, setup, teardown);
}
