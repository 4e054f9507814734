/* Metrics as TensorBoard's event files, in a folder: tensorboard:FOLDER. The numbers of steps and
 * evaluations are scalars, and the forward pass is the graph. tensorboard+histograms:FOLDER also
 * has the distribution of each parameter at each evaluation, tensorboard+confusion:FOLDER the
 * confusion matrix as a picture, and tensorboard+pictures:FOLDER that and some samples. A run that
 * resumes writes a file of its own, which begins with the start of a session at its first step:
 * readers then drop what earlier files have of that step and later ones. */
#include <math.h>
#include <time.h>
#include <unistd.h>

#include "formats/picture/picture.h"
#include "train/event_file.h"
#include "train/metrics.h"
#include "weft/output.h"

/* Fields of Event, Summary.Value, SessionLog and NodeDef. */
enum { EVENT_TIME = 1, EVENT_STEP, EVENT_VERSION, EVENT_GRAPH, EVENT_SUMMARY, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_NUMBER };
enum { SESSION_STATUS = 1, SESSION_START = 1 };
enum { GRAPH_NODE = 1, GRAPH_VERSIONS = 4, NODE_NAME = 1, NODE_OP, NODE_INPUT, NODE_ATTR = 5 };

typedef struct event_writer {
    weft_output *to;
} event_writer;

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Begins an event. */
static weft_text event_at(int64_t step)
{
    weft_text event = {0};
    weft_proto_double(&event, EVENT_TIME, now());
    if (step > 0) weft_proto_int(&event, EVENT_STEP, step);
    return event;
}

/* Writes an event as a record, and frees it. */
static weft_status put(event_writer *w, weft_text *event)
{
    weft_text record = {.failed = event->failed};
    char *bytes;
    weft_record_add(&record, event->data, event->size);
    free(event->data);
    size_t size = record.size;
    WEFT_TRY(weft_text_take(&record, &bytes));
    weft_status status = weft_output_write(w->to, bytes, size);
    free(bytes);
    return status == WEFT_OK ? weft_output_flush(w->to) : status;
}

/* The first event of a file has the version; the next one starts a session. */
static weft_status put_head(event_writer *w, int64_t after)
{
    weft_text version = event_at(0), start = event_at(after + 1), session = {0};
    weft_proto_text(&version, EVENT_VERSION, "brain.Event:2");
    weft_proto_int(&session, SESSION_STATUS, SESSION_START);
    weft_proto_message(&start, EVENT_SESSION, &session);
    weft_status status = put(w, &version), started = put(w, &start);
    return status == WEFT_OK ? started : status;
}

/* The path of a new file of events; the names of files of one folder are in the order of time. */
static weft_status new_path(const char *folder, char **out)
{
    char host[128] = "";
    if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
    for (int i = 0; i < 1000; i++) {
        WEFT_TRY(weft_format(out, "%s/events.out.tfevents.%010lld.%s.%ld.%d", folder,
                             (long long)now(), host, (long)getpid(), i));
        if (access(*out, F_OK) != 0) return WEFT_OK;
        free(*out);
    }
    return weft_fail(WEFT_ERR_IO, "%s: has a thousand event files of this second", folder);
}

static weft_status open_events(const char *folder, int64_t after, void **out)
{
    event_writer *w;
    char *path;
    WEFT_TRY(weft_dir_make(folder));
    WEFT_TRY(new_path(folder, &path));
    weft_status status = WEFT_NEW(&w, 1);
    if (status == WEFT_OK) {
        status = weft_output_open(path, WEFT_OUTPUT_STREAM, &w->to);
        /* The steps of other members of the run stay. */
        if (status == WEFT_OK) status = put_head(w, after == WEFT_METRICS_KEEP ? -1 : after);
        if (status == WEFT_OK)
            *out = w;
        else {
            (void)!weft_output_close(&w->to, false); /* the first failure counts */
            free(w);
        }
    }
    free(path);
    return status;
}

