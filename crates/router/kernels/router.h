/* What host and kernel both know: words, rings and tables. The Rust side has the same in `layout.rs`; a test compares them. */
#ifndef WIRESPEED_ROUTER_H
#define WIRESPEED_ROUTER_H

#include "platform.h"

/* Warps that may be uncommitted, and so the entries of the task FIFO and of the DCQ: 1K, as in the paper. */
#define RING_ENTRIES 1024u
/* The frame begins 18 bytes into its slot, so that the IP header behind an Ethernet header is aligned to 32 bytes, and behind
 * each tag of four bytes to four: 20 bytes of IPv4 are in one sector of 32 bytes, which is what a GPU reads over a bus. */
#define FRAME_OFFSET 18u

/* A task: generation 16 | count 8 | first 40, in one store of 8 bytes. */
#define WORD_FIRST_BITS 40u
#define WORD_COUNT_BITS 8u

/* An entry of the ring of published tasks: the task, and tasks after which to stop (all ones: go on). */
#define ENTRY_WORDS 2u
enum { ENTRY_TASK = 0, ENTRY_STOP = 1 };

/* Where a router's counters lie in device memory, 16 words apart: a line of 128 bytes each. */
enum { STATE_TICKET = 0, STATE_HEAD = 16, STATE_LOCK = 32, STATE_DONE = 48, STATE_BEAT = 64, STATE_EXITED = 80,
       STATE_REASON = 96, STATE_MOVES = 17, STATE_WORDS = 112 };
/* What the host tells: tasks after which to stop (all ones: go on), a count that grows while it is alive. */
enum { CONTROL_STOP = 0, CONTROL_BEAT = 16, CONTROL_WORDS = 32 };
/* What the device tells: committed warps, why it has left, once it has, and which shader core dispatches. */
enum { STATUS_HEAD = 0, STATUS_LEFT = 16, STATUS_PLACE = 17, STATUS_ROUNDS = 18, STATUS_MOVES = 32, STATUS_WORDS = 48 };

#define NEVER (~0ull)

/* Why a kernel has left. */
enum { LEFT_ASKED = 1, LEFT_HOST_SILENT = 2, LEFT_DISPATCHER_SILENT = 3, LEFT_OVERRUN = 4 };

/* How warps are committed. */
enum {
    COMMIT_DEVICE = 0, /* a DCQ in device memory; the host sees its head */
    COMMIT_HOST = 1,   /* a DCQ in host memory; the host finds its head */
    COMMIT_UNORDERED = 2, /* as they finish: tickets in a ring in host memory */
};

/* Of tables those of a chain's first member; each later one's are REGIONS_A_MEMBER above. */
#define REGIONS_A_MEMBER 16u
enum { REGION_PACKET = 0, REGION_MBUF = 1, REGION_TBL24 = 16, REGION_TBL8 = 17, REGION_TBL24_V6 = 18, REGION_TBL8_V6 = 19,
       REGION_NEXT_HOPS = 20, REGION_RULES = 16, REGION_TUPLES = 16, REGION_CLASS_BUCKETS = 17, REGION_CLASS_ENTRIES = 18,
       REGION_PATTERNS = 16, REGION_ROOT = 17, REGION_STATES = 18, REGION_WIDE = 19, REGION_OUTPUTS = 20, REGION_LISTS = 21,
       REGION_FILTERS = 17, REGION_BUCKETS = 18, REGION_ENTRIES = 19, REGION_DIRECT = 16, REGION_NODES = 17, REGION_LEAVES = 18,
       REGION_DIRECT_V6 = 19, REGION_NODES_V6 = 20, REGION_LEAVES_V6 = 21, REGION_PARTS = 16 };
enum { ACCESS_LOAD = 0, ACCESS_STORE = 1 };

