// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLineEdit>
#include <QListWidget>
#include <QTextBrowser>
#include <QWidget>

namespace planloom::ui {

/// The pages of resources/docs (Markdown), with a list of them and a search over their text.
class HelpWindow final : public QWidget {
    Q_OBJECT

public:
    explicit HelpWindow(QWidget *parent = nullptr);
    /// @p page: path within docs, "studio/keys.md". Shows the first page if it is missing.
    void showPage(const QString &page);
    [[nodiscard]] QTextBrowser *browser() { return m_browser; }
    [[nodiscard]] int pages() const { return m_list->count(); }

private:
    void fill();
    void filter(const QString &text);

    QString m_folder;
    QLineEdit *m_search;
    QListWidget *m_list;
    QTextBrowser *m_browser;
};

} // namespace planloom::ui
