/* Resumes from a checkpoint: locks the checkpoint folder, opens the newest checkpoint, checks that
 * the run has the data, model and optimizer of the run that wrote it, and opens the outputs. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "data/data.h"
#include "models/models.h"
#include "train/trainer.h"
#include "weft/output.h"

/* Whether weights are stored in another type: those of bf16 runs are f32. */
static bool stored_otherwise(const weft_trainer *t, const char *option)
{
    weft_dtype now = WEFT_F32, then = WEFT_F32;
    (void)weft_dtype_parse(weft_settings_find(&t->settings, option), &now);
    (void)weft_dtype_parse(weft_settings_find(&t->resumed.settings, option), &then);
    return (now == WEFT_F64) != (then == WEFT_F64);
}

/* ARGUMENT: a resumed run changes an option that it must keep. --drop-state lets an option change
 * on which only state depends. */
static weft_status check_options(weft_trainer *t)
{
    const weft_checkpoint *c = &t->resumed;
    WEFT_TRY(weft_resume_find_changes(t));
    for (const weft_option *o = weft_train_table(t->context); o->name; o++) {
        bool state, same;
        weft_resume_rule rule = weft_resume_rule_of(o->name, &state);
        bool stored = rule == WEFT_RESUME_STORED && stored_otherwise(t, o->name);
        if ((rule != WEFT_RESUME_KEEPS && !stored) || (state && t->options.output.drop_state))
            continue;
        WEFT_TRY(weft_resume_same(t, o, &same));
        if (same || (t->begins_phase && weft_resume_in_phase(o->name))) continue;
        const char *then = weft_settings_find(&c->settings, o->name);
        const char *now = weft_settings_find(&t->settings, o->name);
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "%s was made with %s--%s%s%s, this run has %s; a resumed run must have the same%s",
            c->path, then ? "" : "no ", o->name, then ? " " : "", then ? then : "",
            now ? now : "none", state ? ", or --drop-state to begin with new optimizer state" : "");
    }
    return WEFT_OK;
}

static weft_status check_layers(const weft_trainer *t)
{
    char *then;
    WEFT_TRY(weft_format(&then, "%s/model.yaml", t->resumed.path));
    weft_status status =
        weft_model_compare(t->context, t->options.task.model, &t->model, then, &t->resumed.model);
    if (status == WEFT_ERR_ARGUMENT)
        status =
            weft_fail(status, "%s; a resumed run must have the same model, which --model %s gives",
                      weft_last_message(), then);
    free(then);
    return status;
}

/* Sets *out to the network of a built-in model as text. */
static weft_status network_text(const weft_trainer *t, const char *name, char **out)
{
    weft_model_options o;
    weft_model_values values;
    weft_graph *graph;
    weft_model_options_init(&o);
    o.model = name;
    weft_model_options_fit(&o, weft_dataset_stats(t->data));
    o.batch = 1;
    o.training = true;
    WEFT_TRY(weft_graph_create(t->context, WEFT_F32, &graph));
    weft_status status = weft_model_build(graph, &o, &values);
    if (status == WEFT_OK) status = weft_graph_text(graph, out);
    weft_graph_destroy(&graph);
    return status;
}

/* Whether two built-in models are the same network, although their keys are written otherwise. */
static weft_status same_network(const weft_trainer *t, const char *now, const char *then,
                                bool *same)
{
    char *a = NULL, *b = NULL;
    size_t size = strcspn(now, ":");
    *same = strcmp(now, then) == 0;
    if (*same || size != strcspn(then, ":") || strncmp(now, then, size) != 0) return WEFT_OK;
    weft_status status = network_text(t, now, &a);
    if (status == WEFT_OK) status = network_text(t, then, &b);
    *same = status == WEFT_OK && strcmp(a, b) == 0;
    free(a);
    free(b);
    return status;
}

/* ARGUMENT: the run's model differs from that of the checkpoint. YAML files are compared by their
 * contents, since the path may differ. */
static weft_status check_model(const weft_trainer *t)
{
    bool file = t->model.size > 0, was_file = t->resumed.model.size > 0;
    const char *then = weft_settings_find(&t->resumed.settings, "model");
    bool same = false;
    if (file && was_file) return check_layers(t);
    if (!file && !was_file) WEFT_TRY(same_network(t, t->options.task.model, then, &same));
    if (same) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s was made with --model %s, this run has %s; a resumed run must have the "
                     "same, or another folder",
                     t->resumed.path, then, t->options.task.model);
}

