/* Metrics of a run: a table of the formats in which they are written, and the numbers of an event,
 * which all formats share. */
#ifndef WEFT_TRAIN_METRICS_H
#define WEFT_TRAIN_METRICS_H

#include "base/settings.h"
#include "train/train.h"

/* A format of metrics, a row of the table in metrics.c. */
typedef struct weft_metrics_format {
    const char *name; /* before the colon of --metrics; "": the format without a name */
    const char *path; /* what is behind the colon */
    weft_status (*open)(const char *path, int64_t after, void **out);
    /* Writes the options of the run. NULL: the format has none. */
    weft_status (*settings)(void *writer, const weft_settings *settings);
    weft_status (*event)(void *writer, const weft_event *event);
    /* The model's graph, of which the nodes up to the one of `loss` are the forward pass. NULL: the
     * format has no graph. */
    weft_status (*graph)(void *writer, const weft_graph *graph, weft_value loss);
    /* Writes some samples of the training, as batches of this seed have them. NULL: the format has
     * none. */
    weft_status (*samples)(void *writer, const weft_dataset *data, uint64_t seed);
    /* Writes the distribution of a parameter's elements after a step. NULL: the format has none. */
    weft_status (*parameter)(void *writer, int64_t step, const char *name, const weft_type *type,
                             const void *data);
    /* Frees the writer. */
    weft_status (*close)(void *writer);
} weft_metrics_format;
extern const weft_metrics_format weft_metrics_lines, weft_metrics_tensorboard,
    weft_metrics_histograms, weft_metrics_confusion, weft_metrics_pictures, weft_metrics_trackio;

/* confusion_picture.c: appends a PNG of the report's confusion matrix: a row of squares for each
 * true class, darker the larger the share of its samples with that prediction. */
weft_status weft_confusion_picture(const weft_report *report, weft_text *png) WEFT_NODISCARD;

/* sample_picture.c: appends a PNG of sample i of the training, as batches of the first epoch have
 * it. *channels: 1 or 3. ARGUMENT: samples are no pictures. */
weft_status weft_sample_picture(const weft_dataset *data, uint64_t seed, int64_t i, int *channels,
                                weft_text *png) WEFT_NODISCARD;

/* A number of an event. */
typedef struct weft_event_number {
    const char *key;   /* "samples_per_second" */
    const char *group; /* of numbers that belong together: "train", "test", "speed" .. */
    double value;
    int digits; /* significant digits in text; 0: a whole number */
} weft_event_number;
/* Sets *out to number i of a step or an evaluation; false past the end. */
bool weft_event_number_at(const weft_event *event, int i, weft_event_number *out);

#endif
