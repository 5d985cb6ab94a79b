/* What the kernel needs of the machine under it, twice: as CUDA C for nvcc, and as C11 for the host's compiler.
 *
 * On the host a warp is a thread, and its 32 lanes are a loop: LANES(lane) runs what follows once a lane. Values that each
 * lane has for itself are declared with PER_LANE and read with OF(name, lane). Nothing else of the kernel knows where it runs.
 *
 * Memory that the host shares with the device is only ever read and written by aligned words of 8 bytes, with the order that
 * the name says; read-modify-write stays in device memory. On PCIe nothing more is promised.
 *
 * Whoever waits glances: a relaxed load, after which nothing may be concluded. On a device an acquiring one empties the L1 of
 * its core, and with it the tables of all who work there. Who has found something acquires it once.
 *
 * Source: PTX ISA 9.0, sections 8 (memory consistency model) and 9.7.9 (ld, st); C11 7.17 by the __atomic builtins. */
#ifndef WIRESPEED_PLATFORM_H
#define WIRESPEED_PLATFORM_H

#include <stdint.h>

#define WARP_LANES 32u

typedef struct {
    uint32_t word[4];
} Quad;

typedef struct {
    uint64_t first, second;
} Pair;

#ifdef __CUDACC__

#define FUNCTION static __device__ __forceinline__
#define LANES(lane) for (uint32_t lane = threadIdx.x & 31u, once_##lane = 1; once_##lane; once_##lane = 0)
#define PER_LANE(type, name) type name = 0
#define OF(name, lane) name
#define WARP_INDEX ((blockIdx.x * blockDim.x + threadIdx.x) >> 5)

FUNCTION uint64_t glance_system(const uint64_t *at) {
    uint64_t value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}
FUNCTION uint64_t glance_device(const uint64_t *at) {
    uint64_t value;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}
/* Both of a pair, which is aligned to 16 bytes: one sector. Each of the two for itself. */
FUNCTION Pair glance_pair(const uint64_t *at) {
    Pair pair;
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(pair.first), "=l"(pair.second) : "l"(at) : "memory");
    return pair;
}
FUNCTION void store_system(uint64_t *at, uint64_t value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
FUNCTION void note_system(uint64_t *at, uint64_t value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
FUNCTION uint64_t load_device(const uint64_t *at) {
    uint64_t value;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(at) : "memory");
    return value;
}
FUNCTION void store_device(uint64_t *at, uint64_t value) {
    asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
/* Tells of nothing but itself. */
FUNCTION void note_device(uint64_t *at, uint64_t value) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(at), "l"(value) : "memory");
}
/* Hands on what was glanced at in `from`, and all that it tells of: a fence for as many as there are, and then each. */
FUNCTION void relay_fence(void) { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
FUNCTION void relay(const uint64_t *from, uint64_t seen, uint64_t *to) {
    (void)from;
    note_device(to, seen);
}
FUNCTION uint64_t add_device(uint64_t *at, uint64_t by) {
    uint64_t before;
    asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;" : "=l"(before) : "l"(at), "l"(by) : "memory");
    return before;
}
/* Adds, and tells of nothing but the number. */
FUNCTION uint64_t draw_device(uint64_t *at) {
    uint64_t before;
    asm volatile("atom.relaxed.gpu.global.add.u64 %0, [%1], %2;" : "=l"(before) : "l"(at), "l"(1ull) : "memory");
    return before;
}
/* Adds, and tells of all before it: it learns of nothing. */
FUNCTION uint64_t mark_device(uint64_t *at) {
    uint64_t before;
    asm volatile("atom.release.gpu.global.add.u64 %0, [%1], %2;" : "=l"(before) : "l"(at), "l"(1ull) : "memory");
    return before;
}
/* Writes a 0 if `seen` is there; what was there. */
FUNCTION uint64_t clear_device(uint64_t *at, uint64_t seen) {
    uint64_t before;
    asm volatile("atom.acq_rel.gpu.global.cas.b64 %0, [%1], %2, %3;" : "=l"(before) : "l"(at), "l"(seen), "l"(0ull) : "memory");
    return before;
}
FUNCTION uint64_t now_ns(void) {
    uint64_t time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}
FUNCTION uint64_t shader_core(void) {
    uint32_t core;
    asm volatile("mov.u32 %0, %smid;" : "=r"(core));
    return core;
}
FUNCTION void pause_ns(uint32_t ns) { __nanosleep(ns); }
FUNCTION void warp_sync(void) { __syncwarp(); }
/* The value that lane 0 has, in every lane; and of a value that each lane has for itself. */
FUNCTION uint64_t from_first(uint64_t value) { return __shfl_sync(0xffffffffu, value, 0); }
#define OF_FIRST(name) from_first(name)
/* Glances without a find after which who waits sleeps longer. */
#define PATIENCE 4096u
FUNCTION int is_first_lane(void) { return (threadIdx.x & 31u) == 0; }
#define BALLOT(mask, name) uint32_t mask = __ballot_sync(0xffffffffu, name)

FUNCTION Quad load_quad(const void *at) {
    uint4 loaded = *(const uint4 *)at;
    Quad quad = {{loaded.x, loaded.y, loaded.z, loaded.w}};
    return quad;
}
FUNCTION void store_quad(void *at, Quad quad) {
    *(uint4 *)at = make_uint4(quad.word[0], quad.word[1], quad.word[2], quad.word[3]);
}
/* An entry of a table that may be written meanwhile: it is loaded once, the old one or the new one. That of 4 aligned bytes none is
 * mixed PTX promises of relaxed loads, which pass the L1 by; of this one it is assumed. */
FUNCTION uint32_t load_entry(const uint32_t *at) {
    uint32_t entry;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(entry) : "l"(at));
    return entry;
}
FUNCTION uint32_t swap32(uint32_t value) { return __byte_perm(value, 0, 0x0123); }
FUNCTION uint32_t ones(uint64_t value) { return (uint32_t)__popcll(value); }
/* Of a value that is not 0, the place of its lowest bit. */
FUNCTION uint32_t lowest(uint32_t value) { return (uint32_t)__ffs((int)value) - 1; }
/* The upper word of `high`:`low` shifted left by `bits`, less than 32. */
FUNCTION uint32_t upper(uint32_t low, uint32_t high, uint32_t bits) { return __funnelshift_l(low, high, bits); }
/* The lower word of `high`:`low` shifted right by `bits`, less than 32. */
FUNCTION uint32_t lower(uint32_t low, uint32_t high, uint32_t bits) { return __funnelshift_r(low, high, bits); }

