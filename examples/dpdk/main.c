/* IPv4 forwarding with rte_lpm, on one core: a small DPDK program that marks its packets for wirespeed.
 *
 *     forward [EAL options] -- [PACKETS]
 *
 * Packets come from the first port, 64 B from a null port (--vdev=net_null0) or a capture (--vdev=net_pcap0,rx_pcap=FILE,
 * tx_drop=1). Those of a null port hold nothing: they get a header with a random destination, as a NIC would have written
 * it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_lpm.h>
#include <rte_mbuf.h>

#include "wirespeed_probe.h"

enum { BURST = 32, DESCRIPTORS = 1024, MBUFS = 4095, CACHE = 250, ROUTES = 100000, TBL8_GROUPS = 4096, HOPS = 64 };
enum { EMPTY_POLLS = 1000000 };

static struct rte_ether_hdr adjacency[HOPS];
static uint64_t state = 0x9e3779b97f4a7c15u;

static uint32_t drawn(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static struct rte_lpm *routes(void)
{
    struct rte_lpm_config config = {.max_rules = ROUTES + 1, .number_tbl8s = TBL8_GROUPS, .flags = 0};
    struct rte_lpm *lpm = rte_lpm_create("routes", SOCKET_ID_ANY, &config);
    if (lpm == NULL)
        rte_exit(EXIT_FAILURE, "rte_lpm_create: %s\n", rte_strerror(rte_errno));
    for (int i = 0; i < ROUTES; i++) {
        /* One route in thirty is longer than 24 bits. */
        uint8_t length = i % 30 ? (uint8_t)(16 + drawn() % 9) : (uint8_t)(25 + drawn() % 4);
        rte_lpm_add(lpm, drawn(), length, (uint32_t)(i % HOPS));
    }
    rte_lpm_add(lpm, 0, 1, 0);
    rte_lpm_add(lpm, 0x80000000, 1, 1);
    return lpm;
}

/* What a NIC would have written. */
static void fill(struct rte_mbuf *mbuf)
{
    struct rte_ether_hdr *frame = rte_pktmbuf_mtod(mbuf, struct rte_ether_hdr *);
    struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(frame + 1);
    frame->ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
    memset(ip, 0, sizeof *ip);
    ip->version_ihl = RTE_IPV4_VHL_DEF;
    ip->time_to_live = 64;
    ip->dst_addr = rte_cpu_to_be_32(drawn());
}

/* Whether the packet may leave. */
static int forward(struct rte_lpm *lpm, struct rte_mbuf *mbuf)
{
    struct rte_ether_hdr *frame = rte_pktmbuf_mtod(mbuf, struct rte_ether_hdr *);
    struct rte_ipv4_hdr *ip = (struct rte_ipv4_hdr *)(frame + 1);
    uint32_t hop;
    if (frame->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4) || rte_pktmbuf_pkt_len(mbuf) < 34)
        return 0;
    if (rte_lpm_lookup(lpm, rte_be_to_cpu_32(ip->dst_addr), &hop) != 0 || ip->time_to_live <= 1)
        return 0;
    ip->time_to_live--;
    ip->hdr_checksum = (uint16_t)(ip->hdr_checksum + 1);
    rte_ether_addr_copy(&adjacency[hop].dst_addr, &frame->dst_addr);
    rte_ether_addr_copy(&adjacency[hop].src_addr, &frame->src_addr);
    return 1;
}

int main(int argc, char **argv)
{
    int used = rte_eal_init(argc, argv);
    if (used < 0)
        rte_exit(EXIT_FAILURE, "rte_eal_init: %s\n", rte_strerror(rte_errno));
    uint64_t wanted = argc > used + 1 ? strtoull(argv[used + 1], NULL, 10) : 4096;
    if (rte_eth_dev_count_avail() < 1)
        rte_exit(EXIT_FAILURE, "no port: --vdev=net_null0 is one\n");

    uint16_t port = 0;
    struct rte_mempool *pool = rte_pktmbuf_pool_create("mbufs", MBUFS, CACHE, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    struct rte_eth_conf none = {0};
    struct rte_eth_dev_info info;
    if (pool == NULL || rte_eth_dev_info_get(port, &info) || rte_eth_dev_configure(port, 1, 1, &none) ||
        rte_eth_rx_queue_setup(port, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL, pool) ||
        rte_eth_tx_queue_setup(port, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL) || rte_eth_dev_start(port))
        rte_exit(EXIT_FAILURE, "the port cannot be set up: %s\n", rte_strerror(rte_errno));
    int made = info.driver_name != NULL && strcmp(info.driver_name, "net_null") == 0;

    struct rte_lpm *lpm = routes();
    WIRESPEED_REGION_SHARED("tbl24", lpm->tbl24, sizeof lpm->tbl24);
    WIRESPEED_REGION_SHARED("tbl8", lpm->tbl8, TBL8_GROUPS * RTE_LPM_TBL8_GROUP_NUM_ENTRIES * sizeof *lpm->tbl8);
    WIRESPEED_REGION_SHARED("adjacencies", adjacency, sizeof adjacency);

    uint64_t received = 0, sent = 0;
    for (int empty = 0; received < wanted && empty < EMPTY_POLLS; empty++) {
        struct rte_mbuf *burst[BURST], *out[BURST];
        uint16_t n = rte_eth_rx_burst(port, 0, burst, BURST), kept = 0;
        for (uint16_t i = 0; i < n; i++) {
            if (made)
                fill(burst[i]);
            WIRESPEED_BEGIN_MBUF(rte_pktmbuf_mtod(burst[i], void *), rte_pktmbuf_pkt_len(burst[i]), burst[i]);
            if (forward(lpm, burst[i])) {
                WIRESPEED_END();
                out[kept++] = burst[i];
            } else {
                WIRESPEED_DROP();
                rte_pktmbuf_free(burst[i]);
            }
        }
        uint16_t gone = rte_eth_tx_burst(port, 0, out, kept);
        for (uint16_t i = gone; i < kept; i++)
            rte_pktmbuf_free(out[i]);
        received += n;
        sent += gone;
        if (n > 0)
            empty = 0;
    }
    printf("%" PRIu64 " packets received, %" PRIu64 " sent\n", received, sent);
    rte_eth_dev_stop(port);
    rte_eal_cleanup();
    return received > 0 ? 0 : 1;
}
