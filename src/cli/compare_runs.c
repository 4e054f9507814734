/* The curves and figures of a compared run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"

compared_run compared_run_of(char *words, const char *label)
{
    return (compared_run){.words = words,
                          .label = label,
                          .seconds = -1,
                          .samples_per_second = -1,
                          .bytes = -1,
                          .staleness = -1,
                          .utilisation = -1,
                          .held_out = {.loss = NAN}};
}

void compared_run_free(compared_run *c)
{
    free(c->words);
    free(c->subject);
    for (int k = 0; k < COURSES; k++) free(c->courses[k].points);
}

void add_point(course *c, point p)
{
    if (c->count == c->capacity) {
        size_t more = c->capacity ? 2 * c->capacity : 256;
        point *larger = realloc(c->points, more * sizeof(*larger));
        if (!larger) return;
        c->points = larger;
        c->capacity = more;
    }
    c->points[c->count++] = p;
}

static bool is_listed(const char *names, const char *name)
{
    size_t size = strlen(name);
    for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == size && strncmp(at, name, size) == 0) return true;
    return false;
}

void add_metric(evaluation *e, const char *asked, const char *best, const weft_figure *f)
{
    bool wanted = (asked ? is_listed(asked, f->name) : e->metrics == 0) ||
                  (best && strcmp(best, f->name) == 0);
    if (!wanted || e->metrics == MOST_METRICS) return;
    compared_metric *m = &e->metric[e->metrics++];
    (void)snprintf(m->name, sizeof(m->name), "%s", f->name);
    (void)snprintf(m->title, sizeof(m->title), "%s", f->title);
    m->value = f->value;
}

const compared_metric *find_metric(const compared_run *c, const char *name)
{
    for (int i = 0; i < c->held_out.metrics; i++)
        if (strcmp(c->held_out.metric[i].name, name) == 0) return &c->held_out.metric[i];
    return NULL;
}

bool has_metrics(const compared_run *c, const char *path, const char *names, const char *loss)
{
    for (const char *at = names; at && *at; at += strcspn(at, ","), at += *at == ',') {
        char name[64];
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, ","), at);
        if (strcmp(name, loss) == 0 || find_metric(c, name)) continue;
        fprintf(stderr,
                "weft: %s: has no evaluation with the metric '%s'; leave it out, or compare runs "
                "of weft train --metric %s\n",
                path, name, name);
        return false;
    }
    return true;
}

void add_evaluation(compared_run *c, const char *part, const evaluation *e, point at)
{
    if (!*c->part) (void)snprintf(c->part, sizeof(c->part), "%s", part);
    if (strcmp(c->part, part) != 0) return;
    at.value = e->loss;
    if (isfinite(at.value)) add_point(&c->courses[HELD_OUT_LOSS], at);
    at.value = e->metrics > 0 ? e->metric[0].value : NAN;
    if (isfinite(at.value)) add_point(&c->courses[HELD_OUT_METRIC], at);
    if (e->best || !c->held_out.best) c->held_out = *e;
}

/* A window is as long as a block, so it is the rest of a block and the beginning of the next one,
 * and no value is ever subtracted: a huge loss would leave its rounding error in all other means.
 * The loop runs over the blocks backwards, so that the values of the block before are unchanged. */
void smooth_course(course *c)
{
    size_t window = c->count / 40 + 1;
    for (size_t block = (c->count + window - 1) / window; block-- > 0;) {
        size_t begin = block * window;
        point *now = c->points + begin, *last = now - (block > 0 ? window : 0);
        double rest = 0;
        for (size_t i = 1; i < window && begin + i < c->count; i++)
            now[i].value += now[i - 1].value;
        for (size_t i = window; i-- > 0;) {
            double size = (double)(block > 0 ? window : i + 1);
            if (begin + i < c->count) now[i].value = (now[i].value + rest) / size;
            if (block > 0) rest += last[i].value;
        }
    }
}
