// SPDX-License-Identifier: GPL-3.0-or-later
#include <QApplication>
#include <QClipboard>
#include <QLabel>
#include <QLineEdit>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include "engine/base/files.h"
#include "engine/graph/graph.h"
#include "engine/graph/operators/operators.h"
#include "engine/import/import.h"
#include "tests/ui/studio_fixture.h"
#include "tests/ui/watched_main.h"
#include "ui/model/graph_frame_item.h"
#include "ui/model/graph_node_item.h"
#include "ui/model/model_view.h"
#include "ui/theme/theme.h"

using namespace planloom;
using namespace planloom::ui;

namespace {

std::shared_ptr<const graph::Graph> zoo(const char *name)
{
    return import::loadModel(std::string("zoo:") + name)->graph;
}

/// A scope "b0", "b1", ... per operator: more groups at the top than a picture holds.
std::shared_ptr<const graph::Graph> blocks(int count)
{
    graph::GraphBuilder builder("blocks");
    TensorId last = builder.input("x", graph::DType::F32, graph::Shape::batched({1, 4}));
    for (int i = 0; i < count; ++i) {
        builder.pushScope("b" + std::to_string(i));
        const TensorId weight = builder.parameter("weight" + std::to_string(i), graph::Shape::of({4, 4}), {});
        last = builder.add("MatMul", {last, weight}); // heavy: a layer of its own
        builder.popScope();
    }
    builder.loss(builder.add("ReduceMean", {last}));
    builder.output(last);
    auto built = std::move(builder).build();
    return built.ok() ? std::make_shared<const graph::Graph>(*std::move(built)) : nullptr;
}

QString valueOf(ModelView &view, const QString &name)
{
    const TableModel &rows = *view.page()->properties()->table()->tableModel();
    for (int row = 0; row < rows.rowCount(); ++row) {
        if (rows.row(row)[0].text == name)
            return rows.row(row)[1].text;
    }
    return {};
}

BoxSizes equalSizes(const VisibleGraph &graph)
{
    return {std::vector<std::pair<double, double>>(graph.nodes.size(), {1, 0.5}), {}};
}

const graph::Op &operatorOf(const graph::Graph &graph, std::string_view type)
{
    return *std::ranges::find_if(graph.ops(), [&](const graph::Op &op) { return op.type == type; });
}

/// A model view on gpt-nano in four stages on four devices.
struct Studio {
    StudioState state;
    ModelView view{&state};
    GraphCanvas *canvas = view.page()->canvas();

    bool load()
    {
        view.resize(600, 700);
        view.show();
        return testing::loadSample(state) && settled();
    }
    bool settled()
    {
        return QTest::qWaitFor([this] { return !view.layingOut() && view.figuresCurrent(); }, 30'000);
    }
    /// Opens scope @p key with Enter.
    bool open(const char *key)
    {
        canvas->setCurrent(canvas->graph().find(key), false);
        if (canvas->current() < 0)
            return false;
        QTest::keyClick(canvas, Qt::Key_Return);
        return QTest::qWaitFor([&] { return !view.layingOut() && canvas->graph().find(key) < 0; }, 30'000);
    }
    [[nodiscard]] const GraphNode *current() const
    {
        return canvas->current() < 0 ? nullptr : &canvas->graph().nodes[std::size_t(canvas->current())];
    }
};

constexpr const char *kRun = "h/0 … 3"; // of gpt-nano's blocks

} // namespace

class TestModelView : public QObject {
    Q_OBJECT

private Q_SLOTS:
    /// A picture, not a request to close something.
    void aLongGraphIsShownAroundTheSelection()
    {
        StudioState state;
        ModelView view(&state);
        view.resize(500, 700);
        view.show();
        QTemporaryDir folder;
        const QString file = folder.filePath("long.json");
        QVERIFY(writeFileAtomically(file.toStdString(), graph::toJson(*blocks(400))));
        state.open(file);
        state.open("preset:dapple-b");
        QTRY_VERIFY(state.subject().has_value());
        auto *canvas = view.findChild<GraphCanvas *>();
        QTRY_COMPARE(canvas->graph().nodes.size(), std::size_t(2));
        QCOMPARE(canvas->graph().nodes[0].title, std::string("b0 … b399 ×400"));
        canvas->setCurrent(0, false);
        QTest::keyClick(canvas, Qt::Key_Return);
        QTRY_VERIFY(!view.layingOut() && canvas->graph().nodes.size() > 100);
        const auto note = [&] {
            for (const QLabel *label : view.findChildren<QLabel *>())
                if (label->isVisible() && label->text().startsWith("Showing"))
                    return label->text();
            return QString();
        };
        QCOMPARE(note(), QString("Showing 300 of 401 operators and groups; search or select a layer to see others"));
        QCOMPARE(canvas->graph().find("b399"), -1);
        Selection last;
        const std::size_t layers = state.subject()->layers().size();
        last.layers = {layers - 1, layers};
        state.select(last);
        QTRY_VERIFY(canvas->graph().find("b399") >= 0);
        QTRY_VERIFY(!view.layingOut());
        // Letters that can be read.
        QVERIFY(canvas->transform().m11() * GraphNodeItem::smallestText(canvas->font()) > 8.99);
        canvas->setCurrent(0, false); // the first box of the window, b100
        QTest::keyClick(canvas, Qt::Key_Left);
        QTRY_VERIFY(canvas->graph().find("b50") >= 0); // the window went along
        QTest::keyClick(canvas, Qt::Key_Space);
        QVERIFY(canvas->transform().m11() < 0.5); // all of it
    }

