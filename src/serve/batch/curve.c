/* The batch curve: the time of a batch as a function of its rows and of the number of busy
 * executors. The time of a size is the trimmed mean of its last measurements; the times are then
 * made non-decreasing in the rows (isotonic regression) and are linear between the sizes. */
#include <math.h>

#include "serve/batch/batch_internal.h"

enum { KEPT = 31, GIVEN = 5, FADES = 16, NOISES = 128 };

struct weft_curve_samples {
    int64_t noted;                  /* number of measurements of all sizes */
    int64_t when[WEFT_CURVE_SIZES]; /* value of `noted` at the last measurement of each size */
    /* number of measurements of each size; the last KEPT are in `last` */
    int64_t count[WEFT_CURVE_SIZES];
    double last[WEFT_CURVE_SIZES][KEPT];
    double middle[WEFT_CURVE_SIZES];
};

/* The sizes of a curve without given times: the powers of two below the limit, and the limit. */
static int usual_sizes(int64_t limit, int64_t *rows)
{
    int n = 0;
    for (int64_t size = 1; size < limit && n < WEFT_CURVE_SIZES - 1; size *= 2) rows[n++] = size;
    rows[n++] = limit;
    return n;
}

static weft_status check(const int64_t *rows, const double *times, int sizes)
{
    if (sizes > WEFT_CURVE_SIZES)
        return weft_fail(WEFT_ERR_ARGUMENT, "batch times are given for %d sizes; %d are the most",
                         sizes, WEFT_CURVE_SIZES);
    for (int i = 0; i < sizes; i++)
        if (rows[i] < 1 || (i && rows[i] <= rows[i - 1]) || !(times[i] > 0) || !isfinite(times[i]))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "batch times must be of growing sizes from 1 on, and above 0; number "
                             "%d is %g s for %lld rows",
                             i + 1, times[i], (long long)rows[i]);
    return WEFT_OK;
}

/* The mean of `n` times without the longest and the shortest fifth, since the time of an
 * interrupted batch says nothing about other batches. */
static double middle_of(const double *last, int n)
{
    double sorted[KEPT], sum = 0;
    int apart = n / 5, kept = n - 2 * apart;
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > last[i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = last[i];
    }
    for (int i = 0; i < kept; i++) sum += sorted[apart + i];
    return sum / kept;
}

static void add_sample(weft_curve_samples *s, int size, double seconds)
{
    s->last[size][s->count[size]++ % KEPT] = seconds;
    s->when[size] = s->noted++;
    /* One more of many measurements changes the mean little, so only every fourth one is
     * evaluated. */
    if (s->count[size] > KEPT && s->count[size] % 4 != 0) return;
    s->middle[size] = middle_of(s->last[size], (int)WEFT_MIN(s->count[size], KEPT));
}

weft_status weft_curve_make(const int64_t *rows, const double *times, int sizes,
                            const double *slowdown, int executors, weft_curve *out)
{
    *out = (weft_curve){.executors = executors, .sizes = sizes};
    WEFT_TRY(check(rows, times, sizes));
    WEFT_TRY(WEFT_NEW(&out->slowdown, executors));
    WEFT_TRY(WEFT_NEW(&out->samples, 1));
    for (int e = 0; e < executors; e++) {
        out->slowdown[e] = slowdown ? slowdown[e] : 1;
        if (!(out->slowdown[e] > 0) || !isfinite(out->slowdown[e]))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "executors slow each other down by the factor %g where %d compute; it "
                             "must be above 0",
                             out->slowdown[e], e + 1);
    }
    for (int i = 0; i < sizes; i++) {
        out->rows[i] = rows[i];
        out->time[i] = i ? WEFT_MAX(times[i], out->time[i - 1]) : times[i];
        for (int k = 0; k < GIVEN; k++) add_sample(out->samples, i, times[i]);
    }
    return WEFT_OK;
}

void weft_curve_free(weft_curve *curve)
{
    free(curve->slowdown);
    free(curve->samples);
    curve->slowdown = NULL;
    curve->samples = NULL;
}

void weft_curve_copy(const weft_curve *curve, weft_curve *to)
{
    to->sizes = curve->sizes;
    to->noise = curve->noise;
    memcpy(to->rows, curve->rows, sizeof(to->rows));
    memcpy(to->time, curve->time, sizeof(to->time));
    memcpy(to->slowdown, curve->slowdown, (size_t)curve->executors * sizeof(*to->slowdown));
}

double weft_curve_time(const weft_curve *c, double rows)
{
    if (c->sizes == 0) return 0;
    if (rows <= (double)c->rows[0]) return c->time[0];
    int last = c->sizes - 1, i = 1;
    /* Beyond the largest size, the time is proportional to the rows. */
    if (rows > (double)c->rows[last]) return c->time[last] * rows / (double)c->rows[last];
    while (rows > (double)c->rows[i]) i++;
    double low = (double)c->rows[i - 1], high = (double)c->rows[i];
    return c->time[i - 1] + (c->time[i] - c->time[i - 1]) * (rows - low) / (high - low);
}

