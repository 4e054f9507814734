/* The model repository, the folder DIR/NAME/VERSION: scans it, loads new versions, and takes
 * removed versions out of service. The service's poll_lock allows one scan at a time. */

#include "serve/repository_scan.h"
#include "serve/service_internal.h"

/* The reason of a scan. AT_START: versions whose files differ from those of their last load are
 * loaded at once, also one that is in service, which answers until the new one can. ON_CHANGE, by
 * the background thread: as AT_START, but a version is loaded only when two scans in turn have
 * found the same files, so that a copy in progress is not loaded. ON_REQUEST of a client for one
 * model: its versions are loaded at once, also if the model was unloaded or nothing has changed. */
typedef enum poll_reason { AT_START, ON_CHANGE, ON_REQUEST } poll_reason;

/* --- one version --- */

/* Whether a client has unloaded the model; the caller holds the service's lock. */
static bool is_out(const weft_service *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (s->entries[i]->unloaded && strcmp(s->entries[i]->name, name) == 0) return true;
    return false;
}

/* Whether the found version must be loaded now. Records its hash for the next scan. The caller
 * holds the service's lock. */
static bool is_due(weft_model_entry *p, const weft_found_version *f, poll_reason how)
{
    bool still = p->scanned_hash == f->files_hash, changed = p->loaded_hash != f->files_hash;
    p->scanned_hash = f->files_hash;
    if (how == ON_REQUEST) return true; /* the hash may be equal although the files are not */
    if (!changed || p->unloaded) return false;
    if (how == AT_START || still) return true;
    if (!p->servable)
        (void)snprintf(p->reason, sizeof(p->reason),
                       "the folder of this version is new; it is loaded when it no longer changes");
    return false;
}

/* Finds or adds the entry of a found version. *now: the version must be loaded now; its entry is
 * marked as loading. A new version of an unloaded model is marked as unloaded, too. */
static weft_status consider(weft_service *s, const char *name, const weft_found_version *f,
                            poll_reason how, weft_model_entry **out, bool *now)
{
    pthread_mutex_lock(&s->lock);
    weft_model_entry *p = weft_model_entry_find(s, name, f->version);
    bool fresh = !p, stays = fresh && is_out(s, name);
    weft_status status = fresh ? weft_model_entry_add(s, name, f->version, &p) : WEFT_OK;
    if (status == WEFT_OK) {
        if (stays) {
            p->unloaded = true;
            (void)snprintf(p->reason, sizeof(p->reason), "the model was taken out of service");
        }
        *now = p->loading = is_due(p, f, how);
        if (*now) p->loaded_hash = f->files_hash;
    }
    pthread_mutex_unlock(&s->lock);
    *out = p;
    return status;
}

static weft_status load(weft_service *s, weft_model_entry *p, poll_reason how)
{
    char *path;
    int64_t version = p->version;
    pthread_mutex_lock(&s->lock);
    bool again = p->servable != NULL;
    pthread_mutex_unlock(&s->lock);
    weft_status status = weft_format(&path, "%s/%s/%lld", s->models, p->name, (long long)version);
    if (status != WEFT_OK) {
        pthread_mutex_lock(&s->lock);
        p->loading = false;
        pthread_mutex_unlock(&s->lock);
        return status;
    }
    status = weft_model_entry_load(s, p, path, version);
    if (status != WEFT_OK)
        weft_log(s->context, WEFT_LOG_WARNING,
                 again ? "%s has changed and is not served so: %s; what was loaded before stays in "
                         "service"
                       : "%s is not served: %s",
                 path, weft_last_message());
    else if (how == ON_CHANGE || s->was_scanned)
        weft_log(s->context, WEFT_LOG_NOTE,
                 !again              ? "%s is served"
                 : how == ON_REQUEST ? "%s is served again"
                                     : "%s is served again, since its files have changed",
                 path);
    free(path);
    return status;
}

/* --- one model --- */

/* Removes the entries of the model for which `goes` is true. Waits until their versions have
 * answered their last requests. why: for the log. */
