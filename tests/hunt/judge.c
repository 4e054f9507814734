/* Judges a case of the hunt: chooses which of its runs are compared with each other, and how
 * closely they must agree. */
#include <stdlib.h>
#include <string.h>

#include "judge.h"

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

/* --- runs --- */

/* Writes the command and the stage of a run into the verdict before the run, so that the parent
 * process has them if the run crashes. */
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

/* Whether a run may fail with this message: a listed refusal, or a divergence. The first run may
 * diverge, and any run of a case whose runs need not agree with each other. */
static bool is_expected(const trial *t, const char *message)
{
    bool may_diverge = t->v->runs == 1 || !is_comparable(t->c);
    return listed_refusal(message) || (may_diverge && is_divergence(message));
}

bool train(trial *t, const char *stage, const hunt_case *c, const way *w, result *out)
{
    char folder[32];
    if (t->v->fault != CLEAN) return false;
    (void)snprintf(folder, sizeof(folder), "out%d", t->folders++);
    note(t, stage, c, w, folder, "", "");
    t->v->runs++;
    run_case(c, w, folder, 0, false, out);
    set_text(out->command, sizeof(out->command), t->v->command);
    if (out->status == WEFT_OK) return true;
    found(t, is_expected(t, out->message) ? REFUSED : SENTENCE, "%s", out->message);
    result_free(out);
    return false;
}

/* Trains like train(), but stops the run after step c->stop and resumes it in the way `later`. */
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
        if (out->steps < first.steps) out->steps = first.steps;
        set_text(out->command, sizeof(out->command), t->v->command);
        if (out->status == WEFT_OK) return true;
    }
    found(t, is_expected(t, out->message) ? REFUSED : SENTENCE, "%s", out->message);
    result_free(out);
    return false;
}

/* --- guarantees of the documents --- */

static bool only_data(const way *w)
{
    return w->mesh[0] == way_ranks(w) && !w->places && !w->pins[0].id && !w->pins[1].id &&
           !w->columns;
}

