// SPDX-License-Identifier: Apache-2.0
// All-reduces of Planloom's own against MPI_Iallreduce, in turn in one run, on 2 ranks (or as many as the argument
// says) of this machine. Prints the best times, bytes per second that each rank sent, and MPI's time over ours: above 1
// is faster than MPI.
#include "engine/base/backoff.h"
#include "executor/comm/mpi_communicator.h"

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

using namespace planloom;
using namespace planloom::comm;

namespace {

constexpr std::chrono::seconds kDeadline{60};
constexpr double kSecondsPerSize = 0.4;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double ours(Communicator &end, std::vector<float> &data)
{
    const double begin = now();
    Result<Request> request = end.allReduce(end.world(), data.data(), static_cast<std::int64_t>(data.size()));
    if (!request || !end.wait(*request, kDeadline, "an all-reduce"))
        end.abort("an all-reduce failed");
    return now() - begin;
}

double theirs(std::vector<float> &data)
{
    const double begin = now();
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                   &request);
    Backoff backoff;
    for (int done = 0; done == 0;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (done == 0)
            backoff.pause();
    }
    return now() - begin;
}

struct Best {
    double ours = 1e9;
    double theirs = 1e9;
};

/// Of the slowest rank, the best of many rounds.
Best measure(Communicator &end, std::int64_t bytes)
{
    std::vector<float> data(static_cast<std::size_t>(bytes) / sizeof(float), 0.0F);
    const double until = now() + kSecondsPerSize;
    Best best;
    for (double more = 1; more > 0;) {
        MPI_Barrier(MPI_COMM_WORLD);
        double round[3] = {ours(end, data), 0, 0};
        MPI_Barrier(MPI_COMM_WORLD);
        round[1] = theirs(data);
        round[2] = now() < until ? 0 : 1;
        MPI_Allreduce(MPI_IN_PLACE, round, 3, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        best.ours = std::min(best.ours, round[0]);
        best.theirs = std::min(best.theirs, round[1]);
        more = 1 - round[2];
    }
    return best;
}

int startRanks(const char *program, const std::string &ranks)
{
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    execlp("mpirun", "mpirun", "--oversubscribe", "--bind-to", "none", "-np", ranks.c_str(), program,
           static_cast<char *>(nullptr));
    std::perror("mpirun cannot be started");
    return 1;
}

} // namespace

int main(int argc, char **argv)
{
    if (!underMpiLauncher())
        return startRanks(argv[0], argc > 1 ? argv[1] : "2");
    auto end = joinMpi();
    if (!end)
        return 1;
    if ((*end)->rank() == 0)
        std::printf("%d ranks      ours        MPI         ours GB/s   MPI / ours\n", (*end)->size());
    for (const std::int64_t bytes :
         {std::int64_t{4} << 10, std::int64_t{1} << 20, std::int64_t{16} << 20, std::int64_t{64} << 20}) {
        const Best best = measure(**end, bytes);
        const auto sent = static_cast<double>(cost::collectiveBytesOf(Collective::AllReduce, bytes, (*end)->size(), 0));
        if ((*end)->rank() == 0)
            std::printf("%6lld KiB   %9.1f us %9.1f us %9.2f   %9.2f\n", static_cast<long long>(bytes >> 10),
                        best.ours * 1e6, best.theirs * 1e6, sent / best.ours * 1e-9, best.theirs / best.ours);
    }
    return 0;
}
