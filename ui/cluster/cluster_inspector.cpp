// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/cluster/cluster_inspector.h"

#include "ui/state/cluster_edit.h"
#include "ui/widgets/committed_undo.h"
#include "ui/widgets/text.h"

#include <QApplication>
#include <QVBoxLayout>

#include <cmath>

namespace planloom::ui {

namespace {

constexpr double kTera = 1e12, kGiga = 1e9, kMicro = 1e-6;
constexpr double kGibi = 1024.0 * 1024 * 1024;
constexpr int kDigits = 6;
constexpr double kMostBytes = 9e18; // that a 64-bit count holds

QString shown(double value, double unit) { return QString::number(value / unit, 'g', kDigits); }

Bytes toBytes(double value)
{
    return Bytes(std::isfinite(value) && std::abs(value) < kMostBytes ? std::llround(value) : 0);
}

} // namespace

ClusterInspector::ClusterInspector(StudioState *state, QWidget *parent)
    : QWidget(parent),
      m_state(state),
      m_title(new QLabel(this)),
      m_note(new QLabel(this)),
      m_alike(new QCheckBox(this))
{
    setAccessibleName(tr("Figures of the selected part of the cluster"));
    QFont bold = m_title->font();
    bold.setBold(true);
    m_title->setFont(bold);
    m_title->setWordWrap(true);
    m_note->setWordWrap(true);
    m_note->setForegroundRole(QPalette::PlaceholderText);
    m_alike->setChecked(true);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(8, 4, 8, 4);
    layout->setSpacing(4);
    layout->addWidget(m_title);
    layout->addWidget(m_note);
    layout->addWidget(m_alike);
    layout->addStretch(1);
    showCluster();
}

QLineEdit *ClusterInspector::field(const QString &name) const
{
    return m_form ? m_form->findChild<QLineEdit *>(name) : nullptr;
}

void ClusterInspector::begin(const QString &title, const QString &note)
{
    m_title->setText(title);
    m_note->setText(note);
    m_note->setVisible(!note.isEmpty());
    m_alike->hide();
    m_refocus.clear();
    if (m_form) {
        if (m_form->isAncestorOf(QApplication::focusWidget()))
            m_refocus = QApplication::focusWidget()->objectName();
        m_form->hide();
        m_form->setObjectName({});
        m_form->deleteLater(); // one of its fields may be the one that is being left
    }
    m_form = new QWidget(this);
    m_rows = new QFormLayout(m_form);
    m_rows->setContentsMargins(0, 0, 0, 0);
    m_rows->setVerticalSpacing(3);
    auto *layout = static_cast<QVBoxLayout *>(this->layout());
    layout->insertWidget(layout->indexOf(m_alike), m_form);
    m_form->show();
}

void ClusterInspector::add(const QString &name, const QString &unitName, double value, double unit, Change change)
{
    auto *edit = new QLineEdit(shown(value, unit), m_form);
    edit->setObjectName(name);
    undoWhenCommitted(edit);
    edit->setAccessibleName(QStringLiteral("%1, %2").arg(name, unitName));
    m_rows->addRow(QStringLiteral("%1 (%2)").arg(name, unitName), edit);
    edit->show(); // not when the event loop comes round to it: it may get the keyboard now
    if (name == m_refocus) {
        edit->setFocus();
        edit->selectAll();
    }
    connect(edit, &QLineEdit::editingFinished, this,
            [this, edit, name, unit, before = edit->text(), change = std::move(change)] {
                if (edit->parentWidget() == m_form && edit->text() != before)
                    apply(edit, name, unit, change);
                if (edit->parentWidget() == m_form)
                    edit->setText(before); // refused; an accepted change has made the form anew
            });
}

void ClusterInspector::apply(QLineEdit *edit, const QString &name, double unit, const Change &change)
{
    bool isNumber = false;
    const double value = edit->text().trimmed().toDouble(&isNumber);
    if (!isNumber) {
        m_state->say(MessageLevel::Error,
                     tr("%1: \"%2\" is not a number; write it as 12.5 or 1e3").arg(name, edit->text()));
        return;
    }
    adopt(QStringLiteral("%1: %2").arg(m_title->text(), name), change(value * unit));
}

bool ClusterInspector::adopt(const QString &what, Result<cluster::Cluster> changed)
{
    if (!changed) {
        m_state->say(MessageLevel::Error, qt(changed.error().text()));
        return false;
    }
    return m_state->editCluster(what, std::make_shared<const cluster::Cluster>(std::move(*changed)));
}

// --- the whole

void ClusterInspector::showCluster()
{
    const auto &cluster = m_state->cluster();
    if (!cluster) {
        begin(tr("No cluster"), tr("Open one with File ▸ Open cluster."));
        return;
    }
    begin(qt(cluster->name()), tr("Select a device or a link to see and edit its figures."));
    addRates();
}

/// Clusters whose costs follow from two levels of bandwidth have these beside their links.
void ClusterInspector::addRates()
{
    const auto cluster = m_state->cluster();
    if (cluster->commModel() != cluster::CommModel::TwoLevel)
        return;
    m_note->setText(tr("The cost of communication follows from these three figures, not from the links."));
    m_note->show();
    const auto rate = [&](const QString &name, double cluster::TwoLevelRates::*member) {
        add(name, tr("GB/s"), cluster->twoLevel().*member, kGiga, [cluster, member](double value) {
            cluster::TwoLevelRates rates = cluster->twoLevel();
            rates.*member = value;
            return withRates(*cluster, rates);
        });
    };
    rate(tr("Inside a node"), &cluster::TwoLevelRates::intraNode);
    if (cluster->nodes().size() < 2)
        return;
    rate(tr("Between nodes"), &cluster::TwoLevelRates::interPointToPoint);
    rate(tr("Between nodes, collective"), &cluster::TwoLevelRates::interCollective);
}

// --- a device's type

void ClusterInspector::showDevice(DeviceId device)
{
    const auto cluster = m_state->cluster();
    const std::size_t index = cluster->device(device).type;
    const cluster::DeviceType &type = cluster->types()[index];
    qsizetype alike = 0;
    for (const cluster::Device &each : cluster->devices())
        alike += each.type == index ? 1 : 0;
    QString note = tr("Type %1: a change applies to all %2 devices of it.").arg(qt(type.name)).arg(alike);
    if (m_state->subject() && m_state->subject()->profile)
        note += tr(" Operators with measured times keep those.");
    begin(qt(cluster->device(device).name), note);
    add(tr("Memory"), tr("GiB"), static_cast<double>(type.memory.value()), kGibi, [cluster, index](double value) {
        cluster::DeviceType changed = cluster->types()[index];
        changed.memory = toBytes(value);
        return withType(*cluster, index, changed);
    });
    add(tr("Memory bandwidth"), tr("GB/s"), type.memoryBandwidth, kGiga, [cluster, index](double value) {
        cluster::DeviceType changed = cluster->types()[index];
        changed.memoryBandwidth = value;
        return withType(*cluster, index, changed);
    });
    for (const auto &[dtype, rate] : type.peakFlops) {
        add(tr("Peak %1").arg(qt(dtype)), tr("TFLOP/s"), rate, kTera, [cluster, index, dtype = dtype](double value) {
            cluster::DeviceType changed = cluster->types()[index];
            changed.peakFlops[dtype] = value;
            return withType(*cluster, index, changed);
        });
    }
}

// --- a node, a switch

void ClusterInspector::showNode(std::size_t node)
{
    const auto cluster = m_state->cluster();
    const cluster::Node &each = cluster->nodes()[node];
    begin(qt(each.name),
          tr("%1 × %2. Duplicate it, remove it or mark it as failed; select its parts for their figures.")
              .arg(each.devices.size())
              .arg(qt(cluster->typeOf(each.devices.front()).name)));
}

void ClusterInspector::showVertex(std::size_t vertex)
{
    const auto cluster = m_state->cluster();
    qsizetype links = 0;
    for (const cluster::Link &link : cluster->links())
        links += link.a == vertex || link.b == vertex ? 1 : 0;
    const cluster::Vertex &each = cluster->vertices()[vertex];
    const QString kind = each.kind == cluster::Vertex::Kind::Nic ? tr("Network card")
        : each.kind == cluster::Vertex::Kind::Network            ? tr("Network")
                                                                 : tr("Switch");
    begin(qt(each.name), tr("%1 with %2 links; these have the figures.").arg(kind).arg(links));
}

// --- a link

void ClusterInspector::showLink(std::size_t link)
{
    const auto cluster = m_state->cluster();
    const cluster::Link &each = cluster->links()[link];
    m_link = link;
    begin(tr("%1 – %2").arg(qt(cluster->vertices()[each.a].name), qt(cluster->vertices()[each.b].name)),
          cluster->commModel() == cluster::CommModel::TwoLevel
              ? tr("Costs of this cluster follow from its rates inside of and between nodes, not from its links; press "
                   "Esc on the map to see them.")
              : QString());
    addLink(tr("Point to point"), tr("GB/s"), kGiga, each.pointToPoint,
            [](cluster::Link &l, double value) { l.pointToPoint = value; });
    addLink(tr("Collective"), tr("GB/s"), kGiga, each.collective,
            [](cluster::Link &l, double value) { l.collective = value; });
    addLink(tr("Latency"), tr("µs"), kMicro, each.latency.value(),
            [](cluster::Link &l, double value) { l.latency = Seconds(value); });
    addDuplex(each.fullDuplex);
    const std::size_t alike = linksLike(*cluster, link).size();
    m_alike->setText(
        tr("Change all %1 links like this one (%2)").arg(alike).arg(QString::fromUtf8(kindName(each.kind))));
    m_alike->setVisible(alike > 1);
}

void ClusterInspector::addDuplex(bool fullDuplex)
{
    auto *duplex = new QCheckBox(tr("Full duplex"), m_form);
    duplex->setObjectName(tr("Full duplex"));
    duplex->setToolTip(tr("Both directions at once at full speed"));
    duplex->setChecked(fullDuplex);
    m_rows->addRow(duplex);
    connect(duplex, &QCheckBox::clicked, this, [this](bool on) {
        adopt(tr("%1: duplex").arg(m_title->text()),
              withLinks(*m_state->cluster(), linksToChange(), [on](cluster::Link &l) { l.fullDuplex = on; }));
    });
}

std::vector<std::size_t> ClusterInspector::linksToChange() const
{
    return m_alike->isChecked() ? linksLike(*m_state->cluster(), m_link) : std::vector<std::size_t>{m_link};
}

void ClusterInspector::addLink(const QString &name, const QString &unitName, double unit, double value,
                               void (*set)(cluster::Link &, double))
{
    add(name, unitName, value, unit, [this, set](double changed) {
        return withLinks(*m_state->cluster(), linksToChange(),
                         [set, changed](cluster::Link &link) { set(link, changed); });
    });
}

} // namespace planloom::ui
