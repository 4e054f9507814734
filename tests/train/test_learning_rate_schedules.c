/* Schedules of the learning rate in runs that resume: with any number of learners, of which each
 * makes an epoch longer or shorter, the rate goes on where it was and ends where it should; with
 * other options, or another length of the run, a line says how it goes on. The oracle follows the
 * share of the epochs that is done. */
#include <math.h>

#include "exchange_runs.h"

enum { SAMPLES = 60, BATCH = 4, EPOCHS = 6 };

static const char DATA[] = "model=mlp data=glyphs:size=9,train=60,test=8 seed=4 threads=1 batch=4 "
                           "optimizer=sgd lr=0.01 ";

typedef struct schedule {
    const char *words;
    int kind; /* 0: constant, 1: step, 2: cosine, 3: linear, 4: inverse-sqrt, 5: one-cycle */
    double warmup, every, gamma, floor;
} schedule;

static const schedule schedules[] = {
    {"lr-schedule=cosine lr-floor=0.001", 2, 0, 1, 1, 0.001},
    {"lr-schedule=cosine warmup=7", 2, 7, 1, 1, 0},
    {"lr-schedule=step decay-every=8 gamma=0.5 warmup=3", 1, 3, 8, 0.5, 0},
    {"warmup=31", 0, 31, 1, 1, 0},
    {"lr-schedule=linear lr-floor=0.002 warmup=5", 3, 5, 1, 1, 0.002},
    {"lr-schedule=inverse-sqrt warmup=9", 4, 9, 1, 1, 0},
    {"lr-schedule=one-cycle", 5, 0, 1, 1, 0},
};

/* The rate at a step of the schedule, which has so many steps in all. */
static double rate_at(const schedule *s, double step, double total)
{
    static const double LR = 0.01, PI = 3.14159265358979323846;
    if (step < s->warmup) return LR * fmin((step + 1) / s->warmup, 1);
    if (s->kind == 1) return LR * pow(s->gamma, floor((step - s->warmup) / s->every + 1e-9));
    if (s->kind == 0) return LR;
    if (s->kind == 4) return LR * sqrt(s->warmup / (step + 1));
    double done = fmin((step - s->warmup) / (total - s->warmup), 1);
    if (s->kind == 3) return LR * (1 - done) + s->floor * done;
    if (s->kind == 5 && done < 0.3) return LR / 25 * (1 + 24 * (1 - cos(PI * done / 0.3)) / 2);
    if (s->kind == 5) return LR / 25e4 + (LR - LR / 25e4) * (1 + cos(PI * (done - 0.3) / 0.7)) / 2;
    return s->floor + (LR - s->floor) * (1 + cos(PI * done)) / 2;
}

static int epoch_steps(int learners)
{
    return (SAMPLES + BATCH * learners - 1) / (BATCH * learners);
}

/* The place of a run: its epoch, the samples done in it, and the step of its schedule. */
typedef struct place {
    int epoch, done;
    double at;
} place;

/* The steps that so many learners take from a place to the end. */
static int steps_left(const place *p, int learners, int epochs)
{
    int all = BATCH * learners;
    return (SAMPLES - p->done + all - 1) / all + (epochs - p->epoch - 1) * epoch_steps(learners);
}

static void advance(place *p, int learners, int steps, double pace)
{
    for (int i = 0; i < steps; i++) {
        p->done += BATCH * learners;
        if (p->done < SAMPLES) continue;
        p->done = 0;
        p->epoch++;
    }
    p->at += pace * steps;
}

static void run_part(const schedule *s, const char *folder, int learners, int epochs, int stop,
                     log_of_run *l)
{
    char words[1000];
    (void)snprintf(words, sizeof(words), "%s%s epochs=%d ranks=%d resume=true %s", DATA, s->words,
                   epochs, learners, learners > 1 ? "exchange=average" : "");
    weft_status status = train(words, folder, stop, l);
    if (status != WEFT_OK && !(stop > 0 && status == WEFT_ERR_INTERRUPTED))
        fail_msg("%s: %s", words, weft_last_message());
}

static void check_rates(const log_of_run *l, const schedule *s, double at, double pace,
                        double total, int learners)
{
    for (int i = 0; i < l->steps; i++) {
        double want = rate_at(s, at + pace * i, total);
        if (fabs(l->rate[i] - want) > 1e-8)
            fail_msg("%s, %d learners, from step %g: rate %d is %.9g, should be %.9g", s->words,
                     learners, at, i, l->rate[i], want);
    }
}

