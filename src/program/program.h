/* Declares the inside of stores (parameters and state of a model) and of programs (lowered graphs
 * of one rank); instance.h that of instances. */
#ifndef WEFT_PROGRAM_PROGRAM_H
#define WEFT_PROGRAM_PROGRAM_H

#include <stdatomic.h>

#include "device/device.h"
#include "weft/plan.h"
#include "weft/program.h"

/* A parameter or state of a model, as all its stores have it. */
typedef struct store_entry {
    char *name;
    weft_type type;
    weft_value_kind kind;
    weft_init init;
    weft_role role;
    bool idle;        /* parameter: the gradients of its graphs are of others alone */
    weft_shape whole; /* shape of the whole tensor, of which this entry is the part at `start` */
    int64_t start[WEFT_MAX_RANK];
    bool flat; /* a range (ZeRO): elements of `part` from flat_begin on, in the order of `like` */
    weft_type part;
    char *like; /* name of another entry; NULL: this one */
    /* The layout whose order of elements a flat entry without `like` has; NULL: row-major, as
     * chosen when a program first gathers the part. */
    const weft_layout *order;
    int64_t flat_begin;
    const weft_layout *layout; /* NULL until the first kernel that reads the entry has chosen */
    int slab;                  /* index of a slab, a piece of memory; -1: not placed yet */
    size_t offset;             /* bytes in the slab */
} store_entry;

/* A copy of a parameter in a second layout, for programs that only read it; the store makes it
 * again after the parameter has changed. */
typedef struct derived_layout {
    int entry, slab;
    const weft_layout *layout;
} derived_layout;

/* Memory spaces: host memory, which transfers and the caller access, and the memory of the chosen
 * device. With a device that shares host memory there is only SPACE_HOST. */
enum { SPACE_HOST, SPACE_DEVICE, SPACES };

/* The schema has what all stores of one model have in common: devices, entries, layouts and places.
 * A program that is made on one of the stores may extend it. Stores and programs hold
 * references. */
typedef struct reach reach;
typedef struct schema {
    atomic_int users;
    weft_context *context;
    /* The chosen device, and those in host memory that compute the groups which it cannot. */
    weft_device *devices[WEFT_DEVICES];
    int device_count;
    struct tuning *tuning; /* measured seconds of candidates; NULL: estimates alone */
    const char *engine;    /* of ranks that plans suppose, for what transfers take; or NULL */
    bool differs;          /* an instance found that layouts of a sum differ between ranks */
    bool on_host; /* parameters and state are in host memory, whatever the chosen device is */
    bool plain;   /* parameters and state have the plain layout, which all devices know */
    reach *reach; /* of the ranks; NULL: transfers read host memory */
    const volatile int *stop; /* runs end between two instructions once it is not 0; or NULL */
    store_entry *entries;
    size_t count, capacity;
    weft_names names;
    derived_layout *derived;
    size_t derived_count, derived_capacity;
    size_t *slabs; /* bytes of each: one for the parameters and one for the state of each program,
                      and one for each derived layout */
    size_t slab_count, slab_capacity;
    size_t parameter_bytes, state_bytes;
} schema;

struct weft_store {
    schema *schema;
    uint64_t seed;
    bool blank;  /* random tensors begin with zeros */
    bool counts; /* dry programs measure the memory of kernels that they share */
    /* The queue in which the host reads and writes values; NULL: operations are synchronous. */
    weft_queue *queue;
    weft_queue_event *event;
    /* The instances on this store, which have queues of their own (instance_queue.c). */
    pthread_mutex_t lock;
    weft_instance *instances;
    weft_memory **slabs;
    int slab_count;    /* slabs that were allocated */
    uint64_t written;  /* number of changes of parameters, from 1 */
    uint64_t *derived; /* of each derived layout: `written` when it was made; 0: not made */
    size_t derived_count;
};

/* --- schema.c --- */
weft_status weft_schema_create(weft_context *context, const char *device,
                               schema **out) WEFT_NODISCARD;
