/* Tests the parsers of IDX, NPY, gzip, YAML and safetensors on valid input, and on input that is
 * cut at every byte or changed. */
#include "formats/formats.h"
#include "formats/safetensors.h"
#include "formats/yaml.h"
#include "pictures.h"

static const unsigned char idx_file[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0,
                                         1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};

static void test_idx(void **state)
{
    (void)state;
    weft_idx idx;
    assert_ok(weft_idx_parse("f", idx_file, sizeof(idx_file), &idx));
    assert_int_equal(idx.shape.rank, 3);
    assert_true(weft_idx_get(&idx, 5) == 6);
    for (size_t size = 0; size < sizeof(idx_file); size++)
        assert_int_equal(weft_idx_parse("f", idx_file, size, &idx), WEFT_ERR_FORMAT);
    unsigned char bad[sizeof(idx_file) + 1] = {0};
    memcpy(bad, idx_file, sizeof(idx_file));
    assert_refused(weft_idx_parse("f", bad, sizeof(bad), &idx), WEFT_ERR_FORMAT, "longer");
    memset(bad + 4, 0xff, 12);
    assert_refused(weft_idx_parse("f", bad, sizeof(idx_file), &idx), WEFT_ERR_FORMAT, "f: ");
    bad[2] = 7;
    assert_refused(weft_idx_parse("f", bad, sizeof(idx_file), &idx), WEFT_ERR_FORMAT, "not IDX");
    const unsigned char f32[] = {0, 0, 13, 1, 0, 0, 0, 1, 0xC0, 0x20, 0, 0};
    assert_ok(weft_idx_parse("f", f32, sizeof(f32), &idx));
    assert_true(weft_idx_get(&idx, 0) == -2.5);
    const unsigned char i16[] = {0, 0, 11, 1, 0, 0, 0, 1, 0xFF, 0xFE};
    assert_ok(weft_idx_parse("f", i16, sizeof(i16), &idx));
    assert_true(weft_idx_get(&idx, 0) == -2);
    for (int i = 0; i < 3; i++) {
        char words[32];
        memcpy(bad, idx_file, sizeof(idx_file));
        bad[4 + 4 * i + 3] = 0;
        (void)snprintf(words, sizeof(words), "f: dimension %d is 0", i);
        assert_refused(weft_idx_parse("f", bad, sizeof(idx_file), &idx), WEFT_ERR_FORMAT, words);
    }
    static const int ranks[] = {0, WEFT_MAX_RANK + 1, 255};
    for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
        char words[32];
        memcpy(bad, idx_file, sizeof(idx_file));
        bad[3] = (unsigned char)ranks[i];
        (void)snprintf(words, sizeof(words), "f: has %d dimensions", ranks[i]);
        assert_refused(weft_idx_parse("f", bad, sizeof(idx_file), &idx), WEFT_ERR_FORMAT, words);
    }
    unsigned char deep[4 + 4 * WEFT_MAX_RANK + 1] = {0, 0, 8, WEFT_MAX_RANK};
    for (int i = 0; i < WEFT_MAX_RANK; i++) deep[7 + 4 * i] = 1;
    deep[sizeof(deep) - 1] = 77;
    assert_ok(weft_idx_parse("f", deep, sizeof(deep), &idx));
    assert_int_equal(idx.shape.rank, WEFT_MAX_RANK);
    assert_true(weft_idx_get(&idx, 0) == 77);
    /* Sizes in IDX have four bytes, big-endian. */
    static const int64_t long_ones[] = {1, 255, 256, 513, 65536 + 3, 16777216 + 1};
    for (size_t i = 0; i < sizeof(long_ones) / sizeof(long_ones[0]); i++) {
        int64_t n = long_ones[i];
        unsigned char *file = calloc(8 + (size_t)n, 1);
        file[2] = 8;
        file[3] = 1;
        for (int k = 0; k < 4; k++) file[4 + k] = (unsigned char)(n >> (24 - 8 * k) & 255);
        assert_ok(weft_idx_parse("f", file, 8 + (size_t)n, &idx));
        assert_true(idx.shape.dim[0] == n);
        free(file);
    }
}

