/* Plans the memory of a program: the lifetimes of buffers, results in place of inputs, and offsets
 * in an arena (first-fit decreasing). */
#include "program/first_fit.h"
#include "program/program.h"

static void touch(weft_program *p, int b, int at)
{
    buffer *root = &p->buffers[buffer_root(p, b)];
    if (root->first < 0) root->first = at;
    root->last = at;
}

static void find_lifetimes(weft_program *p)
{
    for (size_t i = 0; i < p->code_count; i++) {
        const instruction *code = &p->code[i];
        for (int j = 0; j < code->in_count; j++) touch(p, code->in[j], (int)i);
        for (int j = 0; j < code->out_count; j++) touch(p, code->out[j], (int)i);
    }
    for (size_t b = 0; b < p->buffer_count; b++)
        if (p->buffers[b].keep) {
            buffer *root = &p->buffers[buffer_root(p, (int)b)];
            root->keep = true;
            root->fetched = root->fetched || p->buffers[b].fetched;
            root->last = (int)p->code_count;
        }
}

static bool planned(const buffer *b)
{
    return b->kind == BUFFER_ARENA || b->kind == BUFFER_GRADIENT;
}

/* Finds the first instruction that reads the result of each transfer, before which it must end, and
 * whether the caller reads it, also as a part of it that no instruction copies. */
static weft_status find_finish(weft_program *p)
{
    int *reader; /* of each buffer: the next instruction that reads it, or -1 */
    WEFT_TRY(WEFT_NEW(&reader, p->buffer_count));
    for (size_t b = 0; b < p->buffer_count; b++) reader[b] = -1;
    for (size_t i = p->code_count; i-- > 0;) {
        instruction *code = &p->code[i];
        code->finish = -1;
        for (int o = 0; code->transfer && o < code->out_count; o++) {
            int next = reader[buffer_root(p, code->out[o])];
            if (next >= 0 && (code->finish < 0 || next < code->finish)) code->finish = next;
            code->fetched = code->fetched || p->buffers[buffer_root(p, code->out[o])].fetched;
        }
        for (int k = 0; k < code->in_count; k++) reader[buffer_root(p, code->in[k])] = (int)i;
    }
    free(reader);
    return WEFT_OK;
}

/* Bounds the number of collectives in progress, since a collective holds its arena memory until it
 * ends. A collective must end before the second one after it begins, so one communicates while the
 * next is computed. Collectives in the flat range of gradients, which is never reused, are not
 * bounded. */
static void bound_window(weft_program *p)
{
    enum { UNDER_WAY = 2 };
    for (size_t i = 0; i < p->code_count; i++) {
        instruction *code = &p->code[i];
        if (!code->transfer || !weft_node_attr(code->group.node[0], "axes")) continue;
        bool arena = false;
        for (int j = 0; j < code->in_count; j++)
            arena = arena || p->buffers[buffer_root(p, code->in[j])].kind == BUFFER_ARENA;
        int later = 0;
        for (size_t j = i + 1; j < p->code_count && arena && later < UNDER_WAY; j++) {
            const instruction *next = &p->code[j];
            if (!next->transfer || !weft_node_attr(next->group.node[0], "axes")) continue;
            if (++later == UNDER_WAY && (code->finish < 0 || (int)j < code->finish) &&
                next->phase == code->phase)
                code->finish = (int)j;
        }
    }
}

/* Extends the lifetime of a transfer's inputs until the transfer ends; a send may end at any time.
 * With `sharing`, inputs that the result may overwrite are not extended, so that share_in_place can
 * place the result over them. */
static void keep_inputs(weft_program *p, int i, bool sharing)
{
    const instruction *code = &p->code[i];
    for (int j = 0; j < code->in_count; j++) {
        buffer *in = &p->buffers[buffer_root(p, code->in[j])];
        bool over = false, aliased = false;
        for (int o = 0; o < code->out_count; o++) {
            over = over || code->kernel->in_place[o] & 1u << j;
            aliased = aliased || buffer_root(p, code->out[o]) == buffer_root(p, code->in[j]);
        }
        if (aliased || (sharing && over && in->last == i)) continue;
        in->last = WEFT_MAX(in->last, code->finish < 0 ? (int)p->code_count : code->finish);
        in->hold = in->hold || code->finish < 0;
    }
}

