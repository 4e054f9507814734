/*
 * Programs: a graph lowered for a device, with every kernel, layout and offset chosen once.
 *
 * A store holds the parameters and state of one model in the device's own layouts. Programs made on
 * the same store share them, so a training and an evaluation program see the same weights. A store
 * can be cloned in one copy; clones are of the same model, and any program of that model works on
 * any of them.
 *
 * A program changes no more once it is made, and threads share it. An instance is what running it
 * takes: memory for what is between, bound to one store at a time. Running allocates nothing. A
 * store and an instance belong to one thread at a time; so does the making of programs on stores
 * of one model, during which nobody may create an instance of that model. The graph must outlive
 * its programs, and a store the instances that use it; a program lives as long as its instances.
 *
 * An instance of one rank of several begins transfers as soon as their values are there and waits
 * for them only when something needs what they bring. Its ranks must run the same phases.
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

/* Opens a device by name ("cpu", "reference") and makes an empty store on it. Parameters that a
 * program brings start from streams of (seed, parameter name). */
WEFT_API WEFT_NODISCARD weft_status weft_store_create(weft_context *context, const char *device,
                                                      uint64_t seed, weft_store **out);
/* Another store of the same model, with the same values. */
WEFT_API WEFT_NODISCARD weft_status weft_store_clone(const weft_store *from, weft_store **out);
WEFT_API void weft_store_destroy(weft_store **store);

/* The tensors of a store, in the order in which backward finishes their gradients. */
WEFT_API int weft_store_count(const weft_store *store);
WEFT_API const char *weft_store_name(const weft_store *store, int i);
/* What it holds of its tensor, as weft_store_read gives it. Where several ranks hold a range each
 * of the same part, the part. */
WEFT_API weft_type weft_store_type(const weft_store *store, int i);
/* PARAM or STATE. */
WEFT_API weft_value_kind weft_store_kind(const weft_store *store, int i);
/* Of which tensor it is a part, and where that begins; the tensor itself where there is one rank.
 */
WEFT_API void weft_store_part(const weft_store *store, int i, weft_shape *whole, int64_t *start);
/* Tensor i (or WEFT_ALL_PARAMETERS) as it lies, where the host can read and write it: all
 * parameters are one flat range of a real type, the same on every rank that holds the same parts;
 * of 0 bytes where a rank has none, as a stage of a pipeline may. It is the store's own memory, or
 * where its device has another memory, a copy. Nothing else may be done with the store until it is
 * given back: by _unmap, after which the store has what was written there, or by _unmap_read, if
 * nothing was. UNSUPPORTED: several programs brought the parameters. */
enum { WEFT_ALL_PARAMETERS = -1 };
WEFT_API WEFT_NODISCARD weft_status weft_store_map(const weft_store *store, int i,
                                                   weft_dtype *dtype, void **data, size_t *bytes);
WEFT_API WEFT_NODISCARD weft_status weft_store_unmap(weft_store *store, int i, void *data);
WEFT_API void weft_store_unmap_read(const weft_store *store, void *data);
/* A number that differs between stores of one model whose tensors lie in memory in different ways,
 * as those of different devices may. */
WEFT_API uint64_t weft_store_form(const weft_store *store);
/* Where parameter i lies among WEFT_ALL_PARAMETERS, in elements. UNSUPPORTED as weft_store_map. */
WEFT_API WEFT_NODISCARD weft_status weft_store_range(const weft_store *store, int i, int64_t *begin,
                                                     int64_t *count);
/* The form of one tensor. */
WEFT_API uint64_t weft_store_form_of(const weft_store *store, int i);
/* What it is to training. */
WEFT_API weft_role weft_store_role(const weft_store *store, int i);
/* Tensor by name, or -1. */
WEFT_API int weft_store_find(const weft_store *store, const char *name);

/* Copies tensor i out of or into the store; data is dense and row-major, weft_type_bytes long.
 * ARGUMENT: a program brought the tensor after the store was cloned, and no instance has been on it
 * since. */
WEFT_API WEFT_NODISCARD weft_status weft_store_read(const weft_store *store, int i, void *data);
/* Whether the ranks of the data axis hold a range each of the part. weft_store_read of such a
 * tensor is UNSUPPORTED. */
