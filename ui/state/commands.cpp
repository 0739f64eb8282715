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

} // namespace planloom::ui
