/* Fragmentation of one lane: what may not be cut is refused, what must be is cut into a header and pieces.
 *
 * A lowering of crates/functions/src/fragment.rs in its form that gathers. A payload is neither read nor copied: a buffer a
 * packet, behind that of the packet before, takes the header that all later fragments have (15 words, and their number in the
 * 16th) and for each of them 8 bytes, total length, flags and offset, and checksum. The first fragment's header is written
 * in its slot. Whoever sends puts them together, as a NIC does that is given a header and a piece of the payload: over a bus
 * go some hundred bytes in place of the payload twice. A buffer belongs to its slot, and so to whoever has the packet: no
 * lane waits for another, and none finds all buffers taken.
 *
 * Source: RFC 791 2.3, 3.1, 3.2; RFC 1071 (sums of 16 bits). */
#ifndef WIRESPEED_FRAGMENT_H
#define WIRESPEED_FRAGMENT_H

#include "functions.h"

#define PART_COUNT_WORD 15u
#define DONT_FRAGMENT 0x4000u
#define MORE_FRAGMENTS 0x2000u
#define FRAGMENT_OFFSET 0x1fffu

/* The byte at `at` of the slot, by a load of the word that it is in. */
FUNCTION uint32_t slot_byte(const uint8_t *slot, uint32_t at) {
    return *(const uint32_t *)(slot + (at & ~3u)) >> 8 * (at & 3) & 255;
}

FUNCTION uint32_t halves(uint32_t word) { return (word >> 16) + (word & 0xffff); }

FUNCTION uint32_t folded(uint32_t sum) {
    sum = halves(sum);
    return ~halves(sum) & 0xffff;
}

