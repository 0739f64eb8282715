// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/run/series_lines.h"

#include "engine/base/files.h"
#include "engine/run/metrics.h"
#include "ui/memory/curve.h"
#include "ui/widgets/text.h"

#include <QDir>
#include <QRegularExpression>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace planloom::ui {

namespace {

constexpr std::int64_t kLargestSeries = std::int64_t{1} << 30; // some fifty million steps
constexpr std::size_t kAllPoints = 12'000; // of all lines together: they are stroked within a few frames
constexpr std::size_t kLeastPoints = 128;

/// The files of the run's folder that are called as @p first is, with another number; by that.
std::map<int, QString> numberedFiles(const QString &folder, const std::string &first)
{
    const QFileInfo like(QDir(folder), qt(first));
    const QRegularExpression form(QStringLiteral("^%1(\\d+)\\.csv$").arg(like.fileName().at(0)));
    std::map<int, QString> files;
    for (const QString &name : like.dir().entryList(QDir::Files))
        if (const auto match = form.match(name); match.hasMatch())
            files[match.captured(1).toInt()] = like.dir().filePath(name);
    return files;
}

/// What @p parse makes of the file; an error is left in @p problem.
template <class Value, class Parse>
Value readSeries(const QString &path, Parse parse, QString &problem)
{
    const auto text = readFile(path.toStdString(), kLargestSeries);
    Result<Value> value = text ? parse(*text) : Result<Value>(text.error());
    if (value)
        return *std::move(value);
    problem = qt(value.error().in(path.toStdString()).text());
    return {};
}

QList<QPointF> lossesOf(const run::ReplicaLosses &series)
{
    QList<QPointF> points;
    points.reserve(static_cast<qsizetype>(series.steps.size()));
    for (std::size_t i = 0; i < series.steps.size(); ++i)
        if (std::isfinite(series.losses[i]))
            points << QPointF(static_cast<double>(series.steps[i]), series.losses[i]);
    return points;
}

QList<QPointF> countsOf(const run::RowSeries &series, double run::RowCounts::*count, double &mean)
{
    QList<QPointF> points;
    double sum = 0;
    for (std::size_t i = 0; i < series.steps.size(); ++i) {
        points << QPointF(static_cast<double>(series.steps[i]), series.counts[i].*count);
        sum += series.counts[i].*count;
    }
    mean = series.steps.empty() ? 0 : sum / static_cast<double>(series.steps.size());
    return thin(points);
}

TableLines linesOf(run::RowSeries series)
{
    TableLines lines;
    lines.ids = countsOf(series, &run::RowCounts::ids, lines.mean.ids);
    lines.unique = countsOf(series, &run::RowCounts::unique, lines.mean.unique);
    lines.prior = countsOf(series, &run::RowCounts::prior, lines.mean.prior);
    lines.delayed = countsOf(series, &run::RowCounts::delayed, lines.mean.delayed);
    lines.lastStep = series.steps.empty() ? 0 : static_cast<double>(series.steps.back());
    lines.most = series.expected.ids;
    for (const QPointF &point : lines.ids)
        lines.most = std::max(lines.most, point.y());
    series.steps.clear();
    series.counts.clear();
    lines.of = std::move(series);
    return lines;
}

} // namespace

ReplicaLines readReplicaLines(const QString &folder)
{
    ReplicaLines lines;
    const auto files = numberedFiles(folder, run::lossesFile(0));
    const std::size_t points = std::max(kLeastPoints, kAllPoints / std::max<std::size_t>(files.size(), 1));
    for (const auto &[replica, path] : files) {
        const auto series = readSeries<run::ReplicaLosses>(path, run::lossesFromCsv, lines.problem);
        lines.replicas.push_back({replica, thin(lossesOf(series), std::min(points, kCurvePoints))});
    }
    const QString metrics = QDir(folder).filePath(QStringLiteral("metrics.jsonl"));
    for (const run::Validation &seen :
         readSeries<std::vector<run::Validation>>(metrics, run::validationsFromJson, lines.problem))
        if (std::isfinite(seen.loss))
            lines.meanModel << QPointF(static_cast<double>(seen.step), seen.loss);
    return lines;
}

std::vector<TableLines> readTableLines(const QString &folder, QString &problem)
{
    std::vector<TableLines> tables;
    for (const auto &[table, path] : numberedFiles(folder, run::rowsFile(0)))
        tables.push_back(linesOf(readSeries<run::RowSeries>(path, run::rowsFromCsv, problem)));
    return tables;
}

} // namespace planloom::ui
