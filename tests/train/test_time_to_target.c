/* Tests runs in virtual time whose ranks wait for each other, and the search for the one that
 * reaches a target first: numbers are those of real runs, times those of the estimate, and the
 * search gives the same answer in whatever order it gets the runs. */
#include "simulations.h"
#include "train/estimate/learner_time.h"
#include "weft/time_to_target.h"

enum { MOST = 512 };

typedef struct events {
    double loss[MOST], seconds[MOST], accuracy[MOST], evaluated[MOST];
    double held_out; /* loss of the last evaluation */
    int steps, evaluations;
} events;

static void take(void *user, const weft_event *e)
{
    events *t = user;
    if (e->kind == WEFT_EVENT_STEP && t->steps < MOST) {
        t->loss[t->steps] = e->loss;
        t->seconds[t->steps++] = e->seconds;
    }
    if (e->kind != WEFT_EVENT_EVAL || t->evaluations == MOST) return;
    t->held_out = e->report->loss;
    t->accuracy[t->evaluations] = e->report->accuracy;
    t->evaluated[t->evaluations++] = e->seconds;
}

static void set_words(const weft_option *table, void *options, const char *words)
{
    char copy[1000], *save = NULL;
    assert_true(snprintf(copy, sizeof(copy), "%s", words) < (int)sizeof(copy));
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(w, '=');
        *equals = '\0';
        assert_ok(weft_options_set(table, options, w, equals + 1));
    }
}

/* A cluster of four machines of 1e10 operations a second, whose host works 1 ms for a step. */
static const char *cluster_with(const char *root, const char *name, const char *keys)
{
    char text[700];
    FILE *f = fopen(made(root, "one.times"), "w");
    assert_non_null(f);
    fprintf(f, "weft-times\t1\nversion\t%s\nprocessor\tone\n", weft_version());
    fprintf(f, "time\t1\t1\t1\t1e10\t0\tx\t\ntime\t1\t1\t1\t0\t2e10\ty\t\n"
               "time\t1\t1\t1e-3\t10\t10\tstep\t\nend\t3\n");
    fclose(f);
    (void)snprintf(text, sizeof(text), "times: one.times\n%s", keys);
    static char paths[4][600];
    static int used;
    char *path = paths[used++ % 4];
    (void)snprintf(path, sizeof(paths[0]), "%s", cluster_file(root, name, text));
    return path;
}

#define FOUR "bandwidth: 1e6\nlatency: 1e-4\nmachines:\n  - {count: 4, cores: 1}\n"

static weft_status simulate_events(const char *words, const char *cluster, const char *folder,
                                   events *out)
{
    weft_simulate_options o = {.cluster = NULL};
    const weft_option *table = weft_simulate_table(context);
    memset(out, 0, sizeof(*out));
    assert_ok(weft_simulate_options_init(context, &o));
    set_words(table, &o, words);
    assert_ok(weft_options_set(table, &o, "cluster", cluster));
    if (folder) assert_ok(weft_options_set(table, &o, "checkpoint", folder));
    weft_status status = weft_simulate(context, &o, NULL, take, out);
    weft_options_free(table, &o);
    return status;
}

static double estimated(const char *words, const char *cluster)
{
    weft_train_options o = {0};
    weft_step_estimate step;
    assert_ok(weft_train_options_init(context, &o));
    set_words(weft_train_table(context), &o, words);
    assert_ok(weft_estimate_run(context, &o, cluster, NULL, &step));
    weft_options_free(weft_train_table(context), &o);
    return step.seconds;
}

/* --- runs whose ranks wait for each other --- */

