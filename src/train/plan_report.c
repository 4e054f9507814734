/* Describes a plan as text (weft plan): memory, computation and communication of each rank. The
 * ranks are planned one after the other, and nothing is run. */
#include <stdio.h>

#include "models/models.h"
#include "ops/ops.h"
#include "program/program.h"
#include "rewrite/rewrite.h"
#include "train/trainer.h"

/* Totals of a rank's program for one step. */
typedef struct figures {
    weft_program_info info;
    double flops;   /* of what the program runs, over all micro-batches */
    double bytes;   /* bytes that the rank sends to other ranks of its learner */
    double rounded; /* bytes of gradients in bf16 that are sent, and of their sums */
    double pass[2]; /* forward and backward of one micro-batch, in the units of the cost model */
    int transfers;
    char about[256];   /* the device's words; empty: it has none */
    size_t evaluation; /* bytes of the device's memory for the evaluation beside the training */
    char lack[2]
             [320]; /* the refusal of the program, and of that of the evaluation; empty: it fits */
} figures;

/* The bytes of f32 operands of a transfer that are rounded to bf16 for it, and of its results. */
static double rounded_bytes(const weft_graph *g, const weft_node *node)
{
    double bytes = 0, results = 0;
    for (int i = 0; i < node->in_count; i++) {
        const weft_type *type = weft_in(g, node, i);
        int producer = g->values[node->in[i]].node;
        const weft_node *from = producer < 0 ? NULL : g->nodes[producer];
        if (type->dtype == WEFT_BF16 && from && from->in_count == 1 &&
            weft_in(g, from, 0)->dtype == WEFT_F32)
            bytes += (double)weft_type_bytes(type);
    }
    for (int o = 0; o < node->out_count && bytes > 0; o++)
        results += (double)weft_type_bytes(weft_out(g, node, o));
    return bytes + results;
}

static void count_nodes(const weft_graph *g, int64_t microbatches, figures *f)
{
    const weft_program_info *info = &f->info;
    f->flops = (double)microbatches * (info->flops - info->update_flops) + info->update_flops;
    for (size_t n = 0; n < g->node_count; n++) {
        const weft_node *node = g->nodes[n];
        double times = node->phase == WEFT_PHASE_UPDATE ? 1 : (double)microbatches;
        weft_cost cost = weft_graph_node_cost(g, (int)n);
        if (node->phase != WEFT_PHASE_UPDATE && !node->op->transfer)
            f->pass[node->phase] += cost.flops + 4 * cost.bytes;
        if (!node->op->transfer) continue;
        f->transfers++;
        f->rounded += rounded_bytes(g, node);
        f->bytes += times * (double)weft_transfer_elements(g, node) *
                    (double)weft_dtype_size(weft_out(g, node, 0)->dtype);
    }
}

static void bytes_text(double bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int u = 0;
    for (; bytes >= 9999.5 && u < 4; u++) bytes /= 1000;
    (void)snprintf(out, size, "%.0f %s", bytes, units[u]);
}

static void add_rank(weft_text *text, const weft_plan *plan, int rank, const figures *f)
{
    char place[64] = "", size[7][32];
    int at = 0;
    for (int a = 0; weft_axis_name(a); a++)
        if (weft_plan_axis(plan, a) > 1)
            at += snprintf(place + at, sizeof(place) - (size_t)at, "%s%s %d", at ? ", " : "",
                           weft_axis_name(a), weft_plan_coordinate(plan, rank, a));
    const double sizes[] = {
        (double)f->info.parameter_bytes,
        (double)f->info.state_bytes,
        (double)f->info.gradient_bytes,
        (double)(f->info.arena_bytes + f->info.slot_bytes + f->info.input_bytes),
        (double)f->info.scratch_bytes,
        (double)f->info.transfer_bytes,
        f->bytes};
    for (int i = 0; i < 7; i++) bytes_text(sizes[i], size[i], sizeof(size[i]));
    weft_text_add(text, "%4d  %-34s %9s %9s %9s %11s %9s %9s  %9.2f %9s %9d\n", rank,
                  *place ? place : "all", size[0], size[1], size[2], size[3], size[4], size[5],
                  f->flops / 1e9, size[6], f->transfers);
}

/* Adds a line on what --sum-dtype bf16 takes beside the gradients themselves. */
static void add_rounded(weft_text *text, int rank, const figures *f)
{
    char size[32];
    bytes_text(f->rounded, size, sizeof(size));
    if (f->rounded > 0)
        weft_text_add(
            text, "%4d  among activations, gradients rounded to bf16 and their sums: up to %s\n",
            rank, size);
}

