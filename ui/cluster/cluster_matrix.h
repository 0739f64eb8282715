// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QImage>
#include <QWidget>

#include "engine/cluster/cluster.h"
#include "ui/state/cluster_parts.h"

#include <memory>
#include <string>
#include <vector>

namespace planloom::ui {

/// Ways between all devices of a cluster, by rows and columns: of at most 64 devices each, of more by node, of more
/// than 256 nodes by runs of nodes. A node stands for its first device, and on the diagonal for its first and last one;
/// a run stands for its first node, on the diagonal for its first and last one.
class ClusterMatrixData {
public:
    struct Row {
        std::string name; ///< "n0:g3", "n3", "n8 – n15"
        DeviceId first;   ///< that stands for it
        DeviceId last;    ///< its other end on the diagonal
        std::size_t devices = 1;
    };
    static constexpr std::size_t kMostDevices = 64;
    static constexpr std::size_t kMostNodes = 256;

    /// Cost: O(rows^2 * length of a way); at most 65,536 ways.
    explicit ClusterMatrixData(const cluster::Cluster &cluster);
    [[nodiscard]] const std::vector<Row> &rows() const { return m_rows; }
    [[nodiscard]] const Way &way(std::size_t row, std::size_t column) const
    {
        return m_ways[row * m_rows.size() + column];
    }
    /// The two devices that a cell is about.
    [[nodiscard]] std::pair<DeviceId, DeviceId> ends(std::size_t row, std::size_t column) const;
    /// The row that a device is in.
    [[nodiscard]] std::size_t rowOf(DeviceId device) const { return m_rowOf[device.index()]; }
    [[nodiscard]] bool byNode() const { return m_byNode; }

private:
    std::vector<Row> m_rows;
    std::vector<std::size_t> m_rowOf;
    std::vector<Way> m_ways;
    bool m_byNode = false;
};

/// Bandwidth or latency of the ways between devices: the darker the faster, with the figure where there is room, all
/// figures in the tool tip. Cells of ways over the selected link are marked, as are row and column of the selected
/// device. A click picks the slowest link of the cell's way, on the diagonal the device; arrows move, Enter picks.
/// Knows no state.
class ClusterMatrix final : public QWidget {
    Q_OBJECT

public:
    explicit ClusterMatrix(QWidget *parent = nullptr);
    void setCluster(std::shared_ptr<const cluster::Cluster> cluster); ///< worked out when it is first painted
    void setSelection(DeviceId device, int link);                     ///< -1: none
    void showLatency(bool latency);
    [[nodiscard]] QRectF cellOf(std::size_t row, std::size_t column) const;
    [[nodiscard]] QString describe(std::size_t row, std::size_t column) const;
    [[nodiscard]] const ClusterMatrixData *figures() const { return m_figures.get(); }
    [[nodiscard]] bool marked(std::size_t row, std::size_t column) const; ///< its way goes over the selected link
    [[nodiscard]] QSize minimumSizeHint() const override { return {160, 90}; }

Q_SIGNALS:
    void devicePicked(int device);
    void linkPicked(int link);

protected:
    void paintEvent(QPaintEvent *event) override;
    void mouseReleaseEvent(QMouseEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    bool event(QEvent *event) override;

private:
    void workOut();
    void draw();
    void markWays();
    void pick(std::size_t row, std::size_t column);
    void moveTo(std::ptrdiff_t down, std::ptrdiff_t across);
    [[nodiscard]] bool cellAt(const QPointF &pixel, std::size_t &row, std::size_t &column) const;
    [[nodiscard]] QRectF cellsArea() const;
    [[nodiscard]] QString note() const;
    void paintNames(QPainter &painter) const;
    void paintFigures(QPainter &painter) const;
    void paintSelection(QPainter &painter) const;

    std::shared_ptr<const cluster::Cluster> m_cluster;
    std::unique_ptr<ClusterMatrixData> m_figures; ///< null: none, or not worked out yet
    QImage m_picture;                             ///< a pixel a cell
    std::vector<bool> m_marked;                   ///< by cell; empty: none is
    DeviceId m_device;
    int m_link = -1;
    bool m_latency = false;
    std::size_t m_row = 0, m_column = 0; ///< the cell of the keyboard
};

} // namespace planloom::ui
