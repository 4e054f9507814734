/* Tests the search for a strategy against estimates of all candidates: no estimate is better than
 * its bound, and nothing that the search leaves out is better than what it finds. */
#include <math.h>

#include "context.h"

/* Times of a core that are written by hand: each operator reaches another share of its rates, and
 * no size is measured. */
static void write_times(const char *path)
{
    static const char *const kinds[] = {"dense", "conv", "relu", "softmax", "conv_filter_gradient"};
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    fprintf(to, "weft-times\t1\nversion\t%s\nprocessor\tone of paper\n", weft_version());
    for (int threads = 1; threads <= 2; threads++)
        for (int k = 0; k < 5; k++) {
            double share = 0.3 + 0.15 * k, bytes = 1e6 * (k + 1),
                   flops = k == 2 ? bytes : 30 * bytes;
            double seconds = 5e-7 + fmax(flops / 2e10, bytes / 8e9) / share / threads;
            fprintf(to, "time\t%d\t%d\t%.4e\t%.6g\t%.6g\t%s f32 paper\tg%d\n", threads, 2 / threads,
                    seconds, flops, bytes, kinds[k], k);
        }
    fprintf(to, "time\t1\t2\t1e-4\t100\t1000\tstep\t\nend\t11\n");
    assert_int_equal(fclose(to), 0);
}

static const struct {
    const char *name, *text;
    bool little; /* the text ends before the memory, which is a twentieth more than of one rank */
} clusters[] = {
    {"one machine", "machines:\n  - {count: 1, cores: 4}\n", false},
    {"slow links", "latency: 0.001\nbandwidth: 1e6\nmachines:\n  - {count: 4, cores: 1}\n", false},
    {"fast links", "latency: 1e-5\nbandwidth: 1e9\nmachines:\n  - {count: 2, cores: 2}\n", false},
    {"unlike machines",
     "bandwidth: 2e7\nmachines:\n  - {count: 1, cores: 2, speed: 2}\n"
     "  - {count: 1, cores: 3, slow: 0.2}\n",
     false},
    {"little memory", "bandwidth: 1e8\nmachines:\n  - {count: 4, cores: 1, memory: ", true},
};
enum { CLUSTERS = sizeof(clusters) / sizeof(clusters[0]) };

/* Without an exchange in the words there is one learner. */
static const struct {
    const char *words;
    bool exchanges;
} runs[] = {
    {"model=mlp data=glyphs:size=9,train=18,test=6 batch=4", false},
    {"model=lenet data=glyphs:size=16,train=18,test=6 batch=4 microbatches=2", false},
    {"model=mlp data=glyphs:size=9,train=18,test=6 batch=6 optimizer=sgd sum-dtype=bf16 zero=2",
     false},
    {"model=mlp data=glyphs:size=9,train=18,test=6 batch=4 exchange=average:every=4", true},
    {"model=mlp data=glyphs:size=9,train=18,test=6 batch=4 microbatches=2 recompute=true "
     "exchange=server:policy=async servers=2 ranks=2",
     true},
    {"model=mlp data=glyphs:size=9,train=18,test=6 batch=4 exchange=server:policy=bsp ranks=2 "
     "optimizer=adam",
     true},
    /* More micro-batches are faster: later messages of one learner let those of the other pass. */
    {"model=mlp data=glyphs:size=9,train=60,test=20 batch=4 exchange=server:policy=bsp ranks=2 "
     "optimizer=adam compress=bf16 servers=2",
     true},
};
enum { RUNS = sizeof(runs) / sizeof(runs[0]) };

static void set_words(weft_train_options *o, const char *words)
{
    char copy[1000], *save = NULL;
    const weft_option *table = weft_train_table(context);
    (void)snprintf(copy, sizeof(copy), "%s", words);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(w, '=');
        *equals = '\0';
        assert_ok(weft_options_set(table, o, w, equals + 1));
    }
}

/* The memory of a run on one machine; its arrays are freed. */
static weft_memory_estimate memory_of(const char *words)
{
    weft_train_options options = {0};
    weft_memory_estimate m;
    assert_ok(weft_train_options_init(context, &options));
    set_words(&options, words);
    assert_ok(weft_estimate_memory(context, &options, NULL, &m));
    weft_memory_estimate_free(&m);
    weft_options_free(weft_train_table(context), &options);
    return m;
}

