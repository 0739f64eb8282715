// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/bench/figures.h"

#include "engine/base/units.h"
#include "ui/bench/event_watch.h"
#include "ui/widgets/text.h"

#include <QFile>
#include <QGuiApplication>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QStringList>
#include <QThread>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <malloc.h>

namespace planloom::ui {

namespace {

constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();

/// The value behind @p key in a file of lines such as "VmHWM:   1234 kB"; 0 without it.
std::int64_t kibibytesIn(const char *path, const QByteArray &key)
{
    QFile file(QString::fromLatin1(path));
    if (!file.open(QIODevice::ReadOnly))
        return 0;
    for (const QByteArray &line : file.readAll().split('\n'))
        if (line.startsWith(key))
            return line.mid(key.size()).trimmed().split(' ').first().toLongLong() * 1024;
    return 0;
}

QString numberText(double value)
{
    if (std::isnan(value))
        return QStringLiteral("–");
    return QString::number(value, 'f', value < 10 ? 3 : value < 1000 ? 1 : 0);
}

QString ratioText(const BenchFigure &figure)
{
    const double ratio = figure.ratio();
    return std::isnan(ratio) ? QStringLiteral("–") : QString::number(ratio, 'f', 2);
}

const char *wordOf(BenchFigure::Compared compared)
{
    switch (compared) {
    case BenchFigure::Compared::P50: return "p50";
    case BenchFigure::Compared::P95: return "p95";
    case BenchFigure::Compared::Max: return "max";
    }
    return "";
}

QStringList cellsOf(const BenchFigure &figure)
{
    const auto mebibytes = [](std::int64_t bytes) {
        return bytes > 0 ? QString::number(static_cast<double>(bytes) / 1048576.0, 'f', 0) : QStringLiteral("–");
    };
    return {figure.target,
            figure.what,
            QString::number(figure.values.size()),
            numberText(quantile(figure.values, 0.5)),
            numberText(quantile(figure.values, 0.95)),
            numberText(quantile(figure.values, 1)),
            numberText(quantile(figure.byClock, 0.95)),
            figure.unit,
            (figure.atLeast ? QStringLiteral(">= ") : QString()) + numberText(figure.limit) + QLatin1Char(' ')
                + QLatin1String(wordOf(figure.compared)),
            ratioText(figure),
            figure.ratio() <= 1 ? QStringLiteral("yes") : QStringLiteral("no"),
            mebibytes(figure.peakBytes),
            mebibytes(figure.fileBytes)};
}

} // namespace

void Samples::take(const std::function<void()> &work)
{
    const auto start = std::chrono::steady_clock::now();
    const double begin = threadMilliseconds();
    work();
    processor.push_back(threadMilliseconds() - begin);
    clock.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
}

double quantile(std::vector<double> values, double share)
{
    if (values.empty())
        return kNoFigure;
    std::ranges::sort(values);
    return values[static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size() - 1)))];
}

BenchFigure benchFigure(const QString &target, const QString &what)
{
    BenchFigure figure;
    figure.target = target;
    figure.what = what;
    return figure;
}

double BenchFigure::value() const
{
    // Of what has to be large, the small values are the bad ones.
    switch (compared) {
    case Compared::P50: return quantile(values, 0.5);
    case Compared::P95: return quantile(values, atLeast ? 0.05 : 0.95);
    case Compared::Max: return quantile(values, atLeast ? 0 : 1);
    }
    return kNoFigure;
}

double BenchFigure::ratio() const
{
    const double measured = value();
    if (!atLeast && limit == 0) // nothing may be lost
        return std::isnan(measured) ? kNoFigure : measured == 0 ? 0 : HUGE_VAL;
    return atLeast ? limit / measured : measured / limit;
}

BenchMachine thisMachine()
{
    BenchMachine machine;
    QFile file(QStringLiteral("/proc/cpuinfo"));
    if (file.open(QIODevice::ReadOnly))
        for (const QByteArray &line : file.readAll().split('\n'))
            if (line.startsWith("model name") && machine.processor.isEmpty())
                machine.processor = QString::fromLatin1(line.mid(line.indexOf(':') + 1).trimmed());
    machine.processor += QStringLiteral(", %1 threads").arg(QThread::idealThreadCount());
    machine.platform = QGuiApplication::platformName();
    double load[1] = {0};
    if (getloadavg(load, 1) == 1)
        machine.load = load[0];
    machine.ram = kibibytesIn("/proc/meminfo", "MemTotal:");
    return machine;
}

