/* Admits members: compares fingerprints, gives and reserves slots, and begins the run. */
#include <inttypes.h>
#include <stdio.h>

#include "membership/coordinator_internal.h"

enum { REASON = 300 };

/* Whether two descriptions of data differ only in the hash behind their sizes. */
static bool same_sizes(const char *ours, const char *theirs)
{
    return strncmp(ours, theirs, strcspn(ours, "#") + 1) == 0;
}

static bool differs(const char *ours, const char *theirs)
{
    return *ours && *theirs && strcmp(ours, theirs) != 0;
}

weft_status weft_fingerprint_texts(const weft_fingerprint *f, char *texts[3])
{
    enum { MOST_TEXT = 128 };
    const char *from[] = {f->version, f->model, f->data};
    for (int i = 0; i < 3; i++)
        WEFT_TRY(weft_format(&texts[i], "%.*s", MOST_TEXT, from[i] ? from[i] : ""));
    return WEFT_OK;
}

/* Compares the fingerprint of a joining process, whose texts may have any length, with that of the
 * run; reason "": they are compatible. */
static void compare(const coordinator_state *c, const Weft__Fingerprint *f, char reason[REASON])
{
    const weft_fingerprint *ours = &c->options.fingerprint;
    if (!f) return;
    if (differs(ours->version, f->version))
        (void)snprintf(reason, REASON, "this run is of version %.40s, not of %.40s", ours->version,
                       f->version);
    else if (differs(ours->model, f->model))
        (void)snprintf(reason, REASON, "this run trains the model %.100s, not %.100s", ours->model,
                       f->model);
    else if (differs(ours->data, f->data))
        (void)snprintf(
            reason, REASON, "this run's data are %.100s, not %.100s%s", ours->data, f->data,
            same_sizes(ours->data, f->data)
                ? ": the names of classes or columns, the test samples or the rows differ"
                : "");
    else if (ours->parameters && f->parameters && ours->parameters != f->parameters)
        (void)snprintf(reason, REASON,
                       "its parameters have another memory layout than those of the run; give the "
                       "--device and the --mesh of the run");
}

/* Whether the run goes on from a checkpoint that this member has not loaded. */
static bool lacks_checkpoint(const coordinator_state *c, const Weft__Join *m)
{
    uint64_t ours = c->options.fingerprint.checkpoint;
    return ours && m->role == WEFT_MEMBER_LEARNER &&
           (!m->fingerprint || m->fingerprint->checkpoint != ours);
}

/* Whether a learner that joins before the run begins lacks its checkpoint. While the run is under
 * way its state is newer than any checkpoint, and every new member takes it from the run. */
static bool lacks_state(const coordinator_state *c, const Weft__Join *m)
{
    return !c->view.running && lacks_checkpoint(c, m);
}

/* Whether a new member must not give its parameters to others (lacks_state in the view). Servers
 * may be uninitialized while the run is under way, and must not get the parameters of a learner
 * without the checkpoint, nor those of another checkpoint in a run that began without one. A peer
 * that joins a run under way takes the state from other peers. */
static bool gives_nothing(const coordinator_state *c, const Weft__Join *m)
{
    uint64_t theirs = m->fingerprint ? m->fingerprint->checkpoint : 0;
    return c->options.ranges > 0
               ? m->role == WEFT_MEMBER_LEARNER && theirs != c->options.fingerprint.checkpoint
               : c->view.running || lacks_checkpoint(c, m);
}

/* Compares checkpoints. In a run with servers a learner may join without the checkpoint and take
 * the state from them; peers have no servers, so those that begin the run need the checkpoint. */
