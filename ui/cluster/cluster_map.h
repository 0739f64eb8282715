// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPixmap>
#include <QPoint>
#include <QStringList>
#include <QTimer>
#include <QWidget>

#include "ui/cluster/cluster_layout.h"
#include "ui/cluster/cluster_part.h"

#include <memory>
#include <optional>
#include <vector>

namespace planloom::ui {

/// "48 GB/s".
QString linkRateText(double bytesPerSecond);

/// The cluster as a picture: networks, nodes, devices in their stages' colours, links as wide as they are fast. Drag
/// pans, ctrl-wheel zooms, Space fits, arrows walk over the devices. Where devices get too small, or nodes are
/// collapsed, nodes show counts. Knows no state.
class ClusterMap final : public QWidget {
    Q_OBJECT

public:
    using ClusterPtr = std::shared_ptr<const cluster::Cluster>;

    explicit ClusterMap(QWidget *parent = nullptr);

    void setCluster(const ClusterPtr &cluster);
    /// @p stages: by device, -1 for idle ones.
    void setStages(std::vector<std::vector<int>> stages); ///< per device, in the order of the pipeline
    void setSelection(DeviceId device, int stage);
    void setLink(int link);                    ///< highlighted; -1: none
    void setPart(const ClusterPart &part);     ///< a node or vertex that is highlighted; others: none is
    void setFailed(std::vector<bool> devices); ///< crossed out, by device
    void setCollapsed(bool collapsed);         ///< nodes are small boxes, whatever their devices
    [[nodiscard]] bool collapsed() const { return m_collapsed; }
    /// The next click, or Enter on the selected device, emits linkEndPicked(); a line follows the mouse from @p vertex.
    /// Esc ends it, as does -1.
    void setLinkFrom(int vertex);
    [[nodiscard]] int linkFrom() const { return m_linkFrom; }
    [[nodiscard]] ClusterPart partAt(const QPointF &pixel) const;
    void fit();
    /// Where a switch, card, network or device is drawn, in widget coordinates.
    [[nodiscard]] QRectF boxOfVertex(std::size_t vertex) const { return toPixel(m_layout.vertices[vertex]); }
    [[nodiscard]] QRectF boxOfNode(NodeId node) const { return toPixel(m_layout.nodes[node.index()]); }
    /// Where a device is drawn, in widget coordinates.
    [[nodiscard]] QRectF boxOf(DeviceId device) const;
    /// A point of a link that nothing lies over, where there is one.
    [[nodiscard]] QPointF handleOf(std::size_t link) const;
    [[nodiscard]] double scale() const { return m_scale; }
    [[nodiscard]] bool aggregated() const; ///< nodes show counts instead of devices
    [[nodiscard]] QString describeLink(std::size_t link) const;
    [[nodiscard]] QString describeDevice(DeviceId device) const;
    [[nodiscard]] QSize minimumSizeHint() const override { return {200, 70}; }
    [[nodiscard]] QSize sizeHint() const override { return {480, 320}; }

Q_SIGNALS:
    void devicePicked(int device);
    void linkPicked(int link);
    void vertexPicked(int vertex); ///< not of a device
    void nodePicked(int node);
    void linkEndPicked(int vertex);
    void menuAsked(const QPoint &globalPosition); ///< for what was picked just before
    void cleared();

protected:
    void paintEvent(QPaintEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void mouseMoveEvent(QMouseEvent *event) override;
    void mouseReleaseEvent(QMouseEvent *event) override;
    void wheelEvent(QWheelEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    void contextMenuEvent(QContextMenuEvent *event) override;
    void focusInEvent(QFocusEvent *event) override;
    void focusOutEvent(QFocusEvent *event) override;
    void leaveEvent(QEvent *event) override;
    bool event(QEvent *event) override;

private:
    void redraw();                         ///< m_picture, too
    [[nodiscard]] bool drawnAhead() const; ///< from m_picture: there is too much to draw for every movement
    void moved(); ///< by the user; the picture goes along as it is, and is drawn anew when the movement is over
    void arrange();
    void place();
    void zoom(double factor, const QPointF &around);
    [[nodiscard]] QRectF drawingArea() const;
    [[nodiscard]] QPointF toLayout(const QPointF &pixel) const { return (pixel - m_origin) / m_scale; }
    [[nodiscard]] QPointF toPixel(const QPointF &point) const { return point * m_scale + m_origin; }
    [[nodiscard]] QRectF toPixel(const QRectF &box) const { return {toPixel(box.topLeft()), box.size() * m_scale}; }
    [[nodiscard]] int nodeAt(const QPointF &pixel) const;
    [[nodiscard]] DeviceId deviceAt(const QPointF &pixel) const;
    [[nodiscard]] int linkAt(const QPointF &pixel) const;
    [[nodiscard]] bool linkShown(std::size_t link) const;
    [[nodiscard]] QString describe(const QPointF &pixel) const;
    [[nodiscard]] QString describeNode(std::size_t node) const;
    [[nodiscard]] int vertexAt(const QPointF &pixel) const;
    [[nodiscard]] QString describeVertex(std::size_t vertex) const;
    void pick(const ClusterPart &part);
    void endLink(const ClusterPart &part);
    void walk(int dx, int dy);
    void describeForReaders();

    // cluster_map_paint.cpp
    [[nodiscard]] double penWidth(std::size_t link) const;
    void paintMap(QPainter &painter) const;
    /// paintMap(), from m_picture where nodes show counts: thousands of them take longer than a movement of the mouse.
    void paintPicture(QPainter &painter);
    void paintMarkedLinks(QPainter &painter) const;
    void paintLinks(QPainter &painter) const;
    void paintLink(QPainter &painter, std::size_t link) const;
    void paintNodes(QPainter &painter) const;
    void paintCount(QPainter &painter, std::size_t node) const;
    void paintNetworks(QPainter &painter) const;
    void paintVertex(QPainter &painter, std::size_t vertex) const;
    void paintDevice(QPainter &painter, DeviceId device) const;
    void paintFailed(QPainter &painter, const QRectF &box) const;
    void paintPart(QPainter &painter) const;
    void paintNewLink(QPainter &painter) const;
    [[nodiscard]] bool failed(DeviceId device) const
    {
        return device.index() < m_failed.size() && m_failed[device.index()];
    }
    [[nodiscard]] QStringList legendTexts() const; ///< by kind of link; empty where there is none
    int legend(QPainter *painter) const;
    [[nodiscard]] int legendHeight() const;

    ClusterPtr m_cluster;
    ClusterLayout m_layout;
    [[nodiscard]] const std::vector<int> &stagesOn(DeviceId device) const;
    std::vector<std::vector<int>> m_stages;
    QStringList m_legend;
    double m_slowest = 1; ///< bandwidths of the links
    double m_fastest = 1;
    double m_scale = 1;   ///< pixels per unit of the layout
    QPointF m_origin;     ///< pixel of the layout's (0, 0)
    bool m_fitted = true; ///< until the user zooms or pans
    DeviceId m_device;
    int m_stage = -1;
    int m_link = -1;
    int m_hoverLink = -1;
    ClusterPart m_part;
    std::vector<bool> m_failed; ///< by device; missing: none has
    bool m_collapsed = false;
    int m_linkFrom = -1; ///< a vertex that a new link begins at
    QPixmap m_picture;   ///< the map without selection and hover
    bool m_stale = true; ///< m_picture is to be drawn anew
    double m_pictureScale = 1;
    QPointF m_pictureOrigin; ///< where m_scale and m_origin were when it was drawn
    QTimer m_sharpen;
    bool m_pressed = false;
    bool m_panned = false;
    QPoint m_press;
    QPoint m_last;
};

} // namespace planloom::ui
