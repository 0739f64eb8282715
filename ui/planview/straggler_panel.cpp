// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/straggler_panel.h"

#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QEvent>
#include <QLineSeries>
#include <QPen>
#include <QVBoxLayout>

#include <algorithm>

namespace planloom::ui {

namespace {

constexpr int kTenths = 10; ///< of a factor, a step of the slider
constexpr int kMostTimes = 8;

QString rateText(const Result<double> &samples)
{
    return samples ? StragglerPanel::tr("%1 samples/s").arg(*samples, 0, 'f', 0) : qt(samples.error().text());
}

} // namespace

StragglerPanel::StragglerPanel(QWidget *parent)
    : QWidget(parent),
      m_workers(new QComboBox(this)),
      m_slider(new QSlider(Qt::Horizontal, this)),
      m_text(new QLabel(this)),
      m_chart(new PlainChart(tr("One slow worker"), tr("times as slow"), tr("samples / s"), this))
{
    m_workers->setAccessibleName(tr("Slow worker"));
    m_slider->setAccessibleName(tr("Times as slow"));
    m_slider->setToolTip(tr("How many times as long the chosen worker computes; the plan is not changed"));
    m_slider->setRange(kTenths, kMostTimes * kTenths);
    m_slider->setValue(3 * kTenths);
    m_text->setWordWrap(true);
    m_synchronous = m_chart->addLine(tr("for each other"), 0);
    m_asynchronous = m_chart->addLine(tr("for a server"), 1);
    m_now = m_chart->addLine(tr("now"), 5);
    auto *top = new QHBoxLayout;
    top->addWidget(m_workers);
    top->addWidget(m_slider, 1);
    auto *layout = new QVBoxLayout(this);
    layout->addLayout(top);
    layout->addWidget(m_text);
    layout->addWidget(m_chart, 1);
    applyColors();
    connect(m_slider, &QSlider::valueChanged, this, &StragglerPanel::answer);
    connect(m_workers, &QComboBox::currentIndexChanged, this, &StragglerPanel::draw);
}

double StragglerPanel::factor() const { return static_cast<double>(m_slider->value()) / kTenths; }

void StragglerPanel::show(const plan::Plan &plan, const plan::Subject &subject)
{
    m_straggler.reset(); // nothing is drawn while the choice of workers changes
    m_server = tr("AP(%1, %2)").arg(plan.admm->barrier).arg(plan.admm->delay);
    m_asynchronous->setName(m_server);
    const int workers = static_cast<int>(plan.stages.front().replicas());
    const int chosen = m_workers->currentIndex() < 0 ? workers - 1 : std::min(m_workers->currentIndex(), workers - 1);
    m_workers->clear();
    for (int worker = 0; worker < workers; ++worker)
        m_workers->addItem(tr("Worker %1").arg(worker));
    m_workers->setCurrentIndex(chosen);
    m_straggler.emplace(plan, subject);
    draw();
}

/// Both curves over all factors.
void StragglerPanel::draw()
{
    if (!m_straggler || m_workers->currentIndex() < 0)
        return;
    double most = 0;
    const auto curve = [&](admm::Parallel form, QLineSeries *line) {
        QList<QPointF> points;
        for (int half = 2; half <= 2 * kMostTimes; ++half) {
            const auto samples = m_straggler->samplesPerSecond(form, m_workers->currentIndex(), half / 2.0);
            if (!samples)
                break; // its error is in the text
            points << QPointF(half / 2.0, *samples);
            most = std::max(most, *samples);
        }
        line->replace(points);
    };
    curve(admm::Parallel::Synchronous, m_synchronous);
    curve(admm::Parallel::Asynchronous, m_asynchronous);
    m_chart->setRanges(kMostTimes, most > 0 ? most * 1.05 : 1);
    answer();
}

void StragglerPanel::answer()
{
    if (!m_straggler || m_workers->currentIndex() < 0)
        return;
    const auto samples = [this](admm::Parallel form) {
        return rateText(m_straggler->samplesPerSecond(form, m_workers->currentIndex(), factor()));
    };
    m_text->setText(tr("%1 times as slow. SP: %2. %3: %4")
                        .arg(factor(), 0, 'f', 1)
                        .arg(samples(admm::Parallel::Synchronous), m_server, samples(admm::Parallel::Asynchronous)));
    m_now->replace(QList<QPointF>{{factor(), 0}, {factor(), m_chart->y()->max()}});
}

void StragglerPanel::applyColors()
{
    const Theme &t = theme();
    m_synchronous->setPen(QPen(t.ofSeries(0), 2));
    m_asynchronous->setPen(QPen(t.ofSeries(1), 2, Qt::DashLine));
    m_now->setPen(QPen(t.text, 1, Qt::DotLine));
}

void StragglerPanel::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange && m_now)
        applyColors();
    QWidget::changeEvent(event);
}

} // namespace planloom::ui
