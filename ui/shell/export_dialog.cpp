// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/export_dialog.h"

#include "engine/base/files.h"
#include "ui/widgets/text.h"

#include <QDialogButtonBox>
#include <QFileDialog>
#include <QFontDatabase>
#include <QHBoxLayout>
#include <QVBoxLayout>

namespace planloom::ui {

namespace {
constexpr std::size_t kShown = 64 * 1024; // of a file; more is not read in a dialog
constexpr int kListWidth = 180;
} // namespace

ExportDialog::ExportDialog(const StudioState &state, QWidget *parent)
    : QDialog(parent),
      m_document(state.document()),
      m_simulation(state.simulationCurrent() ? state.simulation() : nullptr),
      m_formats(planFormats()),
      m_list(new QListWidget(this)),
      m_about(new QLabel(this)),
      m_verdict(new QLabel(this)),
      m_preview(new QPlainTextEdit(this)),
      m_write(new QPushButton(tr("&Write…"), this))
{
    setWindowTitle(tr("Export the plan"));
    resize(860, 560);
    m_list->setFixedWidth(kListWidth);
    m_list->setAccessibleName(tr("Formats"));
    m_list->setSpacing(2);
    addFormats();
    for (QLabel *label : {m_about, m_verdict}) {
        label->setWordWrap(true);
        label->setTextInteractionFlags(Qt::TextSelectableByMouse);
    }
    m_verdict->setAccessibleName(tr("Export status"));
    m_preview->setReadOnly(true);
    m_preview->setLineWrapMode(QPlainTextEdit::NoWrap);
    m_preview->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    m_preview->setAccessibleName(tr("Preview of the file"));
    auto *buttons = new QDialogButtonBox(QDialogButtonBox::Close, this);
    buttons->addButton(m_write, QDialogButtonBox::ActionRole);
    auto *right = new QVBoxLayout;
    right->addWidget(m_about);
    right->addWidget(m_verdict);
    right->addWidget(m_preview, 1);
    auto *columns = new QHBoxLayout;
    columns->addWidget(m_list);
    columns->addLayout(right, 1);
    auto *layout = new QVBoxLayout(this);
    layout->addLayout(columns, 1);
    layout->addWidget(buttons);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    connect(m_write, &QPushButton::clicked, this, &ExportDialog::askAndWrite);
    connect(m_list, &QListWidget::currentRowChanged, this, &ExportDialog::make);
    m_list->setCurrentRow(0);
}

void ExportDialog::addFormats()
{
    for (const PlanFormat &format : m_formats) {
        auto *item = new QListWidgetItem(qt(format.title), m_list);
        item->setToolTip(qt(format.about));
        item->setData(Qt::UserRole, qt(format.name));
    }
}

void ExportDialog::choose(const QString &format)
{
    for (int row = 0; row < m_list->count(); ++row)
        if (m_list->item(row)->data(Qt::UserRole).toString() == format)
            m_list->setCurrentRow(row);
}

QString ExportDialog::format() const
{
    return m_list->currentItem() ? m_list->currentItem()->data(Qt::UserRole).toString() : QString();
}

void ExportDialog::make()
{
    m_text.reset();
    m_write->setEnabled(false);
    m_preview->clear();
    m_verdict->setText(tr("…"));
    m_again = m_job.running();
    const int row = m_list->currentRow();
    if (row < 0 || !m_document || m_again)
        return;
    m_about->setText(qt(m_formats[static_cast<std::size_t>(row)].about));
    m_job.start(windowTitle(),
                [this, format = m_formats[static_cast<std::size_t>(row)].name, document = m_document,
                 simulation = m_simulation](Progress &) -> Job::Completion {
                    auto made = exportPlan(format, *document, simulation.get());
                    return [this, made = std::move(made)] {
                        if (std::exchange(m_again, false))
                            return make();
                        present(made);
                    };
                });
}

void ExportDialog::present(const Result<exporting::Configuration> &made)
{
    if (!made) {
        m_verdict->setText(tr("✗ This plan cannot be exported to this format: %1").arg(qt(made.error().text())));
        return;
    }
    QStringList lines{tr("✓ This plan can be exported to this format.")};
    for (const std::string &note : made->notes)
        lines << tr("• %1").arg(qt(note));
    m_verdict->setText(lines.join(QLatin1Char('\n')));
    const bool whole = made->text.size() <= kShown;
    m_preview->setPlainText(
        qt(made->text.substr(0, kShown))
        + (whole ? QString()
                 : tr("\n… %1 more").arg(bytesText(static_cast<std::int64_t>(made->text.size() - kShown)))));
    m_text = made->text;
    m_write->setEnabled(true);
}

void ExportDialog::askAndWrite()
{
    const PlanFormat &format = m_formats[static_cast<std::size_t>(m_list->currentRow())];
    const QString path = QFileDialog::getSaveFileName(this, tr("Write the plan as %1").arg(qt(format.name)),
                                                      qt(m_document->plan.modelName + "." + format.suffix));
    if (!path.isEmpty() && write(path))
        accept();
}

bool ExportDialog::write(const QString &path)
{
    if (!m_text)
        return false;
    if (const Status status = writeFileAtomically(path.toStdString(), *m_text); !status) {
        m_verdict->setText(tr("✗ %1").arg(qt(status.error().text())));
        return false;
    }
    Q_EMIT written(path);
    return true;
}

} // namespace planloom::ui
