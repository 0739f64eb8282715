// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/range_panel.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QHBoxLayout>
#include <QVBoxLayout>

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace planloom::ui {

namespace {

constexpr std::size_t kSlicesAtOnce = 100'000; // about 10 ms

/// "" for a figure that does not apply.
std::string secondsField(std::int64_t nanoseconds)
{
    return nanoseconds < 0 ? std::string() : fmt::format("{:.9f}", static_cast<double>(nanoseconds) * 1e-9);
}

std::string csvField(std::string_view text)
{
    if (text.find_first_of(",\"\n") == std::string_view::npos)
        return std::string(text);
    std::string quoted = "\"";
    for (const char c : text)
        quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
    return quoted + '"';
}

Cell timeCell(std::int64_t nanoseconds)
{
    if (nanoseconds < 0)
        return {QStringLiteral("–"), -1.0};
    return {nanosecondsText(nanoseconds), static_cast<double>(nanoseconds)};
}

} // namespace

RangePanel::RangePanel(const TimelineModel &model, QWidget *parent)
    : QWidget(parent),
      m_model(model),
      m_title(new ElidedLabel(this)),
      m_how(new QComboBox(this)),
      m_save(new QPushButton(tr("Save as CSV…"), this)),
      m_table(new DataTable(this))
{
    auto *top = new QHBoxLayout;
    top->setContentsMargins(8, 2, 6, 2);
    top->addWidget(m_title, 1);
    top->addWidget(m_how);
    top->addWidget(m_save);
    auto *close = new QPushButton(tr("Close"), this);
    close->setToolTip(tr("Hide the table of the range (R)"));
    top->addWidget(close);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addLayout(top);
    layout->addWidget(m_table, 1);
    m_table->setAccessibleName(tr("Selected range by device, lane, kind and stage"));
    m_save->setToolTip(tr("Write all rows to a file, times in seconds"));
    m_how->addItems({tr("By device and kind"), tr("By name")});
    m_how->setAccessibleName(tr("What the rows are"));
    connect(m_how, &QComboBox::currentIndexChanged, this, &RangePanel::begin);
    connect(close, &QPushButton::clicked, this, &RangePanel::closeAsked);
    connect(m_save, &QPushButton::clicked, this, &RangePanel::csvAsked);
    m_timer.setInterval(0);
    connect(&m_timer, &QTimer::timeout, this, &RangePanel::work);
}

void RangePanel::showRange(const std::optional<TimeRange> &range)
{
    m_range = range;
    m_stale = true;
    m_timer.stop();
    m_statistics.reset();
    m_names.reset();
    if (isVisible())
        begin();
}

void RangePanel::showEvent(QShowEvent *event)
{
    QWidget::showEvent(event);
    if (m_stale)
        begin();
}

void RangePanel::begin()
{
    m_stale = false;
    m_save->setEnabled(false);
    m_statistics.reset();
    m_names.reset();
    const trace::Window window =
        m_range ? trace::Window{m_range->begin, m_range->end} : trace::Window{m_model.begin(), m_model.end()};
    m_title->setText(tr("Working out %1…").arg(nanosecondsText(window.end - window.begin)));
    if (m_how->currentIndex() == 0)
        m_statistics.emplace(m_model, window);
    else
        m_names.emplace(m_model, window);
    m_timer.start();
    work(); // most ranges take one piece
}

void RangePanel::work()
{
    const bool complete = m_statistics ? m_statistics->add(kSlicesAtOnce) : m_names && m_names->add(kSlicesAtOnce);
    if (!complete)
        return;
    m_timer.stop();
    fill();
}

std::vector<Cell> RangePanel::cellsOf(const RangeStatistics::Entry &entry) const
{
    const trace::Tables &tables = m_model.tables(entry.measured);
    const auto number = [](std::int64_t value) { return Cell{QString::number(value), static_cast<double>(value)}; };
    const trace::KindInfo &kind = tables.kind(entry.kind);
    return {{qt(std::string(m_model.groups()[entry.group].device)), {}},
            {tr(m_model.clockName(entry.measured)), {}},
            {qt(tables.lane(entry.lane).name), {}},
            entry.whole ? Cell{tr("all"), {}} : Cell{qt(kind.name), {}, theme().hue(kind.hue)},
            entry.stage < 0 ? Cell{QStringLiteral("–"), -1.0} : number(entry.stage),
            number(entry.count),
            timeCell(entry.busy),
            timeCell(entry.idle),
            timeCell(entry.hidden),
            timeCell(entry.exposed()),
            timeCell(entry.mean()),
            timeCell(entry.least),
            timeCell(entry.most)};
}

TableData RangePanel::kinds() const
{
    TableData table;
    table.headers = {tr("Device"), tr("Clock"),  tr("Lane"),    tr("Kind"), tr("Stage"), tr("Count"), tr("Busy"),
                     tr("Idle"),   tr("Hidden"), tr("Exposed"), tr("Mean"), tr("Min"),   tr("Max")};
    for (const RangeStatistics::Entry &entry : m_statistics->entries())
        table.rows.push_back(cellsOf(entry));
    return table;
}

TableData RangePanel::names() const
{
    TableData table;
    table.headers = {tr("Name"), tr("Kind"),  tr("Lane"), tr("Clock"), tr("Count"),
                     tr("Busy"), tr("Share"), tr("Mean"), tr("Min"),   tr("Max")};
    for (const NameStatistics::Entry &entry : m_names->entries()) {
        const trace::KindInfo &kind = m_model.tables(entry.measured).kind(entry.kind);
        table.rows.push_back({{qt(entry.name), {}},
                              {qt(kind.name), {}, theme().hue(kind.hue)},
                              {qt(entry.lane), {}},
                              {tr(m_model.clockName(entry.measured)), {}},
                              {QString::number(entry.count), static_cast<double>(entry.count)},
                              timeCell(entry.busy),
                              {percentText(entry.share), entry.share, {}, false, entry.share},
                              timeCell(entry.mean()),
                              timeCell(entry.least),
                              timeCell(entry.most)});
    }
    return table;
}

void RangePanel::fill()
{
    TableData table = m_statistics ? kinds() : names();
    const QString what = m_range
        ? tr("Range of %1 from %2").arg(nanosecondsText(m_range->length()), instantText(m_range->begin))
        : tr("All of the timeline; drag over it to select a range");
    m_title->setText(what + (m_statistics ? tr("; hidden: beside compute") : tr("; share: of its lanes")));
    m_save->setEnabled(!table.rows.empty());
    m_table->set(std::move(table));
}

std::string RangePanel::csv() const
{
    if (m_names)
        return namesCsv();
    std::string text = "device,clock,lane,kind,stage,count,busy_seconds,idle_seconds,hidden_seconds,exposed_seconds,"
                       "mean_seconds,min_seconds,max_seconds\n";
    if (!m_statistics)
        return text;
    for (const RangeStatistics::Entry &entry : m_statistics->entries()) {
        const trace::Tables &tables = m_model.tables(entry.measured);
        text += csvField(m_model.groups()[entry.group].device) + ',' + m_model.clockName(entry.measured) + ','
            + csvField(tables.lane(entry.lane).name) + ','
            + (entry.whole ? std::string("all") : csvField(tables.kind(entry.kind).name)) + ','
            + (entry.stage < 0 ? std::string() : std::to_string(entry.stage)) + ',' + std::to_string(entry.count);
        for (const std::int64_t time :
             {entry.busy, entry.idle, entry.hidden, entry.exposed(), entry.mean(), entry.least, entry.most})
            text += ',' + secondsField(time);
        text += '\n';
    }
    return text;
}

std::string RangePanel::namesCsv() const
{
    std::string text = "name,kind,lane,clock,count,busy_seconds,share,mean_seconds,min_seconds,max_seconds\n";
    for (const NameStatistics::Entry &entry : m_names->entries())
        text += csvField(entry.name) + ',' + csvField(m_model.tables(entry.measured).kind(entry.kind).name) + ','
            + csvField(entry.lane) + ',' + m_model.clockName(entry.measured) + ',' + std::to_string(entry.count) + ','
            + secondsField(entry.busy) + fmt::format(",{:.6f},", entry.share) + secondsField(entry.mean()) + ','
            + secondsField(entry.least) + ',' + secondsField(entry.most) + '\n';
    return text;
}

} // namespace planloom::ui
