// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/mpi_communicator.h"

#include "engine/base/log.h"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <vector>

namespace planloom::comm {

namespace {

Error mpiError(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(code, text, &length);
    return failed(std::string(what) + ": " + std::string(text, static_cast<std::size_t>(length)));
}

/// MPI counts are ints: floats go as floats, so that up to 8 GiB fit one message.
struct Extent {
    int count;
    MPI_Datatype type;
};

Result<Extent> extentOf(std::int64_t bytes)
{
    const bool floats = bytes % 4 == 0;
    const std::int64_t count = floats ? bytes / 4 : bytes;
    if (count > std::numeric_limits<int>::max())
        return unsupported("a message of " + std::to_string(bytes) + " bytes is too large for MPI; use more micro-batches");
    return Extent{static_cast<int>(count), floats ? MPI_FLOAT : MPI_BYTE};
}

class MpiCommunicator final : public Communicator {
public:
    MpiCommunicator()
    {
        MPI_Comm_rank(MPI_COMM_WORLD, &m_rank);
        MPI_Comm_size(MPI_COMM_WORLD, &m_size);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm machine = MPI_COMM_NULL;
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, m_rank, MPI_INFO_NULL, &machine);
        MPI_Comm_rank(machine, &m_localRank);
        MPI_Comm_size(machine, &m_localSize);
        MPI_Comm_free(&machine);
        void *limit = nullptr;
        int known = 0;
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void *>(&limit), &known);
        if (known != 0)
            m_maxTag = *static_cast<int *>(limit);
        // Reductions of the engine's own get a context of their own, apart from every point-to-point message.
        MPI_Comm world = MPI_COMM_NULL;
        MPI_Comm_dup(MPI_COMM_WORLD, &world);
        m_groups.push_back(world);
    }

    ~MpiCommunicator() override
    {
        if (m_aborted)
            return;
        for (MPI_Comm &group : m_groups) {
            if (group != MPI_COMM_NULL)
                MPI_Comm_free(&group);
        }
        MPI_Finalize();
    }

    MpiCommunicator(const MpiCommunicator &) = delete;
    MpiCommunicator &operator=(const MpiCommunicator &) = delete;

    [[nodiscard]] int rank() const override { return m_rank; }
    [[nodiscard]] int size() const override { return m_size; }
    [[nodiscard]] int localRank() const override { return m_localRank; }
    [[nodiscard]] int localSize() const override { return m_localSize; }
    [[nodiscard]] int maxTag() const override { return m_maxTag; }
    [[nodiscard]] Group world() const override { return {0}; }

    Result<Request> isend(const void *data, std::int64_t bytes, int peer, int tag) override
    {
        const Result<Extent> extent = extentOf(bytes);
        if (!extent)
            return extent.error();
        const Request request = takeSlot();
        return started(request, MPI_Isend(data, extent->count, extent->type, peer, tag, MPI_COMM_WORLD, &handle(request)), "MPI_Isend failed");
    }

    Result<Request> irecv(void *data, std::int64_t bytes, int peer, int tag) override
    {
        const Result<Extent> extent = extentOf(bytes);
        if (!extent)
            return extent.error();
        const Request request = takeSlot();
        return started(request, MPI_Irecv(data, extent->count, extent->type, peer, tag, MPI_COMM_WORLD, &handle(request)), "MPI_Irecv failed");
    }

    Result<Request> allReduce(Group group, float *data, std::int64_t count) override
    {
        const Result<Extent> extent = extentOf(count * 4);
        if (!extent)
            return extent.error();
        MPI_Comm members = m_groups[static_cast<std::size_t>(group.index)];
        if (members == MPI_COMM_NULL)
            return failed("rank " + std::to_string(m_rank) + " is no member of the group that it reduces with");
        const Request request = takeSlot();
        return started(request, MPI_Iallreduce(MPI_IN_PLACE, data, extent->count, MPI_FLOAT, MPI_SUM, members, &handle(request)), "MPI_Iallreduce failed");
    }

    Result<bool> test(Request &request) override
    {
        if (!request.pending())
            return true;
        int done = 0;
        if (const int code = MPI_Test(&handle(request), &done, MPI_STATUS_IGNORE); code != MPI_SUCCESS)
            return mpiError(code, "a transfer failed");
        if (done == 0)
            return false;
        m_free.push_back(request.slot);
        request.slot = -1;
        return true;
    }

    Result<Group> makeGroup(std::span<const int> ranks) override
    {
        MPI_Group all = MPI_GROUP_NULL;
        MPI_Group some = MPI_GROUP_NULL;
        MPI_Comm members = MPI_COMM_NULL;
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some);
        const int code = MPI_Comm_create(MPI_COMM_WORLD, some, &members);
        MPI_Group_free(&some);
        MPI_Group_free(&all);
        if (code != MPI_SUCCESS)
            return mpiError(code, "a group of ranks could not be made");
        if (members != MPI_COMM_NULL)
            MPI_Comm_set_errhandler(members, MPI_ERRORS_RETURN);
        m_groups.push_back(members);
        return Group{static_cast<std::int32_t>(m_groups.size() - 1)};
    }

    void abort(std::string_view reason) override
    {
        m_aborted = true;
        log(LogLevel::Error, "rank " + std::to_string(m_rank) + ": " + std::string(reason));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }

private:
    Request takeSlot()
    {
        if (m_free.empty()) {
            m_free.push_back(static_cast<std::int32_t>(m_requests.size()));
            m_requests.push_back(MPI_REQUEST_NULL);
        }
        const Request request{m_free.back()};
        m_free.pop_back();
        return request;
    }

    MPI_Request &handle(Request request) { return m_requests[static_cast<std::size_t>(request.slot)]; }

    static Result<Request> started(Request request, int code, const char *what)
    {
        if (code != MPI_SUCCESS)
            return mpiError(code, what);
        return request;
    }

    int m_rank = 0;
    int m_size = 1;
    int m_localRank = 0;
    int m_localSize = 1;
    int m_maxTag = 32767; ///< the least that the standard allows
    bool m_aborted = false;
    std::vector<MPI_Comm> m_groups;
    std::vector<MPI_Request> m_requests;
    std::vector<std::int32_t> m_free;
};

int environmentNumber(const char *name)
{
    const char *text = std::getenv(name);
    return text != nullptr ? std::atoi(text) : 0;
}

} // namespace

bool underMpiLauncher()
{
    return environmentNumber("OMPI_COMM_WORLD_SIZE") > 1 || environmentNumber("PMI_SIZE") > 1
        || (std::getenv("PMIX_RANK") != nullptr && environmentNumber("SLURM_NTASKS") > 1);
}

Result<std::unique_ptr<Communicator>> joinMpi()
{
    int provided = 0;
    if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided); code != MPI_SUCCESS)
        return failed("MPI could not start; run under mpirun or srun --mpi=pmix of the same Open MPI");
    return std::unique_ptr<Communicator>(std::make_unique<MpiCommunicator>());
}

} // namespace planloom::comm
