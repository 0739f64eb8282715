// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/compare/source_box.h"

#include <QDir>
#include <QFileDialog>
#include <QFileInfo>

namespace planloom::ui {

namespace {

constexpr int kMostFiles = 20;
enum Entry { kSource, kAskForPlan, kAskForRun, kAskForTrace };
constexpr int kEntryRole = Qt::UserRole;
constexpr int kPlaceRole = Qt::UserRole + 1; ///< of alternatives and files

} // namespace

SourceBox::SourceBox(QWidget *parent) : QComboBox(parent)
{
    setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    setMinimumContentsLength(12);
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
    connect(this, &QComboBox::activated, this, &SourceBox::onActivated);
    rebuild();
}

QString SourceBox::textOf(const CompareSource &source)
{
    const QFileInfo file(source.path);
    switch (source.kind) {
    case CompareSource::Kind::None: return tr("(choose)");
    case CompareSource::Kind::OpenPlan: return tr("Open plan");
    case CompareSource::Kind::Alternative: return tr("Alternative %1").arg(source.alternative + 1);
    case CompareSource::Kind::PlanFile: return tr("Plan %1").arg(file.fileName());
    case CompareSource::Kind::RunFolder: return tr("Run %1").arg(file.fileName());
    case CompareSource::Kind::TraceFile: return tr("Trace %1").arg(file.fileName());
    }
    return {};
}

void SourceBox::setPlans(bool hasPlan, const QStringList &alternatives)
{
    m_hasPlan = hasPlan;
    m_alternatives = alternatives;
    if (m_source.kind == CompareSource::Kind::Alternative && m_source.alternative >= m_alternatives.size())
        m_source = {};
    rebuild();
}

void SourceBox::setSource(const CompareSource &source)
{
    m_source = source;
    const bool isFile = !source.path.isEmpty();
    if (isFile && !m_files.contains(source)) {
        m_files.append(source);
        if (m_files.size() > kMostFiles)
            m_files.removeFirst();
    }
    rebuild();
}

void SourceBox::take(const CompareSource &source)
{
    if (source == m_source)
        return rebuild();
    setSource(source);
    Q_EMIT chosen();
}

void SourceBox::rebuild()
{
    clear();
    const auto add = [this](const CompareSource &source, const QString &text, const QString &tip) {
        addItem(text, kSource);
        setItemData(count() - 1, static_cast<int>(source.kind), kPlaceRole);
        setItemData(count() - 1, tip, Qt::ToolTipRole);
        if (source == m_source)
            setCurrentIndex(count() - 1);
    };
    QList<CompareSource> sources;
    if (m_source.kind == CompareSource::Kind::None)
        sources.append(CompareSource());
    if (m_hasPlan || m_source.kind == CompareSource::Kind::OpenPlan)
        sources.append(CompareSource{CompareSource::Kind::OpenPlan, {}, -1});
    for (int k = 0; k < m_alternatives.size(); ++k)
        sources.append(CompareSource{CompareSource::Kind::Alternative, {}, k});
    sources.append(m_files);
    for (const CompareSource &source : std::as_const(sources)) {
        const bool isAlternative = source.kind == CompareSource::Kind::Alternative;
        add(source,
            isAlternative ? tr("%1: %2").arg(textOf(source), m_alternatives[source.alternative]) : textOf(source),
            QDir::toNativeSeparators(source.path));
        const int item = count() - 1;
        setItemData(item, isAlternative ? source.alternative : static_cast<int>(m_files.indexOf(source)),
                    kPlaceRole + 1);
    }
    insertSeparator(count());
    addItem(tr("Plan file…"), kAskForPlan);
    addItem(tr("Run…"), kAskForRun);
    addItem(tr("Trace…"), kAskForTrace);
    setToolTip(m_source.path);
}

void SourceBox::onActivated(int index)
{
    switch (itemData(index, kEntryRole).toInt()) {
    case kAskForPlan: return askForPlan();
    case kAskForRun: return askForRun();
    case kAskForTrace: return askForTrace();
    default: break;
    }
    const auto kind = static_cast<CompareSource::Kind>(itemData(index, kPlaceRole).toInt());
    const int place = itemData(index, kPlaceRole + 1).toInt();
    switch (kind) {
    case CompareSource::Kind::PlanFile:
    case CompareSource::Kind::RunFolder:
    case CompareSource::Kind::TraceFile: return take(m_files.value(place));
    case CompareSource::Kind::Alternative: return take({kind, {}, place});
    default: return take({kind, {}, -1});
    }
}

void SourceBox::askForPlan()
{
    const QString path =
        QFileDialog::getOpenFileName(this, tr("Compare with a plan"), {}, tr("Plans (*.json *.plan);;All files (*)"));
    if (path.isEmpty())
        return rebuild();
    take({CompareSource::Kind::PlanFile, QFileInfo(path).absoluteFilePath(), -1});
}

void SourceBox::askForRun()
{
    const QString path = QFileDialog::getExistingDirectory(this, tr("Compare with the run in a folder"));
    if (path.isEmpty())
        return rebuild();
    take({CompareSource::Kind::RunFolder, QFileInfo(path).absoluteFilePath(), -1});
}

void SourceBox::askForTrace()
{
    const QString path = QFileDialog::getOpenFileName(
        this, tr("Compare with a trace"), {},
        tr("Traces (*.pltrace *.json *.gz *.sqlite *.pftrace *.perfetto-trace);;All files (*)"));
    if (path.isEmpty())
        return rebuild();
    take({CompareSource::Kind::TraceFile, QFileInfo(path).absoluteFilePath(), -1});
}

} // namespace planloom::ui
