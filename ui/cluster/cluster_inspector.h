// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QCheckBox>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QString>
#include <QWidget>

#include "ui/state/studio_state.h"

#include <functional>
#include <vector>

namespace planloom::ui {

/// The figures of the selection in the cluster, to read and to edit: of a device's type, of a link, or of the whole.
/// Each change is one undoable edit of the state; illegal values are refused with the reason and the old figure
/// comes back.
class ClusterInspector final : public QWidget {
    Q_OBJECT

public:
    explicit ClusterInspector(StudioState *state, QWidget *parent = nullptr);

    void showCluster();
    void showDevice(DeviceId device);
    void showLink(std::size_t link);
    void showVertex(std::size_t vertex); ///< a switch, network card or network
    void showNode(std::size_t node);
    /// The field of a name ("Memory"), for tests and for the keyboard; null if there is none.
    [[nodiscard]] QLineEdit *field(const QString &name) const;

private:
    using Change = std::function<Result<cluster::Cluster>(double)>;

    void begin(const QString &title, const QString &note);
    /// A figure of the cluster in units of @p unit (1e9 for GB/s). The change is given the figure itself, not the
    /// units.
    void add(const QString &name, const QString &unitName, double value, double unit, Change change);
    void addLink(const QString &name, const QString &unitName, double unit, double value,
                 void (*set)(cluster::Link &, double));
    void apply(QLineEdit *edit, const QString &name, double unit, const Change &change);
    bool adopt(const QString &what, Result<cluster::Cluster> changed);
    void addRates();
    void addDuplex(bool fullDuplex);
    [[nodiscard]] std::vector<std::size_t> linksToChange() const;

    StudioState *m_state;
    QLabel *m_title;
    QLabel *m_note;
    QWidget *m_form = nullptr; ///< made anew for every thing shown
    QFormLayout *m_rows = nullptr;
    QCheckBox *m_alike;
    QString m_refocus; ///< the field that had the keyboard before the form was made anew
    std::size_t m_link = 0;
};

} // namespace planloom::ui
