/* Shared by the tests of serving: trains small models, predicts with them by weft predict and by a
 * service, and writes small data files. */
#ifndef WEFT_TESTS_SERVICE_FIXTURE_H
#define WEFT_TESTS_SERVICE_FIXTURE_H

#include <pthread.h>

#include "base/base.h"
#include "support.h"

enum { SAMPLES = 31, MOST = 64, SIDE = 17, SIZE = SIDE * SIDE };
#define GLYPHS "glyphs:size=17,train=60,test=31"

/* The predictions for all test samples, and the samples' features before normalization. */
typedef struct told {
    int count, outputs;
    bool numbers; /* outputs are f64 numbers, not f32 probabilities */
    double said[SAMPLES][16];
    float x[SAMPLES][SIZE];
} told;

extern weft_context *asked_context;
extern char asked_folder[];

/* asked_begin creates a context of one thread and a folder, before the first test. asked_end
 * removes both after the last one; its result is not 0 if that fails. */
void asked_begin(void);
int asked_end(void);

void asked_path(char *path, size_t size, const char *name);
/* Trains for one epoch; the checkpoint is folder `name` in asked_folder. */
void asked_train(const char *name, const char *model, const char *data, const char *dtype,
                 int seed);
/* Predicts the test part as weft predict does, in batches of so many rows. */
void asked_predict(const char *name, int batch, told *out);
/* Reads the features of the test part. normalize "none": as they are in the data; "auto": as
 * training normalizes them. */
void asked_features(const char *data, const char *normalize, told *out);
/* Makes a request of so many rows, whose predictions go to `said`, [rows, outputs]. */
weft_inference_request asked_question(int64_t rows, const float *x, double *said);
/* Creates a service with these options. Each instance has one thread; batch times are measured for
 * a short time only, and neither read from nor written to a file. */
weft_service *asked_serve(weft_service_options *options);
weft_service *asked_serve_plainly(int instances, int64_t limit);

/* Writes a text file into asked_folder, and returns its path. */
void asked_write_text(const char *name, const char *text, char *path, size_t size);
/* Data files of TABLE rows whose columns have very different ranges. asked_row computes row i. */
enum { TABLE = 60 + SAMPLES, COLUMNS = 3 };
void asked_row(int i, double *x);
/* Writes the rows as CSV, with a class or, as target, a large number. */
void asked_write_table(const char *name, bool classes, char *path, size_t size);
/* Writes the rows as NPY, [TABLE, columns]: the features if columns is COLUMNS, else two
 * targets. */
void asked_write_array(const char *name, int columns, char *path, size_t size);

#endif
