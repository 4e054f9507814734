/* Fuzzes the cluster file of weft simulate --cluster FILE. A cluster that is accepted gives finite
 * step times and link properties, whatever the file says. */
#include "fuzz.h"

#include <math.h>

#include "fuzz_file.h"
#include "cost/cluster.h"

static void must(bool right)
{
    if (!right) abort();
}

static void look(const weft_cluster *c, int learner)
{
    weft_random random;
    weft_random_start(&random, 1, (uint64_t)learner);
    double seconds = weft_cluster_step(c, learner, 1e6, &random);
    must(isfinite(seconds) && seconds > 0);
    for (int other = -1; other <= learner; other += learner + 1) {
        weft_sim_link l = weft_cluster_link(c, learner, other);
        must(isfinite(l.latency) && l.latency >= 0 && isfinite(l.jitter) && l.jitter >= 0);
        must(isfinite(l.bandwidth) && l.bandwidth >= 0);
        must(l.lost >= 0 && l.lost < 1 && l.twice >= 0 && l.twice < 1);
        must(l.reordered >= 0 && l.reordered < 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_cluster c;
    int64_t learners = 1;
    if (weft_cluster_open(fuzz_file(data, size), &learners, &c) != WEFT_OK) {
        must(weft_last_message()[0]);
        return 0;
    }
    must(learners >= 1 && learners <= 1024 && c.group_count >= 1);
    look(&c, 0);
    look(&c, (int)learners - 1);
    weft_cluster_free(&c);
    return 0;
}
