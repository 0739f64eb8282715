// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/planner_dialog.h"

#include "engine/cluster/cluster.h"
#include "engine/import/import.h"
#include "engine/import/loss/choice.h"
#include "planners/common/exchange.h"
#include "planners/registry.h"
#include "ui/widgets/text.h"

#include <QDialogButtonBox>
#include <QFileDialog>
#include <QHBoxLayout>
#include <QPushButton>
#include <QScreen>
#include <QVBoxLayout>
#include <QWheelEvent>

#include <algorithm>

namespace planloom::ui {

namespace {

/// A list among lines that are scrolled: the wheel passes over it.
class ChoiceBox final : public QComboBox {
public:
    using QComboBox::QComboBox;

protected:
    void wheelEvent(QWheelEvent *event) override { event->ignore(); }
};

constexpr int kLargestBatch = 1'000'000;
constexpr const char *kSwitchAfter = "switch_after"; // of planner admm: iterations before steps by gradients

std::vector<const planners::Planner *> offeredPlanners()
{
    std::vector<const planners::Planner *> all = planners::allPlanners();
    for (const planners::Planner *planner : planners::jobPlanners())
        all.push_back(planner);
    return all;
}

/// "Max in flight" for max_in_flight.
QString nameOfOption(const std::string &key)
{
    QString name = qt(key).replace(QLatin1Char('_'), QLatin1Char(' '));
    return name.left(1).toUpper() + name.mid(1);
}

} // namespace

PlannerDialog::PlannerDialog(const StudioState &state, QWidget *parent)
    : QDialog(parent),
      m_model(new QComboBox(this)),
      m_cluster(new QComboBox(this)),
      m_planner(new QComboBox(this)),
      m_about(new QLabel(this)),
      m_batch(new QSpinBox(this)),
      m_microBatch(new QSpinBox(this)),
      m_precision(new QComboBox(this)),
      m_zero(new QComboBox(this)),
      m_exchange(new QLineEdit(this)),
      m_loss(new QLineEdit(this)),
      m_problem(new QLabel(this)),
      m_group(new QGroupBox(tr("Options of the planner"), this)),
      m_scroll(new QScrollArea(this)),
      m_options(nullptr)
{
    setWindowTitle(tr("Find a plan"));
    setMinimumWidth(560);
    m_given.graph = state.graph().folder;
    fillFields(state);
    auto *inside = new QWidget;
    m_options = new QFormLayout(inside);
    m_scroll->setWidget(inside);
    m_scroll->setWidgetResizable(true);
    m_scroll->setFrameShape(QFrame::NoFrame);
    m_scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    (new QVBoxLayout(m_group))->addWidget(m_scroll);
    auto *buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel, this);
    buttons->button(QDialogButtonBox::Ok)->setText(tr("Find a plan"));
    auto *layout = new QVBoxLayout(this);
    layout->addLayout(makeForm());
    layout->addWidget(m_group, 1);
    layout->addWidget(m_problem);
    layout->addWidget(buttons);
    connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    connect(m_planner, &QComboBox::currentTextChanged, this, &PlannerDialog::showPlanner);
    showPlanner();
    fixHeights();
}

void PlannerDialog::fillFields(const StudioState &state)
{
    for (QComboBox *box : {m_model, m_cluster})
        box->setEditable(true);
    fillSources(state);
    for (const planners::Planner *planner : offeredPlanners())
        m_planner->addItem(qt(planner->name()));
    m_planner->model()->sort(0); // typing finds the first that begins so: auto before automap
    m_planner->setCurrentText(QStringLiteral("auto"));
    m_about->setWordWrap(true);
    m_batch->setRange(1, kLargestBatch);
    m_batch->setToolTip(tr("Samples of one training step, over all devices"));
    m_microBatch->setRange(0, kLargestBatch);
    m_microBatch->setSpecialValueText(tr("planner chooses"));
    m_microBatch->setToolTip(tr("Samples of one micro-batch on one device"));
    for (const plan::Precision each : {plan::Precision::Float32, plan::Precision::BFloat16})
        m_precision->addItem(qt(plan::name(each)));
    m_precision->setToolTip(tr("Precision of activations and matrix products"));
    m_zero->addItems(
        {tr("0: no sharding"), tr("1: optimizer state"), tr("2: also gradients"), tr("3: also parameters")});
    m_zero->setToolTip(tr("State sharded over the replicas of a stage"));
    const auto devices = state.cluster() ? static_cast<int>(state.cluster()->devices().size()) : 4;
    m_batch->setValue(state.document() ? static_cast<int>(state.document()->plan.globalBatch) : 8 * devices);
    m_exchange->setObjectName(QStringLiteral("exchange"));
    m_exchange->setPlaceholderText(tr("all-reduce, or as the planner has it"));
    m_exchange->setToolTip(tr("How replicas combine what they learn, as --exchange has it, for example\n"
                              "dasgd,local_steps=4,delay=auto"));
    m_loss->setObjectName(QStringLiteral("loss"));
    m_loss->setPlaceholderText(tr("as the model has it"));
    m_loss->setToolTip(tr("Loss, for a model without one: %1; OUTPUT=NAME separated by blanks for several outputs")
                           .arg(qt(import::lossNames())));
    QStringList losses;
    for (const std::string &each : state.modelLoss())
        losses << qt(each);
    m_loss->setText(losses.join(QLatin1Char(' ')));
    m_problem->setWordWrap(true);
    m_problem->setObjectName(QStringLiteral("problem"));
    m_problem->setAccessibleName(tr("Problem"));
    m_problem->setForegroundRole(QPalette::Link);
    m_problem->hide();
}

