/* The router's kernels: one that stays, and one a batch.
 *
 * persistent: warp 0 dispatches, all others work. The dispatcher polls the task FIFO in host memory, 32 words at a time, and
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
#include "program.h"

#ifdef __CUDACC__
#define LANE_OF(number) {number}
#else
#define LANE_OF(number) {number, trace, 0}
#endif

/* The first is the dispatcher. Both return why they leave. */
FUNCTION uint32_t dispatch(const Router *router) {
    uint64_t next = router->base, beats = 0, beat_seen = NEVER, heard = now_ns(), asked = heard;
    for (;;) {
        PER_LANE(uint64_t, word);
        PER_LANE(uint32_t, missing);
        LANES(lane) {
            uint64_t number = next + lane, generation = generation_of(number);
            OF(word, lane) = load_system(&router->fifo[number % RING_ENTRIES]);
            OF(missing, lane) = word_generation(OF(word, lane)) != generation;
        }
        BALLOT(mask, missing);
        uint32_t ready = mask == 0 ? WARP_LANES : (uint32_t)(
#ifdef __CUDACC__
            __ffs((int)mask) - 1
#else
            __builtin_ctz(mask)
#endif
        );
        LANES(lane) {
            if (lane < ready) store_device(&router->tasks[(next + lane) % RING_ENTRIES], OF(word, lane));
        }
        next += ready;
        if (is_first_lane()) store_device(&router->state[STATE_BEAT], ++beats);
        warp_sync();
        if (ready) {
            heard = now_ns();
            continue;
        }
        /* An entry is of the lap before, or of this one. Anything else is a host that posted over uncommitted tasks. */
        uint64_t found = from_first(load_system(&router->fifo[next % RING_ENTRIES]));
        uint64_t behind = (generation_of(next) - word_generation(found)) & 0xffff;
        uint32_t left = behind > 1 ? LEFT_OVERRUN : 0;
        uint64_t stop = from_first(load_system(&router->control[CONTROL_STOP]));
        if (stop != NEVER && next >= stop) left = LEFT_ASKED;
        uint64_t now = from_first(now_ns());
        /* A read over PCIe, and so not in every round. */
        if (now - asked > router->deadline_ns / 8) {
            asked = now;
            uint64_t beat = from_first(load_system(&router->control[CONTROL_BEAT]));
            if (beat != beat_seen) beat_seen = beat, heard = now;
        }
        if (now - heard > router->deadline_ns) left = LEFT_HOST_SILENT;
        if (left) {
            if (is_first_lane()) store_device(&router->state[STATE_STOP], left == LEFT_ASKED ? next : 0);
            return left;
        }
        pause_ns(0);
    }
}

/* Commits task `ticket`. Only one lane does. */
FUNCTION void commit(const Router *router, uint64_t ticket, uint64_t word) {
    uint64_t *state = router->state;
    fence_system();
    if (router->commit == COMMIT_HOST) {
        store_system(&router->commits[ticket % RING_ENTRIES], word);
    } else if (router->commit == COMMIT_UNORDERED) {
        uint64_t place = add_device(&state[STATE_DONE], 1);
        store_system(&router->commits[place % RING_ENTRIES], make_word(generation_of(place), 0, ticket));
    } else {
        store_device(&router->done[ticket % RING_ENTRIES], word);
        /* Between this store and the attempt to take the lock, and between giving the lock back and looking again, stands a
         * fence: else the last of two warps could leave, each trusting the other to commit it. */
        for (;;) {
            fence_device();
            if (!take_device(&state[STATE_LOCK])) return;
            uint64_t head = load_device(&state[STATE_HEAD]), before = head;
            while (word_generation(load_device(&router->done[head % RING_ENTRIES])) == generation_of(head)) head++;
            if (head != before) {
                store_device(&state[STATE_HEAD], head);
                store_system(&router->status[STATUS_HEAD], head);
            }
            store_device(&state[STATE_LOCK], 0);
            fence_device();
            if (word_generation(load_device(&router->done[head % RING_ENTRIES])) != generation_of(head)) return;
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
        if (is_first_lane()) ticket = add_device(&state[STATE_TICKET], 1);
        ticket = from_first(ticket);
        for (uint32_t tries = 0;; tries++) {
            word = from_first(load_device(&router->tasks[ticket % RING_ENTRIES]));
            if (word_generation(word) == generation_of(ticket)) break;
            if (from_first(load_device(&state[STATE_STOP])) <= ticket) return LEFT_ASKED;
            if ((tries & 255) == 255) {
                uint64_t beat = from_first(load_device(&state[STATE_BEAT])), now = from_first(now_ns());
                if (beat != beat_seen) beat_seen = beat, heard = now;
                if (now - heard > 2 * router->deadline_ns) return LEFT_DISPATCHER_SILENT;
            }
            pause_ns(tries < 64 ? 20 : 200);
        }
        /* What the first lane has acquired is every lane's from here. */
        warp_sync();
        LANES(lane) {
            if (lane < word_count(word)) {
                Lane self = LANE_OF(word_first(word) + lane);
                router->packets.verdicts[(uint32_t)self.packet_idx & router->packets.mask] =
                    any ? process_any(&self, &router->program, &router->packets)
                        : process_headers(&self, &router->program, &router->packets);
            }
        }
        warp_sync();
        if (is_first_lane()) commit(router, ticket, word);
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
BATCH(batch, process_headers)
BATCH(batch_any, process_any)

#endif
