/* Gathers the planned memory of all ranks, on all ranks, and their traces, which rank 0 writes to
 * one file of Chrome trace events. */
#include "learner/learner.h"
#include "program/program.h"

double weft_planned_bytes(const weft_instance *instance)
{
    weft_program_info info = weft_program_describe(weft_instance_program(instance));
    return weft_program_bytes(&info);
}

weft_status weft_gather_memory(weft_rank *r, double *planned)
{
    double mine = weft_planned_bytes(r->instance);
    return weft_comm_run(r->world, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_F64,
                                                 .what = "the memory of all ranks", .send = &mine,
                                                 .receive = planned, .count = 1));
}

/* --- traces --- */

static weft_status receive_text(weft_comm *ranks, int rank, int64_t size, weft_text *text)
{
    char *room;
    WEFT_TRY(WEFT_NEW(&room, size + 1));
    weft_status status = weft_comm_run(ranks, WEFT_TRANSFER(.kind = WEFT_RECEIVE, .dtype = WEFT_U8,
                                                            .what = "a trace", .receive = room,
                                                            .count = size, .peer = rank));
    if (status == WEFT_OK) weft_text_add_bytes(text, room, (size_t)size);
    free(room);
    return status;
}

/* Adds the model of the run, and the processor of its first rank. */
static weft_status add_origin(const weft_rank *r, weft_text *text)
{
    char processor[200], *model, *quoted;
    weft_processor_name(processor, sizeof(processor));
    WEFT_TRY(weft_json_string(r->run_spec->model.model, &model));
    weft_status status = weft_json_string(processor, &quoted);
    if (status == WEFT_OK)
        weft_text_add(text, "\"otherData\":{\"network\":%s,\"processor\":%s}", model, quoted);
    free(model);
    if (status == WEFT_OK) free(quoted);
    return status;
}

static weft_status join(weft_rank *r, const char *mine, const double *sizes, weft_output *to)
{
    weft_text text = {0};
    char *json;
    weft_status status = WEFT_OK;
    weft_text_add(&text, "{\"traceEvents\":[\n%s", mine);
    for (int i = 1; i < weft_comm_size(r->together) && status == WEFT_OK; i++) {
        weft_text_add(&text, ",\n");
        status = receive_text(r->together, i, (int64_t)sizes[i], &text);
    }
    weft_text_add(&text, "\n],\n");
    if (status == WEFT_OK) status = add_origin(r, &text);
    weft_text_add(&text, ",\n\"displayTimeUnit\":\"ms\"}\n");
    if (status != WEFT_OK) {
        free(text.data);
        return status;
    }
    WEFT_TRY(weft_text_take(&text, &json));
    status = weft_output_write(to, json, strlen(json));
    free(json);
    return status;
}

/* The times of all ranks count from the end of one barrier (r->began), so their traces fit
 * together.
 */
weft_status weft_trace_write(weft_rank *r, weft_output *to)
{
    char *mine;
    double size, *sizes = NULL;
    if (r->learner_index > 0 && r->together != r->world) return WEFT_OK;
    WEFT_TRY(weft_instance_trace_events(r->instance, r->rank, r->began, &mine));
    size = (double)strlen(mine);
    weft_status status = WEFT_NEW(&sizes, weft_comm_size(r->together));
    if (status == WEFT_OK)
        status =
            weft_comm_run(r->together, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_F64,
                                                     .what = "the sizes of traces", .send = &size,
                                                     .receive = sizes, .count = 1));
    if (status == WEFT_OK && r->rank == 0) status = join(r, mine, sizes, to);
    if (status == WEFT_OK && r->rank != 0)
        status = weft_comm_run(r->together,
                               WEFT_TRANSFER(.kind = WEFT_SEND, .dtype = WEFT_U8, .what = "a trace",
                                             .send = mine, .count = (int64_t)size));
    free(sizes);
    free(mine);
    return status;
}
