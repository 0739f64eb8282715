/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "executor/device/plugin/abi.h"

/* The third C table of a device library, which need not have it: communication between its devices, of several
 * processes and machines, without a way over the host's memory (NCCL), and between ranks that share a device, by copies
 * between their memory.
 *
 * A team is a fixed set of devices, each of another rank: all different, or all the same one. Its calls never wait:
 * collective() and messages() return at once, and poll() says when all that was asked for lies in the queue; what is
 * recorded there before that does not stand behind it. All members ask for a team's collectives in the same order; its
 * messages between two members are matched in the order in which both ask for them.
 *
 * Thread contract: all calls for one team by one thread. */

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with every change of this file. */
#define PLANLOOM_COMMUNICATION_ABI 3U
/* The symbol of a library that has the table: PlanloomCommunicationLibrary. */
#define PLANLOOM_COMMUNICATION_LIBRARY "planloomCommunicationTable"

#define PLANLOOM_TEAM_ID_BYTES 128
#define PLANLOOM_IDENTITY_BYTES 48

typedef struct PlanloomTeam PlanloomTeam;

typedef struct PlanloomTeamOptions {
    const char *id; /* PLANLOOM_TEAM_ID_BYTES, of makeId() by one of the members */
    int32_t members;
    int32_t position; /* of this member */
    int32_t
        blocks; /* of threads at most that one of its collectives occupies the device with; 0: the library's choice */
    int32_t shares; /* 1: all members have one device. Such a team reduces no doubles; its messages go from position 0
                       to 1 */
} PlanloomTeamOptions;

/* A collective of comm/communicator.h. bytesTo, bytesFrom: NULL, or the unequal pieces of an all-to-all. */
typedef struct PlanloomCollective {
    int32_t kind;    /* cost::Collective */
    int32_t element; /* comm::Element, of reductions */
    const void *from;
    void *to;
    int64_t count; /* elements of a reduction: all of an all-reduce, those of one result of a reduce-scatter; else
                      bytes: a member's part of an all-gather, a piece of an all-to-all, all of a broadcast */
    int32_t root;
    const int64_t *bytesTo;
    const int64_t *bytesFrom;
} PlanloomCollective;

/* A message to or from the member at position @p peer. */
typedef struct PlanloomMessage {
    void *data;
    int64_t bytes;
    int32_t peer;
    int32_t sends;
} PlanloomMessage;

typedef struct PlanloomCommunicationTable {
    uint32_t abi;   /* PLANLOOM_COMMUNICATION_ABI */
    uint32_t bytes; /* of this struct */

    /* The vendor library's version, as it counts; negative: there is none, and why. */
    int32_t (*version)(PlanloomError *why);
    /* identity: of PLANLOOM_IDENTITY_BYTES, the same text for the same device in every process, and another for every
     * other device of any machine. 1: ranks may share the device in a team; 0: not. */
    int32_t (*identify)(PlanloomDevice *device, char *identity, PlanloomError *why);
    /* From here on the device's memory is allocated so that teams of different devices can register it; those that
     * share it cannot use it then. */
    int32_t (*prepare)(PlanloomDevice *device, PlanloomError *why);
    int32_t (*makeId)(int32_t shares, char *id, PlanloomError *why);

    /* Begins to join a team; poll() says when all members have. */
    PlanloomTeam *(*join)(PlanloomDevice *device, const PlanloomTeamOptions *how, PlanloomError *why);
    /* 1: joined, and all that was asked for lies in its queue; 0: not yet; negative: an error of the team, which ends
     * it: also of what lies in the queue already. */
    int32_t (*poll)(PlanloomTeam *team, PlanloomError *why);
    /* Device memory that the team's calls may use often; until leave() or abort(). 1: registered; 0: the library does
     * not. After poll() said 1. */
    int32_t (*use)(PlanloomTeam *team, void *data, int64_t bytes, PlanloomError *why);
    /* After poll() said 1. */
    int32_t (*collective)(PlanloomTeam *team, PlanloomQueue *queue, const PlanloomCollective *what, PlanloomError *why);
    int32_t (*messages)(PlanloomTeam *team, PlanloomQueue *queue, const PlanloomMessage *messages, int64_t count,
                        PlanloomError *why);
    /* Begins to leave, with nothing under way; poll() says when all members have begun to, and it may be closed. */
    int32_t (*leave)(PlanloomTeam *team, PlanloomError *why);
    /* Ends what is under way in all of these teams at once, here; its results are garbage. Only close() may follow.
     * To abort one team may wait for what the device does for others: those of a device go together. */
    void (*abort)(PlanloomTeam *const *teams, int64_t count);
    /* Aborts it, unless it has left. */
    void (*close)(PlanloomTeam *team);
} PlanloomCommunicationTable;

typedef const PlanloomCommunicationTable *(*PlanloomCommunicationLibrary)(void);

#ifdef __cplusplus
}
#endif
