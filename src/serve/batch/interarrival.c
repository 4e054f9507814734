/* Records the gaps between the arrivals of a queue, and detects when the load changes: then older
 * gaps are dropped. Recent gaps of several numbers are compared with the earlier ones (after ADWIN:
 * Bifet and Gavalda 2007): few of them show a large change early, many of them show a small one. */
#include <math.h>

#include "serve/batch/adaptive_internal.h"

enum { SCALES = WEFT_INTERARRIVAL_SCALES, FEWEST = 48 };
static const int RECENT[SCALES] = {FEWEST, 4 * FEWEST, 16 * FEWEST};
/* A gap longer than so many mean gaps and so many seconds is a pause, which is not recorded. */
static const double PAUSE = 1000, PAUSE_SECONDS = 1;
/* The logarithm of a gap is that of the gap plus these seconds, below which gaps do not differ. */
static const double LEAST_GAP = 1e-6;
/* Standard deviations by which the mean gap differs, and by which the mean logarithm of the gaps
 * differs, if the load has changed. */
static const double DEVIATIONS = 4.2, OTHER_FORM = 9, LEAST_VARIATION = 1e-3;

static int kept(const weft_interarrivals *g)
{
    return (int)WEFT_MIN(g->count, WEFT_INTERARRIVALS);
}

/* The index of the gap of `back` arrivals ago. */
static int64_t slot(const weft_interarrivals *g, int64_t back)
{
    return (g->first + g->count - back) % WEFT_INTERARRIVALS;
}

/* Adds the gap of `back` arrivals ago to the sums, `times` times. */
static void add(weft_interarrival_sums *sums, const weft_interarrivals *g, int64_t back,
                double times)
{
    int64_t i = slot(g, back);
    sums->sum += times * g->gap[i];
    sums->squares += times * g->gap[i] * g->gap[i];
    sums->logs += times * g->log_gap[i];
    sums->log_squares += times * g->log_gap[i] * g->log_gap[i];
}

/* Computes the sums anew, which removes the rounding errors of repeated adding and subtracting. */
static void sum_up(weft_interarrivals *g)
{
    g->all = (weft_interarrival_sums){0};
    memset(g->recent, 0, sizeof(g->recent));
    for (int back = kept(g); back > 0; back--) {
        add(&g->all, g, back, 1);
        for (int i = 0; i < SCALES; i++)
            if (back <= RECENT[i]) add(&g->recent[i], g, back, 1);
    }
}

static void moments(double sum, double squares, int n, double *mean, double *variance)
{
    *mean = sum / n;
    *variance = WEFT_MAX(squares / n - *mean * *mean, 0);
}

/* The difference of the mean of `n` recent values from that of the earlier ones, in standard
 * deviations of chance. `sum` and `squares` are those of `all` values. The variance is that of all,
 * so that one long gap after many short ones is no change; it is LEAST_VARIATION of the squared
 * mean at least. */
static double difference(double recent, int n, double sum, double squares, int all)
{
    double mean, variance, others = all - n;
    moments(sum, squares, all, &mean, &variance);
    variance = WEFT_MAX(variance, LEAST_VARIATION * mean * mean) * (1 / (double)n + 1 / others);
    return variance > 0 ? (recent / n - (sum - recent) / others) / sqrt(variance) : 0;
}

/* Whether the mean of the recent gaps, or of their logarithms, differs from that of the earlier
 * ones by more than chance: the thresholds are exceeded by chance once in many thousand tests. Sums
 * of exponential gaps are skewed, so a longer mean needs more and a shorter one less (Cornish and
 * Fisher 1938). The logarithms show a change from bursts to single arrivals, which the variance of
 * the gaps hides. */
static bool has_changed(const weft_interarrivals *g, int scale)
{
    int n = RECENT[scale], all = kept(g);
    if (all < 2 * n) return false;
    const weft_interarrival_sums *recent = &g->recent[scale];
    double gaps = difference(recent->sum, n, g->all.sum, g->all.squares, all);
    double logs = difference(recent->logs, n, g->all.logs, g->all.log_squares, all);
    return fabs(gaps - 5 / sqrt(n)) > DEVIATIONS || fabs(logs) > OTHER_FORM;
}

static void put(weft_interarrivals *g, double gap, int64_t rows)
{
    if (g->count >= WEFT_INTERARRIVALS) add(&g->all, g, WEFT_INTERARRIVALS, -1);
    for (int i = 0; i < SCALES; i++)
        if (g->count >= RECENT[i]) add(&g->recent[i], g, RECENT[i], -1);
    int64_t next = slot(g, 0);
    g->count++;
    g->gap[next] = gap;
    g->log_gap[next] = log(gap + LEAST_GAP);
    g->rows[next] = rows;
    add(&g->all, g, 1, 1);
    for (int i = 0; i < SCALES; i++) add(&g->recent[i], g, 1, 1);
    if (g->count % WEFT_INTERARRIVALS == 0) sum_up(g);
}

/* Keeps only the last `left` gaps. */
static void forget(weft_interarrivals *g, int left)
{
    g->first = slot(g, left);
    g->count = left;
    sum_up(g);
}

bool weft_interarrivals_add(weft_interarrivals *g, double now, int64_t rows)
{
    double gap = now - g->last;
    bool first = g->last < 0;
    g->last = now;
    if (first) return false;
    if (g->count >= FEWEST && gap > PAUSE_SECONDS && gap > PAUSE * g->all.sum / kept(g))
        return false;
    put(g, gap, rows);
    if (g->count % 8 != 0) return false;
    for (int i = 0; i < SCALES; i++) {
        if (!has_changed(g, i)) continue;
        forget(g, RECENT[i] / 3 * 2);
        return true;
    }
    return false;
}

double weft_interarrivals_rate(const weft_interarrivals *g)
{
    int n = kept(g);
    return n >= 8 && g->all.sum > 0 ? n / g->all.sum : 0;
}

double weft_interarrivals_burstiness(const weft_interarrivals *g)
{
    double mean, variance;
    int n = kept(g);
    if (n < 8) return 0;
    moments(g->all.sum, g->all.squares, n, &mean, &variance);
    return mean > 0 ? variance / (mean * mean) : 0;
}

/* If the burstiness is about 1, gaps are drawn from an exponential distribution (a Poisson
 * process), since a few hundred recorded gaps contain lucky runs. Otherwise the recorded gaps are
 * replayed in order, which keeps their correlation. */
void weft_interarrivals_replay(const weft_interarrivals *g, int n, uint64_t seed, double *at,
                               int64_t *rows)
{
    int have = kept(g);
    double rate = weft_interarrivals_rate(g), batch_key = weft_interarrivals_burstiness(g), now = 0;
    bool independent = fabs(batch_key - 1) < WEFT_MAX(0.2, 5 / sqrt((double)have));
    weft_random random;
    weft_random_start(&random, 11, seed);
    int begin = (int)(seed * 997 % (uint64_t)have);
    for (int i = 0; i < n; i++) {
        int64_t from = slot(g, have - (begin + i) % have);
        now += independent ? -log(1 - weft_random_unit(&random)) / rate : g->gap[from];
        at[i] = now;
        rows[i] = g->rows[from];
    }
}
