// SPDX-License-Identifier: Apache-2.0
#include "executor/comm/local_group.h"
#include "executor/comm/mpi_communicator.h"

#include <QProcess>
#include <QProcessEnvironment>
#include <QStandardPaths>
#include <QTest>

#include <cstring>
#include <numeric>
#include <thread>

using namespace planloom;
using namespace planloom::comm;

namespace {

constexpr std::chrono::seconds kDeadline{20};

#define REQUIRE(condition) \
    do { \
        if (!(condition)) \
            return std::string(#condition) + " does not hold on rank " + std::to_string(end.rank()); \
    } while (false)

/// A ring of messages with two tags sent in the other order than received, a reduction over all and one over the odd ranks.
/// Returns what went wrong; empty: nothing.
std::string exercise(Communicator &end)
{
    const int size = end.size();
    const int next = (end.rank() + 1) % size;
    const int previous = (end.rank() + size - 1) % size;
    std::vector<int> out(5000, end.rank());
    std::vector<int> in(5000, -1);
    const auto bytes = static_cast<std::int64_t>(out.size() * sizeof(int));
    char small = static_cast<char>('a' + end.rank());
    char smallIn = 0;
    Result<Request> requests[] = {end.isend(out.data(), bytes, next, 7), end.isend(&small, 1, next, 8), end.irecv(&smallIn, 1, previous, 8),
                                  end.irecv(in.data(), bytes, previous, 7)};
    for (Result<Request> &request : requests) {
        REQUIRE(request.ok());
        REQUIRE(end.wait(*request, kDeadline, "the ring").ok());
        REQUIRE(!request->pending());
    }
    REQUIRE(in == std::vector<int>(5000, previous));
    REQUIRE(smallIn == 'a' + previous);

    std::vector<float> values(1000);
    std::iota(values.begin(), values.end(), static_cast<float>(end.rank()));
    Result<Request> all = end.allReduce(end.world(), values.data(), 1000);
    REQUIRE(all.ok() && end.wait(*all, kDeadline, "all").ok());
    const auto ranks = static_cast<float>(size);
    for (std::size_t i = 0; i < values.size(); ++i)
        REQUIRE(values[i] == ranks * static_cast<float>(i) + ranks * (ranks - 1) / 2);

    std::vector<int> odd;
    for (int rank = 1; rank < size; rank += 2)
        odd.push_back(rank);
    const Result<Group> group = end.makeGroup(odd);
    REQUIRE(group.ok());
    if (end.rank() % 2 == 1) {
        for (int round = 1; round <= 3; ++round) {
            float one = static_cast<float>(round);
            Result<Request> some = end.allReduce(*group, &one, 1);
            REQUIRE(some.ok() && end.wait(*some, kDeadline, "the odd ranks").ok());
            REQUIRE(one == static_cast<float>(round) * static_cast<float>(odd.size()));
        }
    }
    REQUIRE(end.barrier(kDeadline).ok());
    return {};
}

std::vector<std::string> onThreads(int size, const std::function<std::string(Communicator &)> &work)
{
    LocalGroup group(size);
    std::vector<std::string> problems(static_cast<std::size_t>(size));
    {
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < size; ++rank)
            threads.emplace_back([&, rank] { problems[static_cast<std::size_t>(rank)] = work(*group.end(rank)); });
    }
    return problems;
}

} // namespace

class TestCommunicator : public QObject {
    Q_OBJECT

private slots:
    void threadsExchange_data();
    void threadsExchange();
    void reductionOrderIsFixed();
    void waitingEndsAtTheDeadline();
    void abortReachesEveryRank();
    void unequalMessagesAreRefused();
    void processesExchange();
};

void TestCommunicator::threadsExchange_data()
{
    QTest::addColumn<int>("ranks");
    for (const int ranks : {1, 2, 3, 5})
        QTest::addRow("%d ranks", ranks) << ranks;
}

void TestCommunicator::threadsExchange()
{
    QFETCH(int, ranks);
    for (const std::string &problem : onThreads(ranks, exercise))
        QCOMPARE(problem, std::string());
}

void TestCommunicator::reductionOrderIsFixed()
{
    // In single precision (1e8 + 1) - 1e8 is 0 and (1e8 - 1e8) + 1 is 1: the order shows.
    for (int round = 0; round < 50; ++round) {
        const auto problems = onThreads(3, [](Communicator &end) -> std::string {
            const float mine[] = {1e8F, -1e8F, 1.0F};
            float value = mine[end.rank()];
            Result<Request> request = end.allReduce(end.world(), &value, 1);
            REQUIRE(request.ok() && end.wait(*request, kDeadline, "a sum").ok());
            REQUIRE(value == 1.0F);
            return {};
        });
        for (const std::string &problem : problems)
            QCOMPARE(problem, std::string());
    }
}

void TestCommunicator::waitingEndsAtTheDeadline()
{
    LocalGroup group(2);
    const auto end = group.end(0);
    char byte = 0;
    Result<Request> request = end->irecv(&byte, 1, 1, 0);
    QVERIFY(request.ok());
    const Status status = end->wait(*request, std::chrono::milliseconds(5), "a byte that nobody sends");
    QVERIFY(!status.ok());
    QVERIFY(status.error().message.find("a byte that nobody sends") != std::string::npos);
}

void TestCommunicator::abortReachesEveryRank()
{
    LocalGroup group(2);
    const auto first = group.end(0);
    const auto second = group.end(1);
    char byte = 0;
    Result<Request> request = first->irecv(&byte, 1, 1, 0);
    QVERIFY(request.ok());
    second->abort("the data ended");
    const Status status = first->wait(*request, kDeadline, "a byte");
    QVERIFY(!status.ok());
    QCOMPARE(status.error().message, std::string("rank 1 stopped: the data ended"));
}

void TestCommunicator::unequalMessagesAreRefused()
{
    LocalGroup group(2);
    const auto first = group.end(0);
    const auto second = group.end(1);
    char bytes[4] = {};
    QVERIFY(first->isend(bytes, 4, 1, 3).ok());
    Result<Request> request = second->irecv(bytes, 3, 0, 3);
    QVERIFY(request.ok());
    QVERIFY(!second->test(*request).ok());
}

void TestCommunicator::processesExchange()
{
    if (QStandardPaths::findExecutable("mpirun").isEmpty())
        QSKIP("mpirun is not installed");
    QProcess launcher;
    launcher.setProcessChannelMode(QProcess::MergedChannels);
    QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
    environment.insert("ASAN_OPTIONS", "detect_leaks=0"); // Open MPI leaks at its end
    launcher.setProcessEnvironment(environment);
    launcher.start("mpirun", {"--oversubscribe", "--bind-to", "none", "-np", "3", QCoreApplication::applicationFilePath(), "--as-mpi-rank"});
    QVERIFY(launcher.waitForFinished(60000));
    QVERIFY2(launcher.exitCode() == 0, launcher.readAll().constData());
}

/// This program started by mpirun: does what the threads do, and says by its exit status whether it went well.
static int runAsMpiRank()
{
    auto end = joinMpi();
    if (!end)
        return 1;
    const std::string problem = (*end)->size() == 3 ? exercise(**end) : "mpirun did not start 3 ranks";
    if (problem.empty())
        return 0;
    (*end)->abort(problem);
    return 1;
}

int main(int argc, char **argv)
{
    if (argc == 2 && std::strcmp(argv[1], "--as-mpi-rank") == 0)
        return runAsMpiRank();
    const QCoreApplication application(argc, argv);
    TestCommunicator test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_communicator.moc"
