/* vflip: the picture upside down, for pictures from above or through a microscope. */
#include "data/augment/augment.h"

static void apply(weft_augmented *p, double probability, weft_random *random)
{
    if (weft_random_unit(random) >= probability) return;
    const size_t bytes = (size_t)p->width * sizeof(*p->x);
    for (int c = 0; c < p->channels; c++)
        for (int i = 0, j = p->height - 1; i < j; i++, j--) {
            float *upper = weft_augmented_row(p, p->x, c, i),
                  *lower = weft_augmented_row(p, p->x, c, j);
            memcpy(p->spare, upper, bytes);
            memcpy(upper, lower, bytes);
            memcpy(lower, p->spare, bytes);
        }
}

const weft_augmentation weft_augment_vflip = {
    .name = "vflip",
    .form = "vflip[:p=0.5]",
    .help = "swap top and bottom with this probability",
    .key = "p",
    .low = 0,
    .high = 1,
    .usual = 0.5,
    .moves = true,
    .apply = apply,
};