#else

#include <sched.h>
#include <string.h>
#include <time.h>

#define FUNCTION static inline
#define LANES(lane) for (uint32_t lane = 0; lane < WARP_LANES; lane++)
#define PER_LANE(type, name) type name[WARP_LANES] = {0}
#define OF(name, lane) name[lane]

FUNCTION uint64_t load_system(const uint64_t *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
FUNCTION uint64_t glance_system(const uint64_t *at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
FUNCTION uint64_t glance_device(const uint64_t *at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
FUNCTION Pair glance_pair(const uint64_t *at) {
    Pair pair = {__atomic_load_n(at, __ATOMIC_RELAXED), __atomic_load_n(at + 1, __ATOMIC_RELAXED)};
    return pair;
}
FUNCTION void note_system(uint64_t *at, uint64_t value) { __atomic_store_n(at, value, __ATOMIC_RELAXED); }
FUNCTION void store_system(uint64_t *at, uint64_t value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }
FUNCTION uint64_t load_device(const uint64_t *at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
FUNCTION void store_device(uint64_t *at, uint64_t value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }
FUNCTION void note_device(uint64_t *at, uint64_t value) { __atomic_store_n(at, value, __ATOMIC_RELAXED); }
/* The thread sanitizer knows no fences: what was glanced at is acquired by another load of it, and the store releases. */
FUNCTION void relay_fence(void) {}
FUNCTION void relay(const uint64_t *from, uint64_t seen, uint64_t *to) {
    (void)seen;
    store_device(to, load_system(from));
}
FUNCTION uint64_t add_device(uint64_t *at, uint64_t by) { return __atomic_fetch_add(at, by, __ATOMIC_ACQ_REL); }
FUNCTION uint64_t draw_device(uint64_t *at) { return __atomic_fetch_add(at, 1, __ATOMIC_RELAXED); }
FUNCTION uint64_t mark_device(uint64_t *at) { return __atomic_fetch_add(at, 1, __ATOMIC_RELEASE); }
FUNCTION uint64_t clear_device(uint64_t *at, uint64_t seen) {
    __atomic_compare_exchange_n(at, &seen, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return seen;
}
FUNCTION uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}
/* Threads of a host share its cores, which warps of a device do not: who waits makes room, and who has waited sleeps. */
FUNCTION void pause_ns(uint32_t ns) {
    struct timespec time = {0, 20000};
    if (ns < 100)
        sched_yield();
    else
        nanosleep(&time, 0);
}
FUNCTION uint64_t shader_core(void) { return 0; }
FUNCTION void warp_sync(void) {}
FUNCTION uint64_t from_first(uint64_t value) { return value; }
#define OF_FIRST(name) name[0]
#define PATIENCE 64u
FUNCTION int is_first_lane(void) { return 1; }
#define BALLOT(mask, name)                          \
    uint32_t mask = 0;                              \
    for (uint32_t bit_ = 0; bit_ < WARP_LANES; bit_++) mask |= (uint32_t)(name[bit_] != 0) << bit_

FUNCTION Quad load_quad(const void *at) {
    Quad quad;
    memcpy(&quad, at, sizeof quad);
    return quad;
}
FUNCTION void store_quad(void *at, Quad quad) { memcpy(at, &quad, sizeof quad); }
FUNCTION uint32_t load_entry(const uint32_t *at) { return __atomic_load_n(at, __ATOMIC_RELAXED); }
FUNCTION uint32_t swap32(uint32_t value) { return __builtin_bswap32(value); }
FUNCTION uint32_t ones(uint64_t value) { return (uint32_t)__builtin_popcountll(value); }
FUNCTION uint32_t lowest(uint32_t value) { return (uint32_t)__builtin_ctz(value); }
FUNCTION uint32_t upper(uint32_t low, uint32_t high, uint32_t bits) {
    return (uint32_t)(((uint64_t)high << 32 | low) << bits >> 32);
}
FUNCTION uint32_t lower(uint32_t low, uint32_t high, uint32_t bits) {
    return (uint32_t)(((uint64_t)high << 32 | low) >> bits);
}

#endif
#endif