schema *weft_schema_hold(schema *s);
void weft_schema_release(schema **given);
int weft_schema_find(const schema *s, const char *name);
/* Finds or adds the entry of a leaf. ARGUMENT: the entry exists with another type. */
weft_status weft_schema_bind(schema *s, const weft_graph *graph, weft_value value,
                             int *out) WEFT_NODISCARD;
/* Places entries that have a layout but no place yet in new slabs, in this order. */
weft_status weft_schema_place(schema *s, const int *order, int count) WEFT_NODISCARD;
/* The layout in whose order a flat entry lists its elements. */
weft_status weft_schema_order(const schema *s, int i, const weft_layout **out) WEFT_NODISCARD;

/* Finds or adds a second layout of entry i. */
weft_status weft_schema_derive(schema *s, int i, const weft_layout *layout,
                               int *out) WEFT_NODISCARD;

/* Default options of a program that fetches these values. */
static inline weft_program_options options_to_fetch(const weft_value *fetch, int count)
{
    weft_program_options o;
    weft_program_options_init(&o);
    o.fetch = fetch;
    o.fetch_count = count;
    return o;
}

/* --- store_tuning.c: kernels by measurement --- */

/* Lets programs made on the store from now on choose kernels by a table of measurements, where that
 * has all candidates of a group. NULL: by an empty one. where: its file, for messages. FORMAT: the
 * text is damaged. */
weft_status weft_store_tune(weft_store *store, const weft_bytes *text,
                            const char *where) WEFT_NODISCARD;
/* Lets the rule choose again. */
void weft_store_untune(weft_store *store);
/* ARGUMENT: the table is of another version of Weft, another processor, or of other hardware than
 * the store's device. */
weft_status weft_store_tuning_fits(const weft_store *store) WEFT_NODISCARD;
/* FORMAT: a line of the table names a device, an operator, a type or a layout that does not exist.
 * That of a checkpoint may have those of plug-ins that this process has not loaded. */
weft_status weft_store_tuning_named(const weft_store *store) WEFT_NODISCARD;
/* Lets programs made until this time (weft_seconds) measure what the table lacks. Before each
 * candidate stopped(user), which may be NULL, tells whether to end: programs fail with INTERRUPTED
 * then. */
void weft_store_measure_until(weft_store *store, double until, bool (*stopped)(void *user),
                              void *user);
/* The table as text, with its number of measurements. */
weft_status weft_store_tuning_text(const weft_store *store, char **out,
                                   size_t *count) WEFT_NODISCARD;
/* The number of groups with several candidates so far that the table lacks. */
int weft_store_untuned(const weft_store *store);

/* --- store.c --- */
/* Allocates and initialises the entries of a store that were placed in its schema since the last
 * call. */
weft_status weft_store_fill(weft_store *s) WEFT_NODISCARD;
/* Writes the initial numbers of tensor i to `data`, as weft_store_read would. */
void weft_store_draw(const weft_store *store, int i, void *data);
/* store_small.c: a store with the parameters of a program with places, as vectors that are
 * `scale` times as short, of an element at least, all zero, in the order of WEFT_ALL_PARAMETERS. */
weft_status weft_store_shrink(const weft_program *program, double scale,
                              weft_store **out) WEFT_NODISCARD;
/* memory.c: gives the parameters and state of a program, whose graph must still exist, their places
 * in the schema; takes no memory. A dry program has none before. */
weft_status weft_program_place(weft_program *program) WEFT_NODISCARD;
/* The elements of WEFT_ALL_PARAMETERS in the stores of a program with places; plain: those of its
 * tensors alone, without padding. */
int64_t weft_program_elements(const weft_program *program, bool plain);
/* store_io.c: the source or the target of a reorder: an address on the device (there), or host
 * memory that is read (given) or written (wanted). */
