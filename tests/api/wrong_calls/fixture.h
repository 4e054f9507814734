/* Right arguments for the generated calls, and what such a call must come to. */
#ifndef WEFT_TESTS_WRONG_CALLS_FIXTURE_H
#define WEFT_TESTS_WRONG_CALLS_FIXTURE_H

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "weft/serve.h"
#include "weft/weft.h"

extern weft_context *context;
extern weft_graph *graph, *failed_graph;
extern weft_store *store;
extern weft_program *program;
extern weft_instance *instance;
extern weft_plan *plan;
extern weft_rewritten *rewritten;
extern weft_comm *comm;
extern weft_operation *operation;
extern weft_dataset *dataset;
extern weft_trainer *trainer;
extern weft_generator *generator;
extern weft_batcher *batcher;
extern weft_batch_queue *queue;
extern weft_service *service;
extern weft_servable *servable;
extern weft_server *server;
extern weft_load *load;
extern weft_output *output;

typedef struct table_struct {
    int64_t count;
} table_struct;
extern const weft_option table[];
extern table_struct table_target;

extern weft_model_values values;
extern weft_model_options scratch_model;
extern const weft_shape shape, shapes[2];
extern const weft_type type;
extern const weft_fit fit;
extern const weft_report report;
extern const weft_entry entry;
extern const weft_stop stop;
extern const weft_error stored;
extern const weft_value fetch[1];
extern const weft_load_histogram histogram;
extern const weft_sampling sampling;
extern const double numbers[8];
extern const int64_t cells[WEFT_LATENCY_CELLS];
extern const char *targets[1];
extern const char *missing, *checkpoint, *data;
extern char *empty;
/* Room for any result, and a pointer for any object; zeroed before each call. */
extern double sink[1 << 16];
extern void *hole[1];

extern weft_batcher_options right_weft_batcher_options;
extern weft_batch_queue_options right_weft_batch_queue_options;
extern weft_request right_weft_request;
extern weft_forecast_options right_weft_forecast_options;
extern weft_model_options right_weft_model_options;
extern weft_optimizer_options right_weft_optimizer_options;
extern weft_plan_options right_weft_plan_options;
extern weft_program_options right_weft_program_options;
extern weft_service_options right_weft_service_options;
extern weft_inference_request right_weft_inference_request;
extern weft_generation_request right_weft_generation_request;
extern weft_transfer right_weft_transfer;
extern weft_eval_options right_weft_eval_options;
extern weft_generate_options right_weft_generate_options;
extern weft_load_options right_weft_load_options;
extern weft_server_options right_weft_server_options;
extern weft_train_options right_weft_train_options;
extern weft_simulate_options right_weft_simulate_options;
extern weft_cluster_options right_weft_cluster_options;
extern weft_measure_options right_weft_measure_options;
extern weft_search_options right_weft_search_options;
extern weft_target_options right_weft_target_options;
extern weft_finalist right_weft_finalist;

void on_line(void *user, const char *line);
void on_prediction(void *user, const weft_prediction *prediction);
void on_layer(void *user, const weft_layer_summary *layer);
void on_span(void *user, const weft_span *span);
bool on_text(void *user, const char *text, size_t size);
void on_part(void *user, weft_step_cause cause, const char *name, double seconds);

/* A graph that has a few values, and gradients, or is empty; the one of the last call is
 * destroyed. */
weft_graph *empty_graph(void);
weft_graph *fresh_graph(void);
weft_graph *differentiated_graph(void);

/* CALL("label") { ... } makes a call. The functions say what it has come to. */
extern sigjmp_buf before_call;
#define CALL(label)                                                                                \
    if (!begin(label)) {                                                                           \
    } else if (sigsetjmp(before_call, 1))                                                          \
        crashed();                                                                                 \
    else
bool begin(const char *label);
void crashed(void);
void refused(weft_status status);
void neutral(bool is);
void graph_failed(void);
/* The first `size` bytes of a right struct, which says that it has no more, in front of memory that
 * nobody may read. aged: the call number i with it is refused for its size, or accepted as all
 * longer ones are; the whole struct is right. */
void *older(const void *right, size_t size);
void aged(size_t i, bool whole, weft_status status);
bool is_zero(const void *result);
bool is_none(int64_t result);

void all_calls(void);
void calls_on_failed_graph(weft_value v);

#endif
