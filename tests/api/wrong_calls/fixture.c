/* Makes one valid object of each type, and runs the generated calls with them. */
#include "fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

weft_context *context;
weft_graph *graph, *failed_graph;
weft_store *store;
weft_program *program;
weft_instance *instance;
weft_plan *plan;
weft_rewritten *rewritten;
weft_comm *comm;
weft_operation *operation;
weft_dataset *dataset;
weft_trainer *trainer;
weft_generator *generator;
weft_batcher *batcher;
weft_batch_queue *queue;
weft_service *service;
weft_servable *servable;
weft_server *server;
weft_load *load;
weft_output *output;

const weft_option table[] = {{.name = "count",
                              .argument = "N",
                              .initial = "1",
                              .help = "a number",
                              .kind = WEFT_OPT_INT,
                              .low = 1,
                              .high = 9},
                             {.name = NULL}};
table_struct table_target;
weft_model_values values;
weft_model_options scratch_model;
const weft_shape shape = {2, {2, 3}}, shapes[2] = {{1, {4}}, {1, {4}}};
const weft_type type = {WEFT_F32, {2, {2, 3}}};
const weft_fit fit;
const weft_report report = {.samples = 1, .classes = 2};
const weft_entry entry = {.kind = WEFT_KIND_MODEL, .name = "lenet"};
const weft_stop stop;
const weft_error stored = {.status = WEFT_ERR_IO, .message = "a stored failure"};
const weft_value fetch[1] = {1};
const weft_load_histogram histogram;
const weft_sampling sampling = {.temperature = 1, .top_p = 1};
const double numbers[8] = {1, 1, 1, 1, 1, 1, 1, 1};
const int64_t cells[WEFT_LATENCY_CELLS];
static char target[128], missing_path[512], checkpoint_path[512], data_text[600], text_path[512];
const char *targets[1] = {target};
const char *missing = missing_path, *checkpoint = checkpoint_path, *data = data_text;
static char empty_text[1];
char *empty = empty_text;
double sink[1 << 16];
void *hole[1];

weft_batcher_options right_weft_batcher_options;
weft_batch_queue_options right_weft_batch_queue_options;
weft_request right_weft_request;
weft_forecast_options right_weft_forecast_options;
weft_model_options right_weft_model_options;
weft_optimizer_options right_weft_optimizer_options;
weft_plan_options right_weft_plan_options;
weft_program_options right_weft_program_options;
weft_service_options right_weft_service_options;
weft_inference_request right_weft_inference_request;
weft_generation_request right_weft_generation_request;
weft_transfer right_weft_transfer;
weft_eval_options right_weft_eval_options;
weft_generate_options right_weft_generate_options;
weft_load_options right_weft_load_options;
weft_server_options right_weft_server_options;
weft_train_options right_weft_train_options;
weft_simulate_options right_weft_simulate_options;
weft_cluster_options right_weft_cluster_options;
weft_measure_options right_weft_measure_options;
weft_search_options right_weft_search_options;
weft_target_options right_weft_target_options;
weft_finalist right_weft_finalist;

static char folder[] = "/tmp/weft-wrong-XXXXXX";
static weft_graph *fresh;
static const char *current = "the fixture", *only;
static int failures, made;
sigjmp_buf before_call;
static volatile sig_atomic_t calling;

static void must(weft_status status, const char *what)
{
    if (status == WEFT_OK) return;
    (void)fprintf(stderr, "%s: %s\n", what, weft_last_message());
    exit(1);
}
#define MUST(call) must(call, #call)

/* --- calls --- */

static void failure(const char *why)
{
    failures++;
    printf("FAILED %s: %s\n", current, why);
    (void)fflush(stdout);
}

bool begin(const char *label)
{
    if (only && !strstr(label, only)) return false;
    current = label;
    made++;
    memset(sink, 0, 8192);
    hole[0] = NULL;
    (void)alarm(30);
    if (getenv("WEFT_VERBOSE")) (void)fprintf(stderr, "%s\n", label);
    return true;
}

