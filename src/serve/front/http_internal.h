/* Internals of the HTTP front end: reading a request and writing its reply. */
#ifndef WEFT_SERVE_FRONT_HTTP_INTERNAL_H
#define WEFT_SERVE_FRONT_HTTP_INTERNAL_H

#include <jansson.h>
#include <microhttpd.h>

#include "base/base.h"
#include "weft/server.h"

typedef struct weft_reply {
    unsigned code;       /* HTTP status code; 0: none yet */
    weft_text text;      /* body */
    size_t json;         /* bytes of JSON before binary tensors; 0: all of the body is JSON */
    const char *type;    /* NULL: JSON */
    const char *allowed; /* methods to name in the reply with code 405 */
} weft_reply;

/* An inference request: read from a body, then answered. */
typedef struct weft_inference {
    weft_inference_request request;
    float *x;
    double *prediction;
    char *id;
    bool binary;     /* the prediction as binary tensor after the JSON */
    int64_t classes; /* number of best classes to return as text; 0: return numbers */
    enum { WEFT_REPLY_JSON, WEFT_REPLY_TEXT, WEFT_REPLY_CSV } format; /* format of a plain reply */
} weft_inference;

/* infer.c. json: bytes of JSON in the body; below 0: all. ARGUMENT: the body is wrong; FORMAT: it
 * is no JSON; UNSUPPORTED: this server lacks a feature of the protocol. */
weft_status weft_infer_read(const weft_servable_info *about, const char *body, size_t size,
                            int64_t json, weft_inference *out) WEFT_NODISCARD;
void weft_inference_free(weft_inference *inference);
/* answer_text.c */
weft_status weft_infer_write(const weft_servable_info *about, const weft_inference *i,
                             weft_reply *reply) WEFT_NODISCARD;
/* predict.c: the content of a plain body. */
typedef enum weft_body_kind { WEFT_BODY_PICTURE, WEFT_BODY_CSV } weft_body_kind;
typedef struct weft_plain_body {
    weft_body_kind kind;
    bool stripped; /* a form, from which some clients strip the line ends */
    const char *data;
    size_t size;
} weft_plain_body;
/* Determines the content from the Content-Type (or NULL), else from the data. ARGUMENT: unknown
 * content; FORMAT: it is not of the declared type. */
weft_status weft_predict_detect(const char *type, const char *data, size_t size,
                                weft_plain_body *out) WEFT_NODISCARD;
/* Whether decoding it would noticeably delay other requests. */
bool weft_predict_is_long(const weft_plain_body *body);
/* ARGUMENT, FORMAT: the body is wrong. */
weft_status weft_predict_read(const weft_servable_info *about, const weft_plain_body *body,
                              weft_inference *out) WEFT_NODISCARD;
/* predict_text.c: chooses the format by the Accept header (or NULL), and writes the reply in it. */
void weft_predict_choose_format(const char *accept, weft_inference *out);
weft_status weft_predict_write(const weft_servable_info *about, const weft_inference *i,
                               weft_reply *reply) WEFT_NODISCARD;

/* metadata.c: metadata of models. */
weft_status weft_write_server_metadata(weft_reply *reply) WEFT_NODISCARD;
weft_status weft_write_model_metadata(weft_service *service, const weft_servable_info *about,
                                      weft_reply *reply) WEFT_NODISCARD;
weft_status weft_write_model_config(weft_servable *servable, weft_reply *reply) WEFT_NODISCARD;
/* name NULL: all models; version 0: all versions. */
weft_status weft_write_statistics(weft_service *service, const char *name, int64_t version,
                                  weft_reply *reply) WEFT_NODISCARD;
weft_status weft_write_repository_index(weft_service *service, bool only_ready,
                                        weft_reply *reply) WEFT_NODISCARD;
/* repository_request.c: bodies of repository requests; they may be empty. ARGUMENT, FORMAT: the
 * body is wrong; UNSUPPORTED: this server lacks a requested feature. */
weft_status weft_repository_index_read(const char *body, size_t size,
                                       bool *only_ready) WEFT_NODISCARD;
weft_status weft_repository_load_read(const char *body, size_t size) WEFT_NODISCARD;
/* page.c: the status page, HTML with charts that reloads every two seconds. The history stores what
 * earlier loads have seen. */
typedef struct weft_history weft_history;
weft_status weft_history_create(weft_history **out) WEFT_NODISCARD;
void weft_history_free(weft_history **history); /* NULL is allowed */
/* Returns the time (weft_seconds) of the history's creation. */
double weft_history_lock(weft_history *history);
void weft_history_unlock(weft_history *history);
weft_status weft_write_page(weft_service *service, weft_history *history, bool draining,
                            weft_reply *reply) WEFT_NODISCARD;
/* metrics.c */
weft_status weft_write_metrics(weft_service *service, int64_t connections,
                               weft_reply *reply) WEFT_NODISCARD;

/* Sets code and body, {"error": sentence}. */
void weft_reply_error(weft_reply *reply, unsigned code, const char *sentence);
/* Sets the body and releases `json`. MEMORY: also if `json` is NULL. */
weft_status weft_reply_json(weft_reply *reply, json_t *json) WEFT_NODISCARD;

#endif
