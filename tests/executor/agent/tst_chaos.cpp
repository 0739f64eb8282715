// SPDX-License-Identifier: Apache-2.0
// Real training in real processes, to which something bad happens at a failpoint or at a moment that only the seed
// knows. Then the run is resumed, often in another layout, and must end as if nothing had been: the same losses and the
// same last checkpoint, bit for bit, no checkpoint that can be loaded but is wrong, none lost that was there, and no
// process left over. A few rounds by default; packaging/chaos runs more.
//   PLANLOOM_CHAOS_ROUNDS, _FIRST, _SEED   which rounds
//   PLANLOOM_CHAOS_RECORD                  a file that gets a line for each round; the table at the end is of all lines
//   in it PLANLOOM_CHAOS_REFERENCES              a folder that keeps undisturbed runs, which every round is compared
//   with, for another call
#include "executor/agent/chaos_faults.h"
#include "engine/run/settings.h"
#include "executor/agent/chaos_processes.h"
#include "executor/agent/chaos_record.h"
#include "executor/agent/chaos_subject.h"

#include "executor/agent/child.h"
#include "executor/checkpoint/restore.h"

#include <QTemporaryDir>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <set>
#include <sys/resource.h>
#include <thread>

using namespace planloom;
using namespace planloom::testing;

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kPatience =
    180s; ///< with whatever has to happen; only a machine that is busy with other things needs so much

} // namespace

class Chaos : public QObject {
    Q_OBJECT

private:
    QTemporaryDir m_home;
    std::string m_references; ///< folder
    std::string m_record;
    std::map<Layout, std::vector<std::string>> m_expected; ///< losses
    std::uintmax_t m_needed = 0;                           ///< bytes of a run's folder
    bool m_disks = false;

    std::string path(const std::string &name) const
    {
        return m_home.filePath(QString::fromStdString(name)).toStdString();
    }
    static unsigned number(const char *variable, unsigned fallback)
    {
        return qEnvironmentVariableIsSet(variable) ? qEnvironmentVariable(variable).toUInt() : fallback;
    }
    std::string planOf(Layout layout) const { return path(fmt::format("plan{}.json", static_cast<int>(layout))); }

    struct How {
        Layout layout = Layout::One;
        bool resume = false;
        int restarts = 0;
        double hungSeconds = 0;
        std::int64_t steps = kSteps;
        std::string failpoints = {};
        rlim_t largestFile = RLIM_INFINITY;
    };

    Result<agent::Child> start(const std::string &run, const How &how) const
    {
        agent::Command command;
        command.program = fs::read_symlink("/proc/self/exe").string();
        command.arguments = {"train",
                             planOf(how.layout),
                             path("data.txt"),
                             run,
                             how.resume ? "1" : "0",
                             std::to_string(how.restarts),
                             std::to_string(how.hungSeconds),
                             std::to_string(how.steps),
                             statesOf(run)};
        command.environment = agent::allowedEnvironment();
        command.environment.emplace_back("PLANLOOM_LOG=info"); // so that committedBy() has something to read
        if (!how.failpoints.empty())
            command.environment.push_back("PLANLOOM_FAILPOINTS=" + how.failpoints);
        rlimit before{};
        ::getrlimit(RLIMIT_FSIZE, &before);
        const rlimit tight{std::min(how.largestFile, before.rlim_max), before.rlim_max};
        std::signal(SIGXFSZ, SIG_IGN);
        ::setrlimit(RLIMIT_FSIZE, &tight);
        auto child = agent::Child::start(command);
        ::setrlimit(RLIMIT_FSIZE, &before);
        return child;
    }

    std::string statesOf(const std::string &run) const { return path(fs::path(run).filename().string() + ".states"); }

    /// Its end, and what it said. Processes that stand still and are not in @p left go on.
    std::optional<agent::Exit> wait(agent::Child &client, std::string &said, const std::set<int> *left = nullptr) const
    {
        const auto until = Clock::now() + kPatience;
        while (Clock::now() < until) {
            said += client.read(20);
            if (const auto exit = client.poll())
                return exit;
            if (left)
                letGo(*left);
        }
        return std::nullopt;
    }

    void letGo(const std::set<int> &left) const
    {
        for (const int process : standing(processesOf(m_home.path().toStdString()))) {
            if (!left.contains(process))
                ::kill(process, SIGCONT);
        }
    }