static bool same_way(const way *a, const way *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

way plain_way(void)
{
    return (way){.mesh = {1, 1, 1, 1}};
}

/* How closely a run on another mesh must agree with one rank. Virtual workers on a data-parallel
 * mesh give the same bits, except on the device cpu with recomputation, where other kernels are
 * fused when no other node reads a value that is computed again. */
static closeness across(const hunt_case *c, const way *w)
{
    /* Groups of nodes round their results to bf16, and devices make other groups. */
    if (is_narrow(c) && (w->recompute || w->home || w->elsewhere)) return ROUGH;
    bool fuses = w->recompute && c->options[DEVICE] != REFERENCE;
    if (c->options[VIRTUAL_WORKERS] > 0 && only_data(w) && !fuses && has_own_bits(c, w))
        return EXACT;
    return is_f64(c) ? CLOSE : ROUGH;
}

/* How closely two runs agree of which only one uses what may round in another way: another device,
 * or another kernel of such a device. */
static closeness unless_far(const hunt_case *c)
{
    if (is_narrow(c)) return ROUGH;
    return has_own_bits(c, &c->way) ? EXACT : is_f64(c) ? CLOSE : ROUGH;
}

/* Trains in another way, which lacks one feature of the case's way; the result must agree with run
 * r. */
static void without(trial *t, const result *r, const way *other, closeness how, const char *stage)
{
    result plain;
    if (same_way(other, &t->c->way)) return;
    if (!train(t, stage, t->c, other, &plain)) return;
    if (is_comparable(t->c)) compare(t, stage, &plain, r, how, false);
    result_free(&plain);
}

/* Whether a run with ZeRO has the bits of one without. Stages 2 and 3 add each micro-batch over the
 * ranks before they add the micro-batches, so with several micro-batches the order of the sum
 * differs. */
static bool zero_keeps_bits(const hunt_case *c)
{
    return only_data(&c->way) && (c->way.zero < 2 || c->options[MICROBATCHES] == 1);
}

/* A device of another rounding gives virtual workers the same bits on every number of ranks. */
static void check_workers(trial *t, const result *r)
{
    way other = t->c->way;
    if (t->c->options[VIRTUAL_WORKERS] == 0 || !only_data(&other) || other.zero ||
        has_own_bits(t->c, &other))
        return;
    other.mesh[0] = 1;
    without(t, r, &other, EXACT, "virtual workers against one rank of the device");
}

static void check_promises(trial *t, const result *r)
{
    const hunt_case *c = t->c;
    way other = c->way;
    result again;
    other.zero = 0;
    if (zero_keeps_bits(c))
        without(t, r, &other, unless_far(c), "ZeRO against plain data parallelism");
    other = c->way;
    other.recompute = false;
    if (c->options[DEVICE] == REFERENCE)
        without(t, r, &other, unless_far(c), "with against without recomputation");
    other = c->way;
    other.elsewhere = 0;
    other.named = false;
    without(t, r, &other, unless_far(c), "other memory against the host's");
    other = c->way;
    other.home = false;
    without(t, r, &other, unless_far(c), "parameters in host memory against on the device");
    check_workers(t, r);
    if (!c->twice || !train(t, "the same again", c, &c->way, &again)) return;
    if (is_repeatable(c)) compare(t, "a second run against the first", r, &again, EXACT, true);
    result_free(&again);
}

/* Removes the tensors of all learners but the first. With servers, gossip or hogwild, the own state
 * of the other learners may differ between two ways to run. */
static void forget_others(const hunt_case *c, tensors *all)
{
    int kept = 0;
    if (c->exchange.kind < SERVER) return;
    for (int i = 0; i < all->count; i++)
        if (strncmp(all->list[i].name, "learner ", 8) == 0)
            free(all->list[i].data);
        else
            all->list[kept++] = all->list[i];
    all->count = kept;
}

static void check_resumed(trial *t, result *r)
{
    result again;
    const hunt_case *c = t->c;
    bool alike = same_way(&c->way, &c->later);
    closeness how = alike ? EXACT : across(c, &c->way);
    /* Unlike devices round the updates of their copies of a parameter in their own ways; a
     * checkpoint has one of the copies. */
    if (alike && !far_devices[c->way.elsewhere].alike) how = is_f64(c) ? CLOSE : ROUGH;
    if (!alike && across(c, &c->later) > how) how = across(c, &c->later);
    if (!c->stop || !train_in_two(t, "a run in two parts", c, &again)) return;
    check_finite(t, &again);
    if (!alike) forget_others(c, &again.tensors);
    if (!alike) forget_others(c, &r->tensors);
    if (alike ? goes_on_alike(c) : is_comparable(c))
        compare(t, "in two parts against in one", r, &again, how, alike);
    result_free(&again);
}

/* A case that could be run must have a plan: weft plan describes its way without an error. */
static void check_plan(trial *t, const result *r)
{
    char text[2048];
    note(t, "weft plan", t->c, &t->c->way, NULL, "(weft plan with these options)\n", "");
    if (r->status == WEFT_OK && plan_case(t->c, &t->c->way, text, sizeof(text)) != WEFT_OK)
        found(t, SENTENCE, "%s", text);
}

/* weft eval of a checkpoint must give the loss and accuracy that the run reported when it wrote the
 * checkpoint. */
static void check_evaluation(trial *t, const result *r)
{
    result e;
    closeness how = is_f64(t->c) ? CLOSE : ROUGH;
    evaluate_case(t->c, t->of_way, &e);
    set_text(t->v->stage, sizeof(t->v->stage), "weft eval of the checkpoint");
    set_text(t->v->command, sizeof(t->v->command), r->command);
    if (e.status != WEFT_OK) {
        found(t, listed_refusal(e.message) ? REFUSED : SENTENCE, "%s", e.message);
        return;
    }
    if (is_narrow(t->c)) return; /* other programs fuse other nodes */
    compare_numbers(t, "the loss of the test part", r->test_loss, e.test_loss, how);
    if (how == CLOSE)
        compare_numbers(t, "accuracy or R2 of the test part", r->figure, e.figure, how);
}

/* Runs the ranks of the case as MPI processes by the command, and compares with run r. */
static void check_processes(trial *t, const result *r)
{
    const hunt_case *c = t->c;
    result p;
    char folder[32], what[64];
    bool bits = c->options[VIRTUAL_WORKERS] > 0;
    (void)snprintf(folder, sizeof(folder), "out%d", t->folders++);
    note(t, "ranks as processes", c, &c->way, folder, "", "(with --engine mpi)\n");
    t->v->runs++;
    run_command(c, &c->way, folder, &p);
    if (p.status != WEFT_OK) {
        found(t, is_expected(t, p.message) ? REFUSED : SENTENCE, "%s", p.message);
        return;
    }
    if (!is_comparable(c)) {
        check_finite(t, &p);
        result_free(&p);
        return;
    }
    if (bits || is_f64(c)) compare_tensors(t, &r->tensors, &p.tensors, bits ? EXACT : CLOSE);
    for (int i = 0; i < (is_f64(c) ? r->steps : 1); i++) {
        (void)snprintf(what, sizeof(what), "the loss of step %d", i + 1);
        compare_numbers(t, what, r->losses[i], p.losses[i], is_f64(c) ? PRINTED : ROUGH);
    }
    result_free(&p);
}

/* Compares one rank of a single-precision run with one rank in double precision on the reference
 * device. */
static void check_precision(trial *t)
{
    way one = plain_way();
    hunt_case c = *t->c;
    result r;
    if (is_f64(t->c) || is_narrow(t->c) || rounding_decides(t->c) || !is_comparable(t->c)) return;
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
    (void)snprintf(t->of_way, sizeof(t->of_way), "out%d", t->folders - 1);
    check_finite(t, &r);
    if (is_comparable(c) && (how != ROUGH || !rounding_decides(c)))
        compare(t, "the way to run against one rank", &t->base, &r, how, false);
    if (c->evaluate && t->v->fault == CLEAN) check_evaluation(t, &r);
    check_generation(t, &r);
    check_promises(t, &r);
    if (c->plan && t->v->fault == CLEAN) check_plan(t, &r);
    if (c->processes && *hunt_command && c->exchange.kind != HOGWILD && t->v->fault == CLEAN &&
        way_ranks(&c->way) * learners_of(c) > 1)
        check_processes(t, &r);
    check_resumed(t, &r); /* last, since it may forget learners of r */
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
    if (c->exchange.kind == AVERAGE || c->exchange.kind == ONESHOT) check_learners(&t);
    if (c->exchange.kind >= SERVER) check_exchange(&t);
    result_free(&t.base);
    if (t.has_swayed && t.swayed.status == WEFT_OK) result_free(&t.swayed);
}