QString benchTable(const BenchMachine &machine, const std::vector<BenchFigure> &figures)
{
    std::vector<QStringList> rows{{QStringLiteral("target"), QStringLiteral("what"), QStringLiteral("n"),
                                   QStringLiteral("p50"), QStringLiteral("p95"), QStringLiteral("max"),
                                   QStringLiteral("clock p95"), QStringLiteral("unit"), QStringLiteral("at most"),
                                   QStringLiteral("ratio"), QStringLiteral("met"), QStringLiteral("RSS MiB"),
                                   QStringLiteral("file MiB")}};
    for (const BenchFigure &figure : figures)
        rows.push_back(cellsOf(figure));
    std::vector<qsizetype> widths(static_cast<std::size_t>(rows.front().size()), 0);
    for (const QStringList &row : rows)
        for (qsizetype k = 0; k < row.size(); ++k)
            widths[static_cast<std::size_t>(k)] = std::max(widths[static_cast<std::size_t>(k)], row[k].size());
    QString text = QStringLiteral("%1, %2, Qt platform %3, load %4 before, window %5, sizes x %6\n")
                       .arg(machine.processor, bytesText(machine.ram), machine.platform)
                       .arg(machine.load, 0, 'f', 2)
                       .arg(machine.window)
                       .arg(machine.size);
    for (const QStringList &row : rows) {
        QString line;
        for (qsizetype k = 0; k < row.size(); ++k) {
            const bool left = k < 2 || k == 7;
            const int width = static_cast<int>(widths[static_cast<std::size_t>(k)]);
            line += (left ? row[k].leftJustified(width) : row[k].rightJustified(width)) + QStringLiteral("  ");
        }
        text += line.trimmed() + QLatin1Char('\n');
    }
    for (const BenchFigure &figure : figures)
        if (!figure.note.isEmpty())
            text += QStringLiteral("%1, %2: %3\n").arg(figure.target, figure.what, figure.note);
    return text;
}

QByteArray benchJson(const BenchMachine &machine, const std::vector<BenchFigure> &figures)
{
    const auto number = [](double value) { return std::isfinite(value) ? QJsonValue(value) : QJsonValue(); };
    QJsonArray lines;
    for (const BenchFigure &figure : figures) {
        lines.append(QJsonObject{{QStringLiteral("target"), figure.target},
                                 {QStringLiteral("what"), figure.what},
                                 {QStringLiteral("unit"), figure.unit},
                                 {QStringLiteral("time_of"), figure.clock},
                                 {QStringLiteral("samples"), static_cast<qint64>(figure.values.size())},
                                 {QStringLiteral("p50"), number(quantile(figure.values, 0.5))},
                                 {QStringLiteral("p95"), number(quantile(figure.values, 0.95))},
                                 {QStringLiteral("max"), number(quantile(figure.values, 1))},
                                 {QStringLiteral("clock_p95"), number(quantile(figure.byClock, 0.95))},
                                 {QStringLiteral("limit"), figure.limit},
                                 {QStringLiteral("at_least"), figure.atLeast},
                                 {QStringLiteral("compared"), QLatin1String(wordOf(figure.compared))},
                                 {QStringLiteral("ratio"), number(figure.ratio())},
                                 {QStringLiteral("met"), figure.ratio() <= 1},
                                 {QStringLiteral("events"), static_cast<qint64>(figure.events)},
                                 {QStringLiteral("file_bytes"), static_cast<qint64>(figure.fileBytes)},
                                 {QStringLiteral("peak_rss_bytes"), static_cast<qint64>(figure.peakBytes)},
                                 {QStringLiteral("note"), figure.note}});
    }
    const QJsonObject all{{QStringLiteral("processor"), machine.processor},
                          {QStringLiteral("memory_bytes"), static_cast<qint64>(machine.ram)},
                          {QStringLiteral("platform"), machine.platform},
                          {QStringLiteral("load"), machine.load},
                          {QStringLiteral("window"), machine.window},
                          {QStringLiteral("size"), machine.size},
                          {QStringLiteral("figures"), lines}};
    return QJsonDocument(all).toJson(QJsonDocument::Indented);
}

std::int64_t residentBytes()
{
    malloc_trim(0);
    return kibibytesIn("/proc/self/status", "VmRSS:");
}

std::int64_t peakBytes() { return kibibytesIn("/proc/self/status", "VmHWM:"); }

void forgetPeak()
{
    QFile file(QStringLiteral("/proc/self/clear_refs"));
    if (file.open(QIODevice::WriteOnly))
        file.write("5");
}

std::int64_t availableBytes() { return kibibytesIn("/proc/meminfo", "MemAvailable:"); }

} // namespace planloom::ui
