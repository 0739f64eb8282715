// SPDX-License-Identifier: Apache-2.0
// Real training in real processes, to which something bad happens at a moment that only the seed knows. Then the run is resumed, and must end as if
// nothing had been: the same losses, bit for bit, and no process that is left over. A few rounds by default;
// PLANLOOM_CHAOS_ROUNDS=200 and PLANLOOM_CHAOS_SEED=N do more and others (packaging/chaos).
#include "executor/agent/agent_fixture.h"

#include "engine/base/failpoint.h"
#include "executor/agent/child.h"
#include "executor/checkpoint/restore.h"

#include <QTemporaryDir>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <sys/resource.h>
#include <thread>

using namespace planloom;
using namespace planloom::testing;

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kSteps = 18;
constexpr std::int64_t kEvery = 3;

/// A GPT over bytes of four layers on two CPU devices: two replicas, or two stages.
std::string nanoPlan(int stages)
{
    graph::TransformerConfig config{.name = "gpt-nano", .layers = 4, .heads = 4, .hidden = 128, .feedForward = 512, .vocabulary = 256, .context = 64};
    cluster::RegularCluster spec;
    spec.name = "pair";
    spec.perNode = 2;
    spec.type = {"CPU", {{"float32", 5e10}}, Bytes(std::int64_t{4} << 30), 1e10};
    spec.intraBandwidth = 4e9;
    spec.interPointToPoint = spec.interCollective = 1e9;
    plan::Document document;
    document.subject = plan::makeSubject(std::make_shared<graph::Graph>(*graph::gpt(config)), std::make_shared<cluster::Cluster>(*cluster::regular(spec)), nullptr, "zoo:gpt-nano");
    const std::size_t layers = document.subject.layers().size();
    plan::Plan &plan = document.plan;
    plan.modelName = "gpt-nano";
    plan.clusterName = "pair";
    plan.planner.name = "manual";
    plan.globalBatch = 4;
    plan.microBatches = 2;
    plan.optimizer.schedule = {plan::LearningRateSchedule::Kind::Cosine, 2, 0, 0.1};
    for (int s = 0; s < stages; ++s) {
        plan::Stage stage;
        stage.name = fmt::format("stage{}", s);
        stage.firstLayer = layers * static_cast<std::size_t>(s) / static_cast<std::size_t>(stages);
        stage.lastLayer = layers * static_cast<std::size_t>(s + 1) / static_cast<std::size_t>(stages);
        for (int device = s * 2 / stages; device < (s + 1) * 2 / stages; ++device)
            stage.devices.emplace_back(device);
        plan.stages.push_back(stage);
    }
    return plan::toJson(document);
}

std::string words()
{
    std::string text;
    std::mt19937 random(7);
    for (int i = 0; i < 6000; ++i)
        text += fmt::format("{} ", random() % 97 * 31);
    return text;
}

/// `PROGRAM train PLAN DATA RUN RESUME RESTARTS HUNG`: a client in a process of its own. It notes when the state changed.
int trainHere(char **argv)
{
    agent::TrainRequest request;
    request.planJson = *readFile(argv[2]);
    request.dataPath = argv[3];
    request.runDir = argv[4];
    request.resume = std::string_view(argv[5]) == "1";
    request.restarts = std::atoi(argv[6]);
    request.steps = kSteps;
    request.seed = 11;
    request.threads = 1;
    request.checkpointEvery = kEvery;
    request.keep = 2;
    request.hungSeconds = std::atof(argv[7]);
    auto client = agent::Client::startLocal();
    if (!client)
        return 3;
    agent::RunEvents events;
    const std::string log = request.runDir + ".states";
    events.onState = [&](agent::RunState state, const std::string &message) {
        if (std::FILE *file = std::fopen(log.c_str(), "a")) {
            fmt::print(file, "{} {} {}\n", Clock::now().time_since_epoch().count(), static_cast<int>(state), message);
            std::fclose(file);
        }
    };
    const Status status = (*client)->train(request, events);
    if (!status)
        fmt::print(stderr, "{}\n", status.error().text());
    return status ? 0 : 1;
}

