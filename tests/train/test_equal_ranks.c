/* Estimates in which equal ranks are one have the bits of those in which every rank has a program
 * and a place in the timeline of its own, for every mesh of up to eight ranks; and the number of
 * programs and tasks of large meshes and deep networks is that of what differs. */
#include "one_context.h"
#include "support.h"

#include "train/estimate/estimate.h"

typedef struct tried {
    const char *model, *data, *microbatch;
    bool domain;
} tried;
static const tried models[] = {
    {"mlp", "glyphs:size=9,train=60,test=10", "24", true},
    {"lenet", "glyphs:size=28,train=60,test=10", "16", true},
    {"resnet:depth=18,width=4", "glyphs:size=32,train=60,test=10", "8", true},
    {"gpt:layers=2,heads=2,width=16", "text:words.txt,unit=char,context=16", "12", false},
};

/* A folder of its own, with a table of times, and clusters of one or several machines. */
static void write_files(void)
{
    char folder[] = "/tmp/weft-equal-ranks-XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    FILE *f = fopen("one.times", "w");
    fprintf(f, "weft-times\t1\nversion\t%s\nprocessor\tone\n", weft_version());
    fprintf(f, "time\t1\t1\t1\t1e10\t0\tx\t\ntime\t1\t1\t1\t0\t2e10\ty\t\n");
    fprintf(f,
            "time\t1\t1\t1e-4\t10\t10\tstep\t\ntime\t1\t2\t3.7e-5\t0\t1e4\tall-reduce threads\t\n");
    fprintf(f, "time\t1\t2\t2.3e-5\t0\t1e4\treceive threads\t\nend\t5\n");
    fclose(f);
    f = fopen("words.txt", "w");
    for (int i = 0; i < 400; i++) fprintf(f, "%d words of text\n", i);
    fclose(f);
}

static void write_cluster(int machines, bool unlike)
{
    FILE *f = fopen("cluster.yaml", "w");
    fprintf(f, "times: one.times\nlatency: 3.1e-5\nbandwidth: 7.3e6\nmachines:\n");
    fprintf(f, "  - {count: %d, cores: 2}\n", unlike ? machines - 1 : machines);
    if (unlike) fprintf(f, "  - {count: 1, cores: 2, speed: 0.7}\n");
    fclose(f);
}

static void set(weft_train_options *o, const char *name, const char *value)
{
    assert_ok(weft_options_set(weft_train_table(context), o, name, value));
}

static void set_number(weft_train_options *o, const char *name, int value)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%d", value);
    set(o, name, text);
}

/* Options as "name=value name=value". */
static void set_words(weft_train_options *o, const char *words)
{
    char copy[200], *save = NULL;
    (void)snprintf(copy, sizeof(copy), "%s", words);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(w, '=');
        *equals = '\0';
        set(o, w, equals + 1);
    }
}

static weft_train_options options_of(const tried *m, int ranks, const char *words)
{
    weft_train_options o = {0};
    assert_ok(weft_train_options_init(context, &o));
    set(&o, "model", m->model);
    set(&o, "data", m->data);
    set(&o, "batch", m->microbatch);
    set_number(&o, "ranks", ranks);
    set_words(&o, words);
    return o;
}

/* Both estimates of a run; false: it is refused, in the same words. */
static bool compare(const tried *m, int ranks, const char *words, int machines)
{
    weft_train_options o = options_of(m, ranks, words);
    weft_estimate_effort one = {.apart = false}, each = {.apart = true};
    weft_step_estimate shared, apart;
    char message[1000];
    weft_status status = weft_estimate_step_with(context, &o, "cluster.yaml", &one, &shared);
    (void)snprintf(message, sizeof(message), "%s", status == WEFT_OK ? "" : weft_last_message());
    weft_status other = weft_estimate_step_with(context, &o, "cluster.yaml", &each, &apart);
    weft_options_free(weft_train_table(context), &o);
    assert_int_equal(status, other);
    if (status != WEFT_OK) assert_string_equal(message, weft_last_message());
    if (status != WEFT_OK) return false;
    if (memcmp(&shared, &apart, sizeof(shared)) != 0)
        fail_msg("%s, %d ranks on %d machines, %s: %.17g s with equal ranks as one (%d ranks of "
                 "%d), %.17g s without",
                 m->model, ranks, machines, words, shared.seconds, one.line_ranks, ranks,
                 apart.seconds);
    assert_true(one.programs <= each.programs && one.line_ranks <= each.line_ranks);
    assert_int_equal(each.line_ranks, ranks);
    assert_int_equal(one.lookups, each.lookups);
    return true;
}