/* A verdict: member of the chain that drops 8 | kind 8 | port or reason 16. */
#define VERDICT_MEMBER_SHIFT 24u
enum { VERDICT_FORWARD = 1, VERDICT_DROP = 2, VERDICT_FRAGMENTS = 3 };
/* What makes of "forward" "forward, and its fragments". */
#define VERDICT_CUT (2u << 16)
enum { DROP_NOT_IP, DROP_TRUNCATED, DROP_BAD_VERSION, DROP_BAD_HEADER_LENGTH, DROP_BAD_TOTAL_LENGTH, DROP_BAD_CHECKSUM,
       DROP_SOURCE_MARTIAN, DROP_DESTINATION_MARTIAN, DROP_DESTINATION_MULTICAST, DROP_DESTINATION_BROADCAST,
       DROP_LINK_LOCAL, DROP_NO_ROUTE, DROP_TTL_EXPIRED, DROP_HOP_LIMIT_EXCEEDED, DROP_UNCLASSIFIED, DROP_SIGNATURE_FOUND,
       DROP_FRAGMENTATION_NEEDED, DROP_PACKET_TOO_BIG, DROP_UNFRAGMENTABLE };

/* What is done with a packet. */
enum { FUNCTION_FORWARD = 0, FUNCTION_CHECK = 1, FUNCTION_LOOKUP = 2, FUNCTION_TTL = 3, FUNCTION_CLASSIFY = 4,
       FUNCTION_TUPLES = 5, FUNCTION_AUTOMATON = 6, FUNCTION_WINDOWS = 7, FUNCTION_POPTRIE = 8, FUNCTION_FRAGMENT = 9 };

/* What a NIC tells of a packet: 16 bytes, one load. */
typedef struct {
    uint32_t frame_bytes; /* as it was on the wire, without FCS */
    uint16_t captured;    /* bytes of it in the slot */
    uint16_t l3_offset;
    uint16_t l3; /* 4, 6, or 0 */
    uint16_t ethertype; /* bytes 12 and 13 as they lie in memory */
    uint32_t port; /* it came in by */
} Descriptor;

/* The shared packet memory: packet n lies in slot n & mask. */
typedef struct {
    const Descriptor *descriptors;
    uint8_t *slots;
    uint32_t *verdicts;
    uint32_t *classes; /* of the latest classifier a rule's number, of the latest inspection the first pattern found; or all ones */
    uint8_t *parts; /* of fragmentation: a buffer for each slot; see fragment.h */
    uint32_t mask;
    uint32_t stride; /* bytes of a slot, a multiple of 64 */
    uint32_t part_bytes; /* of a slot's buffer, a multiple of 64 */
    uint32_t unused;
} Packets;

/* A function and its tables, as crates/functions lays them out. */
typedef struct {
    const void *tbl24;
    const void *tbl8;
    const uint32_t *tbl24_v6;
    const uint32_t *tbl8_v6;
    const void *next_hops; /* 16 bytes each: destination, source, port */
    uint64_t tbl8_entries;
    uint64_t tbl8_v6_entries;
    uint32_t next_hop_count;
    uint32_t entry_bytes; /* of the IPv4 tables: 2 or 4 */
    uint32_t software_checksum;
    uint32_t function;
    const void *rules; /* 32 bytes each; of a tuple space its tuples, 32 bytes each */
    uint32_t rule_count;
    uint32_t drop_unmatched; /* packets without a rule; for an inspection, packets with a pattern */
    uint32_t ports;
    uint32_t depth; /* bytes of a payload that are inspected */
    const void *buckets; /* of a tuple space, or of windows: the first entry, or all ones */
    const void *entries; /* of a tuple space 64 bytes each, of windows 32 */
    uint32_t bucket_mask; /* of windows */
    uint32_t length_count;
    const void *text;    /* the patterns' bytes, and 8 more */
    const void *root;    /* of an automaton: 256 states */
    const void *states;  /* of an automaton, 16 bytes each; of windows their filters */
    const void *wide;    /* of an automaton, 64 bytes each; of windows their lengths, 16 bytes each */
    const void *outputs; /* 12 bytes each */
    const void *lists;   /* 12 bytes each */
    const uint16_t *leaves; /* of a Poptrie, whose direct table is tbl24 and whose nodes, 24 bytes each, are tbl8 */
    const uint16_t *leaves_v6;
    uint32_t mtu; /* of fragmentation: bytes of the largest IP packet that the next link carries */
    uint32_t unused;
} Function;

