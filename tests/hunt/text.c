/* Writes a case as text: the model file (net.yaml) and the command line that a user would write. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "hunt.h"

/* --- the model --- */

static void print_from(FILE *to, const hunt_case *c, int i)
{
    const layer *l = &c->layers[i];
    int before = i ? c->layers[i - 1].id : INPUT;
    if (l->inputs == 1 && l->from[0] == before) return;
    fprintf(to, ", from: \"");
    for (int k = 0; k < l->inputs; k++) {
        char name[64] = "x";
        for (int j = 0; j < i; j++)
            if (c->layers[j].id == l->from[k]) layer_name(&c->layers[j], name, sizeof(name));
        fprintf(to, "%s%s", k ? ", " : "", name);
    }
    fprintf(to, "\"");
}

/* Prints one number if all dimensions have the same, otherwise a list; prints nothing if all
 * numbers are the defaults `unsaid`. */
static void print_sides(FILE *to, const char *key, int dims, const int *sides, const int *unsaid)
{
    bool alike = true, needed = false;
    for (int i = 0; i < dims; i++) {
        alike = alike && sides[i] == sides[0];
        needed = needed || !unsaid || sides[i] != unsaid[i];
    }
    if (!needed) return;
    fprintf(to, ", %s: %s%d", key, alike ? "" : "[", sides[0]);
    for (int i = 1; i < dims && !alike; i++) fprintf(to, ", %d", sides[i]);
    if (!alike) fprintf(to, "]");
}

static void print_window(FILE *to, const hunt_case *c, int i)
{
    static const int ones[MOST_DIMS] = {1, 1, 1}, zeros[MOST_DIMS] = {0};
    const layer *l = &c->layers[i];
    sample_shape out;
    int dims = layer_shape(c, i, &out) ? out.dims : 1;
    print_sides(to, "kernel", dims, l->kernel, NULL);
    print_sides(to, "stride", dims, l->stride, l->kind == CONV ? ones : l->kernel);
    print_sides(to, "padding", dims, l->padding, zeros);
    if (l->kind == CONV) print_sides(to, "dilation", dims, l->dilation, ones);
    if (l->kind == CONV && l->groups != 1) fprintf(to, ", groups: %d", l->groups);
}

static void print_attention(FILE *to, const layer *l)
{
    fprintf(to, ", heads: %d", l->heads);
    if (l->key_heads != l->heads) fprintf(to, ", key_heads: %d", l->key_heads);
    if (l->causal) fprintf(to, ", causal: true");
    if (l->rotary) fprintf(to, ", rotary: 100");
}

static void print_recurrence(FILE *to, const layer *l)
{
    if (l->stack > 1) fprintf(to, ", layers: %d", l->stack);
    if (l->both) fprintf(to, ", bidirectional: true");
    if (l->last) fprintf(to, ", last: true");
}

static void print_layer(FILE *to, const hunt_case *c, int i)
{
    const layer *l = &c->layers[i];
    char name[64];
    layer_name(l, name, sizeof(name));
    fprintf(to, "  - {type: %s, name: %s", kind_name(l->kind), name);
    print_from(to, c, i);
    if (l->kind == CONV) fprintf(to, ", filters: %d", l->filters);
    /* `units: classes` and `units: outputs` mean the same number for a classifier. */
    bool classes = c->samples.targets == 0 && c->samples.seed % 2;
    if (l->outputs) fprintf(to, ", units: %s", classes ? "classes" : "outputs");
    if (has_units(l->kind) && !l->outputs) fprintf(to, ", units: %d", l->filters);
    if (l->kind == CONV || l->kind == MAXPOOL || l->kind == AVGPOOL) print_window(to, c, i);
    bool product = l->kind == CONV || l->kind == DENSE || l->kind == LINEAR;
    if ((product || l->kind == ATTENTION) && !l->bias) fprintf(to, ", bias: false");
    if (product && l->he) fprintf(to, ", init: he");
    if (l->kind == ATTENTION) print_attention(to, l);
    if (l->kind == LSTM || l->kind == GRU) print_recurrence(to, l);
    if (l->lengths) fprintf(to, ", lengths: n");
    if (shared_layer(c, i) >= 0) {
        layer_name(&c->layers[shared_layer(c, i)], name, sizeof(name));
        fprintf(to, ", share: %s", name);
    }
    if (l->kind == CAST) fprintf(to, ", dtype: real");
    if (l->kind == DROPOUT) fprintf(to, ", rate: %g", l->rate);
    if (l->kind == CONCAT && l->axis != 1) fprintf(to, ", axis: %d", l->axis);
    fprintf(to, "}\n");
}

