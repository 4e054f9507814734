"""The right argument where the type does not say it, and what is not wrong, with the reason."""

# By function and parameter, by parameter and type, or by type.
RIGHT = {
    "weft_context *": "context", "const weft_context *": "context",
    "weft_graph *": "fresh_graph()", "const weft_graph *": "graph",
    "weft_store *": "store", "const weft_store *": "store",
    "weft_program *": "program", "const weft_program *": "program",
    "weft_instance *": "instance", "const weft_instance *": "instance",
    "weft_plan *": "plan", "const weft_plan *": "plan", "const weft_rewritten *": "rewritten",
    "weft_comm *": "comm", "const weft_comm *": "comm", "weft_operation *": "operation",
    "weft_dataset *": "dataset", "const weft_dataset *": "dataset",
    "weft_trainer *": "trainer", "const weft_trainer *": "trainer",
    "weft_generator *": "generator", "const weft_generator *": "generator",
    "weft_batcher *": "batcher", "weft_batch_queue *": "queue",
    "weft_service *": "service", "weft_servable *": "servable", "const weft_servable *": "servable",
    "weft_server *": "server", "const weft_server *": "server",
    "weft_load *": "load", "const weft_load *": "load", "weft_output *": "output",
    "const weft_option *": "table", "target void *": "&table_target", "target const void *": "&table_target",
    "const weft_model_values *": "&values", "weft_value": "1", "weft_shape": "shape", "weft_init": "(weft_init){WEFT_INIT_CONSTANT, 0}",
    "const weft_shape *": "&shape", "const weft_type *": "&type", "const weft_attr *": "NULL",
    "const weft_fit *": "&fit", "const weft_report *": "&report", "const weft_entry *": "&entry",
    "const weft_stop *": "&stop", "const weft_error *": "&stored", "const weft_value *": "fetch",
    "const weft_comms *": "NULL", "const weft_listener *": "NULL", "const weft_data_stats *": "NULL",
    "const weft_load_histogram *": "&histogram", "const weft_sampling *": "&sampling",
    "const char *": '"none"', "const char *const *": "targets", "const char **": "(const char **)(void *)sink",
    "char *": "(char *)sink", "char *const *": "NULL",
    "const double *": "numbers", "const int64_t *": "cells", "const void *": "sink", "void *": "sink",
    "int": "0", "int32_t": "0", "int64_t": "0", "size_t": "1", "double": "0", "bool": "false", "long long": "1",
    "uint32_t": "0", "uint64_t": "1",
    "count int": "1", "rank int": "0", "ranks int": "1", "stages int": "2", "microbatches int": "2", "threads int": "1",
    "digits int": "6", "leaves int": "2", "last int": "1", "busy int": "1", "rows int64_t": "1", "fetch_count int": "1",
    "passes int": "1", "inputs int": "1", "outputs int": "1", "events size_t": "0", "size size_t": "64", "room size_t": "64",
    "device const char *": '"reference"', "engine const char *": '"self"', "mesh const char *": '"data=1"', "axis const char *": '"data"',
    "path const char *": "missing", "checkpoint const char *": "checkpoint", "folder const char *": "missing", "file const char *": "missing",
    "address const char *": '"tcp://127.0.0.1:1"', "list const char *": '"reference"', "spec const char *": "data",
    "kind const char *": '"gpipe"', "program const char *": '"/nonexistent/weft"', "text const char *": '"text"',
    "signature const char *": '"a -> a"', "normalize const char *": '"none"', "name const char *": '"name"', "op const char *": '"relu"',
    "weft_log_fn": "NULL", "weft_job_fn": "on_line", "weft_event_fn": "NULL", "weft_measure_fn": "NULL", "weft_search_fn": "NULL", "weft_predict_fn": "on_prediction",
    "weft_generate_fn": "on_text", "weft_step_part_fn": "on_part", "weft_cluster_fn": "NULL", "weft_load_tick *": "NULL", "weft_target_fn": "NULL", "const weft_finalist *": "&right_weft_finalist",
    "void (*)(void *user, double latency)": "NULL", "void (*)(void *user, int port, const int *metrics)": "NULL",
    "weft_model_options *": "&scratch_model", "const weft_transfer *": "&right_weft_transfer",
    "weft_layer_fn": "on_layer", "weft_span_fn": "on_span",
    ("weft_train_summary", "input"): '"1x9x9"', ("weft_train_summary", "classes"): "2",
    ("weft_graph_node", "inputs"): "fetch", ("weft_graph_node", "input_count"): "1", ("weft_graph_node", "attr_count"): "0",
    ("weft_graph_leaf", "kind"): "WEFT_VALUE_INPUT",
    ("weft_plan_rewrite", "graph"): "graph", ("weft_instance_input", "input"): "0",
    ("weft_option_help", "option"): "table", ("weft_option_choices", "option"): "table",
    ("weft_options_set", "name"): '"count"', ("weft_options_set", "text"): '"1"', ("weft_options_get", "name"): '"count"',
    ("weft_options_parse", "argv"): "NULL", ("weft_options_parse", "argc"): "0",
    ("weft_options_load_text", "data"): '"count: 1"', ("weft_options_load_text", "size"): "8",
    ("weft_model_build", "graph"): "empty_graph()", ("weft_optimizer_build", "graph"): "differentiated_graph()",
    ("weft_context_entry", "kind"): "WEFT_KIND_MODEL", ("weft_context_name", "kind"): "WEFT_KIND_MODEL",
    ("weft_labels_check", "shapes"): "shapes", ("weft_load_open", "targets"): "targets",
    ("weft_service_load", "path"): "checkpoint", ("weft_layer_keys", "type"): '"linear"',
    ("weft_store_find", "name"): "weft_store_name(store, 0)", ("weft_graph_find", "leaf"): "weft_graph_value_name(graph, 0)",
    ("weft_dtype_parse", "name"): '"f32"', ("weft_mesh_ranks", "mesh"): '"data=2"',
    ("weft_job_status_line", "what"): '"io"', ("weft_server_supervise", "models"): "NULL", ("weft_server_supervise", "model_count"): "0",
    ("weft_store_gather", "comm"): "NULL", ("weft_store_gather", "image"): "NULL", ("weft_trainer_rejoin", "trainer"): "(weft_trainer **)(void *)hole",
}