static void compare_state(const coordinator_state *c, const Weft__Join *m, char reason[REASON])
{
    const weft_fingerprint *ours = &c->options.fingerprint;
    uint64_t theirs = m->fingerprint ? m->fingerprint->checkpoint : 0;
    if (theirs && !c->view.running && !ours->checkpoint)
        (void)snprintf(
            reason, REASON,
            "this run starts at step 0, but this process has loaded a checkpoint of step %" PRId64
            "; give --checkpoint FOLDER --resume to the coordinator too, or join without --resume "
            "and with another --checkpoint folder",
            m->fingerprint->step);
    else if (theirs && lacks_state(c, m))
        (void)snprintf(
            reason, REASON,
            "this run resumes from another checkpoint, of step %" PRId64
            "; this process has loaded one of step %" PRId64
            "; give the same, or join without --resume and with another --checkpoint folder: the "
            "members have the state of the run",
            ours->step, m->fingerprint->step);
    else if (theirs && c->view.running && theirs != ours->checkpoint &&
             m->fingerprint->run != c->view.run)
        (void)snprintf(reason, REASON,
                       "this run is under way, and the checkpoint of step %" PRId64
                       " that this process has loaded is of another run; join without --resume, "
                       "and with another --checkpoint folder",
                       m->fingerprint->step);
    else if (lacks_state(c, m) && c->options.ranges == 0)
        (void)snprintf(reason, REASON,
                       "this run resumes from the checkpoint of step %" PRId64
                       ", which this process has not loaded; join with --checkpoint FOLDER "
                       "--resume, or when the run is under way",
                       ours->step);
}

static bool is_taken(const coordinator_state *c, weft_member_role role, int slot)
{
    for (size_t i = 0; i < c->view.member_count; i++)
        if (c->view.members[i].role == role && c->view.members[i].slot == slot) return true;
    return false;
}

static bool is_valid_request(const coordinator_state *c, const Weft__Join *m)
{
    return m->role < WEFT_MEMBER_ROLES && m->requested_slot >= 0 &&
           m->requested_slot < c->options.most;
}

/* If the run has not begun and the process requests a slot beyond those of the expected learners:
 * the first of these slots that no member has; else -1. The process for which that slot is reserved
 * may have ended, and the samples of a slot that no learner has are left out. */
static int vacant_slot(const coordinator_state *c, const Weft__Join *m)
{
    int expected = c->options.expected[WEFT_MEMBER_LEARNER], slot = 0;
    if (c->view.running || m->role != WEFT_MEMBER_LEARNER || m->requested_slot < expected)
        return -1;
    while (slot < expected && is_taken(c, WEFT_MEMBER_LEARNER, slot)) slot++;
    return slot < expected ? slot : -1;
}

/* Writes the reason why a Join is rejected; "": the member is admitted. no->ask_again: the process
 * may ask for another invitation, since another member has the requested slot, or another slot is
 * vacant, or the run is not the one whose run configuration the process has. no->final: the
 * version, the model, the data or the layout of the process is not that of the run. */
static void check_join(const coordinator_state *c, const weft_message *message, const Weft__Join *m,
                       char reason[REASON], Weft__Reject *no)
{
    reason[0] = '\0';
    no->ask_again = m->run && m->run != c->view.run;
    if (no->ask_again)
        (void)snprintf(reason, REASON,
                       "its run is not the one to which this process was invited: the coordinator "
                       "has been replaced meanwhile; start this process again");
    else
        compare(c, m->fingerprint, reason);
    no->final = *reason && !no->ask_again;
    if (!*reason) compare_state(c, m, reason);
    if (*reason) return;
    if (m->role >= WEFT_MEMBER_ROLES || strlen(m->address) >= WEFT_ADDRESS)
        (void)snprintf(reason, REASON,
                       "its role is unknown, or its address has %d characters or more",
                       WEFT_ADDRESS);
    else if (message->from == WEFT_COORDINATOR || weft_view_find(&c->view, message->from))
        (void)snprintf(reason, REASON,
                       "a member with number %u exists already; start this process again, which "
                       "gives it a new number",
                       message->from);
    else if (weft_coordinator_has_removed(c, message->from))
        (void)snprintf(reason, REASON,
                       "the member with number %u has left or was removed; start this process "
                       "again, which gives it a new number",
                       message->from);
    else if (c->view.member_count >= (size_t)c->options.most)
        (void)snprintf(reason, REASON, "there are %d members, and there may be no more",
                       c->options.most);
    else if (c->options.expected[m->role] == 0)
        (void)snprintf(reason, REASON, "this run has no %ss",
                       weft_member_role_name((weft_member_role)m->role));
    else if (c->view.fault)
        (void)snprintf(reason, REASON, "%.280s", c->view.fault);
    else if (c->view.over)
        (void)snprintf(reason, REASON, "this run is over");
    if (*reason) return;
    no->ask_again =
        is_valid_request(c, m) && is_taken(c, (weft_member_role)m->role, m->requested_slot);
    if (no->ask_again)
        (void)snprintf(reason, REASON, "there is a %s %d already",
                       weft_member_role_name((weft_member_role)m->role), m->requested_slot);
    if (no->ask_again || vacant_slot(c, m) < 0) return;
    no->ask_again = true;
    (void)snprintf(reason, REASON, "the run has not begun, and has no learner %d yet",
                   vacant_slot(c, m));
}