static void test_is_the_real_run(void **state)
{
    (void)state;
    static const char *const ways[] = {
        SMALL "batch=12 steps=9",
        SMALL "batch=12 steps=9 ranks=2 mesh=data=2",
        SMALL "batch=12 steps=9 ranks=2 mesh=tensor=2",
        SMALL "batch=12 steps=9 ranks=2 mesh=pipeline=2 microbatches=3",
        SMALL "batch=12 steps=9 ranks=4 mesh=data=2,tensor=2",
        SMALL "batch=12 steps=9 ranks=2 zero=1",
        SMALL "batch=12 steps=9 ranks=2 zero=3",
        SMALL "batch=4 steps=9 ranks=4 exchange=average:every=2",
        SMALL "batch=4 steps=9 ranks=4 mesh=data=2 exchange=average:every=4",
        SMALL "batch=5 epochs=1 ranks=3 exchange=oneshot",
    };
    char *root = temporary_folder(), name[40];
    const char *cluster = cluster_with(root, "four.yaml", FOUR);
    for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
        log_of_run real;
        events virtual;
        (void)snprintf(name, sizeof(name), "real-%zu", w);
        const char *a = made(root, name);
        assert_ok(train(ways[w], a, 0, &real));
        (void)snprintf(name, sizeof(name), "virtual-%zu", w);
        const char *b = made(root, name);
        if (simulate_events(ways[w], cluster, b, &virtual) != WEFT_OK)
            fail_msg("%s: %s", ways[w], weft_last_message());
        double step = estimated(ways[w], cluster);
        assert_int_equal(virtual.steps, real.steps);
        for (int i = 0; i < real.steps; i++) {
            assert_true(virtual.loss[i] == real.loss[i]);
            assert_true(virtual.seconds[i] == (i + 1) * step);
        }
        assert_same(a, b, "parameters", 0, ways[w]);
    }
    remove_folder(root);
}

/* Without -n an exchange has a learner on each machine; a checkpoint is written at the end alone.
 */
static void test_learners_of_the_file(void **state)
{
    (void)state;
    char *root = temporary_folder();
    const char *cluster = cluster_with(root, "four.yaml", FOUR);
    events four, given;
    assert_ok(simulate_events(SMALL "batch=4 epochs=2 exchange=average:every=2", cluster,
                              made(root, "a"), &four));
    assert_ok(simulate_events(SMALL "batch=4 epochs=2 ranks=4 exchange=average:every=2", cluster,
                              NULL, &given));
    assert_int_equal(four.steps, 12);
    assert_int_equal(given.steps, 12);
    for (int i = 0; i < 12; i++) assert_true(four.loss[i] == given.loss[i]);
    char path[600];
    (void)snprintf(path, sizeof(path), "%s/step-6", made(root, "a"));
    assert_int_equal(access(path, F_OK), -1);
    (void)snprintf(path, sizeof(path), "%s/step-12", made(root, "a"));
    assert_int_equal(access(path, F_OK), 0);
    remove_folder(root);
}

/* Learners that do not wait take the estimated time of their own step on their own machine, also
 * if they are meshes. Their numbers are those of one rank. */
static void test_times_of_learners(void **state)
{
    (void)state;
    static const char keys[] = "bandwidth: 1e15\nlatency: 0\nmachines:\n  - {count: 1, cores: 2}\n"
                               "  - {count: 1, cores: 2, speed: 0.25}\n";
    static const char *const ways[] = {
        SMALL "batch=12 steps=6 ranks=2 exchange=gossip",
        SMALL "batch=12 steps=6 ranks=4 mesh=data=2 exchange=gossip",
        SMALL "batch=12 steps=6 ranks=4 mesh=tensor=2 exchange=server:policy=async"};
    char *root = temporary_folder();
    const char *cluster = cluster_with(root, "two.yaml", keys);
    for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
        weft_train_options o = {0};
        weft_placed_learners at;
        weft_site site;
        events t;
        assert_ok(weft_train_options_init(context, &o));
        set_words(weft_train_table(context), &o, ways[w]);
        assert_ok(weft_site_open(cluster, &site));
        assert_ok(weft_estimate_placed(context, &o, &site, NULL, 2, &at));
        double slow = at.seconds[1];
        assert_true(slow > at.seconds[0]);
        weft_placed_learners_close(&at);
        weft_site_close(&site);
        weft_options_free(weft_train_table(context), &o);
        assert_ok(simulate_events(ways[w], cluster, NULL, &t));
        assert_int_equal(t.steps, 6);
        /* The slow learner takes the last step, and handlers take some time. */
        print_message("%s: %g s for 6 steps of %g\n", ways[w], t.seconds[5], slow);
        assert_true(t.seconds[5] >= 6 * slow && t.seconds[5] < 8 * slow);
    }
    remove_folder(root);
}

