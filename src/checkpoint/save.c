/* Writes checkpoints. Rank 0 of the first learner gathers every tensor and writes all files to a
 * hidden folder, which it syncs and then renames to step-N, so that a visible checkpoint is always
 * complete. */
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "checkpoint/about.h"
#include "checkpoint/folder.h"
#include "checkpoint/write_thread.h"
#include "exchange/simulated.h"

const char *const weft_checkpoint_files[WEFT_CHECKPOINT_FILES] = {
    [WEFT_PARAMETERS_FILE] = "parameters.safetensors",
    [WEFT_STATE_FILE] = "state.safetensors",
    [WEFT_LEARNERS_FILE] = "learners.safetensors",
    [WEFT_EXCHANGE_FILE] = "exchange.safetensors",
};

/* A tensor to write. It is a leaf of a learner's graph (state -1), a state of the learner's
 * exchange that is one tensor (no leaf), or the piece of a state with the layout of the parameters
 * that belongs to one leaf (both). */
typedef struct item {
    weft_value leaf;    /* WEFT_NO_VALUE: none */
    int learner, state; /* state: index among the states of the exchange; -1: none */
    char *name;         /* "[LEARNER/][STATE/]LEAF"; the first learner has no number */
} item;

/* The tensors of one file, gathered from all ranks that hold parts. */
typedef struct selection {
    const weft_checkpoint_source *source;
    const weft_gathering *gathering;
    item *items;
    size_t count, capacity;
    weft_write_thread *thread; /* writes the file */
} selection;

static const char *leaf_name(const selection *s, const item *it)
{
    return weft_graph_value_name(s->source->graph, it->leaf);
}

/* The number of learners whose parameters are saved. The next function gives the number of learners
 * whose exchange state is saved, which is larger without lock step. */
static int saved_learners(const weft_checkpoint_source *from)
{
    if (from->simulated) return from->simulated->sim_options.learners;
    return from->between ? from->between->learners : 1;
}

static int exchanging_learners(const weft_checkpoint_source *from)
{
    if (from->simulated) return from->simulated->sim_options.learners;
    return from->exchange ? from->exchange->setup.endpoint->learners : 0;
}

/* A learner that saves alone (between NULL) takes the states of other learners from the messages in
 * which they have sent them (weft_exchange_transfer_state). */
bool weft_source_state_at(const weft_checkpoint_source *from, int learner, int i,
                          weft_exchange_state *out)
{
    if (from->simulated) return weft_sim_exchange_state_at(from->simulated, learner, i, out);
    if (!from->exchange) return false;
    if (learner > 0 && !from->between)
        return weft_exchange_state_of(from->exchange, learner, i, out);
    return weft_exchange_state_at(from->exchange, i, out);
}

static weft_exchange_state state_of(const selection *s, const item *it)
{
    weft_exchange_state state;
    (void)weft_source_state_at(s->source, it->learner, it->state, &state);
    return state;
}

static const char *selected_name(void *user, size_t i)
{
    const selection *s = user;
    return s->items[i].name;
}

static weft_type selected_type(void *user, size_t i)
{
    const selection *s = user;
    const item *it = &s->items[i];
    return it->leaf == WEFT_NO_VALUE ? state_of(s, it).type
                                     : weft_graph_value_type(s->source->graph, it->leaf);
}

static int own_learner(const weft_checkpoint_source *source)
{
    return source->between ? source->between->learner : 0;
}

/* Gathers a tensor of this learner on the learner's rank 0. */
static weft_status gather(const selection *s, const item *it, const weft_type *type, void *data)
{
    const void *state = it->state >= 0 ? state_of(s, it).data : NULL;
    if (it->leaf != WEFT_NO_VALUE)
        return weft_gather_tensor(s->gathering, leaf_name(s, it), type, state, data);
    if (weft_comm_rank(s->source->comms->learner) == 0) memcpy(data, state, weft_type_bytes(type));
    return WEFT_OK;
}

/* Moves a tensor of learner it->learner (not the first) to the writing rank: that learner gathers
 * the tensor on its rank 0, which sends it to rank 0 of the first learner. */
static weft_status hand_over(const selection *s, size_t i, const weft_type *type, void *data)
{
    const weft_checkpoint_source *from = s->source;
    const item *it = &s->items[i];
    bool first = weft_comm_rank(from->comms->learner) == 0;
    weft_transfer t = {.dtype = WEFT_U8, .what = it->name, .count = (int64_t)weft_type_bytes(type)};
    if (own_learner(from) == it->learner) {
        void *mine = NULL;
        if (first) WEFT_TRY(weft_new_aligned(weft_type_bytes(type), &mine));
        weft_status status = gather(s, it, type, mine);
        t.kind = WEFT_SEND;
        t.send = mine;
        if (status == WEFT_OK && first) status = weft_learner_group_run(from->between, &t);
        free(mine);
        return status;
    }
    t.kind = WEFT_RECEIVE;
    t.peer = it->learner;
    t.receive = data;
    return own_learner(from) == 0 && first ? weft_learner_group_run(from->between, &t) : WEFT_OK;
}

