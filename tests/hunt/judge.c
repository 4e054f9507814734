/* What must hold of a case: which runs are compared with which, and how closely. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "hunt.h"

const char *const fault_names[FAULTS] = {
    [CLEAN] = "clean",
    [REFUSED] = "refused as it should be",
    [VALUES] = "other values",
    [BITS] = "other bits",
    [SENTENCE] = "a sentence that is not listed",
    [CRASH] = "a crash",
    [HANG] = "no end within the limit",
    [SANITIZER] = "a report of the sanitizer",
};

/* How closely two runs agree: to the last bit, to rounding, or, in single precision, where a run
 * soon goes its own way, only in the loss of the first step. */
typedef enum closeness { EXACT, CLOSE, ROUGH } closeness;
static const double limits[] = {[EXACT] = 0, [CLOSE] = 1e-9, [ROUGH] = 1e-3};

typedef struct trial {
    const hunt_case *c;
    verdict *v;
    result base; /* of one rank */
    int folders;
} trial;

static void set_text(char *to, size_t room, const char *text)
{
    (void)snprintf(to, room, "%s", text);
}

static void found(trial *t, fault f, const char *form, ...) __attribute__((format(printf, 3, 4)));
static void found(trial *t, fault f, const char *form, ...)
{
    char text[2048];
    va_list arguments;
    if (t->v->fault != CLEAN) return;
    va_start(arguments, form);
    (void)vsnprintf(text, sizeof(text), form, arguments);
    va_end(arguments);
    set_text(t->v->text, sizeof(t->v->text), text);
    t->v->fault = f;
}

/* Notes the command before it is run, in case the process does not survive it. */
static void note(trial *t, const char *stage, const hunt_case *c, const way *w, const char *folder,
                 const char *before, const char *after)
{
    static words line;
    FILE *f = fmemopen(t->v->command, sizeof(t->v->command), "w");
    if (!f) abort();
    case_words(c, w, folder, &line);
    fprintf(f, "%s", before);
    print_words(f, "weft train", &line);
    fprintf(f, "%s", after);
    (void)fclose(f);
    set_text(t->v->stage, sizeof(t->v->stage), stage);
}

/* --- runs --- */

/* A run that ends as it should, or a verdict. */
static bool train(trial *t, const char *stage, const hunt_case *c, const way *w, result *out)
{
    char folder[32];
    if (t->v->fault != CLEAN) return false;
    (void)snprintf(folder, sizeof(folder), "out%d", t->folders++);
    note(t, stage, c, w, folder, "", "");
    t->v->runs++;
    run_case(c, w, folder, 0, false, out);
    set_text(out->command, sizeof(out->command), t->v->command);
    if (out->status == WEFT_OK) return true;
    found(t, listed_refusal(out->message) ? REFUSED : SENTENCE, "%s", out->message);
    result_free(out);
    return false;
}

/* The same, stopped on the way and taken up again. */
static bool train_in_two(trial *t, const char *stage, const hunt_case *c, result *out)
{
    char folder[32], before[4096], after[TEXT];
    result first;
    if (t->v->fault != CLEAN) return false;
    (void)snprintf(folder, sizeof(folder), "out%d", t->folders++);
    (void)snprintf(after, sizeof(after), "(stopped after step %d)\n", c->stop);
    note(t, stage, c, &c->way, folder, "", after);
    set_text(before, sizeof(before), t->v->command);
    t->v->runs += 2;
    run_case(c, &c->way, folder, c->stop, false, &first);
    *out = first;
    result_free(&first);
    if (out->status == WEFT_OK) {
        note(t, stage, c, &c->later, folder, before, "(with --resume)\n");
        run_case(c, &c->later, folder, 0, true, out);
        for (int i = 0; i < first.steps; i++) out->losses[i] = first.losses[i];
        set_text(out->command, sizeof(out->command), t->v->command);
        if (out->status == WEFT_OK) return true;
    }
    found(t, listed_refusal(out->message) ? REFUSED : SENTENCE, "%s", out->message);
    result_free(out);
    return false;
}

/* --- comparisons --- */

static bool is_f64(const hunt_case *c)
{
    return c->options[DTYPE] == F64;
}

static bool same_tensor(trial *t, const tensor *a, const tensor *b, closeness how)
{
    double most = 1e-3, off = 0;
    int64_t where = 0;
    if (!b) {
        found(t, VALUES, "'%s' is missing", a->name);
        return false;
    }
    if (a->count != b->count || strcmp(a->dtype, b->dtype) != 0) {
        found(t, VALUES, "'%s' has %lld numbers of %s, not %lld of %s", a->name,
              (long long)b->count, b->dtype, (long long)a->count, a->dtype);
        return false;
    }
    for (int64_t i = 0; i < a->count; i++) most = fmax(most, fabs(tensor_at(a, i)));
    for (int64_t i = 0; i < a->count; i++) {
        double d = fabs(tensor_at(a, i) - tensor_at(b, i)) / most;
        if (d > off || isnan(d)) {
            off = isnan(d) ? INFINITY : d;
            where = i;
        }
    }
    if (off <= limits[how]) return true;
    found(t, how == EXACT ? BITS : VALUES, "'%s'[%lld] is %.17g, should be %.17g", a->name,
          (long long)where, tensor_at(b, where), tensor_at(a, where));
    return false;
}

static void compare_numbers(trial *t, const char *what, double a, double b, closeness how)
{
    if (fabs(a - b) <= limits[how] * fmax(1, fabs(a))) return;
    found(t, how == EXACT ? BITS : VALUES, "%s is %.17g, should be %.17g", what, b, a);
}