/* Runs of three parts with other numbers of learners, stopped within epochs and at their ends. */
static void test_other_learners(void **state)
{
    (void)state;
    static const struct {
        int learners[3], stops[2];
    } ways[] = {
        {{2, 1, 3}, {9, 20}}, {{1, 4, 2}, {14, 5}}, {{3, 2, 3}, {5, 7}}, {{4, 3, 1}, {2, 2}}};
    bool fast = getenv("WEFT_FAST") != NULL;
    for (size_t w = 0; w < WEFT_COUNT(ways); w++)
        for (size_t k = 0; k < WEFT_COUNT(schedules); k++) {
            if (fast && (k + w) % 2) continue;
            char *root = temporary_folder();
            double total = EPOCHS * epoch_steps(ways[w].learners[0]);
            place p = {0};
            for (int i = 0; i < 3; i++) {
                int learners = ways[w].learners[i], left = steps_left(&p, learners, EPOCHS);
                double pace = (total - p.at) / left;
                log_of_run l;
                last_note[0] = '\0';
                run_part(&schedules[k], made(root, "run"), learners, EPOCHS,
                         i < 2 ? ways[w].stops[i] : 0, &l);
                check_rates(&l, &schedules[k], p.at, pace, total, learners);
                bool told = strstr(last_note, "follows the share of the epochs") != NULL;
                if (k == (fast ? w % 2 : 0) &&
                    told != (i > 0 && pace != 1)) /* a context says a line once */
                    fail_msg("%s, part %d, pace %g: '%s'", schedules[k].words, i, pace, last_note);
                assert_int_equal(l.steps == left, i == 2);
                advance(&p, learners, l.steps, pace);
            }
            remove_folder(root);
        }
}

/* A run that goes on as it was has the rates of one without a stop, bit for bit, and no line. */
static void test_as_it_was(void **state)
{
    (void)state;
    char *root = temporary_folder();
    log_of_run whole, first, second;
    for (size_t k = 0; k < WEFT_COUNT(schedules); k++) {
        char a[20], b[20];
        (void)snprintf(a, sizeof(a), "a%zu", k);
        (void)snprintf(b, sizeof(b), "b%zu", k);
        run_part(&schedules[k], made(root, a), 2, EPOCHS, 0, &whole);
        run_part(&schedules[k], made(root, b), 2, EPOCHS, 13, &first);
        last_note[0] = '\0';
        run_part(&schedules[k], made(root, b), 2, EPOCHS, 0, &second);
        assert_string_equal(last_note, "");
        assert_int_equal(first.steps + second.steps, whole.steps);
        for (int i = 0; i < second.steps; i++)
            assert_true(second.rate[i] == whole.rate[first.steps + i]);
    }
    remove_folder(root);
}

/* A longer run stretches a cosine, and other options take effect at once: a line says by what the
 * rate goes on, what it is, and what it would have been. */
static void test_changes_are_said(void **state)
{
    (void)state;
    static const struct {
        schedule before, after;
        int epochs, stop;
        const char *said;
    } all[] = {
        {{"lr-schedule=cosine", 2, 0, 1, 1, 0},
         {"lr-schedule=cosine", 2, 0, 1, 1, 0},
         12,
         0,
         "by --epochs 12 instead of 6: step 91 has 0.005, and would have had 0"},
        {{"warmup=4", 0, 4, 1, 1, 0}, {"warmup=4", 0, 4, 1, 1, 0}, 12, 0, ""},
        {{"lr-schedule=cosine", 2, 0, 1, 1, 0},
         {"lr-schedule=cosine lr-floor=0.002 warmup=5", 2, 5, 1, 1, 0.002},
         EPOCHS,
         44,
         "by --warmup 5 instead of 0, --lr-floor 0.002 instead of 0: step 4"},
        {{"", 0, 0, 1, 1, 0},
         {"lr-schedule=step decay-every=20", 1, 0, 20, 0.1, 0},
         EPOCHS,
         44,
         "by --lr-schedule step instead of constant, --decay-every 20 instead of"},
    };
    for (size_t i = 0; i < WEFT_COUNT(all); i++) {
        char *root = temporary_folder();
        const char *folder = made(root, "run");
        log_of_run first, l;
        run_part(&all[i].before, folder, 1, EPOCHS, all[i].stop, &first);
        last_note[0] = '\0';
        run_part(&all[i].after, folder, 1, all[i].epochs, 0, &l);
        check_rates(&l, &all[i].after, first.steps, 1, all[i].epochs * epoch_steps(1), 1);
        if (*all[i].said ? !strstr(last_note, all[i].said) : *last_note)
            fail_msg("'%s' does not hold '%s'", last_note, all[i].said);
        remove_folder(root);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_learners),
        cmocka_unit_test(test_as_it_was),
        cmocka_unit_test(test_changes_are_said),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