QFormLayout *PlannerDialog::makeForm()
{
    auto *form = new QFormLayout;
    form->addRow(tr("&Model"), m_model);
    form->addRow(tr("&Cluster"), m_cluster);
    form->addRow(tr("&Planner"), m_planner);
    form->addRow(QString(), m_about);
    form->addRow(tr("Global &batch"), m_batch);
    form->addRow(tr("M&icro-batch"), m_microBatch);
    form->addRow(tr("Pr&ecision"), m_precision);
    form->addRow(tr("&ZeRO"), m_zero);
    m_optimizer = std::make_unique<OptimizerFields>(form, this);
    form->addRow(tr("Exchan&ge"), m_exchange);
    form->addRow(tr("&Loss"), m_loss);
    return form;
}

void PlannerDialog::fillSources(const StudioState &state)
{
    if (state.model())
        m_model->addItem(qt(state.model()->source));
    for (const auto &entry : import::zooEntries()) {
        const QString name = QStringLiteral("zoo:") + qt(entry.name);
        if (m_model->findText(name) < 0)
            m_model->addItem(name);
        m_model->setItemData(m_model->findText(name), qt(entry.about), Qt::ToolTipRole);
    }
    // A cluster does not remember its source: the one that is open is named so, and kept.
    if (state.cluster())
        m_cluster->addItem(QString());
    for (const char *local : {"local", "local:2", "local:4"})
        m_cluster->addItem(QString::fromLatin1(local));
    for (const std::string &name : cluster::presetNames())
        m_cluster->addItem(QStringLiteral("preset:") + qt(name));
    if (state.cluster())
        m_cluster->lineEdit()->setPlaceholderText(tr("as opened: %1").arg(qt(state.cluster()->name())));
}

void PlannerDialog::showPlanner()
{
    if (m_graph)
        m_given.graph = m_graph->text().trimmed(); // for when its planner is chosen again
    m_graph = nullptr;
    while (m_options->rowCount() > 0)
        m_options->removeRow(0);
    m_fields.clear();
    const auto planner = planners::findPlanner(m_planner->currentText().toStdString());
    if (!planner)
        return;
    m_about->setText(qt((*planner)->about()));
    if (samplesGraph((*planner)->name()))
        addGraphRow();
    for (const planners::OptionInfo &option : (*planner)->options()) {
        QWidget *row = nullptr;
        QLineEdit *field = fieldOf(option, row);
        auto *about = new QLabel(qt(option.about), this);
        about->setWordWrap(true);
        about->setEnabled(false);
        m_options->addRow(nameOfOption(option.key), row);
        m_options->addRow(QString(), about);
        m_fields.emplace_back(option.key, field);
        if (option.key == kSwitchAfter)
            connect(field, &QLineEdit::textChanged, this, &PlannerDialog::enableOptimizer);
    }
    enableOptimizer();
    m_group->setTitle(m_fields.empty() ? tr("The planner has no options") : tr("Options of the planner"));
}

/// Where the option is entered: @p row, a line, or one with the list of its choices.
QLineEdit *PlannerDialog::fieldOf(const planners::OptionInfo &option, QWidget *&row)
{
    QLineEdit *field = nullptr;
    if (option.choices.empty()) {
        row = field = new QLineEdit(this);
    } else {
        auto *list = new ChoiceBox(this);
        list->setEditable(true);
        list->setInsertPolicy(QComboBox::NoInsert);
        for (const std::string &choice : option.choices)
            list->addItem(qt(choice));
        list->setCurrentIndex(-1);
        field = list->lineEdit();
        row = list;
    }
    field->setPlaceholderText(qt(option.fallback));
    row->setToolTip(qt(option.about));
    return field;
}

void PlannerDialog::addGraphRow()
{
    m_graph = new QLineEdit(m_given.graph, this);
    m_graph->setObjectName(QStringLiteral("graph"));
    m_graph->setPlaceholderText(tr("a folder with a graph.json"));
    m_graph->setToolTip(tr("The graph that is sampled in training; planloom graph makes one"));
    m_graph->setAccessibleName(tr("Graph"));
    auto *pick = new QPushButton(tr("Browse…"), this);
    connect(pick, &QPushButton::clicked, this, &PlannerDialog::browseGraph);
    auto *field = new QWidget(this);
    auto *row = new QHBoxLayout(field);
    row->setContentsMargins(0, 0, 0, 0);
    row->addWidget(m_graph, 1);
    row->addWidget(pick);
    field->setFocusProxy(m_graph);
    m_options->addRow(tr("Graph"), field);
}

