// SPDX-License-Identifier: Apache-2.0
#include "engine/base/crc32c.h"
#include "engine/base/failpoint.h"
#include "engine/base/files.h"
#include "engine/weights/convert.h"
#include "engine/weights/safetensors.h"
#include "executor/checkpoint/export_weights.h"
#include "executor/checkpoint/lease.h"
#include "executor/checkpoint/publish.h"
#include "executor/checkpoint/restore.h"
#include "tests/executor/checkpoint/gang.h"

#include <QTemporaryDir>
#include <QTest>

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sys/mount.h>

using namespace planloom;
using namespace planloom::checkpoint;
using checkpoint::testing::Gang;
using Outcome = CheckpointWriter::Outcome;
namespace fs = std::filesystem;
namespace gangs = planloom::checkpoint::testing;

namespace {

std::unique_ptr<Gang> gangIn(const std::string &runDir, std::vector<gangs::RankPieces> ranks, int keep = 2)
{
    auto lease = Lease::acquire(runDir, "test");
    if (!lease)
        qFatal("%s", lease.error().text().c_str());
    auto gang = Gang::create(runDir, std::move(ranks), lease->epoch(), keep);
    if (!gang)
        qFatal("%s", gang.error().text().c_str());
    return *std::move(gang);
}

std::vector<gangs::RankPieces> layout(unsigned seed)
{
    std::mt19937 random(seed);
    return gangs::randomLayout(random);
}

/// Reads the newest checkpoint into @p ranks; the step that is in all of them, or -1.
std::int64_t resume(const std::string &runDir, std::vector<gangs::RankPieces> &ranks)
{
    const auto manifest = newestCheckpoint(runDir);
    if (!manifest)
        return -1;
    for (auto &pieces : ranks) {
        if (!restore(*manifest, gangs::piecesOf(pieces)) || !gangs::isAt(pieces, manifest->state.step))
            return -1;
    }
    return manifest->state.step;
}

std::vector<std::string> filesIn(const std::string &folder)
{
    std::vector<std::string> names;
    for (const auto &entry : fs::recursive_directory_iterator(folder))
        names.push_back(entry.path().string());
    std::sort(names.begin(), names.end());
    return names;
}

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

} // namespace

class TstCheckpoint : public QObject {
    Q_OBJECT
private slots:
    void init()
    {
        m_folder = std::make_unique<QTemporaryDir>(gangs::temporaryPlace());
        m_run = m_folder->path().toStdString();
    }
    void cleanup() { QVERIFY(armFailpoints("").ok()); }

    void everyLayoutReadsEveryOther()
    {
        for (unsigned seed = 0; seed < 60; ++seed) {
            const std::string run = m_run + "/" + std::to_string(seed);
            fs::create_directory(run);
            const auto gang = gangIn(run, layout(seed));
            QCOMPARE(gang->save(5 + seed), Outcome::Published);
            for (unsigned other = 0; other < 4; ++other) {
                auto ranks = layout(1000 + 4 * seed + other);
                QCOMPARE(resume(run, ranks), 5 + seed);
            }
        }
    }

    void theManifestSaysWhereTrainingStood()
    {
        const auto gang = gangIn(m_run, layout(3));
        QCOMPARE(gang->save(120), Outcome::Published);
        const auto manifest = newestCheckpoint(m_run);
        QVERIFY(manifest.ok());
        QVERIFY(manifest->state == gangs::stateAt(120));
        QCOMPARE(manifest->world, static_cast<int>(gang->ranks.size()));
        QCOMPARE(manifest->lease, 1);
        QCOMPARE(manifest->folder, m_run + "/checkpoints/step-00000120");
        for (const auto &name : filesIn(manifest->folder))
            QVERIFY2(name.ends_with(".safetensors") || name.ends_with("/manifest.json"), name.c_str());
        QCOMPARE(toJson(*manifestFromJson(*readFile(manifest->folder + "/manifest.json"))), *readFile(manifest->folder + "/manifest.json"));
    }

    void trainingGoesOnWhileFilesAreWritten()
    {
        const auto gang = gangIn(m_run, layout(4));
        gang->fillAll(1);
        gang->begin(1);
        gang->fillAll(2); // the next step overwrites what is being saved
        QVERIFY(!gang->writers.front()->idle());
        QCOMPARE(gang->settle(), Outcome::Published);
        QVERIFY(gang->writers.front()->idle());
        auto ranks = layout(5);
        QCOMPARE(resume(m_run, ranks), 1);
    }