void refused(weft_status status)
{
    if (status == WEFT_OK)
        failure("returned OK");
    else if (!*weft_last_message())
        failure("no message");
    else if (status == WEFT_ERR_INTERNAL || status == WEFT_ERR_MEMORY)
        failure(weft_last_message());
}

void crashed(void)
{
    failure("crashed");
}

void neutral(bool is)
{
    if (!is) failure("returned something");
}

void *older(const void *right, size_t size)
{
    static char *page;
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (!page) {
        page = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED || mprotect(page + bytes, bytes, PROT_NONE) != 0) exit(1);
    }
    char *at = page + bytes - size;
    memcpy(at, right, size);
    memcpy(at, &size, sizeof(size));
    return at;
}

void aged(size_t i, bool whole, weft_status status)
{
    static bool taken;
    bool for_size = status == WEFT_ERR_ARGUMENT && strstr(weft_last_message(), "struct_size");
    if (i == 0) taken = false;
    if (taken && for_size) failure("a shorter struct was accepted");
    if (whole && status != WEFT_OK) failure(weft_last_message());
    if (status == WEFT_ERR_INTERNAL || status == WEFT_ERR_MEMORY) failure(weft_last_message());
    taken = taken || !for_size;
}

void graph_failed(void)
{
    if (weft_graph_status(fresh) == WEFT_OK) failure("the graph has not failed");
}

bool is_zero(const void *result)
{
    static const char zero[8];
    return memcmp(result, zero, sizeof(zero)) == 0;
}

bool is_none(int64_t result)
{
    return result == 0 || result == -1;
}

/* Without a sanitizer a call that crashes is counted, and the next ones follow. */
static void on_signal(int number)
{
    if (!calling || number == SIGALRM) {
        static const char hangs[] = "\nhangs or crashes: ";
        if (write(2, hangs, sizeof(hangs) - 1) < 0 || write(2, current, strlen(current)) < 0)
            _exit(1);
        _exit(1);
    }
    siglongjmp(before_call, 1);
}

/* --- objects --- */

void on_line(void *user, const char *line)
{
    (void)user;
    (void)line;
}

void on_span(void *user, const weft_span *span)
{
    (void)user;
    (void)span;
}

void on_layer(void *user, const weft_layer_summary *layer)
{
    (void)user;
    (void)layer;
}

void on_prediction(void *user, const weft_prediction *prediction)
{
    (void)user;
    (void)prediction;
}

bool on_text(void *user, const char *text, size_t size)
{
    (void)user;
    (void)text;
    (void)size;
    return false;
}

void on_part(void *user, weft_step_cause cause, const char *name, double seconds)
{
    (void)user;
    (void)cause;
    (void)name;
    (void)seconds;
}

static void done(void *user, const weft_request_result *result)
{
    (void)user;
    (void)result;
}

static weft_status run_batch(void *user, int executor, void *const *requests, int count,
                             int64_t rows)
{
    (void)user;
    (void)executor;
    (void)requests;
    (void)count;
    (void)rows;
    return WEFT_OK;
}

static void build(weft_graph **out)
{
    MUST(weft_graph_create(context, WEFT_F32, out));
    MUST(weft_model_build(*out, &right_weft_model_options, &values));
}

weft_graph *empty_graph(void)
{
    weft_graph_destroy(&fresh);
    MUST(weft_graph_create(context, WEFT_F32, &fresh));
    return fresh;
}

weft_graph *fresh_graph(void)
{
    (void)empty_graph();
    weft_value x = weft_graph_leaf(fresh, WEFT_VALUE_INPUT, "x", WEFT_F32, &shape,
                                   (weft_init){WEFT_INIT_CONSTANT, 0});
    weft_value s = weft_graph_leaf(fresh, WEFT_VALUE_STATE, "s", WEFT_F32, &shape,
                                   (weft_init){WEFT_INIT_CONSTANT, 0});
    (void)weft_graph_node(fresh, "relu", "y", &x, 1, NULL, 0);
    (void)s;
    MUST(weft_graph_status(fresh));
    return fresh;
}

