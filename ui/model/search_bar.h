// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QLineEdit>
#include <QWidget>

#include "ui/model/model_search.h"
#include "ui/widgets/data_table.h"

#include <memory>
#include <vector>

namespace planloom::ui {

/// A field to search the model with, which of how many hits is shown, and below it the list of hits while there are
/// any. Enter and Down go to the next hit, Shift+Enter and Up to the one before, round and round; Esc empties the
/// field.
class SearchBar final : public QWidget {
    Q_OBJECT

public:
    explicit SearchBar(QWidget *parent = nullptr);

    /// What is searched; null: nothing. Must live until the next call. Indexed at the first search.
    void setScopes(const ScopeGraph *scopes);
    void setListShown(bool shown);
    void focusField();
    [[nodiscard]] QString text() const { return m_field->text(); }
    [[nodiscard]] std::size_t hits() const { return m_hits.size(); }

Q_SIGNALS:
    void textChanged(const QString &text);
    void picked(const QString &key); ///< a hit was gone to
    void left();                     ///< by Esc

protected:
    bool eventFilter(QObject *watched, QEvent *event) override;

private:
    void search();
    void step(int by);
    void goTo(int hit);
    void showCount();
    void layOutList();

    QLineEdit *m_field;
    QLabel *m_count;
    DataTable *m_list;
    const ScopeGraph *m_scopes = nullptr;
    std::shared_ptr<const ModelSearch> m_index; ///< of m_scopes; null: not made yet
    std::vector<std::size_t> m_hits;            ///< entries of the index
    int m_hit = -1;                             ///< the one that is shown; -1: none yet
    bool m_listShown = true;
};

} // namespace planloom::ui