FUNCTION uint32_t fragment(const Lane *lane, const Function *program, const Packets *packets, uint32_t place,
                           Descriptor packet, uint8_t *slot) {
    uint32_t at = FRAME_OFFSET + packet.l3_offset, mtu = program->mtu;
    uint32_t room = packet.frame_bytes > packet.l3_offset ? packet.frame_bytes - packet.l3_offset : 0;
    if (packet.l3 == 6) {
        if (packet.captured < packet.l3_offset + 40u) return DROP_FOR(DROP_TRUNCATED);
        TOUCH(lane, REGION_PACKET, packet.l3_offset, 8, ACCESS_LOAD);
        uint32_t whole = 40 + (swap32(*(const uint32_t *)(slot + at + 4)) >> 16);
        if (whole > room) return DROP_FOR(DROP_BAD_TOTAL_LENGTH);
        return whole > mtu ? DROP_FOR(DROP_PACKET_TOO_BIG) : across(program, packet);
    }
    if (packet.l3 != 4) return DROP_FOR(DROP_NOT_IP);
    if (packet.captured < packet.l3_offset + 20u) return DROP_FOR(DROP_TRUNCATED);
    Header header = packet_header(lane, slot, at, 5);
    uint32_t first = swap32(header.word[0]), second = swap32(header.word[1]), third = swap32(header.word[2]);
    uint32_t total = first & 0xffff, header_bytes = (first >> 24 & 15) * 4, flags = second & 0xffff;
    if (header_bytes < 20) return DROP_FOR(DROP_BAD_HEADER_LENGTH);
    if (total < header_bytes || total > room) return DROP_FOR(DROP_BAD_TOTAL_LENGTH);
    if (total <= mtu) return across(program, packet);
    if (flags & DONT_FRAGMENT) return DROP_FOR(DROP_FRAGMENTATION_NEEDED);
    if (packet.captured < packet.l3_offset + header_bytes) return DROP_FOR(DROP_TRUNCATED);
    if (mtu < header_bytes + 8 || (flags & FRAGMENT_OFFSET) + (total - header_bytes - 1) / 8 > FRAGMENT_OFFSET)
        return DROP_FOR(DROP_UNFRAGMENTABLE);

    uint8_t *buffer = packets->parts + (uint64_t)place * packets->part_bytes;
    uint32_t *later = (uint32_t *)buffer;
    /* What the headers' sums have in common; then what the first one has of its own, and what the others have. */
    uint32_t sum = (second >> 16) + (third >> 16) + halves(swap32(header.word[3])) + halves(swap32(header.word[4]));
    uint32_t own_sum = sum + (first >> 16);
    for (uint32_t i = 20; i < header_bytes; i += 4)
        own_sum += halves(swap32(packet_word(lane, slot, at + i)));

    uint32_t copied = 0, held = 0, options = header_bytes - 20;
    for (uint32_t i = 0; i < options;) {
        uint32_t from = at + 20 + i, kind = slot_byte(slot, from), bytes = 1;
        if (kind == 0) break;
        TOUCH(lane, REGION_PACKET, from - FRAME_OFFSET, 1, ACCESS_LOAD);
        if (kind != 1) {
            bytes = i + 1 < options ? slot_byte(slot, from + 1) : 0;
            if (bytes < 2 || i + bytes > options) break;
        }
        if (kind & 0x80) {
            for (uint32_t n = 0; n < bytes; n++) {
                held |= slot_byte(slot, from + n) << 8 * (copied & 3);
                copied++;
                if ((copied & 3) == 0) {
                    later[4 + copied / 4] = held;
                    sum += halves(swap32(held));
                    held = 0;
                }
            }
        }
        i += bytes;
    }
    if (copied & 3) {
        copied = (copied + 3) & ~3u;
        later[4 + copied / 4] = held;
        sum += halves(swap32(held));
    }
    uint32_t later_bytes = 20 + copied;
    uint32_t later_first = (0x40 | later_bytes / 4) << 24 | (first & 0xff0000);
    sum += later_first >> 16;
    later[0] = swap32(later_first);
    later[1] = swap32(second & 0xffff0000);
    later[2] = swap32(third & 0xffff0000);
    later[3] = header.word[3];
    later[4] = header.word[4];
    (void)lane;
    TOUCH(lane, REGION_PARTS, (uint64_t)place * packets->part_bytes, 64, ACCESS_STORE);

    uint32_t payload = total - header_bytes, own = (mtu - header_bytes) & ~7u, each = (mtu - later_bytes) & ~7u, count = 0;
    for (uint32_t done = own; done < payload; count++) {
        uint32_t rest = payload - done, bytes = later_bytes + rest <= mtu ? rest : each;
        uint32_t mark = (done + bytes < payload ? MORE_FRAGMENTS : flags & MORE_FRAGMENTS) |
                        (((flags & FRAGMENT_OFFSET) + done / 8) & 0xffff);
        uint32_t whole = later_bytes + bytes, check_sum = folded(sum + whole + mark);
        TOUCH(lane, REGION_PARTS, (uint64_t)place * packets->part_bytes + 64 + 8 * count, 8, ACCESS_STORE);
        ((uint64_t *)(buffer + 64))[count] = (uint64_t)check_sum << 32 | whole << 16 | mark;
        done += bytes;
    }
    later[PART_COUNT_WORD] = count;

    uint32_t whole = header_bytes + own, mark = MORE_FRAGMENTS | (flags & FRAGMENT_OFFSET);
    TOUCH(lane, REGION_PACKET, packet.l3_offset + 2, 6, ACCESS_STORE);
    TOUCH(lane, REGION_PACKET, packet.l3_offset + 10, 2, ACCESS_STORE);
    uint32_t *header_at = (uint32_t *)(slot + at);
    header_at[0] = swap32((first & 0xffff0000) | whole);
    header_at[1] = swap32((second & 0xffff0000) | mark);
    header_at[2] = swap32((third & 0xffff0000) | folded(own_sum + whole + mark));
    return across(program, packet) | VERDICT_CUT;
}

#endif
