/* Times rte_lpm of the DPDK that is installed. See run.py, which prepares the input and compares.
 *
 * usage: rte_lpm build ROUTES IMAGE          adds every route with rte_lpm_add, keeps the tables
 *        rte_lpm time IMAGE PAGES REPEATS KEYS...
 *
 * Building takes minutes with a full table, since rte_lpm_add searches the rules of a length one
 * after the other; so the tables that it built are kept in a file. Timing maps them into memory of
 * the page size asked for, huge or base, and calls the very lookup functions of rte_lpm.h, which
 * are inline and read nothing but these tables. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lpm.h>

enum { GROUPS = 2048, BURST = 32 };
#define TBL8_BYTES ((size_t)GROUPS * RTE_LPM_TBL8_GROUP_NUM_ENTRIES * sizeof(struct rte_lpm_tbl_entry))

static void fail(const char *what)
{
	fprintf(stderr, "rte_lpm: %s\n", what);
	exit(1);
}

static void *slurp(const char *path, size_t *bytes)
{
	FILE *f = fopen(path, "rb");
	if (!f || fseek(f, 0, SEEK_END))
		fail(path);
	*bytes = (size_t)ftell(f);
	rewind(f);
	void *data = malloc(*bytes);
	if (!data || fread(data, 1, *bytes, f) != *bytes)
		fail(path);
	fclose(f);
	return data;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *pages(size_t bytes, int huge)
{
	size_t align = 2 << 20, mapped = bytes + 2 * align;
	char *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		fail("no memory");
	char *start = (char *)(((uintptr_t)base + align - 1) & ~(align - 1));
	madvise(start, (bytes + align - 1) & ~(align - 1), huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	return start;
}

struct route {
	uint32_t addr, len, next_hop;
};

static void build(const char *routes_path, const char *image_path)
{
	char *args[] = {"rte_lpm", "--no-huge", "--no-pci", "--no-shconf", "-m", "1024", "-l", "0", "--log-level=4"};
	if (rte_eal_init(sizeof(args) / sizeof(*args), args) < 0)
		fail("rte_eal_init");
	size_t bytes;
	struct route *routes = slurp(routes_path, &bytes);
	size_t n = bytes / sizeof(*routes);
	struct rte_lpm_config config = {.max_rules = (uint32_t)n + 1, .number_tbl8s = GROUPS};
	struct rte_lpm *lpm = rte_lpm_create("full", 0, &config);
	if (!lpm)
		fail(rte_strerror(rte_errno));
	double start = now();
	for (size_t i = 0; i < n; i++)
		if (rte_lpm_add(lpm, routes[i].addr, (uint8_t)routes[i].len, routes[i].next_hop))
			fail("rte_lpm_add");
	printf("build rte_lpm %.3f s for %zu routes\n", now() - start, n);
	FILE *f = fopen(image_path, "wb");
	if (!f || fwrite(lpm->tbl24, sizeof(lpm->tbl24), 1, f) != 1 || fwrite(lpm->tbl8, TBL8_BYTES, 1, f) != 1 ||
	    fclose(f))
		fail(image_path);
}

/* Whether a route was found is not branched on: with random keys half of such branches would be
 * predicted wrongly, and that is no property of the table. */
static __attribute__((noinline)) uint64_t single(struct rte_lpm *lpm, const uint32_t *keys, size_t n)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t next_hop;
		int found = rte_lpm_lookup(lpm, keys[i], &next_hop) == 0;
		sum += (next_hop + 1) & -(uint32_t)found;
	}
	return sum;
}

static __attribute__((noinline)) uint64_t bulk(struct rte_lpm *lpm, const uint32_t *keys, size_t n)
{
	uint64_t sum = 0;
	uint32_t entries[BURST];
	for (size_t i = 0; i + BURST <= n; i += BURST) {
		rte_lpm_lookup_bulk(lpm, keys + i, entries, BURST);
		for (int j = 0; j < BURST; j++)
			sum += ((entries[j] & 0x00ffffff) + 1) & -(uint32_t)!!(entries[j] & RTE_LPM_LOOKUP_SUCCESS);
	}
	return sum;
}

static __attribute__((noinline)) uint64_t x4(struct rte_lpm *lpm, const uint32_t *keys, size_t n)
{
	uint64_t sum = 0;
	for (size_t i = 0; i + 4 <= n; i += 4) {
		uint32_t hops[4];
		rte_lpm_lookupx4(lpm, _mm_loadu_si128((const __m128i *)(keys + i)), hops, UINT32_MAX);
		for (int j = 0; j < 4; j++)
			sum += (uint32_t)(hops[j] + 1);
	}
	return sum;
}

/* Order-sensitive, over next hop + 1, 0 for none. */
static uint64_t answers(struct rte_lpm *lpm, const uint32_t *keys, size_t n)
{
	uint64_t hash = 0;
	for (size_t i = 0; i < n; i++) {
		uint32_t next_hop;
		uint64_t answer = rte_lpm_lookup(lpm, keys[i], &next_hop) == 0 ? (uint64_t)next_hop + 1 : 0;
		hash = (hash ^ answer) * UINT64_C(0x9e3779b97f4a7c15) + 1;
	}
	return hash;
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "build")) {
		build(argv[2], argv[3]);
		return 0;
	}
	if (argc < 6 || strcmp(argv[1], "time"))
		fail("usage: rte_lpm build ROUTES IMAGE | time IMAGE huge|base REPEATS KEYS...");
	int huge = !strcmp(argv[3], "huge"), repeats = atoi(argv[4]);
	size_t bytes;
	char *image = slurp(argv[2], &bytes);
	struct rte_lpm *lpm = pages(sizeof(*lpm), huge);
	if (bytes != sizeof(lpm->tbl24) + TBL8_BYTES)
		fail("the image has another size");
	lpm->tbl8 = pages(TBL8_BYTES, huge);
	memcpy(lpm->tbl24, image, sizeof(lpm->tbl24));
	memcpy(lpm->tbl8, image + sizeof(lpm->tbl24), TBL8_BYTES);
	free(image);
	struct {
		const char *name;
		uint64_t (*run)(struct rte_lpm *, const uint32_t *, size_t);
	} variants[] = {{"single", single}, {"bulk", bulk}, {"x4", x4}};
	for (int k = 5; k < argc; k++) {
		uint32_t *keys = slurp(argv[k], &bytes);
		size_t n = bytes / sizeof(*keys);
		uint64_t hash = answers(lpm, keys, n);
		for (int r = 0; r < repeats; r++)
			for (size_t v = 0; v < sizeof(variants) / sizeof(*variants); v++) {
				double start = now();
				uint64_t sum = variants[v].run(lpm, keys, n);
				double seconds = now() - start;
				printf("time rte_lpm/4 %s %s %.3f %016lx %016lx\n", variants[v].name, argv[k],
				       (double)n / seconds / 1e6, sum, hash);
			}
		free(keys);
	}
	return 0;
}
