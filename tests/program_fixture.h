/* Small networks in programs, on stores that may be shared. */
#ifndef WEFT_TESTS_PROGRAM_FIXTURE_H
#define WEFT_TESTS_PROGRAM_FIXTURE_H

#include "support.h"

enum { CLASSES = 7, SIDE = 17, SAMPLE = SIDE * SIDE };

/* What a graph does beyond forward. */
typedef enum kind { GRADIENTS, TRAINING } kind;

/* A graph, and a program of it on somebody's store. */
typedef struct lowered {
    weft_graph *graph;
    weft_model_values values;
    weft_program *program;
} lowered;

void lower(lowered *l, weft_context *context, weft_store *store, const char *model, kind what,
           int64_t batch);
void drop(lowered *l);
/* One thread for each instance: what is shared here are programs, not loops. */
void open_context(weft_context **out);
/* Data that differs with `seed`. */
void feed(const lowered *l, weft_instance *x, int64_t batch, int seed);
void train(const lowered *l, weft_instance *x, int64_t batch, int seed, int steps);
void same_values(const weft_store *a, const weft_store *b);
/* What a store of its own comes to after so many steps on this data. */
void alone(weft_context *context, const char *device, const char *model, int64_t batch, int seed,
           int steps, weft_store **out);

#endif
