// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/train_dialog.h"

#include "ui/widgets/text.h"

#include <QDialogButtonBox>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QVBoxLayout>

#include <cmath>
#include <limits>

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

} // namespace

TrainDialog::TrainDialog(const agent::TrainRequest &last, QWidget *parent)
    : QDialog(parent),
      m_last(last),
      m_data(new QLineEdit(qt(last.settings.data), this)),
      m_steps(new QSpinBox(this)),
      m_seed(new QSpinBox(this)),
      m_checkpoints(new QSpinBox(this)),
      m_restarts(new QSpinBox(this)),
      m_kernels(new QSpinBox(this)),
      m_folder(new QLineEdit(qt(last.runDir), this)),
      m_crowded(new QLabel(this)),
      m_problem(new QLabel(this)),
      m_start(nullptr)
{
    setWindowTitle(last.resume ? tr("Resume the run") : tr("Train the plan"));
    setMinimumWidth(560);
    m_data->setPlaceholderText(tr("text, token file, .npy, CSV(.gz) or IDX"));
    m_folder->setPlaceholderText(tr("a new folder"));
    m_steps->setRange(1, std::numeric_limits<int>::max());
    m_steps->setValue(static_cast<int>(last.settings.steps));
    m_seed->setRange(0, std::numeric_limits<int>::max());
    m_seed->setValue(static_cast<int>(last.settings.seed));
    m_checkpoints->setRange(0, std::numeric_limits<int>::max());
    m_checkpoints->setSpecialValueText(tr("none"));
    m_checkpoints->setSuffix(tr(" steps"));
    m_checkpoints->setValue(static_cast<int>(last.settings.checkpointEvery));
    m_checkpoints->setToolTip(tr("A run with checkpoints can be resumed after it has ended"));
    m_restarts->setRange(0, 1000);
    m_restarts->setSpecialValueText(tr("none"));
    m_restarts->setValue(static_cast<int>(last.settings.restarts));
    m_restarts->setToolTip(tr("How often the run is started again from its newest checkpoint after a worker failed"));
    m_kernels->setRange(0, static_cast<int>(run::Settings::kMostKernelSeconds));
    m_kernels->setSpecialValueText(tr("no"));
    m_kernels->setSuffix(tr(" s"));
    m_kernels->setValue(static_cast<int>(std::ceil(last.settings.kernelSeconds)));
    m_kernels->setToolTip(tr("How long every kernel and copy of GPUs is recorded, from the first one on"));
    m_seed->setEnabled(!last.resume);
    m_folder->setEnabled(!last.resume);

    auto *pick = new QPushButton(tr("&Browse…"), this);
    auto *row = new QHBoxLayout;
    row->addWidget(m_data, 1);
    row->addWidget(pick);
    auto *form = new QFormLayout;
    auto *dataLabel = new QLabel(tr("&Data"), this);
    dataLabel->setBuddy(m_data); // a row that is a layout has no field to give the label
    form->addRow(dataLabel, row);
    form->addRow(tr("&Steps"), m_steps);
    form->addRow(tr("S&eed"), m_seed);
    form->addRow(tr("&Checkpoint every"), m_checkpoints);
    form->addRow(tr("Restarts after &failures"), m_restarts);
    form->addRow(tr("Record &kernels"), m_kernels);
    form->addRow(tr("&Run folder"), m_folder);
    auto *note = new QLabel(tr("An agent process on this machine runs the training, one worker per device. Timeline "
                               "and Run show its progress."),
                            this);
    note->setWordWrap(true);
    m_problem->setWordWrap(true);
    m_problem->setAccessibleName(tr("Problem"));
    auto *buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel, this);
    m_start = buttons->button(QDialogButtonBox::Ok);
    m_start->setText(last.resume ? tr("Resume") : tr("Train"));
    auto *layout = new QVBoxLayout(this);
    layout->addLayout(form);
    layout->addWidget(note);
    m_crowded->setWordWrap(true);
    m_crowded->hide();
    layout->addWidget(m_crowded);
    layout->addWidget(m_problem);
    layout->addStretch(1);
    layout->addWidget(buttons);
    for (const QLineEdit *field : {m_data, m_folder})
        connect(field, &QLineEdit::textChanged, this, &TrainDialog::check);
    connect(pick, &QPushButton::clicked, this, &TrainDialog::browse);
    connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
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
    const QString problem = problemOf(m_data->text().trimmed(), newFolder);
    m_problem->setText(problem);
    m_start->setEnabled(problem.isEmpty());
}

void TrainDialog::browse()
{
    const QString path = QFileDialog::getOpenFileName(this, tr("Training data"), m_data->text());
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
    request.settings.checkpointEvery = m_checkpoints->value();
    request.settings.restarts = m_restarts->value();
    request.settings.kernelSeconds = m_kernels->value();
    return request;
}

} // namespace planloom::ui