/* Writes the files of a cluster; returns the path. */
static const char *write_cluster(const char *root, int i)
{
    static char path[4200];
    char times[4200];
    (void)snprintf(times, sizeof(times), "%s/paper.times", root);
    write_times(times);
    (void)snprintf(path, sizeof(path), "%s/cluster.yaml", root);
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    fprintf(to, "times: paper.times\n%s", clusters[i].text);
    if (clusters[i].little) fprintf(to, "%.0f}\n", 1.05 * memory_of(runs[0].words).machine);
    assert_int_equal(fclose(to), 0);
    return path;
}

static weft_status search(const char *words, const char *cluster, weft_search_options o,
                          weft_strategies *out)
{
    weft_train_options options = {0};
    assert_ok(weft_train_options_init(context, &options));
    set_words(&options, words);
    weft_status status =
        weft_strategies_search(context, &options, cluster, &o, NULL, NULL, NULL, out);
    weft_options_free(weft_train_table(context), &options);
    return status;
}

/* Sums over the searches that were compared with estimates of all candidates. */
static struct {
    int searches;
    int64_t candidates, estimated;
    double behind; /* share of the best rate, at most */
} compared;

static void note(const weft_strategies *few, const weft_strategies *all, double found, double best)
{
    compared.searches++;
    compared.candidates += all->candidates;
    compared.estimated += few->estimated;
    compared.behind = fmax(compared.behind, 1 - found / best);
}

static void tell(void)
{
    print_message("%d searches estimated %lld of %lld candidates, and were at most %.2f %% behind "
                  "the best of all\n",
                  compared.searches, (long long)compared.estimated, (long long)compared.candidates,
                  100 * compared.behind);
    memset(&compared, 0, sizeof(compared));
}

static void check_counts(const weft_strategies *s)
{
    assert_int_equal(s->candidates, s->estimated + s->refused + s->bounded + s->idle);
    assert_true(s->candidates > 0 && s->fitting <= s->count);
}

/* Estimates all candidates. */
static void check_bounds(const weft_strategies *all, const char *cluster, const char *run)
{
    assert_int_equal(all->bounded, 0);
    for (int i = 0; i < all->count; i++) {
        const weft_strategy *s = &all->at[i];
        if (s->step.samples_per_second > s->most * (1 + 1e-9))
            fail_msg("%s, %s, %s: %.9g samples/s are above the bound of %.9g", cluster, run,
                     s->words, s->step.samples_per_second, s->most);
        if (i > 0 && i < all->fitting)
            assert_true(s->step.samples_per_second <= s[-1].step.samples_per_second);
    }
}

/* Each learner has all parameters somewhere, by which the search leaves out what cannot fit. */
static void check_memory(const weft_strategies *all, const char *cluster, const char *run)
{
    enum { MACHINES = 4 }; /* of a cluster, at most */
    /* One rank has no stage of ZeRO; all runs with one have the network of the first. */
    const char *alone = strstr(run, "zero=") ? runs[0].words : run;
    double bytes = memory_of(alone).parameters * (strstr(run, "bf16") ? 2 : 4);
    for (int i = 0; i < all->count; i++) {
        const weft_step_estimate *step = &all->at[i].step;
        if (step->seconds > 0 && step->memory * MACHINES < bytes * step->learners)
            fail_msg("%s, %s, %s: %.0f bytes on the fullest machine are below the bound", cluster,
                     run, all->at[i].words, step->memory);
    }
}

/* The exchange of a strategy, and its codec: what updates parameters in the same way. */
static void read_kind(const char *words, char *out, size_t size)
{
    char copy[500], *save = NULL;
    int at = 0;
    (void)snprintf(copy, sizeof(copy), "%s", words);
    *out = '\0';
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
        if (strncmp(w, "exchange=", 9) == 0 || strncmp(w, "compress=", 9) == 0)
            at += snprintf(out + at, size - (size_t)at, "%s ", w);
}

