// SPDX-License-Identifier: Apache-2.0
#include "engine/base/failpoint.h"
#include "executor/checkpoint/lease.h"
#include "executor/checkpoint/restore.h"
#include "tests/executor/checkpoint/gang.h"

#include <QTemporaryDir>
#include <QTest>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace planloom;
using namespace planloom::checkpoint;
using checkpoint::testing::Gang;
using Outcome = CheckpointWriter::Outcome;
namespace fs = std::filesystem;
namespace gangs = planloom::checkpoint::testing;

namespace {

// How a gang's process ends.
constexpr int kDone = 0;
constexpr int kNotRestored = 3;
constexpr int kWrongValues = 4;
constexpr int kNoLease = 6;

constexpr std::int64_t kSteps = 6;
constexpr std::int64_t kEvery = 2;

/// What a gang does: takes the lease, resumes, trains some steps and saves as it goes. Prints "published STEP" once a checkpoint is agreed upon.
int runGang(const std::string &runDir, unsigned seed)
{
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::mt19937 random(seed);
    auto ranks = gangs::randomLayout(random, 2);
    const auto lease = Lease::acquire(runDir, "gang " + std::to_string(seed));
    if (!lease)
        return kNoLease;
    std::int64_t step = 0;
    const auto manifest = newestCheckpoint(runDir);
    if (manifest) {
        step = manifest->state.step;
        for (auto &pieces : ranks) {
            if (!restore(*manifest, gangs::piecesOf(pieces)))
                return kNotRestored;
            if (!gangs::isAt(pieces, step) || !(manifest->state == gangs::stateAt(step)))
                return kWrongValues;
        }
    }
    auto gang = Gang::create(runDir, std::move(ranks), lease->epoch());
    if (!gang)
        return kNoLease;
    const std::int64_t end = step + kSteps;
    const auto boundary = [&] {
        if ((*gang)->boundary() == Outcome::Published)
            std::printf("published %ld\n", static_cast<long>((*gang)->writers.front()->step()));
        std::fflush(stdout);
    };
    bool due = false;
    while (step < end) {
        (*gang)->fillAll(++step);
        due = due || step % kEvery == 0;
        if (due && (*gang)->writers.front()->idle()) {
            (*gang)->begin(step);
            due = false;
        }
        boundary();
    }
    while (!(*gang)->writers.front()->idle()) {
        boundary();
        std::this_thread::yield();
    }
    return kDone;
}

/// A gang's process, and the last step that it said was published.
class Process {
public:
    Process(const std::string &runDir, unsigned seed, const std::string &armed)
    {
        int ends[2];
        if (::pipe2(ends, O_CLOEXEC) != 0)
            qFatal("no pipe");
        const std::string seedText = std::to_string(seed);
        m_pid = ::fork();
        if (m_pid == 0) {
            ::dup2(ends[1], 1);
            ::setenv("PLANLOOM_FAILPOINTS", armed.c_str(), 1);
            ::execl("/proc/self/exe", "gang", "--gang", runDir.c_str(), seedText.c_str(), nullptr);
            std::_Exit(9);
        }
        ::close(ends[1]);
        m_out = ends[0];
    }
    Process(const Process &) = delete;
    Process &operator=(const Process &) = delete;
    ~Process()
    {
        if (m_pid > 0) {
            ::kill(m_pid, SIGKILL);
            ::waitpid(m_pid, nullptr, 0);
        }
        ::close(m_out);
    }

    void signal(int number) const { ::kill(m_pid, number); }
    /// Waits until it ends, or stops where @p options say so; the wait status.
    int wait(int options = 0)
    {
        int status = 0;
        ::waitpid(m_pid, &status, options);
        if (!WIFSTOPPED(status))
            m_pid = -1;
        return status;
    }
    std::int64_t published()
    {
        std::string text;
        char chunk[256];
        ::fcntl(m_out, F_SETFL, O_NONBLOCK);
        for (ssize_t got = 0; (got = ::read(m_out, chunk, sizeof chunk)) > 0;)
            text.append(chunk, static_cast<std::size_t>(got));
        const std::size_t last = text.rfind("published ");
        return last == std::string::npos ? 0 : std::atol(text.c_str() + last + 10);
    }

private:
    pid_t m_pid = -1;
    int m_out = -1;
};

/// Checks the newest checkpoint in a layout of its own; its step, 0 if there is none, -1 if it is wrong.
std::int64_t newestGoodStep(const std::string &runDir, unsigned seed)
{
    const auto manifest = newestCheckpoint(runDir);
    if (!manifest)
        return 0;
    std::mt19937 random(seed);
    for (auto &pieces : gangs::randomLayout(random))
        if (!restore(*manifest, gangs::piecesOf(pieces)) || !gangs::isAt(pieces, manifest->state.step))
            return -1;
    return manifest->state.step;
}

std::string describe(const std::string &armed, int status)
{
    return armed + ": " + (WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : "exit " + std::to_string(WEXITSTATUS(status)));
}

} // namespace