/* Gives each micro-batch slot its own copy of the memory that lives from one phase to another, or
 * that sends in progress may use. */
static void find_slots(weft_program *p)
{
    for (size_t b = 0; b < p->buffer_count && p->slots > 1; b++) {
        buffer *x = &p->buffers[b];
        if (x->kind != BUFFER_ARENA || x->alias >= 0 || x->first < 0) continue;
        weft_phase from = p->code[x->first].phase, to = WEFT_PHASE_UPDATE;
        if (x->last < (int)p->code_count) to = p->code[x->last].phase;
        if (from != WEFT_PHASE_UPDATE && (from != to || x->keep || x->hold)) x->kind = BUFFER_SLOT;
    }
}

/* Extends the lifetime of a transfer's results until the transfer ends, also if nothing reads them,
 * since the transfer writes them until then. */
static void keep_outputs(weft_program *p, int i)
{
    const instruction *code = &p->code[i];
    for (int o = 0; o < code->out_count; o++) {
        buffer *out = &p->buffers[buffer_root(p, code->out[o])];
        out->last = WEFT_MAX(out->last, code->finish < 0 ? (int)p->code_count : code->finish);
        out->hold = out->hold || code->finish < 0;
    }
}

/* Whether a result may be placed over an input as far as sends are concerned. A send may read the
 * result until it is sent again in its slot. An input of an earlier phase is written before that,
 * by the next micro-batch of the slot. */
static bool safe_for_sends(const weft_program *p, const buffer *in, const buffer *out, int i)
{
    return !out->hold || (in->first >= 0 && p->code[in->first].phase == p->code[i].phase);
}

/* Places results of an instruction over inputs that nothing reads afterwards, where its kernel
 * works in place. */
static void share_in_place(weft_program *p, int i)
{
    const instruction *code = &p->code[i];
    for (int o = 0; o < code->out_count; o++) {
        buffer *out = &p->buffers[code->out[o]];
        if (out->alias >= 0 || !planned(out)) continue;
        for (int j = 0; j < code->in_count; j++) {
            if (!(code->kernel->in_place[o] & 1u << j)) continue;
            int root = buffer_root(p, code->in[j]);
            buffer *in = &p->buffers[root];
            if (!planned(in) || in->space != out->space || in->last != i || in->keep ||
                in->bytes != out->bytes || root == code->out[o] || !safe_for_sends(p, in, out, i))
                continue;
            if (out->kind == BUFFER_GRADIENT) in->kind = BUFFER_GRADIENT;
            in->last = WEFT_MAX(in->last, out->last);
            in->keep = out->keep;
            out->alias = root;
            break;
        }
    }
}

/* Places gradients one after another in the order in which they are completed, so that those of a
 * bucket are adjacent. */
static size_t lay_gradients(weft_program *p, int space)
{
    size_t bytes = 0;
    for (size_t i = 0; i < p->code_count; i++)
        for (int o = 0; o < p->code[i].out_count; o++) {
            buffer *b = &p->buffers[buffer_root(p, p->code[i].out[o])];
            if (b->kind != BUFFER_GRADIENT || b->space != space || b->offset != SIZE_MAX) continue;
            b->offset = bytes;
            bytes += (b->bytes + 63) / 64 * 64;
        }
    return bytes;
}

typedef struct sized {
    size_t bytes;
    int buffer;
} sized;

static int largest_first(const void *a, const void *b)
{
    const sized *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return (x->buffer > y->buffer) - (x->buffer < y->buffer);
}

/* Places the buffers of the arena by first-fit decreasing: the largest first, each at the lowest
 * offset that is free during its lifetime. */
