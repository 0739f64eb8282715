// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/bench/bench.h"

#include <QCoreApplication>
#include <QElapsedTimer>
#include <QProcess>
#include <QSettings>
#include <QTemporaryDir>

#include <algorithm>
#include <cstdio>

namespace planloom::ui {

namespace {

constexpr int kMostTargets = 13;
constexpr int kStarts = 5;
constexpr double kStartMilliseconds = 1000;

/// What measures a target; some measure several, and are called once.
void (*const kBenchOf[kMostTargets])(BenchContext &) = {benchOpening,  benchTimeline, benchTimeline, benchLargeTimeline,
                                                        benchTimeline, benchLive,     benchModel,    benchMemory,
                                                        benchSchedule, benchTopology, benchRuns,     benchStart,
                                                        benchRuns};

Samples startStudio(const QString &program)
{
    Samples samples;
    for (int k = 0; k < kStarts; ++k) {
        QProcess studio;
        QElapsedTimer timer;
        timer.start();
        studio.start(program, {QStringLiteral("--bench"), QStringLiteral("start")});
        const bool shown = studio.waitForReadyRead(60'000) && studio.readAllStandardOutput().startsWith("shown");
        if (shown)
            samples.clock.push_back(static_cast<double>(timer.nsecsElapsed()) * 1e-6);
        studio.waitForFinished(10'000);
    }
    return samples;
}

} // namespace

Result<std::vector<int>> benchTargets(const QString &text)
{
    std::vector<int> targets;
    for (const QString &name : text.split(QLatin1Char(','), Qt::SkipEmptyParts)) {
        bool isNumber = false;
        const int number = name.trimmed().mid(1).toInt(&isNumber);
        if (!name.trimmed().startsWith(QLatin1Char('T'), Qt::CaseInsensitive) || !isNumber || number < 1
            || number > kMostTargets)
            return badInput("--bench " + name.toStdString() + ": is no target; use some of T1 to T13, such as T3,T9");
        targets.push_back(number);
    }
    for (int k = 1; text.isEmpty() && k <= kMostTargets; ++k)
        targets.push_back(k);
    std::ranges::sort(targets);
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    return targets;
}

void benchStart(BenchContext &context)
{
    const QString target = QStringLiteral("T12");
    EventWatch &watch = context.watch();
    BenchFigure longest =
        benchFigure(target, QStringLiteral("longest event of the UI thread, of %1").arg(watch.events()));
    longest.clock = QStringLiteral("processor");
    longest.values = {watch.slowest().milliseconds};
    longest.limit = EventWatch::kLimit;
    longest.events = static_cast<std::int64_t>(watch.events());
    longest.note = QStringLiteral("%1 events above %2 ms; the longest: %3 of %4; where targets before were not asked "
                                  "for, there is little to see")
                       .arg(watch.slowEvents())
                       .arg(EventWatch::kLimit)
                       .arg(watch.slowest().type, watch.slowest().receiver);
    context.begin(target);
    context.add(std::move(longest));
    context.addWaits(target, QStringLiteral("start to first picture, %1 starts").arg(kStarts),
                     startStudio(context.options().program), kStartMilliseconds, 0);
}

std::vector<BenchFigure> runBench(const BenchOptions &options, EventWatch &watch,
                                  const std::function<void(const QString &)> &progress)
{
    const QTemporaryDir own; // settings and the list of runs are the user's
    qputenv("XDG_CONFIG_HOME", own.path().toLocal8Bit());
    qputenv("XDG_DATA_HOME", own.path().toLocal8Bit());
    QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, own.path());
    {
        BenchWindow first; // fonts, styles and icons are loaded: each target has the same beginning
        settle();
    }
    watch.reset();
    BenchContext context(options, watch, progress);
    std::vector<int> order = options.targets;
    std::ranges::stable_partition(order, [](int target) { return target != 12; }); // it is about the others
    std::vector<void (*)(BenchContext &)> done;
    for (const int target : order) {
        const auto bench = kBenchOf[target - 1];
        if (std::ranges::count(done, bench) == 0)
            bench(context);
        done.push_back(bench);
    }
    return context.figures();
}

int showStart()
{
    StudioState state;
    MainWindow window(&state);
    window.setAsks(false);
    window.show();
    window.resetLayout();
    QCoreApplication::processEvents();
    window.repaint();
    std::puts("shown");
    std::fflush(stdout);
    return 0;
}

} // namespace planloom::ui
