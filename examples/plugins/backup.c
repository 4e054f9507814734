/* Policies of parameter servers as a plug-in: backup workers. A version is complete when all
 * learners but one have pushed, so that no learner waits for the slowest, whose late updates go
 * into the next version (backup) or have no effect (backup-drop):
 *
 *   weft train --plugin ./libbackup.so -n 4 --exchange server:policy=backup */
#include "weft/services.h"

static const weft_services *weft; /* set when the plug-in is loaded */

static int all_but_one(const weft_server_pending *pending)
{
    int enough = pending->learners > 2 ? pending->learners - 1 : 1;
    return pending->of_clock >= enough ? pending->of_clock : 0;
}

/* A learner begins a step when the version of its last one is there. */
static bool after_version(const weft_server_waiting *learner)
{
    return learner->clock <= learner->made;
}

static weft_late keep(int64_t clocks)
{
    (void)clocks;
    return WEFT_LATE_KEEP;
}

static weft_late discard(int64_t clocks)
{
    (void)clocks;
    return WEFT_LATE_DISCARD;
}

static const weft_server_policy_ops kept = {.struct_size = sizeof(kept),
                                            .rounds = true,
                                            .complete = all_but_one,
                                            .may_begin = after_version,
                                            .late = keep};
static const weft_server_policy_ops dropped = {.struct_size = sizeof(dropped),
                                               .rounds = true,
                                               .complete = all_but_one,
                                               .may_begin = after_version,
                                               .late = discard};

static const weft_entry entries[] = {
    {.kind = WEFT_KIND_SERVER_POLICY,
     .name = "backup",
     .summary = "a version has the updates of all learners but one; later ones go into the next",
     .ops = &kept},
    {.kind = WEFT_KIND_SERVER_POLICY,
     .name = "backup-drop",
     .summary = "as backup, but later updates have no effect",
     .ops = &dropped},
    {.name = NULL}};

WEFT_PLUGIN(weft, entries);
