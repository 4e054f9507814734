/* Reads lines "case operand norm picks..." that tests/golden/make.py has written, and makes the
 * numbers that its operands consist of. */
#ifndef WEFT_TESTS_GOLDEN_LINES_H
#define WEFT_TESTS_GOLDEN_LINES_H

#include <math.h>

#include "support.h"

/* Number i of a stream, in [-1, 1). */
static inline double golden_number(uint32_t stream, int64_t i)
{
    uint32_t x = (uint32_t)i * 2654435761U + stream * 40503U;
    x ^= x >> 16;
    x *= 2246822519U;
    x ^= x >> 13;
    x *= 3266489917U;
    x ^= x >> 16;
    return ((double)x / 4294967296.0 - 0.5) * 2;
}

static inline double golden_get(const void *data, weft_dtype real, int64_t i)
{
    return real == WEFT_F32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}

/* Feeds a stream to an input. */
static inline void golden_feed(const weft_instance *p, const weft_graph *g, weft_value v,
                               uint32_t stream)
{
    void *to = weft_instance_input(p, v);
    weft_type type = weft_graph_value_type(g, v);
    for (int64_t i = 0; i < weft_shape_elements(&type.shape); i++)
        if (type.dtype == WEFT_F32)
            ((float *)to)[i] = (float)golden_number(stream, i);
        else
            ((double *)to)[i] = golden_number(stream, i);
}

/* Finds the line of a case and operand in a file. */
static inline void golden_line(const char *file, const char *name, const char *operand, char *line,
                               size_t room)
{
    char path[4096], wanted[64];
    (void)snprintf(path, sizeof(path), "%s/golden/%s", WEFT_TESTS_DIR, file);
    (void)snprintf(wanted, sizeof(wanted), "%s %s ", name, operand);
    FILE *lines = fopen(path, "r");
    assert_non_null(lines);
    bool found = false;
    while (!found && fgets(line, (int)room, lines))
        found = strncmp(line, wanted, strlen(wanted)) == 0;
    (void)fclose(lines);
    if (!found) fail_msg("%s has no '%s'", file, wanted);
    memmove(line, line + strlen(wanted), strlen(line + strlen(wanted)) + 1);
}

/* Compares a tensor with the rest of its line: the norm, and eight elements at multiples of the
 * index 7919. */
static inline void golden_compare(const char *name, const char *operand, const char *line,
                                  const void *data, const weft_type *type)
{
    char *end;
    int64_t count = weft_shape_elements(&type->shape);
    double norm = 0, limit = type->dtype == WEFT_F32 ? 1e-5 : 1e-12;
    for (int64_t i = 0; i < count; i++) norm += pow(golden_get(data, type->dtype, i), 2);
    norm = sqrt(norm);
    double want = strtod(line, &end);
    if (!(fabs(norm - want) <= limit * want))
        fail_msg("%s %s: norm %.15g, golden %s", name, operand, norm, line);
    for (int k = 0; k < 8; k++) {
        want = strtod(end, &end);
        double have = golden_get(data, type->dtype, k * 7919 % count);
        if (!(fabs(have - want) <= limit * norm))
            fail_msg("%s %s: pick %d is %.15g, golden %s", name, operand, k, have, line);
    }
}

/* Compares a tensor with the line of its case and operand in a file. */
static inline void golden_check(const char *file, const char *name, const char *operand,
                                const void *data, const weft_type *type)
{
    char line[512];
    golden_line(file, name, operand, line, sizeof(line));
    golden_compare(name, operand, line, data, type);
}

#endif
