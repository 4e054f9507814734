/* Implements the interface of the cpu device: it opens oneDNN, lists candidates for groups, and
 * creates kernels and reorders. */
#include "base/core_lists.h"
#include "device/cpu/in_f32.h"
#include "device/cpu/packed.h"
#include "device/cpu/pair_blocks.h"

static const cpu_entry *const tables[] = {
#define TABLE(file) cpu_##file##_entries,
    CPU_FILES(TABLE)
#undef TABLE
};

static void device_close(weft_device *device)
{
    onednn_close(cpu_onednn(device));
    free(device);
}

/* The threads of a device on these cores ("cores=0-3"), to which the trainer binds its rank. */
static weft_status threads_of(weft_context *context, const char *arguments, int *threads)
{
    static const char key[] = "cores=";
    int cores = 0;
    *threads = weft_context_threads(context);
    if (!*arguments) return WEFT_OK;
    if (strncmp(arguments, key, sizeof(key) - 1) != 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "device cpu: '%s' is none of its options; there is cores=LIST, such as "
                         "cores=0-3",
                         arguments);
    weft_status status = weft_core_list_count(arguments + sizeof(key) - 1, &cores);
    *threads = WEFT_MIN(*threads, cores);
    return status == WEFT_OK ? WEFT_OK : weft_fail_within(status, "device cpu");
}

static weft_status device_open(weft_context *context, const char *arguments, weft_device **out)
{
    cpu_device *d;
    int threads = 1;
    WEFT_TRY(threads_of(context, arguments, &threads));
    WEFT_TRY(WEFT_NEW(&d, 1));
    d->head.threads = threads;
    weft_status status = weft_parallel_threads(d->head.threads);
    if (status == WEFT_OK) status = weft_reserve_enter();
    if (status == WEFT_OK) {
        status = onednn_open(&d->library);
        d->narrow = onednn_bf16() != NULL;
        d->amx = onednn_has_amx();
        weft_reserve_leave();
    }
    if (status != WEFT_OK) {
        device_close(&d->head);
        return status;
    }
    *out = &d->head;
    return WEFT_OK;
}

/* Whether all real values of the group are f32, or bf16 if `narrow` is set. */
static bool is_single(const weft_group *group, bool narrow)
{
    const weft_graph *g = group->graph;
    for (int n = 0; n < group->count; n++) {
        const weft_node *node = group->node[n];
        for (int i = 0; i < node->in_count + node->out_count; i++) {
            const weft_type *t =
                i < node->in_count ? weft_in(g, node, i) : weft_out(g, node, i - node->in_count);
            if (weft_dtype_is_float(t->dtype) && t->dtype != WEFT_F32 &&
                !(narrow && t->dtype == WEFT_BF16))
                return false;
        }
    }
    return true;
}

static void add_candidate(const weft_device *device, const cpu_entry *e, const weft_group *group,
                          const weft_layout *const *in, weft_candidate *out, int *count)
{
    const cpu_device *d = (const cpu_device *)device;
    bool narrow = e->narrow == CPU_ANY || (e->narrow != CPU_WIDE && d->narrow);
    if (*count == WEFT_CANDIDATES || !is_single(group, narrow) || !e->supports(group)) return;
    double seconds =
        e->seconds ? e->seconds(group, in) : weft_group_seconds(&device->ops->rates, group);
    if (e->narrow == CPU_PAIRS && d->amx && !is_single(group, false)) seconds *= CPU_SLOWER;
    out[(*count)++] = (weft_candidate){e->name, seconds, e};
}

/* How much longer than a kernel for bf16 one takes that converts all values to f32, which have
 * twice the bytes, and back. */
static const double IN_F32 = 6;

int cpu_candidates(weft_device *device, const weft_group *group, const weft_layout *const *in,
                   weft_candidate out[WEFT_CANDIDATES])
{
    int count = 0;
    const char *op = group->node[0]->op->name;
    for (size_t t = 0; t < WEFT_COUNT(tables); t++)
        for (const cpu_entry *e = tables[t]; e->op; e++)
            if (*e->op == *op && strcmp(e->op, op) == 0)
                add_candidate(device, e, group, in, out, &count);
    if (count == 0) add_candidate(device, &cpu_element_entry, group, in, out, &count);
    int own = count;
    if (cpu_in_f32_has(device, group))
        add_candidate(device, &cpu_in_f32_entry, group, in, out, &count);
    if (count > own) out[own].seconds = IN_F32 * weft_group_seconds(&device->ops->rates, group);
    return count;
}