# Pointers that may be NULL, as the headers say.
NULLABLE = {
    "weft_batch_queue_submit": ("ticket",), "weft_servable_submit": ("ticket",), "weft_comm_set_note": ("note",),
    "weft_context_set_log": ("fn",), "weft_dataset_open": ("normalize", "stats"), "weft_dataset_open_validated": ("normalize", "stats", "validation"), "weft_dataset_open_unlabelled": ("stats",), "weft_dataset_set_augment": ("list",),
    "weft_forecast_run": ("each",), "weft_generator_open": ("mesh",), "weft_graph_node": ("name", "attrs"),
    "weft_graph_role": ("parameter",), "weft_shape_of": ("dim",), "weft_keys_make": ("public_key",), "weft_load_open": ("stop",), "weft_load_run": ("tick",),
    "weft_load_at": ("planned",), "weft_load_model": ("where",), "weft_options_parse": ("argv", "words"),
    "weft_options_load_text": ("data",), "weft_schedule_check": ("makespan", "bubble"),
    "weft_store_gather": ("image", "comm", "data"), "weft_instance_create": ("comms",), "weft_instance_build_with": ("comms",),
    "weft_instance_listen": ("listener",), "weft_instance_diagnose": ("made", "value"), "weft_server_ports": ("port", "metrics"),
    "weft_server_supervise": ("models", "on_ready", "on_line"), "weft_service_load": ("path",),
    "weft_coordinator_run": ("stop", "tell"), "weft_server_run": ("stop",), "weft_trainer_join": ("stop",),
    "weft_trainer_rejoin": ("stop",), "weft_cluster_look": ("stop",), "weft_trainer_was_lost": ("quiet_seconds",),
    "weft_simulate": ("stop", "fn"), "weft_measure": ("stop", "fn"), "weft_strategies_search": ("stop", "fn"), "weft_trainer_run": ("fn",), "weft_train_refuse_overwrite": ("path",), "weft_time_to_target": ("stop", "fn"), "weft_estimate_step_until": ("stop",), "weft_estimate_memory": ("cluster",), "weft_estimate_plan": ("cluster", "step"),
    "weft_model_output_at": ("value",), "weft_free": ("memory",), "weft_job_run": ("tell", "arguments"), "weft_generate": ("fn",), "weft_predict": ("fn",),
    "weft_train_summary": ("input",),
}