/* The rows of the search are the best of each kind in the order of all estimates. */
static void compare(const weft_strategies *few, const weft_strategies *all, const char *cluster,
                    const char *run)
{
    enum { MOST = 200 };
    static char seen[MOST][200];
    char kind[200];
    int kinds = 0;
    assert_true(few->estimated <= all->estimated);
    for (int i = 0; i < all->fitting; i++) {
        bool known = false;
        read_kind(all->at[i].words, kind, sizeof(kind));
        for (int k = 0; k < kinds; k++) known = known || strcmp(kind, seen[k]) == 0;
        if (known) continue;
        assert_true(kinds < MOST);
        double best = all->at[i].step.samples_per_second;
        /* Behind the three best there may be the best one of a learner alone. */
        if (kinds < few->fitting && kinds < 3 &&
            few->at[kinds].step.samples_per_second < best * (1 - 1e-9))
            fail_msg("%s, %s: row %d of the search is %s with %.9g samples/s, and %s has %.9g",
                     cluster, run, kinds, few->at[kinds].words,
                     few->at[kinds].step.samples_per_second, all->at[i].words, best);
        (void)snprintf(seen[kinds++], sizeof(seen[0]), "%s", kind);
    }
    assert_true(few->fitting == kinds || few->fitting >= 3);
    if (kinds > 0)
        note(few, all, few->at[0].step.samples_per_second, all->at[0].step.samples_per_second);
}

/* A limit of time that is not reached changes nothing. */
static void check_limited(const weft_strategies *best, const char *words, const char *path,
                          weft_search_options o)
{
    weft_strategies s;
    o.seconds = 1e6;
    assert_ok(search(words, path, o, &s));
    check_counts(&s);
    assert_true(s.estimated == best->estimated && s.bounded == best->bounded &&
                s.count == best->count && !s.timed_out);
    for (int i = 0; i < best->count; i++) assert_string_equal(s.at[i].words, best->at[i].words);
    weft_strategies_free(&s);
}

static void test_exhaustive(void **state)
{
    (void)state;
    char *root = temporary_folder();
    weft_search_options every, best;
    weft_search_options_init(&every);
    weft_search_options_init(&best);
    every.top = 1000000;
    every.all = true;
    best.top = 3;
    for (int c = 0; c < CLUSTERS; c++)
        for (int r = 0; r < RUNS; r++) {
            weft_strategies all, few;
            if (!in_full() && ((c + r) % 5 || (paths_alone() && c > 0))) continue;
            every.one_learner = best.one_learner = !runs[r].exchanges;
            const char *path = write_cluster(root, c);
            assert_ok(search(runs[r].words, path, every, &all));
            check_counts(&all);
            check_bounds(&all, clusters[c].name, runs[r].words);
            check_memory(&all, clusters[c].name, runs[r].words);
            assert_ok(search(runs[r].words, path, best, &few));
            check_counts(&few);
            compare(&few, &all, clusters[c].name, runs[r].words);
            check_limited(&few, runs[r].words, path, best);
            weft_strategies_free(&all);
            weft_strategies_free(&few);
        }
    tell();
    remove_folder(root);
}

/* Every mesh to 16 ranks, of one learner; in short, of 16 ranks. */
static void test_meshes(void **state)
{
    static const char *const machines[] = {"bandwidth: 1e6\nmachines:\n  - {count: 4, cores: 4}\n",
                                           "machines:\n  - {count: 1, cores: 16}\n"};
    char *root = temporary_folder(), path[4200];
    (void)state;
    for (int m = paths_alone() ? 1 : 0; m < 2; m++) {
        weft_strategies all, few;
        weft_search_options o;
        weft_search_options_init(&o);
        o.one_learner = true;
        (void)write_cluster(root, 0);
        (void)snprintf(path, sizeof(path), "%s/wide.yaml", root);
        FILE *to = fopen(path, "w");
        assert_non_null(to);
        fprintf(to, "times: paper.times\n%s", machines[m]);
        assert_int_equal(fclose(to), 0);
        char words[200];
        (void)snprintf(words, sizeof(words),
                       "model=mlp data=glyphs:size=9,train=60,test=20 batch=32 microbatches=2 "
                       "recompute=true ranks=%d",
                       in_full() ? 1 : 16);
        assert_ok(search(words, path, o, &few));
        o.all = true;
        o.top = 1000000;
        assert_ok(search(words, path, o, &all));
        check_bounds(&all, machines[m], words);
        double found = few.at[0].step.samples_per_second, best = all.at[0].step.samples_per_second;
        assert_true(all.fitting > 10 && few.fitting == 1);
        note(&few, &all, found, best);
        if (found < best * 0.99)
            fail_msg("%s has %g, %s %g", few.at[0].words, found, all.at[0].words, best);
        weft_strategies_free(&all);
        weft_strategies_free(&few);
    }
    tell();
    remove_folder(root);
}

