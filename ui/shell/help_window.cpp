// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/help_window.h"

#include "ui/shell/resources.h"

#include <QDir>
#include <QFile>
#include <QShortcut>
#include <QSplitter>
#include <QUrl>
#include <QVBoxLayout>

#include <algorithm>

namespace planloom::ui {

namespace {

QString textOf(const QString &path)
{
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? QString::fromUtf8(file.readAll()) : QString();
}

/// The first heading without its code marks, or the file's name.
QString titleOf(const QString &path)
{
    const QStringList lines = textOf(path).split(QLatin1Char('\n'));
    for (const QString &line : lines) {
        if (line.startsWith(QLatin1String("# ")))
            return line.mid(2).remove(QLatin1Char('`')).trimmed();
    }
    return QFileInfo(path).completeBaseName();
}

/// Pages of no use to someone who uses the programs: they are reached by links.
bool isForDevelopers(const QString &file)
{
    return file == QLatin1String("house.md") || file == QLatin1String("index.md");
}

QString pathOf(const QTreeWidgetItem *item) { return item->data(0, Qt::UserRole).toString(); }

} // namespace

HelpWindow::HelpWindow(QWidget *parent)
    : QWidget(parent, Qt::Window),
      m_folder(resourceFolder(QStringLiteral("docs"))),
      m_search(new QLineEdit(this)),
      m_list(new QTreeWidget(this)),
      m_browser(new QTextBrowser(this))
{
    setWindowTitle(tr("Planloom help"));
    setAttribute(Qt::WA_QuitOnClose, false);
    resize(980, 720);
    m_search->setPlaceholderText(tr("Search the help"));
    m_search->setAccessibleName(m_search->placeholderText());
    m_search->setClearButtonEnabled(true);
    m_list->setAccessibleName(tr("Pages"));
    m_list->setHeaderHidden(true);
    m_list->setRootIsDecorated(false);
    m_browser->setAccessibleName(tr("Page"));
    m_browser->setOpenExternalLinks(true);
    auto *left = new QWidget(this);
    auto *column = new QVBoxLayout(left);
    column->setContentsMargins(0, 0, 0, 0);
    column->addWidget(m_search);
    column->addWidget(m_list);
    auto *split = new QSplitter(this);
    split->addWidget(left);
    split->addWidget(m_browser);
    split->setStretchFactor(1, 1);
    split->setSizes({260, 720});
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(8, 8, 8, 8);
    layout->addWidget(split);
    fill();
    connect(m_search, &QLineEdit::textChanged, this, &HelpWindow::filter);
    connect(m_list, &QTreeWidget::currentItemChanged, this, [this](const QTreeWidgetItem *item) {
        if (item && !pathOf(item).isEmpty())
            m_browser->setSource(QUrl::fromLocalFile(pathOf(item)), QTextDocument::MarkdownResource);
    });
    new QShortcut(QKeySequence(Qt::Key_Escape), this, this, &QWidget::close);
}

void HelpWindow::fill()
{
    if (m_folder.isEmpty()) {
        m_browser->setPlainText(
            tr("The help pages are not installed; set PLANLOOM_RESOURCES to the folder that holds docs."));
        return;
    }
    addGroup(tr("Studio"), QStringLiteral("studio"));
    addGroup(tr("Command line and engine"), QStringLiteral("."));
    addGroup(tr("Planners"), QStringLiteral("planners"));
    addGroup(tr("Exchange between replicas"), QStringLiteral("exchange"));
    addGroup(tr("Memory"), QStringLiteral("memory"));
    addGroup(tr("Other kinds of training"), QStringLiteral("training"));
    addGroup(tr("File formats"), QStringLiteral("formats"));
    m_list->expandAll();
}

void HelpWindow::addGroup(const QString &heading, const QString &folder)
{
    auto *group = new QTreeWidgetItem(m_list, {heading});
    group->setFlags(Qt::ItemIsEnabled); // a heading is no page
    QFont bold = font();
    bold.setBold(true);
    group->setFont(0, bold);
    const QDir files(QDir(m_folder).filePath(folder));
    QMap<QString, QString> pathOfTitle;
    for (const QString &name : files.entryList({QStringLiteral("*.md")}, QDir::Files)) {
        const QString path = QDir::cleanPath(files.filePath(name));
        if (!isForDevelopers(name))
            pathOfTitle.insert(titleOf(path), path);
    }
    for (auto page = pathOfTitle.cbegin(); page != pathOfTitle.cend(); ++page) {
        auto *item = new QTreeWidgetItem(group, {page.key()});
        item->setData(0, Qt::UserRole, page.value());
    }
}

QList<QTreeWidgetItem *> HelpWindow::pages() const
{
    QList<QTreeWidgetItem *> items;
    for (int g = 0; g < m_list->topLevelItemCount(); ++g) {
        for (int p = 0; p < m_list->topLevelItem(g)->childCount(); ++p)
            items << m_list->topLevelItem(g)->child(p);
    }
    return items;
}

void HelpWindow::filter(const QString &text)
{
    for (int g = 0; g < m_list->topLevelItemCount(); ++g)
        m_list->topLevelItem(g)->setHidden(true);
    for (QTreeWidgetItem *item : pages()) {
        const bool fits = text.isEmpty() || item->text(0).contains(text, Qt::CaseInsensitive)
            || textOf(pathOf(item)).contains(text, Qt::CaseInsensitive);
        item->setHidden(!fits);
        if (fits)
            item->parent()->setHidden(false);
    }
}

void HelpWindow::showPage(const QString &page)
{
    const QString wanted = QDir::cleanPath(QDir(m_folder).filePath(page));
    const QList<QTreeWidgetItem *> all = pages();
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto *item) { return pathOf(item) == wanted; });
    if (found != all.end())
        m_list->setCurrentItem(*found);
    else if (!m_list->currentItem() && !all.isEmpty())
        m_list->setCurrentItem(all.front());
}

} // namespace planloom::ui
