#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Guess: RocksDB's own operator that adds 64-bit integers fails where the value is not of 8 bytes:
# the merge, or else each later read of the key, with Status::Corruption. The value is not lost.
# Seen, RocksDB 7.8.3: a value of another length counts as 0 and is replaced, without an error to
# anybody; only the log file says so. A counter that somebody put as the text "12" is 1 after one
# merge of 1. A merge of 2 bytes counts as 0 and leaves 8 zero bytes. In a TransactionDB it is the
# same.
set -eu
cd "$(dirname "$0")/.."
. findings/packages

install bookworm gcc libc6-dev librocksdb-dev=7.8.3-2
compile merge gcc -lrocksdb <<'C'
#include <rocksdb/c.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
static rocksdb_transactiondb_t *db;
static rocksdb_writeoptions_t *writes;
static rocksdb_readoptions_t *reads;
static void look(const char *put, size_t put_bytes, const void *merged, size_t merged_bytes)
{
    char *error = NULL, *value;
    uint64_t number = 0;
    size_t bytes = 0;

    rocksdb_transactiondb_put(db, writes, "k", 1, put, put_bytes, &error);
    rocksdb_transactiondb_merge(db, writes, "k", 1, merged, merged_bytes, &error);
    value = rocksdb_transactiondb_get(db, reads, "k", 1, &bytes, &error);
    memcpy(&number, value, bytes == sizeof number ? bytes : 0);
    printf("value of %zu bytes + merge of %zu: %s, %zu bytes, %d\n", put_bytes, merged_bytes,
           error ? error : "ok", bytes, (int)number);
}
int main(void)
{
    rocksdb_options_t *how = rocksdb_options_create();
    uint64_t one = 1, twelve = 12;
    char *error = NULL;

    rocksdb_options_set_create_if_missing(how, 1);
    rocksdb_options_set_uint64add_merge_operator(how);
    db = rocksdb_transactiondb_open(how, rocksdb_transactiondb_options_create(), "db", &error);
    writes = rocksdb_writeoptions_create();
    reads = rocksdb_readoptions_create();
    look((char *)&twelve, sizeof twelve, &one, sizeof one);
    look("12", 2, &one, sizeof one);
    look((char *)&twelve, 4, &one, sizeof one);
    look((char *)&twelve, sizeof twelve, "1", 1);
    look("12", 2, "1", 1);
    return 0;
}
C
still "value of 8 bytes + merge of 8: ok, 8 bytes, 13
value of 2 bytes + merge of 8: ok, 8 bytes, 1
value of 4 bytes + merge of 8: ok, 8 bytes, 1
value of 8 bytes + merge of 1: ok, 8 bytes, 12
value of 2 bytes + merge of 1: ok, 8 bytes, 0" "$(inside ./merge)"
exit $changed
