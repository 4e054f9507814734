/* Tests folders of pictures as data: classes and parts by folder, what is refused, pictures that
 * cannot be read, and the same numbers with any number of threads and any cache. */
#include <math.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/registry.h"
#include "context.h"
#include "data/loader.h"
#include "formats/formats.h"
#include "pictures.h"

enum { SIDE = 8 };

/* Makes a picture of one grey value, as JPEG or PNG by its name; below 0: a broken one. */
static const picture_file *make(const char *name, int value)
{
    static picture_file f;
    unsigned char pixels[SIDE * (SIDE + 1)];
    memset(pixels, value, sizeof(pixels));
    for (int y = 0; y < SIDE && strstr(name, ".png"); y++) pixels[y * (SIDE + 1)] = 0;
    if (strstr(name, ".png"))
        make_png(&f, SIDE, SIDE, 8, 0, pixels, sizeof(pixels));
    else
        make_jpeg(&f, pixels, SIDE, SIDE, TJPF_GRAY, 0);
    if (value < 0) f.size /= 2;
    return &f;
}

/* Writes a picture, with the folders of its name. */
static void put(const char *folder, const char *name, int value)
{
    char path[4200], to[4200];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    const picture_file *f = make(name, value);
    write_file(folder, name, f->bytes, f->size, to, sizeof(to));
}

/* Writes `each` pictures of three classes, whose grey values are 40 c + i. */
static char *make_folder(int each, const char *part)
{
    static const char *const classes[] = {"ant", "bee", "cow"};
    char *folder = temporary_folder(), name[100];
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < each; i++) {
            (void)snprintf(name, sizeof(name), "%s%s/%s%03d.%s", part, classes[c],
                           i % 3 ? "" : "more/", i, i % 2 ? "png" : "JPG");
            put(folder, name, 40 * c + i);
        }
    return folder;
}

static weft_dataset *open_images(const char *folder, const char *keys)
{
    char spec[4300];
    weft_dataset *d;
    (void)snprintf(spec, sizeof(spec), "images:%s%s", folder, keys);
    assert_ok(weft_dataset_open(context, spec, "none", NULL, &d));
    assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
    assert_ok(weft_dataset_prepare(d, WEFT_TEST));
    return d;
}

/* Each picture is in one of the parts, with its class. */
static void test_classes(void **state)
{
    (void)state;
    char *folder = make_folder(10, "");
    weft_dataset *d = open_images(folder, ",gray,test=0.3");
    const weft_data_stats *stats = weft_dataset_stats(d);
    float x[SIDE * SIDE];
    int32_t label;
    bool seen[120] = {false};
    assert_int_equal(stats->classes, 3);
    assert_string_equal(stats->class_names[2], "cow");
    assert_int_equal(weft_dataset_count(d, WEFT_TRAIN), 21);
    assert_int_equal(weft_dataset_count(d, WEFT_TEST), 9);
    for (int split = 0; split < 2; split++)
        for (int64_t i = 0; i < weft_dataset_count(d, (weft_split)split); i++) {
            read_sample(d, (weft_split)split, i, x, &label);
            int value = (int)x[SIDE];
            assert_true(!seen[value] && value / 40 == label);
            assert_true(x[0] == x[SIDE * SIDE - 1]);
            seen[value] = true;
        }
    weft_dataset_close(&d);
    remove_folder(folder);
}

