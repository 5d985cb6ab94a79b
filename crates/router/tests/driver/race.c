/* The kernel's host twin with a host that posts, commits and uses slots again, for the thread sanitizer.
 *
 * Exit code: 0 each packet once, in order where that is asked for, with its verdict; 66 a data race (the sanitizer's); 1 else. */
#include "../../kernels/twin.c"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define WORKERS 3
#define SLOTS 4096u
#define STRIDE 128u
#ifndef TASKS
#define TASKS 2000u
#endif

static Router router;
static uint64_t fifo[RING_ENTRIES], control[CONTROL_WORDS], status[STATUS_WORDS], commits[RING_ENTRIES],
    tasks[RING_ENTRIES * ENTRY_WORDS], done[RING_ENTRIES], state[STATE_WORDS];
static Descriptor descriptors[SLOTS];
static uint8_t slots[SLOTS * STRIDE] __attribute__((aligned(64)));
static uint32_t verdicts[SLOTS], classes[SLOTS];
#define PART_BYTES 128u
static uint8_t parts[SLOTS * PART_BYTES] __attribute__((aligned(64)));
static uint32_t hops[2][4] __attribute__((aligned(16)));

/* The form of the program. */
static uint32_t any;

/* A route to 10.0.0.0/24 that goes into a group of tbl8 and out of it again while packets are looked up, as `updates.rs` has it: a group is
 * filled, linked once all tasks that were posted before are committed, and used again once all are that were posted while it was linked. */
enum { UNLINKED, FILLED, LINKED, RESTING };
static uint32_t *changing24, *changing8;
static struct {
    uint32_t phase, group, made;
    uint64_t until;
} change;

static void change_routes(uint64_t posted, uint64_t oldest) {
    uint32_t *entry = &changing24[10 << 16], *group = &changing8[change.group * 256];
#ifdef WITHOUT_GRACE
    oldest = posted;
#endif
    switch (change.phase) {
        case UNLINKED:
            /* By plain stores: whoever reads meanwhile races. */
            for (uint32_t i = 0; i < 256; i++) group[i] = 2;
            change.phase = FILLED, change.until = posted;
            break;
        case FILLED:
            if (oldest < change.until) break;
            __atomic_store_n(entry, 1u << 31 | change.group, __ATOMIC_RELAXED);
            change.phase = LINKED, change.until = posted + 3;
            break;
        case LINKED:
            if (posted < change.until) break;
            __atomic_store_n(entry, 2, __ATOMIC_RELAXED);
            change.phase = RESTING, change.until = posted;
            break;
        default:
            if (oldest < change.until) break;
            change.phase = UNLINKED, change.group ^= 1, change.made++;
    }
}

static void *warp(void *index) {
    wirespeed_router_warp(&router, (uint32_t)(uintptr_t)index, any, NULL);
    return NULL;
}

/* Packet `number`: a route for all but every third, a time to live that runs out for every seventh. */
static void put(uint64_t number) {
    uint8_t *frame = slots + (number % SLOTS) * STRIDE + FRAME_OFFSET, *header = frame + 14;
    memset(frame, 0, 60);
    frame[12] = 8;
    header[0] = 0x45, header[3] = 46, header[8] = number % 7 ? 64 : 1, header[9] = 17;
    header[12] = 192, header[14] = 2, header[15] = 1;
    header[16] = number % 3 ? 10 : 11, header[19] = (uint8_t)number;
    Descriptor descriptor = {60, 60, 14, 4, 8, 0};
    descriptors[number % SLOTS] = descriptor;
    verdicts[number % SLOTS] = 0;
}

static uint32_t expected(uint64_t number) {
    if (number % 3 == 0) return DROP_FOR(DROP_NO_ROUTE);
    if (number % 7 == 0) return DROP_FOR(DROP_TTL_EXPIRED);
    return any ? FORWARD_BY(5) | VERDICT_CUT : FORWARD_BY(5);
}

/* What the second fragment of a packet of 46 bytes is made of, where the first one takes 36 of 40: read by the host, as sinks do. */
static int is_cut_in_two(uint64_t number) {
    const uint8_t *buffer = parts + (number % SLOTS) * PART_BYTES;
    const uint32_t *word = (const uint32_t *)buffer;
    return word[PART_COUNT_WORD] == 1 && word[16] == (30u << 16 | 2);
}

static int fail(const char *what, uint64_t number) {
    fprintf(stderr, "%s at %llu\n", what, (unsigned long long)number);
    return 1;
}

