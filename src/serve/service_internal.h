/* Internals of a service: the table of model versions, and the functions that load and end them. */
#ifndef WEFT_SERVE_SERVICE_INTERNAL_H
#define WEFT_SERVE_SERVICE_INTERNAL_H

#include "serve/servable.h"

/* An entry of the table: one version in the model repository, or a model that was loaded from a
 * path, whose entry stays when its version changes. An entry remains after its version was
 * unloaded. */
typedef struct weft_model_entry {
    char *name, *path;
    int64_t version;         /* number of the version; 0: none has been loaded yet */
    bool numbered;           /* the version is in the model repository, under this number */
    weft_servable *servable; /* the version in service; NULL: none */
    bool loading;
    bool unloaded;         /* a client has unloaded it; only a client's request loads it again */
    uint64_t loaded_hash;  /* hash of the version's files when its last load began */
    uint64_t scanned_hash; /* hash of the version's files at the last scan of the repository */
    int64_t missing_since; /* number of the first scan that missed its folder; 0: it is there */
    char reason[1024];
} weft_model_entry;

struct weft_service {
    weft_context *context;
    weft_service_options options;
    char *device, *policy, *models, *mesh, *times, *shares, *tune;
    int ranks; /* ranks of an instance's mesh; 1 without a mesh */
    weft_batcher *batcher;
    weft_core_sets *cores;
    /* [instances]: core binding that the executor's thread had before, restored at its end */
    void **bound;
    pthread_mutex_t lock;
    pthread_cond_t released;
    weft_model_entry **
        entries; /* in order of addition; each is allocated alone, so its address does not change */
    int count;
    size_t capacity;
    pthread_mutex_t poll_lock; /* held during a scan of the repository; taken before `lock` */
    bool was_scanned;          /* once as a whole; guarded by poll_lock */
    int64_t scans;             /* number of the last scan; guarded by poll_lock */
    weft_text complaints;      /* of the last scan, one a line; guarded by poll_lock */
    pthread_t background;
    pthread_cond_t wake; /* wakes the background thread; used with `lock` */
    bool background_started, ending;
};

/* With the lock: finds the entry of a version in the repository, or with version 0 that of a model
 * with a path of its own. NULL: there is none. */
weft_model_entry *weft_model_entry_find(weft_service *service, const char *name, int64_t version);
/* With the lock: adds an entry at the end of the table. ARGUMENT: the name is invalid. */
weft_status weft_model_entry_add(weft_service *service, const char *name, int64_t version,
                                 weft_model_entry **out) WEFT_NODISCARD;
/* With the lock: removes an entry from the table and frees it. A version in it is not ended; that
 * is the caller's task. */
void weft_model_entry_remove(weft_service *service, weft_model_entry *entry);
/* Loads the checkpoint at `path` into an entry whose `loading` is set. Call it without the lock.
 * version: the number of the version; 0: the number after the entry's last one. After a success the
 * previous version has ended; after a failure it stays in service. */
weft_status weft_model_entry_load(weft_service *service, weft_model_entry *entry, const char *path,
                                  int64_t version) WEFT_NODISCARD;
/* Waits until the last reference to a version is released and its queued requests are answered, and
 * frees the version. The version is no longer in the table, so no new reference to it can be taken.
 * Call it without the lock; NULL is allowed. */
void weft_service_end(weft_service *service, weft_servable *servable);

/* Most rows of a request to a version: as many as may wait, or a batch. */
int64_t weft_servable_most_rows(const weft_servable *servable);

/* Removes the batch queues of a version, after their requests are answered. */
void weft_servable_remove_queues(weft_servable *servable);

/* model_repository.c: scans the folder of one model and loads its new and changed versions at once,
 * also if the model was unloaded. A failure may leave the model without a version in service. */
weft_status weft_service_poll_model(weft_service *service, const char *name) WEFT_NODISCARD;
/* Scans the repository as weft_service_poll_models does, but loads only versions whose files have
 * not changed since the previous scan. Failures are logged, each once while it lasts. */
void weft_service_poll_changes(weft_service *service);

/* shares.c: whether a list of shares is valid (ARGUMENT), and the share of a model in it; 1: the
 * list does not name it. */
weft_status weft_shares_check(const char *list) WEFT_NODISCARD;
double weft_share_of(const char *list, const char *name);

/* background.c: starts the thread that scans the repository periodically and saves batch times. */
weft_status weft_service_start_background(weft_service *service) WEFT_NODISCARD;
void weft_service_stop_background(weft_service *service);

#endif
