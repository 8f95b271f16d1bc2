/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_SIM_WORLD_H
#define LOCI_SIM_WORLD_H

/* The simulator's own state, shared by its files. One world is one run. */

#include "cost.h"
#include "fiber.h"
#include "hooks.h"
#include "runtime.h"
#include "sim.h"

#define SIM_IDENTITY UINT64_C(0x1000)       /* of process 0 */
#define SIM_LANE_ROOM 12                    /* operations that a lane takes; TIMED: cost->room */
#define SIM_REGISTERS 512                   /* doorbell registers of a device, at most */
#define SIM_WORDS ((size_t)16 << 10)        /* bytes of a device's own memory */
#define SIM_WORDS_EXTENT UINT32_MAX         /* its number */
#define SIM_PIECES 31       /* steps to place or read one at most, but for an unaligned head */

struct sim_world;
struct sim_process;

/* ---- fibers (sched.c) ---- */

enum sim_state {
    SIM_READY,
    SIM_IDLE,           /* has polled in vain: ready again when its process has changed */
    SIM_MUTEX,          /* waits for a mutex */
    SIM_COND,           /* waits for a condition to be told */
    SIM_JOIN,           /* waits for threads that it started */
    SIM_MAIL,           /* service: waits for letters */
    SIM_ASLEEP,
    SIM_FUTEX,          /* sleeps until a wake of a word, or a time */
    SIM_DONE
};

#define SIM_LATE_MAX 8                  /* stores of a fiber that nobody has seen yet, at most */

struct sim_fiber {
    struct loci_fiber fiber;
    struct sim_world *world;
    struct sim_process *process;
    int index;                          /* in the world's table */
    int thread;                         /* -1: the service thread */
    enum sim_state state;
    const struct loci_sim_mutex *mutex;
    const struct loci_sim_cond *cond;
    unsigned told;                      /* of the condition, when it began to wait */
    uint64_t seen;                      /* IDLE: the process's version that it polled */
    int64_t wake;                       /* ASLEEP: when; FUTEX: at the latest */
    const void *futex;                  /* FUTEX: the word */
    bool woken;
    const char *waits_for;              /* of the runtime's wait that it is in */
    uint32_t priority;
    uint64_t slice;                     /* steps since it last gave way (PRIORITY) */
    int64_t clock;                      /* TIMED: its core's */
    int64_t part;                       /* of a nanosecond, in hundredths, that it is behind */
    struct sim_fiber *next_waiter;      /* TIMED: of its process */
    uint64_t resumed;                   /* TIMED: the version when it went on the last time */
    uint64_t blocked;                   /* TIMED: times that it has waited */
    struct loci_thread *context;        /* of the runtime */
    struct sim_fiber *starter;          /* who joins it */
    int unjoined;                       /* threads that it waits for */
    int (*fn)(void *arg, int thread);
    void *arg;
    int result;
    struct sim_late {                   /* asymmetric.c: stored, and seen by nobody */
        _Atomic uint64_t *word;
        uint64_t value;
    } late[SIM_LATE_MAX];
    int late_count;
};

/* ---- lanes (net.c) ---- */

enum sim_stage { SIM_POSTED, SIM_SENT, SIM_FETCHED, SIM_EXECUTED, SIM_COMPLETE };

struct sim_op {
    struct sim_op *next;
    struct loci_op op;
    uint64_t id;
    enum sim_stage stage;       /* a write: POSTED, SENT (complete); placed by its pieces */
    bool told;
    bool in_device;             /* target: in the device's own memory */
    unsigned char *target;
    unsigned char *data;        /* write: the source when posted, then when read; read: what came */
    uint64_t word;              /* of an atomic: what was fetched */
    int pieces;
    uint32_t left;              /* pieces to be placed or read */
    int begun;                  /* the piece of which a part is, if */
    size_t part;                /* so many bytes of it are */
};

/* What a lane could do next, a bit each. */
enum { SIM_SEND = 1, SIM_PLACE = 2, SIM_EXECUTE = 4, SIM_RESPOND = 8 };

