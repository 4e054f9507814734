/*
 * Programs: a graph lowered for a device, with every kernel, layout and offset chosen once.
 *
 * A store holds the parameters and state of one model in the device's own layouts. Programs made on
 * the same store share them, so a training and an evaluation program use the same weights. A store
 * can be cloned; any program of the model works on any clone.
 *
 * A program is immutable, and threads may share it. An instance is a program with memory to run in,
 * bound to one store at a time; running it allocates nothing. A store and an instance belong to one
 * thread at a time. One thread at a time creates programs on the stores of one model, and meanwhile
 * no thread may create an instance of that model. The graph must outlive its programs, and a store
 * must outlive its instances; an instance keeps its program alive.
 *
 * An instance whose program is that of one rank of several starts a transfer as soon as its value
 * is ready, and waits for the transfer only when an instruction needs the result. All ranks must
 * run the same phases.
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

/* Opens a device by name ("cpu", "reference") and creates an empty store on it. When a program adds
 * a tensor to the store, its initial values come from a random stream of (seed, name of the
 * tensor). */
WEFT_API WEFT_NODISCARD weft_status weft_store_create(weft_context *context, const char *device,
                                                      uint64_t seed, weft_store **out);
/* Keeps the parameters and state of an empty store in host memory, and updates them there, while
 * the device computes the rest: weights are copied to the device when a pass reads them, in forward
 * and again in backward, and gradients to the host as they are made. No effect on a device that
 * shares host memory. ARGUMENT: the store has tensors. */
WEFT_API WEFT_NODISCARD weft_status weft_store_keep_on_host(weft_store *store);
/* Creates another store of the same model, with a copy of all values. */
WEFT_API WEFT_NODISCARD weft_status weft_store_clone(const weft_store *from, weft_store **out);
WEFT_API void weft_store_destroy(weft_store **store);

/* The tensors of a store are numbered from 0, in the order in which its programs first use them. */
WEFT_API int weft_store_count(const weft_store *store);
WEFT_API const char *weft_store_name(const weft_store *store, int i);
/* The type of this rank's part of tensor i, as weft_store_read returns it. If the ranks of the data
 * axis hold one range of the part each (weft_store_is_spread), the type is that of the whole
 * part. */
WEFT_API weft_type weft_store_type(const weft_store *store, int i);
/* The kind of tensor i: PARAM or STATE. */
WEFT_API weft_value_kind weft_store_kind(const weft_store *store, int i);
/* Sets *whole to the shape of tensor i on all ranks, and start[] to the index in each dimension
 * where this rank's part begins. With one rank the part is the whole tensor. */
WEFT_API void weft_store_part(const weft_store *store, int i, weft_shape *whole, int64_t *start);
/* Maps tensor i, or all parameters (WEFT_ALL_PARAMETERS), in its layout into host memory. All
 * parameters are one contiguous range of one real type, in the order in which backward completes
 * their gradients. The range is the same on every rank that holds the same parts; a rank without
 * parameters, such as a pipeline stage, has an empty one. The memory is the store's own, or a copy
 * if the device has its own memory. The store must not be used until the memory is unmapped:
 * weft_store_unmap stores what was written, weft_store_unmap_read is for memory that was only read.
 * UNSUPPORTED: several programs have added parameters. */
enum { WEFT_ALL_PARAMETERS = -2 };
WEFT_API WEFT_NODISCARD weft_status weft_store_map(const weft_store *store, int i,
                                                   weft_dtype *dtype, void **data, size_t *bytes);
WEFT_API WEFT_NODISCARD weft_status weft_store_unmap(weft_store *store, int i, void *data);
WEFT_API void weft_store_unmap_read(const weft_store *store, void *data);
/* A hash of the layouts of all tensors and of the order of the parameters, which may differ between
 * stores of one model on different devices. */
WEFT_API uint64_t weft_store_form(const weft_store *store);
/* Sets *begin and *count to the position and the size of parameter i within WEFT_ALL_PARAMETERS, in
 * elements. UNSUPPORTED as in weft_store_map. */
WEFT_API WEFT_NODISCARD weft_status weft_store_range(const weft_store *store, int i, int64_t *begin,
                                                     int64_t *count);
/* The hash of the layout of tensor i. */
WEFT_API uint64_t weft_store_form_of(const weft_store *store, int i);
/* The role of tensor i in training. */
WEFT_API weft_role weft_store_role(const weft_store *store, int i);
/* The number of the tensor with this name, or -1, which no function takes as a number. */
WEFT_API int weft_store_find(const weft_store *store, const char *name);

