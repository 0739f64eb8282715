// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>
#include <QMenu>
#include <QPushButton>
#include <QVBoxLayout>
#include <QWidget>

#include "ui/state/studio_state.h"

namespace planloom::ui {

/// What stands in the place of the timeline while there is none: the steps to a plan with what is done of them, files
/// to open, recent ones.
class StartPage final : public QWidget {
    Q_OBJECT

public:
    /// @p models, @p clusters: menus of what can be opened.
    StartPage(StudioState *state, QMenu *models, QMenu *clusters, QWidget *parent = nullptr);

Q_SIGNALS:
    void openAsked();
    void planAsked();
    void tourAsked();
    void chosen(const QString &nameOrPath); ///< the sample, or a recent file

protected:
    void showEvent(QShowEvent *event) override;

private:
    void refreshSteps();
    void refreshRecent();

    StudioState *m_state;
    QPushButton *m_model;
    QPushButton *m_cluster;
    QPushButton *m_plan;
    QLabel *m_modelDone;
    QLabel *m_clusterDone;
    QVBoxLayout *m_recent;
};

/// A plan that can be trained on this machine. Empty if the samples are not installed.
QString samplePlan();
/// Names and paths that were opened, newest first. At most ten.
QStringList recentFiles();
void rememberFile(const QString &nameOrPath);

} // namespace planloom::ui