/* Further options of a mesh. */
static const char *const more[] = {"", "zero=1", "zero=3", "microbatches=2", "sum-dtype=bf16"};

static int try_mesh(const tried *m, int ranks, const int size[4], int turn)
{
    static const char *const axes[] = {"data", "tensor", "domain", "pipeline"};
    char words[200] = "mesh=";
    int tests = 0, each[] = {1, 2, 3, 8};
    for (int a = 0; a < 4; a++) {
        char one[40];
        (void)snprintf(one, sizeof(one), "%s%s=%d", a ? "," : "", axes[a], size[a]);
        strcat(words, one);
    }
    size_t end = strlen(words);
    for (int i = 0; i < 4; i++) {
        int machines = (ranks + each[i] - 1) / each[i];
        for (size_t k = 0; k < sizeof(more) / sizeof(*more); k++) {
            if (!in_full() && (turn + i * 3 + (int)k) % (paths_alone() ? 145 : 29)) continue;
            (void)snprintf(words + end, sizeof(words) - end, " %s", more[k]);
            write_cluster(machines, machines > 1 && (turn + (int)k) % 3 == 0);
            tests += compare(m, ranks, words, machines);
        }
    }
    return tests;
}

static void every_mesh(void **state)
{
    (void)state;
    int tests = 0, turn = 0, size[4];
    for (size_t m = 0; m < sizeof(models) / sizeof(*models); m++)
        for (int ranks = 2; ranks <= 8; ranks++)
            for (size[0] = 1; size[0] <= ranks; size[0]++)
                for (size[1] = 1; size[1] * size[0] <= ranks; size[1]++)
                    for (size[2] = 1; size[2] * size[1] * size[0] <= ranks; size[2]++) {
                        int product = size[0] * size[1] * size[2];
                        size[3] = ranks / product;
                        if (product * size[3] != ranks || (size[2] > 1 && !models[m].domain))
                            continue;
                        tests += try_mesh(&models[m], ranks, size, turn++);
                    }
    assert_true(tests > (in_full() ? 1500 : paths_alone() ? 12 : 60));
}

/* Learners that meet, virtual workers, unlike shares, and a cut that leaves an odd rank. */
static void other_ways(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        const char *words;
    } ways[] = {
        {4, "exchange=average:every=3"},
        {8, "exchange=average mesh=tensor=2"},
        {6, "exchange=oneshot mesh=data=3"},
        {4, "mesh=data=4 virtual-workers=8"},
        {3, "mesh=data=3 shares=1,2,1"},
        {7, "mesh=data=7 zero=2"},
        {4, "mesh=data=2,pipeline=2 microbatches=4 schedule=gpipe zero=1"},
        {5, "mesh=pipeline=5 microbatches=3 recompute=true"},
    };
    int tests = 0;
    for (size_t m = 0; m < sizeof(models) / sizeof(*models); m++)
        for (size_t w = 0; w < sizeof(ways) / sizeof(*ways); w++)
            for (int machines = 1; machines <= ways[w].ranks; machines += paths_alone() ? 3 : 1) {
                if (paths_alone() && (m + w) % 2) continue;
                write_cluster(machines, false);
                tests += compare(&models[m], ways[w].ranks, ways[w].words, machines);
            }
    assert_true(tests > (paths_alone() ? 20 : 60));
}

