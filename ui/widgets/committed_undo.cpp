// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/committed_undo.h"

#include <QEvent>
#include <QKeyEvent>
#include <QObject>

#include <functional>
#include <utility>

namespace planloom::ui {

namespace {

/// No signals or slots: needs no moc.
class UndoFilter final : public QObject {
public:
    UndoFilter(QObject *field, std::function<bool()> committed) : QObject(field), m_committed(std::move(committed))
    {
        field->installEventFilter(this);
    }

    bool eventFilter(QObject *, QEvent *event) override
    {
        if (event->type() != QEvent::ShortcutOverride)
            return false;
        const auto *key = static_cast<QKeyEvent *>(event);
        const bool undo = key->matches(QKeySequence::Undo) || key->matches(QKeySequence::Redo);
        if (!undo || !m_committed())
            return false;
        event->ignore();
        return true; // the field would claim it
    }

private:
    std::function<bool()> m_committed;
};

} // namespace

void undoWhenCommitted(QSpinBox *field)
{
    new UndoFilter(field, [field] { return field->locale().toInt(field->cleanText()) == field->value(); });
}

void undoWhenCommitted(QDoubleSpinBox *field)
{
    new UndoFilter(field, [field] { return field->text() == field->textFromValue(field->value()); });
}

void undoWhenCommitted(QLineEdit *field)
{
    new UndoFilter(field, [field] { return !field->isModified(); });
}

} // namespace planloom::ui
