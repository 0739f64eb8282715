// SPDX-License-Identifier: Apache-2.0
#include "engine/compile/compile.h"
#include "executor/checkpoint/lease.h"
#include "executor/checkpoint/restore.h"
#include "executor/runtime/training_fixture.h"
#include "executor/runtime/worker.h"

#include <QFile>
#include <QProcess>
#include <QProcessEnvironment>
#include <QTemporaryDir>
#include <QTest>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>

using namespace planloom;
using namespace planloom::test;

namespace {

/// Writes what a worker reports into files of the run's folder, one a rank.
class FileChannel final : public runtime::WorkerChannel {
public:
    FileChannel(std::string folder, std::string mode) : m_folder(std::move(folder)), m_mode(std::move(mode)) {}

    void hello(int rank, std::int64_t) override
    {
        m_out.open(m_folder + "/rank" + std::to_string(rank));
        m_out.precision(17);
        if (m_mode == "--freeze" && rank == 1)
            ::raise(SIGSTOP);
    }
    void metrics(const run::StepMetrics &report) override
    {
        m_out << "step " << report.step << ' ' << report.loss << '\n';
    }
    void keepMetrics(std::int64_t steps) override
    {
        m_out << "keep " << steps << '\n';
        m_toKeep = steps;
        m_lookedAt = 0;
    }
    /// Takes its time; meanwhile there must be no checkpoint of that step.
    [[nodiscard]] std::optional<std::int64_t> metricsKept() override
    {
        constexpr int kLooks = 10;
        if (m_mode == "--keep-nothing")
            return std::nullopt;
        if (m_lookedAt++ < kLooks) {
            if (std::filesystem::exists(
                    fmt::format("{}/checkpoints/step-{:08}/{}", m_folder, m_toKeep, checkpoint::kManifestName)))
                m_out << "early " << m_toKeep << '\n';
            return 0;
        }
        return m_toKeep;
    }
    void records(std::span<const trace::Record> records, std::int64_t dropped) override
    {
        m_records += records.size();
        m_dropped = dropped;
    }
    void evaluation(const run::Validation &held) override { m_out << "evaluated " << held.samples << '\n'; }
    void sent(std::int64_t bytes) override { m_out << "sent " << bytes << '\n'; }
    void finished(const runtime::MemoryUse &memory, const std::string &errorText) override
    {
        m_out << "records " << m_records << '\n'
              << "dropped " << m_dropped << '\n'
              << "peak " << memory.arena << '\n'
              << "done " << m_done << '\n'
              << "beyond " << memory.beyondArena() << '\n';
        if (!errorText.empty())
            m_out << "error " << errorText << '\n';
        m_out.flush();
    }
    void progress(std::int64_t done, bool) override { m_done = done; }
    [[nodiscard]] bool stopRequested() override { return m_mode == "--stop"; }

private:
    std::string m_folder;
    std::string m_mode;
    std::ofstream m_out;
    std::size_t m_records = 0;
    std::int64_t m_dropped = 0;
    std::int64_t m_done = 0;
    std::int64_t m_toKeep = 0;
    int m_lookedAt = 0;
};

std::vector<std::string> linesOf(const QString &path)
{
    std::ifstream file(path.toStdString());
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);)
        lines.push_back(line);
    return lines;
}

/// The text after @p key on each of its lines.
std::vector<std::string> valuesOf(const std::vector<std::string> &lines, const std::string &key)
{
    std::vector<std::string> values;
    for (const std::string &line : lines) {
        if (line.starts_with(key + " "))
            values.push_back(line.substr(key.size() + 1));
    }
    return values;
}

} // namespace

/// Worker processes: this program starts itself again, alone or under mpirun.
class TestWorker : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void init();
    void runs_data();
    void runs();
    void traces_data();
    void traces();
    void stops();
    void checkpointsWaitForMetrics();
    void noCheckpointWithoutMetrics();
    void wrongInput_data();
    void wrongInput();
    void silenceEndsAtTheDeadline();