void PlannerDialog::browseGraph()
{
    const QString folder = QFileDialog::getExistingDirectory(this, tr("Folder of a graph"), m_graph->text());
    if (!folder.isEmpty())
        m_graph->setText(folder);
}

/// Plans that train by ADMM alone have no optimizer.
void PlannerDialog::enableOptimizer()
{
    bool hasGradients = true;
    for (const auto &[key, field] : m_fields)
        if (key == kSwitchAfter)
            hasGradients = !field->text().trimmed().isEmpty() && field->text().trimmed() != QLatin1String("0");
    m_optimizer->setEnabled(hasGradients);
}

/// One size for all planners, so that nothing moves when another is chosen: the longest description is whole, and of
/// the options as many are seen as the screen has room for.
void PlannerDialog::fixHeights()
{
    constexpr int kLeastOptions = 180; // pixels: four of them
    constexpr int kRoom = 360;
    int lines = 0;
    const int width = minimumWidth() * 2 / 3;
    for (const planners::Planner *planner : offeredPlanners()) {
        const QRect text =
            m_about->fontMetrics().boundingRect(QRect(0, 0, width, kRoom), Qt::TextWordWrap, qt(planner->about()));
        lines = std::max(lines, text.height());
    }
    m_about->setFixedHeight(lines);
    m_about->setAlignment(Qt::AlignLeft | Qt::AlignTop);
    m_scroll->setMinimumHeight(kLeastOptions);
    layout()->activate();
    const int least = layout()->minimumSize().height();
    const int largest = screen()->availableGeometry().height() * 9 / 10;
    resize(minimumWidth(), std::max(least, std::min(largest, least - kLeastOptions + kRoom)));
}

std::vector<std::string> PlannerDialog::loss() const
{
    std::vector<std::string> losses;
    for (const QString &each : m_loss->text().split(QLatin1Char(' '), Qt::SkipEmptyParts))
        losses.push_back(each.toStdString());
    return losses;
}

QString PlannerDialog::wrongInput() const
{
    if (const QString rate = m_optimizer->problem(); !rate.isEmpty())
        return rate;
    if (m_graph && !holdsGraph(m_graph->text().trimmed()))
        return m_graph->text().trimmed().isEmpty()
            ? tr("Graph: choose the folder of the graph that is sampled; planloom graph makes one")
            : tr("Graph: %1 has no graph.json; choose another folder").arg(m_graph->text().trimmed());
    if (const std::string text = m_exchange->text().trimmed().toStdString(); !text.empty())
        if (const auto exchange = planners::exchangeRequest(text); !exchange)
            return tr("Exchange: %1").arg(qt(exchange.error().message));
    for (const std::string &each : loss())
        if (const auto choice = import::lossFromText(each); !choice)
            return tr("Loss: %1").arg(qt(choice.error().message));
    return {};
}

void PlannerDialog::accept()
{
    const QString wrong = wrongInput();
    m_problem->setText(wrong);
    m_problem->setVisible(!wrong.isEmpty());
    if (wrong.isEmpty())
        QDialog::accept();
}

PlanRequest PlannerDialog::request() const
{
    PlanRequest request = m_given;
    request.planner = m_planner->currentText().toStdString();
    request.globalBatch = m_batch->value();
    request.precision = *plan::precisionFromName(m_precision->currentText().toStdString());
    request.zero = m_zero->currentIndex();
    m_optimizer->into(request.optimizer);
    if (m_graph)
        request.graph = m_graph->text().trimmed();
    request.exchange.reset();
    if (const std::string text = m_exchange->text().trimmed().toStdString(); !text.empty()) {
        if (auto exchange = planners::exchangeRequest(text)) {
            if (m_given.exchange) // groups, which the text does not have
                exchange->exchange.groups = m_given.exchange->exchange.groups;
            request.exchange = *std::move(exchange);
        }
    }
    request.microBatch.reset();
    request.options.clear();
    if (m_microBatch->value() > 0)
        request.microBatch = m_microBatch->value();
    for (const auto &[key, field] : m_fields) {
        if (!field->text().trimmed().isEmpty())
            request.options[key] = field->text().trimmed().toStdString();
    }
    return request;
}

void PlannerDialog::setRequest(const PlanRequest &request)
{
    if (m_graph) // keeps its text for when its planner is chosen again
        m_graph->setText(request.graph);
    m_given = request;
    m_planner->setCurrentText(qt(request.planner));
    m_precision->setCurrentText(qt(plan::name(request.precision)));
    m_zero->setCurrentIndex(request.zero);
    m_optimizer->set(request.optimizer);
    m_exchange->setText(request.exchange ? qt(plan::textOf(request.exchange->exchange)) : QString());
    m_exchange->setCursorPosition(0);
    m_batch->setValue(static_cast<int>(request.globalBatch));
    m_microBatch->setValue(static_cast<int>(request.microBatch.value_or(0)));
    for (const auto &[key, field] : m_fields) {
        const auto given = request.options.find(key);
        field->setText(given == request.options.end() ? QString() : qt(given->second));
    }
}

} // namespace planloom::ui
