/* What ways over the bus take: a warp alone times them one after the other, for who wants to know what a kernel that stays can carry.
 *
 * First rounds of the dispatcher, with the code that it has itself: words of the task FIFO asked for and looked at, and then the same
 * with what follows a find, a fence, entries of the ring in device memory, and a word that tells the host. Then an echo: whatever
 * count the host writes comes back. */
#ifndef WIRESPEED_LINK_H
#define WIRESPEED_LINK_H

typedef struct {
    /* Host memory. */
    const uint64_t *fifo;
    const uint64_t *asked;
    uint64_t *answered;
    uint64_t *times; /* ns of all rounds of each part; a 1 once they are there; which words were found, which is of no use */
    /* Device memory. */
    uint64_t *tasks;
    uint64_t deadline_ns;
    uint32_t rounds;
    uint32_t echoes;
} Link;

/* Rounds of 32, 64 and 128 words; the same with what follows a find; a word alone. */
enum { LINK_ASKED = 0, LINK_HANDED_ON = 3, LINK_WORD = 6, LINK_PARTS = 7, LINK_DONE = 7, LINK_FOUND = 8, LINK_WORDS = 9 };

/* A round that finds nothing it expects, and hands on all the same if it is told to. */
FUNCTION uint32_t link_round(const Link *link, uint64_t next, uint32_t parts, int hands_on) {
    ASK(link->fifo, next, parts);
    FIND_ALL(ready, next, parts);
    if (hands_on) {
        HAND_ON(link->fifo, link->tasks, next, parts * WARP_LANES);
        if (is_first_lane()) note_system(link->answered, 0);
    }
    return ready;
}

FUNCTION void measure_link(const Link *link) {
    uint64_t found = 0;
    for (uint32_t part = 0; part < LINK_PARTS; part++) {
        uint64_t begun = now_ns();
        for (uint32_t round = 0; round < link->rounds; round++) {
            uint64_t next = (uint64_t)round * MOST_PARTS * WARP_LANES;
            if (part == LINK_WORD)
                found += word_count(from_first(glance_system(task_word(link->fifo, next))));
            else
                found += link_round(link, next, 1u << part % LINK_HANDED_ON, part >= LINK_HANDED_ON);
            /* Nothing is asked for before the last answer is there. */
            if (from_first(found) == NEVER) return;
        }
        if (is_first_lane()) note_system(&link->times[part], now_ns() - begun);
    }
    if (is_first_lane()) {
        note_system(&link->times[LINK_FOUND], found);
        store_system(&link->times[LINK_DONE], 1);
    }
    for (uint64_t count = 1; count <= link->echoes; count++) {
        uint64_t begun = now_ns();
        while (from_first(glance_system(link->asked)) != count) {
            if (from_first(now_ns()) - begun > link->deadline_ns) return;
            pause_ns(0);
        }
        if (is_first_lane()) store_system(link->answered, count);
    }
}

#endif
