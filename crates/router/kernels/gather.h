/* Packets of which the host has gathered what the function reads: records close together, and results that it scatters.
 *
 * IPv4 and IPv6 have arrays of their own, since their records are of different length. Results are in the same order, those of
 * IPv4 first. What is no IP or too short never comes here: the host drops it. Which words a record has:
 *
 *   lookup          the address, 1 or 4
 *   ttl             the word with the time to live; of IPv6 that with the hop limit
 *   check, forward  bytes of the frame from the IP header on, then the header, 5 or 10
 *
 * A result is the verdict; of ttl and forward also that word as it is to be written, and of forward the next hop's number, whose
 * Ethernet addresses the host has. Which port is across from the one that a packet came in by the host knows as well: here
 * it is 0.
 *
 * Source: Han, Jang, Park, Moon, "PacketShader", SIGCOMM 2010, sections 5.3 and 6.2 (pre-shading gathers, post-shading
 * scatters). */
#ifndef WIRESPEED_GATHER_H
#define WIRESPEED_GATHER_H

#include "functions.h"

/* What a batch is given. */
typedef struct {
    const uint32_t *v4;
    const uint32_t *v6;
    uint32_t *results;
    uint32_t count_v4;
    uint32_t count_v6;
} Gathered;

/* Words of a record, and of a result. The host has the same in gather.rs. */
FUNCTION uint32_t record_words(uint32_t function, uint32_t is_v6) {
    if (function == FUNCTION_LOOKUP) return is_v6 ? 4 : 1;
    if (function == FUNCTION_TTL) return 1;
    return is_v6 ? 11 : 6;
}
FUNCTION uint32_t result_words(uint32_t function) {
    return function == FUNCTION_FORWARD ? 3 : function == FUNCTION_TTL ? 2 : 1;
}

/* Lowers the time to live in `word`, or says why not. */
FUNCTION uint32_t lowered_word(uint32_t *word, uint32_t is_v6) {
    uint32_t own = swap32(*word);
    if (is_v6) {
        if ((own & 255) <= 1) return DROP_FOR(DROP_HOP_LIMIT_EXCEEDED);
        *word = swap32(own - 1);
    } else {
        if (own < 2u << 24) return DROP_FOR(DROP_TTL_EXPIRED);
        *word = swap32(decremented_ttl(own));
    }
    return 0;
}

/* Check and forward: what the header says. */
FUNCTION uint32_t process_header(const Lane *lane, const Function *program, const uint32_t *record, uint32_t is_v6,
                                 uint32_t *result) {
    Header header = {{0}};
    Descriptor packet = {record[0], 0, 0, 0, 0, 0};
    for (uint32_t i = 0; i < 5; i++) header.word[i] = record[1 + i];
    if (is_v6)
        for (uint32_t i = 5; i < 10; i++) header.word[i] = record[1 + i];
    uint32_t verdict = is_v6 ? check_v6(packet, &header) : check_v4(lane, program, packet, 0, &header);
    if (program->function == FUNCTION_CHECK) return verdict ? verdict : FORWARD_BY(0);
    uint32_t word = is_v6 ? header.word[1] : header.word[2], id = 0;
    if (!verdict) {
        uint32_t hop = is_v6 ? look_up_v6(lane, program, &header) : look_up_v4(lane, program, swap32(header.word[4]));
        id = hop - 1;
        verdict = hop ? lowered_word(&word, is_v6) : DROP_FOR(DROP_NO_ROUTE);
        if (!verdict) {
            verdict = DROP_FOR(DROP_NO_ROUTE);
            if (id < program->next_hop_count)
                verdict = FORWARD_BY(((const uint32_t *)program->next_hops)[(uint64_t)id * 4 + 3] & 0xffff);
        }
    }
    result[1] = word;
    result[2] = id;
    return verdict;
}

/* Packet `place` of those that were gathered. */
FUNCTION void process_gathered(const Lane *lane, const Function *program, const Gathered *packets, uint32_t place) {
    uint32_t is_v6 = place >= packets->count_v4, hop;
    uint32_t *result = packets->results + (uint64_t)place * result_words(program->function);
    const uint32_t *record = is_v6 ? packets->v6 : packets->v4;
    record += (uint64_t)(is_v6 ? place - packets->count_v4 : place) * record_words(program->function, is_v6);
    if (program->function == FUNCTION_LOOKUP) {
        Header header = {{0}};
        if (is_v6)
            for (uint32_t i = 0; i < 4; i++) header.word[6 + i] = record[i];
        hop = is_v6 ? look_up_v6(lane, program, &header) : look_up_v4(lane, program, swap32(record[0]));
        result[0] = hop ? FORWARD_BY((hop - 1) % program->ports & 0xffff) : DROP_FOR(DROP_NO_ROUTE);
    } else if (program->function == FUNCTION_TTL) {
        uint32_t word = record[0], verdict = lowered_word(&word, is_v6);
        result[0] = verdict ? verdict : FORWARD_BY(0);
        result[1] = word;
    } else {
        result[0] = process_header(lane, program, record, is_v6, result);
    }
}

#endif