typedef struct side {
    weft_address there;
    const void *given;
    void *wanted;
} side;
/* Copies a value from one layout of the store's device to another. */
weft_status weft_store_convert(const weft_store *s, const weft_type *type, const weft_layout *from,
                               const weft_layout *to, side source, side target) WEFT_NODISCARD;

/* The bytes that weft_store_gather takes on the rank that gets entry i, beside what it is given. */
size_t weft_store_gather_room(const weft_store *s, int i);
/* The address of entry i; its memory is NULL if the store has not allocated the entry. */
weft_address weft_store_address(const weft_store *s, int i);
/* From now on tensors that would begin with random numbers begin with zeros, since a checkpoint has
 * all of them. */
void weft_store_leave_blank(weft_store *s);
/* Records that values were written, so that derived layouts are out of date. */
void weft_store_touch(weft_store *s);
/* Waits for the queues of the store and of its instances. */
weft_status weft_store_synchronize(const weft_store *s) WEFT_NODISCARD;

/* instance_queue.c: makes the store's queue wait for the runs of all its instances. */
weft_status weft_store_follow(const weft_store *s) WEFT_NODISCARD;
/* The device that converts layouts in a space, the space of the chosen device, and the space and
 * the converting device of the store: parameters and state. */
static inline weft_device *schema_device(const schema *s, int space)
{
    bool own = space == SPACE_DEVICE || weft_device_shares(s->devices[0]);
    return s->devices[own ? 0 : 1];
}
static inline int schema_own(const schema *s)
{
    return weft_device_shares(s->devices[0]) ? SPACE_HOST : SPACE_DEVICE;
}
static inline int schema_home(const schema *s)
{
    return s->on_host ? SPACE_HOST : schema_own(s);
}
static inline weft_device *schema_store_device(const schema *s)
{
    return schema_device(s, schema_home(s));
}
/* The first device of the list that may compute nodes of a phase: an update that is made where the
 * parameters are, in host memory, does not run on a device with its own memory. */
static inline int schema_update_device(const schema *s, weft_phase phase)
{
    return phase == WEFT_PHASE_UPDATE && schema_home(s) != schema_own(s);
}
/* Allocates memory in a space; in host memory the kind that is best for copies of the device. */
weft_status weft_space_memory(const schema *s, int space, size_t bytes,
                              weft_memory **out) WEFT_NODISCARD;
/* Whether a leaf is in the store: a parameter, or a state that is not one of sequences. */
static inline bool is_stored(const weft_value_info *leaf)
{
    return leaf->kind == WEFT_VALUE_PARAM ||
           (leaf->kind == WEFT_VALUE_STATE && leaf->role != WEFT_ROLE_SEQUENCE);
}
static inline int layout_space(const weft_layout *layout)
{
    return layout->memory ? SPACE_DEVICE : SPACE_HOST;
}

typedef enum buffer_kind {
    BUFFER_ARENA,    /* arena: buffers share memory by lifetime */
    BUFFER_GRADIENT, /* the flat range of gradients */
    BUFFER_SLOT,     /* live from forward to backward: one for each micro-batch in progress */
    BUFFER_INPUT,    /* fed by the caller; one for each micro-batch in progress */
    BUFFER_SEQUENCE, /* state of the sequences of a batch; one for each instance */
    BUFFER_STORE,    /* parameter or state in the store */
    BUFFER_DERIVED   /* a second layout of a parameter, in the store */
} buffer_kind;

/* The memory of a value in one layout. */
typedef struct buffer {
    buffer_kind kind;
    int space;
    size_t bytes, offset;
    int first, last; /* first and last instruction that needs the memory */
    int alias;       /* the buffer whose memory it shares, or -1 */
    size_t within;   /* offset in the memory of `alias` */
    int entry;       /* store entry, or derived layout */
    int64_t rows;    /* state of sequences: rows of the batch */
    bool keep;       /* the caller or an exchange reads it after the run */
    bool fetched;    /* the caller reads it when the run of its phase has returned */
    bool hold;       /* transfers may use it at any time, also in later runs */
} buffer;