static void drop(weft_service *s, const char *name, const char *why,
                 bool (*goes)(weft_model_entry *p, void *user), void *user)
{
    for (bool more = true; more;) {
        weft_servable *servable = NULL;
        int64_t version = 0;
        more = false;
        pthread_mutex_lock(&s->lock);
        for (int i = 0; i < s->count && !more; i++) {
            weft_model_entry *p = s->entries[i];
            if (!p->numbered || strcmp(p->name, name) != 0 || !goes(p, user)) continue;
            servable = p->servable;
            version = p->version;
            weft_model_entry_remove(s, p);
            more = true;
        }
        pthread_mutex_unlock(&s->lock);
        if (servable)
            weft_log(s->context, WEFT_LOG_NOTE, "%s/%s/%lld is no longer served, since %s",
                     s->models, name, (long long)version, why);
        weft_service_end(s, servable);
    }
}

typedef struct present {
    const weft_found_version *all;
    int count;
    int64_t newest; /* number of the newest version in service; 0: none */
    int64_t scan;   /* number of this scan */
    bool at_once;   /* what is missing now is gone */
} present;

/* Whether a version is to leave the service because its folder was removed: two scans in turn have
 * missed it, so that a folder that is replaced is not taken for removed. While folders of other
 * versions are there but none of them is in service, it keeps serving. */
static bool is_gone(weft_model_entry *p, void *user)
{
    const present *there = user;
    if (p->servable && there->count > 0 && there->newest == 0) return false;
    for (int i = 0; i < there->count; i++)
        if (there->all[i].version == p->version) {
            p->missing_since = 0;
            return false;
        }
    if (p->missing_since == 0) p->missing_since = there->scan;
    return there->at_once || p->missing_since < there->scan;
}

static bool is_older(weft_model_entry *p, void *user)
{
    return p->version < ((const present *)user)->newest;
}

/* Loads the found versions that are due, newest first. Unless all versions are to be served, stops
 * at the first version that is in service or unloaded. *newest and *why: the result of loading the
 * newest version. */
static weft_status load_found(weft_service *s, const char *name, poll_reason how, present *there,
                              weft_status *newest, weft_error *why)
{
    for (int i = 0; i < there->count; i++) {
        weft_model_entry *p;
        bool now;
        WEFT_TRY(consider(s, name, &there->all[i], how, &p, &now));
        weft_status status = now ? load(s, p, how) : WEFT_OK;
        if (i == 0) {
            *newest = status;
            weft_error_catch(why, status);
        }
        pthread_mutex_lock(&s->lock);
        bool serves = p->servable != NULL, out = p->unloaded;
        pthread_mutex_unlock(&s->lock);
        if (serves) there->newest = WEFT_MAX(there->newest, p->version);
        if ((serves || out) && !s->options.all_versions) break;
    }
    return WEFT_OK;
}

static void clear_unloaded(weft_service *s, const char *name)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->entries[i]->name, name) == 0) s->entries[i]->unloaded = false;
    pthread_mutex_unlock(&s->lock);
}

static weft_status update_model(weft_service *s, const char *name, poll_reason how)
{
    char *folder;
    weft_found_version *all = NULL;
    int count = 0;
    weft_status newest = WEFT_OK;
    weft_error why = {0};
    WEFT_TRY(weft_format(&folder, "%s/%s", s->models, name));
    weft_status status = weft_repository_versions(folder, &all, &count);
    if (how == ON_REQUEST) clear_unloaded(s, name);
    present there = {.all = all, .count = count, .scan = ++s->scans, .at_once = how != ON_CHANGE};
    if (status == WEFT_OK) status = load_found(s, name, how, &there, &newest, &why);
    if (status == WEFT_OK) {
        drop(s, name, "its folder was removed", is_gone, &there);
        if (!s->options.all_versions) drop(s, name, "a newer version is", is_older, &there);
        if (count == 0 && how == ON_REQUEST)
            status = weft_fail(WEFT_ERR_ARGUMENT, "no model is named '%s'", name);
        else if (count == 0 && how == AT_START)
            weft_log(s->context, WEFT_LOG_WARNING,
                     "%s has no versions, which are folders named 1, 2 and so on", folder);
        else if (how == ON_REQUEST && newest != WEFT_OK)
            status = weft_error_raise(&why);
    }
    free(folder);
    free(all);
    return status;
}