void print_model(FILE *to, const hunt_case *c)
{
    if (c->loss)
        fprintf(to, "loss: %s\n",
                c->samples.several   ? "bce"
                : c->samples.targets ? "mse"
                                     : "cross_entropy");
    fprintf(to, "layers:\n");
    for (int i = 0; i < c->layer_count; i++) print_layer(to, c, i);
}

/* --- the command --- */

void add_word(words *w, const char *form, ...)
{
    va_list arguments;
    va_start(arguments, form);
    char *at = w->room + w->used;
    int size = vsnprintf(at, sizeof(w->room) - w->used, form, arguments);
    va_end(arguments);
    if (size < 0 || w->used + (size_t)size + 1 > sizeof(w->room) ||
        w->count == (int)(sizeof(w->word) / sizeof(w->word[0])))
        abort();
    w->word[w->count++] = at;
    w->used += (size_t)size + 1;
}

const far_device far_devices[FAR_DEVICES] = {
    {"", 1U << CPU | 1U << REFERENCE, true},
    {"distant", 1U << REFERENCE, true},
    {"reference,distant", 1U << REFERENCE, true},
    {"distant,cpu", 1U << REFERENCE, false},
    {"distant:lacks=relu+dense+adam+softmax_xent", 1U << REFERENCE, true},
    {"distant:lacks=conv+batch_norm+add+sgd+reduce_sum", 1U << REFERENCE, true},
    {"reference,distant:lacks=conv_dw+dense_dw+batch_norm_dx+maxpool+sum_squares", 1U << REFERENCE,
     true},
    {"distant:of=cpu", 1U << CPU | 1U << REFERENCE, true},
    {"cpu,distant:of=cpu", 1U << CPU | 1U << REFERENCE, true},
    {"opencl", 0, true},
    {"opencl,opencl", 0, true},
    {"opencl,cpu", 0, false},
    {"reference,opencl", 0, false},
    {"distant:of=cpu,opencl", 0, false},
};
const char *const named_devices[] = {"reference", "opencl", "distant", "cpu:0"};

static const char *const own_devices[] = {[CPU] = "cpu", [REFERENCE] = "reference"};

static const char *const axes[AXES] = {"data", "domain", "tensor", "pipeline"};
static const char *const option_names[OPTIONS] = {
    [OPTIMIZER] = "optimizer",
    [LR] = "lr",
    [LR_SCHEDULE] = "lr-schedule",
    [WARMUP] = "warmup",
    [DECAY_EVERY] = "decay-every",
    [GAMMA] = "gamma",
    [LR_FLOOR] = "lr-floor",
    [MOMENTUM] = "momentum",
    [NESTEROV] = "nesterov",
    [WEIGHT_DECAY] = "weight-decay",
    [BETA1] = "beta1",
    [BETA2] = "beta2",
    [EPSILON] = "epsilon",
    [CLIP_NORM] = "clip-norm",
    [LABEL_SMOOTHING] = "label-smoothing",
    [LOSS] = "loss",
    [EVALUATE_EVERY] = "evaluate-every",
    [BATCH] = "batch",
    [MICROBATCHES] = "microbatches",
    [VIRTUAL_WORKERS] = "virtual-workers",
    [STEPS] = "steps",
    [SEED] = "seed",
    [THREADS] = "threads",
    [DEVICE] = "device",
    [DTYPE] = "dtype",
    [SUM_DTYPE] = "sum-dtype",
    [WEIGHTS] = "weights",
    [NORMALIZE] = "normalize",
    [CHECK_COLLECTIVES] = "check-collectives",
    [NO_BIND] = "no-bind",
    [CHECKPOINT_EVERY] = "checkpoint-every",
};

