/* Parses an inference request of the Open Inference Protocol: all members except the inputs. */
#include "serve/front/infer_internal.h"

/* MOST_ID: bytes of an id, which the reply repeats. */
enum { SHOWN = 128, MOST_ID = 16 << 10 };

#define wrong(...) weft_fail(WEFT_ERR_ARGUMENT, __VA_ARGS__)

/* --- outputs --- */

/* An output that is being parsed; its members may come in any order. */
typedef struct output {
    char name[SHOWN];
    int binary;
    int64_t classes;
} output;

static weft_status read_output_parameters(const weft_infer_reader *r, weft_json *j, output *o)
{
    static const char *const known[] = {"binary_data", "classification"};
    weft_json_key key;
    unsigned seen = 0;
    bool binary;
    int which;
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_OBJECT, "the parameters of an output"));
    WEFT_TRY(weft_json_enter(j));
    while (weft_json_member(j, &key)) {
        WEFT_TRY(weft_infer_no_shared_memory(&key));
        WEFT_TRY(weft_infer_key(&key, known, WEFT_COUNT(known), "an output", &seen, &which));
        if (which == 0) {
            WEFT_TRY(weft_infer_flag(j, "parameter binary_data", &binary));
            o->binary = binary;
        } else if (which == 1) {
            if (r->about->classes == 0) return wrong("classification: this model predicts numbers");
            WEFT_TRY(weft_infer_whole(j, "parameter classification", 1, &o->classes));
            o->classes = WEFT_MIN(o->classes, r->about->classes);
        } else {
            WEFT_TRY(weft_json_skip(j));
        }
    }
    return j->status;
}

/* Adds an output to those that are wanted. */
static weft_status want(weft_infer_reader *r, const output *o)
{
    const weft_servable_info *about = r->about;
    weft_inference *out = r->out;
    char names[WEFT_MODEL_OUTPUTS * (WEFT_INPUT_NAME + 4)];
    int which = 0;
    while (which < about->output_count && strcmp(about->output[which].name, o->name) != 0) which++;
    if (which == about->output_count)
        return wrong("no output is named '%s'; %s %s", o->name,
                     which == 1 ? "there is one," : "they are",
                     weft_infer_names(about, true, names, sizeof(names)));
    for (int i = 0; i < out->outputs; i++)
        if (out->output[i].which == which) return wrong("outputs has '%s' twice", o->name);
    if (o->classes && which > 0)
        return wrong("classification: output '%s' has no probabilities of classes; '%s' has them",
                     o->name, about->output[0].name);
    r->binary[out->outputs] = o->binary;
    out->output[out->outputs++] = (weft_wanted_output){.which = which, .classes = o->classes};
    return WEFT_OK;
}

static weft_status read_output(weft_infer_reader *r, weft_json *j)
{
    static const char *const known[] = {"name", "parameters"};
    output o = {.binary = -1};
    weft_json_key key;
    unsigned seen = 0;
    size_t size;
    int which;
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_OBJECT, "an output"));
    WEFT_TRY(weft_json_enter(j));
    while (weft_json_member(j, &key)) {
        WEFT_TRY(weft_infer_key(&key, known, WEFT_COUNT(known), "an output", &seen, &which));
        if (which == 0) {
            WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_STRING, "the name of an output"));
            WEFT_TRY(weft_json_cut(j, o.name, sizeof(o.name), &size));
        } else if (which == 1) {
            WEFT_TRY(read_output_parameters(r, j, &o));
        } else {
            WEFT_TRY(weft_json_skip(j));
        }
    }
    WEFT_TRY(j->status);
    return want(r, &o);
}

/* Reads the list of wanted outputs. An empty list stands for all outputs. */
static weft_status read_outputs(weft_infer_reader *r, weft_json *j)
{
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_ARRAY, "outputs"));
    WEFT_TRY(weft_json_enter(j));
    while (weft_json_item(j)) WEFT_TRY(read_output(r, j));
    return j->status;
}

/* Makes room for the outputs: those that the request names, or all. */
static weft_status prepare_outputs(weft_infer_reader *r)
{
    weft_inference *out = r->out;
    for (int k = 0; out->outputs == 0 && k < r->about->output_count; k++) {
        out->output[k].which = k;
        r->binary[k] = -1;
    }
    if (out->outputs == 0) out->outputs = (int)r->about->output_count;
    for (int i = 0; i < out->outputs; i++) {
        weft_wanted_output *w = &out->output[i];
        const weft_model_output *o = &r->about->output[w->which];
        w->binary = (r->binary[i] >= 0 ? r->binary[i] : r->all_binary) == 1;
        if (w->which == 0) continue;
        size_t row = weft_type_bytes(&(weft_type){o->dtype, o->shape});
        WEFT_TRY(weft_new_bytes(&out->request.output[w->which], (size_t)out->request.rows, row));
    }
    return WEFT_OK;
}

