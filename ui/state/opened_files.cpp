// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/opened_files.h"

#include "engine/base/files.h"
#include "engine/plan/fingerprint.h"
#include "ui/state/file_kind.h"

#include <QDir>
#include <QFileInfo>
#include <QRegularExpression>

#include <utility>
#include <vector>

namespace planloom::ui {

namespace {

/// Plan files in the folder of @p path, plan.json first.
QStringList plansBeside(const QString &path)
{
    constexpr qsizetype kMost = 16; // files that are read in search of a trace's plan
    const QDir folder = QFileInfo(path).dir();
    QStringList names = folder.entryList({QStringLiteral("*.json")}, QDir::Files, QDir::Name).mid(0, 10 * kMost);
    if (const qsizetype own = names.indexOf(QStringLiteral("plan.json")); own > 0)
        names.move(own, 0);
    QStringList plans;
    for (const QString &name : std::as_const(names)) {
        if (classifyFile(folder.filePath(name)) == FileKind::Plan && plans.size() < kMost)
            plans << folder.filePath(name);
    }
    return plans;
}

/// Of "trace.measured.pltrace" the contents of the measured.json beside it; of numbered ones that with the number.
std::optional<memory::RunTimes> timesBeside(const QString &path)
{
    static const QRegularExpression form(QStringLiteral("^trace\\.(measured(\\.\\d+)?)\\.pltrace$"));
    const QFileInfo trace(path);
    const auto match = form.match(trace.fileName());
    if (!match.hasMatch())
        return std::nullopt;
    const auto text = readFile(trace.dir().filePath(match.captured(1) + QStringLiteral(".json")).toStdString());
    auto times = text ? memory::runTimesFromJson(*text) : Result<memory::RunTimes>(text.error());
    return times ? std::optional(*std::move(times)) : std::nullopt;
}

} // namespace

Result<OpenedPlan> openPlanFile(const QString &file)
{
    auto document = plan::readPlan(file.toStdString());
    if (!document)
        return document.error();
    std::string hash = plan::subjectHash(document->subject);
    return OpenedPlan{*std::move(document), std::move(hash)};
}

Result<import::ForeignTrace> readTraceFiles(const QStringList &paths, Progress &progress)
{
    if (paths.size() > 1) {
        std::vector<std::string> names;
        for (const QString &path : paths)
            names.push_back(path.toStdString());
        return import::readForeignTraces(names, progress);
    }
    return import::readAnyTrace(paths.value(0).toStdString(), progress);
}

TraceSource sourceOf(const trace::Trace &trace, const trace::Index &index, const QString &path)
{
    TraceSource source;
    source.origin.fingerprint = trace.plan;
    source.origin.contents = contentsOf(trace, index);
    const bool ofRun = trace.plan.empty() && QFileInfo(path).fileName() == QLatin1String("trace.pltrace");
    if (trace.plan.empty() && !ofRun)
        return source;
    for (const QString &file : plansBeside(path)) {
        auto document = plan::readPlan(file.toStdString());
        if (!document)
            continue;
        const std::string fingerprint = plan::fingerprint(*document);
        if (trace.plan != fingerprint && !(ofRun && QFileInfo(file).fileName() == QLatin1String("plan.json")))
            continue;
        source.origin.fingerprint = fingerprint;
        source.origin.name = nameOf(document->plan);
        source.origin.measures = measures(document->plan);
        if (source.origin.measures)
            source.times = timesBeside(path);
        if (source.times)
            source.origin.measuredFrom = source.times->fromStep;
        source.document = std::make_shared<const plan::Document>(*std::move(document));
        break;
    }
    return source;
}

} // namespace planloom::ui
