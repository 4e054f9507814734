/* cutmix: a rectangle of another sample of the batch (Yun et al. 2019). */
#include <math.h>

#include "data/augment/augment.h"

static double mix(weft_augmented *p, const float *other, double alpha, weft_random *random)
{
    double side = sqrt(1 - weft_random_share(random, alpha));
    int down = (int)(weft_random_unit(random) * p->height),
        right = (int)(weft_random_unit(random) * p->width), height = (int)(side * p->height / 2),
        width = (int)(side * p->width / 2);
    int top = WEFT_MAX(down - height, 0), bottom = WEFT_MIN(down + height, p->height),
        left = WEFT_MAX(right - width, 0), end = WEFT_MIN(right + width, p->width);
    for (int c = 0; c < p->channels; c++)
        for (int y = top; y < bottom; y++) {
            ptrdiff_t at = ((ptrdiff_t)c * p->height + y) * p->width + left;
            memcpy(p->x + at, other + at, (size_t)(end - left) * sizeof(*p->x));
        }
    return 1 - (double)(bottom - top) * (end - left) / ((double)p->height * p->width);
}

const weft_augmentation weft_augment_cutmix = {
    .name = "cutmix",
    .form = "cutmix[:alpha=1]",
    .help = "a rectangle of another sample of the batch, of a share of Beta(alpha, alpha), which "
            "their classes have in the loss, too",
    WEFT_AUGMENT_ALPHA,
    .usual = 1,
    .mix = mix,
};
