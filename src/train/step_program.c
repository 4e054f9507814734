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

/* The value that a run leaves: the next one of a state, or behind all states the logits. */
static weft_value left_by_run(const weft_step_program *p, size_t i)
{
    return i < p->steps.count ? p->steps.states[i].out : p->logits;
}

static weft_status build_program(weft_mesh_weights *weights, weft_step_program *p)
{
    weft_value *fetch;
    size_t count = p->steps.count + 1;
    WEFT_TRY(WEFT_NEW(&fetch, count));
    for (size_t i = 0; i < count; i++) fetch[i] = left_by_run(p, i);
    weft_status status =
        weft_mesh_program_create(weights, p->graph, fetch, (int)count, p->team, &p->program);
    free(fetch);
    return status;
}

static weft_status allocate_whole(weft_step_program *p)
{
    size_t count = p->steps.count + 1;
    if (p->program.ranks == 1) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&p->whole, count));
    for (size_t i = 0; i < count; i++) {
        weft_type type = weft_graph_value_type(p->graph, left_by_run(p, i));
        WEFT_TRY(weft_new_bytes(&p->whole[i], weft_type_bytes(&type), 1));
    }
    return WEFT_OK;
}

weft_status weft_step_program_build(weft_context *context, const weft_checkpoint *checkpoint,
                                    const weft_train_options *run, weft_mesh_weights *weights,
                                    weft_rank_team *team, int64_t rows, weft_step_program *out)
{
    WEFT_TRY(weft_step_program_check(checkpoint));
    WEFT_TRY(weft_mesh_weights_rows(weights, &out->rows));
    out->rows = WEFT_MAX(out->rows, rows);
    out->window = checkpoint->stats.input[0].shape.dim[0];
    out->tokens = checkpoint->stats.classes;
    out->team = team;
    WEFT_TRY(build_graph(context, checkpoint, run, out));
    WEFT_TRY(build_program(weights, out));
    WEFT_TRY(allocate_whole(out));
    WEFT_TRY(WEFT_NEW(&out->instances, weights->ranks));
    return weft_mesh_program_instances(&out->program, weights, team, true, out->instances);
}

void weft_step_program_close(const weft_step_program *program)
{
    for (int r = 0; program->instances && r < program->program.ranks; r++)
        weft_instance_destroy(&program->instances[r]);
}

weft_status weft_step_program_reopen(const weft_step_program *program,
                                     const weft_mesh_weights *weights)
{
    return weft_mesh_program_instances(&program->program, weights, program->team, false,
                                       program->instances);
}

void weft_step_program_free(weft_step_program *program)
{
    weft_step_program_close(program);
    free(program->instances);
    for (size_t i = 0; program->whole && i <= program->steps.count; i++) free(program->whole[i]);
    free(program->whole);
    weft_mesh_program_free(&program->program);
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

/* A row of an input on a rank, and its bytes. Only the rows of an input are shared out to ranks.
 * NULL: the rank does not have the row, or no layer reads the input. */
static void *input_row(const weft_step_program *p, int rank, weft_value input, int64_t row,
                       size_t *bytes)
{
    weft_shape whole;
    int64_t start[WEFT_MAX_RANK];
    const weft_graph *graph = p->program.parts[rank].graph;
    weft_value v = weft_mesh_program_value(&p->program, rank, input);
    char *to = v == WEFT_NO_VALUE ? NULL : weft_instance_input(p->instances[rank], v);
    if (!to) return NULL;
    weft_type part = weft_graph_value_type(graph, v);
    weft_graph_part(graph, v, &whole, start);
    *bytes = weft_type_bytes(&part) / (size_t)part.shape.dim[0];
    row -= start[0];
    return row < 0 || row >= part.shape.dim[0] ? NULL : to + (size_t)row * *bytes;
}

static void put(const weft_step_program *p, weft_value input, int64_t row, int64_t value)
{
    size_t bytes;
    for (int r = 0; r < p->program.ranks; r++) {
        int32_t *to = input_row(p, r, input, row, &bytes);
        if (to) *to = (int32_t)value;
    }
}

void weft_step_program_set(const weft_step_program *program, int64_t row, int32_t token,
                           int64_t position)
{
    put(program, program->x, row, token);
    put(program, program->steps.position, row, position);
    put(program, program->steps.positions, row, position);
    put(program, program->steps.lengths, row, position + 1);
}

static weft_status run_rank(void *user, int rank)
{
    const weft_step_program *p = user;
    WEFT_TRY(weft_instance_run(p->instances[rank], WEFT_PHASE_MICRO));
    /* Waits until the other ranks have received the values that this rank sent, since the next run
     * overwrites them. */
    return p->whole ? weft_instance_drain(p->instances[rank]) : WEFT_OK;
}

weft_status weft_step_program_run(const weft_step_program *program)
{
    WEFT_TRY(weft_rank_team_run(program->team, run_rank, (void *)(uintptr_t)program));
    for (size_t i = 0; program->whole && i <= program->steps.count; i++) {
        weft_value v = left_by_run(program, i);
        weft_type type = weft_graph_value_type(program->graph, v);
        weft_mesh_program_gather(&program->program, program->instances, v, &type,
                                 program->whole[i]);
    }
    return WEFT_OK;
}

/* A row of a value that the last run has left. */
static const char *output_row(const weft_step_program *p, size_t i, int64_t row, size_t *bytes)
{
    weft_value v = left_by_run(p, i);
    weft_type type = weft_graph_value_type(p->graph, v);
    const char *all = p->whole ? p->whole[i] : weft_instance_output(p->instances[0], v);
    *bytes = weft_type_bytes(&type) / (size_t)p->rows;
    return all + (size_t)row * *bytes;
}

void weft_step_program_carry(const weft_step_program *program, int64_t row, int64_t position)
{
    size_t bytes, all;
    for (size_t i = 0; i < program->steps.count; i++) {
        const weft_step_state *s = &program->steps.states[i];
        const char *from = output_row(program, i, row, &bytes);
        for (int r = 0; r < program->program.ranks; r++) {
            char *to = input_row(program, r, s->in, row, &all);
            if (to) memcpy(to + (s->row ? (size_t)position * bytes : 0), from, bytes);
        }
    }
}

void weft_step_program_logits(const weft_step_program *program, int64_t row, double *to)
{
    size_t bytes;
    weft_type type = weft_graph_value_type(program->graph, program->logits);
    const char *logits = output_row(program, program->steps.count, row, &bytes);
    for (int i = 0; i < program->tokens; i++) to[i] = weft_number_get(type.dtype, logits, i);
}

/* --- states --- */

/* Calls fn with the memory of each state of a row, on each rank that has it, and where the state is
 * in a copy of all of them. Returns the bytes of the copy. */
static size_t each_state(const weft_step_program *p, int64_t row,
                         void (*fn)(char *state, char *copy, size_t bytes), char *copy)
{
    size_t at = 0;
    for (size_t i = 0; i < p->steps.count; i++) {
        size_t bytes = 0;
        for (int r = 0; r < p->program.ranks; r++) {
            char *state = input_row(p, r, p->steps.states[i].in, row, &bytes);
            if (state && fn) fn(state, copy ? copy + at : NULL, bytes);
        }
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
