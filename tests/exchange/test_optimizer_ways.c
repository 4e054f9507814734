/* Every optimizer of the registry, with and without multipliers of the learning rate, in every way
 * to make the update: on one rank, over a mesh, by ZeRO, and on servers, whose ranges hold several
 * tensors and parts of tensors. Servers in lock step leave the bits of the ranks that share their
 * batch; a run that stops and goes on those of one that does not. */
#include "exchange_runs.h"
#include "optim/optim.h"
#include "weft/registry.h"

#define ALL                                                                                        \
    "data=glyphs:size=9,train=96,test=8 seed=4 threads=1 dtype=f64 device=reference steps=5 "      \
    "lr=0.01 weight-decay=0.01 "
#define SHARED "ranks=4 batch=16"
#define SERVED "ranks=4 batch=4 exchange=server:policy=bsp "

static const char *const multipliers[] = {"", "lr-multiplier=fc1/*=0.5,fc2/bias=0,fc3/weight=0",
                                          "lr-multiplier=fc*=0.25", "lr-multiplier=*=0"};
enum { MULTIPLIERS = 4 };

/* No layer reads `side`, so that its parameters have no gradient and stay as they are. */
static const char net[] = "layers:\n"
                          "  - {type: dense, units: 13, name: fc1}\n  - {type: relu, name: top}\n"
                          "  - {type: dense, units: 5, name: side}\n"
                          "  - {type: dense, units: 11, name: fc2, from: top}\n  - {type: relu}\n"
                          "  - {type: dense, units: outputs, name: fc3}\n";
static char *root, file[4300];

static void enter(void)
{
    root = temporary_folder();
    write_file(root, "net.yaml", net, strlen(net), file, sizeof(file));
}

/* Trains in another folder each time, and returns it. */
static const char *trained(const char *optimizer, const char *factors, const char *way, bool stops)
{
    static int count;
    char words[5000], name[20];
    (void)snprintf(words, sizeof(words), ALL "model=%s optimizer=%s %s ", file, optimizer, factors);
    (void)snprintf(name, sizeof(name), "%d", count++);
    const char *folder = made(root, name);
    if (stops) {
        run(words, way, folder, 2);
        (void)snprintf(words + strlen(words), sizeof(words) - strlen(words), "resume=true ");
    }
    run(words, way, folder, 0);
    return folder;
}

static bool on_servers(const char *name)
{
    weft_tensor_need need;
    assert_ok(weft_optimizer_check(context, name, &need));
    return need != WEFT_NEEDS_MATRIX;
}

static bool is_zero(const weft_tensor *t)
{
    for (size_t i = 0; i < t->bytes; i++)
        if (t->data[i]) return false;
    return true;
}

/* The moments of servers, MOMENT/PARAMETER, are those of the ranks, PARAMETER/MOMENT. Parameters
 * that stay as they are have none on ranks, and on servers those with which they began. */
static void check_moments(const char *ranks, const char *servers, const char *what)
{
    tensors x, y, all;
    char name[200];
    int same = 0, of_parameters = 0;
    assert_true(open_tensors(ranks, "state", &x) && open_tensors(servers, "exchange", &y) &&
                open_tensors(ranks, "parameters", &all));
    for (size_t i = 0; i < y.all.count; i++) {
        const weft_tensor *have = &y.all.tensors[i];
        const char *parameter = strchr(have->name, '/');
        if (!parameter || !weft_safetensors_find(&all.all, parameter + 1)) continue;
        (void)snprintf(name, sizeof(name), "%s/%.*s", parameter + 1, (int)(parameter - have->name),
                       have->name);
        const weft_tensor *want = weft_safetensors_find(&x.all, name);
        bool right = want ? memcmp(want->data, have->data, want->bytes) == 0 : is_zero(have);
        if (!right) fail_msg("%s: '%s' %s", what, have->name, want ? "differs" : "has changed");
        same += want != NULL;
    }
    for (size_t i = 0; i < x.all.count; i++) /* moments/age is of all parameters */
        of_parameters += strchr(x.all.tensors[i].name, '/') &&
                         strncmp(x.all.tensors[i].name, "moments/", 8) != 0;
    assert_int_equal(same, of_parameters);
    close_tensors(&x);
    close_tensors(&y);
    close_tensors(&all);
}

static void check_ways(const char *name, const char *factors, int round)
{
    const bool fast = getenv("WEFT_FAST") != NULL;
    static const char *const near[] = {"ranks=1 batch=16", SHARED " zero=1", SHARED " zero=2",
                                       SHARED " zero=3",
                                       "ranks=4 batch=16 mesh=data=2,tensor=2 zero=1"};
    static const char *const same[] = {SERVED "servers=1", SERVED "servers=2",
                                       SERVED "servers=3 replicas=1"};
    const char *want = trained(name, factors, SHARED, false);
    for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++)
        if (!fast || i % 2 == (size_t)round % 2)
            assert_same(want, trained(name, factors, near[i], false), "parameters", 1e-10, near[i]);
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]) && on_servers(name); i++)
        if (!fast || i == (size_t)round % 3) {
            char what[200];
            const char *served = trained(name, factors, same[i], round % 2);
            (void)snprintf(what, sizeof(what), "%s %s %s", name, factors, same[i]);
            assert_same(want, served, "parameters", 0, what);
            check_moments(want, served, what);
        }
}

