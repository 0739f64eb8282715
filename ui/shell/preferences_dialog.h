// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QDialog>

#include "ui/shell/key_page.h"

namespace planloom::ui {

/// What the user has chosen about the studio. OK puts it in force and saves it.
class PreferencesDialog final : public QDialog {
    Q_OBJECT

public:
    explicit PreferencesDialog(KeyMap &keys, QWidget *parent = nullptr);
    [[nodiscard]] KeyPage *keyPage() { return m_keys; }

private:
    KeyPage *m_keys;
};

} // namespace planloom::ui