WEFT_API bool weft_store_is_spread(const weft_store *store, int i);
/* Reads a tensor, also one that is spread, on rank `to` of the data axis; the others give what they
 * have, receive nothing, and may pass NULL as data. Collective over the ranks of that axis:
 * weft_comms.axes[1]; NULL where there is one. image: NULL, or memory like that of all parameters
 * (weft_store_map), from which the tensor is taken instead of from the store. ARGUMENT: spread, and
 * no communicator; in an image, and no parameter. */
WEFT_API WEFT_NODISCARD weft_status weft_store_gather(const weft_store *store, int i,
                                                      const void *image, weft_comm *comm, int to,
                                                      void *data);
WEFT_API WEFT_NODISCARD weft_status weft_store_write(weft_store *store, int i, const void *data);

/* Lowers a graph, and gives the store what tensors of it are new. fetch lists the values to be read
 * after a run. Every other result may share memory with others. ARGUMENT: the graph has failed, or
 * a tensor of the store has another shape in this graph. */
WEFT_API WEFT_NODISCARD weft_status weft_program_create(weft_store *store, const weft_graph *graph,
                                                        const weft_value *fetch, int fetch_count,
                                                        weft_program **out);
/* Gives up the caller's hold. */
WEFT_API void weft_program_destroy(weft_program **program);

/* The same for a graph that a rewrite made for one rank of several. */
typedef struct weft_program_options {
    size_t struct_size; /* sizeof(weft_program_options) */
    const weft_value *fetch;
    int fetch_count;
    int slots; /* micro-batches that may be between forward and backward at a time */
    bool dry;  /* plan only: weft_program_describe and the dumps work, and it has no instances */
} weft_program_options;
WEFT_API void weft_program_options_init(weft_program_options *options);
WEFT_API WEFT_NODISCARD weft_status weft_program_create_with(weft_store *store,
                                                             const weft_graph *graph,
                                                             const weft_program_options *options,
                                                             weft_program **out);

/* Instructions, planned bytes, and floating point operations of both phases. */
typedef struct weft_program_info {
    int instructions, reorders, fallbacks;
    size_t slot_bytes; /* kept from forward to backward, of all micro-batches under way */
    size_t arena_bytes, gradient_bytes, parameter_bytes, state_bytes, scratch_bytes;
    size_t transfer_bytes; /* where parts of tensors are brought together to be sent, or received;
                            * what an engine needs beyond that is not known before it runs */
    double flops;
} weft_program_info;
WEFT_API weft_program_info weft_program_describe(const weft_program *program);

/* The program as text: instructions with implementation, layouts, buffers and bytes; the caller
 * frees it with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_program_text(const weft_program *program, char **out);

/* Memory to run a program in, on the store that it was made on or a clone of that. comms are of the
 * ranks that its transfers name, stay the caller's, and may be NULL where there are none.
 * Collective over these ranks. ARGUMENT: a store of another model, a program that is dry, or
 * communicators that do not fit. UNSUPPORTED: ranks lay values in memory in different ways, which
 * all of them notice; a plan with plain_sums helps. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_create(weft_program *program, weft_store *store,
                                                         const weft_comms *comms,
                                                         weft_instance **out);
/* A program with one instance, for whom that is enough. */
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

/* Works on another store of the model from now on, after the transfers under way have ended. Where
 * there are transfers, collective over their ranks. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_use(weft_instance *instance, weft_store *store);

/* Inputs, outputs and runs are those of this slot from now on; 0 at first. */
WEFT_API void weft_instance_set_slot(weft_instance *instance, int slot);

/* Ends the transfers that are under way. Needed only where UPDATE will not be run. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_drain(weft_instance *instance);

/* Makes what the program keeps in its store besides what is there: parameters in the layouts that
 * its kernels want, which the first run would make. From then on MICRO of a program that updates
 * nothing only reads the store, so that threads may share it. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_prepare(weft_instance *instance);

/* Where to put the data of an input before a run: dense, row-major, weft_type_bytes long, valid
 * as long as the instance. NULL if the graph has no such input. Never-written inputs are zero. */
WEFT_API void *weft_instance_input(const weft_instance *instance, weft_value input);

/* Where a fetched value is after a run: dense, row-major. NULL if it is not fetched. */
WEFT_API const void *weft_instance_output(const weft_instance *instance, weft_value value);

