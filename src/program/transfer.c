/* Implements transfers between ranks as kernels that begin with one instruction and end before
 * another one. */
#include <stdio.h>

#include "program/instance.h"
#include "program/transfer.h"

#include "base/tree_sum.h"

/* Copies within a memory space; on the device the copies are queued. */
static weft_status run_copies(const transfer *t, const copy *list, int count)
{
    weft_queue *queue = t->of->space == SPACE_DEVICE ? t->instance->queue : NULL;
    for (int i = 0; i < count; i++)
        for (int64_t r = 0; r < list[i].count; r++) {
            weft_address from = weft_beyond(list[i].from, (size_t)r * list[i].from_step);
            weft_address to = weft_beyond(list[i].to, (size_t)r * list[i].to_step);
            size_t n = list[i].bytes / weft_dtype_size(t->of->dtype);
            bool same = from.memory == to.memory && from.offset == to.offset;
            if (list[i].add)
                weft_tree_add(t->of->dtype, weft_host(to), weft_host(from), weft_host(to),
                              (int64_t)n);
            else if (n > 0 && !same)
                WEFT_TRY(weft_copy(queue, to, from, list[i].bytes));
        }
    return WEFT_OK;
}

/* Frees the operation, copies and staging memory of a transfer, which depend on its addresses. */
static void clear(transfer *t)
{
    weft_operation_destroy(&t->operation);
    weft_far_close(&t->far);
    free(t->before);
    free(t->after);
    weft_far_graph_close(&t->pack.graph);
    weft_far_graph_close(&t->unpack.graph);
    weft_memory_free(&t->send_room);
    weft_memory_free(&t->receive_room);
    weft_memory_free(&t->own_room);
    *t = (transfer){.head = t->head,
                    .of = t->of,
                    .comm = t->comm,
                    .instance = t->instance,
                    .differs = t->differs};
}

static weft_status run_packing(const transfer *t, const packing *p)
{
    return p->graph ? weft_far_graph_run(p->graph, p->at, t->instance->queue) : WEFT_OK;
}

static weft_status place(weft_bound *bound, const weft_address *in, const weft_address *out,
                         weft_address scratch)
{
    (void)scratch;
    clear((transfer *)bound);
    return weft_transfer_place((transfer *)bound, in, out);
}

static weft_status run(weft_bound *bound, weft_queue *queue)
{
    transfer *t = (transfer *)bound;
    (void)queue;
    WEFT_TRY(run_copies(t, t->before, t->before_count));
    WEFT_TRY(run_packing(t, &t->pack));
    if (t->far) WEFT_TRY(weft_far_ready(t->far));
    if (t->of->way == REACH_ADDRESS) WEFT_TRY(weft_instance_synchronize(t->instance));
    WEFT_TRY(weft_operation_start(t->operation));
    t->begun = true;
    if (t->zero) memset(t->zero, 0, t->zero_bytes);
    return t->own.count > 0 ? run_copies(t, &t->own, 1) : WEFT_OK;
}

static weft_status finish(weft_bound *bound)
{
    transfer *t = (transfer *)bound;
    if (!t->begun) return WEFT_OK;
    t->begun = false;
    WEFT_TRY(weft_operation_wait(t->operation));
    if (t->far) WEFT_TRY(weft_far_end(t->far));
    WEFT_TRY(run_packing(t, &t->unpack));
    return run_copies(t, t->after, t->after_count);
}

static weft_status poll(weft_bound *bound, bool *done)
{
    return weft_operation_test(((transfer *)bound)->operation, done);
}

int weft_transfer_space(const weft_kernel *kernel)
{
    return ((const transfer_kernel *)kernel)->space;
}

size_t weft_transfer_room(const weft_bound *bound)
{
    return ((const transfer *)bound)->room_bytes;
}

static void unbind(weft_bound *bound)
{
    clear((transfer *)bound);
    free(bound);
}

static const weft_bound_ops bound_ops = {
    .place = place, .run = run, .finish = finish, .poll = poll, .destroy = unbind};

static void destroy(weft_kernel *kernel)
{
    free(kernel);
}

