/* mixup: a weighted mean with another sample of the batch (Zhang et al. 2018). */
#include "data/augment/augment.h"

static double mix(weft_augmented *p, const float *other, double alpha, weft_random *random)
{
    double share = weft_random_share(random, alpha);
    size_t count = weft_augmented_count(p);
    float own = (float)share;
    for (size_t i = 0; i < count; i++) p->x[i] = own * p->x[i] + (1 - own) * other[i];
    return share;
}

const weft_augmentation weft_augment_mixup = {
    .name = "mixup",
    .form = "mixup[:alpha=0.2]",
    .help = "the mean with another sample of the batch, by a share of Beta(alpha, alpha), which "
            "their classes have in the loss, too",
    WEFT_AUGMENT_ALPHA,
    .usual = 0.2,
    .mix = mix,
};
