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

#define LIMIT 1e-9

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

static bool same_tensor(trial *t, const tensor *a, const tensor *b, bool exact)
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
    if (off <= (exact ? 0 : LIMIT)) return true;
    found(t, exact ? BITS : VALUES, "'%s'[%lld] is %.17g, should be %.17g", a->name,
          (long long)where, tensor_at(b, where), tensor_at(a, where));
    return false;
}

static void compare_numbers(trial *t, const char *what, double a, double b, bool exact)
{
    if (exact ? a == b : fabs(a - b) <= LIMIT * fmax(1, fabs(a))) return;
    found(t, exact ? BITS : VALUES, "%s is %.17g, should be %.17g", what, b, a);
}

/* Losses are sums over ranks of what each has: their bits depend on the number of ranks, and are
 * compared only between runs on the same mesh. */
static void compare(trial *t, const char *stage, const result *a, const result *b, bool exact,
                    bool losses_too)
{
    char what[64];
    if (t->v->fault != CLEAN) return;
    set_text(t->v->stage, sizeof(t->v->stage), stage);
    set_text(t->v->command, sizeof(t->v->command), b->command);
    for (int i = 0; i < a->tensors.count; i++) {
        const tensor *like = &a->tensors.list[i];
        if (!same_tensor(t, like, tensors_find(&b->tensors, like->name), exact)) return;
    }
    if (a->tensors.count != b->tensors.count)
        found(t, VALUES, "the checkpoint has %d tensors, should have %d", b->tensors.count,
              a->tensors.count);
    for (int i = 0; i < a->steps; i++) {
        (void)snprintf(what, sizeof(what), "the loss of step %d", i + 1);
        compare_numbers(t, what, a->losses[i], b->losses[i], exact && losses_too);
    }
    compare_numbers(t, "the loss of the test part", a->test_loss, b->test_loss,
                    exact && losses_too);
    compare_numbers(t, "the accuracy of the test part", a->accuracy, b->accuracy, false);
}

/* --- what the documents promise --- */

static bool only_data(const way *w)
{
    return w->mesh[0] == way_ranks(w) && !w->place[0] && !w->shard[0];
}

static bool is_f64(const hunt_case *c)
{
    return c->options[DTYPE] == F64;
}

static bool same_way(const way *a, const way *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

static way plain_way(void)
{
    return (way){.mesh = {1, 1, 1, 1}};
}

/* The same bits as one rank, with virtual workers; otherwise the values. */
static void against_one(trial *t, const result *r, const way *w, const char *stage)
{
    bool bits = t->c->options[VIRTUAL_WORKERS] > 0 && only_data(w);
    if (bits || is_f64(t->c)) compare(t, stage, &t->base, r, bits, false);
}

/* With one thing left out of the way, the bits are those of this run. */
static void without(trial *t, const result *r, const way *other, const char *stage)
{
    result plain;
    if (same_way(other, &t->c->way)) return;
    if (!train(t, stage, t->c, other, &plain)) return;
    compare(t, stage, &plain, r, true, false);
    result_free(&plain);
}

static void check_promises(trial *t, const result *r)
{
    const hunt_case *c = t->c;
    way other = c->way;
    other.zero = 0;
    without(t, r, &other, "ZeRO against plain data parallelism");
    other = c->way;
    other.recompute = false;
    without(t, r, &other, "with against without recomputation");
}

static void check_resumed(trial *t, const result *r)
{
    result again;
    const hunt_case *c = t->c;
    bool alike = same_way(&c->way, &c->later);
    bool bits =
        alike || (c->options[VIRTUAL_WORKERS] > 0 && only_data(&c->way) && only_data(&c->later));
    if (!c->stop || !train_in_two(t, "a run in two parts", c, &again)) return;
    if (bits || is_f64(c)) compare(t, "in two parts against in one", r, &again, bits, alike);
    result_free(&again);
}

void judge(const hunt_case *c, verdict *out)
{
    trial t = {.c = c, .v = out};
    way one = plain_way();
    result r;
    out->fault = CLEAN;
    if (!train(&t, "one rank", c, &one, &t.base)) return;
    if (train(&t, "the way to run", c, &c->way, &r)) {
        against_one(&t, &r, &c->way, "the way to run against one rank");
        check_promises(&t, &r);
        check_resumed(&t, &r);
        result_free(&r);
    }
    result_free(&t.base);
}