/* Adds a line on the memory of the rank's device, if that has its own. */
static void add_device(weft_text *text, int rank, const figures *f)
{
    char need[32], free[32], total[32];
    const weft_program_info *info = &f->info;
    if (*f->about) weft_text_add(text, "%4d  on %s\n", rank, f->about);
    if (info->device_bytes == 0) return;
    bytes_text((double)info->device_bytes, need, sizeof(need));
    bytes_text((double)info->device_free, free, sizeof(free));
    bytes_text((double)info->device_total, total, sizeof(total));
    weft_text_add(text, "%4d  of this in the memory of its device: %s", rank, need);
    if (info->device_total > 0) weft_text_add(text, " (%s of %s are free)", free, total);
    if (*f->lack[0]) weft_text_add(text, "; it does not fit: %s", f->lack[0]);
    weft_text_add(text, "\n");
    if (f->evaluation == 0) return;
    bytes_text((double)f->evaluation, need, sizeof(need));
    weft_text_add(text, "%4d  of that memory for the evaluation: %s more", rank, need);
    if (*f->lack[1]) weft_text_add(text, "; it does not fit: %s", f->lack[1]);
    weft_text_add(text, "\n");
}

static const char *axes_text(const weft_node *node, char *out, size_t size)
{
    int at = 0, mask = (int)weft_node_int(node, "axes", 0, 0);
    *out = '\0';
    for (int a = 0; a < 3; a++)
        if (mask & 1 << a)
            at += snprintf(out + at, size - (size_t)at, "%s%s", at ? "+" : "", weft_axis_name(a));
    if (!mask) (void)snprintf(out, size, "rank %lld", (long long)weft_node_int(node, "peer", 0, 0));
    return out;
}

static void add_transfers(weft_text *text, const weft_graph *g, int rank, int64_t microbatches)
{
    weft_text_add(text, "\nTransfers of rank %d, in order:\n", rank);
    weft_text_add(text, "  %-9s %5s  %-14s %-14s %12s  %s\n", "phase", "times", "operation", "over",
                  "bytes sent", "what");
    for (int phase = 0; phase < 3; phase++)
        for (size_t n = 0; n < g->node_count; n++) {
            const weft_node *node = g->nodes[n];
            char axes[64];
            if (!node->op->transfer || (int)node->phase != phase) continue;
            weft_text_add(text, "  %-9s %5lld  %-14s %-14s %12.0f  %s",
                          weft_phase_name((weft_phase)phase),
                          phase == WEFT_PHASE_UPDATE ? 1LL : (long long)microbatches,
                          node->op->name, axes_text(node, axes, sizeof(axes)),
                          (double)weft_transfer_elements(g, node) *
                              (double)weft_dtype_size(weft_out(g, node, 0)->dtype),
                          node->name);
            if (node->in_count > 1) weft_text_add(text, " and %d more", node->in_count - 1);
            weft_text_add(text, "\n");
        }
}

/* --- planning without running --- */

/* Whether the device has room for a program beside what takes it before; *free: the bytes that are
 * left. */
static void check_room(const weft_program *program, size_t *free, char *lack, size_t size)
{
    size_t need = weft_program_own_bytes(program);
    size_t total = weft_program_describe(program).device_total;
    if (weft_program_fits(program, total, *free) != WEFT_OK)
        (void)snprintf(lack, size, "%s", weft_last_message());
    *free -= WEFT_MIN(need, *free);
}

/* The device holds the store, the training program, and the one that evaluates. */
static weft_status check_memory(const weft_rank *r, weft_store *store, const weft_program *program,
                                figures *f)
{
    weft_program *evaluation;
    size_t stored = f->info.device_bytes - weft_program_own_bytes(program);
    size_t free = f->info.device_free - WEFT_MIN(stored, f->info.device_free);
    if (f->info.device_bytes == 0) return WEFT_OK;
    check_room(program, &free, f->lack[0], sizeof(f->lack[0]));
    WEFT_TRY(weft_rank_dry_evaluation_on(r, store, true, NULL, &evaluation));
    if (!evaluation) return WEFT_OK;
    f->evaluation = weft_program_own_bytes(evaluation);
    check_room(evaluation, &free, f->lack[1], sizeof(f->lack[1]));
    weft_program_destroy(&evaluation);
    return WEFT_OK;
}

static weft_status add_dump(const weft_rank *r, const weft_program *program, weft_text *dump)
{
    char *text = NULL;
    WEFT_TRY(weft_graph_text(weft_rewritten_graph(r->mine), &text));
    weft_text_add(dump, "\nGraph of rank %d:\n%s", r->rank, text);
    free(text);
    WEFT_TRY(weft_program_text(program, &text));
    weft_text_add(dump, "\nProgram of rank %d:\n%s", r->rank, text);
    free(text);
    return WEFT_OK;
}

