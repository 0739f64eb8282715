// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QGridLayout>
#include <QLabel>
#include <QLineEdit>
#include <QScrollArea>
#include <QSpinBox>

#include "ui/planview/straggler_panel.h"
#include "ui/planview/sweep_chart.h"
#include "ui/state/studio_state.h"

#include <functional>
#include <utility>
#include <vector>

namespace planloom::ui {

/// The settings of a plan that trains by ADMM, the plan's field `training`: who waits for whom, penalties,
/// sub-problems, and how many workers there are, in as many columns as the height asks for. Every change is one
/// undoable edit of the state, which simulates it; after a refused one the old figure is shown again. Empty for other
/// plans. Owns what is shown beside it, in tabs of their own: what one slow worker costs, and when an iteration updates
/// what.
class AdmmControls final : public QScrollArea {
    Q_OBJECT

public:
    explicit AdmmControls(StudioState *state, QWidget *parent = nullptr);

    /// True if the open plan trains by ADMM.
    [[nodiscard]] bool applies() const;
    [[nodiscard]] StragglerPanel *straggler() { return m_straggler; }
    [[nodiscard]] SweepChart *sweeps() { return m_sweeps; }

protected:
    void resizeEvent(QResizeEvent *event) override;

private:
    using Settings = admm::Settings;

    QSpinBox *addCount(const QString &label, const QString &toolTip, int least, int most);
    void addChoice(const QString &label, const QString &toolTip, const QStringList &names,
                   std::function<int(const Settings &)> get, std::function<void(Settings &, int)> set);
    void addCountOf(const QString &label, const QString &toolTip, int most, int Settings::*member);
    void addNumber(const QString &label, const QString &toolTip, double Settings::*member);
    void addRow(const QString &label, QWidget *field);
    void arrange();
    void setWorkers(int count);
    void change(const QString &what, const std::function<void(Settings &)> &how);
    void refresh();

    StudioState *m_state;
    QGridLayout *m_grid;
    int m_columns = 0; ///< of the grid, each with labels and fields
    std::vector<std::pair<QLabel *, QWidget *>> m_rows;
    StragglerPanel *m_straggler;
    SweepChart *m_sweeps = nullptr;
    QSpinBox *m_workers = nullptr;
    std::vector<std::pair<QComboBox *, std::function<int(const Settings &)>>> m_choices;
    std::vector<std::pair<QSpinBox *, int Settings::*>> m_counts;
    std::vector<std::pair<QLineEdit *, double Settings::*>> m_numbers;
    std::vector<QWidget *> m_asynchronous; ///< of use to that form only
    bool m_refreshing = false;
};

} // namespace planloom::ui