static void test_parts(void **state)
{
    (void)state;
    char *folder = make_folder(4, "train/"), spec[4300];
    put(folder, "val/bee/1.png", 90);
    weft_dataset *d = open_images(folder, ",gray");
    assert_int_equal(weft_dataset_count(d, WEFT_TRAIN), 12);
    assert_int_equal(weft_dataset_count(d, WEFT_TEST), 0);
    assert_int_equal(weft_dataset_count(d, WEFT_VALIDATION), 1);
    assert_ok(weft_dataset_prepare(d, WEFT_VALIDATION));
    float x[SIDE * SIDE];
    int32_t label;
    read_sample(d, WEFT_VALIDATION, 0, x, &label);
    assert_true(label == 1 && x[0] == 90);
    weft_dataset_close(&d);
    (void)snprintf(spec, sizeof(spec), "images:%s,test=0.5", folder);
    assert_refused(weft_dataset_open(context, spec, NULL, NULL, &d), WEFT_ERR_ARGUMENT,
                   "has a validation part of its own");
    put(folder, "test/ant/1.png", 30);
    put(folder, "test/cow/1.png", 99);
    d = open_images(folder, ",gray");
    assert_ok(weft_dataset_prepare(d, WEFT_VALIDATION));
    for (weft_split split = WEFT_TEST; split <= WEFT_VALIDATION; split++) {
        assert_int_equal(weft_dataset_count(d, split), split == WEFT_TEST ? 2 : 1);
        read_sample(d, split, 0, x, &label);
        assert_true(label == (split == WEFT_TEST ? 0 : 1));
        assert_true(x[0] == (split == WEFT_TEST ? 30 : 90));
    }
    weft_dataset_close(&d);
    put(folder, "test/dog/1.png", 9);
    (void)snprintf(spec, sizeof(spec), "images:%s", folder);
    assert_refused(weft_dataset_open(context, spec, NULL, NULL, &d), WEFT_ERR_ARGUMENT,
                   "the training part has no folder of the class 'dog'");
    remove_folder(folder);
}

/* The last warning, and how many there were. */
static struct {
    char words[1024];
    int count;
} warned;

static void take_warning(void *user, weft_log_level level, const char *message)
{
    (void)user;
    if (level != WEFT_LOG_WARNING) return;
    (void)snprintf(warned.words, sizeof(warned.words), "%s", message);
    warned.count++;
}

/* Parts have the names that other programs give them, in any case; no folder and no file that is
 * left out stays without a word. */
static void test_part_names(void **state)
{
    (void)state;
    static const struct {
        const char *train, *other, *warning; /* of a folder that is no part */
    } kinds[] = {{"train/", "test/", NULL},
                 {"Train/", "Test/", NULL},
                 {"training/", "testing/", NULL},
                 {"TRAINING/", "Validation/", NULL},
                 {"train/", "val/", NULL},
                 {"train/", "extra/", "left out beside train: extra"},
                 {"train/", "test1/", "left out beside train: test1"}};
    weft_context_set_log(context, take_warning, NULL);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        char *folder = make_folder(4, kinds[k].train), name[64];
        (void)snprintf(name, sizeof(name), "%sbee/1.png", kinds[k].other);
        put(folder, name, 90);
        warned.count = 0;
        weft_dataset *d = open_images(folder, ",gray");
        bool part = !kinds[k].warning;
        bool validates = part && strncasecmp(kinds[k].other, "val", 3) == 0;
        assert_int_equal(weft_dataset_count(d, WEFT_VALIDATION), validates ? 1 : 0);
        assert_int_equal(weft_dataset_count(d, WEFT_TEST), validates ? 0 : part ? 1 : 2);
        assert_int_equal(weft_dataset_count(d, WEFT_TRAIN), part ? 12 : 10);
        assert_int_equal(weft_dataset_stats(d)->classes, 3);
        assert_int_equal(warned.count, part ? 0 : 1);
        if (!part) assert_non_null(strstr(warned.words, kinds[k].warning));
        weft_dataset_close(&d);
        remove_folder(folder);
    }
    weft_context_set_log(context, NULL, NULL);
}

static void test_left_out(void **state)
{
    (void)state;
    static const struct {
        const char *file, *words;
    } files[] = {{"bee/x.gif", "1 file is left out, such as bee/x.gif"},
                 {"ant/more/x.bmp", "1 file is left out, such as ant/more/x.bmp"},
                 {"stray.png", "1 file is left out, such as stray.png"},
                 {"notes.txt", NULL},
                 {"bee/.hidden", NULL}};
    weft_context_set_log(context, take_warning, NULL);
    for (size_t k = 0; k < sizeof(files) / sizeof(files[0]); k++) {
        char *folder = make_folder(4, "");
        put(folder, files[k].file, 90);
        warned.count = 0;
        weft_dataset *d = open_images(folder, ",gray,test=0.5");
        assert_int_equal(warned.count, files[k].words ? 1 : 0);
        if (files[k].words) assert_non_null(strstr(warned.words, files[k].words));
        weft_dataset_close(&d);
        remove_folder(folder);
    }
    weft_context_set_log(context, NULL, NULL);
}

