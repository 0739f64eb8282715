// SPDX-License-Identifier: GPL-3.0-or-later
// The Placement view: roles that are dragged, refused drops, figures, the search and what a run has sent.
#include "tests/ui/watched_main.h"

#include "engine/base/files.h"
#include "engine/gnn/partition.h"
#include "engine/gnn/steady_iteration.h"
#include "engine/graph/zoo/zoo.h"
#include "executor/data/graph_folder.h"
#include "planners/gnn/gnn.h"
#include "planners/gnn/placed_plan.h"
#include "tests/stopped_after.h"
#include "ui/placement/placement_view.h"
#include "ui/placement/search_run.h"
#include "ui/planview/plan_controls.h"
#include "ui/studio_fixture.h"
#include "ui/theme/theme.h"

#include <QApplication>
#include <QDir>
#include <QImage>
#include <QSpinBox>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace planloom;
using namespace planloom::ui;

namespace {

/// Three machines of two devices and slow cards between them.
std::shared_ptr<const cluster::Cluster> threeMachines()
{
    cluster::RegularCluster spec;
    spec.name = "three";
    spec.nodes = 3;
    spec.perNode = 2;
    spec.type = {"CPU-test", {{"float32", 5e10}}, Bytes(std::int64_t{4} << 30), 1e10};
    spec.intraBandwidth = 1e10;
    spec.interPointToPoint = spec.interCollective = 1e7;
    auto made = cluster::regular(spec);
    return made ? std::make_shared<const cluster::Cluster>(*std::move(made)) : nullptr;
}

/// A plan of four trainers, two samplers each, three stores; nine role slots a machine. As the search begins with it.
Result<plan::Document> documentWithRoles()
{
    graph::GraphSageConfig config;
    config.features = 16;
    config.hidden = 32;
    config.classes = 4;
    auto model = graph::graphSage(config);
    planners::Problem problem;
    problem.subject = plan::makeSubject(std::make_shared<const graph::Graph>(*std::move(model)), threeMachines(),
                                        nullptr, "zoo:graphsage-blocks");
    problem.globalBatch = 32;
    auto nodes = gnn::blockModelGraph({});
    nodes->part = *gnn::partitionOf(*nodes, {gnn::PartitionMethod::Hash, 3, 1, false});
    problem.sampledGraph = std::make_shared<const gnn::GraphData>(*std::move(nodes));
    problem.sampledGraphHash = "abc";
    NoProgress progress;
    auto report = planners::gnn::GnnPlanner().plan(
        problem, {{"trainers", "4"}, {"samplers", "2"}, {"slots", "9"}, {"search", "initial"}}, progress);
    if (!report)
        return report.error();
    return plan::Document{std::move(report->plan), problem.subject};
}

} // namespace

class TestPlacementView : public QObject {
    Q_OBJECT

    testing::OwnSettings m_settings;
    QTemporaryDir m_dir;
    std::unique_ptr<StudioState> m_state;
    std::unique_ptr<PlacementView> m_view;

    [[nodiscard]] const plan::Plan &plan() const { return m_state->document()->plan; }
    [[nodiscard]] MachineBoard *board() const { return m_view->board(); }
    [[nodiscard]] const PlacementFigures &figures() const { return *m_view->figures(); }
    [[nodiscard]] std::size_t roleNamed(const std::string &name) const
    {
        const auto &roles = figures().job.roles;
        const auto found =
            std::find_if(roles.begin(), roles.end(), [&](const auto &role) { return role.name == name; });
        return static_cast<std::size_t>(found - roles.begin());
    }
    [[nodiscard]] std::int32_t machineOf(const std::string &role) const { return figures().machineOf[roleNamed(role)]; }

