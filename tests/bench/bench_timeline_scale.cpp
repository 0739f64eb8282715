// SPDX-License-Identifier: GPL-3.0-or-later
// The timeline at many thousands of devices: what the UI thread does per event, in processor time.
//   bench_timeline_scale                     made-up traces of 1,024, 16,384 and 65,536 ranks; where a linear look-up
//                                            can be afforded, its time too and the ratio
//   bench_timeline_scale DEVICES [k=v ...]   the whole window: a plan of zoo:gpt2 on that many H100, by the manual
//                                            planner with these options (data=..., tensor=..., pipeline=...), is
//                                            shown, searched, hovered over, and its trace opened as a measured one;
//                                            events by action and type
#include "engine/program/program.h"
#include "ui/bench/event_watch.h"
#include "ui/shell/main_window.h"
#include "ui/state/studio_state.h"
#include "ui/theme/theme.h"
#include "ui/timeline/slice_text.h"
#include "ui/timeline/timeline_view.h"

#include <QAction>
#include <QApplication>
#include <QElapsedTimer>
#include <QFile>
#include <QLineEdit>
#include <QMetaEnum>
#include <QMouseEvent>
#include <QSettings>
#include <QTabWidget>
#include <QTemporaryDir>
#include <QWheelEvent>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace {

using namespace planloom;
using Model = ui::TimelineModel;

constexpr std::int64_t kPass = 1'000'000; // nanoseconds
constexpr double kBudgetMilliseconds = 50;
constexpr int kStages = 16;

double g_worst = 0; ///< milliseconds of one event or call

double timeOf(const std::function<void()> &work)
{
    const double begin = ui::threadMilliseconds();
    work();
    return ui::threadMilliseconds() - begin;
}

double quantile(std::vector<double> &sorted, double share)
{
    std::ranges::sort(sorted);
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
}

/// @p before: milliseconds by the linear way; negative: not measured.
void report(const char *what, std::vector<double> times, double before = -1)
{
    g_worst = std::max(g_worst, quantile(times, 1));
    std::printf("  %-26s p50 %9.4f  p95 %9.4f  max %9.4f ms", what, quantile(times, 0.5), quantile(times, 0.95),
                quantile(times, 1));
    if (before >= 0)
        std::printf("   linear %10.3f ms: %.0f x", before, before / std::max(quantile(times, 0.5), 1e-6));
    std::printf("\n");
}

void report(const char *what, int times, const std::function<void(int)> &work, double before = -1)
{
    std::vector<double> each;
    for (int k = 0; k < times; ++k)
        each.push_back(timeOf([&] { work(k); }));
    report(what, std::move(each), before);
}

// --- made-up traces

/// Sixteen stages, replicated over all ranks, and four micro-batches: 25 tasks a rank. @p stretch: a measured trace is
/// a predicted one that takes longer.
std::shared_ptr<simulate::Simulation> pipelines(int ranks, std::int64_t stretch)
{
    auto simulation = std::make_shared<simulate::Simulation>();
    trace::Trace &trace = simulation->trace;
    for (const program::LaneRow &row : program::kLaneTable)
        trace.lanes.push_back({row.name, row.work, row.capacity});
    trace.kinds = trace::standardKinds();
    const auto add = [&](const std::string &id, trace::Kind kind, int rank, int microBatch, program::Lane lane,
                         std::int64_t start, std::int64_t duration) {
        trace.records.push_back({start * stretch, duration * stretch, static_cast<std::int32_t>(trace.tasks.size()), 0,
                                 rank, static_cast<std::int32_t>(lane)});
        trace.tasks.push_back({id, kind, rank % kStages, microBatch});
    };
    for (int r = 0; r < ranks; ++r) {
        trace.ranks.push_back({"n" + std::to_string(r / 8) + ":g" + std::to_string(r % 8)});
        const int stage = r % kStages;
        const std::string s = "s" + std::to_string(stage) + ".";
        for (int m = 0; m < 4; ++m) {
            const std::string number = ".m" + std::to_string(m);
            const std::int64_t forward = (stage + m) * kPass;
            const std::int64_t backward = (kStages + 4 + 2 * (kStages - 1 - stage + m)) * kPass;
            add(s + "F" + number, trace::Kind::Forward, r, m, program::Lane::Compute, forward, kPass * 9 / 10);
            add(s + "B" + number, trace::Kind::Backward, r, m, program::Lane::Compute, backward, kPass * 19 / 10);
            add(s + "RF" + number, trace::Kind::Receive, r, m, program::Lane::Receive, forward - kPass / 10,
                kPass / 10);
            add(s + "SF" + number, trace::Kind::Send, r, m, program::Lane::Send, forward + kPass * 9 / 10, kPass / 10);
            add(s + "RB" + number, trace::Kind::Receive, r, m, program::Lane::Receive, backward - kPass / 10,
                kPass / 10);
            add(s + "SB" + number, trace::Kind::Send, r, m, program::Lane::Send, backward + kPass * 19 / 10,
                kPass / 10);
        }
        add(s + "AR.b0", trace::Kind::AllReduce, r, -1, program::Lane::Collective, 60 * kPass, kPass);
    }
    trace.sort();
    return simulation;
}

