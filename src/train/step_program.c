/* Implements step programs. */
#include "train/step_program.h"

#include "train/train.h"

weft_status weft_step_program_check(const weft_checkpoint *checkpoint)
{
    const weft_data_stats *s = &checkpoint->stats;
    if (s->inputs == 1 && s->input[0].values > 0 && s->positions > 0 &&
        s->classes == s->input[0].values)
        return WEFT_OK;
    return weft_fail(WEFT_ERR_UNSUPPORTED,
                     "%s: its model does not predict the next token; train one on data text:FILE "
                     "or tokens:FILE, such as --model gpt",
                     checkpoint->path);
}

static weft_status build_graph(weft_context *context, const weft_checkpoint *checkpoint,
                               const weft_train_options *run, weft_step_program *p)
{
    weft_model_options model;
    weft_model_values values;
    weft_dtype real = WEFT_F32;
    weft_model_options_init(&model);
    model.model = run->task.model;
    weft_model_options_fit(&model, &checkpoint->stats);
    model.batch = p->rows;
    model.seed = (uint64_t)run->task.seed;
    model.training = false;
    (void)weft_dtype_parse(run->task.dtype, &real);
    WEFT_TRY(weft_graph_create(context, real, &p->graph));
    WEFT_TRY(weft_build_model_steps(p->graph, &model, &checkpoint->model, &p->steps, &values));
    p->x = weft_model_value(&values, WEFT_PORT_FEATURES);
    p->logits = weft_model_value(&values, WEFT_PORT_LOGITS);
    return WEFT_OK;
}

static weft_status build_instance(weft_store *store, weft_step_program *p)
{
    weft_value *fetch;
    size_t count = p->steps.count;
    WEFT_TRY(WEFT_NEW(&fetch, count + 1));
    for (size_t i = 0; i < count; i++) fetch[i] = p->steps.states[i].out;
    fetch[count] = p->logits;
    weft_status status = weft_instance_build(store, p->graph, fetch, (int)count + 1, &p->instance);
    free(fetch);
    return status;
}

weft_status weft_step_program_build(weft_context *context, const weft_checkpoint *checkpoint,
                                    const weft_train_options *run, weft_store *store, int64_t rows,
                                    weft_step_program *out)
{
    WEFT_TRY(weft_step_program_check(checkpoint));
    out->rows = rows;
    out->window = checkpoint->stats.input[0].shape.dim[0];
    out->tokens = checkpoint->stats.classes;
    WEFT_TRY(build_graph(context, checkpoint, run, out));
    return build_instance(store, out);
}

void weft_step_program_free(weft_step_program *program)
{
    weft_instance_destroy(&program->instance);
    weft_graph_destroy(&program->graph);
    weft_model_steps_free(&program->steps);
}

int64_t weft_step_program_needed(const weft_step_program *program, int64_t count)
{
    int64_t window = program->window, each = window - window / 2; /* that are left out at a time */
    if (!program->steps.limited || count <= window) return count;
    return count - (count - window + each - 1) / each * each;
}

/* --- a step --- */

/* Writes an integer to a row of an input of the graph, unless no layer reads the input. */
static void put(const weft_step_program *p, weft_value input, int64_t row, int64_t value)
{
    int32_t *to = weft_instance_input(p->instance, input);
    if (to) to[row] = (int32_t)value;
}

void weft_step_program_set(const weft_step_program *program, int64_t row, int32_t token,
                           int64_t position)
{
    put(program, program->x, row, token);
    put(program, program->steps.position, row, position);
    put(program, program->steps.positions, row, position);
    put(program, program->steps.lengths, row, position + 1);
}

weft_status weft_step_program_run(const weft_step_program *program)
{
    return weft_instance_run(program->instance, WEFT_PHASE_MICRO);
}

/* The bytes of a row of a value. */
static size_t row_bytes(const weft_step_program *p, weft_value value)
{
    weft_type type = weft_graph_value_type(p->graph, value);
    return weft_type_bytes(&type) / (size_t)p->rows;
}

void weft_step_program_carry(const weft_step_program *program, int64_t row, int64_t position)
{
    for (size_t i = 0; i < program->steps.count; i++) {
        const weft_step_state *s = &program->steps.states[i];
        char *to = weft_instance_input(program->instance, s->in);
        const char *from = weft_instance_output(program->instance, s->out);
        size_t bytes = row_bytes(program, s->out);
        if (!to) continue;
        to += (size_t)row * row_bytes(program, s->in);
        memcpy(to + (s->row ? (size_t)position * bytes : 0), from + (size_t)row * bytes, bytes);
    }
}

void weft_step_program_logits(const weft_step_program *program, int64_t row, double *to)
{
    weft_type type = weft_graph_value_type(program->graph, program->logits);
    const void *logits = weft_instance_output(program->instance, program->logits);
    for (int i = 0; i < program->tokens; i++)
        to[i] = weft_number_get(type.dtype, logits, row * program->tokens + i);
}

/* --- states --- */

/* Calls fn with the memory of each state of a row, and where it is in a copy of all of them.
 * Returns the bytes of the copy. */
static size_t each_state(const weft_step_program *p, int64_t row,
                         void (*fn)(char *state, char *copy, size_t bytes), char *copy)
{
    size_t at = 0;
    for (size_t i = 0; i < p->steps.count; i++) {
        size_t bytes = row_bytes(p, p->steps.states[i].in);
        char *state = weft_instance_input(p->instance, p->steps.states[i].in);
        if (!state) continue;
        if (fn) fn(state + (size_t)row * bytes, copy ? copy + at : NULL, bytes);
        at += bytes;
    }
    return at;
}

static void clear(char *state, char *copy, size_t bytes)
{
    (void)copy;
    memset(state, 0, bytes);
}

static void save(char *state, char *copy, size_t bytes)
{
    memcpy(copy, state, bytes);
}

static void load(char *state, char *copy, size_t bytes)
{
    memcpy(state, copy, bytes);
}

size_t weft_step_program_state_bytes(const weft_step_program *program)
{
    return each_state(program, 0, NULL, NULL);
}

void weft_step_program_clear(const weft_step_program *program, int64_t row)
{
    (void)each_state(program, row, clear, NULL);
}

void weft_step_program_save(const weft_step_program *program, int64_t row, void *to)
{
    (void)each_state(program, row, save, to);
}

void weft_step_program_load(const weft_step_program *program, int64_t row, const void *from)
{
    (void)each_state(program, row, load, (char *)(uintptr_t)from);
}
