/*
 * What a plug-in may ask of the library it was loaded by (weft/plugin.h): a table of functions, so
 * that it needs no symbol of the library, whether that is shared or part of a program.
 *
 * All of them may be called by several threads at once, with objects of their own.
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

    /* Makes a sentence this thread's message, as printf does, and returns the status: what was
     * wrong, where, and what would be right. */
    weft_status (*fail)(weft_status status, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
    /* Puts "sentence: " before this thread's message, and returns the status. */
    weft_status (*fail_within)(weft_status status, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
    /* `size` bytes, zeroed, into *out, a pointer to any pointer; free() frees them. MEMORY. */
    weft_status (*allocate)(size_t size, void *out);
    /* One line for whoever listens to the context (weft/context.h). */
    void (*log)(const weft_context *context, weft_log_level level, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

    /* Threads that a device of this context may use. */
    int (*threads)(const weft_context *context);

    /* --- types --- */

    size_t (*type_bytes)(const weft_type *type);
    int64_t (*elements)(const weft_shape *shape);

    /* --- graphs: what the nodes of a group are --- */

    /* Its type, which belongs to the graph. */
    const weft_type *(*value_type)(const weft_graph *graph, weft_value value);
    /* The operator ("conv", as `weft inspect --list` has them) and the node's own name. */
    const char *(*node_op)(const weft_node *node);
    const char *(*node_name)(const weft_node *node);
    /* How many values it reads, and which; *in belongs to the graph. */
    int (*node_inputs)(const weft_node *node, const weft_value **in);
    /* How many it makes; they are *first, *first + 1 and so on. */
    int (*node_outputs)(const weft_node *node, weft_value *first);
    /* Integers of an attribute, how many (0: it has none of that name), and a real number. */
    int (*node_ints)(const weft_node *node, const char *attr, const int64_t **ints);
    double (*node_real)(const weft_node *node, const char *attr, double otherwise);

    /* --- devices --- */

    /* Opens another device, "NAME" or "NAME:arguments" or a path; close_device closes *device and
     * nulls it. ARGUMENT: there is none. */
    weft_status (*open_device)(weft_context *context, const char *name, weft_device **out);
    void (*close_device)(weft_device **device);
    /* The plain layout of a type, which is the device's; for most devices, their `plain`. */
    weft_status (*plain_layout)(weft_device *device, const weft_type *type,
                                const weft_layout **out);
    /* Where value v stands among the group's inputs or outputs; -1: not there. */
    int (*group_in)(const weft_group *group, weft_value v);
    int (*group_out)(const weft_group *group, weft_value v);
    /* What a device of such rates takes for a group, for candidates that know nothing better. */
    double (*group_seconds)(const weft_rates *rates, const weft_group *group);
    /* Fills kernel->in_place of a group of one node, as its operator allows it. */
    void (*allow_in_place)(const weft_group *group, weft_kernel *kernel);
    /* A struct of `size` bytes, zeroed, that begins with a weft_bound; free() frees it. */
    weft_status (*new_bound)(const weft_kernel *kernel, const weft_bound_ops *ops, size_t size,
                             weft_bound **out);
};

#ifdef __cplusplus
}
#endif
#endif