/* A run whose model is the copy in the checkpoint, since its file is gone, still names that file:
 * the folder of the checkpoint will be gone, too. */
static weft_status keep_name(weft_trainer *t)
{
    const char *then = weft_settings_find(&t->resumed.settings, "model"),
               *name = strrchr(t->options.task.model, '/');
    bool copied = t->resumed.model.size > 0 && name && strcmp(name, "/model.yaml") == 0;
    if (!copied || !then || weft_file_exists(then)) return WEFT_OK;
    free(t->options.task.model);
    t->options.task.model = NULL;
    WEFT_TRY(weft_strdup(then, &t->options.task.model));
    weft_settings_free(&t->settings);
    t->settings = (weft_settings){0};
    return weft_settings_take(weft_train_table(t->context), &t->options, &t->settings);
}

weft_status weft_trainer_read_model(weft_trainer *t)
{
    if (t->model.size == 0 && weft_model_is_file(t->options.task.model)) {
        /* A copy, since a user may edit the file during the run. */
        weft_status status = weft_file_read(t->options.task.model, &t->model);
        if (status != WEFT_OK && t->resumed.model.size > 0)
            return weft_fail(status, "%s; %s/model.yaml is the one that this run was begun with",
                             weft_last_message(), t->resumed.path);
        WEFT_TRY(status);
        if (t->model.size == 0)
            return weft_fail(WEFT_ERR_FORMAT, "%s: is empty; give layers under the key 'layers'",
                             t->options.task.model);
    }
    if (!t->resumed.path) return WEFT_OK;
    WEFT_TRY(check_model(t));
    return keep_name(t);
}

/* Locks the checkpoint folder against other runs, on the rank that writes checkpoints: rank 0 of a
 * learner. A coordinator writes none, nor do learners of a job whose slot is not 0. */
static weft_status take_folder(weft_trainer *t)
{
    const char *folder = t->options.output.checkpoint;
    bool looks = t->linked && (!t->link.coordinator || (t->link.job && t->link.slot > 0));
    if (t->runs[0].rank.rank != 0 || looks) return WEFT_OK;
    return weft_folder_lock(folder, weft_job_name(), 2 * t->options.job.timeout, &t->folder_lock);
}

/* A new run never writes into the folder of an old one. */
static weft_status refuse_new_run(const weft_trainer *t, int count)
{
    if (count == 0 || t->options.output.resume) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT, "%s already holds %d checkpoint%s; %s",
                     t->options.output.checkpoint, count, weft_plural(count),
                     t->run_spec.simulated
                         ? "give another folder, since a simulation always starts anew (weft train "
                           "--resume continues from these)"
                         : "add --resume to go on, or give another folder");
}

static weft_status count_checkpoints(const weft_trainer *t, int *count)
{
    int64_t *steps;
    WEFT_TRY(weft_checkpoint_list(t->options.output.checkpoint, &steps, count));
    free(steps);
    return refuse_new_run(t, *count);
}

weft_status weft_train_refuse_overwrite(const weft_train_options *options, const char *option,
                                        const char *path)
{
    WEFT_NEED(options, option);
    const weft_task_choice *task = &options->task;
    if (!path) return WEFT_OK;
    if (!task->model || !task->data)
        return weft_fail(WEFT_ERR_ARGUMENT, "the options have no model or no data; "
                                            "weft_train_options_init sets them");
    if (weft_model_is_file(task->model) && weft_output_same(task->model, path))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "--%s %s is the model file, which would be lost; give another", option,
                         path);
    if (task->init) WEFT_TRY(weft_initial_refuse_overwrite(task->init, option, path));
    WEFT_TRY(weft_spec_refuse_overwrite(task->data, option, path));
    return weft_checkpoint_refuse_overwrite(option, path);
}

/* The outputs of a run, each with the option that names it. */
typedef struct outputs {
    const weft_train_options *options;
    int count;
    struct {
        const char *option;
        char *path;
    } all[WEFT_MOST_METRICS + 3];
} outputs;

