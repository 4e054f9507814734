/* resizedcrop: a random part of the picture, resized to the whole (Inception's crop; Szegedy et al.
 * 2015, arXiv 1409.4842). */
#include <math.h>

#include "data/augment/augment.h"

typedef struct part {
    int top, left, height, width;
} part;

/* The area of the part is a uniform share of the picture's, and its aspect ratio the picture's
 * times a factor from 3/4 to 4/3, uniform by its logarithm. Drawn again while it does not fit in.
 */
static part draw(const weft_augmented *p, double scale, weft_random *random)
{
    enum { TRIES = 10 };
    for (int i = 0; i < TRIES; i++) {
        double area = weft_random_between(random, scale, 1),
               aspect = exp(weft_random_between(random, log(3.0 / 4), log(4.0 / 3)));
        double down = p->height * sqrt(area / aspect), aside = p->width * sqrt(area * aspect);
        if (down > p->height || aside > p->width) continue;
        int height = WEFT_MAX((int)lround(down), 1), width = WEFT_MAX((int)lround(aside), 1);
        return (part){.top = (int)(weft_random_unit(random) * (p->height - height + 1)),
                      .left = (int)(weft_random_unit(random) * (p->width - width + 1)),
                      .height = height,
                      .width = width};
    }
    return (part){.height = p->height, .width = p->width};
}

/* The place in a part of `size` pixels from `first` of the middle of pixel i of `of`. */
static double place(int i, int of, int first, int size)
{
    double at = first + (i + 0.5) * size / of - 0.5;
    return WEFT_MIN(WEFT_MAX(at, (double)first), (double)(first + size - 1));
}

static double between(const weft_augmented *p, int c, double y, double x)
{
    if (p->nearest)
        return (double)weft_augmented_row(p, p->spare, c, (int)floor(y + 0.5))[(int)floor(x + 0.5)];
    int top = (int)y, left = (int)x, bottom = WEFT_MIN(top + 1, p->height - 1),
        right = WEFT_MIN(left + 1, p->width - 1);
    double down = y - top, aside = x - left;
    const float *upper = weft_augmented_row(p, p->spare, c, top),
                *lower = weft_augmented_row(p, p->spare, c, bottom);
    return (1 - down) * ((1 - aside) * (double)upper[left] + aside * (double)upper[right]) +
           down * ((1 - aside) * (double)lower[left] + aside * (double)lower[right]);
}

static void apply(weft_augmented *p, double scale, weft_random *random)
{
    const part from = draw(p, scale, random);
    memcpy(p->spare, p->x, weft_augmented_count(p) * sizeof(*p->x));
    for (int c = 0; c < p->channels; c++)
        for (int y = 0; y < p->height; y++)
            for (int x = 0; x < p->width; x++)
                weft_augmented_row(p, p->x, c, y)[x] =
                    (float)between(p, c, place(y, p->height, from.top, from.height),
                                   place(x, p->width, from.left, from.width));
}

const weft_augmentation weft_augment_resizedcrop = {
    .name = "resizedcrop",
    .form = "resizedcrop[:scale=0.35]",
    .help = "a random part, of at least this share of the area, resized to the whole",
    .key = "scale",
    .low = 0.01,
    .high = 1,
    .usual = 0.35,
    .moves = true,
    .apply = apply,
};
