/* crop: a part of the picture with black around it, of the picture's size; the picture is shifted.
 */
#include "data/augment/augment.h"

static void apply(weft_augmented *p, double pad, weft_random *random)
{
    int span = 2 * (int)pad + 1;
    int down = (int)(weft_random_u32(random) % (uint32_t)span) - (int)pad,
        right = (int)(weft_random_u32(random) % (uint32_t)span) - (int)pad;
    size_t count = weft_augmented_count(p);
    int first = WEFT_MAX(right, 0), last = WEFT_MIN(p->width + right, p->width);
    memcpy(p->spare, p->x, count * sizeof(*p->x));
    for (size_t i = 0; i < count; i++) p->x[i] = (float)p->low;
    for (int c = 0; c < p->channels; c++)
        for (int y = WEFT_MAX(down, 0); y < WEFT_MIN(p->height + down, p->height); y++)
            if (first < last)
                memcpy(weft_augmented_row(p, p->x, c, y) + first,
                       weft_augmented_row(p, p->spare, c, y - down) + first - right,
                       (size_t)(last - first) * sizeof(*p->x));
}

const weft_augmentation weft_augment_crop = {
    .name = "crop",
    .form = "crop[:pad=4]",
    .help = "shift by up to so many pixels in each direction, with black behind",
    .key = "pad",
    .low = 0,
    .high = 1024,
    .usual = 4,
    .integer = true,
    .moves = true,
    .apply = apply,
};
