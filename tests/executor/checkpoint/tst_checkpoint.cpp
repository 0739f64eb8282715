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
#include "tests/executor/checkpoint/worker_group.h"

#include <QTemporaryDir>
#include <QTest>

#include <filesystem>
#include <fmt/format.h>
#include <fstream>

using namespace planloom;
using namespace planloom::checkpoint;
using checkpoint::testing::filesIn;
using checkpoint::testing::WorkerGroup;
using checkpoint::testing::groupIn;
using checkpoint::testing::layout;
using checkpoint::testing::resume;
using Outcome = CheckpointWriter::Outcome;
namespace fs = std::filesystem;
namespace fixture = planloom::checkpoint::testing;

class TstCheckpoint : public QObject {
    Q_OBJECT
private slots:
    void init()
    {
        m_folder = std::make_unique<QTemporaryDir>(fixture::temporaryPlace());
        m_run = m_folder->path().toStdString();
    }
    void cleanup() { QVERIFY(armFailpoints("").ok()); }

    void everyLayoutReadsEveryOther()
    {
        for (unsigned seed = 0; seed < 60; ++seed) {
            const std::string run = m_run + "/" + std::to_string(seed);
            fs::create_directory(run);
            const auto group = groupIn(run, layout(seed));
            QCOMPARE(group->save(5 + seed), Outcome::Published);
            for (unsigned other = 0; other < 4; ++other) {
                auto ranks = layout(1000 + 4 * seed + other);
                QCOMPARE(resume(run, ranks), 5 + seed);
            }
        }
    }

    void theManifestSaysWhereTrainingStood()
    {
        const auto group = groupIn(m_run, layout(3));
        QCOMPARE(group->save(120), Outcome::Published);
        const auto manifest = newestCheckpoint(m_run);
        QVERIFY(manifest.ok());
        QVERIFY(manifest->state == fixture::stateAt(120));
        QCOMPARE(manifest->world, static_cast<int>(group->ranks.size()));
        QCOMPARE(manifest->lease, 1);
        QCOMPARE(manifest->folder, m_run + "/checkpoints/step-00000120");
        for (const auto &name : filesIn(manifest->folder))
            QVERIFY2(name.ends_with(".safetensors") || name.ends_with("/manifest.json"), name.c_str());
        QCOMPARE(toJson(*manifestFromJson(*readFile(manifest->folder + "/manifest.json"))),
                 *readFile(manifest->folder + "/manifest.json"));
    }

    void trainingGoesOnWhileFilesAreWritten()
    {
        const auto group = groupIn(m_run, layout(4));
        group->fillAll(1);
        group->begin(1);
        group->fillAll(2); // the next step overwrites what is being saved
        QVERIFY(!group->writers.front()->idle());
        QCOMPARE(group->settle(), Outcome::Published);
        QVERIFY(group->writers.front()->idle());
        auto ranks = layout(5);
        QCOMPARE(resume(m_run, ranks), 1);
    }

    void nobodyPublishesBeforeAllRanksAreDone()
    {
        const auto group = groupIn(m_run, layout(6));
        QVERIFY(group->writers.size() > 1);
        group->fillAll(1);
        group->begin(1);
        // The last rank never votes: its shard may be missing.
        for (int i = 0; i < 200; ++i) {
            Votes sums;
            for (std::size_t rank = 0; rank + 1 < group->writers.size(); ++rank)
                sums.ready += group->writers[rank]->votes().ready;
            for (auto &writer : group->writers)
                QCOMPARE(writer->agree(sums), Outcome::Nothing);
        }
        QVERIFY(!newestCheckpoint(m_run).ok());
        QCOMPARE(group->settle(), Outcome::Published);
    }

    void theNewestStay()
    {
        const auto group = groupIn(m_run, layout(7), 3);
        for (std::int64_t step = 10; step <= 60; step += 10)
            QCOMPARE(group->save(step), Outcome::Published);
        std::vector<std::int64_t> steps;
        for (const auto &manifest : checkpoints(m_run))
            steps.push_back(manifest.state.step);
        QCOMPARE(steps, (std::vector<std::int64_t>{60, 50, 40}));
        QCOMPARE(std::distance(fs::directory_iterator(m_run + "/checkpoints"), {}), 3);
    }

    void damageAnywhereIsSeen()
    {
        const auto group = groupIn(m_run, layout(8), 0);
        QCOMPARE(group->save(1), Outcome::Published);
        QCOMPARE(group->save(2), Outcome::Published);
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
        const auto group = groupIn(m_run, layout(10));
        QCOMPARE(group->save(1), Outcome::Published);
        const auto manifest = newestCheckpoint(m_run);
        const std::string path = manifest->folder + "/" + manifest->files.front().name;
        std::string bytes = *readFile(path);
        bytes.back() = static_cast<char>(bytes.back() ^ 1);
        std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
        Status worst;
        auto ranks = layout(11);
        for (auto &pieces : ranks)
            if (const Status done = restore(*manifest, fixture::piecesOf(pieces)); !done)
                worst = done;
        QVERIFY(!worst.ok());
        QVERIFY(worst.error().text().find("checksum") != std::string::npos);
    }

