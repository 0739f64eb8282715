// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/state/simulator.h"

#include "engine/compile/compile.h"
#include "engine/plan/fingerprint.h"
#include "planners/common/memory_policy.h"
#include "planners/common/why.h"
#include "ui/state/freed_elsewhere.h"
#include "ui/state/memory_curves.h"

#include <QMetaObject>

#include <algorithm>
#include <utility>

namespace planloom::ui {

Simulator::Simulator(QObject *parent) : QObject(parent)
{
    m_thread = std::jthread([this](const std::stop_token &stop) { work(stop); });
}

Simulator::~Simulator() = default;

void Simulator::request(DocumentPtr document, bool hashSubject)
{
    ++m_asked;
    {
        const std::lock_guard lock(m_mutex);
        m_next = {std::move(document), m_asked, hashSubject};
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
        Answer made = answer(*request.document);
        if (request.hashSubject)
            made.subjectHash = plan::subjectHash(request.document->subject);
        QMetaObject::invokeMethod(
            this, [this, request, made] { deliver(request.number, request.document, made); }, Qt::QueuedConnection);
    }
}

namespace {

std::optional<double> secondsBehindAdmm(const plan::Document &document)
{
    const auto later = plan::continuationOf(document.plan);
    if (!later)
        return std::nullopt;
    const auto program = compile::compilePlan(*later, document.subject, {.bodies = false});
    const auto seconds = program ? simulate::iterationSeconds(*program) : Result<double>(program.error());
    return seconds ? std::optional(*seconds) : std::nullopt;
}

/// With a budget that would do, where that is what is wrong: that of the first stage that has one.
Error withRemedy(const Error &error, const plan::Document &document)
{
    const auto limited =
        std::ranges::find_if(document.plan.stages, [](const plan::Stage &stage) { return stage.memory.limits(); });
    if (limited == document.plan.stages.end())
        return error;
    planners::Problem problem;
    problem.subject = document.subject;
    return planners::withBudgetThatDoes(error, document.plan, problem, limited->memory);
}

std::vector<std::int64_t> sampleBytesOf(const program::Program &program)
{
    std::vector<std::int64_t> bytes(program.ranks.size(), 0);
    for (std::size_t rank = 0; rank < bytes.size(); ++rank)
        for (const BodyId body : program.ranks[rank].bodies)
            for (const program::PersistentTensor &held : program.body(body).persistent)
                bytes[rank] += held.ofSamples ? held.count * graph::sizeOf(held.type) : 0;
    return bytes;
}

} // namespace

Simulator::Answer Simulator::answer(const plan::Document &document, const memory::RunTimes *times)
{
    Answer answer;
    const bool limits = std::any_of(document.plan.stages.begin(), document.plan.stages.end(),
                                    [](const plan::Stage &stage) { return stage.memory.limits(); });
    constexpr std::size_t kNamedDevices = 64; // bodies, which have the names of tensors, are one for each
    const bool named = (limits || document.plan.admm) && plan::devicesOf(document.plan).size() <= kNamedDevices;
    const auto program = compile::compilePlan(document.plan, document.subject, {.bodies = named, .times = times});
    if (!program) {
        answer.error = QString::fromStdString(withRemedy(program.error(), document).text());
        return answer;
    }
    auto simulation = simulate::simulate(*program, *document.subject.cluster);
    if (!simulation) {
        answer.error = QString::fromStdString(simulation.error().text());
        return answer;
    }
    answer.why =
        std::make_shared<const plan::Why>(planners::whyOf(document.plan, document.subject, *program, *simulation));
    if (named && document.plan.admm)
        answer.sampleBytes = sampleBytesOf(*program);
    answer.laterSeconds = secondsBehindAdmm(document);
    answer.work = plan::modelWork(document);
    if (limits)
        answer.memoryMoves = memoryMoves(*program, document, simulation->trace);
    answer.simulation = freedElsewhere(std::move(*simulation));
    answer.memoryCurves = numberCurves(answer.simulation->memory);
    answer.index =
        freedElsewhere(trace::Index(std::shared_ptr<const trace::Trace>(answer.simulation, &answer.simulation->trace)));
    return answer;
}

void Simulator::deliver(std::uint64_t number, const DocumentPtr &document, const Answer &answer)
{
    if (number != m_asked)
        return;
    m_answered = number;
    Q_EMIT finished(document, answer);
}

} // namespace planloom::ui
