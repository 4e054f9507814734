/* Computes every case of the operators with bf16 operands: on the reference device, whose results
 * must be those of f32 up to the rounding of operands and results, and on each other device that is
 * here, whose results must be those of the reference device up to the rounding of results. A result
 * has a relative error of 2^-8 at most for each value on its way that is rounded. */
#include <math.h>
#include <stdio.h>

#include "op_cases.h"
#include "program/program.h"

static const char *const devices[] = {"cpu", "distant", "distant:of=cpu"};

/* Tolerances, relative to the largest element of a result. Gradients pass several rounded values.
 */
static const double TO_REFERENCE = 2e-2, TO_F32 = 6e-2;

typedef struct results {
    double *number;
    int64_t total, sizes[MOST_INPUTS + MOST_OUTPUTS];
    int count;
} results;

static results run_on(const op_case *c, weft_dtype real, const char *device)
{
    fixture f;
    weft_store *store;
    weft_instance *p;
    weft_value fetch[MOST_INPUTS + MOST_OUTPUTS];
    results r = {.number = NULL};
    fixture_start(&f, c, real);
    r.count = fixture_fetch(&f, fetch);
    for (int i = 0; i < r.count; i++) {
        weft_type type = weft_graph_value_type(f.graph, fetch[i]);
        r.total += r.sizes[i] = weft_shape_elements(&type.shape);
    }
    r.number = calloc((size_t)r.total + 1, sizeof(*r.number));
    assert_non_null(r.number);
    assert_ok(weft_store_create(f.context, device, 1, &store));
    if (weft_instance_build(store, f.graph, fetch, r.count, &p) != WEFT_OK)
        fail_msg("%s on %s: %s", c->name, device, weft_last_message());
    for (int t = 0; t < 2; t++) {
        fixture_feed(&f, p);
        if (weft_instance_run(p, WEFT_PHASE_MICRO) != WEFT_OK)
            fail_msg("%s on %s: %s", c->name, device, weft_last_message());
        for (int64_t i = 0, at = 0; i < r.count; i++)
            for (int64_t j = 0; j < r.sizes[i]; j++, at++) {
                double now = fixture_get(&f, p, fetch[i], j);
                if (t > 0 && memcmp(&now, &r.number[at], sizeof(now)) != 0)
                    fail_msg("%s on %s: element %lld of result %d is %.17g, and then %.17g",
                             c->name, device, (long long)j, (int)i, r.number[at], now);
                r.number[at] = now;
            }
    }
    weft_instance_destroy(&p);
    weft_store_destroy(&store);
    fixture_end(&f);
    return r;
}

/* many: elements of a result that may differ, in percent: where functions jump, as maxima do. */
static void compare(const char *name, const char *device, const results *want, const results *have,
                    double tolerance, int many)
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
        results want = run_on(&op_cases[c], WEFT_BF16, "reference");
        for (size_t d = 0; d < WEFT_COUNT(devices); d++) {
            results have = run_on(&op_cases[c], WEFT_BF16, devices[d]);
            compare(op_cases[c].name, devices[d], &want, &have, TO_REFERENCE, 0);
            free(have.number);
        }
        free(want.number);
    }
}

static void test_reference(void **state)
{
    (void)state;
    for (int c = 0; c < op_case_count; c++) {
        results want = run_on(&op_cases[c], WEFT_F32, "reference");
        results have = run_on(&op_cases[c], WEFT_BF16, "reference");
        compare(op_cases[c].name, "reference", &want, &have, TO_F32, 10);
        free(want.number);
        free(have.number);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