static weft_status put_numbers(void *writer, const weft_event *e)
{
    weft_text summary = {0}, event = event_at(e->step);
    weft_event_number n;
    int count = 0;
    for (; weft_event_number_at(e, count, &n); count++) {
        char tag[128];
        weft_text value = {0};
        (void)snprintf(tag, sizeof(tag), "%s/%s", n.group, n.key);
        weft_proto_text(&value, VALUE_TAG, tag);
        weft_proto_float(&value, VALUE_NUMBER, (float)n.value);
        weft_proto_message(&summary, SUMMARY_VALUE, &value);
    }
    weft_proto_message(&event, EVENT_SUMMARY, &summary);
    if (count > 0) return put(writer, &event);
    free(event.data);
    return WEFT_OK;
}

/* --- pictures --- */

enum { VALUE_IMAGE = 4, IMAGE_HEIGHT = 1, IMAGE_WIDTH, IMAGE_COLOURS, IMAGE_PNG };
enum { SAMPLES = 16 };

/* Writes a picture, and frees it. */
static weft_status put_picture(event_writer *w, int64_t step, const char *tag, int colours,
                               weft_text *png)
{
    weft_text image = {0}, value = {0}, summary = {0}, event;
    int width, height;
    weft_status status = weft_png_size(tag, png->data, png->size, &width, &height);
    if (status != WEFT_OK) {
        free(png->data);
        return status;
    }
    event = event_at(step);
    weft_proto_int(&image, IMAGE_HEIGHT, height);
    weft_proto_int(&image, IMAGE_WIDTH, width);
    weft_proto_int(&image, IMAGE_COLOURS, colours);
    weft_proto_message(&image, IMAGE_PNG, png);
    weft_proto_text(&value, VALUE_TAG, tag);
    weft_proto_message(&value, VALUE_IMAGE, &image);
    weft_proto_message(&summary, SUMMARY_VALUE, &value);
    weft_proto_message(&event, EVENT_SUMMARY, &summary);
    return put(w, &event);
}

/* Writes pictures of samples that are spread over the training. */
static weft_status put_samples(void *writer, const weft_dataset *data, uint64_t seed)
{
    int64_t count = weft_dataset_count(data, WEFT_TRAIN);
    int64_t shown = WEFT_MIN(count, (int64_t)SAMPLES);
    for (int64_t k = 0; k < shown; k++) {
        weft_text png = {0};
        char tag[64];
        int colours;
        int64_t i = k * count / shown;
        WEFT_TRY(weft_sample_picture(data, seed, i, &colours, &png));
        (void)snprintf(tag, sizeof(tag), "samples/%lld", (long long)i);
        WEFT_TRY(put_picture(writer, 0, tag, colours, &png));
    }
    return WEFT_OK;
}

/* Writes the numbers and, of an evaluation, the confusion matrix. */
static weft_status put_confusion(void *writer, const weft_event *e)
{
    weft_text png = {0};
    char tag[64];
    WEFT_TRY(put_numbers(writer, e));
    if (e->kind != WEFT_EVENT_EVAL || !e->report->confusion) return WEFT_OK;
    WEFT_TRY(weft_confusion_picture(e->report, &png));
    (void)snprintf(tag, sizeof(tag), "%s/confusion", e->report->part);
    return put_picture(writer, e->step, tag, 1, &png);
}

/* --- the graph --- */

/* The node that computes a value; -1: none. */
static int node_of(const weft_graph *g, weft_value v)
{
    for (int i = 0; i < weft_graph_node_count(g); i++) {
        weft_value first;
        int count = weft_graph_node_outputs(g, i, &first);
        if (v >= first && v < first + count) return i;
    }
    return -1;
}

/* The name of a node in the drawing: that of its layer and its operator, with its number if an
 * earlier node of the layer has the same operator. */
static void name_node(const weft_graph *g, int node, char *out, size_t size)
{
    const char *name = weft_graph_node_name(g, node), *op = weft_graph_node_op(g, node);
    bool taken = false;
    for (int i = 0; i < node && !taken; i++) {
        const char *other = weft_graph_node_name(g, i);
        taken = strcmp(weft_graph_node_op(g, i), op) == 0 &&
                strcmp(other ? other : "", name ? name : "") == 0;
    }
    (void)snprintf(out, size, "%s%s%s", name ? name : "", name && *name ? "/" : "", op);
    size_t used = strlen(out);
    if (taken) (void)snprintf(out + used, size - used, "_%d", node);
}