    void opensByKeyboardAndFinds()
    {
        StudioState state;
        ModelView view(&state);
        view.resize(500, 700);
        view.show();
        state.open("zoo:gpt-nano");
        state.open("preset:dapple-b");
        auto *canvas = view.findChild<GraphCanvas *>();
        QTRY_VERIFY(canvas->graph().find(kRun) >= 0); // the list of blocks is open from the start
        QTRY_VERIFY(state.subject().has_value());
        QTRY_VERIFY(!view.layingOut());
        canvas->setCurrent(canvas->graph().find(kRun), false);
        QTest::keyClick(canvas, Qt::Key_Return);
        QTRY_COMPARE(canvas->graph().nodes.size(), std::size_t(6));
        QTRY_VERIFY(!view.layingOut());
        QCOMPARE(canvas->current(), canvas->graph().find("h/0")); // inside of what was opened
        canvas->setCurrent(canvas->graph().find("h/1"), false);
        QTest::keyClick(canvas, Qt::Key_Return);
        QTRY_VERIFY(canvas->graph().find("h/1") < 0);
        QVERIFY(canvas->graph().nodes.size() > 6);
        auto *search = view.findChild<QLineEdit *>();
        search->setText("loss");
        QTest::keyClick(search, Qt::Key_Return);
        QTRY_VERIFY(
            canvas->current() >= 0
            && QString::fromStdString(canvas->graph().nodes[std::size_t(canvas->current())].key).contains("loss"));
        QTest::keyClick(canvas, Qt::Key_Backspace); // closes the scope around
        QTRY_COMPARE(canvas->graph().find("head") >= 0, true);
    }

    void selectionIsShared()
    {
        StudioState state;
        ModelView view(&state);
        view.resize(500, 700);
        view.show();
        state.open("zoo:gpt-nano");
        state.open("preset:dapple-b");
        auto *canvas = view.findChild<GraphCanvas *>();
        QTRY_VERIFY(state.subject().has_value());
        QTRY_VERIFY(!view.layingOut() && canvas->graph().nodes.size() == 3);
        QTest::keyClick(canvas, Qt::Key_Right);
        QTest::keyClick(canvas, Qt::Key_Right);
        QCOMPARE(state.selection().layers.first, std::size_t(1)); // all of the blocks
        QCOMPARE(state.selection().layers.last, std::size_t(5));
    }

