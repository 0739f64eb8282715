// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/shell/start_page.h"

#include "ui/shell/resources.h"
#include "ui/widgets/text.h"

#include <QDir>
#include <QFileInfo>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QSettings>

#include <algorithm>

namespace planloom::ui {

namespace {

constexpr int kRecentLimit = 10;
constexpr int kRecentShown = 5;
const QString kRecentKey = QStringLiteral("session/recent");

/// The file's own name, with its folder where another of @p all has the same; what is no file as it stands.
QString shortName(const QString &name, const QStringList &all)
{
    const QFileInfo file(name);
    if (!file.exists())
        return name;
    const auto alike = std::count_if(all.begin(), all.end(), [&](const QString &other) {
        return QFileInfo(other).fileName() == file.fileName();
    });
    return alike > 1 ? file.dir().dirName() + QLatin1Char('/') + file.fileName() : file.fileName();
}

QLabel *heading(const QString &text, QWidget *parent)
{
    auto *label = new QLabel(text, parent);
    QFont font = label->font();
    font.setBold(true);
    label->setFont(font);
    return label;
}

} // namespace

QString samplePlan()
{
    const QString folder = resourceFolder(QStringLiteral("samples"));
    const QString path = folder + QStringLiteral("/gpt-nano.plan.json");
    return !folder.isEmpty() && QFileInfo::exists(path) ? path : QString();
}

QStringList recentFiles() { return QSettings().value(kRecentKey).toStringList(); }

void rememberFile(const QString &nameOrPath)
{
    QStringList recent = recentFiles();
    const QFileInfo file(nameOrPath);
    const QString name = file.exists() ? file.absoluteFilePath() : nameOrPath;
    recent.removeAll(name);
    recent.prepend(name);
    QSettings().setValue(kRecentKey, recent.mid(0, kRecentLimit));
}

StartPage::StartPage(StudioState *state, QMenu *models, QMenu *clusters, QWidget *parent)
    : QWidget(parent),
      m_state(state),
      m_model(new QPushButton(tr("1  Choose a &model"), this)),
      m_cluster(new QPushButton(tr("2  Choose a c&luster"), this)),
      m_plan(new QPushButton(tr("3  &Find a plan…"), this)),
      m_modelDone(new QLabel(this)),
      m_clusterDone(new QLabel(this)),
      m_recent(new QVBoxLayout)
{
    m_model->setMenu(models);
    m_cluster->setMenu(clusters);
    auto *open = new QPushButton(tr("Open a &plan, trace or model…"), this);
    auto *sample = new QPushButton(tr("Open the &sample"), this);
    sample->setToolTip(tr("A plan of a small GPT on four CPU devices, which can be trained on this machine"));
    sample->setVisible(!samplePlan().isEmpty());
    auto *tour = new QPushButton(tr("Take the &tour"), this);
    tour->setToolTip(tr("Five steps over the window, with the sample"));

    for (QPushButton *step : {m_model, m_cluster, m_plan})
        step->setStyleSheet(QStringLiteral("QPushButton { text-align: left; padding: 4px 8px; }"));
    auto *steps = new QGridLayout;
    steps->addWidget(m_model, 0, 0);
    steps->addWidget(m_modelDone, 0, 1);
    steps->addWidget(m_cluster, 1, 0);
    steps->addWidget(m_clusterDone, 1, 1);
    steps->addWidget(m_plan, 2, 0);
    steps->addWidget(tour, 2, 1, Qt::AlignLeft); // beside it: the window has to fit 1020 pixels
    steps->setColumnStretch(1, 1);
    auto *files = new QHBoxLayout;
    files->addWidget(open);
    files->addWidget(sample);
    files->addStretch(1);
    m_recent->setSpacing(0);
    auto *layout = new QVBoxLayout(this);
    layout->setContentsMargins(24, 16, 24, 16);
    layout->addWidget(heading(tr("Plan a training run"), this));
    layout->addLayout(steps);
    layout->addSpacing(12);
    layout->addWidget(heading(tr("Or open"), this));
    layout->addLayout(files);
    layout->addLayout(m_recent);
    layout->addStretch(1);
    setAccessibleName(tr("Start page"));
    m_modelDone->setAccessibleName(tr("Chosen model"));
    m_clusterDone->setAccessibleName(tr("Chosen cluster"));
    setFocusProxy(m_model);

    connect(open, &QPushButton::clicked, this, &StartPage::openAsked);
    connect(m_plan, &QPushButton::clicked, this, &StartPage::planAsked);
    connect(tour, &QPushButton::clicked, this, &StartPage::tourAsked);
    connect(sample, &QPushButton::clicked, this, [this] { Q_EMIT chosen(samplePlan()); });
    for (const auto signal : {&StudioState::modelChanged, &StudioState::clusterChanged})
        connect(m_state, signal, this, &StartPage::refreshSteps);
    refreshSteps();
}

void StartPage::refreshSteps()
{
    m_modelDone->setText(m_state->model() ? tr("✓ %1").arg(qt(m_state->model()->graph->name())) : QString());
    m_clusterDone->setText(
        m_state->cluster()
            ? tr("✓ %1, %2 devices").arg(qt(m_state->cluster()->name())).arg(m_state->cluster()->devices().size())
            : QString());
    m_plan->setDefault(m_state->model() && m_state->cluster());
}

void StartPage::refreshRecent()
{
    while (QLayoutItem *item = m_recent->takeAt(0)) {
        delete item->widget();
        delete item;
    }
    const QStringList recent = recentFiles().mid(0, kRecentShown);
    for (const QString &name : recent) {
        auto *button = new QPushButton(shortName(name, recent).replace(QLatin1Char('&'), QLatin1String("&&")), this);
        button->setAccessibleName(tr("Open %1").arg(shortName(name, recent)));
        button->setAccessibleDescription(name);
        button->setFlat(true);
        button->setToolTip(name);
        button->setStyleSheet(QStringLiteral("text-align: left; padding: 3px 6px;"));
        connect(button, &QPushButton::clicked, this, [this, name] { Q_EMIT chosen(name); });
        m_recent->addWidget(button);
    }
}

void StartPage::showEvent(QShowEvent *event)
{
    refreshRecent();
    QWidget::showEvent(event);
}

} // namespace planloom::ui
