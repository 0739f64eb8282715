// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "executor/comm/communicator.h"

#include <memory>

namespace planloom::comm {

/// True if this process was started by an MPI launcher (mpirun, srun with PMI or PMIx) as one of several.
bool underMpiLauncher();

/// How ranks of MPI exchange data.
struct MpiOptions {
    bool sharedMemory = true; ///< collectives of ranks on one machine go through memory that they share; otherwise
                              ///< through MPI's messages
    int hosts = 0;            ///< above 0: on which the ranks, of one machine, are as if (hostOfRank); memory is shared
                              ///< within them only
};

/// Joins this process to its launcher's other processes (MPI_Init, MPI_THREAD_FUNNELED). Once per process, on the
/// thread that will communicate. Ranks must meet before it is destroyed (barrier), which ends MPI; after an error call
/// abort() instead. Where the environment variable PLANLOOM_EMULATED_NETWORK has SwitchSettings (options.hosts are
/// those then), ranks of one machine are as if on hosts behind a switch (SwitchedCommunicator): for trials only.
/// Errors: Failed (MPI could not start), BadInput (that variable).
Result<std::unique_ptr<Communicator>> joinMpi(const MpiOptions &options = {});

} // namespace planloom::comm
