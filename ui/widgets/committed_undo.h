// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLineEdit>
#include <QSpinBox>

namespace planloom::ui {

/// Undo and redo keys in a field whose text has been taken over go to the window's actions: they undo the edit, not the
/// typing. While the text is being written they stay the field's.
void undoWhenCommitted(QSpinBox *field);
void undoWhenCommitted(QDoubleSpinBox *field);
/// The owner clears QLineEdit::isModified() (setText does) when it takes the text over.
void undoWhenCommitted(QLineEdit *field);

} // namespace planloom::ui
