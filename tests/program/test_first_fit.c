/* First fit gives each buffer the lowest offset that a search of all buffers finds. */
#include "program/first_fit.h"
#include "support.h"

typedef struct block {
    int first, last;
    size_t bytes, offset;
} block;

/* The lowest offset that is free, by looking at all blocks before this one until none is in the
 * way. */
static size_t lowest(const block *blocks, int count)
{
    const block *b = &blocks[count];
    size_t offset = 0;
    for (int i = 0; i < count; i++) {
        const block *other = &blocks[i];
        bool beside = other->last < b->first || b->last < other->first;
        if (beside || other->offset + other->bytes <= offset || offset + b->bytes <= other->offset)
            continue;
        offset = (other->offset + other->bytes + 63) / 64 * 64;
        i = -1;
    }
    return offset;
}

/* Sizes that repeat or not, in any order; lifetimes that are short, nested or to the end. */
static void draw(weft_random *random, int times, int kind, block *out)
{
    int a = (int)(weft_random_u32(random) % (uint32_t)times), b = times - 1 - a;
    if (kind == 0) b = a + (int)(weft_random_u32(random) % 4);
    if (kind == 2) b = (int)(weft_random_u32(random) % (uint32_t)times);
    *out = (block){.first = WEFT_MIN(a, b), .last = WEFT_MIN(WEFT_MAX(a, b), times - 1)};
    if (kind == 1 && a % 5 == 0) out->last = times - 1;
    out->bytes = weft_random_u32(random) % (kind == 2 ? 1000 : 4) * (kind == 2 ? 1 : 96);
}

static void test_lowest(void **state)
{
    enum { BLOCKS = 300 };
    static const int times[] = {1, 2, 7, 64, 301};
    block blocks[BLOCKS];
    (void)state;
    for (int run = 0; run < 30; run++) {
        weft_random random;
        weft_first_fit *fit;
        int of = times[run % 5];
        weft_random_start(&random, (uint64_t)run, 1);
        assert_ok(weft_first_fit_new(of, &fit));
        for (int i = 0; i < BLOCKS; i++) {
            draw(&random, of, (run + i) % 3, &blocks[i]);
            block *b = &blocks[i];
            assert_ok(weft_first_fit_place(fit, b->first, b->last, b->bytes, &b->offset));
            if (b->offset != lowest(blocks, i))
                fail_msg("run %d: block %d of %zu bytes from %d to %d is at %zu, must be at %zu",
                         run, i, b->bytes, b->first, b->last, b->offset, lowest(blocks, i));
        }
        weft_first_fit_free(&fit);
        assert_null(fit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lowest)};
    return cmocka_run_group_tests_name("first fit", tests, NULL, NULL);
}