private:
    void writeRun(const Layout &layout, const QByteArray &request);
    QByteArray request(const char *more = "") const;
    /// Returns the exit status; -1: it did not end.
    int start(int ranks, const QString &mode = {});
    [[nodiscard]] std::vector<std::string> rankLines(int rank) const
    {
        return linesOf(m_folder->filePath("rank" + QString::number(rank)));
    }

    std::unique_ptr<QTemporaryDir> m_folder;
    plan::Subject m_subject;
    QByteArray m_output;
};

void TestWorker::initTestCase()
{
    graph::TransformerConfig config;
    config.name = "tiny";
    config.layers = 2;
    config.heads = 2;
    config.hidden = 32;
    config.feedForward = 64;
    config.vocabulary = 256;
    config.context = 16;
    auto graph = graph::gpt(config);
    QVERIFY(graph.ok());
    m_subject =
        plan::makeSubject(std::make_shared<const graph::Graph>(std::move(*graph)), cpus(8), nullptr, "zoo:tiny");
}

void TestWorker::init()
{
    m_folder = std::make_unique<QTemporaryDir>();
    QFile text(m_folder->filePath("text.txt"));
    QVERIFY(text.open(QIODevice::WriteOnly));
    for (int i = 0; i < 300; ++i)
        text.write("line " + QByteArray::number(i * i % 97) + "\n");
}

QByteArray TestWorker::request(const char *more) const
{
    return R"({"data": ")" + m_folder->filePath("text.txt").toUtf8() + R"(", "steps": 6, "seed": 5)" + more + "}";
}

void TestWorker::writeRun(const Layout &layout, const QByteArray &request)
{
    const Status written =
        plan::writePlan({planOf(m_subject, layout), m_subject}, m_folder->filePath("plan.json").toStdString());
    QVERIFY2(written.ok(), written.ok() ? "" : written.error().text().c_str());
    QFile file(m_folder->filePath("request.json"));
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(request);
}

int TestWorker::start(int ranks, const QString &mode)
{
    const QStringList worker{QCoreApplication::applicationFilePath(), "--as-worker", m_folder->path(),
                             mode.isEmpty() ? "--run" : mode};
    QProcess process;
    process.setProcessChannelMode(QProcess::MergedChannels);
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert("ASAN_OPTIONS", "detect_leaks=0"); // Open MPI leaks at its end
    process.setProcessEnvironment(environment);
    if (ranks == 1)
        process.start(worker.front(), worker.mid(1));
    else
        process.start("mpirun",
                      QStringList{"--oversubscribe", "--bind-to", "none", "-np", QString::number(ranks)} + worker);
    const bool ended = process.waitForFinished(120000);
    m_output = process.readAll();
    return ended && process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -1;
}

void TestWorker::runs_data()
{
    QTest::addColumn<int>("stages");
    QTest::addColumn<int>("replicas");
    QTest::newRow("1 rank") << 1 << 1;
    QTest::newRow("2 data-parallel") << 1 << 2;
    QTest::newRow("2 stages x 2") << 2 << 2;
}

