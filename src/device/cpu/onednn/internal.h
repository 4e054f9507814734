/* Declares what the files share that call oneDNN, by the interface of its version 3. */
#ifndef WEFT_DEVICE_CPU_ONEDNN_INTERNAL_H
#define WEFT_DEVICE_CPU_ONEDNN_INTERNAL_H

#include <dnnl.h>
#include <pthread.h>

#include "device/cpu/onednn.h"

#if DNNL_VERSION_MAJOR < 3
#include "device/cpu/onednn/version2.h"
#endif

typedef struct kept_md {
    dnnl_memory_desc_t md;
    struct kept_md *next;
} kept_md;

struct onednn {
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr; /* the scratchpad is in memory that Weft provides */
    pthread_mutex_t lock;       /* guards `kept` */
    kept_md *kept;
};

struct onednn_primitive {
    onednn *o;
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t built;
    cpu_md vector; /* of its tail */
};

/* Converts a failure of oneDNN to a status. */
weft_status onednn_status(const char *call, dnnl_status_t code) WEFT_NODISCARD;
#define DNNL_CALL(expr) onednn_status(#expr, (expr))
#define DNNL_TRY(expr) WEFT_TRY(DNNL_CALL(expr))

/* Creates primitive attributes with a scratchpad in memory that Weft provides, and with
 * post-operations (NULL: none). */
weft_status onednn_attr(const_dnnl_post_ops_t ops, dnnl_primitive_attr_t *out) WEFT_NODISCARD;

/* Interns `md`, which it owns from then on: if an equal descriptor exists, that one is returned and
 * md is destroyed. */
weft_status onednn_keep(onednn *o, dnnl_memory_desc_t md, cpu_md *out) WEFT_NODISCARD;

static inline const_dnnl_memory_desc_t onednn_theirs(cpu_md md)
{
    return (const_dnnl_memory_desc_t)(const void *)md;
}

#endif
