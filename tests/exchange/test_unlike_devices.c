/* Learners, and ranks of a learner, whose devices lay parameters out differently exchange them with
 * every exchange of the context: cpu has blocked layouts, reference and distant have plain ones,
 * and distant keeps them in memory of its own. */
#include "exchange_runs.h"
#include "weft/registry.h"

#define LENET                                                                                      \
    "model=lenet data=glyphs:size=17,train=48,test=8 seed=4 threads=1 batch=4 optimizer=sgd "      \
    "momentum=0.5 lr=0.05 "

/* The specification with which an exchange is tested; NULL: it always fails. */
static const char *spec_of(const char *name)
{
    if (strcmp(name, "average") == 0) return "average:every=2,outer=nesterov,state=average";
    if (strcmp(name, "server") == 0) return "server:policy=bsp";
    return strcmp(name, "fail") == 0 ? NULL : name;
}

/* Whether runs with an exchange have the same numbers every time. */
static bool repeats(const weft_entry *e)
{
    return ((const weft_exchange_ops *)e->ops)->lockstep || strcmp(e->name, "server") == 0;
}

static const char *const ways[] = {
    "ranks=2 device=cpu,distant",
    "ranks=3 device=reference,cpu,distant:of=cpu",
    "ranks=4 mesh=data=2 device=cpu,reference,distant,cpu",
    "ranks=4 mesh=tensor=2 device=cpu,cpu,distant,reference",
};

/* The part of a way behind its ranks and mesh. */
static const char *devices_in(const char *way)
{
    return strstr(way, "device=");
}

/* A run of unlike devices ends with the weights of the run of like ones up to rounding, and its
 * checkpoint goes on with other devices, also with those of one learner. */
static void test_every_exchange(void **state)
{
    (void)state;
    char *root = temporary_folder(), words[600], like[100];
    const weft_entry *e;
    for (int i = 0; (e = weft_context_entry(context, WEFT_KIND_EXCHANGE, i)); i++)
        for (size_t w = 0; w < WEFT_COUNT(ways) && spec_of(e->name); w++) {
            if (getenv("WEFT_FAST") && w != (size_t)i % WEFT_COUNT(ways)) continue;
            const char *a = made(root, "a"), *b = made(root, "b");
            (void)snprintf(words, sizeof(words), LENET "steps=5 exchange=%s", spec_of(e->name));
            (void)snprintf(like, sizeof(like), "%.*sdevice=reference",
                           (int)(devices_in(ways[w]) - ways[w]), ways[w]);
            run(words, like, a, 0);
            run(words, ways[w], b, 0);
            if (repeats(e)) assert_same(a, b, "parameters", 2e-5, ways[w]);
            (void)snprintf(words + strlen(words), sizeof(words) - strlen(words),
                           " resume=true steps=7");
            run(words, ways[w], a, 0);
            run(words, like, b, 0);
            if (repeats(e)) assert_same(a, b, "parameters", 4e-5, ways[w]);
            remove_folder(strdup(a));
            remove_folder(strdup(b));
        }
    remove_folder(root);
}

/* With a third learner of another layout, a device with the kernels of cpu in memory of its own has
 * the bits of cpu. */
static void test_bits(void **state)
{
    (void)state;
    static const char *const exchanges[] = {"server:policy=bsp", "average:every=2"};
    char *root = temporary_folder(), words[400];
    for (size_t i = 0; i < WEFT_COUNT(exchanges); i++) {
        const char *a = made(root, "a"), *b = made(root, "b");
        (void)snprintf(words, sizeof(words), LENET "steps=4 ranks=3 exchange=%s", exchanges[i]);
        run(words, "device=cpu,cpu,reference", a, 0);
        run(words, "device=cpu,distant:of=cpu,distant", b, 0);
        assert_same(a, b, "parameters", 0, exchanges[i]);
        remove_folder(strdup(a));
        remove_folder(strdup(b));
    }
    remove_folder(root);
}

/* Ranges of tensors (ZeRO) are averaged between unlike devices, too. */
static void test_ranges(void **state)
{
    (void)state;
    char *root = temporary_folder(), words[400];
    for (int zero = 1; zero <= 3; zero++) {
        if (!taken((size_t)zero, 1, 3)) continue;
        const char *a = made(root, "a"), *b = made(root, "b");
        (void)snprintf(words, sizeof(words),
                       LENET "steps=4 ranks=4 mesh=data=2 zero=%d exchange=average:every=2", zero);
        run(words, "device=reference", a, 0);
        run(words, "device=cpu,cpu,distant,reference", b, 0);
        assert_same(a, b, "parameters", 2e-5, words);
        remove_folder(strdup(a));
        remove_folder(strdup(b));
    }
    remove_folder(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_exchange),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
