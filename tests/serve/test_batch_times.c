/* The batch times of a model that a service keeps in a file from one start to the next, and the
 * batch sizes that it plans by them. */
#include <jansson.h>
#include <math.h>

#include "service_fixture.h"
#include "serve/servable.h"

static char heard[4096];

static void listen_in(void *user, weft_log_level level, const char *text)
{
    (void)user;
    (void)level;
    size_t size = strlen(heard);
    (void)snprintf(heard + size, sizeof(heard) - size, "%s\n", text);
}

/* A service that keeps its batch times in a folder, and the model that it serves. */
typedef struct start {
    weft_service *service;
    weft_servable *served;
} start;

static start begin(const char *times, double measure)
{
    char path[512];
    weft_service_options o;
    start s;
    weft_service_options_init(&o);
    o.limit = 32;
    o.threads = 1;
    o.measure = measure;
    o.times = times;
    assert_ok(weft_service_create(asked_context, &o, &s.service));
    asked_path(path, sizeof(path), "mlp");
    assert_ok(weft_service_load(s.service, "it", path));
    s.served = weft_service_hold(s.service, "it", 0);
    assert_non_null(s.served);
    return s;
}

static void end(start *s)
{
    weft_servable_release(&s->served);
    weft_service_destroy(&s->service);
}

static const char *file_of(const char *name)
{
    static char path[512];
    asked_path(path, sizeof(path), name);
    return path;
}

/* Replaces the rows and the seconds in a file of batch times. */
static void pretend(const char *file, const int *rows, double (*seconds)(int rows), int count)
{
    json_t *root = json_load_file(file, 0, NULL), *r = json_array(), *s = json_array();
    assert_non_null(root);
    for (int i = 0; i < count; i++) {
        json_array_append_new(r, json_integer(rows[i]));
        json_array_append_new(s, json_real(seconds(rows[i])));
    }
    json_object_set_new(root, "rows", r);
    json_object_set_new(root, "seconds", s);
    assert_int_equal(json_dump_file(root, file, 0), 0);
    json_decref(root);
}

static double alike(int rows)
{
    return 0.25 + 1e-6 * rows;
}

static double by_row(int rows)
{
    return 0.125 * rows;
}

static const int ladder[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};

/* The queue has the stored times, which are far longer than any measured time. */
static void test_kept(void **state)
{
    (void)state;
    start s = begin(asked_folder, 0.05);
    assert_true(weft_batch_queue_batch_time(weft_servable_queue(s.served), 32, 1) > 0);
    end(&s);
    pretend(file_of("it.json"), ladder, by_row, (int)WEFT_COUNT(ladder));
    s = begin(asked_folder, 0.05);
    assert_int_equal(s.served->count, WEFT_COUNT(ladder));
    for (size_t i = 0; i < WEFT_COUNT(ladder); i++) {
        assert_int_equal(s.served->sizes[i].rows, ladder[i]);
        assert_true(weft_batch_queue_batch_time(weft_servable_queue(s.served), ladder[i], 1) ==
                    by_row(ladder[i]));
    }
    /* A new version of the model begins with these times too. */
    weft_servable_release(&s.served);
    assert_ok(weft_service_load(s.service, "it", NULL));
    s.served = weft_service_hold(s.service, "it", 2);
    assert_true(fabs(weft_batch_queue_batch_time(weft_servable_queue(s.served), 12, 1) -
                     by_row(12)) < 1e-9);
    end(&s);
}

/* The file also has the key on which the times depend, such as the name of the processor. */
static void test_key(void **state)
{
    (void)state;
    start s = begin(asked_folder, 0.05);
    end(&s);
    json_t *root = json_load_file(file_of("it.json"), 0, NULL);
    const json_t *key = json_object_get(root, "key");
    const char *processor = json_string_value(json_object_get(key, "processor"));
    char line[4096], name[4096] = "";
    assert_non_null(processor);
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info && !name[0] && fgets(line, sizeof(line), info))
        if (sscanf(line, "model name : %4095[^\n]", name) != 1) name[0] = '\0';
    if (info) fclose(info);
    if (name[0]) assert_string_equal(processor, name);
    assert_int_equal(json_integer_value(json_object_get(key, "cores")), weft_cores());
    assert_int_equal(json_integer_value(json_object_get(key, "threads")), 1);
    assert_string_equal(json_string_value(json_object_get(key, "weft")), weft_version());
    json_decref(root);
}

/* If more rows cost no time, only the smallest and the largest size are planned; if each row costs
 * time, all sizes. */
static void test_sizes(void **state)
{
    (void)state;
    static const int two[] = {1, 32};
    pretend(file_of("it.json"), two, alike, 2);
    start s = begin(asked_folder, 0.05);
    assert_int_equal(s.served->count, 2);
    assert_int_equal(s.served->sizes[0].rows, 1);
    assert_int_equal(s.served->sizes[1].rows, 32);
    end(&s);
    s = begin("none", 0); /* nothing is known, so nothing is left out */
    assert_int_equal(s.served->count, WEFT_COUNT(ladder));
    assert_true(weft_batch_queue_batch_time(weft_servable_queue(s.served), 32, 1) == 0);
    end(&s);
    pretend(file_of("it.json"), two, by_row, 2);
    s = begin(asked_folder, 0.05);
    assert_int_equal(s.served->count, WEFT_COUNT(ladder));
    assert_true(fabs(weft_batch_queue_batch_time(weft_servable_queue(s.served), 16, 1) -
                     by_row(16)) < 1e-9);
    end(&s);
}

