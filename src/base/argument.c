#include "base/argument.h"

#include "base/base.h"

weft_status weft_fail_null(const char *function, const char *names, const bool *given)
{
    for (; *given; given++) names += strcspn(names, ",") + 1;
    names += strspn(names, " ");
    return weft_fail(WEFT_ERR_ARGUMENT, "%s: '%.*s' is NULL, which it may not be", function,
                     (int)strcspn(names, ","), names);
}

weft_status weft_check_index(const char *function, const char *what, long long number,
                             long long count)
{
    if (number >= 0 && number < count) return WEFT_OK;
    if (count < 1)
        return weft_fail(WEFT_ERR_ARGUMENT, "%s: '%s' is %lld, but there are none", function, what,
                         number);
    return weft_fail(WEFT_ERR_ARGUMENT, "%s: '%s' is %lld, must be from 0 to %lld", function, what,
                     number, count - 1);
}

/* Most bytes by which the struct of a newer version may be longer. */
enum { MOST_NEWER = 4096 };

weft_status weft_take_struct(const char *name, const void *given, size_t least, size_t size,
                             void *copy)
{
    size_t theirs;
    memcpy(&theirs, given, sizeof(theirs));
    if (theirs < least || theirs > size + MOST_NEWER)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "the struct_size of %s is %zu, must be about %zu; call %s_init, which "
                         "sets it",
                         name, theirs, size, name);
    for (size_t i = size; i < theirs; i++)
        if (((const char *)given)[i])
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "the struct_size of %s is %zu, and its byte %zu is not 0; this "
                             "library (%s) has %zu bytes: leave newer fields 0",
                             name, theirs, i, weft_version(), size);
    memcpy(copy, given, WEFT_MIN(theirs, size));
    memcpy(copy, &size, sizeof(size));
    return WEFT_OK;
}

weft_status weft_check_room(const char *name, const uint64_t *room, size_t words)
{
    for (size_t i = 0; i < words; i++)
        if (room[i])
            return weft_fail(WEFT_ERR_ARGUMENT,
                             "the field room[%zu] of %s is not 0; this library (%s) has no such "
                             "field: make the struct all zeros first",
                             i, name, weft_version());
    return WEFT_OK;
}

void weft_give_struct(void *to, size_t size, const void *ours, size_t our_size)
{
    if (!to || size < sizeof(size)) return;
    memset(to, 0, size);
    memcpy(to, ours, WEFT_MIN(size, our_size));
    memcpy(to, &size, sizeof(size));
}