/* Seconds that it takes to give a team of threads its work and to wait for the last one. */
static const double TEAM = 1e-5;

/* A primitive is created for a number of threads, and runs with that: with one, if it takes so many
 * seconds on all that a team would cost more than it saves. On a busy machine a team costs far
 * more, since it waits for the core of its last thread. Loops have a least number of items for
 * each thread (weft_parallel). */
static weft_status set_threads(const weft_device *device, double seconds)
{
    bool small = seconds * (device->threads - 1) < TEAM;
    return weft_parallel_threads(small ? 1 : device->threads);
}

weft_status cpu_kernel(weft_device *device, const weft_group *group,
                       const weft_candidate *candidate, const weft_layout *const *in,
                       weft_kernel **out)
{
    WEFT_TRY(set_threads(device, candidate->seconds));
    return ((const cpu_entry *)candidate->how)->make(device, group, in, out);
}

static weft_status kernel(weft_device *device, const weft_group *group,
                          const weft_candidate *candidate, const weft_layout *const *in,
                          weft_kernel **out)
{
    WEFT_TRY(weft_reserve_enter());
    weft_status status = cpu_kernel(device, group, candidate, in, out);
    weft_reserve_leave();
    return status;
}

/* Creates a reorder between two layouts. Both descriptors have the logical dimensions of the layout
 * that is not plain. The caller is within weft_reserve_enter. */
weft_status cpu_reorder(weft_device *device, const weft_type *type, const weft_layout *from,
                        const weft_layout *to, weft_kernel **out)
{
    const cpu_layout *odd = (const cpu_layout *)(from->plain ? to : from);
    cpu_md plain;
    if (!to->plain && ((const cpu_layout *)to)->packed) {
        WEFT_TRY(cpu_packed_reorder(device, from, to, out));
        (*out)->in[0] = from;
        (*out)->out[0] = to;
        return WEFT_OK;
    }
    if (from->plain && to->plain)
        WEFT_TRY(cpu_md_of_type(device, type, &plain));
    else
        plain = odd->plain;
    onednn_spec s = {.kind = ONEDNN_REORDER,
                     .x = from->plain ? plain : ((const cpu_layout *)from)->md,
                     .y = to->plain ? plain : ((const cpu_layout *)to)->md};
    cpu_arg args[] = {
        {ONEDNN_X, CPU_IN, 0, plain, false},
        {ONEDNN_Y, CPU_OUT, 0, plain, false},
    };
    if (cpu_pair_blocks_has(s.x, s.y))
        WEFT_TRY(cpu_pair_blocks_make(device, s.x, s.y, out));
    else
        WEFT_TRY(cpu_spec_make(device, &s, args, 2, out));
    (*out)->in[0] = from;
    (*out)->out[0] = to;
    return WEFT_OK;
}

static weft_status reorder(weft_device *device, const weft_type *type, const weft_layout *from,
                           const weft_layout *to, weft_kernel **out)
{
    double bytes = 2 * (double)weft_type_bytes(type);
    WEFT_TRY(set_threads(device, weft_rates_seconds(&device->ops->rates, 0, bytes)));
    WEFT_TRY(weft_reserve_enter());
    weft_status status = cpu_reorder(device, type, from, to, out);
    weft_reserve_leave();
    return status;
}

static const char *precision(const weft_device *device, weft_dtype dtype)
{
    (void)device;
    if (dtype != WEFT_BF16) return NULL;
    const char *has = onednn_bf16();
    return !has ? "the processor has no instructions for products of bf16 numbers (AVX512-BF16, "
                  "AMX), "
                  "so they are computed in f32 and --dtype f32 is faster"
           : strcmp(has, "AMX") == 0 ? "AMX of the processor computes products"
                                     : "AVX512-BF16 of the processor computes products";
}

const weft_device_ops weft_device_cpu = {
    .struct_size = sizeof(weft_device_ops),
    .name = "cpu",
    .summary = "oneDNN on all cores, float32; other operators run on the reference device",
    .open = device_open,
    .close = device_close,
    .plain = weft_layout_plain,
    .rates = {.flops = 1.1e11, .bytes = 5e10, .start = 3e-7},
    .candidates = cpu_candidates,
    .kernel = kernel,
    .reorder = reorder,
    .precision = precision,
};