/* weft_store_read copies tensor i out of the store, weft_store_write copies it into the store; data
 * is dense and row-major, weft_type_bytes of weft_store_type long. ARGUMENT: a program has added
 * the tensor after the store was cloned, and no instance has used the clone since. */
WEFT_API WEFT_NODISCARD weft_status weft_store_read(const weft_store *store, int i, void *data);
/* Whether tensor i is spread over the data axis (ZeRO): each rank of that axis holds one range of
 * the part. weft_store_read of such a tensor is UNSUPPORTED. */
WEFT_API bool weft_store_is_spread(const weft_store *store, int i);
/* Reads tensor i, spread or not, into `data` on rank `to` of the data axis; the other ranks send
 * their ranges, and may pass NULL as data. Collective over the data axis: comm is
 * weft_comms.axes[1], or NULL with one rank. image: NULL, or memory in the layout of all parameters
 * (weft_store_map), from which the tensor is taken instead of from the store. ARGUMENT: the tensor
 * is spread and comm is NULL, or there is an image and the tensor is no parameter. */
WEFT_API WEFT_NODISCARD weft_status weft_store_gather(const weft_store *store, int i,
                                                      const void *image, weft_comm *comm, int to,
                                                      void *data);
WEFT_API WEFT_NODISCARD weft_status weft_store_write(weft_store *store, int i, const void *data);

/* Lowers a graph to a program, and adds its new tensors to the store. fetch lists the values that
 * the caller reads after a run; all other results may share memory. If the graph has failed,
 * returns that failure. ARGUMENT: a fetched value is not in the graph, or a tensor of the store has
 * another type in this graph. */
WEFT_API WEFT_NODISCARD weft_status weft_program_create(weft_store *store, const weft_graph *graph,
                                                        const weft_value *fetch, int fetch_count,
                                                        weft_program **out);
/* Releases the caller's reference and nulls it; instances keep the program alive. */
WEFT_API void weft_program_destroy(weft_program **program);

/* Options of weft_program_create_with, which also lowers the graph of one rank of several
 * (weft/plan.h). */
typedef struct weft_program_options {
    size_t struct_size;      /* sizeof(weft_program_options) */
    const weft_value *fetch; /* [fetch_count], as in weft_program_create */
    int fetch_count;
    int slots; /* most micro-batches that have run forward and not yet backward; at least 1 */
    bool dry;  /* plan only: weft_program_describe and the dumps work, but there are no instances */
} weft_program_options;
WEFT_API void weft_program_options_init_size(weft_program_options *options, size_t size);
#define weft_program_options_init(options)                                                         \
    weft_program_options_init_size(options, sizeof(*(options)))
WEFT_API WEFT_NODISCARD weft_status weft_program_create_with(weft_store *store,
                                                             const weft_graph *graph,
                                                             const weft_program_options *options,
                                                             weft_program **out);

/* Size of a program: instructions, planned bytes, and floating-point operations of all phases, with
 * one micro-batch. The update phase, which is a part of them, runs once a step, the others once for
 * each micro-batch. */
typedef struct weft_program_info {
    /* All instructions, those that convert a layout, and those on the reference device. */
    int instructions, reorders, fallbacks;
    size_t slot_bytes; /* values kept from forward to backward, for all slots */
    /* Inputs, such as the samples of a micro-batch, for all slots. Training may take these bytes of
     * host memory twice, for all micro-batches of a step, where the device has memory of its own.
     */
    size_t input_bytes;
    size_t arena_bytes, gradient_bytes, parameter_bytes, state_bytes, scratch_bytes;
    size_t transfer_bytes; /* staging buffers for sending and receiving parts of tensors; an engine
                              may allocate further memory when it runs */
    double flops, update_flops; /* of all phases; of the update phase */
    size_t sequence_bytes;      /* states of the sequences of a batch (WEFT_ROLE_SEQUENCE) */
    /* The bytes of all the above in the memory of a device that has its own; bytes of that memory
     * in all, and those that were free when the program was made (0: unknown). */
    size_t device_bytes, device_total, device_free;
    /* The words of the device about itself (weft_device_ops.about); NULL: none. The store's. */
    const char *device_about;
    /* Copies of parameters in second layouts, which a dry program would add to the store. */
    size_t derived_bytes;
    uint64_t room[2]; /* of later versions: 0 */
} weft_program_info;
WEFT_API weft_program_info weft_program_describe(const weft_program *program);

