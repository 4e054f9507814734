/*
 * Programs: a graph lowered for a device, with every kernel, layout and offset chosen once.
 *
 * A store holds the parameters and state of one model in the device's own layouts. Programs made on
 * the same store share them, so a training and an evaluation program use the same weights. A store
 * can be cloned; any program of the model works on any clone.
 *
 * A program is immutable, and threads share it. An instance is the memory for running it, bound to
 * one store at a time. Running allocates nothing. A store and an instance belong to one thread at a
 * time; so does the creation of programs on stores of one model, during which no instance of that
 * model may be created. The graph must outlive its programs, and a store its instances; a program
 * lives as long as its instances.
 *
 * An instance of one rank of several starts transfers as soon as their values are ready, and waits
 * for them only when an instruction needs the result. Its ranks must run the same phases.
 */
#ifndef WEFT_PROGRAM_H
#define WEFT_PROGRAM_H

#include "weft/comm.h"
#include "weft/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_store weft_store;
typedef struct weft_program weft_program;
typedef struct weft_instance weft_instance;

/* Opens a device by name ("cpu", "reference") and creates an empty store on it. Parameters that a
 * program adds are initialised from streams of (seed, parameter name). */
WEFT_API WEFT_NODISCARD weft_status weft_store_create(weft_context *context, const char *device,
                                                      uint64_t seed, weft_store **out);
/* Creates another store of the same model, with the same values. */
WEFT_API WEFT_NODISCARD weft_status weft_store_clone(const weft_store *from, weft_store **out);
WEFT_API void weft_store_destroy(weft_store **store);

/* The tensors of a store, in the order in which backward completes their gradients. */
WEFT_API int weft_store_count(const weft_store *store);
WEFT_API const char *weft_store_name(const weft_store *store, int i);
/* The type of the stored part, as weft_store_read returns it. If several ranks hold ranges of the
 * same part, the type of that part. */
WEFT_API weft_type weft_store_type(const weft_store *store, int i);
/* PARAM or STATE. */
WEFT_API weft_value_kind weft_store_kind(const weft_store *store, int i);
/* The shape of the tensor of which it is a part, and the start of the part; with one rank the whole
 * tensor. */
WEFT_API void weft_store_part(const weft_store *store, int i, weft_shape *whole, int64_t *start);
/* Maps tensor i (or WEFT_ALL_PARAMETERS) in its layout into host memory: all parameters are one
 * contiguous range of a real type, the same on every rank that holds the same parts, and empty on a
 * rank without parameters, as a pipeline stage may be. It is the store's own memory, or a copy if
 * the device has its own memory. The store must not be used until it is unmapped: by _unmap, which
 * stores what was written, or by _unmap_read, if nothing was. UNSUPPORTED: several programs have
 * added parameters. */
enum { WEFT_ALL_PARAMETERS = -1 };
WEFT_API WEFT_NODISCARD weft_status weft_store_map(const weft_store *store, int i,
                                                   weft_dtype *dtype, void **data, size_t *bytes);
WEFT_API WEFT_NODISCARD weft_status weft_store_unmap(weft_store *store, int i, void *data);
WEFT_API void weft_store_unmap_read(const weft_store *store, void *data);
/* A hash of the layouts of all tensors, which may differ between stores of one model on different
 * devices. */
WEFT_API uint64_t weft_store_form(const weft_store *store);
/* The position of parameter i within WEFT_ALL_PARAMETERS, in elements. UNSUPPORTED as in
 * weft_store_map. */
WEFT_API WEFT_NODISCARD weft_status weft_store_range(const weft_store *store, int i, int64_t *begin,
                                                     int64_t *count);
/* The hash of the layout of one tensor. */
WEFT_API uint64_t weft_store_form_of(const weft_store *store, int i);
/* The role of a tensor in training. */
WEFT_API weft_role weft_store_role(const weft_store *store, int i);
/* A tensor by name, or -1. */
WEFT_API int weft_store_find(const weft_store *store, const char *name);

/* Copies tensor i out of or into the store; data is dense and row-major, weft_type_bytes long.
 * ARGUMENT: a program has added the tensor after the store was cloned, and no instance has used the
 * clone since. */
WEFT_API WEFT_NODISCARD weft_status weft_store_read(const weft_store *store, int i, void *data);
/* Whether the ranks of the data axis hold one range of the part each. weft_store_read of such a
 * tensor is UNSUPPORTED. */
