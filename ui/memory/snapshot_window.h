// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QDialog>
#include <QString>

#include "engine/trace/allocations.h"
#include "ui/memory/address_map.h"
#include "ui/state/load_queue.h"
#include "ui/state/studio_state.h"
#include "ui/widgets/data_table.h"
#include "ui/widgets/elided_label.h"

#include <memory>
#include <vector>

namespace planloom::ui {

/// Whether a file is a pickle, as memory snapshots of PyTorch are. Reads its head.
bool isSnapshotFile(const QString &path);

/// A device of a memory snapshot, as it is shown.
struct ShownDevice {
    trace::DeviceMemory memory;
    std::shared_ptr<const LiveDevice> live;
};
/// Any thread. Fewer devices where @p progress is stopped. Cost: snapshotDevice() of each.
std::vector<ShownDevice> shownDevices(const trace::Allocations &snapshot, const Progress &progress);

/// A memory snapshot of PyTorch: the blocks of a device as addresses over time, and, by the line of the program that
/// asked for it, what is in use at a moment, what was never freed, or what holds most bytes for longest. Opens at the
/// peak.
class SnapshotWindow final : public QDialog {
    Q_OBJECT

public:
    SnapshotWindow(const QString &path, std::vector<ShownDevice> devices, QWidget *parent = nullptr);
    [[nodiscard]] QComboBox *devicePicker() { return m_devices; }
    [[nodiscard]] AddressMap *map() { return m_map; }
    [[nodiscard]] DataTable *table() { return m_table; }
    enum class Listed { Moment, NeverFreed, ByteSeconds };
    [[nodiscard]] QComboBox *listedPicker() { return m_listed; } ///< its data is a Listed
    [[nodiscard]] QString summary() const { return m_summary->text(); }
    void showMoment(double seconds);

private:
    void showDevice();
    void listMoment(const LiveDevice &live);
    void listNeverFreed(const LiveDevice &live);
    void listByteSeconds(const LiveDevice &live);

    std::vector<ShownDevice> m_shown;
    QComboBox *m_devices;
    ElidedLabel *m_summary;
    AddressMap *m_map;
    QComboBox *m_listed;
    ElidedLabel *m_moment;
    DataTable *m_table;
    double m_seconds = 0; ///< the moment
};

/// Reads the file behind those in @p queue and shows it in a window of its own, as it is of no plan. @p state says what
/// is wrong with it.
void openSnapshot(StudioState *state, LoadQueue &queue, const QString &path, QWidget *parent);

} // namespace planloom::ui
