/* Tests a service whose model versions come and go while other threads send requests. */
#include <math.h>

#include "serve/generation.h"
#include "service_fixture.h"

enum { THREADS = 4, EACH = 120 };

typedef struct asker {
    weft_service *service;
    const told *t;
    uint64_t seed;
    int wrong, failed;
} asker;

static void *ask_on(void *user)
{
    asker *a = user;
    weft_random r;
    weft_random_start(&r, a->seed, 0);
    for (int i = 0; i < EACH; i++) {
        double said[16];
        int k = (int)(weft_random_u32(&r) % SAMPLES);
        weft_inference_request q = asked_question(1, a->t->x[k], said);
        weft_servable *served = weft_service_hold(a->service, "it", 0);
        if (!served || weft_servable_predict(served, &q, NULL) != WEFT_OK) {
            a->failed++;
        } else {
            for (int j = 0; j < a->t->outputs; j++)
                a->wrong += fabs(said[j] - a->t->said[k][j]) > 1e-6;
        }
        weft_servable_release(&served);
    }
    return NULL;
}

/* New versions are loaded while threads send requests: none is refused, all predictions are
 * right. */
static void test_versions(void **state)
{
    (void)state;
    static told t;
    char path[512], bad[600];
    asker askers[THREADS];
    pthread_t threads[THREADS];
    weft_service *service = asked_serve_plainly(2, 8);
    weft_service_item item;
    asked_predict("mlp", SAMPLES, &t);
    asked_features(GLYPHS, "none", &t);
    asked_path(path, sizeof(path), "mlp");
    assert_ok(weft_service_load(service, "it", path));
    for (int i = 0; i < THREADS; i++) {
        askers[i] = (asker){.service = service, .t = &t, .seed = (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i], NULL, ask_on, &askers[i]), 0);
    }
    (void)snprintf(bad, sizeof(bad), "%s/nothing", asked_folder);
    for (int version = 2; version <= 4; version++) {
        assert_ok(weft_service_load(service, "it", NULL));
        assert_true(weft_service_load(service, "other", bad) != WEFT_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(askers[i].failed + askers[i].wrong, 0);
    }
    assert_true(weft_service_entry(service, 0, &item));
    assert_true(item.ready && item.version == 4);
    assert_true(weft_service_entry(service, 1, &item));
    assert_true(!item.ready && strstr(item.reason, "nothing"));
    assert_null(weft_service_hold(service, "it", 3));
    assert_ok(weft_service_unload(service, "it"));
    assert_null(weft_service_hold(service, "it", 0));
    assert_refused(weft_service_unload(service, "it"), WEFT_ERR_ARGUMENT, "no model named 'it'");
    assert_refused(weft_service_load(service, "a/b", path), WEFT_ERR_ARGUMENT,
                   "no name of a model");
    assert_refused(weft_service_load(service, "new", NULL), WEFT_ERR_ARGUMENT,
                   "no model is named 'new'");
    weft_service_destroy(&service);
}

static weft_status fail_in_last(void *user, int rank)
{
    (void)user;
    return rank == 1 ? weft_fail(WEFT_ERR_MEMORY, "no memory in rank 1") : WEFT_OK;
}

/* A rank of a mesh that fails in one batch does not make later batches fail, on any instance. */
static void test_mesh_recovers(void **state)
{
    (void)state;
    static told t;
    char path[512];
    double said[MOST][16];
    weft_service_options o;
    weft_service_options_init(&o);
    o.mesh = "tensor=2";
    o.instances = 2;
    o.limit = 4;
    weft_service *service = asked_serve(&o);
    asked_predict("mlp", SAMPLES, &t);
    asked_features(GLYPHS, "none", &t);
    asked_path(path, sizeof(path), "mlp");
    assert_ok(weft_service_load(service, "it", path));
    weft_servable *served = weft_service_hold(service, "it", 0);
    assert_non_null(served);
    for (int round = 0; round < 3; round++) {
        for (int e = 0; e < 2; e++)
            assert_refused(weft_rank_team_run(served->teams[e], fail_in_last, NULL),
                           WEFT_ERR_MEMORY, "no memory in rank 1");
        for (int k = 0; k < SAMPLES; k++) {
            weft_inference_request q = asked_question(1 + k % 3, t.x[k % 20], said[0]);
            assert_ok(weft_servable_predict(served, &q, NULL));
            for (int j = 0; j < t.outputs; j++)
                assert_true(fabs(said[0][j] - t.said[k % 20][j]) <= 1e-6);
        }
    }
    weft_servable_release(&served);
    weft_service_destroy(&service);
}

/* A text that a mesh generates. After `fail_at` tokens a rank fails between two positions. */
typedef struct written {
    weft_rank_team *team;
    char text[400];
    size_t size;
    int tokens, fail_at;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    weft_status status;
} written;

static bool write_token(void *user, const char *text, size_t size)
{
    written *w = user;
    memcpy(w->text + w->size, text, size);
    w->size += size;
    w->tokens += size > 0;
    if (size > 0 && w->tokens == w->fail_at)
        assert_refused(weft_rank_team_run(w->team, fail_in_last, NULL), WEFT_ERR_MEMORY,
                       "no memory in rank 1");
    return true;
}

