// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/snapshot_window.h"

#include "engine/import/snapshot/memory_snapshot.h"
#include "ui/memory/snapshot_device.h"
#include "ui/widgets/text.h"

#include <QFile>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QSplitter>
#include <QVBoxLayout>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

namespace planloom::ui {

bool isSnapshotFile(const QString &path)
{
    QFile file(path);
    if (!QFileInfo(path).isFile() || !file.open(QIODevice::ReadOnly))
        return false;
    constexpr qint64 kHead = 4096;
    const QByteArray head = file.read(kHead);
    return import::isPickle(path.toStdString(), {head.constData(), static_cast<std::size_t>(head.size())});
}

std::vector<ShownDevice> shownDevices(const trace::Allocations &snapshot, const Progress &progress)
{
    std::vector<ShownDevice> shown;
    for (std::int32_t device = 0; device < snapshot.devices() && !progress.stopped(); ++device)
        shown.push_back({trace::deviceMemory(snapshot, device),
                         std::make_shared<const LiveDevice>(snapshotDevice(snapshot, device))});
    return shown;
}

SnapshotWindow::SnapshotWindow(const QString &path, std::vector<ShownDevice> devices, QWidget *parent)
    : QDialog(parent),
      m_shown(std::move(devices)),
      m_devices(new QComboBox(this)),
      m_summary(new ElidedLabel(this)),
      m_map(new AddressMap(this)),
      m_listed(new QComboBox(this)),
      m_moment(new ElidedLabel(this)),
      m_table(new DataTable(this))
{
    setWindowTitle(tr("Memory snapshot %1").arg(QFileInfo(path).fileName()));
    resize(1100, 720);
    m_devices->setAccessibleName(tr("Device"));
    m_table->setAccessibleName(tr("Memory by line of the program"));
    m_listed->setAccessibleName(tr("What is listed"));
    m_listed->addItem(tr("In use at the moment"), static_cast<int>(Listed::Moment));
    m_listed->addItem(tr("Never freed"), static_cast<int>(Listed::NeverFreed));
    m_listed->setItemData(1, tr("Allocated in the recorded time and still in use at its end: what may leak"),
                          Qt::ToolTipRole);
    m_listed->addItem(tr("Bytes × time"), static_cast<int>(Listed::ByteSeconds));
    m_listed->setItemData(2, tr("What holds much memory for long"), Qt::ToolTipRole);
    for (std::size_t device = 0; device < m_shown.size(); ++device)
        m_devices->addItem(tr("Device %1").arg(device));
    auto *top = new QHBoxLayout;
    top->addWidget(m_devices);
    top->addWidget(m_summary, 1);
    auto *below = new QWidget(this);
    auto *column = new QVBoxLayout(below);
    column->setContentsMargins(0, 0, 0, 0);
    auto *line = new QHBoxLayout;
    line->addWidget(m_listed);
    line->addWidget(m_moment, 1);
    column->addLayout(line);
    column->addWidget(m_table, 1);
    auto *split = new QSplitter(Qt::Vertical, this);
    split->addWidget(m_map);
    split->addWidget(below);
    split->setStretchFactor(0, 3);
    split->setStretchFactor(1, 1);
    auto *layout = new QVBoxLayout(this);
    layout->addLayout(top);
    layout->addWidget(split, 1);
    connect(m_devices, &QComboBox::currentIndexChanged, this, &SnapshotWindow::showDevice);
    connect(m_map, &AddressMap::momentPicked, this, &SnapshotWindow::showMoment);
    connect(m_listed, &QComboBox::currentIndexChanged, this, [this] { showMoment(m_seconds); });
    showDevice();
}

void SnapshotWindow::showDevice()
{
    if (m_shown.empty())
        return m_map->set(nullptr, tr("The snapshot has no device"));
    const auto &[memory, live] = m_shown[static_cast<std::size_t>(m_devices->currentIndex())];
    m_map->set(live);
    const auto share = [](std::int64_t part, std::int64_t whole) {
        return percentText(whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0);
    };
    QString text =
        tr("peak %1 in use of %2 reserved · now %3 in use of %4 in segments: %5 · fragmented %6 (%7), largest "
           "free block %8")
            .arg(bytesText(memory.peak), bytesText(memory.peakReserved), bytesText(memory.inUse),
                 bytesText(memory.reserved))
            .arg(memory.segments)
            .arg(bytesText(memory.fragmented), share(memory.fragmented, memory.reserved),
                 bytesText(memory.largestFree));
    if (memory.outOfMemory > 0)
        text += tr(" · ! %1 × out of memory").arg(memory.outOfMemory);
    m_summary->setText(text);
    m_summary->setToolTip(text);
    const bool hasTimes = memory.peakEvent < 0 || memory.peakTime > 0;
    showMoment(hasTimes ? static_cast<double>(memory.peakTime) * 1e-9 : static_cast<double>(memory.peakEvent) * 1e-6);
}

void SnapshotWindow::showMoment(double seconds)
{
    const auto live = m_map->live();
    if (!live)
        return;
    m_seconds = seconds;
    m_map->setMoment(seconds);
    switch (static_cast<Listed>(m_listed->currentData().toInt())) {
    case Listed::Moment: return listMoment(*live);
    case Listed::NeverFreed: return listNeverFreed(*live);
    case Listed::ByteSeconds: return listByteSeconds(*live);
    }
}

namespace {

/// Blocks of one line of the program.
struct LineUse {
    std::int64_t bytes = 0;
    std::int64_t blocks = 0;
    double first = std::numeric_limits<double>::infinity(); ///< seconds
    double last = 0;                                        ///< likewise, when the newest one began
    double byteSeconds = 0;
};
using LineUses = std::map<std::int32_t, LineUse>; // by name

void addTo(LineUses &uses, const simulate::LiveBlock &block, double end)
{
    LineUse &use = uses[block.name];
    use.bytes += block.bytes;
    ++use.blocks;
    use.first = std::min(use.first, block.begin);
    use.last = std::max(use.last, block.begin);
    use.byteSeconds += static_cast<double>(block.bytes) * std::max(std::min(block.end, end) - block.begin, 0.0);
}

/// Names, the one with most of what @p of tells first.
template <class Of>
std::vector<std::int32_t> namesByMost(const LineUses &uses, Of of)
{
    std::vector<std::int32_t> names;
    for (const auto &[name, use] : uses)
        names.push_back(name);
    std::ranges::stable_sort(names, [&](std::int32_t a, std::int32_t b) { return of(uses.at(a)) > of(uses.at(b)); });
    return names;
}

Cell shareCell(double part, double whole)
{
    const double share = whole > 0 ? part / whole : 0;
    return {percentText(share), share, {}, false, share};
}

Cell timeCell(double seconds) { return {instantText(std::llround(seconds * 1e9)), seconds}; }

} // namespace

void SnapshotWindow::listMoment(const LiveDevice &live)
{
    LineUses uses;
    std::int64_t all = 0;
    for (const std::size_t at : live.memory.at(m_seconds)) {
        const simulate::LiveBlock &block = live.memory.blocks[at];
        if (block.kind == simulate::BlockKind::Padding)
            continue;
        addTo(uses, block, live.memory.endSeconds);
        all += block.bytes;
    }
    std::int64_t free = 0, largest = 0;
    for (const simulate::LiveMemory::Hole &hole : live.memory.holesAt(m_seconds)) {
        free += hole.bytes();
        largest = std::max(largest, hole.bytes());
    }
    m_moment->setText(
        tr("At %1: %2 in use, %3 held and free, the largest piece %4; by the line that asked for it:")
            .arg(instantText(std::llround(m_seconds * 1e9)), bytesText(all), bytesText(free), bytesText(largest)));
    TableData table{{tr("Bytes"), tr("Share"), tr("Blocks"), tr("Allocated in")}, {}};
    for (const std::int32_t name : namesByMost(uses, [](const LineUse &use) { return use.bytes; })) {
        const LineUse &use = uses.at(name);
        table.rows.push_back({{bytesText(use.bytes), static_cast<double>(use.bytes)},
                              shareCell(static_cast<double>(use.bytes), static_cast<double>(all)),
                              {QString::number(use.blocks), static_cast<double>(use.blocks)},
                              {qt(live.memory.nameOf(name)), {}}});
    }
    m_table->set(std::move(table));
}

void SnapshotWindow::listNeverFreed(const LiveDevice &live)
{
    LineUses uses;
    std::int64_t all = 0, blocks = 0;
    for (const simulate::LiveBlock &block : live.memory.blocks) {
        if (block.kind != simulate::BlockKind::OptimizerState) // "kept" (snapshot_device.cpp)
            continue;
        addTo(uses, block, live.memory.endSeconds);
        all += block.bytes;
        ++blocks;
    }
    m_moment->setText(blocks == 0
                          ? tr("All that was allocated in the recorded time was freed in it")
                          : tr("%1 in %2 blocks were allocated in the recorded time and not freed in it; several "
                               "blocks of one line over a long time are what a leak looks like:")
                                .arg(bytesText(all))
                                .arg(blocks));
    TableData table{{tr("Bytes"), tr("Share"), tr("Blocks"), tr("First"), tr("Last"), tr("Allocated in")}, {}};
    for (const std::int32_t name : namesByMost(uses, [](const LineUse &use) { return use.bytes; })) {
        const LineUse &use = uses.at(name);
        table.rows.push_back({{bytesText(use.bytes), static_cast<double>(use.bytes)},
                              shareCell(static_cast<double>(use.bytes), static_cast<double>(all)),
                              {QString::number(use.blocks), static_cast<double>(use.blocks)},
                              timeCell(use.first),
                              timeCell(use.last),
                              {qt(live.memory.nameOf(name)), {}}});
    }
    m_table->set(std::move(table));
}

void SnapshotWindow::listByteSeconds(const LiveDevice &live)
{
    LineUses uses;
    double all = 0;
    for (const simulate::LiveBlock &block : live.memory.blocks)
        if (block.kind != simulate::BlockKind::Padding)
            addTo(uses, block, live.memory.endSeconds);
    for (const auto &[name, use] : uses)
        all += use.byteSeconds;
    const double length = std::max(live.memory.endSeconds, 1e-9);
    m_moment->setText(tr("Mean bytes in use over the recorded time, %1 in all; by the line that asked for them:")
                          .arg(bytesText(std::llround(all / length))));
    TableData table{{tr("Mean bytes"), tr("Share"), tr("Blocks"), tr("Mean life"), tr("Allocated in")}, {}};
    for (const std::int32_t name : namesByMost(uses, [](const LineUse &use) { return use.byteSeconds; })) {
        const LineUse &use = uses.at(name);
        const double life = use.bytes > 0 ? use.byteSeconds / static_cast<double>(use.bytes) : 0;
        table.rows.push_back({{bytesText(std::llround(use.byteSeconds / length)), use.byteSeconds},
                              shareCell(use.byteSeconds, all),
                              {QString::number(use.blocks), static_cast<double>(use.blocks)},
                              {secondsText(life), life},
                              {qt(live.memory.nameOf(name)), {}}});
    }
    m_table->set(std::move(table));
}

void openSnapshot(StudioState *state, LoadQueue &queue, const QString &path, QWidget *parent)
{
    queue.add(SnapshotWindow::tr("Reading %1").arg(path), [state, path, parent](Progress &progress) -> Job::Completion {
        auto read = import::readMemorySnapshot(path.toStdString());
        if (!read)
            return [state, text = qt(read.error().text())] { state->say(MessageLevel::Error, text); };
        return [path, shown = shownDevices(*read, progress), parent] {
            auto *window = new SnapshotWindow(path, shown, parent);
            window->setAttribute(Qt::WA_DeleteOnClose);
            window->show();
        };
    });
}

} // namespace planloom::ui
