/* SPDX-License-Identifier: BSD-3-Clause */
/* The stores of mpi_examples/kv_ycsb; bench/kv_rivals has a list of its own. */
#include "kv_ycsb.h"

const struct kv_backend *const kv_backends[] = { &kv_loco, &kv_mpi, &kv_tree, &kv_hash, NULL };