/* A specification that is the name of a file or a folder alone is refused with its kind. */
static void test_kind_missing(void **state)
{
    (void)state;
    int64_t ends = 0;
    char *folder = temporary_folder(), path[4300], name[64], words[4400];
    const weft_entry *entry;
    weft_dataset *d;
    for (int i = 0; (entry = weft_context_entry(context, WEFT_KIND_DATA, i)); i++) {
        const weft_source_ops *ops = entry->ops;
        size_t size;
        for (const char *e = ops->ends; e; e = e[size] ? e + size + 1 : NULL, ends++) {
            size = strcspn(e, ",");
            bool is_folder = *e == '/';
            (void)snprintf(name, sizeof(name), is_folder ? "." : "file%.*s", (int)size, e);
            write_file(folder, is_folder ? "other" : name, "x", 1, path, sizeof(path));
            (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
            (void)snprintf(words, sizeof(words), "the kind of the data is missing; give %s:%s",
                           entry->name, path);
            assert_refused(weft_dataset_open(context, path, NULL, NULL, &d), WEFT_ERR_ARGUMENT,
                           words);
        }
    }
    assert_true(ends >= 8);
    (void)snprintf(path, sizeof(path), "%s/none.csv", folder);
    assert_refused(weft_dataset_open(context, path, NULL, NULL, &d), WEFT_ERR_ARGUMENT,
                   "no kind is named");
    remove_folder(folder);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *pictures[3], *keys, *words;
    } bad[] = {
        {{"x/a/1.png", "x/b/2.png"},
         "",
         "one class alone, 'x'; there must be at least two, or give "
         "that folder if it has the classes"},
        {{"train/a/1.png", "val/a/1.png", "valid/a/1.png"},
         "",
         "the folders val and valid are both named as the validation part"},
        {{"a/1.png", "b/1.png"}, "/a/1.png", "is a file, and pictures are given by their folder"},
        {{"a/1.txt"}, "", "has no picture"},
        {{"1.png"}, "", "has no folder with pictures"},
        {{"a/1.png", "a/2.png"}, "", "one class alone, 'a'"},
        {{"a/1.png", "b/1.png"}, ",size=0", "must be a side or HEIGHTxWIDTH, from 1 to 4096"},
        {{"a/1.png", "b/1.png"}, ",size=8x", "must be a side or HEIGHTxWIDTH"},
        {{"a/1.png", "b/1.png"}, ",gray,rgb", "exclude each other"},
        {{"a/1.png", "b/1.png"}, ",test=1.5", "test is '1.5'"},
        {{"a/1.png", "b/1.png"}, ",sise=8", "did you mean 'size'"},
    };
    for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
        char *folder = temporary_folder(), spec[4300];
        weft_dataset *d;
        for (int i = 0; i < 3 && bad[k].pictures[i]; i++) put(folder, bad[k].pictures[i], 1);
        (void)snprintf(spec, sizeof(spec), "images:%s%s", folder, bad[k].keys);
        assert_refused(weft_dataset_open(context, spec, NULL, NULL, &d), WEFT_ERR_ARGUMENT,
                       bad[k].words);
        remove_folder(folder);
    }
}

/* A checkpoint has the names of the classes, so they must be such that it can give them back. */
static void test_class_names(void **state)
{
    (void)state;
    static const char *const names[] = {"new\nline/1.png", "gr\xf6n/1.png", "tab\t/1.png"};
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
        char *folder = temporary_folder(), spec[4300];
        weft_dataset *d;
        put(folder, names[k], 1);
        put(folder, "b/1.png", 2);
        put(folder, "b/2.png", 2);
        (void)snprintf(spec, sizeof(spec), "images:%s,test=0", folder);
        assert_ok(weft_dataset_open(context, spec, NULL, NULL, &d));
        assert_refused(weft_dataset_prepare(d, WEFT_TRAIN), WEFT_ERR_FORMAT, "not text in UTF-8");
        weft_dataset_close(&d);
        remove_folder(folder);
    }
}

/* Another picture of the class takes the place of one that cannot be read, with a warning that
 * names it; more than the share end the run. */
