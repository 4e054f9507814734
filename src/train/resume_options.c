/* The options of a run that the command line resumes: those of its checkpoint, over which the words
 * of the user stand. Options that have a meaning only together are taken together. */
#include <unistd.h>

#include "base/registry.h"
#include "models/models.h"
#include "train/trainer.h"

/* If one of the first options is another one than in the checkpoint, all of these are those of the
 * words alone: the length of a run, and its ranks with how they share a step. Options that belong
 * to another one (weft_option.with) go with it likewise. */
static const struct {
    const char *lead, *all;
    bool named; /* also if the words have the value of the checkpoint, and it is no default */
} groups[] = {
    {"epochs,steps", "epochs,steps", true},
    {"ranks,engine,mesh,place,hosts",
     "ranks,engine,mesh,place,hosts,shares,zero,schedule,profile,shard,max-restarts", false},
};

/* Options of one start alone; the table of --tune is in the checkpoint. */
static const char own[] =
    "checkpoint,resume,drop-state,without,init,tune,trace,quiet,progress,estimate";

/* A file of the model that is gone is replaced by the copy in the checkpoint. */
static weft_status find_model(const weft_checkpoint *c, weft_train_options *o)
{
    char *copy;
    if (!weft_model_is_file(o->task.model) || weft_file_exists(o->task.model)) return WEFT_OK;
    WEFT_TRY(weft_format(&copy, "%s/model.yaml", c->path));
    free(o->task.model);
    o->task.model = copy;
    return WEFT_OK;
}

/* A learner that is a process knows its own ranks alone, and its checkpoint the learners. */
static weft_status count_ranks(const weft_context *context, const weft_checkpoint *c,
                               weft_train_options *o)
{
    int64_t mesh = 1;
    if (o->parallel.mesh) WEFT_TRY(weft_mesh_ranks(o->parallel.mesh, &mesh));
    if (o->job.ranks == 0 || o->job.ranks >= c->learners * mesh) return WEFT_OK;
    o->job.ranks = c->learners * mesh;
    return weft_options_set(weft_train_table(context), o, "engine",
                            weft_train_engine_processes.name);
}

static void note_folder(const weft_context *context, const weft_checkpoint *c)
{
    char *here = getcwd(NULL, 0);
    if (here && c->folder && strcmp(here, c->folder) != 0)
        weft_log(context, WEFT_LOG_NOTE,
                 "the run in %s was started in %s; its relative paths now begin here, in %s",
                 c->path, c->folder, here);
    free(here);
}

weft_status weft_train_options_of_checkpoint(const weft_context *context, const char *folder,
                                             bool says, weft_train_options *out, bool *found)
{
    WEFT_NEED(context, folder, out, found);
    const weft_option *table = weft_train_table(context);
    weft_checkpoint c = {0};
    *found = false;
    if (!*folder)
        return weft_fail(WEFT_ERR_ARGUMENT, "the folder of a checkpoint is an empty text");
    if (!weft_file_exists(folder)) return WEFT_OK;
    WEFT_TRY(weft_checkpoint_found(folder, found));
    /* The run itself says which checkpoint is damaged, and which one is before it. */
    if (*found && weft_checkpoint_open_index(folder, table, &c) != WEFT_OK) *found = false;
    if (!*found) return WEFT_OK;
    weft_status status = weft_train_options_init(context, out);
    if (status == WEFT_OK) status = weft_settings_give(&c.settings, table, out);
    if (status == WEFT_OK) {
        status = weft_plugin_refuse_options(table, out);
        if (status != WEFT_OK) status = weft_fail_within(status, "%s", folder);
    }
    if (status == WEFT_OK) status = find_model(&c, out);
    if (status == WEFT_OK) status = count_ranks(context, &c, out);
    if (status == WEFT_OK && says) note_folder(context, &c);
    weft_checkpoint_close(&c);
    return status;
}

typedef struct merge {
    const weft_option *table;
    const weft_train_options *then, *words, *both;
    bool *alone; /* of each option: its value is that of the words alone */
    weft_status status;
} merge;