/* Adds an output, which must be no other output and no input. */
static weft_status add_output(outputs *o, const char *option, const char *path)
{
    if (!path) return WEFT_OK;
    for (int i = 0; i < o->count; i++)
        if (weft_output_same(o->all[i].path, path))
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "--%s %s and --%s %s are the same file; each needs one of its own",
                             o->all[i].option, o->all[i].path, option, path);
    o->all[o->count].option = option;
    return weft_strdup(path, &o->all[o->count++].path);
}

static weft_status add_metrics(void *user, const struct weft_metrics_format *format,
                               const char *path)
{
    outputs *o = user;
    (void)format;
    WEFT_TRY(add_output(o, "metrics", path));
    return weft_train_refuse_overwrite(o->options, "metrics", path);
}

/* Checks that no output file is given twice, or is also an input. */
static weft_status check_outputs(const weft_train_options *options)
{
    const weft_output_choice *o = &options->output;
    outputs all = {.options = options};
    weft_status status = WEFT_OK;
    if (o->metrics) status = weft_metrics_each(o->metrics, add_metrics, &all);
    if (status == WEFT_OK) status = add_output(&all, "trace", o->trace);
    if (status == WEFT_OK) status = add_output(&all, "checkpoint", o->checkpoint);
    if (status == WEFT_OK) status = add_output(&all, "tune", options->where.tune);
    for (int i = 0; i < all.count; i++) free(all.all[i].path);
    return status == WEFT_OK ? weft_train_refuse_overwrite(options, "trace", o->trace) : status;
}

void weft_log_new_run(const weft_context *context, const char *folder)
{
    weft_log(context, WEFT_LOG_NOTE, "%s holds no checkpoint, so --resume starts a new run",
             folder);
}

/* Handles --resume without a checkpoint. A member of an elastic run fails, since it must not begin
 * with fresh weights; members of a job pass, as they may be restarted before the first checkpoint
 * exists. Any other run logs that it starts anew. */
static weft_status find_nothing(const weft_trainer *t)
{
    const weft_output_choice *o = &t->options.output;
    if (!o->resume || (t->linked && t->link.job)) return WEFT_OK;
    if (!t->linked) {
        if (t->runs[0].rank.rank == 0) weft_log_new_run(t->context, o->checkpoint);
        return WEFT_OK;
    }
    if (!o->checkpoint)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "--resume needs --checkpoint FOLDER, the folder of the checkpoint from which "
            "the run continues");
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s holds no checkpoint to go on from; give the folder that has it, or leave "
                     "--resume out",
                     o->checkpoint);
}

/* ARGUMENT: the folder had checkpoints, since its link is left. A run with fresh weights would
 * replace what else is left of it, such as metrics. */
static weft_status refuse_lost(const char *folder)
{
    char *latest, to[128] = "";
    WEFT_TRY(weft_format(&latest, "%s/latest", folder));
    ssize_t size = readlink(latest, to, sizeof(to) - 1);
    free(latest);
    if (size < 0) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "%s/latest names %s, which is not there, nor is another checkpoint; put one "
                     "back to resume, or remove the link to start a new run",
                     folder, to);
}

/* Opens the checkpoint, if there is one. */
static weft_status open_resumed(weft_trainer *t)
{
    const char *folder = t->options.output.checkpoint;
    int count;
    bool found;
    if (!weft_file_exists(folder)) return WEFT_OK;
    WEFT_TRY(count_checkpoints(t, &count));
    WEFT_TRY(weft_checkpoint_found(folder, &found));
    if (!found) return t->options.output.resume ? refuse_lost(folder) : WEFT_OK;
    WEFT_TRY(weft_checkpoint_open(folder, weft_train_table(t->context), &t->resumed));
    return refuse_new_run(t, 1); /* the only one is `latest` */
}

/* The checkpoint that one process has loaded. */
typedef struct loaded {
    uint64_t checksum; /* 0: nothing */
    int64_t step;
    char host[64];
} loaded;

static const char *loaded_text(const loaded *l, int rank, char *out, size_t size)
{
    if (l->checksum)
        (void)snprintf(out, size, "rank %d on %s has the checkpoint of step %lld (%08llx)", rank,
                       l->host, (long long)l->step, (unsigned long long)(l->checksum - 1));
    else
        (void)snprintf(out, size, "rank %d on %s has no checkpoint", rank, l->host);
    return out;
}

