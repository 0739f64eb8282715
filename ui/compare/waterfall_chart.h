// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "engine/compare/waterfall.h"
#include "ui/timeline/texture.h"

namespace planloom::ui {

/// From the time of A's step to that of B's: a bar for each kind of work that takes longer or shorter, each beginning
/// where the one above ends. As high as its rows.
class WaterfallChart final : public QWidget {
    Q_OBJECT

public:
    explicit WaterfallChart(QWidget *parent = nullptr);
    void set(compare::Waterfall waterfall);
    [[nodiscard]] QSize sizeHint() const override;
    [[nodiscard]] QSize minimumSizeHint() const override;
    /// The rows as text, from the top: "forward  +1.2 ms  13.5 ms".
    [[nodiscard]] QStringList rowTexts() const;
    /// The first nanosecond of the axis: 0, unless all bars would be slivers then.
    [[nodiscard]] std::int64_t axisBegin() const;
    /// Where the bar of row @p row is (0: A's step), in pixels.
    [[nodiscard]] QRect barOf(int row) const;

protected:
    void paintEvent(QPaintEvent *event) override;
    void changeEvent(QEvent *event) override;

private:
    struct Bar {
        QString name;
        QString change; ///< empty: a step as a whole
        std::int64_t begin = 0;
        std::int64_t end = 0;
    };
    [[nodiscard]] std::vector<Bar> bars() const;
    [[nodiscard]] int rowHeight() const { return fontMetrics().height() + 10; }
    [[nodiscard]] int pixelOf(std::int64_t time) const;
    [[nodiscard]] std::int64_t axisEnd() const;
    [[nodiscard]] QRect plot() const;
    void paintBar(QPainter &painter, int row, const Bar &bar) const;

    compare::Waterfall m_waterfall;
    KindStyles m_styles;
};

} // namespace planloom::ui