    /// Trains to the end with nothing in the way; what it said if that is not possible.
    std::string train(const std::string &run, const How &how) const
    {
        auto client = start(run, how);
        if (!client)
            return client.error().text();
        std::string said;
        const auto exit = wait(*client, said);
        if (exit && exit->status == 0 && exit->signal == 0)
            return {};
        return fmt::format("{} in layout '{}' {}: {}{}", how.resume ? "resuming" : "training", name(how.layout),
                           exit ? agent::describe(*exit) : "hangs", said, textOf(run + "/log"));
    }

    /// An undisturbed run of @p steps steps, with a checkpoint at its end: made where it is not there yet.
    Result<std::string> reference(Layout layout, std::int64_t steps) const
    {
        const std::string run = fmt::format("{}/layout{}-steps{}", m_references, static_cast<int>(layout), steps);
        return fs::exists(run) ? Result<std::string>(run) : made(run, {}, {.layout = layout, .steps = steps});
    }

    /// An undisturbed run that changed its layout after @p steps steps.
    Result<std::string> reference(Layout first, std::int64_t steps, Layout then) const
    {
        if (first == then || steps == kSteps)
            return reference(first, kSteps);
        if (steps == 0)
            return reference(then, kSteps);
        const std::string run = fmt::format("{}/layout{}-steps{}-layout{}", m_references, static_cast<int>(first),
                                            steps, static_cast<int>(then));
        if (fs::exists(run))
            return run;
        const auto from = reference(first, steps);
        return from ? made(run, *from, {.layout = then, .resume = true}) : from;
    }

    Result<std::string> made(const std::string &run, const std::string &from, const How &how) const
    {
        const std::string place = path("reference");
        fs::remove_all(place);
        if (!from.empty())
            fs::copy(from, place, fs::copy_options::recursive);
        if (const std::string said = train(place, how); !said.empty())
            return failed(said);
        fs::remove_all(run + ".part");
        fs::copy(place, run + ".part", fs::copy_options::recursive);
        fs::rename(run + ".part", run);
        return run;
    }

    // --- Faults
    // -------------------------------------------------------------------------------------------------------------------

    static int agentOf(int client)
    {
        for (const int process : childrenOf(client)) {
            if (commandLine(process).find("--exit-with-parent") != std::string::npos)
                return process;
        }
        return -1;
    }

    /// One of the run's workers; their launcher's command line has the same words, after others.
    static int workerOf(int client, unsigned pick)
    {
        const std::string self = fs::read_symlink("/proc/self/exe").string();
        std::vector<int> workers;
        for (const int process : descendantsOf(client)) {
            const std::string line = commandLine(process);
            if (line.starts_with(self + '\0') && line.find("worker") == self.size() + 1)
                workers.push_back(process);
        }
        return workers.empty() ? -1 : workers[pick % workers.size()];
    }

    /// Until it is time; false if the run was over before. @p stands gets the ranks that stand at the failpoint.
    bool waitForTheMoment(agent::Child &client, const std::string &run, const Fault &fault, std::string &said,
                          std::vector<int> &stands) const
    {
        const auto until = Clock::now() + kPatience;
        const bool stops =
            !fault.point.empty() && !fault.armed().empty() && fault.armed().find("=stop@") != std::string::npos;
        const auto due = [&] {
            if (stops)
                stands = standing(descendantsOf(client.pid()));
            return stops ? !stands.empty() : fault.starting || linesIn(run + "/metrics.jsonl") >= fault.afterLines;
        };
        while (Clock::now() < until && !due()) {
            if (client.poll())
                return false;
            said += client.read(2);
        }
        if (fault.point.empty() || !stops)
            std::this_thread::sleep_for(std::chrono::milliseconds(fault.milliseconds));
        while ((fault.kind == Kind::KillRank || fault.kind == Kind::StopRank) && !stops && Clock::now() < until
               && workerOf(client.pid(), 0) < 0 && !client.poll())
            said += client.read(2); // it is starting
        return !client.poll();
    }

    /// @p left: processes that stay suspended.
    bool strike(const Fault &fault, agent::Child &client, const std::vector<int> &stands, std::set<int> &left) const
    {
        int victim = -1;
        switch (fault.kind) {
        case Kind::KillRank: victim = stands.empty() ? workerOf(client.pid(), fault.pick) : stands.front(); break;
        case Kind::CutShard: victim = stands.empty() ? client.pid() : stands.front(); break;
        case Kind::StopRank: victim = stands.empty() ? workerOf(client.pid(), fault.pick) : stands.front(); break;
        case Kind::KillAgent: victim = agentOf(client.pid()); break;
        case Kind::KillClient: victim = client.pid(); break;
        case Kind::FullDisk:
        case Kind::Error: return true; // by themselves
        }
        if (!fault.letGo && !fault.inAgent()) // a suspended agent cannot notice anything
            left.insert(stands.begin(), stands.end());
        if (victim <= 1 || (::kill(victim, fault.kind == Kind::StopRank ? SIGSTOP : SIGKILL) != 0))
            return false;
        if (fault.kind != Kind::StopRank)
            return true;
        if (fault.inAgent())
            std::this_thread::sleep_for(1s);
        else
            left = {victim};
        return true;
    }

