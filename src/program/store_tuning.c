/* Gives stores a table of measurements, by which their programs choose kernels. */
#include "program/program.h"
#include "program/tuning.h"

static void give(schema *s, tuning *table)
{
    tuning_free(&s->tuning);
    s->tuning = table;
    for (int d = 0; d < s->device_count; d++) s->devices[d]->tuned = table != NULL;
}

void weft_store_untune(weft_store *s)
{
    give(s->schema, NULL);
}

weft_status weft_store_tune(weft_store *s, const weft_bytes *text, const char *where)
{
    tuning *table;
    WEFT_TRY(tuning_read(!text            ? NULL
                         : text->size > 0 ? (const char *)text->data
                                          : "",
                         text ? text->size : 0, where, &table));
    give(s->schema, table);
    return WEFT_OK;
}

weft_status weft_store_tuning_fits(const weft_store *s)
{
    return tuning_check(s->schema->tuning, s->schema->devices[0]);
}

weft_status weft_store_tuning_named(const weft_store *s)
{
    return tuning_check_names(s->schema->tuning, s->schema->context);
}

void weft_store_measure_until(weft_store *s, double until, bool (*stopped)(void *user), void *user)
{
    s->schema->tuning->until = until;
    s->schema->tuning->stopped = stopped;
    s->schema->tuning->user = user;
}

weft_status weft_store_tuning_text(const weft_store *s, char **out, size_t *count)
{
    *count = s->schema->tuning->count;
    return tuning_text(s->schema->tuning, out);
}

int weft_store_untuned(const weft_store *s)
{
    return s->schema->tuning ? s->schema->tuning->lacking : 0;
}
