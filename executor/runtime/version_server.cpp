// SPDX-License-Identifier: Apache-2.0
#include "executor/runtime/version_server.h"

#include "engine/admm/message.h"
#include "engine/admm/pattern.h"
#include "engine/base/files.h"
#include "engine/dispatch/versions.h"
#include "engine/program/server_rows.h"
#include "executor/runtime/checkpointing.h"
#include "executor/runtime/clock.h"
#include "executor/runtime/rest.h"
#include "executor/runtime/version_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <optional>

namespace planloom::runtime {
namespace {

using Header = VersionLink::Header;

constexpr const char *kArrivalsFile = "arrivals.csv";

/// The run's record of arrivals: a line a version.
class ArrivalsLog {
public:
    /// Keeps what @p folder's file has of the versions before @p first. Error: Io.
    Status open(const std::string &folder, std::int64_t first, int workers)
    {
        if (folder.empty())
            return {};
        m_path = folder + "/" + kArrivalsFile;
        dispatch::Arrivals before;
        dispatch::Pauses pauses;
        if (const auto text = first > 0 ? readFile(m_path) : Result<std::string>(std::string()); text && !text->empty())
            if (auto kept = dispatch::arrivalsFromCsv(*text, 0, workers, &pauses))
                before = *std::move(kept);
        before.resize(std::min(before.size(), static_cast<std::size_t>(first)));
        if (!before.empty() && !std::ranges::binary_search(pauses, first - 1)) // behind it all begin together now
            pauses.insert(std::ranges::lower_bound(pauses, first - 1), first - 1);
        m_file.open(m_path, std::ios::trunc);
        m_file << dispatch::toCsv(before, 0, true, pauses);
        return check();
    }
    Status add(std::int64_t version, const std::vector<int> &workers, bool pause)
    {
        if (m_path.empty())
            return {};
        m_file << dispatch::toCsv({workers}, version, false, pause ? dispatch::Pauses{version} : dispatch::Pauses())
               << std::flush;
        return check();
    }

private:
    Status check()
    {
        if (m_file)
            return {};
        return planloom::ioError("cannot be written; look at the disk's free space").in(m_path);
    }
    std::string m_path;
    std::ofstream m_file;
};

class VersionServer {
public:
    VersionServer(const VersionServerContext &context, admm::ParameterServer server)
        : m_context(context),
          m_server(std::move(server)),
          m_versions(workers(), context.plan.admm->barrier, context.plan.admm->delay),
          m_version(context.request.from.step),
          m_peers(static_cast<std::size_t>(workers())),
          m_rest(context.comm)
    {
        if (context.program != nullptr)
            m_rows.emplace(*context.program);
        for (Peer &peer : m_peers) {
            peer.message.resize(static_cast<std::size_t>(m_server.layout().elements));
            peer.answer.resize(static_cast<std::size_t>(m_server.layout().parameters()));
        }
    }

    Status run()
    {
        if (const Status ready = prepare(); !ready)
            return ready;
        sleepExactly();
        takeShortTurns();
        for (std::size_t k = 0; k < m_peers.size(); ++k)
            if (const Status listens = listen(k); !listens)
                return listens;
        m_lastVersion = monotonicNanoseconds();
        m_lastMoved = m_lastVersion;
        while (m_left < m_peers.size()) {
            bool moved = false;
            for (std::size_t k = 0; k < m_peers.size(); ++k) {
                const Result<bool> went = advance(k);
                if (!went)
                    return went.error();
                moved = moved || *went;
            }
            if (const Status made = makeVersions(); !made)
                return made;
            if (moved)
                noteProgress();
            else if (const Status waits = wait(); !waits)
                return waits;
        }
        return {};
    }

private:
    enum class State : std::uint8_t { Listens, Reads, Waits, Answers, Left };
    struct Peer {
        State state = State::Listens;
        Header asked{};
        Header header{};
        std::int64_t arrived = 0; ///< when the message was there
        std::vector<float> message;
        std::vector<float> answer;
        std::array<comm::Request, 2> requests;
    };

    [[nodiscard]] const plan::Stage &stage() const { return m_context.plan.stages.front(); }
    [[nodiscard]] int workers() const { return static_cast<int>(m_context.plan.stages.front().replicas()); }
    [[nodiscard]] std::chrono::nanoseconds deadline() const
    {
        return std::chrono::nanoseconds(static_cast<std::int64_t>(m_context.request.settings.timeout() * 1e9));
    }

