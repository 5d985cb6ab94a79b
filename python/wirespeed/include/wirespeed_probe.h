/* wirespeed_probe.h: what a program does to memory, packet by packet, for wirespeed to simulate.
 *
 * A program marks where it begins and ends a packet, and a recording of its memory references comes out, which
 * `function.kind = "trace"` of a scenario makes again on a simulated machine. C99 and C++11; Linux, GCC or Clang.
 *
 *     #include "wirespeed_probe.h"                  in every file that marks something
 *     #define WIRESPEED_PROBE_IMPLEMENTATION        before that, in one file, which is compiled without sanitizers
 *
 * Without any of the macros below nothing is compiled: each line becomes ((void)0), and its arguments are not evaluated.
 *
 *   -DWIRESPEED_PROBE        references are written to a file: those that the program names (WIRESPEED_LOAD, ...), or, of
 *                            files compiled with -fsanitize=thread and linked without it, those that the compiler makes
 *   -DWIRESPEED_PROBE_MARKS  packets are marked in the address stream, for `valgrind --tool=lackey --trace-mem=yes` and
 *                            DynamoRIO's drmemtrace, which see all references and instructions themselves
 *
 * Environment: WIRESPEED_PROBE_FILE names the file (wirespeed.probe), WIRESPEED_PROBE_PACKETS says after how many packets
 * to stop (10000; 0 for never), WIRESPEED_PROBE_SKIP how many to leave out before (0).
 *
 * Threads may record at once: a packet is written when it ends, as a whole. For marks use one thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef WIRESPEED_PROBE_H
#define WIRESPEED_PROBE_H

#if defined(WIRESPEED_PROBE) && defined(WIRESPEED_PROBE_MARKS)
#error "WIRESPEED_PROBE writes references itself, WIRESPEED_PROBE_MARKS is for tools that do: define one of them"
#endif

#if defined(WIRESPEED_PROBE) || defined(WIRESPEED_PROBE_MARKS)
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
void wirespeed_probe_region(const char *name, const volatile void *base, size_t bytes, int shared);
void wirespeed_probe_begin(const volatile void *data, size_t bytes, const volatile void *mbuf);
void wirespeed_probe_end(int dropped);
void wirespeed_probe_reference(char kind, const volatile void *at, size_t bytes, unsigned back);
void wirespeed_probe_copy(const volatile void *to, const volatile void *from, size_t bytes);
void wirespeed_probe_work(unsigned instructions);
#ifdef __cplusplus
}
#endif

/* Memory that the program uses for more than one packet. What all cores share is one, of the rest each core has its own. */
#define WIRESPEED_REGION_SHARED(name, base, bytes) wirespeed_probe_region((name), (base), (bytes), 1)
#define WIRESPEED_REGION_PER_CORE(name, base, bytes) wirespeed_probe_region((name), (base), (bytes), 0)
/* A packet: the first byte of its frame, and how many. Packets do not nest. */
#define WIRESPEED_BEGIN(data, bytes) wirespeed_probe_begin((data), (bytes), NULL)
/* The same, with its struct rte_mbuf. */
#define WIRESPEED_BEGIN_MBUF(data, bytes, mbuf) wirespeed_probe_begin((data), (bytes), (mbuf))
/* The packet is done, and leaves; or is discarded. */
#define WIRESPEED_END() wirespeed_probe_end(0)
#define WIRESPEED_DROP() wirespeed_probe_end(1)
#else
#define WIRESPEED_REGION_SHARED(name, base, bytes) ((void)0)
#define WIRESPEED_REGION_PER_CORE(name, base, bytes) ((void)0)
#define WIRESPEED_BEGIN(data, bytes) ((void)0)
#define WIRESPEED_BEGIN_MBUF(data, bytes, mbuf) ((void)0)
#define WIRESPEED_END() ((void)0)
#define WIRESPEED_DROP() ((void)0)
#endif

#ifdef __SANITIZE_THREAD__
#define WIRESPEED_PROBE_COMPILER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WIRESPEED_PROBE_COMPILER
#endif
#endif

#if defined(WIRESPEED_PROBE) && !defined(WIRESPEED_PROBE_COMPILER)
/* References. In files compiled with -fsanitize=thread the compiler tells of them, and these say nothing. */
#define WIRESPEED_LOAD(at, bytes) wirespeed_probe_reference('L', (at), (bytes), 0)
#define WIRESPEED_STORE(at, bytes) wirespeed_probe_reference('S', (at), (bytes), 0)
#define WIRESPEED_ATOMIC(at, bytes) wirespeed_probe_reference('A', (at), (bytes), 0)
/* A load whose address came from the reference `back` references ago: 1 for the one before. */
#define WIRESPEED_LOAD_AFTER(at, bytes, back) wirespeed_probe_reference('L', (at), (bytes), (back))
#else
#define WIRESPEED_LOAD(at, bytes) ((void)0)
#define WIRESPEED_STORE(at, bytes) ((void)0)
#define WIRESPEED_ATOMIC(at, bytes) ((void)0)
#define WIRESPEED_LOAD_AFTER(at, bytes, back) ((void)0)
#endif

