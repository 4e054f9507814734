/* Metrics in a database of Trackio: trackio:FOLDER/RUN writes the numbers of steps and evaluations
 * to the run RUN of the project "weft", which is FOLDER/weft.db. Each event is committed, so a
 * crash loses none. A run that resumes continues the run of that name, and removes its steps behind
 * the checkpoint; a new one, or one that resumes where several have the name, leaves these as they
 * are. The library SQLite is opened when it is needed, so that only those who write such a database
 * need it. */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "actor/net.h"
#include "train/metrics.h"
#include "weft/output.h"

/* The part of SQLite's interface that is used here, which it keeps compatible. */
typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
enum {
    SQLITE_OK,
    SQLITE_ROW = 100,
    SQLITE_DONE,
    SQLITE_OPEN_READWRITE = 2,
    SQLITE_OPEN_CREATE = 4
};

static struct {
    int (*open)(const char *path, sqlite3 **db, int flags, const char *vfs);
    int (*close)(sqlite3 *db);
    int (*patience)(sqlite3 *db, int milliseconds);
    const char *(*message)(sqlite3 *db);
    int (*prepare)(sqlite3 *db, const char *sql, int size, sqlite3_stmt **out, const char **rest);
    int (*bind)(sqlite3_stmt *s, int at, const char *text, int size, void (*destroy)(void *));
    int (*step)(sqlite3_stmt *s);
    const unsigned char *(*text)(sqlite3_stmt *s, int column);
    int (*finalize)(sqlite3_stmt *s);
} library;
static bool found;
static pthread_once_t looked = PTHREAD_ONCE_INIT;

static void look(void)
{
    static const char *const names[] = {
        "sqlite3_open_v2", "sqlite3_close",       "sqlite3_busy_timeout",
        "sqlite3_errmsg",  "sqlite3_prepare_v2",  "sqlite3_bind_text",
        "sqlite3_step",    "sqlite3_column_text", "sqlite3_finalize"};
    void **const functions[] = {
        (void **)&library.open,    (void **)&library.close,   (void **)&library.patience,
        (void **)&library.message, (void **)&library.prepare, (void **)&library.bind,
        (void **)&library.step,    (void **)&library.text,    (void **)&library.finalize};
    void *opened = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    found = opened != NULL;
    for (size_t i = 0; i < WEFT_COUNT(names) && found; i++) {
        *functions[i] = dlsym(opened, names[i]);
        found = *functions[i] != NULL;
    }
}

/* The tables and indices that Trackio makes, as far as its dashboard reads them for metrics; it
 * adds the others when it opens the database. */
static const char *const tables[] = {
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "CREATE TABLE IF NOT EXISTS metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT "
    "NULL, timestamp TEXT NOT NULL, run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT "
    "NOT NULL, log_id TEXT, space_id TEXT)",
    "CREATE TABLE IF NOT EXISTS configs (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT "
    "NULL, run_name TEXT NOT NULL, config TEXT NOT NULL, created_at TEXT NOT NULL, UNIQUE(run_id))",
    "CREATE TABLE IF NOT EXISTS system_metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT "
    "NOT NULL, timestamp TEXT NOT NULL, run_name TEXT NOT NULL, metrics TEXT NOT NULL, log_id "
    "TEXT, space_id TEXT)",
    "CREATE INDEX IF NOT EXISTS idx_metrics_run_step ON metrics(run_id, step)",
    "CREATE INDEX IF NOT EXISTS idx_metrics_run_timestamp ON metrics(run_id, timestamp)"};

enum { PATIENCE = 10000 /* ms, while another process writes */ };

typedef struct trackio_run {
    sqlite3 *db;
    char *path, *name; /* of the database, and of the run */
    char id[40];
} trackio_run;

static weft_status fail(const trackio_run *r)
{
    return weft_fail(WEFT_ERR_IO,
                     "%s: SQLite: %s; check the disk, and that the file is a database "
                     "of Trackio",
                     r->path, r->db ? library.message(r->db) : "no memory");
}

/* Runs a statement whose parameters are these texts, up to the first NULL. first: set to the first
 * column of the first row, or to "" without one; NULL: not wanted. */
static weft_status run(const trackio_run *r, const char *sql, const char *const *texts,
                       char first[40])
{
    sqlite3_stmt *s = NULL;
    int code = library.prepare(r->db, sql, -1, &s, NULL);
    for (int i = 0; texts && texts[i] && code == SQLITE_OK; i++)
        code = library.bind(s, i + 1, texts[i], -1, NULL);
    if (code == SQLITE_OK) code = library.step(s);
    const unsigned char *text = first && code == SQLITE_ROW ? library.text(s, 0) : NULL;
    if (first) (void)snprintf(first, 40, "%s", text ? (const char *)text : "");
    weft_status status = code == SQLITE_DONE || code == SQLITE_ROW ? WEFT_OK : fail(r);
    (void)library.finalize(s); /* repeats the code of the step */
    return status;
}