/* Options that are given hold for all candidates. */
static void test_given(void **state)
{
    char *root = temporary_folder();
    const char *path = write_cluster(root, 1);
    weft_search_options o;
    weft_strategies s;
    (void)state;
    weft_search_options_init(&o);
    o.all = true;
    o.top = 1000000;
    static const char small[] = "model=mlp data=glyphs:size=9,train=60,test=20 batch=12 ";
    static const struct {
        const char *words, *in, *never; /* in: in the words of all rows; never: in none */
    } cases[] = {{"ranks=2", "ranks=2", "ranks=3"},
                 {"exchange=average:every=2 microbatches=3", "ranks=", "exchange="},
                 {"mesh=data=2 recompute=true", "ranks=2", "mesh="},
                 {"zero=1 microbatches=2", "ranks=", "zero="},
                 {"ranks=1", "ranks=1", "mesh="},
                 {"zero=0 recompute=false", "ranks=", "zero="}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char words[300];
        (void)snprintf(words, sizeof(words), "%s%s", small, cases[i].words);
        o.one_learner = i != 1;
        o.given = i < 4 ? NULL : "ranks,"; /* with their defaults */
        if (i == 5) o.given = "recompute,zero,";
        assert_ok(search(words, path, o, &s));
        assert_true(s.fitting > 0);
        for (int k = 0; k < s.count; k++)
            if (!strstr(s.at[k].words, cases[i].in) || strstr(s.at[k].words, cases[i].never))
                fail_msg("with %s there is a candidate %s", cases[i].words, s.at[k].words);
        weft_strategies_free(&s);
    }
    remove_folder(root);
}

/* Writes a cluster file with the machines beside the times of write_cluster. */
static void write_machines(const char *root, const char *machines, char path[4200])
{
    (void)write_cluster(root, 0);
    (void)snprintf(path, 4200, "%s/other.yaml", root);
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    fprintf(to, "times: paper.times\nbandwidth: 125e6\nmachines:\n  - %s\n", machines);
    assert_int_equal(fclose(to), 0);
}

/* Whether the best strategy leaves out machines of the file is told where these are unlike. */
static void test_first_machines(void **state)
{
    static const struct {
        const char *machines;
        int64_t first;
    } cases[] = {{"{count: 2, cores: 1}\n  - {count: 2, cores: 1, speed: 0.5}", 1},
                 {"{count: 4, cores: 1}", 0},
                 {"{count: 1, cores: 1}", 0}};
    char *root = temporary_folder(), path[4200];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        weft_search_options o;
        weft_strategies s;
        weft_search_options_init(&o);
        o.one_learner = true;
        o.given = "ranks,";
        write_machines(root, cases[i].machines, path);
        assert_ok(search(runs[0].words, path, o, &s));
        assert_int_equal(s.first_machines, cases[i].first);
        weft_strategies_free(&s);
    }
    remove_folder(root);
}

/* A search that ends before anything fits has the candidate that takes little memory. */
static void test_little_time(void **state)
{
    (void)state;
    static const char words[] = "model=mlp data=glyphs:size=16,train=60,test=20 batch=4 ranks=4";
    char *root = temporary_folder(), path[4200], machines[80], least[200];
    (void)snprintf(least, sizeof(least), "%s mesh=tensor=4 recompute=true", words);
    (void)snprintf(machines, sizeof(machines), "{count: 4, cores: 1, memory: %.0f}",
                   1.05 * memory_of(least).process);
    weft_search_options o;
    weft_strategies s;
    weft_search_options_init(&o);
    o.seconds = 1e-9;
    write_machines(root, machines, path);
    assert_ok(search(words, path, o, &s));
    assert_true(s.timed_out && s.fitting == 1 && s.count >= 1 && !s.remedy);
    assert_true(s.at[0].step.seconds > 0 && s.at[0].step.memory <= s.at[0].step.memory_limit);
    assert_null(s.at[0].reason);
    weft_strategies_free(&s);
    remove_folder(root);
}