/* Whether the item is optimizer state of a simulated learner other than the first. Such a learner
 * has a store of its own. */
static bool is_in_store(const selection *s, const item *it)
{
    return s->source->simulated && it->learner > 0 && it->state < 0 &&
           weft_graph_value_kind(s->source->graph, it->leaf) == WEFT_VALUE_STATE;
}

static weft_status selected_read(void *user, size_t i, void *data)
{
    selection *s = user;
    const item *it = &s->items[i];
    weft_type type = selected_type(user, i);
    if (is_in_store(s, it)) {
        const weft_store *store = s->source->stores[it->learner];
        return weft_store_read(store, weft_store_find(store, leaf_name(s, it)), data);
    }
    if (it->learner > 0 && s->source->between) return hand_over(s, i, &type, data);
    return own_learner(s->source) == 0 ? gather(s, it, &type, data) : WEFT_OK;
}

/* A tensor that the writing thread needs. */
typedef struct request {
    selection *from;
    size_t i;
    void *data;
} request;

static weft_status read_requested(void *user)
{
    const request *r = user;
    return selected_read(r->from, r->i, r->data);
}

static weft_status request_read(void *user, size_t i, void *data)
{
    selection *s = user;
    return weft_write_thread_ask(s->thread, read_requested, &(request){s, i, data});
}

static weft_status select_one(selection *s, item it)
{
    char learner[16] = "";
    if (it.learner > 0) (void)snprintf(learner, sizeof(learner), "%d/", it.learner);
    const char *state = it.state >= 0 ? state_of(s, &it).name : "";
    const char *leaf = it.leaf != WEFT_NO_VALUE ? leaf_name(s, &it) : "";
    WEFT_TRY(WEFT_GROW(&s->items, &s->capacity, s->count));
    WEFT_TRY(weft_format(&it.name, "%s%s%s%s", learner, state, *state && *leaf ? "/" : "", leaf));
    s->items[s->count++] = it;
    return WEFT_OK;
}

static bool is_saved(const weft_graph *g, weft_value v, weft_value_kind kind)
{
    return weft_graph_value_kind(g, v) == kind && weft_graph_role(g, v, NULL) != WEFT_ROLE_SUM;
}

/* Commands that train map arrays of at least so many bytes, which are gone when they are freed. */
enum { MAPPED = 256 << 10 };

size_t weft_checkpoint_room(const weft_graph *g, const weft_store *store, bool writes)
{
    size_t most[2] = {0, 0}; /* of arrays that malloc keeps when they are freed, and of others */
    for (weft_value v = 0; v < weft_graph_value_count(g); v++) {
        weft_type type = weft_graph_value_type(g, v);
        if (!is_saved(g, v, WEFT_VALUE_PARAM) && !is_saved(g, v, WEFT_VALUE_STATE)) continue;
        size_t room = weft_gather_room(store, weft_graph_value_name(g, v), &type, writes);
        bool mapped = room >= MAPPED;
        most[mapped] = WEFT_MAX(most[mapped], room);
    }
    return most[0] + most[1];
}

static weft_status select_leaves(selection *s, weft_value_kind kind, int learner, int state)
{
    const weft_graph *g = s->source->graph;
    for (weft_value v = 0; v < weft_graph_value_count(g); v++) {
        if (!is_saved(g, v, kind)) continue;
        WEFT_TRY(select_one(s, (item){v, learner, state, NULL}));
    }
    return WEFT_OK;
}

/* Selects the exchange states of a learner. States that are equal in all learners (`alike`) are
 * saved for the first learner only. */
static weft_status select_states(selection *s, int learner)
{
    weft_exchange_state state;
    for (int i = 0; weft_source_state_at(s->source, 0, i, &state); i++) {
        if (learner > 0 && (state.alike || !weft_source_state_at(s->source, learner, i, &state)))
            continue;
        WEFT_TRY(state.like_parameters ? select_leaves(s, WEFT_VALUE_PARAM, learner, i)
                                       : select_one(s, (item){WEFT_NO_VALUE, learner, i, NULL}));
    }
    return WEFT_OK;
}