struct sim_lane {
    struct loci_lane *lane;             /* NULL: its thread has gone, what was sent arrives */
    struct sim_process *from, *to;
    int thread;
    int index;
    struct sim_op *first, **last;
    int depth;
    unsigned can;
    bool cut;                           /* by `to`, though `from` is alive: nothing arrives */
    uint32_t priority;
    int64_t free_at, last_posted, last_placed, last_executed, last_done;    /* TIMED */
    struct sim_register *reg;           /* TIMED: whose doorbell it rings */
};

/* ---- processes (world.c, control.c) ---- */

enum sim_letter_kind { SIM_CONTROL, SIM_GOODBYE, SIM_DEATH, SIM_RING, SIM_TIDY };

struct sim_letter {
    struct sim_letter *next;
    enum sim_letter_kind kind;
    int from;
    uint64_t label, to;                 /* of the runtimes that sent it, and that it is for */
    int64_t at;                         /* TIMED: when it arrives */
    size_t len;
    unsigned char bytes[];
};

struct sim_extent {
    uint64_t number;
    unsigned char *base;
    size_t len;
    size_t touched;                     /* bytes from its start */
    bool gone;                          /* given back: nobody finds it any more */
};

struct sim_user {                       /* memory that the user brought */
    uint64_t base, len;
    bool there;
};

struct loci_fabric {                    /* struct sim_process by another name */
    int unused;
};

/* A device, TIMED: when parts of it are free. */
struct sim_nic {
    int64_t free, in_free, atomic_free;
    int64_t ps;                         /* picoseconds that `free` is behind */
    int64_t makes_free;                 /* for what is made of contexts and queue pairs */
    int outstanding;                    /* posted, and their completions not taken */
};

struct sim_process {
    struct loci_fabric fabric;          /* first */
    struct sim_world *world;
    int rank;
    uint64_t node;
    struct loco_runtime *rt;
    struct sim_fiber *main, *service;
    bool stopped, finished, closing;
    bool left;                          /* it has said goodbye: what others post gets no further */
    uint64_t version;                   /* grows with every change that its waiters might see */
    uint64_t steps;
    struct sim_extent *extents;
    int extent_count;
    struct sim_user *users;             /* by number, from 1 */
    int user_count;
    size_t words_taken;                 /* of its device's own memory; an extent of its own */
    struct loci_peer **peers;           /* by rank */
    struct sim_letter *letters, **last_letter;
    const struct sim_op *device;        /* the atomic that its device is at */
    struct loci_sim_counts counts;
    struct sim_nic own_nic, *nic;       /* TIMED; `nic` is its machine's where these are shared */
    int64_t context_at;                 /* when it has opened its device; 0: it has not */
    struct sim_register {
        int64_t free_at;
        int threads;                    /* that have lanes on it */
    } registers[SIM_REGISTERS];
    int registers_taken;
    struct sim_fiber *waiters;          /* TIMED: its fibers that cannot go on */
    int asymmetric;                     /* enum loci_asymmetric */
    int gathers;                        /* collective exchanges that it has entered */
};

/* ---- the world ---- */

struct sim_world {
    const struct loci_sim_config *config;
    struct loci_sim_result *result;
    loci_sim_body *body;
    void *arg;
    enum loci_sim_strategy strategy;
    bool (*held)(void *arg, int from, int to);      /* or NULL: of the scenario's, with */
    void *held_arg;
    int count;
    struct sim_process *process;
    struct loci_fiber os;               /* who called loci_sim_run */
    struct sim_fiber **fibers;
    int fiber_count, fiber_room;
    struct sim_lane **lanes;
    int lane_count, lane_room;
    struct sim_fiber *current;
    bool over;                          /* the verdict is there */
    bool quiet;                         /* opening and closing: no choices, no steps */
    int unfinished, open;               /* bodies; runtimes */

