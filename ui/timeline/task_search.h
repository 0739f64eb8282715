// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include "ui/timeline/timeline_model.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace planloom::ui {

/// Slices whose task has a text in its name, and the one of them that is shown. Each call that looks for them costs
/// what TimelineModel::search does.
class TaskSearch {
public:
    explicit TaskSearch(const TimelineModel &model) : m_model(model) {}

    /// Looks for @p text; the first hit is shown.
    void find(const QString &text);
    /// Looks for the same text again, as the model has changed. A hit of @p task, where there is one, is shown.
    void refresh(std::string_view task);
    /// The next hit (1) or the previous one (-1), in a circle.
    void step(int by);
    [[nodiscard]] std::optional<TimelineModel::Slice> shown() const;
    /// "task 3 of 8"; empty: there is no text.
    [[nodiscard]] QString fact() const;

private:
    const TimelineModel &m_model;
    QString m_text;
    std::vector<TimelineModel::Slice> m_hits;
    std::size_t m_shown = 0;
};

} // namespace planloom::ui
