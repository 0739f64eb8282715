// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/trace_findings.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QObject>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace planloom::ui {

namespace {

Cell spanCell(std::int64_t nanoseconds) { return {nanosecondsText(nanoseconds), static_cast<double>(nanoseconds)}; }
Cell countCell(std::int64_t count) { return {QString::number(count), static_cast<double>(count)}; }
Cell shareCell(double share) { return {percentText(share), share, {}, false, share}; }
Cell textCell(const std::string &text) { return {qt(text), {}}; }

double shareOf(std::int64_t part, std::int64_t whole)
{
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

QString meanText(double nanoseconds) { return nanosecondsText(std::llround(nanoseconds)); }

TableData rankTable(const TraceFindings &of)
{
    TableData table{{QObject::tr("Rank"), QObject::tr("Came last to"), QObject::tr("Of"), QObject::tr("Others waited"),
                     QObject::tr("It waited")},
                    {}};
    for (const analysis::RankLateness &rank : of.ranks)
        table.rows.push_back({textCell(of.device(rank.rank)), countCell(rank.last), countCell(rank.collectives),
                              spanCell(rank.caused), spanCell(rank.waited)});
    return table;
}

std::vector<Cell> collectiveRow(const TraceFindings &of, std::size_t row)
{
    const analysis::Collective &each = of.collectives.all[of.latest[row]];
    const trace::Record &last = of.trace->records[of.collectives.last(each).record];
    const trace::TaskInfo &task = *of.trace->task(last.task);
    const auto communicator = static_cast<std::size_t>(each.communicator);
    return {{qt(task.id), {}, theme().hue(of.trace->kind(task.kind).hue)},
            textCell(of.device(last.rank)),
            spanCell(each.behind),
            spanCell(each.waited),
            spanCell(of.collectives.arrivalsOf(each).front().waited),
            countCell(static_cast<std::int64_t>(each.count)),
            {instantText(last.start), static_cast<double>(last.start)},
            countCell(last.step),
            textCell(each.communicator < 0 ? std::string("–") : of.collectives.communicators[communicator])};
}

TableData collectiveTable(const FindingsPtr &of)
{
    TableData table{{QObject::tr("Collective"), QObject::tr("Came last"), QObject::tr("Behind the next"),
                     QObject::tr("Others waited"), QObject::tr("Longest"), QObject::tr("Members"), QObject::tr("At"),
                     QObject::tr("Step"), QObject::tr("Communicator")},
                    {}};
    table.rows.resize(of->latest.size());
    table.makeRow = [of](std::size_t row) { return collectiveRow(*of, row); };
    return table;
}

TableData deviceTable(const TraceFindings &of)
{
    TableData table{{QObject::tr("Device"), QObject::tr("Computes"), QObject::tr("Moves data"), QObject::tr("Waits"),
                     QObject::tr("No work"), QObject::tr("Communication"), QObject::tr("Hidden"),
                     QObject::tr("Hidden share")},
                    {}};
    const auto row = [&](const std::string &name, const analysis::DeviceTime &time) {
        table.rows.push_back({textCell(name), spanCell(time.computing), spanCell(time.moving), spanCell(time.waiting),
                              spanCell(time.withoutWork), spanCell(time.communication), spanCell(time.hidden),
                              shareCell(time.hiddenShare())});
    };
    if (of.devices.size() > 1)
        row(QObject::tr("all devices").toStdString(), analysis::total(of.devices));
    for (const analysis::DeviceTime &each : of.devices)
        row(of.device(each.rank), each);
    return table;
}

/// Of kernels.
TableData namedTable(const TraceFindings &of)
{
    TableData table{{QObject::tr("Kernel or task"), QObject::tr("Kind"), QObject::tr("Count"), QObject::tr("Sum"),
                     QObject::tr("Share"), QObject::tr("Mean"), QObject::tr("P95"), QObject::tr("Max")},
                    {}};
    for (const analysis::Kernel &kernel : of.kernels) {
        const trace::KindInfo &kind = of.trace->kind(kernel.kind);
        table.rows.push_back({textCell(kernel.name),
                              {qt(kind.name), {}, theme().hue(kind.hue)},
                              countCell(kernel.count),
                              spanCell(kernel.sum),
                              shareCell(kernel.share),
                              {meanText(kernel.mean), kernel.mean},
                              spanCell(kernel.p95),
                              spanCell(kernel.most)});
    }
    return table;
}

} // namespace

TraceFindings TraceFindings::in(std::shared_ptr<const trace::Trace> trace, const std::optional<trace::Window> &window)
{
    TraceFindings made;
    made.trace = std::move(trace);
    made.window = window.value_or(trace::Window{made.trace->begin(), made.trace->end()});
    made.collectives = analysis::matchCollectives(*made.trace);
    made.skew = analysis::clockSkew(*made.trace, made.collectives);
    made.latest.resize(made.collectives.all.size());
    std::iota(made.latest.begin(), made.latest.end(), std::size_t{0});
    std::ranges::stable_sort(made.latest, std::greater(),
                             [&](std::size_t i) { return made.collectives.all[i].behind; });
    made.ranks = analysis::latenessByRank(*made.trace, made.collectives);
    made.devices = analysis::deviceTimes(*made.trace, made.window, made.collectives);
    made.kernels = analysis::kernelsOf(*made.trace, window);
    return made;
}

const std::string &TraceFindings::device(std::int32_t rank) const
{
    static const std::string unknown = "?";
    const auto at = static_cast<std::size_t>(rank);
    return at < trace->ranks.size() ? trace->ranks[at].device : unknown;
}

std::optional<std::size_t> TraceFindings::collectiveOf(What what, int row) const
{
    const auto at = static_cast<std::size_t>(row);
    if (what == What::Collectives && at < latest.size())
        return latest[at];
    if (what != What::Ranks || at >= ranks.size())
        return std::nullopt;
    std::optional<std::size_t> worst;
    for (std::size_t i = 0; i < collectives.all.size(); ++i) {
        const analysis::Collective &each = collectives.all[i];
        if (trace->records[collectives.last(each).record].rank == ranks[at].rank
            && (!worst || each.behind > collectives.all[*worst].behind))
            worst = i;
    }
    return worst;
}

TableData findingsTable(const FindingsPtr &findings, TraceFindings::What what)
{
    switch (what) {
    case TraceFindings::What::Ranks: return rankTable(*findings);
    case TraceFindings::What::Collectives: return collectiveTable(findings);
    case TraceFindings::What::Devices: return deviceTable(*findings);
    case TraceFindings::What::Kernels: break;
    }
    return namedTable(*findings);
}

std::string findingsCsv(const FindingsPtr &findings, TraceFindings::What what)
{
    if (what == TraceFindings::What::Kernels)
        return analysis::toCsv(*findings->trace, findings->kernels);
    const TableData rows = findingsTable(findings, what);
    const auto field = [](const QString &text) {
        QString quoted = text;
        return (text.contains(QLatin1Char(',')) || text.contains(QLatin1Char('"'))
                    ? QLatin1Char('"') + quoted.replace(QLatin1Char('"'), QStringLiteral("\"\"")) + QLatin1Char('"')
                    : quoted)
            .toStdString();
    };
    std::string text;
    for (qsizetype column = 0; column < rows.headers.size(); ++column)
        text += (column > 0 ? "," : "") + field(rows.headers[column]);
    for (std::size_t row = 0; row < rows.rows.size(); ++row) {
        const std::vector<Cell> cells = rows.rows[row].empty() ? rows.makeRow(row) : rows.rows[row];
        text += '\n';
        for (std::size_t column = 0; column < cells.size(); ++column)
            text += (column > 0 ? "," : "")
                + (cells[column].number ? QString::number(*cells[column].number, 'g', 15).toStdString()
                                        : field(cells[column].text));
    }
    return text + '\n';
}

QString TraceFindings::title(What what) const
{
    switch (what) {
    case What::Ranks:
    case What::Collectives: {
        if (collectives.all.empty())
            return QObject::tr("No collective of several ranks is in this trace");
        QString text =
            QObject::tr("%1 collectives; click a row to see the late rank and its cause").arg(collectives.all.size());
        if (collectives.unmatched > 0)
            text += QObject::tr("; %1 records without a counterpart").arg(collectives.unmatched);
        return text;
    }
    case What::Devices: {
        const analysis::DeviceTime all = analysis::total(devices);
        return QObject::tr("Communication hidden %1 · computes %2 · moves data %3 · waits %4 · no work %5")
            .arg(all.communication > 0 ? percentText(all.hiddenShare()) : QStringLiteral("–"),
                 percentText(shareOf(all.computing, all.window)), percentText(shareOf(all.moving, all.window)),
                 percentText(shareOf(all.waiting, all.window)), percentText(shareOf(all.withoutWork, all.window)));
    }
    case What::Kernels: break;
    }
    return QObject::tr("%1 names in %2; times of a run")
        .arg(kernels.size())
        .arg(nanosecondsText(window.end - window.begin));
}

QString TraceFindings::skewText() const
{
    if (skew.clocks.size() < 2)
        return {};
    if (!skew.isSkewed())
        return collectives.all.empty() ? QObject::tr("clocks: not known, without collectives")
                                       : QObject::tr("clocks agree");
    const auto most = std::ranges::max_element(skew.clocks, {},
                                               [](const analysis::RankClock &clock) { return std::abs(clock.ahead); });
    return QObject::tr("! clocks are apart: %1 is %2 %3 (±%4, %5 collectives)")
        .arg(qt(most->name), nanosecondsText(std::abs(most->ahead)),
             most->ahead > 0 ? QObject::tr("ahead") : QObject::tr("behind"), meanText(most->error))
        .arg(most->collectives);
}

QString TraceFindings::lateText(std::size_t collective, const analysis::LateCause &cause) const
{
    const analysis::Collective &each = collectives.all[collective];
    const trace::Record &last = trace->records[collectives.last(each).record];
    const QString text = QObject::tr("%1 came %2 behind the others to %3")
                             .arg(qt(device(last.rank)), nanosecondsText(each.behind), qt(trace->task(last.task)->id));
    if (!cause.record)
        return text + QObject::tr("; nothing in the trace explains it");
    const QString name = qt(trace->task(trace->records[*cause.record].task)->id);
    return cause.why == analysis::LateCause::Why::Work
        ? text + QObject::tr(": %1 took %2 longer there").arg(name, nanosecondsText(cause.longer))
        : text + QObject::tr(": its %1 came %2 late").arg(name, nanosecondsText(cause.longer));
}

} // namespace planloom::ui
