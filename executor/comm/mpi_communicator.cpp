// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/mpi_communicator.h"

#include "engine/base/log.h"
#include "executor/comm/add.h"
#include "executor/comm/doorbell.h"
#include "executor/comm/pipe_communicator.h"
#include "executor/comm/ring_pipe.h"
#include "executor/comm/shared_memory.h"
#include "executor/comm/switched_communicator.h"

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
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

/// The kernel that runs this process and the processors that it may use.
std::uint64_t processorKey()
{
    std::string key;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> key;
    if (key.empty()) {
        char name[MPI_MAX_PROCESSOR_NAME] = {};
        int length = 0;
        MPI_Get_processor_name(name, &length);
        key.assign(name, static_cast<std::size_t>(length));
    }
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        key.append(reinterpret_cast<const char *>(&allowed), sizeof allowed);
    return std::hash<std::string>{}(key);
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
        return unsupported("a message of " + std::to_string(bytes)
                           + " bytes is too large for MPI; use more micro-batches");
    return Extent{static_cast<int>(count), floats ? MPI_FLOAT : MPI_BYTE};
}

/// A Pipe to a rank on another machine. The communicator and tag are the group's own.
class MpiPipe final : public Pipe {
public:
    MpiPipe(MPI_Comm context, int tag, int peer) : m_context(context), m_tag(tag), m_peer(peer) {}

    Status send(const std::byte *data, std::int64_t bytes, const Label & /*label*/) override
    {
        MPI_Request &request = m_sends[static_cast<std::size_t>(m_sendsGiven++ % kWindow)];
        const int code = MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, m_peer, m_tag, m_context, &request);
        return code == MPI_SUCCESS ? Status() : mpiError(code, "MPI_Isend failed");
    }

    Status receive(const Incoming &piece, const Label & /*label*/) override
    {
        const auto slot = static_cast<std::size_t>(m_receivesGiven++ % kWindow);
        if (piece.addend != nullptr)
            m_scratch.resize(static_cast<std::size_t>(kWindow * kChunk));
        void *data = piece.addend == nullptr ? piece.data : scratch(slot);
        m_pieces[slot] = piece;
        const int code =
            MPI_Irecv(data, static_cast<int>(piece.bytes), MPI_BYTE, m_peer, m_tag, m_context, &m_receives[slot]);
        return code == MPI_SUCCESS ? Status() : mpiError(code, "MPI_Irecv failed");
    }

    Status progress() override
    {
        for (; m_sendsDone < m_sendsGiven; ++m_sendsDone) {
            const Result<bool> done = isDone(m_sends[static_cast<std::size_t>(m_sendsDone % kWindow)]);
            if (!done)
                return done.error();
            if (!*done)
                break;
        }
        for (; m_receivesDone < m_receivesGiven; ++m_receivesDone) {
            const auto slot = static_cast<std::size_t>(m_receivesDone % kWindow);
            const Result<bool> done = isDone(m_receives[slot]);
            if (!done)
                return done.error();
            if (!*done)
                break;
            const Incoming &piece = m_pieces[slot];
            if (piece.addend != nullptr)
                add(piece.element, piece.addend, scratch(slot), piece.data, static_cast<std::size_t>(piece.bytes));
        }
        return {};
    }

private:
    static Result<bool> isDone(MPI_Request &request)
    {
        int done = 0;
        if (const int code = MPI_Test(&request, &done, MPI_STATUS_IGNORE); code != MPI_SUCCESS)
            return mpiError(code, "a collective's message failed");
        return done != 0;
    }

    std::byte *scratch(std::size_t slot) { return m_scratch.data() + slot * static_cast<std::size_t>(kChunk); }

    MPI_Comm m_context;
    int m_tag;
    int m_peer;
    std::array<MPI_Request, kWindow> m_sends{};
    std::array<MPI_Request, kWindow> m_receives{};
    std::array<Incoming, kWindow> m_pieces{};
    std::vector<std::byte> m_scratch; ///< addends, on their way in
};

