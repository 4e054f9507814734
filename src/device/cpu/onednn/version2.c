/* Implements oneDNN 3's interface with version 2.6. No other file depends on version 2. */
#include "device/cpu/onednn/internal.h"

#if DNNL_VERSION_MAJOR < 3

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Names of version 2 that have another meaning in version 3. */
#undef dnnl_concat_primitive_desc_create
#undef dnnl_post_ops_append_eltwise
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        dnnl_status_t try_status = (expr);                                                         \
        if (try_status != dnnl_success) return try_status;                                         \
    } while (0)

/* --- descriptors of memory --- */

dnnl_status_t onednn2_clone(onednn2_md *out, const_dnnl_memory_desc_t md)
{
    *out = malloc(sizeof(**out));
    if (!*out) return dnnl_out_of_memory;
    memcpy(*out, md, sizeof(**out));
    return dnnl_success;
}

dnnl_status_t onednn2_destroy(onednn2_md md)
{
    free(md);
    return dnnl_success;
}

dnnl_status_t onednn2_create_with_strides(onednn2_md *out, int ndims, const dnnl_dims_t dims,
                                          dnnl_data_type_t type, const dnnl_dims_t strides)
{
    onednn2_desc md = {0};
    TRY(dnnl_memory_desc_init_by_strides(&md, ndims, dims, type, strides));
    return onednn2_clone(out, &md);
}

dnnl_status_t onednn2_create_with_tag(onednn2_md *out, int ndims, const dnnl_dims_t dims,
                                      dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    onednn2_desc md = {0};
    TRY(dnnl_memory_desc_init_by_tag(&md, ndims, dims, type, tag));
    return onednn2_clone(out, &md);
}

dnnl_status_t onednn2_create_submemory(onednn2_md *out, const_dnnl_memory_desc_t parent,
                                       const dnnl_dims_t dims, const dnnl_dims_t offsets)
{
    onednn2_desc md = {0};
    TRY(dnnl_memory_desc_init_submemory(&md, parent, dims, offsets));
    return onednn2_clone(out, &md);
}

dnnl_status_t onednn2_query_desc(const_dnnl_memory_desc_t md, onednn2_query what, void *result)
{
    const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
    bool blocked = md->format_kind == dnnl_blocked;
    switch (what) {
    case onednn2_ndims: *(int *)result = md->ndims; return dnnl_success;
    case onednn2_dims: *(const dnnl_dims_t **)result = &md->dims; return dnnl_success;
    case onednn2_type: *(dnnl_data_type_t *)result = md->data_type; return dnnl_success;
    case onednn2_offset: *(dnnl_dim_t *)result = md->offset0; return dnnl_success;
    case onednn2_format: *(dnnl_format_kind_t *)result = md->format_kind; return dnnl_success;
    default: break;
    }
    if (!blocked) return dnnl_invalid_arguments;
    switch (what) {
    case onednn2_strides: *(const dnnl_dims_t **)result = &b->strides; return dnnl_success;
    case onednn2_inner_count: *(int *)result = b->inner_nblks; return dnnl_success;
    case onednn2_inner_blocks: *(const dnnl_dims_t **)result = &b->inner_blks; return dnnl_success;
    case onednn2_inner_axes: *(const dnnl_dims_t **)result = &b->inner_idxs; return dnnl_success;
    default: return dnnl_invalid_arguments;
    }
}

/* --- descriptors of primitives --- */

dnnl_status_t onednn2_conv(dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_prop_kind_t prop,
                           dnnl_alg_kind_t alg, const_dnnl_memory_desc_t x,
                           const_dnnl_memory_desc_t w, const_dnnl_memory_desc_t bias,
                           const_dnnl_memory_desc_t y, const dnnl_dims_t strides,
                           const dnnl_dims_t dilates, const dnnl_dims_t padding,
                           const dnnl_dims_t padding_end, const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t desc;
    TRY(dnnl_dilated_convolution_forward_desc_init(&desc, prop, alg, x, w, bias, y, strides,
                                                   dilates, padding, padding_end));
    return dnnl_primitive_desc_create(out, &desc, attr, engine, NULL);
}

dnnl_status_t onednn2_conv_dx(dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_alg_kind_t alg,
                              const_dnnl_memory_desc_t dx, const_dnnl_memory_desc_t w,
                              const_dnnl_memory_desc_t dy, const dnnl_dims_t strides,
                              const dnnl_dims_t dilates, const dnnl_dims_t padding,
                              const dnnl_dims_t padding_end, const_dnnl_primitive_desc_t hint,
                              const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t desc;
    TRY(dnnl_dilated_convolution_backward_data_desc_init(&desc, alg, dx, w, dy, strides, dilates,
                                                         padding, padding_end));
    return dnnl_primitive_desc_create(out, &desc, attr, engine, hint);
}

dnnl_status_t onednn2_conv_dw(dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_alg_kind_t alg,
                              const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t dw,
                              const_dnnl_memory_desc_t dbias, const_dnnl_memory_desc_t dy,
                              const dnnl_dims_t strides, const dnnl_dims_t dilates,
                              const dnnl_dims_t padding, const dnnl_dims_t padding_end,
                              const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t desc;
    TRY(dnnl_dilated_convolution_backward_weights_desc_init(&desc, alg, x, dw, dbias, dy, strides,
                                                            dilates, padding, padding_end));
    return dnnl_primitive_desc_create(out, &desc, attr, engine, hint);
}

