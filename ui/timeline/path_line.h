// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QStringList>

#include "ui/state/latest_job.h"
#include "ui/timeline/timeline_path.h"

#include <vector>

namespace planloom::ui {

/// Finds the critical paths of both clocks, as far as it is known what their tasks waited for, and shows their sums, a
/// line each; the tool tip has them to the nanosecond. Long ones are found beside the UI thread.
class PathLine final : public QLabel {
    Q_OBJECT

public:
    explicit PathLine(const TimelineModel &model, QWidget *parent = nullptr);
    /// Of the model as it is now. @p on: false: none, and it hides.
    void refresh(bool on);

Q_SIGNALS:
    void found(const std::vector<planloom::ui::TimelinePath> &paths); ///< empty: none are shown

private:
    void showAnswers(const std::vector<Result<TimelinePath>> &answers, const std::vector<bool> &measured);

    const TimelineModel &m_model;
    LatestJob m_job; ///< last
};

} // namespace planloom::ui
