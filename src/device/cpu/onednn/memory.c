/* Opens oneDNN, and creates, interns and reads memory descriptors. */
#include "device/cpu/onednn/internal.h"

_Static_assert((int)ONEDNN_MOST_DIMS == (int)DNNL_MAX_NDIMS, "descriptors have as many dimensions");

weft_status onednn_status(const char *call, dnnl_status_t code)
{
    if (code == dnnl_success) return WEFT_OK;
    static const char *const names[] = {"success",       "out of memory", "invalid arguments",
                                        "unimplemented", "iterator ends", "runtime error",
                                        "not required"};
    const char *name = (size_t)code < WEFT_COUNT(names) ? names[code] : "unknown";
    return weft_fail(code == dnnl_out_of_memory   ? WEFT_ERR_MEMORY
                     : code == dnnl_unimplemented ? WEFT_ERR_UNSUPPORTED
                                                  : WEFT_ERR_INTERNAL,
                     "oneDNN: %s in %.100s", name, call);
}

weft_status onednn_attr(const_dnnl_post_ops_t ops, dnnl_primitive_attr_t *out)
{
    dnnl_primitive_attr_t attr;
    DNNL_TRY(dnnl_primitive_attr_create(&attr));
    weft_status status =
        DNNL_CALL(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    if (status == WEFT_OK && ops) status = DNNL_CALL(dnnl_primitive_attr_set_post_ops(attr, ops));
    if (status == WEFT_OK)
        *out = attr;
    else
        dnnl_primitive_attr_destroy(attr);
    return status;
}

static weft_status start(onednn *o)
{
    DNNL_TRY(dnnl_engine_create(&o->engine, dnnl_cpu, 0));
    return onednn_attr(NULL, &o->attr);
}

weft_status onednn_open(onednn **out)
{
    onednn *o;
    WEFT_TRY(WEFT_NEW(&o, 1));
    pthread_mutex_init(&o->lock, NULL);
    weft_status status = start(o);
    if (status == WEFT_OK)
        *out = o;
    else
        onednn_close(o);
    return status;
}

void onednn_close(onednn *o)
{
    if (!o) return;
    for (kept_md *kept = o->kept, *next; kept; kept = next) {
        next = kept->next;
        (void)dnnl_memory_desc_destroy(kept->md);
        free(kept);
    }
    if (o->attr) dnnl_primitive_attr_destroy(o->attr);
    if (o->engine) dnnl_engine_destroy(o->engine);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

static bool has(unsigned set)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & set) == set;
}

bool onednn_has_avx512(bool narrow)
{
    return has(narrow ? dnnl_cpu_isa_avx512_core_bf16 : dnnl_cpu_isa_avx512_core);
}

bool onednn_has_amx(void)
{
    return has(dnnl_cpu_isa_avx512_core_amx);
}

const char *onednn_bf16(void)
{
    return onednn_has_amx() ? "AMX" : onednn_has_avx512(true) ? "AVX512-BF16" : NULL;
}

/* Whether two descriptors are the same in every stride. dnnl_memory_desc_equal does not compare the
 * strides of dimensions of size one, but primitives that call a matrix product take the distance of
 * two rows from them and refuse one that is too small. */
static bool is_same(const_dnnl_memory_desc_t x, const_dnnl_memory_desc_t y)
{
    if (!dnnl_memory_desc_equal(x, y)) return false;
    cpu_blocks a = cpu_blocks_of((cpu_md)(const void *)x);
    cpu_blocks b = cpu_blocks_of((cpu_md)(const void *)y);
    size_t bytes = (size_t)a.ndims * sizeof(*a.strides);
    return a.ndims == 0 || !a.blocked || memcmp(a.strides, b.strides, bytes) == 0;
}

static weft_status intern(onednn *o, dnnl_memory_desc_t md, cpu_md *out)
{
    kept_md *kept = o->kept;
    while (kept && !is_same(kept->md, md)) kept = kept->next;
    weft_status status = kept ? WEFT_OK : WEFT_NEW(&kept, 1);
    if (status != WEFT_OK || kept->md) (void)dnnl_memory_desc_destroy(md);
    if (status != WEFT_OK) return status;
    if (!kept->md) {
        *kept = (kept_md){.md = md, .next = o->kept};
        o->kept = kept;
    }
    *out = (cpu_md)(const void *)kept->md;
    return WEFT_OK;
}

