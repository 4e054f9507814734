#include "exchange_runs.h"

char last_note[512];

void take_log(void *user, weft_log_level level, const char *text)
{
    (void)user;
    if (level == WEFT_LOG_NOTE) (void)snprintf(last_note, sizeof(last_note), "%s", text);
}

int begin(void **state)
{
    if (setup(state) != 0 || exchanges_register(context) != WEFT_OK) return 1;
    weft_context_set_log(context, take_log, NULL);
    return 0;
}

int end(void **state)
{
    exchanges_forget();
    return teardown(state);
}

/* --- checkpoints --- */

bool open_tensors(const char *folder, const char *file, tensors *out)
{
    char path[4300];
    *out = (tensors){.bytes = {0}};
    (void)snprintf(path, sizeof(path), "%s/latest/%s.safetensors", folder, file);
    if (access(path, R_OK) != 0) return false;
    assert_ok(weft_file_map(path, &out->bytes));
    assert_ok(weft_safetensors_parse(path, out->bytes.data, out->bytes.size, &out->all));
    return true;
}

void close_tensors(tensors *t)
{
    weft_safetensors_free(&t->all);
    weft_file_unmap(&t->bytes);
}

static double distance(const weft_tensor *a, const weft_tensor *b)
{
    double most = 0;
    weft_dtype dtype = strcmp(a->dtype, "F64") == 0   ? WEFT_F64
                       : strcmp(a->dtype, "F32") == 0 ? WEFT_F32
                                                      : WEFT_I32;
    for (int64_t i = 0; i < weft_shape_elements(&a->shape); i++) {
        double d = weft_number_get(dtype, a->data, i) - weft_number_get(dtype, b->data, i);
        most = d > most ? d : -d > most ? -d : most;
    }
    return most;
}

void assert_same(const char *a, const char *b, const char *file, double close, const char *why)
{
    tensors x, y;
    bool has_x = open_tensors(a, file, &x), has_y = open_tensors(b, file, &y);
    if (!has_x || !has_y) fail_msg("%s: %s has no %s", why, has_x ? b : a, file);
    if (x.all.count != y.all.count)
        fail_msg("%s: %zu and %zu tensors in %s", why, x.all.count, y.all.count, file);
    for (size_t i = 0; i < x.all.count; i++) {
        const weft_tensor *p = &x.all.tensors[i], *q = weft_safetensors_find(&y.all, p->name);
        if (!q || p->bytes != q->bytes) fail_msg("%s: %s differs in '%s'", why, file, p->name);
        bool same = close == 0 ? memcmp(p->data, q->data, p->bytes) == 0 : distance(p, q) <= close;
        if (!same) fail_msg("%s: '%s' of %s differs by %g", why, p->name, file, distance(p, q));
    }
    close_tensors(&x);
    close_tensors(&y);
}

void assert_same_or_none(const char *a, const char *b, const char *file, const char *why)
{
    tensors x, y;
    bool some = open_tensors(a, file, &x);
    some = open_tensors(b, file, &y) || some;
    close_tensors(&x);
    close_tensors(&y);
    if (some) assert_same(a, b, file, 0, why);
}

/* --- runs --- */

const char *made(const char *root, const char *name)
{
    static char paths[8][4200];
    static int at;
    char *path = paths[at++ % 8];
    (void)snprintf(path, sizeof(paths[0]), "%s/%s", root, name);
    return path;
}

void run(const char *words, const char *more, const char *folder, int stop_after)
{
    char all[2000];
    log_of_run l;
    (void)snprintf(all, sizeof(all), "%s %s", words, more);
    weft_status status = train(all, folder, stop_after, &l);
    if (status != WEFT_OK && !(stop_after && status == WEFT_ERR_INTERRUPTED))
        fail_msg("%s: %s", all, weft_last_message());
}

void go_back_to(const char *folder, int step, int last)
{
    char path[4300], name[40];
    for (int s = step + 1; s <= last; s++) {
        (void)snprintf(path, sizeof(path), "%s/step-%d", folder, s);
        if (access(path, F_OK) == 0) remove_folder(strdup(path));
    }
    (void)snprintf(path, sizeof(path), "%s/latest", folder);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(name, sizeof(name), "step-%d", step);
    assert_int_equal(symlink(name, path), 0);
}

void assert_resumed(const char *words, const char *whole, const char *part, int back,
                    const char *rest, const char *files)
{
    char *root = temporary_folder(), file[40];
    const char *a = made(root, "a"), *b = made(root, "b");
    run(words, whole, a, 0);
    run(words, part, b, 0);
    if (back) go_back_to(b, back, 9);
    run(words, rest, b, 0);
    for (int n = 0; sscanf(files, "%39s%n", file, &n) == 1; files += n)
        assert_same(a, b, file, 0, words);
    remove_folder(root);
}
