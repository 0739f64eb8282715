// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/memory/memory_view.h"

#include "ui/memory/curve.h"
#include "ui/memory/decision_table.h"
#include "ui/theme/theme.h"
#include "ui/widgets/elided_label.h"
#include "ui/widgets/tabs.h"
#include "ui/widgets/text.h"

#include <QAreaSeries>
#include <QBrush>
#include <QEvent>
#include <QHBoxLayout>
#include <QLegendMarker>
#include <QLineSeries>
#include <QScatterSeries>
#include <QVBoxLayout>

#include <algorithm>

namespace planloom::ui {

namespace {

/// How the kinds of memory are stacked on each other, from the bottom up; each has the hue of its number.
constexpr std::array kTextures{Qt::SolidPattern, Qt::BDiagPattern, Qt::Dense4Pattern, Qt::DiagCrossPattern};

constexpr int kSamplesHue = 4; // of what stays for each sample: behind those of the kinds

constexpr std::size_t kAllCurvesPoints = 12'000; // of all devices' lines together: they are stroked within a few frames
constexpr std::size_t kLeastCurvePoints = 128;

std::vector<Cell> deviceRow(const simulate::DeviceReport &device, std::size_t curve,
                            const std::optional<std::int64_t> &measured)
{
    const double share = device.capacityBytes > 0
        ? static_cast<double>(device.peakBytes) / static_cast<double>(device.capacityBytes)
        : 0;
    Cell used{percentText(share), share};
    used.bar = share;
    used.warn = share > 1;
    used.toolTip =
        share > 1 ? MemoryView::tr("Does not fit: use more stages, smaller micro-batches or recompute") : QString();
    return {{qt(device.id), {}, theme().ofSeries(static_cast<int>(curve))},
            used,
            {bytesText(device.peakBytes), static_cast<double>(device.peakBytes)},
            measured ? Cell{bytesText(*measured), static_cast<double>(*measured)} : Cell{QStringLiteral("–"), 0.0},
            {bytesText(device.capacityBytes), static_cast<double>(device.capacityBytes)}};
}

double total(const simulate::MemoryPoint &point) { return static_cast<double>(point.total()); }

/// Sum of the kinds below @p count.
double stacked(const simulate::MemoryPoint &point, std::size_t count)
{
    double sum = 0;
    for (std::size_t k = 0; k < count; ++k)
        sum += static_cast<double>(point.*simulate::memoryKinds()[k].bytes);
    return sum;
}

/// Of the device that is filled most.
QString fitText(const simulate::Report &report)
{
    const auto share = [](const simulate::DeviceReport &device) {
        return static_cast<double>(device.peakBytes)
            / static_cast<double>(std::max<std::int64_t>(device.capacityBytes, 1));
    };
    const auto fullest = std::max_element(report.devices.begin(), report.devices.end(),
                                          [&](const auto &a, const auto &b) { return share(a) < share(b); });
    if (fullest == report.devices.end())
        return {};
    if (share(*fullest) <= 1)
        return MemoryView::tr("Largest peak %1 of %2 on %3")
            .arg(bytesText(fullest->peakBytes), bytesText(fullest->capacityBytes), qt(fullest->id));
    return MemoryView::tr("Does not fit: %1 needed, %2 available on %3 (%4×)")
        .arg(bytesText(fullest->peakBytes), bytesText(fullest->capacityBytes), qt(fullest->id))
        .arg(share(*fullest), 0, 'f', 1);
}

} // namespace

MemoryView::MemoryView(StudioState *state, QWidget *parent)
    : View(state, parent),
      m_devices(new QComboBox(this)),
      m_summary(new ElidedLabel(this)),
      m_chart(new MemoryChart(tr("Memory over one iteration"), tr("time"), tr("memory"), this)),
      m_split(new QSplitter(Qt::Horizontal, this)),
      m_table(new DataTable(this)),
      m_knobs(new MemoryKnobs(state, this)),
      m_tabs(new QTabWidget(this)),
      m_decisions(new DataTable(this)),
      m_bands(new TensorBands(this)),
      m_scatter(new CopyScatter(this)),
      m_sweep(new BudgetSweep(this)),
      m_live(new LivePanel(state, this)),
      m_seen(new WhenSeen(this, [this] { refresh(); })),
      m_selectionSeen(new WhenSeen(this, [this] { showSelection(); })),
      m_tableSeen(new WhenSeen(m_table, [this] { refreshTable(); })),
      m_decisionsSeen(new WhenSeen(m_decisions, [this] { refreshDecisions(); })),
      m_bandsSeen(new WhenSeen(m_bands, [this] { refreshBands(); })),
      m_scatterSeen(new WhenSeen(m_scatter, [this] { refreshScatter(); }))
{
    m_chart->setMinimumHeight(120);
    m_devices->setAccessibleName(tr("Device shown in the memory chart"));
    m_table->setAccessibleName(tr("Peak memory of each device"));
    auto *top = new QHBoxLayout;
    top->addWidget(m_devices);
    top->addWidget(m_summary, 1);
    m_decisions->setAccessibleName(tr("Decisions of memory policies"));
    m_tabs->setDocumentMode(true);
    m_tabs->addTab(m_table, tr("Devices"));
    m_tabs->addTab(m_decisions, tr("Decisions"));
    m_tabs->addTab(m_bands, tr("Tensors"));
    m_tabs->addTab(m_scatter, tr("Costs"));
    m_tabs->setTabToolTip(3, tr("Cost of copying against cost of making again"));
    m_tabs->addTab(m_sweep, tr("Budgets"));
    m_tabs->setTabToolTip(4, tr("How much longer steps are with each policy, by its budget"));
    m_tabs->insertTab(1, m_live, tr("In use"));
    m_tabs->setTabToolTip(1, tr("Buffers in use at the peak, or at the moment that is clicked in the chart"));
    m_tabs->insertTab(2, m_live->map(), tr("Addresses"));
    m_tabs->setTabToolTip(2, tr("Where buffers lie over time, and the holes between them"));
    m_split->addWidget(m_chart);
    m_split->addWidget(m_tabs);
    m_split->setStretchFactor(0, 1);
    m_split->setStretchFactor(1, 1);
    m_split->setChildrenCollapsible(false);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(8, 6, 8, 6);
    layout->addLayout(top);
    layout->addWidget(m_knobs);
    layout->addWidget(m_split, 1);
    makeSeries(0);

    connect(m_devices, &QComboBox::activated, this, [this](int) {
        const auto &cluster = this->state()->cluster();
        const DeviceId device = cluster ? cluster->find(m_devices->currentText().toStdString()) : DeviceId();
        if (device.valid())
            this->state()->selectDevice(device);
        refreshCurves();
    });
    connect(m_table, &DataTable::rowPicked, this, [this](int row) {
        m_devices->setCurrentIndex(row + 1);
        if (const auto &cluster = this->state()->cluster())
            this->state()->selectDevice(cluster->find(m_devices->currentText().toStdString()));
        refreshCurves();
    });
    auto *sweepSeen = new WhenSeen(m_sweep, [this] { m_sweep->show(this->state()->document()); });
    connect(state, &StudioState::documentChanged, sweepSeen, &WhenSeen::ask);
    connect(m_sweep, &BudgetSweep::picked, m_knobs, &MemoryKnobs::take);
    sweepSeen->ask();
    connect(m_decisions, &DataTable::rowPicked, this, &MemoryView::pickDecision);
    connect(m_bands, &TensorBands::tensorPicked, this, &MemoryView::pickTensor);
    connect(m_scatter, &CopyScatter::tensorPicked, this, &MemoryView::pickTensor);
    connect(state, &StudioState::simulationChanged, m_seen, &WhenSeen::ask);
    connect(state, &StudioState::runChanged, m_tableSeen, &WhenSeen::ask);
    connect(state, &StudioState::selectionChanged, m_selectionSeen, &WhenSeen::ask);
    connectLive();
    m_seen->ask();
}

/// Areas, the capacity line and the peak once; a line for each of @p lines curves.
void MemoryView::makeSeries(int lines)
{
    m_chart->chart()->removeAllSeries();
    m_lines.clear();
    m_areas.resize(simulate::memoryKinds().size());
    m_edges.resize(m_areas.size() + 1);
    for (QLineSeries *&edge : m_edges)
        edge = new QLineSeries(m_chart);
    m_samplesEdge = new QLineSeries(m_chart);
    for (std::size_t k = 0; k < m_areas.size(); ++k) {
        m_areas[k] = new QAreaSeries(k == 0 ? m_samplesEdge : m_edges[k + 1], m_edges[k]);
        m_areas[k]->setName(tr(simulate::memoryKinds()[k].name));
        m_chart->attach(m_areas[k]);
    }
    m_samples = new QAreaSeries(m_edges[1], m_samplesEdge);
    m_samples->setName(tr("state of samples"));
    m_chart->attach(m_samples);
    for (int k = 0; k < lines; ++k)
        m_lines << m_chart->addLine({}, k);
    m_capacity = m_chart->addLine(tr("capacity"), 5);
    m_budget = m_chart->addLine(tr("budget"), 6);
    m_budget->setVisible(false); // until there is one: the legend names what is visible
    m_peak = new QScatterSeries(m_chart);
    m_peak->setName(tr("peak"));
    m_peak->setMarkerShape(QScatterSeries::MarkerShapeTriangle);
    m_peak->setMarkerSize(11);
    m_chart->attach(m_peak);
    paintSeries();
}

void MemoryView::paintSeries()
{
    const Theme &t = theme();
    for (std::size_t k = 0; k < m_areas.size(); ++k) {
        const QColor color = t.ofSeries(static_cast<int>(k));
        m_areas[k]->setBrush(QBrush(color, kTextures[k % kTextures.size()]));
        m_areas[k]->setPen(QPen(color, 1));
    }
    m_samples->setBrush(QBrush(t.ofSeries(kSamplesHue), Qt::HorPattern));
    m_samples->setPen(QPen(t.ofSeries(kSamplesHue), 1));
    m_capacity->setPen(QPen(t.ofSeries(5), 2, Qt::DashLine));
    m_budget->setPen(QPen(t.text, 1.5, Qt::DashDotLine));
    m_peak->setColor(t.text);
    m_peak->setBorderColor(t.base);
    for (int k = 0; k < m_lines.size(); ++k)
        m_lines[k]->setPen(QPen(t.ofSeries(k), 2, k < kSeriesColors ? Qt::SolidLine : Qt::DashLine));
}

void MemoryView::refresh()
{
    m_curves = state()->memoryCurves();
    refreshDevices();
    refreshCurves();
    refreshTabs();
    m_tableSeen->ask();
    m_decisionsSeen->ask();
}

void MemoryView::refreshDecisions() { m_decisions->set(decisionTable(state()->memoryMoves(), state()->cluster())); }

DeviceId MemoryView::shownDevice() const
{
    const auto &cluster = state()->cluster();
    const bool isOne = m_devices->currentIndex() > 0 && cluster;
    return isOne ? cluster->find(m_devices->currentText().toStdString()) : DeviceId();
}

/// The tensors of the device that is shown, or of all.
void MemoryView::refreshBands() { m_bands->set(state()->memoryMoves(), shownDevice()); }

void MemoryView::refreshScatter() { m_scatter->set(state()->memoryMoves(), shownDevice()); }

void MemoryView::pickDecision(int row)
{
    const auto &moves = state()->memoryMoves();
    if (!moves || row < 0 || static_cast<std::size_t>(row) >= moves->decisions.size())
        return;
    const MemoryMoves::Decision &decision = moves->decisions[static_cast<std::size_t>(row)];
    selectTask(decision.task, moves->tensors[decision.tensor]);
    WhenSeen::catchUp(m_bands);
    m_bands->mark(decision.tensor);
    m_scatter->mark(decision.tensor);
}

void MemoryView::pickTensor(std::size_t tensor)
{
    const auto &moves = state()->memoryMoves();
    if (!moves || tensor >= moves->tensors.size())
        return;
    selectTask(moves->tensors[tensor].made, moves->tensors[tensor]);
    const auto first = std::find_if(moves->decisions.begin(), moves->decisions.end(),
                                    [&](const MemoryMoves::Decision &decision) { return decision.tensor == tensor; });
    WhenSeen::catchUp(m_decisions);
    WhenSeen::catchUp(m_bands);
    m_bands->mark(tensor);
    m_scatter->mark(tensor);
    if (first != moves->decisions.end())
        m_decisions->showRow(static_cast<int>(first - moves->decisions.begin()));
}

/// With the layer of the operator that makes @p tensor.
void MemoryView::selectTask(const std::string &task, const MemoryMoves::Tensor &tensor)
{
    state()->selectTask(task, tensor.device);
    Selection selection = state()->selection();
    selection.layers = tensor.layers;
    state()->select(selection);
}

void MemoryView::refreshDevices()
{
    QStringList names{tr("All devices")};
    if (const auto &simulation = state()->simulation()) {
        for (const auto &device : simulation->report.devices)
            names << qt(device.id);
    }
    QStringList shown;
    for (int k = 0; k < m_devices->count(); ++k)
        shown << m_devices->itemText(k);
    if (shown == names)
        return;
    const QString current = m_devices->currentText();
    m_devices->clear();
    m_devices->addItems(names);
    const int only = names.size() == 2 ? 1 : 0; // of one device the categories are shown
    m_devices->setCurrentIndex(std::max(only, static_cast<int>(names.indexOf(current))));
}

void MemoryView::refreshCurves()
{
    const auto &simulation = state()->simulation();
    m_bandsSeen->ask();
    m_scatterSeen->ask();
    m_chart->setStalls({});
    m_budget->clear();
    m_budget->setVisible(false);
    if (!simulation || simulation->memory.empty()) {
        say(tr("No simulation yet."));
        m_chart->hide();
        m_live->setDevice(std::nullopt);
        showAge();
        return;
    }
    m_chart->show();
    const int picked = m_devices->currentIndex() - 1;
    if (picked < 0 || static_cast<std::size_t>(picked) >= simulation->memory.size())
        showAllDevices();
    else
        showDevice(static_cast<std::size_t>(picked));
    updateLegend(picked >= 0);
    m_live->setDevice(shownRank());
    showMoment();
    showAge();
}

void MemoryView::updateLegend(bool one)
{
    for (QLegendMarker *marker : m_chart->chart()->legend()->markers()) {
        auto *line = qobject_cast<QLineSeries *>(marker->series());
        const bool area = marker->series()->type() == QAbstractSeries::SeriesTypeArea && marker->series()->isVisible();
        if (area) { // in the shape of its series it stays white
            marker->setShape(QLegend::MarkerShapeRectangle);
            marker->setPen(static_cast<QAreaSeries *>(marker->series())->pen());
            marker->setBrush(static_cast<QAreaSeries *>(marker->series())->brush());
        }
        if (marker->series() == m_peak)
            marker->setVisible(!one); // said beside the picker then; the areas need the room
        else
            marker->setVisible(area ? one
                                    : !m_lines.contains(line)
                                       && marker->series()->isVisible()); // lines are named by the table's swatches
    }
}

void MemoryView::showAllDevices()
{
    const simulate::Simulation &simulation = *state()->simulation();
    // Replicas lie on each other: one line for all of them. QtCharts strokes each line anew at every change.
    const std::size_t count = m_curves.empty() ? 0 : *std::max_element(m_curves.begin(), m_curves.end()) + 1;
    if (m_lines.size() != static_cast<qsizetype>(count))
        makeSeries(static_cast<int>(count));
    const std::size_t limit =
        std::clamp(kAllCurvesPoints / std::max<std::size_t>(count, 1), kLeastCurvePoints, kCurvePoints);
    double largest = 0;
    double capacity = 0;
    for (const auto &device : simulation.report.devices) {
        largest = std::max(largest, static_cast<double>(device.peakBytes));
        capacity = capacity == 0 ? static_cast<double>(device.capacityBytes)
                                 : std::min(capacity, static_cast<double>(device.capacityBytes));
    }
    const Unit unit = byteUnit(largest);
    const double end = periodSeconds(simulation);
    const Unit time = timeUnit(end);
    const simulate::MemoryPoint *peak = nullptr;
    for (std::size_t k = 0; k < count; ++k) {
        const auto device = static_cast<std::size_t>(std::find(m_curves.begin(), m_curves.end(), k) - m_curves.begin());
        const auto &points = simulation.memory[device];
        QLineSeries *line = m_lines[static_cast<qsizetype>(k)];
        line->setName(qt(simulation.report.devices[device].id));
        line->setVisible(true);
        line->replace(staircase(points, total, end, time.factor, unit.factor, limit));
        const auto *own = peakOf(points);
        if (own && (!peak || own->total() > peak->total()))
            peak = own;
    }
    for (QAreaSeries *area : m_areas)
        area->setVisible(false);
    m_samples->setVisible(false);
    m_peak->replace(peak ? QList<QPointF>{{peak->seconds * time.factor, total(*peak) * unit.factor}}
                         : QList<QPointF>{});
    m_chart->setTitles(tr("time (%1)").arg(QString::fromUtf8(time.name)),
                       tr("in use (%1)").arg(QLatin1String(unit.name)));
    m_chart->setRanges(end * time.factor, largest * unit.factor * 1.05);
    showCapacity(capacity, unit.factor, end * time.factor);
    say(fitText(simulation.report));
}

void MemoryView::showDevice(std::size_t rank)
{
    const simulate::Simulation &simulation = *state()->simulation();
    const auto &points = simulation.memory[rank];
    const simulate::DeviceReport &device = simulation.report.devices[rank];
    const double end = periodSeconds(simulation);
    const Unit unit = byteUnit(static_cast<double>(device.peakBytes));
    const Unit time = timeUnit(end);
    for (std::size_t k = 0; k < m_edges.size(); ++k)
        m_edges[k]->replace(staircase(
            points, [k](const auto &p) { return stacked(p, k); }, end, time.factor, unit.factor));
    const auto &bytes = state()->sampleBytes();
    const double samples = rank < bytes.size() ? static_cast<double>(bytes[rank]) : 0;
    m_samplesEdge->replace(staircase(
        points, [samples](const auto &p) { return stacked(p, 1) - samples; }, end, time.factor, unit.factor));
    for (QAreaSeries *area : m_areas)
        area->setVisible(true);
    m_samples->setVisible(samples > 0);
    for (QLineSeries *line : std::as_const(m_lines))
        line->setVisible(false);
    const auto *peak = peakOf(points);
    m_peak->replace(peak ? QList<QPointF>{{peak->seconds * time.factor, total(*peak) * unit.factor}}
                         : QList<QPointF>{});
    m_chart->setTitles(tr("time (%1)").arg(QString::fromUtf8(time.name)),
                       tr("in use (%1)").arg(QLatin1String(unit.name)));
    m_chart->setRanges(end * time.factor, static_cast<double>(device.peakBytes) * unit.factor * 1.05);
    showCapacity(static_cast<double>(device.capacityBytes), unit.factor, end * time.factor);
    QString text = tr("Reserved %1 of %2").arg(bytesText(device.peakBytes), bytesText(device.capacityBytes));
    if (samples > 0)
        text += tr("; %1 of it state of samples").arg(bytesText(static_cast<std::int64_t>(samples)));
    if (peak)
        text += tr("; peak in use %1 at %2").arg(bytesText(peak->total()), secondsText(peak->seconds));
    say(text + showStalls(rank, time.factor));
    showBudget(rank);
}

void MemoryView::refreshTable()
{
    TableData table{{tr("Device"), tr("Used"), tr("Peak"), tr("Measured"), tr("Capacity")}, {}};
    if (const auto &simulation = state()->simulation()) {
        const auto &summary = state()->run().summary;
        table.rows.resize(simulation->report.devices.size());
        table.makeRow = [simulation, curves = m_curves,
                         measured = summary && state()->runIsOfDocument()
                             ? summary->peakBytesMeasured
                             : std::vector<std::int64_t>()](std::size_t row) {
            return deviceRow(simulation->report.devices[row], row < curves.size() ? curves[row] : 0,
                             row < measured.size() ? std::optional(measured[row]) : std::nullopt);
        };
    }
    m_table->set(std::move(table));
}

void MemoryView::refreshTabs()
{
    const auto &moves = state()->memoryMoves();
    const int decisions = m_tabs->indexOf(m_decisions);
    m_tabs->setTabToolTip(decisions, moves ? decisionText(*moves) : tr("No memory policy decides anything"));
    setTabText(*m_tabs, decisions, moves ? tr("Decisions (%1)").arg(moves->decisions.size()) : tr("Decisions"));
    setTabText(*m_tabs, m_tabs->indexOf(m_bands),
               moves ? tr("Tensors (%1)").arg(moves->tensors.size()) : tr("Tensors"));
}

void MemoryView::showSelection()
{
    const DeviceId device = state()->selection().device;
    const auto &cluster = state()->cluster();
    if (!device.valid() || !cluster || device.index() >= cluster->devices().size())
        return;
    const int index = m_devices->findText(qt(cluster->device(device).name));
    if (index < 0 || index == m_devices->currentIndex())
        return;
    m_devices->setCurrentIndex(index);
    m_table->showRow(index - 1);
    refreshCurves();
}

void MemoryView::resizeEvent(QResizeEvent *event)
{
    constexpr int kNarrow = 560; // pixels: chart and table side by side need more
    View::resizeEvent(event);
    m_split->setOrientation(width() < kNarrow ? Qt::Vertical : Qt::Horizontal);
    const int length = m_split->orientation() == Qt::Vertical ? m_split->height() : m_split->width();
    m_split->setSizes({length * 3 / 5, length * 2 / 5});
}

void MemoryView::changeEvent(QEvent *event)
{
    if (event->type() == QEvent::PaletteChange && m_peak)
        paintSeries();
    View::changeEvent(event);
}

} // namespace planloom::ui
