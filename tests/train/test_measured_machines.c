/* Cluster files of measured machines: what was drawn comes back, kinds with their counts and lines;
 * links are measured between each two ranks; warnings name machines and links that are unlike. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "cost/cluster.h"
#include "one_context.h"
#include "support.h"
#include "train/estimate/measure.h"

enum { MACHINES = 7, KINDS = 3 };
static const struct kind {
    double cores, memory, speed, latency, bandwidth;
} kinds[KINDS] = {
    {4, 16e9, 1, 1e-4, 125e6}, {8, 32e9, 0.5, 1e-4, 125e6}, {4, 16e9, 1, 5e-3, 12.5e6}};

typedef struct room {
    weft_measured_machine machine[MACHINES];
    double latency[MACHINES * MACHINES], bandwidth[MACHINES * MACHINES];
    int kind[MACHINES];
} room;

/* The first machine is of the first kind, so that speeds are relative to it; of each kind there are
 * two or more, so that the lines of its own kind tell each. */
static void draw_room(weft_random *random, room *r)
{
    *r = (room){.kind = {0, 1, 2, 0, 1, 2}};
    for (int i = 1; i < MACHINES; i++) {
        int other = 1 + (int)(weft_random_unit(random) * (MACHINES - 1)), kept = r->kind[i];
        r->kind[i] = r->kind[other];
        r->kind[other] = kept;
    }
    for (int i = 0; i < MACHINES; i++) {
        const struct kind *k = &kinds[r->kind[i]];
        weft_measured_machine *m = &r->machine[i];
        (void)snprintf(m->name, sizeof(m->name), "h%d", i);
        (void)snprintf(m->processor, sizeof(m->processor), "some processor");
        m->cores = k->cores;
        m->memory = k->memory * weft_random_between(random, 0.995, 1.005);
        m->spread = 0.01;
        for (int n = 0; n < WEFT_MEASURED_NETWORKS; n++)
            m->seconds[n] = (n + 1) / k->speed * weft_random_between(random, 0.99, 1.01);
        for (int j = 0; j < MACHINES; j++) {
            const struct kind *o = &kinds[r->kind[j]];
            double noise = weft_random_between(random, 1, 1.02);
            r->latency[i * MACHINES + j] = fmax(k->latency, o->latency) * noise;
            r->bandwidth[i * MACHINES + j] = fmin(k->bandwidth, o->bandwidth) / noise;
        }
    }
}

static void write_room(const room *r, char **out)
{
    weft_text text = {0};
    assert_ok(weft_machines_text(context, r->machine, MACHINES, r->latency, r->bandwidth,
                                 "one.times", &text));
    assert_ok(weft_text_take(&text, out));
}

static void read_room(const char *text, weft_cluster *c)
{
    char path[] = "/tmp/weft-machines-XXXXXX";
    int file = mkstemp(path);
    int64_t count = 1;
    assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    assert_ok(weft_cluster_open(path, &count, c));
    unlink(path);
    assert_int_equal(count, MACHINES);
}

static void near(double got, double want, double share)
{
    if (fabs(got / want - 1) > share) fail_msg("%g, should be %g", got, want);
}

/* Which machines the file has in its order. */
static void order_of(const char *text, int order[MACHINES])
{
    const char *at = strstr(text, "--hosts ") + strlen("--hosts ");
    for (int i = 0; i < MACHINES; i++, at += strlen(",h0:1"))
        assert_int_equal(sscanf(at, "h%d:1", &order[i]), 1);
}

static void kinds_come_back(void **state)
{
    (void)state;
    weft_random random;
    weft_random_start(&random, 1, 1);
    for (int round = 0; round < (paths_alone() ? 5 : 50); round++) {
        room r;
        char *text;
        weft_cluster c;
        int order[MACHINES];
        draw_room(&random, &r);
        write_room(&r, &text);
        read_room(text, &c);
        order_of(text, order);
        assert_int_equal(c.group_count, KINDS);
        for (int i = 0; i < MACHINES; i++) {
            const struct kind *k = &kinds[r.kind[order[i]]];
            const weft_machine_group *g = weft_cluster_group_of(&c, i);
            assert_int_equal(g->cores, (int64_t)k->cores);
            near(g->memory, k->memory, 0.01);
            near(g->speed, k->speed, 0.02);
            for (int j = 0; j < MACHINES; j++) {
                if (i == j) continue;
                weft_sim_link link = weft_cluster_link(&c, i, j);
                near(link.latency, r.latency[order[i] * MACHINES + order[j]], 0.03);
                near(link.bandwidth, r.bandwidth[order[i] * MACHINES + order[j]], 0.03);
            }
        }
        assert_null(strstr(text, "was busy"));
        assert_null(strstr(text, "the link between"));
        assert_null(strstr(text, "another processor"));
        weft_cluster_free(&c);
        free(text);
    }
}

