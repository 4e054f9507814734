/* Computes every case of the operators with bf16 operands: on the reference device, whose results
 * must be those of f32 up to the rounding of operands and results, and on each other device that is
 * here, whose results must be those of the reference device up to the rounding of results. A result
 * has a relative error of 2^-8 at most for each value on its way that is rounded. All of it is done
 * twice: with the instructions for bf16 that the processor has, and without. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"
#include "op_build.h"
#include "op_ways.h"
#include "program/instance.h"

static const char *const devices[] = {"cpu", "distant", "distant:of=cpu"};

/* Tolerances, relative to the largest element of a result. Gradients pass several rounded values.
 */
static const double TO_REFERENCE = 2e-2, TO_F32 = 6e-2;

/* many: elements of a result that may differ, in percent: where functions jump, as maxima do. */
static void compare(const char *name, const char *device, const case_results *want,
                    const case_results *have, double tolerance, int many)
{
    assert_true(want->total == have->total);
    for (int i = 0, at = 0; i < want->count; i++) {
        double largest = 1e-2;
        for (int64_t j = 0; j < want->sizes[i]; j++)
            largest = fmax(largest, fabs(want->number[at + j]));
        int64_t off = 0;
        for (int64_t j = 0; j < want->sizes[i]; j++, at++)
            if (!(fabs(want->number[at] - have->number[at]) <= tolerance * largest) &&
                ++off * 100 > want->sizes[i] * many)
                fail_msg("%s on %s: result %d, element %lld: %.9g, must be %.9g", name, device, i,
                         (long long)j, have->number[at], want->number[at]);
    }
}

static void test_devices(void **state)
{
    (void)state;
    for (int c = 0; c < op_case_count; c++) {
        case_results want = fixture_run(&op_cases[c], WEFT_BF16, "reference", 2);
        for (size_t d = 0; d < WEFT_COUNT(devices); d++) {
            if (paths_alone() && (d + (size_t)c) % 3) continue;
            case_results have = fixture_run(&op_cases[c], WEFT_BF16, devices[d], 2);
            compare(op_cases[c].name, devices[d], &want, &have, TO_REFERENCE, 0);
            free(have.number);
        }
        free(want.number);
    }
}

/* The cpu device's candidates, each of which is forced in turn. */
static void test_candidates(void **state)
{
    (void)state;
    int several = 0;
    for (int c = 0; c < op_case_count; c++) {
        op_run run = {.ways = 1};
        case_results want = fixture_run(&op_cases[c], WEFT_BF16, "reference", 1), have = want;
        have.number = malloc((size_t)WEFT_MAX(want.total, 1) * sizeof(double));
        for (int way = 0; way < run.ways; way++) {
            op_run_open(&run, &op_cases[c], WEFT_BF16, "cpu", way, false);
            op_run_go(&run, have.number);
            op_run_close(&run);
            compare(op_cases[c].name, "cpu", &want, &have, TO_REFERENCE, 0);
        }
        several += run.ways > 1;
        free(have.number);
        free(want.number);
    }
    assert_true(several > 0); /* otherwise no candidate was ever forced */
}

static void test_reference(void **state)
{
    (void)state;
    for (int c = 0; c < op_case_count; c++) {
        if (paths_alone() && c % 4) continue; /* test_devices has all of them */
        case_results want = fixture_run(&op_cases[c], WEFT_F32, "reference", 2);
        case_results have = fixture_run(&op_cases[c], WEFT_BF16, "reference", 2);
        compare(op_cases[c].name, "reference", &want, &have, TO_F32, 10);
        free(want.number);
        free(have.number);
    }
}

/* --- panels that are kept --- */

/* The weight is a parameter. */
static void recurrence(fixture *f, const char *op, int64_t gates)
{
    const int64_t x[] = {3, 2, gates * 19}, w[] = {19, gates * 19};
    const weft_shape shape = weft_shape_of(2, w);
    weft_value in[] = {fixture_input(f, 3, x, false, 1, 0),
                       weft_graph_leaf(f->graph, WEFT_VALUE_PARAM, "w", WEFT_F32, &shape,
                                       (weft_init){WEFT_INIT_NORMAL, 1}),
                       WEFT_NO_VALUE};
    if (gates == 3) in[2] = fixture_input(f, 1, w + 1, false, 1, 0);
    out(f, node(f, op, in, gates == 3 ? 3 : 2, NULL, 0));
}
static void lstm(fixture *f)
{
    recurrence(f, "lstm", 4);
}
static void gru(fixture *f)
{
    recurrence(f, "gru", 3);
}

/* Where nothing trains a recurrence, the store keeps its weight in panels until it changes; results
 * are those of a program that trains it. */
static void test_panels(void **state)
{
    (void)state;
    for (int c = 0; c < 2; c++) {
        const op_case cases[] = {{.name = "kept", .build = c ? gru : lstm, .no_gradient = true},
                                 {.name = "trained", .build = c ? gru : lstm}};
        op_run runs[2];
        static double numbers[2][2][3 * 2 * 19];
        static float w[19 * 4 * 19];
        int panels[2] = {0, 0};
        for (int i = 0; i < 2; i++) {
            op_run_open(&runs[i], &cases[i], WEFT_BF16, "cpu", -1, true);
            assert_true(runs[i].total == 3 * 2 * 19);
            const weft_program *p = runs[i].instance->program;
            for (size_t n = 0; n < p->code_count; n++)
                panels[i] +=
                    p->code[n].derives && strcmp(p->code[n].kernel->out[0]->text, "panels") == 0;
            op_run_go(&runs[i], numbers[i][0]);
            assert_ok(weft_store_read(runs[i].store, weft_store_find(runs[i].store, "w"), w));
            for (size_t n = 0; n < sizeof(w) / sizeof(w[0]); n++) w[n] = (float)sin((double)n);
            assert_ok(weft_store_write(runs[i].store, weft_store_find(runs[i].store, "w"), w));
            op_run_go(&runs[i], numbers[i][1]);
            op_run_close(&runs[i]);
        }
        assert_true(panels[0] == 1 && panels[1] == 0);
        assert_memory_equal(numbers[0], numbers[1], sizeof(numbers[0]));
        assert_memory_not_equal(numbers[0][0], numbers[0][1], sizeof(numbers[0][0]));
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_candidates),
        cmocka_unit_test(test_panels),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bool again = !getenv("ONEDNN_MAX_CPU_ISA");
    (void)setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1); /* of oneDNN 3, */
    (void)setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);   /* and of 2 */
    if (failed == 0 && again) return execv("/proc/self/exe", argv);
    return failed;
}
