/* Scales pictures with a separable triangle filter, first along the rows, then along the columns.
 */
#include <math.h>

#include "formats/picture/picture.h"

/* The filter along one line: each destination pixel is a weighted sum of adjacent source pixels. */
typedef struct parts {
    int count;     /* largest number of source pixels of a destination pixel */
    int *first;    /* [destination pixels]: index of the first source pixel */
    float *weight; /* [destination pixels, count]; the weights of a destination pixel add up to 1 */
} parts;

static weft_status make_parts(int from, int to, parts *out)
{
    double step = (double)from / to, reach = WEFT_MAX(step, 1.0);
    out->count = (int)ceil(2 * reach) + 1;
    WEFT_TRY(WEFT_NEW(&out->first, to));
    WEFT_TRY(WEFT_NEW(&out->weight, (size_t)to * (size_t)out->count));
    for (int i = 0; i < to; i++) {
        double middle = (i + 0.5) * step, sum = 0;
        int first = WEFT_MAX((int)floor(middle - reach), 0);
        first = WEFT_MAX(WEFT_MIN(first, from - 1), 0);
        float *weight = out->weight + (size_t)i * (size_t)out->count;
        out->first[i] = first;
        for (int k = 0; k < out->count && first + k < from; k++) {
            double far = fabs(first + k + 0.5 - middle) / reach;
            weight[k] = (float)WEFT_MAX(1 - far, 0.0);
            sum += (double)weight[k];
        }
        for (int k = 0; k < out->count; k++) weight[k] = (float)((double)weight[k] / sum);
    }
    return WEFT_OK;
}

static void free_parts(parts *p)
{
    free(p->first);
    free(p->weight);
}

/* Scales the rows to the new width: [channels, height, width]. */
static void scale_rows(const weft_picture *p, const parts *across, int width, float *out)
{
    for (int c = 0; c < p->channels; c++)
        for (int y = 0; y < p->height; y++) {
            const unsigned char *row =
                p->pixels + (size_t)y * (size_t)p->width * (size_t)p->channels + c;
            for (int x = 0; x < width; x++, out++) {
                const float *weight = across->weight + (size_t)x * (size_t)across->count;
                int first = across->first[x], most = WEFT_MIN(across->count, p->width - first);
                float sum = 0;
                for (int k = 0; k < most; k++)
                    sum += weight[k] * (float)row[(size_t)(first + k) * (size_t)p->channels];
                *out = sum;
            }
        }
}

static void scale_columns(const float *from, const parts *down, const weft_picture *p, int width,
                          int height, float *out)
{
    for (int c = 0; c < p->channels; c++, from += (size_t)p->height * (size_t)width)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                const float *weight = down->weight + (size_t)y * (size_t)down->count;
                int first = down->first[y], most = WEFT_MIN(down->count, p->height - first);
                float sum = 0;
                for (int k = 0; k < most; k++)
                    sum += weight[k] * from[(size_t)(first + k) * (size_t)width + (size_t)x];
                *out++ = WEFT_MIN(WEFT_MAX(rintf(sum), 0.0F), 255.0F);
            }
}

static void copy(const weft_picture *p, float *out)
{
    size_t pixels = (size_t)p->width * (size_t)p->height, channels = (size_t)p->channels;
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < pixels; i++) *out++ = (float)p->pixels[i * channels + c];
}

weft_status weft_picture_scale(const weft_picture *p, int width, int height, float *out)
{
    parts across = {0}, down = {0};
    float *rows = NULL;
    weft_status status;
    if (width == p->width && height == p->height) {
        copy(p, out);
        return WEFT_OK;
    }
    WEFT_TRY_GOTO(make_parts(p->width, width, &across), end);
    WEFT_TRY_GOTO(make_parts(p->height, height, &down), end);
    WEFT_TRY_GOTO(WEFT_NEW(&rows, (size_t)p->channels * (size_t)p->height * (size_t)width), end);
    scale_rows(p, &across, width, rows);
    scale_columns(rows, &down, p, width, height, out);
end:
    free_parts(&across);
    free_parts(&down);
    free(rows);
    return status;
}
