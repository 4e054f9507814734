/* Inside of the front: one request of a client, and what is said to it. */
#ifndef WEFT_SERVE_FRONT_FRONT_H
#define WEFT_SERVE_FRONT_FRONT_H

#include <jansson.h>
#include <microhttpd.h>

#include "base/base.h"
#include "weft/server.h"

typedef struct weft_reply {
    unsigned code;       /* of HTTP; 0: there is none yet */
    weft_text text;      /* its body */
    size_t json;         /* bytes of it that are JSON, where tensors follow; 0: all */
    const char *type;    /* NULL: JSON */
    const char *allowed; /* methods, of code 405 */
} weft_reply;

/* What is asked of a model: read from a body, then answered. */
typedef struct weft_inference {
    weft_question question;
    float *x;
    double *prediction;
    char *id;
    bool binary;     /* the prediction as a tensor behind the JSON */
    int64_t classes; /* the best so many as texts instead; 0: numbers */
    enum { WEFT_SAID_JSON, WEFT_SAID_TEXT, WEFT_SAID_CSV } said; /* in which form, of a plain one */
} weft_inference;

/* infer.c. ARGUMENT: what is wrong with the body; FORMAT: it is no JSON; UNSUPPORTED: what the
 * protocol has and this server has not. json: bytes of it that are JSON; below 0: all of them. */
weft_status weft_infer_read(const weft_served_about *about, const char *body, size_t size,
                            int64_t json, weft_inference *out) WEFT_NODISCARD;
void weft_inference_free(weft_inference *inference);
/* answer_text.c */
weft_status weft_infer_write(const weft_served_about *about, const weft_inference *i,
                             weft_reply *reply) WEFT_NODISCARD;
/* predict.c: what a plain body is. */
typedef enum weft_body_kind { WEFT_BODY_PICTURE, WEFT_BODY_CSV } weft_body_kind;
typedef struct weft_plain_body {
    weft_body_kind kind;
    bool stripped; /* as a form, out of which some clients take the ends of lines */
    const char *data;
    size_t size;
} weft_plain_body;
/* By what the client says (Content-Type, or NULL), and where that says nothing by what it is.
 * ARGUMENT: nothing that can be read; FORMAT: it is not what it is said to be. */
weft_status weft_predict_look(const char *type, const char *data, size_t size,
                              weft_plain_body *out) WEFT_NODISCARD;
/* Whether reading it takes so long that others would notice. */
bool weft_predict_is_long(const weft_plain_body *body);
/* ARGUMENT, FORMAT: what is wrong with it. */
weft_status weft_predict_read(const weft_served_about *about, const weft_plain_body *body,
                              weft_inference *out) WEFT_NODISCARD;
/* predict_text.c: which form the client wants (Accept, or NULL), and the answer in it. */
void weft_predict_wish(const char *accept, weft_inference *out);
weft_status weft_predict_write(const weft_served_about *about, const weft_inference *i,
                               weft_reply *reply) WEFT_NODISCARD;

/* about.c: what is said of models. */
weft_status weft_tell_server(weft_reply *reply) WEFT_NODISCARD;
weft_status weft_tell_model(weft_service *service, const weft_served_about *about,
                            weft_reply *reply) WEFT_NODISCARD;
weft_status weft_tell_config(weft_served *served, weft_reply *reply) WEFT_NODISCARD;
/* name NULL: of all; version 0: of all that it has. */
weft_status weft_tell_stats(weft_service *service, const char *name, int64_t version,
                            weft_reply *reply) WEFT_NODISCARD;
weft_status weft_tell_index(weft_service *service, bool only_ready,
                            weft_reply *reply) WEFT_NODISCARD;
/* repository.c: bodies of requests for the repository, which may be empty. ARGUMENT, FORMAT: what
 * is wrong; UNSUPPORTED: a parameter that asks for what this server has not. */
weft_status weft_index_read(const char *body, size_t size, bool *only_ready) WEFT_NODISCARD;
weft_status weft_load_read(const char *body, size_t size) WEFT_NODISCARD;
/* page.c: the status page, for people: HTML with drawings, which looks again every two seconds. It
 * remembers in a history what it has seen. */
typedef struct weft_history weft_history;
weft_status weft_history_create(weft_history **out) WEFT_NODISCARD;
void weft_history_free(weft_history **history); /* NULL is allowed */
/* Seconds (weft_seconds) when it was made. */
double weft_history_lock(weft_history *history);
void weft_history_unlock(weft_history *history);
weft_status weft_tell_page(weft_service *service, weft_history *history, bool draining,
                           weft_reply *reply) WEFT_NODISCARD;
/* metrics.c */
weft_status weft_tell_metrics(weft_service *service, int64_t connections,
                              weft_reply *reply) WEFT_NODISCARD;

/* The body becomes {"error": sentence} with this code. */
void weft_reply_error(weft_reply *reply, unsigned code, const char *sentence);
/* The body becomes this, which is given up. MEMORY: also where it is NULL. */
weft_status weft_reply_json(weft_reply *reply, json_t *json) WEFT_NODISCARD;

#endif
