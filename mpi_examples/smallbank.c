/* SPDX-License-Identifier: BSD-3-Clause */
/* The workload of smallbank_workload.c, on the stores of tx_backends. */
#include "smallbank.h"
#include "tx_example.h"

int main(int argc, char **argv)
{
    return tx_example(argc, argv, &smallbank_workload);
}
