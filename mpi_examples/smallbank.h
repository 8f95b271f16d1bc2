/* SPDX-License-Identifier: BSD-3-Clause */
/* SmallBank's tables, kinds of transactions and amounts, for a store that has them as scripts. */
#ifndef MPI_EXAMPLES_SMALLBANK_H
#define MPI_EXAMPLES_SMALLBANK_H

#include "tx_workload.h"

enum { SAVINGS, CHECKING };

enum { AMALGAMATE, BALANCE, DEPOSIT_CHECKING, SEND_PAYMENT, TRANSACT_SAVING, WRITE_CHECK };

extern const struct tx_workload smallbank_workload;

/* In cents. */
enum { DEPOSIT = 130, PAYMENT = 500, SAVING = 2020, CHECK = 500, PENALTY = 100 };

#endif