static void test_refused(void **state)
{
    (void)state;
    char *root = temporary_folder();
    const char *four = cluster_with(root, "four.yaml", FOUR);
    events t;
    assert_refused(simulate_events(SMALL "ranks=2 mesh=data=3 batch=4", four, NULL, &t),
                   WEFT_ERR_ARGUMENT, "mesh 'data=3' has 3 ranks, but the run has 2");
    const char *plain = cluster_file(root, "plain.yaml", "step: 1\n");
    assert_refused(simulate_events(SMALL "ranks=2 batch=4", plain, NULL, &t), WEFT_ERR_ARGUMENT,
                   "there is no key 'times'");
    assert_refused(
        simulate_events(SMALL "ranks=4 batch=4 mesh=data=2 exchange=server", plain, NULL, &t),
        WEFT_ERR_ARGUMENT, "give --cluster a file of weft measure, or leave --mesh out");
    remove_folder(root);
}

/* --- the search --- */

typedef struct search {
    weft_train_options options[8];
    weft_finalist finalists[8];
    int count;
    weft_target_options asked;
    weft_target_result *results;
} search;

static void open_search(search *s, const char *cluster, const char *words,
                        const char *const *strategies, int count)
{
    memset(s, 0, sizeof(*s));
    weft_target_options_init(&s->asked);
    s->asked.cluster = cluster;
    s->count = count;
    for (int i = 0; i < count; i++) {
        assert_ok(weft_train_options_init(context, &s->options[i]));
        set_words(weft_train_table(context), &s->options[i], words);
        s->asked.batch = s->options[i].length.batch;
        set_words(weft_train_table(context), &s->options[i], strategies[i]);
        s->finalists[i] = (weft_finalist){.name = strategies[i],
                                          .options = &s->options[i],
                                          .own_rate = strstr(strategies[i], "lr=") != NULL};
    }
}

static weft_status find(search *s)
{
    return weft_time_to_target(context, &s->asked, s->finalists, s->count, NULL, NULL, NULL,
                               &s->results);
}

static void close_search(search *s)
{
    weft_target_results_free(&s->results, s->count);
    for (int i = 0; i < s->count; i++) weft_options_free(weft_train_table(context), &s->options[i]);
}

static const weft_target_result *result_of(const search *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->finalists[s->results[i].finalist].name, name) == 0) return &s->results[i];
    fail_msg("%s has no result", name);
    return NULL;
}

/* The search among one run is that run. */
static void test_one(void **state)
{
    (void)state;
    static const char *const ways[] = {"ranks=2 mesh=data=2", "ranks=4 exchange=average:every=2",
                                       "ranks=4 exchange=gossip"};
    char *root = temporary_folder(), words[300];
    const char *cluster = cluster_with(root, "four.yaml", FOUR);
    for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
        search s;
        events t;
        (void)snprintf(words, sizeof(words), SMALL "batch=12 steps=9 lr=0.01 %s", ways[w]);
        assert_ok(simulate_events(words, cluster, NULL, &t));
        open_search(&s, cluster, SMALL "batch=12 steps=9 lr=0.01", &ways[w], 1);
        s.asked.rule = WEFT_RATE_KEPT;
        s.asked.metric = "accuracy";
        s.asked.value = 1; /* which no run reaches */
        assert_ok(find(&s));
        const weft_target_result *r = &s.results[0];
        int steps = 0, evaluations = 0;
        for (int64_t i = 0; i < r->point_count; i++) {
            if (!isnan(r->points[i].loss)) {
                assert_true(r->points[i].loss == t.loss[steps]);
                assert_true(r->points[i].seconds == t.seconds[steps++]);
            } else {
                assert_true(r->points[i].metric == t.accuracy[evaluations]);
                assert_true(r->points[i].seconds == t.evaluated[evaluations++]);
            }
        }
        assert_int_equal(steps, t.steps);
        assert_int_equal(evaluations, t.evaluations);
        assert_false(r->reached);
        assert_true(r->metric == t.accuracy[t.evaluations - 1] && r->round == 0 && !r->why);
        assert_true(r->held_out == t.held_out);
        for (int i = 0; i < t.evaluations; i++) assert_true(r->best >= t.accuracy[i]);
        close_search(&s);
    }
    remove_folder(root);
}

/* A run is judged by the model with which it would end there: by the same bits as a run of as many
 * steps, and goes on as if it had not been judged. */