static void end_text(void *user, const weft_request_result *result)
{
    written *w = user;
    pthread_mutex_lock(&w->lock);
    w->done = true;
    w->status = result->status;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void generate(weft_servable *served, written *w)
{
    weft_generation_request q;
    weft_generation_request_init(&q);
    q.prompt = "the weaver";
    q.tokens = 60;
    q.user = w;
    q.token = write_token;
    q.done = end_text;
    w->team = served->generation->teams[0];
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    assert_ok(weft_servable_generate(served, &q));
    pthread_mutex_lock(&w->lock);
    while (!w->done) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    assert_int_equal(w->status, WEFT_OK);
    assert_int_equal(w->tokens, 60);
}

/* A rank that fails within a text, once or several times, changes no token of it. */
static void test_generation_recovers(void **state)
{
    (void)state;
    static const char *const meshes[] = {"tensor=2", "pipeline=2", "data=2"};
    char path[512];
    asked_path(path, sizeof(path), "text");
    for (size_t m = 0; m < WEFT_COUNT(meshes); m++) {
        static written whole, broken;
        weft_service_options o;
        weft_service_options_init(&o);
        o.mesh = meshes[m];
        o.instances = 1;
        o.limit = 4;
        weft_service *service = asked_serve(&o);
        assert_ok(weft_service_load(service, "it", path));
        weft_servable *served = weft_service_hold(service, "it", 0);
        assert_non_null(served);
        whole = (written){.fail_at = 0};
        generate(served, &whole);
        for (int at = 1; at < 60; at += 19) {
            broken = (written){.fail_at = at};
            generate(served, &broken);
            assert_int_equal(broken.size, whole.size);
            assert_memory_equal(broken.text, whole.text, whole.size);
        }
        weft_servable_release(&served);
        weft_service_destroy(&service);
    }
}

/* Requests of two models whose answers are counted; the first answer holds up the only instance
 * until all requests wait. */
typedef struct race {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
    int answered[2], light_when_heavy_ended;
} race;

typedef struct runner {
    race *race;
    int model;
    double said[16];
    weft_inference_request request;
} runner;

static void finish_one(void *user, const weft_request_result *result)
{
    runner *r = user;
    race *c = r->race;
    assert_int_equal(result->status, WEFT_OK);
    pthread_mutex_lock(&c->lock);
    while (!c->open) pthread_cond_wait(&c->changed, &c->lock);
    c->answered[r->model]++;
    if (r->model == 1 && c->answered[1] == THREADS * EACH)
        c->light_when_heavy_ended = c->answered[0];
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

/* While both wait, the model with a thousand times the share has nearly all batches. */
static void test_shares(void **state)
{
    (void)state;
    enum { ALL = THREADS * EACH };
    static told t;
    static runner runners[2][ALL];
    static const char *const names[] = {"light", "heavy"};
    char path[512];
    race c = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    weft_servable *served[2];
    weft_service *service;
    weft_service_options o;
    weft_service_options_init(&o);
    o.policy = "none";
    o.limit = 4;
    o.shares = "heavy=1e3,light";
    assert_refused(weft_service_create(asked_context, &o, &service), WEFT_ERR_ARGUMENT, "a=3,b");
    o.shares = "heavy=1,heavy=2";
    assert_refused(weft_service_create(asked_context, &o, &service), WEFT_ERR_ARGUMENT, "twice");
    o.shares = "heavy=0";
    assert_refused(weft_service_create(asked_context, &o, &service), WEFT_ERR_ARGUMENT, "above 0");
    o.shares = "other=5,heavy=1e3";
    service = asked_serve(&o);
    asked_features(GLYPHS, "none", &t);
    asked_path(path, sizeof(path), "mlp");
    for (int m = 0; m < 2; m++) {
        assert_ok(weft_service_load(service, names[m], path));
        served[m] = weft_service_hold(service, names[m], 0);
    }
    for (int i = 0; i < ALL; i++)
        for (int m = 0; m < 2; m++) {
            runner *r = &runners[m][i];
            *r = (runner){.race = &c, .model = m};
            r->request = asked_question(1, t.x[i % SAMPLES], r->said);
            r->request.user = r;
            r->request.done = finish_one;
            assert_ok(weft_servable_submit(served[m], &r->request, NULL));
        }
    pthread_mutex_lock(&c.lock);
    c.open = true;
    pthread_cond_broadcast(&c.changed);
    while (c.answered[0] + c.answered[1] < 2 * ALL) pthread_cond_wait(&c.changed, &c.lock);
    pthread_mutex_unlock(&c.lock);
    assert_true(c.light_when_heavy_ended < ALL / 4);
    for (int m = 0; m < 2; m++) weft_servable_release(&served[m]);
    weft_service_destroy(&service);
}

static void train_text(void)
{
    char text[2000] = "", path[512], data[600];
    while (strlen(text) < 1500) strcat(text, "the weaver weaves the weft through the warp\n");
    asked_write_text("text.txt", text, path, sizeof(path));
    (void)snprintf(data, sizeof(data), "text:%s,unit=char,context=16,stride=4", path);
    asked_train("text", "gpt:layers=2,heads=2,width=8", data, "f64", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions), cmocka_unit_test(test_mesh_recovers),
        cmocka_unit_test(test_generation_recovers), cmocka_unit_test(test_shares)};
    asked_begin();
    asked_train("mlp", "mlp", GLYPHS, "f32", 1);
    train_text();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + asked_end();
}
