// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/help_window.h"

#include "ui/shell/resources.h"

#include <QDir>
#include <QDirIterator>
#include <QFile>
#include <QShortcut>
#include <QSplitter>
#include <QUrl>
#include <QVBoxLayout>

namespace planloom::ui {

namespace {

QString textOf(const QString &path)
{
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? QString::fromUtf8(file.readAll()) : QString();
}

/// The first heading, or the file's name.
QString titleOf(const QString &path)
{
    const QStringList lines = textOf(path).split(QLatin1Char('\n'));
    for (const QString &line : lines) {
        if (line.startsWith(QLatin1String("# ")))
            return line.mid(2).trimmed();
    }
    return QFileInfo(path).completeBaseName();
}

} // namespace

HelpWindow::HelpWindow(QWidget *parent)
    : QWidget(parent, Qt::Window),
      m_folder(resourceFolder(QStringLiteral("docs"))),
      m_search(new QLineEdit(this)),
      m_list(new QListWidget(this)),
      m_browser(new QTextBrowser(this))
{
    setWindowTitle(tr("Planloom help"));
    setAttribute(Qt::WA_QuitOnClose, false);
    resize(980, 720);
    m_search->setPlaceholderText(tr("Search the help"));
    m_search->setAccessibleName(m_search->placeholderText());
    m_search->setClearButtonEnabled(true);
    m_list->setAccessibleName(tr("Pages"));
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
    connect(m_list, &QListWidget::currentItemChanged, this, [this](QListWidgetItem *item) {
        if (item)
            m_browser->setSource(QUrl::fromLocalFile(item->data(Qt::UserRole).toString()),
                                 QTextDocument::MarkdownResource);
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
    QStringList paths;
    QDirIterator files(m_folder, {QStringLiteral("*.md")}, QDir::Files, QDirIterator::Subdirectories);
    while (files.hasNext())
        paths << files.next();
    paths.sort();
    for (const QString &path : std::as_const(paths)) {
        const QString section = QDir(m_folder).relativeFilePath(QFileInfo(path).path());
        const QString title =
            section == QLatin1String(".") ? titleOf(path) : section + QStringLiteral(" · ") + titleOf(path);
        auto *item = new QListWidgetItem(title, m_list);
        item->setData(Qt::UserRole, path);
    }
}

void HelpWindow::filter(const QString &text)
{
    for (int row = 0; row < m_list->count(); ++row) {
        auto *item = m_list->item(row);
        const bool fits = text.isEmpty() || item->text().contains(text, Qt::CaseInsensitive)
            || textOf(item->data(Qt::UserRole).toString()).contains(text, Qt::CaseInsensitive);
        item->setHidden(!fits);
    }
}

void HelpWindow::showPage(const QString &page)
{
    const QString wanted = QDir(m_folder).filePath(page);
    for (int row = 0; row < m_list->count(); ++row) {
        if (m_list->item(row)->data(Qt::UserRole).toString() == wanted) {
            m_list->setCurrentRow(row);
            return;
        }
    }
    if (m_list->currentRow() < 0)
        m_list->setCurrentRow(0);
}

} // namespace planloom::ui
