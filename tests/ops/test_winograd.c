/* Errors of convolutions by Winograd's transform, against sums in f64, beside those of the direct
 * sum: at many channels, with images that are no multiple of a tile, uneven padding, and so many
 * tiles that they are computed in several chunks. Run with any argument, it prints them. */
#include <math.h>
#include <stdio.h>

#include "op_build.h"
#include "op_ways.h"

/* The most error, relative to the largest result. The direct sum has from 1e-7 to 1e-6,
 * and more with thousands of images. */
static const double MOST_ERROR = 4e-6;
static bool wordy;

static void conv(fixture *f, int64_t images, int64_t in, int64_t out_channels, int64_t height,
                 int64_t width, int64_t top, int64_t bottom, int64_t left, int64_t right)
{
    const weft_attr padding = {.name = "padding", .count = 4, .ints = {top, bottom, left, right}};
    const int64_t x[] = {images, in, height, width}, w[] = {out_channels, in, 3, 3};
    weft_value a = fixture_input(f, 4, x, true, 1, 0), b = fixture_input(f, 4, w, true, 1, 0);
    weft_value bias = fixture_input(f, 1, &out_channels, true, 1, 0);
    weft_value y = node(f, "conv", IN(a, b), &padding, 1);
    out(f, node(f, "relu", IN(node(f, "bias", IN(y, bias), NONE)), NONE));
}

static void channels(fixture *f)
{
    conv(f, 2, 256, 48, 7, 5, 1, 1, 1, 1);
}
static void uneven(fixture *f)
{
    conv(f, 3, 32, 80, 9, 6, 2, 0, 0, 1);
}
static void wide(fixture *f)
{
    conv(f, 1, 16, 16, 3, 70, 0, 0, 2, 2);
}
static void chunks(fixture *f)
{
    conv(f, 8209, 16, 16, 2, 2, 1, 1, 1, 1);
}

static const op_case cases[] = {{.name = "channels", .build = channels},
                                {.name = "uneven", .build = uneven},
                                {.name = "wide", .build = wide},
                                {.name = "chunks", .build = chunks}};

/* The largest error of result i, relative to its largest element. */
static double error_of(const case_results *want, const double *have, int i)
{
    double largest = 0, error = 0;
    int64_t at = 0;
    for (int r = 0; r < i; r++) at += want->sizes[r];
    for (int64_t j = at; j < at + want->sizes[i]; j++) {
        largest = fmax(largest, fabs(want->number[j]));
        error = fmax(error, fabs(have[j] - want->number[j]));
    }
    return error / largest;
}

/* Way 0 is the direct sum. */
static void test_errors(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        case_results want = fixture_run(&cases[c], WEFT_F64, "reference", 1);
        double *have = malloc((size_t)want.total * sizeof(double)), direct[MOST_OUTPUTS];
        op_run run = {.ways = 1};
        assert_non_null(have);
        for (int way = 0; way < run.ways; way++) {
            op_run_open(&run, &cases[c], WEFT_F32, "cpu", way, false);
            op_run_go(&run, have);
            op_run_close(&run);
            for (int i = 0; i < want.count; i++) {
                double error = error_of(&want, have, i);
                if (way == 0) direct[i] = error;
                if (wordy)
                    printf("%s, candidate %d, result %d: error %.2g, %.1f times that of the direct "
                           "sum\n",
                           cases[c].name, way, i, error, error / direct[i]);
                assert_true(error <= fmax(MOST_ERROR, 2 * direct[i]));
            }
        }
        assert_true(run.ways > 2);
        free(have);
        free(want.number);
    }
}

/* Where an image is zero in all channels, a convolution is exactly zero, and a relu behind it
 * passes on no gradient: with each candidate as many results and gradients are zero as with the
 * direct sum. */
static void sparse(fixture *f)
{
    const int64_t x[] = {2, 32, 11, 9}, w[] = {48, 32, 3, 3};
    const weft_attr padding = {.name = "padding", .count = 2, .ints = {1, 1}};
    weft_value a = fixture_input(f, 4, x, true, 1, 0), b = fixture_input(f, 4, w, true, 1, 0);
    for (int64_t i = 0; i < 2 * 32 * 99; i++)
        if (i % 99 / 9 > 2 || i % 9 > 4) f->data[0][i] = 0;
    out(f, node(f, "relu", IN(node(f, "conv", IN(a, b), &padding, 1)), NONE));
}
static const op_case sparse_case = {.name = "sparse", .build = sparse};

static void test_zeros(void **state)
{
    (void)state;
    op_run run = {.ways = 1};
    double *have = NULL;
    int64_t zeros = 0;
    for (int way = 0; way < run.ways; way++) {
        int64_t count = 0;
        op_run_open(&run, &sparse_case, WEFT_F32, "cpu", way, false);
        have = realloc(have, (size_t)run.total * sizeof(double));
        assert_non_null(have);
        op_run_go(&run, have);
        for (int64_t i = 0; i < run.sizes[0]; i++) count += have[i] == 0;
        if (way == 0) zeros = count;
        assert_true(count == zeros && zeros > run.sizes[0] / 2);
        op_run_close(&run);
    }
    free(have);
}

int main(int argc, char **argv)
{
    (void)argv;
    wordy = argc > 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_errors), cmocka_unit_test(test_zeros)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