weft_graph *differentiated_graph(void)
{
    weft_graph_destroy(&fresh);
    build(&fresh);
    MUST(weft_graph_differentiate(fresh, weft_model_value(&values, WEFT_PORT_LOSS)));
    return fresh;
}

static void make_program(void)
{
    weft_optimizer_values ignored;
    weft_model_options_init(&right_weft_model_options);
    right_weft_model_options.model = "mlp";
    weft_model_options_set_sample(&right_weft_model_options,
                                  weft_shape_of(3, (int64_t[]){1, 8, 8}));
    right_weft_model_options.batch = 2;
    right_weft_model_options.training = true;
    weft_optimizer_options_init(&right_weft_optimizer_options);
    build(&graph);
    MUST(weft_graph_differentiate(graph, weft_model_value(&values, WEFT_PORT_LOSS)));
    MUST(weft_optimizer_build(graph, &right_weft_optimizer_options, &ignored));
    MUST(weft_graph_create(context, WEFT_F32, &failed_graph));
    (void)weft_graph_leaf(failed_graph, WEFT_VALUE_INPUT, "x", WEFT_F32, &shape,
                          (weft_init){WEFT_INIT_CONSTANT, 0});
    (void)weft_graph_node(failed_graph, "no such operator", NULL, NULL, 0, NULL, 0);
    weft_plan_options_init(&right_weft_plan_options);
    MUST(weft_plan_create(graph, &right_weft_plan_options, &plan));
    MUST(weft_plan_rewrite(plan, graph, 0, &rewritten));
    weft_program_options_init(&right_weft_program_options);
    right_weft_program_options.fetch = fetch;
    right_weft_program_options.fetch_count = 1;
    MUST(weft_store_create(context, "reference", 1, &store));
    MUST(weft_program_create(store, graph, fetch, 1, &program));
    MUST(weft_instance_create(program, store, NULL, &instance));
    int local;
    MUST(weft_comm_open(context, "self", 1, &comm, &local));
    static float ones[4];
    right_weft_transfer = (weft_transfer){
        .kind = WEFT_ALL_REDUCE, .dtype = WEFT_F32, .send = ones, .receive = ones, .count = 4};
    MUST(weft_comm_prepare(comm, &right_weft_transfer, &operation));
}

static void set(const weft_option *rows, void *options, const char *const (*words)[2])
{
    for (; (*words)[0]; words++)
        must(weft_options_set(rows, options, (*words)[0], (*words)[1]), (*words)[0]);
}

static void train(const char *model, const char *spec, const char *steps, const char *to)
{
    weft_trainer *t;
    const weft_option *rows = weft_train_table(context);
    const char *const words[][2] = {{"model", model},        {"data", spec}, {"steps", steps},
                                    {"checkpoint", to},      {"batch", "4"}, {"threads", "1"},
                                    {"device", "reference"}, {NULL, NULL}};
    weft_train_options o = {0};
    MUST(weft_train_options_init(context, &o));
    set(rows, &o, words);
    MUST(weft_trainer_create(context, &o, &t));
    MUST(weft_trainer_run(t, NULL, NULL));
    weft_trainer_destroy(&t);
    weft_options_free(rows, &o);
}

/* A model of texts, which answers and generates. */
static void make_checkpoint(void)
{
    FILE *file = fopen(text_path, "w");
    if (!file) exit(1);
    for (int i = 0; i < 100; i++) (void)fputs("the warp holds the weft\n", file);
    (void)fclose(file);
    train("char-lstm:layers=1,units=4", data_text, "1", folder);
}