    void openScopesAreFramed()
    {
        Studio studio;
        QVERIFY(studio.load());
        QVERIFY(studio.open(kRun));
        QVERIFY(studio.open("h/1"));
        const auto frame = [&](const QString &title) -> const GraphFrameItem * {
            for (const GraphFrameItem *each : studio.canvas->frames()) {
                if (each->title() == title)
                    return each;
            }
            return nullptr;
        };
        QVERIFY(frame("h.0 … h.3 ×4"));
        QVERIFY(frame("h.1"));
        QVERIFY(frame("h.0 … h.3 ×4")->area().contains(frame("h.1")->area()));
        const VisibleGraph &graph = studio.canvas->graph();
        int inside = 0;
        for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
            const QRectF box = studio.canvas->boxes()[n]->sceneBoundingRect();
            if (!QString::fromStdString(graph.nodes[n].key).startsWith("h/1/")) {
                QVERIFY2(!frame("h.1")->area().intersects(box), graph.nodes[n].key.c_str());
                continue;
            }
            QVERIFY(frame("h.1")->area().contains(box));
            QVERIFY(!frame("h.1")->titleArea().intersects(box));
            ++inside;
        }
        QVERIFY(inside > 1);
        // A double click on the title closes the scope.
        studio.canvas->fit();
        const QPoint title = studio.canvas->mapFromScene(frame("h.1")->titleArea().center());
        QTest::mouseDClick(studio.canvas->viewport(), Qt::LeftButton, {}, title);
        QTRY_VERIFY(!studio.view.layingOut() && studio.canvas->graph().find("h/1") >= 0);
        QVERIFY(!frame("h.1"));
    }

    void propertiesOfAnOperator()
    {
        Studio studio;
        QVERIFY(studio.load());
        DataTable *table = studio.view.page()->properties()->table();
        QVERIFY(!table->isVisible());
        const auto hints = studio.view.page()->properties()->findChildren<QLabel *>();
        QVERIFY(std::ranges::any_of(hints, [](const QLabel *label) {
            return label->isVisible() && label->text().startsWith("Click a box");
        }));
        const graph::Graph &graph = *studio.state.model()->graph;
        const graph::Op &op = operatorOf(graph, "LayerNormalization");
        auto *search = studio.view.findChild<QLineEdit *>();
        search->setText("LayerNormalization");
        QTest::keyClick(search, Qt::Key_Return);
        QTRY_VERIFY(studio.current() && studio.current()->key == op.name);
        QVERIFY(studio.settled());
        QVERIFY(table->isVisible());
        const int columns = table->columnWidth(0) + table->columnWidth(1);
        QVERIFY(columns <= table->viewport()->width() && table->columnWidth(1) * 2 >= table->viewport()->width() - 2);
        QCOMPARE(valueOf(studio.view, "Name"), QString::fromStdString(op.name));
        QCOMPARE(valueOf(studio.view, "Type"), QString("LayerNormalization"));
        QCOMPARE(valueOf(studio.view, "Scope"), QString::fromStdString(op.scope));
        const graph::Tensor &input = graph.tensor(op.inputs[0]);
        QCOMPARE(valueOf(studio.view, "Input"),
                 QString::fromStdString(input.shape.text() + " float32 · " + input.name));
        QVERIFY(!valueOf(studio.view, "Output").isEmpty());
        QCOMPARE(valueOf(studio.view, "Attribute axis"), QString("-1"));
        QVERIFY(valueOf(studio.view, "Attribute epsilon").startsWith("1e-05"));
        QVERIFY(valueOf(studio.view, "Parameter").contains("float32, "));
        // A batch of 8 in micro-batches, on one device a stage.
        const plan::Document &document = *studio.state.document();
        const std::int64_t samples = plan::microBatchRange(document.plan, 0).size;
        const graph::OpCostFigures figures = graph::figures(graph, op.id, samples);
        QCOMPARE(valueOf(studio.view, "FLOPs, forward"), QString::fromStdString(format(figures.forward)));
        QCOMPARE(valueOf(studio.view, "FLOPs, backward"), QString::fromStdString(format(figures.backward)));
        const std::size_t layer = studio.state.subject()->layers().layerOf(op.id);
        const auto &stages = document.plan.stages;
        const auto stage = std::ranges::find_if(stages, [&](const plan::Stage &s) {
            return s.firstLayer <= layer && layer < s.lastLayer;
        });
        QVERIFY(valueOf(studio.view, "Stage").startsWith(QString::number(stage - stages.begin())));
        QCOMPARE(valueOf(studio.view, "Device"),
                 QString::fromStdString(document.subject.cluster->device(stage->devices[0]).name));
        // Ctrl+C copies rows.
        table->selectAll();
        QTest::keyClick(table, Qt::Key_C, Qt::ControlModifier);
        QVERIFY(QApplication::clipboard()->text().contains("Type\tLayerNormalization\n"));
    }