static void test_judged(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "ranks=2 mesh=data=2",
        "ranks=2 zero=2",
        "ranks=4 exchange=average:every=4",
        "ranks=3 exchange=average:every=2",
        "ranks=4 exchange=average:every=4,state=average",
        "ranks=2 exchange=average:every=4,outer=nesterov",
        "ranks=4 mesh=data=2 exchange=average:every=4 ema=0.9",
        "ranks=3 exchange=oneshot",
    };
    static const char words[] = SMALL "batch=8 lr=0.01 optimizer=adam";
    char *root = temporary_folder(), all[400];
    const char *cluster = cluster_with(root, "four.yaml", FOUR);
    for (size_t w = 0; w < WEFT_COUNT(ways); w++)
        for (int steps = 5; steps < 9; steps += 3) {
            search s;
            events whole, part;
            (void)snprintf(all, sizeof(all), "%s %s steps=20", words, ways[w]);
            double step = estimated(all, cluster);
            assert_ok(simulate_events(all, cluster, NULL, &whole));
            (void)snprintf(all, sizeof(all), "%s %s steps=%d", words, ways[w], steps);
            assert_ok(simulate_events(all, cluster, NULL, &part));
            (void)snprintf(all, sizeof(all), "%s steps=20", words);
            open_search(&s, cluster, all, &ways[w], 1);
            s.asked.rule = WEFT_RATE_KEPT;
            s.asked.budget = (steps + 0.5) * step;
            assert_ok(find(&s));
            if (s.results[0].held_out != part.held_out)
                fail_msg("%s, %d steps: %.17g, and a run that ends there has %.17g", ways[w], steps,
                         s.results[0].held_out, part.held_out);
            close_search(&s);
            /* The finalists of a round, with the better one at every place of the list. */
            const char *both[2] = {ways[w], "lr=1e-9"};
            open_search(&s, cluster, all, both, 2);
            s.asked.rule = WEFT_RATE_KEPT;
            assert_ok(find(&s));
            const weft_target_result *r = result_of(&s, ways[w]);
            assert_true(r->round == 0 && r->held_out == whole.held_out);
            int found = 0;
            for (int64_t i = 0; i < r->point_count; i++)
                if (!isnan(r->points[i].loss))
                    assert_true(r->points[i].loss == whole.loss[found++]);
            assert_int_equal(found, whole.steps);
            close_search(&s);
        }
    remove_folder(root);
}

/* Before the end of the next step a server that waits for all learners has what a run of the steps
 * before leaves. */
static void test_judged_servers(void **state)
{
    (void)state;
    static const char words[] = SMALL "batch=8 lr=0.01 optimizer=sgd ranks=3";
    static const char *const way = "exchange=server:policy=bsp";
    char *root = temporary_folder(), all[400];
    const char *cluster = cluster_with(root, "four.yaml", FOUR);
    events whole, part;
    search s;
    (void)snprintf(all, sizeof(all), "%s %s steps=9", words, way);
    assert_ok(simulate_events(all, cluster, NULL, &whole));
    (void)snprintf(all, sizeof(all), "%s %s steps=5", words, way);
    assert_ok(simulate_events(all, cluster, NULL, &part));
    (void)snprintf(all, sizeof(all), "%s steps=9", words);
    open_search(&s, cluster, all, &way, 1);
    s.asked.rule = WEFT_RATE_KEPT;
    s.asked.budget = whole.seconds[5] * (1 - 1e-9);
    assert_ok(find(&s));
    assert_true(s.results[0].held_out == part.held_out);
    close_search(&s);
    remove_folder(root);
}

/* No run is left out before its learners have met; a run that has ended is not left out, whatever
 * its place. */
static void test_rounds(void **state)
{
    (void)state;
    static const char words[] = SMALL "batch=12 steps=40 lr=0.01";
    static const char *const ways[] = {"ranks=4 exchange=average:every=32 lr=1e-9",
                                       "ranks=4 exchange=oneshot lr=1e-8",
                                       "ranks=4 exchange=gossip lr=1e-7",
                                       "lr=0.01",
                                       "lr=0.003",
                                       "steps=3 lr=1e-5"};
    char *root = temporary_folder(), all[400];
    const char *cluster = cluster_with(root, "four.yaml", FOUR);
    search s;
    (void)snprintf(all, sizeof(all), "%s %s", words, ways[0]);
    double meeting = 32 * estimated(all, cluster);
    open_search(&s, cluster, words, ways, (int)WEFT_COUNT(ways));
    assert_ok(find(&s));
    const weft_target_result *every = result_of(&s, ways[0]), *oneshot = result_of(&s, ways[1]),
                             *ended = result_of(&s, ways[5]);
    assert_true(every->round == 0 || every->seconds > meeting * (1 - 1e-9));
    assert_int_equal(oneshot->round, 0);
    assert_true(ended->round == 0 && ended->samples == 36 && isfinite(ended->held_out));
    assert_non_null(strstr(ended->why, "its run had ended after "));
    for (int i = 0; i < s.count; i++) {
        const weft_target_result *r = &s.results[i];
        assert_true(r->round == 0 || r->seconds > meeting - estimated(all, cluster) ||
                    r->finalist == 2);
        if (i > 0 && r->round == s.results[i - 1].round)
            assert_true(s.results[i - 1].held_out <= r->held_out);
    }
    close_search(&s);
    remove_folder(root);
}

