// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/preferences_dialog.h"

#include <QDialogButtonBox>
#include <QPushButton>
#include <QTabWidget>
#include <QVBoxLayout>

namespace planloom::ui {

PreferencesDialog::PreferencesDialog(KeyMap &keys, QWidget *parent) : QDialog(parent), m_keys(new KeyPage(keys, this))
{
    setWindowTitle(tr("Preferences"));
    resize(720, 560);
    auto *pages = new QTabWidget(this);
    pages->addTab(m_keys, tr("Keys"));
    auto *buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel, this);
    auto *layout = new QVBoxLayout(this);
    layout->addWidget(pages, 1);
    layout->addWidget(buttons);
    // Enter in the field of a key is a key.
    buttons->button(QDialogButtonBox::Ok)->setAutoDefault(false);
    connect(m_keys, &KeyPage::validChanged, buttons->button(QDialogButtonBox::Ok), &QPushButton::setEnabled);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    connect(buttons, &QDialogButtonBox::accepted, this, [this] {
        if (m_keys->apply())
            accept();
    });
}

} // namespace planloom::ui
