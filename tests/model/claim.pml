/* One run, two workers, two orchestrators: offer, claim, heartbeat, lease, requeue, and the log as the lock.
 *
 * Only what decides who may execute is here. A host is its worker process, the trainer that it started and what is on
 * its disk; the environment kills worker processes, starts them again, cuts hosts off and loses offers, FAULTS times.
 * The names in capitals after `#ifdef` each take one rule away: `python -m tests.model` shows that every one is needed.
 *
 * claims, ends  while a worker lives for good, a queued run does not stay so, and the run ends
 * stops_late    an attempt that was given up stops as soon as its worker can read the log
 * asserted      an attempt executes once; two attempts execute at once only if the earlier one was given up for
 *               silence; the run ends once, and not by the word of an attempt that is no longer its own
 */
#define WORKERS 2
#define ATTEMPTS 2
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef ORCHESTRATORS
#define ORCHESTRATORS 2
#endif
#define NOBODY 255

mtype = { QUEUED, RUNNING, STALE, ENDED };         /* phases of the run */
mtype = { STARTING, IDLE, TAKEN, CLAIMED, HOLDING, FINISHED };   /* what a worker process is at */
mtype = { CLEAN, LOST };                           /* how an attempt ended */
mtype = { NOTHING, POST, START, SILENT, BACK, GIVE_UP, END, REQUEUE };   /* decisions */

/* The log: RUNS, and whether another commit came since an orchestrator read it; ATTEMPTS. */
bool outdated[2];
mtype phase = QUEUED;
byte attempt = 1;
byte started[ATTEMPTS + 1] = NOBODY;               /* the worker of AttemptStarted */
mtype exited[ATTEMPTS + 1];                        /* AttemptExited */
bool offered[ATTEMPTS + 1];                        /* WORK: may be delivered to both workers, and get lost */

/* The hosts. */
bool up[WORKERS] = true;                           /* the worker process */
bool cut[WORKERS];                                 /* frozen, or cut off from the log */
mtype stage[WORKERS] = IDLE;
byte holds[WORKERS];                               /* the attempt that its heartbeats name */
byte journal[WORKERS];                             /* on disk: the attempt that it is about to claim or has claimed */
byte trains[WORKERS];                              /* the attempt that executes on the host */

/* What nobody in the system knows. */
byte faults = FAULTS;
byte endings;
bool given_up[ATTEMPTS + 1];                       /* for silence, when its worker could not be reached */
bool posted[ATTEMPTS + 1];                         /* its offer was posted once */

#define reads(w) (up[w] && !cut[w])
/* While a restarted worker closes what its journal names, its heartbeats name that attempt. */
#ifdef SILENT_RECOVERY
#define beats(n) (started[n] != NOBODY && reads(started[n]) && holds[started[n]] == n)
#else
#define beats(n) (started[n] != NOBODY && reads(started[n]) && \
                  (holds[started[n]] == n || (stage[started[n]] == STARTING && journal[started[n]] == n)))
#endif

inline execute(w, n) {
    assert(trains[1 - w] != n);
    assert(trains[1 - w] == 0 || (trains[1 - w] < n -> given_up[trains[1 - w]] : given_up[n]));
    trains[w] = n
}

inline end_run() {
    endings++;
    assert(endings == 1);
    phase = ENDED
}