/* Finds the figures of a rank whose program is planned on the store. */
static weft_status describe_program(const weft_rank *r, weft_store *store,
                                    const weft_program *program, figures *f)
{
    weft_program *averages = NULL;
    f->info = weft_program_describe(program);
    WEFT_TRY(weft_averages_dry_program(r, store, &averages));
    if (averages) f->info.state_bytes = weft_program_describe(averages).state_bytes;
    weft_program_destroy(&averages);
    if (f->info.device_about)
        (void)snprintf(f->about, sizeof(f->about), "%s", f->info.device_about);
    count_nodes(weft_rewritten_graph(r->mine), r->run_spec->microbatches, f);
    return check_memory(r, store, program, f);
}

static weft_status add_schedule(weft_text *text, const weft_trainer *t, const weft_plan *plan,
                                const figures *all)
{
    double *forward, bubble = 0, balanced;
    int stages = weft_plan_places(plan), each = t->mesh / stages;
    if (stages == 1) return WEFT_OK;
    if (t->options.parallel.place) return WEFT_OK; /* places of --place need not form a chain */
    WEFT_TRY(WEFT_NEW(&forward, 2 * (size_t)stages));
    double *backward = forward + stages;
    for (int s = 0; s < stages; s++) {
        forward[s] = all[s * each].pass[0];
        backward[s] = all[s * each].pass[1];
    }
    weft_status status =
        weft_schedule_check(t->context, t->options.parallel.schedule, stages,
                            (int)t->run_spec.microbatches, forward, backward, NULL, &bubble);
    free(forward);
    WEFT_TRY(status);
    balanced = (double)(stages - 1) / (double)(t->run_spec.microbatches + stages - 1);
    weft_text_add(text,
                  "\nschedule %s: %d stages, %lld micro-batches: stages wait %.1f %% of the time "
                  "(%.1f %% if they were equal)\n",
                  t->options.parallel.schedule, stages, (long long)t->run_spec.microbatches,
                  100 * bubble, 100 * balanced);
    return WEFT_OK;
}

/* --- all ranks --- */

struct weft_plan_report {
    weft_trainer *t;
    figures *all; /* [ranks of the mesh] */
    int dump_rank;
    weft_text lists;
};

weft_status weft_plan_report_new(weft_trainer *t, int dump_rank, weft_plan_report **out)
{
    weft_plan_report *d;
    *out = NULL;
    if (dump_rank >= t->mesh)
        return weft_fail(WEFT_ERR_ARGUMENT, "there is no rank %d; the mesh has %d", dump_rank,
                         t->mesh);
    WEFT_TRY(WEFT_NEW(&d, 1));
    *d = (weft_plan_report){.t = t, .dump_rank = dump_rank};
    *out = d;
    return WEFT_NEW(&d->all, t->mesh);
}

void weft_plan_report_free(weft_plan_report **report)
{
    weft_plan_report *d = *report;
    *report = NULL;
    if (!d) return;
    free(d->lists.data);
    free(d->all);
    free(d);
}

/* The bytes that a rank with this index sends in an all-reduce. */
static double sent_at(const weft_graph *g, const weft_node *node, int64_t index)
{
    weft_attr attrs[WEFT_MAX_INTS];
    weft_node other = *node;
    other.attrs = attrs;
    for (int i = 0; i < node->attr_count; i++) {
        attrs[i] = node->attrs[i];
        if (strcmp(attrs[i].name, "index") == 0) attrs[i].ints[0] = index;
    }
    return (double)weft_transfer_elements(g, &other) *
           (double)weft_dtype_size(weft_out(g, node, 0)->dtype);
}

/* Ranks of a kind share out the elements of an all-reduce in parts that may differ by one: adds to
 * the bytes of the others what they send more than rank r. */
static void add_uneven(const weft_plan_report *d, const weft_rank *r, const int *kind)
{
    const weft_graph *g = weft_rewritten_graph(r->mine);
    for (size_t n = 0; n < g->node_count; n++) {
        const weft_node *node = g->nodes[n];
        const weft_transfer_traits *t = node->op->transfer;
        double times = node->phase == WEFT_PHASE_UPDATE ? 1 : (double)r->run_spec->microbatches;
        int mask = (int)weft_node_int(node, "axes", 0, 0);
        int64_t ranks, mine = weft_plan_index(r->plan, mask, r->rank, &ranks);
        if (!t || !t->sums || !t->whole_out || node->attr_count > WEFT_MAX_INTS ||
            sent_at(g, node, 0) == sent_at(g, node, ranks - 1))
            continue;
        for (int other = r->rank + 1; other < d->t->mesh; other++)
            if (kind[other] == kind[r->rank])
                d->all[other].bytes +=
                    times * (sent_at(g, node, weft_plan_index(r->plan, mask, other, &ranks)) -
                             sent_at(g, node, mine));
    }
}

