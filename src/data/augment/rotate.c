/* rotate: about the middle, with black behind. */
#include <math.h>

#include "data/augment/augment.h"

/* A pixel of a channel of the copy; black outside. */
static double at(const weft_augmented *p, int c, int y, int x)
{
    if (y < 0 || y >= p->height || x < 0 || x >= p->width) return p->low;
    return (double)weft_augmented_row(p, p->spare, c, y)[x];
}

static double between(const weft_augmented *p, int c, double y, double x)
{
    if (p->nearest) return at(p, c, (int)floor(y + 0.5), (int)floor(x + 0.5));
    int top = (int)floor(y), left = (int)floor(x);
    double down = y - top, right = x - left;
    return (1 - down) * ((1 - right) * at(p, c, top, left) + right * at(p, c, top, left + 1)) +
           down * ((1 - right) * at(p, c, top + 1, left) + right * at(p, c, top + 1, left + 1));
}

static void apply(weft_augmented *p, double degrees, weft_random *random)
{
    const double pi = 3.14159265358979323846;
    double angle = weft_random_between(random, -degrees, degrees) * pi / 180, cosine = cos(angle),
           sine = sin(angle), middle_y = (p->height - 1) / 2.0, middle_x = (p->width - 1) / 2.0;
    memcpy(p->spare, p->x, weft_augmented_count(p) * sizeof(*p->x));
    for (int c = 0; c < p->channels; c++)
        for (int y = 0; y < p->height; y++)
            for (int x = 0; x < p->width; x++) {
                double from_x = cosine * (x - middle_x) + sine * (y - middle_y) + middle_x,
                       from_y = cosine * (y - middle_y) - sine * (x - middle_x) + middle_y;
                weft_augmented_row(p, p->x, c, y)[x] = (float)between(p, c, from_y, from_x);
            }
}

const weft_augmentation weft_augment_rotate = {
    .name = "rotate",
    .form = "rotate[:degrees=10]",
    .help = "turn by up to so many degrees to the left or right, with black behind",
    .key = "degrees",
    .low = 0,
    .high = 180,
    .usual = 10,
    .moves = true,
    .apply = apply,
};
