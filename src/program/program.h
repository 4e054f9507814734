/* Inside of programs and stores. */
#ifndef WEFT_PROGRAM_PROGRAM_H
#define WEFT_PROGRAM_PROGRAM_H

#include <stdatomic.h>

#include "device/device.h"
#include "weft/program.h"

typedef struct store_entry {
    char *name;
    weft_type type;
    weft_value_kind kind;
    weft_init init;
    weft_role role;
    weft_shape whole; /* the tensor of which this is the part that begins at `start` */
    int64_t start[WEFT_MAX_RANK];
    bool
        flat; /* a vector: elements from flat_begin on of the part `part`, in the order of `like` */
    weft_type part;
    char *like; /* another entry; NULL: this one */
    /* Of a flat entry that is like itself: whose order; NULL, plain until the first kernel that
     * reads the joined part has chosen. */
    const weft_layout *order;
    int64_t flat_begin;
    const weft_layout *layout; /* NULL until the first kernel that reads it has chosen */
    int slab;                  /* of every store; -1 until it is placed */
    size_t offset;             /* there */
} store_entry;

/* A second layout of a parameter, for programs that read it and do not write it. */
typedef struct derived_layout {
    int entry, slab;
    const weft_layout *layout;
} derived_layout;

/* Where values lie: in the host's memory, which transfers read and which the caller fills and
 * reads, or in the chosen device's own. Where the device shares the host's, that is all there is.
 */
enum { SPACE_HOST, SPACE_DEVICE, SPACES };

/* What all stores of one model have in common. Grows by the programs that are made on one of them;
 * held by stores and programs. */
typedef struct schema {
    atomic_int users;
    weft_context *context;
    weft_device *device;   /* the chosen one */
    weft_device *fallback; /* reference; in the host's memory */
    store_entry *entries;
    size_t count, capacity;
    weft_names names;
    derived_layout *derived;
    size_t derived_count, derived_capacity;
    size_t *slabs; /* bytes of each: one for the parameters and one for the state of each program,
                    * and one for each derived layout */
    size_t slab_count, slab_capacity;
    size_t parameter_bytes, state_bytes;
} schema;

struct weft_store {
    schema *schema;
    uint64_t seed;
    weft_queue *queue; /* of all that is done with these values; NULL: all is done at once */
    weft_queue_event *event;
    weft_memory **slabs;
    int slab_count;    /* those that have been filled */
    uint64_t written;  /* how often parameters have changed, from 1 */
    uint64_t *derived; /* of each derived layout: as of which change it is; 0: it is not made */
    size_t derived_count;
};

/* --- schema.c --- */
weft_status weft_schema_create(weft_context *context, const char *device,
                               schema **out) WEFT_NODISCARD;
schema *weft_schema_hold(schema *s);
void weft_schema_release(schema **given);
int weft_schema_find(const schema *s, const char *name);
/* Finds or adds the entry of a leaf. ARGUMENT: it exists with another type. */
weft_status weft_schema_bind(schema *s, const weft_graph *graph, weft_value value,
                             int *out) WEFT_NODISCARD;
/* Gives entries that have a layout but no place yet a place, in the order given. */
weft_status weft_schema_place(schema *s, const int *order, int count) WEFT_NODISCARD;
/* The layout of its part in whose order the elements of a flat entry lie. */
weft_status weft_schema_order(const schema *s, int i, const weft_layout **out) WEFT_NODISCARD;

/* Finds or adds a second layout of entry i. */
weft_status weft_schema_derive(schema *s, int i, const weft_layout *layout,
                               int *out) WEFT_NODISCARD;

/* Options of a program that is only asked for these values. */
static inline weft_program_options options_to_fetch(const weft_value *fetch, int count)
{
    weft_program_options o;
    weft_program_options_init(&o);
    o.fetch = fetch;
    o.fetch_count = count;
    return o;
}