# The neutral value of a result `r`, where it is not 0, NULL, false, -1 or WEFT_NO_VALUE.
NEUTRAL = {
    "weft_status_name": "strcmp(r, \"unknown\") == 0",
    "weft_plural": "r != NULL", "weft_shape_of": "r.rank == -1",
    # A node refuses an attribute without elements.
    "weft_attr_tensor": "r.count == -1 || !weft_attr_data(&r, NULL)", "weft_attr_text": "r.count == -1 || !weft_attr_data(&r, NULL)",
    "weft_graph_real": "r == WEFT_F32", "weft_graph_role": "r == WEFT_ROLE_DATA", "weft_graph_value_kind": "r == WEFT_VALUE_INPUT",
    "weft_store_kind": "r == WEFT_VALUE_INPUT", "weft_store_role": "r == WEFT_ROLE_DATA",
}

# Functions without a wrong call, and why.
SKIPPED = {
    "weft_output_print": "the compiler checks its format; test_wrong_calls.c has its NULL",
    "weft_free": "takes any pointer of the library, and NULL",
    "weft_output_abandon_all": "has no arguments, and ends the outputs of the process",
}

# Functions that take a graph and do not make it fail: each is a question, or fails by itself.
UNTOUCHED = {"weft_graph_status", "weft_graph_find", "weft_graph_text", "weft_graph_dot", "weft_graph_part", "weft_graph_node_labels"}

# Values that are not wrong, by function, parameter and value, by the first two, or by the last two; fields by their struct.
ALLOWED = {
    # Any number, text or enumerator is right.
    "seed": "any number", "ticket": "a ticket that is unknown is not found", "priority": "any number", "key": "any number",
    ("weft_comm_split", "color"): "below 0: the rank is in no group", ("weft_json_real", "value"): "not a number is written as null",
    ("weft_number_put", "number"): "not a number is a number of a float", ("weft_plural", "count"): "any number",
    ("weft_train_plan_text", "dump_rank", "-1"): "below 0: no dump", ("weft_train_plan_text", "dump_rank", "INT_MIN"): "below 0: no dump",
    ("weft_estimate_plan", "dump_rank", "-1"): "below 0: no dump", ("weft_estimate_plan", "dump_rank", "INT_MIN"): "below 0: no dump",
    ("weft_instance_trace_events", "origin"): "below 0: since the first event",
    ("weft_graph_set_role", "parameter", "WEFT_NO_VALUE"): "belongs to no parameter",
    ("weft_printable", "text"): "any text", ("weft_json_string", "text", '""'): "any text", ("weft_error_catch", "status"): "any status is stored",
    ("weft_job_failed_elsewhere", "status"): "a status that is none has not failed elsewhere",
    ("weft_attr_text", "text", '""'): "any text", ("weft_dataset_draw", "epoch", "INT64_MAX"): "a run may have so many",
    ("weft_job_status_line", "message"): "an empty message marks progress", ("weft_job_status_line", "what", '""'): "any text",
    ("weft_generator_encode", "text", '""'): "no token", ("weft_options_load_text", "name", '""'): "any name",
    ("weft_options_refuse_overwrite", "what", '""'): "any text", ("weft_options_refuse_overwrite", "path", '""'): "no file",
    ("weft_train_refuse_overwrite", "option", '""'): "any text", ("weft_train_refuse_overwrite", "path", '""'): "no file",
    ("weft_model_build_text", "name", '""'): "any name",
    ("weft_generate_options", "prompt"): "an empty prompt is none",
    ("weft_instance_trace_events", "rank", "INT_MAX"): "a job may have so many ranks",
    ("weft_context_register", "count", "INT_MAX"): "the caller's list has so many",
    ("weft_numbers_put", "n", "INT64_MAX"): "the caller's arrays have so many", ("weft_numbers_cast", "n", "INT64_MAX"): "the caller's arrays have so many",
    ("weft_numbers_put", "first", "INT64_MAX"): "the caller's array has so many",
    ("weft_number_get", "i", "INT64_MAX"): "the caller's array has so many",
    ("weft_number_put", "i", "INT64_MAX"): "the caller's array has so many",
    ("weft_generation_request", "sampling.seed"): "any number",
    ("weft_eval_options", "output"): "an evaluation has no output",
    ("weft_eval_options", "masks"): "an evaluation writes no masks",
    ("weft_transfer", "what"): "any text", ("weft_transfer", "peer"): "an all-reduce has no root",
    ("weft_batch_queue_batch_time", "rows", "INT64_MAX"): "the time is estimated for any number",
    ("weft_batch_queue_batch_time", "busy", "INT_MAX"): "as for all executors",
    ("weft_tree_parts", "leaves", "INT_MAX"): "a tree may have so many leaves",
    ("weft_device_of_rank", "rank", "INT_MAX"): "ranks take the devices in turn",
    ("weft_generator_needed", "count", "INT64_MAX"): "a sequence may be so long",
    ("weft_options_parse", "max_words", "INT_MAX"): "room for so many words",
    ("weft_plan_options", "mesh"): "empty: none, as NULL", ("weft_plan_options", "shard"): "empty: none, as NULL",
    ("weft_plan_options", "place"): "empty: none, as NULL", ("weft_mesh_ranks", "mesh", '""'): "empty: one rank",
    ("weft_mesh_axis", "mesh", '""'): "empty: one rank",
}

