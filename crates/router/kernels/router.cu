/* The router's kernels: one that stays, and one a batch, of packets or of what was gathered of them.
 *
 * persistent: warp 0 dispatches, all others work. The dispatcher polls the task FIFO in host memory, 32 to 128 words at a time, and
 * publishes what it finds in a ring in device memory, so that a thousand waiting warps do not poll over PCIe. A worker draws
 * a ticket, waits until the task of that number is there, does it with a packet a lane, and commits it.
 *
 * Every ring has a generation in its entries, so that nothing is ever cleared: entry n of a ring is there when it has the
 * generation of n. The host keeps at most RING_ENTRIES tasks uncommitted, which bounds the FIFO, the ring of tasks and the
 * DCQ at once. A task's entry can be overwritten only after it was committed, thus after its worker has read it.
 *
 * Every wait has a deadline. The dispatcher watches a count that the host keeps growing, workers one of the dispatcher.
 *
 * Left out: several queues, preemption, more than one device. Source: Zhu, Deng, Chen, DAC 2011, section 3.2 (task FIFO,
 * delay commit queue), built on a persistent kernel in place of hardware. */
#include "gather.h"
#include "program.h"

#ifdef __CUDACC__
#define LANE_OF(number) {number, 0, {{{0}}}}
#else
#define LANE_OF(number) {number, trace, 0, 0, {{{0}}}}
#endif

FUNCTION uint64_t *task_of(uint64_t *tasks, uint64_t number) {
    return &tasks[number % RING_ENTRIES * ENTRY_WORDS + ENTRY_TASK];
}

/* How many lanes from the first on are not in `mask`. */
FUNCTION uint32_t lanes_before(uint32_t mask) { return mask == 0 ? WARP_LANES : lowest(mask); }

/* The dispatcher's last deed: no task from `stop` on will come. */
FUNCTION void tell_stop(const Router *router, uint64_t stop) {
    for (uint32_t place = 0; place < RING_ENTRIES; place += WARP_LANES) {
        LANES(lane) { note_device(&router->tasks[(place + lane) * ENTRY_WORDS + ENTRY_STOP], stop); }
    }
}

/* Where the host posts task `number`. */
FUNCTION const uint64_t *task_word(const uint64_t *fifo, uint64_t number) { return &fifo[number % RING_ENTRIES]; }

/* Words of 32 tasks that one round of the dispatcher reads at most. */
#define MOST_PARTS 4u

/* Asks for the words of 32, 64 or 128 tasks from `from` on: reads over PCIe, none of which waits for another. */
#define ASK(fifo, from, parts)                                                                                     \
    PER_LANE(uint64_t, word);                                                                                      \
    PER_LANE(uint64_t, second);                                                                                    \
    PER_LANE(uint64_t, third);                                                                                     \
    PER_LANE(uint64_t, fourth);                                                                                    \
    LANES(lane) {                                                                                                  \
        OF(word, lane) = glance_system(task_word(fifo, (from) + lane));                                            \
        if ((parts) > 1) OF(second, lane) = glance_system(task_word(fifo, (from) + WARP_LANES + lane));            \
        if ((parts) > 2) {                                                                                         \
            OF(third, lane) = glance_system(task_word(fifo, (from) + 2 * WARP_LANES + lane));                      \
            OF(fourth, lane) = glance_system(task_word(fifo, (from) + 3 * WARP_LANES + lane));                     \
        }                                                                                                          \
    }