/* The effort does not grow with the ranks of an axis, nor with equal layers. */
static void effort(void **state)
{
    (void)state;
    FILE *f = fopen("deep.yaml", "w");
    fprintf(f,
            "name: deep\nlayers:\n  - {type: dense, units: 32}\n  - {type: dense, units: 32}\n"
            "  - {type: relu, block: 2, repeat: %d}\n  - {type: dense, units: outputs}\n",
            in_full() ? 300 : 60);
    fclose(f);
    const tried deep = {"deep.yaml", "glyphs:size=9,train=600,test=10", "256", false};
    size_t lookups[2];
    for (int wide = 0; wide < 2; wide++) {
        weft_step_estimate step;
        weft_estimate_effort e = {.apart = false};
        weft_train_options o = options_of(&deep, wide ? 256 : 16,
                                          wide ? "mesh=data=64,pipeline=4 microbatches=4 batch=512"
                                               : "mesh=data=4,pipeline=4 microbatches=4 batch=32");
        write_cluster(wide ? 64 : 4, false);
        assert_ok(weft_estimate_step_with(context, &o, "cluster.yaml", &e, &step));
        assert_int_equal(e.programs, 4);
        assert_int_equal(e.line_ranks, 16); /* those of a machine send one after the other */
        assert_true(e.kernels < 100);
        lookups[wide] = e.lookups;
        weft_options_free(weft_train_table(context), &o);
    }
    assert_int_equal(lookups[0], lookups[1]);
    assert_true(lookups[0] < 100);
}

/* Ranks that take slices at other places of values in plain layouts are one: here all but the rank
 * that has a class more than the others. */
static void cuts(void **state)
{
    (void)state;
    const tried heads = {"gpt:layers=2,heads=2,width=48", "text:words.txt,unit=char,context=16",
                         "12", false};
    weft_step_estimate step;
    weft_estimate_effort e = {.apart = false};
    weft_train_options o = options_of(&heads, 4, "mesh=tensor=4");
    write_cluster(1, false);
    assert_ok(weft_estimate_step_with(context, &o, "cluster.yaml", &e, &step));
    assert_int_equal(e.programs, 2);
    weft_options_free(weft_train_table(context), &o);
    assert_true(compare(&heads, 4, "mesh=tensor=4", 1));
    /* Causal attention of later positions has more keys. */
    o = options_of(&heads, 2, "mesh=domain=2");
    assert_ok(weft_estimate_step_with(context, &o, "cluster.yaml", &e, &step));
    assert_int_equal(e.programs, 2);
    weft_options_free(weft_train_table(context), &o);
    assert_true(compare(&heads, 2, "mesh=domain=2", 1));
}

/* A plan makes one kernel for all layers that are equal, with any way to hold their weights. */
static void kernels(void **state)
{
    static const char *const ways[] = {"mesh=data=2", "mesh=tensor=2", "mesh=data=2 zero=3"};
    (void)state;
    for (size_t w = 0; w < sizeof(ways) / sizeof(*ways); w++) {
        size_t made[2];
        for (int deep = 0; deep < 2; deep++) {
            weft_step_estimate step;
            weft_estimate_effort e = {.apart = false};
            FILE *f = fopen("layers.yaml", "w");
            fprintf(f,
                    "name: layers\nlayers:\n  - {type: dense, units: 32}\n"
                    "  - {type: dense, units: 32}\n  - {type: relu, block: 2, repeat: %d}\n"
                    "  - {type: dense, units: outputs}\n",
                    deep ? 40 : 4);
            fclose(f);
            const tried layers = {"layers.yaml", "glyphs:size=9,train=600,test=10", "256", false};
            weft_train_options o = options_of(&layers, 2, ways[w]);
            write_cluster(1, false);
            assert_ok(weft_estimate_step_with(context, &o, "cluster.yaml", &e, &step));
            made[deep] = e.kernels;
            weft_options_free(weft_train_table(context), &o);
        }
        assert_true(made[0] > 0);
        assert_int_equal(made[0], made[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mesh), cmocka_unit_test(other_ways), cmocka_unit_test(effort),
        cmocka_unit_test(cuts),       cmocka_unit_test(kernels),
    };
    write_files();
    return cmocka_run_group_tests(tests, setup, teardown);
}
