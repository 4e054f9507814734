/* Compares actors that are played for an estimate with the simulation of the same run, and their
 * times with formulas. */
#include "simulations.h"
#include "train/estimate/play.h"

/* A played run, the seconds of whose steps a cluster file gives. */
typedef struct fixed {
    weft_cluster cluster;
    weft_random random[16];
    double encode, decode; /* seconds of the work of codecs */
    double message;        /* and of an end of a message between processes of one machine */
} fixed;

static double draw_step(void *user, int learner)
{
    fixed *f = user;
    return weft_cluster_step(&f->cluster, learner, 1, &f->random[learner]);
}

static weft_sim_delay work(void *user, int learner, weft_work_kind kind, const char *codec,
                           double bytes, int computing)
{
    const fixed *f = user;
    assert_true(learner >= 0 && bytes > 0 && computing >= 0 &&
                (kind == WEFT_WORK_PASS || kind >= WEFT_WORK_SEND || codec));
    bool beside = kind == WEFT_WORK_SEND_BESIDE || kind == WEFT_WORK_RECEIVE_BESIDE;
    return (weft_sim_delay){.own = beside                     ? f->message
                                   : kind == WEFT_WORK_ENCODE ? f->encode
                                   : kind == WEFT_WORK_DECODE ? f->decode
                                                              : 0};
}

/* The options of a played run beside its words and cluster. */
typedef struct way {
    int64_t elements, steps;
    const int *machine;
    double encode, decode, message;
    bool processes;
} way;

static weft_status play_words(const char *words, const char *more, const char *cluster, way w,
                              weft_played *out)
{
    weft_train_options o = {0};
    const weft_option *table = weft_train_table(context);
    char copy[4000], *save = NULL;
    fixed f = {.encode = w.encode, .decode = w.decode, .message = w.message};
    static const int links[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    int64_t machines = 1;
    weft_trainer *t;
    assert_ok(weft_train_options_init(context, &o));
    assert_true(snprintf(copy, sizeof(copy), "%s %s", words, more) < (int)sizeof(copy));
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        assert_ok(weft_options_set(table, &o, word, equals + 1));
    }
    assert_ok(weft_cluster_open(cluster, &machines, &f.cluster));
    assert_ok(weft_trainer_prepare(context, &o, NULL, &t));
    for (int l = 0; l < t->learners; l++)
        weft_random_start(&f.random[l], (uint64_t)o.task.seed, 1000 + (uint64_t)l);
    const weft_play_options options = {.job = t,
                                       .cluster = &f.cluster,
                                       .elements = w.elements ? w.elements : 1 << 30,
                                       .steps = w.steps,
                                       .machine = w.machine,
                                       .processes = w.processes,
                                       .links = w.machine ? links : NULL,
                                       .step = draw_step,
                                       .work = work,
                                       .user = &f};
    weft_status status = weft_play_actors(&options, out);
    weft_trainer_destroy(&t);
    weft_cluster_free(&f.cluster);
    weft_options_free(table, &o);
    if (status == WEFT_OK && out->link > 1 + 1e-9)
        fail_msg("%s: a link is busy for %.17g of the time", more, out->link);
    return status;
}

static weft_played played(const char *words, const char *more, const char *cluster, way w)
{
    weft_played out;
    weft_status status = play_words(words, more, cluster, w, &out);
    if (status != WEFT_OK) fail_msg("%s: %s", more, weft_last_message());
    return out;
}

static bool near(double a, double b, double share)
{
    return fabs(a - b) <= share * fabs(b);
}

/* These cannot be simulated, but played. */
static const char *const others[] = {"exchange=server servers=2 replicas=1",
                                     "exchange=server:policy=ssp,bound=1 compress=topk:ratio=0.1",
                                     "exchange=gossip compress=threshold:tau=1e-4",
                                     "exchange=easgd:every=3 optimizer=adam microbatches=2"};

static const char *const exchanges[] = {
    "exchange=server:policy=bsp servers=2",
    "exchange=server:policy=async compress=bf16",
    "exchange=server:policy=ssp,bound=2 compress=onebit:block=64",
    "exchange=server:policy=softsync,c=2",
    "exchange=server:policy=async,push=3,fetch=3",
    "exchange=server compress-downlink=onebit optimizer=adam",
    "exchange=easgd:every=2",
    "exchange=gossip",
    "exchange=gossip:mode=average",
    "exchange=gossip:topology=ring compress=onebit"};