/* The program as text: each instruction with its implementation, layouts, buffers and bytes. The
 * caller frees it with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_program_text(const weft_program *program, char **out);

/* Creates an instance on the store that the program was made on, or on a clone of it. comms has the
 * communicators of the ranks that the program's transfers use; the caller closes them after the
 * instance, and may pass NULL if there are no transfers. Collective over these ranks. ARGUMENT: a
 * store of another model, a dry program, or unsuitable communicators. UNSUPPORTED: ranks have
 * chosen different layouts for the operands of a sum; all ranks detect this. A plan with plain_sums
 * (weft_plan_options) avoids it. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_create(weft_program *program, weft_store *store,
                                                         const weft_comms *comms,
                                                         weft_instance **out);
/* Creates a program and one instance of it, which is its only user. */
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

/* Binds the instance to another store of the model, after waiting for its transfers in progress.
 * With transfers, collective over their ranks. ARGUMENT: a store of another model. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_use(weft_instance *instance, weft_store *store);

/* Selects the slot, which is the memory of one micro-batch in progress, for later calls about
 * inputs, outputs and runs: 0 to weft_program_options.slots - 1; 0 at first. ARGUMENT: no such
 * slot. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_set_slot(weft_instance *instance, int slot);

/* Waits for the transfers in progress. Needed only if UPDATE is not run, since UPDATE waits for
 * them. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_drain(weft_instance *instance);

/* Makes the second layouts of parameters that the program keeps in its store, which otherwise the
 * first run makes. After that MICRO of a program without updates only reads the store, so instances
 * of several threads may share the store. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_prepare(weft_instance *instance);

/* The memory of an input in the current slot, to be written before a run: dense, row-major,
 * weft_type_bytes long, valid as long as the instance. NULL if the graph has no such input. Inputs
 * are zero until they are written. */
WEFT_API void *weft_instance_input(const weft_instance *instance, weft_value input);

/* The memory of a fetched value in the current slot after a run: dense, row-major. NULL if the
 * value is not fetched. */
WEFT_API const void *weft_instance_output(const weft_instance *instance, weft_value value);

/* Row `row` of a state of sequences (WEFT_ROLE_SEQUENCE), whose first dimension is that of the
 * batch: its bytes (0: the program has no such state, or it has no such row), and copies of it from
 * and to host memory, dense and row-major. data NULL: zeros. */
WEFT_API size_t weft_instance_row_bytes(const weft_instance *instance, weft_value state,
                                        int64_t row);
WEFT_API WEFT_NODISCARD weft_status weft_instance_read_row(const weft_instance *instance,
                                                           weft_value state, int64_t row,
                                                           void *data);
WEFT_API WEFT_NODISCARD weft_status weft_instance_write_row(weft_instance *instance,
                                                            weft_value state, int64_t row,
                                                            const void *data);

/* Runs the instructions of one phase, in order. A training step runs MICRO for each micro-batch,
 * then UPDATE. Fetched values are complete when it returns; other transfers may still be in
 * progress. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_run(weft_instance *instance, weft_phase phase);

/* Seconds that the host has worked in all runs so far, without its waits for the device and for
 * other ranks: the time to queue kernels or, on a device that shares host memory, to compute. In
 * training also the time to write the inputs. */
WEFT_API double weft_instance_host_seconds(const weft_instance *instance);

/* An exported gradient of this rank (weft_graph_export_gradient): elements [begin, begin + count)
 * in the layout of WEFT_ALL_PARAMETERS. The elements are those of the parameter, or those of the
 * range of it that this rank updates. Elements between two whole parameters are padding and belong
 * to none. */
typedef struct weft_gradient {
    const char *name; /* name of the parameter */
    int index;        /* number of the gradient in the program, for weft_gradient_map */
    weft_dtype dtype;
    int64_t begin, count;
    double flops; /* operations of one micro-batch until the gradient is ready */
} weft_gradient;

/* Sets *out to gradient i, in the order in which gradients become ready; false past the end. */
WEFT_API bool weft_program_gradient(const weft_program *program, int i, weft_gradient *out);

/* A parameter that the program reads on this rank: elements [begin, begin + count) of
 * WEFT_ALL_PARAMETERS. */
typedef struct weft_reading {
    const char *name;
    int index; /* number among the parameters that the program reads */
    int entry; /* number of the tensor in the store */
    weft_dtype dtype;
    int64_t begin, count;
    double flops; /* operations of one micro-batch before the first use */
} weft_reading;

/* Sets *out to parameter i, in the order of their first use in a step; false past the end. */
WEFT_API bool weft_program_reading(const weft_program *program, int i, weft_reading *out);

/* Hooks that an instance calls in the thread that runs it. A hook must neither run nor change the
 * instance, nor write a parameter that the step has read already, since backward reads it again. If
 * a hook fails, the run ends with that failure. */