    uint64_t random[3];                 /* choices; time and the fabric's; the scenario's */
    uint32_t *decisions;
    size_t decision_count, decision_room;
    size_t decision_next;               /* of the configuration's */
    uint64_t run_left;                  /* steps until the next choice; 0: no end */
    int run_mean;
    uint64_t steps, choices, hash;
    int64_t time;
    uint64_t time_mask;                 /* a choice takes up to so many ns */
    int barren;                         /* times in a row that time had to be moved on, */
    int without_effect;                 /* and that since then no slow fiber ran either */
    uint64_t ops;                       /* posted so far */
    uint32_t *actors;                   /* room for a choice */
    unsigned char *gathered;
    size_t gather_len;
    int gather_round, gather_in;
    struct sim_op *free_ops;
    struct sim_given *given;            /* memory that nobody has: poison.c */
    int given_count, given_room;
    char giving[96];                    /* what it is that is given back next */
    struct sim_agenda *agenda;          /* TIMED */
    struct sim_span {                   /* config.machines: network memory, by its address */
        uintptr_t base;
        size_t len;
    } *spans;
    int span_count;
};

extern _Thread_local struct sim_world *loci_sim_world;

static inline struct sim_process *sim_process_of(struct loci_fabric *fabric)
{
    return (struct sim_process *)(void *)fabric;
}

static inline struct sim_process *sim_peer_process(struct sim_process *p,
                                                   const struct loci_peer *peer)
{
    return &p->world->process[peer->address.identity - SIM_IDENTITY];
}

/* Whether they may map each other's memory, and have the bells of one node. */
static inline bool sim_is_near(const struct sim_process *a, const struct sim_process *b)
{
    return a->node == b->node;
}

/* timed.c: none of it but the clock is used unless the strategy is TIMED. */
void loci_sim_timed_open(struct sim_world *w);
void loci_sim_timed_close(struct sim_world *w);
/* What time it is to whoever runs. */
int64_t loci_sim_clock(const struct sim_world *w);
/* The fiber goes on, not before that time. */
void loci_sim_timed_run(struct sim_fiber *f, int64_t at);
/* It has given way: it goes on when its state says that it can. */
void loci_sim_timed_block(struct sim_fiber *f);
void loci_sim_timed_poke(struct sim_process *p, int64_t delay);
/* What comes before the running fiber's time goes first. */
void loci_sim_timed_order(struct sim_world *w);
/* The CPU of the running fiber does something that takes `ns`. */
void loci_sim_time_cpu(struct sim_world *w, int64_t ns);
/* Something on the lane is complete. */
void loci_sim_lane_changed(const struct sim_lane *lane);
/* The lane's last operation was made; it is sent when the doorbell rings. */
void loci_sim_time_op(struct sim_lane *lane);
/* Of all that were made on the lane since the last ring, `made` of them. */
void loci_sim_time_ring(struct sim_lane *lane, int made);
/* setup.c: what comes before operations can be; nothing unless config.setup says what that costs.
 * The running fiber waits for it. */
void loci_sim_time_pair(struct sim_process *from, struct sim_process *to);
void loci_sim_time_memory(struct sim_process *p, size_t len);
/* Its CPU is in a system call. */
void loci_sim_time_call(struct sim_world *w);
/* When a letter that is sent now arrives; who takes it waits for that, and handles it. */
int64_t loci_sim_time_arrival(const struct sim_world *w);
void loci_sim_time_letter(struct sim_world *w, int64_t arrival);
/* From a wake until who was asleep goes on. */
int64_t loci_sim_time_wake(struct sim_world *w);

/* The network does what comes before the next fiber; NULL: nothing is left. */
struct sim_fiber *loci_sim_timed_next(struct sim_world *w);

