/* Runs with exchanges, and what their checkpoints hold. */
#ifndef WEFT_TESTS_EXCHANGE_RUNS_H
#define WEFT_TESTS_EXCHANGE_RUNS_H

#include "fake_exchanges.h"
#include "formats/safetensors.h"
#include "trainer_runs.h"

#define SMALL "model=mlp data=glyphs:size=9,train=96,test=8 seed=4 threads=1 "
#define EXACT SMALL "dtype=f64 device=reference "

/* Setup of the group of tests: the context knows the exchanges of fake_exchanges.h. */
extern char last_note[512]; /* what it has said last */
void take_log(void *user, weft_log_level level, const char *text);
int begin(void **state);
int end(void **state);

/* A file of the newest checkpoint; false: there is none. */
typedef struct tensors {
    weft_bytes bytes;
    weft_safetensors all;
} tensors;
bool open_tensors(const char *folder, const char *file, tensors *out);
void close_tensors(tensors *t);
/* The same tensors with the same numbers, up to `close` (0: the same bits). */
void assert_same(const char *a, const char *b, const char *file, double close, const char *why);

/* "root/name", one of the last eight. */
const char *made(const char *root, const char *name);
void run(const char *words, const char *more, const char *folder, int stop_after);

#endif
