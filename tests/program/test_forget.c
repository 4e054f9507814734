/* A device of tests forgets what no value has any more at the end of a phase (weft_device_ops,
 * forget): an instruction that reads a value of a phase that is over makes numbers that are none.
 */
#include "program/program.h"
#include "program_fixture.h"

enum { BATCH = 5 };

static bool overlap(const buffer *a, const buffer *b)
{
    return a->kind == b->kind && a->space == b->space && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* Whether another buffer has memory of b from instruction `from` until `to`. */
static bool is_reused(const weft_program *p, const buffer *b, int from, int to)
{
    bool reused = false;
    for (size_t c = 0; c < p->buffer_count; c++) {
        const buffer *x = &p->buffers[c];
        if (x == b || x->alias >= 0 || x->first < 0 || x->offset == SIZE_MAX) continue;
        reused = reused || (overlap(x, b) && x->first <= to && x->last >= from);
    }
    return reused;
}

/* The last instruction of a phase. */
static int end_of(const weft_program *p, weft_phase phase)
{
    int end = (int)p->code_count - 1;
    while (p->code[end].phase > phase) end--;
    return end;
}

/* A buffer of a phase alone, with as many bytes, which instruction `reader` of a later phase would
 * find as the phase has left it; -1: there is none. */
static int over(const weft_program *p, size_t bytes, weft_phase phase, int reader)
{
    int end = end_of(p, phase);
    for (size_t b = 0; b < p->buffer_count; b++) {
        const buffer *x = &p->buffers[b];
        if (x->kind == BUFFER_ARENA && x->space == SPACE_DEVICE && x->alias < 0 && x->first >= 0 &&
            p->code[x->first].phase == phase && x->last <= end && x->bytes >= bytes && !x->keep &&
            !x->hold && !is_reused(p, x, x->last + 1, reader))
            return (int)b;
    }
    return -1;
}

/* Makes an instruction read a buffer of a phase that is over. */
static bool plant(const weft_program *p, weft_phase phase)
{
    for (int i = end_of(p, phase) + 1; i < (int)p->code_count; i++) {
        instruction *code = &p->code[i];
        for (int j = 0; j < code->in_count; j++) {
            const buffer *in = &p->buffers[buffer_root(p, code->in[j])];
            bool moves = in->kind == BUFFER_ARENA || in->kind == BUFFER_GRADIENT;
            int b = moves && in->space == SPACE_DEVICE ? over(p, in->bytes, phase, i) : -1;
            if (b >= 0) code->in[j] = b;
            if (b >= 0) return true;
        }
    }
    return false;
}

static bool all_finite(const weft_store *s)
{
    bool finite = true;
    for (int i = 0; i < weft_store_count(s); i++) {
        weft_type type = weft_store_type(s, i);
        void *data = malloc(weft_type_bytes(&type));
        assert_ok(weft_store_read(s, i, data));
        finite = finite && weft_all_finite(type.dtype, data, weft_type_bytes(&type));
        free(data);
    }
    return finite;
}

/* phase: of the value that is read too late; UPDATE: none is. False: no instruction could. */
static bool trains(const char *model, weft_phase phase)
{
    weft_context *context;
    weft_store *store;
    weft_instance *x;
    lowered l;
    open_context(&context);
    assert_ok(weft_store_create(context, "distant", 7, &store));
    lower(&l, context, store, model, TRAINING, BATCH);
    bool wrong = phase != WEFT_PHASE_UPDATE, can = !wrong || plant(l.program, phase);
    assert_ok(weft_instance_create(l.program, store, NULL, &x));
    train(&l, x, BATCH, 1, 1);
    if (can) assert_int_equal(all_finite(store), !wrong);
    weft_instance_destroy(&x);
    drop(&l);
    weft_store_destroy(&store);
    weft_context_destroy(&context);
    return can;
}

static void test_read_too_late(void **state)
{
    static const char *const models[] = {"mlp", "lenet", "inception"};
    int planted = 0;
    (void)state;
    for (size_t m = 0; m < WEFT_COUNT(models); m++)
        for (int phase = WEFT_PHASE_FORWARD; phase <= WEFT_PHASE_UPDATE; phase++) {
            bool can = trains(models[m], (weft_phase)phase);
            planted += can && phase != WEFT_PHASE_UPDATE;
        }
    assert_true(planted >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read_too_late)};
    return cmocka_run_group_tests_name("forget", tests, NULL, NULL);
}
