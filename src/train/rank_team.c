/* Implements rank teams. Each call of weft_rank_team_run is a round, in which all ranks call one
 * function; the caller waits until all have returned. */
#include "train/rank_team.h"

typedef struct rank_thread {
    weft_rank_team *mesh;
    int number;
    pthread_t thread;
    bool started;
    weft_comm *world; /* all ranks; NULL: there is one rank */
    weft_comms comms; /* split off `world`; learner NULL: not yet */
} rank_thread;

struct weft_rank_team {
    int ranks, first;
    const weft_core_sets *cores;
    rank_thread *all;
    pthread_mutex_t lock;
    pthread_cond_t go, done;
    weft_status (*work)(void *user, int rank);
    void *user;
    uint64_t round; /* number of rounds so far; a new number starts the threads */
    int left;       /* rank threads that have not finished this round */
    bool ending;
    /* first failure; a rank's own error replaces an error of kind PEER, which only follows from
     * another rank's failure; cleared by a restart alone */
    weft_error error;
};

static void record_failure(weft_rank_team *m, const rank_thread *r, weft_status status)
{
    weft_error error = {0};
    if (status == WEFT_OK) return;
    weft_error_catch(&error, status);
    pthread_mutex_lock(&m->lock);
    if (m->error.status == WEFT_OK || (m->error.status == WEFT_ERR_PEER && status != WEFT_ERR_PEER))
        m->error = error;
    pthread_mutex_unlock(&m->lock);
    if (r->world) weft_comm_abort(r->world);
}

static void *run_rank(void *user)
{
    rank_thread *r = user;
    weft_rank_team *m = r->mesh;
    uint64_t seen = 0;
    void *before = weft_core_sets_enter(m->cores, m->first + r->number);
    pthread_mutex_lock(&m->lock);
    for (;;) {
        while (m->round == seen && !m->ending) pthread_cond_wait(&m->go, &m->lock);
        if (m->ending) break;
        seen = m->round;
        pthread_mutex_unlock(&m->lock);
        record_failure(m, r, m->work(m->user, r->number));
        pthread_mutex_lock(&m->lock);
        if (--m->left == 0) pthread_cond_signal(&m->done);
    }
    pthread_mutex_unlock(&m->lock);
    weft_core_sets_leave(m->cores, before);
    return NULL;
}

static weft_status start(weft_context *context, weft_rank_team *m)
{
    weft_comm **worlds;
    int local = 0;
    for (int r = 0; r < m->ranks; r++) m->all[r] = (rank_thread){.mesh = m, .number = r};
    m->error = (weft_error){0};
    m->round = 0;
    m->ending = false;
    if (m->ranks == 1) return WEFT_OK;
    WEFT_TRY(WEFT_NEW(&worlds, WEFT_MAX_RANKS));
    weft_status status = weft_comm_open(context, "threads", m->ranks, worlds, &local);
    for (int r = 0; r < local; r++) m->all[r].world = worlds[r];
    free(worlds);
    for (int r = 1; r < m->ranks && status == WEFT_OK; r++) {
        status = weft_thread_start(&m->all[r].thread, run_rank, &m->all[r]);
        m->all[r].started = status == WEFT_OK;
    }
    return status;
}

weft_status weft_rank_team_open(weft_context *context, int ranks, const weft_core_sets *cores,
                                int first, weft_rank_team **out)
{
    weft_rank_team *m;
    WEFT_TRY(WEFT_NEW(&m, 1));
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->go, NULL);
    pthread_cond_init(&m->done, NULL);
    m->ranks = ranks;
    m->cores = cores;
    m->first = first;
    weft_status status = WEFT_NEW(&m->all, ranks);
    if (status == WEFT_OK) status = start(context, m);
    if (status != WEFT_OK) weft_rank_team_close(&m);
    *out = m;
    return status;
}

/* Ends the threads and closes the communicators. */
static void stop(weft_rank_team *m)
{
    pthread_mutex_lock(&m->lock);
    m->ending = true;
    pthread_cond_broadcast(&m->go);
    pthread_mutex_unlock(&m->lock);
    for (int r = 0; m->all && r < m->ranks; r++)
        if (m->all[r].started) pthread_join(m->all[r].thread, NULL);
    for (int r = 0; m->all && r < m->ranks; r++) {
        weft_plan_close_comms(&m->all[r].comms);
        weft_comm_close(&m->all[r].world);
    }
}

void weft_rank_team_close(weft_rank_team **team)
{
    if (!team || !*team) return;
    weft_rank_team *m = *team;
    stop(m);
    pthread_cond_destroy(&m->go);
    pthread_cond_destroy(&m->done);
    pthread_mutex_destroy(&m->lock);
    free(m->all);
    free(m);
    *team = NULL;
}

weft_status weft_rank_team_comms(weft_rank_team *m, int rank, const weft_plan *plan,
                                 const weft_comms **out)
{
    rank_thread *r = &m->all[rank];
    *out = &r->comms;
    return r->comms.learner ? WEFT_OK : weft_plan_split(plan, r->world, &r->comms);
}

weft_status weft_rank_team_run(weft_rank_team *m, weft_status (*work)(void *user, int rank),
                               void *user)
{
    if (m->ranks == 1) return work(user, 0);
    pthread_mutex_lock(&m->lock);
    m->work = work;
    m->user = user;
    m->round++;
    m->left = m->ranks - 1;
    pthread_cond_broadcast(&m->go);
    pthread_mutex_unlock(&m->lock);
    record_failure(m, &m->all[0], work(user, 0));
    pthread_mutex_lock(&m->lock);
    while (m->left > 0) pthread_cond_wait(&m->done, &m->lock);
    pthread_mutex_unlock(&m->lock);
    return weft_error_raise(&m->error);
}

bool weft_rank_team_has_failed(const weft_rank_team *m)
{
    return m->error.status != WEFT_OK;
}

weft_status weft_rank_team_restart(weft_context *context, weft_rank_team *m)
{
    stop(m);
    weft_status status = start(context, m);
    if (status != WEFT_OK) weft_error_catch(&m->error, status);
    return weft_error_raise(&m->error);
}
