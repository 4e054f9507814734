/* Parses the options of the gossip exchange. */
#include "base/spec.h"
#include "exchange/gossip/peer_internal.h"

/* The first is the mode of a run that names none. */
static const weft_peer_mode *const modes[] = {&weft_peer_updates, &weft_peer_average};

static weft_status find_mode(const char *name, const weft_peer_mode **out)
{
    weft_text names = {0};
    char *list;
    int i;
    for (size_t k = 0; k < WEFT_COUNT(modes); k++)
        weft_text_add(&names, "%s%s", k ? "," : "", modes[k]->name);
    WEFT_TRY(weft_text_take(&names, &list));
    weft_status status =
        weft_choose("exchange gossip: mode", name ? name : modes[0]->name, list, NULL, &i);
    free(list);
    if (status == WEFT_OK) *out = modes[i];
    return status;
}

weft_status weft_gossip_parse(const char *arguments, char **topology, const weft_peer_mode **mode)
{
    char *name = NULL;
    weft_topology built = {0};
    weft_spec_key keys[] = {
        {.name = "topology", .text = topology}, {.name = "mode", .text = &name}, {.name = NULL}};
    weft_status status = *arguments ? weft_spec_parse("exchange gossip", arguments, keys) : WEFT_OK;
    if (status == WEFT_OK) status = find_mode(name, mode);
    if (status == WEFT_OK && !*topology) status = weft_strdup("all", topology);
    /* Checks the name: every topology exists for eight peers. */
    if (status == WEFT_OK) status = weft_topology_make(*topology, 8, false, 1, &built);
    weft_topology_free(&built);
    free(name);
    return status;
}

weft_status weft_gossip_codec(const weft_peer_mode *mode, const char *given, const char **out)
{
    bool named = given && *given;
    if (named && mode->pairs)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "exchange gossip: with mode=%s whole parameters are sent, so that "
                         "--compress %s has nothing to compress; give mode=%s, or leave it out",
                         mode->name, given, modes[0]->name);
    *out = named ? given : "none";
    return WEFT_OK;
}
