/* A store whose values will be loaded draws no random numbers: tensors that would be random begin
 * with zeros, all others as ever, and a value that is written stays. */
#include "base/base.h"
#include "program/program.h"
#include "program_fixture.h"

static void test_blank(void **state)
{
    (void)state;
    enum { BATCH = 3 };
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++)
        for (int m = 0; m < 2; m++) {
            weft_context *context;
            weft_store *blank, *drawn;
            weft_instance *x;
            lowered l;
            int zeros = 0, others = 0;
            open_context(&context);
            assert_ok(weft_store_create(context, built_in(WEFT_KIND_DEVICE, d), 7, &blank));
            weft_store_leave_blank(blank);
            lower(&l, context, blank, m ? "resnet:width=2" : "lenet", TRAINING, BATCH);
            assert_ok(weft_store_create(context, built_in(WEFT_KIND_DEVICE, d), 7, &drawn));
            lowered k;
            lower(&k, context, drawn, m ? "resnet:width=2" : "lenet", TRAINING, BATCH);
            assert_ok(weft_instance_create(l.program, blank, NULL, &x));
            weft_instance_destroy(&x);
            assert_ok(weft_instance_create(k.program, drawn, NULL, &x));
            weft_instance_destroy(&x);
            assert_int_equal(weft_store_count(blank), weft_store_count(drawn));
            for (int i = 0; i < weft_store_count(blank); i++) {
                weft_type type = weft_store_type(blank, i);
                size_t bytes = weft_type_bytes(&type);
                char *a = calloc(1, bytes), *b = calloc(1, bytes), *none = calloc(1, bytes);
                assert_true(a && b && none);
                assert_ok(weft_store_read(blank, i, a));
                assert_ok(weft_store_read(drawn, i, b));
                bool zero = memcmp(a, none, bytes) == 0;
                if (memcmp(a, b, bytes) != 0) assert_true(zero);
                zeros += memcmp(a, b, bytes) != 0;
                others += !zero;
                assert_ok(weft_store_write(blank, i, b));
                assert_ok(weft_store_read(blank, i, a));
                assert_memory_equal(a, b, bytes);
                free(a);
                free(b);
                free(none);
            }
            assert_true(zeros > 4);            /* weights */
            assert_true(m == 0 || others > 4); /* scales and variances of batch normalisation */
            drop(&l);
            drop(&k);
            weft_store_destroy(&blank);
            weft_store_destroy(&drawn);
            weft_context_destroy(&context);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blank)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
