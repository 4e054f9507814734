/* Generates tokens with the checkpoint of a case on every mesh of up to six ranks, beside one rank:
 * each step gives the same logits, and the same token is drawn from them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "judge.h"

/* Opens a generator; false: it was refused, or the message is a fault. */
static bool open_one(trial *t, weft_context *context, const char *mesh, weft_generator **out)
{
    char latest[TEXT];
    (void)snprintf(latest, sizeof(latest), "%s/latest", t->of_way);
    if (weft_generator_open(context, latest, lone_device(t->c, &t->c->way), mesh, 1, out) ==
        WEFT_OK)
        return true;
    if (!listed_refusal(weft_last_message())) found(t, SENTENCE, "%s", weft_last_message());
    return false;
}

static double largest_of(const double *logits, int count)
{
    double most = 1;
    for (int i = 0; i < count; i++) most = fmax(most, fabs(logits[i]));
    return most;
}

static void compare_logits(trial *t, const double *a, const double *b, int count, int step)
{
    char what[64];
    double scale = largest_of(a, count);
    if (is_narrow(t->c)) return;
    for (int i = 0; i < count; i++) {
        (void)snprintf(what, sizeof(what), "logit %d of token %d, over the largest", i, step + 1);
        compare_numbers(t, what, a[i] / scale, b[i] / scale, is_f64(t->c) ? CLOSE : ROUGH);
    }
}

/* Without a temperature the most likely token is taken, of which rounding may choose among equals;
 * a token that is drawn depends on rounding only by a chance that never comes. */
static void compare_tokens(trial *t, const double *logits, int a, int b, int step)
{
    bool equals = t->c->temperature == 0 && fabs(logits[a] - logits[b]) <= 1e-8;
    if (a == b || equals || !is_f64(t->c)) return;
    found(t, VALUES, "token %d is %d, should be %d", step + 1, b, a);
}

static weft_status generate(trial *t, weft_generator *one, weft_generator *other)
{
    const hunt_case *c = t->c;
    weft_sampling how = {.temperature = c->temperature, .top_p = 1, .seed = 1 + c->samples.train};
    int count = weft_generator_tokens(one);
    int32_t next = 0, same = 0;
    for (int i = 0; i < c->tokens && t->v->fault == CLEAN; i++) {
        weft_status status = weft_generator_feed(one, next);
        if (status == WEFT_OK) status = weft_generator_feed(other, next);
        if (status == WEFT_OK) status = weft_generator_draw(one, &how, &next);
        if (status == WEFT_OK) status = weft_generator_draw(other, &how, &same);
        if (status != WEFT_OK) return status;
        compare_logits(t, weft_generator_logits(one), weft_generator_logits(other), count, i);
        compare_tokens(t, weft_generator_logits(one), next, same, i);
    }
    return WEFT_OK;
}

/* Generates on a mesh; it may be refused, as one with more stages than operators is. */
static void check_generator(trial *t, weft_context *context, const char *mesh, const char *command)
{
    weft_generator *one = NULL, *other = NULL;
    (void)snprintf(t->v->command, sizeof(t->v->command),
                   "%.3700s(then weft generate --mesh %s --device %s --temperature %g)\n", command,
                   mesh, lone_device(t->c, &t->c->way), t->c->temperature);
    if (open_one(t, context, NULL, &one) && open_one(t, context, mesh, &other) &&
        generate(t, one, other) != WEFT_OK)
        found(t, SENTENCE, "%s", weft_last_message());
    weft_generator_close(&one);
    weft_generator_close(&other);
}

void check_generation(trial *t, const result *r)
{
    static const int most[AXES] = {3, 2, 3, 2}; /* of the axes data, domain, tensor, pipeline */
    char mesh[128];
    int size[AXES], all = most[0] * most[1] * most[2] * most[3];
    weft_context *context;
    if (t->c->tokens == 0 || t->v->fault != CLEAN || weft_context_create(&context) != WEFT_OK)
        return;
    set_text(t->v->stage, sizeof(t->v->stage), "generation on a mesh against one rank");
    for (int m = 1; m < all && t->v->fault == CLEAN; m++) {
        int rest = m, ranks = 1;
        for (int a = 0; a < AXES; a++) {
            size[a] = 1 + rest % most[a];
            rest /= most[a];
            ranks *= size[a];
        }
        mesh_text(size, mesh, sizeof(mesh));
        /* A device that compiles kernels takes long for each mesh. */
        bool rare = !has_own_bits(t->c, &t->c->way) && (m + (int)t->c->samples.seed) % 9;
        if (ranks <= 6 && !rare) check_generator(t, context, mesh, r->command);
    }
    weft_context_destroy(&context);
}
