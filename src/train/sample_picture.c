/* Draws a sample of the training as a picture, as a model gets it in the first epoch. */
#include "formats/picture/picture.h"
#include "train/metrics.h"

/* The most pixels of a side. */
enum { MOST_SIDE = 4096 };

/* Element j of the `all` of a sample as a colour, from 0 to 255. */
static double colour_of(const weft_data_stats *t, const float *x, size_t j, size_t all)
{
    int64_t f = weft_feature_of(t, (int64_t)j, (int64_t)all);
    double value = (double)x[j] * t->deviation[f] + t->mean[f], low = t->bytes ? 0 : t->range.low,
           high = t->bytes ? 255 : t->range.high;
    double colour = high > low ? (value - low) / (high - low) * 255 : 0;
    return WEFT_MIN(WEFT_MAX(colour, 0), 255);
}

/* Sets channels, height and width. ARGUMENT: samples are no pictures. */
static weft_status take_shape(const weft_dataset *data, int64_t size[3])
{
    const weft_data_stats *t = weft_dataset_stats(data);
    const weft_shape shape = weft_dataset_shape(data);
    bool planes = shape.rank == 2 || shape.rank == 3;
    for (int d = 0; d < 3 && planes; d++)
        size[d] = d + shape.rank < 3 ? 1 : shape.dim[d + shape.rank - 3];
    if (planes && t->inputs == 1 && t->input[0].values == 0 && size[0] <= 4 &&
        size[1] <= MOST_SIDE && size[2] <= MOST_SIDE)
        return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "metrics: samples of these data are no pictures of up to 4 channels and %d "
                     "pixels along each side, so there is nothing to draw; leave +pictures out",
                     MOST_SIDE);
}

/* Grey stays grey; another plane is blended with white by a fourth one. */
static void paint(const weft_data_stats *t, const float *x, int64_t planes, const weft_picture *p)
{
    size_t pixels = (size_t)p->width * (size_t)p->height, all = pixels * (size_t)planes;
    for (size_t i = 0; i < pixels; i++) {
        double opaque = planes == 4 ? colour_of(t, x, 3 * pixels + i, all) / 255 : 1;
        for (int c = 0; c < p->channels; c++) {
            double colour = colour_of(t, x, (size_t)c * pixels + i, all);
            p->pixels[i * (size_t)p->channels + (size_t)c] =
                (unsigned char)(colour * opaque + 255 * (1 - opaque) + 0.5);
        }
    }
}

weft_status weft_sample_picture(const weft_dataset *data, uint64_t seed, int64_t i, int *channels,
                                weft_text *png)
{
    float *x;
    int64_t size[3];
    WEFT_TRY(take_shape(data, size));
    weft_picture p = {
        .channels = size[0] < 3 ? 1 : 3, .height = (int)size[1], .width = (int)size[2]};
    size_t pixels = (size_t)p.width * (size_t)p.height;
    WEFT_TRY(WEFT_NEW(&x, (size_t)size[0] * pixels));
    weft_status status = WEFT_NEW(&p.pixels, pixels * (size_t)p.channels);
    if (status == WEFT_OK) status = weft_dataset_draw(data, seed, 0, i, 0, x);
    if (status == WEFT_OK) paint(weft_dataset_stats(data), x, size[0], &p);
    if (status == WEFT_OK) status = weft_picture_encode(&p, NULL, png);
    *channels = p.channels;
    free(p.pixels);
    free(x);
    return status;
}
