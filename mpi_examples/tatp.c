/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TATP (Neuvonen, Wolski, Manner and Raatikka, "Telecom Application Transaction Processing
 * benchmark", 2009) as it is run over RDMA: by FaSST (OSDI 2016), FORD (FAST 2022) and others. The
 * registers of a mobile network: a subscriber has up to 4 rows of access information and up to 4
 * special facilities, each with up to 3 call forwardings; half of the latter are there at the
 * beginning, which is the steady state. 80 % of the transactions only read; some find nothing,
 * which is part of the benchmark.
 *
 * A row has its number, so that one that is read in another's place is noticed. Counters in the
 * rows, and which call forwardings are there, have to add up to what transactions did.
 */
#include "tx_example.h"

enum { SUBSCRIBER, SUBSCRIBER_OF_NUMBER, ACCESS_INFO, SPECIAL_FACILITY, CALL_FORWARDING };

enum { GET_SUBSCRIBER_DATA, GET_NEW_DESTINATION, GET_ACCESS_DATA, UPDATE_SUBSCRIBER_DATA,
       UPDATE_LOCATION, INSERT_CALL_FORWARDING, DELETE_CALL_FORWARDING };

enum { FORWARDINGS, LOCATIONS, BITS, DATA };    /* the sums */

enum { TYPES = 4, STARTS = 3, HOURS = 24, HOURS_EACH = 8, ACTIVE_PERCENT = 85 };

struct subscriber {
    uint64_t number;
    uint64_t location;
    uint64_t locations;     /* updates of it */
    uint64_t bits;          /* counts updates, too */
    uint8_t hex[8];
};

struct access_info {
    uint64_t key;
    uint8_t data[8];
};

struct special_facility {
    uint32_t key;           /* its low half */
    uint16_t is_active;
    uint16_t data;          /* counts updates */
};

struct call_forwarding {
    uint32_t key;           /* its low half */
    uint32_t end;
    uint8_t number[8];
};

static uint64_t facility_of(uint64_t subscriber, uint64_t type)
{
    return subscriber * TYPES + type;
}

static uint64_t forwarding_of(uint64_t facility, uint64_t start)
{
    return facility * STARTS + start;
}

/* Like tx_read, for rows that must be there. */
static int get_subscriber(struct tx *tx, struct tx_call *call, struct subscriber *s, bool to_write)
{
    int status = to_write ? tx_read_to_write(tx, SUBSCRIBER, call->key[0], s)
                          : tx_read(tx, SUBSCRIBER, call->key[0], s);

    call->wrong |= status == TX_NO_ROW || (status == TX_DONE && s->number != call->key[0]);
    return status == TX_NO_ROW ? TX_DONE : status;
}

/* Updates begin with a subscriber's number, and look up who that is. */
static int get_by_number(struct tx *tx, struct tx_call *call)
{
    uint64_t subscriber = call->key[0];
    int status = tx_read(tx, SUBSCRIBER_OF_NUMBER, call->key[0], &subscriber);

    call->wrong |= status == TX_NO_ROW || (status == TX_DONE && subscriber != call->key[0]);
    return status == TX_NO_ROW ? TX_DONE : status;
}

static int get_subscriber_data(struct tx *tx, struct tx_call *call)
{
    struct subscriber s;

    return get_subscriber(tx, call, &s, false);
}

static int get_access_data(struct tx *tx, struct tx_call *call)
{
    struct access_info a;
    int status = tx_read(tx, ACCESS_INFO, call->key[1], &a);

    call->in_vain = status == TX_NO_ROW;
    call->wrong = status == TX_DONE && a.key != call->key[1];
    return status == TX_NO_ROW ? TX_DONE : status;
}

/* Among the call forwardings that have begun by then, one that ends later. */
static int find_destination(struct tx *tx, struct tx_call *call)
{
    int status = TX_DONE;

    for (int64_t start = 0; start <= call->argument[0] && status != TX_AGAIN; start++) {
        uint64_t key = forwarding_of(call->key[1], (uint64_t)start);
        struct call_forwarding f;

        status = tx_read(tx, CALL_FORWARDING, key, &f);
        if (status != TX_DONE)
            continue;
        call->wrong |= f.key != (uint32_t)key;
        call->in_vain &= f.end <= (uint32_t)call->argument[1];
    }
    return status == TX_NO_ROW ? TX_DONE : status;
}

static int get_new_destination(struct tx *tx, struct tx_call *call)
{
    struct special_facility f;
    int status = tx_read(tx, SPECIAL_FACILITY, call->key[1], &f);

    call->in_vain = true;
    if (status != TX_DONE)
        return status == TX_NO_ROW ? TX_DONE : status;
    call->wrong = f.key != (uint32_t)call->key[1];
    return f.is_active == 0 ? TX_DONE : find_destination(tx, call);
}

static int update_subscriber_data(struct tx *tx, struct tx_call *call)
{
    struct subscriber s = { 0 };
    struct special_facility f;
    int status = get_subscriber(tx, call, &s, true);

    if (status == TX_DONE)
        status = tx_read_to_write(tx, SPECIAL_FACILITY, call->key[1], &f);
    call->in_vain = status == TX_NO_ROW;
    if (status != TX_DONE)
        return status == TX_NO_ROW ? TX_DONE : status;
    call->wrong |= f.key != (uint32_t)call->key[1];
    f.data++;
    s.bits++;
    /* The facility's counter is narrow: what it adds is what it says now less what it said. */
    call->added[BITS] = 1;
    call->added[DATA] = f.data == 0 ? -UINT16_MAX : 1;
    status = tx_write(tx, SUBSCRIBER, call->key[0], &s);
    return status == TX_DONE ? tx_write(tx, SPECIAL_FACILITY, call->key[1], &f) : status;
}

static int update_location(struct tx *tx, struct tx_call *call)
{
    struct subscriber s = { 0 };
    int status = get_by_number(tx, call);

    if (status == TX_DONE)
        status = get_subscriber(tx, call, &s, true);
    s.location = (uint64_t)call->argument[0];
    s.locations++;
    call->added[LOCATIONS] = 1;
    return status == TX_DONE ? tx_write(tx, SUBSCRIBER, call->key[0], &s) : status;
}

static int insert_call_forwarding(struct tx *tx, struct tx_call *call)
{
    uint64_t key = forwarding_of(call->key[1], (uint64_t)call->argument[0]);
    struct call_forwarding row;
    struct special_facility f;
    int status = get_by_number(tx, call);

    if (status == TX_DONE)
        status = tx_read(tx, SPECIAL_FACILITY, call->key[1], &f);
    call->in_vain = status == TX_NO_ROW;
    if (status != TX_DONE)
        return status == TX_NO_ROW ? TX_DONE : status;
    status = tx_read_to_write(tx, CALL_FORWARDING, key, &row);
    call->in_vain = status == TX_DONE;
    if (status != TX_NO_ROW)
        return status;
    row = (struct call_forwarding){ .key = (uint32_t)key, .end = (uint32_t)call->argument[1] };
    call->added[FORWARDINGS] = 1;
    return tx_write(tx, CALL_FORWARDING, key, &row);
}

static int delete_call_forwarding(struct tx *tx, struct tx_call *call)
{
    uint64_t key = forwarding_of(call->key[1], (uint64_t)call->argument[0]);
    struct call_forwarding row;
    int status = get_by_number(tx, call);

    if (status == TX_DONE)
        status = tx_read_to_write(tx, CALL_FORWARDING, key, &row);
    call->in_vain = status == TX_NO_ROW;
    if (status != TX_DONE)
        return status == TX_NO_ROW ? TX_DONE : status;
    call->wrong |= row.key != (uint32_t)key;
    call->added[FORWARDINGS] = -1;
    return tx_erase(tx, CALL_FORWARDING, key);
}

/* Of the benchmark's definition: how uneven it is depends on how many there are. */
static uint64_t draw_subscriber(const struct tx_options *o, uint64_t *random)
{
    uint64_t n = (uint64_t)o->size;
    uint64_t a = n <= 1000000 ? 65535 : n <= 10000000 ? 1048575 : 2097151;

    return (tx_below(random, n) | tx_below(random, a + 1)) % n;
}

/* key: the subscriber, and the row of access information or the special facility. */
static void draw(const struct tx_options *o, uint64_t *random, struct tx_call *call)
{
    call->key[0] = draw_subscriber(o, random);
    if (call->kind == GET_SUBSCRIBER_DATA)
        return;
    call->key[1] = facility_of(call->key[0], tx_below(random, TYPES));
    if (call->kind == GET_ACCESS_DATA)
        return;
    call->argument[0] = (int64_t)tx_below(random, STARTS);
    call->argument[1] = (int64_t)tx_below(random, HOURS);
}

/* 1 to 4 of the 4 types, each number and each choice as likely as any. */
static bool has_type(uint64_t key, uint64_t salt)
{
    uint64_t random = tx_mix(key / TYPES ^ salt << 56) | 1;
    uint64_t wanted = 1 + tx_below(&random, TYPES), type = key % TYPES;

    for (uint64_t i = 0; i < TYPES; i++) {
        bool chosen = tx_below(&random, TYPES - i) < wanted;

        if (i == type)
            return chosen;
        wanted -= chosen;
    }
    return false;
}

static bool initial_forwarding(uint64_t key, struct call_forwarding *f)
{
    uint64_t random = tx_mix(key ^ UINT64_C(1) << 60) | 1;

    *f = (struct call_forwarding){ .key = (uint32_t)key };
    f->end = 1 + (uint32_t)tx_below(&random, HOURS);
    return has_type(key / STARTS, SPECIAL_FACILITY) && tx_below(&random, 2) == 0;
}

static bool initial(int table, uint64_t key, void *row)
{
    uint64_t random = tx_mix(key ^ UINT64_C(2) << 60) | 1;

    switch (table) {
    case SUBSCRIBER:
        *(struct subscriber *)row = (struct subscriber){ .number = key };
        return true;
    case SUBSCRIBER_OF_NUMBER:
        *(uint64_t *)row = key;
        return true;
    case ACCESS_INFO:
        *(struct access_info *)row = (struct access_info){ .key = key };
        return has_type(key, ACCESS_INFO);
    case SPECIAL_FACILITY:
        *(struct special_facility *)row = (struct special_facility){
            .key = (uint32_t)key, .is_active = tx_below(&random, 100) < ACTIVE_PERCENT
        };
        return has_type(key, SPECIAL_FACILITY);
    default:
        return initial_forwarding(key, row);
    }
}

static bool add(int table, uint64_t key, const void *row, int64_t sums[TX_SUMS])
{
    const struct special_facility *facility = row;
    const struct subscriber *s = row;

    switch (table) {
    case SUBSCRIBER:
        sums[LOCATIONS] += (int64_t)s->locations;
        sums[BITS] += (int64_t)s->bits;
        return s->number == key;
    case SUBSCRIBER_OF_NUMBER:
        return *(const uint64_t *)row == key;
    case ACCESS_INFO:
        return ((const struct access_info *)row)->key == key;
    case SPECIAL_FACILITY:
        sums[DATA] += facility->data;
        return facility->key == (uint32_t)key;
    default:
        sums[FORWARDINGS]++;
        return ((const struct call_forwarding *)row)->key == (uint32_t)key;
    }
}

static const struct tx_workload tatp = {
    .name = "tatp",
    .text = "Transactions on the registers of a mobile network: TATP, as transaction systems over\n"
            "RDMA run it.",
    .size_name = "subscribers",
    .tables = 5,
    .table = {
        [SUBSCRIBER] = { "subscriber", 1, sizeof(struct subscriber) },
        [SUBSCRIBER_OF_NUMBER] = { "subscriber_of_number", 1, 8 },
        [ACCESS_INFO] = { "access_info", TYPES, sizeof(struct access_info) },
        [SPECIAL_FACILITY] = { "special_facility", TYPES, sizeof(struct special_facility) },
        [CALL_FORWARDING] = { "call_forwarding", TYPES * STARTS, sizeof(struct call_forwarding) },
    },
    .kinds = 7,
    .kind = {
        [GET_SUBSCRIBER_DATA] = { "get subscriber data", 35, true, get_subscriber_data },
        [GET_NEW_DESTINATION] = { "get new destination", 10, true, get_new_destination },
        [GET_ACCESS_DATA] = { "get access data", 35, true, get_access_data },
        [UPDATE_SUBSCRIBER_DATA] = { "update subscriber data", 2, false, update_subscriber_data },
        [UPDATE_LOCATION] = { "update location", 14, false, update_location },
        [INSERT_CALL_FORWARDING] = { "insert call forwarding", 2, false, insert_call_forwarding },
        [DELETE_CALL_FORWARDING] = { "delete call forwarding", 2, false, delete_call_forwarding },
    },
    .sums = 4,
    .sum_name = { "call forwardings", "locations", "bits", "data" },
    .initial = initial,
    .add = add,
    .draw = draw,
};

int main(int argc, char **argv)
{
    return tx_example(argc, argv, &tatp);
}
