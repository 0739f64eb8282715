// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/wrap_layout.h"

#include <algorithm>

namespace planloom::ui {

namespace {
constexpr int kMostBetweenLines = 4; ///< pixels; rows of fields stand close in low panes
}

WrapLayout::WrapLayout(QWidget *parent, int spacing) : QLayout(parent)
{
    setContentsMargins(0, 0, 0, 0);
    setSpacing(spacing);
}

WrapLayout::~WrapLayout()
{
    for (const QLayoutItem *item : m_items)
        delete item;
}

void WrapLayout::addItem(QLayoutItem *item) { m_items.push_back(item); }

QLayoutItem *WrapLayout::itemAt(int index) const
{
    return index >= 0 && index < count() ? m_items[static_cast<std::size_t>(index)] : nullptr;
}

QLayoutItem *WrapLayout::takeAt(int index)
{
    QLayoutItem *item = itemAt(index);
    if (item != nullptr)
        m_items.erase(m_items.begin() + index);
    return item;
}

template <typename Place>
int WrapLayout::arrange(const QRect &area, const Place &place) const
{
    const QRect inside = area.marginsRemoved(contentsMargins());
    int x = inside.left();
    int y = inside.top();
    int height = 0;
    for (QLayoutItem *item : m_items) {
        if (item->isEmpty())
            continue;
        const int right = inside.left() + inside.width();
        if (x > inside.left() && x + item->sizeHint().width() > right) {
            x = inside.left();
            y += height + std::min(spacing(), kMostBetweenLines);
            height = 0;
        }
        const QSize size(std::min(item->sizeHint().width(), inside.width()), item->sizeHint().height());
        place(*item, QRect(QPoint(x, y), size));
        x += size.width() + spacing();
        height = std::max(height, size.height());
    }
    return y + height - area.top() + contentsMargins().bottom();
}

int WrapLayout::heightForWidth(int width) const
{
    return arrange(QRect(0, 0, width, 0), [](QLayoutItem &, const QRect &) {});
}

QSize WrapLayout::minimumSize() const
{
    QSize least(0, 0);
    for (const QLayoutItem *item : m_items)
        least = least.expandedTo(item->minimumSize());
    return least.grownBy(contentsMargins());
}

QSize WrapLayout::sizeHint() const
{
    QSize line(0, 0);
    for (const QLayoutItem *item : m_items) {
        if (item->isEmpty())
            continue;
        const QSize own = item->sizeHint();
        line = {line.width() + own.width() + (line.isEmpty() ? 0 : spacing()), std::max(line.height(), own.height())};
    }
    return line.grownBy(contentsMargins());
}

void WrapLayout::setGeometry(const QRect &area)
{
    QLayout::setGeometry(area);
    arrange(area, [](QLayoutItem &item, const QRect &place) { item.setGeometry(place); });
}

} // namespace planloom::ui
