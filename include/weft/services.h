/*
 * The services of the library for plug-ins (weft/plugin.h): a table of functions, so that a plug-in
 * refers to no symbol of the library, which may be shared or part of a program. A program that adds
 * entries itself gets the table from weft_services_get.
 *
 * Several threads may call the functions at once, with different objects.
 */
#ifndef WEFT_SERVICES_H
#define WEFT_SERVICES_H

#include "weft/codec_ops.h"
#include "weft/data_ops.h"
#include "weft/device_ops.h"
#include "weft/exchange_ops.h"
#include "weft/model_ops.h"
#include "weft/operator_ops.h"
#include "weft/optim_ops.h"
#include "weft/plugin.h"
#include "weft/rate_ops.h"
#include "weft/server_policy_ops.h"
#include "weft/spec.h"
#include "weft/transport_ops.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weft_services {
    size_t struct_size;  /* sizeof(weft_services) */
    const char *version; /* version of the library, "MAJOR.MINOR.PATCH" */

    /* --- failures, memory, log --- */

    /* Sets this thread's message, as printf formats it, and returns the status. The message should
     * say what was wrong, where, and what would be right. */
    weft_status (*fail)(weft_status status, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
    /* Prefixes this thread's message with the formatted text and ": ", and returns the status. */
    weft_status (*fail_within)(weft_status status, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
    /* Allocates `size` zeroed bytes. out is the address of a pointer of any type, which receives
     * them; free() frees them. MEMORY: out of memory. */
    weft_status (*allocate)(size_t size, void *out);
    /* Logs one line, as printf formats it, to the log of the context (weft/context.h). */
    void (*log)(const weft_context *context, weft_log_level level, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

    /* The number of threads that a device of this context may use. */
    int (*threads)(const weft_context *context);

    /* Parses arguments key=value,... into what the keys point to; an element without a name ends
     * the keys. what: such as "model towers", which begins each message. ARGUMENT: an unknown key,
     * or a wrong value. */
    weft_status (*parse)(const char *what, const char *arguments, const weft_spec_key *keys);

    /* --- types --- */

    /* The bytes of a dense tensor of a type, and the number of elements of a shape. */
    size_t (*type_bytes)(const weft_type *type);
    int64_t (*elements)(const weft_shape *shape);
    /* Element i of an array, and setting it, as weft_number_get and weft_number_put. */
    double (*get_number)(weft_dtype dtype, const void *array, int64_t i);
    void (*put_number)(weft_dtype dtype, void *array, int64_t i, double number);

    /* --- graphs: nodes of a group --- */

    /* The type of a value, owned by the graph. */
    const weft_type *(*value_type)(const weft_graph *graph, weft_value value);
    /* The name of the operator ("conv"; `weft inspect --list` lists them), and the node's own
     * name. */
    const char *(*node_op)(const weft_node *node);
    const char *(*node_name)(const weft_node *node);
    /* Returns the number of inputs, and sets *in to the input values, which the graph owns. */
    int (*node_inputs)(const weft_node *node, const weft_value **in);
    /* Returns the number of outputs, which are the values *first, *first + 1 and so on. */
    int (*node_outputs)(const weft_node *node, weft_value *first);
    /* node_ints returns the number of integers of an attribute (0: no such attribute) and sets
     * *ints to them. node_real returns the real number of an attribute, or `otherwise` if the node
     * has none. */
    int (*node_ints)(const weft_node *node, const char *attr, const int64_t **ints);
    double (*node_real)(const weft_node *node, const char *attr, double otherwise);

    /* Fails with ARGUMENT and the message, as printf formats it, after the name of a node. */
    weft_status (*fail_node)(const weft_node *node, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

    /* --- graphs that are built --- */

    /* As weft_graph_node. */
    weft_value (*add_node)(weft_graph *graph, const char *op, const char *name,
                           const weft_value *inputs, int input_count, const weft_attr *attrs,
                           int attr_count);
    /* Adds a node for the gradient of `node`, which is named "<node>/<suffix>"; returns its first
     * output. */
    weft_value (*emit)(weft_graph *graph, const weft_node *node, const char *suffix, const char *op,
                       const weft_value *inputs, int input_count, const weft_attr *attrs,
                       int attr_count);

    /* Makes a graph fail with this thread's message; returns WEFT_NO_VALUE. */
    weft_value (*fail_graph)(weft_graph *graph, weft_status status);

    /* --- models and layers --- */

    weft_graph *(*model_graph)(const weft_model_builder *net);
    bool (*model_training)(const weft_model_builder *net); /* as in weft_model_options */
    const char *(*layer_name)(const weft_layer *layer);
    /* The number of a key of a layer (true is 1, false 0), or `otherwise` if it has none. */
    double (*layer_number)(const weft_layer *layer, const char *key, double otherwise);
    /* Adds a layer of a type that the context knows to a model, as YAML models do. keys: pairs of a
     * key and its value as in YAML, {"units", "outputs", NULL}; NULL: none. Returns what the layer
     * gives. */
    weft_value (*model_layer)(weft_model_builder *net, const char *type, const char *name,
                              const weft_value *in, int count, const char *const *keys);
    /* The input of the data with this name; WEFT_NO_VALUE: there is none. */
    weft_value (*model_input)(const weft_model_builder *net, const char *name);
    /* Adds the parameter "<layer>/<name>", of the graph's real type. */
    weft_value (*layer_parameter)(weft_model_builder *net, const weft_layer *layer,
                                  const char *name, const weft_shape *shape, weft_init init);
    /* Adds a node "<layer>/<suffix>", or "<layer>" if the suffix is empty. */
    weft_value (*layer_node)(weft_model_builder *net, const weft_layer *layer, const char *suffix,
                             const char *op, const weft_value *inputs, int input_count,
                             const weft_attr *attrs, int attr_count);

    /* Declares the value that a parameter or state has from the next step on. */
    void (*assign)(weft_graph *graph, weft_value state, weft_value next);

    /* --- optimizers: nodes of the update of one parameter --- */

    weft_value (*rule_node)(const weft_rule *rule, const char *op, const weft_value *inputs,
                            int input_count, const weft_attr *attrs, int attr_count);
    /* A state "<parameter>/<name>" like the parameter, which begins at zero. */
    weft_value (*rule_moment)(const weft_rule *rule, const char *name);
    /* x times a number. */
    weft_value (*rule_scale)(const weft_rule *rule, weft_value x, double factor);
    /* beta old + (1 - beta) x */
    weft_value (*rule_average)(const weft_rule *rule, weft_value old, weft_value x, double beta);
    /* 1 / (1 - beta^t) in step t, a scalar: the correction of a moment that began at zero. */
    weft_value (*rule_correction)(weft_rule *rule, double beta);
    /* The Euclidean norm of a tensor like the parameter, a scalar; for WEFT_NEEDS_NORM. */
    weft_value (*rule_norm)(const weft_rule *rule, weft_value x);
    /* The gradient with the L2 term weight_decay w, and the parameter with decoupled weight decay:
     * (1 - learning rate weight_decay) w. */
    weft_value (*rule_decayed)(const weft_rule *rule);
    weft_value (*rule_shrunk)(const weft_rule *rule);
    /* Sets the next value of the parameter to from - learning rate times direction. */
    void (*rule_move)(const weft_rule *rule, weft_value from, weft_value direction);

    /* --- data sources --- */

    /* Random number `index` of a key, uniform in [0, 1): any number of them, in any order. */
    double (*random)(const weft_sample_key *key, uint64_t index);

    /* --- devices --- */

    /* Opens another device: "NAME", "NAME:arguments" or the path of a plug-in. close_device closes
     * *device and nulls it. ARGUMENT: no such device. */
    weft_status (*open_device)(weft_context *context, const char *name, weft_device **out);
    void (*close_device)(weft_device **device);
    /* Sets *out to the interned plain layout of a type; most devices use it as their `plain`. */
    weft_status (*plain_layout)(weft_device *device, const weft_type *type,
                                const weft_layout **out);
    /* The index of value v among the group's inputs, or outputs; -1: none. */
    int (*group_in)(const weft_group *group, weft_value v);
    int (*group_out)(const weft_group *group, weft_value v);
    /* Estimates the seconds of a group on a device with these rates, for candidates without a
     * better estimate. */
    double (*group_seconds)(const weft_rates *rates, const weft_group *group);
    /* Sets kernel->in_place for a group of one node, as the node's operator allows. */
    void (*allow_in_place)(const weft_group *group, weft_kernel *kernel);
    /* Allocates a zeroed struct of `size` bytes that begins with a weft_bound, and sets its kernel
     * and ops; free() frees it. */
    weft_status (*new_bound)(const weft_kernel *kernel, const weft_bound_ops *ops, size_t size,
                             weft_bound **out);

    /* --- models, continued --- */

    /* Names a further output of a model: a value [batch, ...] of any type, of which weft predict
     * and servers give each sample's part. The name has at most WEFT_INPUT_NAME - 1 bytes. */
    void (*model_output)(weft_model_builder *net, const char *name, weft_value value);

    /* --- exchanges --- */

    /* Seconds of a monotonic clock. */
    double (*seconds)(void);
    /* Runs one transfer between learners to its end; it is collective over those that the transfer
     * involves. PEER: another rank has failed, or has not come within the time limit. */
    weft_status (*learners_run)(weft_learner_group *learners, const weft_transfer *transfer);
    /* A transfer that is bound once, and then started and waited for any number of times; its
     * buffers stay the caller's. `request_test` makes progress and does not wait;
     * `request_destroy` nulls *request. */
    weft_status (*learners_bind)(weft_learner_group *learners, const weft_transfer *transfer,
                                 weft_group_request **out);
    weft_status (*request_start)(weft_group_request *request);
    weft_status (*request_test)(weft_group_request *request, bool *done);
    weft_status (*request_wait)(weft_group_request *request);
    void (*request_destroy)(weft_group_request **request);
    /* Replaces numbers of F32 or F64 by their mean over all learners, in place. Collective over the
     * learners. what: name of the data for messages. */
    weft_status (*learners_mean)(weft_exchange *exchange, const char *what, weft_dtype dtype,
                                 void *data, int64_t count);
    /* `average_learners` replaces the parameters of the learners and their statistics, and with
     * `optimizer` also the state of their optimizers, by their mean. `equalize_learners` does so
     * only if their parameters differ, as they may where a run goes on with another exchange. Both
     * are collective over all ranks of all learners. */
    weft_status (*average_learners)(weft_exchange *exchange, bool optimizer);
    weft_status (*equalize_learners)(weft_exchange *exchange, bool optimizer);
    /* INTERNAL: the learners' memory layouts are not alike. They are in every run, whatever the
     * devices, so an exchange may transfer parameters as they are mapped, and need not call this.
     * Collective over the learners. */
    weft_status (*check_layouts)(weft_exchange *exchange);
    /* For code that waits without a transfer. PEER: the job has ended. */
    weft_status (*learners_check)(weft_learner_group *learners);
    /* Runs a transfer between the ranks of this learner (exchange->setup.learner). */
    weft_status (*learner_run)(weft_comm *learner, const weft_transfer *transfer);

    /* In `open` with a setup, in lock step: allocates an array like all parameters, zeroed, which
     * the library frees after `close`, and sets the pointer at `out` to it. The array is equal in
     * all learners. Checkpoints have it as the state `name`; messages describe it with `what` (may
     * be NULL). Both texts must outlive the exchange. */
    weft_status (*keep_state)(weft_exchange *exchange, const char *name, const char *what,
                              void *out);

    /* As the functions weft_store_... of weft/program.h: the tensors of a rank, and its flat
     * parameters (WEFT_ALL_PARAMETERS), whose type, number and bytes store_parameters gives. */
    weft_status (*store_parameters)(const weft_store *store, weft_dtype *dtype, int64_t *count,
                                    size_t *bytes);
    int (*store_count)(const weft_store *store);
    const char *(*store_name)(const weft_store *store, int i);
    weft_type (*store_type)(const weft_store *store, int i);
    weft_value_kind (*store_kind)(const weft_store *store, int i);
    weft_role (*store_role)(const weft_store *store, int i);
    weft_status (*store_range)(const weft_store *store, int i, int64_t *begin, int64_t *count);
    weft_status (*store_map)(const weft_store *store, int i, weft_dtype *dtype, void **data,
                             size_t *bytes);
    weft_status (*store_unmap)(weft_store *store, int i, void *data);
    void (*store_unmap_read)(const weft_store *store, void *data);
    /* Gradient i of the program, as weft_program_gradient; and its numbers once it is ready, as
     * weft_gradient_map and weft_gradient_unmap. */
    bool (*gradient_at)(const weft_instance *instance, int i, weft_gradient *out);
    weft_status (*gradient_map)(weft_instance *instance, int gradient, const void **data);
    void (*gradient_unmap)(const weft_instance *instance, int gradient, const void *data);

    /* The function of each element that a node's operator is, and its numbers p and q in
     * parameters[2]; NULL: the operator is none. */
    const weft_element *(*node_element)(const weft_node *node, double *parameters);
    /* The formula of the learning rate that a node of the operator schedule gives (its attribute
     * `kind`), an expression in lr, factor, least, warmup, every, step and done, with PI and
     * between(from, to, share), half a cosine; NULL: there is none. */
    const char *(*rate_text)(const weft_context *context, int kind);
    /* The context of a graph. */
    weft_context *(*graph_context)(const weft_graph *graph);
};

/* Defines the symbol weft_plugin_entry (weft/plugin.h) of a plug-in whose start function only sets
 * `variable`, a pointer to the services, and whose entries are `list`. */
#define WEFT_PLUGIN(variable, list)                                                                \
    static weft_status weft_plugin_start(const weft_services *services)                            \
    {                                                                                              \
        variable = services;                                                                       \
        return WEFT_OK;                                                                            \
    }                                                                                              \
    const weft_plugin weft_plugin_entry = {sizeof(weft_plugin), WEFT_PLUGIN_ABI, list,             \
                                           weft_plugin_start}

/* The table, which is valid as long as the process. */
WEFT_API const weft_services *weft_services_get(void);

#ifdef __cplusplus
}
#endif
#endif
