/* Implements kernels that are lists of launches, and the functions that describe launches. */
#include <stdarg.h>
#include <stdio.h>

#include "device/gpu/gpu.h"

typedef struct gpu_bound {
    weft_bound head;
    void **call; /* of each launch: of its routine, or a gpu_call of the driver */
    weft_address guard;
} gpu_bound;

static const gpu_kernel *kernel_of(const weft_bound *bound)
{
    return (const gpu_kernel *)bound->kernel;
}

static weft_status place(weft_bound *bound, const weft_address *in, const weft_address *out,
                         weft_address scratch)
{
    const gpu_kernel *k = kernel_of(bound);
    gpu_argument list[GPU_ARGUMENTS];
    for (int l = 0; l < k->count; l++) {
        const gpu_launch *launch = &k->launch[l];
        for (int i = 0; i < launch->count; i++) {
            gpu_argument *a = &list[i];
            *a = launch->argument[i];
            if (a->kind == GPU_IN) a->address = in[a->index];
            if (a->kind == GPU_OUT) a->address = out[a->index];
            if (a->kind == GPU_SCRATCH) a->address = scratch;
            if (a->kind == GPU_GUARD) a->address = ((gpu_bound *)bound)->guard;
            a->address.offset += a->offset;
        }
        void *call = ((gpu_bound *)bound)->call[l];
        WEFT_TRY(launch->routine ? launch->routine->set(call, list, launch->count)
                                 : k->device->card->driver->set(call, list, launch->count));
    }
    return WEFT_OK;
}

static weft_status run(weft_bound *bound, weft_queue *queue)
{
    const gpu_kernel *k = kernel_of(bound);
    for (int l = 0; l < k->count; l++) {
        const gpu_launch *launch = &k->launch[l];
        void *call = ((gpu_bound *)bound)->call[l];
        weft_status status = launch->routine
                                 ? launch->routine->launch(queue, call)
                                 : k->device->card->driver->launch(queue, call, &launch->grid);
        if (status != WEFT_OK) return weft->fail_within(status, "operator %s", k->what);
    }
    return WEFT_OK;
}

static void unbind(weft_bound *bound)
{
    const gpu_kernel *k = kernel_of(bound);
    void **call = ((gpu_bound *)bound)->call;
    for (int l = 0; call && l < k->count; l++) {
        const gpu_routine *routine = k->launch[l].routine;
        if (call[l])
            (routine ? routine->close(call[l]) : k->device->card->driver->close_call(call[l]));
    }
    free((void *)call);
    free(bound);
}

static bool has(const gpu_launch *launch, gpu_kind kind)
{
    for (int i = 0; i < launch->count; i++)
        if (launch->argument[i].kind == kind) return true;
    return false;
}

weft_status gpu_bound_guard(weft_bound *bound, weft_address flag)
{
    const gpu_kernel *k = kernel_of(bound);
    for (int l = 0; l < k->count; l++)
        if (has(&k->launch[l], GPU_OUT) && !has(&k->launch[l], GPU_GUARD))
            return weft->fail(WEFT_ERR_UNSUPPORTED, "the kernel of %s has no guard", k->what);
    ((gpu_bound *)bound)->guard = flag;
    return WEFT_OK;
}

static const weft_bound_ops bound_ops = {.place = place, .run = run, .destroy = unbind};

static weft_status open_calls(const gpu_kernel *k, gpu_bound *b)
{
    gpu_card *card = k->device->card;
    WEFT_TRY(weft->allocate(sizeof(void *) * (size_t)WEFT_MAX(k->count, 1), (void *)&b->call));
    for (int l = 0; l < k->count; l++) {
        const gpu_launch *launch = &k->launch[l];
        gpu_module *module;
        gpu_call *call;
        if (launch->routine) {
            WEFT_TRY(launch->routine->open(launch->problem, &b->call[l]));
            continue;
        }
        WEFT_TRY(gpu_program_get(card, launch->text, launch->definitions, launch->body, k->what,
                                 &module));
        WEFT_TRY(card->driver->open_call(card, module, launch->function, &call));
        b->call[l] = call;
    }
    return WEFT_OK;
}

static weft_status bind(const weft_kernel *kernel, weft_bound **out)
{
    weft_bound *bound;
    WEFT_TRY(weft->new_bound(kernel, &bound_ops, sizeof(gpu_bound), &bound));
    weft_status status = open_calls((const gpu_kernel *)kernel, (gpu_bound *)bound);
    if (status == WEFT_OK)
        *out = bound;
    else
        unbind(bound);
    return status;
}

static void destroy(weft_kernel *kernel)
{
    gpu_kernel *k = (gpu_kernel *)kernel;
    for (int l = 0; l < k->count; l++) {
        free(k->launch[l].definitions);
        free(k->launch[l].body);
        if (k->launch[l].routine) k->launch[l].routine->destroy(k->launch[l].problem);
    }
    free(k->launch);
    free(k);
}

const weft_kernel_ops gpu_kernel_ops = {.bind = bind, .destroy = destroy};

/* --- descriptions of launches --- */

static const char *type_definitions(const gpu_plan *plan)
{
    bool doubles = plan->kernel->device->card->doubles;
    if (plan->real == WEFT_F64)
        return "#define REAL_IS_DOUBLE 1\ntypedef double real_t;\ntypedef double acc_t;\n";
    return doubles ? "typedef float real_t;\ntypedef double acc_t;\n"
                   : "typedef float real_t;\ntypedef float acc_t;\n";
}

