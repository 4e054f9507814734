/* What goes into a program and comes out of it. */
#include <math.h>

#include "learner/learner.h"

void weft_feed(const weft_graph *graph, const weft_instance *instance, weft_value v,
               const void *rows, weft_dtype dtype)
{
    weft_shape whole;
    int64_t start[WEFT_MAX_RANK];
    if (v == WEFT_NO_VALUE) return;
    char *to = weft_instance_input(instance, v);
    weft_type type = weft_graph_value_type(graph, v);
    if (!to) return;
    weft_graph_part(graph, v, &whole, start);
    weft_type from = {dtype, whole};
    int64_t count = weft_shape_elements(&type.shape);
    weft_copy_part(&from, start, &type.shape, (void *)(uintptr_t)rows, to, true);
    if (type.dtype == WEFT_F64 && dtype == WEFT_F32) /* widened from the end */
        for (int64_t i = count; i-- > 0;) {
            float x;
            memcpy(&x, to + (size_t)i * sizeof(x), sizeof(x));
            ((double *)(void *)to)[i] = (double)x;
        }
}

double weft_fetch(const weft_graph *graph, const weft_instance *instance, weft_value value,
                  int64_t i)
{
    const void *data = weft_instance_output(instance, value);
    double x = weft_graph_real(graph) == WEFT_F32 ? (double)((const float *)data)[i]
                                                  : ((const double *)data)[i];
    return isnan(x) ? fabs(x) : x; /* whose sign means nothing, and would be printed */
}
