/* Parses the options of the gossip exchange. */
#include "base/spec.h"
#include "exchange/gossip/gossip.h"

static weft_status find_mode(const char *name, weft_gossip_mode *out)
{
    static const char *const names[] = {
        [WEFT_GOSSIP_UPDATES] = "updates", [WEFT_GOSSIP_AVERAGE] = "average"};
    for (size_t i = 0; i < WEFT_COUNT(names); i++)
        if (!name || strcmp(names[i], name) == 0) {
            *out = (weft_gossip_mode)i;
            return WEFT_OK;
        }
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "exchange gossip: there is no mode=%s; it can be updates (each goes to all "
                     "peers) or average (of two neighbours)",
                     name);
}

weft_status weft_gossip_parse(const char *arguments, char **topology, weft_gossip_mode *mode)
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

weft_status weft_gossip_codec(weft_gossip_mode mode, const char *given, const char **out)
{
    bool named = given && *given;
    if (named && mode == WEFT_GOSSIP_AVERAGE)
        return weft_fail(
            WEFT_ERR_ARGUMENT,
            "exchange gossip: with mode=average whole parameters are sent, so that "
            "--compress %s has nothing to compress; give mode=updates, or leave it out",
            given);
    *out = named ? given : "none";
    return WEFT_OK;
}
