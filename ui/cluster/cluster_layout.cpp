// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/cluster/cluster_layout.h"

#include <QLineF>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <utility>

namespace planloom::ui {

namespace {

using cluster::Cluster;
using cluster::Vertex;

constexpr std::size_t kRowLengths[] = {8, 4,
                                       2}; // devices: machines have eight; the first that fills the place best is taken
constexpr double kWorthIt = 1.1;           // a shorter row must make the picture larger by this
constexpr double kGap = 12;                // between devices
constexpr double kPadding = 12;            // inside a node's box
constexpr double kTitle = 22;
constexpr double kCollapsedWidth = 96; // of a node whose parts are not drawn
constexpr double kSwitchHeight = 22;
constexpr double kNicHeight = 18;
constexpr double kRowGap = 24;  // between the rows of a node, for the lines
constexpr double kNodeGap = 40; // between nodes, for the lines to the network
constexpr double kNetworkHeight = 26;
constexpr double kBow = 26; // how far a line from device to device hangs below them

/// The parts of one node, as indices of vertices.
struct Parts {
    std::vector<std::size_t> devices, switches, nics;
};

struct Box {
    double width = 0;
    double height = 0;
};

class Layouter {
public:
    Layouter(const Cluster &cluster, double aspect, std::size_t inRow, bool collapsed)
        : m_cluster(cluster),
          m_aspect(aspect),
          m_collapsed(collapsed),
          m_mostInRow(inRow),
          m_parts(cluster.nodes().size())
    {
    }

    /// How large the picture comes out in a place of width @p aspect and height 1.
    double scale()
    {
        sortParts();
        measure();
        return std::min(m_aspect / m_layout.bounds.width(), 1 / m_layout.bounds.height());
    }

    /// After scale().
    ClusterLayout run()
    {
        placeNodes();
        placeNetworks();
        for (const cluster::Link &link : m_cluster.links())
            connect(link);
        for (const QPolygonF &line : m_layout.links)
            m_layout.linkBoxes.push_back(line.boundingRect());
        return std::move(m_layout);
    }

private:
    void sortParts()
    {
        for (std::size_t v = 0; v < m_cluster.vertices().size(); ++v) {
            const Vertex &vertex = m_cluster.vertices()[v];
            if (!vertex.node.valid() || vertex.kind == Vertex::Kind::Network) {
                m_networks.push_back(v);
                continue;
            }
            Parts &parts = m_parts[vertex.node.index()];
            (vertex.kind == Vertex::Kind::Device    ? parts.devices
                 : vertex.kind == Vertex::Kind::Nic ? parts.nics
                                                    : parts.switches)
                .push_back(v);
        }
        for (const cluster::Link &link : m_cluster.links())
            m_bows = m_bows || bows(link);
    }

    [[nodiscard]] bool isDevice(std::size_t vertex) const
    {
        return m_cluster.vertices()[vertex].kind == Vertex::Kind::Device;
    }
    [[nodiscard]] bool sameNode(const cluster::Link &link) const
    {
        const NodeId a = m_cluster.vertices()[link.a].node;
        return a.valid() && a == m_cluster.vertices()[link.b].node;
    }
    [[nodiscard]] bool bows(const cluster::Link &link) const
    {
        return isDevice(link.a) && isDevice(link.b) && sameNode(link);
    }

    [[nodiscard]] Box sizeOf(const Parts &parts) const
    {
        if (m_collapsed)
            return {kCollapsedWidth, ClusterLayout::kDeviceHeight};
        const auto across = static_cast<double>(std::clamp<std::size_t>(parts.devices.size(), 1, m_mostInRow));
        const auto rows = static_cast<double>((parts.devices.size() + m_mostInRow - 1) / m_mostInRow);
        Box box{2 * kPadding + across * ClusterLayout::kDeviceWidth + (across - 1) * kGap, kTitle + kPadding};
        if (!parts.nics.empty())
            box.height += kNicHeight + kRowGap;
        if (!parts.switches.empty())
            box.height += kSwitchHeight + kRowGap;
        box.height += rows * ClusterLayout::kDeviceHeight + (rows - 1) * kGap + (m_bows ? kBow : 0);
        return box;
    }

