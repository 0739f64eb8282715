// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QGridLayout>
#include <QScrollBar>
#include <QWidget>

#include "ui/timeline/timeline_canvas.h"
#include "ui/timeline/timeline_model.h"

namespace planloom::ui {

/// A timeline's canvas with the bars that scroll it, and something below them.
class ScrolledCanvas final : public QWidget {
    Q_OBJECT

public:
    /// Takes @p canvas, which shows @p model, and @p below as children.
    ScrolledCanvas(const TimelineModel &model, TimelineCanvas *canvas, QWidget *below, QWidget *parent = nullptr);

private:
    void refresh();
    void pan(int value);

    const TimelineModel &m_model;
    TimelineCanvas *m_canvas;
    QScrollBar *m_vertical;
    QScrollBar *m_horizontal;
    bool m_refreshing = false;
};

} // namespace planloom::ui
