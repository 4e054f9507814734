/* Matches the classes of later data with those of the training. */
#include <math.h>

#include "data/data.h"
#include "formats/formats.h"

int32_t weft_dataset_class(const weft_dataset *d, int32_t label)
{
    if (!d->relabel) return label;
    return label >= 0 && label < d->labels ? d->relabel[label] : -1;
}

/* Whether the name of a class is a label of sources without names, which is a number. */
static bool is_label(const char *name, int32_t *label)
{
    double value;
    bool whole =
        weft_parse_real(name, &value) && value >= 0 && value <= 65535 && value == floor(value);
    if (whole) *label = (int32_t)value;
    return whole;
}

/* The number in the given statistics of a class of the source. Without names in the statistics
 * their classes are named "0", "1" and so on. -1: there is none. */
static int32_t find_class(const weft_data_stats *stats, const weft_csv_classes *names,
                          const char *name)
{
    int32_t label;
    if (stats->class_names) return weft_csv_classes_find(names, name);
    return is_label(name, &label) && label < stats->classes ? label : -1;
}

/* Maps labels of a source without names to the classes that have these numbers as names. */
static weft_status relabel_numbers(weft_dataset *d)
{
    int32_t label;
    for (int j = 0; j < d->stats.classes; j++)
        if (is_label(d->stats.class_names[j], &label)) d->labels = WEFT_MAX(d->labels, label + 1);
    WEFT_TRY(WEFT_NEW(&d->relabel, d->labels));
    for (int i = 0; i < d->labels; i++) d->relabel[i] = -1;
    for (int j = 0; j < d->stats.classes; j++)
        if (is_label(d->stats.class_names[j], &label)) d->relabel[label] = j;
    return WEFT_OK;
}

/* Refuses a class that the training had not, or, of samples that are predicted alone, tells of the
 * first one. */
static weft_status pass_over(weft_dataset *d, const char *name, int unknown)
{
    const weft_source *s = d->source;
    if (!d->predicted)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s%slabel '%s' is not among the %d classes the model was trained on",
                         s->file ? s->file : "", s->file ? ": " : "", name, d->stats.classes);
    d->source->ignores = true;
    if (unknown == 1)
        weft_log(d->context, WEFT_LOG_NOTE,
                 "%s%sthe label '%s' is not among the %d classes the model was trained on; samples "
                 "of such labels are predicted as if they had none",
                 s->file ? s->file : "", s->file ? ": " : "", name, d->stats.classes);
    return WEFT_OK;
}

/* Maps the source's classes, by name, to the class numbers of the given statistics. */
weft_status weft_dataset_match_classes(weft_dataset *d)
{
    const weft_source *s = d->source;
    if (!d->given || d->relabel || s->unlabelled || s->targets > 0) return WEFT_OK;
    if (!s->class_names) return d->stats.class_names ? relabel_numbers(d) : WEFT_OK;
    d->labels = s->classes;
    WEFT_TRY(WEFT_NEW(&d->relabel, s->classes));
    weft_csv_classes names = {0};
    weft_status status = WEFT_OK;
    int unknown = 0;
    for (int j = 0; d->stats.class_names && j < d->stats.classes && status == WEFT_OK; j++)
        status = weft_csv_classes_add(&names, d->stats.class_names[j], j);
    for (int i = 0; i < s->classes && status == WEFT_OK; i++) {
        d->relabel[i] = find_class(&d->stats, &names, s->class_names[i]);
        if (d->relabel[i] >= 0) continue;
        d->relabel[i] = WEFT_LABEL_IGNORED;
        unknown++;
        status = pass_over(d, s->class_names[i], unknown);
    }
    weft_csv_classes_free(&names);
    return status;
}
