/* Computes the output shape of each layer of a random network; a layer that cannot read its inputs
 * has none. */
#include "hunt.h"

bool id_shape(const hunt_case *c, int id, sample_shape *out)
{
    if (id == INPUT) {
        *out = c->samples.shape;
        return true;
    }
    for (int i = 0; i < c->layer_count; i++)
        if (c->layers[i].id == id) return layer_shape(c, i, out);
    return false;
}

int outputs_of(const samples *s)
{
    return s->targets ? s->targets : s->classes;
}

int sample_size(const sample_shape *s)
{
    int size = s->channels;
    for (int i = 0; i < s->dims; i++) size *= s->side[i];
    return size;
}

/* Whether at least one window covers an element that is not padding. Otherwise the layer's output
 * would be constant; a norm layer behind it would amplify its rounding error, and that error would
 * decide which side of a relu is taken. */
static bool touches(const layer *l, int i, int dilation, int side, int windows)
{
    for (int w = 0; w < windows; w++)
        for (int k = 0; k < l->kernel[i]; k++) {
            int at = w * l->stride[i] + k * dilation - l->padding[i];
            if (at >= 0 && at < side) return true;
        }
    return false;
}

/* Replaces the sides of `out` by those of the layer's output, one window per dimension of space;
 * false: a window does not fit or would cover padding only, or there is no dimension of space. */
static bool windowed(const layer *l, sample_shape *out)
{
    for (int i = 0; i < out->dims; i++) {
        int dilation = l->kind == CONV ? l->dilation[i] : 1, before = out->side[i];
        int reach = (l->kernel[i] - 1) * dilation + 1, padded = before + 2 * l->padding[i];
        out->side[i] = padded >= reach ? (padded - reach) / l->stride[i] + 1 : 0;
        if (out->side[i] < 1 || l->padding[i] >= reach ||
            !touches(l, i, dilation, before, out->side[i]))
            return false;
    }
    return out->dims > 0;
}

bool same_shape(const sample_shape *a, const sample_shape *b)
{
    bool same = a->channels == b->channels && a->dims == b->dims;
    for (int i = 0; i < a->dims && same; i++) same = a->side[i] == b->side[i];
    return same;
}

/* The last dimension of a sample: its width, if it is a sequence. */
static int *last_of(sample_shape *s)
{
    return s->dims > 0 ? &s->side[s->dims - 1] : &s->channels;
}

/* Replaces the shape of a sequence [positions, width] by that of a recurrence's output. */
static bool recurrence_shape(const layer *l, sample_shape *out)
{
    int units = l->filters * (l->both ? 2 : 1);
    if (out->dims != 1) return false;
    if (l->last)
        *out = (sample_shape){.channels = units};
    else
        out->side[0] = units;
    return true;
}

/* The size along one axis of the batch, where axis 1 is the channels and axis 2 is side[0]. */
static int *size_of(sample_shape *s, int axis)
{
    return axis == 1 ? &s->channels : &s->side[axis - 2];
}

static bool joined_shape(const hunt_case *c, const layer *l, sample_shape *out)
{
    for (int i = 1; i < l->inputs; i++) {
        sample_shape other, like;
        if (!id_shape(c, l->from[i], &other)) return false;
        like = other;
        if (l->axis > 1 + out->dims) return false;
        if (l->kind == CONCAT) *size_of(&like, l->axis) = *size_of(out, l->axis);
        if (!same_shape(&like, out)) return false;
        if (l->kind == CONCAT) *size_of(out, l->axis) += *size_of(&other, l->axis);
    }
    return true;
}

bool layer_shape(const hunt_case *c, int i, sample_shape *out)
{
    const layer *l = &c->layers[i];
    bool tokens = c->samples.format == TOKENS;
    if (!id_shape(c, l->from[0], out)) return false;
    for (int k = 0; k < l->inputs; k++) /* an embedding alone reads tokens */
        if ((tokens && l->from[k] == INPUT) != (l->kind == EMBEDDING)) return false;
    bool space = out->dims > 0;
    switch (l->kind) {
    case CONV:
        if (!space || out->channels % l->groups || l->filters % l->groups) return false;
        out->channels = l->filters;
        return windowed(l, out);
    case MAXPOOL:
    case AVGPOOL: return windowed(l, out);
    case DENSE:
        *out = (sample_shape){.channels = l->outputs ? outputs_of(&c->samples) : l->filters};
        return true;
    case GLOBAL_AVGPOOL: out->dims = 0; return space;
    case FLATTEN: *out = (sample_shape){.channels = sample_size(out)}; return true;
    case CONCAT:
    case MUL:
    case ADD: return joined_shape(c, l, out);
    case LINEAR: *last_of(out) = l->outputs ? outputs_of(&c->samples) : l->filters; return true;
    case EMBEDDING:
        *out = (sample_shape){.channels = out->channels, .dims = 1, .side = {l->filters}};
        return true;
    case SEQUENCE_MEAN:
        if (out->dims != 1) return false;
        *out = (sample_shape){.channels = out->side[0]};
        return true;
    case POSITIONS: return out->dims == 1;
    case ATTENTION:
        return out->dims == 1 && out->side[0] % l->heads == 0 &&
               !(l->rotary && out->side[0] / l->heads % 2);
    case LSTM:
    case GRU: return recurrence_shape(l, out);
    /* A norm over a single number has a constant output, and a norm layer behind it would
     * amplify the rounding error of that constant. */
    case RMS_NORM:
    case LAYER_NORM: return *last_of(out) > 1;
    default: return true;
    }
}
