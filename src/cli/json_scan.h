/* Reads JSON from memory, one value after the other: lines of metrics, and traces. The first wrong
 * byte sets `wrong`, after which nothing more is read. */
#ifndef WEFT_CLI_JSON_SCAN_H
#define WEFT_CLI_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>

/* Sets *text to the contents of a regular file, with a zero byte behind them; the caller frees it.
 * false: it cannot be read, and an error was printed. */
bool json_read_file(const char *path, char **text, size_t *size);

typedef struct json_scan {
    const char *at, *end;
    bool wrong;
    bool first; /* nothing of the innermost object or list was read */
} json_scan;

/* Enters an object ('{') or a list ('['). Then json_member or json_element says whether there is
 * another entry, whose value the caller takes or skips; false ends the object or list. key gets the
 * name of a member, cut to size. */
void json_enter(json_scan *s, char open);
bool json_member(json_scan *s, char *key, size_t size);
bool json_element(json_scan *s);

/* Takes a number; NaN: the value is none, and is skipped. */
double json_take_number(json_scan *s);
/* Takes a string, cut to size, with a question mark for a \u escape; "": the value is none, and is
 * skipped. */
void json_take_text(json_scan *s, char *out, size_t size);
void json_skip(json_scan *s);
/* Whether the whole text was read, and was right. */
bool json_ended(json_scan *s);

#endif