    /// Makes one file of the newest checkpoint shorter, or another.
    static void cutShort(const std::string &run, unsigned pick)
    {
        const auto all = checkpoint::checkpoints(run);
        if (all.empty())
            return;
        const auto &files = all.front().files;
        const std::string file = all.front().folder + "/" + files[pick % files.size()].name;
        if (pick % 2 == 0) {
            fs::resize_file(file, fs::file_size(file) * (pick % 97) / 97);
            return;
        }
        std::string bytes = *readFile(file);
        bytes[pick / 2 % bytes.size()] = static_cast<char>(bytes[pick / 2 % bytes.size()] ^ 1);
        QVERIFY(writeFileAtomically(file, bytes).ok());
    }

    /// From the signal to the agent's report, and to the first step of the next worker group.
    void measure(const std::string &run, Clock::time_point struck, Outcome &outcome) const
    {
        std::istringstream lines(textOf(statesOf(run)));
        bool restarting = false;
        for (std::string line; std::getline(lines, line);) {
            long long at = 0;
            int state = 0;
            std::istringstream(line) >> at >> state;
            const double after = static_cast<double>(at - struck.time_since_epoch().count()) * 1e-6;
            if (after < 0)
                continue;
            const bool over = state == static_cast<int>(agent::RunState::Restarting)
                || state == static_cast<int>(agent::RunState::Failed);
            if (over && outcome.noticed < 0)
                outcome.noticed = after;
            if (state == static_cast<int>(agent::RunState::Running) && restarting && outcome.back < 0)
                outcome.back = after;
            restarting = state == static_cast<int>(agent::RunState::Restarting);
        }
    }

    // --- Invariants
    // -----------------------------------------------------------------------------------------------------------------

    /// Until no process of the run is left; what is left otherwise.
    std::string leftOver(const std::set<int> &left) const
    {
        const auto until = Clock::now() + kPatience;
        std::string all;
        do {
            all.clear();
            for (const int process : processesOf(m_home.path().toStdString())) {
                std::string line = commandLine(process);
                std::replace(line.begin(), line.end(), '\0', ' ');
                all += fmt::format("{} {}{}\n", process, standsStill(process) ? "(stands still) " : "", line);
            }
            if (all.empty())
                return all;
            letGo(left);
            std::this_thread::sleep_for(20ms);
        } while (Clock::now() < until);
        return all;
    }

    /// Of every checkpoint that could be loaded: that it has what an undisturbed run has at that step.
    std::string wrongCheckpoint(const std::string &run, Layout layout) const
    {
        for (const checkpoint::Manifest &manifest : checkpoint::checkpoints(run)) {
            if (!checkpoint::verify(manifest))
                continue;
            const auto clean = reference(layout, manifest.state.step);
            if (!clean)
                return clean.error().text();
            if (const std::string wrong = different(manifest, *clean); !wrong.empty())
                return wrong;
        }
        return {};
    }

    static std::string different(const checkpoint::Manifest &manifest, const std::string &clean)
    {
        const auto good = checkpoint::newestCheckpoint(clean);
        if (!good)
            return good.error().text();
        const auto theirs = tensorsOf(*good);
        const auto ours = tensorsOf(manifest);
        if (!theirs || !ours)
            return (theirs ? ours : theirs).error().text();
        if (good->state.step != manifest.state.step || good->state.samples != manifest.state.samples
            || good->state.seed != manifest.state.seed)
            return fmt::format("{} is of another moment than {}", manifest.folder, good->folder);
        return *theirs == *ours ? std::string()
                                : fmt::format("the tensors in {} are not those in {}", manifest.folder, good->folder);
    }

    /// Unfinished and removed checkpoints.
    static std::string debris(const std::string &run)
    {
        for (const auto &entry : fs::directory_iterator(run + "/checkpoints")) {
            if (!fs::exists(entry.path() / checkpoint::kManifestName))
                return entry.path().string();
        }
        return {};
    }