class MpiCommunicator final : public PipeCommunicator {
public:
    explicit MpiCommunicator(const MpiOptions &options)
    {
        MPI_Comm_rank(MPI_COMM_WORLD, &m_rank);
        MPI_Comm_size(MPI_COMM_WORLD, &m_size);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        void *limit = nullptr;
        int known = 0;
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void *>(&limit), &known);
        if (known != 0)
            m_maxTag = *static_cast<int *>(limit);
        // Collectives get a context of their own, apart from every point-to-point message.
        MPI_Comm_dup(MPI_COMM_WORLD, &m_context);
        MPI_Comm_set_errhandler(m_context, MPI_ERRORS_RETURN);
        MPI_Comm machine = MPI_COMM_NULL;
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, m_rank, MPI_INFO_NULL, &machine);
        if (options.hosts > 0)
            splitByHost(machine, options.hosts);
        MPI_Comm_rank(machine, &m_localRank);
        MPI_Comm_size(machine, &m_localSize);
        m_ranksHere.resize(static_cast<std::size_t>(m_localSize));
        MPI_Allgather(&m_rank, 1, MPI_INT, m_ranksHere.data(), 1, MPI_INT, machine);
        if (options.sharedMemory && m_localSize > 1)
            shareMemory(machine);
        MPI_Comm_free(&machine);
        findSharers();
    }

    ~MpiCommunicator() override
    {
        dropCollectives();
        if (m_aborted)
            return;
        MPI_Comm_free(&m_context);
        MPI_Finalize();
    }

    MpiCommunicator(const MpiCommunicator &) = delete;
    MpiCommunicator &operator=(const MpiCommunicator &) = delete;

    [[nodiscard]] int rank() const override { return m_rank; }
    [[nodiscard]] int size() const override { return m_size; }
    [[nodiscard]] int localSize() const override { return m_localSize; }
    [[nodiscard]] std::span<const int> sharers() const override { return m_sharers; }
    [[nodiscard]] int maxTag() const override { return m_maxTag; }

    Result<Request> isend(const void *data, std::int64_t bytes, int peer, int tag) override
    {
        const Result<Extent> extent = extentOf(bytes);
        if (!extent)
            return extent.error();
        const Request request = takeSlot(bytes);
        const Result<Request> sent =
            started(request, MPI_Isend(data, extent->count, extent->type, peer, tag, MPI_COMM_WORLD, &handle(request)),
                    "MPI_Isend failed");
        if (!m_bells.empty())
            m_bells[static_cast<std::size_t>(peer)].ring();
        return sent;
    }

    Result<Request> irecv(void *data, std::int64_t bytes, int peer, int tag) override
    {
        const Result<Extent> extent = extentOf(bytes);
        if (!extent)
            return extent.error();
        const Request request = takeSlot(bytes);
        return started(request,
                       MPI_Irecv(data, extent->count, extent->type, peer, tag, MPI_COMM_WORLD, &handle(request)),
                       "MPI_Irecv failed");
    }

    [[nodiscard]] bool wakes() const override { return m_localSize == m_size && !m_bells.empty(); }
    void listen(bool on) override
    {
        if (wakes())
            m_bells[static_cast<std::size_t>(m_rank)].listen(on);
    }
    void sleep(std::chrono::nanoseconds blind) override
    {
        constexpr std::chrono::milliseconds kMost{10}; // deadlines are checked then
        if (wakes())
            m_bells[static_cast<std::size_t>(m_rank)].sleep(m_blind > 0 ? blind : kMost);
    }

    void abort(std::string_view reason) override
    {
        m_aborted = true;
        log(LogLevel::Error, "rank " + std::to_string(m_rank) + ": " + std::string(reason));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }

