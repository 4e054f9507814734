/* Compares the predicted arrays of a run with those that it allocates: the test replaces the
 * functions by which the library takes and frees aligned memory, and counts the bytes that are
 * there at the same time. Over meshes, stages of ZeRO, number types, and all exchanges. */
#include <malloc.h>
#include <stdatomic.h>

#include "base/base.h"
#include "comm/comm.h"
#include "trainer_runs.h"
#include "weft/estimate.h"

void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *memory);

/* --- the count --- */

/* Arrays by their address. A run has a few thousand. */
enum { PLACES = 1 << 16 };
static struct place {
    void *memory;
    size_t bytes;
} places[PLACES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t now, peak;
static atomic_int counted; /* arrays in the table */

static size_t slot_of(const void *memory)
{
    return ((uintptr_t)memory >> 6) * 2654435761U % PLACES;
}

static void add(void *memory, size_t bytes)
{
    pthread_mutex_lock(&lock);
    size_t at = slot_of(memory);
    while (places[at].memory) at = (at + 1) % PLACES;
    places[at] = (struct place){memory, bytes};
    now += bytes;
    peak = now > peak ? now : peak;
    atomic_fetch_add(&counted, 1);
    pthread_mutex_unlock(&lock);
}

/* Takes an array out of the table, and moves those behind it to where they are found. */
static void take(void *memory)
{
    pthread_mutex_lock(&lock);
    size_t at = slot_of(memory);
    while (places[at].memory && places[at].memory != memory) at = (at + 1) % PLACES;
    if (places[at].memory) {
        now -= places[at].bytes;
        atomic_fetch_sub(&counted, 1);
        places[at].memory = NULL;
        for (size_t i = (at + 1) % PLACES; places[i].memory; i = (i + 1) % PLACES) {
            struct place moved = places[i];
            places[i].memory = NULL;
            size_t to = slot_of(moved.memory);
            while (places[to].memory) to = (to + 1) % PLACES;
            places[to] = moved;
        }
    }
    pthread_mutex_unlock(&lock);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    void *memory = __libc_memalign(alignment, bytes);
    if (!memory) return 12; /* ENOMEM */
    add(memory, bytes);
    *out = memory;
    return 0;
}

void free(void *memory)
{
    if (memory && ((uintptr_t)memory & 63) == 0 && atomic_load(&counted) > 0) take(memory);
    __libc_free(memory);
}

/* --- runs --- */

static void set_words(weft_train_options *o, const char *words)
{
    char copy[2048], *save = NULL;
    const weft_option *table = weft_train_table(context);
    assert_ok(weft_train_options_init(context, o));
    (void)snprintf(copy, sizeof(copy), "%s", words);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(w, '=');
        *equals = '\0';
        assert_ok(weft_options_set(table, o, w, equals + 1));
    }
}

/* The predicted bytes of all arrays of the run, whose ranks are threads of this process: all but
 * what is no array. */
static double predict(const char *words)
{
    weft_train_options o = {0};
    weft_memory_estimate m;
    set_words(&o, words);
    assert_ok(weft_estimate_memory(context, &o, NULL, &m));
    double bytes = m.process - m.shared;
    int copies = (int)o.job.ranks / m.ranks;
    for (int r = 0; r < m.ranks; r++)
        bytes -= copies * m.part[r * WEFT_MEMORY_PARTS + WEFT_MEMORY_PROGRAMS];
    weft_memory_estimate_free(&m);
    weft_options_free(weft_train_table(context), &o);
    return bytes;
}

/* The most bytes of arrays that the run has at the same time. */
static double measure(const char *words)
{
    log_of_run l;
    size_t before = now;
    peak = now;
    assert_ok(train(words, NULL, 0, &l));
    return (double)(peak - before);
}

/* Operations of communicators have room for sums, at most some kilobytes each, which no plan has.
 */
static const double rooms = 1 << 20;

static void compare(const char *words, double tolerance)
{
    double said = predict(words), was = measure(words);
    if (said < was * (1 - tolerance) - rooms || said > was * (1 + tolerance) + rooms)
        fail_msg("%s: %.0f bytes of arrays predicted, %.0f allocated", words, said, was);
}

static const char task[] = "model=mlp data=glyphs:size=24,train=120,test=30 "
                           "batch=24 threads=1 steps=3 ";

static void test_meshes(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "ranks=1",
        "ranks=1 microbatches=3",
        "ranks=1 recompute=true",
        "ranks=1 dtype=bf16",
        "ranks=1 optimizer=adam",
        "ranks=1 ema=0.9",
        "ranks=3 mesh=data=3",
        "ranks=2 zero=1",
        "ranks=2 zero=2",
        "ranks=3 zero=3",
        "ranks=2 mesh=tensor=2",
        "ranks=4 mesh=data=2,tensor=2 zero=1",
        "ranks=2 mesh=pipeline=2 microbatches=3",
        "ranks=2 mesh=data=2 sum-dtype=bf16",
    };
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        char words[1024];
        (void)snprintf(words, sizeof(words), "%s%s", task, ways[i]);
        compare(words, 0.001);
    }
}

static void test_images(void **state)
{
    (void)state;
    static const char *const ways[] = {"ranks=1", "ranks=2 mesh=domain=2", "ranks=2 zero=3",
                                       "ranks=1 validation=0.2"};
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        char words[1024];
        (void)snprintf(words, sizeof(words),
                       "model=lenet data=glyphs:size=28,train=120,test=30 batch=24 threads=1 "
                       "steps=3 %s",
                       ways[i]);
        compare(words, 0.001);
    }
}

/* Each exchange says what it takes; messages under way are there or not. */
static void test_exchanges(void **state)
{
    (void)state;
    const char *name;
    for (int i = 0; (name = weft_context_name(context, WEFT_KIND_EXCHANGE, i)); i++)
        for (int ranks = 2; ranks <= 3; ranks++) {
            char words[1024];
            (void)snprintf(words, sizeof(words), "%sranks=%d exchange=%s mesh=data=1", task, ranks,
                           name);
            compare(words, 0.15);
            (void)snprintf(words, sizeof(words), "%sranks=%d exchange=%s ema=0.9", task, ranks,
                           name);
            if (ranks == 2) compare(words, 0.15);
        }
}

/* Gradients that do not lie beside each other are summed in copies, of which there are two, and MPI
 * takes room for the half that a rank adds up, in chunks. */
static void test_copied_sums(void **state)
{
    (void)state;
    weft_train_options o = {0};
    weft_memory_estimate m;
    if (weft_mpi_built() != WEFT_OK) skip();
    set_words(&o, "model=resnet:depth=18,width=8 data=glyphs:size=16,train=120,test=30 batch=24 "
                  "ranks=2 mesh=data=2 engine=mpi");
    assert_ok(weft_estimate_memory(context, &o, NULL, &m));
    assert_true(m.part[WEFT_MEMORY_STAGING] > 2.25 * m.part[WEFT_MEMORY_GRADIENTS]);
    weft_memory_estimate_free(&m);
    weft_options_free(weft_train_table(context), &o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_meshes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_images, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exchanges, setup, teardown),
        cmocka_unit_test_setup_teardown(test_copied_sums, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
