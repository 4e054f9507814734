/* Declares the part of oneDNN 3's interface that Weft uses, for oneDNN 2.6. Names and meanings are
 * those of version 3. In version 2, memory descriptors are values with public fields, and a
 * primitive is described in two steps: an operation descriptor, and a primitive descriptor made
 * from it. */
#ifndef WEFT_DEVICE_CPU_ONEDNN_VERSION2_H
#define WEFT_DEVICE_CPU_ONEDNN_VERSION2_H

#include <dnnl.h>

typedef dnnl_memory_desc_t onednn2_desc;
typedef onednn2_desc *onednn2_md;
typedef const onednn2_desc *const_dnnl_memory_desc_t;
#define dnnl_memory_desc_t onednn2_md

/* --- descriptors of memory --- */

typedef enum onednn2_query {
    onednn2_ndims,
    onednn2_dims,
    onednn2_strides,
    onednn2_offset,
    onednn2_format,
    onednn2_inner_count,
    onednn2_inner_blocks,
    onednn2_inner_axes,
    onednn2_type,
} onednn2_query;
#define dnnl_query_ndims_s32 onednn2_ndims
#define dnnl_query_dims onednn2_dims
#define dnnl_query_strides onednn2_strides
#define dnnl_query_submemory_offset_s64 onednn2_offset
#define dnnl_query_format_kind onednn2_format
#define dnnl_query_inner_nblks_s32 onednn2_inner_count
#define dnnl_query_inner_blks onednn2_inner_blocks
#define dnnl_query_inner_idxs onednn2_inner_axes
#define dnnl_query_data_type onednn2_type

#define dnnl_memory_desc_create_with_strides onednn2_create_with_strides
#define dnnl_memory_desc_create_with_tag onednn2_create_with_tag
#define dnnl_memory_desc_create_submemory onednn2_create_submemory
#define dnnl_memory_desc_clone onednn2_clone
#define dnnl_memory_desc_destroy onednn2_destroy
#define dnnl_memory_desc_query onednn2_query_desc
dnnl_status_t dnnl_memory_desc_create_with_strides(dnnl_memory_desc_t *out, int ndims,
                                                   const dnnl_dims_t dims, dnnl_data_type_t type,
                                                   const dnnl_dims_t strides);
dnnl_status_t dnnl_memory_desc_create_with_tag(dnnl_memory_desc_t *out, int ndims,
                                               const dnnl_dims_t dims, dnnl_data_type_t type,
                                               dnnl_format_tag_t tag);
dnnl_status_t dnnl_memory_desc_create_submemory(dnnl_memory_desc_t *out,
                                                const_dnnl_memory_desc_t parent,
                                                const dnnl_dims_t dims, const dnnl_dims_t offsets);
dnnl_status_t dnnl_memory_desc_clone(dnnl_memory_desc_t *out, const_dnnl_memory_desc_t md);
dnnl_status_t dnnl_memory_desc_destroy(dnnl_memory_desc_t md);
dnnl_status_t dnnl_memory_desc_query(const_dnnl_memory_desc_t md, onednn2_query what, void *result);

/* --- descriptors of primitives --- */

#define dnnl_convolution_forward_primitive_desc_create onednn2_conv
#define dnnl_convolution_backward_data_primitive_desc_create onednn2_conv_dx
#define dnnl_convolution_backward_weights_primitive_desc_create onednn2_conv_dw
#define dnnl_inner_product_forward_primitive_desc_create onednn2_inner
#define dnnl_inner_product_backward_data_primitive_desc_create onednn2_inner_dx
#define dnnl_inner_product_backward_weights_primitive_desc_create onednn2_inner_dw
#define dnnl_pooling_forward_primitive_desc_create onednn2_pool
#define dnnl_pooling_backward_primitive_desc_create onednn2_pool_grad
#define dnnl_eltwise_forward_primitive_desc_create onednn2_eltwise
#define dnnl_eltwise_backward_primitive_desc_create onednn2_eltwise_grad
#define dnnl_matmul_primitive_desc_create onednn2_matmul
#define dnnl_concat_primitive_desc_create onednn2_concat
#define dnnl_post_ops_append_eltwise onednn2_append_eltwise
dnnl_status_t dnnl_convolution_forward_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_prop_kind_t prop, dnnl_alg_kind_t alg,
    const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t w, const_dnnl_memory_desc_t bias,
    const_dnnl_memory_desc_t y, const dnnl_dims_t strides, const dnnl_dims_t dilates,
    const dnnl_dims_t padding, const dnnl_dims_t padding_end, const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_convolution_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_alg_kind_t alg,
    const_dnnl_memory_desc_t dx, const_dnnl_memory_desc_t w, const_dnnl_memory_desc_t dy,
    const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t padding,
    const dnnl_dims_t padding_end, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_convolution_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_alg_kind_t alg,
    const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t dw, const_dnnl_memory_desc_t dbias,
    const_dnnl_memory_desc_t dy, const dnnl_dims_t strides, const dnnl_dims_t dilates,
    const dnnl_dims_t padding, const dnnl_dims_t padding_end, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_inner_product_forward_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_prop_kind_t prop,
    const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t w, const_dnnl_memory_desc_t bias,
    const_dnnl_memory_desc_t y, const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_inner_product_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, const_dnnl_memory_desc_t dx,
    const_dnnl_memory_desc_t w, const_dnnl_memory_desc_t dy, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_inner_product_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, const_dnnl_memory_desc_t x,
    const_dnnl_memory_desc_t dw, const_dnnl_memory_desc_t dbias, const_dnnl_memory_desc_t dy,
    const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attr);
/* Dilated windows are refused as unimplemented. */
dnnl_status_t dnnl_pooling_forward_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_prop_kind_t prop, dnnl_alg_kind_t alg,
    const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t y, const dnnl_dims_t strides,
    const dnnl_dims_t kernel, const dnnl_dims_t dilation, const dnnl_dims_t padding,
    const dnnl_dims_t padding_end, const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_pooling_backward_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_alg_kind_t alg,
    const_dnnl_memory_desc_t dx, const_dnnl_memory_desc_t dy, const dnnl_dims_t strides,
    const dnnl_dims_t kernel, const dnnl_dims_t dilation, const dnnl_dims_t padding,
    const dnnl_dims_t padding_end, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_eltwise_forward_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_prop_kind_t prop, dnnl_alg_kind_t alg,
    const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t y, float alpha, float beta,
    const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_eltwise_backward_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_alg_kind_t alg,
    const_dnnl_memory_desc_t dx, const_dnnl_memory_desc_t dy, const_dnnl_memory_desc_t data,
    float alpha, float beta, const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_matmul_primitive_desc_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                const_dnnl_memory_desc_t a,
                                                const_dnnl_memory_desc_t b,
                                                const_dnnl_memory_desc_t bias,
                                                const_dnnl_memory_desc_t c,
                                                const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_concat_primitive_desc_create(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                const_dnnl_memory_desc_t target, int count,
                                                int axis, const_dnnl_memory_desc_t const *source,
                                                const_dnnl_primitive_attr_t attr);
dnnl_status_t dnnl_post_ops_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t alg, float alpha,
                                           float beta);

#endif