    void nobodyPublishesBeforeAllRanksAreDone()
    {
        const auto gang = gangIn(m_run, layout(6));
        QVERIFY(gang->writers.size() > 1);
        gang->fillAll(1);
        gang->begin(1);
        // The last rank never votes: its shard may be missing.
        for (int i = 0; i < 200; ++i) {
            Votes sums;
            for (std::size_t rank = 0; rank + 1 < gang->writers.size(); ++rank)
                sums.ready += gang->writers[rank]->votes().ready;
            for (auto &writer : gang->writers)
                QCOMPARE(writer->agree(sums), Outcome::Nothing);
        }
        QVERIFY(!newestCheckpoint(m_run).ok());
        QCOMPARE(gang->settle(), Outcome::Published);
    }

    void theNewestStay()
    {
        const auto gang = gangIn(m_run, layout(7), 3);
        for (std::int64_t step = 10; step <= 60; step += 10)
            QCOMPARE(gang->save(step), Outcome::Published);
        std::vector<std::int64_t> steps;
        for (const auto &manifest : checkpoints(m_run))
            steps.push_back(manifest.state.step);
        QCOMPARE(steps, (std::vector<std::int64_t>{60, 50, 40}));
        QCOMPARE(std::distance(fs::directory_iterator(m_run + "/checkpoints"), {}), 3);
    }

    void damageAnywhereIsSeen()
    {
        const auto gang = gangIn(m_run, layout(8), 0);
        QCOMPARE(gang->save(1), Outcome::Published);
        QCOMPARE(gang->save(2), Outcome::Published);
        const std::string folder = newestCheckpoint(m_run)->folder;
        std::mt19937 random(8);
        auto ranks = layout(9);
        for (const auto &path : filesIn(folder)) {
            const std::string good = *readFile(path);
            // Both ends, and places by chance: one bit turned, or cut there.
            std::vector<std::size_t> places{0, 1, 7, 8, 9, good.size() / 2, good.size() - 1};
            for (int i = 0; i < 12; ++i)
                places.push_back(random() % good.size());
            for (const std::size_t place : places)
                for (const bool cut : {false, true}) {
                    std::string bad = good;
                    if (cut)
                        bad.resize(place);
                    else
                        bad[place] = static_cast<char>(bad[place] ^ 1 << random() % 8);
                    std::ofstream(path, std::ios::binary | std::ios::trunc) << bad;
                    QCOMPARE(resume(m_run, ranks), 1); // the one before
                }
            std::ofstream(path, std::ios::binary | std::ios::trunc) << good + "x";
            QCOMPARE(resume(m_run, ranks), 1);
            fs::remove(path);
            QCOMPARE(resume(m_run, ranks), 1);
            std::ofstream(path, std::ios::binary | std::ios::trunc) << good;
            QCOMPARE(resume(m_run, ranks), 2);
        }
    }

    void restoreItselfSeesDamage()
    {
        const auto gang = gangIn(m_run, layout(10));
        QCOMPARE(gang->save(1), Outcome::Published);
        const auto manifest = newestCheckpoint(m_run);
        const std::string path = manifest->folder + "/" + manifest->files.front().name;
        std::string bytes = *readFile(path);
        bytes.back() = static_cast<char>(bytes.back() ^ 1);
        std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
        Status worst;
        auto ranks = layout(11);
        for (auto &pieces : ranks)
            if (const Status done = restore(*manifest, gangs::piecesOf(pieces)); !done)
                worst = done;
        QVERIFY(!worst.ok());
        QVERIFY(worst.error().text().find("checksum") != std::string::npos);
    }

    void aLinkIsNotAShard()
    {
        const auto gang = gangIn(m_run, layout(10));
        QCOMPARE(gang->save(1), Outcome::Published);
        const auto manifest = newestCheckpoint(m_run);
        const std::string path = manifest->folder + "/" + manifest->files.front().name;
        fs::rename(path, m_run + "/elsewhere");
        fs::create_symlink(m_run + "/elsewhere", path);
        QVERIFY(!newestCheckpoint(m_run).ok());
    }