/* --- all models --- */

/* The names of the folders in the repository, and of the models in service whose folder was
 * removed. */
static weft_status list_names(weft_service *s, char ***names, int *count)
{
    size_t capacity = 0;
    weft_status status = weft_repository_names(s->models, names, count, &capacity);
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->count && status == WEFT_OK; i++) {
        bool listed = !s->entries[i]->numbered;
        for (int k = 0; k < *count; k++)
            listed = listed || !strcmp((*names)[k], s->entries[i]->name);
        if (listed) continue;
        status = WEFT_GROW(names, &capacity, *count);
        if (status == WEFT_OK) status = weft_strdup(s->entries[i]->name, &(*names)[*count]);
        *count += status == WEFT_OK;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static weft_status check_other(weft_service *s, const char *name)
{
    pthread_mutex_lock(&s->lock);
    bool other = weft_model_entry_find(s, name, 0) != NULL;
    pthread_mutex_unlock(&s->lock);
    if (!other) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "two models are named '%s', one of them in %s; give each a name of its own",
                     name, s->models);
}

/* Adds the last failure to the complaints of this scan. Logs it as a warning unless the scan before
 * had the same one, so that a folder that stays as it is gets one warning. name NULL: the failure
 * is of the whole repository. */
static void complain(weft_service *s, const char *name, weft_text *complaints)
{
    char line[2048], shown[160];
    if (name)
        (void)snprintf(line, sizeof(line), "%s/%s is not served: %s\n", s->models,
                       weft_printable(name, shown, sizeof(shown)), weft_last_message());
    else
        (void)snprintf(line, sizeof(line), "%s\n", weft_last_message());
    if (!s->complaints.data || !strstr(s->complaints.data, line))
        weft_log(s->context, WEFT_LOG_WARNING, "%.*s", (int)strcspn(line, "\n"), line);
    weft_text_add(complaints, "%s", line);
}

/* Scans the whole repository. A folder that cannot be read, or is no model, is left out with a
 * warning; at the start two models of one name are a failure. */
static weft_status poll_folder(weft_service *s, poll_reason how)
{
    char **names = NULL;
    int count = 0;
    weft_error error = {0};
    weft_text complaints = {0};
    pthread_mutex_lock(&s->poll_lock);
    weft_error_catch(&error, list_names(s, &names, &count));
    for (int i = 0; i < count && error.status == WEFT_OK; i++) {
        weft_status other = check_other(s, names[i]), one = other;
        if (one == WEFT_OK) one = update_model(s, names[i], how);
        if (other != WEFT_OK && how == AT_START)
            weft_error_catch(&error, other);
        else if (one != WEFT_OK)
            complain(s, names[i], &complaints);
    }
    weft_status status = weft_error_raise(&error);
    if (status != WEFT_OK && how == ON_CHANGE) complain(s, NULL, &complaints);
    free(s->complaints.data);
    s->was_scanned = true;
    s->complaints = complaints;
    pthread_mutex_unlock(&s->poll_lock);
    for (int i = 0; i < count; i++) free(names[i]);
    free(names);
    return status;
}

weft_status weft_service_poll_models(weft_service *s)
{
    WEFT_NEED_AS("service", s);
    if (!s->models) return weft_fail(WEFT_ERR_ARGUMENT, "the service has no folder of models");
    return poll_folder(s, AT_START);
}

weft_status weft_service_poll_model(weft_service *s, const char *name)
{
    pthread_mutex_lock(&s->poll_lock);
    weft_status status = update_model(s, name, ON_REQUEST);
    pthread_mutex_unlock(&s->poll_lock);
    return status;
}

void weft_service_poll_changes(weft_service *s)
{
    (void)poll_folder(s, ON_CHANGE);
}
