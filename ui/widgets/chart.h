// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QChart>
#include <QChartView>
#include <QColor>
#include <QString>
#include <QValueAxis>

class QLineSeries;

namespace planloom::ui {

/// A chart with two value axes in the theme's colours. Not animated, no rounded plot, nothing that moves by itself.
class PlainChart : public QChartView {
    Q_OBJECT

public:
    PlainChart(const QString &name, const QString &xTitle, const QString &yTitle, QWidget *parent = nullptr);
    /// Takes the series and attaches the axes. Line colours: series @p color of the theme.
    QLineSeries *addLine(const QString &name, int color);
    void attach(QAbstractSeries *series);
    void setTitles(const QString &xTitle, const QString &yTitle);
    /// Shows 0..@p x and 0..@p y, with about four ticks at round figures.
    void setRanges(double x, double y);
    void setRange(double x, double yLow, double yHigh);
    [[nodiscard]] QValueAxis *x() const { return m_x; }
    [[nodiscard]] QValueAxis *y() const { return m_y; }

protected:
    void changeEvent(QEvent *event) override;

private:
    void applyColors();
    QValueAxis *m_x;
    QValueAxis *m_y;
};

/// The least 1, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten that is not less than @p value.
double roundUp(double value);

} // namespace planloom::ui
