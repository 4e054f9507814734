/* Figures of an evaluation, and the metrics file. */
#include <errno.h>
#include <math.h>

#include "train/train.h"

weft_status weft_report_init(weft_report *report, int classes)
{
    *report = (weft_report){.classes = classes};
    return WEFT_NEW(&report->confusion, (size_t)classes * (size_t)classes);
}

void weft_report_free(weft_report *report)
{
    free(report->confusion);
    *report = (weft_report){0};
}

void weft_report_finish(weft_report *r)
{
    int64_t right = 0;
    int present = 0;
    double f1 = 0;
    for (int c = 0; c < r->classes; c++) {
        int64_t hit = r->confusion[(size_t)c * (size_t)r->classes + (size_t)c], row = 0, column = 0;
        for (int o = 0; o < r->classes; o++) {
            row += r->confusion[(size_t)c * (size_t)r->classes + (size_t)o];
            column += r->confusion[(size_t)o * (size_t)r->classes + (size_t)c];
        }
        right += hit;
        if (row + column == 0) continue;
        present++;
        f1 += 2.0 * (double)hit / (double)(row + column);
    }
    r->accuracy = r->samples ? (double)right / (double)r->samples : 0;
    r->f1_macro = present ? f1 / present : 0;
}

struct weft_metrics {
    FILE *file;
    char *path;
};

static weft_status write_error(const weft_metrics *m)
{
    return weft_fail(WEFT_ERR_IO, "%s: cannot write metrics: %s", m->path, strerror(errno));
}

weft_status weft_metrics_open(const char *path, bool append, weft_metrics **out)
{
    weft_metrics *m;
    WEFT_TRY(WEFT_NEW(&m, 1));
    weft_status status = weft_strdup(path, &m->path);
    if (status == WEFT_OK) {
        m->file = fopen(path, append ? "ae" : "we");
        if (!m->file) status = write_error(m);
    }
    if (status != WEFT_OK) {
        free(m->path);
        free(m);
        return status;
    }
    *out = m;
    return WEFT_OK;
}

/* JSON knows no not-a-number. */
static void real(FILE *f, const char *key, double value)
{
    if (isfinite(value))
        fprintf(f, ",\"%s\":%.9g", key, value);
    else
        fprintf(f, ",\"%s\":null", key);
}

weft_status weft_metrics_event(weft_metrics *m, const weft_event *e)
{
    FILE *f = m->file;
    switch (e->kind) {
    case WEFT_EVENT_STEP:
        fprintf(f, "{\"event\":\"step\",\"step\":%lld,\"epoch\":%lld", (long long)e->step,
                (long long)e->epoch);
        real(f, "loss", e->loss);
        real(f, "lr", e->lr);
        real(f, "samples_per_second", e->samples_per_second);
        real(f, "comm_bytes", e->comm_bytes);
        real(f, "comm_seconds", e->comm_seconds);
        real(f, "exposed_comm_seconds", e->exposed_comm_seconds);
        real(f, "bubble_fraction", e->bubble_fraction);
        break;
    case WEFT_EVENT_EVAL:
        fprintf(f, "{\"event\":\"eval\",\"step\":%lld,\"epoch\":%lld,\"split\":\"test\"",
                (long long)e->step, (long long)e->epoch);
        real(f, "loss", e->report->loss);
        real(f, "accuracy", e->report->accuracy);
        real(f, "f1_macro", e->report->f1_macro);
        break;
    case WEFT_EVENT_SUMMARY:
        fprintf(f, "{\"event\":\"summary\",\"steps\":%lld", (long long)e->step);
        real(f, "seconds", e->seconds);
        real(f, "samples_per_second", e->samples_per_second);
        real(f, "first_step_seconds", e->first_step_seconds);
        fprintf(f, ",\"peak_rss_bytes\":%zu,\"ranks\":%d,\"learners\":%d,\"rank_bytes\":[",
                e->peak_memory, e->ranks, e->learners);
        for (int i = 0; i < e->ranks; i++) fprintf(f, "%s%.0f", i ? "," : "", e->rank_memory[i]);
        fputs("]", f);
        break;
    default: return WEFT_OK;
    }
    fputs("}\n", f);
    /* Evaluations are rare and wanted at once by whoever follows the file. */
    if (e->kind != WEFT_EVENT_STEP) fflush(f);
    return ferror(f) ? write_error(m) : WEFT_OK;
}

weft_status weft_metrics_close(weft_metrics **metrics)
{
    if (!*metrics) return WEFT_OK;
    weft_metrics *m = *metrics;
    *metrics = NULL;
    weft_status status = fclose(m->file) == 0 ? WEFT_OK : write_error(m);
    free(m->path);
    free(m);
    return status;
}