/* Of 32 words from task `from` on, how many of the first are there. */
#define FIND(ready, word, from)                                                                                      \
    PER_LANE(uint32_t, missing_##word);                                                                              \
    LANES(lane) { OF(missing_##word, lane) = word_generation(OF(word, lane)) != generation_of((from) + lane); }      \
    BALLOT(mask_##word, missing_##word);                                                                             \
    uint32_t ready = lanes_before(mask_##word)

/* Of what ASK asked for, how many of the first are there. What was not asked for may look as if it were. */
#define FIND_ALL(ready, from, parts)                                                \
    FIND(ready, word, from);                                                        \
    FIND(ready_second, second, (from) + WARP_LANES);                                \
    FIND(ready_third, third, (from) + 2 * WARP_LANES);                              \
    FIND(ready_fourth, fourth, (from) + 3 * WARP_LANES);                            \
    if ((parts) > 1 && ready == WARP_LANES) ready += ready_second;                  \
    if ((parts) > 2 && ready == 2 * WARP_LANES) ready += ready_third;               \
    if ((parts) > 2 && ready == 3 * WARP_LANES) ready += ready_fourth

/* Publishes task `place` of those from `next` on, if it is one of the `ready` ones. */
FUNCTION void hand_on(const uint64_t *fifo, uint64_t *tasks, uint64_t next, uint32_t ready, uint32_t place, uint64_t word) {
    uint64_t own = next + place;
    if (place < ready) relay(task_word(fifo, own), word, task_of(tasks, own));
}

/* Publishes the first `ready` of what ASK asked for. */
#define HAND_ON(fifo, tasks, next, ready)                                                   \
    relay_fence();                                                                          \
    LANES(lane) {                                                                           \
        hand_on(fifo, tasks, next, ready, lane, OF(word, lane));                            \
        hand_on(fifo, tasks, next, ready, WARP_LANES + lane, OF(second, lane));             \
        hand_on(fifo, tasks, next, ready, 2 * WARP_LANES + lane, OF(third, lane));          \
        hand_on(fifo, tasks, next, ready, 3 * WARP_LANES + lane, OF(fourth, lane));         \
    }

/* The first is the dispatcher. Both return why they leave. */
FUNCTION uint32_t dispatch(const Router *router) {
    uint64_t next = router->base, beats = 0, rounds = 0, beat_seen = NEVER, heard = now_ns(), asked = heard;
    uint32_t parts = router->least_parts;
    if (is_first_lane()) store_system(&router->status[STATUS_PLACE], shader_core());
    for (;;) {
        ASK(router->fifo, next, parts);
        uint64_t stop = from_first(glance_system(&router->control[CONTROL_STOP]));
        FIND_ALL(ready, next, parts);
        if (is_first_lane()) note_device(&router->state[STATE_BEAT], ++beats);
        /* Words take time on the bus: as many are asked for as there were last time. */
        uint32_t asked_for = parts;
        if (ready == asked_for * WARP_LANES) {
            if (asked_for < router->most_parts) parts = asked_for * 2;
        } else if (ready <= asked_for / 2 * WARP_LANES && asked_for > router->least_parts) {
            parts = asked_for / 2;
        }
        if (ready) {
            HAND_ON(router->fifo, router->tasks, next, ready);
            next += ready;
            if (is_first_lane()) note_system(&router->status[STATUS_ROUNDS], ++rounds);
            heard = now_ns();
            continue;
        }
        /* An entry is of the lap before, or of this one. Anything else is a host that posted over uncommitted tasks. */
        uint64_t behind = (generation_of(next) - word_generation(OF_FIRST(word))) & 0xffff;
        uint32_t left = behind > 1 ? LEFT_OVERRUN : 0;
        if (stop != NEVER && next >= stop) left = LEFT_ASKED;
        uint64_t now = from_first(now_ns());
        /* Another read over PCIe, and so not in every round. */
        if (now - asked > router->deadline_ns / 8) {
            asked = now;
            uint64_t beat = from_first(glance_system(&router->control[CONTROL_BEAT]));
            if (beat != beat_seen) beat_seen = beat, heard = now;
        }
        if (now - heard > router->deadline_ns) left = LEFT_HOST_SILENT;
        if (left) {
            tell_stop(router, left == LEFT_ASKED ? next : 0);
            return left;
        }
        pause_ns(0);
    }
}

#include "link.h"

/* Moves the head of the DCQ past all that is done, and tells the host; by all lanes of the warp that may. */
FUNCTION void move_head(const Router *router) {
    uint64_t *state = router->state, before = from_first(glance_device(&state[STATE_HEAD])), head = before;
    uint32_t ready;
    do {
        PER_LANE(uint32_t, missing);
        LANES(lane) {
            uint64_t word = load_device(&router->done[(head + lane) % RING_ENTRIES]);
            OF(missing, lane) = word_generation(word) != generation_of(head + lane);
        }
        BALLOT(mask, missing);
        ready = lanes_before(mask);
        head += ready;
    } while (ready == WARP_LANES);
    /* What every lane has acquired the first one tells of. */
    warp_sync();
    if (head != before && is_first_lane()) {
        uint64_t moves = glance_device(&state[STATE_MOVES]) + 1;
        note_device(&state[STATE_HEAD], head);
        note_device(&state[STATE_MOVES], moves);
        store_system(&router->status[STATUS_HEAD], head);
        note_system(&router->status[STATUS_MOVES], moves);
    }
}

/* Whoever finishes marks the task as done and counts itself in. Who finds nobody before it moves the head for all, and counts
 * them out, unless others have come: then it goes on. Nobody waits. */
FUNCTION void commit_in_order(const Router *router, uint64_t ticket, uint64_t word) {
    uint64_t *callers = &router->state[STATE_LOCK], before = 0, seen = 0;
    if (is_first_lane()) {
        store_device(&router->done[ticket % RING_ENTRIES], word);
        before = mark_device(callers);
    }
    if (from_first(before) != 0) return;
    if (is_first_lane()) seen = load_device(callers);
    for (;;) {
        uint64_t found = 0;
        /* What the first lane has learnt of those who came is every lane's from here. */
        warp_sync();
        move_head(router);
        if (is_first_lane()) found = clear_device(callers, seen);
        if (from_first(found == seen)) return;
        seen = found;
    }
}

/* Commits task `ticket`: all that the warp has written comes before. */
FUNCTION void commit(const Router *router, uint64_t ticket, uint64_t word) {
    if (router->commit == COMMIT_DEVICE) {
        commit_in_order(router, ticket, word);
    } else if (is_first_lane()) {
        if (router->commit == COMMIT_HOST) {
            store_system(&router->commits[ticket % RING_ENTRIES], word);
        } else {
            uint64_t place = draw_device(&router->state[STATE_DONE]);
            store_system(&router->commits[place % RING_ENTRIES], make_word(generation_of(place), 0, ticket));
        }
    }
}

/* `any` is known when this is compiled: which of the two forms of a program it works by. */
#ifdef __CUDACC__
FUNCTION uint32_t work(const Router *router, int any) {
#else
FUNCTION uint32_t work(const Router *router, int any, Trace *trace) {
#endif
    uint64_t *state = router->state;
    for (;;) {
        uint64_t ticket = 0, word = 0, beat_seen = 0, heard = now_ns();
        if (is_first_lane()) ticket = draw_device(&state[STATE_TICKET]);
        ticket = from_first(ticket);
        for (uint32_t tries = 0;; tries++) {
            Pair entry = glance_pair(task_of(router->tasks, ticket));
            if (word_generation(from_first(entry.first)) == generation_of(ticket)) break;
            if (from_first(entry.second) <= ticket) return LEFT_ASKED;
            if ((tries & 255) == 255) {
                uint64_t beat = from_first(glance_device(&state[STATE_BEAT])), now = from_first(now_ns());
                if (beat != beat_seen) beat_seen = beat, heard = now;
                if (now - heard > 2 * router->deadline_ns) return LEFT_DISPATCHER_SILENT;
            }
            pause_ns(tries < PATIENCE ? 20 : 200);
        }
        /* By every lane, so that each has acquired what it reads. */
        word = load_device(task_of(router->tasks, ticket));
        LANES(lane) {
            if (lane < word_count(word)) {
                Lane self = LANE_OF(word_first(word) + lane);
                router->packets.verdicts[(uint32_t)self.packet_idx & router->packets.mask] =
                    any ? process_any(&self, &router->program, &router->packets)
                        : process_headers(&self, &router->program, &router->packets, 1);
            }
        }
        warp_sync();
        commit(router, ticket, word);
        warp_sync();
    }
}

/* The last warp to leave tells the host. */
FUNCTION void leave(const Router *router, uint32_t why) {
    if (!is_first_lane()) return;
    if (why != LEFT_ASKED) store_device(&router->state[STATE_REASON], why);
    if (add_device(&router->state[STATE_EXITED], 1) + 1 == router->warps) {
        uint64_t reason = load_device(&router->state[STATE_REASON]);
        store_system(&router->status[STATUS_LEFT], reason ? reason : (uint64_t)LEFT_ASKED);
    }
}

#ifdef __CUDACC__

/* As many warps as `router.warps` says; all must be resident at once. */
#define PERSISTENT(name, any)                                                            \
    extern "C" __global__ void name(const __grid_constant__ Router router) {             \
        uint32_t warp = WARP_INDEX;                                                      \
        if (warp >= router.warps) return;                                                \
        leave(&router, warp == 0 ? dispatch(&router) : work(&router, any));              \
    }
PERSISTENT(persistent, 0)
PERSISTENT(persistent_any, 1)

/* Nothing is loaded early: packets lie in the GPU's memory, and other warps have work while one waits. */
FUNCTION uint32_t process_batched(Lane *lane, const Program *program, const Packets *packets) {
    return process_headers(lane, program, packets, 0);
}

/* Packets `first` and on, one a thread. */
#define BATCH(name, process)                                                                                        \
    extern "C" __global__ void name(const __grid_constant__ Program program, const __grid_constant__ Packets packets, \
                                    uint32_t first, uint32_t count) {                                               \
        uint32_t place = blockIdx.x * blockDim.x + threadIdx.x;                                                     \
        if (place < count) {                                                                                        \
            Lane self = LANE_OF(first + place);                                                                     \
            packets.verdicts[(first + place) & packets.mask] = process(&self, &program, &packets);                  \
        }                                                                                                           \
    }
BATCH(batch, process_batched)
BATCH(batch_any, process_any)

extern "C" __global__ void link(const __grid_constant__ Link link) { measure_link(&link); }

/* What was gathered, one a thread, by one function of headers. */
extern "C" __global__ void batch_gathered(const __grid_constant__ Program program, const __grid_constant__ Gathered packets) {
    uint32_t place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place < packets.count_v4 + packets.count_v6) {
        Lane self = LANE_OF(place);
        process_gathered(&self, &program.member[0], &packets, place);
    }
}

#endif