/* Ranks of a kind have the figures of its lowest rank. Transfers are listed for the first rank of
 * each place. */
weft_status weft_plan_report_add(void *report, weft_rank *r, weft_store *store,
                                 const weft_program *program, size_t before, const int *kind)
{
    weft_plan_report *d = report;
    figures *f = &d->all[r->rank];
    int each = d->t->mesh / weft_plan_places(r->plan);
    (void)before;
    if (r->rank == d->dump_rank) WEFT_TRY(add_dump(r, program, &d->lists));
    if (!weft_kind_first(kind, r->rank)) return WEFT_OK;
    WEFT_TRY(describe_program(r, store, program, f));
    if (r->rank % each == 0)
        add_transfers(&d->lists, weft_rewritten_graph(r->mine), r->rank, r->run_spec->microbatches);
    for (int other = r->rank + 1; other < d->t->mesh; other++)
        if (kind[other] == kind[r->rank]) d->all[other] = *f;
    add_uneven(d, r, kind);
    return r->rank == 0 ? weft_trainer_check_servers(d->t) : WEFT_OK;
}

static void add_head(weft_text *text, const weft_trainer *t)
{
    weft_text_add(text, "%s on %s: batch %lld, %d rank%s%s, %lld micro-batch%s\n\n",
                  t->options.task.model, t->options.task.data, (long long)t->options.length.batch,
                  t->size, weft_plural(t->size), t->learners > 1 ? " in several learners" : "",
                  (long long)t->run_spec.microbatches, t->run_spec.microbatches == 1 ? "" : "es");
    weft_text_add(text, "%4s  %-34s %9s %9s %9s %11s %9s %9s  %9s %9s %9s\n", "rank", "place",
                  "weights", "state", "gradients", "activations", "scratch", "staging", "GFLOP",
                  "sends", "transfers");
}

static void add_ranks(weft_text *text, const weft_trainer *t, const figures *all)
{
    double bytes = 0;
    char size[32];
    for (int r = 0; r < t->mesh; r++) {
        add_rank(text, t->runs[0].rank.plan, r, &all[r]);
        if (t->run_spec.plan.bf16_sums) add_rounded(text, r, &all[r]);
        add_device(text, r, &all[r]);
        bytes += all[r].bytes;
    }
    bytes_text(bytes, size, sizeof(size));
    weft_text_add(text, "\nOn the wire in a step: %s (%.0f bytes)%s\n", size, bytes,
                  t->run_spec.exchange ? " between the ranks of a learner; what learners exchange "
                                         "comes on top"
                                       : "");
}

weft_status weft_plan_report_take(weft_plan_report *d, char **out)
{
    weft_text text = {0};
    char *list = NULL;
    const weft_rank *first = &d->t->runs[0].rank;
    add_head(&text, d->t);
    add_ranks(&text, d->t, d->all);
    weft_status status = add_schedule(&text, d->t, first->plan, d->all);
    weft_model_outputs_text(first->graph, &first->values, &text);
    if (status == WEFT_OK) status = weft_text_take(&d->lists, &list);
    if (status == WEFT_OK) weft_text_add(&text, "%s", list);
    free(list);
    if (status == WEFT_OK) return weft_text_take(&text, out);
    free(text.data);
    return status;
}

static weft_status describe(weft_trainer *t, int dump_rank, char **out)
{
    weft_plan_report *report;
    int *kind = NULL;
    weft_status status = weft_plan_report_new(t, dump_rank, &report);
    if (status == WEFT_OK) status = WEFT_NEW(&kind, t->mesh);
    if (status == WEFT_OK)
        status =
            weft_trainer_plan_kinds(t, false, dump_rank, kind,
                                    &(weft_planned){.fn = weft_plan_report_add, .user = report}, 1);
    if (status == WEFT_OK) status = weft_plan_report_take(report, out);
    weft_plan_report_free(&report);
    free(kind);
    return status;
}

weft_status weft_train_plan_text(weft_context *context, const weft_train_options *options,
                                 int dump_rank, char **out)
{
    WEFT_NEED(context, options, out);
    weft_trainer *t;
    WEFT_TRY(weft_trainer_prepare(context, options, NULL, &t));
    weft_status status = describe(t, dump_rank, out);
    weft_trainer_destroy(&t);
    return status;
}
