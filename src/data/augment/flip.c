/* flip and vflip: the mirror image, and the picture upside down (for pictures from above or through
 * a microscope). */
#include "data/augment/augment.h"

/* Swaps each pixel of one half with its mirror image in the other. */
static void mirror(weft_augmented *p, bool down, double probability, weft_random *random)
{
    if (weft_random_unit(random) >= probability) return;
    const int rows = down ? p->height / 2 : p->height, columns = down ? p->width : p->width / 2;
    for (int c = 0; c < p->channels; c++)
        for (int y = 0; y < rows; y++) {
            float *row = weft_augmented_row(p, p->x, c, y);
            float *other = down ? weft_augmented_row(p, p->x, c, p->height - 1 - y) : row;
            for (int i = 0; i < columns; i++) {
                const int j = down ? i : p->width - 1 - i;
                const float kept = row[i];
                row[i] = other[j];
                other[j] = kept;
            }
        }
}

static void mirror_aside(weft_augmented *p, double probability, weft_random *random)
{
    mirror(p, false, probability, random);
}

static void mirror_down(weft_augmented *p, double probability, weft_random *random)
{
    mirror(p, true, probability, random);
}

#define WITH_PROBABILITY .key = "p", .low = 0, .high = 1, .usual = 0.5, .moves = true

const weft_augmentation weft_augment_flip = {
    .name = "flip",
    .form = "flip[:p=0.5]",
    .help = "swap left and right with this probability",
    WITH_PROBABILITY,
    .apply = mirror_aside,
};
const weft_augmentation weft_augment_vflip = {
    .name = "vflip",
    .form = "vflip[:p=0.5]",
    .help = "swap top and bottom with this probability",
    WITH_PROBABILITY,
    .apply = mirror_down,
};
