// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QColor>
#include <QGraphicsScene>
#include <QGraphicsView>

#include "ui/model/scope_graph.h"

#include <vector>

namespace planloom::ui {

class GraphNodeItem;

/// Draws a laid-out VisibleGraph: drag pans, ctrl-wheel zooms, click selects, double-click or Enter opens or closes a
/// scope, Backspace closes the scope around, Space fits, arrows walk along edges. Until then as much of the graph is in
/// view as can be read. Knows no state: the view above connects it.
class GraphCanvas final : public QGraphicsView {
    Q_OBJECT

public:
    explicit GraphCanvas(QWidget *parent = nullptr);

    /// Sizes of the boxes in inches, for dot.
    [[nodiscard]] std::vector<std::pair<double, double>> boxSizes(const VisibleGraph &graph) const;
    /// Replaces the picture. @p stageColors: per node, the colours of the stages that it belongs to.
    void show(const VisibleGraph &graph, const PlainLayout &layout,
              const std::vector<std::vector<QColor>> &stageColors);
    void recolor(const std::vector<std::vector<QColor>> &stageColors);
    void highlight(const std::vector<int> &nodes); ///< the selection
    void setCurrent(int node, bool center);
    [[nodiscard]] int current() const { return m_current; }
    [[nodiscard]] const VisibleGraph &graph() const { return m_graph; }
    void fit(); ///< the whole graph
    [[nodiscard]] QRectF whole() const { return m_scene.sceneRect(); }
    void paintWhole(QPainter &painter, const QRectF &target) { m_scene.render(&painter, target, whole()); }

Q_SIGNALS:
    void picked(int node);    ///< clicked or walked to
    void activated(int node); ///< open it, if it is a scope
    void closeAround(int node);

protected:
    void keyPressEvent(QKeyEvent *event) override;
    void wheelEvent(QWheelEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void mouseDoubleClickEvent(QMouseEvent *event) override;
    void changeEvent(QEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;

private:
    enum class Fit { Readable, Whole, None }; ///< None: the user zoomed or panned
    void refit();
    void addEdges(const PlainLayout &layout);
    void walk(bool forward);
    void step(int by);
    [[nodiscard]] int nodeAt(const QPoint &position) const;

    QGraphicsScene m_scene;
    VisibleGraph m_graph;
    std::vector<GraphNodeItem *> m_items; ///< owned by the scene
    std::vector<QGraphicsPathItem *> m_edges;
    int m_current = -1;
    Fit m_fit = Fit::Readable;
};

} // namespace planloom::ui