static weft_status lay_arena(weft_program *p, int space, size_t *bytes)
{
    sized *order = NULL;
    weft_first_fit *fit = NULL;
    int count = 0;
    weft_status status = WEFT_OK;
    *bytes = 0;
    WEFT_TRY_GOTO(WEFT_NEW(&order, p->buffer_count), done);
    /* A buffer that is kept lives to the end, behind the last instruction. */
    WEFT_TRY_GOTO(weft_first_fit_new((int)p->code_count + 1, &fit), done);
    for (size_t b = 0; b < p->buffer_count; b++) {
        buffer *x = &p->buffers[b];
        if (x->hold) x->first = 0;
        if (x->kind == BUFFER_ARENA && x->space == space && x->alias < 0 && x->offset == SIZE_MAX &&
            x->first >= 0)
            order[count++] = (sized){x->bytes, (int)b};
    }
    qsort(order, (size_t)count, sizeof(*order), largest_first);
    for (int i = 0; i < count; i++) {
        buffer *x = &p->buffers[order[i].buffer];
        WEFT_TRY_GOTO(weft_first_fit_place(fit, x->first, x->last, x->bytes, &x->offset), done);
        *bytes = WEFT_MAX(*bytes, x->offset + x->bytes);
    }
done:
    free(order);
    weft_first_fit_free(&fit);
    return status;
}

/* Places buffers of a kind one after another, since all of them live at the same time. */
static size_t lay_kind(weft_program *p, buffer_kind kind, int space)
{
    size_t bytes = 0;
    for (size_t b = 0; b < p->buffer_count; b++)
        if (p->buffers[b].kind == kind && p->buffers[b].space == space && p->buffers[b].alias < 0) {
            p->buffers[b].offset = bytes;
            bytes += (p->buffers[b].bytes + 63) / 64 * 64;
        }
    return bytes;
}

/* Store entries that get a place. */
typedef struct placing {
    int *order, count;
    bool *seen;
} placing;

/* Adds the entry of which a value is the gradient, if it is one. */
static void place_by(const weft_program *p, placing *all, weft_value value)
{
    weft_value leaf = p->graph->values[value].gradient_of;
    int entry =
        leaf == WEFT_NO_VALUE ? -1 : weft_schema_find(p->schema, p->graph->values[leaf].name);
    if (entry < 0 || all->seen[entry]) return;
    all->seen[entry] = true;
    all->order[all->count++] = entry;
}

/* Places new store entries in the order in which their gradients are completed; entries without a
 * gradient follow in the order of first use. Devices complete gradients in different orders: plain
 * entries, which must lie alike on all, are in the order of the graph. */
weft_status weft_program_place(weft_program *p)
{
    placing all = {0};
    weft_status status = WEFT_OK;
    WEFT_TRY_GOTO(WEFT_NEW(&all.order, p->schema->count), done);
    WEFT_TRY_GOTO(WEFT_NEW(&all.seen, p->schema->count), done);
    for (size_t v = 0; v < p->graph->value_count && p->schema->plain; v++)
        place_by(p, &all, (weft_value)v);
    for (size_t i = 0; i < p->code_count; i++)
        for (int o = 0; o < p->code[i].out_count && !p->code[i].reorder; o++)
            place_by(p, &all, p->code[i].group.out[o]);
    for (size_t e = 0; e < p->schema->count; e++)
        if (!all.seen[e] && p->schema->entries[e].layout) all.order[all.count++] = (int)e;
    WEFT_TRY_GOTO(weft_schema_place(p->schema, all.order, all.count), done);
done:
    free(all.order);
    free(all.seen);
    return status;
}

/* Computes the staging memory of all transfers, by binding them to placeholder memory. */
static weft_status count_rooms(weft_program *p)
{
    const bases nowhere = weft_bases_nowhere();
    for (size_t i = 0; i < p->code_count; i++) {
        const instruction *code = &p->code[i];
        size_t times = code->phase == WEFT_PHASE_UPDATE ? 1 : (size_t)p->slots;
        weft_bound *bound = NULL;
        if (!code->transfer) continue;
        WEFT_TRY(weft_transfer_bind(code->kernel, NULL, &bound));
        weft_status status = weft_instruction_place(p, code, &nowhere, 0, NULL, bound);
        p->room_bytes[code->space] += times * weft_transfer_room(bound);
        bound->ops->destroy(bound);
        WEFT_TRY(status);
    }
    p->info.transfer_bytes = p->room_bytes[SPACE_HOST] + p->room_bytes[SPACE_DEVICE];
    p->info.device_bytes += p->room_bytes[SPACE_DEVICE];
    return WEFT_OK;
}