static void compare_tensors(trial *t, const tensors *a, const tensors *b, closeness how)
{
    for (int i = 0; i < a->count; i++)
        if (!same_tensor(t, &a->list[i], tensors_find(b, a->list[i].name), how)) return;
    if (a->count != b->count)
        found(t, VALUES, "the checkpoint has %d tensors, should have %d", b->count, a->count);
}

/* Losses are sums over ranks of what each has: their bits depend on the number of ranks, and count
 * only where that is the same. */
static void compare(trial *t, const char *stage, const result *a, const result *b, closeness how,
                    bool losses_too)
{
    char what[64];
    if (t->v->fault != CLEAN) return;
    set_text(t->v->stage, sizeof(t->v->stage), stage);
    set_text(t->v->command, sizeof(t->v->command), b->command);
    if (how == ROUGH) {
        compare_numbers(t, "the loss of step 1", a->losses[0], b->losses[0], how);
        return;
    }
    compare_tensors(t, &a->tensors, &b->tensors, how);
    if (how == EXACT && !losses_too) how = is_f64(t->c) ? CLOSE : ROUGH;
    for (int i = 0; i < a->steps; i++) {
        (void)snprintf(what, sizeof(what), "the loss of step %d", i + 1);
        compare_numbers(t, what, a->losses[i], b->losses[i], how);
    }
    compare_numbers(t, "the loss of the test part", a->test_loss, b->test_loss, how);
    compare_numbers(t, "the accuracy of the test part", a->accuracy, b->accuracy, CLOSE);
}

/* --- what the documents promise --- */

static bool only_data(const way *w)
{
    return w->mesh[0] == way_ranks(w) && !w->places && !w->pins[0].id && !w->pins[1].id;
}

static bool same_way(const way *a, const way *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static way plain_way(void)
{
    return (way){.mesh = {1, 1, 1, 1}};
}

/* How closely a run on another mesh comes to one rank: with virtual workers to the last bit. */
static closeness across(const hunt_case *c, const way *w)
{
    if (c->options[VIRTUAL_WORKERS] > 0 && only_data(w)) return EXACT;
    return is_f64(c) ? CLOSE : ROUGH;
}

/* With one thing left out of the way, the bits are those of this run. */
static void without(trial *t, const result *r, const way *other, const char *stage)
{
    result plain;
    if (same_way(other, &t->c->way)) return;
    if (!train(t, stage, t->c, other, &plain)) return;
    compare(t, stage, &plain, r, EXACT, false);
    result_free(&plain);
}

/* Stages 2 and 3 add each micro-batch over the ranks before micro-batches are added. */
static bool zero_keeps_bits(const hunt_case *c)
{
    return only_data(&c->way) && (c->way.zero < 2 || c->options[MICROBATCHES] == 1);
}

static void check_promises(trial *t, const result *r)
{
    const hunt_case *c = t->c;
    way other = c->way;
    result again;
    other.zero = 0;
    if (zero_keeps_bits(c)) without(t, r, &other, "ZeRO against plain data parallelism");
    other = c->way;
    other.recompute = false;
    if (c->options[DEVICE] == REFERENCE)
        without(t, r, &other, "with against without recomputation");
    if (!c->twice || !train(t, "the same again", c, &c->way, &again)) return;
    compare(t, "a second run against the first", r, &again, EXACT, true);
    result_free(&again);
}

static void check_resumed(trial *t, const result *r)
{
    result again;
    const hunt_case *c = t->c;
    bool alike = same_way(&c->way, &c->later);
    closeness how = alike ? EXACT : across(c, &c->way);
    if (!alike && across(c, &c->later) > how) how = across(c, &c->later);
    if (!c->stop || !train_in_two(t, "a run in two parts", c, &again)) return;
    compare(t, "in two parts against in one", r, &again, how, alike);
    result_free(&again);
}

/* A plan describes what can be run, and refuses what cannot. */
static void check_plan(trial *t, const result *r)
{
    char text[2048];
    note(t, "weft plan", t->c, &t->c->way, NULL, "(weft plan with these options)\n", "");
    if (r->status == WEFT_OK && plan_case(t->c, &t->c->way, text, sizeof(text)) != WEFT_OK)
        found(t, SENTENCE, "%s", text);
}

/* One rank of a single-precision run is held against double precision. */
static void check_precision(trial *t)
{
    way one = plain_way();
    hunt_case c = *t->c;
    result r;
    if (is_f64(t->c) || rounding_decides(t->c)) return;
    c.options[DEVICE] = REFERENCE;
    c.options[DTYPE] = F64;
    if (!train(t, "one rank in double precision", &c, &one, &r)) return;
    compare(t, "one rank in single against double precision", &r, &t->base, ROUGH, false);
    result_free(&r);
}

static void check_way(trial *t)
{
    const hunt_case *c = t->c;
    closeness how = across(c, &c->way);
    result r;
    if (!train(t, "the way to run", c, &c->way, &r)) return;
    if (how != ROUGH || !rounding_decides(c))
        compare(t, "the way to run against one rank", &t->base, &r, how, false);
    check_promises(t, &r);
    check_resumed(t, &r);
    if (c->plan && t->v->fault == CLEAN) check_plan(t, &r);
    result_free(&r);
}

void judge(const hunt_case *c, verdict *out)
{
    trial t = {.c = c, .v = out};
    way one = plain_way();
    out->fault = CLEAN;
    if (!train(&t, "one rank", c, &one, &t.base)) return;
    check_precision(&t);
    if (out->fault == CLEAN) check_way(&t);
    result_free(&t.base);
}
