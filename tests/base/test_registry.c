/* Tests registries: each context has names of its own for devices, exchanges and other plug-ins. */
#include <pthread.h>

#include "base/registry.h"
#include "device/device.h"
#include "exchange/exchange.h"
#include "support.h"

/* The built-in reference device and exchange `average` under another name. */
static weft_device_ops own_device;
static weft_entry own_exchange;

static int setup(void **state)
{
    (void)state;
    own_device = weft_device_reference;
    own_device.name = "own";
    own_exchange = weft_exchange_average;
    own_exchange.name = "own";
    own_exchange.form = "own:with=N";
    return 0;
}

static bool knows(const weft_context *context, weft_kind kind, const char *name)
{
    const weft_entry *e;
    for (int i = 0; (e = weft_context_entry(context, kind, i)); i++)
        if (strcmp(e->name, name) == 0) return true;
    return false;
}

/* Every kind has built-in entries, with different names and a table of functions. */
static void test_what_is_built_in(void **state)
{
    (void)state;
    weft_context *context;
    assert_ok(weft_context_create(&context));
    assert_ok(weft_serve_register(context));
    for (int k = WEFT_KIND_NONE + 1; k < WEFT_KIND_COUNT; k++) {
        weft_kind kind = (weft_kind)k;
        assert_non_null(weft_context_entry(context, kind, 0));
        assert_null(weft_context_entry(context, kind, -1));
        assert_non_null(weft_kind_title(kind));
        for (int i = 0; weft_context_name(context, kind, i); i++) {
            const weft_entry *e = weft_context_entry(context, kind, i);
            assert_non_null(e->ops);
            for (int j = 0; j < i; j++)
                assert_string_not_equal(e->name, weft_context_name(context, kind, j));
            assert_refused(weft_context_register(context, e, 1), WEFT_ERR_ARGUMENT,
                           "is there already");
        }
    }
    weft_context_destroy(&context);
}

/* libweft-serve adds its names to a context when one of its functions needs them, once, and after
 * entries of the program. */
static void test_names_of_serving(void **state)
{
    (void)state;
    weft_context *context, *taken;
    assert_ok(weft_context_create(&context));
    assert_null(weft_context_entry(context, WEFT_KIND_POLICY, 0));
    assert_null(weft_context_entry(context, WEFT_KIND_ARRIVALS, 0));
    const weft_option *table = weft_load_table(context);
    assert_non_null(table[0].name);
    assert_null(weft_context_entry(context, WEFT_KIND_POLICY, 0));
    const weft_entry *arrivals = weft_context_entry(context, WEFT_KIND_ARRIVALS, 0);
    assert_non_null(arrivals);
    for (int i = 0; i < 2; i++) {
        assert_ok(weft_serve_register(context));
        assert_true(knows(context, WEFT_KIND_POLICY, "adaptive"));
        assert_ptr_equal(weft_load_table(context), table);
        assert_ptr_equal(weft_server_table(context), weft_server_table(context));
        assert_ptr_equal(weft_context_entry(context, WEFT_KIND_ARRIVALS, 0), arrivals);
    }
    assert_ok(weft_context_create(&taken));
    assert_ok(weft_registry_add(taken, weft_context_entry(context, WEFT_KIND_POLICY, 0), 1));
    assert_refused(weft_serve_register(taken), WEFT_ERR_ARGUMENT, "is there already");
    assert_null(weft_server_table(taken)[0].name);
    weft_context_destroy(&taken);
    weft_context_destroy(&context);
}

/* A name that is registered in one context is unknown in another one. */
static void test_two_contexts(void **state)
{
    (void)state;
    weft_context *knowing, *other;
    weft_store *store;
    assert_ok(weft_context_create(&knowing));
    assert_ok(weft_context_create(&other));
    assert_ok(weft_device_register(knowing, &own_device));
    assert_ok(weft_registry_add(knowing, &own_exchange, 1));
    assert_true(knows(knowing, WEFT_KIND_DEVICE, "own"));
    assert_false(knows(other, WEFT_KIND_DEVICE, "own"));
    assert_ok(weft_store_create(knowing, "own", 1, &store));
    weft_store_destroy(&store);
    assert_refused(weft_store_create(knowing, "owm", 1, &store), WEFT_ERR_ARGUMENT,
                   "no device is named 'owm'; did you mean 'own'?");
    assert_refused(weft_store_create(other, "own", 1, &store), WEFT_ERR_ARGUMENT,
                   "no device is named 'own'");
    assert_ok(weft_exchange_check(knowing, "own:every=2"));
    assert_refused(weft_exchange_check(other, "own:every=2"), WEFT_ERR_ARGUMENT,
                   "no exchange is named 'own'");
    weft_context_destroy(&other);
    assert_ok(weft_store_create(knowing, "own", 1, &store));
    weft_store_destroy(&store);
    weft_context_destroy(&knowing);
}