    void noteProgress()
    {
        m_lastMoved = monotonicNanoseconds();
        m_rest.moved();
    }

    Status prepare()
    {
        const std::string &recorded = m_context.request.settings.arrivals;
        if (!recorded.empty()) {
            const auto text = readFile(recorded);
            if (!text)
                return text.error();
            if (text->empty())
                return badInput("has no versions; name the arrivals.csv of a run with a parameter server").in(recorded);
            const auto arrivals = dispatch::arrivalsFromCsv(*text, m_version, workers(), &m_pauses);
            if (!arrivals)
                return arrivals.error().in(recorded);
            m_recordedEnd = m_version + static_cast<std::int64_t>(arrivals->size());
            if (const Status same = checkPauses(); !same)
                return same.error().in(recorded);
            m_versions.repeat(*arrivals);
        }
        return m_log.open(m_context.runFolder, m_version, workers());
    }

    /// Versions that are made again pause where they did: what is due anywhere else would make other ones.
    [[nodiscard]] Status checkPauses() const
    {
        const std::int64_t end = std::min(m_recordedEnd, m_context.request.settings.steps);
        for (std::int64_t next = m_version + 1; next < end; ++next) {
            if (isDue(next) && !std::ranges::binary_search(m_pauses, next - 1))
                return badInput(fmt::format(
                    "all workers did not pause behind version {}, and a checkpoint or a validation is due there; give "
                    "the --checkpoint-every and --validate-every of the recorded run, or leave them out",
                    next - 1));
        }
        return {};
    }

    [[nodiscard]] bool isDue(std::int64_t version) const
    {
        const run::Settings &settings = m_context.request.settings;
        const auto due = [version](std::int64_t every) { return every > 0 && version % every == 0; };
        return due(settings.checkpointEvery) || due(settings.validateEvery);
    }

    template <class... Requests>
    Status keep(Peer &peer, Requests... started)
    {
        std::size_t i = 0;
        Status status;
        const auto take = [&](const Result<comm::Request> &request) {
            if (request)
                peer.requests[i++] = *request;
            else if (status)
                status = request.error();
        };
        (take(started), ...);
        return status;
    }

    Status listen(std::size_t k)
    {
        Peer &peer = m_peers[k];
        peer.state = State::Listens;
        return keep(peer, m_context.comm.irecv(peer.asked.data(), sizeof peer.asked, static_cast<int>(k), kArrivalTag));
    }

    /// True if what was under way with worker @p k has ended.
    Result<bool> advance(std::size_t k)
    {
        Peer &peer = m_peers[k];
        if (peer.state == State::Waits || peer.state == State::Left)
            return false;
        for (comm::Request &request : peer.requests) {
            if (!request.pending())
                continue;
            const Result<bool> done = m_context.comm.test(request);
            if (!done || !*done)
                return done;
        }
        const Status next = ended(k);
        return next ? Result<bool>(true) : next.error();
    }

    Status ended(std::size_t k)
    {
        Peer &peer = m_peers[k];
        if (peer.state == State::Answers)
            return listen(k);
        if (peer.state == State::Listens && peer.asked[0] == VersionLink::kLeaves) {
            peer.state = State::Left;
            ++m_left;
            return {};
        }
        if (peer.state == State::Listens) {
            peer.state = State::Reads;
            return keep(peer,
                        m_context.comm.irecv(peer.message.data(), bytesOf(peer.message), static_cast<int>(k),
                                             kMessageTag));
        }
        peer.state = State::Waits;
        peer.arrived = monotonicNanoseconds();
        if (m_flags != 0)
            return answerAll();
        return m_versions.arrive(static_cast<int>(k));
    }

    static std::int64_t bytesOf(const std::vector<float> &values)
    {
        return static_cast<std::int64_t>(values.size() * sizeof(float));
    }

    /// As many as what has arrived allows.
    Status makeVersions()
    {
        while (m_flags == 0) {
            const auto next = m_versions.next();
            if (!next)
                return next.error();
            if (next->empty())
                return {};
            if (const Status made = makeVersion(*next); !made)
                return made;
        }
        return {};
    }