static void count_line(void *user, weft_log_level level, const char *text)
{
    int *lines = user;
    assert_int_equal(level, WEFT_LOG_WARNING);
    assert_non_null(strchr(text, 'h'));
    ++*lines;
}

static void unlike_ones_are_named(void **state)
{
    (void)state;
    weft_random random;
    room r;
    char *text;
    int lines = 0;
    weft_cluster c;
    weft_random_start(&random, 1, 2);
    draw_room(&random, &r);
    r.machine[3].spread = 0.2;
    (void)snprintf(r.machine[5].processor, sizeof(r.machine[5].processor), "another one");
    /* Between the first of the first kind and the second, whose lines to others are fast. */
    int b = 1;
    while (r.kind[b] != 0) b++;
    r.bandwidth[b] = r.bandwidth[b * MACHINES] = 50e6;
    weft_context_set_log(context, count_line, &lines);
    write_room(&r, &text);
    weft_context_set_log(context, NULL, NULL);
    char link[64];
    (void)snprintf(link, sizeof(link), "# the link between h0 and h%d has", b);
    assert_non_null(strstr(text, "# h3 was busy: two runs of a kernel differed by 40 %"));
    assert_non_null(strstr(text, "# h5 has another processor than h0 (another one)"));
    assert_non_null(strstr(text, link));
    assert_int_equal(lines, 3);
    read_room(text, &c);
    weft_cluster_free(&c);
    free(text);
}

/* --- links --- */

typedef struct party {
    weft_comm *comm;
    double latency[8], bandwidth[8];
    weft_status status;
    pthread_t thread;
} party;

static void *run_party(void *user)
{
    party *p = user;
    p->status = weft_measure_links(p->comm, 0.1, NULL, p->latency, p->bandwidth);
    if (p->status != WEFT_OK) weft_comm_abort(p->comm);
    return NULL;
}

static void each_link_is_measured(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++) {
        weft_comm *comms[8];
        party all[8] = {{NULL}};
        int local;
        assert_ok(weft_comm_open(context, "threads", n, comms, &local));
        for (int r = 0; r < n; r++) {
            all[r].comm = comms[r];
            pthread_create(&all[r].thread, NULL, run_party, &all[r]);
        }
        for (int r = 0; r < n; r++) pthread_join(all[r].thread, NULL);
        for (int r = 0; r < n; r++) {
            assert_ok(all[r].status);
            for (int other = 0; other < n; other++) {
                assert_int_equal(all[r].latency[other] > 0, other != r);
                assert_int_equal(all[r].bandwidth[other] > 0, other != r);
                assert_true(isfinite(all[r].bandwidth[other]));
            }
        }
        for (int r = 0; r < n; r++) weft_comm_close(&comms[r]);
    }
}

/* A large message takes more time than a small one; encrypted ones are measured if they can be
 * encrypted here. */
static void messages_take_time(void **state)
{
    (void)state;
    weft_times *times;
    assert_ok(weft_times_new(&times));
    assert_ok(weft_measure_messages(NULL, times));
    static const char *const ways[] = {"pass ipc message", "pass message"};
    assert_true(weft_times_count(times) > 0);
    assert_ok(weft_times_index(times));
    for (size_t k = 0; k < WEFT_COUNT(ways) - (weft_times_count(times) == 5); k++) {
        weft_timed what = {ways[k], "", 1, weft_cores(), 0, 2048};
        weft_estimate small = weft_times_estimate(times, &what);
        what.bytes = 8 << 20;
        weft_estimate large = weft_times_estimate(times, &what);
        assert_int_equal(small.by, WEFT_BY_KIND);
        assert_true(small.seconds > 0 && large.seconds > small.seconds);
    }
    weft_times_free(&times);
}

/* A machine may have more cores than the batch of a network has samples: each rank gets one in each
 * micro-batch. The time of a sample is that of the batch which the ranks had. */
static void more_ranks_than_samples(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 9; ranks += 4) {
        const weft_measured_network network = {"mlp", "glyphs:size=9,train=60,test=10", "4", "2",
                                               "5"};
        const weft_measured_setting setting = {.threads = 1, .ranks = ranks};
        weft_times *times;
        double sample = 0;
        assert_ok(weft_times_new(&times));
        assert_ok(weft_measure_network(context, &network, setting, NULL, NULL, times, &sample));
        assert_true(sample > 0 && isfinite(sample));
        assert_true(weft_times_count(times) > 0);
        weft_times_free(&times);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_come_back),         cmocka_unit_test(unlike_ones_are_named),
        cmocka_unit_test(each_link_is_measured),   cmocka_unit_test(messages_take_time),
        cmocka_unit_test(more_ranks_than_samples),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
