/* Trains a graph on the ranks of a mesh and compares losses, parameters and the evaluation with
 * those of one rank. */
#include <math.h>

#include "mesh_check.h"

const char *engine = "threads";
int processes, checked;

typedef struct rank_case {
    const setting *setting;
    const result *want;
    _Atomic int seen[256];
    bool exact;
} rank_case;

static void compare_part(rank_case *c, weft_store *store, int i, weft_comm *data_axis)
{
    const result *want = c->want;
    weft_type type = weft_store_type(store, i);
    weft_shape whole;
    int64_t start[WEFT_MAX_RANK], index[WEFT_MAX_RANK] = {0};
    int w = 0;
    if (weft_store_role(store, i) == WEFT_ROLE_SUM) return;
    while (w < want->count && strcmp(want->names[w], weft_store_name(store, i)) != 0) w++;
    rank_check(w < want->count);
    void *have = malloc(weft_type_bytes(&type));
    rank_ok(net_gather(store, i, data_axis, have));
    weft_store_part(store, i, &whole, start);
    rank_check(weft_shape_equal(&whole, &want->shapes[w]));
    double most = 1e-3, squares = 0, off = 0, difference = 0;
    for (int64_t k = 0; k < weft_shape_elements(&whole); k++) {
        double b = value_at(want->data[w], type.dtype, k);
        most = fmax(most, fabs(b));
        squares += b * b;
    }
    for (int64_t k = 0; k < weft_shape_elements(&type.shape); k++) {
        int64_t place = 0;
        for (int d = 0; d < whole.rank; d++) place = place * whole.dim[d] + start[d] + index[d];
        double a = value_at(have, type.dtype, k), b = value_at(want->data[w], type.dtype, place);
        off = fmax(off, fabs(a - b) / most);
        difference += (a - b) * (a - b);
        if (isnan(a)) off = 1e9;
        for (int d = whole.rank; d-- > 0 && ++index[d] == type.shape.dim[d];) index[d] = 0;
    }
    free(have);
    double limit = c->exact ? 0 : 1e-9;
    if (!c->exact && c->setting->real == WEFT_F32) {
        /* In f32, rounding can change which of two values a maximum takes, and so which element a
         * gradient goes to: a large error of that element, but small for the tensor. So the norm of
         * the difference is compared with the norm of the tensor. Moments and biases begin at zero
         * and are sums of a few gradients, so their limit is higher than that of weights. */
        double rms = sqrt(squares / (double)weft_shape_elements(&whole));
        off = isnan(difference)
                  ? 1e9
                  : sqrt(difference / (double)weft_shape_elements(&type.shape)) / fmax(rms, 1e-6);
        limit = weft_store_role(store, i) == WEFT_ROLE_PARAMETER && whole.rank > 1 ? 2e-3 : 1e-1;
    }
    if (getenv("WEFT_VERBOSE") && off > limit / 10)
        fprintf(stderr, "%s: %g of %g\n", weft_store_name(store, i), off, limit);
    if (off > limit) fprintf(stderr, "%s: off by %g\n", weft_store_name(store, i), off);
    rank_check(off <= limit);
    atomic_fetch_add(&c->seen[w], 1);
}
/* Compares the losses, added over all ranks, with those of one rank. */
static void compare_losses(const rank_case *c, weft_comm *world, const double *losses)
{
    double sums[STEPS + 1], limit = c->setting->real == WEFT_F32 ? 2e-3 : 1e-9;
    rank_ok(weft_comm_run(world, &(weft_transfer){.kind = WEFT_ALL_REDUCE,
                                                  .dtype = WEFT_F64,
                                                  .send = losses,
                                                  .receive = sums,
                                                  .count = STEPS + 1}));
    for (int i = 0; i <= STEPS; i++)
        if (!(fabs(sums[i] - c->want->losses[i]) <= limit * fmax(1, fabs(sums[i])))) {
            fprintf(stderr, "step %d: loss %.9g, should be %.9g\n", i, sums[i], c->want->losses[i]);
            atomic_fetch_add(&rank_failures, 1);
            break;
        }
}

/* In 1F1B, stage s of K has at most K - s micro-batches under way; in GPipe it has all of them. */
static void check_under_way(const setting *s, const prepared *p, int rank)
{
    int stages = weft_plan_places(p->plan), stage = weft_plan_place(p->plan, rank);
    if (s->mesh->place) stage = 0; /* --place makes no chain of stages */
    int want = strcmp(s->schedule, "gpipe") == 0 ? s->microbatches : stages - stage;
    if (want > s->microbatches) want = s->microbatches;
    if (stages > 1) rank_check(p->most_under_way == want);
}

static void run_rank(weft_comm *world, void *user)
{
    rank_case *c = user;
    const setting *s = c->setting;
    prepared p;
    double losses[STEPS + 1];
    rank_ok(net_prepare(&p, s, world));
    if (getenv("WEFT_DUMP") && weft_comm_rank(world) == atoi(getenv("WEFT_DUMP"))) {
        char *text;
        rank_ok(weft_program_text(weft_instance_program(p.program), &text));
        printf("%s\n", text);
        weft_free(text);
    }
    weft_status status = net_train(s, &p, losses);
    if (status == WEFT_OK) status = net_evaluate(s, &p, weft_comm_rank(world), &losses[STEPS]);
    if (status != WEFT_OK) weft_comm_abort(world);
    rank_ok(status);
    if (s->schedule) check_under_way(s, &p, weft_comm_rank(world));
    compare_losses(c, world, losses);
    for (int i = 0; i < weft_store_count(p.store); i++)
        compare_part(c, p.store, i, p.comms.axes[1]);
    rank_ok(weft_comm_barrier(world));
    net_unprepare(&p);
}

void check_mesh(const setting *s, const result *want)
{
    rank_case c = {.setting = s, .want = want};
    checked++;
    if (getenv("WEFT_VERBOSE"))
        print_message("%s on %s, zero %d, %d micro-batches, %s\n", s->model->model,
                      s->mesh->mesh ? s->mesh->mesh : s->mesh->place, s->mesh->zero,
                      s->microbatches, s->optimizer);
    on_ranks(engine, s->mesh->ranks, run_rank, &c);
    for (int i = 0; i < want->count && processes == 0; i++)
        if (atomic_load(&c.seen[i]) == 0) fail_msg("no rank has '%s'", want->names[i]);
}
