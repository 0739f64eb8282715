// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QStackedWidget>
#include <QTableView>

#include "ui/run/run_list_model.h"
#include "ui/state/load_queue.h"
#include "ui/widgets/elided_label.h"
#include "ui/widgets/view.h"

#include <functional>
#include <string>
#include <vector>

namespace planloom::ui {

/// The Runs dock: the runs of a workspace and of the folders that were added to it, with filter, tags and notes. Files
/// and database are read beside the UI thread. The workspace is the one that was chosen last, at first
/// store::Workspace::defaultPath(); its file is made when there is something to keep. A run that the studio trains
/// enters the list by itself.
class RunListView final : public View {
    Q_OBJECT

public:
    explicit RunListView(StudioState *state, QWidget *parent = nullptr);
    [[nodiscard]] QString title() const override { return tr("Runs"); }
    [[nodiscard]] QWidget *focusTarget() override;
    void setWorkspace(const QString &path);
    [[nodiscard]] QString workspace() const { return m_workspace; }
    /// Looks for runs in @p folder now and at each refresh.
    void addFolder(const QString &folder);
    void refresh(); ///< reads run folders again
    /// False: runs of this studio do not enter the list.
    void setKeepsRuns(bool keeps) { m_keepsRuns = keeps; }
    [[nodiscard]] RunListModel *model() { return &m_model; }
    [[nodiscard]] QTableView *table() { return m_table; }
    [[nodiscard]] QLineEdit *filterField() { return m_filter; }
    [[nodiscard]] QLineEdit *tagsField() { return m_tags; }
    [[nodiscard]] QLineEdit *notesField() { return m_notes; }
    [[nodiscard]] QPushButton *compareButton() { return m_compare; }
    [[nodiscard]] QLabel *statusLabel() { return m_status; }
    [[nodiscard]] bool isEmpty() const { return m_stack->currentIndex() == 0; }
    [[nodiscard]] bool busy() { return m_queue.job()->running(); }

Q_SIGNALS:
    void openAsked(const QString &folder);
    void compareAsked(const QString &a, const QString &b); ///< folders of runs

private:
    using Change = std::function<Result<std::vector<std::string>>(store::Workspace &, Progress &)>;
    QWidget *makeEmptyPage();
    QWidget *makeList();
    void makeTable();
    QLayout *makeFilterRow();
    QLayout *makeNoteRow();
    /// Does @p change to the workspace beside the UI thread, behind those before, then shows its runs. @p creates: also
    /// where there is no file yet.
    void ask(Change change, bool creates);
    void takeRuns(std::vector<store::Run> runs, const std::vector<std::string> &messages);
    void applyFilter();
    void showSelected();
    void saveNotes();
    void noteRun();
    void refreshStatus();
    void chooseFolder();
    void chooseWorkspace();
    [[nodiscard]] std::vector<int> selectedRows() const;
    [[nodiscard]] std::vector<std::string> selectedFolders() const;

    QString m_workspace;
    QString m_running; ///< folder of the run that the studio trains
    QString m_problem; ///< what could not be read, or is wrong with the filter
    bool m_hasRuns = false;
    bool m_taking = false; ///< rows are being replaced: fields keep what is written in them
    bool m_keepsRuns = true;
    RunListModel m_model;
    QStackedWidget *m_stack;
    QTableView *m_table;
    QLineEdit *m_filter;
    QPushButton *m_compare;
    QLineEdit *m_tags;
    QLineEdit *m_notes;
    ElidedLabel *m_status;
    WhenSeen *m_seen;
    LoadQueue m_queue; ///< last: its thread ends first
};

} // namespace planloom::ui
