/* Internals of parsing an inference request: the state of the parser, and helpers for JSON
 * members. */
#ifndef WEFT_SERVE_FRONT_INFER_INTERNAL_H
#define WEFT_SERVE_FRONT_INFER_INTERNAL_H

#include "data/data.h"
#include "serve/front/http_internal.h"
#include "serve/front/tensor.h"

typedef struct weft_infer_reader {
    const weft_servable_info *about;
    const char *tensor; /* binary data after the JSON */
    size_t body;        /* bytes of the body */
    size_t bytes;       /* bytes of binary data that no input has taken yet */
    bool any_binary;    /* an input has taken binary data */
    unsigned inputs;    /* bit k: input k of the model has been read */
    bool not_bytes;     /* an input of real numbers has another type than UINT8 */
    bool fractional;    /* one has a type that holds fractions or truth values */
    unsigned last;      /* bit k: the channels of input k are last */
    weft_inference *out;
    /* whether a wanted output, and all of them, are wanted in binary form: 1 yes, 0 no, -1 not
     * said */
    int binary[WEFT_MODEL_OUTPUTS], all_binary;
} weft_infer_reader;

/* An input that is being parsed; its JSON members may come in any order. */
enum { WEFT_INFER_SHOWN = 128 }; /* bytes of a name in messages */
typedef struct weft_infer_input {
    unsigned seen;
    char name[WEFT_INFER_SHOWN], type_name[WEFT_INFER_SHOWN];
    const weft_input *is; /* the input of the model; NULL: not looked up yet */
    const weft_datatype *type;
    weft_shape shape;
    int64_t binary; /* value of binary_data_size; below 0: not given */
    int64_t at;     /* where its numbers begin in the memory of the request */
    weft_json data; /* parser at the data, if they came before the name, shape and datatype */
    bool kept, read;
} weft_infer_input;

/* infer_input.c: reads the value of "inputs", an array of one tensor for each input of the model.
 */
weft_status weft_infer_inputs(weft_infer_reader *r, weft_json *j) WEFT_NODISCARD;

/* prepare_rows.c: brings the rows of a request to the form of the training: their channels, if they
 * are last in the inputs of these bits, and pixels and fractions (weft_range_compare). Sets the
 * pointers of the request. ARGUMENT: the unit of a row cannot be told. */
weft_status weft_inference_prepare(const weft_servable_info *about, weft_inference *inference,
                                   const weft_number_type *type,
                                   unsigned channels_last) WEFT_NODISCARD;

/* predict_rows.c: writes rows of JSON as CSV with these columns, of which the names are the first
 * line; no more than `most` rows and one. ARGUMENT, FORMAT: the body is wrong. */
weft_status weft_predict_rows(char *const *names, int columns, int64_t most, const char *data,
                              size_t size, weft_text *csv) WEFT_NODISCARD;

/* infer_shape.c: the names of the model's inputs, or outputs, as "'a', 'b'". */
const char *weft_infer_names(const weft_servable_info *about, bool outputs, char *text,
                             size_t room);
/* Fails with `what` and the tensors that the inputs must be. */
weft_status weft_infer_no_inputs(const weft_servable_info *about, const char *what) WEFT_NODISCARD;
/* As weft_infer_must_be, for a part of an input; the text of the message is only made if it is
 * needed. */
weft_status weft_infer_input_must_be(weft_json *j, weft_json_kind kind, const weft_infer_input *in,
                                     const char *part) WEFT_NODISCARD;
/* As weft_infer_whole, likewise. */
weft_status weft_infer_input_whole(weft_json *j, const weft_infer_input *in, const char *part,
                                   int64_t low, int64_t *out) WEFT_NODISCARD;
weft_status weft_infer_shape(weft_json *j, weft_infer_input *in) WEFT_NODISCARD;
/* The columns of a row of a table, of which categories are one each. */
int64_t weft_infer_columns(const weft_servable_info *about);
/* The shape of a row of an input as the file of the training has it. */
weft_shape weft_infer_row_shape(const weft_servable_info *about, int input);
/* Checks the shape, which must be that of a batch of samples as the training's file or the network
 * has them, or [rows, numbers of a sample]. *last: the channels are last, as in the file. */
weft_status weft_infer_check_shape(const weft_servable_info *about, const weft_infer_input *in,
                                   bool *last) WEFT_NODISCARD;

/* metadata.c: the datatype of an output in replies. */
const char *weft_infer_output_type(const weft_servable_info *about, int output);

/* infer_json_fields.c: checks that the next JSON value is of this kind; `what` is its name in
 * messages. ARGUMENT: it is of another kind. */
weft_status weft_infer_must_be(weft_json *j, weft_json_kind kind, const char *what) WEFT_NODISCARD;
weft_status weft_infer_flag(weft_json *j, const char *what, bool *out) WEFT_NODISCARD;
/* Reads an integer of at least `low`. */
weft_status weft_infer_whole(weft_json *j, const char *what, int64_t low,
                             int64_t *out) WEFT_NODISCARD;
/* *out: the index of the key among the `count` known ones; -1: the key is unknown. ARGUMENT: the
 * key occurs for the second time; `seen` has a bit for each known key. */
weft_status weft_infer_key(const weft_json_key *key, const char *const *known, int count,
                           const char *where, unsigned *seen, int *out) WEFT_NODISCARD;
/* Refuses parameters for shared memory with UNSUPPORTED. */
weft_status weft_infer_no_shared_memory(const weft_json_key *key) WEFT_NODISCARD;

#endif