weft_status onednn_keep(onednn *o, dnnl_memory_desc_t md, cpu_md *out)
{
    pthread_mutex_lock(&o->lock);
    weft_status status = intern(o, md, out);
    pthread_mutex_unlock(&o->lock);
    return status;
}

static dnnl_data_type_t their_type(weft_dtype dtype)
{
    return dtype == WEFT_BF16 ? dnnl_bf16 : dnnl_f32;
}

weft_status onednn_md_strided(onednn *o, weft_dtype dtype, int rank, const int64_t *dim,
                              const int64_t *stride, cpu_md *out)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t dims, strides;
    for (int i = 0; i < rank; i++) {
        dims[i] = dim[i];
        strides[i] = stride[i];
    }
    DNNL_TRY(dnnl_memory_desc_create_with_strides(&md, rank, dims, their_type(dtype), strides));
    return onednn_keep(o, md, out);
}

static weft_status tagged(onednn *o, weft_dtype dtype, int rank, const int64_t *dim,
                          dnnl_format_tag_t tag, cpu_md *out)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t dims;
    for (int i = 0; i < rank; i++) dims[i] = dim[i];
    DNNL_TRY(dnnl_memory_desc_create_with_tag(&md, rank, dims, their_type(dtype), tag));
    return onednn_keep(o, md, out);
}

weft_status onednn_md_blocked(onednn *o, const weft_type *type, cpu_md *out)
{
    static const dnnl_format_tag_t tags[] = {dnnl_aBc16b, dnnl_aBcd16b, dnnl_aBcde16b};
    const weft_shape *shape = &type->shape;
    return tagged(o, type->dtype, shape->rank, shape->dim, tags[shape->rank - 3], out);
}

weft_status onednn_md_any(onednn *o, cpu_md md, weft_dtype dtype, cpu_md *out)
{
    cpu_blocks b = cpu_blocks_of(md);
    return tagged(o, dtype, b.ndims, b.dims, dnnl_format_tag_any, out);
}

weft_dtype onednn_md_dtype(cpu_md md)
{
    dnnl_data_type_t type = dnnl_f32;
    (void)dnnl_memory_desc_query(onednn_theirs(md), dnnl_query_data_type, &type);
    return type == dnnl_bf16 ? WEFT_BF16 : WEFT_F32;
}

weft_status onednn_md_part(onednn *o, cpu_md whole, const int64_t *dim, const int64_t *start_at,
                           cpu_md *out)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t dims, offsets;
    for (int i = 0, rank = cpu_blocks_of(whole).ndims; i < rank; i++) {
        dims[i] = dim[i];
        offsets[i] = start_at[i];
    }
    DNNL_TRY(dnnl_memory_desc_create_submemory(&md, onednn_theirs(whole), dims, offsets));
    return onednn_keep(o, md, out);
}

size_t onednn_md_bytes(cpu_md md)
{
    return dnnl_memory_desc_get_size(onednn_theirs(md));
}

/* oneDNN answers all of these queries, so none fails. */
cpu_blocks cpu_blocks_of(cpu_md of)
{
    cpu_blocks b = {0};
    const_dnnl_memory_desc_t md = onednn_theirs(of);
    const dnnl_dims_t *dims = NULL, *strides = NULL, *size = NULL, *axis = NULL;
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    (void)dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &b.ndims);
    if (b.ndims == 0) return b;
    (void)dnnl_memory_desc_query(md, dnnl_query_dims, &dims);
    (void)dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind);
    (void)dnnl_memory_desc_query(md, dnnl_query_submemory_offset_s64, &b.offset);
    b.dims = *dims;
    b.blocked = kind == dnnl_blocked;
    if (!b.blocked) return b;
    (void)dnnl_memory_desc_query(md, dnnl_query_strides, &strides);
    (void)dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &b.count);
    (void)dnnl_memory_desc_query(md, dnnl_query_inner_blks, &size);
    (void)dnnl_memory_desc_query(md, dnnl_query_inner_idxs, &axis);
    b.strides = *strides;
    b.size = *size;
    b.axis = *axis;
    return b;
}
