/* A built-in model compiled to a program with a store, of which a test can run training steps. */
#ifndef WEFT_TESTS_NET_FIXTURE_H
#define WEFT_TESTS_NET_FIXTURE_H

#include "support.h"

typedef struct net {
    weft_context *context;
    weft_graph *graph;
    weft_store *store;
    weft_instance *program;
    weft_model_values values;
} net;

void net_make(net *n, const char *model, const char *device, bool training, int64_t batch);
void net_drop(net *n);
void net_step(net *n);

#endif
