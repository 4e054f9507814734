/* Internals of the HTTP front end: parsing the body of a request, and writing the reply. */
#ifndef WEFT_SERVE_FRONT_HTTP_INTERNAL_H
#define WEFT_SERVE_FRONT_HTTP_INTERNAL_H

#include <jansson.h>

#include "base/base.h"
#include "weft/server.h"

typedef struct weft_reply {
    unsigned code;    /* HTTP status code; 0: none yet */
    weft_text text;   /* the body */
    size_t json;      /* bytes of JSON before the binary tensors; 0: there are no binary tensors */
    const char *type; /* value of Content-Type; NULL: JSON */
    const char *allowed; /* methods for the header Allow of a reply with code 405 or 204 */
} weft_reply;

/* An output that the reply to a request has. */
typedef struct weft_wanted_output {
    int which;       /* output of the model */
    bool binary;     /* written as a binary tensor after the JSON */
    int64_t classes; /* number of best classes to return as text; 0: return numbers */
} weft_wanted_output;
/* An inference request that was read from a body, with the memory for its input and outputs. */
typedef struct weft_inference {
    weft_inference_request request;
    float *x;         /* NULL: the input is in x_double */
    double *x_double; /* NULL: the input is in x */
    double *prediction;
    char *id;
    int outputs; /* outputs that the reply has, in their order */
    weft_wanted_output output[WEFT_MODEL_OUTPUTS];
    /* format of the reply to a plain prediction request */
    enum { WEFT_REPLY_JSON, WEFT_REPLY_TEXT, WEFT_REPLY_CSV } format;
} weft_inference;

/* infer.c: parses an inference request of the Open Inference Protocol. json: bytes of JSON at the
 * beginning of the body; below 0: all of it is JSON. ARGUMENT: the body is wrong; FORMAT: it is no
 * JSON; UNSUPPORTED: it asks for a feature that this server lacks. */
weft_status weft_infer_read(const weft_servable_info *about, const char *body, size_t size,
                            int64_t json, weft_inference *out) WEFT_NODISCARD;
void weft_inference_free(weft_inference *inference);
/* answer_text.c: writes the reply to an inference request. */
weft_status weft_infer_write_reply(const weft_servable_info *about, const weft_inference *i,
                                   weft_reply *reply) WEFT_NODISCARD;
/* predict.c: the body of a plain prediction request, a picture or rows of CSV or JSON. */
typedef enum weft_body_kind { WEFT_BODY_PICTURE, WEFT_BODY_CSV, WEFT_BODY_JSON } weft_body_kind;
typedef struct weft_plain_body {
    weft_body_kind kind;
    bool stripped; /* sent as a form, whose line ends some clients remove */
    const char *data;
    size_t size;
    int64_t timeout, priority; /* as the parameters of an inference request; 0: not given */
} weft_plain_body;
/* Sets the deadline and the priority of a request from the parameters of the protocol: `timeout` in
 * microseconds; `priority` 1 is the highest there and 0 none, while in Weft larger is higher. */
static inline void weft_inference_set_timeout(weft_inference_request *request, int64_t timeout)
{
    request->queue_timeout = (double)timeout / 1e6;
}
static inline int weft_priority_of(int64_t priority)
{
    return priority > 0 ? (int)WEFT_MAX(1001 - priority, 1) : 0;
}
/* Finds out the kind of the body from the Content-Type header (type; NULL: none), else from the
 * data. ARGUMENT: the kind is unknown; FORMAT: the data are not of the declared type. */
weft_status weft_predict_detect(const char *type, const char *data, size_t size,
                                weft_plain_body *out) WEFT_NODISCARD;
/* Whether the body is a picture of so many pixels that decoding it in the loop would delay other
 * requests. */
bool weft_predict_is_long(const weft_plain_body *body);
/* Decodes the body into the model's input. ARGUMENT, FORMAT: the body is wrong. */
weft_status weft_predict_read(const weft_servable_info *about, const weft_plain_body *body,
                              weft_inference *out) WEFT_NODISCARD;
/* predict_text.c: chooses the format of the reply by the Accept header (NULL: none), and writes the
 * reply in this format. */
void weft_predict_choose_format(const char *accept, weft_inference *out);
weft_status weft_predict_write_reply(const weft_servable_info *about, const weft_inference *i,
                                     weft_reply *reply) WEFT_NODISCARD;

/* metadata.c: metadata and statistics of the server and its models, as JSON. */
weft_status weft_write_server_metadata(weft_reply *reply) WEFT_NODISCARD;
weft_status weft_write_model_metadata(weft_service *service, const weft_servable_info *about,
                                      weft_reply *reply) WEFT_NODISCARD;
weft_status weft_write_model_config(weft_servable *servable, weft_reply *reply) WEFT_NODISCARD;
/* name NULL: all models; version 0: all versions. */
weft_status weft_write_statistics(weft_service *service, const char *name, int64_t version,
                                  weft_reply *reply) WEFT_NODISCARD;
weft_status weft_write_repository_index(weft_service *service, bool only_ready,
                                        weft_reply *reply) WEFT_NODISCARD;
/* repository_request.c: parses the bodies of requests to the model repository, which may be empty.
 * ARGUMENT, FORMAT: the body is wrong; UNSUPPORTED: it asks for a feature that this server
 * lacks. */
weft_status weft_repository_index_read(const char *body, size_t size,
                                       bool *only_ready) WEFT_NODISCARD;
weft_status weft_repository_load_read(const char *body, size_t size) WEFT_NODISCARD;
/* page.c: the status page, HTML with charts, whose contents a script replaces every two seconds.
 * The history keeps the statistics of the last minutes, for the charts. */
typedef struct weft_history weft_history;
weft_status weft_history_create(weft_history **out) WEFT_NODISCARD;
void weft_history_free(weft_history **history); /* NULL is allowed */
/* Takes the history's lock; returns the time (weft_seconds) of the history's creation. */
double weft_history_lock(weft_history *history);
void weft_history_unlock(weft_history *history);
/* Adds a sample of each version in service. */
void weft_history_sample_all(weft_history *history, weft_service *service, double now);
weft_status weft_write_page(weft_service *service, weft_history *history, bool draining,
                            weft_reply *reply) WEFT_NODISCARD;
/* metrics.c: metrics for Prometheus. connections: open connections of clients. */
weft_status weft_write_metrics(weft_service *service, int64_t connections,
                               weft_reply *reply) WEFT_NODISCARD;

/* Sets the HTTP status code, and the body {"error": sentence}. */
void weft_reply_error(weft_reply *reply, unsigned code, const char *sentence);
/* Writes `json` as the body, with code 200, and releases it. MEMORY: also if `json` is NULL. */
weft_status weft_reply_json(weft_reply *reply, json_t *json) WEFT_NODISCARD;

#endif
