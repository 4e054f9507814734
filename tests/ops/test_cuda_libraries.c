/* Operator cases on the device cuda where cuBLASLt and cuDNN compute whatever they can (over their
 * doubles in tests/device/fake_cuda, or on a card): the numbers of the reference device, the same
 * bits twice, and with TF32 those of rounded operands. With WEFT_FAST each third case. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>

#include "op_ways.h"

static weft_context *all;
static weft_device *kept; /* keeps compiled kernels and libraries */
static const char *const names[] = {"cublaslt", "cudnn"};

static int begin(void **state)
{
    (void)state;
    assert_ok(weft_context_create(&all));
    if (weft_device_open(all, "cuda:libraries=cublaslt+cudnn", &kept) == WEFT_OK) return 0;
    print_message("SKIPPED: %s\n", weft_last_message());
    return 0;
}

static int end(void **state)
{
    (void)state;
    weft_device_close(&kept);
    weft_context_destroy(&all);
    return 0;
}

/* The first candidate of the device for a node alone; NULL: none. */
static const char *candidate_of(const weft_graph *g, const weft_node *node)
{
    weft_group group = {.graph = g, .node = {node}, .count = 1, .out_count = node->out_count};
    const weft_layout *in[WEFT_GROUP_VALUES] = {NULL};
    weft_candidate list[WEFT_CANDIDATES];
    for (int i = 0; i < node->in_count; i++)
        if (weft_group_in(&group, node->in[i]) < 0) group.in[group.in_count++] = node->in[i];
    for (int o = 0; o < node->out_count; o++) group.out[o] = node->out + o;
    return kept->ops->candidates(kept, &group, in, list) > 0 ? list[0].name : NULL;
}

static bool uses_library(const op_case *c)
{
    fixture f;
    bool found = false;
    fixture_start(&f, c, WEFT_F32);
    for (size_t n = 0; n < f.graph->node_count && !found; n++) {
        const char *name = candidate_of(f.graph, f.graph->nodes[n]);
        for (size_t i = 0; i < WEFT_COUNT(names); i++)
            found = found || (name && strcmp(name, names[i]) == 0);
    }
    fixture_end(&f);
    return found;
}

/* Counts the instructions that each library computes, alone or with what follows. */
static void count(const op_run *run, int *alone, int *groups)
{
    char *text, *save = NULL;
    assert_ok(weft_program_text(weft_instance_program(run->instance), &text));
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        for (size_t i = 0; i < WEFT_COUNT(names); i++) {
            char word[32];
            (void)snprintf(word, sizeof(word), "[%s]", names[i]);
            if (strstr(line, word)) (strchr(line, '+') ? groups : alone)[i]++;
        }
    weft_free(text);
}

static double *run_on(const op_case *c, const char *device, int times, int *alone, int *groups,
                      int64_t *total)
{
    op_run run;
    op_run_open(&run, c, WEFT_F32, device, 0, false);
    double *first = calloc((size_t)run.total + 1, sizeof(*first)),
           *again = calloc((size_t)run.total + 1, sizeof(*again));
    assert_true(first && again);
    op_run_go(&run, first);
    for (int t = 1; t < times; t++) {
        op_run_go(&run, again);
        if (memcmp(first, again, sizeof(*first) * (size_t)run.total) != 0)
            fail_msg("%s on %s: other numbers the second time", c->name, device);
    }
    if (alone) count(&run, alone, groups);
    *total = run.total;
    free(again);
    op_run_close(&run);
    return first;
}

static double largest_difference(const double *a, const double *b, int64_t total)
{
    double difference = 0, largest = 1e-3;
    for (int64_t i = 0; i < total; i++) {
        difference = fmax(difference, isfinite(a[i]) == isfinite(b[i]) ? fabs(a[i] - b[i]) : 1e30);
        largest = fmax(largest, fabs(a[i]));
    }
    return difference / largest;
}

static void test_cases(void **state)
{
    (void)state;
    int alone[2] = {0}, groups[2] = {0}, cases = 0;
    if (!kept) skip();
    for (int i = 0; i < op_case_count; i++) {
        const op_case *c = &op_cases[i];
        int64_t total, same;
        if (!uses_library(c) || (getenv("WEFT_FAST") && cases++ % 3 != 0)) continue;
        double *want = run_on(c, "reference", 1, NULL, NULL, &total);
        double *have = run_on(c, "cuda", 2, alone, groups, &same);
        double difference = largest_difference(want, have, total);
        if (!(difference <= (c->tolerance > 0 ? c->tolerance : 2e-5)))
            fail_msg("%s: differs by %g of the largest", c->name, difference);
        free(want);
        free(have);
    }
    for (size_t i = 0; i < WEFT_COUNT(names); i++) {
        print_message("%s: %d operators, and %d with others after them\n", names[i], alone[i],
                      groups[i]);
        if (alone[i] < 5 || groups[i] < 2) fail_msg("%s is in too few of them", names[i]);
    }
}

/* TF32 has 10 bits of mantissa, so results differ by about a thousandth, and by less than two. */
static void test_tf32(void **state)
{
    (void)state;
    int found = 0;
    if (!kept) skip();
    for (int i = 0; i < op_case_count; i++) {
        const op_case *c = &op_cases[i];
        int64_t total;
        if (strcmp(c->name, "dense") != 0 && strcmp(c->name, "conv_plain") != 0) continue;
        double *want = run_on(c, "cuda:tf32=off", 1, NULL, NULL, &total);
        double *have = run_on(c, "cuda:tf32=on", 1, NULL, NULL, &total);
        double difference = largest_difference(want, have, total);
        if (!(difference > 1e-5 && difference < 2e-3))
            fail_msg("%s: TF32 differs by %g", c->name, difference);
        found++;
        free(want);
        free(have);
    }
    assert_int_equal(found, 2);
}

/* Own kernels stand in for a library that has no algorithm. */
static void test_none(void **state)
{
    (void)state;
    int alone[2] = {0}, groups[2] = {0};
    int64_t total;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!kept || !driver || !dlsym(driver, "fake_cuda")) skip(); /* on a card all have one */
    assert_int_equal(setenv("FAKE_CUBLASLT_NONE", "1", 1), 0);
    assert_int_equal(setenv("FAKE_CUDNN_NONE", "1", 1), 0);
    for (int i = 0; i < op_case_count; i++) {
        const op_case *c = &op_cases[i];
        if (strcmp(c->name, "dense") != 0 && strcmp(c->name, "conv_plain") != 0) continue;
        double *want = run_on(c, "reference", 1, NULL, NULL, &total);
        double *have = run_on(c, "cuda", 1, alone, groups, &total);
        if (!(largest_difference(want, have, total) <= 2e-5)) fail_msg("%s", c->name);
        free(want);
        free(have);
    }
    for (int i = 0; i < 2; i++) assert_int_equal(alone[i] + groups[i], 0);
    assert_int_equal(unsetenv("FAKE_CUBLASLT_NONE"), 0);
    assert_int_equal(unsetenv("FAKE_CUDNN_NONE"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_tf32),
                                       cmocka_unit_test(test_none)};
    return cmocka_run_group_tests_name("cuda_libraries", tests, begin, end);
}
