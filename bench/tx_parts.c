/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An example of transactions, with a store that has or has not logs (channels/store/tx_parts.h):
 * `--unlogged`, before all other options, leaves them out. Without them nobody can put right what a
 * process that dies leaves behind. The same program has both, so that nothing else is different.
 */
#include "tx_parts.h"

#include "store/tx_parts.h"

#include <string.h>

#undef main

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--unlogged") == 0) {
        loci_tx_parts &= ~(unsigned)LOCI_TX_LOG;
        argv[1] = argv[0];
        argv++;
        argc--;
    }
    return example_main(argc, argv);
}
