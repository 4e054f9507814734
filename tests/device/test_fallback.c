/* Which operators the device cpu leaves to the reference device. A fallback changes no result and
 * only takes longer, so no other test notices it. */
#include "op_cases.h"

static bool fell_back[256]; /* by index in the registry: the operator fell back in this case */

static int registered(const char *op)
{
    for (int o = 0; built_in(WEFT_KIND_OPERATOR, o); o++)
        if (strcmp(built_in(WEFT_KIND_OPERATOR, o), op) == 0) return o;
    return -1;
}

static void on_log(void *user, weft_log_level level, const char *text)
{
    (void)user;
    (void)level;
    char op[64];
    if (strstr(text, "runs on the device reference") && sscanf(text, "%*s (%63[^)])", op) == 1)
        fell_back[registered(op)] = true;
}

/* The operators that the device cpu leaves to the reference device in every case: work that is done
 * once a step, or on a few numbers of each sample. The device has a kernel of its own for each
 * other operator, at least in one case. The state of adam would have to be assigned, which no case
 * does. */
static void test_what_falls_back(void **state)
{
    (void)state;
    static const char *const left[] = {
        "constant",           "split",       "pad",        "transpose", "sequence_mean",
        "sequence_mean_grad", "mse",         "mse_grad",   "schedule",  "counter",
        "add_exact",          "clip_factor", "exact_sqrt", "adam"};
    bool runs[256] = {false}, there[256] = {false};
    for (int c = 0; c < op_case_count; c++) {
        fixture f;
        weft_store *store;
        weft_instance *p;
        weft_value fetch[MOST_INPUTS + MOST_OUTPUTS];
        fixture_start(&f, &op_cases[c], WEFT_F32);
        memset(fell_back, 0, sizeof(fell_back));
        weft_context_set_log(f.context, on_log, NULL);
        assert_ok(weft_store_create(f.context, "cpu", 1, &store));
        assert_ok(weft_instance_build(store, f.graph, fetch, fixture_fetch(&f, fetch), &p));
        for (int n = 0; n < weft_graph_node_count(f.graph); n++) {
            int o = registered(weft_graph_node_op(f.graph, n));
            there[o] = true;
            runs[o] = runs[o] || !fell_back[o];
        }
        weft_instance_destroy(&p);
        weft_store_destroy(&store);
        fixture_end(&f);
    }
    for (int o = 0; built_in(WEFT_KIND_OPERATOR, o); o++) {
        bool may = false;
        for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
            may = may || strcmp(left[i], built_in(WEFT_KIND_OPERATOR, o)) == 0;
        if (there[o] && runs[o] == may)
            fail_msg("%s %s the reference device", built_in(WEFT_KIND_OPERATOR, o),
                     may ? "no longer needs" : "always runs on");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_falls_back)};
    return cmocka_run_group_tests_name("fallback", tests, NULL, NULL);
}