    void whatIsAskedForMustBeThere_data()
    {
        QTest::addColumn<int>("change");
        QTest::addColumn<QString>("says");
        QTest::newRow("unknown tensor") << 0 << "is not in it";
        QTest::newRow("no such moment") << 1 << "is not in it";
        QTest::newRow("another type") << 2 << "float32 in it";
        QTest::newRow("other sizes") << 3 << "sizes";
    }
    void whatIsAskedForMustBeThere()
    {
        QFETCH(int, change);
        QFETCH(QString, says);
        const auto gang = gangIn(m_run, layout(12));
        QCOMPARE(gang->save(1), Outcome::Published);
        std::vector<std::byte> memory(8 * 24 * 8);
        Piece piece{"attn.weight", Kind::Parameter, graph::DType::F32, {8, 24}, wholeRegion({8, 24}), 0, 8 * 24, memory.data(), false};
        QVERIFY(restore(*newestCheckpoint(m_run), std::span(&piece, 1)).ok());
        if (change == 0)
            piece.name = "attn.bias";
        if (change == 1)
            piece = {"bn.running_mean", Kind::Moment1, graph::DType::F32, {16}, wholeRegion({16}), 0, 16, memory.data(), false};
        if (change == 2)
            piece.type = graph::DType::I32;
        if (change == 3) {
            piece.shape = {24, 8};
            piece.region = wholeRegion(piece.shape);
        }
        const Status status = restore(*newestCheckpoint(m_run), std::span(&piece, 1));
        QVERIFY(!status.ok());
        QVERIFY2(QString::fromStdString(status.error().text()).contains(says), status.error().text().c_str());
    }

    /// Two pieces that overlap and leave a hole have the right number of elements in sum.
    void anOverlapDoesNotHideAHole()
    {
        Manifest manifest;
        std::vector<std::byte> memory(40);
        for (int i = 0; i < 2; ++i) {
            Piece piece{"w", Kind::Parameter, graph::DType::F32, {10}, wholeRegion({10}), i * 3, 5, nullptr, true};
            manifest.pieces.push_back({piece, 0, "w" + std::to_string(i)});
        }
        QVERIFY(checkComplete(manifest).ok());
        const Piece all{"w", Kind::Parameter, graph::DType::F32, {10}, wholeRegion({10}), 0, 10, memory.data(), false};
        std::vector<std::byte> stored(40);
        auto shard = Shard::create({{"w0", Kind::Parameter, graph::DType::F32, {5}, wholeRegion({5}), 0, 5, stored.data(), true},
                                    {"w1", Kind::Parameter, graph::DType::F32, {5}, wholeRegion({5}), 0, 5, stored.data(), true}}, 0);
        (*shard)->copy();
        QVERIFY((*shard)->write(m_run, {}, {}).ok());
        manifest.folder = m_run;
        const std::string bytes = *readFile(m_run + "/" + shardName(0));
        manifest.files = {{shardName(0), std::ssize(bytes), crc32c(std::as_bytes(std::span(bytes)))}};
        const Status status = restore(manifest, std::span(&all, 1));
        QVERIFY(!status.ok());
        QVERIFY2(status.error().text().find("exactly once") != std::string::npos, status.error().text().c_str());
    }

    void anIncompleteGangIsNotPublished()
    {
        auto ranks = layout(13);
        for (auto &pieces : ranks)
            for (auto &held : pieces)
                if (held->piece.name == "mlp.weight")
                    held->piece.writes = false; // nobody saves it
        for (auto &pieces : ranks)
            std::erase_if(pieces, [](const auto &held) { return held->piece.name == "mlp.weight" && held->piece.kind == Kind::Moment1 && held->piece.flatBegin > 0; });
        auto some = std::find_if(ranks.front().begin(), ranks.front().end(), [](const auto &held) { return held->piece.flatCount > 1; });
        QVERIFY(some != ranks.front().end());
        (*some)->piece.flatCount -= 1;
        (*some)->piece.writes = true;
        const auto gang = gangIn(m_run, std::move(ranks));
        QCOMPARE(gang->save(1), Outcome::Failed);
        QVERIFY2(gang->failures().find("elements of") != std::string::npos, gang->failures().c_str());
        QVERIFY(!newestCheckpoint(m_run).ok());
        QVERIFY(fs::is_empty(m_run + "/checkpoints"));
    }

