// SPDX-License-Identifier: GPL-3.0-or-later
// The moment of the memory chart: values under the mouse, what is in use then, and whether all that is of this plan.
#include "ui/memory/curve.h"
#include "ui/memory/memory_view.h"
#include "ui/widgets/text.h"

#include <QStringList>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

constexpr int kSlowMilliseconds = 400; // a simulation that takes longer leaves the old picture pale
constexpr std::size_t kListedDevices = 6;

/// The point that holds at @p seconds; nullptr: before the first one.
const simulate::MemoryPoint *pointAt(const std::vector<simulate::MemoryPoint> &points, double seconds)
{
    const auto later =
        std::upper_bound(points.begin(), points.end(), seconds,
                         [](double at, const simulate::MemoryPoint &point) { return at < point.seconds; });
    return later == points.begin() ? nullptr : &*std::prev(later);
}

} // namespace

void MemoryView::connectLive()
{
    for (QWidget *each : std::initializer_list<QWidget *>{m_chart, m_table, m_decisions, m_bands, m_scatter})
        m_veils.push_back(new Veil(each));
    m_slow.setSingleShot(true);
    m_slow.setInterval(kSlowMilliseconds);
    connect(&m_slow, &QTimer::timeout, this, &MemoryView::showAge);
    connect(state(), &StudioState::documentChanged, &m_slow, qOverload<>(&QTimer::start));
    connect(state(), &StudioState::busyChanged, this, &MemoryView::showAge);
    connect(state(), &StudioState::simulationChanged, this, &MemoryView::showAge);
    connect(m_chart, &MemoryChart::hovered, this, [this](double x) {
        const double seconds = x / axisFactor();
        m_chart->setHoverText(valuesAt(seconds));
        if (m_live->isVisible())
            m_live->hover(seconds);
    });
    connect(m_chart, &MemoryChart::left, this, [this] { m_live->hover(std::nullopt); });
    connect(m_chart, &MemoryChart::picked, this, &MemoryView::pickMoment);
    connect(m_live, &LivePanel::momentChanged, this, &MemoryView::showMoment);
}

std::optional<std::size_t> MemoryView::shownRank() const
{
    const auto &simulation = state()->simulation();
    if (!simulation || simulation->memory.empty())
        return std::nullopt;
    const int picked = m_devices->currentIndex() - 1;
    if (picked >= 0 && static_cast<std::size_t>(picked) < simulation->memory.size())
        return static_cast<std::size_t>(picked);
    std::optional<std::size_t> fullest;
    std::int64_t most = -1;
    for (std::size_t rank = 0; rank < simulation->memory.size(); ++rank) {
        const simulate::MemoryPoint *peak = peakOf(simulation->memory[rank]);
        if (peak && peak->total() > most) {
            most = peak->total();
            fullest = rank;
        }
    }
    return fullest;
}

double MemoryView::axisFactor() const
{
    const auto &simulation = state()->simulation();
    return simulation ? timeUnit(periodSeconds(*simulation)).factor : 1;
}

QString MemoryView::valuesAt(double seconds) const
{
    const auto &simulation = state()->simulation();
    if (!simulation)
        return {};
    QStringList lines{instantText(std::llround(seconds * 1e9))};
    const int picked = m_devices->currentIndex() - 1;
    if (picked >= 0 && static_cast<std::size_t>(picked) < simulation->memory.size()) {
        const auto *point = pointAt(simulation->memory[static_cast<std::size_t>(picked)], seconds);
        if (!point)
            return lines.front();
        lines[0] += tr(": %1").arg(bytesText(point->total()));
        for (const simulate::MemoryKind &kind : simulate::memoryKinds())
            if (point->*kind.bytes > 0)
                lines << tr("%1 %2").arg(tr(kind.name), bytesText(point->*kind.bytes));
        return lines.join(QLatin1Char('\n'));
    }
    std::vector<std::pair<std::int64_t, std::size_t>> devices; // those whose curves are drawn
    std::vector<bool> known;
    for (std::size_t rank = 0; rank < simulation->memory.size(); ++rank) {
        const std::size_t curve = rank < m_curves.size() ? m_curves[rank] : rank;
        known.resize(std::max(known.size(), curve + 1), false);
        const auto *point = pointAt(simulation->memory[rank], seconds);
        if (point && !known[curve])
            devices.emplace_back(point->total(), rank);
        known[curve] = true;
    }
    std::sort(devices.begin(), devices.end(), std::greater<>());
    for (std::size_t d = 0; d < std::min(devices.size(), kListedDevices); ++d)
        lines << tr("%1 %2").arg(qt(simulation->report.devices[devices[d].second].id), bytesText(devices[d].first));
    if (devices.size() > kListedDevices)
        lines << tr("and %1 others").arg(devices.size() - kListedDevices);
    return lines.join(QLatin1Char('\n'));
}

/// Of all devices, that of the device whose curve is nearest to the click.
void MemoryView::pickMoment(double x, double y)
{
    const auto &simulation = state()->simulation();
    if (!simulation)
        return;
    const double seconds = x / axisFactor();
    if (m_devices->currentIndex() <= 0) {
        std::int64_t largest = 0;
        for (const auto &device : simulation->report.devices)
            largest = std::max(largest, device.peakBytes);
        const double bytes = y / byteUnit(static_cast<double>(largest)).factor;
        std::optional<std::size_t> nearest;
        double least = 0;
        for (std::size_t rank = 0; rank < simulation->memory.size(); ++rank) {
            const auto *point = pointAt(simulation->memory[rank], seconds);
            const double off = point ? std::abs(static_cast<double>(point->total()) - bytes) : 0;
            if (point && (!nearest || off < least)) {
                nearest = rank;
                least = off;
            }
        }
        if (nearest)
            m_live->setDevice(nearest);
    }
    m_live->pin(seconds);
    m_tabs->setCurrentWidget(m_live);
}

void MemoryView::showMoment()
{
    const auto &simulation = state()->simulation();
    m_chart->setMoment(simulation && !m_live->atPeak() ? std::optional(m_live->moment() * axisFactor()) : std::nullopt);
}

bool MemoryView::pale() const
{
    const bool slow = state()->simulation() && !state()->simulationCurrent() && !m_slow.isActive();
    return state()->simulationOutdated() || slow;
}

void MemoryView::showAge()
{
    const bool old = pale();
    for (Veil *veil : m_veils)
        veil->setCurrent(!old);
    m_live->setPale(old);
    m_summary->setEnabled(!old);
    m_summary->setText(!old ? m_said
                           : state()->simulationOutdated()
                           ? tr("! Of the last plan that could be simulated: %1").arg(m_said)
                           : tr("Of the plan before the last edit: %1").arg(m_said));
}

void MemoryView::say(const QString &summary)
{
    m_said = summary;
    showAge();
}

} // namespace planloom::ui