/* Without numbers, but with all parameters, bytes, messages and times are those of the simulation,
 * on links that wait, vary and lose. */
static void test_is_the_simulation(void **state)
{
    (void)state;
    static const char *const clusters[] = {
        "step: 0.1\nbandwidth: 1e6\nlatency: 0.003\nmachines: [{count: 3}]\n",
        "step: 0.02\nbandwidth: 3e6\nlatency: 0.01\nlatency-jitter: 0.02\nlost: 0.05\n"
        "machines: [{count: 2, jitter: 1}, {slow: 0.2, slowdown: 5, awake: 0.6}]\n"};
    char *root = temporary_folder(), words[400];
    for (size_t e = 0; e < WEFT_COUNT(exchanges); e++)
        for (size_t c = 0; c < WEFT_COUNT(clusters); c++) {
            told t;
            if (paths_alone() && (e + c) % 2) continue;
            const char *file = cluster_file(root, "cluster.yaml", clusters[c]);
            (void)snprintf(words, sizeof(words), SMALL "batch=4 steps=9 cluster=%s", file);
            assert_ok(simulate(words, exchanges[e], NULL, &t));
            weft_played p =
                played(SMALL "batch=4 ranks=3 steps=9", exchanges[e], file, (way){.steps = 9});
            double last = fmax(p.ended, p.whole.arrived);
            if (p.scale != 1 || (double)p.whole.bytes != t.bytes ||
                (double)p.whole.messages != t.messages || (double)p.whole.lost != t.lost ||
                last != t.seconds)
                fail_msg("%s on cluster %zu: %llu bytes in %llu messages and %.17g s, simulated %g "
                         "in %g and %.17g s",
                         exchanges[e], c, (unsigned long long)p.whole.bytes,
                         (unsigned long long)p.whole.messages, last, t.bytes, t.messages,
                         t.seconds);
        }
    remove_folder(root);
}

/* A short vector stands for the parameters. */
static void test_scales_agree(void **state)
{
    (void)state;
    char *root = temporary_folder();
    const char *file =
        cluster_file(root, "cluster.yaml",
                     "step: 0.1\nbandwidth: 5e6\nlatency: 0.001\nmachines: [{count: 3}]\n");
    for (size_t e = 0; e < WEFT_COUNT(exchanges); e++) {
        static const char words[] = SMALL "batch=4 ranks=3 steps=9";
        weft_played all = played(words, exchanges[e], file, (way){.steps = 0});
        weft_played few = played(words, exchanges[e], file, (way){.elements = 4000});
        print_message("%s: %g and %g s, %g and %g bytes, at %g\n", exchanges[e], all.seconds,
                      few.seconds, all.bytes, few.bytes, few.scale);
        assert_true(all.scale == 1 && few.scale > 3);
        assert_true(near(few.seconds, all.seconds, 0.02) && near(few.bytes, all.bytes, 0.02));
        assert_true(fabs(few.staleness - all.staleness) < 0.1);
    }
    remove_folder(root);
}

/* Where links are free, learners go at the speed of their steps. */
static void test_free_links(void **state)
{
    (void)state;
    char *root = temporary_folder();
    const char *file = cluster_file(
        root, "cluster.yaml", "step: 0.1\nbandwidth: 0\nlatency: 0\nmachines: [{count: 4}]\n");
    for (size_t e = 0; e < WEFT_COUNT(exchanges) + WEFT_COUNT(others); e++) {
        const char *way_of =
            e < WEFT_COUNT(exchanges) ? exchanges[e] : others[e - WEFT_COUNT(exchanges)];
        weft_played p = played(SMALL "batch=4 ranks=4", way_of, file, (way){.elements = 999});
        assert_true(near(p.seconds, 0.1, 1e-9) && near(p.low, 0.1, 1e-9) &&
                    near(p.high, 0.1, 1e-9));
        assert_true(p.link == 0 && p.worked == 0 && p.server == 0);
    }
    remove_folder(root);
}

/* The link of one server carries the update and the parameters of each learner in a step. Where
 * learners wait for each other, the last one to get parameters is also the last to send. */