/* Times of another machine, or from a damaged file, are not used but measured again, and the log
 * gives the reason. */
static void test_stale(void **state)
{
    (void)state;
    const char *const bad[] = {"{", "[]", "{\"key\": 3}"};
    json_t *root = json_load_file(file_of("it.json"), 0, NULL);
    pretend(file_of("it.json"), ladder, by_row, (int)WEFT_COUNT(ladder));
    json_object_set_new(json_object_get(root, "key"), "cores", json_integer(12345));
    assert_int_equal(json_dump_file(root, file_of("it.json"), 0), 0);
    heard[0] = '\0';
    start s = begin(asked_folder, 0.05);
    assert_non_null(strstr(heard, "is not used: cores was 12345 when it was measured, and is "));
    assert_true(weft_batch_queue_batch_time(weft_servable_queue(s.served), 32, 1) < 1);
    end(&s);
    json_decref(root);
    root = json_load_file(file_of("it.json"), 0, NULL);
    assert_int_not_equal(json_integer_value(json_object_get(json_object_get(root, "key"), "cores")),
                         12345);
    json_object_set_new(root, "seconds", json_array());
    assert_int_equal(json_dump_file(root, file_of("it.json"), 0), 0);
    json_decref(root);
    s = begin(asked_folder, 0.05);
    assert_non_null(strstr(heard, "it.json is not used: its times are damaged"));
    end(&s);
    for (size_t i = 0; i < WEFT_COUNT(bad); i++) {
        assert_ok(
            weft_file_replace(file_of("it.json"), WEFT_OUTPUT_REPLACE, bad[i], strlen(bad[i])));
        s = begin(asked_folder, 0.05);
        end(&s);
    }
    assert_non_null(strstr(heard, "it.json is not used: it has no batch times"));
}

/* The times lie in the folder that the option names, by default in the run's folder beside its
 * checkpoints, or in the folder of an exported checkpoint; "none", or a folder that cannot be
 * written, means no file. */
static void test_places(void **state)
{
    (void)state;
    char path[600], exported[512];
    weft_service_options o;
    weft_service *service;
    start s = begin("/nowhere/at/all", 0.05);
    end(&s);
    s = begin("none", 0.05);
    end(&s);
    (void)snprintf(path, sizeof(path), "%s/mlp/times.json", asked_folder);
    assert_false(weft_file_exists(path));
    s = begin(NULL, 0.05);
    assert_true(weft_file_exists(path));
    end(&s);
    asked_path(exported, sizeof(exported), "exported");
    asked_path(path, sizeof(path), "mlp");
    assert_ok(weft_checkpoint_export_folder(asked_context, path, exported));
    weft_service_options_init(&o);
    o.measure = 0.02;
    assert_ok(weft_service_create(asked_context, &o, &service));
    assert_ok(weft_service_load(service, "it", exported));
    weft_service_destroy(&service);
    asked_path(path, sizeof(path), "exported/times.json");
    assert_true(weft_file_exists(path));
}

/* Options that are not valid are refused, and the log reports more threads than cores. */
static void test_options(void **state)
{
    (void)state;
    weft_service *service;
    weft_service_options o;
    static const char *const meshes[] = {"tensor=x", "tensor=0", "sideways=2", "tensor=100"};
    for (size_t i = 0; i < WEFT_COUNT(meshes); i++) {
        weft_service_options_init(&o);
        o.mesh = meshes[i];
        assert_int_equal(weft_service_create(asked_context, &o, &service), WEFT_ERR_ARGUMENT);
    }
    weft_service_options_init(&o);
    o.limit = 0;
    assert_refused(weft_service_create(asked_context, &o, &service), WEFT_ERR_ARGUMENT, "0 rows");
    weft_service_options_init(&o);
    o.mesh = "data=4";
    o.limit = 3;
    o.times = "none";
    heard[0] = '\0';
    assert_ok(weft_service_create(asked_context, &o, &service));
    assert_non_null(strstr(heard, "4 threads on 1 core"));
    assert_refused(weft_service_load(service, "it", file_of("mlp")), WEFT_ERR_ARGUMENT,
                   "give --limit 4 or more");
    weft_service_destroy(&service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),   cmocka_unit_test(test_key),
        cmocka_unit_test(test_sizes),  cmocka_unit_test(test_stale),
        cmocka_unit_test(test_places), cmocka_unit_test(test_options)};
    asked_begin();
    weft_context_set_log(asked_context, listen_in, NULL);
    asked_train("mlp", "mlp", GLYPHS, "f32", 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + asked_end();
}
