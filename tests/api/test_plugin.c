/* Tests which plug-ins (shared libraries in the folder PLUGINS) are loaded, which are refused, and
 * how long they stay in memory. */
#include <dlfcn.h>
#include <pthread.h>

#include "support.h"

static const char *at(const char *name)
{
    static char path[4096];
    (void)snprintf(path, sizeof(path), "%s/lib%s.so", PLUGINS, name);
    return path;
}

static bool in_memory(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (handle) dlclose(handle);
    return handle;
}

static int devices(const weft_context *context)
{
    int count = 0;
    while (weft_context_entry(context, WEFT_KIND_DEVICE, count)) count++;
    return count;
}

/* Each faulty plug-in is refused with a message, registers nothing, and is unloaded. */
static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *name, *words;
        weft_status status;
    } cases[] = {
        {"other_abi", "was built for interface 42 of plug-ins, this library has 3",
         WEFT_ERR_UNSUPPORTED},
        {"other_size", "bytes, this library's", WEFT_ERR_UNSUPPORTED},
        {"no_entries", "has no entries", WEFT_ERR_FORMAT},
        {"taken", "a device named 'cpu' is there already", WEFT_ERR_ARGUMENT},
        {"bad_name", "'a:b' is no name of a device", WEFT_ERR_ARGUMENT},
        {"old_device", "device case: its weft_device_ops has", WEFT_ERR_UNSUPPORTED},
        {"no_function", "device case: its 'reorder' is NULL, which every device needs",
         WEFT_ERR_ARGUMENT},
        {"closed_kind", "only the library has normalizations of data", WEFT_ERR_UNSUPPORTED},
        {"unwilling", "libunwilling.so: there is no such hardware here", WEFT_ERR_UNSUPPORTED},
        {"no_plugin", "has no symbol weft_plugin_entry", WEFT_ERR_FORMAT},
        {"missing", "cannot open: No such file", WEFT_ERR_IO},
    };
    weft_context *context;
    assert_ok(weft_context_create(&context));
    int before = devices(context);
    for (int again = 0; again < 2; again++)
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            assert_refused(weft_plugin_load(context, at(cases[i].name)), cases[i].status,
                           cases[i].words);
            assert_int_equal(devices(context), before);
            assert_false(in_memory(at(cases[i].name)));
        }
    weft_context_destroy(&context);
}

/* A file that is no shared library, and a folder, are refused. */
static void test_other_files(void **state)
{
    (void)state;
    weft_context *context;
    assert_ok(weft_context_create(&context));
    assert_refused(weft_plugin_load(context, WEFT_TESTS_DIR "/api/test_plugin.c"), WEFT_ERR_FORMAT,
                   "cannot be loaded");
    assert_refused(weft_plugin_load(context, PLUGINS), WEFT_ERR_IO, "is not a regular file");
    weft_context_destroy(&context);
}

/* A plug-in path as a device name: it has no device. */
static void test_paths_as_names(void **state)
{
    (void)state;
    weft_context *context;
    weft_store *store;
    assert_ok(weft_context_create(&context));
    assert_ok(weft_plugin_load(context, at("no_device")));
    assert_refused(weft_store_create(context, at("no_device"), 1, &store), WEFT_ERR_ARGUMENT,
                   "has nothing among its devices");
    weft_context_destroy(&context);
}

/* A path loads nothing where a name is looked up, and loads the plug-in where options of the user
 * are loaded: each option that names an entry, and no other. */
