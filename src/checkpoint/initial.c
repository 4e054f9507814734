/* Weights from which a new run begins (--init): those of a checkpoint, of an exported model, or of
 * a safetensors file of another program, by name and shape. */
#include "checkpoint/about.h"
#include "checkpoint/initial.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

#include "program/program.h"
#include "weft/output.h"

/* --- opening --- */

/* FORMAT: the file is a pickle, or the zip archive of one, which PyTorch writes. */
static weft_status refuse_pickle(const char *file, const weft_bytes *bytes)
{
    const char *end = strrchr(file, '.');
    const unsigned char *b = bytes->data;
    bool zip = bytes->size >= 4 && memcmp(b, "PK\3\4", 4) == 0;
    bool pickle = bytes->size >= 2 && b[0] == 0x80 && b[1] >= 2 && b[1] <= 5;
    bool named = end && weft_is_listed(".pt,.pth,.bin", end);
    if (!zip && !(pickle && (named || b[bytes->size - 1] == '.'))) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT,
                     "%s: is a file of pickled objects, as torch.save writes, and reading one runs "
                     "its code; let two lines of Python make a safetensors file of it: `import "
                     "torch, safetensors.torch as s` and `s.save_file(torch.load('%s', "
                     "weights_only=True), 'weights.safetensors')`",
                     file, file);
}

static weft_status open_file(weft_initial *w)
{
    WEFT_TRY(weft_file_map(w->file, &w->bytes));
    if (w->bytes.size == 0) return weft_fail(WEFT_ERR_FORMAT, "%s: is empty", w->file);
    WEFT_TRY(refuse_pickle(w->file, &w->bytes));
    WEFT_TRY(weft_safetensors_parse(w->file, w->bytes.data, w->bytes.size, &w->tensors));
    if (!w->tensors.about) return WEFT_OK;
    json_t *about = json_loads(w->tensors.about, JSON_REJECT_DUPLICATES, NULL);
    weft_status status = weft_stats_read(w->file, about, &w->file_stats);
    json_decref(about);
    if (status == WEFT_OK) w->there = &w->file_stats;
    return status;
}

/* Adds the rules of a map, which is built in or a file, and behind them that a name may stay. */
static weft_status open_map(const char *map, weft_initial *w)
{
    if (map) WEFT_TRY(weft_name_map_open(map, &w->map));
    if (map && !weft_name_map_text(map)) w->own_rules = w->map.count;
    return weft_name_map_add(w->file, WEFT_NAME_STAYS, strlen(WEFT_NAME_STAYS), &w->map);
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Splits FILE[:MAP]; a path that exists has no map. */
static weft_status split(const char *spec, weft_initial *w, const char **map)
{
    const char *colon = strrchr(spec, ':');
    *map = NULL;
    WEFT_TRY(weft_strdup(spec, &w->file));
    if (!colon || colon == spec || weft_file_exists(spec)) return WEFT_OK;
    w->file[colon - spec] = '\0';
    *map = colon + 1;
    if (**map && (weft_name_map_text(*map) || weft_file_exists(*map))) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "init '%s': there is no map '%s'; give FILE:torch for names and layouts of "
                     "PyTorch, or a file of lines their/name -> our/name",
                     spec, *map);
}

weft_status weft_initial_open(const char *spec, const weft_option *table,
                              const weft_data_stats *here, weft_initial **out)
{
    weft_initial *w;
    const char *map;
    WEFT_TRY(WEFT_NEW(&w, 1));
    w->here = here;
    weft_status status = split(spec, w, &map);
    if (status == WEFT_OK) w->folder = is_folder(w->file);
    if (status == WEFT_OK)
        status =
            w->folder ? weft_checkpoint_open_model(w->file, table, &w->checkpoint) : open_file(w);
    if (w->folder) w->there = &w->checkpoint.stats;
    if (status == WEFT_OK) status = open_map(map, w);
    if (status != WEFT_OK) weft_initial_close(&w);
    *out = w;
    return status;
}

void weft_initial_close(weft_initial **initial)
{
    weft_initial *w = *initial;
    if (!w) return;
    weft_checkpoint_close(&w->checkpoint);
    weft_safetensors_free(&w->tensors);
    weft_data_stats_free(&w->file_stats);
    weft_file_unmap(&w->bytes);
    weft_name_map_free(&w->map);
    free(w->file);
    free(w);
    *initial = NULL;
}

weft_status weft_initial_refuse_overwrite(const char *spec, const char *option, const char *path)
{
    weft_initial w = {0};
    const char *map = NULL;
    weft_status status = split(spec, &w, &map);
    if (status == WEFT_OK &&
        (weft_output_same(w.file, path) || (map && weft_output_same(map, path))))
        status = weft_fail(WEFT_ERR_ARGUMENT,
                           "--%s %s is a file of --init %s, which would be lost; give another",
                           option, path, spec);
    free(w.file);
    return status;
}

