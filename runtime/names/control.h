/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef LOCI_CONTROL_H
#define LOCI_CONTROL_H

#include "endpoint.h"
#include "runtime.h"

/* Control messages: how endpoints of one name find each other (endpoint_join.c). One little
 * struct, sent as far as its regions reach. What arrives comes from another process: nothing of it
 * is believed before loci_control_parse has looked at all of it. */

#define LOCI_CONTROL_MAGIC UINT32_C(0x4f434f4c)
#define LOCI_CONTROL_VERSION 3

/* Joins and rejects want an answer; their sender may send them again until it has one. */
enum loci_control_type {
    LOCI_CONTROL_JOIN = 1,      /* I have an endpoint of this name, and it looks so */
    LOCI_CONTROL_CONNECT,       /* mine fits yours; here are my keys, but I have not got yours */
    LOCI_CONTROL_CONNECTED,     /* the same, and I have got yours */
    LOCI_CONTROL_REJECT,        /* mine differs from yours; it looks so */
    LOCI_CONTROL_GONE,          /* you need not wait for the one of mine that you named: it has
                                   been destroyed, or knows that it differs */
    LOCI_CONTROL_RING,          /* wake your sleepers and look into your inbox, or wake your
                                   poller for a channel; says nothing of any endpoint */
    LOCI_CONTROL_LEAVE,         /* your keys are used no more by the one of mine that you sent
                                   them to, nor by those before it */
    LOCI_CONTROL_SEEK,          /* a join, for the second time: if you have none of this name, say
                                   what you have instead */
    LOCI_CONTROL_SIMILAR        /* this name, which lacks you; the one that was sought ends it */
};

struct loci_control_region {
    char name[LOCI_REGION_NAME];
    uint64_t len;
    int32_t from;               /* rank that provides it, or LOCI_FROM_ALL, _SOME */
    uint32_t pad;
    struct loci_memkey key;     /* of connect, connected; NONE where nothing is provided */
};

struct loci_control {
    uint32_t magic;
    uint16_t version;
    uint16_t type;              /* enum loci_control_type */
    uint32_t len;               /* bytes of the message */
    int32_t rank;               /* the sender's in the group; of a gone, the receiver's */
    uint64_t from;              /* which of the sender's endpoints; never used twice */
    uint64_t to;                /* which of the receiver's it is for; 0 in a join: any */
    uint64_t members;           /* hash of the group's identities in order */
    uint32_t size;              /* of the group */
    uint32_t nregions;
    uint64_t checksum;          /* of all the rest */
    char name[LOCI_NAME_MAX];
    char channel[LOCI_TYPE_NAME];       /* its type; and its properties */
    uint64_t property[LOCI_PROPERTIES_MAX];
    struct loci_control_region region[LOCI_REGIONS_MAX];
};

_Static_assert(sizeof(struct loci_control) <= LOCI_CONTROL_MAX, "a message fits the fabric's");

/* Whether a message of that type carries keys. */
static inline bool loci_control_has_keys(unsigned type)
{
    return type == LOCI_CONTROL_CONNECT || type == LOCI_CONTROL_CONNECTED;
}

/* Bytes of a message with that many regions. */
static inline size_t loci_control_len(unsigned nregions)
{
    return offsetof(struct loci_control, region)
           + nregions * sizeof(struct loci_control_region);
}

/* The last thing done to a message before it is sent: what is then changed of it shows. */
void loci_control_seal(struct loci_control *m);
/* Copy a message out of what arrived, unused regions zero. LOCO_ERR_PROTOCOL where anything is
 * out of its range; *why is then a static text, and *out as it was. */
int loci_control_parse(const void *message, size_t len, struct loci_control *out,
                       const char **why);

/* Wake the sleepers of a peer by a message to its service thread; `number`: loci_ring_for. */
int loci_control_ring(struct loco_runtime *rt, int peer, uint32_t number);

/* endpoint_join.c: handle a message that was parsed, in the service thread. */
void loci_names_receive(struct loco_runtime *rt, int peer, const struct loci_control *message);

#endif
