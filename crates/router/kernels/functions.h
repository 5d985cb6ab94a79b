/* Packet functions of one lane that need no more than headers and routes; classify.h and inspect.h have the others, and
 * program.h what a packet goes through.
 *
 * A lowering of crates/functions (check.rs, lookup/, ttl.rs, forward.rs): the same verdicts, the same bytes, and the
 * same references to the packet and to the tables, but for two that a register saves: the descriptor is one load where
 * Rust reads six fields of an mbuf, and the time to live is kept from the header check.
 *
 * A header is brought in by aligned loads of 16 bytes, two for IPv4 and three or four for IPv6: byte by byte it would be as
 * many loads as fields. Nothing here reads or writes a single byte of memory.
 *
 * Source: RFC 1812 5.2.2, 5.3.1, 5.3.7; RFC 8200 3; RFC 1624 equation 3; Gupta, Lin, McKeown, IEEE INFOCOM 1998;
 * Asai, Ohara, ACM SIGCOMM 2015. */
#ifndef WIRESPEED_FUNCTIONS_H
#define WIRESPEED_FUNCTIONS_H

#include "router.h"

#define FORWARD_BY(port) ((uint32_t)VERDICT_FORWARD << 16 | (port))
#define DROP_FOR(reason) ((uint32_t)VERDICT_DROP << 16 | (uint32_t)(reason))

/* Words of a header in the byte order of memory, and where they are. */
typedef struct {
    uint32_t word[10];
} Header;

/* The quad at `at` of the slot, of which the bytes `from` to `to` of the slot are wanted. */
FUNCTION Quad packet_quad(const Lane *lane, const uint8_t *slot, uint32_t at, uint32_t from, uint32_t to) {
    (void)from, (void)to;
    TOUCH(lane, REGION_PACKET, (at > from ? at : from) - FRAME_OFFSET,
          (uint16_t)((at + 16 < to ? at + 16 : to) - (at > from ? at : from)), ACCESS_LOAD);
    if (lane->has_early && at == EARLY_AT) return lane->early[0];
    if (lane->has_early && at == EARLY_AT + 16) return lane->early[1];
    return load_quad(slot + at);
}

/* Word `place` of a quad, never indexed by a variable: that would go to local memory. */
FUNCTION uint32_t word_of(const Quad *quad, uint32_t place) {
    uint32_t low = place & 1 ? quad->word[1] : quad->word[0], high = place & 1 ? quad->word[3] : quad->word[2];
    return place & 2 ? high : low;
}

FUNCTION uint32_t packet_word(const Lane *lane, const uint8_t *slot, uint32_t at) {
    TOUCH(lane, REGION_PACKET, at - FRAME_OFFSET, 4, ACCESS_LOAD);
    if (lane->has_early && (at & ~15u) == EARLY_AT) return word_of(&lane->early[0], at / 4 & 3);
    if (lane->has_early && (at & ~15u) == EARLY_AT + 16) return word_of(&lane->early[1], at / 4 & 3);
    return *(const uint32_t *)(slot + at);
}

FUNCTION void set_packet_word(const Lane *lane, uint8_t *slot, uint32_t at, uint32_t value) {
    (void)lane;
    TOUCH(lane, REGION_PACKET, at - FRAME_OFFSET, 4, ACCESS_STORE);
    *(uint32_t *)(slot + at) = value;
}

/* Writes the word of an IPv6 header whose last byte is the hop limit; the other three stay as they are. */
FUNCTION void set_hop_limit(const Lane *lane, uint8_t *slot, uint32_t header, uint32_t word) {
    (void)lane;
    TOUCH(lane, REGION_PACKET, header + 7 - FRAME_OFFSET, 1, ACCESS_STORE);
    *(uint32_t *)(slot + header + 4) = swap32(word);
}

/* The first `words` words at `at`, which is a multiple of 4: 5 words take two quads, 10 take three or, where they begin with
 * the last word of a quad, four. Words are shifted into place, never indexed by a variable: that would go to local memory. */