class TstCheckpointKill : public QObject {
    Q_OBJECT
private slots:
    /// Gangs that are killed at every failpoint and in between, each resuming what the one before left, in another layout.
    void killedAnywhere()
    {
        const QTemporaryDir folder(gangs::temporaryPlace());
        const std::string run = folder.path().toStdString();
        std::mt19937 random(1234);
        std::int64_t committed = 0;
        int killed = 0;
        constexpr unsigned kRounds = 200;
        for (unsigned round = 0; round < kRounds; ++round) {
            std::string armed;
            if (failpointsWork() && round % 4 != 3) {
                const char *actions[] = {"kill", "kill", "kill", "error", "full"};
                armed = std::string(failpoints()[round % failpoints().size()]) + "=" + actions[random() % 5] + "@" + std::to_string(1 + random() % 6);
            }
            Process gang(run, random(), armed);
            if (armed.empty()) {
                std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
                gang.signal(SIGKILL);
            }
            const int status = gang.wait();
            killed += WIFSIGNALED(status) ? 1 : 0;
            const bool expected = WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL
                                                      : WEXITSTATUS(status) == kDone || (WEXITSTATUS(status) == kNoLease && armed.starts_with("lease."))
                                                            || (WEXITSTATUS(status) == kNotRestored && armed.starts_with("checkpoint.restore"));
            QVERIFY2(expected, describe(armed, status).c_str());
            committed = std::max(committed, gang.published());
            const std::int64_t newest = newestGoodStep(run, round);
            QVERIFY2(newest >= committed, (describe(armed, status) + ", newest " + std::to_string(newest) + ", committed " + std::to_string(committed)).c_str());
        }
        // Without failpoints it is the clock that kills, and a fast machine is often done before.
        QVERIFY(killed > (failpointsWork() ? static_cast<int>(kRounds) / 4 : 0));
        QVERIFY(committed > (failpointsWork() ? 100 : 0)); // a busy machine gets little done before the clock strikes
        Process last(run, 1, "");
        QVERIFY(WIFEXITED(last.wait()));
        QVERIFY(last.published() > committed);
        for (const auto &entry : fs::directory_iterator(run + "/checkpoints"))
            QVERIFY2(fs::exists(entry.path() / kManifestName), entry.path().c_str());
    }

    /// A gang that was stopped, believed dead and replaced wakes up again.
    void anOldGangThatWakesUp_data()
    {
        QTest::addColumn<QString>("name");
        for (const char *name : {"checkpoint.snapshot", "checkpoint.shard-data", "checkpoint.shard-fsync", "checkpoint.part-write", "checkpoint.parts-read"})
            QTest::newRow(name) << QString(name);
    }
    void anOldGangThatWakesUp()
    {
        if (!failpointsWork())
            QSKIP("failpoints are not compiled in");
        QFETCH(QString, name);
        const QTemporaryDir folder(gangs::temporaryPlace());
        const std::string run = folder.path().toStdString();
        Process old(run, 1, name.toStdString() + "=stop@1");
        QVERIFY(WIFSTOPPED(old.wait(WUNTRACED)));
        Process young(run, 2, "");
        const int status = young.wait();
        QVERIFY2(WIFEXITED(status) && WEXITSTATUS(status) == kDone, describe("young", status).c_str());
        const std::int64_t committed = young.published();
        QVERIFY(committed > 0);
        old.signal(SIGCONT);
        QVERIFY(WIFEXITED(old.wait()));
        QCOMPARE(newestGoodStep(run, 3), committed);
        for (const auto &manifest : checkpoints(run))
            QVERIFY2(manifest.lease == 2 || manifest.state.step <= committed - kSteps, manifest.folder.c_str());
        QCOMPARE(checkpoints(run).front().lease, 2);
    }
};

int main(int argc, char **argv)
{
    if (argc == 4 && std::string_view(argv[1]) == "--gang")
        return runGang(argv[2], static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10)));
    TstCheckpointKill test;
    return QTest::qExec(&test, argc, argv);
}
#include "tst_checkpoint_kill.moc"
