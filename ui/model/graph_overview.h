// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPixmap>
#include <QWidget>

namespace planloom::ui {

class GraphCanvas;

/// The whole graph, small, in a corner of the canvas, with a frame around what is in view; a click or drag moves the
/// view there. Shown while a part of the graph is out of sight.
class GraphOverview final : public QWidget {
    Q_OBJECT

public:
    explicit GraphOverview(GraphCanvas *canvas);
    void redraw(); ///< the graph or its colours are others
    void follow(); ///< the view has moved, or is of another size
    /// In the picture, for tests.
    [[nodiscard]] QRectF frame() const;

protected:
    void paintEvent(QPaintEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void mouseMoveEvent(QMouseEvent *event) override;
    void changeEvent(QEvent *event) override;

private:
    void moveTo(const QPointF &pixel);
    [[nodiscard]] double scale() const; ///< pixels per unit of the scene

    GraphCanvas *m_canvas;
    QPixmap m_picture; ///< null: to be drawn
};

} // namespace planloom::ui
