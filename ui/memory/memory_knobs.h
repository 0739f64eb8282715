// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QLineEdit>
#include <QSpinBox>
#include <QWidget>

#include "ui/state/studio_state.h"

#include <functional>

namespace planloom::ui {

/// The memory policy of the plan's stages, all alike: policy, budget, director, bandwidth to the host and clock. Each
/// change is an undoable edit of the plan, which is simulated again at once. Where stages differ, the first with a
/// policy is shown.
class MemoryKnobs final : public QWidget {
    Q_OBJECT

public:
    explicit MemoryKnobs(StudioState *state, QWidget *parent = nullptr);
    [[nodiscard]] QComboBox *policy() { return m_policy; }
    [[nodiscard]] QSpinBox *budget() { return m_budget; }
    [[nodiscard]] QComboBox *director() { return m_director; }
    [[nodiscard]] QLineEdit *bandwidth() { return m_bandwidth; }
    /// One edit: this policy with a budget of the share @p share of the activations.
    void take(plan::MemoryFilter filter, double share);
    [[nodiscard]] QComboBox *clock() { return m_clock; }
    [[nodiscard]] QComboBox *hosted() { return m_hosted; }

private:
    void refresh();
    void showDocument();
    void edit(const QString &what, const std::function<void(plan::Memory &)> &change);
    void setPolicy(int index);
    void setBandwidth();

    StudioState *m_state;
    QComboBox *m_policy;
    QSpinBox *m_budget; ///< percent of the activations without a limit; 0: bytes, as the plan has them
    QComboBox *m_director;
    QLineEdit *m_bandwidth; ///< GB/s each way; 0: the device's
    QComboBox *m_clock;
    QComboBox *m_hosted;  ///< what lies on the host: kHosted
    plan::Memory m_shown; ///< in the fields
    bool m_refreshing = false;
};

} // namespace planloom::ui