static void test_broken(void **state)
{
    (void)state;
    char *folder = make_folder(10, ""), path[4200];
    said s = {0};
    write_file(folder, "bee/more/009.png", "", 0, path, sizeof(path));
    weft_context_set_log(context, hear, &s);
    weft_dataset *d = open_images(folder, ",gray,size=8,test=0");
    float x[SIDE * SIDE];
    int32_t label;
    bool other = false;
    for (int64_t i = 0; i < 30; i++) {
        read_sample(d, WEFT_TRAIN, i, x, &label);
        assert_true((int)x[0] / 40 == label);
        other = other || strcmp(weft_dataset_id(d, WEFT_TRAIN, i), "bee/more/009.png") == 0;
    }
    assert_true(other);
    assert_int_equal(s.lines, 1);
    assert_non_null(strstr(s.last, "bee/more/009.png: the file is empty; another picture"));
    weft_dataset_close(&d);
    write_file(folder, "ant/001.png", "GIF89a", 6, path, sizeof(path));
    put(folder, "cow/more/000.JPG", -1);
    const struct {
        const char *keys;
        bool fine;
        const char *words;
    } shares[] = {{",test=0,gray,size=8", false, "3 pictures"},
                  {",test=0,gray,size=8,broken=0.1", true, ""},
                  {",test=0,gray,size=8,broken=0", false, "1 of 30 pictures"}};
    for (int k = 0; k < 3; k++) {
        char spec[4300];
        (void)snprintf(spec, sizeof(spec), "images:%s%s", folder, shares[k].keys);
        assert_ok(weft_dataset_open(context, spec, "none", NULL, &d));
        weft_status status = weft_dataset_prepare(d, WEFT_TRAIN);
        if (shares[k].fine)
            assert_ok(status);
        else
            assert_refused(status, WEFT_ERR_FORMAT, "pictures of the training part cannot be read");
        weft_dataset_close(&d);
    }
    weft_context_set_log(context, NULL, NULL);
    remove_folder(folder);
}

/* Files that disappear or are cut off in the middle of an epoch are like others that cannot be
 * read: each is named once, in whatever epoch. */
static void test_lost(void **state)
{
    (void)state;
    char *folder = make_folder(10, ""), path[4200];
    said s = {0};
    float x[SIDE * SIDE];
    int32_t label;
    weft_dataset *d = open_images(folder, ",gray,size=8,test=0,broken=0.1,cache=0");
    weft_context_set_log(context, hear, &s);
    for (int k = 0; k < 60; k++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, k ? "bee/001.png" : "cow/001.png");
        if (k == 0) assert_int_equal(unlink(path), 0);
        if (k == 10) assert_int_equal(truncate(path, 30), 0);
        read_sample(d, WEFT_TRAIN, k % 30, x, &label);
        assert_true((int)x[SIDE] / 40 == label);
    }
    assert_int_equal(s.lines, 2);
    assert_ok(weft_source_status(d->source));
    weft_context_set_log(context, NULL, NULL);
    weft_dataset_close(&d);
    remove_folder(folder);
}

/* Batches are the same bits with any number of threads, and with decoded pictures that are kept. */
static void test_same_bits(void **state)
{
    (void)state;
    char *folder = make_folder(7, ""), spec[4300];
    static float first[2][16 * 3 * 25 * 30];
    for (int k = 0; k < 4; k++) {
        weft_context *c;
        weft_dataset *d;
        weft_batch b;
        const weft_loader_options o = {.batch = 16, .shuffle = true, .seed = 5};
        assert_ok(weft_context_with_threads(context, k % 2 ? 3 : 1, &c));
        (void)snprintf(spec, sizeof(spec), "images:%s,size=25x30,test=0%s", folder,
                       k < 2 ? "" : ",cache=0.02");
        assert_ok(weft_dataset_open(c, spec, "none", NULL, &d));
        assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
        assert_ok(weft_batch_open(d, &o, &b));
        for (int epoch = 0; epoch < 2; epoch++) {
            weft_batch_make(d, &o, epoch, 0, &b);
            if (k == 0) memcpy(first[epoch], b.data[0], sizeof(first[epoch]));
            assert_memory_equal(first[epoch], b.data[0], sizeof(first[epoch]));
        }
        weft_batch_close(&b);
        weft_dataset_close(&d);
        weft_context_destroy(&c);
    }
    remove_folder(folder);
}

/* The largest memory of this process so far, in bytes. */
static int64_t peak_memory(void)
{
    long long kilobytes = -1;
    char line[200];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof(line), f)) (void)sscanf(line, "VmHWM: %lld", &kilobytes);
    if (f) (void)fclose(f);
    return kilobytes * 1024;
}