static int route(uint32_t commit, uint64_t base) {
    for (uint64_t i = 0; i < RING_ENTRIES; i++) {
        uint64_t number = base - base % RING_ENTRIES + i;
        if (number < base) number += RING_ENTRIES;
        tasks[i * ENTRY_WORDS + ENTRY_STOP] = NEVER;
        fifo[i] = commits[i] = tasks[i * ENTRY_WORDS] = done[i] = make_word((generation_of(number) - 1) & 0xffff, 0, 0);
    }
    memset(state, 0, sizeof state), memset(status, 0, sizeof status), memset(control, 0, sizeof control);
    state[STATE_TICKET] = state[STATE_HEAD] = state[STATE_DONE] = status[STATUS_HEAD] = base;
    control[CONTROL_STOP] = NEVER;
    router.commit = commit, router.base = base;
    pthread_t threads[WORKERS + 1];
    for (uintptr_t i = 0; i <= WORKERS; i++)
        if (pthread_create(&threads[i], NULL, warp, (void *)i)) return fail("no thread", i);
    static uint8_t seen[TASKS];
    memset(seen, 0, sizeof seen);
    uint64_t posted = 0, committed = 0, oldest = 0, beats = 0;
    while (committed < TASKS) {
        /* 96 tasks at a time: fewer than the slots hold. */
        if (posted < TASKS && posted - oldest < 96) {
            uint32_t count = 1 + posted % 32;
            for (uint32_t i = 0; i < count; i++) put(posted * 32 + i);
            uint64_t word = make_word(generation_of(base + posted), count, posted * 32);
#ifdef BROKEN
            __atomic_store_n(&fifo[(base + posted) % RING_ENTRIES], word, __ATOMIC_RELAXED);
#else
            store_system(&fifo[(base + posted) % RING_ENTRIES], word);
#endif
            posted++;
        }
        store_system(&control[CONTROL_BEAT], ++beats);
        if (changing24) change_routes(posted, oldest);
        for (;;) {
            uint64_t task = committed;
            if (commit == COMMIT_DEVICE && load_system(&status[STATUS_HEAD]) - base <= committed) break;
            if (commit != COMMIT_DEVICE) {
                uint64_t word = load_system(&commits[(base + committed) % RING_ENTRIES]);
                if (word_generation(word) != generation_of(base + committed)) break;
                if (commit == COMMIT_UNORDERED) task = word_first(word) - base;
            }
            if (task >= posted || seen[task]++) return fail("a task that was not to be committed", task);
            for (uint32_t i = 0; i < 1 + task % 32; i++) {
                uint64_t number = task * 32 + i;
                if (verdicts[number % SLOTS] != expected(number)) return fail("a wrong verdict", number);
                if (any && verdicts[number % SLOTS] & VERDICT_CUT && verdicts[number % SLOTS] >> 16 == VERDICT_FRAGMENTS &&
                    !is_cut_in_two(number))
                    return fail("wrong fragments", number);
            }
            committed++;
            while (oldest < posted && seen[oldest]) oldest++;
        }
        if (load_system(&status[STATUS_LEFT])) return fail("the kernel left", committed);
    }
    store_system(&control[CONTROL_STOP], base + posted);
    for (int i = 0; i <= WORKERS; i++) pthread_join(threads[i], NULL);
    return load_system(&status[STATUS_LEFT]) == LEFT_ASKED ? 0 : fail("it did not leave as asked", commit);
}

int main(void) {
    uint16_t *tbl24 = calloc(1 << 24, 2);
    if (!tbl24) return fail("no memory", 0);
    for (uint32_t i = 10 << 16; i < 11 << 16; i++) tbl24[i] = 2;
    hops[1][3] = 5;
    Function forward = {.tbl24 = tbl24, .next_hops = hops, .next_hop_count = 2, .entry_bytes = 2, .ports = 1};
    Function cut = {.function = FUNCTION_FRAGMENT, .mtu = 40, .ports = 1};
    Program program = {.members = 1, .routes = 1, .member = {forward, cut}};
    Packets packets = {.descriptors = descriptors, .slots = slots, .verdicts = verdicts, .classes = classes, .parts = parts,
                       .mask = SLOTS - 1, .stride = STRIDE, .part_bytes = PART_BYTES};
    router.program = program, router.packets = packets;
    router.fifo = fifo, router.control = control, router.status = status, router.commits = commits;
    router.tasks = tasks, router.done = done, router.state = state;
    router.deadline_ns = 60000000000ull, router.warps = WORKERS + 1;
    router.least_parts = 1, router.most_parts = 4;
    for (uint32_t commit = COMMIT_DEVICE; commit <= COMMIT_UNORDERED; commit++) {
        any = 0, router.program.members = 1;
        if (route(commit, 0)) return 1;
        /* And a chain that ends in fragmentation. */
        any = 1, router.program.members = 2;
        if (route(commit, 65534ull * RING_ENTRIES + 500)) return 1;
    }
    /* Routes that change meanwhile. */
    changing24 = calloc(1 << 24, 4), changing8 = calloc(2 * 256, 4);
    if (!changing24 || !changing8) return fail("no memory", 1);
    for (uint32_t i = 10 << 16; i < 11 << 16; i++) changing24[i] = 2;
    Function *changed = &router.program.member[0];
    changed->tbl24 = changing24, changed->tbl8 = changing8, changed->tbl8_entries = 2 * 256, changed->entry_bytes = 4;
    any = 0, router.program.members = 1;
    for (uint32_t commit = COMMIT_DEVICE; commit <= COMMIT_UNORDERED; commit++)
        if (route(commit, 0)) return 1;
    return change.made >= 2 ? 0 : fail("too few changes of routes", change.made);
}