/* Whether the run has another value than the checkpoint. */
static bool differs(merge *m, const weft_option *o)
{
    char *a = NULL, *b = NULL;
    if (m->status == WEFT_OK) m->status = weft_options_get(m->table, m->then, o->name, &a);
    if (m->status == WEFT_OK) m->status = weft_options_get(m->table, m->both, o->name, &b);
    bool same = a && b ? strcmp(a, b) == 0 : a == b;
    free(a);
    free(b);
    return !same;
}

/* Whether the words have another value than the default. */
static bool is_given(merge *m, const weft_option *o)
{
    char *text = NULL;
    if (m->status == WEFT_OK) m->status = weft_options_get(m->table, m->words, o->name, &text);
    bool given = text && !(o->initial && strcmp(text, o->initial) == 0);
    free(text);
    return given;
}

static void take_listed(merge *m, const char *names)
{
    for (int i = 0; m->table[i].name; i++)
        m->alone[i] = m->alone[i] || weft_is_listed(names, m->table[i].name);
}

static void take_group(merge *m, size_t i, bool anyway)
{
    bool other = anyway;
    for (const weft_option *o = m->table; o->name; o++)
        other = other || (weft_is_listed(groups[i].lead, o->name) &&
                          (differs(m, o) || (groups[i].named && is_given(m, o))));
    if (other) take_listed(m, groups[i].all);
}

/* Options that belong to one that the run has otherwise are those of the words. */
static void take_dependent(merge *m)
{
    for (const weft_option *lead = m->table; lead->name; lead++) {
        if (weft_is_listed(own, lead->name) || !(m->alone[lead - m->table] || differs(m, lead)))
            continue;
        for (int i = 0; m->table[i].name; i++)
            if (m->table[i].with && strcmp(m->table[i].with, lead->name) == 0) m->alone[i] = true;
    }
}

static weft_status take_without(void *user, char *name)
{
    merge *m = user;
    int i = 0;
    while (m->table[i].name && strcmp(m->table[i].name, name) != 0) i++;
    if (!m->table[i].name)
        return weft_fail(WEFT_ERR_ARGUMENT, "without: no option is named '%s'", name);
    if (weft_is_listed(own, name))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "without: --%s is of one start alone, and none is taken from the "
                         "checkpoint; leave it out",
                         name);
    if (is_given(m, &m->table[i]))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "without: --%s is given, too, and stands over that of the checkpoint; "
                         "leave one of the two out",
                         name);
    m->alone[i] = true;
    return WEFT_OK;
}

/* Replaces *out by the values that were chosen. */
static weft_status choose(const merge *m, const weft_context *context, weft_train_options *out)
{
    weft_train_options chosen = {0};
    weft_status status = weft_train_options_init(context, &chosen);
    for (int i = 0; m->table[i].name && status == WEFT_OK; i++) {
        const char *name = m->table[i].name;
        char *text = NULL;
        status = weft_options_get(m->table, m->alone[i] ? m->words : m->both, name, &text);
        if (status == WEFT_OK && text) status = weft_options_set(m->table, &chosen, name, text);
        free(text);
    }
    weft_options_free(m->table, status == WEFT_OK ? out : &chosen);
    if (status == WEFT_OK) *out = chosen;
    return status;
}

weft_status weft_train_options_merge(const weft_context *context, const weft_train_options *then,
                                     const weft_train_options *words, weft_train_options *out)
{
    WEFT_NEED(context, then, words, out);
    merge m = {weft_train_table(context), then, words, out, NULL, WEFT_OK};
    const char *without = words->weights.without;
    int count = 0;
    while (m.table[count].name) count++;
    WEFT_TRY(WEFT_NEW(&m.alone, count));
    take_listed(&m, own);
    if (without) m.status = weft_each_piece("without", without, take_without, &m);
    /* A rank that a launcher has started has all options of its run in its words. */
    bool launched = weft_job_rank() >= 0 || then->job.ranks == 0;
    for (size_t i = 0; i < WEFT_COUNT(groups); i++) take_group(&m, i, launched && i == 1);
    take_dependent(&m);
    if (m.status == WEFT_OK) m.status = choose(&m, context, out);
    free(m.alone);
    return m.status;
}
