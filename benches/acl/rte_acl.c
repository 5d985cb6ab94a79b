/* Classifies with rte_acl of the DPDK that is installed. See run.py, which prepares the input and compares.
 *
 * usage: rte_acl RULES KEYS REPEATS ANSWERS
 *
 * RULES has 8 words of 4 bytes a rule: source, its prefix length, destination, its prefix length, source ports (first, and
 * last in the upper half), destination ports, protocol (and its mask in the second byte), flags (and their mask in the upper
 * half). KEYS has 5 words a packet: source, destination, ports (source, and destination in the upper half), protocol,
 * flags. ANSWERS gets a word a packet: the number of its first rule plus 1, or 0. */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_acl.h>
#include <rte_eal.h>
#include <rte_errno.h>

enum { FIELDS = 6, BURST = 32 };

RTE_ACL_RULE_DEF(rule, FIELDS);

/* What is classified, in network byte order; after the first byte fields go in groups of 4. */
struct key {
	uint8_t proto;
	uint8_t pad[3];
	uint32_t src, dst;
	uint16_t src_port, dst_port;
	uint32_t flags;
};

static const struct rte_acl_field_def defs[FIELDS] = {
	{RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, 0, offsetof(struct key, proto)},
	{RTE_ACL_FIELD_TYPE_MASK, 4, 1, 1, offsetof(struct key, src)},
	{RTE_ACL_FIELD_TYPE_MASK, 4, 2, 2, offsetof(struct key, dst)},
	{RTE_ACL_FIELD_TYPE_RANGE, 2, 3, 3, offsetof(struct key, src_port)},
	{RTE_ACL_FIELD_TYPE_RANGE, 2, 4, 3, offsetof(struct key, dst_port)},
	{RTE_ACL_FIELD_TYPE_BITMASK, 4, 5, 4, offsetof(struct key, flags)},
};

static void fail(const char *what)
{
	fprintf(stderr, "rte_acl: %s\n", what);
	exit(1);
}

static uint32_t *slurp(const char *path, size_t *words)
{
	FILE *f = fopen(path, "rb");
	if (!f || fseek(f, 0, SEEK_END))
		fail(path);
	size_t bytes = (size_t)ftell(f);
	rewind(f);
	uint32_t *data = malloc(bytes + 4);
	if (!data || fread(data, 1, bytes, f) != bytes)
		fail(path);
	fclose(f);
	*words = bytes / 4;
	return data;
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		fail("usage: rte_acl RULES KEYS REPEATS ANSWERS");
	char *args[] = {"rte_acl", "--no-huge", "--no-pci", "--no-shconf", "-m", "4096", "-l", "0", "--log-level=4"};
	if (rte_eal_init(sizeof(args) / sizeof(*args), args) < 0)
		fail("rte_eal_init");
	size_t words;
	uint32_t *rules = slurp(argv[1], &words);
	size_t n = words / 8;
	struct rte_acl_param param = {
		.name = "acl", .socket_id = SOCKET_ID_ANY, .rule_size = RTE_ACL_RULE_SZ(FIELDS), .max_rule_num = (uint32_t)n};
	struct rte_acl_ctx *ctx = rte_acl_create(&param);
	if (!ctx)
		fail("rte_acl_create");
	double start = now();
	for (size_t i = 0; i < n; i++) {
		const uint32_t *w = rules + 8 * i;
		struct rule r = {.data = {.category_mask = 1, .priority = RTE_ACL_MAX_PRIORITY - (int32_t)i, .userdata = (uint32_t)i + 1}};
		r.field[0].value.u8 = (uint8_t)w[6];
		r.field[0].mask_range.u8 = (uint8_t)(w[6] >> 8);
		r.field[1].value.u32 = w[0];
		r.field[1].mask_range.u32 = w[1];
		r.field[2].value.u32 = w[2];
		r.field[2].mask_range.u32 = w[3];
		r.field[3].value.u16 = (uint16_t)w[4];
		r.field[3].mask_range.u16 = (uint16_t)(w[4] >> 16);
		r.field[4].value.u16 = (uint16_t)w[5];
		r.field[4].mask_range.u16 = (uint16_t)(w[5] >> 16);
		r.field[5].value.u32 = w[7] & 0xffff;
		r.field[5].mask_range.u32 = w[7] >> 16;
		if (rte_acl_add_rules(ctx, (struct rte_acl_rule *)&r, 1))
			fail("rte_acl_add_rules");
	}
	struct rte_acl_config config = {.num_categories = 1, .num_fields = FIELDS};
	memcpy(config.defs, defs, sizeof(defs));
	if (rte_acl_build(ctx, &config))
		fail("rte_acl_build");
	printf("build rte_acl %.3f s for %zu rules\n", now() - start, n);

	uint32_t *keys = slurp(argv[2], &words);
	size_t packets = words / 5;
	struct key *key = calloc(packets, sizeof(*key));
	const uint8_t **data = calloc(packets, sizeof(*data));
	uint32_t *answers = calloc(packets, sizeof(*answers));
	if (!key || !data || !answers)
		fail("no memory");
	for (size_t i = 0; i < packets; i++) {
		const uint32_t *w = keys + 5 * i;
		key[i] = (struct key){.proto = (uint8_t)w[3], .src = htonl(w[0]), .dst = htonl(w[1]),
			.src_port = htons((uint16_t)w[2]), .dst_port = htons((uint16_t)(w[2] >> 16)), .flags = htonl(w[4])};
		data[i] = (const uint8_t *)&key[i];
	}
	for (int repeat = atoi(argv[3]); repeat > 0; repeat--) {
		start = now();
		for (size_t i = 0; i < packets; i += BURST) {
			uint32_t count = packets - i < BURST ? (uint32_t)(packets - i) : BURST;
			if (rte_acl_classify(ctx, data + i, answers + i, count, 1))
				fail("rte_acl_classify");
		}
		printf("time rte_acl %.4f\n", (double)packets / (now() - start) * 1e-6);
	}
	FILE *f = fopen(argv[4], "wb");
	if (!f || fwrite(answers, 4, packets, f) != packets || fclose(f))
		fail(argv[4]);
	return 0;
}
