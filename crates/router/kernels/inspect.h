/* Inspection of one lane's payload: strings by an Aho-Corasick automaton, or by Bloom filters of windows and verification.
 *
 * A lowering of crates/functions (inspect/mod.rs, automaton.rs, bloom.rs): the same verdict, references and first pattern. A
 * window's hash is not rolled from byte to byte, which would need a register pair for each length: it is summed from the
 * latest 16 bytes, shorter windows being the first part of longer ones. Modulo 2^64 that is the same number.
 *
 * A payload begins at a multiple of 4 in its slot, since headers are as long: it is read by words. Patterns begin anywhere:
 * each word of one is part of two. Nothing here reads a single byte of memory.
 *
 * Source: Aho, Corasick, CACM 18(6), 1975; Bloom, CACM 13(7), 1970; Dharmapurikar et al., IEEE Micro 24(1), 2004. */
#ifndef WIRESPEED_INSPECT_H
#define WIRESPEED_INSPECT_H

#include "classify.h"

/* What is searched: `bytes` bytes at `at` of the slot, a multiple of 4. */
typedef struct {
    const uint8_t *slot;
    uint32_t at;
    uint32_t bytes;
} Text;

/* Of the hash of windows: see crates/functions/src/inspect/bloom.rs. */
#define WINDOW_BASE 6364136223846793005ull

FUNCTION uint32_t word_at(const void *table, uint64_t word) { return ((const uint32_t *)table)[word]; }

/* Each of four bytes in lower case. */
FUNCTION uint32_t lower_case(uint32_t bytes) {
    uint32_t seven = bytes & 0x7f7f7f7fu;
    uint32_t is_upper = ~bytes & 0x80808080u & ((seven + 0x3f3f3f3fu) ^ (seven + 0x25252525u));
    return bytes | is_upper >> 2;
}

/* The four bytes at `at` of memory that begins at a multiple of 4. */
FUNCTION uint32_t any_word(const void *memory, uint32_t at) {
    return lower(word_at(memory, at / 4), word_at(memory, at / 4 + 1), (at & 3) * 8);
}

/* Whether the pattern of that length at `at` of all patterns' bytes stands before `end` of the text. */
FUNCTION int is_there(const Lane *lane, const Function *program, Text text, uint32_t end, uint32_t at, uint32_t bytes,
                      int nocase) {
    uint32_t from = text.at + end - bytes, differ = 0;
    (void)lane;
    TOUCH(lane, REGION_PATTERNS, at, (uint16_t)bytes, ACCESS_LOAD);
    TOUCH(lane, REGION_PACKET, from - FRAME_OFFSET, (uint16_t)bytes, ACCESS_LOAD);
    for (uint32_t i = 0; i < bytes; i += 4) {
        uint32_t wanted = any_word(program->text, at + i), there = any_word(text.slot, from + i);
        uint32_t change = nocase ? lower_case(wanted) ^ lower_case(there) : wanted ^ there;
        differ |= bytes - i < 4 ? change << (8 * (4 - (bytes - i))) : change;
    }
    return differ == 0;
}

/* The child of the state by `byte`, or 0, which is nobody's child. */
FUNCTION uint32_t child_of(const Lane *lane, const Function *program, Quad state, uint32_t byte) {
    uint32_t kind = state.word[2] & 3;
    (void)lane;
    if (kind == 1) {
        uint32_t same = state.word[3] ^ byte * 0x01010101u, zero = (same - 0x01010101u) & ~same & 0x80808080u;
        return zero ? state.word[0] + lowest(zero) / 8 : 0;
    }
    if (kind != 2) return 0;
    uint64_t wide = (uint64_t)state.word[3] * 16;
    uint32_t group = byte >> 6;
    TOUCH(lane, REGION_WIDE, wide * 4, 40, ACCESS_LOAD);
    uint64_t bits = (uint64_t)word_at(program->wide, wide + 2 * group + 1) << 32 | word_at(program->wide, wide + 2 * group);
    uint64_t bit = 1ull << (byte & 63);
    uint32_t before = word_at(program->wide, wide + 8) >> 8 * group & 0xff;
    return bits & bit ? state.word[0] + before + ones(bits & (bit - 1)) : 0;
}

