// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QTimer>
#include <QToolButton>
#include <QWidget>

#include "ui/memory/address_map.h"
#include "ui/memory/live_table.h"
#include "ui/state/latest_job.h"
#include "ui/state/studio_state.h"
#include "ui/widgets/data_table.h"
#include "ui/widgets/veil.h"
#include "ui/widgets/when_seen.h"

#include <memory>
#include <optional>
#include <vector>

namespace planloom::ui {

/// What is in the memory of a device at a moment: at its peak, at one that was picked, or under the mouse; as a table,
/// and, on a tab of its own, as a map of addresses over time. Both are computed beside the UI thread once one of them
/// is seen. A row or a rectangle selects its task and layer in every view.
class LivePanel final : public QWidget {
    Q_OBJECT

public:
    explicit LivePanel(StudioState *state, QWidget *parent = nullptr);
    /// The device whose memory is shown, as a number of the simulation's; nullopt: none. Another one begins at its
    /// peak.
    void setDevice(std::optional<std::size_t> rank);
    void pin(double seconds); ///< until another moment is picked
    void toPeak();
    void hover(std::optional<double> seconds); ///< the moment under the mouse; nullopt: back to the pinned one
    void setPale(bool pale);                   ///< what is shown is of an earlier plan
    [[nodiscard]] double moment() const;       ///< seconds; 0 without a device
    [[nodiscard]] bool atPeak() const { return !m_pinned; }
    [[nodiscard]] bool computes() const { return m_job.running() || m_tableJob.running(); }
    [[nodiscard]] const std::shared_ptr<const LiveDevice> &live() const { return m_live; }
    [[nodiscard]] DataTable *table() { return m_table; }
    [[nodiscard]] AddressMap *map() { return m_map; } ///< for another tab
    [[nodiscard]] QString text() const { return m_text->text(); }
    /// Numbers of the blocks in the table's rows.
    [[nodiscard]] const std::vector<std::size_t> &rows() const { return m_rows; }

Q_SIGNALS:
    void momentChanged(); ///< pinned one, or the device

private:
    /// What the table has of a moment.
    struct Shown {
        double seconds = 0;
        std::vector<std::size_t> rows; ///< largest first
        QString text;
    };
    static Shown shownAt(const LiveDevice &live, double seconds);

    void ask();
    void take(const Result<std::shared_ptr<const LiveDevice>> &live);
    void takeTable(Shown shown);
    void refresh();
    void refreshTable();
    void refreshMap();
    void pick(std::size_t block);
    [[nodiscard]] bool current() const;
    [[nodiscard]] double peakSeconds() const;
    [[nodiscard]] QString emptyText() const;

    StudioState *m_state;
    QToolButton *m_peak;
    QLabel *m_text;
    DataTable *m_table;
    AddressMap *m_map;
    Veil *m_tableVeil;
    Veil *m_mapVeil;
    WhenSeen *m_tableSeen;
    WhenSeen *m_mapSeen;
    QTimer m_hoverTimer; ///< at most so many tables a second
    std::optional<std::size_t> m_rank;
    std::optional<double> m_pinned;
    std::optional<double> m_hovered;
    std::shared_ptr<const LiveDevice> m_live;
    StudioState::SimulationPtr m_liveOf;  ///< the simulation that it belongs to
    StudioState::SimulationPtr m_askedOf; ///< that it was asked for
    std::optional<std::size_t> m_askedRank;
    bool m_pale = false;
    QString m_error;
    std::vector<std::size_t> m_rows;
    LatestJob m_tableJob{tr("Buffers at a moment")};
    LatestJob m_job{tr("Buffers of a device")};
};

} // namespace planloom::ui
