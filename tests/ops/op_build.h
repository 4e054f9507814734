/* Macros and helpers with which op_cases*.c build the graphs of the operator tests. */
#ifndef WEFT_TESTS_OP_BUILD_H
#define WEFT_TESTS_OP_BUILD_H

#include "op_cases.h"

#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define X(f, ...) fixture_input(f, DIMS(__VA_ARGS__), true, 1, 0)
#define POSITIVE(f, ...) fixture_input(f, DIMS(__VA_ARGS__), false, 0.3, 0.6)
#define SCALAR(f, value) fixture_input(f, 0, NULL, false, 0, value)
static inline weft_value node(fixture *f, const char *op, const weft_value *in, int count,
                              const weft_attr *attrs, int attr_count)
{
    return weft_graph_node(f->graph, op, op, in, count, attrs, attr_count);
}
#define IN(...)                                                                                    \
    (weft_value[]){__VA_ARGS__}, (int)(sizeof((weft_value[]){__VA_ARGS__}) / sizeof(weft_value))
#define ATTRS(...)                                                                                 \
    (weft_attr[]){__VA_ARGS__}, (int)(sizeof((weft_attr[]){__VA_ARGS__}) / sizeof(weft_attr))
#define NONE NULL, 0

static inline void out(fixture *f, weft_value v)
{
    f->outputs[f->output_count++] = v;
}

#define D3(a, b, c)                                                                                \
    {                                                                                              \
        a, b, c                                                                                    \
    }
#define D4(a, b, c, d)                                                                             \
    {                                                                                              \
        a, b, c, d                                                                                 \
    }
#define D5(a, b, c, d, e)                                                                          \
    {                                                                                              \
        a, b, c, d, e                                                                              \
    }
#define TRIPLE(attr, a, b, c)                                                                      \
    {                                                                                              \
        .name = attr, .count = 3, .ints = { a, b, c }                                              \
    }

/* The cases of op_cases_windows.c, for the table in op_cases.c. */
#define WINDOW_CASES(X)                                                                            \
    X(conv_plain)                                                                                  \
    X(conv_blocks)                                                                                 \
    X(conv_small_images)                                                                           \
    X(conv_chunks)                                                                                 \
    X(conv_blocks_few)                                                                             \
    X(conv_blocks_many)                                                                            \
    X(conv_stride)                                                                                 \
    X(conv_dilated)                                                                                \
    X(conv_groups)                                                                                 \
    X(conv_depthwise)                                                                              \
    X(conv_point)                                                                                  \
    X(conv_point_stride)                                                                           \
    X(conv_point_stride_one)                                                                       \
    X(conv_point_stride_more)                                                                      \
    X(conv_line)                                                                                   \
    X(conv_line_blocks)                                                                            \
    X(conv_line_groups)                                                                            \
    X(conv_volume)                                                                                 \
    X(conv_volume_blocks)                                                                          \
    X(conv_volume_groups)                                                                          \
    X(conv_volume_depthwise)                                                                       \
    X(transpose_plain)                                                                             \
    X(transpose_twice)                                                                             \
    X(transpose_odd)                                                                               \
    X(transpose_groups)                                                                            \
    X(transpose_dilated)                                                                           \
    X(transpose_line)                                                                              \
    X(transpose_volume)                                                                            \
    X(transpose_blocks)                                                                            \
    X(conv_line_residual)                                                                          \
    X(conv_volume_chain)                                                                           \
    X(conv_chain)                                                                                  \
    X(conv_residual)                                                                               \
    X(conv_residual_other)                                                                         \
    X(maxpool_line)                                                                                \
    X(avgpool_line)                                                                                \
    X(maxpool_volume)                                                                              \
    X(avgpool_volume)                                                                              \
    X(pools_volume_blocks)                                                                         \
    X(maxpool)                                                                                     \
    X(maxpool_odd)                                                                                 \
    X(avgpool)                                                                                     \
    X(avgpool_odd)                                                                                 \
    X(maxpool_blocks)                                                                              \
    X(avgpool_blocks)                                                                              \
    X(global_avgpool)                                                                              \
    X(global_line)                                                                                 \
    X(global_volume)                                                                               \
    X(global_blocks)