/* A version of a value: the value in one layout, in a buffer. */
typedef struct version {
    weft_value value;
    int next; /* next version of the same value, or -1 */
    const weft_layout *layout;
    int buffer;
    bool reordered; /* made from another version by a reorder or copy, in `phase` */
    weft_phase phase;
} version;

typedef struct instruction {
    weft_kernel *kernel;
    weft_group group; /* of a reorder: no nodes, and the value as in[0] and out[0] */
    char *name, *why; /* why: the candidates, for dumps; NULL if there was one */
    bool fallback, reorder, transfer; /* fallback: runs on another device than the chosen one */
    int space;                        /* memory space in which it runs */
    bool copy;                        /* copies between the spaces, in the device's queue */
    bool derives;                     /* makes a derived layout; skipped if that is up to date */
    int finish;                       /* transfer: instruction before which it must end; -1: none */
    int shares;                       /* number of the kernel in weft_program.kernels; -1: own */
    bool fetched; /* transfer: ends before the run returns, since the caller reads the result */
    int exported, exported_count; /* range of weft_program.exported that it completes */
    int read, read_count;         /* range of weft_program.readings that it reads first */
    weft_phase phase;
    int in[WEFT_GROUP_VALUES], out[WEFT_GROUP_VALUES]; /* buffers */
    int in_count, out_count;
    double flops;
    size_t bytes; /* read and written */
} instruction;

typedef struct grouping grouping;

/* A program is immutable once it is made; instances run it. */
struct weft_program {
    atomic_int users; /* references: of the caller and of instances */
    schema *schema;
    const weft_graph *graph; /* while the program is made; it may be destroyed before the program */
    int values;              /* of the graph */
    weft_value *fetch;
    int fetch_count;
    bool dry;  /* the program is only a plan: no store is changed, no instance can be made */
    int slots; /* micro-batches in progress */

    instruction *code;
    size_t code_count, code_capacity;
    buffer *buffers;
    size_t buffer_count, buffer_capacity;
    version *versions;
    size_t version_count, version_capacity;
    struct {
        int first, last;
    } * versions_of; /* of each value; -1: none */
    weft_readers readers;
    struct exported *exported; /* exported gradients, in the order of completion */
    size_t exported_count;
    struct exporting *exporting; /* during lowering */
    const grouping *groups;      /* during lowering */
    /* A program that is only planned: kernels while it is lowered, those that its instructions
     * share, and the bytes that it has fewer than a program in which each has its own, if they are
     * asked for. */
    bool counts;
    struct kernel_memo *memo;
    weft_kernel **kernels;
    size_t kernel_count, saved_bytes;
    struct reading *readings; /* parameters, in the order of their first reads */
    size_t reading_count;

    size_t input_bytes, slot_bytes[SPACES]; /* of one slot */
    size_t arena_bytes[SPACES], gradient_bytes[SPACES], scratch_bytes[SPACES];
    size_t room_bytes[SPACES];           /* of the staging memory of all transfers */
    size_t sequence_bytes;               /* in the space of the parameters */
    bool writes[WEFT_PHASE_UPDATE + 1];  /* phases that change parameters */
    bool changes[WEFT_PHASE_UPDATE + 1]; /* phases that write the store: also states, copies */
    weft_program_info info;
};

/* The memory in which each kind of buffer begins. */
typedef struct bases {
    weft_memory *inputs, *sequences, *arena[SPACES], *gradients[SPACES], *slots[SPACES];
    const weft_store *store; /* NULL: placeholder memory for planning */
    weft_memory *lent;       /* memory that input buffer `borrower` uses instead; NULL: none */
    int borrower;
} bases;

/* fusion.c: the groups of nodes that run as one instruction, in order of execution. */
struct grouping {
    weft_group *groups;
    int count;
    int *of_node; /* of each node: its group, or -1 */
};
void weft_grouping_free(grouping *groups);
weft_status weft_group_nodes(const weft_program *program, grouping *out) WEFT_NODISCARD;