void TestWorker::runs()
{
    QFETCH(int, stages);
    QFETCH(int, replicas);
    const int ranks = stages * replicas;
    Layout layout;
    layout.microBatches = 4;
    layout.stages.assign(static_cast<std::size_t>(stages),
                         {std::vector<double>(static_cast<std::size_t>(replicas), 1.0 / replicas)});
    writeRun(layout, request(R"(, "holdout": 0.1)"));
    QVERIFY2(start(ranks) == 0, m_output.constData());

    // The same run on threads of this process.
    const auto program = compile::compilePlan(planOf(m_subject, layout), m_subject);
    const auto needs = data::needsOf(*m_subject.graph);
    const auto data = data::openDataSet(m_folder->filePath("text.txt").toStdString(), *needs);
    const runtime::Feed feed{data->get(), *needs, data::SampleOrder((*data)->samples(), 5, 0.1)};
    Training how;
    how.steps = 6;
    how.seed = 5;
    const Outcome expected = train(*program, m_subject, {}, feed, how);
    QVERIFY2(expected.problem.empty(), expected.problem.c_str());
    const std::vector<std::string> steps = valuesOf(rankLines(0), "step");
    QCOMPARE(steps.size(), expected.losses.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
        std::int64_t step = -1;
        double loss = 0;
        std::istringstream(steps[i]) >> step >> loss;
        QCOMPARE(step, static_cast<std::int64_t>(i));
        QVERIFY(std::abs(loss - expected.losses[i]) < 1e-4 * expected.losses[i]);
    }
    QCOMPARE(valuesOf(rankLines(0), "evaluated"), std::vector<std::string>{std::to_string(feed.order.heldOut())});
    for (int rank = 0; rank < ranks; ++rank) {
        const program::Rank &planned = program->ranks[static_cast<std::size_t>(rank)];
        QCOMPARE(valuesOf(rankLines(rank), "peak"), std::vector<std::string>{std::to_string(planned.arenaBytes)});
        QCOMPARE(valuesOf(rankLines(rank), "records"),
                 std::vector<std::string>{std::to_string(6 * planned.tasks.size())});
        QCOMPARE(valuesOf(rankLines(rank), "dropped"), std::vector<std::string>{"0"});
        const std::int64_t sent = expected.collectiveBytes[static_cast<std::size_t>(rank)];
        QCOMPARE(sent > 0, replicas > 1);
        QCOMPARE(valuesOf(rankLines(rank), "sent"), std::vector<std::string>{std::to_string(sent)});
        QCOMPARE(valuesOf(rankLines(rank), "error").size(), std::size_t{0});
    }
}

void TestWorker::traces_data()
{
    QTest::addColumn<int>("every");
    QTest::addColumn<int>("steps");
    QTest::newRow("every step") << 1 << 6;
    QTest::newRow("every fourth step") << 4 << 2;
    QTest::newRow("none") << 0 << 0;
}

void TestWorker::traces()
{
    QFETCH(int, every);
    QFETCH(int, steps);
    writeRun({}, request(qPrintable(QString(R"(, "trace_every": %1)").arg(every))));
    QVERIFY2(start(1) == 0, m_output.constData());
    const auto program = compile::compilePlan(planOf(m_subject, {}), m_subject);
    QCOMPARE(valuesOf(rankLines(0), "records"),
             std::vector<std::string>{
                 std::to_string(static_cast<std::size_t>(steps) * program->ranks[0].tasks.size())});
    QCOMPARE(valuesOf(rankLines(0), "step").size(), std::size_t{6});
    // Traced or not, tasks that end are progress; and a process is more than its arena.
    QVERIFY(std::stoll(valuesOf(rankLines(0), "done").front())
            >= 6 * static_cast<std::int64_t>(program->ranks[0].tasks.size()));
    QVERIFY(std::stoll(valuesOf(rankLines(0), "beyond").front()) > 0);
}

void TestWorker::stops()
{
    writeRun({}, request().replace("\"steps\": 6", "\"steps\": 100000000"));
    QVERIFY2(start(1, "--stop") == 0, m_output.constData());
    QVERIFY(!valuesOf(rankLines(0), "step").empty());
    QCOMPARE(valuesOf(rankLines(0), "error").size(), std::size_t{0});
}