/* A target is reached at the first evaluation that is as good. */
static void test_reached(void **state)
{
    (void)state;
    static const char words[] = SMALL "batch=12 epochs=6 lr=0.01 evaluate-every=2";
    static const char *const way = "ranks=2 mesh=data=2";
    char *root = temporary_folder(), all[400];
    const char *cluster = cluster_with(root, "four.yaml", FOUR);
    search s;
    events t;
    (void)snprintf(all, sizeof(all), "%s %s", words, way);
    assert_ok(simulate_events(all, cluster, NULL, &t));
    int at = 0;
    while (at < t.evaluations && t.accuracy[at] < 0.5) at++;
    assert_true(at > 0 && at < t.evaluations);
    open_search(&s, cluster, words, &way, 1);
    s.asked.metric = "accuracy";
    s.asked.value = 0.5;
    assert_ok(find(&s));
    const weft_target_result *r = &s.results[0];
    assert_true(r->reached && r->seconds == t.evaluated[at] && r->metric == t.accuracy[at]);
    assert_true(r->low == r->seconds && r->high == r->seconds);
    assert_true(r->samples == 12 * floor(r->seconds / estimated(all, cluster) + 0.5));
    close_search(&s);
    /* With several seeds the time is that of all of them, between the shortest and the longest. */
    open_search(&s, cluster, words, &way, 1);
    s.asked.metric = "accuracy";
    s.asked.value = 0.5;
    s.asked.seeds = 3;
    assert_ok(find(&s));
    r = &s.results[0];
    assert_true(r->reached && r->low <= t.evaluated[at] && r->high >= t.evaluated[at]);
    assert_true(r->low <= r->seconds && r->seconds <= r->high);
    close_search(&s);
    remove_folder(root);
}

/* Rates that are too small lose; the runs of a round have gone on to the same time, which doubles.
 */
static void test_halves(void **state)
{
    (void)state;
    static const char words[] = SMALL "batch=12 epochs=32 optimizer=adam";
    static const char *const ways[] = {"lr=0.01",          "lr=1e-5", "lr=1e-6",
                                       "lr=3e-4",          "lr=1e-7", "optimizer=sgd lr=1e6",
                                       "exchange=hogwild", "lr=2e-5"};
    char *root = temporary_folder();
    const char *cluster = cluster_with(root, "four.yaml", FOUR);
    search s;
    open_search(&s, cluster, words, ways, 8);
    s.asked.metric = "train_loss";
    s.asked.value = -1;
    assert_ok(find(&s));
    double whole = 256 * estimated(words, cluster);
    double shortest = 256 * estimated(SMALL "batch=12 epochs=32 optimizer=sgd", cluster);
    const weft_target_result *best = &s.results[0];
    assert_string_equal(s.finalists[best->finalist].name, "lr=0.01");
    assert_true(best->round == 0 && !best->reached && fabs(best->seconds - whole) < 1e-9);
    int left[4] = {0};
    for (int i = 0; i < s.count; i++) {
        const weft_target_result *r = &s.results[i];
        if (r->refused) continue;
        assert_true(r->round >= 0 && r->round <= 2);
        left[r->round]++;
        double until = ldexp(shortest / 16, r->round);
        if (r->round > 0 && !isnan(r->loss))
            assert_true(r->seconds <= until * (1 + 1e-9) && r->seconds > until - 2 * whole / 256);
    }
    assert_int_equal(left[1], 3); /* of seven */
    assert_int_equal(left[2], 2); /* of four */
    assert_int_equal(left[0], 2); /* the last two end without a target */
    assert_true(result_of(&s, "optimizer=sgd lr=1e6")->round == 1);
    assert_non_null(strstr(result_of(&s, "optimizer=sgd lr=1e6")->why, "NaN or infinite"));
    assert_non_null(strstr(result_of(&s, "lr=1e-7")->why, "its training loss was "));
    const weft_target_result *hogwild = &s.results[7];
    assert_true(hogwild->refused && strstr(hogwild->why, "cannot be simulated"));
    close_search(&s);
    remove_folder(root);
}

