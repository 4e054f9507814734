/* Reads and writes rows of the states of sequences, which are in the memory of an instance. */
#include "program/instance.h"

/* The address of a row, and its bytes; 0: there is no such row. */
static size_t find_row(const weft_instance *x, weft_value state, int64_t row, weft_address *out)
{
    const weft_program *p = x->program;
    const version *v = weft_program_version(p, state, NULL);
    if (!v || p->buffers[v->buffer].kind != BUFFER_SEQUENCE) return 0;
    const buffer *b = &p->buffers[v->buffer];
    if (row < 0 || row >= b->rows) return 0;
    size_t bytes = b->bytes / (size_t)b->rows;
    *out = weft_beyond(weft_buffer_address(p, &x->at, v->buffer, 0), (size_t)row * bytes);
    return bytes;
}

weft_status weft_sequences_begin(weft_instance *x)
{
    const weft_program *p = x->program;
    return weft_memory_zero(p->schema->devices[0], x->queue, (weft_address){x->at.sequences, 0},
                            p->sequence_bytes);
}

size_t weft_instance_row_bytes(const weft_instance *x, weft_value state, int64_t row)
{
    weft_address at;
    WEFT_NEED_ELSE_AS(0, "instance", x);
    WEFT_CHECK_INDEX_ELSE(0, state, x->program->values);
    return find_row(x, state, row, &at);
}

static weft_status need_row(const weft_instance *x, weft_value state, int64_t row,
                            weft_address *out, size_t *bytes)
{
    WEFT_CHECK_INDEX(state, x->program->values);
    *bytes = find_row(x, state, row, out);
    if (*bytes > 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "value %d of the program is no state of sequences with a row %lld", state,
                     (long long)row);
}

weft_status weft_instance_read_row(const weft_instance *x, weft_value state, int64_t row,
                                   void *data)
{
    weft_address at;
    size_t bytes;
    WEFT_NEED_AS("instance, data", x, data);
    WEFT_TRY(need_row(x, state, row, &at, &bytes));
    WEFT_TRY(weft_copy_out(x->queue, data, at, bytes));
    return weft_instance_synchronize(x);
}

weft_status weft_instance_write_row(weft_instance *x, weft_value state, int64_t row,
                                    const void *data)
{
    weft_address at;
    size_t bytes;
    WEFT_NEED_AS("instance", x);
    WEFT_TRY(need_row(x, state, row, &at, &bytes));
    if (!data) return weft_memory_zero(x->program->schema->devices[0], x->queue, at, bytes);
    WEFT_TRY(weft_copy_in(x->queue, at, data, bytes));
    return weft_instance_synchronize(x);
}
