// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/tensor_bands.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QCoreApplication>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>

#include <algorithm>
#include <array>
#include <utility>

namespace planloom::ui {
namespace {

using Where = simulate::Stay::Where;

/// How a state is drawn.
struct Style {
    Where where;
    const char *text;
    Qt::BrushStyle brush;
    int series; ///< colour of the theme
    double height;
};
constexpr std::array kStyles{
    Style{Where::Device, QT_TRANSLATE_NOOP("TensorBands", "on the device"), Qt::SolidPattern, 0, 1},
    Style{Where::Leaving, QT_TRANSLATE_NOOP("TensorBands", "on its way out"), Qt::BDiagPattern, 1, 1},
    Style{Where::Host, QT_TRANSLATE_NOOP("TensorBands", "on the host"), Qt::Dense5Pattern, 2, 0.4},
    Style{Where::Coming, QT_TRANSLATE_NOOP("TensorBands", "on its way back"), Qt::FDiagPattern, 1, 1},
    Style{Where::Dropped, QT_TRANSLATE_NOOP("TensorBands", "dropped, made again"), Qt::NoBrush, 5, 0.4},
};

const Style &styleOf(Where where) { return kStyles[static_cast<std::size_t>(where)]; }

QString textOf(Where where) { return QCoreApplication::translate("TensorBands", styleOf(where).text); }

void paintBand(QPainter &painter, const QRectF &row, Where where)
{
    const Style &style = styleOf(where);
    const QColor color = theme().ofSeries(style.series);
    const double cut = row.height() * (1 - style.height) / 2;
    const QRectF band = row.adjusted(0, 1 + cut, 0, -1 - cut);
    if (style.brush == Qt::SolidPattern) {
        painter.fillRect(band, color);
        return;
    }
    painter.setPen(QPen(color, 1, style.brush == Qt::NoBrush ? Qt::DashLine : Qt::SolidLine));
    painter.setBrush(style.brush == Qt::NoBrush ? QBrush() : QBrush(color, style.brush));
    painter.drawRect(band.adjusted(0, 0, band.width() > 1 ? -1 : 0, -1));
}

} // namespace

TensorBands::TensorBands(QWidget *parent) : QAbstractScrollArea(parent)
{
    setFocusPolicy(Qt::StrongFocus);
    setAccessibleName(tr("Where each tensor is that a memory policy moves"));
    setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    viewport()->setMouseTracking(true);
}

void TensorBands::set(std::shared_ptr<const MemoryMoves> moves, DeviceId device)
{
    if (moves != m_moves)
        m_picked.reset();
    m_moves = std::move(moves);
    m_isOfAll = !device.valid();
    m_rows.clear();
    for (std::size_t t = 0; m_moves && t < m_moves->tensors.size(); ++t)
        if (!device.valid() || m_moves->tensors[t].device == device)
            m_rows.push_back(t);
    setAccessibleDescription(tr("%1 tensors").arg(m_rows.size()));
    if (m_picked && std::find(m_rows.begin(), m_rows.end(), *m_picked) == m_rows.end())
        m_picked.reset();
    measure();
    viewport()->update();
}

void TensorBands::measure()
{
    const int room = viewport()->height() - headHeight();
    verticalScrollBar()->setRange(0, std::max(0, rows() * rowHeight() - room));
    verticalScrollBar()->setPageStep(room);
    verticalScrollBar()->setSingleStep(rowHeight());
}

QRect TensorBands::rowRect(int row) const
{
    return {0, headHeight() + row * rowHeight() - verticalScrollBar()->value(), viewport()->width(), rowHeight()};
}

int TensorBands::rowAt(int y) const
{
    const int below = y - headHeight();
    const int row = below < 0 ? -1 : (below + verticalScrollBar()->value()) / rowHeight();
    return row < rows() ? row : -1;
}

double TensorBands::xOf(std::int64_t time) const
{
    const double end = static_cast<double>(std::max<std::int64_t>(1, m_moves->end));
    return nameWidth() + (viewport()->width() - nameWidth() - 4) * static_cast<double>(time) / end;
}

void TensorBands::mark(std::optional<std::size_t> tensor)
{
    m_picked = tensor;
    const auto found = tensor ? std::find(m_rows.begin(), m_rows.end(), *tensor) : m_rows.end();
    if (found != m_rows.end()) {
        const QRect rect = rowRect(static_cast<int>(found - m_rows.begin()));
        if (rect.top() < headHeight())
            verticalScrollBar()->setValue(verticalScrollBar()->value() + rect.top() - headHeight());
        else if (rect.bottom() >= viewport()->height())
            verticalScrollBar()->setValue(verticalScrollBar()->value() + rect.bottom() - viewport()->height() + 1);
    }
    viewport()->update();
}

void TensorBands::paintEvent(QPaintEvent *)
{
    QPainter painter(viewport());
    painter.fillRect(viewport()->rect(), theme().base);
    if (rows() == 0) {
        painter.setPen(theme().dimText);
        painter.drawText(viewport()->rect().adjusted(8, 0, -8, 0), Qt::AlignCenter | Qt::TextWordWrap,
                         m_isOfAll
                             ? tr("No tensor leaves its device: choose a memory policy and a smaller budget above.")
                             : tr("No tensor leaves this device: choose a memory policy and a smaller budget above."));
        return;
    }
    const int first = verticalScrollBar()->value() / rowHeight();
    for (int row = first; row < rows() && rowRect(row).top() < viewport()->height(); ++row)
        paintRow(painter, row);
    paintLegend(painter);
}

void TensorBands::paintRow(QPainter &painter, int row) const
{
    const MemoryMoves::Tensor &tensor = m_moves->tensors[tensorOf(row)];
    const QRect rect = rowRect(row);
    const bool picked = m_picked == tensorOf(row);
    if (picked)
        painter.fillRect(rect, theme().accent);
    else if (row % 2 == 1)
        painter.fillRect(rect, theme().alternateBase);
    painter.setPen(picked ? theme().accentText : theme().text);
    const QString name =
        tensor.microBatch < 0 ? tensor.name : QStringLiteral("%1 · %2").arg(tensor.name).arg(tensor.microBatch);
    painter.drawText(rect.adjusted(4, 0, nameWidth() - 4 - rect.width(), 0), Qt::AlignVCenter | Qt::AlignLeft,
                     fontMetrics().elidedText(beginningOf(name), Qt::ElideLeft, nameWidth() - 8));
    if (picked) // textures read on the base alone
        painter.fillRect(rect.adjusted(nameWidth(), 1, -1, -1), theme().base);
    for (const simulate::Stay &stay : tensor.stays) {
        const double left = xOf(stay.begin);
        paintBand(painter, {left, double(rect.top()), std::max(1.0, xOf(stay.end) - left), double(rect.height())},
                  stay.where);
    }
}

void TensorBands::paintLegend(QPainter &painter) const
{
    const QRect head(0, 0, viewport()->width(), headHeight());
    painter.fillRect(head, theme().window);
    constexpr int kSwatch = 22;
    int x = 6;
    for (const Style &style : kStyles) {
        const QString text = textOf(style.where);
        const int width = fontMetrics().horizontalAdvance(text);
        if (x + kSwatch + width + 6 > head.width())
            break;
        painter.fillRect(QRect(x, 4, kSwatch, head.height() - 8), theme().base);
        paintBand(painter, QRectF(x, 4, kSwatch, head.height() - 8), style.where);
        painter.setPen(theme().text);
        painter.drawText(QRect(x + kSwatch + 4, 0, width + 4, head.height()), Qt::AlignVCenter, text);
        x += kSwatch + width + 18;
    }
    painter.setPen(theme().border);
    painter.drawLine(0, head.bottom(), head.width(), head.bottom());
}

void TensorBands::pick(int row)
{
    if (row < 0 || row >= rows())
        return;
    mark(tensorOf(row));
    Q_EMIT tensorPicked(tensorOf(row));
}

void TensorBands::mousePressEvent(QMouseEvent *event) { pick(rowAt(event->pos().y())); }

void TensorBands::keyPressEvent(QKeyEvent *event)
{
    const int step = event->key() == Qt::Key_Up ? -1 : event->key() == Qt::Key_Down ? 1 : 0;
    if (step == 0)
        return QAbstractScrollArea::keyPressEvent(event);
    const auto found = m_picked ? std::find(m_rows.begin(), m_rows.end(), *m_picked) : m_rows.end();
    pick(found == m_rows.end() ? 0 : static_cast<int>(found - m_rows.begin()) + step);
}

void TensorBands::resizeEvent(QResizeEvent *event)
{
    QAbstractScrollArea::resizeEvent(event);
    measure();
}

QString TensorBands::textAt(const QPoint &point) const
{
    const int row = rowAt(point.y());
    if (row < 0)
        return {};
    const MemoryMoves::Tensor &tensor = m_moves->tensors[tensorOf(row)];
    const QString maker = tensor.op.isEmpty() ? tr("task %1").arg(qt(tensor.made)) : tensor.op;
    QString text = tensor.microBatch < 0
        ? tr("parameter %1, %2, brought by %3").arg(tensor.name, bytesText(tensor.bytes), maker)
        : tr("%1 of micro-batch %2, %3, made by %4")
              .arg(tensor.name)
              .arg(tensor.microBatch)
              .arg(bytesText(tensor.bytes), maker);
    for (const simulate::Stay &stay : tensor.stays)
        if (xOf(stay.begin) <= point.x() && point.x() < xOf(stay.end))
            text += tr("\n%1 from %2 to %3").arg(textOf(stay.where), instantText(stay.begin), instantText(stay.end));
    return text;
}

bool TensorBands::viewportEvent(QEvent *event)
{
    if (event->type() != QEvent::ToolTip)
        return QAbstractScrollArea::viewportEvent(event);
    const auto *help = static_cast<QHelpEvent *>(event);
    QToolTip::showText(help->globalPos(), textAt(help->pos()), viewport());
    return true;
}

} // namespace planloom::ui