static void test_yaml_is_text(void **state)
{
    (void)state;
    static const weft_option none[] = {{0}};
    static const char text[] = "a: 1\n\0b: 2\n";
    weft_yaml *y;
    for (size_t at = 0; at < sizeof(text); at++)
        if (!text[at])
            assert_refused(weft_yaml_parse("y", text, at + 1, none, NULL, NULL, &y),
                           WEFT_ERR_FORMAT, "y:2: holds a zero byte");
}

static size_t npy_file(char *out, const char *dict, const void *data, size_t size)
{
    size_t header = strlen(dict) + 1;
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)(header & 255);
    out[9] = (char)(header >> 8);
    memcpy(out + 10, dict, header - 1);
    out[9 + header] = '\n';
    if (size) memcpy(out + 10 + header, data, size);
    return 10 + header + size;
}

static void test_npy(void **state)
{
    (void)state;
    char file[512];
    weft_npy npy;
    const int16_t data[] = {1, -2, 3, 4, 5, 600};
    size_t size = npy_file(file, "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }",
                           data, sizeof(data));
    assert_ok(weft_npy_parse("n", file, size, &npy));
    assert_int_equal(npy.shape.dim[1], 3);
    assert_true(weft_npy_get(&npy, 1) == -2 && weft_npy_get(&npy, 5) == 600);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(weft_npy_parse("n", file, cut, &npy), WEFT_ERR_FORMAT);
    static const char *const bad[] = {
        "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }",
        "{'descr': '<c8', 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 99999999999999999999), }",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296), }",
        "{'descr': '<i2', 'fortran_order': False}",
        "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 0)}",
        "{'descr': '<i2', 'evil': 1}",
        "['descr']",
        "{'descr'",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        size = npy_file(file, bad[i], data, sizeof(data));
        assert_refused(weft_npy_parse("n", file, size, &npy), WEFT_ERR_FORMAT, "n: ");
    }
    /* NPY headers that end anywhere: the error names what is missing there. */
    static const struct {
        const char *dict, *words;
    } ends[] = {
        {"{'descr'", "':' is missing after a key"},
        {"{'fortran_order': True", "fortran_order is True"},
        {"{'fortran_order': Tru", "fortran_order must be True or False"},
        {"{'fortran_order': Fals", "fortran_order must be True or False"},
        {"{'fortran_order': False", "',' or '}' is missing"},
        {"{'fortran_order': False}", "descr, fortran_order or shape is missing"},
    };
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        size = npy_file(file, ends[i].dict, NULL, 0) - 1; /* without its newline */
        file[8]--;
        assert_refused(weft_npy_parse("n", file, size, &npy), WEFT_ERR_FORMAT, ends[i].words);
    }
}

static void test_gzip(void **state)
{
    (void)state;
    /* printf 'hello hello hello\n' | gzip -n9 */
    const unsigned char gz[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03,
                                0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x40, 0x90, 0x5c,
                                0x00, 0x3b, 0x7c, 0x8a, 0xdf, 0x12, 0x00, 0x00, 0x00};
    unsigned char *out, copy[sizeof(gz)];
    size_t size;
    weft_status status = weft_gzip_inflate("g", gz, sizeof(gz), 1000, &out, &size);
    if (status == WEFT_OK) {
        assert_int_equal(size, 18);
        assert_memory_equal(out, "hello hello hello\n", 18);
        free(out);
    } else {
        fail_msg("%s", weft_last_message());
    }
    for (size_t cut = 0; cut < sizeof(gz); cut++)
        assert_int_equal(weft_gzip_inflate("g", gz, cut, 1000, &out, &size), WEFT_ERR_FORMAT);
    memcpy(copy, gz, sizeof(gz));
    copy[22] ^= 1; /* the checksum */
    assert_refused(weft_gzip_inflate("g", copy, sizeof(gz), 1000, &out, &size), WEFT_ERR_FORMAT,
                   "damaged");
    assert_refused(weft_gzip_inflate("g", gz, sizeof(gz), 5, &out, &size), WEFT_ERR_MEMORY,
                   "more than 5");
}