#ifdef WIRESPEED_PROBE
/* What no compiler tells of. */
#define WIRESPEED_PREFETCH(at) wirespeed_probe_reference('P', (at), 1, 0)
/* memcpy(to, from, bytes), which a copy engine may take over. */
#define WIRESPEED_COPY(to, from, bytes) wirespeed_probe_copy((to), (from), (bytes))
/* Instructions since the reference before. */
#define WIRESPEED_WORK(instructions) wirespeed_probe_work((instructions))
#else
#define WIRESPEED_PREFETCH(at) ((void)0)
#define WIRESPEED_COPY(to, from, bytes) ((void)0)
#define WIRESPEED_WORK(instructions) ((void)0)
#endif

#endif /* WIRESPEED_PROBE_H */

/* ------------------------------------------------------------------------------------------------------------------ */

#if defined(WIRESPEED_PROBE_IMPLEMENTATION) && defined(WIRESPEED_PROBE_MARKS) && !defined(WIRESPEED_PROBE_IMPLEMENTED)
#define WIRESPEED_PROBE_IMPLEMENTED
#include <stdio.h>
#include <sys/mman.h>
#ifndef MAP_ANONYMOUS /* hidden by -std=c99 */
#define MAP_ANONYMOUS 0x20
#endif

/* Pages that no program has otherwise. Where they are touched says what is meant: docs/reference/recordings.md. */
#define WIRESPEED_MARKS_BASE ((uintptr_t)0x5749520000)
#define WIRESPEED_MARKS_PAGE ((uintptr_t)4096)
#define WIRESPEED_MARKS_PAGES 14

