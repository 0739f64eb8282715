// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QWidget>

#include <vector>

namespace planloom::ui {

/// One bar: its length, of which the last part is hatched, and the figure behind it.
struct Bar {
    QString name;
    double value = 0;
    double part = 0;     ///< of the value
    QString text;        ///< behind the bar; of a bar without length in place of it
    bool marked = false; ///< with a tick
    QString toolTip{};
};

/// A few named bars below each other, to be compared: all start at the left, and the longest fills the room unless a
/// scale is given. Knows no state.
class BarList final : public QWidget {
    Q_OBJECT

public:
    explicit BarList(const QString &title, QWidget *parent = nullptr);
    /// @p scale: the value that would fill the room; 0: the largest.
    void set(std::vector<Bar> bars, double scale = 0);
    [[nodiscard]] const std::vector<Bar> &bars() const { return m_bars; }
    /// Where a bar is painted; the hatched part is at its right end.
    [[nodiscard]] QRectF barRect(std::size_t row) const;
    [[nodiscard]] QSize sizeHint() const override;
    [[nodiscard]] QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent *event) override;
    bool event(QEvent *event) override;

private:
    [[nodiscard]] int rowHeight() const { return fontMetrics().height() + 6; }
    [[nodiscard]] int headHeight() const { return m_title.isEmpty() ? 0 : fontMetrics().height() + 4; }
    [[nodiscard]] QRect rowRect(std::size_t row) const;
    [[nodiscard]] int widestOf(QString Bar::*text) const;
    void paintRow(QPainter &painter, std::size_t row) const;

    QString m_title;
    std::vector<Bar> m_bars;
    double m_scale = 1;
};

} // namespace planloom::ui
