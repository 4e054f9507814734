/* Training runs with exchanges, and comparisons of their checkpoints. */
#ifndef WEFT_TESTS_EXCHANGE_RUNS_H
#define WEFT_TESTS_EXCHANGE_RUNS_H

#include "fake_exchanges.h"
#include "formats/safetensors.h"
#include "trainer_runs.h"

#define SMALL "model=mlp data=glyphs:size=9,train=96,test=8 seed=4 threads=1 "
#define EXACT SMALL "dtype=f64 device=reference "

/* Setup and teardown of a test group: `begin` registers the exchanges of fake_exchanges.h with the
 * context and makes take_log its log. */
extern char last_note[512]; /* the last line of level WEFT_LOG_NOTE */
void take_log(void *user, weft_log_level level, const char *text);
int begin(void **state);
int end(void **state);

/* The tensors of FILE.safetensors in the newest checkpoint of a folder. open_tensors returns false
 * if the checkpoint lacks the file. */
typedef struct tensors {
    weft_bytes bytes;
    weft_safetensors all;
} tensors;
bool open_tensors(const char *folder, const char *file, tensors *out);
void close_tensors(tensors *t);
/* Asserts that a file of the newest checkpoints of the folders a and b has the same tensors, whose
 * numbers differ by at most `close` (0: the same bits). */
void assert_same(const char *a, const char *b, const char *file, double close, const char *why);
/* As assert_same with close 0, or that both lack the file: not all exchanges have state. */
void assert_same_or_none(const char *a, const char *b, const char *file, const char *why);

/* Returns "ROOT/NAME" in one of eight buffers that are used in turn. */
const char *made(const char *root, const char *name);
void run(const char *words, const char *more, const char *folder, int stop_after);
/* Makes the folder look as if the run had died after that step: removes later checkpoints, up to
 * `last`, and points `latest` to the step. */
void go_back_to(const char *folder, int step, int last);
/* Runs `words` with `whole`, and in another folder with `part`, then, back at step `back` (0: at
 * its end), with `rest`: asserts that both end with the same bits in these files, each but the last
 * followed by a space. */
void assert_resumed(const char *words, const char *whole, const char *part, int back,
                    const char *rest, const char *files);

#endif