typedef struct two {
    weft_type type[2];
    const void *data[2];
} two;

static const char *two_name(void *user, size_t i)
{
    (void)user;
    return i ? "b/\"q\"" : "a";
}
static weft_type two_type(void *user, size_t i)
{
    return ((two *)user)->type[i];
}
static weft_status two_read(void *user, size_t i, void *data)
{
    two *t = user;
    memcpy(data, t->data[i], weft_type_bytes(&t->type[i]));
    return WEFT_OK;
}

static void test_safetensors(void **state)
{
    (void)state;
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {7};
    two t = {{{WEFT_F32, {2, {2, 3}}}, {WEFT_F32, {0, {0}}}}, {a, b}};
    weft_tensor_list list = {2, two_name, two_type, two_read, &t, NULL, NULL};
    char *folder = temporary_folder(), path[4200];
    (void)snprintf(path, sizeof(path), "%s/t.safetensors", folder);
    assert_ok(weft_safetensors_write(path, WEFT_OUTPUT_REPLACE, &list, NULL, NULL));
    weft_bytes bytes;
    weft_safetensors file;
    assert_ok(weft_file_map(path, &bytes));
    assert_ok(weft_safetensors_parse(path, bytes.data, bytes.size, &file));
    assert_int_equal(file.count, 2);
    const weft_tensor *q = weft_safetensors_find(&file, "b/\"q\"");
    assert_non_null(q);
    assert_memory_equal(q->data, b, sizeof(b));
    assert_memory_equal(weft_safetensors_find(&file, "a")->data, a, sizeof(a));
    weft_safetensors_free(&file);
    for (size_t cut = 0; cut < bytes.size; cut++)
        assert_int_equal(weft_safetensors_parse("s", bytes.data, cut, &file), WEFT_ERR_FORMAT);
    weft_file_unmap(&bytes);
    remove_folder(folder);
}

/* Tensors of every type keep their type, shape and bytes. */
static void test_safetensors_types(void **state)
{
    (void)state;
    char *folder = temporary_folder(), path[4200], values[64];
    (void)snprintf(path, sizeof(path), "%s/t.safetensors", folder);
    for (size_t i = 0; i < sizeof(values); i++) values[i] = (char)(i * 37 + 1);
    for (int d = 0; d < WEFT_DTYPE_COUNT; d++) {
        two t = {{{(weft_dtype)d, {2, {1, 5}}}, {(weft_dtype)d, {0, {0}}}}, {values, values + 1}};
        weft_tensor_list list = {2, two_name, two_type, two_read, &t, NULL, NULL};
        weft_bytes bytes;
        weft_safetensors file;
        assert_ok(weft_safetensors_write(path, WEFT_OUTPUT_REPLACE, &list, NULL, NULL));
        assert_ok(weft_file_map(path, &bytes));
        assert_ok(weft_safetensors_parse(path, bytes.data, bytes.size, &file));
        for (int i = 0; i < 2; i++) {
            const weft_tensor *q = weft_safetensors_find(&file, two_name(&t, (size_t)i));
            weft_dtype again;
            assert_true(q && weft_safetensors_real(q->dtype, &again) && again == (weft_dtype)d);
            assert_true(weft_shape_equal(&q->shape, &t.type[i].shape));
            assert_int_equal(q->bytes, weft_type_bytes(&t.type[i]));
            assert_memory_equal(q->data, values + i, q->bytes);
        }
        weft_safetensors_free(&file);
        weft_file_unmap(&bytes);
    }
    remove_folder(folder);
}

