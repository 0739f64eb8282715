// SPDX-License-Identifier: Apache-2.0
#include "engine/base/failpoint.h"
#include "tests/executor/checkpoint/worker_group_process.h"

#include <QTemporaryDir>
#include <QTest>

#include <chrono>

using namespace planloom;
using namespace planloom::checkpoint;
using namespace planloom::checkpoint::testing;
namespace fs = std::filesystem;

class TstCheckpointKill : public QObject {
    Q_OBJECT
private slots:
    /// Worker groups that are killed at every failpoint and in between, each resuming what the one before left, in
    /// another layout.
    void killedAnywhere()
    {
        const QTemporaryDir folder(temporaryPlace());
        const std::string run = folder.path().toStdString();
        std::mt19937 random(1234);
        std::int64_t committed = 0;
        int killed = 0;
        constexpr unsigned kRounds = 200;
        for (unsigned round = 0; round < kRounds; ++round) {
            std::string armed;
            if (failpointsWork() && round % 4 != 3) {
                const char *actions[] = {"kill", "kill", "kill", "error", "full"};
                armed = std::string(failpoints()[round % failpoints().size()]) + "=" + actions[random() % 5] + "@"
                    + std::to_string(1 + random() % 6);
            }
            Process group(run, random(), armed);
            if (armed.empty()) {
                std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
                group.signal(SIGKILL);
            }
            const int status = group.wait();
            killed += WIFSIGNALED(status) ? 1 : 0;
            const bool expected = WIFSIGNALED(status)
                ? WTERMSIG(status) == SIGKILL
                : WEXITSTATUS(status) == kDone || (WEXITSTATUS(status) == kNoLease && armed.starts_with("lease."))
                    || (WEXITSTATUS(status) == kNotRestored && armed.starts_with("checkpoint.restore"));
            QVERIFY2(expected, describe(armed, status).c_str());
            committed = std::max(committed, group.published());
            const std::int64_t newest = newestGoodStep(run, round);
            QVERIFY2(newest >= committed,
                     (describe(armed, status) + ", newest " + std::to_string(newest) + ", committed "
                      + std::to_string(committed))
                         .c_str());
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
};

int main(int argc, char **argv)
{
    if (argc == 4 && std::string_view(argv[1]) == "--group")
        return runGroup(argv[2], static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10)));
    TstCheckpointKill test;
    return QTest::qExec(&test, argc, argv);
}
#include "tst_checkpoint_kill.moc"