static void now(char out[40])
{
    struct timespec t;
    struct tm utc;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    (void)gmtime_r(&t.tv_sec, &utc);
    size_t size = strftime(out, 40, "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(out + size, 40 - size, ".%06ld+00:00", t.tv_nsec / 1000);
}

/* Begins the run, or continues the one of its name behind step `after`. Where several have the
 * name, none of them is known to be this one, and a new run begins. */
static weft_status begin(trackio_run *r, int64_t after)
{
    char step[24];
    for (size_t i = 0; i < WEFT_COUNT(tables); i++) WEFT_TRY(run(r, tables[i], NULL, NULL));
    if (after >= 0)
        WEFT_TRY(run(r,
                     "SELECT MAX(run_id) FROM metrics WHERE run_name = ? GROUP BY run_name "
                     "HAVING COUNT(DISTINCT run_id) = 1",
                     (const char *const[]){r->name, NULL}, r->id));
    if (!*r->id)
        (void)snprintf(r->id, sizeof(r->id), "%016llx%016llx", (unsigned long long)weft_draw(),
                       (unsigned long long)weft_draw());
    (void)snprintf(step, sizeof(step), "%lld", (long long)after);
    return run(r, "DELETE FROM metrics WHERE run_id = ? AND step > ?",
               (const char *const[]){r->id, step, NULL}, NULL);
}

static weft_status close_run(void *writer)
{
    trackio_run *r = writer;
    /* Closing moves what is still in the log into the database; a failure leaves it in the log. */
    if (r->db) (void)library.close(r->db);
    free(r->path);
    free(r->name);
    free(r);
    return WEFT_OK;
}

/* Splits FOLDER/RUN, makes the folder, and opens the database there. */
static weft_status open_database(trackio_run *r, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *folder;
    if (!*name)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "metrics 'trackio:%s': the name of the run is missing; give "
                         "trackio:FOLDER/RUN",
                         path);
    WEFT_TRY(weft_strdup(name, &r->name));
    WEFT_TRY(slash ? weft_format(&folder, "%.*s/", (int)(slash - path), path)
                   : weft_strdup("./", &folder));
    weft_status status = weft_dir_make(folder);
    if (status == WEFT_OK) status = weft_format(&r->path, "%sweft.db", folder);
    free(folder);
    WEFT_TRY(status);
    if (library.open(r->path, &r->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) !=
        SQLITE_OK)
        return fail(r);
    (void)library.patience(r->db, PATIENCE);
    return WEFT_OK;
}

static weft_status open_run(const char *path, int64_t after, void **out)
{
    trackio_run *r;
    (void)pthread_once(&looked, look);
    if (!found)
        return weft_fail(WEFT_ERR_UNSUPPORTED,
                         "metrics 'trackio:%s' needs libsqlite3.so.0, which is not installed "
                         "(Debian: libsqlite3-0); install it, or give another format",
                         path);
    WEFT_TRY(WEFT_NEW(&r, 1));
    weft_status status = open_database(r, path);
    if (status == WEFT_OK) status = begin(r, after);
    if (status == WEFT_OK)
        *out = r;
    else
        (void)!close_run(r);
    return status;
}

/* Trackio shows the options of a run beside it; those of a run that resumes replace the former. */
static weft_status put_settings(void *writer, const weft_settings *settings)
{
    const trackio_run *r = writer;
    weft_text json = {0};
    char *config, time[40];
    now(time);
    weft_text_add(&json, "{\"_Created\":\"%s\"", time);
    for (int i = 0; i < settings->count; i++) {
        weft_text_add(&json, ",");
        weft_text_add_json(&json, settings->all[i].name);
        weft_text_add(&json, ":");
        weft_text_add_json(&json, settings->all[i].text);
    }
    weft_text_add(&json, "}");
    WEFT_TRY(weft_text_take(&json, &config));
    weft_status status =
        run(r,
            "INSERT OR REPLACE INTO configs (run_id, run_name, config, created_at) VALUES (?, "
            "?, ?, ?)",
            (const char *const[]){r->id, r->name, config, time, NULL}, NULL);
    free(config);
    return status;
}

/* Trackio's words for numbers that JSON lacks. */
static void add_number(weft_text *json, double value, int digits)
{
    char number[32];
    if (isfinite(value))
        weft_text_add(json, "%s", weft_json_real(value, WEFT_MAX(digits, 9), number, 32));
    else
        weft_text_add(json, "\"%s\"", isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
}

static weft_status put_numbers(void *writer, const weft_event *e)
{
    const trackio_run *r = writer;
    weft_text json = {0};
    weft_event_number n;
    char *metrics, time[40], step[24], first[128];
    int count = 0;
    for (; weft_event_number_at(e, count, &n); count++) {
        weft_text_add(&json, "%s\"%s/%s\":", count ? "," : "{", n.group, n.key);
        if (count == 0) (void)snprintf(first, sizeof(first), "%s", json.data ? json.data : "");
        add_number(&json, n.value, n.digits);
    }
    if (count == 0) return WEFT_OK;
    weft_text_add(&json, "}");
    WEFT_TRY(weft_text_take(&json, &metrics));
    now(time);
    (void)snprintf(step, sizeof(step), "%lld", (long long)e->step);
    /* A run that resumes at its end evaluates again. */
    weft_status status =
        run(r,
            "INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) SELECT ?1, ?2, ?3, "
            "?4, ?5 WHERE NOT EXISTS (SELECT 1 FROM metrics WHERE run_id = ?1 AND step = ?4 AND "
            "substr(metrics, 1, length(?6)) = ?6)",
            (const char *const[]){r->id, time, r->name, step, metrics, first, NULL}, NULL);
    free(metrics);
    return status;
}

const weft_metrics_format weft_metrics_trackio = {.name = "trackio",
                                                  .path = "FOLDER/RUN",
                                                  .open = open_run,
                                                  .settings = put_settings,
                                                  .event = put_numbers,
                                                  .close = close_run};