/* --- request --- */

static weft_status read_parameter(weft_infer_reader *r, weft_json *j, int which)
{
    weft_inference_request *q = &r->out->request;
    int64_t number;
    bool flag;
    switch (which) {
    case 0:
        WEFT_TRY(weft_infer_flag(j, "parameter binary_data_output", &flag));
        r->all_binary = flag;
        return WEFT_OK;
    case 1: return weft_infer_flag(j, "parameter raw", &q->raw);
    case 2:
        WEFT_TRY(weft_infer_whole(j, "parameter priority", 0, &number));
        q->priority = weft_priority_of(number);
        return WEFT_OK;
    case 3:
        WEFT_TRY(weft_infer_whole(j, "parameter timeout, in microseconds,", 0, &number));
        weft_inference_set_timeout(q, number);
        return WEFT_OK;
    default: return weft_json_skip(j); /* unknown parameters are ignored */
    }
}

static weft_status read_parameters(weft_infer_reader *r, weft_json *j)
{
    static const char *const known[] = {"binary_data_output", "raw", "priority", "timeout"};
    weft_json_key key;
    unsigned seen = 0;
    int which;
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_OBJECT, "parameters"));
    WEFT_TRY(weft_json_enter(j));
    while (weft_json_member(j, &key)) {
        WEFT_TRY(weft_infer_key(&key, known, WEFT_COUNT(known), "parameters", &seen, &which));
        WEFT_TRY(read_parameter(r, j, which));
    }
    return j->status;
}

static weft_status read_member(weft_infer_reader *r, weft_json *j, int which)
{
    switch (which) {
    case 0:
        WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_STRING, "id"));
        WEFT_TRY(weft_json_text(j, &r->out->id));
        if (strlen(r->out->id) <= MOST_ID) return WEFT_OK;
        return wrong("id has %zu bytes, and %d are the most", strlen(r->out->id), MOST_ID);
    case 1: return read_parameters(r, j);
    case 2: return weft_infer_inputs(r, j);
    case 3: return read_outputs(r, j);
    default: return weft_json_skip(j);
    }
}

static weft_status read_request(weft_infer_reader *r, weft_json *j)
{
    static const char *const known[] = {"id", "parameters", "inputs", "outputs"};
    weft_json_key key;
    unsigned seen = 0;
    int which;
    WEFT_TRY(weft_infer_must_be(j, WEFT_JSON_OBJECT, "the body"));
    WEFT_TRY(weft_json_enter(j));
    while (weft_json_member(j, &key)) {
        WEFT_TRY(weft_infer_key(&key, known, WEFT_COUNT(known), "the body", &seen, &which));
        WEFT_TRY(read_member(r, j, which));
    }
    WEFT_TRY(j->status);
    WEFT_TRY(weft_json_finish(j));
    if (!r->out->prediction)
        return weft_infer_no_inputs(r->about, "the body has no inputs; it must be an object with "
                                              "\"inputs\",");
    if (r->bytes > 0 && r->any_binary)
        return wrong("%zu bytes more follow the JSON than the binary_data_size of the inputs say",
                     r->bytes);
    if (r->bytes > 0)
        return wrong("%zu bytes follow the JSON, and no input has binary_data_size", r->bytes);
    const weft_number_type type = {
        .bytes = !r->not_bytes, .fractional = r->fractional, .table = r->about->table};
    WEFT_TRY(weft_inference_prepare(r->about, r->out, &type, r->last));
    return prepare_outputs(r);
}

weft_status weft_infer_read(const weft_servable_info *about, const char *body, size_t size,
                            int64_t json, weft_inference *out)
{
    size_t end = json < 0 ? size : (size_t)json;
    weft_json j;
    *out = (weft_inference){.id = NULL};
    weft_inference_request_init(&out->request);
    if (end > size)
        return wrong("Inference-Header-Content-Length is %zu, and the body has %zu bytes", end,
                     size);
    if (!body) body = "";
    weft_infer_reader r = {.about = about,
                           .body = size,
                           .tensor = body + end,
                           .bytes = size - end,
                           .out = out,
                           .all_binary = -1};
    weft_json_start(&j, body, end);
    weft_status status = read_request(&r, &j);
    if (status == WEFT_ERR_FORMAT) status = weft_fail_within(status, "the body is no JSON");
    if (status != WEFT_OK) weft_inference_free(out);
    return status;
}

void weft_inference_free(weft_inference *i)
{
    free(i->x);
    free(i->x_double);
    free(i->prediction);
    for (int k = 0; k < WEFT_MODEL_OUTPUTS; k++) free(i->request.output[k]);
    free(i->id);
    *i = (weft_inference){.id = NULL};
}
