// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/live_panel.h"

#include "ui/memory/curve.h"
#include "ui/widgets/elided_label.h"
#include "ui/widgets/text.h"

#include <QHBoxLayout>
#include <QVBoxLayout>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace planloom::ui {

namespace {
constexpr int kHoverMilliseconds = 60;
constexpr std::size_t kMostHovered = 20'000; // rows that are looked for at each move of the mouse
constexpr std::size_t kMostAtOnce = 20'000;  // blocks that are sorted within an event
constexpr std::size_t kMostRows = 20'000;    // of the table: the largest buffers
} // namespace

LivePanel::LivePanel(StudioState *state, QWidget *parent)
    : QWidget(parent),
      m_state(state),
      m_peak(new QToolButton(this)),
      m_text(new ElidedLabel(this)),
      m_table(new DataTable(this)),
      m_map(new AddressMap(this)),
      m_tableVeil(new Veil(m_table)),
      m_mapVeil(new Veil(m_map)),
      m_tableSeen(new WhenSeen(this, [this] { refreshTable(); })),
      m_mapSeen(new WhenSeen(m_map, [this] { refreshMap(); }))
{
    m_peak->setText(tr("Peak"));
    m_peak->setToolTip(tr("Show what is in use at the device's peak"));
    m_peak->setAccessibleName(m_peak->toolTip());
    m_text->setAccessibleName(tr("Memory in use at the moment that is shown"));
    m_table->setAccessibleName(tr("Buffers in use"));
    auto *line = new QHBoxLayout;
    line->addWidget(m_peak);
    line->addWidget(m_text, 1);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 2, 0, 0);
    layout->setSpacing(2);
    layout->addLayout(line);
    layout->addWidget(m_table, 1);
    m_hoverTimer.setSingleShot(true);
    m_hoverTimer.setInterval(kHoverMilliseconds);
    connect(&m_hoverTimer, &QTimer::timeout, m_tableSeen, &WhenSeen::ask);
    connect(m_peak, &QToolButton::clicked, this, &LivePanel::toPeak);
    connect(m_map, &AddressMap::momentPicked, this, &LivePanel::pin);
    connect(m_map, &AddressMap::blockPicked, this, &LivePanel::pick);
    connect(m_table, &DataTable::rowPicked, this, [this](int row) {
        if (row < 0 || static_cast<std::size_t>(row) >= m_rows.size())
            return;
        m_map->mark(m_rows[static_cast<std::size_t>(row)]);
        pick(m_rows[static_cast<std::size_t>(row)]);
    });
    connect(state, &StudioState::simulationChanged, this, &LivePanel::refresh);
    refresh();
}

bool LivePanel::current() const
{
    return m_live && m_rank == m_live->rank && m_liveOf == m_state->simulation() && m_liveOf;
}

void LivePanel::setDevice(std::optional<std::size_t> rank)
{
    if (rank == m_rank)
        return;
    m_rank = rank;
    m_pinned.reset();
    m_hovered.reset();
    refresh();
    Q_EMIT momentChanged();
}

void LivePanel::pin(double seconds)
{
    m_pinned = seconds;
    m_hovered.reset();
    refresh();
    Q_EMIT momentChanged();
}

void LivePanel::toPeak()
{
    m_pinned.reset();
    refresh();
    Q_EMIT momentChanged();
}

void LivePanel::hover(std::optional<double> seconds)
{
    if (seconds == m_hovered || (m_live && m_live->memory.blocks.size() > kMostHovered))
        return;
    m_hovered = seconds;
    if (!m_hoverTimer.isActive())
        m_hoverTimer.start();
}

void LivePanel::setPale(bool pale)
{
    m_pale = pale;
    m_tableVeil->setCurrent(!pale && (current() || !m_live));
    m_mapVeil->setCurrent(!pale && (current() || !m_live));
}

double LivePanel::peakSeconds() const
{
    const auto &simulation = m_state->simulation();
    if (!simulation || !m_rank || *m_rank >= simulation->memory.size())
        return 0;
    const simulate::MemoryPoint *peak = peakOf(simulation->memory[*m_rank]);
    return peak ? peak->seconds : 0;
}

double LivePanel::moment() const
{
    if (!m_rank)
        return 0;
    return m_hovered ? *m_hovered : m_pinned ? *m_pinned : peakSeconds();
}

void LivePanel::refresh()
{
    m_tableSeen->ask();
    m_mapSeen->ask();
}