FUNCTION Header packet_header(const Lane *lane, const uint8_t *slot, uint32_t at, uint32_t words) {
    uint32_t aligned = at & ~15u, skip = (at & 15u) / 4, end = at + 4 * words;
    uint32_t word[16] = {0};
    Header header;
    Quad a = packet_quad(lane, slot, aligned, at, end), b = packet_quad(lane, slot, aligned + 16, at, end);
    for (uint32_t i = 0; i < 4; i++) word[i] = a.word[i], word[4 + i] = b.word[i];
    if (words > 5) {
        Quad c = packet_quad(lane, slot, aligned + 32, at, end);
        for (uint32_t i = 0; i < 4; i++) word[8 + i] = c.word[i];
        if (skip == 3) {
            Quad d = packet_quad(lane, slot, aligned + 48, at, end);
            for (uint32_t i = 0; i < 4; i++) word[12 + i] = d.word[i];
        }
    }
    for (uint32_t i = 0; i < 14; i++) word[i] = skip & 2 ? word[i + 2] : word[i];
    for (uint32_t i = 0; i < 13; i++) word[i] = skip & 1 ? word[i + 1] : word[i];
    for (uint32_t i = 0; i < 10; i++) header.word[i] = word[i];
    return header;
}

FUNCTION int is_unicast_v4(uint32_t address) {
    return !((address - (1u << 24) >= 223u << 24) | (address >> 24 == 127) | (address >> 16 == 0xa9fe));
}

FUNCTION uint32_t special_v4(uint32_t source, uint32_t destination) {
    if (!is_unicast_v4(source) && source >> 16 != 0xa9fe) return DROP_FOR(DROP_SOURCE_MARTIAN);
    if (destination == 0xffffffffu) return DROP_FOR(DROP_DESTINATION_BROADCAST);
    if (destination >> 28 == 14) return DROP_FOR(DROP_DESTINATION_MULTICAST);
    if (!is_unicast_v4(destination) && destination >> 16 != 0xa9fe) return DROP_FOR(DROP_DESTINATION_MARTIAN);
    return DROP_FOR(DROP_LINK_LOCAL);
}

/* 0 if the packet may go on, or else a verdict. */
FUNCTION uint32_t check_v4(const Lane *lane, const Function *program, Descriptor packet, const uint8_t *slot,
                           const Header *header) {
    uint32_t first = swap32(header->word[0]);
    uint32_t total = first & 0xffff, header_bytes = (first >> 24 & 15) * 4;
    uint32_t carried = packet.frame_bytes > packet.l3_offset ? packet.frame_bytes - packet.l3_offset : 0;
    if (first >> 28 != 4) return DROP_FOR(DROP_BAD_VERSION);
    if (header_bytes < 20) return DROP_FOR(DROP_BAD_HEADER_LENGTH);
    if (total < header_bytes || total > carried) return DROP_FOR(DROP_BAD_TOTAL_LENGTH);
    if (program->software_checksum) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < 5; i++) sum += header->word[i];
        if (packet.captured < packet.l3_offset + header_bytes) return DROP_FOR(DROP_TRUNCATED);
        for (uint32_t at = 20; at < header_bytes; at += 4)
            sum += packet_word(lane, slot, FRAME_OFFSET + packet.l3_offset + at);
        sum = (sum & 0xffffffffu) + (sum >> 32);
        sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
        if ((sum & 0xffff) + (sum >> 16) != 0xffff) return DROP_FOR(DROP_BAD_CHECKSUM);
    }
    uint32_t source = swap32(header->word[3]), destination = swap32(header->word[4]);
    if (!(is_unicast_v4(source) & is_unicast_v4(destination))) return special_v4(source, destination);
    return 0;
}

/* Whether an address of four words, in the host's byte order, is :: or ::1. */
FUNCTION int is_unspecified_or_loopback(uint32_t a, uint32_t b, uint32_t c, uint32_t d) { return (a | b | c) == 0 && d <= 1; }

FUNCTION uint32_t check_v6(Descriptor packet, const Header *header) {
    uint32_t w[10];
    for (uint32_t i = 0; i < 10; i++) w[i] = swap32(header->word[i]);
    uint32_t payload = w[1] >> 16;
    uint32_t carried = packet.frame_bytes > packet.l3_offset ? packet.frame_bytes - packet.l3_offset : 0;
    if (w[0] >> 28 != 6) return DROP_FOR(DROP_BAD_VERSION);
    if (payload + 40 > carried) return DROP_FOR(DROP_BAD_TOTAL_LENGTH);
    if (is_unspecified_or_loopback(w[2], w[3], w[4], w[5]) || w[2] >> 24 == 0xff) return DROP_FOR(DROP_SOURCE_MARTIAN);
    if (is_unspecified_or_loopback(w[6], w[7], w[8], w[9])) return DROP_FOR(DROP_DESTINATION_MARTIAN);
    if (w[6] >> 24 == 0xff) return DROP_FOR(DROP_DESTINATION_MULTICAST);
    if (w[2] >> 22 == 0x3fa || w[6] >> 22 == 0x3fa) return DROP_FOR(DROP_LINK_LOCAL);
    return 0;
}

