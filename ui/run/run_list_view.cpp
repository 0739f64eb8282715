// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/run/run_list_view.h"

#include "engine/store/run_reader.h"
#include "ui/widgets/text.h"

#include <QDateTime>
#include <QFileDialog>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QMenu>
#include <QSettings>
#include <QToolButton>
#include <QVBoxLayout>

#include <algorithm>
#include <string_view>
#include <tuple>

namespace planloom::ui {

namespace {

const QString kWorkspaceKey = QStringLiteral("runs/workspace");
constexpr int kRunRowHeight = 24;
constexpr int kMeasured = 100;  // rows that a column's width at first is made for
constexpr int kSpareWidth = 20; // pixels, for the sort arrow
/// Columns that are shown at first; the others are a choice of the header's menu.
constexpr const char *kHiddenColumns[] = {"cluster", "state", "folder"};

/// Opens the file, and makes it and its folder if @p creates.
Result<store::Workspace> openAt(const QString &path, bool creates)
{
    if (creates)
        QDir().mkpath(QFileInfo(path).absolutePath());
    return store::Workspace::open(path.toStdString());
}

} // namespace

RunListView::RunListView(StudioState *state, QWidget *parent)
    : View(state, parent),
      m_stack(new QStackedWidget(this)),
      m_table(new QTableView(this)),
      m_filter(new QLineEdit(this)),
      m_compare(new QPushButton(tr("&Compare"), this)),
      m_tags(new QLineEdit(this)),
      m_notes(new QLineEdit(this)),
      m_status(new ElidedLabel(this)),
      m_seen(new WhenSeen(this, [this] { refresh(); }))
{
    m_stack->addWidget(makeEmptyPage());
    m_stack->addWidget(makeList());
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(m_stack);
    m_workspace = QSettings().value(kWorkspaceKey, qt(store::Workspace::defaultPath())).toString();
    connect(state, &StudioState::runChanged, this, &RunListView::noteRun);
    m_seen->ask();
    refreshStatus();
}

QWidget *RunListView::makeEmptyPage()
{
    auto *page = new QWidget(this);
    auto *text = new QLabel(tr("No runs yet. Train a plan (F5), or add a folder in which runs are."), page);
    text->setWordWrap(true);
    text->setAlignment(Qt::AlignHCenter);
    auto *folder = new QPushButton(tr("&Add a folder of runs…"), page);
    folder->setObjectName(QStringLiteral("addFolder"));
    auto *file = new QPushButton(tr("Open a &workspace…"), page);
    auto *buttons = new QHBoxLayout;
    buttons->addStretch(1);
    buttons->addWidget(folder);
    buttons->addWidget(file);
    buttons->addStretch(1);
    auto *layout = new QVBoxLayout(page);
    layout->addStretch(1);
    layout->addWidget(text);
    layout->addLayout(buttons);
    layout->addStretch(2);
    connect(folder, &QPushButton::clicked, this, &RunListView::chooseFolder);
    connect(file, &QPushButton::clicked, this, &RunListView::chooseWorkspace);
    return page;
}

QWidget *RunListView::makeList()
{
    auto *page = new QWidget(this);
    makeTable();
    auto *layout = new QVBoxLayout(page);
    layout->setContentsMargins(8, 6, 8, 6);
    layout->addLayout(makeFilterRow());
    layout->addWidget(m_table, 1);
    layout->addLayout(makeNoteRow());
    layout->addWidget(m_status);
    connect(m_table->selectionModel(), &QItemSelectionModel::selectionChanged, this, &RunListView::showSelected);
    connect(&m_model, &QAbstractItemModel::modelReset, this, &RunListView::showSelected);
    showSelected();
    return page;
}

void RunListView::makeTable()
{
    m_table->setModel(&m_model);
    m_table->setAccessibleName(tr("Runs"));
    m_table->setSelectionBehavior(QAbstractItemView::SelectRows);
    m_table->setEditTriggers(QAbstractItemView::NoEditTriggers);
    m_table->setAlternatingRowColors(true);
    m_table->setWordWrap(false);
    m_table->setShowGrid(false);
    m_table->setTabKeyNavigation(false);
    m_table->verticalHeader()->hide();
    m_table->verticalHeader()->setDefaultSectionSize(kRunRowHeight);
    QHeaderView *header = m_table->horizontalHeader();
    header->setStretchLastSection(true);
    header->setResizeContentsPrecision(kMeasured);
    header->setContextMenuPolicy(Qt::ActionsContextMenu);
    m_table->setSortingEnabled(true);
    m_table->sortByColumn(-1, Qt::AscendingOrder);
    for (int column = 0; column < m_model.columnCount(); ++column) {
        const store::RunField &field = store::runFields()[static_cast<std::size_t>(column)];
        auto *shown = new QAction(tr(field.title), m_table);
        shown->setCheckable(true);
        shown->setChecked(
            std::ranges::none_of(kHiddenColumns, [&](const char *key) { return std::string_view(key) == field.key; }));
        m_table->setColumnHidden(column, !shown->isChecked());
        header->addAction(shown);
        connect(shown, &QAction::toggled, m_table, [this, column](bool on) { m_table->setColumnHidden(column, !on); });
    }
    connect(m_table, &QTableView::doubleClicked, this,
            [this](const QModelIndex &index) { Q_EMIT openAsked(qt(m_model.run(index.row()).folder)); });
}

QLayout *RunListView::makeFilterRow()
{
    m_filter->setPlaceholderText(tr("Filter: nano  model:gpt2  iteration<50ms  mfu>30%"));
    m_filter->setAccessibleName(tr("Filter of runs"));
    m_filter->setClearButtonEnabled(true);
    m_compare->setToolTip(tr("Compare the two selected runs"));
    auto *more = new QToolButton(this);
    more->setText(tr("More"));
    more->setPopupMode(QToolButton::InstantPopup);
    auto *menu = new QMenu(more);
    menu->addAction(tr("&Add a folder of runs…"), this, &RunListView::chooseFolder);
    menu->addAction(tr("&Read the folders again"), this, &RunListView::refresh);
    menu->addAction(tr("Open a &workspace…"), this, &RunListView::chooseWorkspace);
    more->setMenu(menu);
    auto *row = new QHBoxLayout;
    row->addWidget(m_filter, 1);
    row->addWidget(m_compare);
    row->addWidget(more);
    connect(m_filter, &QLineEdit::textChanged, this, &RunListView::applyFilter);
    connect(m_compare, &QPushButton::clicked, this, [this] {
        const auto folders = selectedFolders();
        if (folders.size() == 2)
            Q_EMIT compareAsked(qt(folders[0]), qt(folders[1]));
    });
    return row;
}

QLayout *RunListView::makeNoteRow()
{
    m_tags->setPlaceholderText(tr("words, apart by blanks"));
    m_tags->setAccessibleName(tr("Tags of the selected runs"));
    m_notes->setAccessibleName(tr("Notes on the selected run"));
    auto *row = new QHBoxLayout;
    for (const auto &[name, field, share] :
         {std::tuple(tr("Ta&gs"), m_tags, 1), std::tuple(tr("&Notes"), m_notes, 2)}) {
        auto *label = new QLabel(name, this);
        label->setBuddy(field);
        row->addWidget(label);
        row->addWidget(field, share);
        connect(field, &QLineEdit::editingFinished, this, &RunListView::saveNotes);
    }
    return row;
}

QWidget *RunListView::focusTarget()
{
    return isEmpty() ? static_cast<QWidget *>(findChild<QPushButton *>(QStringLiteral("addFolder"))) : m_table;
}

// --- reading

void RunListView::setWorkspace(const QString &path)
{
    m_workspace = path;
    QSettings().setValue(kWorkspaceKey, path);
    ask(store::refreshRuns, false);
}

void RunListView::addFolder(const QString &folder)
{
    const std::string path = QFileInfo(folder).absoluteFilePath().toStdString();
    ask(
        [path](store::Workspace &workspace, Progress &progress) -> Result<std::vector<std::string>> {
            if (const Status added = workspace.addRunFolder(path); !added)
                return added.error();
            return store::refreshRuns(workspace, progress);
        },
        true);
}

void RunListView::refresh() { ask(store::refreshRuns, false); }

void RunListView::ask(Change change, bool creates)
{
    if (!creates && !QFileInfo::exists(m_workspace))
        return takeRuns({}, {});
    m_queue.add(tr("Reading runs"),
                [this, path = m_workspace, change = std::move(change), creates](Progress &progress) -> Job::Completion {
                    std::vector<store::Run> runs;
                    std::vector<std::string> messages;
                    auto workspace = openAt(path, creates);
                    if (!workspace) {
                        messages.push_back(workspace.error().text());
                    } else {
                        auto changed = change(*workspace, progress);
                        messages = changed ? *std::move(changed) : std::vector{changed.error().text()};
                        auto listed = workspace->listRuns();
                        if (listed)
                            runs = *std::move(listed);
                        else
                            messages.push_back(listed.error().text());
                    }
                    return [this, runs = std::move(runs), messages = std::move(messages)]() mutable {
                        takeRuns(std::move(runs), messages);
                    };
                });
    refreshStatus();
}

void RunListView::takeRuns(std::vector<store::Run> runs, const std::vector<std::string> &messages)
{
    const auto selected = selectedFolders();
    const bool first = !m_hasRuns && !runs.empty();
    m_hasRuns = !runs.empty();
    m_problem = messages.empty() ? QString()
        : messages.size() == 1   ? qt(messages.front())
                                 : tr("%1, and %2 more").arg(qt(messages.front())).arg(messages.size() - 1);
    m_taking = true;
    m_model.setRuns(std::move(runs));
    m_stack->setCurrentIndex(m_hasRuns ? 1 : 0);
    if (!m_hasRuns && !m_problem.isEmpty())
        state()->say(MessageLevel::Error, m_problem);
    if (first) {
        m_table->resizeColumnsToContents();
        for (int column = 0; column < m_model.columnCount(); ++column)
            m_table->setColumnWidth(column, m_table->columnWidth(column) + kSpareWidth);
    }
    QItemSelection again;
    for (const std::string &folder : selected)
        if (const int row = m_model.rowOf(folder); row >= 0)
            again.select(m_model.index(row, 0), m_model.index(row, m_model.columnCount() - 1));
    m_table->selectionModel()->select(again, QItemSelectionModel::ClearAndSelect);
    m_taking = false;
    const bool writing = m_tags->isModified() || m_notes->isModified();
    if (!writing || selected != selectedFolders())
        showSelected();
    refreshStatus();
}

/// A run of this studio is listed from its first step on, and again when it ends.
void RunListView::noteRun()
{
    const RunData &run = state()->run();
    const bool begins = run.active() && !run.steps.empty() && run.folder != m_running;
    const bool ends = !run.active() && !m_running.isEmpty() && run.folder == m_running;
    if (!begins && !ends)
        return;
    m_running = begins ? run.folder : QString();
    const std::string folder = run.folder.toStdString();
    if (!m_keepsRuns || !store::isRunOf(folder))
        return;
    const std::string phase = begins            ? "running"
        : run.phase == RunData::Phase::Finished ? "finished"
        : run.phase == RunData::Phase::Stopped  ? "stopped"
                                                : "failed";
    const std::string error = run.error.toStdString();
    ask(
        [folder, phase, error](store::Workspace &workspace, Progress &) -> Result<std::vector<std::string>> {
            auto read = store::RunReader().read(folder);
            if (!read)
                return read.error();
            read->state = phase;
            read->error = error;
            if (phase != "running" && read->endedAt == 0) // it ended without a result
                read->endedAt = QDateTime::currentSecsSinceEpoch();
            const Status merged = workspace.mergeRuns(std::span(&*read, 1));
            return merged ? Result(std::vector<std::string>()) : Result<std::vector<std::string>>(merged.error());
        },
        true);
}

// --- list

void RunListView::applyFilter()
{
    auto filter = store::RunFilter::parse(m_filter->text().toStdString());
    m_problem = filter ? QString() : qt(filter.error().text());
    if (filter)
        m_model.setFilter(*std::move(filter));
    refreshStatus();
}

std::vector<int> RunListView::selectedRows() const
{
    std::vector<int> rows;
    for (const QModelIndex &index : m_table->selectionModel()->selectedRows())
        rows.push_back(index.row());
    std::ranges::sort(rows);
    return rows;
}

std::vector<std::string> RunListView::selectedFolders() const
{
    std::vector<std::string> folders;
    if (m_table->selectionModel() != nullptr)
        for (const int row : selectedRows())
            folders.push_back(m_model.run(row).folder);
    return folders;
}

void RunListView::showSelected()
{
    if (m_taking)
        return;
    const auto rows = selectedRows();
    m_compare->setEnabled(rows.size() == 2);
    m_tags->setEnabled(!rows.empty());
    m_notes->setEnabled(rows.size() == 1);
    m_tags->setText(rows.empty() ? QString() : qt(m_model.run(rows.front()).tags));
    m_notes->setText(rows.size() == 1 ? qt(m_model.run(rows.front()).notes) : QString());
    m_tags->setModified(false);
    m_notes->setModified(false);
}

/// Of all selected runs the tags, of a single one the notes, if they were written in.
void RunListView::saveNotes()
{
    if (!m_tags->isModified() && !m_notes->isModified())
        return;
    struct Note {
        std::string folder, tags, notes;
    };
    std::vector<Note> noted;
    const auto rows = selectedRows();
    for (const int row : rows) {
        const store::Run &run = m_model.run(row);
        noted.push_back({run.folder, m_tags->isModified() ? m_tags->text().simplified().toStdString() : run.tags,
                         rows.size() == 1 ? m_notes->text().toStdString() : run.notes});
    }
    m_tags->setModified(false);
    m_notes->setModified(false);
    auto workspace = store::Workspace::open(m_workspace.toStdString()); // some milliseconds; never dropped
    if (!workspace)
        return state()->say(MessageLevel::Error, qt(workspace.error().text()));
    for (const Note &note : noted) {
        if (const Status kept = workspace->annotateRun(note.folder, note.tags, note.notes); !kept)
            return state()->say(MessageLevel::Error, qt(kept.error().text()));
        m_model.annotate(note.folder, note.tags, note.notes);
    }
}

void RunListView::refreshStatus()
{
    if (!m_problem.isEmpty())
        return m_status->setText(QStringLiteral("! ") + m_problem);
    if (busy() && !m_hasRuns)
        return m_status->setText(tr("Reading runs"));
    const auto total = static_cast<qsizetype>(m_model.total());
    const QString count =
        m_model.rowCount() == total ? tr("%1 runs").arg(total) : tr("%1 of %2 runs").arg(m_model.rowCount()).arg(total);
    m_status->setText(tr("%1  ·  workspace %2").arg(count, m_workspace));
}

// --- choosing

void RunListView::chooseFolder()
{
    const QString folder = QFileDialog::getExistingDirectory(this, tr("Add a folder of runs"));
    if (!folder.isEmpty())
        addFolder(folder);
}

void RunListView::chooseWorkspace()
{
    const QString path = QFileDialog::getOpenFileName(this, tr("Open a workspace"), m_workspace,
                                                      tr("Workspaces (*.planloom *.db);;All files (*)"));
    if (!path.isEmpty())
        setWorkspace(path);
}

} // namespace planloom::ui
