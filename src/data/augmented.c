/* The augmentations of a data set, and whether its samples can have them. */
#include "data/augment/augment.h"
#include "data/data.h"

/* Whether pictures whose pixels have classes can be changed so. */
static weft_status check_pixels(const weft_dataset *d, const char *list)
{
    if (weft_dataset_mixes(d))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "augment is '%s', and %s mixes samples of one class each; these have one "
                         "for each pixel; leave it out",
                         list, weft_augment_mixing(d->augment));
    if (!d->source->position_weights || !weft_augment_moves(d->augment)) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "augment is '%s', and pixels that are moved would leave their weights behind; "
                     "give color or erase alone, or no weights",
                     list);
}

weft_status weft_dataset_set_augment(weft_dataset *d, const char *list)
{
    WEFT_NEED_AS("dataset", d);
    const weft_source *s = d->source;
    const weft_shape *shape = weft_source_shape(s);
    char text[128];
    free(d->augment);
    d->augment = NULL;
    if (!list) return WEFT_OK;
    bool pictures = s->inputs == 1 && !s->tabular && s->input[0].dtype == WEFT_F32 &&
                    shape->rank == 3 && shape->dim[0] <= 4;
    if (!pictures)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "augment is '%s', and samples [%s%s are no pictures of up to 4 channels "
                         "[channels, height, width]; leave it out",
                         list, s->inputs > 1 ? "several inputs, " : "",
                         weft_shape_text(shape, text, sizeof(text)) + 1);
    if (s->positions > 0 && s->positions != shape->dim[1] * shape->dim[2])
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "augment is '%s', and pictures with a class for each of %lld positions, "
                         "which are not their pixels, would leave their classes behind; leave it "
                         "out",
                         list, (long long)s->positions);
    WEFT_TRY(WEFT_NEW(&d->augment, 1));
    weft_status status = weft_augment_parse(d->context, list, d->augment);
    if (status == WEFT_OK && s->positions > 0) status = check_pixels(d, list);
    if (status == WEFT_OK && weft_dataset_mixes(d) && d->stats.classes == 0)
        status = weft_fail(WEFT_ERR_ARGUMENT,
                           "augment is '%s', and samples are mixed by their classes, which these "
                           "data lack; leave %s out",
                           list, weft_augment_mixing(d->augment));
    if (status == WEFT_OK) return WEFT_OK;
    free(d->augment);
    d->augment = NULL;
    return status;
}

bool weft_dataset_mixes(const weft_dataset *d)
{
    return d->augment && d->augment->mixing > 0;
}