/* AttrValue.list.shape of the values first .. first + count - 1, as the attribute by which edges
 * are labelled. */
static void add_shapes(weft_text *node, const weft_graph *g, weft_value first, int count)
{
    weft_text list = {0}, value = {0}, entry = {0};
    for (int k = 0; k < count; k++) {
        weft_type type = weft_graph_value_type(g, first + k);
        weft_text shape = {0};
        for (int d = 0; d < type.shape.rank; d++) {
            weft_text dim = {0};
            weft_proto_int(&dim, 1, type.shape.dim[d]);
            weft_proto_message(&shape, 2, &dim);
        }
        weft_proto_message(&list, 7, &shape);
    }
    weft_proto_message(&value, 1, &list);
    weft_proto_text(&entry, 1, "_output_shapes");
    weft_proto_message(&entry, 2, &value);
    weft_proto_message(node, NODE_ATTR, &entry);
}

static void add_input(weft_text *node, const weft_graph *g, weft_value v)
{
    char name[256], place[24] = "";
    weft_value first;
    int from = node_of(g, v);
    if (from < 0) {
        weft_proto_text(node, NODE_INPUT, weft_graph_value_name(g, v));
        return;
    }
    name_node(g, from, name, sizeof(name));
    (void)weft_graph_node_outputs(g, from, &first);
    if (v > first) (void)snprintf(place, sizeof(place), ":%d", (int)(v - first));
    size_t used = strlen(name);
    (void)snprintf(name + used, sizeof(name) - used, "%s", place);
    weft_proto_text(node, NODE_INPUT, name);
}

/* Adds the inputs, parameters and states that nodes up to `last` read. */
static void add_leaves(weft_text *graph, const weft_graph *g, int last)
{
    static const char *const ops[] = {[WEFT_VALUE_INPUT] = "input",
                                      [WEFT_VALUE_PARAM] = "parameter",
                                      [WEFT_VALUE_STATE] = "state"};
    for (weft_value v = 0; v < weft_graph_value_count(g); v++) {
        weft_value_kind kind = weft_graph_value_kind(g, v);
        bool read = false;
        if (kind == WEFT_VALUE_RESULT) continue;
        for (int i = 0; i <= last && !read; i++) {
            const weft_value *inputs;
            int count = weft_graph_node_inputs(g, i, &inputs);
            for (int k = 0; k < count; k++) read = read || inputs[k] == v;
        }
        if (!read) continue;
        weft_text node = {0};
        weft_proto_text(&node, NODE_NAME, weft_graph_value_name(g, v));
        weft_proto_text(&node, NODE_OP, ops[kind]);
        add_shapes(&node, g, v, 1);
        weft_proto_message(graph, GRAPH_NODE, &node);
    }
}

static weft_status put_graph(void *writer, const weft_graph *g, weft_value loss)
{
    weft_text graph = {0}, versions = {0}, event = event_at(0);
    int last = node_of(g, loss);
    add_leaves(&graph, g, last);
    for (int i = 0; i <= last; i++) {
        char name[256];
        const weft_value *inputs;
        weft_value first;
        weft_text node = {0};
        int count = weft_graph_node_inputs(g, i, &inputs);
        name_node(g, i, name, sizeof(name));
        weft_proto_text(&node, NODE_NAME, name);
        weft_proto_text(&node, NODE_OP, weft_graph_node_op(g, i));
        for (int k = 0; k < count; k++)
            if (inputs[k] >= 0) add_input(&node, g, inputs[k]);
        count = weft_graph_node_outputs(g, i, &first);
        add_shapes(&node, g, first, count);
        weft_proto_message(&graph, GRAPH_NODE, &node);
    }
    weft_proto_int(&versions, 1, 22); /* the producer: the first one whose shapes are attributes */
    weft_proto_message(&graph, GRAPH_VERSIONS, &versions);
    weft_proto_message(&event, EVENT_GRAPH, &graph);
    return put(writer, &event);
}

