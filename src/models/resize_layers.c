/* Adds layers that give dimensions of space another size: means of windows that cut them into equal
 * parts, and enlarging. Where no pool or repetition does it, each dimension is multiplied by a
 * constant matrix. */
#include <math.h>

#include "models/models.h"

typedef enum resize { MEANS, NEAREST, LINEAR, CORNERS } resize;

/* Adds, to w [in], the weights of the elements of a dimension in element `to` of the resized one.
 * The rules are those of PyTorch's adaptive_avg_pool2d and interpolate. */
static void weigh(resize how, int64_t in, int64_t out, int64_t to, double *w)
{
    double ratio = (double)in / (double)out, at = ((double)to + 0.5) * ratio - 0.5;
    int64_t first = to * in / out, end = how == MEANS ? ((to + 1) * in + out - 1) / out : first + 1;
    if (how == CORNERS) at = out > 1 ? (double)to * (double)(in - 1) / (double)(out - 1) : 0;
    if (how == MEANS || how == NEAREST) {
        for (int64_t i = first; i < end; i++) w[i] = 1 / (double)(end - first);
        return;
    }
    if (at < 0) at = 0;
    first = WEFT_MIN((int64_t)at, in - 1);
    w[first] += 1 - (at - (double)first);
    w[WEFT_MIN(first + 1, in - 1)] += at - (double)first;
}

/* The matrix [in, out] of the weights. */
static weft_value matrix(weft_model_builder *net, const weft_layer *layer, resize how, int64_t in,
                         int64_t out)
{
    enum { MOST = 1 << 26 };
    const weft_type type = {net->graph->real, weft_shape_of(2, (int64_t[]){in, out})};
    double *row = NULL;
    void *all = NULL;
    weft_value made = WEFT_NO_VALUE;
    weft_status status = WEFT_OK;
    if (in > MOST / out)
        status = weft_fail(WEFT_ERR_ARGUMENT,
                           "layer '%s' resizes a side of %lld to %lld; their product is at most %d",
                           layer->name, (long long)in, (long long)out, MOST);
    if (status == WEFT_OK) status = WEFT_NEW(&row, in);
    if (status == WEFT_OK)
        status = weft_new_bytes(&all, (size_t)(in * out), weft_dtype_size(type.dtype));
    for (int64_t to = 0; to < out && status == WEFT_OK; to++) {
        for (int64_t i = 0; i < in; i++) row[i] = 0;
        weigh(how, in, out, to, row);
        for (int64_t i = 0; i < in; i++)
            if (type.dtype == WEFT_F64)
                ((double *)all)[i * out + to] = row[i];
            else
                ((float *)all)[i * out + to] = (float)row[i];
    }
    const weft_attr data = weft_attr_tensor("data", &type, all);
    if (status == WEFT_OK)
        made = weft_layer_emit(net, layer->name, "weights", "constant", NULL, 0, &data, 1);
    else
        (void)weft_graph_stick(net->graph, status);
    free(row);
    free(all);
    return made;
}

/* Multiplies a dimension by a matrix of weights. */
static weft_value resize_dim(weft_model_builder *net, weft_value x, const weft_layer *layer,
                             resize how, int dim, int64_t out)
{
    weft_shape in = weft_layer_shape(net, x);
    if (x == WEFT_NO_VALUE || in.dim[dim] == out) return x;
    weft_attr swap = {.name = "perm", .count = in.rank};
    for (int i = 0; i < in.rank; i++)
        swap.ints[i] = i == dim ? in.rank - 1 : i == in.rank - 1 ? dim : i;
    bool last = dim == in.rank - 1;
    if (!last) x = weft_layer_emit(net, layer->name, "turned", "transpose", &x, 1, &swap, 1);
    weft_value w = matrix(net, layer, how, in.dim[dim], out);
    x = weft_layer_emit(net, layer->name, "side", "dense", (weft_value[]){x, w}, 2, NULL, 0);
    return last ? x : weft_layer_emit(net, layer->name, "back", "transpose", &x, 1, &swap, 1);
}

