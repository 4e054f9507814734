/* Hogwild! (Recht et al. 2011): learners are threads of one process that update shared parameters
 * without locks. A learner computes on its own copy, with an optimizer of its own. After each step
 * it makes a pass: it adds the change of its step to each shared element, while other learners may
 * do the same, and copies the new values. An element that no other learner has changed since the
 * last pass gets the learner's own value, so steps on disjoint elements have the bits of a single
 * learner. One of two simultaneous writes to an element may be lost; lost updates are counted in a
 * sample of the blocks. */
#include <stdatomic.h>
#include <time.h>

#include "base/target_clones.h"
#include "base/spec.h"
#include "exchange/shared_params.h"
#include "exchange/bootstrap.h"

/* BLOCK: elements that a pass reads, computes and writes at a time; smaller blocks lose fewer
 * updates. STALENESS: bins of the histogram. */
enum { BLOCK = 64, STALENESS = 256 };
/* Prefetch distance of a pass, in bytes. */
enum { AHEAD = 1024 };

typedef struct tally {
    /* Elements that this learner has changed; of these, contended ones: changed by others, too. */
    int64_t written, mixed;
    int64_t checked, lost_updates; /* changed elements in checked blocks; lost updates of these */
    int64_t every, skip; /* one block of `every` is checked; blocks before the next checked one */
} tally;

#define REAL float
#define BITS uint32_t
#define SET 2
#define NAME(function) function##_f32
#include "exchange/hogwild_pass.h"
#define REAL double
#define BITS uint64_t
#define SET 1
#define NAME(function) function##_f64
#include "exchange/hogwild_pass.h"

/* The shared parameters of all learners. */
typedef struct field {
    struct field *next;  /* in the list of abandoned ones */
    atomic_int users;    /* learners that have not closed their exchange */
    atomic_llong passes; /* finished passes of all learners */
    atomic_llong *steps; /* [learners]: finished passes of each */
    void *numbers;       /* the parameters, in words of 64 bits, each atomic */
} field;

enum { WRITTEN, MIXED, CHECKED, LOST, FIGURES };

typedef struct hogwild {
    weft_exchange head;
    tally tally;
    weft_shared_params *copies; /* parameters that ranks of the learner share */
    bool leads;                 /* this rank makes the passes of its learner's shard */
    weft_dtype dtype;
    int64_t count;    /* elements of WEFT_ALL_PARAMETERS */
    void *parameters; /* [count]: the learner's own parameters */
    void *took;       /* [count]: their values after the last pass, with which the step began */
    int64_t taken;    /* number of passes of all learners after that last pass */
    field *field;
    struct {
        double of[FIGURES], staleness[STALENESS], early;
    } figures; /* sums over all learners, at the end */
} hogwild;

/* --- opening --- */

static void free_field(field *f)
{
    free(f->steps);
    free(f->numbers);
    free(f);
}

static void leave_field(field **at)
{
    field *f = *at;
    *at = NULL;
    if (f && atomic_fetch_sub(&f->users, 1) == 1) free_field(f);
}

/* The shared parameters whose address some learners may have and others not, since the broadcast
 * was aborted. They are freed with the context, when no learner runs. */
typedef struct abandoned {
    _Atomic(field *) first;
} abandoned;

static weft_status make_abandoned(weft_context *context, void **out)
{
    abandoned *a;
    (void)context;
    WEFT_TRY(WEFT_NEW(&a, 1));
    *out = a;
    return WEFT_OK;
}

static void free_abandoned(void *singleton)
{
    abandoned *a = singleton;
    for (field *next, *f = atomic_load(&a->first); f; f = next) {
        next = f->next;
        free_field(f);
    }
    free(a);
}

/* Without a reference of the first learner, the count never comes to 0. */
static void abandon_field(abandoned *a, field *f)
{
    f->next = atomic_load(&a->first);
    while (!atomic_compare_exchange_weak(&a->first, &f->next, f)) {
    }
}

static void hogwild_close(weft_exchange *exchange)
{
    hogwild *h = (hogwild *)exchange;
    leave_field(&h->field);
    weft_shared_params_close(&h->copies);
    free(h->took);
}

static size_t bytes_of(weft_dtype dtype, int64_t count)
{
    return (size_t)count * weft_dtype_size(dtype);
}

static weft_status hogwild_memory(const weft_exchange *exchange, const weft_exchange_sizes *sizes,
                                  weft_exchange_memory *out)
{
    double shared = (double)bytes_of(sizes->dtype, sizes->count + 1); /* by all learners */
    (void)exchange;
    out->learner = (double)bytes_of(sizes->dtype, sizes->count); /* took */
    out->learner += shared / WEFT_MAX(sizes->plan->learners, 1);
    return WEFT_OK;
}