/* If one entry of a list is refused, none is registered; and some texts are no valid names. */
static void test_refusals(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "a:b", "a,b", "./a", "a b", "\xc3\xa4", NULL};
    weft_context *context;
    assert_ok(weft_context_create(&context));
    for (int i = 0; i < (int)WEFT_COUNT(bad); i++) {
        const weft_entry e = {.kind = WEFT_KIND_DEVICE, .name = bad[i], .ops = &own_device};
        assert_refused(weft_context_register(context, &e, 1), WEFT_ERR_ARGUMENT,
                       "is no name of a device");
    }
    const weft_entry two[] = {{.kind = WEFT_KIND_DEVICE, .name = "fresh", .ops = &own_device},
                              {.kind = WEFT_KIND_DEVICE, .name = "cpu", .ops = &own_device}};
    assert_refused(weft_context_register(context, two, 2), WEFT_ERR_ARGUMENT,
                   "a device named 'cpu' is there already");
    assert_false(knows(context, WEFT_KIND_DEVICE, "fresh"));
    const weft_entry twice[] = {two[0], two[0]};
    assert_refused(weft_context_register(context, twice, 2), WEFT_ERR_ARGUMENT,
                   "a device named 'fresh' is there already");
    assert_ok(weft_context_register(context, two, 1));
    assert_true(knows(context, WEFT_KIND_DEVICE, "fresh"));
    weft_context_destroy(&context);
}

/* The choices of an option, and its help, are the names that its context knows. */
static void test_options_ask(void **state)
{
    (void)state;
    weft_context *knowing, *other;
    weft_train_options o = {0};
    char *text;
    assert_ok(weft_context_create(&knowing));
    assert_ok(weft_context_create(&other));
    const weft_entry entry = {.kind = WEFT_KIND_OPTIMIZER, .name = "own", .ops = &own_device};
    assert_ok(weft_registry_add(knowing, &entry, 1));
    assert_ok(weft_registry_add(knowing, &own_exchange, 1));
    const weft_option *table = weft_train_table(knowing);
    assert_ok(weft_train_options_init(knowing, &o));
    assert_ok(weft_options_set(table, &o, "optimizer", "own"));
    assert_ok(weft_options_set(table, &o, "engine", "threads"));
    assert_refused(weft_options_set(table, &o, "engine", "self"), WEFT_ERR_ARGUMENT,
                   "must be one of threads,mpi");
    assert_refused(weft_options_set(weft_train_table(other), &o, "optimizer", "own"),
                   WEFT_ERR_ARGUMENT, "must be one of sgd,adam,adamw");
    assert_ok(weft_options_help(table, &text));
    assert_non_null(strstr(text, " own"));
    assert_non_null(strstr(text, own_exchange.form));
    weft_free(text);
    assert_ok(weft_options_help(weft_train_table(other), &text));
    assert_null(strstr(text, "adamw,own"));
    weft_free(text);
    weft_options_free(table, &o);
    weft_context_destroy(&other);
    weft_context_destroy(&knowing);
}

/* Threads register the same names in one context, look them up and list them at once; each name is
 * accepted from exactly one thread. */
enum { THREADS = 4, NAMES = 200 };

typedef struct adder {
    weft_context *context;
    pthread_t thread;
    int added, refused, missing;
} adder;

static char names[NAMES][16];

static void *add(void *user)
{
    adder *a = user;
    for (int i = 0; i < NAMES; i++) {
        const weft_entry e = {.kind = WEFT_KIND_DEVICE, .name = names[i], .ops = &own_device};
        if (weft_context_register(a->context, &e, 1) == WEFT_OK)
            a->added++;
        else
            a->refused++;
        if (!knows(a->context, WEFT_KIND_DEVICE, names[i])) a->missing++;
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    adder all[THREADS] = {{0}};
    weft_context *context;
    int added = 0;
    assert_ok(weft_context_create(&context));
    for (int i = 0; i < NAMES; i++) (void)snprintf(names[i], sizeof(names[i]), "name-%d", i);
    for (int t = 0; t < THREADS; t++) {
        all[t].context = context;
        assert_int_equal(pthread_create(&all[t].thread, NULL, add, &all[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(all[t].thread, NULL);
        assert_int_equal(all[t].missing, 0);
        assert_int_equal(all[t].added + all[t].refused, NAMES);
        added += all[t].added;
    }
    assert_int_equal(added, NAMES);
    weft_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_built_in), cmocka_unit_test(test_names_of_serving),
        cmocka_unit_test(test_two_contexts),     cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_options_ask),      cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
