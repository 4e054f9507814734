/* Names of actors for error messages and logs. */
#include <stdio.h>

#include "actor/actor.h"

const char *weft_actor_name(const weft_actor *actor, char out[48])
{
    if (*actor->name)
        (void)snprintf(out, 48, "%s", actor->name);
    else if (actor->id == 0)
        (void)snprintf(out, 48, "the %s", actor->ops->name);
    else
        (void)snprintf(out, 48, "the %s with number %u", actor->ops->name, actor->id);
    return out;
}