static weft_status close_events(void *writer)
{
    event_writer *w = writer;
    weft_status status = weft_output_close(&w->to, true);
    free(w);
    return status;
}

/* --- distributions --- */

enum { BINS = 40, VALUE_HISTOGRAM = 5 };
enum { HISTOGRAM_LEAST = 1, HISTOGRAM_MOST, HISTOGRAM_COUNT, HISTOGRAM_SUM, HISTOGRAM_SQUARES };
enum { HISTOGRAM_LIMITS = 6, HISTOGRAM_BINS };

typedef struct distribution {
    double least, most, count, sum, squares; /* of the elements that are finite */
    double bins[BINS];                       /* of equal width, from the least to the largest */
} distribution;

static void distribute(const weft_type *type, const void *data, distribution *d)
{
    int64_t size = weft_shape_elements(&type->shape);
    *d = (distribution){.least = INFINITY, .most = -INFINITY};
    for (int64_t i = 0; i < size; i++) {
        double x = weft_number_get(type->dtype, data, i);
        if (!isfinite(x)) continue;
        d->least = WEFT_MIN(d->least, x);
        d->most = WEFT_MAX(d->most, x);
        d->count++;
        d->sum += x;
        d->squares += x * x;
    }
    if (d->count == 0) d->least = d->most = 0;
    double half = (d->most / 2 - d->least / 2) / BINS; /* a whole width could overflow */
    for (int64_t i = 0; i < size; i++) {
        double x = weft_number_get(type->dtype, data, i);
        if (!isfinite(x)) continue;
        int bin = half > 0 ? (int)((x / 2 - d->least / 2) / half) : 0;
        d->bins[WEFT_MIN(bin, BINS - 1)]++;
    }
}

static weft_status put_parameter(void *writer, int64_t step, const char *name,
                                 const weft_type *type, const void *data)
{
    weft_text histogram = {0}, value = {0}, summary = {0}, event = event_at(step), limits = {0},
              counts = {0};
    distribution d;
    distribute(type, data, &d);
    for (int i = 0; i < BINS && d.count > 0; i++) {
        weft_proto_packed(&limits,
                          i == BINS - 1 ? d.most : d.least + (d.most - d.least) / BINS * (i + 1));
        weft_proto_packed(&counts, d.bins[i]);
    }
    weft_proto_double(&histogram, HISTOGRAM_LEAST, d.least);
    weft_proto_double(&histogram, HISTOGRAM_MOST, d.most);
    weft_proto_double(&histogram, HISTOGRAM_COUNT, d.count);
    weft_proto_double(&histogram, HISTOGRAM_SUM, d.sum);
    weft_proto_double(&histogram, HISTOGRAM_SQUARES, d.squares);
    weft_proto_message(&histogram, HISTOGRAM_LIMITS, &limits);
    weft_proto_message(&histogram, HISTOGRAM_BINS, &counts);
    weft_proto_text(&value, VALUE_TAG, name);
    weft_proto_message(&value, VALUE_HISTOGRAM, &histogram);
    weft_proto_message(&summary, SUMMARY_VALUE, &value);
    weft_proto_message(&event, EVENT_SUMMARY, &summary);
    return put(writer, &event);
}

#define EVENT_FILES(event_)                                                                        \
    .path = "FOLDER", .open = open_events, .event = (event_), .graph = put_graph,                  \
    .close = close_events
const weft_metrics_format weft_metrics_tensorboard = {.name = "tensorboard",
                                                      EVENT_FILES(put_numbers)};
const weft_metrics_format weft_metrics_histograms = {
    .name = "tensorboard+histograms", EVENT_FILES(put_numbers), .parameter = put_parameter};
const weft_metrics_format weft_metrics_confusion = {.name = "tensorboard+confusion",
                                                    EVENT_FILES(put_confusion)};
const weft_metrics_format weft_metrics_pictures = {
    .name = "tensorboard+pictures", EVENT_FILES(put_confusion), .samples = put_samples};
