/* Internals of a service: the table of models and their versions. */
#ifndef WEFT_SERVE_SERVICE_INTERNAL_H
#define WEFT_SERVE_SERVICE_INTERNAL_H

#include "serve/servable.h"

/* The place of a version, or of a model that was loaded from a path, whatever its version. It
 * remains after its version has been taken out of service. */
typedef struct weft_place {
    char *name, *path;
    int64_t version;     /* 0: none yet */
    bool numbered;       /* it is in the folder of models, under this number */
    weft_served *served; /* NULL: none */
    bool loading;
    bool out;       /* it was taken out of service, and is loaded again on request */
    uint64_t tried; /* hash of its files at the last load */
    uint64_t seen;  /* and at the last scan of the folder */
    char reason[1024];
} weft_place;

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
    weft_place *
        *places; /* in order of arrival; allocated one by one, so that their addresses are stable */
    int count;
    size_t capacity;
    pthread_mutex_t looking; /* held while the folder is scanned; taken before `lock` */
    pthread_t background_thread;
    pthread_cond_t wake; /* used with `lock` */
    bool keeps, ending;
};

/* With the lock: the place of a version, or with version 0 of the model with its own path; NULL:
 * none. */
weft_place *weft_place_find(weft_service *service, const char *name, int64_t version);
/* With the lock: adds a place at the end. ARGUMENT: the name is invalid. */
weft_status weft_place_add(weft_service *service, const char *name, int64_t version,
                           weft_place **out) WEFT_NODISCARD;
/* With the lock: removes a place without a version in service. */
void weft_place_remove(weft_service *service, weft_place *place);
/* Loads the version at `path`, without the lock; the place's `loading` is set. version: its number;
 * 0: the next one. The previous version has ended when this returns. */
weft_status weft_place_load(weft_service *service, weft_place *place, const char *path,
                            int64_t version) WEFT_NODISCARD;
/* Waits until the last reference is released, and frees the version; new references are not
 * possible. Call it without the lock; NULL is allowed. */
void weft_service_end(weft_service *service, weft_served *served);

/* model_repository.c: weft_service_look for one model, at once, also if it was taken out of
 * service. After a failure it may be out of service. */
weft_status weft_service_look_at(weft_service *service, const char *name) WEFT_NODISCARD;
/* As weft_service_look, but loads only versions whose files have stopped changing. */
weft_status weft_service_look_again(weft_service *service) WEFT_NODISCARD;

/* background.c: the thread that scans the folder periodically, and saves batch times. */
weft_status weft_service_keep(weft_service *service) WEFT_NODISCARD;
void weft_service_keep_no_more(weft_service *service);

#endif
