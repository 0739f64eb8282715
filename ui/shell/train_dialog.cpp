// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/train_dialog.h"

#include "engine/cluster/cluster.h"
#include "engine/cluster/cores.h"
#include "engine/plan/role_cores.h"
#include "ui/state/sampled_graph.h"
#include "ui/widgets/text.h"

#include <QDialogButtonBox>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QVBoxLayout>

#include <cmath>
#include <limits>
#include <set>
#include <string>

namespace planloom::ui {

namespace {

/// Why no run can start with these; empty: it can.
QString problemOf(const QString &data, const QString &folder)
{
    if (data.isEmpty())
        return TrainDialog::tr("Choose the training data.");
    const QFileInfo file(data);
    if (!file.exists())
        return TrainDialog::tr("%1: there is no such file; choose another").arg(data);
    if (!file.isReadable())
        return TrainDialog::tr("%1: cannot be read; check its permissions").arg(data);
    const QFileInfo run(folder);
    if (folder.isEmpty() || !run.exists())
        return {};
    if (!run.isDir())
        return TrainDialog::tr("%1: is a file; the run needs a folder").arg(folder);
    if (QFileInfo::exists(QDir(folder).filePath(QStringLiteral("plan.json"))))
        return TrainDialog::tr("%1: already holds a run; choose another folder").arg(folder);
    return {};
}

/// That the roles and the devices of a plan are on; 1 for plans without roles.
std::size_t machinesOf(const plan::Document &document)
{
    if (!document.plan.job)
        return 1;
    std::set<std::string> machines;
    for (const plan::PlacedRole &role : document.plan.roles)
        machines.insert(role.machine);
    const cluster::Cluster &cluster = *document.subject.cluster;
    for (const DeviceId device : plan::devicesOf(document.plan))
        machines.insert(cluster.nodes()[cluster.device(device).node.index()].name);
    return machines.size();
}

/// What a plan's times say of cores that its devices share.
QStringList sharedCores(const plan::Document &document)
{
    QStringList notes;
    for (const std::string &note : cluster::sharedCoreNotes(*document.subject.cluster, plan::devicesOf(document.plan)))
        notes << qt(note);
    for (const std::string &note : plan::roleCoreNotes(document.plan, *document.subject.cluster))
        notes << qt(note);
    return notes;
}

} // namespace

TrainDialog::TrainDialog(const agent::TrainRequest &last, QWidget *parent)
    : QDialog(parent),
      m_last(last),
      m_data(new QLineEdit(qt(last.settings.data), this)),
      m_steps(makeCount(last.settings.steps, {}, {})),
      m_seed(makeCount(last.settings.seed, {}, {})),
      m_holdout(new QDoubleSpinBox(this)),
      m_validations(makeCount(last.settings.validateEvery, tr("only at the end"),
                              tr("Steps between two looks at the held-out samples, which the Run view draws"))),
      m_checkpoints(makeCount(last.settings.checkpointEvery, tr("none"),
                              tr("A run with checkpoints can be resumed after it has ended"))),
      m_restarts(makeCount(last.settings.restarts, tr("none"),
                           tr("How often the run is started again from its newest checkpoint after a worker failed"))),
      m_kernels(makeCount(static_cast<std::int64_t>(std::ceil(last.settings.kernelSeconds)), tr("no"),
                          tr("How long every kernel and copy of GPUs is recorded, from the first one on"))),
      m_paced(new QCheckBox(tr("as on the machines' network cards"), this)),
      m_folder(new QLineEdit(qt(last.runDir), this)),
      m_note(new QLabel(tr("An agent process on this machine runs the training, one worker per device. Timeline and "
                           "Run show its progress."),
                        this)),
      m_crowded(new QLabel(this)),
      m_problem(new QLabel(this))
{
    setWindowTitle(last.resume ? tr("Resume the run") : tr("Train the plan"));
    setMinimumWidth(560);
    makeFields();
    auto *buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel, this);
    m_start = buttons->button(QDialogButtonBox::Ok);
    m_start->setText(last.resume ? tr("Resume") : tr("Train"));
    auto *layout = new QVBoxLayout(this);
    makeForm();
    layout->addLayout(m_form);
    for (QLabel *text : {m_note, m_crowded, m_problem}) {
        text->setWordWrap(true);
        layout->addWidget(text);
    }
    m_crowded->hide();
    m_problem->setAccessibleName(tr("Problem"));
    layout->addStretch(1);
    layout->addWidget(buttons);
    for (const QLineEdit *field : {m_data, m_folder})
        connect(field, &QLineEdit::textChanged, this, &TrainDialog::check);
    connect(m_holdout, &QDoubleSpinBox::valueChanged, this, &TrainDialog::check);
    connect(m_validations, &QSpinBox::valueChanged, this, &TrainDialog::check);
    connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    check();
}

/// From 0 on; @p none: what 0 is called, empty: a number like others.
QSpinBox *TrainDialog::makeCount(std::int64_t value, const QString &none, const QString &toolTip)
{
    auto *box = new QSpinBox(this);
    box->setRange(0, std::numeric_limits<int>::max());
    box->setSpecialValueText(none);
    box->setValue(static_cast<int>(value));
    box->setToolTip(toolTip);
    return box;
}

