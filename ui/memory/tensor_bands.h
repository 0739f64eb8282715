// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractScrollArea>

#include "ui/state/memory_moves.h"

#include <memory>
#include <optional>
#include <vector>

namespace planloom::ui {

/// A row for each tensor that a memory policy moves: where it is over the iteration. Only rows in sight are painted.
/// The states differ in texture and outline as well as in colour. Up and Down go from row to row.
class TensorBands final : public QAbstractScrollArea {
    Q_OBJECT

public:
    explicit TensorBands(QWidget *parent = nullptr);
    /// The tensors of @p device; without a valid one all. Null: none.
    void set(std::shared_ptr<const MemoryMoves> moves, DeviceId device);
    [[nodiscard]] int rows() const { return static_cast<int>(m_rows.size()); }
    /// Number of the tensor in a row.
    [[nodiscard]] std::size_t tensorOf(int row) const { return m_rows[static_cast<std::size_t>(row)]; }
    /// Where row @p row is painted, in the viewport.
    [[nodiscard]] QRect rowRect(int row) const;
    /// Marks and shows the row of a tensor of MemoryMoves without tensorPicked() being sent.
    void mark(std::optional<std::size_t> tensor);
    /// What is said of the point: the tensor and its state there. Empty: nothing.
    [[nodiscard]] QString textAt(const QPoint &point) const;
    [[nodiscard]] QSize sizeHint() const override { return {360, 160}; }

Q_SIGNALS:
    void tensorPicked(std::size_t tensor);

protected:
    void paintEvent(QPaintEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    bool viewportEvent(QEvent *event) override;

private:
    void pick(int row);
    void measure();
    void paintRow(QPainter &painter, int row) const;
    void paintLegend(QPainter &painter) const;
    [[nodiscard]] int rowHeight() const { return fontMetrics().height() + 4; }
    [[nodiscard]] int headHeight() const { return fontMetrics().height() + 10; }
    [[nodiscard]] int rowAt(int y) const; ///< -1: none
    [[nodiscard]] int nameWidth() const { return viewport()->width() / 4; }
    [[nodiscard]] double xOf(std::int64_t time) const;

    std::shared_ptr<const MemoryMoves> m_moves;
    bool m_isOfAll = true;           ///< of all devices
    std::vector<std::size_t> m_rows; ///< tensors
    std::optional<std::size_t> m_picked;
};

} // namespace planloom::ui