/* Stops a search after so many estimates. */
typedef struct stop_after {
    weft_stop stop;
    int64_t estimates;
} stop_after;

static void count_estimates(void *user, const weft_strategies *so_far, double best)
{
    stop_after *s = user;
    (void)best;
    if (so_far->estimated >= s->estimates) s->stop.wanted = 1;
}

static bool has_row(const weft_strategies *s, const char *words)
{
    bool found = false;
    for (int i = 0; i < s->count; i++) found = found || strcmp(s->at[i].words, words) == 0;
    return found;
}

/* The plain ways to use a cluster are estimated first: one rank, then the batch shared out to a
 * rank of each machine and of each core; with all of the stages of ZeRO. */
static void test_plain_first(void **state)
{
    static const char small[] = "model=mlp data=glyphs:size=9,train=60,test=20 batch=32 ";
    static const struct {
        const char *machines, *words;
        int64_t estimates;
        const char *rows[3]; /* among these estimates */
    } cases[] = {
        {"{count: 8, cores: 4}", "", 1, {"ranks=1"}},
        {"{count: 8, cores: 4}",
         "",
         9,
         {"ranks=1", "ranks=8 mesh=data=8", "ranks=32 mesh=data=32 zero=3"}},
        {"{count: 1, cores: 16}", "", 5, {"ranks=1", "ranks=16 mesh=data=16"}},
        {"{count: 8, cores: 4}", "ranks=6", 1, {"ranks=6 mesh=data=6"}},
        {"{count: 8, cores: 4}", "mesh=tensor=2", 1, {"ranks=2"}},
        {"{count: 8, cores: 4}", "exchange=average ranks=8", 1, {"ranks=8"}},
    };
    char *root = temporary_folder(), path[4200];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        weft_train_options options = {0};
        weft_search_options o;
        weft_strategies s;
        stop_after stop = {.estimates = cases[i].estimates};
        weft_search_options_init(&o);
        o.all = true;
        o.one_learner = !strstr(cases[i].words, "exchange=");
        o.top = 1000000;
        write_machines(root, cases[i].machines, path);
        assert_ok(weft_train_options_init(context, &options));
        set_words(&options, small);
        set_words(&options, cases[i].words);
        assert_ok(weft_strategies_search(context, &options, path, &o, &stop.stop, count_estimates,
                                         &stop, &s));
        assert_int_equal(s.estimated, cases[i].estimates);
        for (int k = 0; k < 3 && cases[i].rows[k]; k++)
            if (!has_row(&s, cases[i].rows[k]))
                fail_msg("%s, %s: %s is not among the first %lld estimates", cases[i].machines,
                         cases[i].words, cases[i].rows[k], (long long)s.estimated);
        weft_strategies_free(&s);
        weft_options_free(weft_train_table(context), &options);
    }
    remove_folder(root);
}

/* A mesh with an axis that splits nothing is no candidate. */
static void test_idle(void **state)
{
    static const struct {
        const char *words, *never, *some;
    } cases[] = {
        {"model=mlp data=glyphs:size=9,train=60,test=20 batch=12 ranks=4", "domain=", "tensor=4"},
        {"model=mlp:hidden=2 data=glyphs:size=9,train=60,test=20 batch=12 ranks=12", "tensor=12",
         "data=12"},
        {"model=lenet data=glyphs:size=16,train=60,test=20 batch=4 ranks=2", "domain=1",
         "domain=2"},
    };
    char *root = temporary_folder(), path[4200];
    (void)state;
    write_machines(root, "{count: 1, cores: 12}", path);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool some = false;
        weft_search_options o;
        weft_strategies s;
        weft_search_options_init(&o);
        o.all = o.one_learner = true;
        o.top = 1000000;
        assert_ok(search(cases[i].words, path, o, &s));
        check_counts(&s);
        for (int k = 0; k < s.fitting; k++) {
            some = some || strstr(s.at[k].words, cases[i].some);
            if (strstr(s.at[k].words, cases[i].never))
                fail_msg("%s: there is a candidate %s", cases[i].words, s.at[k].words);
        }
        assert_true(some && (s.idle > 0) == (i < 2));
        weft_strategies_free(&s);
    }
    remove_folder(root);
}

