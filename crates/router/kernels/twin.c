/* The kernels as functions of the host: what each warp of the persistent kernel does, on a thread of the caller. */
#include "router.cu"

#include <stddef.h>

/* Runs warp `warp` until the router is stopped, by the form of the program that does any, or by the one for headers. */
void wirespeed_router_warp(const Router *router, uint32_t warp, uint32_t any, Trace *trace) {
    leave(router, warp == 0 ? dispatch(router) : any ? work(router, 1, trace) : work(router, 0, trace));
}

/* Packets `first` and on, one after the other. */
void wirespeed_router_batch(const Program *program, const Packets *packets, uint64_t first, uint32_t count, uint32_t any,
                            Trace *trace) {
    for (uint32_t i = 0; i < count; i++) {
        Lane self = LANE_OF(first + i);
        packets->verdicts[(uint32_t)self.packet_idx & packets->mask] =
            any ? process_any(&self, program, packets) : process_headers(&self, program, packets, 0);
    }
}

/* What was gathered, one after the other. */
void wirespeed_router_gathered(const Program *program, const Gathered *packets) {
    for (uint32_t i = 0; i < packets->count_v4 + packets->count_v6; i++) {
        Trace *trace = 0;
        Lane self = LANE_OF(i);
        process_gathered(&self, &program->member[0], packets, i);
    }
}

/* What ways over the bus take; here, to the caller's memory. */
void wirespeed_router_link(const Link *link) { measure_link(link); }

/* Sizes and places of what crosses the border, for the test that compares them with the other side's. */
uint32_t wirespeed_router_layout(uint32_t which) {
    switch (which) {
        case 0: return sizeof(Descriptor);
        case 1: return sizeof(Packets);
        case 2: return sizeof(Function);
        case 3: return sizeof(Router);
        case 4: return offsetof(Router, fifo);
        case 5: return offsetof(Router, base);
        case 6: return offsetof(Router, commit);
        case 7: return offsetof(Function, entry_bytes);
        case 8: return sizeof(Touch);
        case 9: return RING_ENTRIES;
        case 10: return STATE_WORDS;
        case 11: return CONTROL_WORDS;
        case 12: return STATUS_WORDS;
        case 13: return sizeof(Program);
        case 14: return offsetof(Program, member);
        case 15: return offsetof(Function, lists);
        case 16: return REGIONS_A_MEMBER;
        case 17: return offsetof(Packets, parts);
        case 18: return offsetof(Packets, part_bytes);
        case 19: return offsetof(Function, leaves);
        case 20: return offsetof(Function, mtu);
        case 21: return FRAME_OFFSET;
        case 22: return ENTRY_WORDS;
        case 23: return sizeof(Gathered);
        case 24: return offsetof(Gathered, count_v6);
        case 25: return offsetof(Router, least_parts);
        case 26: return sizeof(Link);
        case 27: return offsetof(Link, rounds);
        case 28: return LINK_WORDS;
        default:
            /* Words of a record of each function of headers, IPv4 and IPv6, and of its result. */
            if (which >= 100 && which < 112) {
                uint32_t function = (which - 100) / 3, part = (which - 100) % 3;
                return part < 2 ? record_words(function, part) : result_words(function);
            }
            return 0;
    }
}
