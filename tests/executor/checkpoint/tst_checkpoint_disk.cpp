// SPDX-License-Identifier: Apache-2.0
// Checkpoints on a disk that is full. Skipped where a file system can be mounted neither as root nor in a user
// namespace.
#include "tests/executor/checkpoint/worker_group.h"

#include <QTemporaryDir>
#include <QTest>

#include <fstream>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

using namespace planloom;
using namespace planloom::checkpoint;
using namespace planloom::checkpoint::testing;
using Outcome = CheckpointWriter::Outcome;
namespace fs = std::filesystem;

namespace {

/// A disk of 256 KiB.
class SmallDisk {
public:
    explicit SmallDisk(std::string path) : m_path(std::move(path))
    {
        fs::create_directory(m_path);
        mounted = ::mount("tmpfs", m_path.c_str(), "tmpfs", 0, "size=256k") == 0;
    }
    SmallDisk(const SmallDisk &) = delete;
    SmallDisk &operator=(const SmallDisk &) = delete;
    ~SmallDisk()
    {
        if (mounted)
            ::umount2(m_path.c_str(), MNT_DETACH);
    }
    bool mounted = false;

private:
    std::string m_path;
};

/// Makes this process, which must have one thread, the root of a new user namespace, where it may mount. Where
/// that is forbidden nothing changes.
void becomeRootOfOwnNamespace()
{
    const std::string user = std::to_string(::getuid());
    const std::string group = std::to_string(::getgid());
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " + user + " 1";
    std::ofstream("/proc/self/gid_map") << "0 " + group + " 1";
}

} // namespace

class TstCheckpointDisk : public QObject {
    Q_OBJECT
private slots:
    void initTestCase()
    {
        const QTemporaryDir folder(temporaryPlace());
        if (!SmallDisk(folder.path().toStdString() + "/disk").mounted)
            QSKIP("mounting needs privileges, or user namespaces");
    }

    void aFullDiskIsReportedAndClearedUp()
    {
        const QTemporaryDir folder(temporaryPlace());
        const std::string run = folder.path().toStdString() + "/disk";
        const SmallDisk disk(run);
        QVERIFY(disk.mounted);
        const auto group = groupIn(run, layout(24));
        QCOMPARE(group->save(1), Outcome::Published);
        std::ofstream filler(run + "/filler", std::ios::binary);
        const std::string block(4096, 'x');
        while (filler.write(block.data(), std::ssize(block)).flush())
            ;
        const auto before = filesIn(run + "/checkpoints");
        QCOMPARE(group->save(2), Outcome::Failed);
        QVERIFY2(group->failures().find("No space left") != std::string::npos, group->failures().c_str());
        QCOMPARE(filesIn(run + "/checkpoints"), before);
        filler.close();
        fs::remove(run + "/filler");
        QCOMPARE(group->save(3), Outcome::Published);
        auto ranks = layout(25);
        QCOMPARE(resume(run, ranks), 3);
    }
};

int main(int argc, char **argv)
{
    becomeRootOfOwnNamespace();
    TstCheckpointDisk test;
    return QTest::qExec(&test, argc, argv);
}
#include "tst_checkpoint_disk.moc"