    void propertiesOfAScope()
    {
        Studio studio;
        QVERIFY(studio.load());
        QVERIFY(studio.open(kRun));
        const plan::Document &document = *studio.state.document();
        studio.canvas->setCurrent(studio.canvas->graph().find("h/1"), false);
        const GraphNode &box = *studio.current();
        QCOMPARE(valueOf(studio.view, "Type"), QString("scope"));
        QCOMPARE(valueOf(studio.view, "Operators"), QString::number(box.ops.size()));
        QVERIFY(valueOf(studio.view, "Types").contains("LayerNormalization 2"));
        // The box is a layer: its times are the layer's.
        const auto samples = static_cast<double>(plan::microBatchRange(document.plan, 0).size);
        const cost::CostModel &costs = *document.subject.costs;
        QCOMPARE(box.lastLayer, box.firstLayer + 1);
        const double forward = costs.forward(box.firstLayer, box.lastLayer, samples, 0).value();
        const double backward = costs.backward(box.firstLayer, box.lastLayer, samples, 0).value();
        QCOMPARE(valueOf(studio.view, "Predicted forward"), QString::fromStdString(format(Seconds(forward))));
        QCOMPARE(valueOf(studio.view, "Predicted backward"), QString::fromStdString(format(Seconds(backward))));
        QVERIFY(valueOf(studio.view, "Parameters")
                    .endsWith(QString::fromStdString(format(costs.parameterBytes(box.firstLayer, box.lastLayer)))));
        const ModelFigures figures(studio.state.model()->graph, studio.state.document());
        const double sum = figures.of(box.ops).forwardSeconds;
        QVERIFY(std::abs(sum / forward - 1) < 1e-9);
        QVERIFY(studio.canvas->accessibleDescription().startsWith("Selected: h.1, "));
        // Without a plan figures are of one sample, and there are no times.
        const ModelFigures alone(studio.state.model()->graph, nullptr);
        QCOMPARE(alone.of(box.ops).forwardSeconds, 0.0);
        QVERIFY(std::abs(alone.of(box.ops).forwardFlops * samples / figures.of(box.ops).forwardFlops - 1) < 1e-9);
    }

    void propertiesFindTheirPlace()
    {
        Studio studio;
        QVERIFY(studio.load());
        auto *pane = studio.view.page()->properties();
        const auto below = [&] { return pane->geometry().top() > studio.canvas->parentWidget()->geometry().top(); };
        studio.view.resize(400, 700);
        QVERIFY(pane->isVisible() && below());
        studio.view.resize(800, 400);
        QTRY_VERIFY(!below() && pane->isVisible());
        studio.view.resize(320, 300); // no room
        QTRY_VERIFY(!pane->isVisible());
        auto *button = studio.view.page()->controls()->findChild<QToolButton *>();
        QVERIFY(!button->isChecked());
        QTest::mouseClick(button, Qt::LeftButton);
        QTRY_VERIFY(pane->isVisible());
        QTest::mouseClick(button, Qt::LeftButton);
        studio.view.resize(800, 800);
        QTRY_VERIFY(!pane->isVisible()); // as the user wants
    }

    void hitsAreListedAndGoneThrough()
    {
        Studio studio;
        QVERIFY(studio.load());
        studio.canvas->setFocus();
        QTest::keyClick(studio.canvas, Qt::Key_F, Qt::ControlModifier);
        auto *search = studio.view.findChild<QLineEdit *>();
        QTRY_VERIFY(search->hasFocus());
        QTest::keyClicks(search, "axis=-1 layernorm");
        const auto count = [&] { return search->accessibleDescription(); };
        QCOMPARE(count(), QString("9 hits")); // two a block, and the last one
        DataTable *list = nullptr;
        for (DataTable *each : studio.view.findChildren<DataTable *>()) {
            if (each->accessibleName() == "Hits of the search")
                list = each;
        }
        QVERIFY(list && list->isVisible());
        QCOMPARE(list->tableModel()->rowCount(), 9);
        QCOMPARE(list->tableModel()->row(0)[1].text, QString("LayerNormalization"));
        QVERIFY(list->tableModel()->row(0)[2].text.contains("axis=-1"));
        const auto at = [&](int hit) {
            return studio.settled() && studio.current() && studio.canvas->current() >= 0
                && QString::fromStdString(studio.current()->key) == list->tableModel()->row(hit)[0].toolTip;
        };
        QTest::keyClick(search, Qt::Key_Return);
        QTRY_VERIFY(at(0));
        QCOMPARE(count(), QString("1 of 9"));
        QTest::keyClick(search, Qt::Key_Return);
        QTRY_VERIFY(at(1));
        QTest::keyClick(search, Qt::Key_Return, Qt::ShiftModifier);
        QTest::keyClick(search, Qt::Key_Return, Qt::ShiftModifier);
        QTRY_VERIFY(at(8)); // round
        QCOMPARE(count(), QString("9 of 9"));
        QCOMPARE(studio.state.selection().layers.first, studio.current()->firstLayer);
        const QRect seen = studio.canvas->viewport()->rect();
        const GraphNodeItem *item = studio.canvas->boxes()[std::size_t(studio.canvas->current())];
        QVERIFY(seen.intersects(studio.canvas->mapFromScene(item->sceneBoundingRect()).boundingRect()));
        QTest::mouseClick(list->viewport(), Qt::LeftButton, {}, list->visualRect(list->model()->index(3, 0)).center());
        QTRY_VERIFY(at(3));
        search->setText("no such thing");
        QCOMPARE(count(), QString("no match"));
        QVERIFY(!list->isVisible());
        QTest::keyClick(search, Qt::Key_Escape);
        QCOMPARE(search->text(), QString());
        QTRY_VERIFY(studio.canvas->hasFocus());
    }