/* Selects the tensors of each file; all ranks make the same selection in the same order. */
static weft_status select_all(selection s[WEFT_CHECKPOINT_FILES],
                              const weft_checkpoint_source *from)
{
    int learners = saved_learners(from);
    WEFT_TRY(select_leaves(&s[WEFT_PARAMETERS_FILE], WEFT_VALUE_PARAM, 0, -1));
    WEFT_TRY(select_leaves(&s[WEFT_STATE_FILE], WEFT_VALUE_STATE, 0, -1));
    for (int k = 1; k < learners; k++) {
        WEFT_TRY(select_leaves(&s[WEFT_LEARNERS_FILE], WEFT_VALUE_PARAM, k, -1));
        WEFT_TRY(select_leaves(&s[WEFT_LEARNERS_FILE], WEFT_VALUE_STATE, k, -1));
    }
    learners = exchanging_learners(from);
    for (int k = 0; k < learners; k++) WEFT_TRY(select_states(&s[WEFT_EXCHANGE_FILE], k));
    return WEFT_OK;
}

static weft_status write_tensors(selection *s, const char *folder, const char *file, json_t *files)
{
    char *path, crc_text[16];
    uint32_t crc = 0;
    size_t bytes = 0;
    WEFT_TRY(weft_format(&path, "%s/%s", folder, file));
    weft_tensor_list list = {s->count, selected_name, selected_type, request_read, s, NULL, NULL};
    weft_status status = weft_safetensors_write(path, WEFT_OUTPUT_OWN, &list, &crc, &bytes);
    (void)snprintf(crc_text, sizeof(crc_text), "%08x", crc);
    if (status == WEFT_OK)
        json_object_set_new(files, file,
                            json_pack("{s:I, s:s}", "bytes", (json_int_t)bytes, "crc32", crc_text));
    free(path);
    return status;
}

static weft_status write_text(const char *folder, const char *name, const weft_bytes *text,
                              json_t *files)
{
    char *path, crc_text[16];
    if (!text || text->size == 0) return WEFT_OK;
    WEFT_TRY(weft_format(&path, "%s/%s", folder, name));
    weft_status status = weft_file_replace(path, WEFT_OUTPUT_OWN, text->data, text->size);
    (void)snprintf(crc_text, sizeof(crc_text), "%08x", weft_crc32(text->data, text->size));
    if (status == WEFT_OK)
        json_object_set_new(
            files, name,
            json_pack("{s:I, s:s}", "bytes", (json_int_t)text->size, "crc32", crc_text));
    free(path);
    return status;
}

static weft_status write_index(const char *folder, const json_t *index)
{
    char *path = NULL, *text;
    WEFT_TRY(weft_index_text(index, &text));
    weft_status status = weft_format(&path, "%s/index.json", folder);
    if (status == WEFT_OK) status = weft_file_replace(path, WEFT_OUTPUT_OWN, text, strlen(text));
    free(path);
    free(text);
    return status;
}

/* Adds the entries that not every checkpoint has; false: no memory, or there is no index. */
static bool add_optional(json_t *index, const weft_checkpoint_source *source,
                         const weft_checkpoint_record *what)
{
    const weft_position *p = &what->position;
    const weft_watch *w = &what->watch;
    uint64_t run = what->run;
    bool watched = w->weight > 0 || w->step > 0;
    int learners = exchanging_learners(source);
    return index &&
           (learners == 0 || json_object_set_new(index, "learners", json_integer(learners)) == 0) &&
           (p->schedule_epoch == 0 ||
            json_object_set_new(index, "schedule",
                                json_pack("{s:f, s:I}", "step", p->schedule, "epoch",
                                          (json_int_t)p->schedule_epoch)) == 0) &&
           (!watched ||
            json_object_set_new(
                index, "watch",
                json_pack("{s:f, s:f, s:f, s:I, s:I, s:I}", "loss", w->loss, "weight", w->weight,
                          "best", w->best, "step", (json_int_t)w->step, "best_step",
                          (json_int_t)w->best_step, "waited", (json_int_t)w->waited)) == 0) &&
           (w->noise.trace == 0 ||
            json_object_set_new(index, "noise",
                                json_pack("{s:f, s:f}", "trace", w->noise.trace, "squared",
                                          w->noise.squared)) == 0) &&
           (run == 0 || json_object_set_new(index, "run",
                                            json_sprintf("%016llx", (unsigned long long)run)) == 0);
}

