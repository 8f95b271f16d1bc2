/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_TX_PARTS_H
#define BENCH_TX_PARTS_H

/* Included before an example's source, whose main() is called by another one (tx_parts.c). */
int example_main(int argc, char **argv);
#define main example_main

#endif