dnnl_status_t onednn2_inner(dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_prop_kind_t prop,
                            const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t w,
                            const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t y,
                            const_dnnl_primitive_attr_t attr)
{
    dnnl_inner_product_desc_t desc;
    TRY(dnnl_inner_product_forward_desc_init(&desc, prop, x, w, bias, y));
    return dnnl_primitive_desc_create(out, &desc, attr, engine, NULL);
}

dnnl_status_t onednn2_inner_dx(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                               const_dnnl_memory_desc_t dx, const_dnnl_memory_desc_t w,
                               const_dnnl_memory_desc_t dy, const_dnnl_primitive_desc_t hint,
                               const_dnnl_primitive_attr_t attr)
{
    dnnl_inner_product_desc_t desc;
    TRY(dnnl_inner_product_backward_data_desc_init(&desc, dx, w, dy));
    return dnnl_primitive_desc_create(out, &desc, attr, engine, hint);
}

dnnl_status_t onednn2_inner_dw(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                               const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t dw,
                               const_dnnl_memory_desc_t dbias, const_dnnl_memory_desc_t dy,
                               const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attr)
{
    dnnl_inner_product_desc_t desc;
    TRY(dnnl_inner_product_backward_weights_desc_init(&desc, x, dw, dbias, dy));
    return dnnl_primitive_desc_create(out, &desc, attr, engine, hint);
}

/* Dilated pooling is a separate primitive in version 2, and is not used here. */
static bool gaps(const dnnl_dims_t dilation)
{
    return dilation[0] != 0 || dilation[1] != 0;
}

dnnl_status_t onednn2_pool(dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_prop_kind_t prop,
                           dnnl_alg_kind_t alg, const_dnnl_memory_desc_t x,
                           const_dnnl_memory_desc_t y, const dnnl_dims_t strides,
                           const dnnl_dims_t kernel, const dnnl_dims_t dilation,
                           const dnnl_dims_t padding, const dnnl_dims_t padding_end,
                           const_dnnl_primitive_attr_t attr)
{
    dnnl_pooling_desc_t desc;
    if (gaps(dilation)) return dnnl_unimplemented;
    TRY(dnnl_pooling_forward_desc_init(&desc, prop, alg, x, y, strides, kernel, padding,
                                       padding_end));
    return dnnl_primitive_desc_create(out, &desc, attr, engine, NULL);
}

dnnl_status_t onednn2_pool_grad(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                dnnl_alg_kind_t alg, const_dnnl_memory_desc_t dx,
                                const_dnnl_memory_desc_t dy, const dnnl_dims_t strides,
                                const dnnl_dims_t kernel, const dnnl_dims_t dilation,
                                const dnnl_dims_t padding, const dnnl_dims_t padding_end,
                                const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attr)
{
    dnnl_pooling_desc_t desc;
    if (gaps(dilation)) return dnnl_unimplemented;
    TRY(dnnl_pooling_backward_desc_init(&desc, alg, dx, dy, strides, kernel, padding, padding_end));
    return dnnl_primitive_desc_create(out, &desc, attr, engine, hint);
}

/* The result must have the layout of the input, since version 2 has one descriptor for both. */
dnnl_status_t onednn2_eltwise(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                              dnnl_prop_kind_t prop, dnnl_alg_kind_t alg,
                              const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t y, float alpha,
                              float beta, const_dnnl_primitive_attr_t attr)
{
    dnnl_eltwise_desc_t desc;
    if (!dnnl_memory_desc_equal(x, y)) return dnnl_unimplemented;
    TRY(dnnl_eltwise_forward_desc_init(&desc, prop, alg, x, alpha, beta));
    return dnnl_primitive_desc_create(out, &desc, attr, engine, NULL);
}

dnnl_status_t onednn2_eltwise_grad(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                   dnnl_alg_kind_t alg, const_dnnl_memory_desc_t dx,
                                   const_dnnl_memory_desc_t dy, const_dnnl_memory_desc_t data,
                                   float alpha, float beta, const_dnnl_primitive_desc_t hint,
                                   const_dnnl_primitive_attr_t attr)
{
    dnnl_eltwise_desc_t desc;
    if (!dnnl_memory_desc_equal(dx, dy)) return dnnl_unimplemented;
    TRY(dnnl_eltwise_backward_desc_init(&desc, alg, dx, data, alpha, beta));
    return dnnl_primitive_desc_create(out, &desc, attr, engine, hint);
}

dnnl_status_t onednn2_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                             const_dnnl_memory_desc_t a, const_dnnl_memory_desc_t b,
                             const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t c,
                             const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t desc;
    TRY(dnnl_matmul_desc_init(&desc, a, b, bias, c));
    return dnnl_primitive_desc_create(out, &desc, attr, engine, NULL);
}

dnnl_status_t onednn2_concat(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                             const_dnnl_memory_desc_t target, int count, int axis,
                             const_dnnl_memory_desc_t const *source,
                             const_dnnl_primitive_attr_t attr)
{
    onednn2_desc *all = malloc((size_t)count * sizeof(*all));
    if (!all) return dnnl_out_of_memory;
    for (int i = 0; i < count; i++) all[i] = *source[i];
    dnnl_status_t made =
        dnnl_concat_primitive_desc_create(out, target, count, axis, all, attr, engine);
    free(all);
    return made;
}

dnnl_status_t onednn2_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha,
                                     float beta)
{
    return dnnl_post_ops_append_eltwise(ops, 1.0f, alg, alpha, beta);
}

#endif
