/* Measures the peak of one core, in products of f32 and of bf16 numbers, by processor time, so that
 * other work on the machine changes little: weft_peak
 *
 * Two products compete: the micro-kernel of the device `cpu` over panels that stay in the first
 * cache, and a large product by oneDNN. The best of several runs counts. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "device/cpu/panel.h"
#include "floor.h"

enum { DEPTH = 128, RUNS = 4000, ROUNDS = 9, SIZE = 1536 };

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* GFLOP/s of the micro-kernel; 0: the processor has no instructions for products of bf16. */
static double of_panels(bool narrow)
{
    static _Alignas(64) float a[PANEL_MOST_ROWS * DEPTH], b[PANEL_MOST_COLUMNS * DEPTH],
        block[PANEL_MOST_ROWS * PANEL_MOST_COLUMNS];
    panel_shape shape = panel_shape_of(narrow);
    double best = 0, work = 2.0 * shape.rows * shape.columns * DEPTH * (narrow ? 2 : 1) * RUNS;
    for (int r = 0; shape.rows > 0 && r < ROUNDS; r++) {
        double start = processor_seconds();
        for (int i = 0; i < RUNS; i++)
            panel_multiply(shape, a, 1, shape.rows, b, shape.rows, DEPTH, NULL, 0, block);
        double rate = 1e-9 * work / (processor_seconds() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

int main(void)
{
    for (int narrow = 0; narrow < 2; narrow++) {
        const char *type = narrow ? "bf16" : "f32";
        double own = of_panels(narrow), seconds = 0;
        for (int r = 0; r < ROUNDS; r++) {
            double took = floor_of_product(SIZE, narrow, processor_seconds);
            if (took < 0) {
                (void)fprintf(stderr, "weft_peak: oneDNN has no product of %s\n", type);
                return 1;
            }
            seconds = r == 0 || took < seconds ? took : seconds;
        }
        double other = 2e-9 * SIZE * SIZE * SIZE / seconds;
        printf("%s: %.1f GFLOP/s by the micro-kernel, %.1f by a product of oneDNN of %d x %d\n",
               type, own, other, SIZE, SIZE);
        printf("RESULT %s %.1f\n", type, own > other ? own : other);
    }
    return 0;
}
