// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QKeySequenceEdit>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QTreeWidget>
#include <QWidget>

#include "ui/shell/key_map.h"

namespace planloom::ui {

/// All commands with their shortcuts, to be changed. Nothing is in force before apply().
class KeyPage final : public QWidget {
    Q_OBJECT

public:
    explicit KeyPage(KeyMap &map, QWidget *parent = nullptr);

    /// Selects a command by its name; false: it is not there.
    bool select(const QString &id);
    [[nodiscard]] QString selected() const;
    void setKeys(const QList<QKeySequence> &keys); ///< of the selected command
    void reset();                                  ///< the selected command
    void resetAll();
    [[nodiscard]] QString warning() const { return m_warning->text(); } ///< conflicts; empty: there are none
    [[nodiscard]] const Keys &keys() const { return m_keys; }
    /// Also of a key that was pressed just now, for which the field still waits for more. False: two commands have one
    /// key, and nothing is applied.
    bool apply();

Q_SIGNALS:
    void validChanged(bool valid); ///< false: two commands have one key

private:
    void build();
    void fill();
    void filter(const QString &text);
    void showSelected();
    void refresh();
    [[nodiscard]] QTreeWidgetItem *itemOf(const QString &id) const;

    KeyMap &m_map;
    Keys m_keys;
    QLineEdit *m_filter;
    QTreeWidget *m_list;
    QLabel *m_name;
    QKeySequenceEdit *m_edit;
    QPushButton *m_clear;
    QPushButton *m_reset;
    QPushButton *m_resetAll;
    QLabel *m_warning;
};

} // namespace planloom::ui