    Status makeVersion(const std::vector<int> &arrived)
    {
        const std::int64_t begin = monotonicNanoseconds();
        for (const int k : arrived)
            m_server.take(k, m_peers[static_cast<std::size_t>(k)].message);
        if (const Status solved = m_server.solve(); !solved)
            return solved;
        if (m_rows)
            record(m_rows->solves, program::ServerRows::kSolves, m_version, begin);
        report(); // which may ask for the end
        const std::int64_t flags = flagsOf(m_version + 1);
        ++m_version;
        m_flags = flags;
        if (const Status sent = flags != 0 ? answerAll() : answerThose(arrived); !sent)
            return sent;
        return m_log.add(m_version - 1, arrived, flags != 0); // while those who were answered compute
    }

    Status answerThose(const std::vector<int> &workers)
    {
        for (const int k : workers)
            if (const Status sent = answer(static_cast<std::size_t>(k)); !sent)
                return sent;
        return {};
    }

    /// Once all workers have come, those whose messages are in no version, too: they begin together.
    Status answerAll()
    {
        if (std::any_of(m_peers.begin(), m_peers.end(), [](const Peer &peer) { return peer.state != State::Waits; }))
            return {};
        for (std::size_t k = 0; k < m_peers.size(); ++k)
            if (const Status sent = answer(k); !sent)
                return sent;
        m_flags = 0;
        m_versions.beginAnew();
        return {};
    }

    void report()
    {
        const admm::ParameterServer::Figures figures = m_server.figures();
        const std::int64_t now = monotonicNanoseconds();
        run::StepMetrics metrics;
        metrics.step = m_version;
        metrics.loss = figures.loss;
        metrics.objective = figures.objective;
        metrics.lagrangian = figures.lagrangian;
        metrics.primalResidual = figures.primalResidual;
        metrics.dualResidual = figures.dualResidual;
        metrics.learningRate = m_context.plan.optimizer.learningRate;
        metrics.seconds = static_cast<double>(now - m_lastVersion) * 1e-9;
        m_lastVersion = now;
        if (m_context.onVersion)
            m_context.onVersion(metrics);
    }

    [[nodiscard]] std::int64_t flagsOf(std::int64_t version) const
    {
        const bool stops = m_context.stop != nullptr && m_context.stop->load(std::memory_order_relaxed);
        if (version >= m_context.request.settings.steps || stops)
            return VersionLink::kEnds | VersionLink::kPauses;
        const bool pauses =
            version <= m_recordedEnd ? std::ranges::binary_search(m_pauses, version - 1) : isDue(version);
        return pauses ? VersionLink::kPauses : 0;
    }

    Status answer(std::size_t k)
    {
        Peer &peer = m_peers[k];
        peer.header = {m_version, m_flags};
        std::copy(m_server.answer().begin(), m_server.answer().end(), peer.answer.begin());
        peer.state = State::Answers;
        const int rank = static_cast<int>(k);
        if (m_rows)
            record(m_rows->messageOf(rank), program::ServerRows::kMessages, m_version - 1, peer.arrived);
        return keep(peer, m_context.comm.isend(peer.header.data(), sizeof peer.header, rank, kVersionTag),
                    m_context.comm.isend(peer.answer.data(), bytesOf(peer.answer), rank, kAnswerTag));
    }

    void record(std::int32_t task, std::int32_t lane, std::int64_t step, std::int64_t begin)
    {
        m_context.sink->write({begin - m_context.origin, monotonicNanoseconds() - begin, task,
                               static_cast<std::int32_t>(step), m_rows->rank, lane});
    }

    /// Leaves the core to those that compute. Error: Failed, nothing has come for too long.
    Status wait()
    {
        constexpr int kBetweenSteps = 10; // deadlines: ranks prepare, validate or write a checkpoint
        const bool between = std::all_of(m_peers.begin(), m_peers.end(), [](const Peer &peer) {
            return peer.state == State::Listens || peer.state == State::Left;
        });
        const std::int64_t idle = monotonicNanoseconds() - m_lastMoved;
        if (idle > (between ? kBetweenSteps : 1) * deadline().count())
            return failed(whatWaits());
        m_rest.idle(idle);
        return {};
    }

