/* Draws and writes the options by which a run is judged: the validation part, metrics, patience and
 * the best checkpoint; and those that change the samples of the training. */
#include <stdlib.h>

#include "hunt.h"

enum { OF_NUMBERS = 6 }; /* the first metric of numbers; "loss" is of both */

const char *const hunt_metrics[METRICS] = {NULL,  "loss", "accuracy", "f1_macro", "recall_macro",
                                           "auc", "r2",   "mae",      "rmse"};

/* mixup and cutmix need classes, and a loss that takes two of a sample. */
enum { FIRST_MIXING = 5 };
static const char *const augmentations[AUGMENTATIONS] = {
    "crop:pad=1", "flip", "color=0.3", "rotate=20", "erase", "mixup:alpha=0.7", "cutmix"};

static int draw_metric(dice *d, const hunt_case *c)
{
    bool numbers = c->samples.targets > 0;
    if (chance(d, 0.3) || c->samples.several) return 1;
    return numbers ? between(d, OF_NUMBERS, METRICS - 1) : between(d, 2, OF_NUMBERS - 1);
}

/* Augmentations are of images of up to four channels, the only input. */
static void draw_augment(dice *d, hunt_case *c)
{
    const samples *s = &c->samples;
    bool images = s->shape.dims == 2 && s->shape.channels <= 4 && s->format != CSV;
    if (!images || reads_lengths(c) || chance(d, 0.4)) return;
    bool mixes = !s->targets && c->options[LOSS] == 0;
    for (int i = 0; i < (mixes ? AUGMENTATIONS : FIRST_MIXING); i++)
        if (chance(d, 0.35)) c->judging.augment |= 1U << i;
}

void draw_judging(dice *d, hunt_case *c)
{
    judging *j = &c->judging;
    bool lockstep = c->exchange.kind <= ONESHOT;
    draw_augment(d, c);
    if (!c->samples.targets && chance(d, 0.2)) j->classes = between(d, 1, 2);
    if (chance(d, 0.2)) j->metric = draw_metric(d, c);
    if (chance(d, 0.7)) return;
    j->held = between(d, 1, 12);
    if (!lockstep) return;
    if (chance(d, 0.5)) j->best = draw_metric(d, c);
    if (chance(d, 0.4)) j->patience = between(d, 1, 2);
    if (chance(d, 0.7)) c->options[EVALUATE_EVERY] = between(d, 1, 2);
}

void judging_words(const hunt_case *c, words *out)
{
    const judging *j = &c->judging;
    char list[256] = "";
    size_t used = 0;
    if (j->held) { /* a share of a little more holds out so many */
        add_word(out, "--validation");
        add_word(out, "%.9g", (j->held + 0.25) / (c->samples.train + j->held));
    }
    if (j->patience) {
        add_word(out, "--patience");
        add_word(out, "%d", j->patience);
    }
    if (j->metric) {
        add_word(out, "--metric");
        add_word(out, "%s", hunt_metrics[j->metric]);
    }
    for (int i = 0; j->classes == 2 && i < c->samples.classes; i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%g", used ? "," : "",
                                 0.5 + i * 3 % 4);
    if (j->classes) {
        add_word(out, "--class-weights");
        add_word(out, "%s", j->classes == 2 ? list : "balanced");
    }
    used = 0;
    for (int i = 0; i < AUGMENTATIONS; i++)
        if (j->augment >> i & 1U)
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? "," : "",
                                     augmentations[i]);
    if (!used) return;
    add_word(out, "--augment");
    add_word(out, "%s", list);
}
