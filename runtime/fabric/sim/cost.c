/* SPDX-License-Identifier: BSD-3-Clause */

/* Profiles. What is published is mostly the sum of a round trip and the rate of a device; how a
 * sum falls into its parts is estimated, so that the sums and rates come out as published (which
 * tests/simulation/cost.c checks). M stands for measured by somebody, D for a device's document,
 * E for estimated.
 *
 * ib100: ConnectX-4 MCX455A, one SB7890 switch, 100 Gb/s InfiniBand (KRCore, section 5; rTX,
 * section 5 use that machine; Spindle, section 4: 100 Gb/s, too).
 *   M  read of 8 bytes, waited for: 2150 ns (KRCore, figure 10a, verbs, one client)
 *   M  write of 1 byte: 1730 ns, of 4 KiB: 2460 ns (Spindle, figure 1)
 *   M  one device serves 138 M reads/s, 145 M writes/s (KRCore, figures 10b, 10d); a ConnectX-6
 *      110 M/s, sent or served (SMART, sections 3.1 and 6): device, device_in
 *   M  a compare and swap alone takes as long as a read, but is dearer to the device, which reads,
 *      locks and computes (rTX, section 5.5): atomic, about a read through PCIe each. A sequencer
 *      on fetch-and-add is 50 times slower than one that needs none (Kalia et al., USENIX ATC 2016,
 *      abstract): with some 120 M/s for that, 2.4 M/s or 410 ns
 *   D  100 Gb/s are 80 ps per byte; a packet carries LRH 8, BTH 12, RETH 16, ICRC 4 and VCRC 2
 *      bytes besides its payload (InfiniBand Architecture Specification 1.3)
 *   E  post 80: two cache lines written, one of them to the device. Spindle's authors see 1000
 *      ("~1 us in our setting"), SMART's see locks of doorbells there; runtime/ has one per thread
 *   E  doorbell, fetch, place, complete: PCIe 3.0 takes some 200 ns one way, 400 there and back
 *   E  inline_max: what mlx5 grants to a queue of ordinary size; queue_pair: 20 M/s each
 *   E  wire: what is left of the read's 2150 ns, halved
 *   E  message: a system call, a wake-up of the service thread and its way through the network
 *
 * roce25: ConnectX-5, one port of 25 Gb/s Ethernet (LOCO, section 7: c6525-25g of CloudLab).
 *   D  25 Gb/s are 320 ps per byte; a packet carries preamble 8, Ethernet 14, IPv4 20, UDP 8, BTH
 *      12, RETH 16, ICRC 4, FCS 4 and a gap of 12 bytes besides its payload (IEEE 802.3, RoCEv2
 *      annex A17)
 *   D  port to port below 600 ns (ConnectX-5 EN product brief; SMART says the same of ConnectX-6)
 *   E  wire: a store-and-forward or cut-through switch of a data centre takes longer than one of
 *      InfiniBand: 800 ns instead of 600
 *   The rest is as of ib100: the same PCIe, the device's successor. LOCO publishes no latency.
 *
 * ib200: ConnectX-6, one switch, 200 Gb/s InfiniBand behind PCIe 3.0 x16, two processors of 24
 * cores (SMART, section 6). Fitted to the points of its figures 3 and 4, so it says nothing of
 * another machine, and of this one no more than the fit does: docs/loco-sim-model.md has its error.
 *   D  128 Gb/s of PCIe are 63 ps per byte
 *   M  110 M/s sent, reads; 90 M/s writes (figure 4): device, device_write
 *   M  post, poll, ring and the runtime's own steps: a batch of k reads by one thread in
 *      2.55 + 0.245 (k - 1) us (figure 4, a row of 12 threads); writes the same, so not inline
 *   M  ring_shared, ring_each: 96 threads in 12 registers ring 19.2 M/s, 24 of them 39.1 M/s
 *      (figure 3, a queue pair for each thread)
 *   E  atomic, queue_pair, doorbell, fetch, place, complete: as of ib100
 *   M  read_misses, write_misses: the fall of figure 4 beyond some 1000 requests. The vendor does
 *      not say how many a device keeps. Requests count, not bytes
 *
 * Setups: what a connection takes on ib100's machines (KRCore, sections 2.3 and 5). The paper's own
 * numbers do not fit one device: it says that a node makes 712 connections a second (8a), and 240
 * workers on 10 machines, 5184 queue pairs of other machines for each device, are all connected in
 * 2.7 s (8b). So there are two:
 *
 * krcore: as the text says.
 *   M  context, pair: one client's connect is 15.7 ms, 2 ms where the driver is loaded (figure 8a)
 *   M  pair_device: 712 connections a second of a node, "bottlenecked by the RNIC": 1404 us
 *   M  handshake: 2.4 % of 15.7 ms (figure 3)
 *   E  context_device: figure 16 has 180 new workers at work after 1.4 s with verbs, 1.0 s where
 *      the driver is loaded. With 90 of them on each of 2 machines, and a connection to each of the
 *      other 8, a device makes 720: 1.01 s. So 0.4 s are left for 90 contexts. The paper does not
 *      say on how many machines they were
 *   E  memory: some 50 us, and 0.4 us for a page of 4 KiB
 *   M  handle: 11.8 times fewer look-ups by messages through one thread than 22 million by reads
 *      (figure 9a), 535 ns each, of which the answer's post and poll are 120
 *   M  call: 1 us (section 5.2)
 *   E  wake: 3 us, a futex of another core
 * krcore_mesh: the same, but with as much of the device as fits figure 8b: create_qp (413 us). */