/* Memory does not grow from epoch to epoch: an epoch decodes 8 MiB, and none of them are kept. A
 * sanitizer holds back what was freed, so it has no such bound. */
static void test_memory(void **state)
{
    (void)state;
    enum { EACH = 20, BATCH = 5, PICTURE = 3 * 108 * 108 * 4, MOST = 3 * EACH * PICTURE / 4 };
    char *folder = make_folder(EACH, ""), spec[4300];
    const weft_loader_options o = {.batch = BATCH, .shuffle = true, .seed = 5};
    int64_t peak[3], most = MOST;
    weft_dataset *d;
    weft_batch b;
    (void)snprintf(spec, sizeof(spec), "images:%s,size=108,test=0,cache=0", folder);
    assert_ok(weft_dataset_open(context, spec, "none", NULL, &d));
    assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
    assert_ok(weft_batch_open(d, &o, &b));
    for (int epoch = 0; epoch < 3; epoch++) {
        for (int64_t at = 0; at < 3 * EACH; at += BATCH) weft_batch_make(d, &o, epoch, at, &b);
        peak[epoch] = peak_memory();
    }
    assert_ok(weft_batch_check(&b, d, WEFT_TRAIN));
#ifdef WEFT_SANITIZED
    most *= 100;
#endif
    assert_in_range(peak[2] - peak[0], 0, most);
    weft_batch_close(&b);
    weft_dataset_close(&d);
    remove_folder(folder);
}

/* Writes an archive of samples `begin` up to `end`, whose grey value is 40 times the class and the
 * number; format: of the text of a class. Files without a dot and of other kinds are among them. */
static void put_shard(const char *folder, const char *name, int begin, int end, const char *format)
{
    static unsigned char bytes[1 << 16];
    char path[4200], member[64], text[64];
    size_t size = put_tar(bytes, "README", '0', "no sample", 9);
    for (int i = begin; i < end; i++) {
        (void)snprintf(member, sizeof(member), "all/%03d.%s", i, i % 2 ? "png" : "seen.JPG");
        const picture_file *f = make(member, 40 * (i % 3) + i);
        size += put_tar(bytes + size, member, '0', f->bytes, f->size);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        int length = snprintf(text, sizeof(text), format, i % 3);
#pragma GCC diagnostic pop
        (void)snprintf(member, sizeof(member), "all/%03d.%s", i, i % 4 ? "cls" : "txt");
        /* A caption is before the class, or behind it. */
        const char *caption = i % 4 && *format ? "a caption\nof two lines" : "";
        char beside[64];
        (void)snprintf(beside, sizeof(beside), "all/%03d.txt", i);
        if (*caption && i % 4 < 3)
            size += put_tar(bytes + size, beside, '0', caption, strlen(caption));
        if (*format) size += put_tar(bytes + size, member, '0', text, (size_t)length);
        if (*caption && i % 4 == 3)
            size += put_tar(bytes + size, beside, '0', caption, strlen(caption));
        (void)snprintf(member, sizeof(member), "all/%03d.json", i);
        length = snprintf(text, sizeof(text),
                          "{\"odd\": [1], \"kind\": \"kind %d\", \"number\": %d}", i % 3, i % 3);
        size += put_tar(bytes + size, member, '0', text, (size_t)length);
    }
    memset(bytes + size, 0, 1024);
    write_file(folder, name, bytes, size + 1024, path, sizeof(path));
}

static void refuse_shards(const char *folder)
{
    char spec[4300];
    weft_dataset *d;
    const struct {
        const char *keys, *words;
        weft_status status;
    } bad[] = {
        {"x-*.tar", "there is no archive of this name", WEFT_ERR_IO},
        {"u-0.tar", "(all/000.cls or all/000.txt beside its picture; or give label=KEY",
         WEFT_ERR_FORMAT},
        {"n-0.tar,label=odd",
         "all/000.json: must have a text or whole number under the key "
         "'odd', which has another type",
         WEFT_ERR_FORMAT},
        {"n-0.tar,label=what", "under the key 'what'", WEFT_ERR_FORMAT},
        {"n-0.tar,test=2", "must be a share from 0 to 1, or archives", WEFT_ERR_ARGUMENT},
        {"cut.tar", "the tar archive is cut off at byte 5000", WEFT_ERR_FORMAT},
        {"n-0.tar.gz", "n-0.tar.gz: is compressed, and compressed archives are not",
         WEFT_ERR_FORMAT},
        {"n-0.tar,test=none.tar", "none.tar: there is no archive", WEFT_ERR_IO},
    };
    char command[9000];
    (void)snprintf(command, sizeof(command),
                   "cd %s && head -c 5000 n-0.tar > cut.tar && gzip -k n-0.tar", folder);
    assert_int_equal(system(command), 0);
    for (size_t k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
        (void)snprintf(spec, sizeof(spec), "tar:%s/%s", folder, bad[k].keys);
        assert_refused(weft_dataset_open(context, spec, NULL, NULL, &d), bad[k].status,
                       bad[k].words);
    }
}