    void runRound(const Fault &fault, const std::string &run, SmallDisk &disk, Outcome &outcome);
    void resumed(const Fault &fault, const std::string &run, std::int64_t from);

private slots:
    void initTestCase()
    {
        qputenv("XDG_DATA_HOME", m_home.path().toUtf8());
        qputenv("XDG_RUNTIME_DIR", m_home.path().toUtf8());
        QVERIFY(writeFileAtomically(path("data.txt"), words()).ok());
        m_references = qEnvironmentVariable("PLANLOOM_CHAOS_REFERENCES", m_home.filePath("references")).toStdString();
        m_record = qEnvironmentVariable("PLANLOOM_CHAOS_RECORD", m_home.filePath("record.csv")).toStdString();
        m_references += "/" + sha256(*readFile("/proc/self/exe")).substr(0, 16); // another program's losses may differ
        fs::create_directories(m_references);
        SmallDisk disk;
        m_disks = disk.create(path("disk"), 1 << 20);
        for (const Layout layout : {Layout::One, Layout::Replicas, Layout::Stages, Layout::Tensors}) {
            QVERIFY(writeFileAtomically(planOf(layout), nanoPlan(layout)).ok());
            const auto run = reference(layout, kSteps);
            QVERIFY2(run.ok(), run.ok() ? "" : run.error().text().c_str());
            m_expected[layout] = lossesOf(*run);
            QCOMPARE(m_expected[layout].size(), std::size_t{kSteps});
            QVERIFY(m_expected[layout].front() != m_expected[layout].back());
            m_needed = std::max(m_needed, bytesIn(*run));
            for (std::size_t step = 0; step < std::size_t{kSteps}; ++step) {
                const double one = std::stod(m_expected[Layout::One][step]);
                QVERIFY(std::abs(std::stod(m_expected[layout][step]) - one) <= 1e-4 * one);
            }
        }
        m_needed += m_needed / (kKeep + 1); // a checkpoint in the making
    }

    void survives_data()
    {
        QTest::addColumn<unsigned>("round");
        const unsigned first = number("PLANLOOM_CHAOS_FIRST", 0); // to have one round again
        for (unsigned round = first; round < first + number("PLANLOOM_CHAOS_ROUNDS", 3); ++round)
            QTest::addRow("%u: %s", round, faultOf(number("PLANLOOM_CHAOS_SEED", 1), round).text().c_str()) << round;
    }

    void survives()
    {
        QFETCH(unsigned, round);
        const Fault fault = faultOf(number("PLANLOOM_CHAOS_SEED", 1), round);
        Outcome outcome{.round = round, .kind = fault.kind, .point = std::string(fault.point)};
        const auto begin = Clock::now();
        SmallDisk disk;
        const bool small = fault.kind == Kind::FullDisk && fault.point.empty() && !fault.smallFiles && m_disks;
        const std::string folder = path(fmt::format("round{}", round));
        if (small)
            QVERIFY(disk.create(folder,
                                static_cast<std::uintmax_t>(fault.room * static_cast<double>(m_needed))
                                    & ~std::uintmax_t{4095}));
        const std::string run = small ? folder + "/run" : folder;
        runRound(fault, run, disk, outcome);
        outcome.passed = !QTest::currentTestFailed();
        outcome.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        std::ofstream(m_record, std::ios::app) << outcome.line();
        if (outcome.passed)
            fs::remove_all(run);
        else
            m_home.setAutoRemove(false);
        if (!outcome.passed)
            qInfo("the run is in %s", run.c_str());
    }

    void cleanupTestCase()
    {
        const auto all = Outcome::read(m_record);
        printTable(all);
        const std::string never = neverHappened(all);
        QVERIFY2(never.empty(), ("passed by no process: " + never).c_str());
    }
};