enum class Kind { KillRank, KillAgent, KillClient, StopRank, Truncate, FullDisk, KillThere, FailThere };
constexpr const char *kKindNames[] = {"a rank is killed", "the agent is killed", "the client is killed", "a rank is suspended", "a shard is cut short", "the disk is full", "killed at a failpoint",
                                      "an error at a failpoint"};

struct Fault {
    Kind kind = Kind::KillRank;
    int stages = 1;
    std::size_t afterLines = 1; ///< of metrics.jsonl
    int restarts = 0;
    std::string failpoints;
    rlim_t fileLimit = RLIM_INFINITY;
    unsigned pick = 0; ///< which of several
};

Fault faultOf(unsigned seed, unsigned round)
{
    std::mt19937 random(seed * 7919 + round);
    const auto upTo = [&random](unsigned most) { return static_cast<unsigned>(random() % most); };
    const unsigned kinds = failpointsWork() ? std::size(kKindNames) : static_cast<unsigned>(Kind::KillThere);
    Fault fault;
    fault.kind = static_cast<Kind>(round % kinds); // each as often
    fault.stages = 1 + static_cast<int>(upTo(2));
    fault.afterLines = 1 + upTo(kSteps - 3);
    fault.pick = random();
    if (fault.kind == Kind::KillRank || fault.kind == Kind::StopRank || fault.kind == Kind::KillThere)
        fault.restarts = static_cast<int>(upTo(2));
    if (fault.kind == Kind::FullDisk)
        fault.fileLimit = (20U << 10) << upTo(10); // from the first file that is too large to the last
    if (fault.kind == Kind::KillThere || fault.kind == Kind::FailThere) {
        const auto name = failpoints()[upTo(static_cast<unsigned>(failpoints().size()))];
        const char *action = fault.kind == Kind::KillThere ? "kill" : upTo(2) == 0 ? "error" : "full";
        fault.failpoints = fmt::format("{}={}@{}", name, action, 1 + upTo(4));
    }
    return fault;
}