/* Makes room for one more launch, which is counted when it is complete. */
static bool more_launches(gpu_plan *plan)
{
    gpu_kernel *k = plan->kernel;
    gpu_launch *more;
    if (plan->status != WEFT_OK) return false;
    plan->status = weft->allocate(sizeof(*more) * (size_t)(k->count + 1), &more);
    if (plan->status != WEFT_OK) return false;
    if (k->count > 0) memcpy(more, k->launch, sizeof(*more) * (size_t)k->count);
    free(k->launch);
    k->launch = more;
    plan->now = &k->launch[k->count];
    return true;
}

void gpu_routine_add(gpu_plan *plan, const gpu_routine *routine, void *problem)
{
    if (!more_launches(plan)) {
        routine->destroy(problem);
        return;
    }
    plan->now->routine = routine;
    plan->now->problem = problem;
    plan->kernel->count++;
}

void gpu_launch_add(gpu_plan *plan, const gpu_text *text, const char *function, gpu_grid grid,
                    const char *definitions, ...)
{
    if (!more_launches(plan)) return;
    plan->now->text = text;
    plan->now->grid = grid;
    (void)snprintf(plan->now->function, sizeof(plan->now->function), "%s", function);
    char own[512];
    va_list list;
    va_start(list, definitions);
    (void)vsnprintf(own, sizeof(own), definitions, list);
    va_end(list);
    const char *types = type_definitions(plan);
    size_t size = strlen(own) + strlen(types) + 1;
    plan->status = weft->allocate(size, &plan->now->definitions);
    if (plan->status != WEFT_OK) return;
    (void)snprintf(plan->now->definitions, size, "%s%s", types, own);
    plan->kernel->count++;
}

static void append(gpu_plan *plan, gpu_argument argument)
{
    if (plan->status != WEFT_OK) return;
    if (plan->now->count == GPU_ARGUMENTS)
        plan->status =
            weft->fail(WEFT_ERR_UNSUPPORTED, "a kernel of %s would have more than %d arguments",
                       plan->kernel->what, GPU_ARGUMENTS);
    else
        plan->now->argument[plan->now->count++] = argument;
}

void gpu_group_in(gpu_plan *plan, int i)
{
    append(plan, (gpu_argument){.kind = GPU_IN, .index = i});
}

void gpu_group_out(gpu_plan *plan, int i)
{
    append(plan, (gpu_argument){.kind = GPU_OUT, .index = i});
}

void gpu_in(gpu_plan *plan, int i)
{
    gpu_group_in(plan, weft->group_in(plan->group, plan->in[i]));
}

void gpu_out(gpu_plan *plan, int i)
{
    int at = weft->group_out(plan->group, plan->out + i);
    if (at >= 0)
        gpu_group_out(plan, at);
    else
        gpu_scratch(plan, plan->unread[i]);
}

void gpu_scratch(gpu_plan *plan, size_t offset)
{
    append(plan, (gpu_argument){.kind = GPU_SCRATCH, .offset = offset});
}

void gpu_guard(gpu_plan *plan)
{
    append(plan, (gpu_argument){.kind = GPU_GUARD});
}

void gpu_int(gpu_plan *plan, int64_t value)
{
    append(plan, (gpu_argument){.kind = GPU_INT, .whole = (int32_t)value});
}

void gpu_ints(gpu_plan *plan, int count, const int64_t *values)
{
    for (int i = 0; i < count; i++) gpu_int(plan, values[i]);
}

void gpu_real(gpu_plan *plan, double value)
{
    append(plan,
           (gpu_argument){.kind = plan->real == WEFT_F64 ? GPU_DOUBLE : GPU_FLOAT, .real = value});
}

void gpu_acc(gpu_plan *plan, double value)
{
    append(plan,
           (gpu_argument){.kind = plan->kernel->device->card->doubles ? GPU_DOUBLE : GPU_FLOAT,
                          .real = value});
}

size_t gpu_reserve(gpu_plan *plan, size_t bytes)
{
    size_t at = (plan->kernel->head.scratch + 127) / 128 * 128;
    plan->kernel->head.scratch = at + bytes;
    return at;
}

gpu_grid gpu_line(int64_t count, int64_t most)
{
    int64_t groups = WEFT_MAX((count + 255) / 256, (int64_t)1);
    if (most > 0) groups = WEFT_MIN(groups, most);
    return (gpu_grid){{(int)groups, 1, 1}, {256, 1}};
}

gpu_grid gpu_rows(int64_t rows)
{
    return (gpu_grid){{(int)WEFT_MAX(rows, (int64_t)1), 1, 1}, {256, 1}};
}

/* --- nodes --- */

const weft_shape *gpu_in_shape(const gpu_plan *plan, int i)
{
    return &weft->value_type(plan->group->graph, plan->in[i])->shape;
}

const weft_shape *gpu_out_shape(const gpu_plan *plan, int i)
{
    return &weft->value_type(plan->group->graph, plan->out + i)->shape;
}

int64_t gpu_in_size(const gpu_plan *plan, int i)
{
    return weft->elements(gpu_in_shape(plan, i));
}

int64_t gpu_out_size(const gpu_plan *plan, int i)
{
    return weft->elements(gpu_out_shape(plan, i));
}

int64_t gpu_node_int(const weft_node *node, const char *name, int i, int64_t otherwise)
{
    const int64_t *ints;
    int count = weft->node_ints(node, name, &ints);
    return i < count ? ints[i] : otherwise;
}
