// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/model/graph_page.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QPainter>
#include <QSettings>
#include <QVBoxLayout>

#include <algorithm>
#include <utility>

namespace planloom::ui {
namespace {

constexpr int kWideEnough = 520;  // pixels for the graph and its properties side by side
constexpr int kHighEnough = 210;  // for one below the other
constexpr int kLeastBeside = 110; // height at which properties beside the graph are of use
constexpr int kLegendMargin = 8;  // of pictures

const QString kColorKey = QStringLiteral("model/color");
const QString kPropertiesKey = QStringLiteral("model/properties");
const QString kSizesKeys[] = {QStringLiteral("model/sizes-high"), QStringLiteral("model/sizes-wide")};

} // namespace

GraphPage::GraphPage(QWidget *parent)
    : QWidget(parent),
      m_canvas(new GraphCanvas(this)),
      m_legend(new ColorLegendBar(this)),
      m_properties(new PropertiesPane(this)),
      m_splitter(new QSplitter(Qt::Vertical, this)),
      m_controls(new QWidget(this)),
      m_colorBy(new QComboBox(m_controls)),
      m_button(new QToolButton(m_controls))
{
    build();
    restore();
    connect(m_canvas, &GraphCanvas::currentChanged, this, &GraphPage::describeCurrent);
    connect(m_colorBy, &QComboBox::currentIndexChanged, this, &GraphPage::recolor);
    connect(m_button, &QToolButton::clicked, this, &GraphPage::showProperties);
    arrange();
}

void GraphPage::build()
{
    for (const auto &[name, by] : {std::pair(tr("Stage"), ColorBy::Stage), std::pair(tr("Device"), ColorBy::Device),
                                   std::pair(tr("FLOPs"), ColorBy::Flops), std::pair(tr("Time"), ColorBy::Time),
                                   std::pair(tr("Memory"), ColorBy::Memory)})
        m_colorBy->addItem(name, static_cast<int>(by));
    m_colorBy->setAccessibleName(tr("Colour boxes by"));
    m_colorBy->setToolTip(tr("What the colours of boxes say"));
    m_button->setText(tr("Properties"));
    m_button->setCheckable(true);
    m_button->setAutoRaise(true);
    m_button->setToolTip(tr("Show the properties of the selected box"));
    auto *row = new QHBoxLayout(m_controls);
    row->setContentsMargins(0, 0, 0, 2);
    row->setSpacing(4);
    row->addWidget(m_colorBy);
    row->addWidget(m_button);
    auto *drawing = new QWidget(m_splitter);
    auto *column = new QVBoxLayout(drawing);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    column->addWidget(m_canvas, 1);
    column->addWidget(m_legend);
    drawing->setMinimumSize(80, 60);
    m_canvas->setMinimumSize(0, 0);
    m_splitter->addWidget(drawing);
    m_splitter->addWidget(m_properties);
    m_splitter->setStretchFactor(0, 3);
    m_splitter->setStretchFactor(1, 2);
    m_splitter->setSizes({kHighEnough * 3 / 5, kHighEnough * 2 / 5});
    m_splitter->setChildrenCollapsible(false);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(m_splitter);
    setFocusProxy(m_canvas);
}

/// As it was left in an earlier start.
void GraphPage::restore()
{
    const QSettings settings;
    if (const int at = m_colorBy->findData(settings.value(kColorKey, -1)); at >= 0)
        m_colorBy->setCurrentIndex(at);
    if (settings.contains(kPropertiesKey))
        m_asked = settings.value(kPropertiesKey).toBool();
    for (const bool wide : {false, true})
        m_sizes[wide ? 1 : 0] = settings.value(kSizesKeys[wide ? 1 : 0]).toByteArray();
    m_splitter->restoreState(m_sizes[0]);
    m_splitter->setOrientation(Qt::Vertical);
    connect(m_colorBy, &QComboBox::activated, this,
            [this] { QSettings().setValue(kColorKey, m_colorBy->currentData()); });
    connect(m_splitter, &QSplitter::splitterMoved, this, [this] {
        const std::size_t at = m_splitter->orientation() == Qt::Horizontal ? 1 : 0;
        m_sizes[at] = m_splitter->saveState();
        QSettings().setValue(kSizesKeys[at], m_sizes[at]);
    });
}

void GraphPage::arrange()
{
    const bool wide = width() >= kWideEnough;
    const Qt::Orientation orientation = wide ? Qt::Horizontal : Qt::Vertical;
    if (m_splitter->orientation() != orientation) {
        m_splitter->setOrientation(orientation);
        const int length = wide ? width() : height();
        m_splitter->setSizes({length * 3 / 5, length * 2 / 5});
        m_splitter->restoreState(m_sizes[wide ? 1 : 0]);
        m_splitter->setOrientation(orientation);
    }
    const bool room = wide ? height() >= kLeastBeside : height() >= kHighEnough;
    const bool shown = m_asked.value_or(room);
    m_properties->setVisible(shown);
    m_button->setChecked(shown);
}

void GraphPage::showProperties(bool shown)
{
    m_asked = shown;
    QSettings().setValue(kPropertiesKey, shown);
    arrange();
}

void GraphPage::resizeEvent(QResizeEvent *event)
{
    QWidget::resizeEvent(event);
    arrange();
}

void GraphPage::changeEvent(QEvent *event)
{
    QWidget::changeEvent(event);
    if (event->type() == QEvent::PaletteChange)
        recolor();
}

void GraphPage::setModel(std::shared_ptr<const graph::Graph> graph)
{
    if (m_graph == graph)
        return;
    m_graph = std::move(graph);
    m_figures.reset();
    m_canvas->show({}, {});
    recolor();
    describeCurrent();
}

void GraphPage::showGraph(const VisibleGraph &visible, const PlainLayout &layout, const std::string &anchor)
{
    m_canvas->show(visible, layout, anchor);
    recolor();
    describe();
}

void GraphPage::setFigures(FiguresPtr figures)
{
    m_figures = std::move(figures);
    recolor();
    describe();
}

void GraphPage::setColorBy(ColorBy by)
{
    m_colorBy->setCurrentIndex(m_colorBy->findData(static_cast<int>(by)));
    QSettings().setValue(kColorKey, m_colorBy->currentData());
}

void GraphPage::recolor()
{
    BoxColors colors = colorBoxes(colorBy(), m_canvas->graph(), m_figures.get());
    m_canvas->setColors(colors.boxes);
    m_legend->set(std::move(colors.legend));
}

/// The figures of all boxes, in words.
void GraphPage::describe()
{
    std::vector<QString> texts;
    std::vector<QString> cards;
    for (const GraphNode &node : m_canvas->graph().nodes) {
        texts.push_back(summaryOf(m_figures.get(), node));
        if (m_canvas->cardsShown())
            cards.push_back(cardOf(m_figures.get(), node));
    }
    m_canvas->setToolTips(texts);
    m_canvas->setCards(cards);
    describeCurrent();
}

void GraphPage::describeCurrent()
{
    const int current = m_canvas->current();
    if (current < 0 || !m_graph)
        return m_properties->clear();
    const GraphNode &node = m_canvas->graph().nodes[static_cast<std::size_t>(current)];
    std::vector<BoxProperty> rows = structureOf(*m_graph, node);
    if (m_figures) {
        const std::vector<BoxProperty> costs = costsOf(*m_figures, node);
        rows.insert(rows.end(), costs.begin(), costs.end());
    }
    m_properties->showBox(qt(node.title), rows);
}

QSizeF GraphPage::pictureSize() const { return m_canvas->whole().size() + QSizeF(0, m_legend->sizeHint().height()); }

void GraphPage::paintPicture(QPainter &painter, const QSize &size)
{
    const int legend = m_legend->sizeHint().height();
    painter.fillRect(QRect({}, size), theme().base);
    m_canvas->paintWhole(painter, QRectF(0, 0, size.width(), size.height() - legend));
    painter.setFont(m_legend->font());
    m_legend->paintOn(painter, QRect(kLegendMargin, size.height() - legend, size.width() - 2 * kLegendMargin, legend));
}

} // namespace planloom::ui