#include "config.h"

#include <stddef.h>
#include <string.h>

#include "cost.h"

const struct loci_sim_cost loci_sim_costs[] = {
    { .name = "roce25", .about = "25 Gb/s RoCE, ConnectX-5 (LOCO, section 7)",
      .step = 1, .post = 80, .poll = 40,
      .doorbell = 200, .fetch = 400, .place = 200, .complete = 200, .inline_max = 220,
      .device = 9, .device_in = 7, .queue_pair = 50, .atomic = 410,
      .byte_ps = 320, .header = 98, .mtu = 1024, .wire = 800, .loopback = 100,
      .message = 20000, .device_write = 9, .room = 256 },
    { .name = "ib100", .about = "100 Gb/s InfiniBand, ConnectX-4 (KRCore, rTX, Spindle)",
      .step = 1, .post = 80, .poll = 40,
      .doorbell = 200, .fetch = 400, .place = 200, .complete = 200, .inline_max = 220,
      .device = 9, .device_in = 7, .queue_pair = 50, .atomic = 410,
      .byte_ps = 80, .header = 42, .mtu = 4096, .wire = 600, .loopback = 100,
      .message = 20000, .device_write = 9, .room = 256 },
    { .name = "ib200", .about = "200 Gb/s InfiniBand, ConnectX-6 (SMART, section 6), fitted",
      .step = 1, .post = 70, .poll = 100, .ring = 120, .ring_shared = 140, .ring_each = 53,
      .doorbell = 200, .fetch = 400, .place = 200, .complete = 200, .inline_max = 0,
      .device = 9, .device_in = 7, .queue_pair = 50, .atomic = 410,
      .byte_ps = 63, .header = 42, .mtu = 4096, .wire = 700, .loopback = 100,
      .message = 20000, .device_write = 11, .room = 256,
      .read_misses = { 1088, 4, INT64_MAX }, .write_misses = { 900, 8, 4900 } },
    { .name = NULL },
};

const struct loci_sim_setup loci_sim_setups[] = {
    { .name = "krcore", .about = "connections of ib100 (KRCore, figures 3, 8a and 16)",
      .context = 13700000, .context_device = 4400000,
      .pair = 2000000, .pair_device = 1404000, .handshake = 377000,
      .memory = 50000, .memory_ps = 100, .handle = 415, .call = 1000, .wake = 3000 },
    { .name = "krcore_mesh", .about = "the same, less of the device (KRCore, figure 8b)",
      .context = 13700000, .context_device = 4400000,
      .pair = 2000000, .pair_device = 413000, .handshake = 377000,
      .memory = 50000, .memory_ps = 100, .handle = 415, .call = 1000, .wake = 3000 },
    { .name = NULL },
};

const struct loci_sim_setup *loci_sim_setup_named(const char *name)
{
    for (const struct loci_sim_setup *s = loci_sim_setups; s->name != NULL; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

const struct loci_sim_cost *loci_sim_cost_named(const char *name)
{
    for (const struct loci_sim_cost *c = loci_sim_costs; c->name != NULL; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

int64_t loci_sim_cost_wire(const struct loci_sim_cost *cost, uint64_t payload)
{
    uint64_t mtu = (uint64_t)cost->mtu, packets = payload <= mtu ? 1 : (payload + mtu - 1) / mtu;

    return (int64_t)(((uint64_t)cost->header * packets + payload) * (uint64_t)cost->byte_ps
                     / 1000);
}

int64_t loci_sim_cost_device_ps(const struct loci_sim_cost *cost, bool write, int64_t outstanding)
{
    const struct loci_sim_misses *misses = write ? &cost->write_misses : &cost->read_misses;
    int64_t more = outstanding > misses->kept ? (outstanding - misses->kept) * misses->ps : 0;

    return (write ? cost->device_write : cost->device) * 1000
           + (more < misses->most_ps ? more : misses->most_ps);
}

int64_t loci_sim_cost_ring(const struct loci_sim_cost *cost, int threads)
{
    return threads < 2 ? cost->ring : cost->ring_shared + cost->ring_each * threads;
}

static int64_t longer(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* To the target's device: with this payload, which comes with the doorbell. */
static int64_t request(const struct loci_sim_cost *c, uint64_t payload)
{
    return c->post + c->ring + c->doorbell
           + longer(c->device, loci_sim_cost_wire(c, payload)) + c->wire;
}

int64_t loci_sim_cost_write(const struct loci_sim_cost *c, uint64_t len)
{
    return request(c, len) + (len > (uint64_t)c->inline_max ? c->fetch : 0) + c->wire
           + c->complete + c->poll;
}

int64_t loci_sim_cost_read(const struct loci_sim_cost *c, uint64_t len)
{
    return request(c, 0) + c->fetch + loci_sim_cost_wire(c, len) + c->wire + c->complete
           + c->poll;
}

int64_t loci_sim_cost_atomic(const struct loci_sim_cost *c)
{
    return request(c, 2 * sizeof(uint64_t)) + c->atomic + loci_sim_cost_wire(c, 8) + c->wire
           + c->complete + c->poll;
}
