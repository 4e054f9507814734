/* Records the gaps between the arrivals of a queue, and detects when the load changes: then older
 * gaps are dropped. */
#include <math.h>

#include "serve/batch/adaptive_internal.h"

enum { RECENT = WEFT_INTERARRIVALS_RECENT, LEFT = 32 };
/* A gap longer than so many mean gaps and so many seconds is a pause, which is not recorded. */
static const double PAUSE = 1000, PAUSE_SECONDS = 1;

static int kept(const weft_interarrivals *g)
{
    return (int)WEFT_MIN(g->count, WEFT_INTERARRIVALS);
}

static void add(weft_interarrival_sums *sums, double gap, double times)
{
    sums->sum += times * gap;
    sums->squares += times * gap * gap;
}

static double gap_back(const weft_interarrivals *g, int64_t back)
{
    return g->gap[(g->count - back) % WEFT_INTERARRIVALS];
}

/* Computes the sums anew, which removes the rounding errors of repeated adding and subtracting. */
static void sum_up(weft_interarrivals *g)
{
    g->all = g->recent = (weft_interarrival_sums){0};
    for (int back = kept(g); back > 0; back--) {
        add(&g->all, gap_back(g, back), 1);
        if (back <= RECENT) add(&g->recent, gap_back(g, back), 1);
    }
}

static void moments(const weft_interarrival_sums *sums, int n, double *mean, double *variance)
{
    *mean = sums->sum / n;
    *variance = WEFT_MAX(sums->squares / n - *mean * *mean, 0);
}

/* Whether the mean of the recent gaps differs from that of the earlier ones by more than chance:
 * the threshold is exceeded by chance once in many thousand tests. */
static bool has_changed(const weft_interarrivals *g)
{
    double recent, before, spread, ignored;
    int n = kept(g) - RECENT;
    if (n < RECENT) return false;
    weft_interarrival_sums others = {g->all.sum - g->recent.sum,
                                     g->all.squares - g->recent.squares};
    moments(&g->recent, RECENT, &recent, &ignored);
    moments(&others, n, &before, &spread);
    double noise = sqrt((spread + 1e-3 * before * before) * (1.0 / RECENT + 1.0 / n));
    double off = recent - before;
    return off > 5 * noise || -off > 3.6 * noise;
}

static void put(weft_interarrivals *g, double gap, int64_t rows)
{
    if (g->count >= WEFT_INTERARRIVALS) add(&g->all, gap_back(g, WEFT_INTERARRIVALS), -1);
    if (g->count >= RECENT) add(&g->recent, gap_back(g, RECENT), -1);
    add(&g->all, gap, 1);
    add(&g->recent, gap, 1);
    g->gap[g->count % WEFT_INTERARRIVALS] = gap;
    g->rows[g->count % WEFT_INTERARRIVALS] = rows;
    g->count++;
    if (g->count % WEFT_INTERARRIVALS == 0) sum_up(g);
}

/* Keeps only the last LEFT gaps. */
static void forget(weft_interarrivals *g)
{
    double gap[LEFT];
    int64_t rows[LEFT];
    for (int i = 0; i < LEFT; i++) {
        int64_t from = (g->count - LEFT + i) % WEFT_INTERARRIVALS;
        gap[i] = g->gap[from];
        rows[i] = g->rows[from];
    }
    memcpy(g->gap, gap, sizeof(gap));
    memcpy(g->rows, rows, sizeof(rows));
    g->count = LEFT;
    sum_up(g);
}

bool weft_interarrivals_add(weft_interarrivals *g, double now, int64_t rows)
{
    double gap = now - g->last;
    bool first = g->last < 0;
    g->last = now;
    if (first) return false;
    if (g->count >= LEFT && gap > PAUSE_SECONDS && gap > PAUSE * g->all.sum / kept(g)) return false;
    put(g, gap, rows);
    if (g->count % 8 != 0 || !has_changed(g)) return false;
    forget(g);
    return true;
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
    moments(&g->all, n, &mean, &variance);
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
        int64_t from = (g->count - have + (begin + i) % have) % WEFT_INTERARRIVALS;
        now += independent ? -log(1 - weft_random_unit(&random)) / rate : g->gap[from];
        at[i] = now;
        rows[i] = g->rows[from];
    }
}