static void test_who_loads(void **state)
{
    (void)state;
    static const struct {
        const char *option, *before, *after;
        bool loads;
    } cases[] = {
        {"model", "", "", true},
        {"data", "", ":a,b", true},
        {"exchange", "", ":a=b", true},
        {"compress", "", "", true},
        {"optimizer", "", "", true},
        {"engine", "", "", true},
        {"lr-schedule", "", "", true},
        {"device", "", "", true},
        {"device", "", ":cpu", true},
        {"device", "cpu,", ":cpu,cpu", true},
        {"device", "cpu,reference,", "", true},
        {"data", "csv:", "", false},
        {"data", "npy:a.npy,", "", false},
        {"checkpoint", "", "", false},
    };
    weft_context *context;
    weft_store *store;
    assert_ok(weft_context_create(&context));
    assert_refused(weft_store_create(context, at("counting"), 1, &store), WEFT_ERR_ARGUMENT,
                   "a plug-in is loaded only if the command line");
    assert_false(in_memory(at("counting")));
    weft_context_destroy(&context);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        weft_train_options o = {.task = {.model = NULL}};
        char value[4200];
        assert_ok(weft_context_create(&context));
        assert_ok(weft_train_options_init(context, &o));
        const weft_option *table = weft_train_table(context);
        (void)snprintf(value, sizeof(value), "%s%s%s", cases[i].before, at("counting"),
                       cases[i].after);
        assert_ok(weft_options_set(table, &o, cases[i].option, value));
        assert_false(in_memory(at("counting")));
        assert_ok(weft_plugin_load_options(context, table, &o));
        assert_int_equal(in_memory(at("counting")), cases[i].loads);
        weft_options_free(table, &o);
        weft_context_destroy(&context);
    }
}

/* A plug-in that one context has loaded is unknown to another context, and it stays in memory until
 * the last context that has loaded it is destroyed. */
static void test_how_long_it_stays(void **state)
{
    (void)state;
    weft_context *one, *other;
    weft_store *store;
    char link[4200];
    assert_ok(weft_context_create(&one));
    assert_ok(weft_context_create(&other));
    int before = devices(other);
    assert_ok(weft_plugin_load(one, at("counting")));
    assert_ok(weft_store_create(one, at("counting"), 1, &store));
    weft_store_destroy(&store);
    assert_int_equal(devices(one), before + 1);
    assert_int_equal(devices(other), before);
    assert_refused(weft_store_create(other, "counting", 1, &store), WEFT_ERR_ARGUMENT,
                   "no device is named 'counting'");
    assert_ok(weft_store_create(one, "counting", 1, &store)); /* now known by its name */
    weft_store_destroy(&store);
    char *folder = temporary_folder();
    (void)snprintf(link, sizeof(link), "%s/other.so", folder);
    assert_int_equal(symlink(at("counting"), link), 0);
    assert_ok(weft_plugin_load(one, link)); /* a link to the same file is not loaded again */
    assert_int_equal(devices(one), before + 1);
    assert_string_equal(strrchr(weft_plugin_path(one, 0), '/'), "/libcounting.so");
    assert_null(weft_plugin_path(one, 1));
    assert_null(weft_plugin_path(other, 0));
    assert_ok(weft_plugin_load(other, link));
    weft_context_destroy(&one);
    assert_true(in_memory(at("counting")));
    assert_ok(weft_store_create(other, "counting", 1, &store));
    weft_store_destroy(&store);
    weft_context_destroy(&other);
    assert_false(in_memory(at("counting")));
    remove_folder(folder);
}

/* Four threads load the same plug-in at once, two of them in each of two contexts. */
static char counting[4096];

static void *use(void *context)
{
    weft_store *store;
    for (int i = 0; i < 20; i++) {
        if (weft_plugin_load(context, counting) != WEFT_OK ||
            weft_store_create(context, counting, 1, &store) != WEFT_OK)
            return context;
        weft_store_destroy(&store);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    weft_context *contexts[2];
    void *failed = NULL;
    (void)snprintf(counting, sizeof(counting), "%s", at("counting"));
    for (int i = 0; i < 2; i++) assert_ok(weft_context_create(&contexts[i]));
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, contexts[i % 2]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    for (int i = 0; i < 2; i++) weft_context_destroy(&contexts[i]);
    assert_false(in_memory(at("counting")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),          cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_paths_as_names),    cmocka_unit_test(test_who_loads),
        cmocka_unit_test(test_how_long_it_stays), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