active [WORKERS] proctype worker() {
    byte me = _pid;
    do
    /* After a restart: end what is left of the attempt in the journal, then record that it was lost. */
    :: stage[me] == STARTING && reads(me) && trains[me] != 0 -> trains[me] = 0
#ifdef LEFTOVER
    :: atomic { stage[me] == STARTING && reads(me) && journal[me] != 0 ->
#else
    :: atomic { stage[me] == STARTING && reads(me) && journal[me] != 0 && trains[me] == 0 ->
#endif
        if
        :: started[journal[me]] == me && exited[journal[me]] == 0 -> exited[journal[me]] = LOST
        :: else
        fi;
        journal[me] = 0 }
    :: stage[me] == STARTING && reads(me) && journal[me] == 0 && trains[me] == 0 -> stage[me] = IDLE

    /* An offer: is the run still waiting for this attempt, and has nobody claimed it? */
    :: atomic { stage[me] == IDLE && reads(me) && offered[attempt] && phase == QUEUED && started[attempt] == NOBODY ->
        journal[me] = attempt; stage[me] = TAKEN }
    /* The claim: AttemptStarted with the expected sequence. */
    :: atomic { stage[me] == TAKEN && reads(me) ->
#ifndef NO_LOCK
        if
        :: started[journal[me]] != NOBODY -> journal[me] = 0; stage[me] = IDLE
        :: else ->
#endif
            started[journal[me]] = me; holds[me] = journal[me]; stage[me] = CLAIMED
#ifndef NO_LOCK
        fi
#endif
        }
    :: atomic { stage[me] == CLAIMED && reads(me) ->
        offered[holds[me]] = false; execute(me, holds[me]); stage[me] = HOLDING }
#ifndef ENDLESS
    /* The trainer ends by itself, also while nothing can be reported. */
    :: atomic { stage[me] == HOLDING && up[me] && trains[me] != 0 -> trains[me] = 0; stage[me] = FINISHED }
#endif
    :: atomic { stage[me] == FINISHED && reads(me) ->
        if
        :: exited[holds[me]] == 0 -> exited[holds[me]] = CLEAN
        :: else
        fi;
        journal[me] = 0; holds[me] = 0; stage[me] = IDLE }
    /* A higher attempt is on the log: this one was given up, its trainer is stopped. */
#ifndef DEAF
    :: atomic { stage[me] == HOLDING && reads(me) && (attempt > holds[me] || phase == ENDED) ->
        trains[me] = 0; journal[me] = 0; holds[me] = 0; stage[me] = IDLE }
#endif
    :: phase == ENDED && stage[me] == IDLE && reads(me) -> break
    od
}

#define due_for(condition, decision) \
    atomic { due == NOTHING && phase != ENDED && (condition) -> \
        outdated[me] = false; n = attempt; due = decision; away = started[n] != NOBODY && !reads(started[n]) }

active [ORCHESTRATORS] proctype orchestrator() {
    byte me = _pid - WORKERS, n;
    mtype due = NOTHING;
    bool away;
    do
    /* Read the run and the facts of its current attempt, and decide. */
    :: due_for(exited[attempt] == CLEAN, END)
#ifdef NO_FENCE
    :: due_for(exited[1] == CLEAN, END)
#endif
    :: due_for(exited[attempt] == LOST, REQUEUE)
#ifdef POSTED_ONCE
    :: due_for(phase == QUEUED && started[attempt] == NOBODY && !posted[attempt], POST)
#else
    :: due_for(phase == QUEUED && started[attempt] == NOBODY && !offered[attempt], POST)
#endif
    :: due_for(phase == QUEUED && started[attempt] != NOBODY && exited[attempt] == 0, START)
    :: due_for(phase == RUNNING && exited[attempt] == 0 && !beats(attempt), SILENT)
    :: due_for(phase == STALE && exited[attempt] == 0 && beats(attempt), BACK)
    :: due_for(phase == STALE && exited[attempt] == 0 && !beats(attempt), GIVE_UP)

    /* Append with the expected sequence: another commit in between is a conflict, and all is read again. */
    :: atomic { due != NOTHING ->
        if
        :: due == POST -> offered[n] = true; posted[n] = true
#ifndef NO_EXPECTED
        :: due != POST && outdated[me]
        :: due != POST && !outdated[me] ->
#else
        :: due != POST ->
#endif
            outdated[1 - me] = true;
            if
            :: due == START || due == BACK -> phase = RUNNING
            :: due == SILENT -> phase = STALE
            :: due == END -> assert(trains[0] != attempt && trains[1] != attempt); end_run()
            :: due == REQUEUE || due == GIVE_UP ->
                given_up[n] = given_up[n] || (due == GIVE_UP && away);
                if
                :: n < ATTEMPTS -> attempt = n + 1; phase = QUEUED
                :: else -> end_run()
                fi
            fi
        fi;
        n = 0; due = NOTHING; away = false; outdated[me] = false }
    :: due == NOTHING && phase == ENDED -> break
    od
}

/* A worker dies with its trainer, or without it when its reaper cannot act; it may be started again. */
active proctype environment() {
    byte w;
    do
    :: faults > 0 -> atomic {
        select(w : 0 .. 1);
        if
        :: up[w] -> faults--; up[w] = false; holds[w] = 0; trains[w] = 0
        :: up[w] && trains[w] != 0 -> faults--; up[w] = false; holds[w] = 0
        :: !cut[w] -> faults--; cut[w] = true
        :: offered[attempt] -> faults--; offered[attempt] = false
        :: else
        fi;
        w = 0 }
    :: atomic { !up[0] -> up[0] = true; stage[0] = STARTING }
    :: atomic { !up[1] -> up[1] = true; stage[1] = STARTING }
    :: cut[0] -> cut[0] = false
    :: cut[1] -> cut[1] = false
    :: phase == ENDED && up[0] && up[1] && !cut[0] && !cut[1] -> break
    od
}

ltl claims { (<>[] reads(0)) -> [] (phase == QUEUED -> <> (phase != QUEUED)) }
ltl ends { (<>[] reads(0)) -> <> (phase == ENDED) }
ltl stops_late { [] ((trains[0] != 0 && attempt > trains[0]) -> <> (trains[0] == 0 || attempt <= trains[0] || !(<>[] reads(0)))) }
