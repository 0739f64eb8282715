// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLineEdit>
#include <QTextBrowser>
#include <QTreeWidget>
#include <QWidget>

namespace planloom::ui {

/// The pages of resources/docs for users (Markdown), listed under headings, with a search over their text.
class HelpWindow final : public QWidget {
    Q_OBJECT

public:
    explicit HelpWindow(QWidget *parent = nullptr);
    /// @p page: path within docs, "studio/keys.md". Shows the first page if it is missing.
    void showPage(const QString &page);
    [[nodiscard]] QTextBrowser *browser() { return m_browser; }
    [[nodiscard]] const QTreeWidget *list() const { return m_list; }

private:
    void fill();
    void addGroup(const QString &heading, const QString &folder);
    [[nodiscard]] QList<QTreeWidgetItem *> pages() const;
    void filter(const QString &text);

    QString m_folder;
    QLineEdit *m_search;
    QTreeWidget *m_list;
    QTextBrowser *m_browser;
};

} // namespace planloom::ui