static void find_writes(weft_program *p)
{
    for (size_t i = 0; i < p->code_count; i++)
        for (int o = 0; o < p->code[i].out_count; o++) {
            const buffer *b = &p->buffers[buffer_root(p, p->code[i].out[o])];
            if (b->kind == BUFFER_STORE || b->kind == BUFFER_DERIVED)
                p->changes[p->code[i].phase] = true;
            if (b->kind == BUFFER_STORE && p->schema->entries[b->entry].kind == WEFT_VALUE_PARAM)
                p->writes[p->code[i].phase] = true;
        }
}

/* Computes the memory that the parameters and the state of a store take. */
static void count_store(weft_program *p)
{
    for (size_t e = 0; e < p->schema->count; e++) {
        const store_entry *entry = &p->schema->entries[e];
        size_t bytes = weft_entry_bytes(entry);
        *(entry->kind == WEFT_VALUE_PARAM ? &p->info.parameter_bytes : &p->info.state_bytes) +=
            bytes;
    }
}

/* Computes what the program and a store of its model take of the memory of a device with its own.
 */
static weft_status count_device(weft_program *p)
{
    weft_program_info *info = &p->info;
    const int own = SPACE_DEVICE;
    const weft_device *device = p->schema->devices[0];
    if (device->ops->about) info->device_about = device->ops->about(device);
    if (schema_own(p->schema) != own) return WEFT_OK;
    info->device_bytes = p->arena_bytes[own] + p->gradient_bytes[own] + p->scratch_bytes[own] +
                         p->slot_bytes[own] * (size_t)p->slots + p->sequence_bytes;
    if (schema_home(p->schema) == own)
        info->device_bytes += info->parameter_bytes + info->state_bytes;
    return weft_memory_usage(p->schema->devices[0], &info->device_total, &info->device_free);
}

weft_status weft_program_plan(weft_program *p)
{
    weft_program_info *info = &p->info;
    for (size_t b = 0; b < p->buffer_count; b++) p->buffers[b].offset = SIZE_MAX;
    find_lifetimes(p);
    WEFT_TRY(find_finish(p));
    bound_window(p);
    for (size_t i = 0; i < p->code_count; i++)
        if (p->code[i].transfer) {
            keep_inputs(p, (int)i, true);
            keep_outputs(p, (int)i);
        }
    for (size_t i = 0; i < p->code_count; i++) share_in_place(p, (int)i);
    for (size_t i = 0; i < p->code_count; i++)
        if (p->code[i].transfer) keep_inputs(p, (int)i, false);
    find_slots(p);
    p->input_bytes = lay_kind(p, BUFFER_INPUT, SPACE_HOST);
    info->input_bytes = p->input_bytes * (size_t)p->slots;
    p->sequence_bytes = lay_kind(p, BUFFER_SEQUENCE, schema_own(p->schema));
    info->sequence_bytes = p->sequence_bytes;
    for (int s = 0; s < SPACES; s++) {
        p->gradient_bytes[s] = lay_gradients(p, s);
        WEFT_TRY(lay_arena(p, s, &p->arena_bytes[s]));
        p->slot_bytes[s] = lay_kind(p, BUFFER_SLOT, s);
        info->gradient_bytes += p->gradient_bytes[s];
        info->arena_bytes += p->arena_bytes[s];
        info->slot_bytes += p->slot_bytes[s] * (size_t)p->slots;
    }
    for (size_t i = 0; i < p->code_count; i++) {
        size_t *scratch = &p->scratch_bytes[p->code[i].space];
        *scratch = WEFT_MAX(*scratch, p->code[i].kernel->scratch);
        info->reorders += p->code[i].reorder;
        info->fallbacks += p->code[i].fallback;
        info->flops += p->code[i].flops;
        if (p->code[i].phase == WEFT_PHASE_UPDATE) info->update_flops += p->code[i].flops;
    }
    for (int s = 0; s < SPACES; s++) info->scratch_bytes += p->scratch_bytes[s];
    info->instructions = (int)p->code_count;
    if (!p->dry) WEFT_TRY(weft_program_place(p));
    find_writes(p);
    count_store(p);
    WEFT_TRY(count_device(p));
    return count_rooms(p);
}