    [[nodiscard]] std::string whatWaits() const
    {
        std::vector<int> missing = m_flags != 0 ? std::vector<int>() : m_versions.waitedFor();
        if (missing.empty())
            for (std::size_t k = 0; k < m_peers.size(); ++k)
                if (m_peers[k].state == State::Listens || m_peers[k].state == State::Reads)
                    missing.push_back(static_cast<int>(k));
        std::string names;
        for (const int k : missing)
            names += fmt::format("{}worker {} ({}), {} versions late", names.empty() ? "" : "; ", k, nameOf(k),
                                 m_versions.ages()[static_cast<std::size_t>(k)]);
        return fmt::format(
            "version {} of the parameters waits for {}, and nothing came for {:g} s; look at that worker, or "
            "give more time (--timeout)",
            m_version + 1, names, m_context.request.settings.timeout());
    }

    [[nodiscard]] const std::string &nameOf(int worker) const
    {
        return m_context.subject.cluster->device(stage().devices[static_cast<std::size_t>(worker)]).name;
    }

    const VersionServerContext &m_context;
    admm::ParameterServer m_server;
    dispatch::Versions m_versions;
    std::int64_t m_version; ///< that the ranks begin with, then the newest
    std::vector<Peer> m_peers;
    ArrivalsLog m_log;
    dispatch::Pauses m_pauses;      ///< of the versions that are made again
    std::int64_t m_recordedEnd = 0; ///< the first version that is not
    std::int64_t m_flags = 0;       ///< of the newest version, while not all have got it
    std::size_t m_left = 0;
    std::int64_t m_lastVersion = 0;
    std::int64_t m_lastMoved = 0;
    Rest m_rest;
    std::optional<program::ServerRows> m_rows; ///< of what is recorded
};

} // namespace

namespace {

/// What the run goes on with, as an answer has it: u, w, b, v, c.
Result<std::vector<float>> answerIn(const std::string &checkpoint, const graph::Graph &model,
                                    const admm::Pattern &pattern)
{
    const auto parameters = parametersIn(checkpoint, model);
    if (!parameters)
        return parameters.error();
    std::vector<float> answer;
    const auto valuesOf = [&](TensorId id) {
        const std::vector<std::byte> &bytes = parameters->at(model.tensor(id).name);
        std::vector<float> values(bytes.size() / sizeof(float));
        std::memcpy(values.data(), bytes.data(), bytes.size());
        return values;
    };
    const auto add = [&](const std::vector<float> &values) {
        answer.insert(answer.end(), values.begin(), values.end());
    };
    add(valuesOf(pattern.u));
    add(valuesOf(pattern.w));
    const std::vector<float> halves = valuesOf(pattern.bias); // two biases, of which the sum counts
    for (std::size_t i = 0; i < halves.size() / 2; ++i)
        answer.push_back(halves[i] + halves[halves.size() / 2 + i]);
    const std::vector<float> v = valuesOf(pattern.v);
    for (std::int64_t c = 0; c < pattern.classes; ++c)
        for (std::int64_t h = 0; h < pattern.hidden; ++h)
            answer.push_back(
                v[static_cast<std::size_t>(pattern.transposed ? h * pattern.classes + c : c * pattern.hidden + h)]);
    add(valuesOf(pattern.c));
    return answer;
}

} // namespace

Status runVersionServer(const VersionServerContext &context)
{
    const auto pattern = admm::findPattern(*context.subject.graph);
    if (!pattern)
        return pattern.error();
    std::vector<std::int64_t> samples;
    const plan::Stage &stage = context.plan.stages.front();
    for (std::size_t k = 0; k < stage.replicas(); ++k)
        samples.push_back(plan::replicaRange(stage, k, context.plan.globalBatch).size);
    const admm::Sizes sizes{pattern->inputs, pattern->hidden, pattern->classes, pattern->steps};
    admm::ParameterServer server(sizes, *context.plan.admm, std::move(samples));
    if (const std::string &checkpoint = context.request.from.checkpoint; !checkpoint.empty()) {
        auto before = answerIn(checkpoint, *context.subject.graph, *pattern);
        if (!before)
            return before.error();
        server.goOnFrom(*std::move(before));
    }
    return VersionServer(context, std::move(server)).run();
}

} // namespace planloom::runtime
