/* Declares the inside of devices that compile kernels: one set of kernels, in a dialect of C over
 * the prelude of a driver, and the interface of drivers (OpenCL, CUDA). A device of this kind is a
 * plug-in, which calls the library through its services alone. */
#ifndef WEFT_DEVICE_GPU_GPU_H
#define WEFT_DEVICE_GPU_GPU_H

#include "base/base.h"
#include "weft/services.h"

/* Types of numbers in kernels. real_t is the type of the run's real values. acc_t is double on
 * every card that computes in double precision, and serves work that does not grow with the data:
 * learning rates, corrections of Adam, statistics of a channel, angles of rotary positions. On
 * graphics cards an operation on doubles, and each conversion to them, takes as long as up to 64 on
 * floats, so whatever is done for each element is of real_t. A sum over many elements is
 * compensated within a work item (SUM_BEGIN and SUM_ADD of kernels/common.cl) and pairwise over the
 * items of a group, in a fixed order: its error does not grow with the number of elements, and the
 * operator suite's 2e-5 holds. Only the exact squares of a gradient norm are doubles. */

/* The services of the library, set when the plug-in is loaded. */
extern const weft_services *weft_gpu_services;
#define weft weft_gpu_services

typedef struct gpu_driver gpu_driver;
typedef struct gpu_module gpu_module;
typedef struct gpu_call gpu_call;

/* A kind of kernels: one file of src/device/gpu/kernels, embedded as text. */
typedef struct gpu_text {
    const char *name;
    const char *text;
} gpu_text;
extern const gpu_text gpu_text_common, gpu_text_elements, gpu_text_product, gpu_text_shape,
    gpu_text_reduce, gpu_text_norm, gpu_text_window, gpu_text_rows, gpu_text_loss, gpu_text_update,
    gpu_text_attention, gpu_text_recurrence, gpu_text_table_grad;

/* A compiled program of a card; one for each different source. */
typedef struct gpu_program gpu_program;

/* A library of a driver that a card has opened; library NULL: not asked for yet. */
typedef struct gpu_library gpu_library;
enum { GPU_LIBRARIES = 4 };
typedef struct gpu_opened {
    const gpu_library *library;
    void *state;    /* NULL: it is not found (no text) or does not work (the text says why) */
    char text[256]; /* its version */
} gpu_opened;

/* A piece of hardware that this process has opened; all devices for it share its programs and
 * libraries. A driver extends the struct. */
typedef struct gpu_card gpu_card;
struct gpu_card {
    const gpu_driver *driver;
    char *which;       /* the arguments that have opened it */
    char name[128];    /* for messages */
    char version[256]; /* of driver and hardware: binaries of another one are not loaded */
    bool doubles;      /* it computes in double precision */
    /* The card is the host's processor, whose compiler takes long for unrolled loops, and whose
     * driver keeps files of its own. */
    bool processor;
    int users; /* devices */
    pthread_mutex_t lock;
    gpu_program *programs;
    gpu_opened opened[GPU_LIBRARIES]; /* in the order of the driver's libraries */
    gpu_card *next;
};

typedef struct gpu_device {
    weft_device head;
    gpu_card *card;
    bool uses[GPU_LIBRARIES]; /* libraries of the card whose routines are candidates */
    bool tf32;                /* these may round the operands of products in f32 to TF32 */
    char about[768];
    char hardware[1100]; /* driver, card, versions and libraries: equal texts give equal bits */
} gpu_device;

/* The size of a launch: groups along three dimensions, and work items of a group along two. */
typedef struct gpu_grid {
    int groups[3], block[2];
} gpu_grid;

typedef enum gpu_kind {
    GPU_IN,
    GPU_OUT,
    GPU_SCRATCH,
    GPU_GUARD, /* see weft_bound_ops.guard; without memory if there is none */
    GPU_INT,
    GPU_FLOAT,
    GPU_DOUBLE
} gpu_kind;
/* An argument of a launch. Memory (GPU_IN to GPU_GUARD) is passed as a buffer and an offset. */
typedef struct gpu_argument {
    gpu_kind kind;
    int index; /* of an input or output of the group */
    int32_t whole;
    size_t offset;
    double real;
    weft_address address; /* when bound */
} gpu_argument;

