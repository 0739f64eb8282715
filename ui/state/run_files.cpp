// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/run_files.h"

#include "engine/base/files.h"

#include <QDir>
#include <QFileInfo>
#include <QObject>

#include <utility>

namespace planloom::ui {

namespace {

constexpr std::int64_t kLargestMetrics = std::int64_t{1} << 30; // some ten million steps

/// Reads @p name with @p use, if it is there.
template <class Use>
Status readPart(const QDir &folder, const QString &name, Use use)
{
    const std::string path = folder.filePath(name).toStdString();
    if (!QFileInfo::exists(QString::fromStdString(path)))
        return {};
    const auto text = readFile(path, kLargestMetrics);
    if (!text)
        return text.error();
    const Status status = use(*text);
    return status ? Status() : Status(status.error().in(path));
}

template <class Value, class Target>
Status take(Result<Value> value, Target &target)
{
    if (!value)
        return value.error();
    target = *std::move(value);
    return {};
}

} // namespace

Result<RunData> readRunFiles(const QString &folder)
{
    const QDir files(folder);
    RunData run;
    run.folder = files.absolutePath();
    run.id = files.dirName();
    const QString request = files.filePath(QStringLiteral("request.json"));
    if (QFileInfo::exists(request)) {
        const auto read = run::readRequest(request.toStdString());
        if (!read)
            return read.error();
        run.settings = read->settings;
    }
    Status status = readPart(files, QStringLiteral("metrics.jsonl"),
                             [&](const std::string &text) { return take(run::metricsFromJson(text), run.steps); });
    if (status)
        status = readPart(files, QStringLiteral("summary.json"),
                          [&](const std::string &text) { return take(run::summaryFromJson(text), run.summary); });
    if (!status)
        return status.error();
    run.phase = !run.summary
        ? RunData::Phase::Unfinished
        : (run.summary->steps < run.settings.steps ? RunData::Phase::Stopped : RunData::Phase::Finished);
    run.log << QObject::tr("opened %1").arg(run.folder);
    return run;
}

QString otherCourse(const QString &trace)
{
    const QFileInfo file(trace);
    const QString first = QStringLiteral("trace.pltrace");
    const QString measured = QString::fromUtf8(run::kMeasuredTraceFile);
    const QString other = file.fileName() == first ? measured : file.fileName() == measured ? first : QString();
    return !other.isEmpty() && file.dir().exists(other) ? file.dir().filePath(other) : QString();
}

bool hasCheckpoints(const QString &folder)
{
    const QDir checkpoints(QDir(folder).filePath(QStringLiteral("checkpoints")));
    return !folder.isEmpty() && !checkpoints.entryList(QDir::Dirs | QDir::NoDotAndDotDot).isEmpty();
}

} // namespace planloom::ui