static weft_status make_room(hogwild *h, const weft_exchange_setup *setup)
{
    size_t bytes;
    WEFT_TRY(weft_exchange_parameters(setup->store, &h->dtype, &h->count, &bytes));
    if (h->dtype != WEFT_F32 && h->dtype != WEFT_F64)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "exchange hogwild needs parameters of f32 or f64, not %s",
                         weft_dtype_name(h->dtype));
    WEFT_TRY(weft_shared_params_open(setup->learner, setup->store, &h->copies));
    h->parameters = weft_shared_params_parameters(h->copies);
    h->leads = weft_shared_params_is_leader(h->copies);
    return h->leads ? weft_new_aligned(bytes_of(h->dtype, h->count), &h->took) : WEFT_OK;
}

static weft_status hogwild_open(weft_exchange *exchange, const char *arguments,
                                const weft_exchange_setup *setup)
{
    hogwild *h = (hogwild *)exchange;
    double every = 64;
    weft_spec_key keys[] = {
        {.name = "sample", .number = &every, .low = 1, .high = 1e9, .integer = true},
        {.name = NULL}};
    if (*arguments) WEFT_TRY(weft_spec_parse("exchange hogwild", arguments, keys));
    h->tally.every = (int64_t)every;
    return setup ? make_room(h, setup) : WEFT_OK;
}

/* --- the shared parameters --- */

static weft_status make_field(const hogwild *h, field **out)
{
    field *f;
    int n = h->head.setup.endpoint->learners;
    WEFT_TRY(WEFT_NEW(&f, 1));
    *out = f;
    atomic_init(&f->users, n);
    atomic_init(&f->passes, 0);
    WEFT_TRY(WEFT_NEW(&f->steps, n));
    for (int i = 0; i < n; i++) atomic_init(&f->steps[i], 0);
    WEFT_TRY(weft_new_aligned(bytes_of(h->dtype, h->count + 1), &f->numbers));
    (h->dtype == WEFT_F64 ? put_f64 : put_f32)(f->numbers, h->parameters, h->count);
    return WEFT_OK;
}

/* The first learner allocates the shared parameters, and broadcasts their address to the others. */
static weft_status enter_field(hogwild *h)
{
    static const weft_singleton_kind kind = {make_abandoned, free_abandoned};
    weft_net_context *world;
    weft_reach reach;
    field *made = NULL;
    void *left;
    WEFT_TRY(weft_net_context_of(h->head.setup.context, &world));
    WEFT_TRY(weft_learners_meet(&h->head, world, &reach));
    if (reach != WEFT_REACH_PROCESS)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "exchange hogwild: learners update parameters in memory that they share, "
                         "so they have to be threads of one process; give --engine threads");
    bool first = h->head.setup.endpoint->learner == 0;
    WEFT_TRY(weft_context_singleton(h->head.setup.context, &kind, &left));
    weft_status status = first ? make_field(h, &made) : WEFT_OK;
    if (status != WEFT_OK) {
        if (made) free_field(made);
        return status;
    }
    status = weft_learner_group_run(
        h->head.setup.endpoint,
        WEFT_TRANSFER(.kind = WEFT_BROADCAST, .dtype = WEFT_U8, .what = "where parameters are",
                      .send = (void *)&made, .receive = (void *)&made, .count = sizeof(made)));
    if (status == WEFT_OK)
        h->field = made;
    else if (first)
        abandon_field(left, made);
    return status;
}

/* Records the parameters with which the next step begins; the pass after it adds the difference. */
static void remember(hogwild *h)
{
    memcpy(h->took, h->parameters, (size_t)h->count * weft_dtype_size(h->dtype));
}

static void read_parameters(hogwild *h)
{
    h->taken = atomic_load(&h->field->passes);
    (h->dtype == WEFT_F64 ? take_f64 : take_f32)(h->field->numbers, h->parameters, h->count);
    remember(h);
}

/* Makes the pass after a step. Its staleness is the number of passes that other learners have
 * finished since this learner's last one. */
static weft_status add_difference(hogwild *h, int64_t step)
{
    h->tally.skip = step % h->tally.every;
    WEFT_TRY(weft_shared_params_read(h->copies));
    (h->dtype == WEFT_F64 ? pass_f64 : pass_f32)(h->field->numbers, h->parameters, h->took,
                                                 h->count, &h->tally);
    int64_t before = atomic_fetch_add(&h->field->passes, 1);
    h->figures.staleness[WEFT_MIN(before - h->taken, (int64_t)STALENESS - 1)]++;
    h->taken = before + 1;
    atomic_fetch_add(&h->field->steps[h->head.setup.endpoint->learner], 1);
    return weft_learner_group_check(h->head.setup.endpoint);
}

/* Ends a step without samples, which adds nothing. */
static weft_status end_empty_step(hogwild *h)
{
    read_parameters(h);
    atomic_fetch_add(&h->field->steps[h->head.setup.endpoint->learner], 1);
    return weft_learner_group_check(h->head.setup.endpoint);
}

/* --- hooks --- */

static weft_status hogwild_begin(weft_exchange *exchange)
{
    hogwild *h = (hogwild *)exchange;
    WEFT_TRY(weft_shared_params_read(h->copies));
    if (!h->leads) return WEFT_OK;
    remember(h);
    return enter_field(h);
}

static weft_status hogwild_after(weft_exchange *exchange, weft_step_result *result)
{
    hogwild *h = (hogwild *)exchange;
    if (h->leads) WEFT_TRY(exchange->empty ? end_empty_step(h) : add_difference(h, result->step));
    return weft_shared_params_write(h->copies);
}