/// Nothing of a file that is not there; files of /proc, too.
std::string textOf(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t linesIn(const std::string &path)
{
    const std::string text = textOf(path);
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

/// Losses as they stand in the file: the shortest text that reads back the same, so equal text is equal bits.
std::vector<std::string> lossesOf(const std::string &run)
{
    std::vector<std::string> losses;
    std::istringstream lines(textOf(run + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
        const auto begin = line.find("\"loss\":") + 7;
        losses.push_back(line.substr(begin, line.find(',', begin) - begin));
    }
    return losses;
}

/// The largest step of which the run's own log says that there is a checkpoint.
std::int64_t committedBy(const std::string &run)
{
    std::int64_t newest = 0;
    const std::string log = textOf(run + "/log");
    constexpr std::string_view kSaid = "checkpoint of step ";
    for (std::size_t at = log.find(kSaid); at != std::string::npos; at = log.find(kSaid, at + 1)) {
        if (at < 3 || log.compare(at - 2, 2, ": ") == 0) // not "there is no checkpoint of step"
            newest = std::max<std::int64_t>(newest, std::atoll(log.c_str() + at + kSaid.size()));
    }
    return newest;
}

std::vector<int> childrenOf(int process)
{
    std::vector<int> all;
    std::istringstream text(textOf(fmt::format("/proc/{0}/task/{0}/children", process)));
    for (int child = 0; text >> child;)
        all.push_back(child);
    return all;
}

bool isAlive(int process) { return ::kill(process, 0) == 0; }

} // namespace

class Chaos : public QObject {
    Q_OBJECT

private:
    QTemporaryDir m_home;
    std::map<int, std::vector<std::string>> m_expected; ///< losses by number of stages
    std::vector<double> m_noticed, m_restarted; ///< milliseconds

    std::string path(const std::string &name) const { return m_home.filePath(QString::fromStdString(name)).toStdString(); }
    unsigned number(const char *variable, unsigned fallback) const { return qEnvironmentVariableIsSet(variable) ? qEnvironmentVariable(variable).toUInt() : fallback; }

    Result<agent::Child> start(const std::string &run, const Fault &fault, bool resume) const
    {
        agent::Command command;
        command.program = fs::read_symlink("/proc/self/exe").string();
        command.arguments = {"train", path(fmt::format("plan{}.json", fault.stages)), path("data.txt"), path(run), resume ? "1" : "0", std::to_string(fault.restarts),
                             fault.kind == Kind::StopRank ? "5" : "0"}; // a busy machine may keep a rank from its heartbeats for seconds
        command.environment = agent::allowedEnvironment();
        command.environment.emplace_back("PLANLOOM_LOG=info"); // so that committedBy() has something to read
        if (!fault.failpoints.empty())
            command.environment.push_back("PLANLOOM_FAILPOINTS=" + fault.failpoints);
        rlimit before{};
        ::getrlimit(RLIMIT_FSIZE, &before);
        const rlimit tight{std::min(fault.fileLimit, before.rlim_max), before.rlim_max};
        std::signal(SIGXFSZ, SIG_IGN);
        ::setrlimit(RLIMIT_FSIZE, &tight);
        auto child = agent::Child::start(command);
        ::setrlimit(RLIMIT_FSIZE, &before);
        return child;
    }

    /// Its end, and what it said.
    static std::optional<agent::Exit> wait(agent::Child &child, std::string &said, std::chrono::seconds limit = std::chrono::seconds(120))
    {
        const auto until = Clock::now() + limit;
        while (Clock::now() < until) {
            said += child.read(20);
            if (const auto exit = child.poll())
                return exit;
        }
        return std::nullopt;
    }

    /// Trains to the end with nothing in the way.
    void trainToTheEnd(const std::string &run, int stages, bool resume)
    {
        Fault none;
        none.stages = stages;
        auto child = start(run, none, resume);
        QVERIFY(child.ok());
        std::string said;
        const auto exit = wait(*child, said);
        QVERIFY2(exit && exit->status == 0 && exit->signal == 0, (said + textOf(path(run) + "/log")).c_str());
    }

    void waitForLines(agent::Child &client, const std::string &run, std::size_t lines, std::string &said) const
    {
        const auto until = Clock::now() + std::chrono::seconds(60);
        while (Clock::now() < until && !client.poll() && linesIn(path(run) + "/metrics.jsonl") < lines)
            said += client.read(2);
    }

    /// One of the run's workers; their launcher's command line has the same words, after others.
    int worker(const std::string &run, unsigned pick) const
    {
        std::vector<int> workers;
        for (const int process : processesWith(path(run))) {
            std::error_code gone;
            if (fs::read_symlink(fmt::format("/proc/{}/exe", process), gone) == fs::read_symlink("/proc/self/exe") && textOf(fmt::format("/proc/{}/cmdline", process)).find("worker") != std::string::npos)
                workers.push_back(process);
        }
        return workers.empty() ? -1 : workers[pick % workers.size()];
    }

    void strike(const Fault &fault, const std::string &run, int client, int agent) const
    {
        int victim = -1;
        int signal = SIGKILL;
        switch (fault.kind) {
        case Kind::KillRank: victim = worker(run, fault.pick); break;
        case Kind::StopRank:
            victim = worker(run, fault.pick);
            signal = SIGSTOP;
            break;
        case Kind::KillAgent: victim = agent; break;
        case Kind::KillClient:
        case Kind::Truncate: victim = client; break;
        default: break;
        }
        if (victim > 1)
            ::kill(victim, signal);
    }

    /// Makes one file of the newest checkpoint shorter, or another.
    void cutShort(const std::string &run, unsigned pick) const
    {
        const auto all = checkpoint::checkpoints(path(run));
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

    /// From the strike to the agent's word on it, and to the next gang at work.
    void measure(const std::string &run, Clock::time_point struck)
    {
        std::istringstream lines(textOf(path(run) + ".states"));
        bool restarting = false;
        for (std::string line; std::getline(lines, line);) {
            long long at = 0;
            int state = 0;
            std::istringstream(line) >> at >> state;
            const double after = static_cast<double>(at - struck.time_since_epoch().count()) * 1e-6;
            if (after < 0)
                continue;
            if (state == static_cast<int>(agent::RunState::Restarting) || state == static_cast<int>(agent::RunState::Failed))
                m_noticed.push_back(after);
            if (state == static_cast<int>(agent::RunState::Running) && restarting)
                m_restarted.push_back(after);
            restarting = state == static_cast<int>(agent::RunState::Restarting);
        }
    }

private slots:
    void initTestCase()
    {
        qputenv("XDG_DATA_HOME", m_home.path().toUtf8());
        qputenv("XDG_RUNTIME_DIR", m_home.path().toUtf8());
        QVERIFY(writeFileAtomically(path("data.txt"), words()).ok());
        for (const int stages : {1, 2}) {
            QVERIFY(writeFileAtomically(path(fmt::format("plan{}.json", stages)), nanoPlan(stages)).ok());
            const std::string run = fmt::format("expected{}", stages);
            trainToTheEnd(run, stages, false);
            m_expected[stages] = lossesOf(path(run));
            QCOMPARE(m_expected[stages].size(), std::size_t{kSteps});
            QVERIFY(m_expected[stages].front() != m_expected[stages].back());
        }
    }

    void survives_data()
    {
        QTest::addColumn<unsigned>("round");
        const unsigned first = number("PLANLOOM_CHAOS_FIRST", 0); // to have one round again
        for (unsigned round = first; round < first + number("PLANLOOM_CHAOS_ROUNDS", 3); ++round) {
            const Fault fault = faultOf(number("PLANLOOM_CHAOS_SEED", 1), round);
            QTest::addRow("%u: %s after %zu steps, %d stages, %d restarts %s", round, kKindNames[static_cast<int>(fault.kind)], fault.afterLines, fault.stages, fault.restarts,
                          fault.failpoints.c_str())
                << round;
        }
    }

    void survives()
    {
        QFETCH(unsigned, round);
        const Fault fault = faultOf(number("PLANLOOM_CHAOS_SEED", 1), round);
        const std::string run = fmt::format("run{}", round);
        auto client = start(run, fault, false);
        QVERIFY(client.ok());
        std::string said;
        waitForLines(*client, run, fault.afterLines, said);
        const auto agents = childrenOf(client->pid());
        const auto struck = Clock::now();
        strike(fault, run, client->pid(), agents.empty() ? -1 : agents.front());
        const auto exit = wait(*client, said);
        QVERIFY2(exit, ("the client hangs: " + said).c_str());
        if (fault.kind == Kind::KillRank)
            measure(run, struck);

        // Nothing is left running, whoever died.
        QTRY_VERIFY_WITH_TIMEOUT(processesWith(path(run)).empty(), 20'000);
        for (const int agent : agents)
            QTRY_VERIFY_WITH_TIMEOUT(!isAlive(agent), 20'000);

        // What was said to be kept is there and whole.
        const auto newest = checkpoint::newestCheckpoint(path(run));
        QVERIFY2((newest ? newest->state.step : 0) >= committedBy(path(run)), said.c_str());
        if (fault.kind == Kind::Truncate)
            cutShort(run, fault.pick);

        const bool finished = fs::exists(path(run) + "/summary.json") && lossesOf(path(run)).size() == std::size_t{kSteps} && exit->status == 0 && exit->signal == 0;
        if (fault.restarts > 0 && fault.kind != Kind::KillThere)
            QVERIFY2(finished, said.c_str()); // the second gang came through
        if (!finished)
            trainToTheEnd(run, fault.stages, fs::exists(path(run) + "/request.json"));
        QCOMPARE(lossesOf(path(run)), m_expected[fault.stages]);
        fs::remove_all(path(run));
    }

    void cleanupTestCase()
    {
        const auto say = [](const char *what, std::vector<double> &figures) {
            if (figures.empty())
                return;
            std::sort(figures.begin(), figures.end());
            qInfo("%s: median %.0f ms, worst %.0f ms of %zu", what, figures[figures.size() / 2], figures.back(), figures.size());
        };
        say("from kill -9 of a rank to the word on it, with the gang ended", m_noticed);
        say("to the next gang at work", m_restarted);
    }
};

int main(int argc, char **argv)
{
    if (const auto status = actAsPlanloom(argc, argv, agent::runWorkerProcess))
        return *status;
    if (argc == 8 && std::string_view(argv[1]) == "train")
        return trainHere(argv);
    qputenv("QTEST_FUNCTION_TIMEOUT", "86400000"); // hundreds of rounds are one function
    QCoreApplication application(argc, argv);
    Chaos test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_chaos.moc"
