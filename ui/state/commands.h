// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/plan/plan.h"
#include "planners/interface/planner.h"

#include <QUndoCommand>

#include <functional>
#include <memory>
#include <vector>

namespace planloom::ui {

/// What one step of undo restores. Immutable.
struct Snapshot {
    std::shared_ptr<const plan::Document> document;
    std::shared_ptr<const std::vector<planners::Candidate>> alternatives; ///< of the search behind it; null: none
};

/// Replaces one snapshot by another, so that undo is exact by construction.
class ReplaceDocument final : public QUndoCommand {
public:
    using Apply = std::function<void(const Snapshot &)>;

    ReplaceDocument(const QString &text, Snapshot before, Snapshot after, Apply apply);
    void undo() override;
    void redo() override;

private:
    Snapshot m_before;
    Snapshot m_after;
    Apply m_apply;
};

/// Any other step: @p undo and @p redo set what was before and after.
class Replacement final : public QUndoCommand {
public:
    Replacement(const QString &text, std::function<void()> undo, std::function<void()> redo);
    void undo() override;
    void redo() override;

private:
    std::function<void()> m_undo;
    std::function<void()> m_redo;
};

} // namespace planloom::ui
