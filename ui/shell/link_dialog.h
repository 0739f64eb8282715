// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QDialog>
#include <QDialogButtonBox>
#include <QLabel>
#include <QLineEdit>

namespace planloom::ui {

/// Asks for a link to a view; it begins with what the clipboard has, where that is one.
class LinkDialog final : public QDialog {
    Q_OBJECT

public:
    explicit LinkDialog(QWidget *parent = nullptr);
    [[nodiscard]] QString link() const { return m_link->text().trimmed(); }
    void setLink(const QString &link) { m_link->setText(link); }
    [[nodiscard]] QString problem() const { return m_problem->text(); }

private:
    void check();

    QLineEdit *m_link;
    QLabel *m_problem;
    QDialogButtonBox *m_buttons;
};

} // namespace planloom::ui