    void boxesAreColouredByFigures_data()
    {
        QTest::addColumn<int>("kind");
        QTest::newRow("light") << static_cast<int>(ThemeKind::Light);
        QTest::newRow("dark") << static_cast<int>(ThemeKind::Dark);
        QTest::newRow("high contrast") << static_cast<int>(ThemeKind::HighContrast);
    }
    void boxesAreColouredByFigures()
    {
        QFETCH(int, kind);
        applyTheme(*qApp, static_cast<ThemeKind>(kind));
        Studio studio;
        QVERIFY(studio.load());
        const ModelFigures figures(studio.state.model()->graph, studio.state.document());
        const VisibleGraph &graph = studio.canvas->graph();
        for (const ColorBy by : {ColorBy::Flops, ColorBy::Time, ColorBy::Memory}) {
            const BoxColors colors = colorBoxes(by, graph, &figures);
            const auto most = std::ranges::max_element(colors.boxes, {}, &BoxPaint::share);
            QCOMPARE(most->share, 1.0);
            QCOMPARE(most->fill, ramp(1));
            QVERIFY(!colors.legend.high.isEmpty());
        }
        // FLOPs are in the blocks, but not in the embedding.
        const BoxColors flops = colorBoxes(ColorBy::Flops, graph, &figures);
        QVERIFY(flops.boxes[0].share < 0.1);
        QCOMPARE(flops.boxes[static_cast<std::size_t>(graph.find(kRun))].share, 1.0);
        // On the screen, with the legend.
        auto *choice = studio.view.findChild<QComboBox *>();
        choice->setCurrentIndex(choice->findText("FLOPs"));
        QVERIFY(studio.view.page()->legend()->text().startsWith("FLOPs, forward and backward, from "));
        const QRectF box = studio.canvas->boxes()[static_cast<std::size_t>(graph.find(kRun))]->sceneBoundingRect();
        studio.canvas->fit();
        const QImage picture = studio.canvas->viewport()->grab().toImage();
        const QPoint inside = studio.canvas->mapFromScene(box.center() + QPointF(box.width() / 2 - 10, 0));
        QVERIFY(contrast(picture.pixelColor(inside), ramp(1)) < 1.05);
        // The current box differs from others that are selected, too.
        const auto corner = [&] {
            const QPoint at = studio.canvas->mapFromScene(box.center());
            return studio.canvas->viewport()->grab(QRect(at.x() - 80, at.y() - 40, 80, 40)).toImage();
        };
        choice->setCurrentIndex(choice->findText("Stage"));
        studio.canvas->highlight({graph.find(kRun)});
        const QImage others = corner();
        studio.canvas->setCurrent(graph.find(kRun), false);
        QVERIFY(corner() != others);
        applyTheme(*qApp, ThemeKind::Light);
    }