/* A driver of hardware. */
struct gpu_driver {
    const char *name;    /* of the device */
    const char *prelude; /* the macros of the dialect */
    const weft_memory_ops *memory;
    /* Opens the hardware that the arguments name: sets name, version and doubles. */
    weft_status (*open)(const char *which, gpu_card **out);
    void (*close)(gpu_card *card);
    /* Compiles a source; what: the operator, for messages. UNSUPPORTED: with the compiler's log. */
    weft_status (*compile)(gpu_card *card, const char *source, const char *what, gpu_module **out);
    /* Loads what `binary` has returned, which is allocated with malloc. */
    weft_status (*load)(gpu_card *card, const void *binary, size_t bytes, gpu_module **out);
    weft_status (*binary)(gpu_card *card, gpu_module *module, void **out, size_t *bytes);
    void (*unload)(gpu_module *module);
    /* A call is a function of a module with its arguments; one thread at a time uses it. */
    weft_status (*open_call)(gpu_card *card, gpu_module *module, const char *function,
                             gpu_call **out);
    void (*close_call)(gpu_call *call);
    weft_status (*set)(gpu_call *call, const gpu_argument *arguments, int count);
    weft_status (*launch)(weft_queue *queue, gpu_call *call, const gpu_grid *grid);
    const gpu_library *const *libraries; /* up to NULL; NULL: none */
};

/* --- program.c --- */

/* The module of a text with these definitions and, for generated kernels, a body (NULL: none); made
 * once for each card, from the cache of binaries if it has it. */
weft_status gpu_program_get(gpu_card *card, const gpu_text *text, const char *definitions,
                            const char *body, const char *what, gpu_module **out) WEFT_NODISCARD;
void gpu_programs_free(gpu_card *card);

/* --- cache.c: compiled programs in files --- */

/* Reads the binary of a source; *out is NULL if there is none that fits. The caller frees it. */
void gpu_cache_read(const gpu_card *card, const char *source, void **out, size_t *bytes);
void gpu_cache_write(const gpu_card *card, const char *source, const void *binary, size_t bytes);

/* --- card.c --- */

weft_status gpu_card_take(const gpu_driver *driver, const char *which,
                          gpu_card **out) WEFT_NODISCARD;
void gpu_card_give(gpu_card *card);

/* --- device.c: the functions of weft_device_ops --- */

weft_status gpu_device_open(const gpu_driver *driver, const char *arguments,
                            weft_device **out) WEFT_NODISCARD;
void gpu_device_close(weft_device *device);
void gpu_hardware(const weft_device *device, char *out, size_t size);
const char *gpu_device_about(const weft_device *device);
int gpu_candidates(weft_device *device, const weft_group *group, const weft_layout *const *in,
                   weft_candidate out[WEFT_CANDIDATES]);
weft_status gpu_kernel_make(weft_device *device, const weft_group *group,
                            const weft_candidate *candidate, const weft_layout *const *in,
                            weft_kernel **out) WEFT_NODISCARD;
/* The name of a type in kernels. */
const char *gpu_type_name(weft_dtype dtype);
weft_status gpu_plain(weft_device *device, const weft_type *type,
                      const weft_layout **out) WEFT_NODISCARD;
weft_status gpu_reorder(weft_device *device, const weft_type *type, const weft_layout *from,
                        const weft_layout *to, weft_kernel **out) WEFT_NODISCARD;
weft_status gpu_watch(weft_device *device, const weft_type *type, weft_kernel **out) WEFT_NODISCARD;
weft_status gpu_bound_guard(weft_bound *bound, weft_address flag) WEFT_NODISCARD;

/* --- kernel.c: a kernel is a list of launches, which a table's function describes --- */

/* The functions of a routine of a library, which stands in a launch in the place of a function of a
 * text. A problem is what is computed, a call is a problem with its arguments. */
typedef struct gpu_routine {
    weft_status (*open)(const void *problem, void **out);
    void (*close)(void *call);
    weft_status (*set)(void *call, const gpu_argument *arguments, int count);
    weft_status (*launch)(weft_queue *queue, void *call);
    void (*destroy)(void *problem);
} gpu_routine;

