/* Gives the descriptors and preferences of products to cuBLASLt itself, where it is installed: it
 * checks the size and the value of each attribute, for which it needs no card. Its heuristic needs
 * one, and is the first function that fails. */
#include <stdio.h>

#include "device/cuda/cublaslt_product.h"
#include "support.h"

static cu_result push(cu_context context)
{
    (void)context;
    return CU_OK;
}

static cu_result pop(cu_context *context)
{
    *context = NULL;
    return CU_OK;
}

static cuda_card card = {.driver = 99000,
                         .f = {.cuCtxPushCurrent_v2 = push, .cuCtxPopCurrent_v2 = pop}};

static void test_descriptors(void **state)
{
    static cublaslt_library l = {.card = &card};
    (void)state;
    weft_gpu_services = weft_services_get();
    if (!cuda_library_open(&cuda_cublaslt_file, card.driver, &l.f, NULL, 0)) {
        print_message("SKIPPED: no libcublasLt is here\n");
        skip();
    }
    print_message("cuBLASLt %zu\n", l.f.cublasLtGetVersion());
    for (int kind = 0; kind < 32; kind++) {
        cublaslt_problem p = {
            .l = &l,
            .first = cublaslt_matrix_of(5, 7, kind & 1 ? 7 : 1, kind & 1 ? 1 : 5, 35),
            .second = cublaslt_matrix_of(7, 3, kind & 2 ? 3 : 1, kind & 2 ? 1 : 7, 21),
            .result = {5, 3, 5, 15, false},
            .batch = kind & 4 ? 4 : 1,
            .doubles = (kind & 24) == 8,
            .tf32 = (kind & 24) == 16,
            .bias = (kind & 24) == 24,
            .what = "a product"};
        assert_int_equal(p.first.leading, kind & 1 ? 7 : 5);
        assert_int_equal(p.second.transposed, kind & 2 ? 1 : 0);
        weft_status status = cublaslt_choose(&p);
        if (status != WEFT_ERR_UNSUPPORTED || !strstr(weft_last_message(), "no algorithm"))
            fail_msg("problem %d: %s", kind, weft_last_message());
    }
    /* A wrong size is refused, so those above were right. */
    const int64_t wide = 1;
    cublaslt_problem p = {.l = &l, .batch = 1, .what = "a product"};
    cublaslt_descriptors d = {.product = NULL};
    p.first = p.second = p.result = (cublaslt_matrix){4, 4, 4, 16, false};
    assert_ok(cublaslt_open(&p, &d));
    assert_int_equal(cublaslt_set(&p, &d, LT_TRANSA, &wide, sizeof(wide)), WEFT_ERR_INTERNAL);
    cublaslt_close(&p, &d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_descriptors)};
    return cmocka_run_group_tests_name("cublaslt_descriptors", tests, NULL, NULL);
}