/// A run resumed from a checkpoint reports none of the steps before it: it must not exist before their metrics do.
void TestWorker::checkpointsWaitForMetrics()
{
    const auto lease = checkpoint::Lease::acquire(m_folder->path().toStdString(), "test");
    QVERIFY(lease.ok());
    writeRun({},
             request(qPrintable(QString(R"(, "checkpoint_every": 2, "keep": 9, "lease": %1)").arg(lease->epoch()))));
    QVERIFY2(start(1) == 0, m_output.constData());
    std::int64_t told = 0;
    std::vector<std::int64_t> asked;
    for (const std::string &line : rankLines(0)) {
        if (line.starts_with("step "))
            ++told;
        if (!line.starts_with("keep "))
            continue;
        asked.push_back(std::stoll(line.substr(5)));
        QVERIFY(told >= asked.back());
    }
    QCOMPARE(valuesOf(rankLines(0), "early").size(), std::size_t{0});
    QCOMPARE(asked.back(), std::int64_t{6});
    std::vector<std::int64_t> kept;
    for (const checkpoint::Manifest &manifest : checkpoint::checkpoints(m_folder->path().toStdString()))
        kept.insert(kept.begin(), manifest.state.step);
    QCOMPARE(kept, asked);
}

void TestWorker::noCheckpointWithoutMetrics()
{
    const auto lease = checkpoint::Lease::acquire(m_folder->path().toStdString(), "test");
    QVERIFY(lease.ok());
    writeRun({}, request(qPrintable(QString(R"(, "checkpoint_every": 2, "lease": %1)").arg(lease->epoch()))));
    QVERIFY2(start(1, "--keep-nothing") == 0, m_output.constData());
    QCOMPARE(valuesOf(rankLines(0), "step").size(), std::size_t{6});
    QVERIFY2(m_output.contains("there is no checkpoint of step 2: the connection over which step metrics are stored"),
             m_output.constData());
    QVERIFY(checkpoint::checkpoints(m_folder->path().toStdString()).empty());
}

void TestWorker::wrongInput_data()
{
    QTest::addColumn<QByteArray>("request");
    QTest::addColumn<QByteArray>("says");
    QTest::newRow("no JSON") << QByteArray("{\"data\": ") << QByteArray("request.json:1");
    QTest::newRow("no data") << QByteArray("{\"steps\": 3,\n \"seed\": 1}") << QByteArray("data");
    QTest::newRow("no steps") << QByteArray("{\"data\": \"x\", \"steps\": 0, \"seed\": 1}") << QByteArray("steps");
    QTest::newRow("holdout") << QByteArray("{\"data\": \"x\", \"steps\": 1, \"seed\": 1, \"holdout\": 1}")
                             << QByteArray("holdout");
    QTest::newRow("missing data file") << QByteArray("{\"data\": \"/nowhere/at.all\", \"steps\": 1, \"seed\": 1}")
                                       << QByteArray("/nowhere/at.all");
}

void TestWorker::wrongInput()
{
    QFETCH(QByteArray, request);
    QFETCH(QByteArray, says);
    writeRun({}, request);
    QCOMPARE(start(1), 2);
    const std::vector<std::string> errors = valuesOf(rankLines(0), "error");
    QCOMPARE(errors.size(), std::size_t{1});
    QVERIFY2(errors[0].find(says.toStdString()) != std::string::npos, errors[0].c_str());
}

void TestWorker::silenceEndsAtTheDeadline()
{
    Layout layout;
    layout.stages.resize(2);
    writeRun(layout, request(R"(, "timeout_seconds": 1)"));
    const int status = start(2, "--freeze");
    QVERIFY2(status > 0, m_output.constData());
    const std::vector<std::string> errors = valuesOf(rankLines(0), "error");
    QCOMPARE(errors.size(), std::size_t{1});
    QVERIFY2(errors[0].find("waited 1 s") != std::string::npos, errors[0].c_str());
}

int main(int argc, char **argv)
{
    if (argc == 4 && std::strcmp(argv[1], "--as-worker") == 0) {
        FileChannel channel(argv[2], argv[3]);
        return runtime::runWorker({argv[2], &channel});
    }
    const QCoreApplication application(argc, argv);
    TestWorker test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_worker.moc"