/* Runs the instructions of one phase, in order. A plain training step is MICRO, then UPDATE. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_run(weft_instance *instance, weft_phase phase);

/* A gradient of this rank that is handed over (weft_graph_hand_over): elements [begin, begin +
 * count) of WEFT_ALL_PARAMETERS, in the order in which they lie there. Its parameter, or of that
 * the range that this rank updates. What lies between such ranges belongs to no parameter. */
typedef struct weft_gradient {
    const char *name; /* of the parameter */
    int index;        /* of this gradient, among those of the program */
    weft_dtype dtype;
    int64_t begin, count;
    double flops; /* of one micro-batch, until it is there */
} weft_gradient;

/* Gradient i, in the order in which they are made; false past the end. */
WEFT_API bool weft_program_gradient(const weft_program *program, int i, weft_gradient *out);

/* A parameter of this rank that the program reads: elements [begin, begin + count) of
 * WEFT_ALL_PARAMETERS. */
typedef struct weft_reading {
    const char *name;
    int index; /* of this parameter, among those that the program reads */
    int entry; /* of the store */
    weft_dtype dtype;
    int64_t begin, count;
    double flops; /* of one micro-batch, before it is read first */
} weft_reading;

/* Parameter i, in the order in which a step first reads them; false past the end. */
WEFT_API bool weft_program_reading(const weft_program *program, int i, weft_reading *out);

/* Is told of parameters and gradients in the thread that runs the instance. None of its functions
 * may run or change it, or write parameters that have been read: backward reads them again. A
 * failure ends the run with it. */
typedef struct weft_listener {
    /* This gradient is what the update reads. Nothing writes it before the next run of BACKWARD. */
    weft_status (*ready)(void *user, const weft_gradient *gradient);
    /* The next instruction reads this parameter, which must have its numbers when this returns; it
     * may wait for them. May be NULL. */
    weft_status (*needed)(void *user, const weft_reading *parameter);
    /* Between two instructions, for what must be pushed to go on; must not wait. May be NULL. */
    weft_status (*poll)(void *user);
    void *user;
} weft_listener;

/* Who is told from now on; NULL: nobody. Copied. */
WEFT_API void weft_instance_listen(weft_instance *instance, const weft_listener *listener);
/* Whether what is run from now on makes gradients what they are in this step: so it is in BACKWARD
 * of the last micro-batch, and in the UPDATE that follows. Then each is told of once. false at
 * first. */
WEFT_API void weft_instance_announce(weft_instance *instance, bool announce);

/* Whether parameters are still to come: from now on `needed` is told of each before every
 * instruction that reads it and is the first of the program to do so, in each micro-batch. false at
 * first. */
WEFT_API void weft_instance_await(weft_instance *instance, bool await);

/* Where the host can read a gradient that is ready: dense, as it lies. It is the instance's own
 * memory, or where its device has another memory, a copy. Give it back with _unmap. */
WEFT_API WEFT_NODISCARD weft_status weft_gradient_map(weft_instance *instance, int gradient,
                                                      const void **data);
WEFT_API void weft_gradient_unmap(const weft_instance *instance, int gradient, const void *data);

/* Runs the MICRO phase again, in the present slot, and looks at everything it makes. *where is NULL
 * if all is finite, else a sentence that names the first parameter, input or instruction that is
 * not; the caller frees it with weft_free. *made (may be NULL) says whether it arose here, rather
 * than was brought from another rank, and *value (may be NULL) which value of the program's graph
 * it was found in. Collective over the ranks of its transfers. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_diagnose(weft_instance *instance, char **where,
                                                           bool *made, weft_value *value);

/* Runs forward and backward `passes` times and gives each node of the graph its median seconds, a
 * gradient node's being added to its forward node. costs has one number for each node. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_profile(weft_instance *instance, int passes,
                                                          double *costs);

/* Starts to record one event per instruction, `events` at the most (about 32 bytes each). */
WEFT_API WEFT_NODISCARD weft_status weft_instance_trace(weft_instance *instance, size_t events);
/* What was recorded, as Chrome trace events with commas between them: process `rank`, one queue for
 * kernels and one for transfers, arrows for messages, microseconds since `origin` (seconds of the
 * monotonic clock; below 0: the first event). The caller frees it with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_trace_events(const weft_instance *instance,
                                                               int rank, double origin, char **out);
/* Writes what was recorded in the Chrome trace event format. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_trace_write(const weft_instance *instance,
                                                              const char *path);

#ifdef __cplusplus
}
#endif
#endif