    /// Presses the chip of @p role, moves it to @p machine, and lets go. What the machine said meanwhile.
    QString drag(const std::string &role, std::int32_t machine)
    {
        const QPoint from = board()->chipOf(roleNamed(role)).center().toPoint();
        const QPoint to = board()->boxOf(machine).center().toPoint();
        QTest::mousePress(board(), Qt::LeftButton, {}, from);
        QTest::mouseMove(board(), (from + to) / 2);
        QTest::mouseMove(board(), to);
        QString hint = board()->hint();
        if (board()->computes() && QTest::qWaitFor([this] { return !board()->computes(); }, 30'000))
            hint = board()->hint();
        QTest::mouseRelease(board(), Qt::LeftButton, {}, to);
        return settled() ? hint : QStringLiteral("no figures");
    }

    /// Figures are computed beside the UI thread.
    [[nodiscard]] bool settled() const
    {
        return QTest::qWaitFor([this] { return m_view->isCurrent() && !m_view->computes(); }, 30'000);
    }

private Q_SLOTS:
    void initTestCase()
    {
        const auto document = documentWithRoles();
        QVERIFY2(document, document ? "" : document.error().text().c_str());
        QVERIFY(plan::writePlan(*document, m_dir.filePath(QStringLiteral("roles.json")).toStdString()));
    }

    void init()
    {
        applyTheme(*qobject_cast<QApplication *>(QCoreApplication::instance()), ThemeKind::Light);
        m_state = std::make_unique<StudioState>();
        m_view = std::make_unique<PlacementView>(m_state.get());
        m_view->resize(1000, 420);
        m_view->show();
        QVERIFY(m_state->openPlan(m_dir.filePath(QStringLiteral("roles.json"))));
        QVERIFY(
            QTest::qWaitFor([this] { return m_state->simulationCurrent() && m_view->figures() != nullptr; }, 30'000));
        QVERIFY(settled());
    }

    void cleanup()
    {
        m_view.reset();
        m_state.reset();
    }

    /// Chips lie in the box of their machine; cards carry the bytes between machines at their rate.
    void figuresOfThePlan()
    {
        QCOMPARE(figures().job.roles.size(), std::size_t{3 + 8 + 4});
        for (std::size_t role = 0; role < figures().job.roles.size(); ++role)
            QVERIFY(board()->boxOf(figures().machineOf[role]).contains(board()->chipOf(role)));
        QCOMPARE(figures().seconds, gnn::steadyIteration(figures().job, figures().machineOf, figures().policy));
        QVERIFY(std::abs(figures().seconds - m_state->simulation()->report.iterationSeconds) < 1e-9);
        double in = 0, out = 0, features = 0;
        for (std::size_t machine = 0; machine < 3; ++machine) {
            out += figures().out[machine].sum();
            in += figures().in[machine].sum();
            features += figures().out[machine].seconds[0];
        }
        QVERIFY(std::abs(in - out) < 1e-12); // equal rates
        double remote = 0;
        for (std::int32_t g = 0; g < 3; ++g) {
            for (std::int32_t s = 0; s < figures().samplers(); ++s) {
                if (figures().machineOf[static_cast<std::size_t>(g)]
                    != figures().machineOf[static_cast<std::size_t>(3 + s)])
                    remote += figures().features[static_cast<std::size_t>(g * figures().samplers() + s)];
            }
        }
        QVERIFY(std::abs(features - remote / 1e7) < 1e-9);
        // Trainers sum up by all-reduce: around a ring of them, 2 (W - 1) / W of the model from each to the next.
        const double model = static_cast<double>(m_state->document()->subject.graph->parameterBytes().value());
        double gradients = 0, ring = 0;
        for (std::size_t machine = 0; machine < 3; ++machine)
            gradients += figures().out[machine].seconds[2];
        for (int w = 0; w < 4; ++w) {
            const std::string from = "w" + std::to_string(w), to = "w" + std::to_string((w + 1) % 4);
            ring += machineOf(from) != machineOf(to) ? 2 * 3.0 / 4 * model : 0;
        }
        QVERIFY2(ring > 0 && std::abs(gradients - ring / 1e7) < 1e-9, qPrintable(QString::number(gradients)));
        QVERIFY(figures().busiestSeconds() > 0);
        QVERIFY(m_view->summary().contains(QStringLiteral("an iteration")));
        m_view->tabs()->setCurrentWidget(m_view->policies());
        QCOMPARE(m_view->policies()->tableModel()->rowCount(), 4);
        QVERIFY(!board()->describe(board()->chipOf(0).center()).isEmpty());
    }

    /// A sampler and a trainer go where there is room, and back by undo.
    void dragging()
    {
        const std::int32_t home = machineOf("s0");
        const std::int32_t other = (home + 1) % 3;
        NoProgress progress;
        const auto expected = figuresWith(figures(), roleNamed("s0"), other, progress);
        QVERIFY(expected.ok() && expected->overBound >= 1);
        const QString hint = drag("s0", other);
        QVERIFY2(hint.contains(QStringLiteral("an iteration")) && hint.contains(QStringLiteral("the bound")),
                 qPrintable(hint));
        QCOMPARE(machineOf("s0"), other);
        QCOMPARE(plan().roles[3].machine, figures().job.machines[static_cast<std::size_t>(other)].name);
        QCOMPARE(figures().seconds, expected->seconds);
        m_state->undoStack()->undo();
        QVERIFY(settled());
        QCOMPARE(machineOf("s0"), home);

        std::int32_t target = -1; // with a device that no trainer has
        for (std::int32_t machine = 0; machine < 3; ++machine) {
            int trainers = 0;
            for (const char *name : {"w0", "w1", "w2", "w3"})
                trainers += machineOf(name) == machine ? 1 : 0;
            if (machine != machineOf("w0") && trainers < 2)
                target = machine;
        }
        QVERIFY(target >= 0);
        const DeviceId before = plan().stages.front().devices[0];
        drag("w0", target);
        QCOMPARE(machineOf("w0"), target);
        QVERIFY(plan().stages.front().devices[0] != before);
        m_state->undoStack()->undo();
        QCOMPARE(plan().stages.front().devices[0], before);
        QCOMPARE(m_state->undoStack()->index(), 0);
    }

    /// The bytes of the plan's mini-batches are those of its batch: another one is planned, not edited.
    void batchIsThatOfTheVolumes()
    {
        PlanControls controls(m_state.get());
        QString said;
        connect(m_state.get(), &StudioState::message, this, [&](MessageLevel, const QString &text) { said = text; });
        QSpinBox *batch = nullptr;
        for (QSpinBox *box : controls.findChildren<QSpinBox *>())
            batch = box->accessibleName() == QStringLiteral("Batch") ? box : batch;
        QVERIFY(batch != nullptr && batch->value() == 32);
        batch->setValue(64);
        QCOMPARE(plan().globalBatch, std::int64_t{32});
        QCOMPARE(batch->value(), 32);
        QVERIFY2(said.contains(QStringLiteral("plan again with --batch 64")), qPrintable(said));
    }

    /// A machine without room says what it lacks, and takes nothing.
    void refusedDrops()
    {
        QString said;
        connect(m_state.get(), &StudioState::message, this, [&](MessageLevel, const QString &text) { said = text; });
        // Fill machine 0 up to its nine role slots.
        for (const char *role : {"g0", "g1", "g2", "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"}) {
            std::int64_t here = 0;
            for (std::size_t i = 0; i < plan().roles.size(); ++i)
                here += figures().machineOf[i] == 0 ? 1 : 0;
            if (here < 9 && machineOf(role) != 0)
                drag(role, 0);
        }
        std::string outside;
        std::int64_t here = 0;
        for (std::size_t i = 0; i < plan().roles.size(); ++i) {
            here += figures().machineOf[i] == 0 ? 1 : 0;
            if (figures().machineOf[i] != 0)
                outside = figures().job.roles[i].name;
        }
        QCOMPARE(here, std::int64_t{9});
        said.clear();
        const auto shown = m_state->document();
        const QString hint = drag(outside, 0);
        QVERIFY2(hint.contains(QStringLiteral("role-slots")), qPrintable(hint));
        QVERIFY2(said.contains(QStringLiteral("role-slots")) && said.contains(QString::fromStdString(outside)),
                 qPrintable(said));
        QCOMPARE(m_state->document(), shown);
    }

    /// A chosen role shows what it sends and receives, in lines and in words.
    void connectionsOfARole()
    {
        const std::size_t sampler = 3;
        const QImage before = board()->grab().toImage();
        QTest::mouseClick(board(), Qt::LeftButton, Qt::NoModifier, board()->chipOf(sampler).center().toPoint());
        QVERIFY(board()->grab().toImage() != before);
        const QString text = board()->describe(board()->chipOf(sampler).center());
        for (const char *peer : {"from g0: ", "from g1: ", "from g2: ", "to w0: "})
            QVERIFY2(text.contains(QLatin1String(peer)), qPrintable(text));
        double features = 0;
        for (const Sent &sent : figures().sent)
            features += sent.cargo == Cargo::Features ? sent.bytes : 0;
        QCOMPARE(features, std::accumulate(figures().features.begin(), figures().features.end(), 0.0));
    }

    void keys()
    {
        board()->setFocus();
        QTest::keyClick(board(), Qt::Key_Right); // g0
        for (int i = 0; i < 3; ++i)
            QTest::keyClick(board(), Qt::Key_Right);
        const std::int32_t home = machineOf("s0");
        QTest::keyClick(board(), Qt::Key_Right, Qt::ShiftModifier);
        QVERIFY(settled());
        QCOMPARE(machineOf("s0"), (home + 1) % 3);
        QTest::keyClick(board(), Qt::Key_Left, Qt::ShiftModifier);
        QVERIFY(settled());
        QCOMPARE(machineOf("s0"), home);
    }

    void policyAndPrefetch()
    {
        m_view->policy()->setFocus();
        const int before = m_view->policy()->currentIndex();
        QTest::keyClick(m_view->policy(), Qt::Key_Down);
        QCOMPARE(m_view->policy()->currentIndex(), before + 1);
        QCOMPARE(static_cast<int>(plan().job->transfers), before + 1);
        m_view->prefetch()->setValue(3);
        QCOMPARE(plan().job->prefetch, 3);
        m_state->undoStack()->undo();
        QVERIFY(settled());
        QCOMPARE(m_view->prefetch()->value(), 2);
        m_state->undoStack()->undo();
        QVERIFY(settled());
        QCOMPARE(m_view->policy()->currentIndex(), before);
        QCOMPARE(m_state->undoStack()->index(), 0);
    }

    /// The curve of a search; the board follows its slider; a placement is taken, undoably.
    void searching()
    {
        const auto first = m_state->document()->plan.roles; // where the search begins
        drag("s0", (machineOf("s0") + 1) % 3);
        const auto document = m_state->document();
        QVERIFY(document->plan.roles != first);
        m_view->search()->proposals()->setValue(40);
        QTest::mouseClick(m_view->search()->searchButton(), Qt::LeftButton);
        QVERIFY(QTest::qWaitFor([this] { return m_view->search()->takeButton()->isEnabled(); }, 30'000));
        QVERIFY(m_state->document() == document);
        planners::gnn::SearchOptions options;
        options.kind = planners::gnn::SearchKind::Initial;
        NoProgress progress;
        const auto found = runSearch(*document, options, progress);
        const auto shown = figuresOf(document, found->best, progress);
        QCOMPARE(shown->allSeconds / shown->bounds.lower(), found->seconds / found->bound); // the board and the search
        QSlider *slider = m_view->search()->slider();
        slider->setValue(slider->maximum());
        slider->setValue(slider->minimum()); // cancels the one before
        QVERIFY(settled());
        QVERIFY2(m_view->summary().contains(QStringLiteral("Shown, not taken")), qPrintable(m_view->summary()));
        QCOMPARE(m_state->document(), document); // looking changes nothing
        QTest::mouseClick(m_view->search()->takeButton(), Qt::LeftButton);
        QCOMPARE(m_state->document()->plan.roles, first);
        m_state->undoStack()->undo();
        QCOMPARE(m_state->document()->plan.roles, document->plan.roles);
    }

    /// How placements are searched is chosen beside the button.
    void kindsOfSearch()
    {
        SearchPanel *search = m_view->search();
        QCOMPARE(search->options().kind, planners::gnn::SearchKind::Explore);
        QCOMPARE(search->options().explore.beta, 0.0);
        search->beta()->setValue(12.5);
        search->proposals()->setValue(40);
        search->seed()->setValue(3);
        QCOMPARE(search->options().explore.beta, 12.5);
        QCOMPARE(search->options().explore.proposals, std::int64_t{40});
        QCOMPARE(search->options().explore.seed, std::uint64_t{3});
        search->kind()->setFocus();
        QTest::keyClick(search->kind(), Qt::Key_Up);
        QCOMPARE(search->options().kind, planners::gnn::SearchKind::Initial);
        QVERIFY(!search->beta()->isEnabled() && !search->proposals()->isEnabled());
        QTest::mouseClick(search->searchButton(), Qt::LeftButton);
        QVERIFY(QTest::qWaitFor([search] { return search->takeButton()->isEnabled(); }, 30'000));
        QCOMPARE(search->slider()->maximum(), 0); // the first placement and no other
        // All of them take longer than anyone waits: stopped, it has the best until then.
        search->kind()->setCurrentIndex(static_cast<int>(planners::gnn::SearchKind::Exhaustive));
        QTest::mouseClick(search->searchButton(), Qt::LeftButton);
        QTRY_COMPARE(search->searchButton()->text(), QStringLiteral("Stop"));
        QTest::mouseClick(search->searchButton(), Qt::LeftButton);
        QVERIFY(
            QTest::qWaitFor([search] { return search->searchButton()->text() == QStringLiteral("Search"); }, 30'000));
        QCOMPARE(search->options().kind, planners::gnn::SearchKind::Exhaustive);
        QVERIFY(search->takeButton()->isEnabled());
    }

    /// Where the plan's graph is open, parts have what they hold of it.
    void partsOfTheGraph()
    {
        QVERIFY(!m_state->graphIsOfDocument());
        m_view->tabs()->setCurrentWidget(m_view->parts());
        QCOMPARE(m_view->parts()->tableModel()->headers().size(), 5);
        auto graph = *gnn::blockModelGraph({});
        graph.part = *gnn::partitionOf(graph, {gnn::PartitionMethod::Hash, 3, 1, false});
        const QString folder = m_dir.filePath(QStringLiteral("graph"));
        QVERIFY(data::writeGraphFolder(graph, {"hash", 1, false}, {}, folder.toStdString()));
        const auto note = readFile(folder.toStdString() + "/graph.json");
        QVERIFY(m_state->editPlan(QStringLiteral("graph"),
                                  [&](plan::Plan &plan) { plan.job->graph.sha256 = sha256(*note); }));
        QVERIFY(settled());
        QVERIFY(m_state->openGraph(folder));
        QVERIFY(QTest::qWaitFor([this] { return m_state->graphIsOfDocument(); }, 30'000));
        const TableModel &rows = *m_view->parts()->tableModel();
        QTRY_COMPARE(rows.headers().size(), 8);
        const std::vector<GraphPart> parts = partsOf(graph);
        for (int store = 0; store < 3; ++store) {
            const GraphPart &part = parts[static_cast<std::size_t>(store)];
            QCOMPARE(*rows.row(store)[5].number, static_cast<double>(part.nodes));
            QCOMPARE(*rows.row(store)[6].number, static_cast<double>(part.cut) / static_cast<double>(part.edges));
            QCOMPARE(*rows.row(store)[7].number, static_cast<double>(part.hubs));
        }
        if (const QByteArray picture = qgetenv("PLANLOOM_PICTURE_PARTS"); !picture.isEmpty())
            QVERIFY(m_view->grab().save(QString::fromUtf8(picture)));
    }

    /// Of edits in a row the last one's figures are shown, those before until then.
    void lastEditCounts()
    {
        const double before = figures().seconds;
        for (const std::int32_t prefetch : {3, 4, 1})
            m_state->editPlan(QStringLiteral("prefetch"),
                              [prefetch](plan::Plan &plan) { plan.job->prefetch = prefetch; });
        QVERIFY(m_view->figures() != nullptr && !m_view->isCurrent());
        QCOMPARE(figures().seconds, before);
        for (int tab = 0; tab < m_view->tabs()->count(); ++tab) { // in any of them
            m_view->tabs()->setCurrentIndex(tab);
            QVERIFY(!board()->isCurrent());
        }
        QVERIFY(settled());
        QVERIFY(board()->isCurrent());
        QCOMPARE(figures().job.prefetch, 1);
        QCOMPARE(m_view->prefetch()->value(), 1);
    }

    /// What stores noted in a run's folder.
    void sentBytes()
    {
        QTemporaryDir folder;
        QVERIFY(QDir(folder.path()).mkpath(QStringLiteral("transfers")));
        for (int g = 0; g < 3; ++g) {
            const std::string text = "0,s0,900\n0,s0,100\n0,s1,40\n1,s0,200\n2,s0,7"; // 0 repeated, 2 cut off
            QVERIFY(writeFileAtomically(folder.filePath(QStringLiteral("transfers/g%1.csv").arg(g)).toStdString(), text)
                        .ok());
        }
        const SentFeatures sent = sentFeatures(figures(), folder.path().toStdString());
        QCOMPARE(sent.iterations, std::int64_t{2});
        QCOMPARE(sent.bytes.size(), std::size_t{24});
        QCOMPARE(sent.bytes[0], 150.0);
        QCOMPARE(sent.bytes[1], 20.0);
        QCOMPARE(sent.bytes[2], 0.0);
        QVERIFY(sentFeatures(figures(), "/nowhere").bytes.empty());
        m_view->tabs()->setCurrentWidget(m_view->matrix());
        m_view->matrix()->set(m_view->figures(), sent);
        const QString text = m_view->matrix()->describe(m_view->matrix()->cellOf(0, 0).center());
        QVERIFY2(text.contains(QStringLiteral("predicted")) && text.contains(QStringLiteral("150 B sent")),
                 qPrintable(text));
        QVERIFY2(text.contains(QStringLiteral("the plan's 8 iterations"))
                     && text.contains(QStringLiteral("the run's 2, of other mini-batches")),
                 qPrintable(text));
        QVERIFY(m_view->matrix()->cellOf(2, 0).bottom() < m_view->matrix()->height() - 10); // the note has its room
    }

    /// What each connection gets of the cards, and what each part's store sends.
    void creditsAndParts()
    {
        StoppedAfter whole(1 << 30), none(0);
        const auto refused = connectionShares(figures(), none);
        QVERIFY(!refused && refused.error().code == ErrorCode::Cancelled);
        const std::vector<ConnectionShare> shares = *connectionShares(figures(), whole);
        const auto isTrainer = [this](std::int32_t role) {
            return figures().job.roles[static_cast<std::size_t>(role)].kind == gnn::RoleKind::Trainer;
        };
        QVERIFY(std::ranges::any_of(shares, [&](const ConnectionShare &share) {
            return isTrainer(share.from) && isTrainer(share.to); // of the all-reduce
        }));
        double bytes = 0, travel = 0;
        for (const ConnectionShare &share : shares) {
            QVERIFY(share.takes >= share.alone * (1 - 1e-9) && share.credit() > 0);
            const auto to = static_cast<std::size_t>(share.to);
            bytes += figures().job.roles[to].kind == gnn::RoleKind::GraphStore ? 0 : share.bytes; // a request
        }
        for (const Sent &sent : figures().sent) {
            const auto away = figures().machineOf[static_cast<std::size_t>(sent.from)]
                != figures().machineOf[static_cast<std::size_t>(sent.to)];
            travel += away ? sent.bytes : 0;
        }
        QVERIFY(std::abs(bytes / travel - 1) < 1e-9);
        m_view->tabs()->setCurrentWidget(m_view->connections());
        QVERIFY(settled());
        const QAbstractItemModel *connections = m_view->connections()->model();
        QCOMPARE(connections->rowCount(), static_cast<int>(shares.size()));
        const std::vector<PartLoad> loads = partLoads(figures());
        QCOMPARE(loads.size(), std::size_t{3});
        double features = 0;
        for (const PartLoad &load : loads) {
            QVERIFY(load.away > 0 && load.away < load.bytes);
            features += load.bytes;
        }
        QVERIFY(std::abs(features - std::accumulate(figures().features.begin(), figures().features.end(), 0.0)) < 1e-6);
        m_view->tabs()->setCurrentWidget(m_view->parts());
        QCOMPARE(m_view->parts()->model()->rowCount(), 3);
        QCOMPARE(m_view->parts()->model()->index(1, 0).data().toString(), QStringLiteral("g1"));
    }

    void planWithoutRoles()
    {
        QVERIFY(testing::loadSample(*m_state));
        QVERIFY(QTest::qWaitFor([this] { return m_view->figures() == nullptr; }, 30'000));
        QVERIFY(!m_view->search()->searchButton()->isEnabled());
        QVERIFY(!m_view->grab().isNull());
    }

    /// Pictures of both themes; saved where PLANLOOM_PICTURES names a folder.
    void pictures()
    {
        auto *app = qobject_cast<QApplication *>(QCoreApplication::instance());
        m_view->search()->proposals()->setValue(60);
        QTest::mouseClick(m_view->search()->searchButton(), Qt::LeftButton);
        QVERIFY(QTest::qWaitFor([this] { return m_view->search()->slider()->isEnabled(); }, 30'000));
        QVERIFY(settled());
        QTest::mouseClick(board(), Qt::LeftButton, Qt::NoModifier, board()->chipOf(3).center().toPoint());
        const QString folder = qEnvironmentVariable("PLANLOOM_PICTURES");
        for (const ThemeKind kind : {ThemeKind::Light, ThemeKind::Dark}) {
            applyTheme(*app, kind);
            for (int tab = 0; tab < m_view->tabs()->count(); ++tab) {
                m_view->tabs()->setCurrentIndex(tab);
                QTest::qWait(20);
                const QImage image = m_view->grab().toImage();
                QVERIFY(!image.isNull());
                const QPoint chip = board()->chipOf(0).center().toPoint() - QPoint(14, 0);
                const QColor painted = image.pixelColor(board()->mapTo(m_view.get(), chip));
                QCOMPARE(painted, roleColor(gnn::RoleKind::GraphStore));
                if (!folder.isEmpty())
                    QVERIFY(image.save(folder + QStringLiteral("/placement-%1-%2.png").arg(theme().name).arg(tab)));
            }
        }
    }
};

PLANLOOM_UI_MAIN(TestPlacementView)
#include "tst_placement_view.moc"
