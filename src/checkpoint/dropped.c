/* Records the state of a checkpoint that a resumed run drops (--drop-state), and logs it in one
 * note. */
#include "checkpoint/checkpoint.h"

weft_status weft_dropped_add(weft_dropped *d, const char *what, const char *name)
{
    for (size_t i = 0; i < d->count; i++) {
        struct weft_dropped_part *part = &d->parts[i];
        if (strcmp(part->what, what) != 0) continue;
        /* The tensor has the same name in each learner, so a repeated name is another learner. */
        part->learners += strcmp(part->first, name) == 0;
        return WEFT_OK;
    }
    WEFT_TRY(WEFT_GROW(&d->parts, &d->capacity, d->count));
    struct weft_dropped_part *part = &d->parts[d->count++];
    *part = (struct weft_dropped_part){.learners = 1};
    WEFT_TRY(weft_strdup(what, &part->what));
    return weft_strdup(name, &part->first);
}

weft_status weft_dropped_report(const weft_dropped *d, weft_context *context,
                                const weft_checkpoint *c)
{
    weft_text text = {0};
    char *sentence;
    if (d->count == 0) return WEFT_OK;
    weft_text_add(&text, "dropped from the checkpoint of step %lld: ", (long long)c->position.step);
    for (size_t i = 0; i < d->count; i++) {
        const struct weft_dropped_part *part = &d->parts[i];
        weft_text_add(&text, "%s%s", i ? ", " : "", part->what);
        if (part->learners > 1) weft_text_add(&text, " (%d learners)", part->learners);
    }
    if (d->absent) weft_text_add(&text, "; it lacks %s", d->absent);
    WEFT_TRY(weft_text_take(&text, &sentence));
    weft_log(context, WEFT_LOG_NOTE, "%s", sentence);
    free(sentence);
    return WEFT_OK;
}

void weft_dropped_free(weft_dropped *d)
{
    for (size_t i = 0; i < d->count; i++) {
        free(d->parts[i].what);
        free(d->parts[i].first);
    }
    free(d->parts);
    free(d->absent);
    *d = (weft_dropped){0};
}