    /// All nodes get the size of the largest, so that they stand in columns.
    void measure()
    {
        for (const Parts &parts : m_parts) {
            const Box box = sizeOf(parts);
            m_node.width = std::max(m_node.width, box.width);
            m_node.height = std::max(m_node.height, box.height);
        }
        const auto count = static_cast<double>(m_parts.size());
        const double columns =
            std::round(std::sqrt(count * m_aspect * (m_node.height + kNodeGap) / (m_node.width + kNodeGap)));
        m_columns = static_cast<std::size_t>(std::clamp(columns, 1.0, count));
        m_rows = (m_parts.size() + m_columns - 1) / m_columns;
        const double networks = m_networks.empty() ? 0 : kNetworkHeight;
        const double width = static_cast<double>(m_columns) * (m_node.width + kNodeGap) + kNodeGap;
        m_layout.bounds =
            QRectF(0, 0, width, networks + static_cast<double>(m_rows) * (m_node.height + kNodeGap) + kNodeGap / 2);
    }

    void placeNodes()
    {
        m_layout.vertices.resize(m_cluster.vertices().size());
        const double top = m_networks.empty() ? kNodeGap / 2 : kNetworkHeight + kNodeGap;
        for (std::size_t n = 0; n < m_parts.size(); ++n) {
            const auto column = static_cast<double>(n % m_columns);
            const auto row = static_cast<double>(n / m_columns);
            const QRectF box(kNodeGap + column * (m_node.width + kNodeGap), top + row * (m_node.height + kNodeGap),
                             m_node.width, m_node.height);
            m_layout.nodes.push_back(box);
            if (m_collapsed)
                pile(box.center(), m_parts[n]);
            else
                fill(box, m_parts[n]);
        }
    }

    void pile(const QPointF &middle, const Parts &parts)
    {
        for (const auto *each : {&parts.devices, &parts.switches, &parts.nics}) {
            for (const std::size_t vertex : *each)
                m_layout.vertices[vertex] = QRectF(middle - QPointF(1, 1), QSizeF(2, 2));
        }
    }

    void fill(const QRectF &box, const Parts &parts)
    {
        double y = box.top() + kTitle;
        if (!parts.nics.empty()) {
            spread(parts.nics, box, y, {48, kNicHeight});
            y += kNicHeight + kRowGap;
        }
        if (!parts.switches.empty()) {
            spread(parts.switches, box, y, {120, kSwitchHeight});
            y += kSwitchHeight + kRowGap;
        }
        for (std::size_t i = 0; i < parts.devices.size(); i += m_mostInRow) {
            const auto end =
                parts.devices.begin() + static_cast<std::ptrdiff_t>(std::min(i + m_mostInRow, parts.devices.size()));
            spread({parts.devices.begin() + static_cast<std::ptrdiff_t>(i), end}, box, y,
                   {ClusterLayout::kDeviceWidth, ClusterLayout::kDeviceHeight});
            y += ClusterLayout::kDeviceHeight + kGap;
        }
    }

    /// Evenly over the width of the node.
    void spread(const std::vector<std::size_t> &vertices, const QRectF &box, double y, const Box &wanted)
    {
        const double pitch = (box.width() - 2 * kPadding + kGap) / static_cast<double>(vertices.size());
        const double width = std::min(wanted.width, pitch - kGap / 2);
        for (std::size_t i = 0; i < vertices.size(); ++i) {
            const double middle = box.left() + kPadding - kGap / 2 + (static_cast<double>(i) + 0.5) * pitch;
            m_layout.vertices[vertices[i]] = QRectF(middle - width / 2, y, width, wanted.height);
        }
    }

    void placeNetworks()
    {
        const double width = m_layout.bounds.width() - 2 * kNodeGap;
        const double pitch = width / static_cast<double>(std::max<std::size_t>(m_networks.size(), 1));
        for (std::size_t i = 0; i < m_networks.size(); ++i) {
            const double gap = m_networks.size() > 1 ? std::min(kGap, pitch / 4) : 0;
            m_layout.vertices[m_networks[i]] =
                QRectF(kNodeGap + static_cast<double>(i) * pitch, kNodeGap / 4, pitch - gap, kNetworkHeight);
        }
    }

    /// Whether it is the first one between its nodes or networks, which are drawn as one where nodes show counts.
    bool isFirst(const cluster::Link &link)
    {
        const auto end = [this](std::size_t vertex) {
            const NodeId node = m_cluster.vertices()[vertex].node;
            return node.valid() ? -1 - static_cast<std::int64_t>(node.value) : static_cast<std::int64_t>(vertex);
        };
        return m_joined.insert(std::minmax(end(link.a), end(link.b))).second;
    }

