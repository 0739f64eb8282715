// SPDX-License-Identifier: GPL-3.0-or-later
// T1 to T5: traces of other programs and of ours in the Timeline.
#include "ui/bench/bench_files.h"
#include "ui/bench/bench_window.h"
#include "ui/timeline/timeline_view.h"

#include <QElapsedTimer>
#include <QFile>
#include <QFileInfo>
#include <QLocale>

#include <algorithm>

namespace planloom::ui {

namespace {

constexpr std::int64_t kMillion = 1'000'000;
constexpr double kFrameMilliseconds = 12;
constexpr double kLargeFrameMilliseconds = 16.6;
constexpr double kHoverMilliseconds = 2;
constexpr std::int64_t kLargeRam = 12'000'000'000; // bytes that must be free for T4

QString countText(std::int64_t count) { return QLocale::c().toString(static_cast<qlonglong>(count)); }

std::int64_t sizeOf(const QString &file) { return QFileInfo(file).size(); }

QString benchTraceFile(BenchContext &context, const QString &target, std::int64_t slices)
{
    return context.file(target, QStringLiteral("trace-%1.pltrace").arg(slices),
                        [slices](const QString &path) { return writeBenchTrace(path, slices); });
}

/// From the call to the end of loading, and to the first picture with slices in it.
void openOnce(const QString &file, Samples &loaded, Samples &painted)
{
    BenchWindow bench;
    auto &view = bench.alone<TimelineView>(QStringLiteral("Timeline"));
    QElapsedTimer timer;
    timer.start();
    bench.open(file);
    loaded.clock.push_back(static_cast<double>(timer.nsecsElapsed()) * 1e-6);
    view.canvas()->repaint();
    painted.clock.push_back(static_cast<double>(timer.nsecsElapsed()) * 1e-6);
}

void benchOpeningOf(BenchContext &context, const QString &file, std::int64_t events, double perMillion,
                    const QString &kind)
{
    if (file.isEmpty())
        return;
    constexpr int kTimes = 5;
    context.begin(QStringLiteral("T1, %1").arg(kind));
    Samples loaded;
    Samples painted;
    for (int k = 0; k < kTimes; ++k)
        openOnce(file, loaded, painted);
    const double millions = static_cast<double>(events) / kMillion;
    BenchFigure figure = benchFigure(QStringLiteral("T1"), QStringLiteral("open %1, per 1 M events").arg(kind));
    figure.clock = QStringLiteral("clock");
    for (const double milliseconds : loaded.clock)
        figure.values.push_back(milliseconds / millions);
    figure.limit = perMillion;
    figure.compared = BenchFigure::Compared::P50; // the machine's other work makes a single one longer
    figure.events = events;
    figure.fileBytes = sizeOf(file);
    context.add(figure);
    figure.what = QStringLiteral("first picture of %1, %2 events").arg(kind, countText(events));
    figure.values = painted.clock;
    figure.limit = 300;
    context.add(figure);
}

/// Zooms and pans as ctrl and shift with the wheel do, from all of it to some thousandth, and paints each time.
Samples moveAbout(TimelineView &view)
{
    TimelineCanvas &canvas = *view.canvas();
    Samples frames;
    canvas.viewport().showAll();
    for (int k = 0; frames.clock.size() < kBenchFrames; ++k) {
        const int way = k % 40; // ten in, ten aside, ten back, ten out
        const bool zooms = way < 10 || way >= 30;
        const int notches = way < 20 ? 1 : -1;
        frames.take([&] {
            benchWheel(canvas, notches, zooms ? Qt::ControlModifier : Qt::ShiftModifier);
            canvas.repaint();
        });
    }
    settle();
    return frames;
}

void addMemory(BenchContext &context, std::int64_t before, std::int64_t slices, const QString &file)
{
    BenchFigure figure =
        benchFigure(QStringLiteral("T2"), QStringLiteral("resident per slice, %1 slices").arg(countText(slices)));
    figure.unit = QStringLiteral("B");
    figure.values = {static_cast<double>(residentBytes() - before) / static_cast<double>(slices)};
    figure.limit = 32;
    figure.events = slices;
    figure.fileBytes = sizeOf(file);
    figure.note = QStringLiteral("all that the process holds more with the trace open: records, levels of detail, "
                                 "indexes");
    context.add(std::move(figure));
}

Samples hoverOver(TimelineCanvas &canvas)
{
    Samples samples;
    for (int k = 0; k < kBenchFrames; ++k)
        samples.take([&] {
            benchMouse(canvas, QEvent::MouseMove,
                       {canvas.width() * (k % 60 + 1) / 62, canvas.height() * (k * 7 % 60 + 1) / 62});
            canvas.repaint();
        });
    return samples;
}

Samples selectOn(TimelineCanvas &canvas)
{
    Samples samples;
    for (int k = 0; k < kBenchFrames; ++k)
        samples.take([&] {
            benchClick(canvas, {canvas.width() * (k % 50 + 10) / 62, canvas.height() * (k * 7 % 50 + 5) / 62});
            canvas.repaint();
        });
    settle();
    return samples;
}

bool asked(const BenchContext &context, int target)
{
    return std::ranges::find(context.options().targets, target) != context.options().targets.end();
}

} // namespace

void benchOpening(BenchContext &context)
{
    const std::int64_t events = context.sized(kMillion, 1000);
    const QString kineto = context.file(QStringLiteral("T1"), QStringLiteral("events-%1.json").arg(events),
                                        [events](const QString &path) { return writeBenchEvents(path, events); });
    benchOpeningOf(context, kineto, events, 500, QStringLiteral("trace-event JSON"));
    benchOpeningOf(context, benchTraceFile(context, QStringLiteral("T1"), events), events, 100,
                   QStringLiteral(".pltrace"));
}

void benchTimeline(BenchContext &context)
{
    const std::int64_t slices = context.sized(10 * kMillion, 5000);
    const QString file = benchTraceFile(context, QStringLiteral("T3"), slices);
    if (file.isEmpty())
        return;
    context.begin(QStringLiteral("T2, T3, T5"));
    BenchWindow bench;
    auto &view = bench.alone<TimelineView>(QStringLiteral("Timeline"));
    view.canvas()->repaint();
    const std::int64_t before = residentBytes();
    if (!bench.open(file))
        return context.fail(QStringLiteral("T3"), file, bench.error());
    settle();
    if (asked(context, 2))
        addMemory(context, before, slices, file);
    const QString size = QStringLiteral("%1 slices, %2 rows, %3 x %4")
                             .arg(countText(slices))
                             .arg(view.model().rows().size())
                             .arg(view.canvas()->width())
                             .arg(view.canvas()->height());
    if (asked(context, 3))
        context.addFrames(QStringLiteral("T3"), QStringLiteral("zoom and pan, %1").arg(size), moveAbout(view),
                          kFrameMilliseconds, slices);
    if (!asked(context, 5))
        return;
    view.canvas()->viewport().showAll();
    context.addFrames(QStringLiteral("T5"), QStringLiteral("hover, %1").arg(size), hoverOver(*view.canvas()),
                      kHoverMilliseconds, slices);
    context.addFrames(QStringLiteral("T5"), QStringLiteral("select, %1").arg(size), selectOn(*view.canvas()),
                      kHoverMilliseconds, slices);
}

void benchLargeTimeline(BenchContext &context)
{
    const std::int64_t slices = context.sized(100 * kMillion, 10'000);
    const QString what = QStringLiteral("%1 slices").arg(countText(slices));
    if (const std::int64_t free = availableBytes(); free < static_cast<double>(kLargeRam) * context.options().size)
        return context.fail(
            QStringLiteral("T4"), what,
            QStringLiteral("left out: %1 MiB of memory are free, and it may take 12 GB").arg(free >> 20));
    const QString file = benchTraceFile(context, QStringLiteral("T4"), slices);
    if (file.isEmpty())
        return;
    context.begin(QStringLiteral("T4"));
    BenchWindow bench;
    auto &view = bench.alone<TimelineView>(QStringLiteral("Timeline"));
    if (!bench.open(file))
        return context.fail(QStringLiteral("T4"), what, bench.error());
    settle();
    BenchFigure memory = benchFigure(QStringLiteral("T4"), QStringLiteral("resident with %1 open").arg(what));
    memory.unit = QStringLiteral("GB");
    memory.values = {static_cast<double>(residentBytes()) * 1e-9};
    memory.limit = 4;
    memory.events = slices;
    memory.fileBytes = sizeOf(file);
    context.add(std::move(memory));
    context.addFrames(QStringLiteral("T4"), QStringLiteral("zoom and pan, %1").arg(what), moveAbout(view),
                      kLargeFrameMilliseconds, slices);
    QFile::remove(file); // more than a gigabyte
}

} // namespace planloom::ui
