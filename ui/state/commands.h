// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/plan/plan.h"

#include <QUndoCommand>

#include <functional>
#include <memory>

namespace planloom::ui {

/// Replaces one document by another. Both are immutable snapshots, so that undo is exact by construction.
class ReplaceDocument final : public QUndoCommand {
public:
    using DocumentPtr = std::shared_ptr<const plan::Document>;
    using Apply = std::function<void(const DocumentPtr &)>;

    ReplaceDocument(const QString &text, DocumentPtr before, DocumentPtr after, Apply apply);
    void undo() override;
    void redo() override;

private:
    DocumentPtr m_before;
    DocumentPtr m_after;
    Apply m_apply;
};

} // namespace planloom::ui