static void make_trainer(void)
{
    const weft_option *rows = weft_train_table(context);
    const char *const words[][2] = {{"model", "mlp"}, {"data", "glyphs:size=8,train=8,test=4"},
                                    {"batch", "4"},   {"steps", "1"},
                                    {"threads", "1"}, {"device", "reference"},
                                    {NULL, NULL}};
    MUST(weft_train_options_init(context, &right_weft_train_options));
    set(rows, &right_weft_train_options, words);
    MUST(weft_trainer_create(context, &right_weft_train_options, &trainer));
    MUST(weft_simulate_options_init(context, &right_weft_simulate_options));
    set(weft_simulate_table(context), &right_weft_simulate_options, words);
    MUST(weft_cluster_options_init(context, WEFT_CLUSTER_GUEST, &right_weft_cluster_options));
    MUST(weft_options_init(weft_measure_table(context), &right_weft_measure_options));
    right_weft_measure_options.seconds = 1;
    weft_search_options_init(&right_weft_search_options);
    weft_target_options_init(&right_weft_target_options);
    right_weft_target_options.cluster = missing;
    right_weft_finalist = (weft_finalist){.name = "a", .options = &right_weft_train_options};
    MUST(weft_dataset_open(context, "glyphs:size=8,train=8,test=4", "none", NULL, &dataset));
    MUST(weft_dataset_prepare(dataset, WEFT_TRAIN));
    MUST(weft_dataset_prepare(dataset, WEFT_TEST));
}

static void make_batcher(void)
{
    weft_batcher_options_init(&right_weft_batcher_options);
    MUST(weft_batcher_create(context, &right_weft_batcher_options, &batcher));
    weft_batch_queue_options_init(&right_weft_batch_queue_options);
    right_weft_batch_queue_options.run = run_batch;
    MUST(weft_batch_queue_add(batcher, &right_weft_batch_queue_options, &queue));
    weft_request_init(&right_weft_request);
    right_weft_request.done = done;
    weft_forecast_options_init(&right_weft_forecast_options);
    static const int64_t rows[] = {1};
    static const double seconds[] = {0.001};
    right_weft_forecast_options.curve_rows = rows;
    right_weft_forecast_options.curve_times = seconds;
    right_weft_forecast_options.curve_sizes = 1;
    right_weft_forecast_options.requests = 100;
}

static void make_service(void)
{
    int port, metrics;
    static float x[64];
    static double prediction[4096];
    weft_service_options_init(&right_weft_service_options);
    right_weft_service_options.device = "reference";
    right_weft_service_options.measure = 0;
    right_weft_service_options.times = "none";
    right_weft_service_options.threads = 1;
    right_weft_service_options.limit = 2;
    MUST(weft_service_create(context, &right_weft_service_options, &service));
    MUST(weft_service_load(service, "m", checkpoint));
    servable = weft_service_hold(service, "m", 0);
    weft_inference_request_init(&right_weft_inference_request);
    right_weft_inference_request.x = x;
    right_weft_inference_request.prediction = prediction;
    right_weft_inference_request.done = done;
    weft_generation_request_init(&right_weft_generation_request);
    right_weft_generation_request.token = on_text;
    right_weft_generation_request.done = done;
    MUST(weft_options_init(weft_server_table(context), &right_weft_server_options));
    right_weft_server_options.port = 0;
    right_weft_server_options.metrics_port = -1;
    right_weft_server_options.quiet = true;
    MUST(weft_server_start(service, &right_weft_server_options, &server));
    weft_server_ports(server, &port, &metrics);
    (void)snprintf(target, sizeof(target), "http://127.0.0.1:%d/v2/models/m", port);
    MUST(weft_options_init(weft_load_table(context), &right_weft_load_options));
    MUST(weft_load_open(context, &right_weft_load_options, targets, 1, NULL, &load));
}