    void stripesSayStageOrDevice()
    {
        Studio studio;
        QVERIFY(studio.load());
        QVERIFY(studio.open(kRun));
        const ModelFigures figures(studio.state.model()->graph, studio.state.document());
        const VisibleGraph &graph = studio.canvas->graph();
        const BoxColors stages = colorBoxes(ColorBy::Stage, graph, &figures);
        QCOMPARE(stages.legend.entries.size(), std::size_t(4));
        for (std::size_t n = 0; n < graph.nodes.size(); ++n)
            QCOMPARE(stages.boxes[n].stripes.size(), figures.stagesOf(graph.nodes[n].ops).size());
        const BoxColors devices = colorBoxes(ColorBy::Device, graph, &figures);
        QCOMPARE(devices.legend.title, QString("Device"));
        QCOMPARE(devices.legend.entries[1].text, QString("n0:g1"));
        // Without a plan there is nothing to say.
        const ModelFigures alone(studio.state.model()->graph, nullptr);
        QVERIFY(colorBoxes(ColorBy::Device, graph, &alone).legend.note.startsWith("No plan yet"));
    }

    /// The frame follows what other views select.
    void theCurrentBoxIsOneOfTheSelection()
    {
        Studio studio;
        QVERIFY(studio.load());
        QVERIFY(studio.open(kRun));
        const int block = studio.canvas->graph().find("h/1");
        QTest::mouseClick(studio.canvas->viewport(), Qt::LeftButton, {},
                          studio.canvas->mapFromScene(studio.canvas->boxes()[std::size_t(block)]->pos()));
        QCOMPARE(studio.current()->key, std::string("h/1"));
        const auto &stages = studio.state.document()->plan.stages;
        const auto belongs = [&](std::size_t stage) {
            return studio.current() && studio.current()->firstLayer < stages[stage].lastLayer
                && stages[stage].firstLayer < studio.current()->lastLayer;
        };
        studio.state.selectStage(StageId(3));
        QVERIFY(belongs(3));
        QCOMPARE(valueOf(studio.view, "Name"), QString::fromStdString(studio.current()->key));
        // A slice has no layers, but a stage.
        studio.state.selectTask("s0.F.m1");
        QVERIFY(belongs(0));
        const int last = static_cast<int>(studio.state.subject()->layers().size());
        Selection layers;
        layers.layers = {static_cast<std::size_t>(last) - 1, static_cast<std::size_t>(last)};
        studio.state.select(layers);
        QCOMPARE(studio.current()->lastLayer, static_cast<std::size_t>(last));
        studio.state.clearSelection();
        QVERIFY(!studio.current());
        QVERIFY(!studio.view.page()->properties()->table()->isVisible());
    }

    void theNeighbourhoodIsShown()
    {
        Studio studio;
        QVERIFY(studio.load());
        QVERIFY(studio.open(kRun));
        studio.canvas->setCurrent(studio.canvas->graph().find("h/2"), false);
        QTest::keyClick(studio.canvas, Qt::Key_N);
        QTRY_VERIFY(!studio.view.layingOut() && studio.canvas->graph().nodes.size() == 3); // h/1, h/2, h/3
        QVERIFY(studio.canvas->graph().find("h/1") >= 0 && studio.canvas->graph().find("h/0") < 0);
        QTest::keyClick(studio.canvas, Qt::Key_N);
        QTRY_VERIFY(!studio.view.layingOut() && studio.canvas->graph().find("h/0") >= 0);
        QTest::keyClick(studio.canvas, Qt::Key_Escape);
        QTRY_VERIFY(!studio.view.layingOut() && studio.canvas->graph().nodes.size() == 6);
    }

    void layoutCanBeCancelled()
    {
        DotProcess dot;
        QSignalSpy failed(&dot, &DotProcess::failed);
        const auto graph = zoo("resnet-50");
        const ScopeGraph scopes(*graph, nullptr);
        const auto all = scopes.allScopes();
        const VisibleGraph visible = scopes.visible({all.begin(), all.end()});
        dot.start(visible, equalSizes(visible));
        QVERIFY(dot.running());
        dot.cancel();
        QVERIFY(!dot.running());
        QCOMPARE(failed.size(), 1);
    }

    /// Last, as it gives settings a place.
    void choicesOutliveTheView()
    {
        const testing::OwnSettings settings;
        {
            GraphPage page;
            page.setColorBy(ColorBy::Memory);
            page.showProperties(false);
        }
        GraphPage again;
        again.resize(900, 500); // with room for both
        again.show();
        QCOMPARE(again.colorBy(), ColorBy::Memory);
        QVERIFY(!again.properties()->isVisible());
        again.showProperties(true);
        GraphPage third;
        third.show();
        QVERIFY(third.properties()->isVisible());
    }
};

PLANLOOM_UI_MAIN(TestModelView)
#include "tst_model_view.moc"