WEFT_API bool weft_store_is_spread(const weft_store *store, int i);
/* Reads a tensor, also a spread one, on rank `to` of the data axis; the other ranks send their
 * ranges, and may pass NULL as data. Collective over the ranks of that axis, weft_comms.axes[1];
 * NULL with one rank. image: NULL, or memory in the layout of all parameters (weft_store_map), from
 * which the tensor is taken instead of from the store. ARGUMENT: spread without a communicator, or
 * an image without that parameter. */
WEFT_API WEFT_NODISCARD weft_status weft_store_gather(const weft_store *store, int i,
                                                      const void *image, weft_comm *comm, int to,
                                                      void *data);
WEFT_API WEFT_NODISCARD weft_status weft_store_write(weft_store *store, int i, const void *data);

/* Lowers a graph, and adds its new tensors to the store. fetch lists the values to be read after a
 * run; all other results may share memory. ARGUMENT: the graph has failed, or a tensor of the store
 * has another shape in this graph. */
WEFT_API WEFT_NODISCARD weft_status weft_program_create(weft_store *store, const weft_graph *graph,
                                                        const weft_value *fetch, int fetch_count,
                                                        weft_program **out);
/* Releases the caller's reference. */
WEFT_API void weft_program_destroy(weft_program **program);

/* As above, for a graph that was rewritten for one rank of several. */
typedef struct weft_program_options {
    size_t struct_size; /* sizeof(weft_program_options) */
    const weft_value *fetch;
    int fetch_count;
    int slots; /* most micro-batches between forward and backward at a time */
    bool dry;  /* plan only: weft_program_describe and the dumps work, but there are no instances */
} weft_program_options;
WEFT_API void weft_program_options_init(weft_program_options *options);
WEFT_API WEFT_NODISCARD weft_status weft_program_create_with(weft_store *store,
                                                             const weft_graph *graph,
                                                             const weft_program_options *options,
                                                             weft_program **out);

/* Instructions, planned bytes, and floating-point operations of both phases. */
typedef struct weft_program_info {
    int instructions, reorders, fallbacks;
    size_t slot_bytes; /* kept from forward to backward, for all micro-batches in progress */
    size_t arena_bytes, gradient_bytes, parameter_bytes, state_bytes, scratch_bytes;
    size_t transfer_bytes; /* staging buffers for sending and receiving parts of tensors; further
                              memory of an engine is not known before it runs */
    double flops;
} weft_program_info;
WEFT_API weft_program_info weft_program_describe(const weft_program *program);

/* The program as text: instructions with implementation, layouts, buffers and bytes; the caller
 * frees it with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_program_text(const weft_program *program, char **out);

/* Creates an instance on the store that the program was made on, or on a clone. comms are
 * communicators of the ranks that its transfers use; they belong to the caller, and may be NULL
 * without transfers. Collective over these ranks. ARGUMENT: a store of another model, a dry
 * program, or unsuitable communicators. UNSUPPORTED: layouts differ between ranks, which all of
 * them detect; plan again with plain_sums. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_create(weft_program *program, weft_store *store,
                                                         const weft_comms *comms,
                                                         weft_instance **out);
/* Creates a program with a single instance. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_build(weft_store *store, const weft_graph *graph,
                                                        const weft_value *fetch, int fetch_count,
                                                        weft_instance **out);
WEFT_API WEFT_NODISCARD weft_status weft_instance_build_with(weft_store *store,
                                                             const weft_graph *graph,
                                                             const weft_program_options *options,
                                                             const weft_comms *comms,
                                                             weft_instance **out);
WEFT_API void weft_instance_destroy(weft_instance **instance);
WEFT_API const weft_program *weft_instance_program(const weft_instance *instance);

/* Uses another store of the model from now on, after waiting for transfers in progress. With
 * transfers, collective over their ranks. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_use(weft_instance *instance, weft_store *store);

/* Selects the slot of inputs, outputs and runs; 0 at first. */
WEFT_API void weft_instance_set_slot(weft_instance *instance, int slot);

/* Waits for the transfers in progress. Needed only if UPDATE will not be run. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_drain(weft_instance *instance);

/* Makes the derived layouts of parameters that the program keeps in its store, which the first run
 * would make. From then on MICRO of a program without update only reads the store, so that threads
 * may share it. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_prepare(weft_instance *instance);

/* The memory of an input, to be written before a run: dense, row-major, weft_type_bytes long, valid
 * as long as the instance. NULL if the graph has no such input. Inputs are zero until they are
 * written. */
WEFT_API void *weft_instance_input(const weft_instance *instance, weft_value input);