static void test_server_link(void **state)
{
    (void)state;
    char *root = temporary_folder();
    const double bandwidth = 1e7; /* replies come before a learner asks again */
    const char *file = cluster_file(
        root, "cluster.yaml", "step: 1e-6\nbandwidth: 1e7\nlatency: 0\nmachines: [{count: 8}]\n");
    for (int learners = 2; learners <= 8; learners += 3) {
        char words[200];
        (void)snprintf(words, sizeof(words), SMALL "batch=4 ranks=%d", learners);
        weft_played a = played(words, "exchange=server:policy=async", file, (way){.elements = 0});
        double one = a.bytes / 2 / learners; /* of a learner, there and back */
        assert_true(near(a.seconds, learners * one / bandwidth, 0.01) && a.link > 0.99);
        assert_true(near(a.staleness, learners - 1, 0.1));
        weft_played b = played(words, "exchange=server:policy=bsp", file, (way){.elements = 0});
        print_message("%d: %g %g s, %g %g bytes\n", learners, a.seconds, b.seconds, a.bytes,
                      b.bytes);
        assert_true(near(b.bytes, a.bytes, 2e-2));
        assert_true(near(b.seconds, (learners + 1) * one / bandwidth, 0.01) && b.staleness == 0);
    }
    remove_folder(root);
}

/* Learners that meet every k steps send a k-th of the bytes in a step, also if one meeting ends the
 * measured steps. */
static void test_rare_meetings(void **state)
{
    (void)state;
    char *root = temporary_folder();
    const char *file = cluster_file(
        root, "cluster.yaml", "step: 1\nbandwidth: 1e9\nlatency: 0\nmachines: [{count: 3}]\n");
    double meeting = 0;
    for (int every = 1; every <= 128; every = 2 * every + 1) {
        char more[60];
        (void)snprintf(more, sizeof(more), "exchange=easgd:every=%d", every);
        weft_played p = played(SMALL "batch=4 ranks=3", more, file, (way){.elements = 0});
        if (every == 1) meeting = p.bytes;
        if (!near(p.bytes * every, meeting, 0.02))
            fail_msg("%s: %g bytes in a meeting, not %g", more, p.bytes * every, meeting);
    }
    remove_folder(root);
}

/* Learners of one machine share its link, and do not use it for what stays there. The server is on
 * the machine of the first learner. */
static void test_machines_share_links(void **state)
{
    (void)state;
    char *root = temporary_folder();
    static const int apart[] = {0, 1, 2, 3}, pairs[] = {0, 0, 1, 1}, one[] = {0, 0, 0, 0};
    const char *file = cluster_file(
        root, "cluster.yaml", "step: 1e-6\nbandwidth: 1e7\nlatency: 0\nmachines: [{count: 4}]\n");
    static const char words[] = SMALL "batch=4 ranks=4", bsp[] = "exchange=server:policy=bsp";
    weft_played all = played(words, bsp, file, (way){.elements = 0});
    weft_played four = played(words, bsp, file, (way){.machine = apart});
    weft_played two = played(words, bsp, file, (way){.machine = pairs});
    weft_played none = played(words, bsp, file, (way){.machine = one});
    print_message("%g s apart from the server, %g with it, %g on two machines\n", all.seconds,
                  four.seconds, two.seconds);
    /* The learner beside the server is fast, and the run ends with the others. */
    static const char async[] = "exchange=server:policy=async";
    double alone = played(words, async, file, (way){.elements = 0}).seconds / 4;
    weft_played rest = played(words, async, file, (way){.machine = apart});
    assert_true(near(rest.seconds, 3 * alone, 0.02));
    double of_one = all.seconds / (4 + 1);
    assert_true(near(four.seconds, (3 + 1) * of_one, 0.02));
    assert_true(near(two.seconds, (2 + 1) * of_one, 0.02));
    assert_true(near(four.bytes, all.bytes * 3 / 4, 0.02) && near(two.bytes, all.bytes / 2, 0.02));
    assert_true(none.bytes == 0 && none.link == 0 && near(none.seconds, 1e-6, 0.01));
    remove_folder(root);
}

