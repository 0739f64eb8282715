// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QDialog>
#include <QLineEdit>
#include <QListWidget>
#include <QString>

#include <functional>
#include <vector>

namespace planloom::ui {

/// An entry of the palette.
struct Command {
    QString text;
    QString shortcut;
    std::function<void()> run;
};

/// Everything that the studio can do, by typing a part of its name: letters match in order, not necessarily side by
/// side.
class CommandPalette final : public QDialog {
    Q_OBJECT

public:
    explicit CommandPalette(std::vector<Command> commands, QWidget *parent = nullptr);
    void setText(const QString &text) { m_input->setText(text); }
    [[nodiscard]] int shown() const { return m_list->count(); }
    [[nodiscard]] QString current() const;

protected:
    bool eventFilter(QObject *watched, QEvent *event) override;

private:
    void filter();
    void runCurrent();

    std::vector<Command> m_commands;
    QLineEdit *m_input;
    QListWidget *m_list;
};

/// How well @p pattern fits @p text: 0 not at all; more is better: runs and starts of words count.
int fuzzyScore(const QString &pattern, const QString &text);

} // namespace planloom::ui