static void assert_alike(const search *a, const search *b)
{
    for (int i = 0; i < a->count; i++) {
        const weft_target_result *x = &a->results[i], *y = &b->results[i];
        assert_string_equal(a->finalists[x->finalist].name, b->finalists[y->finalist].name);
        assert_true(x->seconds == y->seconds && x->lr == y->lr && x->round == y->round);
        assert_true(x->loss == y->loss || (isnan(x->loss) && isnan(y->loss)));
        assert_string_equal(x->why ? x->why : "", y->why ? y->why : "");
        assert_string_equal(a->finalists[x->same_as].name, b->finalists[y->same_as].name);
        assert_int_equal(x->point_count, y->point_count);
    }
}

/* The answer does not depend on the order of the list; runs that share out one learner have the
 * same numbers, each with its own clock. */
static void test_order(void **state)
{
    (void)state;
    static const char words[] = SMALL "batch=12 epochs=4 lr=0.003 evaluate-every=2";
    static const char *const ways[] = {"ranks=2 mesh=data=2", "ranks=2 mesh=tensor=2",
                                       "ranks=4 exchange=average:every=4",
                                       "ranks=4 exchange=server:policy=async"};
    static const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}};
    char *root = temporary_folder(), all[400];
    const char *cluster = cluster_with(root, "four.yaml", FOUR);
    search first, s;
    for (size_t o = 0; o < (paths_alone() ? 2 : WEFT_COUNT(orders)); o++) {
        const char *list[4];
        for (int i = 0; i < 4; i++) list[i] = ways[orders[o][i]];
        search *now = o == 0 ? &first : &s;
        open_search(now, cluster, words, list, 4);
        now->asked.metric = "accuracy";
        now->asked.value = 0.6;
        assert_ok(find(now));
        if (o > 0) assert_alike(&first, now);
        if (o > 0) close_search(now);
    }
    const weft_target_result *data = result_of(&first, ways[0]),
                             *tensor = result_of(&first, ways[1]);
    assert_true(data->same_as == data->finalist && tensor->same_as == data->finalist);
    int64_t shared =
        data->point_count < tensor->point_count ? data->point_count : tensor->point_count;
    (void)snprintf(all, sizeof(all), "%s %s", words, ways[1]);
    assert_true(tensor->step_seconds == estimated(all, cluster));
    for (int64_t i = 0; i < shared; i++) {
        double step = floor(data->points[i].seconds / data->step_seconds + 0.5);
        assert_true(data->points[i].loss == tensor->points[i].loss || isnan(data->points[i].loss));
        assert_true(fabs(tensor->points[i].seconds - step * tensor->step_seconds) < 1e-12);
    }
    close_search(&first);
    remove_folder(root);
}

