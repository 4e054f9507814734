/*
 * The services of the library for plug-ins (weft/plugin.h): a table of functions, so that a plug-in
 * needs no symbol of the library, whether that is shared or part of a program.
 *
 * All of them may be called by several threads at once, with different objects.
 */
#ifndef WEFT_SERVICES_H
#define WEFT_SERVICES_H

#include "weft/device_ops.h"
#include "weft/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

struct weft_services {
    size_t struct_size;  /* sizeof(weft_services) */
    const char *version; /* of the library, "MAJOR.MINOR.PATCH" */

    /* --- failures, memory, log --- */

    /* Sets this thread's message, as printf does, and returns the status: say what was wrong,
     * where, and what would be right. */
    weft_status (*fail)(weft_status status, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
    /* Prefixes this thread's message with "sentence: ", and returns the status. */
    weft_status (*fail_within)(weft_status status, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
    /* Allocates `size` zeroed bytes into *out, a pointer to any pointer; free them with free().
     * MEMORY. */
    weft_status (*allocate)(size_t size, void *out);
    /* Logs one line to the context (weft/context.h). */
    void (*log)(const weft_context *context, weft_log_level level, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

    /* The number of threads that a device of this context may use. */
    int (*threads)(const weft_context *context);

    /* --- types --- */

    size_t (*type_bytes)(const weft_type *type);
    int64_t (*elements)(const weft_shape *shape);

    /* --- graphs: nodes of a group --- */

    /* The type of a value, owned by the graph. */
    const weft_type *(*value_type)(const weft_graph *graph, weft_value value);
    /* The operator ("conv", as in `weft inspect --list`) and the node's own name. */
    const char *(*node_op)(const weft_node *node);
    const char *(*node_name)(const weft_node *node);
    /* The number of inputs, and the input values; *in is owned by the graph. */
    int (*node_inputs)(const weft_node *node, const weft_value **in);
    /* The number of outputs, which are *first, *first + 1 and so on. */
    int (*node_outputs)(const weft_node *node, weft_value *first);
    /* The integers of an attribute and their number (0: no such attribute), or a real number. */
    int (*node_ints)(const weft_node *node, const char *attr, const int64_t **ints);
    double (*node_real)(const weft_node *node, const char *attr, double otherwise);

    /* --- devices --- */

    /* Opens another device, "NAME" or "NAME:arguments" or a path; close_device closes *device and
     * sets it to NULL. ARGUMENT: no such device. */
    weft_status (*open_device)(weft_context *context, const char *name, weft_device **out);
    void (*close_device)(weft_device **device);
    /* The interned plain layout of a type; for most devices, their `plain`. */
    weft_status (*plain_layout)(weft_device *device, const weft_type *type,
                                const weft_layout **out);
    /* The index of value v among the group's inputs or outputs; -1: none. */
    int (*group_in)(const weft_group *group, weft_value v);
    int (*group_out)(const weft_group *group, weft_value v);
    /* The time of a group on a device with these rates, for candidates without a better
     * estimate. */
    double (*group_seconds)(const weft_rates *rates, const weft_group *group);
    /* Sets kernel->in_place for a group of one node, as its operator allows. */
    void (*allow_in_place)(const weft_group *group, weft_kernel *kernel);
    /* Allocates a zeroed struct of `size` bytes that begins with a weft_bound; free it with
     * free(). */
    weft_status (*new_bound)(const weft_kernel *kernel, const weft_bound_ops *ops, size_t size,
                             weft_bound **out);
};

#ifdef __cplusplus
}
#endif
#endif