/* A peer sends an update to each neighbour in a step, over a link that carries twice as much. */
static void test_gossip_link(void **state)
{
    (void)state;
    char *root = temporary_folder(), text[200];
    static const char words[] = SMALL "batch=4 ranks=2";
    const char *free_links = cluster_file(
        root, "free.yaml", "step: 0.1\nbandwidth: 0\nlatency: 0\nmachines: [{count: 2}]\n");
    double one = played(words, "exchange=gossip", free_links, (way){.elements = 0}).bytes / 2;
    (void)snprintf(text, sizeof(text),
                   "step: 0.1\nbandwidth: %.17g\nlatency: 0\nmachines: [{count: 2}]\n", one / 0.05);
    const char *file = cluster_file(root, "cluster.yaml", text);
    weft_played p = played(words, "exchange=gossip", file, (way){.elements = 0});
    assert_true(near(p.seconds, 0.1, 1e-9) && near(p.link, 0.5, 0.02) &&
                near(p.bytes, 2 * one, 0.01));
    remove_folder(root);
}

/* Work of handlers takes their time: a server that takes longer for updates than learners for steps
 * sets the pace, and what a learner encodes makes its step longer. */
static void test_work(void **state)
{
    (void)state;
    char *root = temporary_folder();
    const char *file = cluster_file(
        root, "cluster.yaml", "step: 0.01\nbandwidth: 0\nlatency: 0\nmachines: [{count: 4}]\n");
    static const char words[] = SMALL "batch=4 ranks=4", async[] = "exchange=server:policy=async";
    weft_played slow = played(words, async, file, (way){.decode = 0.02});
    print_message("%g s, server %g\n", slow.seconds, slow.server);
    assert_true(slow.seconds >= 4 * 0.02 * 0.999 && slow.seconds <= 0.01 + 4 * 0.02 * 1.001);
    assert_true(near(slow.server, 4 * 0.02 / slow.seconds, 0.01));
    weft_played quick = played(words, async, file, (way){.decode = 0.001});
    print_message("server %g of the time\n", quick.server);
    assert_true(near(quick.server, 4 * 0.001 / quick.seconds, 0.01));
    weft_played encodes = played(words, async, file, (way){.encode = 0.03});
    assert_true(near(encodes.seconds, 0.01 + 0.03, 0.01) && near(encodes.worked, 0.03, 0.01));
    weft_played peers = played(words, "exchange=gossip", file, (way){.encode = 0.03});
    assert_true(near(peers.seconds, 0.01 + 0.03, 0.01));
    remove_folder(root);
}

/* A message between processes of one machine is work of both: none if learners are threads, of all
 * but the learner whose process has the server, and of all if the server is a process. */
static void test_processes(void **state)
{
    (void)state;
    char *root = temporary_folder();
    static const int one[] = {0, 0, 0, 0};
    const char *file = cluster_file(
        root, "cluster.yaml", "step: 1e-6\nbandwidth: 0\nlatency: 0\nmachines: [{count: 4}]\n");
    static const char words[] = SMALL "batch=4 ranks=4 exchange=server:policy=async ";
    static const char *const engines[] = {"engine=threads", "engine=mpi", "engine=processes"};
    static const double learners[] = {0, 3, 4};
    for (size_t i = 0; i < WEFT_COUNT(engines); i++) {
        const way w = {.machine = one, .processes = i > 0, .message = 0.01};
        weft_played p = played(words, engines[i], file, w);
        print_message("%s: %g s\n", engines[i], p.seconds);
        /* The server receives and sends for each of these in each step. */
        assert_true(near(p.seconds, WEFT_MAX(2 * 0.01 * learners[i], 1e-6), 0.01));
    }
    remove_folder(root);
}

/* A run ends with its slowest learner, whether others wait for it or not. */
static void test_speeds(void **state)
{
    (void)state;
    char *root = temporary_folder();
    const char *file =
        cluster_file(root, "cluster.yaml",
                     "step: 0.1\nbandwidth: 0\nlatency: 0\nmachines: [{count: 3}, {speed: 0.1}]\n");
    static const char words[] = SMALL "batch=4 ranks=4";
    weft_played bsp = played(words, "exchange=server:policy=bsp", file, (way){.elements = 999});
    weft_played async = played(words, "exchange=server:policy=async", file, (way){.elements = 999});
    weft_played peers = played(words, "exchange=gossip", file, (way){.elements = 999});
    assert_true(near(bsp.seconds, 1, 1e-6));
    assert_true(near(async.seconds, 1, 1e-6));
    assert_true(near(peers.seconds, 1, 1e-6));
    remove_folder(root);
}

