/* A data set whose training can be computed by hand: sample i has a 1 in feature i and 0 elsewhere,
 * and the model is one dense layer without bias. So row i of the weights changes exactly when
 * sample i is read, as a few lines of C compute, and the weights show which learner has read which
 * sample. */
#ifndef WEFT_TESTS_ONEHOT_DATA_H
#define WEFT_TESTS_ONEHOT_DATA_H

#include "support.h"

enum { ROWS = 31, TEST_ROWS = 6, TRAIN_ROWS = ROWS - TEST_ROWS, CLASSES = 5, MOST_LEARNERS = 4 };

/* A row of the weights, or of an optimizer's moments. */
typedef double numbers[CLASSES];

/* Row i of the weights with the optimizer's first and second moment. */
typedef struct row {
    numbers w, m, v;
} row;

/* An optimizer and its settings. */
typedef struct rule {
    const char *name; /* sgd, nesterov, adam or adamw */
    double momentum, decay, beta1, beta2, epsilon;
} rule;

int label_of(int i);

/* Writes the model, and the table with the samples of `rows` (NULL: all ROWS). `words` receives the
 * options "model=... data=... normalize=none" for them. */
void write_rows(const char *folder, const int *rows, int count, double test, char *words,
                size_t room);

/* Reads a tensor of f32 or f64 from the bytes of a checkpoint's safetensors file, without the
 * library; false: the file or the tensor does not exist. */
bool read_tensor(const char *folder, int step, const char *file, const char *tensor, double *out,
                 int count);
/* Reads the weights and, unless `moment` is NULL, the first moment of every row, as the given
 * learner has them in a checkpoint. */
void read_rows(const char *folder, int step, int learner, const char *moment, row rows[ROWS]);

void softmax_of(const double *w, double *p);
double loss_of(const double *w, int label);
int best_of(const double *w);

/* Updates a row as the optimizer should. Its gradient is that of `share` times the loss of its
 * sample (0: the batch does not have the sample), times `scale`. */
void update_row(const rule *how, row *r, int label, double share, double scale, double rate,
                int step);

/* The largest absolute difference between two rows. */
double distance(const double *a, const double *b);

/* Reads the initial weights of runs with these options. */
void initial_rows(const char *folder, const char *words, row rows[ROWS]);
/* Marks the samples of the test part: those that no training step reads. */
void find_test_rows(const char *folder, const char *words, const row start[ROWS], bool test[ROWS]);

#endif
