/* Classification of one lane's packet: the first rule that matches.
 *
 * A lowering of crates/functions (classify/mod.rs, linear.rs, tuples.rs): the same class, verdict and references.
 *
 * Source: Zhu, Deng, Chen, DAC 2011, section 4 (linear search); Srinivasan, Suri, Varghese, ACM SIGCOMM 1999 (tuple space). */
#ifndef WIRESPEED_CLASSIFY_H
#define WIRESPEED_CLASSIFY_H

#include "functions.h"

#define NONE 0xffffffffu

/* What rules look at. */
typedef struct {
    uint32_t source, destination, source_port, destination_port, flags, protocol;
} Fields;

FUNCTION int addresses_match(Quad rule, const Fields *fields) {
    return (((fields->source ^ rule.word[0]) & rule.word[1]) | ((fields->destination ^ rule.word[2]) & rule.word[3])) == 0;
}

FUNCTION int rest_matches(Quad rule, const Fields *fields) {
    return (fields->source_port >= (rule.word[0] & 0xffff)) & (fields->source_port <= rule.word[0] >> 16) &
           (fields->destination_port >= (rule.word[1] & 0xffff)) & (fields->destination_port <= rule.word[1] >> 16) &
           (((fields->flags ^ rule.word[2]) & rule.word[2] >> 16) == 0) &
           (((fields->protocol ^ rule.word[3]) & rule.word[3] >> 8 & 0xff) == 0);
}

/* One rule after the other. All lanes of a warp look at the same rule. */
FUNCTION uint32_t search_rules(const Lane *lane, const Function *program, const Fields *fields) {
    (void)lane;
    for (uint32_t i = 0; i < program->rule_count; i++) {
        const uint8_t *rule = (const uint8_t *)program->rules + (uint64_t)i * 32;
        TOUCH(lane, REGION_RULES, (uint64_t)i * 32, 16, ACCESS_LOAD);
        if (!addresses_match(load_quad(rule), fields)) continue;
        TOUCH(lane, REGION_RULES, (uint64_t)i * 32 + 16, 16, ACCESS_LOAD);
        if (rest_matches(load_quad(rule + 16), fields)) return i;
    }
    return NONE;
}

/* The finaliser of SplitMix64 over the fields that the masks leave. */
FUNCTION uint32_t tuple_hash(Quad masks, const Fields *fields) {
    uint64_t addresses = (uint64_t)(fields->source & masks.word[0]) << 32 | (fields->destination & masks.word[1]);
    uint64_t ports = (uint64_t)(fields->source_port & masks.word[2] & 0xffff) << 24 |
                     (uint64_t)(fields->destination_port & masks.word[2] >> 16) << 8 | (fields->protocol & masks.word[3]);
    uint64_t z = addresses ^ ports * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (uint32_t)(z ^ z >> 31);
}

/* Table after table, the one with the best rule first, until none left can have a better one. */
FUNCTION uint32_t search_tuples(const Lane *lane, const Function *program, const Fields *fields) {
    uint32_t found = NONE;
    (void)lane;
    for (uint32_t i = 0; i < program->rule_count; i++) {
        const uint8_t *tuple = (const uint8_t *)program->rules + (uint64_t)i * 32;
        TOUCH(lane, REGION_TUPLES, (uint64_t)i * 32, 32, ACCESS_LOAD);
        Quad masks = load_quad(tuple), place = load_quad(tuple + 16);
        if (place.word[0] > found) break;
        uint32_t bucket = place.word[1] + (tuple_hash(masks, fields) & place.word[2]);
        TOUCH(lane, REGION_CLASS_BUCKETS, (uint64_t)bucket * 4, 4, ACCESS_LOAD);
        uint32_t at = ((const uint32_t *)program->buckets)[bucket];
        while (at != NONE) {
            const uint8_t *entry = (const uint8_t *)program->entries + (uint64_t)at * 64;
            TOUCH(lane, REGION_CLASS_ENTRIES, (uint64_t)at * 64, 64, ACCESS_LOAD);
            Quad next = load_quad(entry + 32);
            if (next.word[0] >= found) break;
            if (addresses_match(load_quad(entry), fields) && rest_matches(load_quad(entry + 16), fields)) {
                found = next.word[0];
                break;
            }
            at = next.word[1];
        }
    }
    return found;
}

/* `tuples` is known when this is compiled: each search in its place. */
FUNCTION uint32_t classify(const Lane *lane, const Function *program, Descriptor packet, const uint8_t *slot, int tuples,
                           uint32_t *class_of) {
    uint32_t at = FRAME_OFFSET + packet.l3_offset;
    *class_of = NONE;
    if (packet.l3 == 6) return program->drop_unmatched ? DROP_FOR(DROP_UNCLASSIFIED) : across(program, packet);
    if (packet.l3 != 4) return DROP_FOR(DROP_NOT_IP);
    if (packet.captured < packet.l3_offset + 20u) return DROP_FOR(DROP_TRUNCATED);
    Header header = packet_header(lane, slot, at, 5);
    uint32_t header_bytes = (swap32(header.word[0]) >> 24 & 15) * 4;
    if (header_bytes < 20) return DROP_FOR(DROP_BAD_HEADER_LENGTH);
    uint32_t l4 = packet.l3_offset + header_bytes, protocol = swap32(header.word[2]) >> 16 & 0xff;
    Fields fields = {swap32(header.word[3]), swap32(header.word[4]), 0, 0, 0, protocol};
    if ((swap32(header.word[1]) & 0x1fff) == 0 && (protocol == 6 || protocol == 17)) {
        if (packet.captured < l4 + 4) return DROP_FOR(DROP_TRUNCATED);
        uint32_t ports = swap32(packet_word(lane, slot, FRAME_OFFSET + l4));
        fields.source_port = ports >> 16, fields.destination_port = ports & 0xffff;
        if (protocol == 6 && packet.captured > l4 + 13) {
            /* The word that the byte lies in. */
            TOUCH(lane, REGION_PACKET, l4 + 13, 1, ACCESS_LOAD);
            fields.flags = (swap32(*(const uint32_t *)(slot + FRAME_OFFSET + l4 + 12)) >> 16 & 0xff) << 8;
        }
    }
    *class_of = tuples ? search_tuples(lane, program, &fields) : search_rules(lane, program, &fields);
    if (*class_of == NONE && program->drop_unmatched) return DROP_FOR(DROP_UNCLASSIFIED);
    return across(program, packet);
}

#endif
