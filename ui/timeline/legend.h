// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "engine/trace/trace.h"

#include <vector>

namespace planloom::ui {

/// The meaning of each hue and texture: an entry per legend text of the kinds, compute first.
class Legend final : public QWidget {
    Q_OBJECT

public:
    explicit Legend(QWidget *parent = nullptr);
    void setKinds(const std::vector<trace::KindInfo> &kinds);
    [[nodiscard]] QSize sizeHint() const override;
    [[nodiscard]] QSize minimumSizeHint() const override { return {0, sizeHint().height()}; }

protected:
    void paintEvent(QPaintEvent *event) override;

private:
    std::vector<trace::KindInfo> m_entries; ///< the first kind of each legend text
};

} // namespace planloom::ui