static void test_every_way(void **state)
{
    (void)state;
    const char *name;
    enter();
    for (int o = 0; (name = built_in(WEFT_KIND_OPTIMIZER, o)); o++)
        for (int m = 0; m < MULTIPLIERS; m++)
            if (in_full() || m == (paths_alone() ? o % MULTIPLIERS : 1 + o % 3) ||
                (m == 0 && !paths_alone()))
                check_ways(name, multipliers[m], o + m);
    remove_folder(root);
}

/* A frozen parameter keeps its initial values, and the clipping norm leaves out its gradient. */
static void test_frozen(void **state)
{
    (void)state;
    enter();
    for (int o = 0; built_in(WEFT_KIND_OPTIMIZER, o); o++) {
        const char *name = built_in(WEFT_KIND_OPTIMIZER, o);
        const char *a = trained(name, "lr-multiplier=fc1/*=0,fc2/*=0 clip-norm=0.001",
                                "ranks=1 batch=16", false);
        const char *b = trained(name, "lr-multiplier=*=0", "ranks=1 batch=16", false);
        tensors x, y;
        assert_true(open_tensors(a, "parameters", &x) && open_tensors(b, "parameters", &y));
        for (size_t i = 0; i < x.all.count; i++) {
            const weft_tensor *p = &x.all.tensors[i], *q = weft_safetensors_find(&y.all, p->name);
            bool frozen = strncmp(p->name, "fc3", 3) != 0;
            if ((memcmp(p->data, q->data, p->bytes) == 0) != frozen)
                fail_msg("%s: '%s' %s", name, p->name, frozen ? "has changed" : "has not changed");
        }
        close_tensors(&x);
        close_tensors(&y);
    }
    remove_folder(root);
}

/* The bytes that learners and servers send in a run, from its metrics. */
static double bytes_of(const char *factors, const char *way)
{
    char more[9000], path[4300], line[4096];
    double bytes = -1;
    (void)snprintf(path, sizeof(path), "%s/metrics", root);
    (void)snprintf(more, sizeof(more), "%s metrics=%s", way, path);
    (void)trained("adam", factors, more, false);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f)) {
        const char *at = strstr(line, "\"exchange_bytes\":");
        if (at) (void)sscanf(at, "\"exchange_bytes\":%lf", &bytes);
    }
    if (f) (void)fclose(f);
    assert_true(bytes > 0);
    return bytes;
}

/* The last of three ranges on servers is a part of fc1: if that is frozen, its gradient is not
 * pushed, and its parameters are pulled once. A downlink that is compressed sends them as ever. */
static void test_frozen_bytes(void **state)
{
    (void)state;
    static const char *const more[] = {"", "replicas=1", "compress=topk:ratio=0.5"};
    enter();
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        char way[200];
        (void)snprintf(way, sizeof(way), SERVED "servers=3 %s", more[i]);
        double all = bytes_of("", way), some = bytes_of("lr-multiplier=fc1/*=0", way);
        if (some > 0.8 * all) fail_msg("%s: %g bytes, and %g with a frozen layer", way, all, some);
    }
    remove_folder(root);
}

/* The device cpu keeps the weights of large layers in blocked layouts, and ZeRO cuts ranges of them
 * in that order: the gradient, the state and all values between them must have the same order. */
static void test_blocked_layouts(void **state)
{
    (void)state;
    static const char *const ways[] = {"zero=1", "zero=2", "zero=3",
                                       "ranks=4 mesh=data=2,tensor=2 zero=1"};
    static const char blocked[] =
        "device=cpu dtype=f32 model=mlp weight-decay=0.3 batch=16 ranks=2 ";
    enter();
    for (int o = 0; built_in(WEFT_KIND_OPTIMIZER, o); o++) {
        const char *name = built_in(WEFT_KIND_OPTIMIZER, o);
        const char *want = trained(name, blocked, "", false);
        for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
            if (!in_full() && (i + (size_t)o) % (paths_alone() ? 4 : 2)) continue;
            char label[80];
            (void)snprintf(label, sizeof(label), "%s %s", name, ways[i]);
            assert_same(want, trained(name, blocked, ways[i], false), "parameters", 1e-4, label);
        }
    }
    remove_folder(root);
}

static void refused(const char *words, const char *says)
{
    log_of_run l;
    char all[5000];
    (void)snprintf(all, sizeof(all), ALL "model=%s batch=16 %s", file, words);
    assert_refused(train(all, NULL, 0, &l), WEFT_ERR_ARGUMENT, says);
}

static void test_refusals(void **state)
{
    (void)state;
    enter();
    refused("lr-multiplier=conv*=0.5", "no parameter's name matches 'conv*'");
    refused("lr-multiplier=fc*=1,fc1/*=0.5", "'fc1/*' has no effect");
    refused("lr-multiplier=fc1", "not of the form PATTERN=FACTOR");
    refused("lr-multiplier=fc1=x", "not of the form PATTERN=FACTOR");
    refused("lr-multiplier=fc1/*=-1", "a finite number of at least 0");
    refused("lr-multiplier=fc1/*=inf", "a finite number of at least 0");
    refused("lr-multiplier=fc1/*=1,", "empty piece");
    log_of_run l;
    char words[5000];
    (void)snprintf(words, sizeof(words),
                   ALL "model=%s batch=16 optimizer=muon ranks=2 exchange=server", file);
    assert_refused(train(words, NULL, 0, &l), WEFT_ERR_UNSUPPORTED,
                   "needs the rows and columns of whole matrices");
    refused("optimizer=lars servers=9 ranks=2 exchange=server", "give --servers 8 or fewer");
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way), cmocka_unit_test(test_frozen_bytes),
        cmocka_unit_test(test_frozen),    cmocka_unit_test(test_blocked_layouts),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("optimizer_ways", tests, begin, end);
}
