/* Chooses the batch sizes that get a batch program of their own: few sizes, but so close together
 * that padding a batch to the next size costs little time. The times of some sizes are measured
 * when the model is loaded, or known from an earlier start. The times of the other sizes are
 * interpolated until serving has measured them. */
#include "serve/servable.h"

/* A size is dropped if the next larger size takes at most this factor longer (see prune). */
static const double PADDING = 1.05;

enum { MOST_RUNS = 9 };

/* Measures the time of a batch: the minimum over up to MOST_RUNS runs after one warm-up run, since
 * interruptions only lengthen a run. Long runs are repeated fewer times, for about `share` seconds
 * in all. */
static weft_status measure(weft_servable *s, weft_batch_program *v, double share)
{
    double began = weft_seconds();
    WEFT_TRY(weft_batch_program_run(s, v, 0));
    for (int runs = 0; runs < MOST_RUNS && (runs < 1 || weft_seconds() - began < share); runs++) {
        double now = weft_seconds();
        WEFT_TRY(weft_batch_program_run(s, v, 0));
        double took = WEFT_MAX(weft_seconds() - now, 1e-9);
        v->seconds = runs ? WEFT_MIN(took, v->seconds) : took;
    }
    v->measured = true;
    return WEFT_OK;
}

/* --- candidate sizes --- */

/* The next candidate size: 1, 2, 3, 4, 6, 8, 12, 16 and so on, and the limit. From 2 on, each size
 * is at most one and a half times the previous one. */
static int64_t next_size(int64_t size, int64_t limit)
{
    int64_t power = 1;
    while (2 * power <= size) power *= 2;
    int64_t next = size < 2 ? size + 1 : size == power ? power + power / 2 : 2 * power;
    return WEFT_MIN(next, limit);
}

/* The smallest batch size: one row for each rank of the mesh's data axis. */
static weft_status smallest(const weft_servable *s, int64_t *out)
{
    WEFT_TRY(weft_mesh_weights_rows(&s->weights, out));
    if (*out <= s->limit) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "mesh %s shares each batch out to %lld ranks, and its limit is %lld rows; "
                     "give --limit %lld or more",
                     s->weights.mesh, (long long)*out, (long long)s->limit, (long long)*out);
}

static weft_status fill(weft_servable *s)
{
    int64_t rows;
    WEFT_TRY(smallest(s, &rows));
    WEFT_TRY(WEFT_NEW(&s->sizes, WEFT_MOST_SIZES));
    for (;; rows = next_size(rows, s->limit)) {
        s->sizes[s->count++].rows = rows;
        if (rows == s->limit) return WEFT_OK;
    }
}

/* --- estimates --- */

/* The estimated seconds of a batch of size k: measured, interpolated between the measured sizes
 * around it, or beyond the largest measured size in proportion to the rows. 0: no size up to k has
 * been measured. The estimate does not decrease with the rows. */
static double estimate(const weft_servable *s, int k)
{
    int below = k, above = k;
    while (below >= 0 && !s->sizes[below].measured) below--;
    while (above < s->count && !s->sizes[above].measured) above++;
    if (below < 0) return 0;
    const weft_batch_program *low = &s->sizes[below];
    if (below == k) return low->seconds;
    if (above == s->count) return low->seconds * (double)s->sizes[k].rows / (double)low->rows;
    const weft_batch_program *high = &s->sizes[above];
    double part = (double)(s->sizes[k].rows - low->rows) / (double)(high->rows - low->rows);
    return low->seconds + part * WEFT_MAX(high->seconds - low->seconds, 0);
}

/* The index of the next size to measure whose three runs fit into the `left` seconds: first the
 * largest such size, then the middle of the widest gap between measured sizes. -1: no size fits. */
