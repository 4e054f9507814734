/* color: brightness, contrast and saturation. */
#include "data/augment/augment.h"

static float kept(const weft_augmented *p, double x)
{
    return (float)WEFT_MIN(WEFT_MAX(x, p->low), p->high);
}

/* Brightness of the pixel at place i of a channel. */
static double grey(const weft_augmented *p, ptrdiff_t i)
{
    ptrdiff_t plane = (ptrdiff_t)p->height * p->width;
    if (p->channels != 3) return (double)p->x[i];
    return 0.299 * (double)p->x[i] + 0.587 * (double)p->x[plane + i] +
           0.114 * (double)p->x[2 * plane + i];
}

static void apply(weft_augmented *p, double amount, weft_random *random)
{
    double bright = weft_random_between(random, 1 - amount, 1 + amount),
           contrast = weft_random_between(random, 1 - amount, 1 + amount),
           colour = weft_random_between(random, 1 - amount, 1 + amount), mean = 0;
    ptrdiff_t plane = (ptrdiff_t)p->height * p->width;
    int channels = p->channels == 4 ? 3 : p->channels; /* opacity is no colour */
    for (ptrdiff_t i = 0; i < channels * plane; i++)
        p->x[i] = kept(p, p->low + bright * ((double)p->x[i] - p->low));
    for (ptrdiff_t i = 0; i < plane; i++) mean += grey(p, i);
    mean /= (double)plane;
    for (ptrdiff_t i = 0; i < channels * plane; i++)
        p->x[i] = kept(p, mean + contrast * ((double)p->x[i] - mean));
    for (ptrdiff_t i = 0; i < plane && p->channels == 3; i++) {
        double at = grey(p, i);
        for (int c = 0; c < 3; c++)
            p->x[c * plane + i] = kept(p, at + colour * ((double)p->x[c * plane + i] - at));
    }
}

const weft_augmentation weft_augment_color = {
    .name = "color",
    .form = "color[:amount=0.2]",
    .help = "multiply brightness, contrast and saturation by 1 - amount to 1 + amount",
    .key = "amount",
    .low = 0,
    .high = 1,
    .usual = 0.2,
    .apply = apply,
};
