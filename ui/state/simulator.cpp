// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/simulator.h"

#include <QMetaObject>
#include <QString>

#include <utility>

namespace planloom::ui {

Simulator::Simulator(QObject *parent) : QObject(parent)
{
    m_thread = std::jthread([this](const std::stop_token &stop) { work(stop); });
}

Simulator::~Simulator() = default;

void Simulator::request(DocumentPtr document)
{
    ++m_asked;
    {
        const std::lock_guard lock(m_mutex);
        m_next = {std::move(document), m_asked};
    }
    m_wake.notify_one();
}

void Simulator::abandon()
{
    ++m_asked;
    m_answered = m_asked;
    const std::lock_guard lock(m_mutex);
    m_next = {};
}

void Simulator::work(const std::stop_token &stop)
{
    while (!stop.stop_requested()) {
        Request request;
        {
            std::unique_lock lock(m_mutex);
            if (!m_wake.wait(lock, stop, [this] { return m_next.document != nullptr; }))
                return;
            request = std::exchange(m_next, {});
        }
        auto result = simulate::simulatePlan(request.document->plan, request.document->subject);
        SimulationPtr simulation;
        QString error;
        if (result)
            simulation = std::make_shared<const simulate::Simulation>(std::move(*result));
        else
            error = QString::fromStdString(result.error().text());
        QMetaObject::invokeMethod(
            this, [this, request, simulation, error] { deliver(request.number, request.document, simulation, error); },
            Qt::QueuedConnection);
    }
}

void Simulator::deliver(std::uint64_t number, const DocumentPtr &document, const SimulationPtr &simulation, const QString &error)
{
    if (number != m_asked)
        return;
    m_answered = number;
    Q_EMIT finished(document, simulation, error);
}

} // namespace planloom::ui