/* What is done with packets: one function, or a chain of them. A kernel's argument. */
#define MOST_MEMBERS 6u
typedef struct {
    uint32_t members;
    uint32_t routes; /* a bit for each member that chooses a port */
    Function member[MOST_MEMBERS];
} Program;

typedef struct {
    Program program;
    Packets packets;
    /* Host memory. */
    const uint64_t *fifo;
    const uint64_t *control;
    uint64_t *status;
    uint64_t *commits; /* the DCQ of COMMIT_HOST, the ring of COMMIT_UNORDERED */
    /* Device memory. */
    uint64_t *tasks;
    uint64_t *done; /* the DCQ of COMMIT_DEVICE */
    uint64_t *state;
    uint64_t base; /* the number of the first task */
    uint64_t deadline_ns;
    uint32_t warps; /* the dispatcher included */
    uint32_t commit;
    uint32_t least_parts; /* 1, 2 or 4: of 32 words that the dispatcher reads in a round at least */
    uint32_t most_parts;  /* and at most */
} Router;

FUNCTION uint64_t generation_of(uint64_t number) { return (number / RING_ENTRIES + 1) & 0xffff; }
FUNCTION uint64_t word_generation(uint64_t word) { return word >> (WORD_FIRST_BITS + WORD_COUNT_BITS); }
FUNCTION uint32_t word_count(uint64_t word) { return (uint32_t)(word >> WORD_FIRST_BITS) & 0xff; }
FUNCTION uint64_t word_first(uint64_t word) { return word & ((1ull << WORD_FIRST_BITS) - 1); }
FUNCTION uint64_t make_word(uint64_t generation, uint32_t count, uint64_t first) {
    return generation << (WORD_FIRST_BITS + WORD_COUNT_BITS) | (uint64_t)(count & 0xff) << WORD_FIRST_BITS |
           (first & ((1ull << WORD_FIRST_BITS) - 1));
}

/* Where an IP header is that follows an Ethernet header without a tag: two quads, one sector. They are asked for with the descriptor,
 * not after it: over a bus each of the two takes a microsecond. `has_early` is known when this is compiled. */
#define EARLY_AT (FRAME_OFFSET + 14u)
#define EARLY_FIELDS   \
    uint32_t has_early; \
    Quad early[2];

/* References that lanes make, recorded where the host's build is asked to. On a device there is nothing to record into. */
#ifdef __CUDACC__
typedef struct {
    uint64_t packet_idx;
    EARLY_FIELDS
} Lane;
#define TOUCH(lane, region, offset, bytes, access) ((void)0)
#define OF_MEMBER(lane, number) ((void)0)
#else
typedef struct {
    uint64_t packet;
    uint64_t offset;
    uint16_t region;
    uint16_t bytes;
    uint32_t access;
} Touch;
typedef struct {
    Touch *touches;
    uint64_t capacity;
    uint64_t count; /* may exceed the capacity: what is above it is counted only */
} Trace;
typedef struct {
    uint64_t packet_idx;
    Trace *trace;
    uint32_t tables; /* what is added to the numbers of tables' regions */
    EARLY_FIELDS
} Lane;
FUNCTION void record(const Lane *lane, uint16_t region, uint64_t offset, uint16_t bytes, uint32_t access) {
    if (!lane->trace) return;
    if (lane->trace->count < lane->trace->capacity) {
        uint16_t of_member = region < REGION_TBL24 ? region : (uint16_t)(region + lane->tables);
        Touch touch = {lane->packet_idx, offset, of_member, bytes, access};
        lane->trace->touches[lane->trace->count] = touch;
    }
    lane->trace->count++;
}
#define TOUCH(lane, region, offset, bytes, access) record(lane, region, offset, bytes, access)
#define OF_MEMBER(lane, number) ((lane)->tables = (number) * REGIONS_A_MEMBER)
#endif

#endif
