/* Writes the metrics of a run in each format that --metrics names: FILE, FORMAT:PATH, or several
 * with commas between them. */
#include "train/metrics.h"
#include "train/trainer.h"

static const weft_metrics_format *const formats[] = {
    &weft_metrics_lines,     &weft_metrics_tensorboard, &weft_metrics_histograms,
    &weft_metrics_confusion, &weft_metrics_pictures,    &weft_metrics_trackio};

struct weft_metrics {
    int count;
    const weft_metrics_format *format[WEFT_MOST_METRICS];
    void *writer[WEFT_MOST_METRICS];
};

/* The format whose name and colon begin a text, and *path behind them; NULL: none. */
static const weft_metrics_format *named(const char *text, const char **path)
{
    for (size_t i = 0; i < WEFT_COUNT(formats); i++) {
        size_t size = strlen(formats[i]->name);
        if (size == 0 || strncmp(text, formats[i]->name, size) != 0 || text[size] != ':') continue;
        *path = text + size + 1;
        return formats[i];
    }
    return NULL;
}

static const weft_metrics_format *without_path(const char *piece, size_t size)
{
    for (size_t i = 0; i < WEFT_COUNT(formats); i++)
        if (size > 0 && strlen(formats[i]->name) == size &&
            strncmp(piece, formats[i]->name, size) == 0)
            return formats[i];
    return NULL;
}

/* A piece in which something else stands where the name of a format could, or that name alone. */
static weft_status refuse_name(const char *piece, size_t size)
{
    const weft_metrics_format *format = without_path(piece, size);
    size_t name = strcspn(piece, ":/.");
    if (format)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "metrics '%s': this format needs a path; give %s:%s, or ./%s for a file "
                         "of that name",
                         format->name, format->name, format->path, format->name);
    if (name >= size || piece[name] != ':') return WEFT_OK;
    weft_text known = {0};
    char *all;
    for (size_t i = 1; i < WEFT_COUNT(formats); i++)
        weft_text_add(&known, "%s%s:%s", i > 1 ? ", " : "", formats[i]->name, formats[i]->path);
    WEFT_TRY(weft_text_take(&known, &all));
    weft_status status =
        weft_fail(WEFT_ERR_ARGUMENT,
                  "metrics '%.*s': no format is named '%.*s'; there are %s, and ./%.*s would be a "
                  "file",
                  (int)size, piece, (int)name, piece, all, (int)size, piece);
    free(all);
    return status;
}

weft_status weft_metrics_each(const char *spec, weft_metrics_fn *fn, void *user)
{
    int count = 0;
    for (const char *text = spec, *end; text; text = *end ? end + 1 : NULL) {
        const char *path = text;
        char *copy;
        end = text + strcspn(text, ",");
        const weft_metrics_format *format = named(text, &path);
        if (!format) WEFT_TRY(refuse_name(text, (size_t)(end - text)));
        if (path >= end)
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "metrics '%s': a path is empty; give FILE or tensorboard:FOLDER, or "
                             "several with commas between them",
                             spec);
        if (++count > WEFT_MOST_METRICS)
            return weft_fail(WEFT_ERR_ARGUMENT, "metrics '%s': more than %d outputs", spec,
                             WEFT_MOST_METRICS);
        WEFT_TRY(weft_format(&copy, "%.*s", (int)(end - path), path));
        weft_status status = fn(user, format ? format : &weft_metrics_lines, copy);
        free(copy);
        WEFT_TRY(status);
    }
    return WEFT_OK;
}

typedef struct opening {
    weft_metrics *to;
    int64_t after;
} opening;

static weft_status open_one(void *user, const weft_metrics_format *format, const char *path)
{
    opening *o = user;
    WEFT_TRY(format->open(path, o->after, &o->to->writer[o->to->count]));
    o->to->format[o->to->count++] = format;
    return WEFT_OK;
}

weft_status weft_metrics_open(const char *spec, int64_t after, weft_metrics **out)
{
    WEFT_TRY(WEFT_NEW(out, 1));
    opening o = {*out, after};
    weft_error first = {0};
    weft_error_catch(&first, weft_metrics_each(spec, open_one, &o));
    if (first.status != WEFT_OK) (void)!weft_metrics_close(out); /* the first failure counts */
    return weft_error_raise(&first);
}

weft_status weft_metrics_settings(weft_metrics *m, const weft_settings *settings)
{
    for (int i = 0; i < m->count; i++)
        if (m->format[i]->settings) WEFT_TRY(m->format[i]->settings(m->writer[i], settings));
    return WEFT_OK;
}

weft_status weft_metrics_event(weft_metrics *m, const weft_event *event)
{
    for (int i = 0; i < m->count; i++) WEFT_TRY(m->format[i]->event(m->writer[i], event));
    return WEFT_OK;
}

weft_status weft_metrics_begin(const weft_trainer *t, const weft_rank *r)
{
    const weft_metrics *m = t->metrics;
    uint64_t seed = (uint64_t)t->options.task.seed;
    for (int i = 0; m && i < m->count; i++) {
        if (m->format[i]->graph)
            WEFT_TRY(m->format[i]->graph(m->writer[i], r->graph, weft_rank_loss(r)));
        if (m->format[i]->samples && r->position.step == 0)
            WEFT_TRY(m->format[i]->samples(m->writer[i], t->data, seed));
    }
    return WEFT_OK;
}

/* Whether an output has asked for distributions; every rank can tell. */
static bool has_distributions(const char *spec)
{
    const char *path;
    for (const char *text = spec, *end; text; text = *end ? end + 1 : NULL) {
        const weft_metrics_format *format = named(text, &path);
        end = text + strcspn(text, ",");
        if (format && format->parameter) return true;
    }
    return false;
}

typedef struct noting {
    weft_metrics *to;
    int64_t step;
} noting;

static weft_status note(void *user, const char *name, const weft_type *type, const void *data)
{
    const noting *n = user;
    for (int i = 0; n->to && i < n->to->count; i++)
        if (n->to->format[i]->parameter)
            WEFT_TRY(n->to->format[i]->parameter(n->to->writer[i], n->step, name, type, data));
    return WEFT_OK;
}

weft_status weft_metrics_parameters(const weft_trainer *t, weft_rank *r)
{
    noting n = {t->metrics, r->position.step};
    if (!has_distributions(t->options.output.metrics)) return WEFT_OK;
    return weft_gather_parameters(&r->comms, r->store, r->graph, note, &n);
}

weft_status weft_metrics_close(weft_metrics **metrics)
{
    weft_status status = WEFT_OK;
    if (!*metrics) return WEFT_OK;
    for (int i = 0; i < (*metrics)->count; i++) {
        weft_status closed = (*metrics)->format[i]->close((*metrics)->writer[i]);
        if (status == WEFT_OK) status = closed;
    }
    free(*metrics);
    *metrics = NULL;
    return status;
}