/* kernel_select.c: the kernel that was chosen for a group. */
typedef struct choice {
    weft_kernel *kernel;
    weft_device *device; /* its device */
    char *why;           /* as in an instruction */
} choice;
/* Chooses the cheapest kernel of a group, with the moves of its operands. UNSUPPORTED: no device
 * has a kernel. */
weft_status weft_kernel_choose(weft_program *program, const weft_group *group,
                               choice *out) WEFT_NODISCARD;
/* Estimated seconds of the group's cheapest candidate, without moves of operands; INFINITY: there
 * is no candidate. */
double weft_group_estimate(const schema *s, const weft_group *group);
/* Destroys a chosen kernel, unless the program keeps it for others. */
void weft_kernel_drop(const weft_program *program, weft_kernel *kernel);
/* The number of kernels that were made for a plan, and the bytes by which their instructions would
 * take more with one each. */
size_t weft_program_kernels(const weft_program *program, size_t *saved);

/* Whether the place of a cut may decide about kernels: a node takes a slice of a value that lies
 * in blocks somewhere, or kernels are chosen by a table that has the places of cuts. */
bool weft_program_cuts_blocks(const weft_program *program);

/* lower.c: lowers groups to instructions. */
weft_status weft_program_lower(weft_program *program, const grouping *groups) WEFT_NODISCARD;

/* value_layouts.c: the first version of a value in this layout (NULL: any), or NULL. */
version *weft_program_version(const weft_program *program, weft_value value,
                              const weft_layout *layout);
/* The layout of a value, or NULL if none was chosen yet. */
weft_status weft_program_layout_of(weft_program *p, weft_value value,
                                   const weft_layout **out) WEFT_NODISCARD;
/* The plain layout of a value's type in a space. */
weft_status weft_version_plain(const weft_program *p, int space, weft_value value,
                               const weft_layout **out) WEFT_NODISCARD;
weft_status weft_version_add(weft_program *p, weft_value value, const weft_layout *layout,
                             int buffer_index) WEFT_NODISCARD;
/* Gives a leaf its first version. `layout` may be NULL if the store's entry has a layout already;
 * inputs, which the caller fills, are plain in any case. */
weft_status weft_version_place(weft_program *p, weft_value value,
                               const weft_layout *layout) WEFT_NODISCARD;
/* Adds an instruction that converts a value from one layout to another (a reorder, or a copy
 * between spaces), into a buffer or (buffer_index < 0) a new one. */
weft_status weft_version_convert(weft_program *p, weft_value value, const weft_layout *from,
                                 const weft_layout *to, weft_phase phase,
                                 int buffer_index) WEFT_NODISCARD;
/* Gets the buffer of a value in a layout; converts the value if it has no such version. passing:
 * the reader is a transfer, which only passes the value on. */
weft_status weft_version_provide(weft_program *p, weft_value value, const weft_layout *want,
                                 weft_phase phase, bool passing, int *out) WEFT_NODISCARD;
/* Estimated seconds of converting a value to a layout; INFINITY: impossible. A conversion that is
 * not repeated in every run counts as 0. */
weft_status weft_version_seconds(weft_program *p, weft_value value, const weft_layout *want,
                                 double *out) WEFT_NODISCARD;
/* Estimated seconds of converting a result in `layout` to the layout of the leaf to which it is
 * assigned or, if it has none, to the space of the parameters. */
weft_status weft_version_back_seconds(const weft_program *p, weft_value value,
                                      const weft_layout *layout, double *out) WEFT_NODISCARD;
/* Converts a result that is assigned to a leaf into the leaf's buffer, unless it was made there. */
weft_status weft_version_back(weft_program *p, weft_value value, weft_phase phase) WEFT_NODISCARD;
/* lower.c */
weft_status weft_program_add_code(weft_program *p, instruction code) WEFT_NODISCARD;

/* in_place.c */
weft_status weft_program_add_buffer(weft_program *p, buffer b, int *out) WEFT_NODISCARD;
/* The layouts of the input and of the output of a view: plain, or in the element order of another
 * value (flat, unflat). */
