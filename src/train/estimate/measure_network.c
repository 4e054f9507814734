/* Measures the kernels of a network where they run: in steps of training, with what caches hold
 * then, while as many ranks compute as the machine has room for. */
#include <stdio.h>
#include <stdlib.h>

#include "program/walk.h"
#include "train/estimate/measure.h"
#include "train/estimate/tracks.h"

enum { FIRST_STEPS = 3 }; /* that warm up caches and clocks */

/* One of each family first: a measuring that ends early has sizes of all kinds of kernels. */
static const weft_measured_network networks[] = {
    {"mlp", "glyphs:size=28,train=2000,test=10", "100", "1", "60"},
    {"lenet", "glyphs:size=28,train=2000,test=10", "100", "1", "30"},
    {"gpt:layers=2,heads=4,width=128", "text:{text},unit=char,context=128", "8", "1", "12"},
    {"char-lstm:layers=2,units=128", "text:{text},unit=char,context=64", "16", "1", "12"},
    {"resnet:depth=18,width=8", "glyphs:size=32,train=400,test=10", "40", "1", "7"},
    {"vgg11", "glyphs:size=32,train=400,test=10", "12", "1", "10"},
    {"inception", "glyphs:size=28,train=400,test=10", "50", "1", "10"},
    {"lenet", "glyphs:size=28,train=1000,test=10", "40", "2", "30"},
    {"char-lstm:layers=2,units=128", "text:{text},unit=char,context=64", "8", "2", "12"},
    {"vgg11", "glyphs:size=32,train=400,test=10", "50", "1", "7"},
    {"resnet:depth=18,width=24", "glyphs:size=32,train=400,test=10", "16", "1", "7"},
    {"gpt:layers=1,heads=6,width=384", "text:{text},unit=char,context=256", "4", "1", "7"},
    {"char-lstm:layers=1,units=256", "text:{text},unit=char,context=128", "16", "1", "8"},
};
_Static_assert(WEFT_COUNT(networks) == WEFT_MEASURED_NETWORKS, "each machine has a time of each");

const weft_measured_network *weft_measured_network_at(int i)
{
    return i >= 0 && i < (int)WEFT_COUNT(networks) ? &networks[i] : NULL;
}

static weft_status set(const weft_option *table, weft_train_options *o, const char *name,
                       const char *value)
{
    return weft_options_set(table, o, name, value);
}

static weft_status set_number(const weft_option *table, weft_train_options *o, const char *name,
                              int value)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", value);
    return set(table, o, name, text);
}

/* The data, with the file of texts in the place of {text}. */
static weft_status set_data(const weft_option *table, weft_train_options *o, const char *data,
                            const char *text)
{
    static const char mark[] = "{text}";
    const char *at = strstr(data, mark);
    char *with;
    if (!at) return set(table, o, "data", data);
    WEFT_TRY(weft_format(&with, "%.*s%s%s", (int)(at - data), data, text, at + strlen(mark)));
    weft_status status = set(table, o, "data", with);
    free(with);
    return status;
}

/* With a sample for each rank in each micro-batch, however many ranks there are. */
static int batch_of(const weft_measured_network *n, weft_measured_setting s)
{
    int least = s.ranks * (int)strtol(n->microbatches, NULL, 10);
    return WEFT_MAX((int)strtol(n->batch, NULL, 10), least);
}

static weft_status fill_options(const weft_option *table, const weft_measured_network *n,
                                weft_measured_setting s, const char *text, weft_train_options *o)
{
    WEFT_TRY(set(table, o, "model", n->model));
    WEFT_TRY(set_data(table, o, n->data, text));
    WEFT_TRY(set_number(table, o, "batch", batch_of(n, s)));
    WEFT_TRY(set(table, o, "microbatches", n->microbatches));
    WEFT_TRY(set(table, o, "steps", n->steps));
    WEFT_TRY(set_number(table, o, "ranks", s.ranks));
    WEFT_TRY(set_number(table, o, "threads", s.threads));
    if (s.ranks == 1) return WEFT_OK;
    char mesh[32];
    (void)snprintf(mesh, sizeof(mesh), "data=%d", s.ranks);
    return set(table, o, "mesh", mesh);
}

/* --- times --- */

static weft_status add_instruction(const weft_program *p, int i, weft_measured_setting s,
                                   double seconds, weft_times *times)
{
    weft_work work;
    WEFT_TRY(weft_instruction_work(p, i, &work));
    const weft_timed what = {.kind = work.kind,
                             .group = work.size,
                             .threads = s.threads,
                             .ranks = s.ranks,
                             .flops = work.flops,
                             .bytes = work.bytes};
    return weft_times_add(times, &what, seconds);
}

static weft_status add_times(const weft_rank *r, weft_measured_setting s, weft_times *times,
                             double *out)
{
    const weft_program *p = weft_instance_program(r->instance);
    weft_program_info info = weft_program_describe(p);
    double *seconds, step = 0, rest, microbatches = (double)r->run_spec->microbatches;
    WEFT_TRY(WEFT_NEW(&seconds, info.instructions + 1));
    weft_status status = weft_instance_times(r->instance, FIRST_STEPS, seconds, &step, &rest);
    for (int i = 0; i < info.instructions && status == WEFT_OK; i++)
        if (seconds[i] > 0) status = add_instruction(p, i, s, seconds[i], times);
    const weft_timed what = {.kind = WEFT_STEP_TIMED,
                             .group = "",
                             .threads = s.threads,
                             .ranks = s.ranks,
                             .flops = info.instructions * microbatches,
                             .bytes = (double)info.input_bytes * microbatches};
    if (status == WEFT_OK) status = weft_times_add(times, &what, WEFT_MAX(rest, 1e-9));
    *out = step;
    free(seconds);
    return status;
}

/* The graph of each rank is needed to name its instructions, so a trainer's ranks are looked at
 * before it ends. */
static weft_status train(weft_context *context, const weft_train_options *o,
                         weft_measured_setting s, weft_measure_end *end, weft_times *times,
                         double *step)
{
    weft_trainer *t;
    weft_times *own = NULL;
    WEFT_TRY(weft_trainer_create_passing(context, o, end ? end->stop : NULL, true, &t));
    weft_status status = weft_trainer_run(t, NULL, NULL);
    if (status != WEFT_OK && weft_measure_go_on(end) != WEFT_OK) status = WEFT_ERR_INTERRUPTED;
    if (status == WEFT_OK) status = weft_times_new(&own);
    for (int r = t->local; r-- > 0 && status == WEFT_OK;)
        status = add_times(&t->runs[r].rank, s, own, step);
    if (status == WEFT_OK) status = weft_times_add_means(times, own);
    weft_times_free(&own);
    weft_trainer_destroy(&t);
    return status;
}

weft_status weft_measure_network(weft_context *context, const weft_measured_network *network,
                                 weft_measured_setting setting, const char *text,
                                 weft_measure_end *end, weft_times *times, double *sample)
{
    double step = 0;
    const weft_option *table = weft_train_table(context);
    weft_train_options o = {.struct_size = 0};
    weft_status status = weft_train_options_init(context, &o);
    if (status == WEFT_OK) status = fill_options(table, network, setting, text, &o);
    if (status == WEFT_OK) status = train(context, &o, setting, end, times, &step);
    *sample = step * setting.ranks / batch_of(network, setting);
    weft_options_free(table, &o);
    return status;
}
