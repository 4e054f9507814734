/* Keeps the resources of kernels as rows of text: KIND FUNCTION DEFINITIONS REGISTERS SPILLED
 * SHARED, with a comment behind '#' where a kernel may spill. */
#include "gpu_resources.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/prelude.h"
#include "device/gpu/gpu.h"

enum { NAME = 480, WORD = 160, WHY = 120 };
typedef struct row {
    char name[NAME], why[WHY];
    int registers, spilled, shared;
    bool seen;
} row;
typedef struct rows {
    row *list;
    size_t count;
} rows;
static rows found;

static row *find(const rows *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->list[i].name, name) == 0) return &all->list[i];
    return NULL;
}

static row *add(rows *all, const char *name)
{
    row *more = realloc(all->list, (all->count + 1) * sizeof(*more));
    if (!more) abort();
    all->list = more;
    row *r = &all->list[all->count++];
    *r = (row){.registers = 0};
    (void)snprintf(r->name, sizeof(r->name), "%s", name);
    return r;
}

static const gpu_text *const texts[] = {&gpu_text_elements,  &gpu_text_product,   &gpu_text_shape,
                                        &gpu_text_reduce,    &gpu_text_norm,      &gpu_text_window,
                                        &gpu_text_rows,      &gpu_text_loss,      &gpu_text_update,
                                        &gpu_text_attention, &gpu_text_recurrence};

static const char *kind_of(const char *source)
{
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if (strstr(source, texts[i]->text)) return texts[i]->name;
    return "unknown";
}

/* Writes the definitions of a launch, which stand between the prelude and the common text, as
 * "f32,A=1,B=2". */
static void definitions_of(const char *source, char *out, size_t room)
{
    static const char define[] = "#define ";
    const char *at = strstr(source, cuda_prelude), *end = strstr(source, gpu_text_common.text);
    if (!at || !end) abort();
    at += sizeof(cuda_prelude) - 1;
    bool wide = false;
    char more[WORD] = "";
    size_t used = 0;
    for (; at < end; at += strcspn(at, "\n") + 1) {
        if (strncmp(at, define, sizeof(define) - 1) != 0) continue;
        const char *name = at + sizeof(define) - 1;
        int size = (int)strcspn(name, " \n"), value = (int)strcspn(name + size, "\n");
        if (strncmp(name, "REAL_IS_DOUBLE", (size_t)size) == 0)
            wide = true;
        else if (used < sizeof(more))
            used += (size_t)snprintf(more + used, sizeof(more) - used, ",%.*s=%.*s", size, name,
                                     value - 1, name + size + 1);
    }
    (void)snprintf(out, room, "%s%s", wide ? "f64" : "f32", more);
}

static int number_before(const char *line, const char *words)
{
    const char *at = strstr(line, words);
    if (!at) return 0;
    while (at > line && at[-1] == ' ') at--;
    while (at > line && at[-1] >= '0' && at[-1] <= '9') at--;
    return atoi(at);
}

static void larger(int *most, int now)
{
    if (now > *most) *most = now;
}

void resources_add(const char *source, const char *log)
{
    static const char entry[] = "Compiling entry function '";
    char definitions[WORD], name[NAME], line[1024];
    row *now = NULL;
    definitions_of(source, definitions, sizeof(definitions));
    for (; *log; log += strcspn(log, "\n"), log += *log == '\n') {
        (void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(log, "\n"), log);
        const char *function = strstr(line, entry);
        if (function) {
            function += sizeof(entry) - 1;
            (void)snprintf(name, sizeof(name), "%s %.*s %.120s", kind_of(source),
                           (int)strcspn(function, "'"), function, definitions);
            now = find(&found, name);
            if (!now) now = add(&found, name);
        }
        if (!now) continue;
        larger(&now->spilled, number_before(line, "bytes spill stores") +
                                  number_before(line, "bytes spill loads"));
        larger(&now->registers, number_before(line, "registers"));
        if (strstr(line, "Used ")) larger(&now->shared, number_before(line, "bytes smem"));
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const row *)a)->name, ((const row *)b)->name);
}

/* The first word of a file's compiler line names it. */
static bool read_rows(const char *path, const char *compiler, rows *out, bool *same)
{
    char line[512];
    FILE *f = fopen(path, "r");
    *same = false;
    while (f && fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '#' || line[0] == '\0') {
            *same =
                *same || (strncmp(line, "# compiler: ", 12) == 0 && !strcmp(line + 12, compiler));
            continue;
        }
        char name[3][WORD];
        int numbers[3], end = 0;
        if (sscanf(line, "%39s %39s %79s %d %d %d%n", name[0], name[1], name[2], &numbers[0],
                   &numbers[1], &numbers[2], &end) != 6) {
            printf("%s: no row: %s\n", path, line);
            (void)fclose(f);
            return false;
        }
        char whole[NAME];
        (void)snprintf(whole, sizeof(whole), "%s %s %s", name[0], name[1], name[2]);
        row *r = add(out, whole);
        r->registers = numbers[0];
        r->spilled = numbers[1];
        r->shared = numbers[2];
        const char *why = strchr(line + end, '#');
        if (why) (void)snprintf(r->why, sizeof(r->why), "%s", why);
    }
    if (f) (void)fclose(f);
    return f != NULL;
}

void resources_record(const char *path, const char *compiler)
{
    rows before = {0};
    bool same;
    (void)read_rows(path, compiler, &before, &same);
    FILE *f = fopen(path, "w");
    if (!f) abort();
    fprintf(f,
            "# What the kernels of device/gpu need on sm_90: test_gpu_nvrtc compares, and "
            "`test_gpu_nvrtc --record FILE` writes it.\n# A row that spills says why.\n"
            "# compiler: %s\n# text, function, definitions, registers, spilled bytes, bytes of "
            "shared memory\n",
            compiler);
    qsort(found.list, found.count, sizeof(*found.list), by_name);
    for (size_t i = 0; i < found.count; i++) {
        const row *r = &found.list[i], *old = find(&before, r->name);
        bool why = old && r->spilled > 0 && *old->why;
        fprintf(f, "%s %d %d %d%s%s\n", r->name, r->registers, r->spilled, r->shared,
                why ? " " : "", why ? old->why : "");
    }
    (void)fclose(f);
    free(before.list);
}

int resources_compare(const char *path, const char *compiler, int all)
{
    rows table = {0};
    bool same;
    int wrong = 0;
    if (!read_rows(path, compiler, &table, &same)) return 1;
    for (size_t i = 0; i < found.count; i++) {
        const row *r = &found.list[i];
        row *t = find(&table, r->name);
        if (t) t->seen = true;
        bool more = t && same && (r->registers > t->registers || r->shared > t->shared);
        bool spills = r->spilled > (t && *t->why ? t->spilled : 0);
        if (t && !more && !spills) continue;
        wrong++;
        printf("%s: %d registers, %d bytes spilled, %d of shared memory; ", r->name, r->registers,
               r->spilled, r->shared);
        if (t)
            printf("the table has %d, %d, %d\n", t->registers, t->spilled, t->shared);
        else
            printf("the table has no such row\n");
    }
    for (size_t i = 0; all && i < table.count; i++)
        if (!table.list[i].seen && ++wrong)
            printf("%s: no such kernel was compiled\n", table.list[i].name);
    if (!same)
        printf("the table is of another compiler than %s: registers and shared memory were not "
               "compared\n",
               compiler);
    free(table.list);
    return wrong;
}

void resources_free(void)
{
    free(found.list);
    found = (rows){0};
}
