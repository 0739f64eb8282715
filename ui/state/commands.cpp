// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/commands.h"

#include <utility>

namespace planloom::ui {

ReplaceDocument::ReplaceDocument(const QString &text, Snapshot before, Snapshot after, Apply apply)
    : QUndoCommand(text),
      m_before(std::move(before)),
      m_after(std::move(after)),
      m_apply(std::move(apply))
{
}

void ReplaceDocument::undo() { m_apply(m_before); }

void ReplaceDocument::redo() { m_apply(m_after); }

Replacement::Replacement(const QString &text, std::function<void()> undo, std::function<void()> redo)
    : QUndoCommand(text),
      m_undo(std::move(undo)),
      m_redo(std::move(redo))
{
}

void Replacement::undo() { m_undo(); }

void Replacement::redo() { m_redo(); }

} // namespace planloom::ui
