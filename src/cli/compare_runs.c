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
                          .held_out_loss = NAN,
                          .quality = NAN};
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

void add_evaluation(compared_run *c, const char *part, double loss, double quality, point at)
{
    if (!*c->curve_part) (void)snprintf(c->curve_part, sizeof(c->curve_part), "%s", part);
    if (strcmp(c->curve_part, part) == 0) {
        at.value = loss;
        if (isfinite(loss)) add_point(&c->courses[HELD_OUT_LOSS], at);
        at.value = quality;
        if (isfinite(quality)) add_point(&c->courses[HELD_OUT_METRIC], at);
    }
    c->held_out_loss = loss;
    c->quality = quality;
    (void)snprintf(c->part, sizeof(c->part), "%s", part);
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