/* Ranks that are processes look each for itself, maybe on disks of their own or through caches of a
 * network file system. Replicas with different weights would never be noticed later. */
static weft_status compare_resumed(const weft_trainer *t)
{
    char a[200], b[200];
    int other = 0, n = t->size;
    loaded mine = {.checksum = t->resumed.checksum, .step = t->resumed.position.step}, *all;
    (void)gethostname(mine.host, sizeof(mine.host) - 1);
    WEFT_TRY(WEFT_NEW(&all, n));
    weft_status status =
        weft_comm_run(t->worlds[0], WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8,
                                                  .what = "the check of checkpoints", .send = &mine,
                                                  .receive = all, .count = sizeof(mine)));
    for (int i = n; i-- > 1;)
        if (all[i].checksum != all[0].checksum) other = i;
    if (status == WEFT_OK && other > 0)
        status = weft_fail(WEFT_ERR_ARGUMENT,
                           "%s: %s, but %s; all ranks must see the same folder, on a file system "
                           "that their machines share",
                           t->options.output.checkpoint, loaded_text(&all[0], 0, a, sizeof(a)),
                           loaded_text(&all[other], other, b, sizeof(b)));
    free(all);
    return status;
}

weft_status weft_trainer_find_resumed(weft_trainer *t)
{
    const char *folder = t->options.output.checkpoint;
    bool several = t->worlds[0] && t->local < t->size; /* ranks are processes */
    WEFT_TRY(check_outputs(&t->options));
    if (!folder) return find_nothing(t);
    WEFT_TRY(weft_folder_suits_run(folder));
    if (weft_file_exists(folder)) WEFT_TRY(take_folder(t));
    if (t->rejoins) return WEFT_OK; /* the run is ahead of its checkpoint */
    /* A writer that still had the lock may have left another checkpoint meanwhile. */
    if (several) WEFT_TRY(weft_comm_barrier(t->worlds[0]));
    WEFT_TRY(open_resumed(t));
    if (several) WEFT_TRY(compare_resumed(t));
    WEFT_TRY(weft_trainer_enter_phase(t));
    if (!t->resumed.path) return find_nothing(t);
    t->link.checkpoint = t->resumed.state_checksum;
    t->link.step = t->resumed.position.step;
    t->link.checkpoint_run = t->resumed.run;
    return check_options(t);
}

/* Makes the checkpoint folder and locks it, and fails before the run begins if checkpoints cannot
 * be written there. */
static weft_status check_folder(weft_trainer *t, int64_t step)
{
    const char *folder = t->options.output.checkpoint;
    int count = 0;
    WEFT_TRY(weft_dir_make(folder));
    if (t->folder_lock < 0) { /* not locked yet, as when the folder did not exist */
        WEFT_TRY(take_folder(t));
        WEFT_TRY(count_checkpoints(t, &count));
    }
    if (count > 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "%s: another run has written checkpoints there since this one began; "
                         "begin again",
                         folder);
    WEFT_TRY(weft_folder_check(folder, step, t->total_steps));
    if (access(folder, W_OK) == 0) return weft_folder_name_latest(folder, &t->resumed);
    return weft_fail(WEFT_ERR_IO, "%s: cannot be written: %s; choose another folder", folder,
                     strerror(errno));
}

weft_status weft_trainer_open_outputs(weft_trainer *t, int64_t step)
{
    const weft_train_options *o = &t->options;
    if (o->output.checkpoint) WEFT_TRY(check_folder(t, step));
    if (o->output.trace)
        WEFT_TRY(weft_output_open(o->output.trace, WEFT_OUTPUT_REPLACE, &t->trace));
    if (!o->output.metrics) return WEFT_OK;
    int64_t after = t->resumed.path ? t->resumed.position.step : -1;
    if (t->link.job && step > 0) after = step;
    if (t->rejoins)
        after = WEFT_METRICS_KEEP; /* the run has taken the steps of the former member */
    WEFT_TRY(weft_metrics_open(o->output.metrics, after, &t->metrics));
    return weft_metrics_settings(t->metrics, &t->settings);
}
