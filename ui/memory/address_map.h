// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QPixmap>
#include <QWidget>

#include "ui/memory/live_device.h"

#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace planloom::ui {

/// The memory of a device: addresses over time, a rectangle for each buffer, hatched where no buffer lies (holes).
/// Buffers that are too small to be seen are drawn together with their neighbours in the same slot. Ctrl+wheel zooms
/// the time, Ctrl+Shift+wheel the addresses, the wheel and dragging move; 0 and a double click show all. Cost of a
/// paint: O(buffers) after a change, else a copy of the picture.
class AddressMap final : public QWidget {
    Q_OBJECT

public:
    explicit AddressMap(QWidget *parent = nullptr);
    /// Null: nothing is shown but @p why.
    void set(std::shared_ptr<const LiveDevice> live, const QString &why = {});
    [[nodiscard]] const std::shared_ptr<const LiveDevice> &live() const { return m_live; }
    void setMoment(double seconds);                       ///< of the line
    void mark(std::optional<std::size_t> block);          ///< outlines a buffer
    void fit();                                           ///< shows all
    [[nodiscard]] QRectF rectOf(std::size_t block) const; ///< in the widget; empty: it is not in sight
    [[nodiscard]] std::optional<std::size_t> blockAt(const QPointF &place) const;
    [[nodiscard]] QString textAt(const QPointF &place) const; ///< of the buffer or hole there; empty: neither
    [[nodiscard]] int painted() const { return m_painted; }   ///< rectangles of the newest picture
    [[nodiscard]] QSize minimumSizeHint() const override { return {150, 100}; }
    [[nodiscard]] QSize sizeHint() const override { return {420, 240}; }

Q_SIGNALS:
    void momentPicked(double seconds);
    void blockPicked(std::size_t block);

protected:
    void paintEvent(QPaintEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void mouseMoveEvent(QMouseEvent *event) override;
    void mouseReleaseEvent(QMouseEvent *event) override;
    void mouseDoubleClickEvent(QMouseEvent *event) override;
    void wheelEvent(QWheelEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    void changeEvent(QEvent *event) override;
    bool event(QEvent *event) override;

private:
    /// A stretch of one axis that is in sight, of [0, whole].
    struct Axis {
        double whole = 1;
        double from = 0;
        double to = 1;
        void reset(double length);
        void zoom(double factor, double share); ///< about the point at @p share of what is in sight
        void move(double by);                   ///< in shares of what is in sight
    };

    [[nodiscard]] QRectF plot() const;
    [[nodiscard]] double xOf(double seconds) const;
    [[nodiscard]] double yOf(double address) const;
    [[nodiscard]] double secondsAt(double x) const;
    [[nodiscard]] double addressAt(double y) const;
    [[nodiscard]] QRectF placeOf(const simulate::LiveBlock &first, const simulate::LiveBlock &last) const;
    void pick(const QPointF &place);
    void redraw();
    void paintBlocks(QPainter &painter);
    void paintBlock(QPainter &painter, const QRectF &place, const simulate::LiveBlock &block);
    void paintAxes(QPainter &painter) const;
    void paintLegend(QPainter &painter) const;

    std::shared_ptr<const LiveDevice> m_live;
    QString m_why;
    Axis m_time;      ///< seconds
    Axis m_addresses; ///< bytes
    double m_moment = 0;
    std::optional<std::size_t> m_marked;
    std::array<bool, simulate::kBlockKinds> m_there{}; ///< kinds of blocks that have a place
    QPixmap m_picture;                                 ///< null: to be painted
    int m_painted = 0;
    QPointF m_press;
    QPointF m_last;
    bool m_pressed = false;
    bool m_dragged = false;
};

} // namespace planloom::ui