/* After the end the parameters are the result. */
static weft_status hogwild_save(weft_exchange *exchange)
{
    hogwild *h = (hogwild *)exchange;
    if (h->leads && h->field) read_parameters(h);
    return weft_shared_params_write(h->copies);
}

/* Waits for the collective at the end of the run, as long as some learner still finishes passes.
 * PEER: none has for the timeout. */
static weft_status wait_for_all(hogwild *h, weft_group_request *passage)
{
    const weft_learner_group *e = h->head.setup.endpoint;
    weft_wait_clock wait_clock = {0};
    int64_t passes = -1;
    bool done = false;
    WEFT_TRY(weft_group_request_start(passage));
    for (;;) {
        WEFT_TRY(weft_group_request_test(passage, &done));
        if (done) return WEFT_OK;
        WEFT_TRY(weft_learner_group_check(h->head.setup.endpoint));
        (void)weft_exchange_is_asked(&h->head); /* all learners see the request in this process */
        int64_t now = atomic_load(&h->field->passes);
        if (now != passes) wait_clock = (weft_wait_clock){0};
        passes = now;
        if (weft_wait_clock_read(&wait_clock, e->timeout / 8) > e->timeout) break;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    int slowest = 0;
    for (int i = 0; i < e->learners; i++)
        if (atomic_load(&h->field->steps[i]) < atomic_load(&h->field->steps[slowest])) slowest = i;
    return weft_fail(WEFT_ERR_PEER, "learner %d has made no progress for %g s after %lld steps",
                     slowest, e->timeout, (long long)atomic_load(&h->field->steps[slowest]));
}

static weft_status add_up_figures(hogwild *h)
{
    const tally *t = &h->tally;
    weft_group_request *passage;
    const double mine[] = {[WRITTEN] = (double)t->written,
                           [MIXED] = (double)t->mixed,
                           [CHECKED] = (double)t->checked,
                           [LOST] = (double)t->lost_updates};
    weft_transfer sum = {.kind = WEFT_ALL_REDUCE,
                         .dtype = WEFT_F64,
                         .what = "statistics of the learners",
                         .send = &h->figures,
                         .receive = &h->figures,
                         .count = sizeof(h->figures) / sizeof(double)};
    memcpy(h->figures.of, mine, sizeof(mine));
    h->figures.early = !h->head.finished;
    if (h->leads) {
        WEFT_TRY(weft_learner_group_bind(h->head.setup.endpoint, &sum, &passage));
        weft_status status = wait_for_all(h, passage);
        weft_group_request_destroy(&passage);
        WEFT_TRY(status);
    }
    WEFT_TRY(weft_comm_run(h->head.setup.learner, &sum));
    h->head.early = h->figures.early;
    return WEFT_OK;
}

/* Takes the shared parameters as the result after all learners have finished, for which the sum of
 * the statistics waits. Evaluations after the end have the room of the arrays. */
static weft_status hogwild_end(weft_exchange *exchange)
{
    hogwild *h = (hogwild *)exchange;
    WEFT_TRY(add_up_figures(h));
    weft_status status = hogwild_save(exchange);
    leave_field(&h->field);
    free(h->took);
    h->took = NULL;
    return status;
}

static bool hogwild_figure(weft_exchange *exchange, int i, weft_series *out)
{
    const hogwild *h = (const hogwild *)exchange;
    static const char *const names[] = {[WRITTEN] = "hogwild_written",
                                        [MIXED] = "hogwild_mixed",
                                        [CHECKED] = "hogwild_checked",
                                        [LOST] = "hogwild_lost"};
    int most = STALENESS;
    while (most > 1 && h->figures.staleness[most - 1] == 0) most--;
    if (i > FIGURES) return false;
    *out = i < FIGURES ? (weft_series){names[i], &h->figures.of[i], 1, false}
                       : (weft_series){"staleness", h->figures.staleness, most, true};
    return true;
}

/* A pass reads and writes the shared parameters, the learner's own, and those of the last pass. */
static void hogwild_passes(const weft_exchange *exchange, double *parameters, double *state)
{
    (void)exchange;
    *parameters = 6;
    *state = 0;
}

static const weft_exchange_ops hogwild_ops = {
    .struct_size = sizeof(weft_exchange_ops),
    .size = sizeof(hogwild),
    .name = "hogwild",
    .open = hogwild_open,
    .close = hogwild_close,
    .step = {.after = hogwild_after},
    .life = {.begin = hogwild_begin,
             .save = hogwild_save,
             .end = hogwild_end,
             .figure = hogwild_figure,
             .passes = hogwild_passes,
             .memory = hogwild_memory},
};

const weft_entry weft_exchange_hogwild = {
    .kind = WEFT_KIND_EXCHANGE,
    .name = "hogwild",
    .form = "hogwild[:sample=64]",
    .summary = "learners are threads that update the same parameters without locks; "
               "one of `sample` blocks is checked for lost updates",
    .ops = &hogwild_ops,
};
