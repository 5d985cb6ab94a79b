/* A small IPv4 router: what a program looks like that marks its packets for wirespeed.
 *
 *     router [PACKETS]
 *
 * makes packets to random destinations, looks each up in a table of 24 and 8 bits, lowers its time to live, and counts it.
 * What no route covers goes to hop 0.
 * `make` builds it plain, with its references written to a file, and with marks for valgrind or DynamoRIO.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "wirespeed_probe.h"

enum { BUFFERS = 512, BUFFER_BYTES = 2048, FRAME = 60, ROUTES = 2000, TBL8_GROUPS = 256, LONGER = 1 << 15 };

static uint16_t tbl24[1 << 24];
static uint16_t tbl8[TBL8_GROUPS][256];
static uint8_t pool[BUFFERS][BUFFER_BYTES];
static struct counter {
    uint64_t packets, bytes;
} counters[64];

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint32_t drawn(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static void routes(void)
{
    for (int i = 0; i < ROUTES; i++) {
        uint32_t first = drawn() >> 8, length = 16 + drawn() % 9;
        first &= ~((1u << (24 - length)) - 1);
        for (uint32_t at = first; at < first + (1u << (24 - length)); at++)
            tbl24[at] = (uint16_t)(i % 64);
    }
    for (int group = 0; group < TBL8_GROUPS; group++) {
        for (int i = 0; i < 512; i++)
            tbl24[drawn() >> 8] = (uint16_t)(LONGER | group);
        for (int i = 0; i < 256; i++)
            tbl8[group][i] = (uint16_t)(i / 4);
    }
}

/* As a NIC does: before the packet is the router's. */
static void receive(uint8_t *frame)
{
    uint32_t destination = drawn();
    frame[12] = 8;
    frame[13] = 0;
    frame[14] = 0x45;
    frame[22] = drawn() % 100 ? 64 : 1;
    for (int i = 0; i < 4; i++)
        frame[30 + i] = (uint8_t)(destination >> (24 - 8 * i));
}

/* Whether it may leave. Instructions are counted by eye; valgrind counts them exactly. */
static int route(uint8_t *frame)
{
    WIRESPEED_WORK(12);
    WIRESPEED_LOAD(&frame[12], 3);
    if (frame[12] != 8 || frame[14] != 0x45)
        return 0;
    WIRESPEED_WORK(10);
    WIRESPEED_LOAD(&frame[30], 4);
    uint32_t destination =
        (uint32_t)frame[30] << 24 | (uint32_t)frame[31] << 16 | (uint32_t)frame[32] << 8 | (uint32_t)frame[33];
    WIRESPEED_WORK(4);
    WIRESPEED_LOAD_AFTER(&tbl24[destination >> 8], 2, 1);
    uint16_t hop = tbl24[destination >> 8];
    if (hop & LONGER) {
        WIRESPEED_WORK(6);
        WIRESPEED_LOAD_AFTER(&tbl8[hop & 0xff][destination & 0xff], 2, 1);
        hop = tbl8[hop & 0xff][destination & 0xff];
    }
    WIRESPEED_WORK(8);
    WIRESPEED_LOAD(&frame[22], 1);
    if (frame[22] <= 1)
        return 0;
    WIRESPEED_STORE(&frame[22], 1);
    frame[22]--;
    WIRESPEED_WORK(6);
    WIRESPEED_LOAD_AFTER(&counters[hop & 63], 16, 3);
    WIRESPEED_STORE(&counters[hop & 63], 16);
    counters[hop & 63].packets++;
    counters[hop & 63].bytes += FRAME;
    return 1;
}

int main(int argc, char **argv)
{
    long packets = argc > 1 ? strtol(argv[1], NULL, 10) : 2000;
    if (packets < 1) {
        fprintf(stderr, "usage: router [PACKETS]\n");
        return 2;
    }
    routes();
    WIRESPEED_REGION_SHARED("tbl24", tbl24, sizeof tbl24);
    WIRESPEED_REGION_SHARED("tbl8", tbl8, sizeof tbl8);
    WIRESPEED_REGION_PER_CORE("counters", counters, sizeof counters);
    long forwarded = 0;
    for (long i = 0; i < packets; i++) {
        uint8_t *frame = pool[i % BUFFERS];
        receive(frame);
        WIRESPEED_BEGIN(frame, FRAME);
        if (route(frame)) {
            WIRESPEED_END();
            forwarded++;
        } else {
            WIRESPEED_DROP();
        }
    }
    printf("%ld of %ld packets forwarded\n", forwarded, packets);
    return 0;
}