static weft_status write_folder(const char *folder, selection *s,
                                const weft_checkpoint_record *what)
{
    weft_position p = what->position;
    json_t *files = json_object();
    weft_status status = WEFT_OK;
    for (int f = 0; f < WEFT_CHECKPOINT_FILES && status == WEFT_OK; f++)
        if (f <= WEFT_STATE_FILE || s[f].count > 0)
            status = write_tensors(&s[f], folder, weft_checkpoint_files[f], files);
    if (status == WEFT_OK) status = write_text(folder, "model.yaml", what->model, files);
    if (status == WEFT_OK) status = write_text(folder, WEFT_TUNING_FILE, what->tuning, files);
    json_t *data = weft_stats_json(what->stats);
    char *here = getcwd(NULL, 0);
    if (here && weft_is_printable(here)) json_object_set_new(data, "folder", json_string(here));
    free(here);
    weft_splits_add(data, what->splits);
    json_t *index =
        json_pack("{s:i, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "format",
                  weft_stats_format(what->stats), "weft", weft_version(), "step",
                  (json_int_t)p.step, "epoch", (json_int_t)p.epoch, "batch", (json_int_t)p.batch,
                  "samples", (json_int_t)p.samples, "options", weft_settings_json(what->settings),
                  "data", data, "files", files, "states", weft_state_words_json(s->source));
    if (status == WEFT_OK && !add_optional(index, s->source, what)) status = weft_fail_memory(1);
    if (status == WEFT_OK) status = write_index(folder, index);
    json_decref(index);
    return status == WEFT_OK ? weft_dir_sync(folder) : status;
}

/* Runs on the ranks that do not write: takes part in the gathering of each tensor, in the order in
 * which the writing rank writes them. */
static weft_status contribute(selection *s)
{
    for (int f = 0; f < WEFT_CHECKPOINT_FILES; f++)
        for (size_t i = 0; i < s[f].count; i++) WEFT_TRY(selected_read(&s[f], i, NULL));
    return WEFT_OK;
}

/* A checkpoint to write: the tensors of its files, and where it goes. */
typedef struct writing {
    selection *files;
    const weft_checkpoint_record *what;
    const char *directory;
    int64_t keep;
    char **path;
} writing;

static weft_status write_checkpoint(weft_write_thread *thread, void *user)
{
    const writing *w = user;
    char name[40], hidden[48], *temporary = NULL, *final = NULL;
    weft_status status = WEFT_OK;
    for (int f = 0; f < WEFT_CHECKPOINT_FILES; f++) w->files[f].thread = thread;
    (void)snprintf(name, sizeof(name), "step-%lld", (long long)w->what->position.step);
    (void)snprintf(hidden, sizeof(hidden), ".%s.tmp", name);
    WEFT_TRY_GOTO(weft_dir_make(w->directory), done);
    WEFT_TRY_GOTO(weft_folder_tidy(w->directory), done);
    WEFT_TRY_GOTO(weft_format(&temporary, "%s/%s", w->directory, hidden), done);
    WEFT_TRY_GOTO(weft_format(&final, "%s/%s", w->directory, name), done);
    WEFT_TRY_GOTO(weft_dir_make_new(temporary), done);
    status = write_folder(temporary, w->files, w->what);
    if (status != WEFT_OK) {
        weft_error first = {0};
        weft_error_catch(&first, status);
        if (weft_dir_remove(temporary) != WEFT_OK) status = weft_error_raise(&first);
        goto done;
    }
    WEFT_TRY_GOTO(weft_folder_enter(w->directory, hidden, name), done);
    if (w->what->best) WEFT_TRY_GOTO(weft_folder_point(w->directory, WEFT_BEST, name), done);
    WEFT_TRY_GOTO(weft_folder_point(w->directory, WEFT_LATEST, name), done);
    WEFT_TRY_GOTO(weft_folder_prune(w->directory, w->what->position.step, w->keep), done);
    if (w->path) {
        *w->path = final;
        final = NULL;
    }
done:
    free(temporary);
    free(final);
    return status;
}

weft_status weft_checkpoint_save(const weft_checkpoint_source *from,
                                 const weft_checkpoint_record *what, const char *directory,
                                 int64_t keep, char **path)
{
    selection s[WEFT_CHECKPOINT_FILES];
    weft_gathering gathering;
    WEFT_TRY(weft_gathering_open(from->comms, from->store, &gathering));
    for (int f = 0; f < WEFT_CHECKPOINT_FILES; f++)
        s[f] = (selection){.source = from, .gathering = &gathering};
    weft_status status = select_all(s, from);
    bool writes = weft_comm_rank(from->comms->learner) == 0 && own_learner(from) == 0;
    writing all = {s, what, directory, keep, path};
    if (status == WEFT_OK)
        status =
            writes ? weft_write_thread_run(from->exchange, write_checkpoint, &all) : contribute(s);
    for (int f = 0; f < WEFT_CHECKPOINT_FILES; f++) {
        for (size_t i = 0; i < s[f].count; i++) free(s[f].items[i].name);
        free(s[f].items);
    }
    weft_gathering_close(&gathering);
    return status;
}