void TrainDialog::makeFields()
{
    m_data->setPlaceholderText(tr("text, token file, .npy, CSV(.gz) or IDX"));
    m_folder->setPlaceholderText(tr("a new folder"));
    m_steps->setMinimum(1);
    constexpr double kMostHeldOut = 0.99;
    m_holdout->setObjectName(QStringLiteral("holdout"));
    m_holdout->setDecimals(4);
    m_holdout->setSingleStep(0.05);
    m_holdout->setRange(0, kMostHeldOut);
    m_holdout->setSpecialValueText(tr("nothing"));
    m_holdout->setToolTip(tr("Share of the samples that is not trained on; its loss and accuracy are measured"));
    m_holdout->setValue(m_last.settings.holdout);
    m_shownHoldout = m_holdout->value();
    m_validations->setObjectName(QStringLiteral("validateEvery"));
    for (QSpinBox *box : {m_validations, m_checkpoints})
        box->setSuffix(tr(" steps"));
    m_kernels->setMaximum(static_cast<int>(run::Settings::kMostKernelSeconds));
    m_kernels->setSuffix(tr(" s"));
    m_restarts->setMaximum(1000);
    m_paced->setObjectName(QStringLiteral("paced"));
    m_paced->setChecked(m_last.settings.paced > 0);
    m_paced->setToolTip(
        tr("All processes run here: messages between the machines of the plan take as long as they would there"));
    for (QWidget *field :
         {static_cast<QWidget *>(m_seed), static_cast<QWidget *>(m_holdout), static_cast<QWidget *>(m_folder)})
        field->setEnabled(!m_last.resume);
}

void TrainDialog::makeForm()
{
    auto *pick = new QPushButton(tr("&Browse…"), this);
    auto *pickFolder = new QPushButton(tr("F&older…"), this);
    pickFolder->setToolTip(tr("Data in a folder: a graph, or .npy files"));
    connect(pick, &QPushButton::clicked, this, [this] { browse(false); });
    connect(pickFolder, &QPushButton::clicked, this, [this] { browse(true); });
    setTabOrder(m_data, pick);
    setTabOrder(pick, pickFolder);
    setTabOrder(pickFolder, m_steps);
    auto *row = new QHBoxLayout;
    row->addWidget(m_data, 1);
    row->addWidget(pick);
    row->addWidget(pickFolder);
    m_form = new QFormLayout;
    auto *dataLabel = new QLabel(tr("&Data"), this);
    dataLabel->setBuddy(m_data); // a row that is a layout has no field to give the label
    m_form->addRow(dataLabel, row);
    m_form->addRow(tr("&Steps"), m_steps);
    m_form->addRow(tr("S&eed"), m_seed);
    m_form->addRow(tr("&Hold out"), m_holdout);
    m_form->addRow(tr("&Validate every"), m_validations);
    m_form->addRow(tr("&Checkpoint every"), m_checkpoints);
    m_form->addRow(tr("Restarts after &failures"), m_restarts);
    m_form->addRow(tr("Record &kernels"), m_kernels);
    m_form->addRow(tr("&Pace messages"), m_paced);
    m_form->addRow(tr("&Run folder"), m_folder);
    m_form->setRowVisible(m_paced, m_last.settings.paced > 0);
}

void TrainDialog::setPlan(const plan::Document &document)
{
    const plan::Plan &plan = document.plan;
    m_samplesGraph = plan.job.has_value();
    if (m_samplesGraph)
        m_data->setPlaceholderText(tr("the folder of the graph that the plan samples"));
    const bool paces = machinesOf(document) > 1;
    m_form->setRowVisible(m_paced, paces);
    m_paced->setChecked(paces && m_paced->isChecked());
    if (plan.admm)
        m_note->setText(tr("Training by ADMM takes %1 samples, all of them in %2: hold out the others. %3")
                            .arg(plan.globalBatch * plan.admm->shards)
                            .arg(plan.admm->shards > 1 ? tr("%1 steps").arg(plan.admm->shards) : tr("each step"))
                            .arg(m_note->text()));
    setSharedCores(sharedCores(document));
    check();
}

void TrainDialog::setSharedCores(const QStringList &notes)
{
    m_crowded->setText(notes.join(QLatin1Char('\n')));
    m_crowded->setVisible(!notes.isEmpty());
}

void TrainDialog::check()
{
    const QString newFolder = m_last.resume ? QString() : m_folder->text().trimmed();
    const QString from = m_data->text().trimmed();
    QString wrong = problemOf(from, newFolder);
    if (wrong.isEmpty() && m_samplesGraph && !holdsGraph(from))
        wrong = tr("%1: has no graph.json; choose the folder of the graph that the plan samples").arg(from);
    if (const Status settings = run::check(request().settings); wrong.isEmpty() && !settings)
        wrong = qt(settings.error().message);
    m_problem->setText(wrong);
    m_start->setEnabled(wrong.isEmpty());
}

void TrainDialog::browse(bool forFolder)
{
    const QString path = forFolder
        ? QFileDialog::getExistingDirectory(this, tr("Folder of the training data"), m_data->text())
        : QFileDialog::getOpenFileName(this, tr("Training data"), m_data->text());
    if (!path.isEmpty())
        m_data->setText(path);
}

agent::TrainRequest TrainDialog::request() const
{
    agent::TrainRequest request = m_last;
    request.planJson.clear();
    const auto absolute = [](const QLineEdit *field) {
        const QString path = field->text().trimmed();
        return path.isEmpty() ? std::string() : QFileInfo(path).absoluteFilePath().toStdString();
    };
    request.runDir = absolute(m_folder);
    request.settings.data = absolute(m_data);
    request.settings.steps = m_steps->value();
    request.settings.seed = m_seed->value();
    if (m_holdout->value() != m_shownHoldout) // else the share as it was given, which may have more digits
        request.settings.holdout = m_holdout->value();
    request.settings.validateEvery = m_validations->value();
    request.settings.paced = m_paced->isChecked() ? 1 : 0;
    request.settings.checkpointEvery = m_checkpoints->value();
    request.settings.restarts = m_restarts->value();
    request.settings.kernelSeconds = m_kernels->value();
    return request;
}

} // namespace planloom::ui
