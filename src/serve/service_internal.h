/* Internals of a service: the table of models and their versions. */
#ifndef WEFT_SERVE_SERVICE_INTERNAL_H
#define WEFT_SERVE_SERVICE_INTERNAL_H

#include "serve/servable.h"

/* The entry of a version, or of a model that was loaded from a path, whatever its version. It
 * remains after its version has been taken out of service. */
typedef struct weft_model_entry {
    char *name, *path;
    int64_t version;         /* 0: none yet */
    bool numbered;           /* it is in the folder of models, under this number */
    weft_servable *servable; /* NULL: none */
    bool loading;
    bool unloaded;         /* it was taken out of service, and is loaded again on request */
    uint64_t loaded_hash;  /* hash of its files at the last load */
    uint64_t scanned_hash; /* and at the last scan of the folder */
    char reason[1024];
} weft_model_entry;

struct weft_service {
    weft_context *context;
    weft_service_options options;
    char *device, *policy, *models, *mesh, *times;
    int ranks; /* of an instance */
    weft_batcher *batcher;
    weft_core_sets *cores;
    void **bound; /* [instances]: the previous core binding of rank 0, for restoring it */
    pthread_mutex_t lock;
    pthread_cond_t released;
    weft_model_entry **
        entries; /* in order of arrival; allocated one by one, so that their addresses are stable */
    int count;
    size_t capacity;
    pthread_mutex_t poll_lock; /* held while the folder is scanned; taken before `lock` */
    pthread_t background;
    pthread_cond_t wake; /* used with `lock` */
    bool background_started, ending;
};

/* With the lock: the entry of a version, or with version 0 of the model with its own path; NULL:
 * none. */
weft_model_entry *weft_model_entry_find(weft_service *service, const char *name, int64_t version);
/* With the lock: adds an entry at the end. ARGUMENT: the name is invalid. */
weft_status weft_model_entry_add(weft_service *service, const char *name, int64_t version,
                                 weft_model_entry **out) WEFT_NODISCARD;
/* With the lock: removes an entry without a version in service. */
void weft_model_entry_remove(weft_service *service, weft_model_entry *entry);
/* Loads the version at `path`, without the lock; the entry's `loading` is set. version: its number;
 * 0: the next one. The previous version has ended when this returns. */
weft_status weft_model_entry_load(weft_service *service, weft_model_entry *entry, const char *path,
                                  int64_t version) WEFT_NODISCARD;
/* Waits until the last reference is released, and frees the version; new references are not
 * possible. Call it without the lock; NULL is allowed. */
void weft_service_end(weft_service *service, weft_servable *servable);

/* model_repository.c: weft_service_poll_models for one model, at once, also if it was taken out of
 * service. After a failure it may be out of service. */
weft_status weft_service_poll_model(weft_service *service, const char *name) WEFT_NODISCARD;
/* As weft_service_poll_models, but loads only versions whose files have stopped changing. */
weft_status weft_service_poll_changes(weft_service *service) WEFT_NODISCARD;

/* background.c: the thread that scans the folder periodically, and saves batch times. */
weft_status weft_service_start_background(weft_service *service) WEFT_NODISCARD;
void weft_service_stop_background(weft_service *service);

#endif