#ifdef __cplusplus
extern "C" {
#endif

static int wirespeed_marks_state; /* 0 before the first mark, 1 with pages, -1 without. */

static int wirespeed_marks_ready(void)
{
    if (wirespeed_marks_state == 0) {
        void *wanted = (void *)WIRESPEED_MARKS_BASE;
        void *got = mmap(wanted, WIRESPEED_MARKS_PAGES * WIRESPEED_MARKS_PAGE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        wirespeed_marks_state = got == wanted ? 1 : -1;
        if (got != wanted)
            fprintf(stderr, "wirespeed_probe: the pages at %p are not free: nothing is marked\n", wanted);
    }
    return wirespeed_marks_state > 0;
}

static void wirespeed_marks_digits(unsigned page, uint64_t value, unsigned count)
{
    /* Stores, since valgrind leaves out loads whose value nobody uses. */
    for (unsigned i = 0; i < count; i++)
        *(volatile unsigned char *)(WIRESPEED_MARKS_BASE + (page + i) * WIRESPEED_MARKS_PAGE +
                                    (uintptr_t)((value >> (12 * i)) & 0xfff)) = 0;
}

static inline void wirespeed_marks_say(unsigned what)
{
    __asm__ volatile("" ::: "memory");
    *(volatile unsigned char *)(WIRESPEED_MARKS_BASE + what) = 0;
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void wirespeed_probe_region(const char *name, const volatile void *base, size_t bytes,
                                                      int shared)
{
    if (!wirespeed_marks_ready())
        return;
    wirespeed_marks_digits(1, (uint64_t)(uintptr_t)base, 5);
    wirespeed_marks_digits(6, bytes, 5);
    for (; *name; name++)
        wirespeed_marks_digits(13, (unsigned char)*name, 1);
    wirespeed_marks_say(shared ? 24 : 32);
}

__attribute__((noinline)) void wirespeed_probe_begin(const volatile void *data, size_t bytes, const volatile void *mbuf)
{
    if (!wirespeed_marks_ready())
        return;
    wirespeed_marks_digits(1, (uint64_t)(uintptr_t)data, 5);
    wirespeed_marks_digits(6, (uint64_t)(uintptr_t)mbuf, 5);
    wirespeed_marks_digits(11, bytes, 2);
    wirespeed_marks_say(0);
}

__attribute__((noinline)) void wirespeed_probe_end(int dropped)
{
    if (wirespeed_marks_state > 0)
        wirespeed_marks_say(dropped ? 16 : 8);
}

#ifdef __cplusplus
}
#endif
#endif

#if defined(WIRESPEED_PROBE_IMPLEMENTATION) && defined(WIRESPEED_PROBE) && !defined(WIRESPEED_PROBE_IMPLEMENTED)
#define WIRESPEED_PROBE_IMPLEMENTED
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WIRESPEED_SITE() ((uint64_t)(uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)))
/* The longest line: a kind, two addresses, bytes, a site, a distance. */
#define WIRESPEED_LINE 96
#define WIRESPEED_MOST_BYTES 65535u

/* Of all threads. What is done to it is ordered by its file's lock. */
static struct {
    FILE *file;
    int failed;
    unsigned long long packets, most, skip, lost;
} wirespeed_out;

/* Of a thread: the packet at hand. */
static __thread struct {
    char *text;
    size_t used, room;
    int open, lost;
    uint64_t references;
} wirespeed_at;

static unsigned long long wirespeed_setting(const char *name, unsigned long long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void wirespeed_close(void)
{
    FILE *file = wirespeed_out.file;
    wirespeed_out.file = NULL;
    wirespeed_out.failed = 1;
    if (!file)
        return;
    if (wirespeed_out.lost)
        fprintf(file, "# %llu packets were lost for want of memory\n", wirespeed_out.lost);
    if (ferror(file) | fclose(file))
        fprintf(stderr, "wirespeed_probe: the recording could not be written to its end\n");
}

static int wirespeed_ready(void)
{
    if (wirespeed_out.file)
        return 1;
    if (wirespeed_out.failed)
        return 0;
    const char *name = getenv("WIRESPEED_PROBE_FILE");
    if (!name || !*name)
        name = "wirespeed.probe";
    wirespeed_out.most = wirespeed_setting("WIRESPEED_PROBE_PACKETS", 10000);
    wirespeed_out.skip = wirespeed_setting("WIRESPEED_PROBE_SKIP", 0);
    wirespeed_out.file = fopen(name, "w");
    if (!wirespeed_out.file) {
        wirespeed_out.failed = 1;
        fprintf(stderr, "wirespeed_probe: %s cannot be written: nothing is recorded (set WIRESPEED_PROBE_FILE)\n", name);
        return 0;
    }
    fputs("wirespeed-probe 1\n", wirespeed_out.file);
    atexit(wirespeed_close);
    return 1;
}

/* Before main, so that threads find the file open. */
__attribute__((constructor)) static void wirespeed_start(void)
{
    wirespeed_ready();
}

static char *wirespeed_hex(char *to, uint64_t value)
{
    int digits = 1;
    while (digits < 16 && value >> (4 * digits))
        digits++;
    for (int i = digits - 1; i >= 0; i--)
        *to++ = "0123456789abcdef"[(value >> (4 * i)) & 15];
    return to;
}

static char *wirespeed_decimal(char *to, uint64_t value)
{
    char digits[20];
    int count = 0;
    do
        digits[count++] = (char)('0' + value % 10);
    while (value /= 10);
    while (count)
        *to++ = digits[--count];
    return to;
}

/* Room for a line, or NULL; the packet is then lost. */
static char *wirespeed_line(void)
{
    if (wirespeed_at.room - wirespeed_at.used < WIRESPEED_LINE) {
        size_t room = wirespeed_at.room ? 2 * wirespeed_at.room : 1 << 14;
        char *text = (char *)realloc(wirespeed_at.text, room);
        if (!text) {
            wirespeed_at.lost = 1;
            return NULL;
        }
        wirespeed_at.text = text;
        wirespeed_at.room = room;
    }
    return wirespeed_at.text + wirespeed_at.used;
}

static void wirespeed_kept(char *end)
{
    *end++ = '\n';
    wirespeed_at.used = (size_t)(end - wirespeed_at.text);
}

static void wirespeed_add(char kind, uint64_t at, size_t bytes, uint64_t site, unsigned back)
{
    for (size_t done = 0; done < bytes; done += WIRESPEED_MOST_BYTES) {
        size_t part = bytes - done < WIRESPEED_MOST_BYTES ? bytes - done : WIRESPEED_MOST_BYTES;
        char *to = wirespeed_line();
        if (!to)
            return;
        *to++ = kind;
        *to++ = ' ';
        to = wirespeed_hex(to, at + done);
        *to++ = ' ';
        to = wirespeed_decimal(to, part);
        *to++ = ' ';
        to = wirespeed_hex(to, site);
        if (back && back <= 255 && back <= wirespeed_at.references) {
            *to++ = ' ';
            to = wirespeed_decimal(to, back);
        }
        wirespeed_kept(to);
        wirespeed_at.references++;
    }
}

void wirespeed_probe_region(const char *name, const volatile void *base, size_t bytes, int shared)
{
    if (wirespeed_ready())
        fprintf(wirespeed_out.file, "R %s %llx %llu %s\n", shared ? "shared" : "core",
                (unsigned long long)(uintptr_t)base, (unsigned long long)bytes, name);
}

void wirespeed_probe_begin(const volatile void *data, size_t bytes, const volatile void *mbuf)
{
    if (!wirespeed_out.file)
        return;
    wirespeed_at.used = 0;
    wirespeed_at.references = 0;
    wirespeed_at.lost = 0;
    wirespeed_at.open = 1;
    char *to = wirespeed_line();
    if (!to)
        return;
    *to++ = 'B';
    *to++ = ' ';
    to = wirespeed_decimal(to, bytes);
    *to++ = ' ';
    to = wirespeed_hex(to, (uint64_t)(uintptr_t)data);
    if (mbuf) {
        *to++ = ' ';
        to = wirespeed_hex(to, (uint64_t)(uintptr_t)mbuf);
    }
    wirespeed_kept(to);
}

void wirespeed_probe_end(int dropped)
{
    if (!wirespeed_at.open)
        return;
    wirespeed_at.open = 0;
    char *to = wirespeed_at.lost ? NULL : wirespeed_line();
    if (to) {
        const char *how = dropped ? "E drop" : "E forward";
        size_t length = strlen(how);
        memcpy(to, how, length);
        wirespeed_kept(to + length);
    }
    FILE *file = wirespeed_out.file;
    if (!file)
        return;
    flockfile(file);
    if (file == wirespeed_out.file) {
        if (!to)
            wirespeed_out.lost++;
        else if (wirespeed_out.skip)
            wirespeed_out.skip--;
        else if (!wirespeed_out.most || wirespeed_out.packets < wirespeed_out.most) {
            fwrite(wirespeed_at.text, 1, wirespeed_at.used, file);
            wirespeed_out.packets++;
            /* So that nothing is missing from a program that is killed once it has recorded what was wanted. */
            if (wirespeed_out.packets == wirespeed_out.most)
                fflush(file);
        }
    }
    funlockfile(file);
}

__attribute__((noinline)) void wirespeed_probe_reference(char kind, const volatile void *at, size_t bytes, unsigned back)
{
    if (wirespeed_at.open)
        wirespeed_add(kind, (uint64_t)(uintptr_t)at, bytes, WIRESPEED_SITE(), back);
}

__attribute__((noinline)) void wirespeed_probe_copy(const volatile void *to, const volatile void *from, size_t bytes)
{
    uint64_t site = WIRESPEED_SITE();
    for (size_t done = 0; wirespeed_at.open && done < bytes; done += WIRESPEED_MOST_BYTES) {
        size_t part = bytes - done < WIRESPEED_MOST_BYTES ? bytes - done : WIRESPEED_MOST_BYTES;
        char *end = wirespeed_line();
        if (!end)
            return;
        *end++ = 'C';
        *end++ = ' ';
        end = wirespeed_hex(end, (uint64_t)(uintptr_t)from + done);
        *end++ = ' ';
        end = wirespeed_hex(end, (uint64_t)(uintptr_t)to + done);
        *end++ = ' ';
        end = wirespeed_decimal(end, part);
        *end++ = ' ';
        wirespeed_kept(wirespeed_hex(end, site));
        wirespeed_at.references++;
    }
}

void wirespeed_probe_work(unsigned instructions)
{
    char *to = wirespeed_at.open ? wirespeed_line() : NULL;
    if (!to)
        return;
    *to++ = 'W';
    *to++ = ' ';
    wirespeed_kept(wirespeed_decimal(to, instructions));
}

/* What a compiler calls with -fsanitize=thread, in place of that sanitizer's library. Calls of memcpy and memset are not
 * told of: WIRESPEED_COPY, WIRESPEED_STORE. */
#define WIRESPEED_TSAN(name, kind, bytes)                                                                              \
    void __tsan_##name(void *at);                                                                                      \
    __attribute__((noinline)) void __tsan_##name(void *at)                                                             \
    {                                                                                                                  \
        if (wirespeed_at.open)                                                                                         \
            wirespeed_add(kind, (uint64_t)(uintptr_t)at, bytes, WIRESPEED_SITE(), 0);                                  \
    }
#define WIRESPEED_TSAN_ALL(bytes)                                                                                      \
    WIRESPEED_TSAN(read##bytes, 'L', bytes)                                                                            \
    WIRESPEED_TSAN(write##bytes, 'S', bytes)                                                                           \
    WIRESPEED_TSAN(unaligned_read##bytes, 'L', bytes)                                                                  \
    WIRESPEED_TSAN(unaligned_write##bytes, 'S', bytes)                                                                 \
    WIRESPEED_TSAN(volatile_read##bytes, 'L', bytes)                                                                   \
    WIRESPEED_TSAN(volatile_write##bytes, 'S', bytes)
WIRESPEED_TSAN_ALL(1)
WIRESPEED_TSAN_ALL(2)
WIRESPEED_TSAN_ALL(4)
WIRESPEED_TSAN_ALL(8)
WIRESPEED_TSAN_ALL(16)
WIRESPEED_TSAN(vptr_read, 'L', 8)

void __tsan_init(void);
void __tsan_init(void)
{
}
void __tsan_func_entry(void *from);
void __tsan_func_entry(void *from)
{
    (void)from;
}
void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}
void __tsan_vptr_update(void *at, void *value);
void __tsan_vptr_update(void *at, void *value)
{
    (void)value;
    wirespeed_probe_reference('S', at, 8, 0);
}
void __tsan_read_range(void *at, unsigned long bytes);
__attribute__((noinline)) void __tsan_read_range(void *at, unsigned long bytes)
{
    wirespeed_probe_reference('L', at, bytes, 0);
}
void __tsan_write_range(void *at, unsigned long bytes);
__attribute__((noinline)) void __tsan_write_range(void *at, unsigned long bytes)
{
    wirespeed_probe_reference('S', at, bytes, 0);
}

/* Atomic operations are calls, too: made with the strongest order, and recorded. */
#define WIRESPEED_TSAN_FETCH(bits, operation)                                                                          \
    uint##bits##_t __tsan_atomic##bits##_fetch_##operation(volatile uint##bits##_t *at, uint##bits##_t value, int order); \
    uint##bits##_t __tsan_atomic##bits##_fetch_##operation(volatile uint##bits##_t *at, uint##bits##_t value, int order)  \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        wirespeed_probe_reference('A', at, bits / 8, 0);                                                               \
        return __atomic_fetch_##operation(at, value, __ATOMIC_SEQ_CST);                                                \
    }
#define WIRESPEED_TSAN_ATOMIC(bits)                                                                                    \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order);                           \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *at, int order)                            \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        wirespeed_probe_reference('L', at, bits / 8, 0);                                                               \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                                  \
    }                                                                                                                  \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value, int order);                    \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *at, uint##bits##_t value, int order)                     \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        wirespeed_probe_reference('S', at, bits / 8, 0);                                                               \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                                 \
    }                                                                                                                  \
    uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t *at, uint##bits##_t value, int order);       \
    uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t *at, uint##bits##_t value, int order)        \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        wirespeed_probe_reference('A', at, bits / 8, 0);                                                               \
        return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                                       \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t *at, uint##bits##_t *expected,           \
                                                      uint##bits##_t value, int order, int otherwise);                 \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t *at, uint##bits##_t *expected,           \
                                                      uint##bits##_t value, int order, int otherwise)                  \
    {                                                                                                                  \
        (void)order;                                                                                                   \
        (void)otherwise;                                                                                               \
        wirespeed_probe_reference('A', at, bits / 8, 0);                                                               \
        return __atomic_compare_exchange_n(at, expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                \
    }                                                                                                                  \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile uint##bits##_t *at, uint##bits##_t *expected,             \
                                                    uint##bits##_t value, int order, int otherwise);                   \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile uint##bits##_t *at, uint##bits##_t *expected,             \
                                                    uint##bits##_t value, int order, int otherwise)                    \
    {                                                                                                                  \
        return __tsan_atomic##bits##_compare_exchange_strong(at, expected, value, order, otherwise);                   \
    }                                                                                                                  \
    WIRESPEED_TSAN_FETCH(bits, add)                                                                                    \
    WIRESPEED_TSAN_FETCH(bits, sub)                                                                                    \
    WIRESPEED_TSAN_FETCH(bits, and)                                                                                    \
    WIRESPEED_TSAN_FETCH(bits, or)                                                                                     \
    WIRESPEED_TSAN_FETCH(bits, xor)
WIRESPEED_TSAN_ATOMIC(8)
WIRESPEED_TSAN_ATOMIC(16)
WIRESPEED_TSAN_ATOMIC(32)
WIRESPEED_TSAN_ATOMIC(64)
void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
    (void)order;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
    (void)order;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#ifdef __cplusplus
}
#endif
#endif