/* Learning rates follow the samples of an update. */
static void test_rates(void **state)
{
    (void)state;
    static const char words[] = SMALL "batch=4 steps=60 lr=0.01";
    static const struct {
        const char *way;
        double linear, root, batch;
    } all[] = {{"ranks=4 mesh=data=4", 1, 1, 4},
               {"ranks=4 mesh=data=4 batch=16", 4, 2, 16},
               {"ranks=4 exchange=server:policy=bsp", 4, 2, 16},
               {"ranks=4 exchange=server:policy=softsync,c=2", 2, 1.4142135623730951, 8},
               {"ranks=4 exchange=server:policy=async", 1, 1, 4},
               {"ranks=4 exchange=average", 4, 2, 16},
               {"ranks=4 exchange=average:every=2", 2.5, 1.5811388300841898, 10},
               {"ranks=4 exchange=average:every=1000000", 1.000003, 1.0000015, 4.000012},
               {"ranks=4 exchange=oneshot", 1, 1, 4},
               {"ranks=4 exchange=gossip", 1, 1, 4},
               {"exchange=average", 4, 2, 16}, /* a learner on each machine */
               {"exchange=server:policy=bsp", 4, 2, 16}};
    char *root = temporary_folder(), both[300];
    const char *cluster = cluster_with(root, "four.yaml", FOUR);
    for (size_t i = 0; i < WEFT_COUNT(all); i++)
        for (int rule = 0; rule < 5; rule++) {
            search s;
            double want = rule == 1 || rule == 3 ? all[i].root : rule == 4 ? 1 : all[i].linear;
            (void)snprintf(both, sizeof(both), "%s optimizer=%s", words,
                           rule == 1 ? "adam" : "sgd");
            open_search(&s, cluster, both, &all[i].way, 1);
            s.asked.budget = 1e-9; /* the rates alone */
            s.asked.rule = rule == 0 || rule == 1 ? WEFT_RATE_USUAL
                           : rule == 2            ? WEFT_RATE_LINEAR
                           : rule == 3            ? WEFT_RATE_ROOT
                                                  : WEFT_RATE_KEPT;
            assert_ok(find(&s));
            assert_true(fabs(s.results[0].lr - 0.01 * want) < 1e-12);
            assert_true(fabs(s.results[0].batch - all[i].batch) < 1e-9);
            /* Five epochs of 96 samples, or a tenth of the run. */
            double epoch = strstr(all[i].way, "mesh") ? (all[i].batch > 4 ? 6 : 24) : 6;
            double warmup = want > 2 ? fmin(5 * epoch, 6) : 0;
            assert_true((double)s.results[0].warmup == warmup);
            close_search(&s);
        }
    search s;
    const char *own = "ranks=4 exchange=server:policy=bsp lr=0.5";
    open_search(&s, cluster, words, &own, 1);
    assert_ok(find(&s));
    assert_true(s.results[0].lr == 0.5);
    close_search(&s);
    remove_folder(root);
}

static void test_search_refused(void **state)
{
    (void)state;
    static const char words[] = SMALL "batch=4 steps=2";
    static const char *const ways[] = {"ranks=4 mesh=data=4", "ranks=4 mesh=data=3"};
    char *root = temporary_folder();
    const char *four = cluster_with(root, "four.yaml", FOUR);
    const char *little = cluster_with(root, "little.yaml",
                                      "bandwidth: 1e6\nmachines:\n  - {count: 4, cores: 1, "
                                      "memory: 1e4}\n");
    search s;
    open_search(&s, four, words, ways, 2);
    s.asked.metric = "accurcy";
    assert_refused(find(&s), WEFT_ERR_ARGUMENT, "accuracy");
    s.asked.metric = NULL;
    s.asked.seeds = 4;
    assert_refused(find(&s), WEFT_ERR_ARGUMENT, "seeds is 4, must be 1 to 3");
    s.asked.seeds = 1;
    s.asked.budget = -1;
    assert_refused(find(&s), WEFT_ERR_ARGUMENT, "at least 0");
    s.asked.budget = 0;
    s.finalists[1].name = s.finalists[0].name;
    assert_refused(find(&s), WEFT_ERR_ARGUMENT, "two finalists are named");
    s.finalists[1].name = ways[1];
    assert_ok(find(&s));
    assert_true(s.results[1].refused);
    assert_non_null(strstr(s.results[1].why, "mesh 'data=3' has 3 ranks, but the run has 4"));
    weft_target_results_free(&s.results, s.count);
    s.asked.cluster = little;
    assert_refused(find(&s), WEFT_ERR_ARGUMENT,
                   "none of the finalists can run; ranks=4 mesh=data=4: its processes take ");
    s.asked.cluster = four;
    const weft_stop stop = {.wanted = 1};
    assert_refused(
        weft_time_to_target(context, &s.asked, s.finalists, s.count, &stop, NULL, NULL, &s.results),
        WEFT_ERR_INTERRUPTED, "stopped before");
    close_search(&s);
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_is_the_real_run),
                                       cmocka_unit_test(test_learners_of_the_file),
                                       cmocka_unit_test(test_times_of_learners),
                                       cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_one),
                                       cmocka_unit_test(test_judged),
                                       cmocka_unit_test(test_judged_servers),
                                       cmocka_unit_test(test_rounds),
                                       cmocka_unit_test(test_reached),
                                       cmocka_unit_test(test_halves),
                                       cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_rates),
                                       cmocka_unit_test(test_search_refused)};
    return cmocka_run_group_tests(tests, begin, end);
}
