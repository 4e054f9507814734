/* Not-a-number and infinity through every operator, on every device with each of its candidates,
 * fused groups included: one element of an input is planted, and each element of a result that
 * depends on it must not be finite, so that a run that computes such a number sees it. The
 * reference device is compared with the dependence that differences show, the other devices with
 * the reference device. */
#include <math.h>

#include "op_ways.h"

enum { PLACES = 2, MANY = 2000, VALUES = 3 };
static const double planted[VALUES] = {NAN, INFINITY, -INFINITY};

/* The elements of an input in which a number is planted: the first and the last one, or of many the
 * one in the middle; returns how many. */
static int places_of(int64_t n, int64_t out[PLACES])
{
    out[0] = n > MANY ? n / 2 : 0;
    out[1] = n - 1;
    return n > MANY || n == 1 ? 1 : PLACES;
}

static void run_with(op_run *run, int input, int64_t at, double value, double *results)
{
    double old = run->f.data[input][at];
    run->f.data[input][at] = value;
    op_run_go(run, results);
    run->f.data[input][at] = old;
}

static double *numbers(int64_t n)
{
    double *to = malloc((size_t)WEFT_MAX(n, 1) * sizeof(double));
    assert_non_null(to);
    return to;
}

/* Whether a device may make more of a case's numbers not finite than the reference device does:
 * where blocks multiply by zero what the reference device leaves out (keys that a causal mask
 * hides, other groups, zeros of padding and between dilated taps, positions behind the lengths),
 * the product with NaN is NaN; a transformed tile of a convolution has sums of all its numbers; and
 * a folded normalization with an infinite factor subtracts infinity from infinity. */
static bool may_spread(const op_case *c)
{
    static const char *const names[] = {"attention",         "conv_groups", "conv_volume",
                                        "conv_blocks",       "lstm",        "gru",
                                        "batch_norm_folded", "transpose_"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(c->name, names[i], strlen(names[i])) == 0) return true;
    return false;
}

static bool has_convolution(const weft_graph *g)
{
    for (size_t i = 0; i < (size_t)g->node_count; i++)
        if (strncmp(g->nodes[i]->op->name, "conv", strlen("conv")) == 0) return true;
    return false;
}

static void compare_results(const op_case *c, const op_run *run, double value, const double *want,
                            const double *have)
{
    bool transforms = has_convolution(run->f.graph);
    for (int64_t i = 0; i < run->total; i++) {
        bool lost = isnan(want[i]) ? !isnan(have[i]) : isinf(want[i]) && isfinite(have[i]);
        bool made = isfinite(want[i]) && !isfinite(have[i]) && !may_spread(c) &&
                    !(transforms && run->way > 0);
        if (lost || made)
            fail_msg("%s on %s, candidate %d: %g makes %g of element %lld, reference %g", c->name,
                     run->device, run->way, value, have[i], (long long)i, want[i]);
    }
}

/* Every device with every candidate, which are compared with the first run. */
enum { MOST_RUNS = 24 };

static int open_runs(const op_case *c, bool forward, op_run *runs)
{
    int count = 0;
    op_run_open(&runs[count++], c, WEFT_F32, "reference", -1, forward);
    for (int d = 0; built_in(WEFT_KIND_DEVICE, d); d++) {
        const char *device = built_in(WEFT_KIND_DEVICE, d);
        if (strcmp(device, "reference") == 0) continue;
        op_run *first = &runs[count++];
        op_run_open(first, c, WEFT_F32, device, -1, forward);
        for (int way = 0; first->ways > 1 && way < first->ways; way++) {
            assert_true(count < MOST_RUNS);
            op_run_open(&runs[count++], c, WEFT_F32, device, way, forward);
        }
    }
    return count;
}

static void check_case(const op_case *c, bool forward, op_run *runs)
{
    int count = open_runs(c, forward, runs);
    double *want = numbers(runs[0].total), *have = numbers(runs[0].total);
    for (int i = 0; i < runs[0].f.input_count; i++) {
        int64_t at[PLACES];
        if (!runs[0].f.data[i]) continue;
        for (int p = 0, places = places_of(runs[0].f.sizes[i], at); p < places; p++)
            for (int v = 0; v < VALUES; v++) {
                run_with(&runs[0], i, at[p], planted[v], want);
                for (int r = 1; r < count; r++) {
                    assert_int_equal(runs[r].total, runs[0].total);
                    run_with(&runs[r], i, at[p], planted[v], have);
                    compare_results(c, &runs[r], planted[v], want, have);
                }
            }
    }
    free(want);
    free(have);
    while (count > 0) op_run_close(&runs[--count]);
}

static void test_devices(void **state)
{
    (void)state;
    op_run *runs = calloc(MOST_RUNS, sizeof(*runs));
    assert_non_null(runs);
    /* In short, each case runs forward alone or with its gradients. test_ops.c has all paths. */
    int part = in_full() ? 1 : paths_alone() ? 14 : 2;
    for (int c = 0; c < op_case_count; c++)
        for (int forward = 0; forward < 2; forward++)
            if ((c + forward) % part == 0) check_case(&op_cases[c], forward, runs);
    free(runs);
}

/* --- the reference device by differences --- */

/* Whether an input only steers an operator: the index of a micro-batch, which a trainer feeds. */
static bool steers(const op_case *c, const op_run *run, int input)
{
    return strncmp(c->name, "accumulate", strlen("accumulate")) == 0 && run->f.sizes[input] == 1;
}

/* Whether a case decides by truth values, which cannot say that a number is none. */
static bool decides(const op_run *run)
{
    for (weft_value v = 0; v < weft_graph_value_count(run->f.graph); v++)
        if (weft_graph_value_type(run->f.graph, v).dtype == WEFT_BOOL) return true;
    return false;
}

static void check_dependence(const op_case *c, op_run *run, int input, int64_t at, double *base)
{
    double *more = base + run->total, *less = more + run->total, *lost = less + run->total;
    double x = run->f.data[input][at];
    run_with(run, input, at, x + 2, more);
    run_with(run, input, at, x - 2, less);
    run_with(run, input, at, NAN, lost);
    for (int64_t i = 0; i < run->total; i++)
        if ((more[i] != base[i] || less[i] != base[i]) && !isnan(lost[i]))
            fail_msg("%s: element %lld depends on element %lld of input %d, but NaN makes %g of it",
                     c->name, (long long)i, (long long)at, input, lost[i]);
}

static void test_reference(void **state)
{
    (void)state;
    for (int c = 0; c < op_case_count; c++) {
        op_run run;
        if (paths_alone() && c % 7) continue;
        op_run_open(&run, &op_cases[c], WEFT_F32, "reference", -1, true);
        double *base = numbers(4 * run.total);
        op_run_go(&run, base);
        for (int i = 0; i < run.f.input_count; i++) {
            int64_t at[PLACES];
            if (!run.f.data[i] || decides(&run) || steers(&op_cases[c], &run, i)) continue;
            for (int p = 0, places = places_of(run.f.sizes[i], at); p < places; p++)
                check_dependence(&op_cases[c], &run, i, at[p], base);
        }
        free(base);
        op_run_close(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_devices),
    };
    return cmocka_run_group_tests_name("nonfinite", tests, NULL, NULL);
}