/* sched.c */
uint64_t loci_sim_random(struct sim_world *w, int stream);
/* Over with this verdict; does not come back. */
void loci_sim_end(enum loci_sim_verdict verdict) __attribute__((noreturn));
/* The current fiber cannot go on: others run until it is READY again. */
void loci_sim_block(enum sim_state state);
/* Something of this process that its fibers wait for may be there, after `delay` ns. */
static inline void sim_poke(struct sim_process *p, int64_t delay)
{
    if (p->waiters != NULL)
        loci_sim_timed_poke(p, delay);
}
/* net.c: whether a process of its node may look there; only where config.machines is set. */
bool loci_sim_is_shared(const struct sim_world *w, const void *at);
/* Something that waiters of this process may see. */
static inline void sim_changed(struct sim_process *p)
{
    p->version++;
    p->world->barren = p->world->without_effect = 0;
    sim_poke(p, 0);
}
/* The same of its network memory, which others of its node may have mapped. */
void loci_sim_memory_changed(const struct sim_process *p);
struct sim_fiber *loci_sim_start(struct sim_process *p, int thread, void (*fn)(void *arg));
bool loci_sim_fiber_ready(const struct sim_fiber *f);
void loci_sim_run_fibers(struct sim_world *w);
/* The choices' stream: one of n. */
/* asymmetric.c: what this fiber has stored is seen by all. */
void loci_sim_drain(struct sim_fiber *f);
uint32_t loci_sim_choose(struct sim_world *w, uint32_t n, uint32_t from_seed);

/* net.c */
extern const struct loci_fabric_ops loci_fabric_sim, loci_fabric_sim_node, loci_fabric_sim_owner;
/* Zeroed memory for an extent; given back with how many bytes from its start were touched. */
void *loci_sim_take_memory(size_t len);
void loci_sim_give_memory(unsigned char *base, size_t len, size_t touched);
void loci_sim_lane_event(struct sim_lane *lane, unsigned what);
/* The process has stopped: what it had not sent is lost. */
void loci_sim_lanes_stop(struct sim_process *p);
void loci_sim_lanes_free(struct sim_world *w);
/* Operations that are complete, but not placed, where these bytes are: for the trace. */
void loci_sim_hazards(struct sim_world *w, const void *at, size_t len);

/* poison.c: ends the run where these touch memory that was given back. */
void loci_sim_look_at_access(struct sim_world *w, enum loci_sim_access kind, const void *at,
                             size_t len);
void loci_sim_look_at_op(const struct sim_lane *lane, const struct sim_op *op);

/* pieces.c */
int loci_sim_piece_count(const unsigned char *at, size_t len);
/* The i-th: [*from, *from + *len) of the operation's bytes. */
void loci_sim_piece(const struct sim_op *op, int i, size_t *from, size_t *len);
void loci_sim_next_part(struct sim_world *w, struct sim_op *op, size_t *from, size_t *len);

/* control.c */
void loci_sim_serve(void *arg);
void loci_sim_send_letter(struct sim_process *to, uint64_t label, int from,
                          enum sim_letter_kind kind, const void *bytes, size_t len);
void loci_sim_letters_free(struct sim_process *p);

/* world.c */
void loci_sim_stop(struct sim_process *p);
/* Whose memory that is, and where: "p1 lock.word+0"; false: nobody's. */
bool loci_sim_place_of(struct sim_world *w, const void *at, char *text, size_t len);
bool loci_sim_is_network(struct sim_world *w, const void *at);

/* trace.c: costs a test where nobody listens. */
void loci_sim_trace_access(struct sim_world *w, enum loci_sim_access kind, const void *at,
                           size_t len);
void loci_sim_trace_line(struct sim_world *w, int process, int thread, const char *what,
                         uint64_t op, int peer, const char *format, ...)
    __attribute__((format(printf, 7, 8)));
void loci_sim_stuck_text(struct sim_world *w);
void loci_sim_op_text(const struct sim_lane *lane, const struct sim_op *op, char *text,
                      size_t len);
static inline bool sim_traced(const struct sim_world *w)
{
    return w->config->trace != NULL || w->config->event != NULL;
}
#define SIM_TRACE(w, ...)                                                                         \
    do {                                                                                          \
        if (sim_traced(w))                                                                        \
            loci_sim_trace_line(w, __VA_ARGS__);                                                  \
    } while (0)

#endif
