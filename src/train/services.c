/* Defines the table of services, the functions of the library that plug-ins may call. */
#include "weft/services.h"

#include "base/learning_rate.h"
#include "base/spec.h"
#include "device/device.h"
#include "exchange/exchange.h"
#include "models/models.h"
#include "ops/ops.h"
#include "optim/rule.h"

static weft_status allocate(size_t size, void *out)
{
    return weft_new_bytes(out, 1, size);
}

static const char *node_op(const weft_node *node)
{
    return node->op->name;
}

static const char *node_name(const weft_node *node)
{
    return node->name;
}

static int node_inputs(const weft_node *node, const weft_value **in)
{
    *in = node->in;
    return node->in_count;
}

static int node_outputs(const weft_node *node, weft_value *first)
{
    *first = node->out;
    return node->out_count;
}

static int node_ints(const weft_node *node, const char *attr, const int64_t **ints)
{
    const weft_attr *a = weft_node_attr(node, attr);
    *ints = a ? a->ints : NULL;
    return a ? a->count : 0;
}

static const weft_element *node_element(const weft_node *node, double *parameters)
{
    if (node->op->element) weft_node_parameters(node, parameters);
    return node->op->element;
}

static weft_context *graph_context(const weft_graph *graph)
{
    return graph->context;
}

static double random_of(const weft_sample_key *key, uint64_t index)
{
    weft_random random;
    uint64_t of = weft_mix(weft_mix(key->seed, (uint64_t)key->epoch), (uint64_t)key->split);
    weft_random_start(&random, weft_mix(of, (uint64_t)key->sample), index);
    return weft_random_unit(&random);
}

static bool gradient_at(const weft_instance *instance, int i, weft_gradient *out)
{
    return weft_program_gradient(weft_instance_program(instance), i, out);
}

static const weft_services services = {
    .struct_size = sizeof(weft_services),
    .version = WEFT_VERSION,
    .fail = weft_fail,
    .fail_within = weft_fail_within,
    .allocate = allocate,
    .log = weft_log,
    .threads = weft_context_threads,
    .type_bytes = weft_type_bytes,
    .elements = weft_shape_elements,
    .get_number = weft_number_get,
    .put_number = weft_number_put,
    .parse = weft_spec_parse_any,
    .value_type = weft_value_type,
    .node_op = node_op,
    .node_name = node_name,
    .node_inputs = node_inputs,
    .node_outputs = node_outputs,
    .node_ints = node_ints,
    .node_real = weft_node_real,
    .fail_node = weft_node_fail,
    .add_node = weft_graph_node,
    .emit = weft_emit,
    .fail_graph = weft_graph_stick,
    .model_graph = weft_model_builder_graph,
    .model_training = weft_model_builder_training,
    .layer_name = weft_layer_name,
    .model_layer = weft_model_layer,
    .model_input = weft_model_input,
    .model_output = weft_model_builder_output,
    .layer_number = weft_layer_number,
    .layer_parameter = weft_layer_parameter,
    .layer_node = weft_layer_node,
    .assign = weft_graph_assign,
    .rule_node = weft_rule_node,
    .rule_moment = weft_rule_moment,
    .rule_scale = weft_rule_scale,
    .rule_average = weft_rule_average,
    .rule_correction = weft_rule_correction,
    .rule_norm = weft_rule_norm,
    .rule_decayed = weft_rule_decayed,
    .rule_shrunk = weft_rule_shrunk,
    .rule_move = weft_rule_move,
    .random = random_of,
    .open_device = weft_device_open,
    .close_device = weft_device_close,
    .plain_layout = weft_layout_plain,
    .group_in = weft_group_in,
    .group_out = weft_group_out,
    .group_seconds = weft_group_seconds,
    .allow_in_place = weft_kernel_in_place,
    .new_bound = weft_bound_new,
    .seconds = weft_seconds,
    .learners_run = weft_learner_group_run,
    .learners_bind = weft_learner_group_bind,
    .request_start = weft_group_request_start,
    .request_test = weft_group_request_test,
    .request_wait = weft_group_request_wait,
    .request_destroy = weft_group_request_destroy,
    .learners_mean = weft_exchange_mean,
    .average_learners = weft_exchange_average_learners,
    .equalize_learners = weft_exchange_equalize_learners,
    .keep_state = weft_exchange_keep,
    .check_layouts = weft_exchange_check_layouts,
    .learners_check = weft_learner_group_check,
    .learner_run = weft_comm_run,
    .store_parameters = weft_exchange_parameters,
    .store_count = weft_store_count,
    .store_name = weft_store_name,
    .store_type = weft_store_type,
    .store_kind = weft_store_kind,
    .store_role = weft_store_role,
    .store_range = weft_store_range,
    .store_map = weft_store_map,
    .store_unmap = weft_store_unmap,
    .store_unmap_read = weft_store_unmap_read,
    .gradient_at = gradient_at,
    .gradient_map = weft_gradient_map,
    .gradient_unmap = weft_gradient_unmap,
    .node_element = node_element,
    .rate_text = weft_rate_text,
    .graph_context = graph_context,
};

const weft_services *weft_services_get(void)
{
    return &services;
}
