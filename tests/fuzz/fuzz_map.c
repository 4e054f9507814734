/* Fuzzes the maps of --init: the first line is the name of a tensor, the others are rules. An order
 * of dimensions is a permutation, a rule with equal sides keeps a name, and a name that a rule
 * makes fits its other side. */
#include "fuzz.h"

#include "checkpoint/name_map.h"

static void must(bool right)
{
    if (!right) abort();
}

static void check_rule(const weft_name_rule *rule, const char *name)
{
    char out[WEFT_MAPPED_NAME], back[WEFT_MAPPED_NAME];
    uint32_t seen = 0;
    must(rule->rank >= 0 && rule->rank <= WEFT_MAX_RANK);
    for (int d = 0; d < rule->rank; d++) seen |= UINT32_C(1) << rule->order[d];
    must(rule->rank == 0 || seen == (UINT32_C(1) << rule->rank) - 1);
    if (!weft_name_rewrite(rule->from, name, rule->to, false, out)) return;
    must(strlen(out) < sizeof(out));
    if (strcmp(rule->from, rule->to) == 0) must(weft_names_alike(name, out));
    must(weft_name_rewrite(rule->to, out, rule->to, true, back));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    weft_name_map map = {0};
    const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t length = end ? (size_t)(end - data) : 0;
    char *name = malloc(length + 1);
    if (!name || !end) {
        free(name);
        return 0;
    }
    memcpy(name, data, length);
    name[length] = '\0';
    if (weft_name_map_add("fuzz", (const char *)end + 1, size - length - 1, &map) != WEFT_OK)
        must(weft_last_message()[0]);
    for (size_t i = 0; i < map.count; i++) check_rule(&map.rules[i], name);
    weft_name_map_free(&map);
    free(name);
    return 0;
}
