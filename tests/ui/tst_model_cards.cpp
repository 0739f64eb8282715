// SPDX-License-Identifier: GPL-3.0-or-later
// Figures in the boxes of the model and in a file, and the overview in the corner of the graph.
#include "engine/base/files.h"
#include "tests/ui/studio_fixture.h"
#include "ui/model/box_properties.h"
#include "ui/model/figures_csv.h"
#include "ui/model/graph_node_item.h"
#include "ui/model/graph_overview.h"
#include "ui/model/model_view.h"

#include <QTemporaryDir>
#include <QTest>

using namespace planloom;
using namespace planloom::ui;

namespace {

/// A model view on gpt-nano in four stages on four devices.
struct Studio {
    StudioState state;
    ModelView view{&state};
    GraphCanvas *canvas = view.page()->canvas();
    QString message;

    bool load()
    {
        QObject::connect(&state, &StudioState::message, &state,
                         [this](MessageLevel, const QString &text) { message = text; });
        view.resize(600, 700);
        view.show();
        return testing::loadSample(state) && settled();
    }
    bool settled()
    {
        return QTest::qWaitFor([this] { return !view.layingOut() && view.figuresCurrent(); }, 30'000);
    }
};

} // namespace

class TestModelCards : public QObject {
    Q_OBJECT

private Q_SLOTS:
    void boxesHaveTheirFigures();
    void fileHasEveryOperator();
    void overviewMovesTheView();
};

void TestModelCards::boxesHaveTheirFigures()
{
    Studio studio;
    QVERIFY(studio.load());
    const QRectF before = studio.canvas->boxes().front()->boundingRect();
    QVERIFY(studio.canvas->boxes().front()->card().isEmpty());
    studio.view.showCards(true);
    QVERIFY(studio.settled());
    QVERIFY(studio.canvas->boxes().front()->boundingRect().height() > before.height());
    const ModelFigures figures(studio.state.model()->graph, studio.state.document());
    for (const GraphNodeItem *box : studio.canvas->boxes()) {
        const GraphNode &node = studio.canvas->graph().nodes[static_cast<std::size_t>(box->index())];
        QCOMPARE(box->card(), cardOf(&figures, node));
        QVERIFY2(box->card().contains(QStringLiteral("FLOP")), qPrintable(box->card()));
    }
    QCOMPARE(cardOf(nullptr, studio.canvas->graph().nodes.front()), QStringLiteral("…"));
    studio.view.showCards(false);
    QVERIFY(studio.settled());
    QCOMPARE(studio.canvas->boxes().front()->boundingRect(), before);
}

void TestModelCards::fileHasEveryOperator()
{
    const QTemporaryDir folder;
    Studio studio;
    QVERIFY(!studio.view.saveFigures(folder.filePath(QStringLiteral("none.csv"))));
    QVERIFY(studio.load());
    const QString path = folder.filePath(QStringLiteral("operators.csv"));
    QVERIFY(studio.view.saveFigures(path));
    const QStringList lines =
        QString::fromStdString(*readFile(path.toStdString())).split(QLatin1Char('\n'), Qt::SkipEmptyParts);
    const graph::Graph &graph = *studio.state.model()->graph;
    QCOMPARE(lines.size(), static_cast<qsizetype>(graph.ops().size()) + 1);
    const ModelFigures figures(studio.state.model()->graph, studio.state.document());
    double flops = 0;
    double seconds = 0;
    double stages = 0;
    for (std::size_t i = 0; i < graph.ops().size(); ++i) {
        const QStringList fields = lines[static_cast<qsizetype>(i) + 1].split(QLatin1Char(','));
        QCOMPARE(fields.size(), qsizetype{13});
        QCOMPARE(fields[0], QString::fromStdString(graph.ops()[i].name));
        stages += fields[4].toDouble();
        flops += fields[6].toDouble() + fields[7].toDouble();
        seconds += fields[11].toDouble() + fields[12].toDouble();
    }
    std::vector<OpId> all;
    for (const graph::Op &op : graph.ops())
        all.push_back(op.id);
    const BoxFigures sum = figures.of(all);
    QVERIFY(std::abs(flops - sum.flops()) <= 1e-9 * sum.flops());
    QVERIFY(sum.seconds() > 0 && std::abs(seconds - sum.seconds()) <= 1e-6 * sum.seconds());
    QVERIFY(stages > 0);
    // Without a plan: of one sample, and no times.
    const std::string alone = figuresAsCsv(ModelFigures(studio.state.model()->graph, nullptr), nullptr);
    QVERIFY(alone.find(",,,1,") != std::string::npos);
    QVERIFY(alone.ends_with(",,\n"));
    QVERIFY(!studio.view.saveFigures(folder.filePath(QStringLiteral("none/operators.csv"))));
    QVERIFY2(studio.message.contains(QStringLiteral("none")), qPrintable(studio.message));
}

void TestModelCards::overviewMovesTheView()
{
    Studio studio;
    QVERIFY(studio.load());
    studio.canvas->fit();
    QCoreApplication::processEvents();
    QVERIFY(!studio.canvas->overview()->isVisible());
    studio.canvas->setTransform(QTransform::fromScale(2.5, 2.5));
    studio.canvas->lookAt(studio.canvas->whole().topLeft());
    auto *overview = const_cast<GraphOverview *>(studio.canvas->overview());
    QTRY_VERIFY(overview->isVisible());
    const QRectF top = overview->frame();
    QVERIFY(top.height() < overview->height());
    QVERIFY(!overview->grab().isNull());
    QTest::mouseClick(overview, Qt::LeftButton, {}, QPoint(overview->width() / 2, overview->height() - 4));
    QTRY_VERIFY(overview->frame().center().y() > top.center().y() + 5);
    QVERIFY(studio.canvas->seen().intersects(studio.canvas->whole()));
}

QTEST_MAIN(TestModelCards)
#include "tst_model_cards.moc"