protected:
    Result<bool> testMessage(Request &request) override
    {
        if (!request.pending())
            return true;
        int done = 0;
        if (const int code = MPI_Test(&handle(request), &done, MPI_STATUS_IGNORE); code != MPI_SUCCESS)
            return mpiError(code, "a transfer failed");
        if (done == 0)
            return false;
        m_free.push_back(request.slot);
        m_blind -= m_isBlind[static_cast<std::size_t>(request.slot)] ? 1 : 0;
        request.slot = -1;
        return true;
    }

    Status progressMessages() override
    {
        if (m_free.size() == m_requests.size())
            return {};
        int any = 0; // the probed message does not matter: MPI makes progress while it probes
        const int code = MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &any, MPI_STATUS_IGNORE);
        return code == MPI_SUCCESS ? Status() : mpiError(code, "a transfer failed");
    }

    /// Ranks of one machine go through shared memory: every one of them reckons with the same offsets in the machine's
    /// file.
    Result<std::vector<std::unique_ptr<Pipe>>> makePipes(std::int32_t group, std::span<const int> ranks) override
    {
        std::vector<int> here;
        std::set_intersection(ranks.begin(), ranks.end(), m_ranksHere.begin(), m_ranksHere.end(),
                              std::back_inserter(here));
        const auto count = static_cast<std::int64_t>(here.size());
        const std::int64_t offset = m_fileUsed;
        const std::int64_t bytes = count > 1 ? count * count * RingPipe::kBytes : 0;
        m_fileUsed += bytes;
        std::vector<std::unique_ptr<Pipe>> pipes;
        const auto mine = std::find(here.begin(), here.end(), m_rank);
        if (mine == here.end())
            return pipes;
        const bool shares = m_file.descriptor() >= 0 && bytes > 0 && m_fileUsed <= kFileBytes;
        if (shares) {
            Result<SharedMemory> memory = SharedMemory::ofFile(m_file.descriptor(), offset, bytes);
            if (!memory)
                return memory.error();
            m_memory.push_back(std::move(*memory));
        }
        for (const int peer : ranks) {
            const auto there = std::find(here.begin(), here.end(), peer);
            if (peer == m_rank)
                pipes.push_back(nullptr);
            else if (shares && there != here.end())
                pipes.push_back(ringBetween(m_memory.back().data(), here, static_cast<std::size_t>(mine - here.begin()),
                                            static_cast<std::size_t>(there - here.begin()),
                                            m_bells.empty() ? Doorbell() : m_bells[static_cast<std::size_t>(peer)]));
            else
                pipes.push_back(std::make_unique<MpiPipe>(m_context, group, peer));
        }
        return pipes;
    }