/* Samples of several archives, whose classes are numbers or names, with a share or archives for the
 * test part; and what is refused. */
static void test_shards(void **state)
{
    (void)state;
    char *folder = temporary_folder(), spec[4300];
    weft_dataset *d;
    put_shard(folder, "n-0.tar", 0, 8, "%d\n");
    put_shard(folder, "n-1.tar", 8, 15, "%d");
    put_shard(folder, "t-0.tar", 0, 8, " kind %d\n");
    put_shard(folder, "t-1.tar", 8, 15, "kind %d");
    put_shard(folder, "u-0.tar", 0, 8, "");
    put_shard(folder, "u-1.tar", 8, 15, "");
    put_shard(folder, "w-0.tar", 0, 15, "%d147483647"); /* too large for the number of a class */
    const char *const specs[] = {"n-*.tar,gray,test=0.4", "t-0.tar,gray,test=%s/t-1.tar",
                                 "w-0.tar,gray,test=0.4", "u-0.tar,gray,label=kind,test=%s/u-1.tar",
                                 "w-0.tar,gray,label=number,test=0.4"};
    for (int k = 0; k < (int)WEFT_COUNT(specs); k++) {
        char keys[4200];
        bool seen[100] = {false};
        float x[SIDE * SIDE];
        int32_t label;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(keys, sizeof(keys), specs[k], folder);
#pragma GCC diagnostic pop
        (void)snprintf(spec, sizeof(spec), "tar:%s/%s", folder, keys);
        assert_ok(weft_dataset_open(context, spec, "none", NULL, &d));
        assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
        assert_ok(weft_dataset_prepare(d, WEFT_TEST));
        bool parts = strstr(specs[k], "%s") != NULL;
        static const char *const names[WEFT_COUNT(specs)] = {NULL, "kind 2", "2147483647", "kind 2",
                                                             NULL};
        assert_int_equal(weft_dataset_count(d, WEFT_TEST), parts ? 7 : 6);
        assert_int_equal(weft_dataset_stats(d)->classes, 3);
        if (names[k]) assert_string_equal(weft_dataset_stats(d)->class_names[2], names[k]);
        for (int split = 0; split < 2; split++)
            for (int64_t i = 0; i < weft_dataset_count(d, (weft_split)split); i++) {
                read_sample(d, (weft_split)split, i, x, &label);
                int number = (int)x[0] - 40 * label;
                assert_true(number >= 0 && number < 15 && number % 3 == label && !seen[number]);
                assert_true(!parts || (number < 8) == (split == WEFT_TRAIN));
                seen[number] = true;
            }
        weft_dataset_close(&d);
    }
    refuse_shards(folder);
    remove_folder(folder);
}

/* Listing an archive reads headers alone: the pages of pictures cannot be read here. So a rank,
 * which lists all archives, reads the pictures of its own samples. */
static void test_headers_alone(void **state)
{
    (void)state;
    enum { PICTURES = 5, LEAST = 512 };
    static unsigned char none[1 << 17];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), each = 2 * page, size = PICTURES * each, at = 0;
    unsigned char *bytes =
        mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    weft_tar_entry entry;
    assert_true(bytes != MAP_FAILED && page <= sizeof(none));
    for (int i = 0; i < PICTURES; i++) { /* the header of the picture ends a page */
        unsigned char *to = bytes + (size_t)i * each;
        to += put_tar(to, "a.txt", '0', none, page - 2 * (size_t)LEAST);
        (void)put_tar(to, "a.png", '0', none, page);
        assert_int_equal(mprotect(to + LEAST, page, PROT_NONE), 0);
    }
    for (int i = 0; i < 2 * PICTURES; i++) {
        assert_ok(weft_tar_next("a.tar", bytes, size + page, &at, &entry));
        assert_string_equal(entry.name, i % 2 ? "a.png" : "a.txt");
    }
    assert_int_equal(entry.data + page - bytes, size);
    assert_ok(weft_tar_next("a.tar", bytes, size + page, &at, &entry));
    assert_null(entry.data);
    assert_int_equal(munmap(bytes, size + page), 0);
}

