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
constexpr int kLeastChart = 150; // pixels: axes, legend and lines that can be told apart
constexpr std::array kForms{admm::Parallel::Synchronous, admm::Parallel::Asynchronous};

QString rateText(const Result<double> &samples)
{
    return samples ? StragglerPanel::tr("%1 samples/s").arg(*samples, 0, 'f', 0) : qt(samples.error().text());
}

} // namespace

/// Samples a second by factor, for each form of waiting.
struct StragglerPanel::Answer {
    double factor = 1;
    std::array<Result<double>, kForms.size()> samples{0.0, 0.0};
    std::array<QList<QPointF>, kForms.size()> curves; ///< as far as there is no error
};

/// What is simulated of one document. Used by one job at a time, and kept from one to the next.
class StragglerPanel::Simulations {
public:
    explicit Simulations(std::shared_ptr<const plan::Document> document) : m_document(std::move(document)) {}

    /// If @p progress is stopped, curves may be missing.
    Answer answer(int worker, double factor, Progress &progress)
    {
        if (!m_straggler)
            m_straggler.emplace(m_document->plan, m_document->subject);
        Answer answer;
        answer.factor = factor;
        for (std::size_t form = 0; form < kForms.size(); ++form)
            answer.samples[form] = m_straggler->samplesPerSecond(kForms[form], worker, factor);
        const auto drawn = m_curves.find(worker);
        answer.curves = drawn != m_curves.end() ? drawn->second : curves(worker, progress);
        return answer;
    }

private:
    decltype(Answer::curves) curves(int worker, Progress &progress)
    {
        decltype(Answer::curves) all;
        for (std::size_t form = 0; form < kForms.size(); ++form) {
            for (int half = 2; half <= 2 * kMostTimes; ++half) {
                if (progress.stopped())
                    return {};
                const auto samples = m_straggler->samplesPerSecond(kForms[form], worker, half / 2.0);
                if (!samples)
                    break; // its error is in the text
                all[form] << QPointF(half / 2.0, *samples);
            }
        }
        return m_curves[worker] = all;
    }

    std::shared_ptr<const plan::Document> m_document;
    std::optional<simulate::Straggler> m_straggler;
    std::map<int, decltype(Answer::curves)> m_curves; ///< by worker
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
    auto *top = new QHBoxLayout;
    top->addWidget(m_workers);
    top->addWidget(m_slider, 1);
    auto *layout = new QVBoxLayout(this);
    layout->addLayout(top);
    layout->addWidget(m_text);
    layout->addWidget(m_chart, 1);
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
        return [this, answer = simulations->answer(worker, factor, progress)] { take(answer); };
    });
    m_now->replace(QList<QPointF>{{factor(), 0}, {factor(), m_chart->y()->max()}});
    setPale(true);
}

void StragglerPanel::take(const Answer &answer)
{
    double most = 0;
    for (const QList<QPointF> &curve : answer.curves)
        for (const QPointF &point : curve)
            most = std::max(most, point.y());
    m_synchronous->replace(answer.curves[0]);
    m_asynchronous->replace(answer.curves[1]);
    m_chart->setRanges(kMostTimes, most > 0 ? most * 1.05 : 1);
    m_text->setText(tr("%1 times as slow. SP: %2. %3: %4")
                        .arg(answer.factor, 0, 'f', 1)
                        .arg(rateText(answer.samples[0]), m_server, rateText(answer.samples[1])));
    m_now->replace(QList<QPointF>{{answer.factor, 0}, {answer.factor, m_chart->y()->max()}});
    setPale(false);
}

void StragglerPanel::setPale(bool pale)
{
    m_text->setEnabled(!pale);
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
