/* SPDX-License-Identifier: BSD-3-Clause */
#include <loco/status.h>

const char *loco_strerror(int status)
{
    switch (status) {
    case LOCO_OK: return "done";
    case LOCO_IN_PROGRESS: return "started, not finished";
    case LOCO_ERR_ARG: return "an argument is outside what the call documents";
    case LOCO_ERR_RANGE: return "offset and length reach outside the region";
    case LOCO_ERR_STATE: return "not allowed in this state";
    case LOCO_ERR_NAME: return "name in use, empty or too long";
    case LOCO_ERR_MISMATCH: return "members created it with different arguments";
    case LOCO_ERR_SHARED: return "that memory cannot be shared with this process";
    case LOCO_ERR_ATTACH: return "no attached memory there, or it overlaps what is attached";
    case LOCO_ERR_NO_MEMORY: return "less memory is left than was asked for";
    case LOCO_ERR_SYSTEM: return "a system call failed";
    case LOCO_ERR_UNSUPPORTED: return "no fabric reaches that peer, or it is not built in";
    case LOCO_ERR_TIMEOUT: return "timed out";
    case LOCO_ERR_AGAIN: return "would have to wait";
    case LOCO_ERR_DAMAGED: return "a file does not hold what was written to it";
    case LOCO_ERR_NOT_FOUND: return "there is no such key or object";
    case LOCO_ERR_EXISTS: return "the key is there already";
    case LOCO_ERR_FULL: return "no room is left";
    case LOCO_ERR_SIZE: return "the value has another size";
    case LOCO_ERR_DIFFERS: return "the value is not the one that was expected";
    case LOCO_ERR_CONFLICT: return "another transaction was in the way";
    case LOCO_ERR_CLOSED: return "it was closed";
    case LOCO_ERR_PEER_DEAD: return "a process that the call needs has ended";
    case LOCO_ERR_PARTITIONED: return "cut off from most members of the view";
    case LOCO_ERR_PROTOCOL: return "a peer sent what this version does not understand";
    default: return status < 0 ? "unknown error" : "unknown status";
    }
}