/* The entry at `at` of an IPv4 table, widened so that the top bit says "group" in either width. */
FUNCTION uint32_t entry_v4(const Lane *lane, const Function *program, uint16_t region, const void *table, uint64_t at) {
    (void)lane, (void)region;
    TOUCH(lane, region, at * program->entry_bytes, (uint16_t)program->entry_bytes, ACCESS_LOAD);
    if (program->entry_bytes == 2) {
        uint32_t entry = ((const uint16_t *)table)[at];
        return (entry & 0x8000) << 16 | (entry & 0x7fff);
    }
    return load_entry((const uint32_t *)table + at);
}

/* The next hop's number plus 1, or 0. */
FUNCTION uint32_t look_up_v4(const Lane *lane, const Function *program, uint32_t address) {
    uint32_t entry = entry_v4(lane, program, REGION_TBL24, program->tbl24, address >> 8);
    if (entry >> 31) {
        uint64_t at = (uint64_t)(entry & 0x7fffffff) * 256 + (address & 255);
        if (at >= program->tbl8_entries) return 0;
        entry = entry_v4(lane, program, REGION_TBL8, program->tbl8, at);
    }
    return entry & 0x7fffffff;
}

FUNCTION uint32_t look_up_v6(const Lane *lane, const Function *program, const Header *header) {
    uint32_t first = swap32(header->word[6]);
    TOUCH(lane, REGION_TBL24_V6, (uint64_t)(first >> 8) * 4, 4, ACCESS_LOAD);
    uint32_t entry = load_entry(program->tbl24_v6 + (first >> 8));
    /* The 104 bits after the first 24, to be taken from the top, 8 a level. */
    uint64_t high = (uint64_t)(first & 255) << 56 | (uint64_t)swap32(header->word[7]) << 24 | swap32(header->word[8]) >> 8;
    uint64_t low = (uint64_t)(swap32(header->word[8]) & 255) << 56 | (uint64_t)swap32(header->word[9]) << 24;
    for (uint32_t level = 1; level < 14 && entry >> 31; level++) {
        uint64_t at = (uint64_t)(entry & 0x7fffffff) * 256 + (high >> 56);
        if (at >= program->tbl8_v6_entries) return 0;
        TOUCH(lane, REGION_TBL8_V6, at * 4, 4, ACCESS_LOAD);
        entry = load_entry(program->tbl8_v6 + at);
        high = high << 8 | low >> 56;
        low <<= 8;
    }
    return entry >> 31 ? 0 : entry;
}

/* The word of an IPv4 header at byte 8 with the time to live less one and the checksum in step; the caller has seen that it
 * is 2 or more. */
FUNCTION uint32_t decremented_ttl(uint32_t word) {
    uint32_t sum = (word & 0xffff) + 0x100;
    return ((word - (1u << 24)) & 0xffff0000u) | ((sum + (sum >= 0xffff)) & 0xffff);
}

/* Puts on the Ethernet addresses of the next hop `id`: with the EtherType, and the two bytes before the frame, one store. */
FUNCTION uint32_t send(const Lane *lane, const Function *program, Descriptor packet, uint8_t *slot, uint32_t id) {
    if (id >= program->next_hop_count) return DROP_FOR(DROP_NO_ROUTE);
    (void)lane;
    TOUCH(lane, REGION_NEXT_HOPS, (uint64_t)id * 16, 16, ACCESS_LOAD);
    Quad hop = load_quad((const uint8_t *)program->next_hops + (uint64_t)id * 16), front;
    front.word[0] = hop.word[0] << 16;
    front.word[1] = hop.word[0] >> 16 | hop.word[1] << 16;
    front.word[2] = hop.word[1] >> 16 | hop.word[2] << 16;
    front.word[3] = hop.word[2] >> 16 | (uint32_t)packet.ethertype << 16;
    TOUCH(lane, REGION_PACKET, 0, 12, ACCESS_STORE);
    store_quad(slot + FRAME_OFFSET - 2, front);
    return FORWARD_BY(hop.word[3] & 0xffff);
}

