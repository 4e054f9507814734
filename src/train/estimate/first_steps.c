/* Compares the first steps of a run with their estimate (--estimate). */
#include <stdio.h>

#include "base/sort.h"
#include "train/estimate/first_steps.h"
#include "train/train.h"
#include "weft/estimate.h"

/* The steps that are compared: those after the first ones, in which memory is touched for the first
 * time and caches fill. */
enum { FIRST = 10, LAST = 100, LEAST = 10 };

struct weft_first_steps {
    weft_context *context;
    char *cluster;
    weft_step_estimate estimate;
    int64_t steps; /* of this process */
    int count;
    bool told, elsewhere; /* elsewhere: the times are those of another processor */
    double seconds[LAST], host[LAST], waited[LAST];
};

bool weft_warn_elsewhere(weft_context *context, const char *option, const char *cluster)
{
    char *processor;
    weft_status status = weft_measured_here(cluster, &processor);
    bool elsewhere = status == WEFT_ERR_ARGUMENT && processor;
    if (elsewhere) weft_log(context, WEFT_LOG_WARNING, "%s: %s", option, weft_last_message());
    weft_free(processor);
    return elsewhere;
}

weft_status weft_first_steps_new(weft_context *context, const weft_train_options *options,
                                 weft_first_steps **out)
{
    weft_first_steps *f;
    WEFT_TRY(WEFT_NEW(&f, 1));
    f->context = context;
    weft_status status = weft_strdup(options->show.estimate, &f->cluster);
    if (status == WEFT_OK) status = weft_estimate_step(context, options, f->cluster, &f->estimate);
    if (status != WEFT_OK) {
        weft_first_steps_free(&f);
        return weft_fail_within(status, "estimate");
    }
    f->elsewhere = weft_warn_elsewhere(context, "estimate", f->cluster);
    *out = f;
    return WEFT_OK;
}

void weft_first_steps_free(weft_first_steps **first)
{
    if (*first) free((*first)->cluster);
    free(*first);
    *first = NULL;
}

static double median(double *values, int count)
{
    weft_sort_doubles(values, (size_t)count);
    return values[count / 2];
}

/* The part of the step that differs most from its estimate, with what that means. */
static void find_reason(const weft_first_steps *f, double kernels, double waits, char *out,
                        size_t size)
{
    const weft_step_estimate *e = &f->estimate;
    double planned = e->computed + e->rest, idle = e->transferred + e->waited;
    double more = kernels - planned, longer = waits - idle;
    bool links = (longer < 0 ? -longer : longer) > (more < 0 ? -more : more);
    if (links)
        (void)snprintf(out, size, "rank 0 waits %.4g ms for others, estimated %.4g: %s",
                       1e3 * waits, 1e3 * idle,
                       longer > 0 ? "links or other ranks are slower than in the file"
                                  : "links or other ranks are faster than in the file");
    else
        (void)snprintf(out, size,
                       "its kernels and batches take %.4g ms on rank 0, estimated %.4g: %s",
                       1e3 * kernels, 1e3 * planned,
                       f->elsewhere ? "the times are those of another processor"
                       : more > 0   ? "the processor is slower than when it was measured, or other "
                                      "programs use it"
                                    : "the processor is faster than when it was measured");
}

static void compare(weft_first_steps *f)
{
    char reason[256];
    const weft_step_estimate *e = &f->estimate;
    double seconds = median(f->seconds, f->count), waits = median(f->waited, f->count);
    double kernels = WEFT_MIN(median(f->host, f->count), seconds - WEFT_MIN(waits, seconds));
    f->told = true;
    if (seconds >= e->low && seconds <= e->high) {
        weft_log(f->context, WEFT_LOG_NOTE,
                 "a step takes %.4g ms in the median of %d, as estimated for %s (%.4g to %.4g ms)",
                 1e3 * seconds, f->count, f->cluster, 1e3 * e->low, 1e3 * e->high);
        return;
    }
    find_reason(f, kernels, waits, reason, sizeof(reason));
    weft_log(f->context, WEFT_LOG_WARNING,
             "a step takes %.4g ms in the median of %d, estimated for %s: %.4g ms (%.4g to %.4g); "
             "%s",
             1e3 * seconds, f->count, f->cluster, 1e3 * e->seconds, 1e3 * e->low, 1e3 * e->high,
             reason);
}

void weft_first_steps_note(weft_first_steps *f, const weft_event *e)
{
    if (f->told) return;
    if (e->kind == WEFT_EVENT_SUMMARY && f->count >= LEAST) compare(f);
    if (e->kind == WEFT_EVENT_SUMMARY && !f->told)
        weft_log(f->context, WEFT_LOG_NOTE,
                 "the run has fewer than %d steps after its first %d, too few to be compared with "
                 "the estimate for %s",
                 LEAST, FIRST, f->cluster);
    if (e->kind != WEFT_EVENT_STEP || ++f->steps <= FIRST) return;
    f->seconds[f->count] = e->step_seconds;
    f->host[f->count] = e->host_seconds;
    f->waited[f->count] = e->exposed_comm_seconds;
    if (++f->count == LAST - FIRST) compare(f);
}
