// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/cluster/cluster_settings_dialog.h"

#include "engine/import/cluster/cluster_settings.h"
#include "ui/widgets/text.h"

#include <QComboBox>
#include <QDialogButtonBox>
#include <QFileInfo>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>

#include <algorithm>

namespace planloom::ui {

namespace {

constexpr int kMostGpusOfNode = 1024;
constexpr int kUsualGpusOfNode = 8;

} // namespace

ClusterSettingsDialog::ClusterSettingsDialog(const QString &source,
                                             const std::vector<import::ClusterSettingInfo> &settings, QWidget *parent)
    : QDialog(parent),
      m_settings(settings),
      m_error(new QLabel(this)),
      m_buttons(new QDialogButtonBox(QDialogButtonBox::Open | QDialogButtonBox::Cancel, this))
{
    const auto parsed = import::parseClusterSource(source.toStdString());
    m_file = parsed ? qt(parsed->file) : source;
    setWindowTitle(tr("Open cluster"));
    setAttribute(Qt::WA_DeleteOnClose);
    auto *text = new QLabel(tr("%1 leaves some of the cluster open:").arg(QFileInfo(m_file).fileName()), this);
    text->setWordWrap(true);
    m_error->setWordWrap(true);
    auto *layout = new QVBoxLayout(this);
    layout->addWidget(text);
    auto *form = new QFormLayout;
    form->setObjectName(QStringLiteral("fields"));
    layout->addLayout(form);
    for (const import::ClusterSettingInfo &setting : m_settings)
        addField(setting);
    layout->addWidget(m_error);
    layout->addWidget(m_buttons);
    connect(m_buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
    connect(m_buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    check();
}

void ClusterSettingsDialog::addField(const import::ClusterSettingInfo &setting)
{
    auto *form = findChild<QFormLayout *>(QStringLiteral("fields"));
    QWidget *field = nullptr;
    switch (setting.kind) {
    case import::ClusterSettingInfo::Kind::Gpu: {
        auto *types = new QComboBox(this);
        types->addItem(tr("Choose"), QString());
        for (const std::string &name : cluster::knownDeviceTypeNames()) {
            if (!cluster::knownDeviceType(name)->isProcessor())
                types->addItem(qt(name), qt(name));
        }
        connect(types, &QComboBox::currentIndexChanged, this, &ClusterSettingsDialog::check);
        field = types;
        break;
    }
    case import::ClusterSettingInfo::Kind::Count: {
        auto *count = new QSpinBox(this);
        count->setRange(setting.required ? 1 : 0, kMostGpusOfNode);
        count->setSpecialValueText(setting.required ? QString() : tr("default"));
        count->setValue(setting.required ? kUsualGpusOfNode : 0);
        connect(count, &QSpinBox::valueChanged, this, &ClusterSettingsDialog::check);
        field = count;
        break;
    }
    case import::ClusterSettingInfo::Kind::Rate: {
        auto *rate = new QLineEdit(this);
        rate->setPlaceholderText(setting.required ? tr("50 GB/s, 400 Gb/s") : tr("default"));
        connect(rate, &QLineEdit::textChanged, this, &ClusterSettingsDialog::check);
        field = rate;
        break;
    }
    }
    field->setObjectName(qt(setting.key));
    const QString label = qt(setting.about);
    field->setAccessibleName(label);
    auto *caption = new QLabel(label, this);
    caption->setWordWrap(true);
    caption->setBuddy(field);
    form->addRow(caption, field);
}

QString ClusterSettingsDialog::valueOf(const QString &key) const
{
    if (const auto *types = findChild<QComboBox *>(key))
        return types->currentData().toString();
    if (const auto *count = findChild<QSpinBox *>(key))
        return count->value() > 0 ? QString::number(count->value()) : QString();
    const auto *rate = findChild<QLineEdit *>(key);
    return rate ? rate->text().trimmed() : QString();
}

QString ClusterSettingsDialog::source() const
{
    QString text = m_file;
    for (const import::ClusterSettingInfo &setting : m_settings) {
        const QString key = qt(setting.key);
        if (const QString value = valueOf(key); !value.isEmpty())
            text += QStringLiteral(",%1=%2").arg(key, value);
    }
    return text;
}

/// Open is there when everything that is needed is given and can be read.
void ClusterSettingsDialog::check()
{
    const bool given = std::all_of(m_settings.begin(), m_settings.end(), [this](const auto &setting) {
        return !setting.required || !valueOf(qt(setting.key)).isEmpty();
    });
    const auto parsed = import::parseClusterSource(source().toStdString());
    m_error->setText(parsed ? QString() : qt(parsed.error().message));
    m_error->setVisible(!parsed.ok());
    m_buttons->button(QDialogButtonBox::Open)->setEnabled(given && parsed.ok());
}

} // namespace planloom::ui
