/* Tests that targets, losses and layers that do not fit together, or missing targets, are
 * refused. */
#include "trainer_runs.h"

/* Combinations that are refused before training begins. `data` are options behind csv:FILE. */
static const struct {
    const char *data, *model, *words;
} refused[] = {
    {"target=prise", NULL, "no column is named 'prise'; did you mean 'price'?"},
    {"target=9", NULL, "target column 9 does not exist, columns are 0 to 3"},
    {"target=price,label=year", NULL, "give the one that is to be learned"},
    {"label=price", NULL, "that looks measured"},
    {"target=kind", NULL, "column 3 (kind), the target, holds 'flat'"},
    {"target=price", "loss: cross_entropy\nlayers:\n  - {type: dense, units: outputs}\n",
     "net.yaml:1: loss 'cross_entropy' needs classes"},
    {"target=price", "layers:\n  - {type: dense, units: classes}\n",
     "net.yaml:2: units is 'classes', but the target of these data is numbers; write 'outputs'"},
    {"target=price", "layers:\n  - {type: dense, units: 3}\n",
     "must give [batch, 1]: one number a target"},
    {"target=price", "loss: mae\nlayers:\n  - {type: dense, units: outputs}\n",
     "no loss is named 'mae'; did you mean 'mse'?"},
    {"label=kind", "loss: mse\nlayers:\n  - {type: dense, units: outputs}\n",
     "net.yaml:1: loss 'mse' needs a target of numbers"},
};

static void test_refusals(void **state)
{
    (void)state;
    static const char *const holes[] = {"", "nan", "inf", "n/a"};
    log_of_run l;
    char *folder = temporary_folder(), path[4200], net[4200], words[14000], text[4000];
    for (size_t k = 0; k < sizeof(refused) / sizeof(refused[0]); k++) {
        bool names = strstr(refused[k].data, "kind") != NULL; /* names cannot be features */
        (void)snprintf(text, sizeof(text), "rooms,year,price,%s\n", names ? "kind" : "dust");
        for (int i = 0; i < 30; i++)
            (void)snprintf(text + strlen(text), 64, "%d,%d,%d.%d,%s\n", i % 5, i * i % 7, i, i,
                           !names  ? "1"
                           : i % 2 ? "house"
                                   : "flat");
        write_file(folder, "t.csv", text, strlen(text), path, sizeof(path));
        if (refused[k].model)
            write_file(folder, "net.yaml", refused[k].model, strlen(refused[k].model), net,
                       sizeof(net));
        (void)snprintf(words, sizeof(words), "model=%s data=csv:%s,%s batch=5",
                       refused[k].model ? net : "mlp", path, refused[k].data);
        weft_status status = train(words, NULL, 0, &l);
        assert_true(status != WEFT_OK);
        if (!strstr(weft_last_message(), refused[k].words))
            fail_msg("%s: '%s' does not hold '%s'", refused[k].data, weft_last_message(),
                     refused[k].words);
    }
    for (size_t k = 0; k < sizeof(holes) / sizeof(holes[0]); k++) {
        (void)snprintf(text, sizeof(text), "a,b\n1,2\n3,%s\n", holes[k]);
        write_file(folder, "t.csv", text, strlen(text), path, sizeof(path));
        (void)snprintf(words, sizeof(words), "model=mlp data=csv:%s,target=b batch=1", path);
        assert_refused(train(words, NULL, 0, &l), WEFT_ERR_FORMAT,
                       "t.csv:3: column 1 (b), the target,");
        assert_non_null(strstr(weft_last_message(), *holes[k] ? "holds '" : "is empty"));
    }
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests_name("targets", tests, setup, teardown);
}
