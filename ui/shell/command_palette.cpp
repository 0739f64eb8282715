// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/command_palette.h"

#include <QKeyEvent>
#include <QVBoxLayout>

#include <algorithm>
#include <utility>

namespace planloom::ui {

namespace {
constexpr std::size_t kMostShown = 200; // hits: to fill the list with thousands takes seconds
}

int fuzzyScore(const QString &pattern, const QString &text)
{
    int score = 1;
    qsizetype at = 0;
    bool run = false;
    for (const QChar wanted : pattern) {
        if (wanted.isSpace()) {
            run = false;
            continue;
        }
        qsizetype found = at;
        while (found < text.size() && text[found].toLower() != wanted.toLower())
            ++found;
        if (found == text.size())
            return 0;
        const bool startsWord = found == 0 || !text[found - 1].isLetterOrNumber();
        score += run && found == at ? 8 : (startsWord ? 6 : 1);
        run = true;
        at = found + 1;
    }
    return score;
}

CommandPalette::CommandPalette(std::vector<Command> commands, QWidget *parent)
    : QDialog(parent, Qt::Popup),
      m_commands(std::move(commands)),
      m_input(new QLineEdit(this)),
      m_list(new QListWidget(this))
{
    setAttribute(Qt::WA_DeleteOnClose);
    setAccessibleName(tr("Command palette"));
    m_input->setPlaceholderText(tr("Type a command, stage or device"));
    m_input->setAccessibleName(m_input->placeholderText());
    m_input->installEventFilter(this);
    m_list->setFocusPolicy(Qt::NoFocus);
    m_list->setUniformItemSizes(true);
    m_list->setAccessibleName(tr("Matching commands"));
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(8, 8, 8, 8);
    layout->addWidget(m_input);
    layout->addWidget(m_list);
    resize(560, 380);
    connect(m_input, &QLineEdit::textChanged, this, &CommandPalette::filter);
    connect(m_input, &QLineEdit::returnPressed, this, &CommandPalette::runCurrent);
    connect(m_list, &QListWidget::itemClicked, this, &CommandPalette::runCurrent);
    filter();
    m_input->setFocus();
}

void CommandPalette::filter()
{
    std::vector<std::pair<int, int>> hits; // score, index
    for (int k = 0; k < static_cast<int>(m_commands.size()); ++k) {
        if (const int score = fuzzyScore(m_input->text(), m_commands[static_cast<std::size_t>(k)].text))
            hits.emplace_back(score, k);
    }
    std::stable_sort(hits.begin(), hits.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
    hits.resize(std::min(hits.size(), kMostShown));
    m_list->clear();
    for (const auto &[score, index] : hits) {
        const Command &command = m_commands[static_cast<std::size_t>(index)];
        const QString text =
            command.shortcut.isEmpty() ? command.text : command.text + QStringLiteral("    ") + command.shortcut;
        auto *item = new QListWidgetItem(text, m_list);
        item->setData(Qt::UserRole, index);
    }
    m_list->setCurrentRow(0);
}

QString CommandPalette::current() const
{
    const auto *item = m_list->currentItem();
    return item ? m_commands[item->data(Qt::UserRole).toUInt()].text : QString();
}

void CommandPalette::runCurrent()
{
    const auto *item = m_list->currentItem();
    if (!item)
        return;
    const auto run = m_commands[item->data(Qt::UserRole).toUInt()].run;
    close(); // first: the command may open a dialog
    run();
}

bool CommandPalette::eventFilter(QObject *watched, QEvent *event)
{
    if (watched != m_input || event->type() != QEvent::KeyPress)
        return QDialog::eventFilter(watched, event);
    const auto *key = static_cast<QKeyEvent *>(event);
    const int step = key->key() == Qt::Key_Down ? 1 : (key->key() == Qt::Key_Up ? -1 : 0);
    if (step == 0)
        return QDialog::eventFilter(watched, event);
    m_list->setCurrentRow(std::clamp(m_list->currentRow() + step, 0, std::max(0, m_list->count() - 1)));
    return true;
}

} // namespace planloom::ui
