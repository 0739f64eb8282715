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
#include <functional>
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
      m_moment(new ElidedLabel(this)),
      m_table(new DataTable(this))
{
    setWindowTitle(tr("Memory snapshot %1").arg(QFileInfo(path).fileName()));
    resize(1100, 720);
    m_devices->setAccessibleName(tr("Device"));
    m_table->setAccessibleName(tr("What is in use at the moment, by line of the program"));
    for (std::size_t device = 0; device < m_shown.size(); ++device)
        m_devices->addItem(tr("Device %1").arg(device));
    auto *top = new QHBoxLayout;
    top->addWidget(m_devices);
    top->addWidget(m_summary, 1);
    auto *below = new QWidget(this);
    auto *column = new QVBoxLayout(below);
    column->setContentsMargins(0, 0, 0, 0);
    column->addWidget(m_moment);
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
    m_map->setMoment(seconds);
    std::map<std::int32_t, std::pair<std::int64_t, std::int64_t>> byName; // bytes, blocks
    std::int64_t all = 0;
    for (const std::size_t at : live->memory.at(seconds)) {
        const simulate::LiveBlock &block = live->memory.blocks[at];
        if (block.kind == simulate::BlockKind::Padding)
            continue;
        byName[block.name].first += block.bytes;
        ++byName[block.name].second;
        all += block.bytes;
    }
    std::int64_t free = 0, largest = 0;
    for (const simulate::LiveMemory::Hole &hole : live->memory.holesAt(seconds)) {
        free += hole.bytes();
        largest = std::max(largest, hole.bytes());
    }
    m_moment->setText(
        tr("At %1: %2 in use, %3 held and free, the largest piece %4; by the line that asked for it:")
            .arg(instantText(std::llround(seconds * 1e9)), bytesText(all), bytesText(free), bytesText(largest)));
    std::vector<std::pair<std::int64_t, std::int32_t>> order;
    for (const auto &[name, use] : byName)
        order.emplace_back(use.first, name);
    std::ranges::sort(order, std::greater());
    TableData table{{tr("Bytes"), tr("Share"), tr("Blocks"), tr("Allocated in")}, {}};
    for (const auto &[bytes, name] : order) {
        const double part = all > 0 ? static_cast<double>(bytes) / static_cast<double>(all) : 0;
        const std::int64_t blocks = byName[name].second;
        table.rows.push_back({{bytesText(bytes), static_cast<double>(bytes)},
                              {percentText(part), part, {}, false, part},
                              {QString::number(blocks), static_cast<double>(blocks)},
                              {qt(live->memory.nameOf(name)), {}}});
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