/* The last dimension comes first, since it need not be turned. */
static weft_value resize_all(weft_model_builder *net, weft_value x, const weft_layer *layer,
                             resize how, const weft_attr *size)
{
    for (int d = size->count; d-- > 0;) x = resize_dim(net, x, layer, how, 2 + d, size->ints[d]);
    return x;
}

weft_value weft_layer_adaptive_avgpool(weft_model_builder *net, weft_value x,
                                       const weft_layer *layer)
{
    const weft_attr one = {.ints = {1, 1, 1}};
    int dims = weft_layer_space(net, x, layer, "adaptive_avgpool");
    weft_attr size = weft_layer_sides(net, layer, "size", &layer->size, dims, &one);
    weft_shape in = weft_layer_shape(net, x);
    weft_layer pool = {.name = layer->name, .kernel = {.count = dims}};
    bool pools = false;
    for (int i = 0; i < dims; i++) {
        bool divides = in.dim[2 + i] % size.ints[i] == 0;
        pool.kernel.at[i] = divides ? in.dim[2 + i] / size.ints[i] : 1;
        pools = pools || pool.kernel.at[i] > 1;
    }
    if (pools) x = weft_layer_avgpool(net, x, &pool);
    return resize_all(net, x, layer, MEANS, &size);
}

/* Repeats each element along one dimension after the other: first it becomes a row of equal ones.
 */
static weft_value repeat(weft_model_builder *net, weft_value x, const weft_layer *layer,
                         const weft_attr *scale)
{
    for (int d = 0; d < scale->count; d++) {
        weft_shape in = weft_layer_shape(net, x), out = in;
        weft_attr attrs[] = {WEFT_ATTR_INT("axes", 3 + d), {.name = "shape", .count = in.rank + 1}};
        if (x == WEFT_NO_VALUE) break;
        for (int k = 0; k <= in.rank; k++)
            attrs[1].ints[k] = k == 3 + d ? scale->ints[d] : in.dim[k < 3 + d ? k : k - 1];
        out.dim[2 + d] *= scale->ints[d];
        x = weft_layer_emit(net, layer->name, "rows", "broadcast", &x, 1, attrs, 2);
        x = weft_layer_reshaped(net, layer->name, d + 1 < scale->count ? "side" : "", x, &out);
    }
    return x;
}

weft_value weft_layer_upsample(weft_model_builder *net, weft_value x, const weft_layer *layer)
{
    const weft_attr two = {.ints = {2, 2, 2}};
    int dims = weft_layer_space(net, x, layer, "upsample");
    weft_shape in = weft_layer_shape(net, x);
    weft_attr scale = weft_layer_sides(net, layer, "scale", &layer->scale, dims, &two),
              size = scale;
    for (int i = 0; i < dims; i++) size.ints[i] = in.dim[2 + i] * scale.ints[i];
    if (layer->size.count) size = weft_layer_sides(net, layer, "size", &layer->size, dims, &size);
    if (layer->size.count && layer->scale.count)
        return weft_graph_stick(
            net->graph, weft_fail(WEFT_ERR_ARGUMENT,
                                  "layer '%s' (upsample) has a scale and a size; give one of them",
                                  layer->name));
    if (layer->align_corners && !layer->bilinear)
        return weft_graph_stick(
            net->graph,
            weft_fail(WEFT_ERR_ARGUMENT,
                      "layer '%s' (upsample): align_corners belongs to mode: bilinear; add it",
                      layer->name));
    if (layer->bilinear)
        return resize_all(net, x, layer, layer->align_corners ? CORNERS : LINEAR, &size);
    return layer->size.count ? resize_all(net, x, layer, NEAREST, &size)
                             : repeat(net, x, layer, &scale);
}