weft_status weft_view_layouts(weft_program *p, const weft_node *node, const weft_layout **in,
                              const weft_layout **out) WEFT_NODISCARD;
/* Chooses the buffer of result o of an instruction. The next value of a parameter or state is
 * written over the current one, or gets memory of its own, from which weft_version_back copies
 * it. */
weft_status weft_result_buffer(weft_program *p, const instruction *code, int o,
                               int *out) WEFT_NODISCARD;

/* device_copy.c: a kernel that copies a value in its layout within a space, or between spaces,
 * where both layouts are plain. */
weft_status weft_copy_kernel(const weft_layout *from, const weft_layout *to,
                             weft_kernel **out) WEFT_NODISCARD;

/* transfer.c: a kernel for the group's single node, a transfer, which a communicator runs. */
weft_status weft_transfer_kernel(const weft_program *program, const weft_group *group,
                                 const weft_layout *const *in, weft_kernel **out) WEFT_NODISCARD;

/* Binds a transfer kernel to the communicators of an instance; x NULL: to none, to plan memory. */
weft_status weft_transfer_bind(const weft_kernel *kernel, weft_instance *x,
                               weft_bound **out) WEFT_NODISCARD;
/* The memory space of its operands and results. */
int weft_transfer_space(const weft_kernel *kernel);
/* Bytes of staging memory of a placed transfer, in that space. */
size_t weft_transfer_room(const weft_bound *bound);

/* reach.c: the ranks of a learner find out between which of them transfers run on their devices, as
 * threads of a process whose devices read each other's memory, or by a library of the devices.
 * Collective over comms->learner; before programs are made on the store. lasting: `comms` are those
 * of all programs on the store, and outlive it, so that a library may be used. ARGUMENT: some ranks
 * use the library and others do not, or two ranks have one device. */
struct reach {
    bool learner, axes[WEFT_MESH_MASKS]; /* all ranks of these communicators reach each other */
    bool *peers;                         /* [ranks] for messages with this rank of the learner */
    /* The devices have kernels for sums of this type; and that pack and unpack parts. */
    bool adds[WEFT_DTYPE_COUNT], packs[WEFT_DTYPE_COUNT];
    bool addresses; /* the communicators read the devices' memory by its addresses */
    const char *by; /* the library of devices that all ranks use for collectives; NULL: none */
    struct device_library *library; /* NULL: none, or a plan */
};
weft_status weft_store_reach(weft_store *store, const weft_comms *comms,
                             bool lasting) WEFT_NODISCARD;
/* Plans on the store have ranks of this engine, whose name outlives the store. */
void weft_store_suppose_engine(weft_store *store, const char *engine);
/* For plans; alike[r]: rank r opens the same device, as a thread of the same process. */
weft_status weft_store_suppose_reach(weft_store *store, const bool *alike,
                                     int ranks) WEFT_NODISCARD;
void weft_reach_free(reach **given);

/* memory.c: plans the memory of a program: lifetimes, sharing of memory, offsets. */
weft_status weft_program_plan(weft_program *program) WEFT_NODISCARD;
/* Binds the kernels of a program to no memory, as an instance does, to find what that takes. Adds
 * to *saved the bytes that it takes fewer, since kernels that instructions share are bound at most
 * twice. weft_program_unbind frees the list, also after a failure. */
weft_status weft_program_bind(const weft_program *program, weft_bound ***out,
                              double *saved) WEFT_NODISCARD;
void weft_program_unbind(const weft_program *program, weft_bound ***list);
/* The description with the bytes in host memory alone, and the sum of all bytes of one. */
weft_program_info weft_program_on_host(const weft_program *program);
double weft_program_bytes(const weft_program_info *info);
/* The bytes of an entry of a store. */
size_t weft_entry_bytes(const store_entry *entry);
/* The parameters of a store on which a program is planned: their type, and their number with the
 * padding of their layouts. */
