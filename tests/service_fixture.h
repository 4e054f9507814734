/* Shared by the tests of services: small runs, what is predicted with them, and questions. */
#ifndef WEFT_TESTS_SERVICE_FIXTURE_H
#define WEFT_TESTS_SERVICE_FIXTURE_H

#include <pthread.h>

#include "base/base.h"
#include "support.h"

enum { SAMPLES = 31, MOST = 64, SIDE = 17, SIZE = SIDE * SIDE };
#define GLYPHS "glyphs:size=17,train=60,test=31"

/* What is said of a test sample, and its features as they were before training's treatment. */
typedef struct told {
    int count, outputs;
    bool numbers; /* they are no probabilities, which are single precision */
    double said[SAMPLES][16];
    float x[SAMPLES][SIZE];
} told;

extern weft_context *asked_context;
extern char asked_folder[];

/* A context of one thread, and a folder: to be called first; and last, which is not 0 if that
 * fails. */
void asked_begin(void);
int asked_end(void);

void asked_path(char *path, size_t size, const char *name);
/* Trains for an epoch; the checkpoint has this name in the folder. */
void asked_train(const char *name, const char *model, const char *data, const char *dtype,
                 int seed);
/* As weft predict in batches of so many rows. */
void asked_predict(const char *name, int batch, told *out);
/* Features of the test part before anything is done to them, or as training has them ("auto"). */
void asked_features(const char *data, const char *normalize, told *out);
/* Asks, and waits for the answer. */
weft_status asked_ask(weft_servable *served, weft_inference_request *question);
/* A question of so many rows. said: [rows, outputs]. */
weft_inference_request asked_question(int64_t rows, const float *x, double *said);
/* A service on the options that are set here, of one thread each, that measures hardly anything and
 * keeps nothing. */
weft_service *asked_serve(weft_service_options *options);
weft_service *asked_serve_plainly(int instances, int64_t limit);

/* A text as a file of the folder, whose path comes back. */
void asked_write_text(const char *name, const char *text, char *path, size_t size);
/* Tables of so many rows, whose columns have hardly anything in common: row i. */
enum { TABLE = 60 + SAMPLES, COLUMNS = 3 };
void asked_row(int i, double *x);
/* As CSV with a class, or a number far from zero. */
void asked_write_table(const char *name, bool classes, char *path, size_t size);
/* As NPY: [TABLE, columns], the features where there are COLUMNS, else two targets. */
void asked_write_array(const char *name, int columns, char *path, size_t size);

#endif
