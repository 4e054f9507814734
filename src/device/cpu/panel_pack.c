/* Packs numbers of images into panels. A step of a panel is copied in parts of channels that lie in
 * sequence, of which each is one load and one store with AVX-512, whose masks keep within them. */
#include "device/cpu/onednn.h"
#include "device/cpu/panel.h"
#include "device/cpu/simd.h"

/* Up to 16 channels in sequence: their offset in the image, and their column in the panel. */
typedef struct part {
    int64_t from;
    int column, count;
} part;

/* The most parts for which copying them is faster than copying each number. */
enum { PART = 16, MOST_PARTS = 6 };

/* Returns the number of parts, or MOST_PARTS + 1 if there are more. */
static int parts_of(const panel_source *s, part *to)
{
    int count = 0;
    for (int i = 0; i < s->channels && count <= MOST_PARTS; i++) {
        part *last = count > 0 ? &to[count - 1] : NULL;
        if (last && last->count < PART && s->channel[i] == last->from + last->count)
            last->count++;
        else if (count++ < MOST_PARTS)
            to[count - 1] = (part){s->channel[i], i, 1};
    }
    return count;
}

static int64_t steps_of(const panel_source *s)
{
    return s->narrow ? (s->images + 1) / 2 : s->images;
}

/* Copies each number by itself. */
static WEFT_CLONES void pack_numbers(const panel_source *s, int width, uint32_t *to)
{
    int64_t steps = steps_of(s);
    for (int64_t p = 0; p < s->positions; p++) {
        const uint32_t *word = (const uint32_t *)s->data + s->position[p];
        const uint16_t *half = (const uint16_t *)s->data + s->position[p];
        if (s->position[p] < 0) {
            to += steps * width;
            continue;
        }
        for (int64_t i = 0; i < steps; i++, to += width) {
            const uint16_t *one = half + 2 * i * s->image, *two = one + s->image;
            if (!s->narrow)
                for (int c = 0; c < s->channels; c++) to[c] = word[i * s->image + s->channel[c]];
            else if (2 * i + 1 < s->images)
                for (int c = 0; c < s->channels; c++)
                    to[c] = one[s->channel[c]] | (uint32_t)two[s->channel[c]] << 16;
            else
                for (int c = 0; c < s->channels; c++) to[c] = one[s->channel[c]];
            for (int c = s->channels; c < width; c++) to[c] = 0;
        }
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

/* The channels at `at` of an image, or of a pair of images, as words. */
WIDE static inline __m512i words_at(const panel_source *s, __mmask16 mask, int64_t at, bool pair)
{
    if (!s->narrow) return _mm512_maskz_loadu_epi32(mask, (const uint32_t *)s->data + at);
    const uint16_t *one = (const uint16_t *)s->data + at;
    __m512i words = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, one));
    if (!pair) return words;
    __m512i two = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, one + s->image));
    return _mm512_or_si512(words, _mm512_slli_epi32(two, 16));
}

WIDE static void pack_parts(const panel_source *s, const part *parts, int count, int width,
                            uint32_t *to)
{
    int64_t steps = steps_of(s), images = s->narrow ? 2 : 1;
    for (int64_t p = 0; p < s->positions; p++) {
        if (s->position[p] < 0) {
            to += steps * width;
            continue;
        }
        for (int64_t i = 0; i < steps; i++, to += width) {
            int64_t at = s->position[p] + i * images * s->image;
            for (int k = 0; k < count; k++) {
                __mmask16 mask = (__mmask16)((1u << parts[k].count) - 1);
                _mm512_mask_storeu_epi32(
                    to + parts[k].column, mask,
                    words_at(s, mask, at + parts[k].from, 2 * i + 1 < s->images));
            }
            for (int c = s->channels; c < width; c++) to[c] = 0;
        }
    }
}
#else
static void pack_parts(const panel_source *s, const part *parts, int count, int width, uint32_t *to)
{
    (void)parts, (void)count;
    pack_numbers(s, width, to);
}
#endif

void panel_pack(const panel_source *s, panel_shape shape, int width, uint32_t *to)
{
    part parts[MOST_PARTS];
    int count = parts_of(s, parts);
    if (count <= MOST_PARTS && shape.masks)
        pack_parts(s, parts, count, width, to);
    else
        pack_numbers(s, width, to);
}

panel_shape panel_shape_of(bool narrow)
{
    bool wide = onednn_has_avx512(narrow);
    if (narrow && !wide) return (panel_shape){0};
    return (panel_shape){wide ? TILE_WIDE_ROWS : TILE_ROWS, TILE_COLUMNS * (wide ? 2 : 1), narrow,
                         wide};
}
