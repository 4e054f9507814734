/* Bootstrap of a job: opens actors under addresses of their own, and exchanges layouts, addresses
 * and keys between learners. */
#include "exchange/bootstrap.h"

#include <stdio.h>
#include <unistd.h>

/* Binds the actor to an address for other processes. */
static weft_status bind_outside(weft_net_context *world, weft_net *net, weft_reach reach,
                                weft_bootstrap_addresses *out)
{
    const char *folder;
    char at[160];
    if (reach != WEFT_REACH_FILES)
        return weft_net_bind(net, reach == WEFT_REACH_NETWORK ? "tcp://*:*" : "tcp://127.0.0.1:*",
                             out->outside, sizeof(out->outside));
    WEFT_TRY(weft_net_context_folder(world, &folder));
    (void)snprintf(at, sizeof(at), "ipc://%s/%llu", folder,
                   (unsigned long long)weft_net_context_draw(world));
    return weft_net_bind(net, at, out->outside, sizeof(out->outside));
}

weft_status weft_bootstrap_open(weft_net_context *world, weft_actor *actor, weft_actor_id id,
                                weft_reach reach, weft_net **net, weft_bootstrap_addresses *out)
{
    *out = (weft_bootstrap_addresses){.token = weft_net_context_id(world)};
    /* Other runs or ranks in this process may have actors with this id, so a number that is unique
     * in the process follows. */
    (void)snprintf(out->inside, sizeof(out->inside), "inproc://weft-%u-%llu", id,
                   (unsigned long long)weft_net_context_draw(world));
    WEFT_TRY(weft_net_open(world, actor, id, out->inside, net));
    if (reach == WEFT_REACH_PROCESS) return WEFT_OK;
    weft_status status = bind_outside(world, *net, reach, out);
    if (status != WEFT_OK) weft_net_close(net);
    return status;
}

const char *weft_bootstrap_address(const weft_bootstrap_addresses *addresses,
                                   const weft_net_context *world)
{
    return addresses->token == weft_net_context_id(world) ? addresses->inside : addresses->outside;
}

/* Business card of a learner, which it sends to all others. */
typedef struct card {
    uint64_t token; /* id of its transport context; equal: the same process */
    uint64_t host;  /* id of its loopback; equal: the same machine */
} card;

static weft_status gather_texts(const weft_exchange *e, const char *what, const void *mine,
                                void *all, size_t bytes)
{
    return weft_learner_group_run(
        e->setup.endpoint, WEFT_TRANSFER(.kind = WEFT_ALL_GATHER, .dtype = WEFT_U8, .what = what,
                                         .send = mine, .receive = all, .count = (int64_t)bytes));
}

/* Sets *all to whether each learner sees the folders of all others: processes in containers may
 * have the loopback in common, and not their files. */
static weft_status see_folders(const weft_exchange *e, weft_net_context *world, bool *all)
{
    enum { PATH = sizeof(((weft_socket_folder *)0)->path) };
    int n = e->setup.endpoint->learners;
    char mine[PATH] = "", *paths, *seen;
    const char *folder;
    if (weft_net_context_folder(world, &folder) == WEFT_OK)
        (void)snprintf(mine, sizeof(mine), "%s", folder);
    WEFT_TRY(WEFT_NEW(&paths, n * (PATH + 1)));
    weft_status status = gather_texts(e, "folders of sockets", mine, paths, PATH);
    seen = paths + n * PATH;
    char sees = 1;
    for (int i = 0; i < n; i++) sees = sees && access(paths + i * PATH, R_OK | W_OK | X_OK) == 0;
    if (status == WEFT_OK) status = gather_texts(e, "folders that are seen", &sees, seen, 1);
    *all = status == WEFT_OK && !memchr(seen, 0, (size_t)n);
    free(paths);
    return status;
}

/* Messages between processes are encrypted with keys made for this run, which learners exchange
 * over the job's own communicator. */
static weft_status gather_keys(const weft_exchange *e, weft_net_context *world)
{
    int n = e->setup.endpoint->learners;
    weft_key mine, *all;
    weft_status armed = weft_net_context_set_keys(world, NULL);
    /* A learner that cannot encrypt sends a key of zeros, so that all learners fail and none
     * waits. */
    if (armed != WEFT_OK || !weft_net_context_has_keys(world, &mine)) mine = (weft_key){{0}};
    WEFT_TRY(WEFT_NEW(&all, n));
    weft_status status = gather_texts(e, "keys of learners", &mine, all, sizeof(mine));
    for (int i = 0; i < n && status == WEFT_OK && armed == WEFT_OK; i++) {
        static const weft_key none;
        status = memcmp(&all[i], &none, sizeof(none)) != 0
                     ? weft_net_context_allow(world, &all[i])
                     : weft_fail(WEFT_ERR_UNSUPPORTED,
                                 "exchange %s: learner %d is in another process and has no "
                                 "encryption",
                                 e->ops->name, i);
    }
    free(all);
    return armed != WEFT_OK ? armed : status;
}

/* A message has at most all parameters and their optimizer state: less than eight times the bytes
 * of the parameters. */
void weft_learners_expect(const weft_exchange *e, weft_net_context *world)
{
    enum { MOST_STATES = 8 };
    size_t bytes = 0;
    for (int i = 0; i < weft_store_count(e->setup.store); i++) {
        weft_type type = weft_store_type(e->setup.store, i);
        if (weft_store_kind(e->setup.store, i) == WEFT_VALUE_PARAM)
            bytes += (size_t)weft_shape_elements(&type.shape) * weft_dtype_size(type.dtype);
    }
    weft_net_context_set_max_message(world, MOST_STATES * bytes);
}

weft_status weft_learners_meet(weft_exchange *e, weft_net_context *world, weft_reach *reach)
{
    int n = e->setup.endpoint->learners;
    card mine = {weft_net_context_id(world), weft_net_context_host()};
    card *all;
    bool others = false, apart = false;
    *reach = WEFT_REACH_PROCESS;
    WEFT_TRY(weft_exchange_check_layouts(e));
    WEFT_TRY(WEFT_NEW(&all, n));
    weft_status status = gather_texts(e, "places of learners", &mine, all, sizeof(mine));
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        others = others || all[i].token != mine.token;
        apart = apart || all[i].host != mine.host;
    }
    free(all);
    WEFT_TRY(status);
    weft_learners_expect(e, world);
    if (!others) return WEFT_OK;
    bool files = false;
    if (!apart) WEFT_TRY(see_folders(e, world, &files));
    *reach = apart ? WEFT_REACH_NETWORK : files ? WEFT_REACH_FILES : WEFT_REACH_MACHINE;
    return files ? WEFT_OK : gather_keys(e, world);
}