/* What ends before `end`, by the outputs from `output` on: the first of it, if `found` is none; whether that ends the search. */
FUNCTION int outputs_end(const Lane *lane, const Function *program, Text text, uint32_t end, uint32_t output,
                         uint32_t *found) {
    while (output) {
        uint64_t at = (uint64_t)(output - 1) * 3;
        TOUCH(lane, REGION_OUTPUTS, at * 4, 12, ACCESS_LOAD);
        uint32_t first = word_at(program->outputs, at), count = word_at(program->outputs, at + 1);
        output = word_at(program->outputs, at + 2);
        for (uint32_t i = first; i < first + count; i++) {
            uint64_t listed = (uint64_t)i * 3;
            TOUCH(lane, REGION_LISTS, listed * 4, 12, ACCESS_LOAD);
            uint32_t size = word_at(program->lists, listed + 2);
            if (size >> 16 ||
                is_there(lane, program, text, end, word_at(program->lists, listed + 1), size & 0xffff, 0)) {
                if (*found == NONE) *found = word_at(program->lists, listed);
                if (program->drop_unmatched) return 1;
            }
        }
    }
    return 0;
}

FUNCTION uint32_t search_automaton(const Lane *lane, const Function *program, Text text) {
    uint32_t id = 0, found = NONE;
    Quad state = {{0}};
    for (uint32_t at = 0; at < text.bytes; at += 8) {
        uint32_t n = text.bytes - at < 8 ? text.bytes - at : 8;
        TOUCH(lane, REGION_PACKET, text.at + at - FRAME_OFFSET, (uint16_t)n, ACCESS_LOAD);
        uint64_t place = (text.at + at) / 4;
        uint32_t low = lower_case(word_at(text.slot, place)), high = lower_case(word_at(text.slot, place + 1));
        for (uint32_t i = 0; i < n; i++) {
            uint32_t byte = low & 0xff, next;
            low = lower(low, high, 8), high >>= 8;
            for (;;) {
                if (id == 0) {
                    TOUCH(lane, REGION_ROOT, (uint64_t)byte * 4, 4, ACCESS_LOAD);
                    next = word_at(program->root, byte);
                    break;
                }
                next = child_of(lane, program, state, byte);
                if (next) break;
                id = state.word[1];
                if (id) {
                    TOUCH(lane, REGION_STATES, (uint64_t)id * 16, 16, ACCESS_LOAD);
                    state = load_quad((const uint8_t *)program->states + (uint64_t)id * 16);
                }
            }
            id = next;
            if (id) {
                TOUCH(lane, REGION_STATES, (uint64_t)id * 16, 16, ACCESS_LOAD);
                state = load_quad((const uint8_t *)program->states + (uint64_t)id * 16);
                if (state.word[2] >> 2 && outputs_end(lane, program, text, at + i + 1, state.word[2] >> 2, &found))
                    return found;
            }
        }
    }
    return found;
}

/* Whether the filter may have the window: up to 4 bits, by double hashing. */
FUNCTION int filter_passes(const Lane *lane, const Function *program, Quad length, uint64_t hash) {
    uint32_t bit = (uint32_t)hash, step = (uint32_t)(hash >> 32) | 1;
    (void)lane;
    for (uint32_t probe = 0; probe < 4; probe++, bit += step) {
        uint32_t place = bit & length.word[2];
        uint64_t word = length.word[1] + place / 64;
        TOUCH(lane, REGION_FILTERS, word * 8, 8, ACCESS_LOAD);
        /* The half that has the bit. */
        if (!(word_at(program->states, word * 2 + (place >> 5 & 1)) >> (place & 31) & 1)) return 0;
    }
    return 1;
}

/* Compares with the patterns of that window; whether that ends the search. */
FUNCTION int window_ends(const Lane *lane, const Function *program, Text text, uint32_t end, uint32_t window, uint64_t hash,
                         uint32_t *found) {
    uint32_t bucket = (uint32_t)hash & program->bucket_mask;
    TOUCH(lane, REGION_BUCKETS, (uint64_t)bucket * 4, 4, ACCESS_LOAD);
    uint32_t at = word_at(program->buckets, bucket);
    while (at != NONE) {
        const uint8_t *entry = (const uint8_t *)program->entries + (uint64_t)at * 32;
        TOUCH(lane, REGION_ENTRIES, (uint64_t)at * 32, 32, ACCESS_LOAD);
        Quad of = load_quad(entry), rest = load_quad(entry + 16);
        uint32_t bytes = rest.word[1] & 0xffff, last = end - window + bytes;
        if (of.word[0] == (uint32_t)hash && of.word[1] == (uint32_t)(hash >> 32) && rest.word[2] == window &&
            last <= text.bytes && is_there(lane, program, text, last, rest.word[0], bytes, rest.word[1] >> 16)) {
            if (*found == NONE) *found = of.word[2];
            if (program->drop_unmatched) return 1;
        }
        at = of.word[3];
    }
    return 0;
}