typedef struct weft_listener {
    /* The gradient is final, in the form that the update reads. The instance does not write it
     * again before the next run of BACKWARD. */
    weft_status (*ready)(void *user, const weft_gradient *gradient);
    /* The next instruction reads this parameter, which must be valid when the hook returns; the
     * hook may wait for its arrival. May be NULL. */
    weft_status (*needed)(void *user, const weft_reading *parameter);
    /* Called between instructions, so that other operations make progress; must not block. May be
     * NULL. */
    weft_status (*poll)(void *user);
    void *user;
} weft_listener;

/* Sets the hooks of the instance; the struct is copied. NULL: none. */
WEFT_API void weft_instance_listen(weft_instance *instance, const weft_listener *listener);
/* Switches the calls of `ready`, one for each gradient, on or off. They must be on only while
 * gradients become final: in BACKWARD of the last micro-batch and in the following UPDATE. Off at
 * first. */
WEFT_API void weft_instance_enable_ready_hook(weft_instance *instance, bool announce);

/* Switches the calls of `needed` on or off. In each micro-batch they come before every instruction
 * that is the first of the program to read a parameter. Off at first. */
WEFT_API void weft_instance_enable_needed_hook(weft_instance *instance, bool await);

/* Maps a gradient that is ready into host memory: dense, in its layout. The memory is the
 * instance's own, or a copy if the device has its own memory. weft_gradient_unmap releases it. */
WEFT_API WEFT_NODISCARD weft_status weft_gradient_map(weft_instance *instance, int gradient,
                                                      const void **data);
WEFT_API void weft_gradient_unmap(const weft_instance *instance, int gradient, const void *data);

/* Runs MICRO again in the current slot, and checks every value that it makes. *where is NULL if all
 * values are finite; otherwise it is a sentence that names the first parameter, input or
 * instruction that is not, and the caller frees it with weft_free. *made (may be NULL): whether
 * this rank computed that value, instead of receiving it. *value (may be NULL): that value in the
 * program's graph, or WEFT_NO_VALUE. Collective over the ranks of the transfers. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_diagnose(weft_instance *instance, char **where,
                                                           bool *made, weft_value *value);

/* Runs forward and backward `passes` times, at least once. costs[n] becomes the median time of node
 * n of the graph in seconds; the time of a gradient node is added to that of its forward node. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_profile(weft_instance *instance, int passes,
                                                          double *costs);

/* Starts recording: one event for each instruction and one for each wait for a transfer, up to
 * `events` in all (about 32 bytes each). Earlier events are dropped; 0 only stops. On a device with
 * memory of its own and a clock each instruction has two events, the host's work to queue it and
 * the device's to run it; without a clock the host waits for each instruction while it records. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_trace(weft_instance *instance, size_t events);
/* Says that a training step begins. If instructions are recorded, its bar in the trace ends with
 * its last instruction. Now and then a step is timed for weft_instance_device_use. Fails as a run
 * does if the device has failed; ARGUMENT: the step is not from 0 to INT_MAX. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_trace_step(weft_instance *instance, int64_t step);

/* How an instance uses a device with memory of its own. */
typedef struct weft_device_use {
    /* The share of a lately timed step in which the device had work of this instance: from the
     * first to the last operation of each phase. 0: unknown; the device has no clock, shares host
     * memory, or no step was timed yet. */
    double busy;
    size_t used, total; /* bytes of its memory in use, by anyone, and in all; 0: unknown */
    uint64_t room[2];   /* of later versions: 0 */
} weft_device_use;
WEFT_API weft_device_use weft_instance_device_use(const weft_instance *instance);

/* The recorded events as comma-separated Chrome trace events: process `rank`, one thread for steps,
 * one for kernels and one for transfers, two more for kernels and copies of a device that has a
 * clock and for its copies of gradients to the host; arrows for messages, and times in microseconds
 * since `origin` (in seconds of the monotonic clock; below 0: since the first event). Numbers of
 * processes count from 1, and no two threads have the same number, since viewers such as Perfetto
 * take 0 for the idle process and join threads of one number. The caller frees the text with
 * weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_trace_events(const weft_instance *instance,
                                                               int rank, double origin, char **out);
/* Sets *out to two tables of the recorded steps, by the operators of instructions (of fused ones
 * the first) and by layers, the ten longest of each: milliseconds a step, the share of all of them,
 * runs a step, and the percentage that the least time by the device's rates has of the time; waits
 * for transfers are a row. Times of instructions that run at once count each. Empty: no step was
 * recorded. The graph must not have been destroyed. The caller frees the text with weft_free. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_trace_table(const weft_instance *instance,
                                                              char **out);
/* Writes the recorded events to a file, in the Chrome trace event format. */
WEFT_API WEFT_NODISCARD weft_status weft_instance_trace_write(const weft_instance *instance,
                                                              const char *path);

#ifdef __cplusplus
}
#endif
#endif
