/* Estimates the steps of runs whose options are given as text, on clusters of nominal machines. */
#ifndef WEFT_TESTS_ESTIMATES_H
#define WEFT_TESTS_ESTIMATES_H

#include "simulations.h"
#include "weft/estimate.h"

/* A cluster file whose machines have a core with rates alone. */
static inline const char *cluster_of(const char *root, const char *keys)
{
    char text[1000];
    const char *times = made(root, "nominal.times");
    FILE *f = fopen(times, "w");
    assert_non_null(f);
    fprintf(f, "weft-times\t1\nversion\t%s\nprocessor\tnominal\n", weft_version());
    fprintf(f, "time\t1\t1\t1\t5e9\t0\toperations\t\ntime\t1\t1\t1\t0\t2e10\tbytes\t\n");
    fprintf(f, "time\t1\t1\t1e-5\t1000\t1e6\tstep\t\nend\t3\n");
    assert_int_equal(fclose(f), 0);
    (void)snprintf(text, sizeof(text), "times: nominal.times\n%s\n", keys);
    return cluster_file(root, "cluster.yaml", text);
}

static inline weft_status estimate(const char *words, const char *more, const char *cluster,
                                   weft_step_estimate *out)
{
    weft_train_options o = {0};
    const weft_option *table = weft_train_table(context);
    char copy[4000], *save = NULL;
    assert_ok(weft_train_options_init(context, &o));
    assert_true(snprintf(copy, sizeof(copy), "%s %s", words, more) < (int)sizeof(copy));
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        assert_ok(weft_options_set(table, &o, word, equals + 1));
    }
    weft_status status = weft_estimate_step(context, &o, cluster, out);
    weft_options_free(table, &o);
    return status;
}

static inline weft_step_estimate estimated(const char *words, const char *more, const char *cluster)
{
    weft_step_estimate out;
    if (estimate(words, more, cluster, &out) != WEFT_OK)
        fail_msg("%s: %s", more, weft_last_message());
    return out;
}

static inline bool near(double a, double b, double share)
{
    return fabs(a - b) <= share * fabs(b);
}

#endif
