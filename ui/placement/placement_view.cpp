// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/placement/placement_view.h"

#include "planners/gnn/placed_plan.h"
#include "ui/widgets/elided_label.h"
#include "ui/widgets/text.h"

#include <QHBoxLayout>
#include <QSignalBlocker>
#include <QVBoxLayout>

#include <algorithm>
#include <cmath>

namespace planloom::ui {

namespace {

QString boundText(const PlacementFigures &figures)
{
    const gnn::Bounds &bounds = figures.bounds;
    const double over = bounds.lower() > 0 ? figures.allSeconds / bounds.lower() : 1;
    if (bounds.portMachine < 0 || bounds.criticalPath >= bounds.port)
        return PlacementView::tr("all iterations %1 × the critical path").arg(over, 0, 'f', 2);
    return PlacementView::tr("all iterations %1 × the bound of the card %2 %3")
        .arg(over, 0, 'f', 2)
        .arg(bounds.portOut ? PlacementView::tr("out of") : PlacementView::tr("into"),
             qt(figures.job.machines[static_cast<std::size_t>(bounds.portMachine)].name));
}

/// Whether the parts of the first @p stores roles of @p plan, which are its stores, are all there.
bool holdsAll(const std::vector<GraphPart> &parts, const plan::Plan &plan, std::size_t stores)
{
    const auto isThere = [&parts](const plan::PlacedRole &role) {
        return role.part >= 0 && static_cast<std::size_t>(role.part) < parts.size();
    };
    return stores <= plan.roles.size()
        && std::all_of(plan.roles.begin(), plan.roles.begin() + static_cast<std::ptrdiff_t>(stores), isThere);
}

/// Columns of what the parts of the stores hold.
void addGraphParts(const std::vector<GraphPart> &parts, const plan::Document &document, TableData &table)
{
    table.headers << PlacementView::tr("Nodes") << PlacementView::tr("Cut") << PlacementView::tr("Hubs");
    const auto shareOf = [](std::int64_t count, std::int64_t all) {
        return all > 0 ? static_cast<double>(count) / static_cast<double>(all) : 0;
    };
    for (std::size_t store = 0; store < table.rows.size(); ++store) {
        const GraphPart &part = parts[static_cast<std::size_t>(document.plan.roles[store].part)];
        const double cut = shareOf(part.cut, part.edges);
        table.rows[store].push_back({.text = QString::number(part.nodes),
                                     .number = static_cast<double>(part.nodes),
                                     .toolTip = PlacementView::tr("%1 of them labelled").arg(part.labelled)});
        table.rows[store].push_back({.text = QStringLiteral("%1 %").arg(100 * cut, 0, 'f', 1),
                                     .number = cut,
                                     .bar = cut,
                                     .toolTip = PlacementView::tr("%1 of the %2 edges with an end here have the other "
                                                                  "one in another part")
                                                    .arg(part.cut)
                                                    .arg(part.edges)});
        table.rows[store].push_back(
            {.text = QString::number(part.hubs),
             .number = static_cast<double>(part.hubs),
             .toolTip = PlacementView::tr("among the %1 % of all nodes with most neighbours").arg(100 * kHubShare)});
    }
}

} // namespace

PlacementView::PlacementView(StudioState *state, QWidget *parent)
    : View(state, parent),
      m_summary(new ElidedLabel(this)),
      m_policy(new QComboBox(this)),
      m_prefetch(new QSpinBox(this)),
      m_board(new MachineBoard(this)),
      m_matrix(new TrafficMatrix(this)),
      m_search(new SearchPanel(this)),
      m_policies(new DataTable(this)),
      m_connections(new DataTable(this)),
      m_parts(new DataTable(this)),
      m_tabs(new QTabWidget(this)),
      m_split(new QSplitter(Qt::Horizontal, this)),
      m_trafficSeen(new WhenSeen(m_matrix, [this] { refreshTraffic(); })),
      m_policiesSeen(new WhenSeen(m_policies, [this] { refreshPolicies(); })),
      m_connectionsSeen(new WhenSeen(m_connections, [this] { refreshConnections(); })),
      m_partsSeen(new WhenSeen(m_parts, [this] { refreshParts(); })),
      m_planFigures(tr("Figures of a placement")),
      m_pointFigures(tr("Figures of a placement")),
      m_shares(tr("Shares of connections"))
{
    for (const gnn::TransferPolicy policy : gnn::kTransferPolicies)
        m_policy->addItem(qt(gnn::name(policy)));
    m_policy->setAccessibleName(tr("How connections share a network card"));
    m_policy->setToolTip(m_policy->accessibleName());
    m_prefetch->setRange(1, 1024);
    m_prefetch->setPrefix(tr("prefetch "));
    m_prefetch->setKeyboardTracking(false);
    m_prefetch->setAccessibleName(tr("Mini-batches that a sampler may be ahead"));
    m_prefetch->setToolTip(m_prefetch->accessibleName());
    m_policies->setAccessibleName(tr("Policies of transfers compared"));
    m_connections->setAccessibleName(tr("Connections between machines"));
    m_parts->setAccessibleName(tr("What the parts of the graph send"));
    m_tabs->addTab(m_search, tr("Search"));
    m_tabs->addTab(m_matrix, tr("Traffic"));
    m_tabs->addTab(m_policies, tr("Policies"));
    m_tabs->addTab(m_connections, tr("Connections"));
    m_tabs->setTabToolTip(m_tabs->addTab(m_parts, tr("Parts")),
                          tr("With nodes, cut edges and hubs where the plan's graph is open (File > Open a graph)"));
    m_tabs->setMinimumSize(120, 60);
    auto *top = new QHBoxLayout;
    top->addWidget(m_summary, 1);
    top->addWidget(m_policy);
    top->addWidget(m_prefetch);
    m_split->addWidget(m_board);
    m_split->addWidget(m_tabs);
    m_split->setStretchFactor(0, 3);
    m_split->setStretchFactor(1, 2);
    m_split->setChildrenCollapsible(false);
    auto *all = new QVBoxLayout(this);
    all->setContentsMargins(8, 6, 8, 6);
    all->addLayout(top);
    all->addWidget(m_split, 1);

    auto *seen = new WhenSeen(this, [this] { refresh(); });
    connect(state, &StudioState::documentChanged, seen, &WhenSeen::ask);
    connect(state, &StudioState::runChanged, m_trafficSeen, &WhenSeen::ask);
    connect(state, &StudioState::graphChanged, m_partsSeen, &WhenSeen::ask);
    connect(m_board, &MachineBoard::moveAsked, this, &PlacementView::moveRole);
    connect(m_policy, &QComboBox::activated, this, &PlacementView::choosePolicy);
    connect(m_prefetch, &QSpinBox::valueChanged, this, &PlacementView::choosePrefetch);
    connect(m_search, &SearchPanel::searchAsked, this, &PlacementView::searchOrStop);
    connect(m_search, &SearchPanel::pointShown, this, &PlacementView::showPoint);
    connect(m_search, &SearchPanel::pointTaken, this, &PlacementView::takePoint);
    connect(m_tabs, &QTabWidget::currentChanged, this, [this](int) { showPoint(-1); });
    connect(&m_job, &Job::changed, this, [this] { m_search->setRunning(m_job.running()); });
    seen->ask();
}

void PlacementView::refresh()
{
    m_document = this->state()->document();
    m_pointFigures.abandon();
    if (m_searched != m_document) {
        m_run = nullptr;
        m_search->setRun(nullptr);
    }
    if (m_document && m_document->plan.job) {
        m_board->setEditable(isCurrent());
        m_board->setCurrent(isCurrent());
        return m_planFigures.ask([this, document = m_document](Progress &progress) -> Job::Completion {
            return [this, figures = figuresOf(document, progress)] { takeFigures(figures); };
        });
    }
    m_planFigures.abandon();
    m_figures = nullptr;
    showDocument(tr("No roles to place."));
}

void PlacementView::takeFigures(Result<PlacementFigures> figures)
{
    m_figures = figures ? std::make_shared<const PlacementFigures>(*std::move(figures)) : nullptr;
    showDocument(figures ? QString() : qt(figures.error().message));
}

/// @p problem: why there are no figures.
void PlacementView::showDocument(const QString &problem)
{
    m_search->setPossible(m_figures != nullptr);
    m_policy->setEnabled(m_figures != nullptr);
    m_prefetch->setEnabled(m_figures != nullptr);
    if (m_figures) {
        const QSignalBlocker policy(m_policy);
        const QSignalBlocker prefetch(m_prefetch);
        m_policy->setCurrentIndex(static_cast<int>(m_figures->policy));
        m_prefetch->setValue(m_figures->job.prefetch);
    }
    showFigures(m_figures, QString());
    if (!m_figures)
        m_summary->setText(problem);
    for (WhenSeen *seen : {m_trafficSeen, m_policiesSeen, m_connectionsSeen, m_partsSeen})
        seen->ask();
}

void PlacementView::showFigures(const std::shared_ptr<const PlacementFigures> &figures, const QString &before)
{
    m_board->setFigures(figures);
    m_board->setCurrent(!figures || figures->document == m_document);
    m_board->setEditable(figures == m_figures && isCurrent());
    if (!figures)
        return;
    m_summary->setText(tr("%1%2 an iteration; %3; at most %4 connections share a direction")
                           .arg(before, secondsText(figures->seconds), boundText(*figures))
                           .arg(figures->bounds.sharing));
}

void PlacementView::refreshTraffic()
{
    const RunData &run = this->state()->run();
    SentFeatures sent;
    if (m_figures && !run.active() && !run.folder.isEmpty() && this->state()->runIsOfDocument())
        sent = sentFeatures(*m_figures, run.folder.toStdString());
    m_matrix->set(m_figures, std::move(sent));
}

void PlacementView::refreshPolicies()
{
    TableData table{{tr("Transfers"), tr("Iteration"), tr("Over the best"), tr("Plan")}, {}};
    if (m_figures) {
        double best = m_figures->seconds;
        for (const double seconds : m_figures->byPolicy)
            best = seconds > 0 ? std::min(best, seconds) : best;
        for (std::size_t i = 0; i < m_figures->byPolicy.size(); ++i) {
            const double seconds = m_figures->byPolicy[i];
            if (seconds <= 0)
                continue;
            const double over = best > 0 ? seconds / best : 1;
            const bool own = gnn::kTransferPolicies[i] == m_figures->policy;
            table.rows.push_back({{qt(gnn::name(gnn::kTransferPolicies[i])), {}},
                                  {secondsText(seconds), seconds},
                                  {QStringLiteral("%1 ×").arg(over, 0, 'f', 3), over},
                                  {own ? tr("chosen") : QString(), {}}});
        }
    }
    m_policies->set(std::move(table));
}

/// The rows of before stay until those of the figures are computed.
void PlacementView::refreshConnections()
{
    if (!m_figures) {
        m_shares.abandon();
        return m_connections->set({});
    }
    m_shares.ask([this, figures = m_figures](Progress &progress) -> Job::Completion {
        auto shares = connectionShares(*figures, progress);
        if (!shares) // cancelled
            return {};
        return [this, figures, shares = *std::move(shares)] { showConnections(*figures, shares); };
    });
}

/// What waits most for others first.
void PlacementView::showConnections(const PlacementFigures &figures, std::vector<ConnectionShare> shares)
{
    TableData table{{tr("Connection"), tr("Credit"), tr("Deficit"), tr("Alone"), tr("Bytes")}, {}};
    std::ranges::sort(shares, std::ranges::greater(), &ConnectionShare::deficit);
    const auto nameOf = [&figures](std::int32_t role) {
        return qt(figures.job.roles[static_cast<std::size_t>(role)].name);
    };
    for (const ConnectionShare &share : shares) {
        table.rows.push_back({{tr("%1 to %2").arg(nameOf(share.from), nameOf(share.to)), {}},
                              {.text = QStringLiteral("%1 %").arg(100 * share.credit(), 0, 'f', 0),
                               .number = share.credit(),
                               .bar = std::clamp(share.credit(), 0.0, 1.0),
                               .toolTip = tr("of the cards' rate while it sends")},
                              {.text = secondsText(share.deficit()),
                               .number = share.deficit(),
                               .toolTip = tr("longer in an iteration than with both cards for itself")},
                              {secondsText(share.alone), share.alone},
                              {bytesText(std::llround(share.bytes)), share.bytes}});
    }
    m_connections->set(std::move(table));
}

void PlacementView::refreshParts()
{
    TableData table{{tr("Store"), tr("Machine"), tr("Sends"), tr("Over mean"), tr("Away")}, {}};
    std::vector<PartLoad> loads;
    if (m_figures)
        loads = partLoads(*m_figures);
    double sum = 0, most = 0;
    for (const PartLoad &load : loads) {
        sum += load.bytes;
        most = std::max(most, load.bytes);
    }
    for (std::size_t store = 0; store < loads.size(); ++store) {
        const PartLoad &load = loads[store];
        const double over = sum > 0 ? load.bytes * static_cast<double>(loads.size()) / sum : 1;
        const double away = load.bytes > 0 ? load.away / load.bytes : 0;
        const auto machine = static_cast<std::size_t>(m_figures->machineOf[store]);
        table.rows.push_back({{qt(m_figures->job.roles[store].name), {}},
                              {qt(m_figures->job.machines[machine].name), {}},
                              {.text = bytesText(std::llround(load.bytes)),
                               .number = load.bytes,
                               .bar = most > 0 ? load.bytes / most : 0,
                               .toolTip = tr("rows of its part an iteration")},
                              {QStringLiteral("%1 ×").arg(over, 0, 'f', 3), over},
                              {.text = QStringLiteral("%1 %").arg(100 * away, 0, 'f', 0),
                               .number = away,
                               .bar = away,
                               .toolTip = tr("to samplers on other machines")}});
    }
    // The figures may still be those of an earlier plan, and of another graph.
    const SampledGraph &graph = this->state()->graph();
    if (m_figures && graph.data && m_figures->document->plan.job->graph.sha256 == graph.sha256
        && holdsAll(graph.parts, m_figures->document->plan, table.rows.size()))
        addGraphParts(graph.parts, *m_figures->document, table);
    m_parts->set(std::move(table));
}

// --- edits

void PlacementView::moveRole(int role, int machine)
{
    if (!isCurrent())
        return;
    const auto &figures = *m_figures;
    const auto which = static_cast<std::size_t>(role);
    const cluster::Cluster &cluster = *m_document->subject.cluster;
    plan::Plan moved = m_document->plan;
    const Status status = planners::gnn::moveRole(figures.job, figures.machineOf, which, machine, cluster, moved);
    if (!status)
        return this->state()->say(MessageLevel::Error, qt(status.error().message));
    this->state()->replacePlan(tr("move %1 to %2")
                                   .arg(qt(figures.job.roles[which].name),
                                        qt(figures.job.machines[static_cast<std::size_t>(machine)].name)),
                               std::move(moved));
}

void PlacementView::choosePolicy()
{
    const gnn::TransferPolicy policy = gnn::kTransferPolicies[static_cast<std::size_t>(m_policy->currentIndex())];
    if (m_document && m_document->plan.job && policy != m_document->plan.job->transfers)
        this->state()->editPlan(tr("transfers"), [policy](plan::Plan &plan) { plan.job->transfers = policy; });
}

void PlacementView::choosePrefetch()
{
    const int prefetch = m_prefetch->value();
    if (m_document && m_document->plan.job && prefetch != m_document->plan.job->prefetch)
        this->state()->editPlan(tr("prefetch"), [prefetch](plan::Plan &plan) { plan.job->prefetch = prefetch; });
}

// --- search

void PlacementView::searchOrStop()
{
    if (m_job.running())
        return m_job.cancel();
    if (!m_document || !m_document->plan.job)
        return;
    planners::gnn::SearchOptions options = m_search->options();
    options.explore.policy = m_document->plan.job->transfers;
    m_job.start(tr("Searching a placement"),
                [this, document = m_document, options](Progress &progress) -> Job::Completion {
                    auto run = runSearch(*document, options, progress);
                    return [this, document, run = std::move(run)]() mutable {
                        if (!run)
                            return this->state()->say(MessageLevel::Error, qt(run.error().message));
                        if (document != m_document) // edited meanwhile
                            return;
                        m_run = std::make_shared<const SearchRun>(*std::move(run));
                        m_searched = document;
                        m_search->setRun(m_run);
                    };
                });
}

/// The placement of a point of the search on the board, once its figures are there; -1: the plan's.
void PlacementView::showPoint(int point)
{
    const bool searching = m_tabs->currentWidget() == m_search;
    m_pointFigures.abandon();
    if (!m_run || !isCurrent() || !searching || point < 0)
        return showFigures(m_figures, QString());
    const SearchPoint &shown = m_run->points[static_cast<std::size_t>(point)];
    if (shown.machineOf == m_figures->machineOf)
        return showFigures(m_figures, QString());
    m_board->setEditable(false);
    m_board->setCurrent(false);
    m_pointFigures.ask(
        [this, document = m_document, machineOf = shown.machineOf](Progress &progress) -> Job::Completion {
            return [this, figures = figuresOf(document, machineOf, progress)] {
                if (!figures) {
                    showFigures(m_figures, QString());
                    return this->state()->say(MessageLevel::Error, qt(figures.error().message));
                }
                showFigures(std::make_shared<const PlacementFigures>(*figures), tr("Shown, not taken: "));
            };
        });
}

void PlacementView::takePoint(int point)
{
    if (!m_run || point < 0 || static_cast<std::size_t>(point) >= m_run->points.size())
        return;
    const gnn::Placement &machineOf = m_run->points[static_cast<std::size_t>(point)].machineOf;
    const cluster::Cluster &cluster = *m_document->subject.cluster;
    this->state()->editPlan(tr("place roles"),
                            [&](plan::Plan &plan) { planners::gnn::placeRoles(machineOf, cluster, plan); });
}

void PlacementView::resizeEvent(QResizeEvent *event)
{
    constexpr int kNarrow = 640; // pixels: board and tabs side by side need more
    View::resizeEvent(event);
    m_split->setOrientation(width() < kNarrow ? Qt::Vertical : Qt::Horizontal);
    const int length = m_split->orientation() == Qt::Vertical ? m_split->height() : m_split->width();
    m_split->setSizes({length * 3 / 5, length * 2 / 5});
}

} // namespace planloom::ui
