// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QGraphicsScene>
#include <QGraphicsView>

#include "ui/model/box_colors.h"
#include "ui/model/scope_graph.h"

#include <vector>

namespace planloom::ui {

class GraphFrameItem;
class GraphNodeItem;
class GraphOverview;

/// Draws a laid-out VisibleGraph: drag pans, ctrl-wheel zooms, click selects, double-click or Enter opens or closes a
/// scope, as does a double click on an open scope's title, Backspace closes the scope around, Space fits, arrows walk
/// along edges. Until then as much of the graph is in view as can be read. Knows no state: the view above connects it.
class GraphCanvas final : public QGraphicsView {
    Q_OBJECT

public:
    explicit GraphCanvas(QWidget *parent = nullptr);

    /// Room of boxes and titles, for dot.
    [[nodiscard]] BoxSizes sizesOf(const VisibleGraph &graph) const;
    /// Replaces the picture. What is at scope or operator @p anchor stays where it is in the view, if both pictures
    /// have it and the user has moved or zoomed.
    void show(const VisibleGraph &graph, const PlainLayout &layout, const std::string &anchor = {});
    void setColors(const std::vector<BoxPaint> &colors); ///< per box
    void setToolTips(const std::vector<QString> &texts); ///< per box
    /// Boxes of the next picture have a line for figures.
    void showCards(bool shown) { m_cards = shown; }
    [[nodiscard]] bool cardsShown() const { return m_cards; }
    void setCards(const std::vector<QString> &texts); ///< per box
    void highlight(const std::vector<int> &nodes);    ///< the selection
    /// -1: none. @p center: at a size that can be read, in the middle of the view.
    void setCurrent(int node, bool center);
    /// Scrolls to the current box if it is out of sight.
    void showCurrent();
    [[nodiscard]] int current() const { return m_current; }
    [[nodiscard]] const VisibleGraph &graph() const { return m_graph; }
    [[nodiscard]] const std::vector<GraphNodeItem *> &boxes() const { return m_items; }
    [[nodiscard]] const std::vector<GraphFrameItem *> &frames() const { return m_frames; }
    void fit(); ///< the whole graph
    /// What is in view, in units of the scene.
    [[nodiscard]] QRectF seen() const { return mapToScene(viewport()->rect()).boundingRect(); }
    void lookAt(const QPointF &middle); ///< in units of the scene
    [[nodiscard]] const GraphOverview *overview() const { return m_overview; }
    [[nodiscard]] QRectF whole() const { return m_scene.sceneRect(); }
    void paintWhole(QPainter &painter, const QRectF &target) { m_scene.render(&painter, target, whole()); }

Q_SIGNALS:
    void picked(int node);         ///< clicked or walked to
    void currentChanged(int node); ///< -1: none
    void activated(int node);      ///< open it, if it is a scope
    void closeAround(int node);
    void closeAsked(const QString &scope); ///< an open one
    void neighboursAsked();                ///< of the current box
    void wholeAsked();

protected:
    void keyPressEvent(QKeyEvent *event) override;
    void wheelEvent(QWheelEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void mouseDoubleClickEvent(QMouseEvent *event) override;
    void changeEvent(QEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void paintEvent(QPaintEvent *event) override;

private:
    enum class Fit { Readable, Whole, None }; ///< None: the user zoomed or panned
    void refit();
    void addFrames();
    [[nodiscard]] QRectF placeOf(const std::string &key) const; ///< null: neither a box nor a frame
    void describeCurrent();
    void addEdges(const PlainLayout &layout);
    void walk(bool forward);
    void step(int by);
    [[nodiscard]] int nodeAt(const QPoint &position) const;

    QGraphicsScene m_scene;
    VisibleGraph m_graph;
    std::vector<GraphNodeItem *> m_items; ///< owned by the scene
    std::vector<GraphFrameItem *> m_frames;
    std::vector<QGraphicsPathItem *> m_edges;
    std::string m_anchor;
    GraphOverview *m_overview;
    QRectF m_seen; ///< when it was last painted
    bool m_cards = false;
    int m_current = -1;
    Fit m_fit = Fit::Readable;
};

} // namespace planloom::ui
