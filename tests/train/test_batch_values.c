/* A layer batch_norm refuses to train where a channel has one value: with any batch, micro-batches,
 * virtual workers, learners, and last batches of an epoch. The oracle deals the samples of each
 * step out one by one. Positions count as values, and a batch in which one sample has a weight ends
 * the run at that step. */
#include "base/base.h"
#include "trainer_runs.h"

enum { CASES = 400, MOST_SAMPLES = 40 };

static uint64_t draws = 1;

static int64_t between(int64_t low, int64_t high)
{
    draws = weft_mix(draws, 7);
    return low + (int64_t)(draws % (uint64_t)(high - low + 1));
}

typedef struct length {
    int64_t samples, batch, microbatches, workers, learners, steps;
} length;

/* Whether a micro-batch or virtual worker gets exactly one sample of `filled`. */
static bool is_single(const length *l, int64_t filled)
{
    int64_t group = l->batch / l->microbatches, counts[MOST_SAMPLES] = {0};
    if (l->workers > 0) group = (l->batch + l->workers - 1) / l->workers;
    for (int64_t i = 0; i < filled; i++) counts[i / group]++;
    for (int64_t i = 0; i < MOST_SAMPLES; i++)
        if (counts[i] == 1) return true;
    return false;
}

static bool has_single(const length *l)
{
    int64_t all = l->batch * l->learners, done = 0;
    for (int64_t step = 0; step < l->steps; step++) {
        int64_t total = WEFT_MIN(all, l->samples - done);
        for (int i = 0; i < l->learners; i++)
            if (is_single(l, weft_part_start(total, i + 1, (int)l->learners) -
                                 weft_part_start(total, i, (int)l->learners)))
                return true;
        done = done + total == l->samples ? 0 : done + total;
    }
    return false;
}

static length draw(void)
{
    length l = {.samples = between(1, MOST_SAMPLES), .microbatches = 1, .learners = between(1, 3)};
    l.batch = between(1, WEFT_MIN(l.samples, 12));
    if (between(0, 2) == 0)
        while (l.batch % (l.microbatches = between(1, l.batch))) continue;
    else if (between(0, 2) == 0)
        l.workers = between(1, l.batch);
    l.steps = between(1, 2 * l.samples / (l.batch * l.learners) + 2);
    return l;
}

static void write_table(const char *root, int64_t samples)
{
    char text[MOST_SAMPLES * 16 + 16] = "a,b,y\n", path[4300];
    for (int64_t i = 0; i < samples; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d,%d,%d.5\n",
                       (int)i * 7 % 11, (int)i * 5 % 13, (int)i % 4);
    write_file(root, "t.csv", text, strlen(text), path, sizeof(path));
}

static const char net[] = "layers:\n  - {type: dense, units: 3}\n"
                          "  - {type: batch_norm, name: norm}\n  - {type: dense, units: outputs}\n";

static void refused_alike(const char *root, const char *model, const length *l)
{
    weft_train_options o = {0};
    const weft_option *table = weft_train_table(context);
    char words[9000], *save = NULL, *text = NULL;
    write_table(root, l->samples);
    (void)snprintf(words, sizeof(words),
                   "model=%s data=csv:%s/t.csv,target=y,test=0 batch=%d microbatches=%d "
                   "virtual-workers=%d steps=%d ranks=%d threads=1%s",
                   model, root, (int)l->batch, (int)l->microbatches, (int)l->workers, (int)l->steps,
                   (int)l->learners, l->learners > 1 ? " exchange=average" : "");
    assert_ok(weft_train_options_init(context, &o));
    char *copy = strdup(words);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(w, '=');
        *equals = '\0';
        assert_ok(weft_options_set(table, &o, w, equals + 1));
    }
    weft_status status = weft_train_plan_text(context, &o, -1, &text);
    bool refused = status == WEFT_ERR_ARGUMENT &&
                   strstr(weft_last_message(), "layer 'norm' (batch_norm): expected more than 1 "
                                               "value per channel when training, got [1, 3]; ");
    if (refused != has_single(l) || (!refused && status != WEFT_OK))
        fail_msg("%s\nshould be %s: %s", words, has_single(l) ? "refused" : "accepted",
                 status == WEFT_OK ? "accepted" : weft_last_message());
    free(copy);
    weft_free(text);
    weft_options_free(table, &o);
}

static void test_every_way(void **state)
{
    (void)state;
    char *root = temporary_folder(), model[4300];
    int refused = 0;
    write_file(root, "net.yaml", net, strlen(net), model, sizeof(model));
    for (int i = 0; i < CASES; i++) {
        length l = draw();
        refused += has_single(&l);
        refused_alike(root, model, &l);
    }
    assert_true(refused > CASES / 10 && refused < CASES * 9 / 10);
    remove_folder(root);
}

/* Positions are values, too: a batch of one image trains. */
static void test_images(void **state)
{
    (void)state;
    static const char image[] = "layers:\n  - {type: conv, filters: 2, kernel: 3}\n"
                                "  - {type: batch_norm}\n  - {type: dense, units: classes}\n";
    char *root = temporary_folder(), model[4300], words[9000];
    log_of_run l;
    write_file(root, "net.yaml", image, strlen(image), model, sizeof(model));
    (void)snprintf(words, sizeof(words),
                   "model=%s data=glyphs:size=9,train=4,test=3 batch=1 steps=3 threads=1", model);
    assert_ok(train(words, NULL, 0, &l));
    remove_folder(root);
}

/* Only samples with a weight count. One weight is above 0, so the first step fails; the checkpoint
 * is evaluated one sample at a time. */
static void test_weights(void **state)
{
    (void)state;
    static const char *const devices[] = {"reference", "cpu"};
    static const char rows[] = "a,b,y,w\n1,2,1.5,0\n2,1,2.5,3\n4,1,0.5,0\n3,5,2,0\n";
    char *root = temporary_folder(), model[4300], path[4300], words[9300];
    write_file(root, "net.yaml", net, strlen(net), model, sizeof(model));
    write_file(root, "t.csv", rows, strlen(rows), path, sizeof(path));
    for (int i = 0; i < 6; i++) {
        log_of_run l;
        (void)snprintf(words, sizeof(words),
                       "model=%s data=csv:%s,target=y,weight=w,test=0 batch=4 steps=2 threads=1 "
                       "device=%s %s",
                       model, path, devices[i % 2],
                       i < 2   ? ""
                       : i < 4 ? "ranks=2"
                               : "ranks=2 virtual-workers=2");
        assert_refused(train(words, NULL, 0, &l), WEFT_ERR_NUMERIC,
                       "which needs more than 1 value per channel that counts");
        assert_non_null(strstr(weft_last_message(), "more samples with a weight above 0"));
        assert_null(strstr(weft_last_message(), "--lr")); /* no rate would help */
    }
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_weights),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