/* A context that is used only to look up option names and choices. */
static const weft_context *built_in(void)
{
    static weft_context *context;
    if (!context && weft_context_create(&context) != WEFT_OK) abort();
    return context;
}

const weft_option *train_table(void)
{
    return weft_train_table(built_in());
}

weft_status train_options_init(weft_train_options *options)
{
    return weft_train_options_init(built_in(), options);
}

static const weft_option *row_of(const char *name)
{
    const weft_option *o = train_table();
    while (o->name && strcmp(o->name, name) != 0) o++;
    if (!o->name) abort(); /* the library no longer has this option */
    return o;
}

/* Writes the value of an option as text. The value is an index if the option has choices
 * "a,b,c". */
static void value_text(const weft_option *o, double value, char *out, size_t room)
{
    char *choices;
    if (weft_option_choices(o, &choices) != WEFT_OK) abort();
    const char *choice = choices;
    if (!choice) {
        (void)snprintf(out, room, "%.17g", value);
        if (strtod(out, NULL) == value) (void)snprintf(out, room, "%g", value);
        if (strtod(out, NULL) != value) (void)snprintf(out, room, "%.17g", value);
        return;
    }
    for (int i = (int)value; i > 0; i--) choice = strchr(choice, ',') + 1;
    (void)snprintf(out, room, "%.*s", (int)strcspn(choice, ","), choice);
    weft_free(choices);
}

static const char *device_of(const hunt_case *c, const way *p)
{
    if (!p->elsewhere) return own_devices[(int)c->options[DEVICE]];
    /* A list of devices is used for several ranks; a single rank gets the last device. */
    const char *list = far_devices[p->elsewhere].list, *last = strrchr(list, ',');
    return last && way_ranks(p) * learners_of(c) == 1 ? last + 1 : list;
}

bool has_own_bits(const hunt_case *c, const way *w)
{
    int own = (int)c->options[DEVICE];
    if (w->places && w->named) return false;
    /* Threads of the cpu share out some sums, and distant has one thread. */
    if (w->elsewhere && own == CPU && c->options[THREADS] != 1) return false;
    return far_devices[w->elsewhere].like & 1U << own;
}

const char *lone_device(const hunt_case *c, const way *w)
{
    const char *list = far_devices[w->elsewhere].list, *last = strrchr(list, ',');
    if (!has_own_bits(c, w) && *list) return last ? last + 1 : list;
    if (c->options[DEVICE] == CPU) return own_devices[CPU];
    return c->samples.seed % 3 ? own_devices[REFERENCE] : "distant";
}

/* Whether the case may give this option. An option that belongs to a choice, such as --momentum to
 * --optimizer, may be given only if the chosen entry reads it; otherwise Weft refuses it. */
static bool is_read(const hunt_case *c, const weft_option *o)
{
    int i = 0;
    if (!o->with) return true;
    const weft_option *with = row_of(o->with);
    while (i < OPTIONS && strcmp(option_names[i], o->with) != 0) i++;
    if (i == OPTIONS || !with->names) return true;
    const weft_entry *e = weft_context_entry(built_in(), with->names, (int)c->options[i]);
    return e && e->reads && strstr(e->reads, o->name);
}