/* The port that a function sends by which does not route: the other one of a pair. */
FUNCTION uint32_t across(const Function *program, Descriptor packet) {
    return FORWARD_BY(((packet.port & 0xffff) ^ 1) % program->ports);
}

/* IP forwarding. */
FUNCTION uint32_t forward(const Lane *lane, const Function *program, Descriptor packet, uint8_t *slot) {
    uint32_t at = FRAME_OFFSET + packet.l3_offset;
    if (packet.l3 == 4) {
        if (packet.captured < packet.l3_offset + 20u) return DROP_FOR(DROP_TRUNCATED);
        Header header = packet_header(lane, slot, at, 5);
        uint32_t verdict = check_v4(lane, program, packet, slot, &header);
        if (verdict) return verdict;
        uint32_t hop = look_up_v4(lane, program, swap32(header.word[4]));
        if (!hop) return DROP_FOR(DROP_NO_ROUTE);
        uint32_t ttl = swap32(header.word[2]);
        if (ttl < 2u << 24) return DROP_FOR(DROP_TTL_EXPIRED);
        set_packet_word(lane, slot, at + 8, swap32(decremented_ttl(ttl)));
        return send(lane, program, packet, slot, hop - 1);
    }
    if (packet.l3 == 6) {
        if (packet.captured < packet.l3_offset + 40u) return DROP_FOR(DROP_TRUNCATED);
        Header header = packet_header(lane, slot, at, 10);
        uint32_t verdict = check_v6(packet, &header);
        if (verdict) return verdict;
        uint32_t hop = look_up_v6(lane, program, &header);
        if (!hop) return DROP_FOR(DROP_NO_ROUTE);
        uint32_t limit = swap32(header.word[1]);
        if ((limit & 255) <= 1) return DROP_FOR(DROP_HOP_LIMIT_EXCEEDED);
        set_hop_limit(lane, slot, at, limit - 1);
        return send(lane, program, packet, slot, hop - 1);
    }
    return DROP_FOR(DROP_NOT_IP);
}

/* The header check alone. */
FUNCTION uint32_t check(const Lane *lane, const Function *program, Descriptor packet, const uint8_t *slot) {
    uint32_t at = FRAME_OFFSET + packet.l3_offset, verdict;
    if (packet.l3 == 4) {
        if (packet.captured < packet.l3_offset + 20u) return DROP_FOR(DROP_TRUNCATED);
        Header header = packet_header(lane, slot, at, 5);
        verdict = check_v4(lane, program, packet, slot, &header);
    } else if (packet.l3 == 6) {
        if (packet.captured < packet.l3_offset + 40u) return DROP_FOR(DROP_TRUNCATED);
        Header header = packet_header(lane, slot, at, 10);
        verdict = check_v6(packet, &header);
    } else {
        return DROP_FOR(DROP_NOT_IP);
    }
    return verdict ? verdict : across(program, packet);
}

/* Route lookup alone. */
FUNCTION uint32_t look_up(const Lane *lane, const Function *program, Descriptor packet, const uint8_t *slot) {
    uint32_t at = FRAME_OFFSET + packet.l3_offset, hop;
    if (packet.l3 == 4) {
        if (packet.captured < packet.l3_offset + 20u) return DROP_FOR(DROP_TRUNCATED);
        hop = look_up_v4(lane, program, swap32(packet_word(lane, slot, at + 16)));
    } else if (packet.l3 == 6) {
        if (packet.captured < packet.l3_offset + 40u) return DROP_FOR(DROP_TRUNCATED);
        Header header = {{0}};
        /* One reference of 16 bytes, which as it is aligned takes four loads. */
        TOUCH(lane, REGION_PACKET, packet.l3_offset + 24, 16, ACCESS_LOAD);
        for (uint32_t i = 0; i < 4; i++) header.word[6 + i] = *(const uint32_t *)(slot + at + 24 + 4 * i);
        hop = look_up_v6(lane, program, &header);
    } else {
        return DROP_FOR(DROP_NOT_IP);
    }
    return hop ? FORWARD_BY((hop - 1) % program->ports & 0xffff) : DROP_FOR(DROP_NO_ROUTE);
}

/* The longest match in a Poptrie of `high`:`low`, an address of 128 bits, or one of 32 in the upper half of `high`: the next
 * hop's number plus 1, or 0. Regions are those from `region` on. A node is three loads of 8 bytes. */