/// Of the device and simulation that are shown, unless that is under way.
void LivePanel::ask()
{
    const auto &simulation = m_state->simulation();
    const bool asked = m_askedOf == simulation && m_askedRank == m_rank;
    if (!m_rank || !simulation || !m_state->simulationCurrent() || asked)
        return;
    m_askedOf = simulation;
    m_askedRank = m_rank;
    m_error.clear();
    m_job.ask([this, document = m_state->document(), of = simulation, rank = *m_rank](Progress &) -> Job::Completion {
        auto made = liveDevice(*document, rank);
        const auto live = made ? Result(std::make_shared<const LiveDevice>(*std::move(made))) : made.error();
        return [this, of, live] {
            m_liveOf = of;
            take(live);
        };
    });
}

void LivePanel::take(const Result<std::shared_ptr<const LiveDevice>> &live)
{
    m_live = live ? *live : nullptr;
    m_error = live ? QString() : qt(live.error().text());
    refreshTable(); // it was asked for where it was seen, and is there when that comes back
    refreshMap();
}

QString LivePanel::emptyText() const
{
    if (!m_error.isEmpty())
        return tr("What is in use cannot be told: %1").arg(m_error);
    if (!m_state->simulation())
        return tr("No simulation yet.");
    return m_job.running() ? tr("Computing what is in use …") : tr("Pick a device to see its buffers.");
}

void LivePanel::refreshTable()
{
    ask();
    m_tableVeil->setCurrent(!m_pale && (current() || !m_live));
    if (!m_live) {
        m_rows.clear();
        m_table->set({});
        m_text->setText(emptyText());
        return;
    }
    if (!current())
        return; // what was there is pale until the new one comes
    const double seconds = moment();
    m_map->setMoment(seconds);
    if (m_live->memory.blocks.size() <= kMostAtOnce) {
        m_tableJob.abandon();
        return takeTable(shownAt(*m_live, seconds));
    }
    m_tableVeil->setCurrent(false);
    m_tableJob.ask([this, live = m_live, seconds](Progress &) -> Job::Completion {
        const auto shown = std::make_shared<Shown>(shownAt(*live, seconds));
        return [this, live, shown] {
            if (live == m_live && current())
                takeTable(std::move(*shown));
        };
    });
}

LivePanel::Shown LivePanel::shownAt(const LiveDevice &live, double seconds)
{
    Shown shown{seconds, live.memory.at(seconds), liveText(live, seconds)};
    const std::size_t all = shown.rows.size();
    const std::size_t some = std::min(all, kMostRows);
    std::partial_sort(shown.rows.begin(), shown.rows.begin() + static_cast<std::ptrdiff_t>(some), shown.rows.end(),
                      [&live](std::size_t a, std::size_t b) {
                          return std::tuple(-live.memory.blocks[a].bytes, a)
                              < std::tuple(-live.memory.blocks[b].bytes, b);
                      });
    shown.rows.resize(some);
    if (some < all)
        shown.text += tr("  ·  the %1 largest of %2 buffers").arg(some).arg(all);
    return shown;
}

void LivePanel::takeTable(Shown shown)
{
    m_rows = std::move(shown.rows);
    m_tableVeil->setCurrent(!m_pale);
    m_table->set(liveTable(m_live, m_rows));
    // Names are long, and whole in the tool tips; kind and size stay in view where the pane is narrow.
    constexpr int kLeastName = 90;
    m_table->setColumnWidth(0, std::min(m_table->columnWidth(0), std::max(kLeastName, width() / 2)));
    const QString at = m_hovered || m_pinned ? tr("At %1") : tr("Peak at %1");
    m_text->setText(at.arg(instantText(std::llround(shown.seconds * 1e9))) + tr(" on %1: ").arg(qt(m_live->device))
                    + shown.text
                    + (m_live->named ? QString() : tr("  ·  too many devices to name tensors within slots")));
}

void LivePanel::refreshMap()
{
    ask();
    m_mapVeil->setCurrent(!m_pale && (current() || !m_live));
    if (m_live && !current())
        return;
    if (!m_live || m_map->live() != m_live)
        m_map->set(m_live, emptyText());
    m_map->setMoment(moment());
}

/// With the layer of the tensor.
void LivePanel::pick(std::size_t block)
{
    if (!m_live || !m_state->document() || !m_state->cluster())
        return;
    const simulate::LiveBlock &which = m_live->memory.blocks[block];
    const DeviceId device = m_state->cluster()->find(m_live->device);
    const std::string &task = m_live->taskOf(which.made.valid() ? which.made : which.last);
    const LayerRange layers = layersOfTensor(m_state->document()->subject, m_live->memory.nameOf(which.name));
    Selection next =
        task.empty() ? selectionOfDevice(device, m_state->document().get()) : selectionOfTask(task, device);
    next.time = m_state->selection().time;
    if (!layers.empty() || !task.empty())
        next.layers = layers;
    m_state->select(next);
    const auto row = std::find(m_rows.begin(), m_rows.end(), block);
    if (row != m_rows.end())
        m_table->showRow(static_cast<int>(row - m_rows.begin()));
}

} // namespace planloom::ui
