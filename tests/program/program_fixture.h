/* Small built-in models as programs, with stores that several programs may share. */
#ifndef WEFT_TESTS_PROGRAM_FIXTURE_H
#define WEFT_TESTS_PROGRAM_FIXTURE_H

#include "support.h"

enum { CLASSES = 7, SIDE = 17, SAMPLE = SIDE * SIDE };

/* GRADIENTS: the graph ends with the gradients; TRAINING: it has an optimizer, too. */
typedef enum kind { GRADIENTS, TRAINING } kind;

/* A graph and the program that was made of it for a store. */
typedef struct lowered {
    weft_graph *graph;
    weft_model_values values;
    weft_value keep; /* WEFT_NO_VALUE: a step is one micro-batch */
    weft_program *program;
} lowered;

/* A training program whose steps have so many micro-batches, of which `slots` are in progress. */
void lower_micro(lowered *l, weft_context *context, weft_store *store, const char *model,
                 int micros, int slots, int64_t batch);
void lower(lowered *l, weft_context *context, weft_store *store, const char *model, kind what,
           int64_t batch);
void drop(lowered *l);
/* Opens a context that gives each instance one thread: the tests share programs between instances,
 * and need no parallel loops. */
void open_context(weft_context **out);
/* Writes a batch of fixed samples, which differ with `seed`, into the inputs. */
void feed(const lowered *l, weft_instance *x, int64_t batch, int seed);
void train(const lowered *l, weft_instance *x, int64_t batch, int seed, int steps);
void same_values(const weft_store *a, const weft_store *b);
/* Trains a store of its own for so many steps on the data of these seeds; *out is the reference
 * with which tests compare stores that share a program. */
void alone(weft_context *context, const char *device, const char *model, int64_t batch, int seed,
           int steps, weft_store **out);

#endif
