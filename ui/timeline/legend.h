// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "engine/trace/trace.h"
#include "ui/timeline/texture.h"

#include <optional>
#include <vector>

namespace planloom::ui {

/// The meaning of each hue and texture: an entry per legend text of the kinds, compute first, in as many lines as the
/// width asks for.
class Legend final : public QWidget {
    Q_OBJECT

public:
    explicit Legend(QWidget *parent = nullptr);
    void setKinds(const std::vector<trace::KindInfo> &kinds);
    [[nodiscard]] QStringList texts() const;
    void paint(QPainter &painter, int width) const;
    [[nodiscard]] QSize sizeHint() const override;
    [[nodiscard]] QSize minimumSizeHint() const override { return {0, lineHeight()}; }
    [[nodiscard]] bool hasHeightForWidth() const override { return true; }
    [[nodiscard]] int heightForWidth(int width) const override;

protected:
    void paintEvent(QPaintEvent *event) override;
    void changeEvent(QEvent *event) override;

private:
    [[nodiscard]] int lineHeight() const { return fontMetrics().height() + 8; }
    [[nodiscard]] const std::vector<QRect> &places(int width) const;

    std::vector<trace::KindInfo> m_entries; ///< the first kind of each legend text
    mutable int m_placesWidth = -1;         ///< that m_places are of; -1: none
    mutable std::vector<QRect> m_places;
    mutable std::optional<KindStyles> m_styles; ///< in the theme in force
};

} // namespace planloom::ui