FUNCTION uint32_t walk(const Lane *lane, uint16_t region, const uint32_t *direct, const uint64_t *nodes,
                       const uint16_t *leaves, uint64_t high, uint64_t low) {
    (void)lane, (void)region;
    TOUCH(lane, region, (high >> 46) * 4, 4, ACCESS_LOAD);
    uint32_t entry = direct[high >> 46];
    if (entry >> 31) return entry & 0x7fffffff;
    high = high << 18 | low >> 46, low <<= 18;
    /* An address of 128 bits has 19 nodes below the first 18 bits. */
    for (uint32_t level = 0; level < 19; level++) {
        const uint64_t *node = nodes + (uint64_t)entry * 3;
        TOUCH(lane, region + 1, (uint64_t)entry * 24, 24, ACCESS_LOAD);
        uint64_t vector = node[0], runs = node[1], firsts = node[2], bit = 1ull << (high >> 58);
        /* The place's bit and all below it. */
        uint64_t upto = bit << 1 ? (bit << 1) - 1 : ~0ull;
        if (!(vector & bit)) {
            uint32_t leaf = (uint32_t)firsts + ones(runs & upto) - 1;
            TOUCH(lane, region + 2, (uint64_t)leaf * 2, 2, ACCESS_LOAD);
            return leaves[leaf];
        }
        entry = (uint32_t)(firsts >> 32) + ones(vector & upto) - 1;
        high = high << 6 | low >> 58, low <<= 6;
    }
    return 0;
}

/* Route lookup alone, by a Poptrie. */
FUNCTION uint32_t look_up_poptrie(const Lane *lane, const Function *program, Descriptor packet, const uint8_t *slot) {
    uint32_t at = FRAME_OFFSET + packet.l3_offset, hop;
    if (packet.l3 == 4) {
        if (packet.captured < packet.l3_offset + 20u) return DROP_FOR(DROP_TRUNCATED);
        uint64_t address = swap32(packet_word(lane, slot, at + 16));
        hop = walk(lane, REGION_DIRECT, (const uint32_t *)program->tbl24, (const uint64_t *)program->tbl8, program->leaves,
                   address << 32, 0);
    } else if (packet.l3 == 6) {
        if (packet.captured < packet.l3_offset + 40u) return DROP_FOR(DROP_TRUNCATED);
        TOUCH(lane, REGION_PACKET, packet.l3_offset + 24, 16, ACCESS_LOAD);
        const uint32_t *word = (const uint32_t *)(slot + at + 24);
        uint64_t high = (uint64_t)swap32(word[0]) << 32 | swap32(word[1]);
        uint64_t low = (uint64_t)swap32(word[2]) << 32 | swap32(word[3]);
        hop = walk(lane, REGION_DIRECT_V6, program->tbl24_v6, (const uint64_t *)program->tbl8_v6, program->leaves_v6, high,
                   low);
    } else {
        return DROP_FOR(DROP_NOT_IP);
    }
    return hop ? FORWARD_BY((hop - 1) % program->ports & 0xffff) : DROP_FOR(DROP_NO_ROUTE);
}

/* The time to live alone. The word of the hop limit begins with three bytes that stay as they are. */
FUNCTION uint32_t lower_ttl(const Lane *lane, const Function *program, Descriptor packet, uint8_t *slot) {
    uint32_t at = FRAME_OFFSET + packet.l3_offset;
    if (packet.l3 == 4) {
        if (packet.captured < packet.l3_offset + 12u) return DROP_FOR(DROP_TRUNCATED);
        uint32_t ttl = swap32(packet_word(lane, slot, at + 8));
        if (ttl < 2u << 24) return DROP_FOR(DROP_TTL_EXPIRED);
        set_packet_word(lane, slot, at + 8, swap32(decremented_ttl(ttl)));
    } else if (packet.l3 == 6) {
        if (packet.captured < packet.l3_offset + 8u) return DROP_FOR(DROP_TRUNCATED);
        TOUCH(lane, REGION_PACKET, packet.l3_offset + 7, 1, ACCESS_LOAD);
        uint32_t limit = swap32(*(const uint32_t *)(slot + at + 4));
        if ((limit & 255) <= 1) return DROP_FOR(DROP_HOP_LIMIT_EXCEEDED);
        set_hop_limit(lane, slot, at, limit - 1);
    } else {
        return DROP_FOR(DROP_NOT_IP);
    }
    return across(program, packet);
}

#endif
