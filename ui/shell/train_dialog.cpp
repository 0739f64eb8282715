// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/train_dialog.h"

#include "ui/widgets/text.h"

#include <QDialogButtonBox>
#include <QFileDialog>
#include <QFormLayout>
#include <QHBoxLayout>
#include <QLabel>
#include <QVBoxLayout>

#include <limits>

namespace planloom::ui {

TrainDialog::TrainDialog(const agent::TrainRequest &last, QWidget *parent)
    : QDialog(parent),
      m_data(new QLineEdit(qt(last.settings.data), this)),
      m_steps(new QSpinBox(this)),
      m_seed(new QSpinBox(this)),
      m_folder(new QLineEdit(qt(last.runDir), this)),
      m_start(nullptr)
{
    setWindowTitle(tr("Train the plan"));
    setMinimumWidth(560);
    m_data->setPlaceholderText(tr("text, token file, .npy, CSV(.gz) or IDX"));
    m_folder->setPlaceholderText(tr("a new folder"));
    m_steps->setRange(1, std::numeric_limits<int>::max());
    m_steps->setValue(static_cast<int>(last.settings.steps));
    m_seed->setRange(0, std::numeric_limits<int>::max());
    m_seed->setValue(static_cast<int>(last.settings.seed));

    auto *pick = new QPushButton(tr("&Browse…"), this);
    auto *row = new QHBoxLayout;
    row->addWidget(m_data, 1);
    row->addWidget(pick);
    auto *form = new QFormLayout;
    form->addRow(tr("&Data"), row);
    form->addRow(tr("&Steps"), m_steps);
    form->addRow(tr("S&eed"), m_seed);
    form->addRow(tr("&Run folder"), m_folder);
    auto *note = new QLabel(tr("An agent process on this machine runs the training, one worker per device. Timeline "
                               "and Run show its progress."),
                            this);
    note->setWordWrap(true);
    auto *buttons = new QDialogButtonBox(QDialogButtonBox::Ok | QDialogButtonBox::Cancel, this);
    m_start = buttons->button(QDialogButtonBox::Ok);
    m_start->setText(tr("Train"));
    auto *layout = new QVBoxLayout(this);
    layout->addLayout(form);
    layout->addWidget(note);
    layout->addStretch(1);
    layout->addWidget(buttons);
    const auto allow = [this] { m_start->setEnabled(!m_data->text().trimmed().isEmpty()); };
    connect(m_data, &QLineEdit::textChanged, this, allow);
    connect(pick, &QPushButton::clicked, this, &TrainDialog::browse);
    connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    allow();
}

void TrainDialog::browse()
{
    const QString path = QFileDialog::getOpenFileName(this, tr("Training data"), m_data->text());
    if (!path.isEmpty())
        m_data->setText(path);
}

agent::TrainRequest TrainDialog::request() const
{
    agent::TrainRequest request;
    request.runDir = m_folder->text().trimmed().toStdString();
    request.settings.data = m_data->text().trimmed().toStdString();
    request.settings.steps = m_steps->value();
    request.settings.seed = m_seed->value();
    return request;
}

} // namespace planloom::ui
