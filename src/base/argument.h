/* Checks of what a caller of the library gives: pointers, enums, and structs of options that may be
 * those of an older or newer version of the headers. */
#ifndef WEFT_BASE_ARGUMENT_H
#define WEFT_BASE_ARGUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

/* Marks a function of libweft that libweft-serve calls. Such functions are exported, under the
 * version node WEFT_PRIVATE_MAJOR.MINOR.PATCH (cmake/private_map.cmake), and are nobody else's. */
#define WEFT_PRIVATE_API WEFT_API

/* Fails with a message that names the first pointer that is NULL. names: the list of the arguments
 * as the macros below have it, separated by commas. */
WEFT_PRIVATE_API weft_status weft_fail_null(const char *function, const char *names,
                                            const bool *given);

static inline bool weft_all_given(const bool *given, size_t count)
{
    bool all = true;
    for (size_t i = 0; i < count; i++) all = all && given[i];
    return all;
}

/* A public function begins with one of these, which returns if one of the pointers is NULL: with
 * ARGUMENT, with the neutral value of a function that returns something else, or with nothing.
 * Macros with _AS take the names that the header has for the arguments. */
#define WEFT_NEED_ELSE_AS(neutral, names, ...)                                                     \
    do {                                                                                           \
        const bool weft_given[] = {__VA_ARGS__};                                                   \
        if (!weft_all_given(weft_given, sizeof(weft_given))) {                                     \
            (void)weft_fail_null(__func__, names, weft_given);                                     \
            return neutral;                                                                        \
        }                                                                                          \
    } while (0)
#define WEFT_NEED_ELSE(neutral, ...) WEFT_NEED_ELSE_AS(neutral, #__VA_ARGS__, __VA_ARGS__)
#define WEFT_NEED_AS(names, ...) WEFT_NEED_ELSE_AS(WEFT_ERR_ARGUMENT, names, __VA_ARGS__)
#define WEFT_NEED(...) WEFT_NEED_AS(#__VA_ARGS__, __VA_ARGS__)
#define WEFT_NEED_VOID_AS(names, ...) WEFT_NEED_ELSE_AS(, names, __VA_ARGS__)
#define WEFT_NEED_VOID(...) WEFT_NEED_VOID_AS(#__VA_ARGS__, __VA_ARGS__)

/* Fails if `number` is none of 0 to `count` - 1. what: the name of the argument, `function` that of
 * the public function. */
weft_status weft_check_index(const char *function, const char *what, long long number,
                             long long count) WEFT_NODISCARD;
#define WEFT_CHECK_INDEX(number, count)                                                            \
    WEFT_TRY(weft_check_index(__func__, #number, (long long)(number), (long long)(count)))
/* As WEFT_CHECK_INDEX, in functions that return something else. */
#define WEFT_CHECK_INDEX_ELSE(neutral, number, count)                                              \
    do {                                                                                           \
        if (weft_check_index(__func__, #number, (long long)(number), (long long)(count)) !=        \
            WEFT_OK)                                                                               \
            return neutral;                                                                        \
    } while (0)

/* Copies a caller's struct, which begins with its struct_size, over `copy`, which has the defaults.
 * A shorter struct, of an older version, leaves the defaults of the fields that it lacks; the bytes
 * that a longer one has behind ours must be 0. least: bytes of the oldest version. */
WEFT_PRIVATE_API weft_status weft_take_struct(const char *name, const void *given, size_t least,
                                              size_t size, void *copy) WEFT_NODISCARD;
/* last: the last field of the oldest version. */
#define WEFT_TAKE(type, given, last, copy)                                                         \
    WEFT_TRY(weft_take_struct(#type, given, offsetof(type, last) + sizeof((copy)->last),           \
                              sizeof(type), copy))
/* Fails if a word of `room`, where later versions have fields, is not 0. name: of the struct. */
weft_status weft_check_room(const char *name, const uint64_t *room, size_t words) WEFT_NODISCARD;
#define WEFT_CHECK_ROOM(name, given)                                                               \
    WEFT_TRY(weft_check_room(name, (given)->room, sizeof((given)->room) / sizeof(*(given)->room)))
/* Gives a caller a struct of its `size`, with as many of our fields as it has room for. */
WEFT_PRIVATE_API void weft_give_struct(void *to, size_t size, const void *ours, size_t our_size);

#endif