    void aLinkIsNotAShard()
    {
        const auto group = groupIn(m_run, layout(10));
        QCOMPARE(group->save(1), Outcome::Published);
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
        const auto group = groupIn(m_run, layout(12));
        QCOMPARE(group->save(1), Outcome::Published);
        std::vector<std::byte> memory(8 * 24 * 8);
        Piece piece{"attn.weight", Kind::Parameter,      graph::DType::F32,
                    {8, 24},       wholeRegion({8, 24}), 0,
                    8 * 24,        memory.data(),        false};
        QVERIFY(restore(*newestCheckpoint(m_run), std::span(&piece, 1)).ok());
        if (change == 0)
            piece.name = "attn.bias";
        if (change == 1)
            piece = {"bn.running_mean",
                     Kind::ofOptimizer("moment1"),
                     graph::DType::F32,
                     {16},
                     wholeRegion({16}),
                     0,
                     16,
                     memory.data(),
                     false};
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
        auto shard = Shard::create(
            {{"w0", Kind::Parameter, graph::DType::F32, {5}, wholeRegion({5}), 0, 5, stored.data(), true},
             {"w1", Kind::Parameter, graph::DType::F32, {5}, wholeRegion({5}), 0, 5, stored.data(), true}},
            0);
        (*shard)->copy();
        QVERIFY((*shard)->write(m_run, {}, {}).ok());
        manifest.folder = m_run;
        const std::string bytes = *readFile(m_run + "/" + shardName(0));
        manifest.files = {{shardName(0), std::ssize(bytes), crc32c(std::as_bytes(std::span(bytes)))}};
        const Status status = restore(manifest, std::span(&all, 1));
        QVERIFY(!status.ok());
        QVERIFY2(status.error().text().find("exactly once") != std::string::npos, status.error().text().c_str());
    }

    /// What no memory has is written piece by piece, a few megabytes at a time, and read back like what has been
    /// copied.
    void whatNoMemoryHasIsStreamed()
    {
        constexpr std::int64_t kLarge = 3 << 20; // elements: three chunks
        std::vector<float> large(kLarge), small{1, 2, 3, 4, 5};
        for (std::size_t i = 0; i < large.size(); ++i)
            large[i] = static_cast<float>(i % 8191);
        std::int64_t most = 0;
        bool fails = false;
        const auto piece = [](const char *name, std::int64_t count, std::vector<float> &of) {
            return Piece{.name = name,
                         .shape = {count},
                         .region = wholeRegion({count}),
                         .flatCount = count,
                         .data = reinterpret_cast<std::byte *>(of.data())};
        };
        Piece streamed = piece("large", kLarge, large);
        streamed.data = nullptr;
        streamed.read = [&](std::byte *to, std::int64_t begin, std::int64_t bytes) -> Status {
            most = std::max(most, bytes);
            if (fails)
                return ioError("cannot be read");
            std::memcpy(to, reinterpret_cast<const std::byte *>(large.data()) + begin, static_cast<std::size_t>(bytes));
            return {};
        };
        const auto save = [&](std::int64_t step) {
            auto writer = CheckpointWriter::create({piece("small", 5, small), streamed}, {.runDir = m_run});
            TrainingState state;
            state.step = step;
            (*writer)->begin(state);
            auto outcome = Outcome::Nothing;
            while (outcome == Outcome::Nothing)
                outcome = (*writer)->agree((*writer)->votes());
            return std::pair(outcome, (*writer)->failure());
        };
        QCOMPARE(save(1).first, Outcome::Published);
        QCOMPARE(most, 4 << 20);
        const auto manifest = newestCheckpoint(m_run); // compares checksums
        QVERIFY2(manifest.ok(), manifest ? "" : manifest.error().text().c_str());
        std::vector<float> back(large.size()), backSmall(small.size());
        const std::vector<Piece> wanted{piece("small", 5, backSmall), piece("large", kLarge, back)};
        QVERIFY(restore(*manifest, wanted).ok());
        QVERIFY(back == large && backSmall == small);
        fails = true;
        const auto [outcome, why] = save(2);
        QCOMPARE(outcome, Outcome::Failed);
        QVERIFY2(why.find("cannot be read") != std::string::npos, why.c_str());
        QCOMPARE(newestCheckpoint(m_run)->state.step, 1);
    }