static const weft_kernel_ops ops = {.destroy = destroy};

weft_comm *weft_transfer_comm(const weft_comms *comms, const weft_node *node)
{
    if (!comms) return NULL;
    if (!weft_node_attr(node, "axes")) return comms->learner;
    return comms->axes[weft_node_int(node, "axes", 0, 0) % WEFT_MESH_MASKS];
}

weft_status weft_transfer_bind(const weft_kernel *kernel, weft_instance *x, weft_bound **out)
{
    const transfer_kernel *k = (const transfer_kernel *)kernel;
    weft_comm *comm = x ? weft_transfer_comm(x->comms, k->node) : NULL;
    if (x && (!comm || (k->ranks > 0 && weft_comm_size(comm) != k->ranks)))
        return weft_node_fail(k->node, "needs a communicator of its ranks, which the instance was "
                                       "not given");
    WEFT_TRY(weft_bound_new(kernel, &bound_ops, sizeof(transfer), out));
    transfer *t = (transfer *)*out;
    t->of = k;
    t->comm = comm;
    t->instance = x;
    t->differs = x ? &x->differs : NULL;
    return WEFT_OK;
}

weft_status weft_transfer_kernel(const weft_program *p, const weft_group *group,
                                 const weft_layout *const *in, weft_kernel **out)
{
    transfer_kernel *t;
    const weft_node *node = group->node[0];
    WEFT_TRY(WEFT_NEW(&t, 1));
    t->head.ops = &ops;
    t->schema = p->schema;
    t->graph = group->graph;
    t->node = node;
    t->ranks = (int)weft_node_int(node, "ranks", 0, 0);
    t->dtype = weft_value_type(group->graph, node->in_count > 0 ? node->in[0] : node->out)->dtype;
    t->way = weft_reach_transfer(p->schema, p->graph, node, t->dtype);
    t->space = t->way == REACH_HOST ? SPACE_HOST : SPACE_DEVICE;
    weft_device *device = schema_device(p->schema, t->space);
    t->in_count = group->in_count;
    t->out_count = group->out_count;
    if (t->ranks > 0)
        (void)snprintf(t->head.text, sizeof(t->head.text), "%d ranks%s%s", t->ranks,
                       t->way == REACH_LIBRARY ? ", " : "",
                       t->way == REACH_LIBRARY ? p->schema->reach->by : "");
    else
        (void)snprintf(t->head.text, sizeof(t->head.text), "rank %lld",
                       (long long)weft_node_int(node, "peer", 0, 0));
    bool as_it_lies =
        node->op->in_place[0] && !weft_node_int(node, "plain", 0, 0) &&
        weft_shape_equal(&weft_in(p->graph, node, 0)->shape, &weft_out(p->graph, node, 0)->shape);
    weft_status status = WEFT_OK;
    for (int i = 0; i < group->in_count && status == WEFT_OK; i++) {
        /* The parts of a value (subtree sums of virtual workers) get the layout of its first
         * part. */
        int parts = (int)weft_node_int(node, "parts", 0, 1), like = i - i % parts;
        bool here = in[like] && layout_space(in[like]) == t->space;
        t->head.in[i] = here && (as_it_lies || in[like]->plain) ? in[like] : NULL;
        if (!t->head.in[i])
            status =
                weft_device_plain(device, weft_value_type(p->graph, group->in[i]), &t->head.in[i]);
    }
    for (int o = 0; o < group->out_count && status == WEFT_OK; o++) {
        int parts = (int)weft_node_int(node, "parts", 0, 1);
        int from = (int)(group->out[o] - node->out) * parts;
        int same = as_it_lies ? weft_group_in(group, node->in[from]) : -1;
        if (same >= 0) {
            t->head.out[o] = t->head.in[same];
            if (parts == 1) t->head.in_place[o] = 1u << same;
        } else
            status = weft_device_plain(device, weft_value_type(p->graph, group->out[o]),
                                       &t->head.out[o]);
    }
    if (status != WEFT_OK) {
        destroy(&t->head);
        return status;
    }
    *out = &t->head;
    return WEFT_OK;
}
