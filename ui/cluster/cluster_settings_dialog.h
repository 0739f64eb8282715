// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/import/import.h"

#include <QDialog>

#include <vector>

class QDialogButtonBox;
class QLabel;

namespace planloom::ui {

/// Asks for what a cluster's file does not say, such as the type of its GPUs. Choices are fields named by their keys.
class ClusterSettingsDialog final : public QDialog {
    Q_OBJECT

public:
    /// @p source: the file, perhaps with settings that do not suffice; @p settings: all that its format has, at least
    /// one.
    ClusterSettingsDialog(const QString &source, const std::vector<import::ClusterSettingInfo> &settings,
                          QWidget *parent = nullptr);

    /// The file with the settings that are given, for StudioState::loadCluster.
    [[nodiscard]] QString source() const;

private:
    void addField(const import::ClusterSettingInfo &setting);
    [[nodiscard]] QString valueOf(const QString &key) const; ///< empty: not given
    void check();

    QString m_file;
    std::vector<import::ClusterSettingInfo> m_settings;
    QLabel *m_error;
    QDialogButtonBox *m_buttons;
};

} // namespace planloom::ui
