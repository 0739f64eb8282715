// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QDialog>
#include <QLabel>
#include <QListWidget>
#include <QPlainTextEdit>
#include <QPushButton>

#include "ui/state/job.h"
#include "ui/state/plan_export.h"
#include "ui/state/studio_state.h"

#include <optional>
#include <vector>

namespace planloom::ui {

/// Writes the plan for another program. Choosing a format shows the file that would be written, or why the target
/// cannot express the plan, and the remedy.
class ExportDialog final : public QDialog {
    Q_OBJECT

public:
    explicit ExportDialog(const StudioState &state, QWidget *parent = nullptr);

    void choose(const QString &format);
    [[nodiscard]] QString format() const;
    [[nodiscard]] bool busy() const { return m_job.running(); }
    [[nodiscard]] bool canWrite() const { return m_write->isEnabled(); }
    [[nodiscard]] QString verdict() const { return m_verdict->text(); }
    [[nodiscard]] QString preview() const { return m_preview->toPlainText(); }
    /// False, with the reason in the verdict, if it cannot be exported.
    bool write(const QString &path);

Q_SIGNALS:
    void written(const QString &path);

private:
    void addFormats();
    void make();
    void present(const Result<exporting::Configuration> &made);
    void askAndWrite();

    StudioState::DocumentPtr m_document;
    StudioState::SimulationPtr m_simulation;
    std::vector<PlanFormat> m_formats;
    QListWidget *m_list;
    QLabel *m_about;
    QLabel *m_verdict;
    QPlainTextEdit *m_preview;
    QPushButton *m_write;
    std::optional<std::string> m_text;
    bool m_again = false; ///< another format was chosen while one was made
    Job m_job;            ///< last: it ends before the objects to which it posts
};

} // namespace planloom::ui
