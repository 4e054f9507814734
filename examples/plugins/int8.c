/* A codec as a plug-in, with a form of messages of its own: numbers of 8 bits in blocks, each a
 * multiple of a power of two that suits the largest number of its block (block-wise quantization,
 * Dettmers et al. 2022). Message and residual add up to the update, to the bit:
 *
 *   weft train --plugin ./libint8.so -n 4 --exchange server --compress int8 */
#include <math.h>
#include <stdlib.h>

#include "weft/services.h"

enum { BLOCK = 256 };
static const weft_services *weft; /* set when the plug-in is loaded */

static weft_status int8_open(const char *arguments, int64_t count, void **state)
{
    (void)count, (void)state; /* it has none */
    return weft->parse("codec int8", arguments, &(weft_spec_key){.name = NULL});
}

/* The body: the exponent of each block, of two bytes, then a byte for each number. */
static int64_t blocks_of(const weft_codec_message *m)
{
    return (m->count + BLOCK - 1) / BLOCK;
}

static int exponent(const weft_codec_message *m, int64_t block)
{
    return (int16_t)(m->body[2 * block] | m->body[2 * block + 1] << 8);
}

static weft_status int8_encode(void *state, const weft_codec_choice *choice, uint8_t *body,
                               weft_codec_message *m)
{
    int64_t blocks = blocks_of(m);
    (void)state;
    if ((size_t)(2 * blocks + m->count) >= m->bytes) return WEFT_OK; /* the numbers are shorter */
    m->bytes = (size_t)(2 * blocks + m->count);
    for (int64_t b = 0; b < blocks; b++) {
        int64_t end = (b + 1) * BLOCK < m->count ? (b + 1) * BLOCK : m->count;
        double most = 0;
        for (int64_t i = b * BLOCK; i < end; i++)
            most = fmax(most, fabs(weft->get_number(m->dtype, choice->numbers, i)));
        int e = most > 0 ? ilogb(most) - 5 : 0; /* so that no multiple is above 64 */
        body[2 * b] = (uint8_t)e;
        body[2 * b + 1] = (uint8_t)(e >> 8);
        for (int64_t i = b * BLOCK; i < end; i++)
            body[2 * blocks + i] =
                (uint8_t)(int)rint(ldexp(weft->get_number(m->dtype, choice->numbers, i), -e));
    }
    return WEFT_OK;
}

static bool int8_valid(const weft_codec_message *m, double most)
{
    bool valid = m->number == 0 && m->bytes == (size_t)(2 * blocks_of(m) + m->count);
    for (int64_t b = 0; valid && b < blocks_of(m); b++) valid = ldexp(128, exponent(m, b)) <= most;
    return valid;
}

static void int8_add(const weft_codec_message *m, int64_t begin, int64_t n, double scale, void *to)
{
    for (int64_t i = begin; i < begin + n; i++) {
        int8_t multiple = (int8_t)m->body[2 * blocks_of(m) + i];
        double sum = weft->get_number(m->dtype, to, i - begin);
        sum += scale * ldexp(multiple, exponent(m, i / BLOCK));
        weft->put_number(m->dtype, to, i - begin, sum);
    }
}

static const weft_codec_rule rule = {sizeof(rule), false,       int8_open,  free,
                                     NULL,         int8_encode, int8_valid, int8_add};
static const weft_entry entries[] = {
    {.kind = WEFT_KIND_CODEC, .name = "int8", .summary = "numbers of 8 bits", .ops = &rule},
    {.name = NULL}};
WEFT_PLUGIN(weft, entries);
