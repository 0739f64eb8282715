// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/placement/search_panel.h"

#include "ui/memory/curve.h"
#include "ui/theme/theme.h"
#include "ui/widgets/elided_label.h"
#include "ui/widgets/text.h"
#include "ui/widgets/wrap_layout.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QLineSeries>
#include <QPen>
#include <QScatterSeries>
#include <QVBoxLayout>

#include <algorithm>

namespace planloom::ui {

SearchPanel::SearchPanel(QWidget *parent)
    : QWidget(parent),
      m_search(new QPushButton(tr("Search"), this)),
      m_kind(new QComboBox(this)),
      m_proposals(new QSpinBox(this)),
      m_beta(new QDoubleSpinBox(this)),
      m_seed(new QSpinBox(this)),
      m_slider(new QSlider(Qt::Horizontal, this)),
      m_what(new ElidedLabel(this)),
      m_take(new QPushButton(tr("Take it"), this)),
      m_chart(new PlainChart(tr("Search of placements"), tr("point"), tr("s"), this))
{
    m_kind->addItems({tr("first feasible"), tr("explore"), tr("all placements")});
    m_kind->setCurrentIndex(static_cast<int>(planners::gnn::SearchKind::Explore));
    m_kind->setAccessibleName(tr("Kind of search"));
    m_kind->setToolTip(tr("The first feasible placement; from there by the load of the cards and by a Markov chain; or "
                          "every feasible placement, of a million at most"));
    m_beta->setDecimals(3);
    m_beta->setRange(0, 1e9);
    m_beta->setPrefix(tr("β "));
    m_beta->setSuffix(tr(" / s"));
    m_beta->setSpecialValueText(tr("default β"));
    m_beta->setAccessibleName(tr("β of the Markov chain"));
    m_beta->setToolTip(tr("A placement that takes s seconds longer is accepted with probability exp(-β s); default: %1 "
                          "over the seconds of the start")
                           .arg(planners::gnn::ExploreOptions::kRelativeBeta));
    m_proposals->setRange(0, 1'000'000);
    m_proposals->setSpecialValueText(tr("some 10 s at most")); // planners::gnn::defaultProposals()
    m_proposals->setValue(0);
    m_proposals->setAccessibleName(tr("Proposals"));
    m_proposals->setPrefix(tr("proposals "));
    m_seed->setRange(0, 1'000'000);
    m_seed->setValue(1);
    m_seed->setPrefix(tr("seed "));
    m_seed->setAccessibleName(tr("Seed of the search"));
    m_slider->setAccessibleName(tr("Placement of the search"));
    m_take->setToolTip(tr("Put the roles where this placement has them (undoable)"));
    auto *top = new QWidget(this);
    auto *fields = new WrapLayout(top, 4);
    for (QWidget *field :
         {static_cast<QWidget *>(m_search), static_cast<QWidget *>(m_kind), static_cast<QWidget *>(m_proposals),
          static_cast<QWidget *>(m_beta), static_cast<QWidget *>(m_seed)})
        fields->addWidget(field);
    auto *bottom = new QHBoxLayout;
    bottom->addWidget(m_slider, 1);
    bottom->addWidget(m_take);
    auto *all = new QVBoxLayout(this);
    all->setContentsMargins(4, 4, 4, 4);
    all->setSpacing(2);
    all->addWidget(top);
    all->addWidget(m_chart, 1);
    all->addWidget(m_what);
    all->addLayout(bottom);
    m_best = m_chart->addLine(tr("best"), 2);
    m_bound = m_chart->addLine(tr("bound"), 5);
    m_accepted = new QScatterSeries(m_chart);
    m_accepted->setName(tr("accepted"));
    m_accepted->setMarkerSize(6);
    m_chart->attach(m_accepted);
    m_here = new QScatterSeries(m_chart);
    m_here->setName(tr("shown"));
    m_here->setMarkerShape(QScatterSeries::MarkerShapeTriangle);
    m_here->setMarkerSize(11);
    m_chart->attach(m_here);
    paintLines();
    connect(m_search, &QPushButton::clicked, this, &SearchPanel::searchAsked);
    connect(m_kind, &QComboBox::currentIndexChanged, this, &SearchPanel::enableFields);
    connect(m_slider, &QSlider::valueChanged, this, &SearchPanel::showPoint);
    connect(m_take, &QPushButton::clicked, this, [this] { Q_EMIT pointTaken(m_slider->value()); });
    setRun(nullptr);
}

void SearchPanel::paintLines()
{
    const Theme &t = theme();
    m_best->setPen(QPen(t.ofSeries(2), 2));
    m_bound->setPen(QPen(t.ofSeries(5), 2, Qt::DashLine));
    m_accepted->setColor(t.ofSeries(0));
    m_accepted->setBorderColor(t.base);
    m_here->setColor(t.text);
    m_here->setBorderColor(t.base);
}

void SearchPanel::enableFields()
{
    const bool explores = options().kind == planners::gnn::SearchKind::Explore;
    for (QWidget *field :
         {static_cast<QWidget *>(m_proposals), static_cast<QWidget *>(m_beta), static_cast<QWidget *>(m_seed)})
        field->setEnabled(explores);
}

planners::gnn::SearchOptions SearchPanel::options() const
{
    planners::gnn::SearchOptions asked;
    asked.kind = static_cast<planners::gnn::SearchKind>(m_kind->currentIndex());
    asked.explore.proposals = m_proposals->value();
    asked.explore.beta = m_beta->value();
    asked.explore.seed = static_cast<std::uint64_t>(m_seed->value());
    return asked;
}

void SearchPanel::setRunning(bool running) { m_search->setText(running ? tr("Stop") : tr("Search")); }

void SearchPanel::setPossible(bool possible) { m_search->setEnabled(possible); }

void SearchPanel::setRun(std::shared_ptr<const SearchRun> run)
{
    m_run = std::move(run);
    const bool has = m_run && !m_run->points.empty();
    m_slider->setEnabled(has);
    m_take->setEnabled(has);
    if (!has) {
        for (QXYSeries *series : {static_cast<QXYSeries *>(m_best), static_cast<QXYSeries *>(m_bound),
                                  static_cast<QXYSeries *>(m_accepted), static_cast<QXYSeries *>(m_here)})
            series->replace(QList<QPointF>());
        m_what->setText(tr("No search yet."));
        return;
    }
    double most = 0;
    double least = m_run->bound;
    for (const SearchPoint &point : m_run->points) {
        most = std::max(most, point.seconds);
        least = std::min(least, point.best);
    }
    const Unit unit = timeUnit(most);
    constexpr std::size_t kMostPoints = 2000; // that QtCharts draws at once
    const std::size_t step = 1 + m_run->points.size() / kMostPoints;
    QList<QPointF> accepted, best;
    for (std::size_t i = 0; i < m_run->points.size(); ++i) {
        const SearchPoint &point = m_run->points[i];
        const auto x = static_cast<double>(i);
        if (i % step == 0)
            accepted << QPointF(x, point.seconds * unit.factor);
        if (i % step == 0 || i + 1 == m_run->points.size())
            best << QPointF(x, point.best * unit.factor);
    }
    const double end = std::max<double>(1, static_cast<double>(m_run->points.size()) - 1);
    m_accepted->replace(accepted);
    m_best->replace(best);
    m_bound->replace(QList<QPointF>{{0, m_run->bound * unit.factor}, {end, m_run->bound * unit.factor}});
    m_chart->setTitles(tr("placement"), QString::fromUtf8(unit.name));
    m_chart->setRange(end, std::max(0.0, (least - (most - least) * 0.1) * unit.factor),
                      (most + (most - least) * 0.1) * unit.factor);
    const auto last = static_cast<int>(m_run->points.size()) - 1;
    m_slider->setRange(0, last);
    m_slider->setValue(static_cast<int>(m_run->fastest));
    showPoint(static_cast<int>(m_run->fastest));
}

void SearchPanel::showPoint(int point)
{
    if (!m_run || point < 0 || static_cast<std::size_t>(point) >= m_run->points.size())
        return;
    const SearchPoint &shown = m_run->points[static_cast<std::size_t>(point)];
    double most = 0;
    for (const SearchPoint &one : m_run->points)
        most = std::max(most, one.seconds);
    m_here->replace(QList<QPointF>{{static_cast<double>(point), shown.seconds * timeUnit(most).factor}});
    QString text = tr("%1 all iterations, bound %2: %3")
                       .arg(secondsText(shown.seconds), secondsText(m_run->bound), qt(shown.what));
    if (shown.number > 0)
        text += tr(" (proposal %1 of %2)").arg(shown.number).arg(m_run->proposals);
    m_what->setText(text);
    Q_EMIT pointShown(point);
}

void SearchPanel::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange && m_here)
        paintLines();
    QWidget::changeEvent(event);
}

} // namespace planloom::ui
