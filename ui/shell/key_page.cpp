// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/key_page.h"

#include "ui/theme/theme.h"

#include <QGridLayout>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QSignalBlocker>
#include <QVBoxLayout>

namespace planloom::ui {

namespace {

constexpr int kCommandColumn = 0;
constexpr int kKeyColumn = 1;
constexpr int kCommandWidth = 470;
constexpr int kWarningLines = 2;
constexpr int kIdRole = Qt::UserRole;

} // namespace

KeyPage::KeyPage(KeyMap &map, QWidget *parent)
    : QWidget(parent),
      m_map(map),
      m_keys(map.keys()),
      m_filter(new QLineEdit(this)),
      m_list(new QTreeWidget(this)),
      m_name(new QLabel(this)),
      m_edit(new QKeySequenceEdit(this)),
      m_clear(new QPushButton(tr("&No key"), this)),
      m_reset(new QPushButton(tr("&Reset"), this)),
      m_resetAll(new QPushButton(tr("Reset &all"), this)),
      m_warning(new QLabel(this))
{
    build();
    fill();
    connect(m_filter, &QLineEdit::textChanged, this, &KeyPage::filter);
    connect(m_list, &QTreeWidget::currentItemChanged, this, &KeyPage::showSelected);
    connect(m_edit, &QKeySequenceEdit::keySequenceChanged, this,
            [this](const QKeySequence &key) { setKeys(key.isEmpty() ? QList<QKeySequence>() : QList{key}); });
    connect(m_clear, &QPushButton::clicked, this, [this] { setKeys({}); });
    connect(m_reset, &QPushButton::clicked, this, &KeyPage::reset);
    connect(m_resetAll, &QPushButton::clicked, this, &KeyPage::resetAll);
    m_list->setCurrentItem(m_list->topLevelItem(0));
    refresh();
}

void KeyPage::build()
{
    m_filter->setPlaceholderText(tr("Find a command or a key"));
    m_filter->setAccessibleName(m_filter->placeholderText());
    m_filter->setClearButtonEnabled(true);
    m_list->setAccessibleName(tr("Commands and their keys"));
    m_list->setHeaderLabels({tr("Command"), tr("Key")});
    m_list->setRootIsDecorated(false);
    m_list->setUniformRowHeights(true);
    m_list->setColumnWidth(kCommandColumn, kCommandWidth);
    m_edit->setAccessibleName(tr("Key of the selected command"));
    m_edit->setToolTip(tr("Press the keys that the command is to have"));
    m_name->setBuddy(m_edit);
    m_warning->setWordWrap(true);
    m_warning->setAccessibleName(tr("Keys that two commands have"));
    m_warning->setMinimumHeight(kWarningLines * fontMetrics().lineSpacing());
    m_warning->setAlignment(Qt::AlignTop | Qt::AlignLeft);
    auto *edit = new QHBoxLayout;
    edit->addWidget(m_edit, 1);
    edit->addWidget(m_clear);
    edit->addWidget(m_reset);
    edit->addWidget(m_resetAll);
    auto *layout = new QVBoxLayout(this);
    layout->addWidget(m_filter);
    layout->addWidget(m_list, 1);
    layout->addWidget(m_name);
    layout->addLayout(edit);
    layout->addWidget(m_warning);
}

void KeyPage::fill()
{
    for (const NamedAction &each : m_map.actions()) {
        auto *item = new QTreeWidgetItem(m_list, {each.path, keysText(m_keys.value(each.id()))});
        item->setData(kCommandColumn, kIdRole, each.id());
        item->setToolTip(kCommandColumn, tr("%1, called %2 in scripts").arg(each.path, each.id()));
    }
}

void KeyPage::filter(const QString &text)
{
    for (int row = 0; row < m_list->topLevelItemCount(); ++row) {
        QTreeWidgetItem *item = m_list->topLevelItem(row);
        item->setHidden(!item->text(kCommandColumn).contains(text, Qt::CaseInsensitive)
                        && !item->text(kKeyColumn).contains(text, Qt::CaseInsensitive));
    }
}

QTreeWidgetItem *KeyPage::itemOf(const QString &id) const
{
    for (int row = 0; row < m_list->topLevelItemCount(); ++row)
        if (m_list->topLevelItem(row)->data(kCommandColumn, kIdRole).toString() == id)
            return m_list->topLevelItem(row);
    return nullptr;
}

bool KeyPage::select(const QString &id)
{
    QTreeWidgetItem *item = itemOf(id);
    if (item)
        m_list->setCurrentItem(item);
    return item != nullptr;
}

QString KeyPage::selected() const
{
    const QTreeWidgetItem *item = m_list->currentItem();
    return item ? item->data(kCommandColumn, kIdRole).toString() : QString();
}

void KeyPage::showSelected()
{
    const QTreeWidgetItem *item = m_list->currentItem();
    for (QWidget *each :
         {static_cast<QWidget *>(m_edit), static_cast<QWidget *>(m_clear), static_cast<QWidget *>(m_reset)})
        each->setEnabled(item != nullptr);
    m_name->setText(item ? tr("&Key of %1").arg(item->text(kCommandColumn)) : QString());
    const QList<QKeySequence> keys = m_keys.value(selected());
    const QSignalBlocker quiet(m_edit);
    m_edit->setKeySequence(keys.isEmpty() ? QKeySequence() : keys.front());
}

void KeyPage::setKeys(const QList<QKeySequence> &keys)
{
    if (selected().isEmpty())
        return;
    m_keys[selected()] = keys;
    refresh();
    const QKeySequence first = keys.isEmpty() ? QKeySequence() : keys.front();
    if (const QSignalBlocker quiet(m_edit); m_edit->keySequence() != first)
        m_edit->setKeySequence(first);
}

bool KeyPage::apply()
{
    const QList<QKeySequence> keys = m_keys.value(selected());
    if (const QKeySequence pressed = m_edit->keySequence(); pressed != (keys.isEmpty() ? QKeySequence() : keys.front()))
        setKeys({pressed});
    if (!m_warning->text().isEmpty())
        return false;
    m_map.use(m_keys);
    return true;
}

void KeyPage::reset() { setKeys(m_map.programKeys().value(selected())); }

void KeyPage::resetAll()
{
    m_keys = m_map.programKeys();
    refresh();
    showSelected();
}

/// Bold is what differs from the program's keys; what meets another key is marked.
void KeyPage::refresh()
{
    QStringList problems;
    for (const NamedAction &each : m_map.actions()) {
        QTreeWidgetItem *item = itemOf(each.id());
        const QList<QKeySequence> keys = m_keys.value(each.id());
        const QStringList others = m_map.conflicts(m_keys, each.id());
        QFont font = m_list->font();
        font.setBold(keys != m_map.programKeys().value(each.id()));
        item->setFont(kKeyColumn, font);
        item->setText(kKeyColumn, others.isEmpty() ? keysText(keys) : tr("⚠ %1").arg(keysText(keys)));
        item->setForeground(kKeyColumn, others.isEmpty() ? theme().text : theme().error);
        if (!others.isEmpty())
            problems << tr("⚠ %1 is the key of %2 and of %3: neither would work. Give one of them another key.")
                            .arg(keysText(keys), each.path, others.join(QStringLiteral(", ")));
    }
    m_warning->setText(problems.isEmpty() ? QString() : problems.front());
    m_warning->setToolTip(problems.join(QLatin1Char('\n')));
    Q_EMIT validChanged(problems.isEmpty());
}

} // namespace planloom::ui