/* --- learning --- */

/* The weight of a size in the isotonic regression: its number of measurements, falling
 * exponentially with the age of the last one. */
static double weight_of(const weft_curve_samples *s, int size)
{
    double age = (double)(s->noted - s->when[size]) / FADES;
    return (double)WEFT_MIN(s->count[size], KEPT) * exp(-WEFT_MIN(age, 500));
}

/* Lists the measured sizes with their times, and returns their number. Neighbouring sizes of which
 * the smaller one took longer get their weighted mean (isotonic regression by pool adjacent
 * violators). */
static int pool(const weft_curve *c, int *size, double *time)
{
    double value[WEFT_CURVE_SIZES], weight[WEFT_CURVE_SIZES];
    int members[WEFT_CURVE_SIZES], pools = 0, n = 0;
    for (int i = 0; i < c->sizes; i++) {
        if (c->samples->count[i] == 0) continue;
        size[n++] = i;
        value[pools] = c->samples->middle[i];
        weight[pools] = weight_of(c->samples, i);
        members[pools++] = 1;
        for (; pools > 1 && value[pools - 2] > value[pools - 1]; pools--) {
            double all = weight[pools - 2] + weight[pools - 1];
            value[pools - 2] =
                (value[pools - 2] * weight[pools - 2] + value[pools - 1] * weight[pools - 1]) / all;
            weight[pools - 2] = all;
            members[pools - 2] += members[pools - 1];
        }
    }
    for (int p = 0, i = 0; p < pools; p++)
        for (int k = 0; k < members[p]; k++) time[i++] = value[p];
    return n;
}

/* The seconds of an additional row beyond the largest measured size: the slope between the two
 * largest measured sizes, but at least a tenth of the mean time of a row. With one measured size:
 * half the mean time of a row. */
static double slope(const weft_curve *c, const int *size, const double *time, int n)
{
    double last = (double)c->rows[size[n - 1]], each = time[n - 1] / last;
    if (n == 1) return each / 2;
    double first = (double)c->rows[size[n - 2]];
    return WEFT_MAX((time[n - 1] - time[n - 2]) / (last - first), each / 10);
}

static void update_times(weft_curve *c)
{
    int size[WEFT_CURVE_SIZES];
    double time[WEFT_CURVE_SIZES];
    int n = pool(c, size, time);
    if (n == 0) return;
    double each = slope(c, size, time, n), first = (double)c->rows[size[0]];
    for (int i = 0, next = 0; i < c->sizes; i++) {
        double rows = (double)c->rows[i];
        while (next < n && size[next] < i) next++;
        if (next < n && size[next] == i) {
            c->time[i] = time[next];
        } else if (next == 0) { /* assumes that half of a batch's time is fixed */
            c->time[i] = time[0] * (0.5 + 0.5 * rows / first);
        } else if (next == n) {
            c->time[i] = time[n - 1] + each * (rows - (double)c->rows[size[n - 1]]);
        } else {
            double low = (double)c->rows[size[next - 1]], high = (double)c->rows[size[next]];
            c->time[i] =
                time[next - 1] + (time[next] - time[next - 1]) * (rows - low) / (high - low);
        }
    }
}

static bool all_seen(const weft_curve *c, int below, int above)
{
    return c->samples->count[below] > 0 && c->samples->count[above] > 0;
}

static void note_noise(weft_curve *c, double off)
{
    c->noise += (WEFT_MIN(off * off, 1) - c->noise) / NOISES;
}

void weft_curve_learn(weft_curve *c, int64_t limit, int64_t rows, int busy, double seconds)
{
    enum { SLOWLY = 20 };
    int above = 0;
    if (!(seconds > 0)) return;
    bool first = c->sizes == 0;
    if (first) c->sizes = usual_sizes(limit, c->rows);
    while (above < c->sizes - 1 && c->rows[above] < rows) above++;
    int below = above > 0 && c->rows[above] > rows ? above - 1 : above;
    double expected = weft_curve_time(c, (double)rows);
    bool together = busy > 1 && busy <= c->executors, known = all_seen(c, below, above);
    if (known) note_noise(c, seconds / (expected * (together ? c->slowdown[busy - 1] : 1)) - 1);
    if (together && known) {
        double *slowdown = &c->slowdown[busy - 1];
        *slowdown +=
            (WEFT_MIN(WEFT_MAX(seconds / expected, 1), 4 * *slowdown) - *slowdown) / SLOWLY;
        return;
    }
    if (together) seconds /= c->slowdown[busy - 1];
    double off = first ? 1 : seconds / expected;
    add_sample(c->samples, above, first ? seconds : c->time[above] * off);
    if (below != above && !first) add_sample(c->samples, below, c->time[below] * off);
    update_times(c);
}