/// The work of the model before it had indexes: every row, every slice, every name.
struct Linear {
    const trace::Trace &trace;
    const trace::LevelOfDetail &lod;

    /// Of @p groups devices only; the time grows with their number.
    [[nodiscard]] std::size_t layOut(std::size_t groups) const
    {
        std::vector<std::string> names;
        std::size_t rows = 0;
        for (std::size_t g = 0; g < groups; ++g) {
            const std::string &device = trace.ranks[g].device;
            if (std::find(names.begin(), names.end(), device) == names.end())
                names.push_back(device);
            for (std::int32_t lane = 0; lane < 5; ++lane) {
                for (const trace::Row &row : lod.rows())
                    rows += row.rank() == static_cast<std::int32_t>(g) && row.lane() == lane;
            }
        }
        return rows;
    }

    [[nodiscard]] std::size_t search(std::string_view text) const
    {
        const auto same = [](char a, char b) {
            return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
        };
        std::vector<std::pair<std::size_t, std::uint32_t>> hits;
        for (std::size_t r = 0; r < lod.rows().size(); ++r) {
            for (std::uint32_t i = 0; i < lod.rows()[r].size() && hits.size() < 100'000; ++i) {
                const std::string &id = trace.tasks[static_cast<std::size_t>(lod.rows()[r].record(i).task)].id;
                if (std::search(id.begin(), id.end(), text.begin(), text.end(), same) != id.end())
                    hits.emplace_back(r, i);
            }
        }
        const auto start = [&](const auto &hit) { return lod.rows()[hit.first].record(hit.second).start; };
        std::stable_sort(hits.begin(), hits.end(), [&](const auto &a, const auto &b) { return start(a) < start(b); });
        return hits.size();
    }

    [[nodiscard]] std::size_t find(std::int32_t rank, std::int32_t lane, std::string_view id) const
    {
        std::size_t found = 0;
        for (const trace::RankInfo &info : trace.ranks) { // the device's group
            if (info.device == trace.ranks[static_cast<std::size_t>(rank)].device)
                break;
            ++found;
        }
        for (const trace::Row &row : lod.rows()) {
            if (row.rank() != rank || row.lane() != lane)
                continue;
            for (std::uint32_t i = 0; i < row.size(); ++i) {
                if (trace.tasks[static_cast<std::size_t>(row.record(i).task)].id == id)
                    return found + i;
            }
        }
        return found;
    }

    [[nodiscard]] std::int64_t alongMicroBatch(const trace::Record &here, std::int32_t microBatch) const
    {
        std::int64_t best = std::numeric_limits<std::int64_t>::max();
        for (const trace::Row &row : lod.rows()) {
            for (std::uint32_t i = 0; i < row.size(); ++i) {
                const trace::Record other = row.record(i);
                if (other.step == here.step
                    && trace.tasks[static_cast<std::size_t>(other.task)].microBatch == microBatch
                    && other.start > here.start)
                    best = std::min(best, other.start);
            }
        }
        return best;
    }
};

volatile std::int64_t g_sink = 0; ///< so that nothing is optimised away