static int slot_for(const coordinator_state *c, weft_member_role role, int requested_slot)
{
    int slot = 0;
    if (requested_slot >= 0 && requested_slot < c->options.most &&
        !is_taken(c, role, requested_slot))
        return requested_slot;
    while (is_taken(c, role, slot)) slot++;
    return slot;
}

static slot_reservation *reservation_of(coordinator_state *c, int slot)
{
    double now = weft_actor_now(&c->head);
    for (int i = 0; i < MOST_RESERVATIONS; i++)
        if (c->reservations[i].until > now && c->reservations[i].slot == slot)
            return &c->reservations[i];
    return NULL;
}

/* Ends reservations after a rejected Join: that of the learner's own slot, for which it does not
 * come back, or that of a vacant slot, for which it is to ask. */
static void release_slot(coordinator_state *c, const Weft__Join *m, bool asks_again)
{
    int slot = asks_again ? vacant_slot(c, m) : m->requested_slot;
    slot_reservation *reservation = m->role == WEFT_MEMBER_LEARNER ? reservation_of(c, slot) : NULL;
    if (reservation) reservation->until = 0;
}

static weft_status admit(coordinator_state *c, const weft_message *message, const Weft__Join *m)
{
    weft_view *v = &c->view;
    WEFT_TRY(WEFT_GROW(&c->records, &c->record_capacity, v->member_count));
    weft_view_member member = {.id = message->from,
                               .role = (weft_member_role)m->role,
                               .lacks_state = gives_nothing(c, m),
                               .slot = slot_for(c, (weft_member_role)m->role, m->requested_slot)};
    c->records[v->member_count] =
        (member_record){.keyed = true,
                        .key = m->key,
                        .starts = weft_coordinator_starts(c, member.role, member.slot)};
    slot_reservation *reservation = reservation_of(c, member.slot);
    if (reservation && m->role == WEFT_MEMBER_LEARNER) reservation->until = 0;
    (void)snprintf(member.address, WEFT_ADDRESS, "%s", m->address);
    (void)snprintf(member.host, WEFT_HOST, "%.*s", WEFT_HOST - 1, m->host);
    WEFT_TRY(weft_view_add(v, &member));
    return weft_coordinator_note(c, &member, WEFT_MEMBER_JOINED, 0);
}

/* Writes which members, or which checkpoint, are missing before the run can begin; "": none. */
static void describe_missing(const coordinator_state *c, char *text, size_t size)
{
    const weft_fingerprint *ours = &c->options.fingerprint;
    size_t at = 0;
    bool state = ours->checkpoint == 0;
    text[0] = '\0';
    for (size_t i = 0; i < c->view.member_count; i++)
        state = state ||
                (c->view.members[i].role != WEFT_MEMBER_SERVER && !c->view.members[i].lacks_state);
    if (!state)
        at += (size_t)snprintf(text, size,
                               "no learner has joined with the checkpoint of step %" PRId64
                               " (--checkpoint FOLDER --resume)",
                               ours->step);
    for (int role = 0; role < WEFT_MEMBER_ROLES && at < size; role++) {
        int there = weft_view_count(&c->view, (weft_member_role)role);
        if (there >= c->options.expected[role]) continue;
        at += (size_t)snprintf(text + at, size - at, "%s%d of %d %ss %s joined", at ? ", " : "",
                               there, c->options.expected[role],
                               weft_member_role_name((weft_member_role)role),
                               there == 1 ? "has" : "have");
    }
}

