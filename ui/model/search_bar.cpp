// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/search_bar.h"

#include "ui/widgets/text.h"

#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QVBoxLayout>

#include <algorithm>

namespace planloom::ui {
namespace {

constexpr int kMostListed = 6; // rows of the list
constexpr int kLeastListed = 2;
constexpr int kListRow = 20;

} // namespace

SearchBar::SearchBar(QWidget *parent)
    : QWidget(parent),
      m_field(new QLineEdit(this)),
      m_count(new QLabel(this)),
      m_list(new DataTable(this))
{
    m_field->setPlaceholderText(tr("Search names, types, attributes"));
    m_field->setToolTip(tr("Operators and scopes by name, type or attribute, such as MatMul or axis=-1 (Ctrl+F). Enter "
                           "goes to the next hit, Shift+Enter to the one before"));
    m_field->setClearButtonEnabled(true);
    m_field->setAccessibleName(tr("Search the model"));
    m_field->installEventFilter(this);
    m_count->setAccessibleName(tr("Number of hits"));
    m_list->setAccessibleName(tr("Hits of the search"));
    m_list->setSortingEnabled(false); // in the order in which Enter goes through them
    m_list->verticalHeader()->setDefaultSectionSize(kListRow);
    m_list->setSelectionMode(QAbstractItemView::SingleSelection);
    m_list->hide();
    auto *row = new QHBoxLayout;
    row->addWidget(m_field, 1);
    row->addWidget(m_count);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addLayout(row);
    layout->addWidget(m_list);
    connect(m_field, &QLineEdit::textChanged, this, &SearchBar::search);
    connect(m_field, &QLineEdit::textChanged, this, &SearchBar::textChanged);
    connect(m_list, &DataTable::rowPicked, this, &SearchBar::goTo);
    showCount();
}

void SearchBar::setScopes(const ScopeGraph *scopes)
{
    m_scopes = scopes;
    m_index.reset();
    search();
}

void SearchBar::setListShown(bool shown)
{
    m_listShown = shown;
    layOutList();
}

void SearchBar::focusField()
{
    m_field->setFocus(Qt::ShortcutFocusReason);
    m_field->selectAll();
}

void SearchBar::search()
{
    m_hit = -1;
    m_hits.clear();
    if (m_scopes != nullptr && !text().isEmpty()) {
        if (!m_index)
            m_index = std::make_shared<const ModelSearch>(*m_scopes);
        m_hits = m_index->find(text().toStdString());
    }
    TableData table{{tr("Name"), tr("Type"), tr("Attributes")}, {}};
    table.rows.resize(m_hits.size());
    table.makeRow = [index = m_index, hits = m_hits](std::size_t row) {
        const ModelSearch::Entry &entry = index->entries()[hits[row]];
        const QString type = entry.type.empty() ? SearchBar::tr("scope") : qt(entry.type);
        return std::vector<Cell>{{qt(entry.shown), {}, {}, false, -1, qt(entry.key)},
                                 {type, {}},
                                 {qt(entry.attributes), {}, {}, false, -1, qt(entry.attributes)}};
    };
    m_list->set(std::move(table));
    m_list->clearSelection();
    m_list->setCurrentIndex({});
    layOutList();
    showCount();
}

/// The list takes a quarter of the view at most.
void SearchBar::layOutList()
{
    const int room = parentWidget() ? parentWidget()->height() / (4 * kListRow) : kMostListed;
    const int rows = std::clamp(std::min(static_cast<int>(m_hits.size()), room), kLeastListed, kMostListed);
    m_list->setFixedHeight(rows * kListRow + m_list->horizontalHeader()->sizeHint().height() + 4);
    m_list->setVisible(m_listShown && !m_hits.empty());
}

void SearchBar::showCount()
{
    if (text().isEmpty())
        m_count->clear();
    else if (m_hits.empty())
        m_count->setText(tr("no match"));
    else if (m_hit < 0)
        m_count->setText(m_hits.size() == 1 ? tr("1 hit") : tr("%L1 hits").arg(m_hits.size()));
    else
        m_count->setText(tr("%L1 of %L2").arg(m_hit + 1).arg(m_hits.size()));
    m_count->setVisible(!m_count->text().isEmpty());
    m_field->setAccessibleDescription(m_count->text());
}

void SearchBar::goTo(int hit)
{
    if (hit < 0 || hit >= static_cast<int>(m_hits.size()))
        return;
    m_hit = hit;
    m_list->showRow(hit);
    showCount();
    Q_EMIT picked(qt(m_index->entries()[m_hits[static_cast<std::size_t>(hit)]].key));
}

void SearchBar::step(int by)
{
    const int count = static_cast<int>(m_hits.size());
    if (count == 0)
        return;
    const int from = m_hit < 0 && by < 0 ? 0 : m_hit; // the first step back goes to the last hit
    goTo((from + by + count) % count);
}

bool SearchBar::eventFilter(QObject *watched, QEvent *event)
{
    if (watched != m_field || event->type() != QEvent::KeyPress)
        return QWidget::eventFilter(watched, event);
    const auto *key = static_cast<const QKeyEvent *>(event);
    switch (key->key()) {
    case Qt::Key_Return:
    case Qt::Key_Enter: step(key->modifiers() & Qt::ShiftModifier ? -1 : 1); return true;
    case Qt::Key_Down: step(1); return true;
    case Qt::Key_Up: step(-1); return true;
    case Qt::Key_Escape:
        m_field->clear();
        Q_EMIT left();
        return true;
    default: return QWidget::eventFilter(watched, event);
    }
}

} // namespace planloom::ui