static void add_options(const hunt_case *c, const way *p, words *w)
{
    for (int i = 0; i < OPTIONS; i++) {
        const weft_option *o = row_of(option_names[i]);
        char text[96];
        /* Devices by name are those of --place. */
        if (!is_read(c, o) || (i == DEVICE && p->places && p->named)) continue;
        if (o->kind == WEFT_OPT_FLAG) {
            if (c->options[i] != 0) add_word(w, "--%s", o->name);
            continue;
        }
        if (!o->initial && c->options[i] == 0) continue;
        if (i == DEVICE)
            (void)snprintf(text, sizeof(text), "%s", device_of(c, p));
        else
            value_text(o, c->options[i], text, sizeof(text));
        if (o->initial && strcmp(text, o->initial) == 0) continue;
        add_word(w, "--%s", o->name);
        add_word(w, "%s", text);
    }
}

static void add_data(const hunt_case *c, words *w)
{
    const samples *s = &c->samples;
    add_word(w, "--data");
    /* test= gives the test part's share of the rows, and the data set decides which rows those are.
     * write_case writes as many rows as both parts have together. */
    int train = s->train + c->judging.held;
    double share = (double)s->test / (double)(train + s->test);
    if (s->format == IDX) add_word(w, "idx:data");
    if (s->format == TOKENS) {
        double test = (double)token_count(s, s->test);
        add_word(w, "tokens:tokens.bin,values=%d,context=%d,test=%.9g", s->classes,
                 s->shape.channels, test / (test + (double)token_count(s, train)));
    }
    static const char *const layouts[][2] = {{"", ""},
                                             {",layout=cw", ",layout=wc"},
                                             {",layout=chw", ",layout=hwc"},
                                             {",layout=cdhw", ",layout=dhwc"}};
    const char *layout = layouts[s->shape.dims][s->last];
    const char *key = s->targets ? "target=" : "";
    const char *weights = !s->weights ? "" : s->format == NPY ? ",weight=w.npy" : ",weight=often";
    if (s->format == NPY && reads_lengths(c))
        add_word(w, "npy:x=x.npy,n=n.npy,%sy.npy,test=%.9g%s%s", s->targets ? key : "label=", share,
                 layout, weights);
    else if (s->format == NPY)
        add_word(w, "npy:x.npy,%sy.npy,test=%.9g%s%s", key, share, layout, weights);
    key = s->targets && !s->several ? "target" : "label";
    if (s->format != CSV) return;
    char answers[80] = "label", vectors[40] = "";
    int categories = category_count(s, c->judging.held);
    for (int j = 1; j < s->targets; j++)
        (void)snprintf(answers + strlen(answers), sizeof(answers) - strlen(answers), "+label%d", j);
    if (categories && s->embedded)
        (void)snprintf(vectors, sizeof(vectors), ",embedding=kind:%d", categories);
    add_word(w, "csv:data.csv,%s=%s,test=%.9g%s%s", key, answers, share, weights, vectors);
}

void mesh_text(const int *mesh, char *out, size_t room)
{
    size_t used = 0;
    *out = '\0';
    for (int i = 0; i < AXES; i++)
        if (mesh[i] > 1)
            used += (size_t)snprintf(out + used, room - used, "%s%s=%d", used ? "," : "", axes[i],
                                     mesh[i]);
}

static void add_mesh(const hunt_case *c, const way *p, words *w)
{
    char mesh[128];
    int ranks = way_ranks(p) * learners_of(c);
    mesh_text(p->mesh, mesh, sizeof(mesh));
    if (ranks > 1 && !(p->places && p->named)) {
        add_word(w, "-n");
        add_word(w, "%d", ranks);
    }
    if (*mesh && !p->places) {
        add_word(w, "--mesh");
        add_word(w, "%s", mesh);
    }
}

/* Lists the last layers first: the first matching pattern counts, and dense1* matches dense12. */
static void add_places(const hunt_case *c, const way *p, words *w)
{
    char list[512] = "", name[64];
    size_t used = 0;
    for (int i = c->layer_count; p->places && i-- > 0;) {
        int at = p->place[c->layers[i].id];
        layer_name(&c->layers[i], name, sizeof(name));
        if (at && p->named)
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s*=%s", used ? "," : "",
                                     name, named_devices[(p->elsewhere + at) % 4]);
        else if (at)
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s*=%s:%d",
                                     used ? "," : "", name, i % 2 ? "cpu" : "rank", at - 1);
    }
    if (!used) return;
    add_word(w, "--place");
    add_word(w, "%s", list);
}