uint64_t weft_initial_hash(const weft_initial *w)
{
    uint64_t hash = weft_crc32(w->bytes.data, w->bytes.size);
    const weft_bytes *files = w->checkpoint.files;
    for (int i = 0; i <= WEFT_STATE_FILE && w->folder; i++)
        hash = weft_mix(hash, weft_crc32(files[i].data, files[i].size));
    for (size_t i = 0; i < w->map.count; i++) {
        const weft_name_rule *rule = &w->map.rules[i];
        const char *const words[] = {rule->from, rule->to, rule->beside, rule->op};
        for (size_t k = 0; k < WEFT_COUNT(words); k++)
            hash = weft_mix(hash, weft_hash_text(words[k] ? words[k] : ""));
        hash = weft_mix(hash, (uint64_t)rule->part);
    }
    return hash;
}

/* --- loading --- */

/* Converts a whole tensor to the order and the type of leaf i; elements of which it has no number
 * are left as they are. NUMERIC: a number of it is not finite, or too large for the type. */
static weft_status convert(const weft_initial *w, const weft_initial_pairs *p, int i,
                           const weft_type *whole, void *out)
{
    const weft_initial_source *s = &p->of[i];
    const weft_tensor *t = s->tensor;
    weft_rule_walk walk;
    weft_rule_walk_begin(s->rule, &whole->shape, &t->shape, &walk);
    for (int64_t k = 0; k < weft_shape_elements(&whole->shape); k++, weft_rule_walk_next(&walk)) {
        double number = 0;
        int64_t place = walk.theirs;
        if (!weft_initial_move(p->names, p->leaf[i], walk.rank, walk.at, walk.along, &place))
            continue;
        (void)weft_safetensors_number(t, place, &number);
        weft_number_put(whole->dtype, out, k, number);
        if (!isfinite(weft_number_get(whole->dtype, out, k)))
            return weft_fail(WEFT_ERR_NUMERIC,
                             "%s: '%s' holds a number that is not finite%s, and no run begins with "
                             "one",
                             w->file, t->name, isfinite(number) ? " in the type of this run" : "");
    }
    return WEFT_OK;
}

/* Writes the part that the store has of leaf i, which is its tensor `at`. */
static weft_status load_one(const weft_initial *w, const weft_initial_pairs *p, int i,
                            weft_store *store, int at)
{
    weft_type part = weft_store_type(store, at), whole = part;
    int64_t start[WEFT_MAX_RANK];
    void *all = NULL, *mine = NULL;
    weft_store_part(store, at, &whole.shape, start);
    weft_status status = weft_new_aligned(weft_type_bytes(&whole), &all);
    if (status == WEFT_OK) status = weft_new_aligned(weft_type_bytes(&part), &mine);
    if (status == WEFT_OK && p->names) {
        weft_store_draw(store, at, mine);
        weft_copy_part(&whole, start, &part.shape, all, mine, false);
    }
    if (status == WEFT_OK) status = convert(w, p, i, &whole, all);
    if (status == WEFT_OK) {
        weft_copy_part(&whole, start, &part.shape, all, mine, true);
        status = weft_store_write(store, at, mine);
    }
    free(all);
    free(mine);
    return status;
}

static weft_status load_pairs(const weft_initial *w, const weft_initial_pairs *p, weft_store *store)
{
    for (int i = 0; i < p->count; i++) {
        int at = weft_store_find(store, weft_graph_value_name(p->graph, p->leaf[i]));
        if (at < 0 || !weft_initial_fits(p, i)) continue; /* another rank has the leaf */
        WEFT_TRY(load_one(w, p, i, store, at));
    }
    return WEFT_OK;
}

weft_status weft_initial_load(const weft_initial *w, const weft_graph *graph,
                              const weft_model_values *values, weft_store *store, char **out)
{
    weft_initial_pairs p;
    char *text = NULL;
    weft_status status = weft_initial_pair(w, graph, &p);
    if (status == WEFT_OK && w->there)
        status = weft_initial_names_find(w->here, w->there, graph, values, &p.names);
    weft_initial_pair_columns(w, &p);
    if (status == WEFT_OK) status = weft_initial_report(w, &p, &text);
    if (status == WEFT_OK) status = load_pairs(w, &p, store);
    weft_initial_pairs_free(&p);
    if (status != WEFT_OK) free(text);
    *out = status == WEFT_OK ? text : NULL;
    return status;
}