void Chaos::runRound(const Fault &fault, const std::string &run, SmallDisk &disk, Outcome &outcome)
{
    How how{.layout = fault.first,
            .restarts = fault.restarts,
            .hungSeconds =
                (fault.kind == Kind::StopRank || fault.kind == Kind::FullDisk) && !fault.inAgent() ? 3.0 : 0.0,
            .failpoints = fault.armed()};
    if (fault.kind == Kind::FullDisk && fault.point.empty() && !disk.there())
        how.largestFile = static_cast<rlim_t>(fault.room * static_cast<double>(m_needed)
                                              / (kKeep + 2)); // from the first file that is too large to the last
    std::string said;
    if (fault.whenResumed) {
        auto client = start(run, {.layout = fault.first});
        QVERIFY(client.ok());
        std::vector<int> none;
        Fault first = fault;
        first.point = {};
        waitForTheMoment(*client, run, first, said, none);
        client->signalGroup(SIGKILL);
        QVERIFY(wait(*client, said));
        QCOMPARE(QString::fromStdString(leftOver({})), QString());
        how.resume = fs::exists(run + "/request.json");
        fs::remove(statesOf(run));
    }
    const std::int64_t before = committedBy(run);
    auto client = start(run, how);
    QVERIFY(client.ok());
    std::vector<int> stands;
    std::set<int> left;
    const bool inTime = waitForTheMoment(*client, run, fault, said, stands);
    const auto struck = Clock::now();
    outcome.struck = inTime && strike(fault, *client, stands, left);
    const auto exit = wait(*client, said, &left);
    QVERIFY2(exit, ("the client hangs: " + said).c_str());
    const bool finished = exit->status == 0 && exit->signal == 0;
    if (fault.kind == Kind::Error || fault.kind == Kind::FullDisk) // there is no other sign of it
        outcome.struck = !finished
            || (said + textOf(run + "/log")).find(fault.point.empty() ? "there is no checkpoint" : fault.point)
                != std::string::npos;
    if (outcome.struck && (fault.kind == Kind::KillRank || fault.kind == Kind::StopRank) && !fault.inAgent())
        measure(run, struck, outcome);

    const std::string processes = leftOver(left);
    QVERIFY2(processes.empty(), ("left running:\n" + processes).c_str());
    QVERIFY(disk.grow(std::uintmax_t{1} << 30));
    const std::string wrong = wrongCheckpoint(run, fault.first);
    QVERIFY2(wrong.empty(), wrong.c_str());
    const auto kept = checkpoint::checkpoints(run);
    const std::int64_t newest = kept.empty() ? 0 : kept.front().state.step;
    QVERIFY2(newest >= std::max(before, committedBy(run)), said.c_str());
    if (fault.restarts > 0 && !(fault.inAgent() && fault.kind == Kind::KillRank))
        QVERIFY2(finished, (said + textOf(run + "/log")).c_str()); // another worker group came through
    if (finished) {
        QCOMPARE(lossesOf(run), m_expected[fault.first]);
        const std::string forgotten = forgottenByTheDataBase(run);
        QVERIFY2(forgotten.empty(), forgotten.c_str());
        if (fault.kind != Kind::CutShard)
            return;
    }
    if (fault.kind == Kind::CutShard)
        cutShort(run, fault.pick);
    outcome.resumed = fault.then == fault.first ? 1 : 2;
    resumed(fault, run, fault.kind == Kind::CutShard ? (kept.size() < 2 ? 0 : kept[1].state.step) : newest);
}

/// The run goes on from step @p from and ends well.
void Chaos::resumed(const Fault &fault, const std::string &run, std::int64_t from)
{
    fs::remove(statesOf(run));
    const bool resume = fs::exists(run + "/request.json");
    const auto before = run::readRequest(run + "/request.json");
    const std::string said = train(run, {.layout = fault.then, .resume = resume});
    QVERIFY2(said.empty(), said.c_str());
    const auto request = run::readRequest(run + "/request.json");
    QVERIFY(request.ok());
    // A fault that came after the last step left nothing to train: the request stays that of the part that ended the
    // run.
    QCOMPARE(request->from.step, from == kSteps && before ? before->from.step : from);
    const auto clean = reference(fault.first, from, fault.then);
    QVERIFY2(clean.ok(), clean.ok() ? "" : clean.error().text().c_str());
    QCOMPARE(lossesOf(run), lossesOf(*clean));
    const std::string forgotten = forgottenByTheDataBase(run);
    QVERIFY2(forgotten.empty(), forgotten.c_str());
    const auto last = checkpoint::newestCheckpoint(run);
    QVERIFY(last.ok());
    const std::string wrong = different(*last, *clean);
    QVERIFY2(wrong.empty(), wrong.c_str());
    const std::string processes = leftOver({});
    QVERIFY2(processes.empty(), ("left running:\n" + processes).c_str());
    QCOMPARE(QString::fromStdString(debris(run)), QString());
}

int main(int argc, char **argv)
{
    if (const auto status = actAsPlanloom(argc, argv, realWorker))
        return *status;
    if (argc == 10 && std::string_view(argv[1]) == "train")
        return trainHere(argv);
    ownMounts();
    qputenv("QTEST_FUNCTION_TIMEOUT", "86400000"); // hundreds of rounds are one function
    QCoreApplication application(argc, argv);
    Chaos test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_chaos.moc"