static weft_status welcome(coordinator_state *c, const weft_view_member *member, char *waits)
{
    Weft__JoinAck m;
    weft__join_ack__init(&m);
    m.run = c->view.run;
    m.slot = (uint32_t)member->slot;
    m.waits = waits;
    return weft_rpc_send(&c->head, member->id, WEFT_RPC_JOIN_ACK, &m, c->configuration);
}

/* Reserves a learner's slot for a client: the same client gets the same slot again, and other
 * clients get other slots. If there are more clients than reservations, the oldest reservation is
 * dropped. */
static int reserved_slot(coordinator_state *c, weft_actor_id client, int requested_slot)
{
    enum { KEPT_SECONDS = 60 };
    double now = weft_actor_now(&c->head);
    slot_reservation *oldest = &c->reservations[0];
    int slot = 0;
    for (int i = 0; i < MOST_RESERVATIONS; i++) {
        slot_reservation *p = &c->reservations[i];
        if (p->until > now && p->client == client && !is_taken(c, WEFT_MEMBER_LEARNER, p->slot))
            return p->slot;
        if (p->until < oldest->until) oldest = p;
        if (requested_slot >= 0 && p->slot == requested_slot)
            p->until = 0; /* its client ended before it joined */
    }
    if (requested_slot >= 0 && !is_taken(c, WEFT_MEMBER_LEARNER, requested_slot))
        slot = requested_slot;
    while (is_taken(c, WEFT_MEMBER_LEARNER, slot) || reservation_of(c, slot)) slot++;
    *oldest = (slot_reservation){client, slot, now + KEPT_SECONDS};
    return slot;
}

weft_status weft_coordinator_invite(coordinator_state *c, weft_actor_id client, bool learner,
                                    int requested_slot)
{
    Weft__JoinAck m;
    char waits[REASON];
    describe_missing(c, waits, sizeof(waits));
    weft__join_ack__init(&m);
    m.run = c->view.run;
    m.slot = learner ? (uint32_t)reserved_slot(c, client, requested_slot) : 0;
    m.waits = waits;
    return weft_rpc_send(&c->head, client, WEFT_RPC_JOIN_ACK, &m, c->configuration);
}

static weft_status begin_run(coordinator_state *c)
{
    if (c->options.ranges > 0) WEFT_TRY(weft_assignment_begin(&c->view, c->options.ranges));
    c->view.running = true;
    c->heard = weft_actor_now(&c->head);
    return weft_coordinator_changed(c);
}

/* Handles Join: rejects the process or admits it as a member, and begins the run when no member is
 * missing. A repeated Join of a member is answered again. */
weft_status weft_coordinator_join(void *self, const weft_message *message, const void *content)
{
    coordinator_state *c = self;
    const Weft__Join *m = content;
    char text[REASON];
    Weft__Reject no;
    const weft_view_member *member = weft_view_find(&c->view, message->from);
    weft__reject__init(&no);
    if (c->recovering) return WEFT_OK; /* the members are not known yet */
    const member_record *known = member ? &c->records[member - c->view.members] : NULL;
    bool repeated = known && (!known->keyed || known->key == m->key);
    if (!repeated) {
        check_join(c, message, m, text, &no);
        if (!*text && !weft_actor_bind(&c->head, message->from, m->address))
            (void)snprintf(text, sizeof(text),
                           "the public key in its address is not the one with which it connects");
        no.reason = text;
        if (*text) {
            release_slot(c, m, no.ask_again);
            return weft_rpc_send(&c->head, message->from, WEFT_RPC_REJECT, &no, NULL);
        }
        WEFT_TRY(admit(c, message, m));
        member = &c->view.members[c->view.member_count - 1];
    }
    member_record *record = &c->records[member - c->view.members];
    *record = (member_record){.keyed = true,
                              .key = m->key,
                              .starts = record->starts,
                              .last_message = weft_actor_now(&c->head),
                              .said = record->said};
    describe_missing(c, text, sizeof(text));
    WEFT_TRY(welcome(c, member, text));
    if (repeated)
        return c->view.running ? weft_coordinator_send_view(c, message->from, &c->view) : WEFT_OK;
    return c->view.running ? weft_coordinator_changed(c) : *text ? WEFT_OK : begin_run(c);
}
