// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/job_strip.h"

#include "ui/widgets/elided_label.h"

#include <QHBoxLayout>

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace planloom::ui {

namespace {
constexpr int kMomentMilliseconds = 300;
constexpr int kPerMille = 1000;
} // namespace

JobStrip::JobStrip(LatestJob &job, QWidget *parent)
    : QWidget(parent),
      m_job(job),
      m_text(new ElidedLabel(this)),
      m_bar(new QProgressBar(this)),
      m_button(new QToolButton(this))
{
    m_text->setForegroundRole(QPalette::PlaceholderText);
    m_bar->setRange(0, kPerMille);
    m_bar->setTextVisible(false);
    m_bar->setMaximumSize(110, 8);
    m_button->setAutoRaise(true);
    for (QWidget *each : std::initializer_list<QWidget *>{m_bar, m_button}) {
        QSizePolicy policy = each->sizePolicy();
        policy.setRetainSizeWhenHidden(true);
        each->setSizePolicy(policy);
        each->hide();
    }
    m_moment.setSingleShot(true);
    m_moment.setInterval(kMomentMilliseconds);
    auto *layout = new QHBoxLayout(this);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->addWidget(m_text, 1);
    layout->addWidget(m_bar);
    layout->addWidget(m_button);
    connect(m_button, &QToolButton::clicked, this, &JobStrip::press);
    connect(&m_moment, &QTimer::timeout, this, &JobStrip::follow);
    connect(&job.job(), &Job::changed, this, &JobStrip::follow);
}

void JobStrip::setIdleText(const QString &text)
{
    m_idleText = text;
    follow();
}

void JobStrip::begin()
{
    m_stopped = false;
    if (!m_moment.isActive() && !m_bar->isVisibleTo(this))
        m_moment.start();
    follow();
}

void JobStrip::press()
{
    if (m_stopped)
        return Q_EMIT again();
    m_job.abandon();
    m_stopped = true;
    follow();
}

void JobStrip::follow()
{
    const bool runs = m_job.running() && !m_stopped;
    if (!runs)
        m_moment.stop();
    const bool shown = runs && !m_moment.isActive();
    m_bar->setVisible(shown);
    m_button->setVisible(shown || m_stopped);
    m_button->setText(m_stopped ? tr("Simulate again") : tr("Stop"));
    const Job &job = m_job.job();
    m_bar->setValue(static_cast<int>(std::lround(std::max(0.0, job.fraction()) * kPerMille)));
    m_text->setText(m_stopped   ? tr("Stopped")
                        : shown ? (job.what().isEmpty() ? job.title() : tr("%1: %2").arg(job.title(), job.what()))
                                : m_idleText);
}

} // namespace planloom::ui