    void weightsForOtherPrograms()
    {
        const auto gang = gangIn(m_run, layout(30));
        QCOMPARE(gang->save(4), Outcome::Published);
        for (const auto type : {graph::DType::F32, graph::DType::BF16}) {
            const std::string path = m_run + "/model.safetensors";
            QVERIFY(exportWeights(*newestCheckpoint(m_run), path, type).ok());
            const auto file = weights::SafetensorsFile::open(path);
            QVERIFY(file.ok());
            QCOMPARE(file->header().metadata.at("format"), std::string("pt"));
            std::size_t expected = 0;
            for (const gangs::Whole &tensor : gangs::sampleTensors()) {
                if (tensor.kind == Kind::Moment1 || tensor.kind == Kind::Moment2)
                    continue;
                ++expected;
                const auto *stored = file->header().find(tensor.name);
                QVERIFY(stored != nullptr);
                QCOMPARE(stored->sizes, tensor.shape);
                QVERIFY(stored->type == (tensor.type == graph::DType::F32 ? type : tensor.type));
                const auto size = static_cast<std::size_t>(graph::sizeOf(*stored->type));
                const auto data = file->data(*stored);
                for (std::size_t i = 0; i < data.size() / size; ++i) {
                    const std::uint64_t bits = gangs::valueOf(tensor, static_cast<std::int64_t>(i), 4);
                    std::uint64_t wanted = bits;
                    if (*stored->type == graph::DType::BF16)
                        wanted = weights::toBFloat16(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
                    QVERIFY(std::memcmp(data.data() + i * size, &wanted, size) == 0);
                }
            }
            QCOMPARE(file->header().tensors.size(), expected);
        }
    }

    void leasesCount()
    {
        QCOMPARE(*Lease::newestEpoch(m_run), 0);
        const auto first = Lease::acquire(m_run, "a");
        QCOMPARE(first->epoch(), 1);
        const auto second = Lease::acquire(m_run, "b \"quoted\"");
        QCOMPARE(second->epoch(), 2);
        QCOMPARE(*Lease::newestEpoch(m_run), 2);
        int calls = 0;
        const Status old = first->whileHeld([&] { return ++calls, Status(); });
        QVERIFY(!old.ok() && old.error().message.find("epoch 2") != std::string::npos);
        QVERIFY(second->whileHeld([&] { return ++calls, Status(); }).ok());
        QCOMPARE(calls, 1);
    }

    void nobodyTakesTheLeaseWhileItIsUsed()
    {
        const auto lease = Lease::acquire(m_run, "a");
        QVERIFY(lease->whileHeld([&]() -> Status {
            const auto other = Lease::acquire(m_run, "b", std::chrono::milliseconds(20));
            return other ? Status(failed("taken")) : Status();
        }).ok());
        std::ofstream(m_run + "/lease.json") << "{\"epoch\": \"x\"}";
        QVERIFY(!Lease::acquire(m_run, "c").ok());
    }

    void anOldGangCannotPublish()
    {
        const auto old = gangIn(m_run, layout(14));
        QCOMPARE(old->save(10), Outcome::Published);
        old->fillAll(20);
        old->begin(20);
        const auto young = gangIn(m_run, layout(15)); // takes the lease
        QCOMPARE(old->settle(), Outcome::Failed);
        auto ranks = layout(16);
        QCOMPARE(resume(m_run, ranks), 10);
        QCOMPARE(young->save(20), Outcome::Published);
        QCOMPARE(resume(m_run, ranks), 20);
        QCOMPARE(newestCheckpoint(m_run)->lease, 2);
        QCOMPARE(old->save(30), Outcome::Failed);
        QCOMPARE(resume(m_run, ranks), 20);
    }

    void aStepMayBeSavedAgain()
    {
        QCOMPARE(gangIn(m_run, layout(17))->save(10), Outcome::Published);
        const auto gang = gangIn(m_run, layout(18), 0);
        QCOMPARE(gang->save(10), Outcome::Published);
        QCOMPARE(checkpoints(m_run).size(), std::size_t{2});
        QCOMPARE(newestCheckpoint(m_run)->lease, 2);
        auto ranks = layout(19);
        QCOMPARE(resume(m_run, ranks), 10);
    }

    void debrisGoes()
    {
        fs::create_directories(m_run + "/checkpoints/.step-00000005.epoch-1");
        std::ofstream(m_run + "/checkpoints/.step-00000005.epoch-1/rank-00000.safetensors") << "half";
        fs::create_directories(m_run + "/checkpoints/step-00000006");
        std::ofstream(m_run + "/checkpoints/step-00000006/rank-00000.safetensors") << "no manifest";
        const auto gang = gangIn(m_run, layout(20));
        QVERIFY(fs::is_empty(m_run + "/checkpoints"));
    }

    void givingUpLeavesNothing()
    {
        {
            const auto gang = gangIn(m_run, layout(21));
            gang->fillAll(1);
            gang->begin(1);
        }
        QVERIFY(fs::is_empty(m_run + "/checkpoints"));
    }

    void everyFaultIsReportedAndLeavesTheOneBefore_data()
    {
        QTest::addColumn<QString>("name");
        QTest::addColumn<QString>("action");
        for (const auto name : failpoints())
            if (name.starts_with("checkpoint.") && name != "checkpoint.restore-file")
                for (const char *action : {"error", "full"})
                    QTest::addRow("%s %s", std::string(name).c_str(), action) << QString::fromStdString(std::string(name)) << QString(action);
    }
    void everyFaultIsReportedAndLeavesTheOneBefore()
    {
        if (!failpointsWork())
            QSKIP("failpoints are not compiled in");
        QFETCH(QString, name);
        QFETCH(QString, action);
        const auto gang = gangIn(m_run, layout(22));
        QCOMPARE(gang->save(1), Outcome::Published);
        QCOMPARE(gang->save(2), Outcome::Published);
        QVERIFY(armFailpoints((name + "=" + action).toStdString()).ok());
        const Outcome outcome = gang->save(3);
        QVERIFY(armFailpoints("").ok());
        auto ranks = layout(23);
        // Where only the old ones could not be removed, or the folder not be synced, the new one is there.
        const bool late = name.startsWith("checkpoint.prune") || name == "checkpoint.manifest-renamed" || name == "checkpoint.parent-fsync";
        QCOMPARE(outcome, name.startsWith("checkpoint.prune") ? Outcome::Published : Outcome::Failed);
        QCOMPARE(resume(m_run, ranks), late ? 3 : 2);
        if (outcome == Outcome::Failed)
            QVERIFY2(gang->failures().find(action == "full" ? "No space left" : "failpoint") != std::string::npos, gang->failures().c_str());
        // Training goes on, and so do checkpoints.
        QCOMPARE(gang->save(4), Outcome::Published);
        QCOMPARE(resume(m_run, ranks), 4);
        for (const auto &entry : fs::directory_iterator(m_run + "/checkpoints"))
            QVERIFY2(!entry.path().filename().string().starts_with("."), entry.path().c_str());
    }

    void aFullDiskIsReportedAndClearedUp()
    {
        const std::string run = m_run + "/disk";
        const SmallDisk disk(run);
        if (!disk.mounted)
            QSKIP("mounting needs privileges");
        const auto gang = gangIn(run, layout(24));
        QCOMPARE(gang->save(1), Outcome::Published);
        std::ofstream filler(run + "/filler", std::ios::binary);
        const std::string block(4096, 'x');
        while (filler.write(block.data(), std::ssize(block)).flush())
            ;
        const auto before = filesIn(run + "/checkpoints");
        QCOMPARE(gang->save(2), Outcome::Failed);
        QVERIFY2(gang->failures().find("No space left") != std::string::npos, gang->failures().c_str());
        QCOMPARE(filesIn(run + "/checkpoints"), before);
        filler.close();
        fs::remove(run + "/filler");
        QCOMPARE(gang->save(3), Outcome::Published);
        auto ranks = layout(25);
        QCOMPARE(resume(run, ranks), 3);
    }

    void hostileManifests_data()
    {
        QTest::addColumn<QString>("from");
        QTest::addColumn<QString>("to");
        QTest::newRow("file outside") << "rank-00000.safetensors" << "../../etc/passwd.ors";
        QTest::newRow("hidden file") << "\"rank-00000" << "\".ank-00000";
        QTest::newRow("other schema") << "checkpoint/1" << "checkpoint/2";
        QTest::newRow("kind") << "\"parameter\"" << "\"parametric\"";
        QTest::newRow("type") << "\"float32\"" << "\"float99\"";
        QTest::newRow("huge file number") << "\"file\":0" << "\"file\":999";
        QTest::newRow("negative flat") << "\"flat\":[0," << "\"flat\":[-1,";
        QTest::newRow("flat beyond") << "\"flat\":[0," << "\"flat\":[9000000,";
    }
    void hostileManifests()
    {
        QFETCH(QString, from);
        QFETCH(QString, to);
        Manifest manifest;
        manifest.files = {{"rank-00000.safetensors", 100, 1}};
        manifest.pieces = {{{"w", Kind::Parameter, graph::DType::F32, {4}, wholeRegion({4}), 0, 4, nullptr, true}, 0, "w"}};
        const auto sealed = [](QString text) { // with a checksum that is right
            const std::string body = text.mid(text.indexOf('\n') + 1).toStdString();
            return fmt::format("{{\"crc32c\": \"{:08x}\",\n", crc32c(std::as_bytes(std::span(body)))) + body;
        };
        const QString good = QString::fromStdString(toJson(manifest));
        QVERIFY(manifestFromJson(sealed(good)).ok());
        QVERIFY(good.contains(from));
        QString bad = good;
        bad.replace(from, to);
        QVERIFY(!manifestFromJson(sealed(bad)).ok());
    }

private:
    std::unique_ptr<QTemporaryDir> m_folder;
    std::string m_run;
};

QTEST_GUILESS_MAIN(TstCheckpoint)
#include "tst_checkpoint.moc"
