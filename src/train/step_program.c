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
    weft_graph *graph = NULL;
    weft_value *map = NULL;
    WEFT_TRY(weft_graph_create(context, real, &graph));
    weft_status status = weft_build_model(graph, &model, &checkpoint->model, &values);
    if (status == WEFT_OK) status = WEFT_NEW(&map, weft_graph_value_count(graph));
    if (status == WEFT_OK) {
        p->tokens = weft_model_value(&values, WEFT_PORT_FEATURES);
        p->logits = weft_model_value(&values, WEFT_PORT_LOGITS);
        status = weft_graph_incremental(graph, p->tokens, p->logits, &p->one, map);
    }
    if (status == WEFT_OK) {
        p->tokens = map[p->tokens];
        p->logits = map[p->logits];
    }
    free(map);
    weft_graph_destroy(&graph);
    return status;
}

static weft_status allocate_whole(weft_step_program *p)
{
    weft_type type = weft_graph_value_type(p->one.graph, p->logits);
    if (p->program.ranks == 1) return WEFT_OK;
    return weft_new_bytes(&p->whole, weft_type_bytes(&type), 1);
}

weft_status weft_step_program_build(weft_context *context, const weft_checkpoint *checkpoint,
                                    const weft_train_options *run, weft_mesh_weights *weights,
                                    weft_rank_team *team, int64_t rows, weft_step_program *out)
{
    WEFT_TRY(weft_step_program_check(checkpoint));
    WEFT_TRY(weft_mesh_weights_rows(weights, &out->rows));
    out->rows = WEFT_MAX(out->rows, rows);
    out->window = checkpoint->stats.input[0].shape.dim[0];
    out->vocabulary = checkpoint->stats.classes;
    out->team = team;
    WEFT_TRY(build_graph(context, checkpoint, run, out));
    WEFT_TRY(
        weft_mesh_program_create(weights, out->one.graph, &out->logits, 1, team, &out->program));
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
    free(program->whole);
    weft_mesh_program_free(&program->program);
    weft_incremental_free(&program->one);
}

int64_t weft_step_program_needed(const weft_step_program *program, int64_t count)
{
    int64_t window = program->window, each = window - window / 2; /* that are left out at a time */
    if (!program->one.limited || count <= window) return count;
    return count - (count - window + each - 1) / each * each;
}

/* --- a step --- */

/* A row of an input on a rank. Only the rows of an input are shared out to ranks. NULL: the rank
 * does not have the row, or no layer reads the input. */
static int32_t *input_row(const weft_step_program *p, int rank, weft_value input, int64_t row)
{
    weft_shape whole;
    int64_t start[WEFT_MAX_RANK];
    const weft_graph *graph = p->program.parts[rank].graph;
    weft_value v = weft_mesh_program_value(&p->program, rank, input);
    int32_t *to = v == WEFT_NO_VALUE ? NULL : weft_instance_input(p->instances[rank], v);
    if (!to) return NULL;
    weft_type part = weft_graph_value_type(graph, v);
    weft_graph_part(graph, v, &whole, start);
    row -= start[0];
    return row < 0 || row >= part.shape.dim[0] ? NULL : to + row;
}

static void put(const weft_step_program *p, weft_value input, int64_t row, int32_t value)
{
    for (int r = 0; r < p->program.ranks; r++) {
        int32_t *to = input_row(p, r, input, row);
        if (to) *to = value;
    }
}

/* position < 0: the row computes none. */
static void set_position(const weft_step_program *p, int64_t row, int32_t position)
{
    put(p, p->one.position, row, position);
    put(p, p->one.positions, row, WEFT_MAX(position, 0));
    put(p, p->one.lengths, row, position + 1);
    put(p, p->one.active, row, position >= 0);
}

void weft_step_program_set(const weft_step_program *program, int64_t row, int32_t token,
                           int64_t position)
{
    put(program, program->tokens, row, token);
    set_position(program, row, (int32_t)position);
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
    for (int64_t row = 0; row < program->rows; row++) set_position(program, row, -1);
    if (!program->whole) return WEFT_OK;
    weft_type type = weft_graph_value_type(program->one.graph, program->logits);
    weft_mesh_program_gather(&program->program, program->instances, program->logits, &type,
                             program->whole);
    return WEFT_OK;
}

void weft_step_program_logits(const weft_step_program *program, int64_t row, double *to)
{
    weft_type type = weft_graph_value_type(program->one.graph, program->logits);
    const void *logits = program->whole
                             ? program->whole
                             : weft_instance_output(program->instances[0], program->logits);
    int64_t each = weft_shape_elements(&type.shape) / program->rows;
    for (int64_t i = 0; i < program->vocabulary; i++)
        to[i] = weft_number_get(type.dtype, logits, row * each + i);
}

/* --- states --- */

/* A function of a row of a state on one rank; copy: its place in a copy of all states. */
typedef weft_status (*row_fn)(weft_instance *x, weft_value state, int64_t row, char *copy);

/* Calls fn, unless it is NULL, for the row of each state on each rank that has it, in a fixed
 * order. *bytes: of a copy of all of them. */
static weft_status each_row(const weft_step_program *p, int64_t row, row_fn fn, char *copy,
                            size_t *bytes)
{
    *bytes = 0;
    for (size_t i = 0; i < p->one.count; i++)
        for (int r = 0; r < p->program.ranks; r++) {
            weft_shape whole;
            int64_t start[WEFT_MAX_RANK];
            weft_value v = weft_mesh_program_value(&p->program, r, p->one.states[i]);
            if (v == WEFT_NO_VALUE) continue;
            weft_graph_part(p->program.parts[r].graph, v, &whole, start);
            size_t each = weft_instance_row_bytes(p->instances[r], v, row - start[0]);
            if (each > 0 && fn)
                WEFT_TRY(fn(p->instances[r], v, row - start[0], copy ? copy + *bytes : NULL));
            *bytes += each;
        }
    return WEFT_OK;
}

static weft_status save(weft_instance *x, weft_value state, int64_t row, char *copy)
{
    return weft_instance_read_row(x, state, row, copy);
}

static weft_status load(weft_instance *x, weft_value state, int64_t row, char *copy)
{
    return weft_instance_write_row(x, state, row, copy);
}

size_t weft_step_program_state_bytes(const weft_step_program *program)
{
    size_t bytes;
    weft_status status = each_row(program, 0, NULL, NULL, &bytes);
    return status == WEFT_OK ? bytes : 0;
}

weft_status weft_step_program_clear(const weft_step_program *program, int64_t row)
{
    size_t bytes;
    return each_row(program, row, load, NULL, &bytes);
}

weft_status weft_step_program_save(const weft_step_program *program, int64_t row, void *to)
{
    size_t bytes;
    return each_row(program, row, save, to, &bytes);
}

weft_status weft_step_program_load(const weft_step_program *program, int64_t row, const void *from)
{
    size_t bytes;
    return each_row(program, row, load, (char *)(uintptr_t)from, &bytes);
}
