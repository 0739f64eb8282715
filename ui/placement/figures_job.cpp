// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/placement/figures_job.h"

#include <utility>

namespace planloom::ui {

void FiguresJob::ask(DocumentPtr document, std::optional<gnn::Placement> machineOf, Done done)
{
    abandon();
    m_wanted = Wanted{std::move(document), std::move(machineOf), std::move(done)};
    if (!m_job.running())
        begin();
}

void FiguresJob::abandon()
{
    m_wanted.reset();
    m_abandoned = true;
    m_job.cancel();
}

void FiguresJob::begin()
{
    Wanted wanted = *std::exchange(m_wanted, std::nullopt);
    m_abandoned = false;
    m_job.start(Job::tr("Figures of a placement"),
                [this, wanted = std::move(wanted)](Progress &progress) -> Job::Completion {
                    auto figures = wanted.machineOf ? figuresOf(wanted.document, *wanted.machineOf, progress)
                                                    : figuresOf(wanted.document, progress);
                    return [this, done = wanted.done, figures = std::move(figures)]() mutable {
                        if (m_wanted)
                            return begin();
                        if (!m_abandoned)
                            done(std::move(figures));
                    };
                });
}

} // namespace planloom::ui
