/* erase: a rectangle gets the mean of the picture (random erasing, Zhong et al. 2020). */
#include <math.h>

#include "data/augment/augment.h"

/* The side of a rectangle in a picture that is so large. */
static int side(double length, int most)
{
    int pixels = (int)(length + 0.5);
    return WEFT_MIN(WEFT_MAX(pixels, 1), most);
}

static void apply(weft_augmented *p, double probability, weft_random *random)
{
    double area = weft_random_between(random, 0.02, 0.33),
           aspect = weft_random_between(random, 0.3, 1), sum = 0;
    bool wide = weft_random_unit(random) < 0.5, wanted = weft_random_unit(random) < probability;
    double all = area * p->height * p->width, shorter = sqrt(all * aspect);
    int height = side(wide ? shorter : all / shorter, p->height),
        width = side(wide ? all / shorter : shorter, p->width);
    int top = (int)(weft_random_unit(random) * (p->height - height + 1)),
        left = (int)(weft_random_unit(random) * (p->width - width + 1));
    size_t count = weft_augmented_count(p);
    if (!wanted) return;
    for (size_t i = 0; i < count; i++) sum += (double)p->x[i];
    for (int c = 0; c < p->channels; c++)
        for (int y = top; y < top + height; y++)
            for (int x = left; x < left + width; x++)
                weft_augmented_row(p, p->x, c, y)[x] = (float)(sum / (double)count);
}

const weft_augmentation weft_augment_erase = {
    .name = "erase",
    .form = "erase[:p=0.5]",
    .help = "with this probability fill a rectangle, of 2 to 33 % of the picture, with its mean",
    .key = "p",
    .low = 0,
    .high = 1,
    .usual = 0.5,
    .apply = apply,
};