/* The pace of some steps is that of a run of many, on machines of unlike speeds, and over lines
 * that take as long as many steps. */
static void test_long_runs(void **state)
{
    (void)state;
    static const char *const rare[] = {"exchange=easgd:every=16",
                                       "exchange=server:policy=async,push=8,fetch=16"};
    static const char *const clusters[] = {
        "step: 0.1\nbandwidth: 5e6\nlatency: 0.001\nmachines: [{count: 2}, {speed: 0.4}]\n",
        "step: 1e-4\nbandwidth: 1e9\nlatency: 0.02\nmachines: [{count: 3}]\n"};
    enum { STEPS = 800 };
    char *root = temporary_folder(), words[100];
    (void)snprintf(words, sizeof(words), SMALL "batch=4 ranks=3 steps=%d", STEPS);
    for (size_t c = 0; c < WEFT_COUNT(clusters); c++)
        for (size_t e = 0; e < WEFT_COUNT(exchanges) + WEFT_COUNT(rare); e++) {
            if (paths_alone() && (e + c) % 2) continue;
            const char *way_of =
                e < WEFT_COUNT(exchanges) ? exchanges[e] : rare[e - WEFT_COUNT(exchanges)];
            const char *file = cluster_file(root, "cluster.yaml", clusters[c]);
            weft_played all = played(words, way_of, file, (way){.elements = 999, .steps = STEPS});
            weft_played few = played(words, way_of, file, (way){.elements = 999});
            print_message("%s on cluster %zu: %g s, in %d steps %g\n", way_of, c, few.seconds,
                          STEPS, all.ended / STEPS);
            assert_true(near(few.seconds, all.ended / STEPS, 0.1));
        }
    remove_folder(root);
}

/* A server sends each update to the replica of its range, too. */
static void test_replicas(void **state)
{
    (void)state;
    char *root = temporary_folder();
    const char *file = cluster_file(
        root, "cluster.yaml", "step: 0.1\nbandwidth: 1e8\nlatency: 0\nmachines: [{count: 4}]\n");
    static const char words[] = SMALL "batch=4 ranks=4";
    weft_played one =
        played(words, "exchange=server:policy=async servers=2", file, (way){.elements = 0});
    weft_played two = played(words, "exchange=server:policy=async servers=2 replicas=1", file,
                             (way){.elements = 0});
    print_message("%g bytes, %g with replicas\n", one.bytes, two.bytes);
    assert_true(near(two.bytes, 1.5 * one.bytes, 0.02));
    remove_folder(root);
}

/* Learners of several ranks exchange their parameters once, whatever their mesh. */
static void test_meshes(void **state)
{
    (void)state;
    char *root = temporary_folder();
    const char *file = cluster_file(
        root, "cluster.yaml", "step: 0.1\nbandwidth: 5e6\nlatency: 0\nmachines: [{count: 3}]\n");
    static const char *const meshes[] = {"ranks=6 mesh=data=2", "ranks=6 mesh=tensor=2",
                                         "ranks=6 mesh=pipeline=2 microbatches=2"};
    static const char *const ways[] = {"exchange=server:policy=async", "exchange=gossip"};
    for (size_t w = 0; w < WEFT_COUNT(ways); w++) {
        weft_played one = played(SMALL "batch=4 ranks=3", ways[w], file, (way){.elements = 0});
        for (size_t m = 0; m < WEFT_COUNT(meshes); m++) {
            char words[200];
            (void)snprintf(words, sizeof(words), SMALL "batch=4 %s", meshes[m]);
            weft_played p = played(words, ways[w], file, (way){.elements = 0});
            print_message("%s %s: %g s, %g bytes, at %g\n", ways[w], meshes[m], p.seconds, p.bytes,
                          p.scale);
            /* Shards have padding of their own. */
            assert_true(near(p.bytes, one.bytes, 0.1) && near(p.seconds, one.seconds, 0.1));
        }
    }
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_the_simulation),
        cmocka_unit_test(test_scales_agree),
        cmocka_unit_test(test_free_links),
        cmocka_unit_test(test_server_link),
        cmocka_unit_test(test_rare_meetings),
        cmocka_unit_test(test_machines_share_links),
        cmocka_unit_test(test_gossip_link),
        cmocka_unit_test(test_work),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_speeds),
        cmocka_unit_test(test_long_runs),
        cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_meshes),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
