// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/timeline/path_line.h"

#include "ui/timeline/path_text.h"
#include "ui/widgets/text.h"

#include <utility>

namespace planloom::ui {

namespace {

constexpr std::size_t kAtOnce = 100'000; // records: about 20 ms

} // namespace

PathLine::PathLine(const TimelineModel &model, QWidget *parent)
    : QLabel(parent),
      m_model(model),
      m_job(tr("Critical path"))
{
    setTextInteractionFlags(Qt::TextSelectableByMouse);
    setContentsMargins(8, 4, 8, 0);
    setWordWrap(true);
    hide();
}

void PathLine::refresh(bool on)
{
    m_job.abandon();
    std::vector<Result<PathRequest>> requests;
    std::vector<bool> measured;
    std::size_t records = 0;
    for (const bool second : {false, true}) {
        if (!on || m_model.traceIndex(second).lod().size() == 0)
            continue;
        requests.push_back(PathRequest::of(m_model, second));
        measured.push_back(second);
        records += requests.back() ? requests.back()->records() : 0;
    }
    const auto answers = [](const std::vector<Result<PathRequest>> &all) {
        std::vector<Result<TimelinePath>> found;
        for (const auto &request : all)
            found.push_back(request ? request->answer() : Result<TimelinePath>(request.error()));
        return found;
    };
    if (records <= kAtOnce)
        return showAnswers(answers(requests), measured);
    setText(tr("critical path: working it out…"));
    setVisible(true);
    Q_EMIT found({});
    m_job.ask([this, answers, measured, requests = std::move(requests)](Progress &) -> Job::Completion {
        return [this, measured, ready = answers(requests)] { showAnswers(ready, measured); };
    });
}

void PathLine::showAnswers(const std::vector<Result<TimelinePath>> &answers, const std::vector<bool> &measured)
{
    std::vector<TimelinePath> paths;
    QStringList lines;
    QStringList exact;
    for (std::size_t i = 0; i < answers.size(); ++i) {
        if (!answers[i]) {
            lines
                << tr("critical path, %1: %2").arg(tr(m_model.clockName(measured[i])), qt(answers[i].error().message));
            continue;
        }
        lines << pathText(m_model, *answers[i]);
        exact << exactPathText(m_model, *answers[i]);
        paths.push_back(*answers[i]);
    }
    setText(lines.join(QLatin1Char('\n')));
    setToolTip(exact.join(QStringLiteral("\n\n")));
    setVisible(!lines.isEmpty());
    Q_EMIT found(paths);
}

} // namespace planloom::ui
