/* Weights of the classes, by which the weights of training samples are multiplied: given, or such
 * that all classes weigh alike. */
#include <math.h>

#include "data/data.h"

/* Counts the labels of each class in the training split. */
static weft_status count_classes(const weft_dataset *d, double *count)
{
    const weft_source *s = d->source;
    int64_t labels = weft_source_labels(s);
    int32_t *label;
    WEFT_TRY(WEFT_NEW(&label, labels));
    for (int64_t i = 0; i < s->count[WEFT_TRAIN]; i++) {
        s->ops->label(s, WEFT_TRAIN, i, label);
        for (int64_t j = 0; j < labels; j++) {
            int32_t c = weft_dataset_class(d, label[j]);
            if (c >= 0 && c < d->stats.classes) count[c]++;
        }
    }
    free(label);
    return weft_source_status(s);
}

/* n / (k n_c): n labels of k classes, n_c of class c. A class that does not occur has no effect. */
static weft_status balance(const weft_dataset *d, double *weight)
{
    double total = 0;
    int classes = d->stats.classes;
    WEFT_TRY(count_classes(d, weight));
    for (int c = 0; c < classes; c++) total += weight[c];
    for (int c = 0; c < classes; c++) weight[c] = weight[c] > 0 ? total / (classes * weight[c]) : 1;
    return WEFT_OK;
}

static weft_status read_numbers(const char *text, int classes, double *weight)
{
    char number[64];
    int count = 0;
    double sum = 0;
    for (const char *at = text; *at;) {
        size_t size = strcspn(at, ",");
        double value = -1;
        if (size < sizeof(number)) {
            memcpy(number, at, size);
            number[size] = '\0';
            if (!weft_parse_real(number, &value)) value = -1;
        }
        if (!(value >= 0 && value <= 1e30))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "class-weights is '%s', must be balanced or a number from 0 to 1e30 "
                             "for each class, with commas between them",
                             text);
        if (count < classes) weight[count] = value;
        count++;
        sum += value;
        at += size + (at[size] == ',');
    }
    if (count != classes)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "class-weights has %d number%s, and the data have %d class%s; give one "
                         "for each, in their order, or balanced",
                         count, weft_plural(count), classes, classes == 1 ? "" : "es");
    if (sum > 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "class-weights are all 0, so that no sample counts; give one above 0");
}

weft_status weft_dataset_weigh_classes(weft_dataset *d, const char *weights)
{
    double *weight;
    free(d->class_weight);
    d->class_weight = NULL;
    if (!weights) return WEFT_OK;
    if (d->stats.classes == 0)
        return weft_fail(WEFT_ERR_ARGUMENT, "class-weights is '%s', and %s; leave it out", weights,
                         d->stats.binary ? "these data have several labels, each 0 or 1"
                                         : "the target of these data is numbers");
    WEFT_TRY(WEFT_NEW(&weight, d->stats.classes));
    weft_status status = strcmp(weights, "balanced") == 0
                             ? balance(d, weight)
                             : read_numbers(weights, d->stats.classes, weight);
    if (status == WEFT_OK)
        d->class_weight = weight;
    else
        free(weight);
    return status;
}