/* --- store.c --- */
/* Memory and first values for what has been placed since. */
weft_status weft_store_fill(weft_store *s) WEFT_NODISCARD;
/* values.c: one side of a reorder: in the store, or memory of the host that is read or written. */
typedef struct side {
    weft_address there;
    const void *given;
    void *wanted;
} side;
/* From one layout of the store's device to another. */
weft_status weft_store_turn(const weft_store *s, const weft_type *type, const weft_layout *from,
                            const weft_layout *to, side source, side target) WEFT_NODISCARD;

/* Where entry i lies; without memory: it is not placed. */
weft_address weft_store_address(const weft_store *s, int i);
/* Says that values have been written. */
void weft_store_touch(weft_store *s);
/* Until all that was put into its queue is done. */
weft_status weft_store_finish(const weft_store *s) WEFT_NODISCARD;
/* The device that works in a space, and the space in which parameters are. */
static inline weft_device *schema_device(const schema *s, int space)
{
    return space == SPACE_DEVICE || weft_device_shares(s->device) ? s->device : s->fallback;
}
static inline int schema_home(const schema *s)
{
    return weft_device_shares(s->device) ? SPACE_HOST : SPACE_DEVICE;
}
static inline int layout_space(const weft_layout *layout)
{
    return layout->memory ? SPACE_DEVICE : SPACE_HOST;
}

typedef enum buffer_kind {
    BUFFER_ARENA,    /* planned by lifetime */
    BUFFER_GRADIENT, /* the flat range of gradients */
    BUFFER_SLOT,     /* lives from forward to backward: one for each micro-batch under way */
    BUFFER_INPUT,    /* fed from outside; one for each micro-batch under way */
    BUFFER_STORE,    /* belongs to the store */
    BUFFER_DERIVED   /* so does this: a second layout of a parameter */
} buffer_kind;

typedef struct buffer {
    buffer_kind kind;
    int space;
    size_t bytes, offset;
    int first, last; /* instructions that write it first and read it last */
    int alias;       /* the buffer whose memory it shares, or -1 */
    size_t within;   /* where it begins in the memory of `alias` */
    int entry;       /* of the store, or derived layout */
    bool keep;       /* read after the run */
    bool hold;       /* read by others at any time */
} buffer;

/* One value in one layout. */
typedef struct version {
    weft_value value;
    int next; /* the next one of the same value, or -1 */
    const weft_layout *layout;
    int buffer;
    bool reordered; /* made of another version, in `phase` */
    weft_phase phase;
} version;

typedef struct instruction {
    weft_kernel *kernel;
    weft_group group; /* empty for a reorder */
    char *name,
        *why; /* why: which candidates there were, for dumps; NULL where there was no choice */
    bool fallback, reorder, transfer;
    int space;    /* where it runs */
    bool copy;    /* from one space to the other, in the device's queue */
    bool derives; /* makes a derived layout, where that is not as the parameter is by now */
    int finish;   /* transfer: before which instruction it must have ended; -1: any time */
    int handed, handed_count; /* gradients that it makes: so many, from here on */
    int read, read_count;     /* parameters that nothing has read before, the same way */
    weft_phase phase;
    int in[WEFT_GROUP_VALUES], out[WEFT_GROUP_VALUES]; /* buffers */
    weft_value in_value[WEFT_GROUP_VALUES], out_value[WEFT_GROUP_VALUES];
    int in_count, out_count;
    double flops;
    size_t bytes; /* read and written */
} instruction;

typedef struct trace_event {
    double start, duration;
    int instruction, slot;
    bool wait; /* for a transfer, rather than its beginning */
} trace_event;

/* Changes no more once it is made; its instances run it. */
struct weft_program {
    atomic_int users; /* the caller, and instances */
    schema *schema;
    const weft_graph *graph;
    weft_value *fetch;
    int fetch_count;
    bool dry;
    int slots; /* micro-batches under way */

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
    struct handed *handed; /* gradients, in the order in which they are made */
    size_t handed_count;
    struct handing *handing;  /* while it is lowered */
    struct reading *readings; /* parameters, in the order in which they are read first */
    size_t reading_count;

    size_t input_bytes, slot_bytes[SPACES]; /* of one slot */
    size_t arena_bytes[SPACES], gradient_bytes[SPACES], scratch_bytes[SPACES];
    bool writes[WEFT_PHASE_UPDATE + 1]; /* phases that change parameters */
    weft_program_info info;
};