static int next_to_measure(const weft_servable *s, double left)
{
    int best = -1, widest = 1, low = 0;
    for (int k = s->count - 1; !s->sizes[k].measured; k--)
        if (3 * estimate(s, k) < left) return k;
    for (int k = 1; k < s->count; k++) {
        if (!s->sizes[k].measured) continue;
        int middle = (low + k) / 2;
        if (k - low > widest && 3 * estimate(s, middle) < left) {
            widest = k - low;
            best = middle;
        }
        low = k;
    }
    return best;
}

/* --- choice --- */

/* Marks the sizes that stay. A size is dropped if the next larger size that stays takes hardly
 * longer (PADDING). The smallest size always stays, so that a single request is as fast as
 * possible. */
static void prune(weft_servable *s, bool *stays)
{
    double above = 0;
    for (int k = s->count - 1; k >= 0; k--) {
        double seconds = estimate(s, k);
        stays[k] = k == 0 || k == s->count - 1 || seconds <= 0 || above > PADDING * seconds;
        if (stays[k]) above = seconds;
    }
}

static weft_status choose_sizes(weft_servable *s)
{
    bool stays[WEFT_MOST_SIZES];
    int count = 0;
    double last = 0;
    prune(s, stays);
    for (int k = 0; k < s->count; k++) s->sizes[k].seconds = estimate(s, k);
    for (int k = 0; k < s->count; k++) {
        weft_batch_program *v = &s->sizes[k];
        if (!stays[k]) {
            weft_batch_program_free(s, v);
            continue;
        }
        v->seconds = last = WEFT_MAX(v->seconds, last);
        if (count < k) {
            s->sizes[count] = *v;
            *v = (weft_batch_program){0};
        }
        count++;
    }
    s->count = count;
    for (int k = 0; k < s->count; k++) {
        if (s->sizes[k].graph) continue;
        WEFT_TRY(weft_batch_program_plan(s, &s->sizes[k]));
        WEFT_TRY(weft_batch_program_bind(s, &s->sizes[k]));
    }
    return WEFT_OK;
}

static void use_known_times(weft_servable *s, const weft_servable *like)
{
    weft_batch_times known;
    weft_batch_times_take(s, like, &known);
    if (known.count == 0) weft_batch_times_read(s, &known);
    for (int k = 0; k < s->count; k++) {
        s->sizes[k].seconds = weft_batch_times_at(&known, s->sizes[k].rows);
        s->sizes[k].measured = s->sizes[k].seconds > 0;
    }
    s->has_slowdown = known.executors == s->executors;
    memcpy(s->slowdown, known.slowdown, sizeof(s->slowdown));
}

/* Plans the smallest size and loads the weights. The program is created first, because the first
 * program of a store determines the layouts of its weights. */
static weft_status begin(weft_servable *s)
{
    WEFT_TRY(weft_batch_program_plan(s, &s->sizes[0]));
    WEFT_TRY(weft_mesh_weights_load(&s->weights, &s->checkpoint, s->sizes[0].graph));
    return weft_batch_program_bind(s, &s->sizes[0]);
}

weft_status weft_servable_plan_sizes(weft_servable *s, double budget, const weft_servable *like)
{
    double began = weft_seconds();
    WEFT_TRY(fill(s));
    WEFT_TRY(begin(s));
    WEFT_TRY(weft_batch_times_key_of(s, &s->key));
    use_known_times(s, like);
    if (budget > 0 && !s->sizes[0].measured) WEFT_TRY(measure(s, &s->sizes[0], budget / 10));
    for (;;) {
        double left = began + budget - weft_seconds();
        int k = s->sizes[0].measured && left > 0 ? next_to_measure(s, left) : -1;
        if (k < 0) break;
        if (!s->sizes[k].graph) {
            WEFT_TRY(weft_batch_program_plan(s, &s->sizes[k]));
            WEFT_TRY(weft_batch_program_bind(s, &s->sizes[k]));
        }
        WEFT_TRY(measure(s, &s->sizes[k], budget / 20));
    }
    return choose_sizes(s);
}