    void anIncompleteGroupIsNotPublished()
    {
        auto ranks = layout(13);
        for (auto &pieces : ranks)
            for (auto &held : pieces)
                if (held->piece.name == "mlp.weight")
                    held->piece.writes = false; // no rank saves it
        for (auto &pieces : ranks)
            std::erase_if(pieces, [](const auto &held) {
                return held->piece.name == "mlp.weight" && held->piece.kind == Kind::ofOptimizer("moment1")
                    && held->piece.flatBegin > 0;
            });
        auto some = std::find_if(ranks.front().begin(), ranks.front().end(),
                                 [](const auto &held) { return held->piece.flatCount > 1; });
        QVERIFY(some != ranks.front().end());
        (*some)->piece.flatCount -= 1;
        (*some)->piece.writes = true;
        const auto group = groupIn(m_run, std::move(ranks));
        QCOMPARE(group->save(1), Outcome::Failed);
        QVERIFY2(group->failures().find("elements of") != std::string::npos, group->failures().c_str());
        QVERIFY(!newestCheckpoint(m_run).ok());
        QVERIFY(fs::is_empty(m_run + "/checkpoints"));
    }

    void weightsForOtherPrograms()
    {
        const auto group = groupIn(m_run, layout(30));
        QCOMPARE(group->save(4), Outcome::Published);
        for (const auto type : {graph::DType::F32, graph::DType::BF16}) {
            const std::string path = m_run + "/model.safetensors";
            QVERIFY(exportWeights(*newestCheckpoint(m_run), path, type).ok());
            const auto file = weights::SafetensorsFile::open(path);
            QVERIFY(file.ok());
            QCOMPARE(file->header().metadata.at("format"), std::string("pt"));
            std::size_t expected = 0;
            for (const fixture::Whole &tensor : fixture::sampleTensors()) {
                if (tensor.kind != Kind::Parameter && tensor.kind != Kind::State)
                    continue;
                ++expected;
                const auto *stored = file->header().find(tensor.name);
                QVERIFY(stored != nullptr);
                QCOMPARE(stored->sizes, tensor.shape);
                QVERIFY(stored->type == (tensor.type == graph::DType::F32 ? type : tensor.type));
                const auto size = static_cast<std::size_t>(graph::sizeOf(*stored->type));
                const auto data = file->data(*stored);
                for (std::size_t i = 0; i < data.size() / size; ++i) {
                    const std::uint64_t bits = fixture::valueOf(tensor, static_cast<std::int64_t>(i), 4);
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
        QVERIFY(lease
                    ->whileHeld([&]() -> Status {
                        const auto other = Lease::acquire(m_run, "b", std::chrono::milliseconds(20));
                        return other ? Status(failed("taken")) : Status();
                    })
                    .ok());
        std::ofstream(m_run + "/lease.json") << "{\"epoch\": \"x\"}";
        QVERIFY(!Lease::acquire(m_run, "c").ok());
    }

    void anOldGroupCannotPublish()
    {
        const auto old = groupIn(m_run, layout(14));
        QCOMPARE(old->save(10), Outcome::Published);
        old->fillAll(20);
        old->begin(20);
        const auto young = groupIn(m_run, layout(15)); // takes the lease
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
        QCOMPARE(groupIn(m_run, layout(17))->save(10), Outcome::Published);
        const auto group = groupIn(m_run, layout(18), 0);
        QCOMPARE(group->save(10), Outcome::Published);
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
        const auto group = groupIn(m_run, layout(20));
        QVERIFY(fs::is_empty(m_run + "/checkpoints"));
    }

    void givingUpLeavesNothing()
    {
        {
            const auto group = groupIn(m_run, layout(21));
            group->fillAll(1);
            group->begin(1);
        }
        QVERIFY(fs::is_empty(m_run + "/checkpoints"));
    }

    void hostileManifests_data()
    {
        QTest::addColumn<QString>("from");
        QTest::addColumn<QString>("to");
        QTest::newRow("file outside") << "rank-00000.safetensors"
                                      << "../../etc/passwd.ors";
        QTest::newRow("hidden file") << "\"rank-00000"
                                     << "\".ank-00000";
        QTest::newRow("other schema") << "checkpoint/1"
                                      << "checkpoint/2";
        QTest::newRow("kind") << "\"parameter\""
                              << "\"parametric\"";
        QTest::newRow("type") << "\"float32\""
                              << "\"float99\"";
        QTest::newRow("huge file number") << "\"file\":0"
                                          << "\"file\":999";
        QTest::newRow("negative flat") << "\"flat\":[0,"
                                       << "\"flat\":[-1,";
        QTest::newRow("flat beyond") << "\"flat\":[0,"
                                     << "\"flat\":[9000000,";
    }
    void hostileManifests()
    {
        QFETCH(QString, from);
        QFETCH(QString, to);
        Manifest manifest;
        manifest.files = {{"rank-00000.safetensors", 100, 1}};
        manifest.pieces = {
            {{"w", Kind::Parameter, graph::DType::F32, {4}, wholeRegion({4}), 0, 4, nullptr, true}, 0, "w"}};
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
