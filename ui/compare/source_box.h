// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QComboBox>
#include <QString>
#include <QStringList>

namespace planloom::ui {

/// What one side of a comparison is.
struct CompareSource {
    enum class Kind { None, OpenPlan, Alternative, PlanFile, RunFolder, TraceFile };
    Kind kind = Kind::None;
    QString path;         ///< PlanFile, RunFolder, TraceFile: absolute
    int alternative = -1; ///< Alternative: its place in StudioState::alternatives()
    friend bool operator==(const CompareSource &, const CompareSource &) = default;
};

/// Chooses a side: the open plan, one of its alternatives, or a file or folder, which stay in the list once chosen.
class SourceBox final : public QComboBox {
    Q_OBJECT

public:
    explicit SourceBox(QWidget *parent = nullptr);
    /// Rebuilds the list; the chosen source stays, unless it is an alternative that is gone.
    void setPlans(bool hasPlan, const QStringList &alternatives);
    [[nodiscard]] const CompareSource &source() const { return m_source; }
    /// Without chosen() being sent.
    void setSource(const CompareSource &source);
    [[nodiscard]] static QString textOf(const CompareSource &source);
    void askForPlan();
    void askForRun();
    void askForTrace();

Q_SIGNALS:
    void chosen(); ///< source() is another one, by the user

private:
    void rebuild();
    void take(const CompareSource &source);
    void onActivated(int index);

    bool m_hasPlan = false;
    QStringList m_alternatives;
    QList<CompareSource> m_files; ///< the newest last
    CompareSource m_source;
};

} // namespace planloom::ui
