/* What a packet goes through: one function, or a chain of them.
 *
 * Twice: for one function that needs headers, routes and a list of rules, which takes few registers, so that many warps
 * fit; and for any function and any chain. The host says which kernel it starts.
 *
 * A lowering of crates/functions/src/chain.rs: a packet's verdict is that of the member that drops it, or the port of the latest
 * member that routes, or where none does of the last. */
#ifndef WIRESPEED_PROGRAM_H
#define WIRESPEED_PROGRAM_H

#include "fragment.h"
#include "inspect.h"

FUNCTION Descriptor descriptor_of(const Lane *lane, const Packets *packets, uint32_t place) {
    (void)lane;
    TOUCH(lane, REGION_MBUF, 0, 16, ACCESS_LOAD);
    Quad fields = load_quad(packets->descriptors + place);
    Descriptor packet = {fields.word[0], (uint16_t)fields.word[1], (uint16_t)(fields.word[1] >> 16),
                         (uint16_t)fields.word[2], (uint16_t)(fields.word[2] >> 16), fields.word[3]};
    return packet;
}

/* One function of headers. It reads a packet before it writes to it, so what was loaded `early` is what is there. */
FUNCTION uint32_t process_headers(Lane *lane, const Program *program, const Packets *packets, int early) {
    uint32_t place = (uint32_t)lane->packet_idx & packets->mask, verdict, class_of;
    uint8_t *slot = packets->slots + (uint64_t)place * packets->stride;
    if (early) {
        lane->has_early = 1;
        lane->early[0] = load_quad(slot + EARLY_AT);
        lane->early[1] = load_quad(slot + EARLY_AT + 16);
    }
    Descriptor packet = descriptor_of(lane, packets, place);
    const Function *function = &program->member[0];
    switch (function->function) {
        case FUNCTION_CHECK: return check(lane, function, packet, slot);
        case FUNCTION_LOOKUP: return look_up(lane, function, packet, slot);
        case FUNCTION_TTL: return lower_ttl(lane, function, packet, slot);
        case FUNCTION_CLASSIFY:
            verdict = classify(lane, function, packet, slot, 0, &class_of);
            packets->classes[place] = class_of;
            return verdict;
        default: return forward(lane, function, packet, slot);
    }
}

/* Any function, or a chain. */
FUNCTION uint32_t process_any(Lane *lane, const Program *program, const Packets *packets) {
    uint32_t place = (uint32_t)lane->packet_idx & packets->mask, verdict = 0, routed = 0, cut = 0, class_of = NONE, mark;
    uint8_t *slot = packets->slots + (uint64_t)place * packets->stride;
    Descriptor packet = descriptor_of(lane, packets, place);
    for (uint32_t i = 0; i < program->members; i++) {
        const Function *function = &program->member[i];
        uint32_t own;
        OF_MEMBER(lane, i);
        switch (function->function) {
            case FUNCTION_CHECK: own = check(lane, function, packet, slot); break;
            case FUNCTION_LOOKUP: own = look_up(lane, function, packet, slot); break;
            case FUNCTION_TTL: own = lower_ttl(lane, function, packet, slot); break;
            case FUNCTION_CLASSIFY: own = classify(lane, function, packet, slot, 0, &mark), class_of = mark; break;
            case FUNCTION_TUPLES: own = classify(lane, function, packet, slot, 1, &mark), class_of = mark; break;
            case FUNCTION_AUTOMATON: own = inspect(lane, function, packet, slot, 0, &mark), class_of = mark; break;
            case FUNCTION_WINDOWS: own = inspect(lane, function, packet, slot, 1, &mark), class_of = mark; break;
            case FUNCTION_POPTRIE: own = look_up_poptrie(lane, function, packet, slot); break;
            case FUNCTION_FRAGMENT: own = fragment(lane, function, packets, place, packet, slot); break;
            default: own = forward(lane, function, packet, slot);
        }
        if (own >> 16 == VERDICT_DROP) {
            verdict = own | i << VERDICT_MEMBER_SHIFT;
            break;
        }
        /* The last member may cut, and leaves the port to one that routes. */
        cut |= own & VERDICT_CUT;
        uint32_t routes = program->routes >> i & 1;
        if (routes || !routed) verdict = own;
        routed |= routes;
    }
    packets->classes[place] = class_of;
    return verdict | cut;
}

#endif
