/* flip: the mirror image. */
#include "data/augment/augment.h"

static void apply(weft_augmented *p, double probability, weft_random *random)
{
    if (weft_random_unit(random) >= probability) return;
    for (int r = 0; r < p->channels * p->height; r++) {
        float *row = p->x + (ptrdiff_t)r * p->width;
        for (int i = 0, j = p->width - 1; i < j; i++, j--) {
            float left = row[i];
            row[i] = row[j];
            row[j] = left;
        }
    }
}

const weft_augmentation weft_augment_flip = {
    .name = "flip",
    .form = "flip[:p=0.5]",
    .help = "swap left and right with this probability",
    .key = "p",
    .low = 0,
    .high = 1,
    .usual = 0.5,
    .moves = true,
    .apply = apply,
};
