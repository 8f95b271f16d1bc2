/* SPDX-License-Identifier: BSD-3-Clause */
/* What the examples themselves have; bench/tx_rivals.c has more. */
#include "tx_example.h"

const struct tx_backend *const tx_backends[] = { &tx_loco, &tx_tree, &tx_hash, NULL };
