/* Declares the parts that the doubles of CUDA's libraries share: objects that are kept for ever, so
 * that later use is seen, and the way into the double of the driver. Misuse ends the process with a
 * line of the words "fake_NAME:". */
#ifndef WEFT_TESTS_FAKE_CUDA_LIBRARY_H
#define WEFT_TESTS_FAKE_CUDA_LIBRARY_H

#include "fake.h"

extern const char library_name[]; /* of the double */

typedef struct object {
    enum { LIVES = 0x600d, GONE = 0xbad } state;
    const char *kind;
} object;

void library_misuse(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
/* The status that FAKE_CUDA_FAIL plans for a function; the second one for a function that needs no
 * current context. */
unsigned library_planned(const char *function);
unsigned library_planned_anywhere(const char *function);
void *library_new(size_t bytes, const char *kind);
/* The object is one of this kind, and was not destroyed. */
void library_need(const char *function, const void *data, const char *kind);
unsigned library_end(const char *function, void *data, const char *kind);
/* Queues `run`, which frees nothing, over pieces of memory of a card; frees `user` afterwards. */
unsigned library_queue(cu_stream stream, const char *function, void (*run)(void *user), void *user,
                       const fake_use *use, int uses);
/* As library_queue, but `run` is called once `ready` says so. */
unsigned library_queue_when(cu_stream stream, const char *function, bool (*ready)(void *user),
                            void (*run)(void *user), void *user, const fake_use *use, int uses);
/* A function of the double of the driver. */
void *library_of_driver(const char *name);
/* The `count` pieces from `first` on, which are written, overlap no other one. */
void library_need_apart(const char *function, const fake_use *use, int uses, int first, int count);
/* Rounds to ten bits of mantissa, ties to even. */
double library_tf32(double value);

#endif
