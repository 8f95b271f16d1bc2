/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_VERBS_CONNECT_H
#define LOCI_VERBS_CONNECT_H

#include "qp.h"
#include "verbs.h"

/* What processes tell each other of queue pairs (connect.c), as it is sent. */

enum verbs_message_kind { VERBS_CONNECT = 1, VERBS_ACCEPT, VERBS_REFUSE, VERBS_DROP };

struct verbs_message {
    uint32_t kind;
    uint32_t anchor_key;        /* ACCEPT */
    uint32_t replaced;          /* CONNECT: the end of the lane before; 0: there was none */
    uint32_t unused;
    uint64_t call;              /* CONNECT; its ACCEPT or REFUSE has the same */
    uint64_t anchor;            /* ACCEPT */
    struct loci_qp_place place; /* of the sender's queue pair, or end; DROP: only its number */
};

#endif
