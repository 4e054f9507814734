/* Implements kernels for elements of any type, and for operands of different types. */
#include "device/reference/reference.h"
#include "device/rounding.h"

int64_t weft_ref_element_of(const weft_ref *a, int operand, int64_t i)
{
    const weft_shape *full = out_shape(a, 0);
    int64_t stride[WEFT_MAX_RANK], at = 0;
    weft_broadcast_strides(in_shape(a, operand), full, stride);
    for (int d = full->rank - 1; d >= 0; i /= full->dim[d--]) at += i % full->dim[d] * stride[d];
    return at;
}

static void cast(const weft_ref *a)
{
    weft_dtype from = weft_in(a->graph, a->node, 0)->dtype;
    weft_dtype to = weft_out(a->graph, a->node, 0)->dtype;
    weft_numbers_cast(from, a->in[0], to, a->out[0], out_size(a, 0));
}

static void constant(const weft_ref *a)
{
    const weft_type *type = weft_out(a->graph, a->node, 0);
    const weft_attr *data = weft_node_attr(a->node, "data");
    double value = weft_node_real(a->node, "value", 0);
    if (data) memcpy(a->out[0], weft_attr_data(data, NULL), weft_type_bytes(type));
    for (int64_t i = 0; i < out_size(a, 0) && !data; i++)
        weft_number_put(type->dtype, a->out[0], i, value);
}

/* Adds random numbers to the bits that are cut off; infinite numbers stay, and NaN stays one. */
static void stochastic_round(const weft_ref *a)
{
    const uint32_t *bits = a->in[0];
    uint16_t *y = a->out[0];
    uint32_t random[4];
    uint64_t key = weft_round_key(a->node), step = (uint64_t) * (const int32_t *)a->in[1];
    for (int64_t i = 0, run; i < out_size(a, 0); i++) {
        uint64_t place = (uint64_t)weft_round_position(a->graph, a->node, i, &run);
        weft_philox(key, step, place / 8, random);
        uint32_t low = random[place % 8 / 2] >> 16 * (place % 2) & 0xffff;
        bool finite = (bits[i] & 0x7f800000) != 0x7f800000;
        uint32_t nan = (bits[i] & 0x7fffff) != 0 ? 0x40 : 0;
        y[i] = (uint16_t)(finite ? (bits[i] + low) >> 16 : bits[i] >> 16 | nan);
    }
}

const weft_ref_entry weft_ref_any[] = {
    {"stochastic_round", stochastic_round, 0},
    {"cast", cast, 0},
    {"constant", constant, 0},
    {NULL, NULL, 0},
};
