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
#include "op_ways.h"

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
        case_results want = fixture_run(&op_cases[c], WEFT_F32, "reference", 2);
        case_results have = fixture_run(&op_cases[c], WEFT_BF16, "reference", 2);
        compare(op_cases[c].name, "reference", &want, &have, TO_F32, 10);
        free(want.number);
        free(have.number);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_candidates),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    bool again = !getenv("ONEDNN_MAX_CPU_ISA");
    (void)setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1); /* of oneDNN 3, */
    (void)setenv("DNNL_MAX_CPU_ISA", "AVX2", 1);   /* and of 2 */
    if (failed == 0 && again) return execv("/proc/self/exe", argv);
    return failed;
}
