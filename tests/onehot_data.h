/* A data set whose training can be computed by hand: sample i has feature i alone, and the model is
 * one dense layer without bias. Then row i of the weights changes exactly when sample i is read, by
 * a few lines of C, and whoever looks at the weights sees who has read what. */
#ifndef WEFT_TESTS_ONEHOT_DATA_H
#define WEFT_TESTS_ONEHOT_DATA_H

#include "support.h"

enum { ROWS = 31, TEST_ROWS = 6, TRAIN_ROWS = ROWS - TEST_ROWS, CLASSES = 5, MOST_LEARNERS = 4 };

/* A row of the weights, or of what an optimiser keeps. */
typedef double numbers[CLASSES];

typedef struct row {
    numbers w, m, v;
} row;

typedef struct rule {
    const char *name; /* sgd, nesterov, adam or adamw */
    double momentum, decay, beta1, beta2, epsilon;
} rule;

int label_of(int i);

/* Writes the model and the table with the samples of `rows` (NULL: all ROWS); gives the words
 * "model=... data=... normalize=none" for them. */
void write_rows(const char *folder, const int *rows, int count, double test, char *words,
                size_t room);

/* A tensor of a checkpoint, read from the bytes of its file; false if it is not there. Scalars of
 * f32 and f64. */
bool read_tensor(const char *folder, int step, const char *file, const char *tensor, double *out,
                 int count);
/* Weights and first moment of every row as a learner of a checkpoint has them. */
void read_rows(const char *folder, int step, int learner, const char *moment, row rows[ROWS]);

void softmax_of(const double *w, double *p);
double loss_of(const double *w, int label);
int best_of(const double *w);

/* One update of a row: the gradient of `share` of its sample's loss (0: not read), times `scale`.
 */
void update_row(const rule *how, row *r, int label, double share, double scale, double rate,
                int step);

/* Largest difference of two rows. */
double distance(const double *a, const double *b);

/* Rows of the weights before the first step of runs with these words. */
void initial_rows(const char *folder, const char *words, row rows[ROWS]);
/* The samples that no run reads are the test part. */
void find_test_rows(const char *folder, const char *words, const row start[ROWS], bool test[ROWS]);

#endif