static weft_status header(const char *json, size_t data)
{
    char file[1024] = {0};
    weft_safetensors out;
    size_t size = strlen(json);
    file[0] = (char)(size & 255);
    file[1] = (char)(size >> 8);
    memcpy(file + 8, json, size);
    weft_status status = weft_safetensors_parse("s", file, 8 + size + data, &out);
    if (status == WEFT_OK) weft_safetensors_free(&out);
    return status;
}

static void test_safetensors_refuses(void **state)
{
    (void)state;
    assert_ok(header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8));
    assert_ok(header("{\"__metadata__\":{\"k\":\"v\"}}", 0));
    static const struct {
        const char *json;
        size_t data;
    } bad[] = {
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 9},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[1,9]}}", 9},
        {"{\"a\":{\"dtype\":\"F99\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"a\":{\"dtype\":\"F32\","
         "\"shape\":[],\"data_offsets\":[8,12]}}",
         12},
        {"{\"__metadata__\":{\"k\":1}}", 0},
        {"{\"a\":3}", 0},
        {"[1]", 0},
        {"{", 0},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(header(bad[i].json, bad[i].data), WEFT_ERR_FORMAT, "s: ");
    /* If the header is no JSON, the error gives the position, whether data follow or not. */
    for (size_t data = 0; data < 2; data++)
        assert_refused(header("{\"a\" 3}", data), WEFT_ERR_FORMAT, "s: header, position ");
}

/* --- tar --- */

/* Files with short and long names, and archives that are cut off or damaged anywhere. */
static void test_tar(void **state)
{
    (void)state;
    static unsigned char all[8192];
    static const char *const names[] = {"a.jpg", "of GNU", "of POSIX"};
    weft_tar_entry e;
    size_t size = put_tar(all, "a.jpg", '0', "first", 5), at = 0;
    size += put_tar(all + size, "folder", '5', "", 0);
    size += put_tar(all + size, "././@LongLink", 'L', "of GNU", 7);
    size += put_tar(all + size, "short", '0', "second", 6);
    size += put_tar(all + size, "pax", 'x', "11 uid=123\n17 path=of POSIX\n", 28);
    size += put_tar(all + size, "short", '0', "", 0);
    size += 1024;
    for (int i = 0; i < 3; i++) {
        assert_ok(weft_tar_next("t", all, size, &at, &e));
        if (strcmp(e.name, names[i]) != 0) fail_msg("%d: '%s'", i, e.name);
        assert_int_equal(e.size, i == 0 ? 5 : i == 1 ? 6 : 0);
    }
    assert_ok(weft_tar_next("t", all, size, &at, &e));
    assert_null(e.data);
    for (size_t cut = 0; cut < size - 1024; cut += 37) {
        unsigned char *own = malloc(cut + 1);
        weft_status status = WEFT_OK;
        assert_non_null(own);
        memcpy(own, all, cut);
        at = 0;
        do status = weft_tar_next("t", own, cut, &at, &e);
        while (status == WEFT_OK && e.data);
        assert_int_equal(status, WEFT_ERR_FORMAT);
        free(own);
    }
    for (size_t i = 0; i < size - 1024; i++) {
        unsigned char was = all[i];
        all[i] ^= 0x41;
        at = 0;
        do assert_true(at <= size);
        while (weft_tar_next("t", all, size, &at, &e) == WEFT_OK && e.data);
        all[i] = was;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yaml_is_text),
        cmocka_unit_test(test_idx),
        cmocka_unit_test(test_npy),
        cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_safetensors),
        cmocka_unit_test(test_safetensors_refuses),
        cmocka_unit_test(test_safetensors_types),
        cmocka_unit_test(test_tar),
    };
    return cmocka_run_group_tests_name("formats", tests, NULL, NULL);
}
