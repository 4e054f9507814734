/* Estimates times from measured ones. A size that was measured has its own time; otherwise those of
 * its family count, whose samples have the same shapes, since a kernel's rate depends on these more
 * than on the number of samples. Between sizes of a kind the nearest three count, each scaled by
 * the roofline of the machine; a kind that was not measured is estimated from its operator, and an
 * operator that was not from the machine's rates of operations and bytes alone. The error of each
 * way is that of leaving measurements out. */
#include <math.h>

#include "base/sort.h"
#include "cost/times_internal.h"

enum { NEAREST = 3, MOST_TRIED = 400 };

/* --- the index --- */

static int compare_hashes(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_lines(const void *first, const void *second)
{
    const time_line *a = first, *b = second;
    if (a->threads != b->threads) return a->threads - b->threads;
    if (a->ranks != b->ranks) return a->ranks - b->ranks;
    int order = compare_hashes(a->kind_hash, b->kind_hash);
    if (order == 0) order = compare_hashes(a->group_hash, b->group_hash);
    return order ? order : (a->seconds > b->seconds) - (a->seconds < b->seconds);
}

static bool same_size(const time_line *a, const time_line *b)
{
    return a->threads == b->threads && a->ranks == b->ranks && a->kind_hash == b->kind_hash &&
           a->group_hash == b->group_hash && a->flops == b->flops && a->bytes == b->bytes;
}

/* The end of the lines that measure the same thing as line i, in the order of their seconds. */
static size_t end_of_same(const weft_times *t, size_t i)
{
    size_t next = i + 1;
    while (next < t->count && same_size(&t->lines[i], &t->lines[next])) next++;
    return next;
}

/* Keeps one of the lines from i to before `end`, with these seconds, as line `kept`. */
static void keep_one(weft_times *t, size_t i, size_t end, double seconds, size_t kept)
{
    time_line one = t->lines[i];
    one.seconds = seconds;
    for (size_t k = i + 1; k < end; k++) free(t->lines[k].own);
    t->lines[kept] = one;
}

/* Replaces measurements of the same thing by their lower quartile: what disturbs a run makes it
 * longer. The error of an estimate by size is how far they are from their median, as a share of the
 * time of all: a kernel that takes long says more of a machine than many short ones. */
static void merge(weft_times *t)
{
    size_t kept = 0;
    double apart = 0, whole = 0;
    for (size_t i = 0, end; i < t->count; i = end) {
        end = end_of_same(t, i);
        size_t count = end - i;
        double median =
            (t->lines[i + (count - 1) / 2].seconds + t->lines[i + count / 2].seconds) / 2;
        for (size_t k = i; k < end && count > 1; k++)
            apart += fabs(t->lines[k].seconds - median) / (double)count;
        if (count > 1) whole += median;
        keep_one(t, i, end, t->lines[i + (count - 1) / 4].seconds, kept++);
    }
    t->count = kept;
    t->errors[WEFT_BY_SIZE] = whole > 0 ? apart / whole : 0;
}

/* The rates of a setting: those of the kernels that reach most of either, of which none is short,
 * unless all are. */
static void find_rates(const weft_times *t, time_setting *s)
{
    double longest = 0;
    s->flops = s->bytes = 1e6;
    for (size_t i = s->begin; i < s->end; i++) longest = WEFT_MAX(longest, t->lines[i].seconds);
    for (size_t i = s->begin; i < s->end; i++) {
        const time_line *m = &t->lines[i];
        double net = WEFT_MAX(m->seconds - start_seconds, m->seconds / 2);
        if (m->seconds < WEFT_MIN(10 * start_seconds, longest)) continue;
        s->flops = WEFT_MAX(s->flops, m->flops / net);
        s->bytes = WEFT_MAX(s->bytes, m->bytes / net);
    }
    /* A working set within a cache is faster than memory; most kernels of a step have larger ones.
     */
    s->bytes /= 2;
}

static weft_status add_settings(weft_times *t)
{
    t->setting_count = 0;
    for (size_t i = 0, next; i < t->count; i = next) {
        const time_line *first = &t->lines[i];
        for (next = i + 1; next < t->count && t->lines[next].threads == first->threads &&
                           t->lines[next].ranks == first->ranks;)
            next++;
        WEFT_TRY(WEFT_GROW(&t->settings, &t->setting_capacity, t->setting_count));
        time_setting *s = &t->settings[t->setting_count++];
        *s = (time_setting){
            .threads = first->threads, .ranks = first->ranks, .begin = i, .end = next};
        find_rates(t, s);
    }
    return WEFT_OK;
}

/* --- estimates --- */

/* The measurements that count: those of the same size, kind, or operator. */
typedef struct wanted {
    weft_estimate_by by;
    uint64_t kind, op, form, group, family;
    bool sized;                /* a group describes it exactly */
    bool kin;                  /* of its family alone */
    const time_line *left_out; /* to find the error; NULL: none */
} wanted;

static bool of_family(const wanted *w, const time_line *m)
{
    return w->family != 0 && m->family_hash == w->family && m->operator_hash == w->op;
}

static bool counts(const wanted *w, const time_line *m)
{
    if (m == w->left_out) return false;
    switch (w->by) {
    case WEFT_BY_SIZE: return w->sized && m->kind_hash == w->kind && m->group_hash == w->group;
    case WEFT_BY_KIND:
        return w->kin ? of_family(w, m) : m->operator_hash == w->op && m->form_hash == w->form;
    case WEFT_BY_OPERATOR: return m->operator_hash == w->op;
    default: return false;
    }
}

/* How far two measurements are from each other: the sum of the logarithms of the ratios of their
 * sizes. Within a family, another implementation or other operators beside the first are as far as
 * a size of 1.4 times as many samples. */
static double distance(const wanted *w, const time_line *m, const weft_timed *what)
{
    static const double OTHER_KIND = 0.7;
    bool other = m->kind_hash != w->kind;
    return fabs(log((m->flops + 1e3) / (what->flops + 1e3))) +
           fabs(log((m->bytes + 64) / (what->bytes + 64))) + (other ? OTHER_KIND : 0);
}

/* The nearest measurements that count, nearest first. */
static int find_nearest(const weft_times *t, const time_setting *s, const wanted *w,
                        const weft_timed *what, const time_line *out[NEAREST], double *away)
{
    int count = 0;
    for (size_t i = s->begin; i < s->end; i++) {
        const time_line *m = &t->lines[i];
        if (!counts(w, m)) continue;
        double d = distance(w, m, what);
        int at = count < NEAREST ? count++ : NEAREST - 1;
        if (at == NEAREST - 1 && count == NEAREST && out[at] && away[at] <= d) continue;
        for (; at > 0 && away[at - 1] > d; at--) {
            away[at] = away[at - 1];
            out[at] = out[at - 1];
        }
        away[at] = d;
        out[at] = m;
    }
    return count;
}

/* Estimates in one way; false: nothing that counts was measured. */
static bool estimate_by(const weft_times *t, const time_setting *s, const wanted *w,
                        const weft_timed *what, double *seconds)
{
    const time_line *near[NEAREST] = {NULL};
    double away[NEAREST], sum = 0, weights = 0;
    int count = find_nearest(t, s, w, what, near, away);
    if (count == 0) return false;
    for (int i = 0; i < count; i++) {
        double weight = 1 / (away[i] * away[i] + 1e-4);
        double ratio =
            roofline(s, what->flops, what->bytes) / roofline(s, near[i]->flops, near[i]->bytes);
        sum += weight * log(near[i]->seconds * ratio);
        weights += weight;
    }
    *seconds = exp(sum / weights);
    return true;
}

/* How unlike a setting is to the wanted one. */
static double unlike(const time_setting *s, const weft_timed *what)
{
    return 2 * fabs(log((double)s->threads / what->threads)) +
           fabs(log((double)s->ranks / what->ranks));
}

/* The setting that is most like the wanted one, of those that are less like it than `beyond`. */
static const time_setting *next_setting(const weft_times *t, const weft_timed *what, double beyond)
{
    const time_setting *best = NULL;
    for (size_t i = 0; i < t->setting_count; i++) {
        const time_setting *s = &t->settings[i];
        if (unlike(s, what) > beyond && (!best || unlike(s, what) < unlike(best, what))) best = s;
    }
    return best;
}

/* Estimates in the best way of the nearest setting that has one. *at: that setting. */
static double estimate_best(const weft_times *t, wanted *w, const weft_timed *what,
                            const time_setting **at)
{
    double seconds, beyond = -1;
    weft_estimate_by first = w->by;
    for (const time_setting *s; (s = next_setting(t, what, beyond)); beyond = unlike(s, what)) {
        *at = s;
        for (w->by = first; w->by < WEFT_BY_RATES; w->by++)
            for (w->kin = w->by == WEFT_BY_KIND && w->family != 0;; w->kin = false) {
                if (estimate_by(t, s, w, what, &seconds)) return seconds;
                if (!w->kin) break;
            }
    }
    *at = next_setting(t, what, -1);
    return roofline(*at, what->flops, what->bytes);
}

weft_estimate weft_times_estimate(const weft_times *t, const weft_timed *what)
{
    const time_setting *s;
    wanted w = {.by = WEFT_BY_SIZE,
                .kind = weft_hash_text(what->kind),
                .group = weft_hash_text(what->group),
                .op = weft_times_operator(what->kind),
                .form = weft_times_form(what->kind),
                .family = weft_times_family(what->group),
                .sized = *what->group != '\0'};
    double seconds = estimate_best(t, &w, what, &s);
    /* More threads than were measured share the work, fewer have more of it each. */
    double share = (double)s->threads / what->threads;
    /* The part of threads beyond the measured ones is uncertain. */
    double error = WEFT_MAX(t->errors[w.by], 1 - share);
    return (weft_estimate){.seconds = seconds * share, .error = error, .by = w.by};
}

/* --- errors --- */

/* The median error of one way: each measurement, or some of them, is estimated without itself. */
static weft_status find_error(weft_times *t, weft_estimate_by by)
{
    double *all;
    size_t count = 0, step = t->count / MOST_TRIED + 1;
    WEFT_TRY(WEFT_NEW(&all, t->count + 1));
    for (size_t i = 0; i < t->count; i += step) {
        const time_line *m = &t->lines[i];
        const weft_timed what = {m->kind, m->group, m->threads, m->ranks, m->flops, m->bytes};
        wanted w = {.by = by,
                    .kind = m->kind_hash,
                    .op = m->operator_hash,
                    .group = m->group_hash,
                    .form = m->form_hash,
                    .family = m->family_hash,
                    .sized = true,
                    .left_out = m};
        const time_setting *at;
        double seconds = estimate_best(t, &w, &what, &at);
        if (w.by == by) all[count++] = fabs(seconds / m->seconds - 1);
    }
    weft_sort_doubles(all, count);
    t->errors[by] = count ? all[count / 2] : 1;
    free(all);
    return WEFT_OK;
}

weft_status weft_times_add_means(weft_times *times, weft_times *run)
{
    size_t kept = 0;
    qsort(run->lines, run->count, sizeof(*run->lines), compare_lines);
    for (size_t i = 0, end; i < run->count; i = end) {
        double sum = 0;
        end = end_of_same(run, i);
        for (size_t k = i; k < end; k++) sum += run->lines[k].seconds;
        keep_one(run, i, end, sum / (double)(end - i), kept++);
    }
    run->count = kept;
    return weft_times_add_all(times, run);
}

weft_status weft_times_index(weft_times *t)
{
    if (t->indexed) return WEFT_OK;
    qsort(t->lines, t->count, sizeof(*t->lines), compare_lines);
    merge(t);
    WEFT_TRY(add_settings(t));
    for (weft_estimate_by by = WEFT_BY_KIND; by < WEFT_ESTIMATES; by++) WEFT_TRY(find_error(t, by));
    t->indexed = true;
    return WEFT_OK;
}
