/* What the judges of a case share. */
#ifndef WEFT_TESTS_HUNT_JUDGE_H
#define WEFT_TESTS_HUNT_JUDGE_H

#include "hunt.h"

/* How closely two runs agree: to the last bit, to rounding, to what metrics print, or, in single
 * precision, where a run soon goes its own way, only in the loss of the first step. */
typedef enum closeness { EXACT, CLOSE, PRINTED, ROUGH } closeness;

/* A case on trial. The first fault that is found counts; after it nothing is run. */
typedef struct trial {
    const hunt_case *c;
    verdict *v;
    result base;   /* of one rank */
    result swayed; /* the same with a learning rate that is off by rounding and somewhat more */
    bool has_swayed;
    int folders;
    char of_way[32]; /* the folder of the run on the way of the case */
} trial;

void found(trial *t, fault f, const char *form, ...) __attribute__((format(printf, 3, 4)));
void set_text(char *to, size_t room, const char *text);
bool is_f64(const hunt_case *c);
way plain_way(void);

/* compare.c */
bool same_tensor(trial *t, const tensor *a, const tensor *b, closeness how);
/* Losses are sums over ranks of what each has: their bits depend on the number of ranks, and count
 * only where that is the same. */
void compare(trial *t, const char *stage, const result *a, const result *b, closeness how,
             bool losses_too);

void compare_numbers(trial *t, const char *what, double a, double b, closeness how);
void compare_tensors(trial *t, const tensors *a, const tensors *b, closeness how);

/* judge.c: a run that ends as it should, or a verdict. */
bool train(trial *t, const char *stage, const hunt_case *c, const way *w, result *out);

/* learners.c: what averaging comes to, computed apart. */
void check_learners(trial *t);
/* Where weights begin: after a step that is too small to change them. */
bool find_start(trial *t, const hunt_case *c, result *out);
/* Whether samples are shared out to learners so that the mean of their gradients is that of one
 * batch of all. */
bool is_one_batch(const hunt_case *c);
/* exchanges.c: settings of servers and gossip in which they are something simpler. */
void check_exchange(trial *t);
void check_finite(trial *t, const result *r);

#endif