    void connect(const cluster::Link &link)
    {
        const bool leaves = !sameNode(link);
        m_layout.between.push_back(leaves);
        m_layout.first.push_back(leaves && isFirst(link));
        const QPointF a = m_layout.vertices[link.a].center();
        const QPointF b = m_layout.vertices[link.b].center();
        const NodeId nodeA = m_cluster.vertices()[link.a].node;
        const NodeId nodeB = m_cluster.vertices()[link.b].node;
        if (bows(link) && !m_collapsed)
            m_layout.links.push_back(bow(a, b));
        else if (nodeA.valid() && !nodeB.valid())
            m_layout.links.push_back(toNetwork(a, nodeA, m_layout.vertices[link.b]));
        else if (nodeB.valid() && !nodeA.valid())
            m_layout.links.push_back(toNetwork(b, nodeB, m_layout.vertices[link.a]));
        else
            m_layout.links.push_back({a, b});
    }

    /// Hangs below the row of devices, the further apart they are the lower.
    [[nodiscard]] QPolygonF bow(const QPointF &a, const QPointF &b) const
    {
        constexpr int kPieces = 12;
        const double low =
            ClusterLayout::kDeviceHeight / 2 + kBow * std::min(1.0, QLineF(a, b).length() / m_node.width + 0.2);
        QPolygonF line;
        for (int i = 0; i <= kPieces; ++i) {
            const double t = static_cast<double>(i) / kPieces;
            const QPointF straight = a + (b - a) * t;
            line << QPointF(straight.x(), straight.y() + low * std::min(1.0, 4 * std::min(t, 1 - t)));
        }
        return line;
    }

    /// Up out of the node; from the second row of nodes on through the channel left of the column, so that no other
    /// node is crossed.
    [[nodiscard]] QPolygonF toNetwork(const QPointF &from, NodeId node, const QRectF &network) const
    {
        const std::size_t row = node.index() / m_columns;
        const QRectF &box = m_layout.nodes[node.index()];
        double x = from.x();
        QPolygonF line{from};
        if (row > 0) {
            const double above = box.top() - kNodeGap / 4;
            line << QPointF(x, above);
            x = box.left() - kNodeGap * static_cast<double>(row) / static_cast<double>(m_rows + 1);
            line << QPointF(x, above);
        }
        if (network.left() <= x && x <= network.right())
            return line << QPointF(x, network.bottom());
        const double below = network.bottom() + kNodeGap / 4;
        return line << QPointF(x, below) << QPointF(network.center().x(), below)
                    << QPointF(network.center().x(), network.bottom());
    }

    const Cluster &m_cluster;
    double m_aspect;
    bool m_collapsed;
    std::size_t m_mostInRow;
    std::vector<Parts> m_parts;
    std::vector<std::size_t> m_networks;
    std::set<std::pair<std::int64_t, std::int64_t>> m_joined;
    bool m_bows = false;
    Box m_node;
    std::size_t m_columns = 1;
    std::size_t m_rows = 1;
    ClusterLayout m_layout;
};

double distanceToPiece(const QPointF &a, const QPointF &b, const QPointF &point)
{
    const QPointF along = b - a;
    const double length = QPointF::dotProduct(along, along);
    const double t = length > 0 ? std::clamp(QPointF::dotProduct(point - a, along) / length, 0.0, 1.0) : 0.0;
    return QLineF(a + along * t, point).length();
}

} // namespace

ClusterLayout layOut(const cluster::Cluster &cluster, double aspect, bool collapsed)
{
    std::unique_ptr<Layouter> best;
    double largest = 0;
    for (const std::size_t inRow : kRowLengths) {
        auto layouter = std::make_unique<Layouter>(cluster, aspect, inRow, collapsed);
        const double scale = layouter->scale();
        if (scale <= largest * kWorthIt)
            continue;
        best = std::move(layouter);
        largest = scale;
    }
    return best->run();
}

double distance(const QPolygonF &line, const QPointF &point)
{
    double nearest = std::numeric_limits<double>::max();
    for (qsizetype i = 1; i < line.size(); ++i)
        nearest = std::min(nearest, distanceToPiece(line[i - 1], line[i], point));
    return nearest;
}

} // namespace planloom::ui
