/* Declarations that the files which judge a case share: judge.c, compare.c, learners.c,
 * exchanges.c. */
#ifndef WEFT_TESTS_HUNT_JUDGE_H
#define WEFT_TESTS_HUNT_JUDGE_H

#include "hunt.h"

/* How closely two runs must agree: in each bit, up to rounding, or up to the digits that metrics
 * print. ROUGH compares only the loss of the first step, since single-precision runs soon drift
 * apart. */
typedef enum closeness { EXACT, CLOSE, PRINTED, ROUGH } closeness;

/* The judgement of one case. The first fault that is found counts, and ends the runs. */
typedef struct trial {
    const hunt_case *c;
    verdict *v;
    result base;   /* the run of one rank */
    result swayed; /* as `base`, with a learning rate that is off by the factor 1 + 1e-10 */
    bool has_swayed;
    int folders;
    char of_way[32]; /* the folder of the run in the case's way */
} trial;

void found(trial *t, fault f, const char *form, ...) __attribute__((format(printf, 3, 4)));
void set_text(char *to, size_t room, const char *text);
bool is_f64(const hunt_case *c);
/* Whether numbers are rounded to bf16, which only equal bits can be held against. */
bool is_narrow(const hunt_case *c);
way plain_way(void);

/* compare.c */
bool same_tensor(trial *t, const tensor *a, const tensor *b, closeness how);
/* Compares run b with run a. The loss is a sum over ranks, so its bits depend on the number of
 * ranks: EXACT holds for the losses only with losses_too. */
void compare(trial *t, const char *stage, const result *a, const result *b, closeness how,
             bool losses_too);

void compare_numbers(trial *t, const char *what, double a, double b, closeness how);
void compare_tensors(trial *t, const tensors *a, const tensors *b, closeness how);

/* judge.c: trains a case in a way; false: the run failed, or a fault was found before, and the
 * verdict says so. */
bool train(trial *t, const char *stage, const hunt_case *c, const way *w, result *out);

/* generate.c: generates tokens with the checkpoint of run r on a mesh and on one rank. */
void check_generation(trial *t, const result *r);

/* learners.c: checks the first average of learners against the mean that is computed here. */
void check_learners(trial *t);
/* Gives the initial parameters: those after one step at a learning rate of 1e-30. */
bool find_start(trial *t, const hunt_case *c, result *out);
/* Whether the mean of the learners' gradients is the gradient of one batch with the samples of all
 * learners. */
bool is_one_batch(const hunt_case *c);
/* exchanges.c: checks servers and gossip in settings whose result is known. */
void check_exchange(trial *t);
void check_finite(trial *t, const result *r);

#endif