/* Where each kind of buffer begins. */
typedef struct bases {
    weft_memory *inputs, *arena[SPACES], *gradients[SPACES], *slots[SPACES];
    const weft_store *store; /* NULL: entries lie far apart, and nobody reads them */
    weft_memory *lent;       /* of the buffer `borrower`, an input; NULL: it is among the others */
    int borrower;
} bases;

struct weft_instance {
    weft_program *program;
    weft_store *store;
    const weft_comms *comms; /* NULL: one rank */
    bool differs; /* ranks lay a sum's values differently; found while transfers are placed */
    int slot;     /* the present micro-batch */
    bases at;
    weft_memory lent;
    weft_memory *scratch[SPACES];
    weft_queue_event
        *copied;        /* all copies between spaces that have been asked for; NULL: one space */
    bool copying;       /* and not waited for */
    weft_bound **bound; /* [code_count, slots]; in the update, slot 0 */
    struct {
        int slot, instruction;
    } * pending; /* transfers begun and not ended, in this order */
    int pending_count;
    weft_listener listener; /* to gradients; its functions are NULL where nobody listens */
    bool announces;         /* what is made now is final */
    bool awaits;            /* parameters may have to come yet */

    trace_event *trace;
    size_t trace_count, trace_capacity;
};

/* group.c: which nodes run as one instruction, in order of execution. */
typedef struct grouping {
    weft_group *groups;
    int count;
    int *of_node; /* of each node: its group, or -1 */
} grouping;
void weft_grouping_free(grouping *groups);
weft_status weft_group_nodes(const weft_program *program, grouping *out) WEFT_NODISCARD;

/* kernel_select.c: the cheapest kernel. */
typedef struct choice {
    weft_kernel *kernel;
    weft_device *device; /* whose it is */
    char *why;           /* as in an instruction */
} choice;
/* UNSUPPORTED: nobody has a kernel. */
weft_status weft_kernel_choose(weft_program *program, const weft_group *group,
                               choice *out) WEFT_NODISCARD;
/* Seconds of the cheapest candidate, operands lying as it wants them; INFINITY: there is none. */
double weft_group_estimate(const schema *s, const weft_group *group);

/* lower.c: kernels, layouts, versions, instructions. */
weft_status weft_program_lower(weft_program *program, const grouping *groups) WEFT_NODISCARD;

/* value_layouts.c: the first version of a value in this layout (NULL: in any), or NULL. */
version *weft_program_version(const weft_program *program, weft_value value,
                              const weft_layout *layout);
/* The layout a value lies in, or NULL if nothing has chosen one yet. */
weft_status weft_program_layout_of(weft_program *p, weft_value value,
                                   const weft_layout **out) WEFT_NODISCARD;
/* The plain layout of a value's type in a space. */
weft_status weft_version_plain(const weft_program *p, int space, weft_value value,
                               const weft_layout **out) WEFT_NODISCARD;
weft_status weft_version_add(weft_program *p, weft_value value, const weft_layout *layout,
                             int buffer_index) WEFT_NODISCARD;
/* Gives a leaf its first version. layout may be NULL for a leaf of the store that already lies
 * somewhere; for inputs, which the caller fills, it is not looked at. */
weft_status weft_version_place(weft_program *p, weft_value value,
                               const weft_layout *layout) WEFT_NODISCARD;
/* A reorder, or a copy from one space to the other, into a buffer or (buffer < 0) into a new one.
 */
weft_status weft_version_turn(weft_program *p, weft_value value, const weft_layout *from,
                              const weft_layout *to, weft_phase phase,
                              int buffer_index) WEFT_NODISCARD;
/* The buffer of the value in the layout that somebody wants, who only passes it on if `passing`. */
weft_status weft_version_provide(weft_program *p, weft_value value, const weft_layout *want,
                                 weft_phase phase, bool passing, int *out) WEFT_NODISCARD;
/* What it takes to have the value in the layout that somebody wants, in seconds as estimated;
 * INFINITY: it cannot be. What is done once and not in every run does not count. */
