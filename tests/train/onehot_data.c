#include "onehot_data.h"

#include <math.h>

#include "trainer_runs.h"

int label_of(int i)
{
    return (7 * i + i / 3) % CLASSES;
}

void write_rows(const char *folder, const int *rows, int count, double test, char *words,
                size_t room)
{
    char text[ROWS * (2 * ROWS + 3) + 1], table[4200], model[4200];
    size_t at = 0;
    static const char net[] = "layers:\n  - {type: dense, name: fc, units: classes, bias: false}\n";
    for (int i = 0; i < (rows ? count : ROWS); i++) {
        int r = rows ? rows[i] : i;
        for (int j = 0; j < ROWS; j++) {
            text[at++] = j == r ? '1' : '0';
            text[at++] = ',';
        }
        text[at++] = (char)('0' + label_of(r));
        text[at++] = '\n';
    }
    write_file(folder, rows ? "some.csv" : "rows.csv", text, at, table, sizeof(table));
    write_file(folder, "rows.yaml", net, sizeof(net) - 1, model, sizeof(model));
    (void)snprintf(words, room, "model=%s data=csv:%s,test=%g normalize=none", model, table, test);
}

static double number_at(const char *data, bool wide, int i)
{
    float narrow;
    double number;
    if (wide)
        memcpy(&number, data + 8 * i, sizeof(number));
    else
        memcpy(&narrow, data + 4 * i, sizeof(narrow));
    return wide ? number : (double)narrow;
}

bool read_tensor(const char *folder, int step, const char *file, const char *tensor, double *out,
                 int count)
{
    enum { MOST = 1 << 20 };
    static char data[MOST];
    char path[4200], key[300];
    uint64_t header;
    unsigned long begin = 0;
    (void)snprintf(path, sizeof(path), "%s/step-%d/%s.safetensors", folder, step, file);
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    size_t size = fread(data, 1, MOST - 1, f);
    fclose(f);
    data[size] = '\0';
    memcpy(&header, data, sizeof(header));
    (void)snprintf(key, sizeof(key), "\"%s\":", tensor);
    const char *at = strstr(data + 8, key);
    if (!at) return false;
    const char *type = strstr(at, "\"dtype\":\""), *offsets = strstr(at, "\"data_offsets\":[");
    assert_true(type && offsets && sscanf(offsets + 16, "%lu", &begin) == 1);
    bool wide = strncmp(type + 9, "F64", 3) == 0;
    assert_true(wide || strncmp(type + 9, "F32", 3) == 0);
    assert_true(8 + header + begin + (size_t)count * (wide ? 8 : 4) <= size);
    for (int i = 0; i < count; i++) out[i] = number_at(data + 8 + header + begin, wide, i);
    return true;
}

void read_rows(const char *folder, int step, int learner, const char *moment, row rows[ROWS])
{
    double all[ROWS * CLASSES];
    char name[64], prefix[16] = "";
    if (learner > 0) (void)snprintf(prefix, sizeof(prefix), "%d/", learner);
    memset(rows, 0, ROWS * sizeof(*rows));
    (void)snprintf(name, sizeof(name), "%sfc/weight", prefix);
    assert_true(
        read_tensor(folder, step, learner ? "learners" : "parameters", name, all, ROWS * CLASSES));
    for (int i = 0; i < ROWS; i++) memcpy(rows[i].w, all + i * CLASSES, sizeof(numbers));
    if (!moment) return;
    (void)snprintf(name, sizeof(name), "%sfc/weight/%s", prefix, moment);
    assert_true(
        read_tensor(folder, step, learner ? "learners" : "state", name, all, ROWS * CLASSES));
    for (int i = 0; i < ROWS; i++) memcpy(rows[i].m, all + i * CLASSES, sizeof(numbers));
}

void softmax_of(const double *w, double *p)
{
    double sum = 0;
    for (int c = 0; c < CLASSES; c++) sum += exp(w[c]);
    for (int c = 0; c < CLASSES; c++) p[c] = exp(w[c]) / sum;
}

double loss_of(const double *w, int label)
{
    numbers p;
    softmax_of(w, p);
    return -log(p[label]);
}

int best_of(const double *w)
{
    int best = 0;
    for (int c = 1; c < CLASSES; c++)
        if (w[c] > w[best]) best = c;
    return best;
}

void update_row(const rule *how, row *r, int label, double share, double scale, double rate,
                int step)
{
    numbers p;
    softmax_of(r->w, p);
    for (int c = 0; c < CLASSES; c++) {
        double g = scale * share * (p[c] - (c == label));
        if (how->name[0] == 'a') { /* adam, adamw */
            if (how->name[4])
                r->w[c] -= rate * how->decay * r->w[c];
            else
                g += how->decay * r->w[c];
            r->m[c] = how->beta1 * r->m[c] + (1 - how->beta1) * g;
            r->v[c] = how->beta2 * r->v[c] + (1 - how->beta2) * g * g;
            double first = r->m[c] / (1 - pow(how->beta1, step));
            double second = r->v[c] / (1 - pow(how->beta2, step));
            r->w[c] -= rate * first / (sqrt(second) + how->epsilon);
            continue;
        }
        g += how->decay * r->w[c];
        r->m[c] = how->momentum * r->m[c] + g;
        r->w[c] -= rate * (how->name[0] == 'n' ? g + how->momentum * r->m[c] : r->m[c]);
    }
}

double distance(const double *a, const double *b)
{
    double most = 0;
    for (int c = 0; c < CLASSES; c++) most = fmax(most, fabs(a[c] - b[c]));
    return most;
}

/* Gets the weights before the first step from a run of one step whose learning rate is almost 0. */
void initial_rows(const char *folder, const char *words, row rows[ROWS])
{
    char path[4200], all[8000];
    log_of_run l;
    (void)snprintf(path, sizeof(path), "%s/initial", folder);
    (void)snprintf(all, sizeof(all), "%s optimizer=sgd lr=1e-30 steps=1 batch=1", words);
    assert_ok(train(all, path, 0, &l));
    read_rows(path, 1, 0, NULL, rows);
}

/* The samples that a run over one epoch does not read are the test part. */
void find_test_rows(const char *folder, const char *words, const row start[ROWS], bool test[ROWS])
{
    char path[4200], all[8000];
    row rows[ROWS];
    log_of_run l;
    int found = 0;
    (void)snprintf(path, sizeof(path), "%s/part", folder);
    (void)snprintf(all, sizeof(all), "%s optimizer=sgd lr=1 batch=%d epochs=1", words, TRAIN_ROWS);
    assert_ok(train(all, path, 0, &l));
    assert_int_equal(l.steps, 1);
    read_rows(path, 1, 0, NULL, rows);
    for (int i = 0; i < ROWS; i++) {
        row want = start[i];
        test[i] = distance(rows[i].w, start[i].w) == 0;
        found += test[i];
        update_row(&(rule){.name = "sgd"}, &want, label_of(i), 1.0 / TRAIN_ROWS, 1, 1, 1);
        if (!test[i]) assert_true(distance(rows[i].w, want.w) < 2e-6);
    }
    assert_int_equal(found, TEST_ROWS);
}