static void stop_at_once(void *user, const weft_strategies *so_far, double best)
{
    weft_stop *stop = user;
    (void)best;
    if (so_far->estimated >= 3) stop->wanted = 1;
}

/* A search that is stopped has what it found. */
static void test_stopped(void **state)
{
    char *root = temporary_folder();
    weft_search_options o;
    weft_strategies s;
    weft_train_options options = {0};
    weft_stop stop = {0};
    (void)state;
    weft_search_options_init(&o);
    assert_ok(weft_train_options_init(context, &options));
    set_words(&options, runs[0].words);
    const char *path = write_cluster(root, 1);
    assert_ok(weft_strategies_search(context, &options, path, &o, &stop, stop_at_once, &stop, &s));
    assert_true(s.interrupted && s.estimated == 3);
    weft_strategies_free(&s);
    weft_options_free(weft_train_table(context), &options);
    remove_folder(root);
}

/* A cluster with more candidates than memory has room for: the search ends when its time is out,
 * and counts them all. */
static void test_time_out(void **state)
{
    char *root = temporary_folder(), path[4200];
    weft_search_options o;
    weft_strategies s;
    (void)state;
    weft_search_options_init(&o);
    write_machines(root, "{count: 1024, cores: 64}", path);
    o.seconds = 0.5;
    assert_ok(search(runs[0].words, path, o, &s));
    assert_true(s.timed_out && s.candidates > 1000000000);
    assert_true(s.estimated + s.refused + s.bounded < s.candidates);
    weft_strategies_free(&s);
    o.seconds = 1e-9;
    assert_ok(search(runs[0].words, path, o, &s));
    assert_true(s.timed_out && s.estimated >= 1 && has_row(&s, "ranks=1"));
    weft_strategies_free(&s);
    remove_folder(root);
}

static void test_nothing_fits(void **state)
{
    char *root = temporary_folder(), path[4200], machines[100];
    weft_search_options o;
    weft_strategies s;
    (void)state;
    weft_search_options_init(&o);
    (void)snprintf(machines, sizeof(machines), "{count: 2, cores: 1, memory: %.0f}",
                   memory_of(runs[0].words).shared);
    write_machines(root, machines, path);
    o.one_learner = true;
    assert_ok(search(runs[0].words, path, o, &s));
    assert_int_equal(s.fitting, 0);
    assert_non_null(s.remedy);
    assert_non_null(strstr(s.remedy, "too much; machines of"));
    weft_strategies_free(&s);
    remove_folder(root);
}

static void test_refused(void **state)
{
    char *root = temporary_folder();
    weft_search_options o;
    weft_strategies s;
    (void)state;
    const char *path = write_cluster(root, 1);
    weft_search_options_init(&o);
    assert_refused(search("model=nowhere data=glyphs:size=9,train=18,test=6 batch=4", path, o, &s),
                   WEFT_ERR_ARGUMENT, "nowhere");
    assert_refused(search("model=mlp device=reference data=glyphs:size=9,train=18,test=6 batch=4",
                          path, o, &s),
                   WEFT_ERR_UNSUPPORTED, "give --device cpu");
    o.top = 0;
    assert_refused(search(runs[0].words, path, o, &s), WEFT_ERR_ARGUMENT,
                   "top is 0, must be 1 or more");
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exhaustive),  cmocka_unit_test(test_meshes),
        cmocka_unit_test(test_given),       cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_plain_first), cmocka_unit_test(test_idle),
        cmocka_unit_test(test_time_out),    cmocka_unit_test(test_nothing_fits),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_first_machines),
        cmocka_unit_test(test_little_time),
    };
    return cmocka_run_group_tests_name("strategies", tests, setup, teardown);
}