FUNCTION uint32_t search_windows(const Lane *lane, const Function *program, Text text) {
    uint32_t found = NONE;
    /* The latest 16 bytes, the last one lowest. */
    uint32_t a = 0, b = 0, c = 0, d = 0;
    for (uint32_t at = 0; at < text.bytes; at += 8) {
        uint32_t n = text.bytes - at < 8 ? text.bytes - at : 8;
        TOUCH(lane, REGION_PACKET, text.at + at - FRAME_OFFSET, (uint16_t)n, ACCESS_LOAD);
        uint64_t place = (text.at + at) / 4;
        uint32_t low = lower_case(word_at(text.slot, place)), high = lower_case(word_at(text.slot, place + 1));
        for (uint32_t i = 0; i < n; i++) {
            uint32_t end = at + i + 1, summed = 0;
            d = upper(c, d, 8), c = upper(b, c, 8), b = upper(a, b, 8), a = a << 8 | (low & 0xff);
            low = lower(low, high, 8), high >>= 8;
            uint32_t w = a, x = b, y = c, z = d;
            uint64_t hash = 0, power = 1;
            for (uint32_t l = 0; l < program->length_count; l++) {
                Quad length = load_quad((const uint8_t *)program->wide + 16 * l);
                /* Longer ones come after. */
                if (end < length.word[0]) break;
                for (; summed < length.word[0]; summed++) {
                    hash += ((w & 0xff) + 1) * power;
                    power *= WINDOW_BASE;
                    w = lower(w, x, 8), x = lower(x, y, 8), y = lower(y, z, 8), z >>= 8;
                }
                uint64_t spread = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15ull;
                spread ^= spread >> 29;
                if (filter_passes(lane, program, length, spread) &&
                    window_ends(lane, program, text, end, length.word[0], spread, &found))
                    return found;
            }
        }
    }
    return found;
}

/* The payload: what follows the TCP or UDP header, or the IP header. 0, or a verdict. */
FUNCTION uint32_t payload(const Lane *lane, Descriptor packet, const uint8_t *slot, Text *text) {
    uint32_t at = FRAME_OFFSET + packet.l3_offset, header_bytes, total, protocol, whole;
    uint32_t kept = packet.captured > packet.l3_offset ? packet.captured - packet.l3_offset : 0;
    if (packet.l3 == 4) {
        if (kept < 20) return DROP_FOR(DROP_TRUNCATED);
        Header header = packet_header(lane, slot, at, 5);
        uint32_t first = swap32(header.word[0]);
        header_bytes = (first >> 24 & 15) * 4, total = first & 0xffff;
        protocol = swap32(header.word[2]) >> 16 & 0xff, whole = (swap32(header.word[1]) & 0x1fff) == 0;
        if (header_bytes < 20) return DROP_FOR(DROP_BAD_HEADER_LENGTH);
    } else if (packet.l3 == 6) {
        if (kept < 40) return DROP_FOR(DROP_TRUNCATED);
        TOUCH(lane, REGION_PACKET, packet.l3_offset, 8, ACCESS_LOAD);
        uint32_t second = swap32(word_at(slot, at / 4 + 1));
        header_bytes = 40, total = 40 + (second >> 16), protocol = second >> 8 & 0xff, whole = 1;
    } else {
        return DROP_FOR(DROP_NOT_IP);
    }
    uint32_t carried = packet.frame_bytes > packet.l3_offset ? packet.frame_bytes - packet.l3_offset : 0;
    if (total < header_bytes || total > carried) return DROP_FOR(DROP_BAD_TOTAL_LENGTH);
    uint32_t transport = 0;
    if (protocol == 6 && whole) {
        if (kept <= header_bytes + 12) return DROP_FOR(DROP_TRUNCATED);
        /* The word that the byte lies in. */
        TOUCH(lane, REGION_PACKET, packet.l3_offset + header_bytes + 12, 1, ACCESS_LOAD);
        transport = (word_at(slot, (at + header_bytes + 12) / 4) >> 4 & 15) * 4;
    } else if (protocol == 17 && whole) {
        transport = 8;
    }
    uint32_t end = total < kept ? total : kept, begin = header_bytes + transport;
    text->slot = slot, text->at = at + begin, text->bytes = begin < end ? end - begin : 0;
    return 0;
}

/* `windows` is known when this is compiled. A packet with a pattern is dropped where that is asked for. */
FUNCTION uint32_t inspect(const Lane *lane, const Function *program, Descriptor packet, const uint8_t *slot, int windows,
                          uint32_t *found) {
    Text text;
    *found = NONE;
    uint32_t verdict = payload(lane, packet, slot, &text);
    if (verdict) return verdict;
    if (text.bytes > program->depth) text.bytes = program->depth;
    *found = windows ? search_windows(lane, program, text) : search_automaton(lane, program, text);
    if (*found != NONE && program->drop_unmatched) return DROP_FOR(DROP_SIGNATURE_FOUND);
    return across(program, packet);
}

#endif