void madeUp(int ranks)
{
    const auto predicted = pipelines(ranks, 2);
    const auto measured = pipelines(ranks, 3);
    std::printf("%d ranks, %zu slices a trace\n", ranks, predicted->trace.records.size());
    const auto indexed = [](const std::shared_ptr<simulate::Simulation> &simulation) {
        return std::make_shared<const trace::Index>(
            std::shared_ptr<const trace::Trace>(simulation, &simulation->trace));
    };
    std::shared_ptr<const trace::Index> first;
    std::printf("  index (not on the UI thread) %.1f ms\n", timeOf([&] { first = indexed(predicted); }));
    const auto second = indexed(measured);
    const Linear linear{predicted->trace, first->lod()};
    const auto &tasks = predicted->trace.tasks;
    const int some = std::min(ranks, 64); // all of them would take minutes
    const double oldLayOut = timeOf([&] { g_sink = static_cast<std::int64_t>(linear.layOut(some)); }) * ranks / some;

    Model model;
    report(
        "open", 3, [&](int) { model.setPredicted(predicted, first); }, oldLayOut);
    report("open a measured trace", 1, [&](int) { model.resetMeasured(measured->trace, second); });
    report(
        "hide and show lanes", 4, [&](int k) { model.setShowCommunication(k % 2 == 1); }, oldLayOut);
    ui::TimelineCanvas canvas(&model);
    canvas.resize(1920, 1000);
    report("the first picture", 1, [&](int) {
        canvas.modelChanged(false);
        canvas.grab();
    });
    report("scroll and paint", 100, [&](int k) {
        canvas.viewport().setScroll(
            static_cast<int>(static_cast<std::int64_t>(model.layout().height() - 1000) * k / 100));
        canvas.grab();
    });
    for (const char *typed : {"s", "s3", "s3.", "s3.b", "s3.b.", "s3.b.m", "s3.b.m2", "zzz"}) {
        const double before = timeOf([&] { g_sink = static_cast<std::int64_t>(linear.search(typed)); });
        const std::string name = std::string("search \"") + typed + "\"";
        report(
            name.c_str(), 3, [&](int) { g_sink = static_cast<std::int64_t>(model.search(typed).size()); }, before);
    }
    const auto sliceOf = [&](int k) {
        return *model.sliceAt(static_cast<std::size_t>(k) * 7919 % model.rows().size(), 0, 1e15);
    };
    const auto far = model.record(sliceOf(999));
    const double oldFind = timeOf([&] {
        g_sink =
            static_cast<std::int64_t>(linear.find(far.rank, far.lane, tasks[static_cast<std::size_t>(far.task)].id));
    });
    report(
        "counterpart", 1000, [&](int k) { g_sink = model.counterpart(sliceOf(k)).has_value(); }, oldFind);
    report(
        "tooltip", 1000, [&](int k) { g_sink = ui::sliceText(model, sliceOf(k)).size(); }, oldFind);
    const double oldAlong = timeOf([&] { g_sink = linear.alongMicroBatch(far, 1); });
    report(
        "along the micro-batch", 200, [&](int k) { g_sink = model.alongMicroBatch(sliceOf(k), 1).has_value(); },
        oldAlong);
    report("find by id", 100, [&](int k) {
        const auto &id = tasks[static_cast<std::size_t>(k) * 104'729 % tasks.size()].id;
        g_sink = model.find(id, k % 2 == 0 ? std::string() : predicted->trace.ranks.back().device).has_value();
    });
}

// --- a plan in the studio

/// Measures every event that the UI thread handles, by its type.
class Application final : public QApplication {
public:
    using QApplication::QApplication;

    bool notify(QObject *receiver, QEvent *event) override
    {
        if (m_nested)
            return QApplication::notify(receiver, event);
        m_nested = true;
        const QEvent::Type type = event->type();
        const std::string name = receiver->metaObject()->className();
        bool handled = false;
        const double time = timeOf([&] { handled = QApplication::notify(receiver, event); });
        m_nested = false;
        Times &times = m_times[type];
        if (times.each.empty() || time > times.most) {
            times.most = time;
            times.receiver = name;
        }
        times.each.push_back(time);
        return handled;
    }

    /// Prints what came since the last call: types of which an event took at least @p least milliseconds.
    void report(const char *action, double least = 0.5)
    {
        std::printf(" %s\n", action);
        const QMetaEnum names = QMetaEnum::fromType<QEvent::Type>();
        for (auto &[type, times] : std::exchange(m_times, {})) {
            g_worst = std::max(g_worst, times.most);
            if (times.most >= least)
                std::printf("  %-24s %6zu events  p50 %8.3f  max %8.3f ms  %s\n", names.valueToKey(type),
                            times.each.size(), quantile(times.each, 0.5), times.most, times.receiver.c_str());
        }
    }

private:
    struct Times {
        std::vector<double> each;
        double most = 0;
        std::string receiver; ///< class of the slowest one's
    };
    bool m_nested = false;
    std::map<QEvent::Type, Times> m_times;
};

bool waitUntil(const std::function<bool()> &condition)
{
    QElapsedTimer timer;
    timer.start();
    while (!condition()) {
        if (timer.elapsed() > 600'000)
            return false;
        QCoreApplication::processEvents(QEventLoop::WaitForMoreEvents | QEventLoop::AllEvents, 50);
    }
    return true;
}

/// Until all that was asked for is done, and drawn.
void settle()
{
    for (int k = 0; k < 40; ++k)
        QCoreApplication::processEvents(QEventLoop::AllEvents, 5);
}

void type(QWidget *field, const QString &text)
{
    for (const QChar letter : text) {
        QKeyEvent press(QEvent::KeyPress, letter.toUpper().unicode(), Qt::NoModifier, QString(letter));
        QCoreApplication::sendEvent(field, &press);
        settle();
    }
}

void mouse(QWidget *widget, QEvent::Type type, const QPoint &at, Qt::MouseButton button = Qt::NoButton,
           Qt::MouseButtons buttons = Qt::NoButton)
{
    QMouseEvent event(type, at, widget->mapToGlobal(at), button, buttons, Qt::NoModifier);
    QCoreApplication::sendEvent(widget, &event);
    settle();
}

void click(QWidget *widget, const QPoint &at)
{
    mouse(widget, QEvent::MouseButtonPress, at, Qt::LeftButton, Qt::LeftButton);
    mouse(widget, QEvent::MouseButtonRelease, at, Qt::LeftButton);
}

void hover(QWidget *widget)
{
    for (int k = 0; k < 60; ++k)
        mouse(widget, QEvent::MouseMove, {widget->width() * (k + 1) / 62, widget->height() * (k * 7 % 60 + 1) / 62});
}

void wheel(QWidget *widget, int notches, Qt::KeyboardModifiers modifiers)
{
    const QPoint at = widget->rect().center();
    for (int k = 0; k < std::abs(notches); ++k) {
        QWheelEvent event(at, widget->mapToGlobal(at), {}, {0, notches > 0 ? 120 : -120}, Qt::NoButton, modifiers,
                          Qt::NoScrollPhase, false);
        QCoreApplication::sendEvent(widget, &event);
        settle();
    }
}

/// The preset, where there is one; else a file that describes machines like its.
QString clusterOf(int devices, const QTemporaryDir &folder)
{
    if (devices == 16'384)
        return QStringLiteral("preset:h100-16384");
    QFile file(folder.filePath(QStringLiteral("cluster.yaml")));
    file.open(QIODevice::WriteOnly);
    file.write(QByteArrayLiteral("nodes:\n  count: ") + QByteArray::number(devices / 8)
               + QByteArrayLiteral("\n  devices_per_node: 8\n  device: H100-SXM\n"
                                   "  intra: {bandwidth: 360 GB/s, latency: 5 us}\n"
                                   "  inter: {bandwidth: 45 GB/s, latency: 10 us}\n"));
    return file.fileName();
}

bool showPlan(Application &app, ui::StudioState &state, int devices, const planners::Options &options)
{
    const QTemporaryDir folder;
    state.loadModel(QStringLiteral("zoo:gpt2"));
    state.loadCluster(clusterOf(devices, folder));
    if (!waitUntil([&] { return state.subject().has_value() && !state.loadJob()->running(); }))
        return false;
    settle();
    app.report("open model and cluster");
    ui::PlanRequest request;
    request.planner = "manual";
    request.globalBatch = devices;
    request.options = options;
    state.runPlanner(request);
    waitUntil([&] { return state.simulationCurrent() || (!state.planJob()->running() && !state.simulating()); });
    settle();
    app.report("plan, simulate, show");
    return state.simulationCurrent();
}

void useTimeline(Application &app, ui::TimelineView &view)
{
    ui::TimelineCanvas *canvas = view.canvas();
    auto *field = view.findChild<QLineEdit *>();
    type(field, QStringLiteral("s0.f.m0"));
    app.report("type a search");
    hover(canvas);
    app.report("hover over the timeline");
    for (int k = 0; k < 40; ++k) {
        canvas->viewport().setScroll(
            static_cast<int>(static_cast<std::int64_t>(view.model().layout().height()) * k / 41));
        settle();
    }
    wheel(canvas, -10, Qt::NoModifier);
    wheel(canvas, 8, Qt::ControlModifier);
    wheel(canvas, -8, Qt::ControlModifier);
    app.report("scroll and zoom");
    for (int k = 1; k < 10; ++k)
        click(canvas, {canvas->width() * k / 10, canvas->height() * k / 10});
    app.report("click slices and devices");
    mouse(canvas, QEvent::MouseButtonPress, {400, 200}, Qt::LeftButton, Qt::LeftButton);
    for (int k = 1; k < 20; ++k)
        mouse(canvas, QEvent::MouseMove, {400 + 30 * k, 200}, Qt::NoButton, Qt::LeftButton);
    mouse(canvas, QEvent::MouseButtonRelease, {970, 200}, Qt::LeftButton);
    app.report("drag a range");
    for (QAction *action : view.commands()) {
        if (!action->isCheckable())
            continue;
        for (int k = 0; k < 2; ++k) {
            report(qPrintable(action->text()), 1, [&](int) { action->trigger(); });
            settle();
        }
    }
    app.report("switches of the timeline");
}

/// Every page of the view: hovered over, zoomed and searched.
void useView(Application &app, QDockWidget &dock)
{
    dock.raise();
    settle();
    auto *tabs = dock.findChild<QTabWidget *>();
    for (int page = 0; page < (tabs ? tabs->count() : 1); ++page) {
        if (tabs)
            report(qPrintable(tabs->tabText(page)), 1, [&](int) { tabs->setCurrentIndex(page); });
        settle();
        for (QWidget *child : dock.findChildren<QWidget *>()) {
            if (!child->isVisible() || !child->hasMouseTracking())
                continue;
            hover(child);
            wheel(child, 4, Qt::ControlModifier);
            wheel(child, -4, Qt::ControlModifier);
        }
        for (QLineEdit *field : dock.findChildren<QLineEdit *>()) {
            if (!field->isVisible() || field->placeholderText().isEmpty())
                continue;
            type(field, QStringLiteral("n7:g"));
            field->clear();
            settle();
        }
        app.report(qPrintable(QStringLiteral("%1, %2: show, hover, zoom, search")
                                  .arg(dock.objectName(), tabs ? tabs->tabText(page) : QString())));
    }
    if (tabs)
        tabs->setCurrentIndex(0);
    settle();
    app.report("back to the first page");
}

int inTheStudio(Application &app, int devices, const planners::Options &options)
{
    const QTemporaryDir folder;
    QCoreApplication::setOrganizationName(QStringLiteral("planloom-bench"));
    QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, folder.path());
    ui::StudioState state;
    ui::MainWindow window(&state);
    window.setAsks(false);
    window.resize(1600, 1000);
    window.show();
    settle();
    app.report("show an empty window", kBudgetMilliseconds);
    g_worst = 0; // fonts and styles are loaded; of no interest here
    QObject::connect(&state, &ui::StudioState::message,
                     [](ui::MessageLevel, const QString &text) { std::printf("  (%s)\n", qPrintable(text)); });
    if (!showPlan(app, state, devices, options))
        return 1;
    auto *timeline = static_cast<ui::TimelineView *>(window.view(QStringLiteral("Timeline")));
    std::printf(" %d devices: %zu slices, %zu rows\n", devices, state.simulation()->trace.records.size(),
                timeline->model().rows().size());
    useTimeline(app, *timeline);
    for (QDockWidget *dock : window.docks()) {
        if (dock->widget() != timeline)
            useView(app, *dock);
    }
    state.selectDevice(DeviceId(devices - 1));
    settle();
    app.report("select the last device");
    const std::string path = folder.filePath(QStringLiteral("predicted.pltrace")).toStdString();
    if (!trace::writeTrace(state.simulation()->trace, path))
        return 1;
    state.openTrace({QString::fromStdString(path)});
    waitUntil([&] { return !state.loadJob()->running(); });
    settle();
    app.report("open a trace as measured");
    std::printf(" both clocks: %zu rows\n", timeline->model().rows().size());
    useTimeline(app, *timeline);
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    setenv("QT_QPA_PLATFORM", "offscreen", 0);
    Application app(argc, argv);
    ui::applyTheme(app, ui::ThemeKind::Light);
    int status = 0;
    if (argc < 2) {
        for (const int ranks : {1024, 16'384, 65'536})
            madeUp(ranks);
    } else {
        planners::Options options;
        for (int k = 2; k < argc; ++k) {
            const std::string option = argv[k];
            options[option.substr(0, option.find('='))] = option.substr(option.find('=') + 1);
        }
        status = inTheStudio(app, std::atoi(argv[1]), options);
    }
    std::printf("ratio of the longest to the budget of %.0f ms: %.2f\n", kBudgetMilliseconds,
                g_worst / kBudgetMilliseconds);
    return status;
}