# Structs whose fields are made wrong one by one, and the functions that get them.
FIELDS = {
    "weft_batcher_options": ("weft_batcher_create",), "weft_batch_queue_options": ("weft_batch_queue_add",),
    "weft_request": ("weft_batch_queue_submit",), "weft_forecast_options": ("weft_forecast_run",),
    "weft_model_options": ("weft_model_build",), "weft_optimizer_options": ("weft_optimizer_build",),
    "weft_plan_options": ("weft_plan_create",), "weft_program_options": ("weft_program_create_with", "weft_instance_build_with"),
    "weft_service_options": ("weft_service_create",), "weft_inference_request": ("weft_servable_submit",),
    "weft_generation_request": ("weft_servable_generate",), "weft_transfer": ("weft_comm_prepare", "weft_comm_run"),
    "weft_eval_options": ("weft_evaluate",), "weft_generate_options": ("weft_generate",), "weft_load_options": ("weft_load_open",),
    "weft_server_options": ("weft_server_start",), "weft_train_options": ("weft_trainer_create", "weft_trainer_create_dry", "weft_job_check"),
    "weft_simulate_options": ("weft_simulate_check",), "weft_measure_options": ("weft_measure",), "weft_search_options": ("weft_strategies_search",), "weft_cluster_options": ("weft_cluster_look",), "weft_target_options": ("weft_time_to_target",),
}

# What ends the object that a right call has made.
MADE = {
    "weft_batcher_create": "weft_batcher_destroy((weft_batcher **)(void *)hole);",
    "weft_batch_queue_add": "weft_batch_queue_remove((weft_batch_queue **)(void *)hole, false);",
    "weft_plan_create": "weft_plan_destroy((weft_plan **)(void *)hole);",
    "weft_program_create_with": "weft_program_destroy((weft_program **)(void *)hole);",
    "weft_instance_build_with": "weft_instance_destroy((weft_instance **)(void *)hole);",
    "weft_service_create": "weft_service_destroy((weft_service **)(void *)hole);",
    "weft_load_open": "weft_load_close((weft_load **)(void *)hole);",
    "weft_server_start": "weft_server_stop((weft_server **)(void *)hole);",
    "weft_evaluate": "weft_report_free((weft_report *)(void *)sink);",
}
