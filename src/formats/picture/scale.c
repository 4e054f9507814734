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

/* begin, count: the destination pixels that are wanted. */
static weft_status make_parts(int from, int to, int begin, int count, parts *out)
{
    double step = (double)from / to, reach = WEFT_MAX(step, 1.0);
    out->count = (int)ceil(2 * reach) + 1;
    WEFT_TRY(WEFT_NEW(&out->first, count));
    WEFT_TRY(WEFT_NEW(&out->weight, (size_t)count * (size_t)out->count));
    for (int i = 0; i < count; i++) {
        double middle = (begin + i + 0.5) * step, sum = 0;
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

/* Scales the rows from `begin` up to `end` to the new width: [channels, end - begin, width]. */
static void scale_rows(const weft_picture *p, const parts *across, int begin, int end, int width,
                       float *out)
{
    for (int c = 0; c < p->channels; c++)
        for (int y = begin; y < end; y++) {
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

static void scale_columns(const float *from, const parts *down, int begin, int end, int channels,
                          int width, int height, float *out)
{
    for (int c = 0; c < channels; c++, from += (size_t)(end - begin) * (size_t)width)
        for (int y = 0; y < height; y++, out += width) {
            const float *weight = down->weight + (size_t)y * (size_t)down->count;
            int first = down->first[y], most = WEFT_MIN(down->count, end - first);
            memset(out, 0, (size_t)width * sizeof(*out));
            for (int k = 0; k < most; k++) {
                const float *row = from + (size_t)(first - begin + k) * (size_t)width;
                for (int x = 0; x < width; x++) out[x] += weight[k] * row[x];
            }
            for (int x = 0; x < width; x++)
                out[x] = WEFT_MIN(WEFT_MAX(rintf(out[x]), 0.0F), 255.0F);
        }
}

static void copy(const weft_picture *p, float *out)
{
    size_t pixels = (size_t)p->width * (size_t)p->height, channels = (size_t)p->channels;
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < pixels; i++) *out++ = (float)p->pixels[i * channels + c];
}

weft_status weft_picture_scale_part(const weft_picture *p, int width, int height,
                                    const weft_picture_part *part, float *out)
{
    parts across = {0}, down = {0};
    float *rows = NULL;
    weft_status status;
    if (width == p->width && height == p->height && width == part->width &&
        height == part->height) {
        copy(p, out);
        return WEFT_OK;
    }
    WEFT_TRY_GOTO(make_parts(p->width, width, part->x, part->width, &across), end);
    WEFT_TRY_GOTO(make_parts(p->height, height, part->y, part->height, &down), end);
    int begin = down.first[0], last = down.first[part->height - 1],
        end = WEFT_MIN(last + down.count, p->height);
    WEFT_TRY_GOTO(
        WEFT_NEW(&rows, (size_t)p->channels * (size_t)(end - begin) * (size_t)part->width), end);
    scale_rows(p, &across, begin, end, part->width, rows);
    scale_columns(rows, &down, begin, end, p->channels, part->width, part->height, out);
end:
    free_parts(&across);
    free_parts(&down);
    free(rows);
    return status;
}

weft_status weft_picture_scale(const weft_picture *p, int width, int height, float *out)
{
    return weft_picture_scale_part(p, width, height, &(weft_picture_part){0, 0, width, height},
                                   out);
}
