// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/scrolled_canvas.h"

#include <algorithm>

namespace planloom::ui {

namespace {

constexpr int kScrollUnits = 10'000; // of the horizontal scroll bar

} // namespace

ScrolledCanvas::ScrolledCanvas(const TimelineModel &model, TimelineCanvas *canvas, QWidget *below, QWidget *parent)
    : QWidget(parent),
      m_model(model),
      m_canvas(canvas),
      m_vertical(new QScrollBar(Qt::Vertical, this)),
      m_horizontal(new QScrollBar(Qt::Horizontal, this))
{
    auto *grid = new QGridLayout(this);
    grid->setContentsMargins(0, 0, 0, 0);
    grid->setSpacing(0);
    grid->addWidget(canvas, 0, 0);
    grid->addWidget(m_vertical, 0, 1);
    grid->addWidget(m_horizontal, 1, 0);
    grid->addWidget(below, 2, 0, 1, 2);
    connect(canvas, &TimelineCanvas::viewChanged, this, &ScrolledCanvas::refresh);
    connect(m_vertical, &QScrollBar::valueChanged, this, [this](int y) {
        if (!m_refreshing)
            m_canvas->viewport().setScroll(y);
    });
    connect(m_horizontal, &QScrollBar::valueChanged, this, &ScrolledCanvas::pan);
}

void ScrolledCanvas::pan(int value)
{
    if (m_refreshing)
        return;
    const TimeAxis &axis = m_canvas->viewport().axis();
    const auto whole = static_cast<double>(axis.boundsEnd() - axis.boundsBegin());
    m_canvas->viewport().setBegin(static_cast<double>(axis.boundsBegin()) + whole * value / kScrollUnits);
}

void ScrolledCanvas::refresh()
{
    m_refreshing = true;
    const TimelineViewport &viewport = m_canvas->viewport();
    const TimeAxis &axis = viewport.axis();
    m_vertical->setRange(0, std::max(0, m_model.layout().height() - viewport.rows().height()));
    m_vertical->setPageStep(viewport.rows().height());
    m_vertical->setValue(viewport.scroll());
    const double whole = std::max(1.0, static_cast<double>(axis.boundsEnd() - axis.boundsBegin()));
    const int page = std::clamp(static_cast<int>(axis.span() / whole * kScrollUnits), 1, kScrollUnits);
    m_horizontal->setRange(0, kScrollUnits - page);
    m_horizontal->setPageStep(page);
    m_horizontal->setSingleStep(std::max(page / 10, 1));
    m_horizontal->setValue(
        static_cast<int>((axis.begin() - static_cast<double>(axis.boundsBegin())) / whole * kScrollUnits));
    m_refreshing = false;
}

} // namespace planloom::ui