/* Relative patterns are looked for in the folder of the run that wrote a checkpoint, and patterns
 * are the same data if they lead to the same files. */
static void test_patterns(void **state)
{
    (void)state;
    char *folder = temporary_folder(), absolute[9000];
    weft_dataset *d;
    put_shard(folder, "p-0.tar", 0, 8, "%d");
    put_shard(folder, "p-1.tar", 8, 15, "%d");
    put_shard(folder, "q-0.tar", 0, 8, "%d");
    const weft_source_request request = {.context = context, .folder = folder};
    static const char *const specs[] = {"tar:p-*.tar,test=q-*.tar", "tar:./p-?.tar,test=q-0.tar"};
    for (size_t k = 0; k < WEFT_COUNT(specs); k++) {
        assert_ok(weft_dataset_open_for(specs[k], NULL, &request, &d));
        assert_ok(weft_dataset_prepare(d, WEFT_TRAIN));
        assert_ok(weft_dataset_prepare(d, WEFT_TEST));
        assert_int_equal(weft_dataset_count(d, WEFT_TRAIN), 15);
        assert_int_equal(weft_dataset_count(d, WEFT_TEST), 8);
        weft_dataset_close(&d);
    }
    const struct {
        const char *now, *then;
        bool same;
    } pairs[] = {{"p-*.tar", "p-*.tar", true},           {"./p-*.tar", "p-*.tar", true},
                 {"p-?.tar,gray", "p-*.tar,gray", true}, {"q-*.tar", "q-0.tar", true},
                 {"p-*.tar", "p-0.tar", false},          {"*.tar", "p-*.tar", false},
                 {"r-*.tar", "./r-*.tar", false}};
    for (size_t k = 0; k < WEFT_COUNT(pairs); k++) {
        char then[100];
        bool same;
        (void)snprintf(absolute, sizeof(absolute), "tar:%s/%s", folder, pairs[k].now);
        (void)snprintf(then, sizeof(then), "tar:%s", pairs[k].then);
        assert_ok(weft_spec_same(absolute, then, NULL, NULL, folder, &same));
        if (same != pairs[k].same) fail_msg("%s and %s", absolute, then);
        /* Keys that the samples settle are not compared. */
        (void)snprintf(then, sizeof(then), "tar:%s,rgb,cache=1,size=9x9", pairs[k].then);
        assert_ok(weft_spec_same(absolute, then, NULL, weft_source_tar.settled, folder, &same));
        if (same != pairs[k].same) fail_msg("%s and %s", absolute, then);
    }
    /* No output replaces one of the archives. */
    char first[4300];
    (void)snprintf(absolute, sizeof(absolute), "tar:%s/q-*.tar,test=%s/p-*.tar", folder, folder);
    for (int k = 0; k < 2; k++) {
        (void)snprintf(first, sizeof(first), "%s/%c-0.tar", folder, 'p' + k);
        assert_refused(weft_spec_refuse_overwrite(absolute, "metrics", first), WEFT_ERR_ARGUMENT,
                       "which would be lost");
    }
    (void)snprintf(first, sizeof(first), "%s/r-0.tar", folder);
    assert_ok(weft_spec_refuse_overwrite(absolute, "metrics", first));
    remove_folder(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),      cmocka_unit_test(test_parts),
        cmocka_unit_test(test_part_names),   cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_kind_missing), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_class_names),  cmocka_unit_test(test_broken),
        cmocka_unit_test(test_same_bits),    cmocka_unit_test(test_shards),
        cmocka_unit_test(test_patterns),     cmocka_unit_test(test_headers_alone),
        cmocka_unit_test(test_memory),       cmocka_unit_test(test_lost),
    };
    return cmocka_run_group_tests_name("images", tests, setup, teardown);
}