/* The cases of op_cases_norms.c, some of which have settings of their own in op_cases.c. */
#define NORM_CASES(X)                                                                              \
    X(batch_norm)                                                                                  \
    X(batch_norm_flat)                                                                             \
    X(batch_norm_blocks)                                                                           \
    X(batch_norm_state)                                                                            \
    X(batch_norm_infer)                                                                            \
    X(batch_norm_folded)                                                                           \
    X(batch_norm_folded_odd)                                                                       \
    X(batch_norm_folded_dense)                                                                     \
    X(layer_norm)
/* The cases of op_cases_sequence.c. */
#define SEQUENCE_CASES(X)                                                                          \
    X(rms_norm)                                                                                    \
    X(rms_norm_rows)                                                                               \
    X(rms_norm_deep)                                                                               \
    X(swiglu)                                                                                      \
    X(geglu)                                                                                       \
    X(rotary)                                                                                      \
    X(rotary_interleaved)                                                                          \
    X(rotary_inverse)                                                                              \
    X(rotary_added)                                                                                \
    X(rotary_added_rows)                                                                           \
    X(bias_table)                                                                                  \
    X(bias_middle)                                                                                 \
    X(bias_whole)                                                                                  \
    X(bias_not_of_channels)                                                                        \
    X(embedding_long)                                                                              \
    X(sequence_mean)                                                                               \
    X(softmax_xent_smooth)                                                                         \
    X(softmax_xent_smooth_tokens)
/* The cases of op_cases_recurrences.c. */
#define RECURRENCE_CASES(X)                                                                        \
    X(lstm_plain)                                                                                  \
    X(lstm_states)                                                                                 \
    X(lstm_reverse)                                                                                \
    X(lstm_lengths)                                                                                \
    X(lstm_lengths_reverse)                                                                        \
    X(lstm_last)                                                                                   \
    X(lstm_wide)                                                                                   \
    X(lstm_one)                                                                                    \
    X(lstm_odd)                                                                                    \
    X(gru_plain)                                                                                   \
    X(gru_state)                                                                                   \
    X(gru_reverse)                                                                                 \
    X(gru_lengths)                                                                                 \
    X(gru_lengths_reverse)                                                                         \
    X(gru_last)                                                                                    \
    X(gru_wide)                                                                                    \
    X(gru_one)                                                                                     \
    X(gru_odd)
/* The cases of op_cases_elements.c; those without a gradient have an entry in op_cases.c. */
#define ELEMENT_CASES(X)                                                                           \
    X(element_sub)                                                                                 \
    X(element_div)                                                                                 \
    X(element_pow)                                                                                 \
    X(element_roots)                                                                               \
    X(element_exp)                                                                                 \
    X(element_log)                                                                                 \
    X(element_abs)                                                                                 \
    X(element_clip)                                                                                \
    X(element_leaky)                                                                               \
    X(element_pieces)                                                                              \
    X(element_larger)                                                                              \
    X(element_where)                                                                               \
    X(element_compared)                                                                            \
    X(element_scalars)                                                                             \
    X(element_chain)                                                                               \
    X(broadcast_sub)                                                                               \
    X(broadcast_mul)                                                                               \
    X(broadcast_rows)                                                                              \
    X(broadcast_where)                                                                             \
    X(largest)                                                                                     \
    X(largest_rows)                                                                                \
    X(mean_rows)                                                                                   \
    X(gather)                                                                                      \
    X(gather_scalar)                                                                               \
    X(constant_tensor)
/* The cases of op_cases_attention.c; those without a gradient have an entry in op_cases.c. */
#define ATTENTION_CASES(X)                                                                         \
    X(attention_plain)                                                                             \
    X(attention_causal)                                                                            \
    X(attention_cache)                                                                             \
    X(attention_one)                                                                               \
    X(attention_one_wide)                                                                          \
    X(attention_unseen)                                                                            \
    X(attention_lengths)                                                                           \
    X(attention_grouped)                                                                           \
    X(attention_self)
#define DECLARE(name) void name(fixture *f);
WINDOW_CASES(DECLARE)
NORM_CASES(DECLARE)
SEQUENCE_CASES(DECLARE)
RECURRENCE_CASES(DECLARE)
ATTENTION_CASES(DECLARE)
ELEMENT_CASES(DECLARE)
DECLARE(attention_large)
DECLARE(write_rows)
DECLARE(attention_large_causal)
#undef DECLARE

#endif