/* The memory of a fetched value after a run: dense, row-major. NULL if it is not fetched. */
WEFT_API const void *weft_instance_output(const weft_instance *instance, weft_value value);

/* Runs the instructions of one phase, in order. A training step is MICRO, then UPDATE. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_run(weft_instance *instance, weft_phase phase);

/* An exported gradient of this rank (weft_graph_export_gradient): elements [begin, begin + count)
 * in the layout of WEFT_ALL_PARAMETERS, which are its parameter or the range of it that this rank
 * updates. The gaps between such ranges belong to no parameter. */
typedef struct weft_gradient {
    const char *name; /* of the parameter */
    int index;        /* among the program's gradients */
    weft_dtype dtype;
    int64_t begin, count;
    double flops; /* of one micro-batch until it is ready */
} weft_gradient;

/* Gradient i, in the order in which they become ready; false past the end. */
WEFT_API bool weft_program_gradient(const weft_program *program, int i, weft_gradient *out);

/* A parameter of this rank that the program reads: elements [begin, begin + count) of
 * WEFT_ALL_PARAMETERS. */
typedef struct weft_reading {
    const char *name;
    int index; /* among the parameters that the program reads */
    int entry; /* in the store */
    weft_dtype dtype;
    int64_t begin, count;
    double flops; /* of one micro-batch before its first use */
} weft_reading;

/* Parameter i, in the order of their first use in a step; false past the end. */
WEFT_API bool weft_program_reading(const weft_program *program, int i, weft_reading *out);

/* Hooks for parameters and gradients, called in the thread that runs the instance. They must not
 * run or change it, nor write parameters that have been read, since backward reads them again. A
 * failure ends the run with it. */
typedef struct weft_listener {
    /* The gradient is final, as the update reads it. It is not written before the next run of
     * BACKWARD. */
    weft_status (*ready)(void *user, const weft_gradient *gradient);
    /* The next instruction reads this parameter, which must be valid on return; the hook may wait
     * for it. May be NULL. */
    weft_status (*needed)(void *user, const weft_reading *parameter);
    /* Called between instructions, to make progress on other operations; must not block. May be
     * NULL. */
    weft_status (*poll)(void *user);
    void *user;
} weft_listener;

/* Sets the listener, which is copied; NULL: none. */
WEFT_API void weft_instance_listen(weft_instance *instance, const weft_listener *listener);
/* Enables the calls of `ready`, one for each gradient: to be set while gradients become final, in
 * BACKWARD of the last micro-batch and the following UPDATE. false at first. */
WEFT_API void weft_instance_announce(weft_instance *instance, bool announce);

/* Enables the calls of `needed`, before every instruction that is the first of the program to read
 * a parameter, in each micro-batch. false at first. */
WEFT_API void weft_instance_await(weft_instance *instance, bool await);

/* Maps a gradient that is ready into host memory: dense, in its layout. It is the instance's own
 * memory, or a copy if the device has its own memory. Release it with _unmap. */
WEFT_API WEFT_NODISCARD weft_status weft_gradient_map(weft_instance *instance, int gradient,
                                                      const void **data);
WEFT_API void weft_gradient_unmap(const weft_instance *instance, int gradient, const void *data);

/* Runs the MICRO phase again in the current slot, and checks every value that it makes. *where is
 * NULL if all are finite, else a sentence that names the first parameter, input or instruction that
 * is not; the caller frees it with weft_free. *made (may be NULL): whether it arose on this rank,
 * rather than being received; *value (may be NULL): the value of the program's graph in which it
 * was found. Collective over the ranks of its transfers. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_diagnose(weft_instance *instance, char **where,
                                                           bool *made, weft_value *value);

/* Runs forward and backward `passes` times, and gives each node of the graph its median time in
 * seconds; that of a gradient node is added to its forward node. costs has one number for each
 * node. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_profile(weft_instance *instance, int passes,
                                                          double *costs);

/* Starts recording one event for each instruction, up to `events` (about 32 bytes each). */
WEFT_API WEFT_NODISCARD weft_status weft_instance_trace(weft_instance *instance, size_t events);
/* The recorded events as comma-separated Chrome trace events: process `rank`, one queue for kernels
 * and one for transfers, arrows for messages, microseconds since `origin` (seconds of the monotonic
 * clock; below 0: the first event). The caller frees it with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_trace_events(const weft_instance *instance,
                                                               int rank, double origin, char **out);
/* Writes the recorded events in the Chrome trace event format. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_trace_write(const weft_instance *instance,
                                                              const char *path);

#ifdef __cplusplus
}
#endif
#endif