void weft_store_planned(const weft_store *s, weft_dtype *dtype, int64_t *count);

/* The buffer whose memory buffer b uses, through all aliases. */
static inline int buffer_root(const weft_program *p, int b)
{
    while (p->buffers[b].alias >= 0) b = p->buffers[b].alias;
    return b;
}
/* The offset of buffer b in the memory of its root. */
static inline size_t buffer_within(const weft_program *p, int b)
{
    size_t within = 0;
    for (; p->buffers[b].alias >= 0; b = p->buffers[b].alias) within += p->buffers[b].within;
    return within;
}
/* instance.c: placeholder memory, which is never accessed, for planning; buffers that will be
 * adjacent have adjacent addresses. */
bases weft_bases_nowhere(void);
/* Binds an instruction to the addresses of its operands in a slot. */
weft_status weft_instruction_place(const weft_program *program, const instruction *code,
                                   const bases *at, int slot, weft_memory *const *scratch,
                                   weft_bound *bound) WEFT_NODISCARD;
/* Makes the instance read an input from `data` in all slots from now on, in the layout of
 * weft_instance_input; NULL: from the instance's own memory again. Inputs are never written. */
weft_status weft_instance_lend(weft_instance *x, weft_value input, const void *data) WEFT_NODISCARD;
/* The bytes of the device's memory that an instance takes beside the store. MEMORY, of _fits: of
 * `total` bytes (0: unknown) too few are free. */
size_t weft_program_own_bytes(const weft_program *program);
weft_status weft_program_fits(const weft_program *program, size_t total,
                              size_t free) WEFT_NODISCARD;
/* The address of buffer b in a slot. */
weft_address weft_buffer_address(const weft_program *program, const bases *at, int b, int slot);

/* run_ahead.c: steps that are queued whole, while the host does not know the loss of the step
 * before yet. _open makes the instance do so if its program computes on a device of memory of its
 * own alone, the device can stop at a loss that is not finite, and all ranks of the learner can, of
 * which each reaches the memory of the others (collective over the learner); *can: that is so.
 * Inputs are then written, and fetched values read, in two sets of host memory in turns, each with
 * a place for each micro-batch (weft_instance_micro): _queue queues a step of the inputs that were
 * written, and gives the inputs of the next one; the host meets the other ranks there, and waits
 * for no device. _wait waits for the older of one or two steps that were queued, and gives its
 * fetched values, until the next call. If a loss of that step is not finite on any rank, neither it
 * nor the one after it has changed the store of a rank; _stop drops the latter, and leaves the
 * inputs of the former. */
typedef struct weft_ahead_options {
    weft_value loss;               /* WEFT_NO_VALUE: that of this rank does not count */
    weft_dtype dtype;              /* of the losses of all ranks */
    const weft_schedule *schedule; /* of a step; it outlives the instance */
    bool captures; /* a program without transfers is captured, where the device can */
} weft_ahead_options;
weft_status weft_run_ahead_open(weft_instance *x, const weft_ahead_options *options,
                                bool *can) WEFT_NODISCARD;
/* *apart: the statistics of the ranks' agreement on the losses, which is no part of the program. */
weft_status weft_run_ahead_queue(weft_instance *x, weft_comm_stats *apart) WEFT_NODISCARD;
weft_status weft_run_ahead_wait(weft_instance *x) WEFT_NODISCARD;
weft_status weft_run_ahead_stop(weft_instance *x) WEFT_NODISCARD;
/* Chooses the slot and the host memory of a micro-batch of a step. */
weft_status weft_instance_micro(weft_instance *x, int micro) WEFT_NODISCARD;

/* trace_record.c: records that the ranks of the learner have summed up the loss, from `start` to
 * now, if instructions are recorded. */
void weft_instance_trace_loss(weft_instance *x, double start);
/* execute.c: adds to the seconds of the host's work (weft_instance_host_seconds) those of writing
 * inputs. */
void weft_instance_host_worked(weft_instance *x, double seconds);

#endif