static void add_pins(const hunt_case *c, const way *p, words *w)
{
    static const char *const dims[PIN_DIMS] = {"0", "1", "out", "in"};
    char list[256] = "", name[64];
    size_t used = 0;
    if (p->columns) used = (size_t)snprintf(list, sizeof(list), "x:3=%s", axes[p->columns - 1]);
    for (int k = 0; k < MOST_PINS; k++)
        for (int i = 0; i < c->layer_count; i++) {
            const layer *l = &c->layers[i];
            if (!p->pins[k].id || l->id != p->pins[k].id) continue;
            layer_name(l, name, sizeof(name));
            used +=
                (size_t)snprintf(list + used, sizeof(list) - used, "%s%s/%s:%s=%s", used ? "," : "",
                                 name, has_weight(l->kind) ? "weight" : "gamma",
                                 dims[p->pins[k].dim], axes[p->pins[k].axis]);
        }
    if (!used) return;
    add_word(w, "--shard");
    add_word(w, "%s", list);
}

static void add_way(const hunt_case *c, const way *p, words *w)
{
    add_mesh(c, p, w);
    add_places(c, p, w);
    add_pins(c, p, w);
    if (p->home) {
        add_word(w, "--home");
        add_word(w, "cpu");
    }
    if (p->shares && p->mesh[0] > 1) {
        char list[128] = "";
        size_t used = 0;
        for (int i = 0; i < p->mesh[0]; i++)
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%d", i ? "," : "",
                                     1 + p->shares * (i + 1) % 7);
        add_word(w, "--shares");
        add_word(w, "%s", list);
    }
    if (p->zero) {
        add_word(w, "--zero");
        add_word(w, "%d", p->zero);
    }
    if (p->recompute) add_word(w, "--recompute");
    /* The last axis of the mesh is the pipeline axis. */
    if (p->gpipe && (p->places || p->mesh[AXES - 1] > 1)) {
        add_word(w, "--schedule");
        add_word(w, "gpipe");
    }
}

static void add_exchange(const hunt_case *c, const way *p, words *w)
{
    const exchange *e = &c->exchange;
    char what[128];
    if (e->kind == NO_MEETING) return;
    exchange_words(e, what, sizeof(what));
    add_word(w, "--exchange");
    add_word(w, "%s", what);
    if (has_servers(e) && p->servers) {
        add_word(w, "--servers");
        add_word(w, "%d", p->servers);
    }
    if (has_servers(e) && p->replicas && p->servers > 1) {
        add_word(w, "--replicas");
        add_word(w, "%d", p->replicas);
    }
    if (e->kind == SERVER && e->back) {
        add_word(w, "--compress-downlink");
        add_word(w, "%s", hunt_codecs[e->back]);
    }
    if (e->codec) {
        add_word(w, "--compress");
        add_word(w, "%s", hunt_codecs[e->codec]);
    }
}

void case_words(const hunt_case *c, const way *p, const char *folder, words *out)
{
    out->count = 0;
    out->used = 0;
    add_word(out, "--model");
    add_word(out, "net.yaml");
    add_data(c, out);
    add_options(c, p, out);
    add_way(c, p, out);
    add_exchange(c, p, out);
    judging_words(c, out);
    if (!folder) return;
    add_word(out, "--checkpoint");
    add_word(out, "%s", folder);
    if (!c->judging.best) return;
    add_word(out, "--keep-best");
    add_word(out, "%s", hunt_metrics[c->judging.best]);
}

void print_words(FILE *to, const char *before, const words *w)
{
    fprintf(to, "%s", before);
    for (int i = 0; i < w->count; i++) {
        bool quote = strpbrk(w->word[i], "*?[ ;") != NULL;
        fprintf(to, quote ? " '%s'" : " %s", w->word[i]);
    }
    fprintf(to, "\n");
}