private:
    static constexpr std::int64_t kFileBytes = std::int64_t{1}
        << 38; ///< a sparse file's length; only touched pages take space

    void splitByHost(MPI_Comm &machine, int hosts) const
    {
        MPI_Comm host = MPI_COMM_NULL;
        MPI_Comm_split(machine, hostOfRank(m_rank, m_size, hosts), m_rank, &host);
        MPI_Comm_free(&machine);
        machine = host;
    }

    /// Hosts of one computer have names and addresses of their own, and one kernel.
    void findSharers()
    {
        const std::uint64_t own = processorKey();
        std::vector<std::uint64_t> keys(static_cast<std::size_t>(m_size));
        MPI_Allgather(&own, 1, MPI_UINT64_T, keys.data(), 1, MPI_UINT64_T, MPI_COMM_WORLD);
        for (int rank = 0; rank < m_size; ++rank) {
            if (keys[static_cast<std::size_t>(rank)] == own)
                m_sharers.push_back(rank);
        }
    }

    /// The machine's first rank makes a file in memory, the others open it; if one of them cannot, none uses it.
    void shareMemory(MPI_Comm machine)
    {
        std::array<char, 64> path{};
        Result<MemoryFile> file = failed("not opened");
        if (m_localRank == 0) {
            file = MemoryFile::create(kFileBytes);
            if (file)
                std::strncpy(path.data(), file->pathToShare().c_str(), path.size() - 1);
        }
        MPI_Bcast(path.data(), static_cast<int>(path.size()), MPI_CHAR, 0, machine);
        if (m_localRank != 0)
            file = MemoryFile::open(path.data());
        int good = file ? 1 : 0;
        MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, machine);
        if (good != 0) {
            m_file = std::move(*file);
            shareBells();
        } else if (m_localRank == 0)
            log(LogLevel::Warning,
                "the ranks of this machine cannot share memory; collectives go through MPI's messages, more slowly");
    }

    /// At the head of the machine's file: a bell for each of its ranks.
    void shareBells()
    {
        constexpr std::int64_t kPage = 4096;
        const std::int64_t used = m_localSize * Doorbell::kBytes;
        const std::int64_t bytes = (used + kPage - 1) / kPage * kPage;
        m_fileUsed = bytes;
        Result<SharedMemory> memory = SharedMemory::ofFile(m_file.descriptor(), 0, bytes);
        if (!memory)
            return; // this rank never sleeps
        m_memory.push_back(std::move(*memory));
        m_bells.resize(static_cast<std::size_t>(m_size));
        for (std::size_t i = 0; i < m_ranksHere.size(); ++i)
            m_bells[static_cast<std::size_t>(m_ranksHere[i])] =
                Doorbell(m_memory.back().data() + static_cast<std::int64_t>(i) * Doorbell::kBytes);
    }

    Request takeSlot(std::int64_t bytes)
    {
        // Larger messages take several steps on a machine, of which MPI does the last ones while either side tests.
        constexpr std::int64_t kAtOnce = 4000;
        if (m_free.empty()) {
            m_free.push_back(static_cast<std::int32_t>(m_requests.size()));
            m_requests.push_back(MPI_REQUEST_NULL);
            m_isBlind.push_back(false);
        }
        const Request request{m_free.back()};
        m_free.pop_back();
        m_isBlind[static_cast<std::size_t>(request.slot)] = bytes > kAtOnce;
        m_blind += bytes > kAtOnce ? 1 : 0;
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
    MPI_Comm m_context = MPI_COMM_NULL; ///< of collectives
    std::vector<int> m_ranksHere;       ///< of this machine, sorted
    std::vector<int> m_sharers;
    MemoryFile m_file;
    std::int64_t m_fileUsed = 0;
    std::vector<SharedMemory> m_memory; ///< per group that has some
    std::vector<MPI_Request> m_requests;
    std::vector<bool> m_isBlind; ///< per request: it may end without a sign
    int m_blind = 0;             ///< of those under way
    std::vector<std::int32_t> m_free;
    std::vector<Doorbell> m_bells; ///< per rank, those of this machine; empty: they share no memory
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

Result<std::unique_ptr<Communicator>> joinMpi(const MpiOptions &options)
{
    const char *network = std::getenv("PLANLOOM_EMULATED_NETWORK");
    const Result<SwitchSettings> settings =
        network != nullptr ? switchSettingsFromText(network) : Result<SwitchSettings>(SwitchSettings());
    if (!settings)
        return settings.error();
    // Else Open MPI calls sched_yield() in each test of ranks that outnumber a host's slots (Backoff says what that
    // leads to). Who tests gives way to others himself; only calls that block, here at the start, spin.
    ::setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0);
    int provided = 0;
    if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided); code != MPI_SUCCESS)
        return failed("MPI could not start; run under mpirun or srun --mpi=pmix of the same Open MPI");
    if (network != nullptr) {
        MpiOptions asHosts = options;
        asHosts.hosts = settings->hosts;
        return SwitchedCommunicator::open(std::make_unique<MpiCommunicator>(asHosts), *settings);
    }
    auto made = std::make_unique<MpiCommunicator>(options);
    std::vector<int> all(static_cast<std::size_t>(made->size()));
    std::iota(all.begin(), all.end(), 0);
    if (const Result<Group> world = made->makeGroup(all); !world)
        return world.error();
    return std::unique_ptr<Communicator>(std::move(made));
}

} // namespace planloom::comm