static void make_rest(void)
{
    char path[600];
    MUST(weft_generator_open(context, checkpoint, "reference", NULL, 1, &generator));
    MUST(weft_generator_feed(generator, 1));
    MUST(weft_options_init(weft_generate_table(), &right_weft_generate_options));
    MUST(weft_options_set(weft_generate_table(), &right_weft_generate_options, "checkpoint",
                          checkpoint));
    MUST(weft_options_init(weft_eval_table(), &right_weft_eval_options));
    MUST(weft_options_set(weft_eval_table(), &right_weft_eval_options, "checkpoint", checkpoint));
    MUST(weft_options_set(weft_eval_table(), &right_weft_eval_options, "threads", "1"));
    (void)snprintf(path, sizeof(path), "%s/out", folder);
    MUST(weft_output_open(path, WEFT_OUTPUT_REPLACE, &output));
    MUST(weft_options_init(table, &table_target));
}

static void end(void)
{
    weft_output *ended = output;
    (void)!weft_output_close(&ended, false);
    weft_load_close(&load);
    weft_server_stop(&server);
    weft_servable_release(&servable);
    weft_service_destroy(&service);
    weft_batcher_destroy(&batcher);
    weft_generator_close(&generator);
    weft_trainer_destroy(&trainer);
    weft_dataset_close(&dataset);
    weft_operation_destroy(&operation);
    weft_comm_close(&comm);
    weft_rewritten_destroy(&rewritten);
    weft_plan_destroy(&plan);
    weft_instance_destroy(&instance);
    weft_program_destroy(&program);
    weft_store_destroy(&store);
    weft_graph_destroy(&fresh);
    weft_graph_destroy(&failed_graph);
    weft_graph_destroy(&graph);
    weft_options_free(weft_train_table(context), &right_weft_train_options);
    weft_options_free(weft_simulate_table(context), &right_weft_simulate_options);
    weft_cluster_options_free(context, &right_weft_cluster_options);
    weft_options_free(weft_measure_table(context), &right_weft_measure_options);
    weft_options_free(weft_server_table(context), &right_weft_server_options);
    weft_options_free(weft_load_table(context), &right_weft_load_options);
    weft_options_free(weft_generate_table(), &right_weft_generate_options);
    weft_options_free(weft_eval_table(), &right_weft_eval_options);
    weft_context_destroy(&context);
}

/* Arguments: a part of the labels of the calls to make, for one that fails. */
int main(int argc, char **argv)
{
    char remove_it[600];
    if (!mkdtemp(folder)) return 1;
    (void)snprintf(missing_path, sizeof(missing_path), "%s/none/none", folder);
    (void)snprintf(checkpoint_path, sizeof(checkpoint_path), "%s/latest", folder);
    (void)snprintf(text_path, sizeof(text_path), "%s/text", folder);
    (void)snprintf(data_text, sizeof(data_text), "text:%s,context=4", text_path);
    MUST(weft_context_create(&context));
    MUST(weft_context_set_threads(context, 1));
    make_program();
    make_checkpoint();
    make_trainer();
    make_batcher();
    make_service();
    make_rest();
    only = argc > 1 ? argv[1] : NULL;
#if !defined(__SANITIZE_ADDRESS__)
    struct sigaction catch = {.sa_handler = on_signal, .sa_flags = SA_NODEFER};
    (void)sigaction(SIGSEGV, &catch, NULL);
    (void)sigaction(SIGBUS, &catch, NULL);
    (void)sigaction(SIGFPE, &catch, NULL);
    (void)sigaction(SIGABRT, &catch, NULL);
    (void)sigaction(SIGALRM, &catch, NULL);
#endif
    calling = 1;
    all_calls();
    for (weft_value v = -2; v < 4; v++) calls_on_failed_graph(v);
    (void)alarm(0);
    calling = 0;
    end();
    (void)snprintf(remove_it, sizeof(remove_it), "rm -rf %s", folder);
    if (system(remove_it) != 0) return 1;
    printf("%d wrong calls, %d failures\n", made, failures);
    return failures > 0;
}
