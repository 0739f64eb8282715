// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/planview/straggler_panel.h"

#include "engine/simulate/straggler.h"
#include "ui/theme/theme.h"
#include "ui/widgets/text.h"

#include <QEvent>
#include <QLineSeries>
#include <QPen>
#include <QVBoxLayout>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

namespace planloom::ui {

namespace {

constexpr int kTenths = 10; ///< of a factor, a step of the slider
constexpr int kMostTimes = 8;
constexpr int kLeastChart = 110; // pixels: axes, legend and lines that can be told apart
constexpr std::array kForms{admm::Parallel::Synchronous, admm::Parallel::Asynchronous};

QString rateText(const Result<double> &samples)
{
    return samples ? StragglerPanel::tr("%1 samples/s").arg(*samples, 0, 'f', 0) : qt(samples.error().text());
}

} // namespace

/// Samples a second, for each form of waiting.
struct StragglerPanel::Answer {
    double factor = 1;
    std::array<Result<double>, kForms.size()> samples{0.0, 0.0};
};

/// Samples a second by factor, for each form of waiting, as far as there is no error.
struct StragglerPanel::Curves {
    std::array<QList<QPointF>, kForms.size()> points;
};

/// What is simulated of one document. Used by one job at a time, and kept from one to the next.
class StragglerPanel::Simulations {
public:
    explicit Simulations(std::shared_ptr<const plan::Document> document)
        : m_document(std::move(document)),
          m_straggler(m_document->plan, m_document->subject)
    {
    }

    /// Nothing if @p progress is stopped.
    std::optional<Answer> answer(int worker, double factor, const Progress &progress)
    {
        Answer answer;
        answer.factor = factor;
        for (std::size_t form = 0; form < kForms.size(); ++form) {
            if (progress.stopped())
                return std::nullopt;
            answer.samples[form] = m_straggler.samplesPerSecond(kForms[form], worker, factor);
        }
        return answer;
    }

    /// Nothing if @p progress is stopped.
    std::optional<Curves> curves(int worker, const Progress &progress)
    {
        if (const auto drawn = m_curves.find(worker); drawn != m_curves.end())
            return drawn->second;
        Curves all;
        for (std::size_t form = 0; form < kForms.size(); ++form) {
            for (int half = 2; half <= 2 * kMostTimes; ++half) {
                if (progress.stopped())
                    return std::nullopt;
                const auto samples = m_straggler.samplesPerSecond(kForms[form], worker, half / 2.0);
                if (!samples)
                    break; // its error is in the text
                all.points[form] << QPointF(half / 2.0, *samples);
            }
        }
        return m_curves[worker] = all;
    }

private:
    std::shared_ptr<const plan::Document> m_document;
    simulate::Straggler m_straggler;
    std::map<int, Curves> m_curves; ///< by worker
};

StragglerPanel::StragglerPanel(QWidget *parent)
    : QWidget(parent),
      m_workers(new QComboBox(this)),
      m_slider(new QSlider(Qt::Horizontal, this)),
      m_text(new QLabel(this)),
      m_chart(new PlainChart(tr("One slow worker"), tr("times as slow"), tr("samples / s"), this)),
      m_job(tr("One slow worker"))
{
    m_workers->setAccessibleName(tr("Slow worker"));
    m_slider->setAccessibleName(tr("Times as slow"));
    m_slider->setToolTip(tr("How many times as long the chosen worker computes; the plan is not changed"));
    m_slider->setRange(kTenths, kMostTimes * kTenths);
    m_slider->setValue(3 * kTenths);
    m_text->setWordWrap(true);
    m_chart->setMinimumHeight(kLeastChart);
    m_synchronous = m_chart->addLine(tr("for each other"), 0);
    m_asynchronous = m_chart->addLine(tr("for a server"), 1);
    m_now = m_chart->addLine(tr("now"), 5);
    auto *left = new QVBoxLayout;
    left->addWidget(m_workers);
    left->addWidget(m_slider);
    left->addWidget(m_text, 1, Qt::AlignTop);
    auto *layout = new QHBoxLayout(this);
    layout->setContentsMargins(8, 6, 8, 6);
    layout->addLayout(left, 1);
    layout->addWidget(m_chart, 2);
    applyColors();
    connect(m_slider, &QSlider::valueChanged, this, &StragglerPanel::ask);
    connect(m_workers, &QComboBox::currentIndexChanged, this, &StragglerPanel::ask);
}

double StragglerPanel::factor() const { return static_cast<double>(m_slider->value()) / kTenths; }

void StragglerPanel::show(const std::shared_ptr<const plan::Document> &document)
{
    m_simulations = nullptr; // nothing is asked for while the choice of workers changes
    const plan::Plan &plan = document->plan;
    m_server = tr("AP(%1, %2)").arg(plan.admm->barrier).arg(plan.admm->delay);
    m_asynchronous->setName(m_server);
    const int workers = static_cast<int>(plan.stages.front().replicas());
    const int chosen = m_workers->currentIndex() < 0 ? workers - 1 : std::min(m_workers->currentIndex(), workers - 1);
    m_workers->clear();
    for (int worker = 0; worker < workers; ++worker)
        m_workers->addItem(tr("Worker %1").arg(worker));
    m_workers->setCurrentIndex(chosen);
    m_simulations = std::make_shared<Simulations>(document);
    ask();
}

void StragglerPanel::ask()
{
    if (!m_simulations || m_workers->currentIndex() < 0)
        return;
    m_job.ask([this, simulations = m_simulations, worker = m_workers->currentIndex(),
               factor = factor()](Progress &progress) -> Job::Completion {
        const auto answer = simulations->answer(worker, factor, progress);
        if (!answer)
            return {};
        return [this, simulations, worker, answer = *answer] {
            take(answer);
            askCurves(simulations, worker);
        };
    });
    m_now->replace(QList<QPointF>{{factor(), 0}, {factor(), m_chart->y()->max()}});
    m_text->setEnabled(false);
    setPale(true);
}

/// Behind the figures in words, which are there long before.
void StragglerPanel::askCurves(const std::shared_ptr<Simulations> &simulations, int worker)
{
    m_job.ask([this, simulations, worker](Progress &progress) -> Job::Completion {
        const auto curves = simulations->curves(worker, progress);
        if (!curves)
            return {};
        return [this, curves = *curves] { draw(curves); };
    });
}

void StragglerPanel::draw(const Curves &curves)
{
    double most = 0;
    for (const QList<QPointF> &curve : curves.points)
        for (const QPointF &point : curve)
            most = std::max(most, point.y());
    m_synchronous->replace(curves.points[0]);
    m_asynchronous->replace(curves.points[1]);
    m_chart->setRanges(kMostTimes, most > 0 ? most * 1.05 : 1);
    m_now->replace(QList<QPointF>{{factor(), 0}, {factor(), m_chart->y()->max()}});
    setPale(false);
}

void StragglerPanel::take(const Answer &answer)
{
    m_text->setText(tr("%1 times as slow. SP: %2. %3: %4")
                        .arg(answer.factor, 0, 'f', 1)
                        .arg(rateText(answer.samples[0]), m_server, rateText(answer.samples[1])));
    m_text->setEnabled(true);
}

void StragglerPanel::setPale(bool pale)
{
    for (QLineSeries *line : {m_synchronous, m_asynchronous})
        line->setOpacity(pale ? 0.4 : 1);
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