enum { GPU_ARGUMENTS = 72 };
typedef struct gpu_launch {
    const gpu_routine *routine; /* NULL: a function of the text */
    void *problem;              /* of the routine; owned */
    const gpu_text *text;
    char *definitions, *body; /* owned; NULL: none */
    char function[32];
    gpu_grid grid;
    int count;
    gpu_argument argument[GPU_ARGUMENTS];
} gpu_launch;

typedef struct gpu_kernel {
    weft_kernel head;
    gpu_device *device;
    char what[64]; /* the operator and node, for messages */
    int in_count, out_count, count;
    gpu_launch *launch;
} gpu_kernel;

/* A kernel while it is described. The first failure sticks in `status`. */
typedef struct gpu_plan {
    gpu_kernel *kernel;
    const weft_group *group;
    const weft_node *node; /* the main node */
    const weft_value *in;  /* its inputs and outputs */
    weft_value out;
    int in_count, out_count;
    const char *way;           /* the candidate's name: of the entry, or of a way of a product */
    weft_dtype real;           /* the type of its real values: F32 or F64 */
    const gpu_opened *library; /* whose routine computes it; NULL: own kernels */
    size_t unread[16];         /* offsets in scratch memory of results that nothing reads */
    gpu_launch *now;           /* the launch that gets arguments */
    weft_status status;
} gpu_plan;

/* Begins a launch of a function with this many groups and work items. `definitions` is formatted;
 * real_t, acc_t and their constants are defined besides. */
void gpu_launch_add(gpu_plan *plan, const gpu_text *text, const char *function, gpu_grid grid,
                    const char *definitions, ...) WEFT_PRINTF(5, 6);
/* Begins a launch of a routine, which gets the problem. */
void gpu_routine_add(gpu_plan *plan, const gpu_routine *routine, void *problem);
/* Append arguments: the memory of the node's input or output i, or of the group's; scratch memory;
 * integers; numbers of type real_t or acc_t. */
void gpu_in(gpu_plan *plan, int i);
void gpu_out(gpu_plan *plan, int i);
void gpu_group_in(gpu_plan *plan, int i);
void gpu_group_out(gpu_plan *plan, int i);
void gpu_scratch(gpu_plan *plan, size_t offset);
/* The last argument of kernels that have the parameter GUARD. A kernel all of whose results are
 * written by such launches can be guarded. */
void gpu_guard(gpu_plan *plan);
void gpu_int(gpu_plan *plan, int64_t value);
void gpu_ints(gpu_plan *plan, int count, const int64_t *values);
void gpu_real(gpu_plan *plan, double value);
void gpu_acc(gpu_plan *plan, double value);
/* Reserves scratch memory, and returns its offset. */
size_t gpu_reserve(gpu_plan *plan, size_t bytes);

/* Groups of 256 items for `count` items, at most `most` groups (0: any number). */
gpu_grid gpu_line(int64_t count, int64_t most);
/* A group of 256 items for each of `rows` rows. */
gpu_grid gpu_rows(int64_t rows);

/* --- nodes --- */

const weft_shape *gpu_in_shape(const gpu_plan *plan, int i);
const weft_shape *gpu_out_shape(const gpu_plan *plan, int i);
int64_t gpu_in_size(const gpu_plan *plan, int i);
int64_t gpu_out_size(const gpu_plan *plan, int i);
int64_t gpu_node_int(const weft_node *node, const char *name, int i, int64_t otherwise);
static inline double gpu_node_real(const weft_node *node, const char *name, double otherwise)
{
    return weft->node_real(node, name, otherwise);
}

/* --- tables --- */

typedef struct gpu_entry {
    const char *op;   /* operator of the group's main node; NULL: any */
    const char *name; /* for dumps */
    /* Whether it can compute the group; NULL: single nodes. */
    bool (*supports)(const weft_group *group);
    void (*make)(gpu_plan *plan);
    bool mixed; /* its values need not all have one real type */
} gpu_entry;

#define GPU_FILES(X)                                                                               \
    X(product)                                                                                     \
    X(conv)                                                                                        \
    X(window)                                                                                      \
    X(shape)                                                                                       \
    X(reduce)                                                                                      \
    X(norm)                                                                                        \
    X(loss)                                                                                        \
    X(rows)                                                                                        \
    X(update)                                                                                      \
    X(attention)                                                                                   \
    X(recurrence)                                                                                  \
    X(elements)
