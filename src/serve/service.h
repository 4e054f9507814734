/* Inside of a service: the versions of its models. */
#ifndef WEFT_SERVE_SERVICE_H
#define WEFT_SERVE_SERVICE_H

#include "serve/served.h"

/* A version of a model; of one that was loaded from a path, whichever it is at the time. It stays
 * known when what it served has gone. */
typedef struct weft_place {
    char *name, *path;
    int64_t version;     /* 0: none yet */
    bool numbered;       /* it lies in the folder of models under this number */
    weft_served *served; /* NULL: none */
    bool loading;
    bool out;       /* it was taken out of service, and comes back when it is asked for */
    uint64_t tried; /* what its files looked like when they were loaded last */
    uint64_t seen;  /* and when the folder was looked at last */
    char reason[1024];
} weft_place;

struct weft_service {
    weft_context *context;
    weft_service_options options;
    char *device, *policy, *models, *mesh, *times;
    int ranks; /* of an instance */
    weft_batcher *batcher;
    weft_core_sets *cores;
    void **bound; /* [instances]: what rank 0 of each leaves its cores with */
    pthread_mutex_t lock;
    pthread_cond_t released;
    weft_place **places; /* each by itself, so that they stay where they are; in order of arrival */
    int count;
    size_t capacity;
    pthread_mutex_t looking; /* held by who looks at the folder; taken before `lock` */
    pthread_t keeper;
    pthread_cond_t wake; /* with `lock` */
    bool keeps, ending;
};

/* With the lock: the place of a version, or with version 0 of the model that has a path of its own;
 * NULL: there is none. */
weft_place *weft_place_find(weft_service *service, const char *name, int64_t version);
/* With the lock: makes a place at the end. ARGUMENT: the name is none. */
weft_status weft_place_add(weft_service *service, const char *name, int64_t version,
                           weft_place **out) WEFT_NODISCARD;
/* With the lock, of a place that serves nothing. */
void weft_place_remove(weft_service *service, weft_place *place);
/* Loads what lies at the place's path, without the lock; the place's `loading` is set. version: of
 * what comes; 0: the next one. What served there before has ended when this returns. */
weft_status weft_place_load(weft_service *service, weft_place *place, const char *path,
                            int64_t version) WEFT_NODISCARD;
/* Waits until nobody holds it, which nobody new can, and frees it. Without the lock; NULL is
 * allowed. */
void weft_service_end(weft_service *service, weft_served *served);

/* folder.c: the same as weft_service_look for one model, at once, whoever has taken it out. With a
 * failure nothing of it may be served. */
weft_status weft_service_look_at(weft_service *service, const char *name) WEFT_NODISCARD;
/* As weft_service_look, but what has only just come must not change any more. */
weft_status weft_service_look_again(weft_service *service) WEFT_NODISCARD;

/* keep.c: the thread that looks again and again, and keeps what was learned. */
weft_status weft_service_keep(weft_service *service) WEFT_NODISCARD;
void weft_service_keep_no_more(weft_service *service);

#endif