weft_status weft_version_seconds(weft_program *p, weft_value value, const weft_layout *want,
                                 double *out) WEFT_NODISCARD;
/* The same for a result in this layout, that belongs where its leaf is or else parameters are. */
weft_status weft_version_back_seconds(const weft_program *p, weft_value value,
                                      const weft_layout *layout, double *out) WEFT_NODISCARD;
/* Puts a value that is to be a leaf's next one into the leaf's place, unless it is there. */
weft_status weft_version_back(weft_program *p, weft_value value, weft_phase phase) WEFT_NODISCARD;
/* lower.c */
weft_status weft_program_add_code(weft_program *p, instruction code) WEFT_NODISCARD;

/* output_buffers.c */
weft_status weft_program_add_buffer(weft_program *p, buffer b, int *out) WEFT_NODISCARD;
/* How a view reads and is read: plain on both sides, or in the order of another value. */
weft_status weft_view_layouts(weft_program *p, const weft_node *node, const weft_layout **in,
                              const weft_layout **out) WEFT_NODISCARD;
/* The buffer of an instruction's result o. The next value of a parameter or state is written where
 * the present one lies. */
weft_status weft_result_buffer(weft_program *p, const instruction *code, int o,
                               int *out) WEFT_NODISCARD;

/* copy.c: a value from one space to the other, plain in both. */
weft_status weft_copy_kernel(const weft_layout *from, const weft_layout *to,
                             weft_kernel **out) WEFT_NODISCARD;

/* transfer.c: a kernel for the group's only node, run by a communicator. */
weft_status weft_transfer_kernel(const weft_program *program, const weft_group *group,
                                 const weft_layout *const *in, weft_kernel **out) WEFT_NODISCARD;

/* That kernel, bound to the communicators of an instance; NULL: in no memory, only to ask for the
 * room. */
weft_status weft_transfer_bind(const weft_kernel *kernel, weft_instance *x,
                               weft_bound **out) WEFT_NODISCARD;
/* Memory that a placed transfer has for bringing parts together. */
size_t weft_transfer_room(const weft_bound *bound);

/* memory.c: lifetimes, sharing, offsets. */
weft_status weft_program_plan(weft_program *program) WEFT_NODISCARD;

/* The buffer whose memory b uses. */
static inline int buffer_root(const weft_program *p, int b)
{
    while (p->buffers[b].alias >= 0) b = p->buffers[b].alias;
    return b;
}
/* Where buffer b begins in the memory of its root. */
static inline size_t buffer_within(const weft_program *p, int b)
{
    size_t within = 0;
    for (; p->buffers[b].alias >= 0; b = p->buffers[b].alias) within += p->buffers[b].within;
    return within;
}
/* instance.c: memory that nobody reads, in which what lies together is found to, and nothing else.
 */
bases weft_bases_nowhere(void);
/* Tells a bound instruction where its operands are in a slot. */
weft_status weft_instruction_place(const weft_program *program, const instruction *code,
                                   const bases *at, int slot, weft_memory *const *scratch,
                                   weft_bound *bound) WEFT_NODISCARD;
/* The input is read there from now on, in all slots, as weft_instance_input would have it laid;
 * NULL: where that is. Nothing is ever written to an input. */
weft_status weft_instance_lend(weft_instance *x, weft_value input, const void *data) WEFT_NODISCARD;
/* Memory of buffer b in a slot. */
weft_address weft_buffer_address(const weft_program *program, const bases *at, int b, int slot);
static inline weft_address weft_instance_address(const weft_instance *x, int b)
{
    return weft_buffer_address(x->program, &x->at, b, x->slot);
}

/* execute.c: one instruction in the present slot, and before it what it waits for, which is nothing
 * if that has ended. */
weft_status weft_instance_end_before(weft_instance *x, int i) WEFT_NODISCARD;
weft_status weft_instance_run_one(weft_instance *x, int i) WEFT_NODISCARD;
/* Until the host may touch what copies read and bring. */
weft_status weft_instance_settle(weft_instance *x) WEFT_NODISCARD;

#endif