#define GPU_DECLARE(file) extern const gpu_entry gpu_##file##_entries[];
GPU_FILES(GPU_DECLARE)

/* product.c: appends the ways to compute a product that only measurements tell apart, behind the
 * last candidate, which is of an entry of this table; at most `most`. Returns their number. */
int gpu_product_ways(const gpu_entry *table, weft_candidate *out, int most);

/* --- library.c --- */

/* A library of routines that a driver finds when a device is opened. */
typedef struct gpu_product gpu_product; /* product.h */
struct gpu_library {
    const char *name; /* in options and dumps */
    /* The entries that its routines can take the place of; NULL: it has none, and needs neither
     * `whole` nor `make`. */
    const gpu_entry *table;
    const char *advice; /* where it is looked for, and how it is installed */
    bool named;         /* opened only if the options name it */
    /* Finds the library and makes it ready for a card; NULL: it is not found, or does not work.
     * text: its version, or why it does not work. */
    void *(*open)(gpu_card *card, char *text, size_t size);
    void (*close)(void *state);
    /* Whether one routine computes the whole group; otherwise it computes the main node, and own
     * kernels compute what follows. */
    bool (*whole)(const weft_group *group);
    /* Appends the launch of a routine; the status UNSUPPORTED: there is none after all. */
    void (*make)(gpu_plan *plan, const gpu_product *product);
    /* Operations a second, and those with TF32, for estimates (see weft_rates). */
    double flops, tf32_flops;
};

/* Reads "WHICH:libraries=NAME+...|none:tf32=on|off" in any order, opens the card WHICH and those of
 * its libraries that are wanted and found. ARGUMENT: another option; a library that is named and
 * not found; TF32 without a library. */
weft_status gpu_options_open(const gpu_driver *driver, const char *arguments,
                             gpu_device *device) WEFT_NODISCARD;
void gpu_libraries_close(gpu_card *card);
/* Appends candidates of the device's libraries for a group that an entry of the table computes. */
int gpu_library_candidates(const gpu_device *device, const gpu_entry *table, const gpu_entry *entry,
                           const weft_group *group, weft_candidate *out, int most);
/* The state of a library that the device uses; NULL: it does not. */
const void *gpu_library_used(const gpu_device *device, const gpu_library *library);
/* The library whose candidate this is; NULL: it is one of own kernels. */
const gpu_opened *gpu_library_of(const gpu_device *device, const weft_candidate *candidate);

/* --- elements.c: bodies that are generated from the formulas of a group's nodes --- */

/* Whether nodes first, first + 1, ... of the group are functions of each element of one shape. */
bool gpu_elements_supports(const weft_group *group);

/* A plug-in with one device: its driver, name and summary, and what else its weft_device_ops have.
 */
#define GPU_PLUGIN(driver_, name_, summary_, ...)                                                  \
    static weft_status device_open(weft_context *context, const char *arguments,                   \
                                   weft_device **out)                                              \
    {                                                                                              \
        (void)context;                                                                             \
        return gpu_device_open(&(driver_), arguments, out);                                        \
    }                                                                                              \
    static const weft_device_ops ops = {.struct_size = sizeof(weft_device_ops),                    \
                                        .name = name_,                                             \
                                        .summary = summary_,                                       \
                                        .open = device_open,                                       \
                                        .close = gpu_device_close,                                 \
                                        .hardware = gpu_hardware,                                  \
                                        .plain = gpu_plain,                                        \
                                        .candidates = gpu_candidates,                              \
                                        .kernel = gpu_kernel_make,                                 \
                                        .reorder = gpu_reorder,                                    \
                                        .next = "cpu",                                             \
                                        .watch = gpu_watch,                                        \
                                        .guard = gpu_bound_guard,                                  \
                                        .about = gpu_device_about,                                 \
                                        __VA_ARGS__};                                              \
    static const weft_entry entries[] = {                                                          \
        {.kind = WEFT_KIND_DEVICE, .name = name_, .summary = summary_, .ops = &ops},               \
        {.name = NULL},                                                                            \
    };                                                                                             \
    WEFT_PLUGIN(weft_gpu_services, entries);

#endif
