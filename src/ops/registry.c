/* The built-in operators. A new one is its file and a line here. */
#include "ops/ops.h"
#include "base/registry.h"

// clang-format off
#define WEFT_OPERATORS(X) \
    X(cast) X(add) X(mul) X(scale) X(scale_by) X(constant) X(bias) \
    X(sub) X(div) X(pow) X(sqrt) X(rsqrt) X(exp) X(log) X(abs) X(sign) X(clip) X(clip_grad) \
    X(maximum) X(minimum) X(larger_grad) X(where) X(greater) X(less) X(equal) \
    X(dense) X(dense_dx) X(dense_dw) X(matmul) \
    X(conv) X(conv_dx) X(conv_dw) \
    X(maxpool) X(maxpool_grad) X(avgpool) X(avgpool_grad) X(global_avgpool) X(global_avgpool_grad) \
    X(batch_count) X(batch_mean) X(batch_variance) X(batch_norm) X(batch_running) \
    X(batch_norm_sums) X(batch_norm_dx) X(batch_norm_infer) X(layer_norm) X(layer_norm_grad) \
    X(rms_norm) X(rms_norm_grad) \
    X(relu) X(relu_grad) X(gelu) X(gelu_grad) X(silu) X(silu_grad) X(sigmoid) X(sigmoid_grad) X(tanh) X(tanh_grad) \
    X(leaky_relu) X(leaky_relu_grad) X(elu) X(elu_grad) X(relu6) X(relu6_grad) \
    X(hardsigmoid) X(hardsigmoid_grad) X(hardswish) X(hardswish_grad) \
    X(softmax) X(softmax_grad) X(attention) X(attention_grad) X(dropout) \
    X(write_rows) X(concat) X(split) X(slice) X(pad) X(reshape) X(transpose) X(flat) X(unflat) \
    X(reduce_sum) X(reduce_mean) X(reduce_max) X(broadcast) X(sequence_mean) X(sequence_mean_grad) \
    X(gather) X(embedding) X(embedding_grad) X(rotary) X(lstm) X(lstm_grad) X(gru) X(gru_grad) \
    X(softmax_xent) X(softmax_xent_grad) X(mse) X(mse_grad) \
    X(all_reduce) X(reduce_scatter) X(all_gather) X(all_to_all) X(halo) X(halo_add) \
    X(send) X(receive) \
    X(sgd) X(adam) X(schedule) X(counter) X(accumulate) X(accumulate_tree) X(sum_squares) X(addend_squares) X(add_exact) X(exact_sqrt) X(clip_factor) X(stochastic_round)
// clang-format on

#define DECLARE(op) extern const weft_op weft_op_##op;
WEFT_OPERATORS(DECLARE)
#undef DECLARE

static const weft_op *const operators[] = {
#define ENTRY(op) &weft_op_##op,
    WEFT_OPERATORS(ENTRY)
#undef ENTRY
};

weft_status weft_operators_register(weft_context *context)
{
    weft_entry *entries;
    weft_context_extend(context, &weft_operators_extension);
    WEFT_TRY(WEFT_NEW(&entries, WEFT_COUNT(operators)));
    for (size_t i = 0; i < WEFT_COUNT(operators); i++)
        entries[i] = (weft_entry){.kind = WEFT_KIND_OPERATOR,
                                  .name = operators[i]->name,
                                  .before = operators[i]->before,
                                  .summary = operators[i]->summary,
                                  .ops = operators[i]};
    weft_status status = weft_registry_add(context, entries, WEFT_COUNT(operators));
    free(entries);
    return status;
}
