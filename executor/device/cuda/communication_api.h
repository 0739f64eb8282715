// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/device/cuda/cuda_api.h"

#include <climits>
#include <cstddef>
#include <cstdint>

/// NCCL, as far as it is used: a table of functions, so that tests can put another provider in their place.
/// library/communication.cpp compares all of it with the header, where that is installed.
namespace planloom::cuda {

/// ncclComm_t.
using TeamHandle = struct TeamObject *;

inline constexpr int kTeamSuccess = 0;
inline constexpr int kTeamCudaError = 1;
inline constexpr int kTeamInvalidArgument = 4;
inline constexpr int kTeamRemoteError = 6;
inline constexpr int kTeamInProgress = 7;
inline constexpr int kTeamSum = 0; ///< of reductions
/// 2.22: the first that aborts several communicators as a group. ncclCommRegister and ncclMemAlloc are of 2.19,
/// non-blocking communicators of 2.14.
inline constexpr int kOldestCommunicationVersion = 22200;

enum class TeamData : int { Bytes = 1, Float32 = 7, Float64 = 8, BFloat16 = 9 };

/// ncclUniqueId.
struct TeamId {
    char bytes[128];
};

/// ncclConfig_t as of 2.18 and what follows directly; newer libraries read as much of it as `size` says.
struct TeamConfig {
    std::size_t size = sizeof(TeamConfig);
    unsigned int magic = 0xcafebeef;
    unsigned int version = 21800;
    int blocking = 0;
    int clusterSize = INT_MIN; ///< INT_MIN: the library's choice
    int leastBlocks = INT_MIN;
    int mostBlocks = INT_MIN;
    const char *network = nullptr;
    int splitShare = INT_MIN;
    int trafficClass = INT_MIN;
};

/// Every function that returns int returns an ncclResult_t.
struct CommunicationApi {
    int (*getVersion)(int *version);
    int (*getUniqueId)(TeamId *id);
    int (*initRank)(TeamHandle *team, int members, TeamId id, int position, TeamConfig *config);
    int (*finalize)(TeamHandle team);
    int (*destroy)(TeamHandle team);
    int (*abort)(TeamHandle team);
    const char *(*errorText)(int error);
    const char *(*lastError)(TeamHandle team);
    int (*asyncError)(TeamHandle team, int *error);
    int (*registerMemory)(TeamHandle team, void *data, std::size_t bytes, void **registration);
    int (*deregister)(TeamHandle team, void *registration);
    int (*malloc)(void **data, std::size_t bytes);
    int (*free)(void *data);
    int (*groupStart)();
    int (*groupEnd)();
    int (*allReduce)(const void *from, void *to, std::size_t count, TeamData type, int operation, TeamHandle team,
                     Stream stream);
    int (*reduceScatter)(const void *from, void *to, std::size_t countEach, TeamData type, int operation,
                         TeamHandle team, Stream stream);
    int (*allGather)(const void *from, void *to, std::size_t countEach, TeamData type, TeamHandle team, Stream stream);
    int (*broadcast)(const void *from, void *to, std::size_t count, TeamData type, int root, TeamHandle team,
                     Stream stream);
    int (*send)(const void *from, std::size_t count, TeamData type, int peer, TeamHandle team, Stream stream);
    int (*receive)(void *to, std::size_t count, TeamData type, int peer, TeamHandle team, Stream stream);
};

} // namespace planloom::cuda
